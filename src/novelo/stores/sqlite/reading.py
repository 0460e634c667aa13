"""Reading a thread: its facts, its entries through the chain of forks, its turns, ledger and pins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import apsw
import msgspec

from novelo.errors import StorageCorrupt, ThreadErased, UnknownEntry
from novelo.stores import search as words_of
from novelo.stores.base import Call, Hit, StoredEntry, ThreadRow, TurnRow
from novelo.stores.rules import thread_key
from novelo.stores.sql import statements
from novelo.stores.sqlite.database import Database
from novelo.stores.sqlite.index import Index
from novelo.stores.sqlite.migrations import PACKAGE, secret_of
from novelo.stores.sqlite.rows import Facts, from_row, unsealed, verify

Q = statements(PACKAGE)


class Reading:
    """The reading half of the SQLite store."""

    def __init__(self, database: Database, *, search: bool = True) -> None:
        self.database = database
        self.indexed = search
        with database.reading() as connection:
            self._secret = secret_of(connection)
        self.index = Index(self._secret, search)

    def key_of(self, owner: str, thread_id: str) -> bytes:
        """The thread's key: a hash keyed with the database's secret, so that nobody can guess or forge one.

        Raises:
            InvalidSpec: an id that is empty, too long, or no text.
        """
        return thread_key(self._secret, owner, thread_id)

    def close(self) -> None:
        """Close all connections; the last one of a file leaves no log behind."""
        self.database.close()

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads of this thread of execution inside see one state of the store."""
        return self.database.snapshot()

    def scrub(self) -> bool:
        """Nothing of what was removed is left in any file; False if a reader is in the way."""
        return self.database.scrub()

    def thread(self, key: bytes) -> ThreadRow | None:
        """The thread's facts; None if there is no such thread."""
        with self.database.reading() as connection:
            found = self.known(connection, key)
        return None if found is None or found[0].status == "erased" else found[0]

    def known(self, connection: apsw.Connection, key: bytes) -> tuple[ThreadRow, dict[str, Any], float] | None:
        """A thread's row, an erased one's too; None if there was never such a thread.

        Raises:
            StorageCorrupt: its entries are there, but the row is not.
        """
        found = thread_row(connection, key)
        if found is None and next(iter(connection.execute(Q["any_entry"], (key,))), None) is not None:
            raise StorageCorrupt(f"the row of thread {key.hex()} is missing: restore a backup")
        return found

    def state(self, key: bytes) -> dict[str, Any]:
        """The thread's custom state."""
        with self.database.reading() as connection:
            found = thread_row(connection, key)
        return {} if found is None else found[1]

    # ------------------------------------------------------------------------------------------ entries
    def tail(self, thread: ThreadRow, before: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries below a position, newest first."""
        with self.database.reading() as connection:
            out: list[StoredEntry] = []
            before = min(before, thread.head)
            while len(out) < limit and before > 0:
                rows = self._rows(connection, thread, before, limit, newest=True)
                before = rows[-1].position
                out += [e for e in rows if hidden or not (e.hidden or e.deleted)]
            return out[:limit]

    def range(self, thread: ThreadRow, start: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries from a position on, oldest first."""
        with self.database.reading() as connection:
            out: list[StoredEntry] = []
            while len(out) < limit and start < thread.head:
                rows = self._rows(connection, thread, start, limit, newest=False)
                start = rows[-1].position + 1
                out += [e for e in rows if hidden or not (e.hidden or e.deleted)]
            return out[:limit]

    def _rows(
        self, connection: apsw.Connection, thread: ThreadRow, at: int, limit: int, *, newest: bool
    ) -> list[StoredEntry]:
        """At least one entry, from one thread of the chain.

        Raises:
            ThreadErased, StorageCorrupt: the entry next to `at` is not there.
        """
        rows = self._next_rows(connection, thread, at, limit, newest=newest)
        if rows:
            return rows
        found = thread_row(connection, thread.key)
        if found is None or found[0].status == "erased" or found[0].created != thread.created:
            raise ThreadErased("the thread was erased")
        now = found[0]
        if (now.parent, now.fork_at) != (thread.parent, thread.fork_at):  # the thread it was forked from is gone
            rows = self._next_rows(connection, now, at, limit, newest=newest)
        if not rows:
            raise _gap(thread, at - newest)
        return rows

    def _next_rows(
        self, connection: apsw.Connection, thread: ThreadRow, at: int, limit: int, *, newest: bool
    ) -> list[StoredEntry]:
        ranges = hidden_ranges(connection, thread)
        out: list[StoredEntry] = []
        for key, low, high in self._segments(connection, thread):
            if newest and low < at:
                rows = connection.execute(Q["tail"], (key, min(at, high), low, limit))
            elif not newest and low <= at < high:
                rows = connection.execute(Q["range"], (key, at, high, limit))
            else:
                continue
            expected = min(at, high) - 1 if newest else at
            for row in rows:
                if row[0] != expected:
                    return out
                expected += -1 if newest else 1
                out.append(from_row(key, row, bool(ranges) and any(a <= row[0] < b for a, b in ranges)))
            return out
        return out

    def _segments(self, connection: apsw.Connection, thread: ThreadRow) -> Iterator[tuple[bytes, int, int]]:
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
            found = thread_row(connection, parent)
            if found is None:
                return
            key, parent, low = found[0].key, found[0].parent, found[0].fork_at

    def entries(self, thread: ThreadRow, positions: Sequence[int]) -> list[StoredEntry]:
        """The entries at some positions, in the order asked for, hidden and deleted ones too."""
        out = []
        with self.database.reading() as connection:
            for position in positions:
                if not 0 <= position < thread.head:
                    raise UnknownEntry(f"no entry {position} in a thread of {thread.head}", id=position)
                out += self._rows(connection, thread, position, 1, newest=False)
        return out

    def find(self, thread: ThreadRow, ids: Sequence[str]) -> dict[str, int]:
        """Positions of entries by their message's id, the newest if an id stands twice."""
        out: dict[str, int] = {}
        with self.database.reading() as connection:
            for key, _, high in self._segments(connection, thread):
                for name in ids:
                    if name not in out:
                        row = next(iter(connection.execute(Q["position_of_id"], (key, name, high))), (None,))
                        if row[0] is not None:
                            out[name] = row[0]
        return out

    def holder_of(self, connection: apsw.Connection, thread: ThreadRow, position: int) -> bytes:
        """The key under which the entry at a position is stored."""
        return next(
            (key for key, low, high in self._segments(connection, thread) if low <= position < high), thread.key
        )

    # ------------------------------------------------------------------------------------------ the rest
    def turns(self, key: bytes, limit: int = 200, before: int | None = None) -> list[TurnRow]:
        """Turns, newest first."""
        with self.database.reading() as connection:
            rows = connection.execute(Q["turns"], (key, 1 << 60 if before is None else before, limit))
            return [turn_row(key, row) for row in rows]

    def calls(self, key: bytes | None, owner: str | None = None) -> list[tuple[str, str, Call]]:
        """The ledger of a thread, an owner or all: owner, thread id, call."""
        with self.database.reading() as connection:
            if key is not None:
                rows = connection.execute(Q["calls_of_thread"], (key,))
            elif owner is not None:
                rows = connection.execute(Q["calls_of_owner"], (owner,))
            else:
                rows = connection.execute(Q["calls_of_all"])
            return [(row[0], row[1], _call(row[2], row[4:])) for row in rows]

    def pins(self, key: bytes) -> list[int]:
        """Pinned positions."""
        with self.database.reading() as connection:
            return pinned(connection, key)

    def threads(
        self,
        *,
        owner: str | None = None,
        search: str | None = None,
        tag: str | None = None,
        limit: int = 50,
        cursor: tuple[float, bytes] | None = None,
    ) -> list[ThreadRow]:
        """Threads, the last used first; `search` is looked for in titles and thread ids, folded."""
        where, values = ["status <> 'erased'"], []
        if owner is not None:
            where.append("owner = ?")
            values.append(owner)
        if tag is not None:
            where.append("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)")
            values.append(tag)
        if cursor is not None:
            where.append("(updated, thread) < (?, ?)")
            values += cursor  # type: ignore[arg-type]
        query = f"SELECT * FROM threads WHERE {' AND '.join(where)} ORDER BY updated DESC, thread DESC"  # noqa: S608  our words only
        wanted = words_of.query_words(search) if search else []
        out: list[ThreadRow] = []
        with self.database.reading() as connection:
            for row in connection.execute(query, values):
                thread = _thread(row)[0]
                if wanted and not set(wanted) <= set(words_of.fold(f"{thread.title} {thread.thread_id}").split()):
                    continue
                out.append(thread)
                if len(out) == limit:
                    break
        return out

    def search(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> list[Hit]:
        """Messages that hold all the folded words; of a fork only what was said in it."""
        if not words:
            return []
        if not self.indexed:
            return self._look_through(words, key, owner, limit)
        out: list[Hit] = []
        known: dict[bytes, ThreadRow | None] = {}
        with self.database.reading() as connection:
            for place, position, score in self.index.find(connection, words, key, owner):
                if place not in known:
                    found = thread_row(connection, place)
                    known[place] = None if found is None else found[0]
                thread = known[place]
                if thread is None or thread.status == "erased" or (owner is not None and thread.owner != owner):
                    continue
                row = next(iter(connection.execute(Q["entry_at"], (place, position))), None)
                entry = None if row is None else from_row(place, row)
                if entry is not None and not entry.deleted:
                    out.append(Hit(entry, score, thread.thread_id, thread.owner, words_of.spans(entry.text, words)))
                if len(out) == limit:
                    break
        return out

    def _look_through(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> list[Hit]:
        """Without an index: the newest messages, of one thread, or of those that were used last."""
        thread = None if key is None else self.thread(key)
        threads = (
            self.threads(owner=owner, limit=words_of.LOOKED_THROUGH) if key is None else [thread] if thread else []
        )
        out: list[Hit] = []
        left = words_of.LOOKED_THROUGH
        for thread in threads:
            own = thread.head - (thread.fork_at if thread.parent is not None else 0)
            for entry in self.tail(thread, thread.head, min(left, own), hidden=True):
                if words_of.holds(entry.text, words):
                    out.append(Hit(entry, 1.0, thread.thread_id, thread.owner, words_of.spans(entry.text, words)))
            left -= own
            if len(out) >= limit or left <= 0:
                break
        return out[:limit]


def thread_row(connection: apsw.Connection, key: bytes) -> tuple[ThreadRow, dict[str, Any], float] | None:
    """A thread's facts, its state, and the time to live of its lease."""
    row = next(iter(connection.execute(Q["thread"], (key,))), None)
    return None if row is None else _thread(row)


def _thread(row: tuple[Any, ...]) -> tuple[ThreadRow, dict[str, Any], float]:
    (
        key,
        owner,
        thread_id,
        head,
        turns,
        opening,
        running,
        epoch,
        holder,
        lease_until,
        lease_s,
        open_turn,
        status,
        title,
        tags,
    ) = row[:15]
    metadata, state, version, parent, fork_at, hidden, pins, created, updated, found = row[15:]
    try:
        counts = (head, turns, opening, running, epoch, status, version, parent, fork_at, hidden, pins, created)
        verify(found, "thread", key, *counts)
        known = msgspec.json.decode(unsealed(key, "facts", metadata), type=Facts) if metadata else Facts()
        copies = (owner, thread_id, title, msgspec.json.decode(tags, type=tuple[str, ...]))
        if copies != (known.owner, known.thread_id, known.title, known.tags):
            raise StorageCorrupt(
                f"the facts of thread {bytes(key).hex()} were altered outside of novelo: restore a backup"
            )
        facts = ThreadRow(
            key, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, open_turn, status, title,
            known.tags, known.metadata, version, parent, fork_at, bool(hidden), bool(pins), created, updated,
        )  # fmt: skip
        return facts, msgspec.json.decode(unsealed(key, "state", state)) if state else {}, lease_s
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StorageCorrupt(f"the row of thread {bytes(key).hex()} was altered outside of novelo") from error


def turn_row(key: bytes, row: tuple[Any, ...]) -> TurnRow:
    """A turn of the columns first, last, status, epoch, created, key, request, seal, manifest."""
    verify(row[7], "turn", key, *row[:7])
    manifest = None if row[8] is None else unsealed(key, "manifest", row[8])
    return TurnRow(row[0], row[1], row[2], row[5], row[3], row[4] / 1000, manifest)


def hidden_ranges(connection: apsw.Connection, thread: ThreadRow) -> list[tuple[int, int]]:
    """What stays out of contexts."""
    out = []
    for start, stop, found in connection.execute(Q["hidden_ranges"], (thread.key,)) if thread.hidden else ():
        verify(found, "hidden", thread.key, start, stop)
        out.append((start, stop))
    return out


def pinned(connection: apsw.Connection, key: bytes) -> list[int]:
    """Pinned positions, in order."""
    out = []
    for position, found in connection.execute(Q["pins"], (key,)):
        verify(found, "pin", key, position)
        out.append(position)
    return out


def _call(key: bytes, row: tuple[Any, ...]) -> Call:
    verify(row[13], "call", key, *row[:13])
    turn, purpose, model, into, out, read, write, thought, latency, first, estimated, created, raw = row[:13]
    return Call(
        purpose, model, into, out, read, write, thought, _seconds(latency), _seconds(first), bool(estimated),
        msgspec.json.decode(unsealed(key, "usage", raw)) if raw else {}, turn, created / 1000,
    )  # fmt: skip


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _gap(thread: ThreadRow, position: int) -> StorageCorrupt:
    return StorageCorrupt(
        f"entry {position} of thread {thread.key.hex()} is missing: restore a backup", position=position
    )
