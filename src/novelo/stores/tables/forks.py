"""Threads that share a past: how a fork is made without a copy, and what becomes of it when the other one is erased."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, StorageFull, StoreError, ThreadErased, UnknownEntry
from novelo.stores.base import Receipt, ThreadRow
from novelo.stores.tables.changes import TABLES, Changes, facts_of, json_text, left_over
from novelo.stores.tables.checkpoint_rows import forget, has_checkpoints
from novelo.stores.tables.connection import Connection, Database
from novelo.stores.tables.facts import pinned, thread_row
from novelo.stores.tables.rows import Facts, from_row, seal, sealed
from novelo.stores.tables.walk import hidden_between
from novelo.summaries import inherited

FIRST_PIECE, PIECE = 4, 256  # rows that go at once where the disk is full; fewer if that is too much, down to one


class Forks(Changes):
    """Forks and erasure."""

    def __init__(self, database: Database, *, search: bool = True) -> None:
        super().__init__(database, search=search)
        with suppress(StoreError):  # an erasure that another process could not end; scrub tries again
            self._remove_left_over()

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position, without a copy."""
        with self.database.writing() as db:
            return self._fork(db, parent, key, names, at, now)

    def _fork(
        self, db: Connection, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float
    ) -> ThreadRow:
        found = thread_row(db, key)
        if found is not None and found[0].status != "erased":
            raise InvalidSpec("a thread of that id exists already: choose another id for the fork")
        self._clear(db, key)
        source = thread_row(db, parent.key)
        if source is None or source[0].status == "erased":
            raise ThreadErased("the thread was erased")
        if not 0 <= at <= source[0].head:
            raise UnknownEntry(f"cannot fork at {at}: the thread has {source[0].head} messages")
        facts = source[0]
        last = self._rows(db, facts, at - 1, 1) if at else []
        turns, running = (last[0].turn, last[0].running) if last else (0, 0)
        values = (
            key, *names, at, turns, min(facts.opening, at), running, facts.title, json_text(facts.tags),
            facts_of(key, Facts(*names, facts.title, facts.tags, facts.metadata)),
            sealed(key, "state", msgspec.json.encode(source[1])) if source[1] else None, parent.key, now,
        )  # fmt: skip
        db.run("fork", values)
        if not db.changes():  # another process was quicker
            raise InvalidSpec("a thread of that id exists already: choose another id for the fork")
        db.run("reseal", (key,))
        shared = [(a, min(b, at)) for a, b in hidden_between(db, facts.key, 0, at)]
        self._hide(db, key, shared, now)
        self._share_summary(db, facts, ThreadRow(key, *names, at, turns, running=running, fork_at=at))
        for position in pinned(db, parent.key):
            if position < at:
                db.run("pin", (key, position))
        db.run("mark_pinned", (key,))
        db.run("reseal", (key,))
        made = thread_row(db, key)
        assert made is not None
        return made[0]

    def _share_summary(self, db: Connection, parent: ThreadRow, made: ThreadRow) -> None:
        """A fork begins with the summary that its parent had of what they share, and with what that one stands on."""
        line = []
        found = self._step_back(db, parent, made.fork_at)
        while found is not None:
            line.append(found)
            found = self._summary(db, parent.key, found.base) if found.base else None
        for one in inherited(line, made.fork_at, made.turns, made.running):
            self._put_summary(db, made.key, one)

    def erase(self, key: bytes, now: float, *, forks: str = "erase") -> Receipt:
        """Remove a thread for good; a late writer cannot revive it.

        Everything goes in one transaction. Where the disk has no room for that in the log, a first one erases the
        thread for all who ask, and its rows follow in pieces, each of which makes room for the next.
        """
        keep = forks == "keep"
        rows, named = self.database.with_room(
            lambda: self._erase(key, now, keep), lambda: self._erase(key, now, keep, at_once=False)
        )
        return Receipt(rows, named, pending=not self.scrub())

    def _erase(
        self, key: bytes, now: float, keep: bool, at_once: bool = True
    ) -> tuple[dict[str, int], tuple[str, ...]]:
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                return {}, ()
            named = self._part(db, found[0], keep)
            db.run("erased", (key, now))  # the fence: no late writer can append any more
            db.run("reseal", (key,))
            if at_once:
                rows = self._remove(db, key)
            else:
                rows = self._counted(db, key)
                for table in ("summaries", "work"):  # few rows, and asked for by the thread's key alone
                    db.remove(table, key)
                db.run("left_over", (left_over(key),))
            db.run("receipt", (key, now, json_text(rows)))
            return rows, named

    def _counted(self, db: Connection, key: bytes) -> dict[str, int]:
        return {"search": self.index.count(db, key), **{table: db.count(table, key) for table in TABLES}}

    def scrub(self) -> bool:
        """Nothing of what was removed is left in any file; False if a reader, or a full disk, is in the way."""
        return self._remove_left_over() and self.database.scrub()

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

    def _part(self, db: Connection, parent: ThreadRow, keep: bool) -> tuple[str, ...]:
        """Forks part from a thread that goes; the ids of all that shared something of its own with it.

        What it kept itself moves to the fork that shared most of it, with or without its content, and the others share
        it with that one from now on. What it shared with an earlier thread stays shared with that one.
        """
        start = parent.fork_at if parent.parent is not None else 0
        heirs, children = self._family(db, parent.key, start)
        named = tuple(row[1] for row in heirs)
        if not keep:
            self._content_changed(db, parent.key, start)
            self._forget_all(db, parent, start, [row[0] for row in heirs])
            for key, _ in heirs:
                self._drop_vectors(db, key, 0, parent.head)  # may be made from what goes; a job makes them anew
        heir = max(children, key=lambda child: child[1], default=None)
        for child, at in children:
            if child == (heir and heir[0]) and at > start:
                self._inherit(db, parent.key, child, start, at, keep)
                line = (parent.parent, start)
            else:
                line = (heir[0], at) if heir is not None and at > start else (parent.parent, at)
            db.run("cut_fork", (child, *line))
            db.run("reseal", (child,))
        return named

    def _family(self, db: Connection, parent: bytes, start: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """All that share something of its own with a thread, and the forks made from it; ours to the transaction's end.

        One that is being erased at the same time is waited for, and is a fork no longer: what it inherits would stay.
        """
        ours: set[bytes] = set()
        while True:
            heirs, children = list(db.run("heirs", (parent, start))), list(db.run("children", (parent,)))
            others = {row[0] for row in (*heirs, *children)} - ours
            if not others:
                return heirs, children
            for key in sorted(others):
                thread_row(db, key)
            ours |= others

    def _forget_all(self, db: Connection, parent: ThreadRow, start: int, heirs: list[bytes]) -> None:
        """What the states of graphs in forks repeat of a thread that goes."""
        heirs = [key for key in heirs if has_checkpoints(db, key)]
        for row in list(db.run("range", (parent.key, start, parent.head, parent.head))) if heirs else ():
            entry = from_row(parent.key, row)
            for key in heirs:
                forget(db, key, entry.position, entry.message)

    def _inherit(self, db: Connection, parent: bytes, child: bytes, start: int, stop: int, keep: bool) -> None:
        for row in list(db.run("range", (parent, start, stop, stop))):
            from_row(parent, row)  # never seal what was altered
            position, turn, role, tokens, running, created, name, body, _ = row
            if not keep:
                name = body = None
            moved = (child, position, turn, role, tokens, running, created, name, body)
            db.run("entry", (*moved, seal(*moved)))
        heir = thread_row(db, child)
        if keep and heir is not None:
            self.index.move(db, parent, start, stop, child, heir[0].owner)
            db.run("move_vectors", (parent, start, stop, child))
