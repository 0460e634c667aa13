"""Threads that go: erased for good, taken by a rule of retention, or left with their summary alone.

Everything goes in one transaction: the fence first, so that no late writer can append any more, then the rows, then the
row of the audit. Where the disk has no room for that in the log, a first transaction erases the thread for all who ask,
and its rows follow in pieces, each of which makes room for the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from novelo.errors import StorageCorrupt, StorageFull, StoreError, ThreadHeld
from novelo.stores.base import Cut, Found, NewEntry, Note, Receipt, Standing, ThreadRow
from novelo.stores.privacy import NOBODY, Gone, Traces
from novelo.stores.rules import forks_first, storable
from novelo.stores.tables.audited import act
from novelo.stores.tables.changes import TABLES, left_over
from novelo.stores.tables.connection import Connection, Database
from novelo.stores.tables.facts import read_thread, thread_row
from novelo.stores.tables.forks import Forks

FIRST_PIECE, PIECE = 4, 256  # rows that go at once where the disk is full; fewer if that is too much, down to one
Names = tuple[str, ...]


class Removing(Forks):
    """Erasure and retention."""

    def __init__(self, database: Database, *, search: bool = True) -> None:
        super().__init__(database, search=search)
        with suppress(StoreError):  # an erasure that another process could not end; scrub tries again
            self._remove_left_over()

    # ------------------------------------------------------------------------------------------ for good
    def erase(self, key: bytes, now: float, *, forks: str = "erase", note: Note = NOBODY) -> Receipt:
        """Remove a thread for good; a late writer cannot revive it."""
        keep = forks == "keep"
        receipt = self.database.with_room(
            lambda: self._erase(key, now, keep, note), lambda: self._erase(key, now, keep, note, at_once=False)
        )
        return msgspec.structs.replace(receipt, pending=not self.scrub())

    def _erase(self, key: bytes, now: float, keep: bool, note: Note = NOBODY, at_once: bool = True) -> Receipt:
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                return Receipt({})
            self._free(db, [found[0]])
            rows, named = self._gone(db, found[0], now, keep, at_once)
            number = act(db, self._secret, now, note, "erase", key, rows)
            return Receipt(rows, named, scope=key.hex(), at=now, number=number)

    def _gone(
        self,
        db: Connection,
        thread: ThreadRow,
        now: float,
        keep: bool,
        at_once: bool = True,
        going: Collection[bytes] = (),
    ) -> tuple[dict[str, int], Names]:
        """Take a thread out, in a transaction; what went, and the ids of the forks that shared something and stay."""
        key = thread.key
        named = tuple(name for fork, name in self._part(db, thread, keep) if fork not in going)
        self._keep_spent(db, key, thread.owner, now)
        db.run("erased", (key, now))
        db.run("reseal", (key,))
        if at_once:
            rows = self._remove(db, key)
        else:
            rows = self._counted(db, key)
            for table in ("summaries", "work"):  # few rows, and asked for by the thread's key alone
                db.remove(table, key)
            db.run("left_over", (left_over(key),))
        self._told(Gone(key, "thread", now, thread.created))
        return rows, named

    def _counted(self, db: Connection, key: bytes) -> dict[str, int]:
        return {"search": self.index.count(db, key), **{table: db.count(table, key) for table in TABLES}}

    def forget_owner(self, owner: str, now: float, counts: dict[str, int], note: Note = NOBODY) -> Receipt:
        """Remove an owner's kept spending, and note that all is gone."""
        scope = self.owner_key(owner)
        with self.database.writing() as db:
            db.run("forget_spent", (scope,))
            rows = {"spent": db.changes()}
            number = 0
            if any(counts.values()) or any(rows.values()):
                number = act(db, self._secret, now, note, "owner", scope, counts | rows)
            return Receipt(rows, kind="owner", scope=scope.hex(), at=now, number=number)

    # ------------------------------------------------------------------------------------------ nothing left in files
    def scrub(self) -> bool:
        """Nothing of what was removed is left in any file; False if a reader, or a full disk, is in the way."""
        return self._remove_left_over() and self.database.scrub()

    def vacuum(self, full: bool = False) -> bool:
        """Rewrite what holds gaps; False if a reader is in the way."""
        return self.scrub() and self.database.vacuum(full)

    def traces(self, clean: bool, vacuumed: str) -> Traces:
        """What is still there, in words."""
        return self.database.traces(clean, vacuumed)

    def key_destroyed(self, key: bytes) -> bool:
        """Whether an erasure destroyed a thread's key; told once."""
        gone: set[bytes] = getattr(self.database, "shredded", set())  # only what encrypts has any
        told = key in gone
        gone.discard(key)
        return told

    def _remove_left_over(self) -> bool:
        """Rows of threads that were erased on a full disk, piece by piece; False if even one row finds no room."""
        size, most = FIRST_PIECE, PIECE
        while True:
            try:
                if not self.database.with_room(lambda size=size: self._remove_piece(size)):  # type: ignore[misc]
                    return True
                if not self.database.scrub():
                    return False
                size = min(2 * size, most)
            except StorageFull:
                if size == 1:
                    return False
                size = most = max(1, size // 4)

    def _remove_piece(self, size: int) -> bool:
        with self.database.reading() as db:  # nearly always there is nothing, and a writer need not wait for it
            if self.database.read_only or not list(db.run("any_left_over")):
                return False
        with self.database.writing() as db:  # another process may have ended it, and a new thread have begun
            for name, key in list(db.run("any_left_over")):
                if key is None or not any(self._remove(db, key, size).values()):
                    db.run("none_left_over", (name,))
        return True

    # ------------------------------------------------------------------------------------------ retention
    def standing(self, cut: Cut, after: bytes, limit: int) -> Found[Standing]:
        """Threads that rules may take, by key from behind one on."""
        out: Found[Standing] = Found()
        with self.database.reading() as db:
            values = (after, float(cut.idle), float(cut.age), int(cut.closed), float(cut.now), limit)
            for row in db.run("standing", values):
                try:
                    thread = read_thread(row[:-2])[0]
                    out.append(Standing(thread, row[-2] or 0, row[-1]))
                except StorageCorrupt as error:
                    out.damaged.append(str(error))
                    out.append(Standing(ThreadRow(row[0], "", "", status="damaged")))
        return out

    def weights(self, pieces: Sequence[tuple[bytes, int, int]]) -> dict[bytes, tuple[int, int]]:
        """Messages that have content, and the bytes of them, by thread; of own entries in a range of positions each."""
        wanted = msgspec.json.encode([(key.hex(), start, stop) for key, start, stop in pieces]).decode()
        with self.database.reading() as db:
            return {bytes(row[0]): (row[1], row[2]) for row in db.run("weights", (wanted,))}

    def erase_due(self, due: Sequence[tuple[ThreadRow, Note]], now: float) -> list[tuple[ThreadRow, Receipt]]:
        """Remove threads that nobody has used since they were read, in one transaction; forks keep what they share."""
        return self.database.with_room(lambda: self._erase_due(due, now))

    def _erase_due(self, due: Sequence[tuple[ThreadRow, Note]], now: float) -> list[tuple[ThreadRow, Receipt]]:
        out = []
        acts = []
        with self.database.writing() as db:
            read = [(self._unused(db, row), note) for row, note in sorted(due, key=lambda one: one[0].key)]
            going = {thread.key: (thread, note) for thread, note in read if thread is not None}
            for thread in forks_first([thread for thread, _ in going.values()]):
                rows, named = self._gone(db, thread, now, keep=True, going=going)
                acts.append((thread, going[thread.key][1], rows, named))
            for thread, note, rows, named in acts:  # the last thing of the transaction: others wait for it
                number = act(db, self._secret, now, note, "erase", thread.key, rows)
                out.append((thread, Receipt(rows, named, scope=thread.key.hex(), at=now, number=number)))
        return out

    def _unused(self, db: Connection, read: ThreadRow) -> ThreadRow | None:
        """A thread as it is, ours from now on, if nobody used it since it was read and nobody holds it."""
        found = thread_row(db, read.key)
        if found is None or found[0].status == "erased":
            return None
        if (found[0].epoch, found[0].updated, found[0].status) != (read.epoch, read.updated, read.status):
            return None
        try:
            self._free(db, [found[0]])
        except ThreadHeld:
            return None
        return found[0]

    def drop_texts(self, row: ThreadRow, now: float, note: Note = NOBODY) -> Receipt | None:
        """Remove the texts that the summary in use covers, and keep it."""
        with self.database.writing() as db:
            thread = self._unused(db, row)
            made = None if thread is None else self._summary(db, thread.key, thread.summary)
            if thread is None or made is None or not made.text:
                return None
            shared = max((at for _, at in db.run("children", (thread.key,))), default=0)
            start = max(thread.opening, thread.fork_at if thread.parent is not None else 0, shared)
            positions = [
                row[0] for row in db.run("texts_below", (thread.key, start, made.upto)) if row[0] not in made.held
            ]
            counts: Counter[str] = Counter()
            bodies: dict[int, NewEntry | None] = dict.fromkeys(positions)
            changed = self._set_bodies(db, dict.fromkeys(positions, thread.key), bodies, counts)
            for key, words in changed.items():
                self._reindex(db, key, words, counts)
                self._content_changed(db, key, min(words), counts, keep=[key])
            counts["summaries"] += self._drop_older(db, thread.key, made.version)
            db.run("set_dropped", (thread.key, made.version))
            number = 0
            if counts.total():
                self._told(Gone(thread.key, "text", now, thread.created, tuple(positions)))
                number = act(db, self._secret, now, note, "text", thread.key, counts)
            return Receipt(dict(+counts), kind="text", scope=thread.key.hex(), at=now, number=number)

    def _drop_older(self, db: Connection, key: bytes, version: int) -> int:
        """Versions that stand on texts which are gone cannot be gone back to."""
        gone = 0
        for other, body in list(db.run("summaries", (key,))):
            if other != version and body:
                db.run("set_summary", (key, other, b""))
                gone += 1
        return gone

    def set_term(self, key: bytes, expires: float | None) -> None:
        """When retention takes the thread, whatever the rules say."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is not None and found[0].status != "erased":
                db.run("set_term", (key, expires))

    def once_in(self, name: str, now: float, pause_s: float) -> bool:
        """Whether this is the first to ask in such a time, of all processes."""
        if not storable(name):
            return False
        with self.database.writing() as db:
            values = (f"last {name}", int(now), int(now - pause_s), int(now + pause_s))
            return next(iter(db.run("once", values)), None) is not None
