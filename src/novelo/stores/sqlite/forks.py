"""Threads that share a past: how a fork is made without a copy, and what becomes of it when the other one is erased."""

from __future__ import annotations

import apsw
import msgspec

from novelo.errors import InvalidSpec, ThreadErased, UnknownEntry
from novelo.stores.base import Receipt, ThreadRow
from novelo.stores.sqlite.changes import Changes, facts_of, json_text
from novelo.stores.sqlite.facts import Q, pinned, thread_row
from novelo.stores.sqlite.rows import Facts, from_row, seal, sealed
from novelo.stores.sqlite.walk import hidden_between
from novelo.summaries import inherited


class Forks(Changes):
    """Forks and erasure."""

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position, without a copy."""
        last = self.range(parent, at - 1, 1, hidden=True) if 0 < at <= parent.head else []
        turns, running = (last[0].turn, last[0].running) if last else (0, 0)
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is not None and found[0].status != "erased":
                raise InvalidSpec("a thread of that id exists already: choose another id for the fork")
            source = thread_row(db, parent.key)
            if source is None or source[0].status == "erased":
                raise ThreadErased("the thread was erased")
            if not 0 <= at <= source[0].head:
                raise UnknownEntry(f"cannot fork at {at}: the thread has {source[0].head} messages")
            facts = source[0]
            values = (
                key, *names, at, turns, min(facts.opening, at), running, facts.title, json_text(facts.tags),
                facts_of(key, Facts(*names, facts.title, facts.tags, facts.metadata)),
                sealed(key, "state", msgspec.json.encode(source[1])) if source[1] else None, parent.key, now,
            )  # fmt: skip
            db.execute(Q["fork"], values)
            db.execute(Q["reseal"], (key,))
            shared = [(a, min(b, at)) for a, b in hidden_between(db, facts.key, 0, at)]
            self._hide(db, key, shared, now)
            self._share_summary(db, facts, ThreadRow(key, *names, at, turns, running=running, fork_at=at))
            for position in pinned(db, parent.key):
                if position < at:
                    db.execute(Q["pin"], (key, position))
            db.execute(Q["mark_pinned"], (key,))
            db.execute(Q["reseal"], (key,))
            made = thread_row(db, key)
            assert made is not None
            return made[0]

    def _share_summary(self, db: apsw.Connection, parent: ThreadRow, made: ThreadRow) -> None:
        """A fork begins with the summary that its parent had of what they share, and with what that one stands on."""
        line = []
        found = self._step_back(db, parent, made.fork_at)
        while found is not None:
            line.append(found)
            found = self._summary(db, parent.key, found.base) if found.base else None
        for one in inherited(line, made.fork_at, made.turns, made.running):
            self._put_summary(db, made.key, one)

    def erase(self, key: bytes, now: float, *, forks: str = "erase") -> Receipt:
        """Remove a thread for good; a late writer cannot revive it."""
        rows, named = self.database.with_room(lambda: self._erase(key, now, forks == "keep"))
        return Receipt(rows, named, pending=not self.database.scrub())

    def _erase(self, key: bytes, now: float, keep: bool) -> tuple[dict[str, int], tuple[str, ...]]:
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                return {}, ()
            named = self._part(db, found[0], keep)
            db.execute(Q["erased"], (key, now))  # the fence: no late writer can append any more
            db.execute(Q["reseal"], (key,))
            rows = {"search": self.index.remove(db, key)}
            for table in ("entries", "turns", "calls", "pins", "hidden", "summaries", "work"):
                db.execute(f"DELETE FROM {table} WHERE thread = ?", (key,))  # noqa: S608  a table of ours
                rows[table] = db.changes()
            db.execute(Q["receipt"], (key, now, json_text(rows)))
            return rows, named

    def _part(self, db: apsw.Connection, parent: ThreadRow, keep: bool) -> tuple[str, ...]:
        """Forks part from a thread that goes; the ids of all that shared something of its own with it.

        What it kept itself moves to the fork that shared most of it, with or without its content, and the others share
        it with that one from now on. What it shared with an earlier thread stays shared with that one.
        """
        start = parent.fork_at if parent.parent is not None else 0
        named = tuple(row[1] for row in db.execute(Q["heirs"], (parent.key, start)))
        if not keep:
            self._content_changed(db, parent.key, start)
        children = list(db.execute(Q["children"], (parent.key,)))
        heir = max(children, key=lambda child: child[1], default=None)
        for child, at in children:
            if child == (heir and heir[0]) and at > start:
                self._inherit(db, parent.key, child, start, at, keep)
                line = (parent.parent, start)
            else:
                line = (heir[0], at) if heir is not None and at > start else (parent.parent, at)
            db.execute(Q["cut_fork"], (child, *line))
            db.execute(Q["reseal"], (child,))
        return named

    def _inherit(self, db: apsw.Connection, parent: bytes, child: bytes, start: int, stop: int, keep: bool) -> None:
        for row in list(db.execute(Q["range"], (parent, start, stop, stop))):
            from_row(parent, row)  # never seal what was altered
            position, turn, role, tokens, running, created, name, body, _ = row
            if not keep:
                name = body = None
            moved = (child, position, turn, role, tokens, running, created, name, body)
            db.execute(Q["entry"], (*moved, seal(*moved)))
        heir = thread_row(db, child)
        if keep and heir is not None:
            self.index.move(db, parent, start, stop, child, heir[0].owner)
