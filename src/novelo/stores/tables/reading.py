"""Reading a thread: its facts, turns, ledger and pins; lists of threads; the search. Entries are read in `walk.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any

from novelo.errors import StorageCorrupt
from novelo.stores import search as words_of
from novelo.stores.base import Found, Hit, StoredEntry, ThreadRow, TurnRow
from novelo.stores.rules import storable, thread_key
from novelo.stores.tables.connection import Connection, Database, Row
from novelo.stores.tables.facts import pinned, read_call, read_thread, thread_row, turn_row
from novelo.stores.tables.rows import from_row
from novelo.stores.tables.walk import Walk
from novelo.usage import Call

NO_TEXT = "the database was altered outside of novelo (text that is no UTF-8): restore a backup"


class Reading(Walk):
    """The reading half of a store over tables."""

    def __init__(self, database: Database, *, search: bool = True) -> None:
        self.database = database
        self.indexed = search
        self._secret = database.secret
        self.index = database.index(self._secret, search)

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

    def known(
        self, connection: Connection, key: bytes, there: Iterator[Row] | None = None
    ) -> tuple[ThreadRow, dict[str, Any], float] | None:
        """A thread's row, an erased one's too; None if there was never such a thread.

        Args:
            there: what the statement `thread` gives, if it was asked for already.
        Raises:
            StorageCorrupt: its entries are there, but the row is not.
        """
        rows = list(connection.run("thread", (key,)) if there is None else there)
        found = read_thread(rows[0]) if rows else None
        if found is None and next(iter(connection.run("any_entry", (key,))), None) is not None:
            found = thread_row(connection, key)  # its first write may have come between the two
            if found is not None:
                return found
            raise StorageCorrupt(f"the row of thread {key.hex()} is missing: restore a backup")
        return found

    def state(self, key: bytes) -> dict[str, Any]:
        """The thread's custom state."""
        with self.database.reading() as connection:
            found = thread_row(connection, key)
        return {} if found is None else found[1]

    # ------------------------------------------------------------------------------------------ the rest
    def turns(self, key: bytes, limit: int = 200, before: int | None = None) -> list[TurnRow]:
        """Turns, newest first."""
        with self.snapshot(), self.database.reading() as connection:
            found = thread_row(connection, key)
            rows = connection.run("turns", (key, 1 << 60 if before is None else before, limit))
            out = [turn_row(key, row) for row in rows]
        asked = 0 if found is None else found[0].asked
        ends = [asked if before is None else None, *(row.number for row in out), 0 if len(out) < limit else None]
        if before is None:
            ends[0] = asked + 1
        for above, below in pairwise(ends):
            if above is not None and below is not None and above != below + 1:
                raise StorageCorrupt(f"a turn of thread {key.hex()} is missing: restore a backup")
        return out

    def calls(self, key: bytes | None, owner: str | None = None) -> list[tuple[str, str, Call]]:
        """The ledger of a thread, an owner or all: owner, thread id, call."""
        if owner is not None and not storable(owner):
            return []
        with self.database.reading() as connection:
            if key is not None:
                rows = connection.run("calls_of_thread", (key,))
            elif owner is not None:
                rows = connection.run("calls_of_owner", (owner,))
            else:
                rows = connection.run("calls_of_all")
            return [(row[0], row[1], read_call(row[2], row[4:])) for row in rows if row[1]]  # an erased one has no name

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
    ) -> Found[ThreadRow]:
        """Threads, the last used first; `search` is looked for in titles and thread ids, folded."""
        out: Found[ThreadRow] = Found()
        if owner is not None and not storable(owner):
            return out
        wanted = set(words_of.query_words(search)) if search else set()
        with self.database.reading() as connection:
            rows = connection.threads(owner, cursor)
            while len(out) < limit:
                thread = None
                with _telling(out.damaged):
                    row = next(rows, None)
                    if row is None:
                        break
                    thread = read_thread(row)[0]
                if thread is None or (tag is not None and tag not in thread.tags):
                    continue
                if wanted and not wanted <= set(words_of.fold(f"{thread.title} {thread.thread_id}").split()):
                    continue
                out.append(thread)
        return out

    def search(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> Found[Hit]:
        """Messages that hold all the folded words; of a fork only what was said in it."""
        out: Found[Hit] = Found()
        if not words or (owner is not None and not storable(owner)):
            return out
        if not self.indexed:
            return self._look_through(words, key, owner, limit)
        self.index.caught_up(self.database)
        known: dict[bytes, ThreadRow | None] = {}
        with self.database.reading() as connection:
            for place, position, score in self.index.find(connection, words, key, owner):
                thread = entry = None
                with _telling(out.damaged, on=key is None):
                    if place not in known:
                        known[place] = None  # as long as it cannot be read
                        found = thread_row(connection, place)
                        known[place] = None if found is None else found[0]
                    thread = known[place]
                    if thread is None or thread.status == "erased" or (owner is not None and thread.owner != owner):
                        continue
                    row = next(iter(connection.run("entry_at", (place, position))), None)
                    entry = None if row is None else from_row(place, row)
                if thread is not None and entry is not None and not entry.deleted:
                    out.append(Hit(entry, score, thread.thread_id, thread.owner, words_of.spans(entry.text, words)))
                if len(out) == limit:
                    break
        return out

    def _look_through(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> Found[Hit]:
        """Without an index: the newest messages, of one thread, or of those that were used last."""
        thread = None if key is None else self.thread(key)
        threads = (
            self.threads(owner=owner, limit=words_of.LOOKED_THROUGH)
            if key is None
            else Found([thread] if thread else [])
        )
        out: Found[Hit] = Found(damaged=threads.damaged)
        left = words_of.LOOKED_THROUGH
        for thread in threads:
            own = thread.head - (thread.fork_at if thread.parent is not None else 0)
            entries: list[StoredEntry] = []
            with _telling(out.damaged, on=key is None):
                entries = self.tail(thread, thread.head, min(left, own), hidden=True)
            for entry in entries:
                if words_of.holds(entry.text, words):
                    out.append(Hit(entry, 1.0, thread.thread_id, thread.owner, words_of.spans(entry.text, words)))
            left -= own
            if len(out) >= limit or left <= 0:
                break
        return Found(out[:limit], out.damaged, partial=left < 0)


@contextmanager
def _telling(damaged: list[str], on: bool = True) -> Iterator[None]:
    """Of many rows, one that was altered is noted, and the reader goes on with the next."""
    try:
        yield
    except (StorageCorrupt, UnicodeDecodeError) as error:
        if not on:
            raise
        damaged.append(str(error) if isinstance(error, StorageCorrupt) else NO_TEXT)
