"""Walking through a thread's entries: past what is hidden, and on into the threads that it was forked from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from novelo.errors import StorageCorrupt, ThreadErased
from novelo.stores.base import StoredEntry, ThreadRow
from novelo.stores.rules import checked_positions, storable
from novelo.stores.tables.connection import Connection, Database
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.rows import from_row, verify

Ranges = list[tuple[int, int]]


class Walk:
    """Reading entries. A read costs what it gives, however long the thread is and however much of it is hidden."""

    database: Database

    def tail(self, thread: ThreadRow, before: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries below a position, newest first."""
        with self.database.reading() as connection:
            out: list[StoredEntry] = []
            before = min(before, thread.head)
            pieces: Any = [(0, before)] if hidden else shown_below(connection, thread, before)
            for low, high in pieces:
                at = high
                while len(out) < limit and low < at:
                    rows = self._rows(connection, thread, at, limit - len(out), down_to=low)
                    at = rows[-1].position
                    out += rows if hidden else [e for e in rows if not e.deleted]
                if len(out) >= limit:
                    break
            return self._marked(connection, thread, out) if hidden else out

    def range(self, thread: ThreadRow, start: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries from a position on, oldest first."""
        with self.database.reading() as connection:
            out: list[StoredEntry] = []
            start = max(start, 0)
            pieces: Any = [(start, thread.head)] if hidden else shown_from(connection, thread, start)
            for low, high in pieces:
                at, stop = low, min(high, thread.head)
                while len(out) < limit and at < stop:
                    rows = self._rows(connection, thread, at, min(limit - len(out), stop - at))
                    at = rows[-1].position + 1
                    out += rows if hidden else [e for e in rows if not e.deleted]
                if len(out) >= limit:
                    break
            return self._marked(connection, thread, out) if hidden else out

    def entries(self, thread: ThreadRow, positions: Sequence[int]) -> list[StoredEntry]:
        """The entries at some positions, in the order asked for, hidden and deleted ones too."""
        out = []
        with self.database.reading() as connection:
            for position in checked_positions(positions, thread.head):
                out += self._marked(connection, thread, self._rows(connection, thread, position, 1))
        return out

    def find(self, thread: ThreadRow, ids: Sequence[str]) -> dict[str, int]:
        """Positions of entries by their message's id, the newest if an id stands twice."""
        out: dict[str, int] = {}
        with self.database.reading() as connection:
            for key, _, high in self._segments(connection, thread):
                for name in filter(storable, ids):
                    if name not in out:
                        row = next(iter(connection.run("position_of_id", (key, name, high))), (None,))
                        if row[0] is not None:
                            out[name] = row[0]
        return out

    def holder_of(self, connection: Connection, thread: ThreadRow, position: int) -> bytes:
        """The key under which the entry at a position is stored."""
        return next(
            (key for key, low, high in self._segments(connection, thread) if low <= position < high), thread.key
        )

    # ------------------------------------------------------------------------------------------ pieces
    def _rows(
        self, connection: Connection, thread: ThreadRow, at: int, limit: int, *, down_to: int | None = None
    ) -> list[StoredEntry]:
        """At least one entry, from one thread of the chain: from `at` up, or from below `at` down to a position.

        Raises:
            ThreadErased, StorageCorrupt: the entry next to `at` is not there.
        """
        rows = self._next_rows(connection, thread, at, limit, down_to)
        if rows:
            return rows
        found = thread_row(connection, thread.key)
        if found is None or found[0].status == "erased" or found[0].created != thread.created:
            raise ThreadErased("the thread was erased")
        now = found[0]
        if (now.parent, now.fork_at) != (thread.parent, thread.fork_at):  # the thread it was forked from is gone
            rows = self._next_rows(connection, now, at, limit, down_to)
        if not rows:
            position = at - (down_to is not None)
            raise StorageCorrupt(
                f"entry {position} of thread {thread.key.hex()} is missing: restore a backup", position=position
            )
        return rows

    def _next_rows(
        self, connection: Connection, thread: ThreadRow, at: int, limit: int, down_to: int | None
    ) -> list[StoredEntry]:
        out: list[StoredEntry] = []
        for key, low, high in self._segments(connection, thread):
            if down_to is not None and low < at:
                expected, step = min(at, high) - 1, -1
                rows = connection.run("tail", (key, expected + 1, max(low, down_to), limit))
            elif down_to is None and low <= at < high:
                expected, step = at, 1
                rows = connection.run("range", (key, at, high, limit))
            else:
                continue
            for row in rows:
                if row[0] != expected:
                    return out
                expected += step
                out.append(from_row(key, row))
            return out
        return out

    def _segments(self, connection: Connection, thread: ThreadRow) -> Iterator[tuple[bytes, int, int]]:
        """Which thread holds which positions: (key, first, one past the last), the newest first."""
        if thread.parent is None:
            yield thread.key, 0, thread.head
            return
        key, low, high = thread.key, thread.fork_at, thread.head
        parent: bytes | None = thread.parent
        while True:
            if low < high:
                yield key, low, high
            high = min(high, low)
            if parent is None or high == 0:
                return
            found = thread_row(connection, parent, "ancestor")
            if found is None:
                return
            key, parent, low = found[0].key, found[0].parent, found[0].fork_at

    def _marked(self, connection: Connection, thread: ThreadRow, entries: list[StoredEntry]) -> list[StoredEntry]:
        """The same entries, which of them are hidden noted."""
        if not thread.hidden or not entries:
            return entries
        low, high = sorted((entries[0].position, entries[-1].position))
        ranges = hidden_between(connection, thread.key, low, high + 1)
        places = {p for start, stop in ranges for p in range(max(start, low), min(stop, high + 1))}
        return [_hidden(e) if e.position in places else e for e in entries]


def _hidden(e: StoredEntry) -> StoredEntry:
    return StoredEntry(e.position, e.message, e.turn, e.tokens, e.running, e.created, True, e.deleted)


# ---------------------------------------------------------------------------------------------- what is hidden
def hidden_between(connection: Connection, key: bytes, low: int, high: int) -> Ranges:
    """A thread's hidden ranges that hold any position from `low` up to below `high`, in order."""
    return [_range(key, row) for row in connection.run("hidden_between", (key, low, high))]


def shown_below(connection: Connection, thread: ThreadRow, before: int) -> Iterator[tuple[int, int]]:
    """The ranges that are not hidden below a position, newest first."""
    rows = connection.run("hidden_below", (thread.key, before)) if thread.hidden else ()
    for row in rows:
        start, stop = _range(thread.key, row)
        if stop < before:
            yield stop, before
        before = min(before, start)
    if before > 0:
        yield 0, before


def shown_from(connection: Connection, thread: ThreadRow, at: int) -> Iterator[tuple[int, int]]:
    """The ranges that are not hidden from a position on, oldest first."""
    rows = connection.run("hidden_between", (thread.key, at, thread.head)) if thread.hidden else ()
    for row in rows:
        start, stop = _range(thread.key, row)
        if at < start:
            yield at, start
        at = max(at, stop)
    if at < thread.head:
        yield at, thread.head


def _range(key: bytes, row: tuple[Any, ...]) -> tuple[int, int]:
    verify(row[2], "hidden", key, row[0], row[1])
    return row[0], row[1]
