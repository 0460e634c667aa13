"""Threads that share a past: how a fork is made without a copy, and what becomes of it when the other one is erased."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, ThreadErased, UnknownEntry
from novelo.stores.base import ThreadRow
from novelo.stores.tables.changes import Changes, facts_of, json_text
from novelo.stores.tables.checkpoint_rows import forget, has_checkpoints
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import pinned, thread_row
from novelo.stores.tables.rows import Facts, from_row, seal, sealed
from novelo.stores.tables.walk import hidden_between
from novelo.summaries import inherited


class Forks(Changes):
    """Making forks, and parting from a thread that goes."""

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

    def _part(self, db: Connection, parent: ThreadRow, keep: bool) -> list[tuple[bytes, str]]:
        """Forks part from a thread that goes; the keys and ids of all that shared something of its own with it.

        What it kept itself moves to the fork that shared most of it, with or without its content, and the others share
        it with that one from now on. What it shared with an earlier thread stays shared with that one.
        """
        start = parent.fork_at if parent.parent is not None else 0
        heirs, children = self._relatives(db, parent.key, start)
        if not keep:
            rows = [thread_row(db, key) for key, _ in heirs]
            self._free(db, [row[0] for row in rows if row is not None])
            self._content_changed(db, parent.key, start, Counter(), gone=parent.key)
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
        return [(bytes(row[0]), row[1]) for row in heirs]

    def _relatives(
        self, db: Connection, parent: bytes, start: int
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
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
