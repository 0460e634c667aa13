"""What changes a thread outside of turns: facts, pins, hiding, deletion, forks, erasure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from novelo.errors import InvalidSpec, ThreadErased, UnknownEntry
from novelo.stores.base import NewEntry, Receipt, ThreadRow
from novelo.stores.rules import merged, without
from novelo.stores.sqlite.facts import Q, pinned, thread_row
from novelo.stores.sqlite.reading import Reading
from novelo.stores.sqlite.rows import Facts, from_row, seal, sealed, to_row
from novelo.stores.sqlite.walk import hidden_between


class Changes(Reading):
    """The changing half of the SQLite store."""

    def _ensure(
        self, db: apsw.Connection, key: bytes, names: tuple[str, str], now: float
    ) -> tuple[ThreadRow, dict[str, Any], float]:
        found = self.known(db, key)
        if found is None or found[0].status == "erased":
            db.execute(Q["new_thread"], (key, *names, now, _facts(key, Facts(*names))))
            db.execute(Q["reseal"], (key,))
            found = thread_row(db, key)
        assert found is not None
        return found

    def set_facts(self, key: bytes, names: tuple[str, str], now: float, **facts: Any) -> None:
        """Set title, tags, metadata, state or status; `patch` sets single keys of the state, `without` removes one."""
        unknown = set(facts) - {"title", "tags", "metadata", "state", "status", "patch", "without"}
        if unknown:
            known = "title, tags, metadata, state, status"
            raise InvalidSpec(f"unknown facts {', '.join(sorted(unknown))}: expected {known}")
        with self.database.writing() as db:
            thread, state, _ = self._ensure(db, key, names, now)
            if "patch" in facts or "without" in facts:
                state = {k: v for k, v in state.items() if k != facts.get("without")} | facts.get("patch", {})
            state = facts.get("state", state)
            title, tags = str(facts.get("title", thread.title)), tuple(map(str, facts.get("tags", thread.tags)))
            texts = Facts(thread.owner, thread.thread_id, title, tags, facts.get("metadata", thread.metadata))
            packed = sealed(key, "state", data(state)) if state else None
            status = facts.get("status", thread.status)
            db.execute(Q["set_facts"], (key, title, json_text(tags), _facts(key, texts), packed, status, now))
            db.execute(Q["reseal"], (key,))

    def pin(self, key: bytes, positions: Sequence[int], on: bool) -> None:
        """Pin or unpin positions."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                raise UnknownEntry("there is no such thread")
            for position in positions:
                db.execute(Q["pin" if on else "unpin"], (key, position))
            db.execute(Q["mark_pinned"], (key,))
            db.execute(Q["reseal"], (key,))

    def hide(self, key: bytes, ranges: Sequence[tuple[int, int]], on: bool, now: float) -> None:
        """Take half-open ranges out of contexts, or back in."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                raise UnknownEntry("there is no such thread")
            self._hide(db, key, ranges, now, on)

    def _hide(
        self, db: apsw.Connection, key: bytes, ranges: Sequence[tuple[int, int]], now: float, on: bool = True
    ) -> None:
        for start, stop in ranges:
            if start >= stop:
                continue
            # what touches it is taken out, and comes back in one piece with it, or without it
            old = hidden_between(db, key, start - 1, stop + 1)
            for piece in old:
                db.execute(Q["show_range"], (key, piece[0]))
            for piece in merged([*old, (start, stop)]) if on else without(old, [(start, stop)]):
                db.execute(Q["hide_range"], (key, *piece))
        db.execute(Q["mark_hidden"], (key, now))
        db.execute(Q["reseal"], (key,))

    def rewrite(self, thread: ThreadRow, bodies: dict[int, NewEntry | None], now: float) -> int:
        """Replace entries' bodies, or remove them; an entry shared with a fork changes for both."""
        done = 0
        changed: dict[bytes, dict[int, str]] = {}
        with self.database.writing() as db:
            for position, new in bodies.items():
                key = self.holder_of(db, thread, position)
                row = next(iter(db.execute(Q["entry_at"], (key, position))), None)
                if row is None or row[7] is None:
                    continue
                from_row(key, row)  # never seal what was altered
                name, body = None, None
                if new is not None:
                    made = to_row(key, row[0], row[1], new.message, row[3], row[4], row[5] / 1000)
                    name, body = made[7], made[8]
                over_all = seal(key, row[0], row[1], row[2], row[3], row[4], row[5], name, body)
                db.execute(Q["set_body"], (key, position, body, over_all, name))
                changed.setdefault(key, {})[position] = "" if new is None else new.words
                done += 1
            for key, words in changed.items():
                self._reindex(db, key, words)
                db.execute(Q["content_changed"], (key,))
                db.execute(Q["reseal_family"], (key,))
            if done:
                db.execute(Q["used"], (thread.key, now))
        return done

    def _reindex(self, db: apsw.Connection, key: bytes, words: dict[int, str]) -> None:
        found = thread_row(db, key)
        self.index.remove(db, key, words)
        for position, text in words.items():
            self.index.put(db, key, found[0].owner if found else "", position, text)

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
                _facts(key, Facts(*names, facts.title, facts.tags, facts.metadata)),
                sealed(key, "state", msgspec.json.encode(source[1])) if source[1] else None, parent.key, now,
            )  # fmt: skip
            db.execute(Q["fork"], values)
            db.execute(Q["reseal"], (key,))
            shared = [(a, min(b, at)) for a, b in hidden_between(db, facts.key, 0, at)]
            self._hide(db, key, shared, now)
            for position in pinned(db, parent.key):
                if position < at:
                    db.execute(Q["pin"], (key, position))
            db.execute(Q["mark_pinned"], (key,))
            db.execute(Q["reseal"], (key,))
            made = thread_row(db, key)
            assert made is not None
            return made[0]

    def erase(self, key: bytes, now: float, *, forks: str = "erase") -> Receipt:
        """Remove a thread for good; a late writer cannot revive it."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            rows: dict[str, int] = {}
            named: list[str] = []
            if found is not None and found[0].status != "erased":
                db.execute(Q["erased"], (key, now))
                db.execute(Q["reseal"], (key,))  # the fence first: from here on no late writer can append
                for child, name, at in list(db.execute(Q["children"], (key,))):
                    named.append(name)
                    self._part(db, found[0], child, at, keep=forks == "keep")
                rows["search"] = self.index.remove(db, key)
                for table in ("entries", "turns", "calls", "pins", "hidden"):
                    db.execute(f"DELETE FROM {table} WHERE thread = ?", (key,))  # noqa: S608  a table of ours
                    rows[table] = db.changes()
                db.execute(Q["receipt"], (key, now, json_text(rows)))
        return Receipt(rows, tuple(named), pending=not self.database.scrub())

    def _part(self, db: apsw.Connection, parent: ThreadRow, child: bytes, at: int, *, keep: bool) -> None:
        """A fork parts from its parent: what the parent kept becomes the fork's own, or is gone for both.

        What the parent itself shares with an earlier thread stays shared with that one.
        """
        start = parent.fork_at if parent.parent is not None else 0
        for row in list(db.execute(Q["range"], (parent.key, start, at, at))):
            entry = from_row(parent.key, row)
            fields = (child, entry.position, row[1], row[2], row[3], row[4], row[5])
            name, body = (row[6], row[7]) if keep else (None, None)
            db.execute(Q["entry"], (*fields, name, body, seal(*fields, name, body)))
        heir = thread_row(db, child)
        if keep and heir is not None:
            self.index.move(db, parent.key, start, at, child, heir[0].owner)
        db.execute(Q["cut_fork"], (child, parent.parent, min(start, at)))
        db.execute(Q["reseal"], (child,))


def _facts(key: bytes, facts: Facts) -> bytes:
    return sealed(key, "facts", data(facts))


def data(value: Any) -> bytes:
    """A value as JSON bytes.

    Raises:
        InvalidSpec: it is no data.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"a value that cannot be stored as data: {type(error).__name__}") from error


def json_text(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()
