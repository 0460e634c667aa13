"""The SQLite store: the turn protocol, and what changes a thread.

A plain turn is two transactions: `begin` writes the question, `append` the answer with everything that goes with it.
Between them no transaction is open and no connection held, however long the model takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from novelo.errors import InvalidSpec, KeyConflict, LeaseLost, ThreadErased, TurnClosed, UnknownEntry
from novelo.messages import Message
from novelo.stores.base import Begun, Busy, Call, Close, Lease, NewEntry, Receipt, ThreadRow, TurnRow
from novelo.stores.sqlite.reading import Q, Reading, hidden_ranges, thread_row, turn_row
from novelo.stores.sqlite.rows import from_row, seal, to_row


class SQLiteStore(Reading):
    """Threads in one SQLite file; see `stores/base.py` for what each method promises."""

    # ------------------------------------------------------------------------------------------ the turn protocol
    def begin(
        self,
        key: bytes,
        names: tuple[str, str],
        question: NewEntry,
        lease: Lease,
        *,
        idempotency: tuple[str, bytes] | None,
        mode: str,
    ) -> Begun | Busy:
        """Open a turn with its question, in one transaction."""
        with self.database.writing() as db:
            thread, state, ttl = self._ensure(db, key, names, lease.now)
            earlier = self._turn_of(db, key, idempotency)
            if earlier is not None and earlier.status == "done":
                return Begun(thread, earlier, state, replayed=True)
            if _held(thread, ttl, lease) and mode != "interrupt":
                return Busy(
                    thread.holder, thread.lease_until, earlier is not None and earlier.first == thread.open_turn
                )
            thread = self._interrupt(db, thread, lease.now, but=None if earlier is None else earlier.first)
            if earlier is not None and earlier.last + 1 == thread.head:
                return self._retake(db, thread, earlier, state, lease)
            if (
                earlier is not None
            ):  # later messages stand between: ask anew at the end, what was before stays out of contexts
                self._hide(db, key, [(earlier.first, earlier.last + 1)], lease.now)
            return self._take(db, thread, state, question, lease, idempotency, earlier)

    def _ensure(
        self, db: apsw.Connection, key: bytes, names: tuple[str, str], now: float
    ) -> tuple[ThreadRow, dict[str, Any], float]:
        found = thread_row(db, key)
        if found is None or found[0].status == "erased":
            db.execute(Q["new_thread"], (key, *names, now))
            found = thread_row(db, key)
        assert found is not None
        return found

    def _turn_of(self, db: apsw.Connection, key: bytes, idempotency: tuple[str, bytes] | None) -> TurnRow | None:
        if idempotency is None:
            return None
        row = next(iter(db.execute(Q["turn_by_key"], (key, idempotency[0]))), None)
        if row is None:
            return None
        if row[6] != idempotency[1]:
            raise KeyConflict(
                "the idempotency key belongs to another request of this thread: use a new key for a new request"
            )
        return turn_row(row)

    def _interrupt(self, db: apsw.Connection, thread: ThreadRow, now: float, but: int | None) -> ThreadRow:
        """Close the turn of a writer that is gone; what it had streamed joins the transcript, marked partial."""
        first = thread.open_turn
        if first is None:
            return thread
        row = next(iter(db.execute(Q["draft"], (thread.key, first))), None)
        if row is not None and row[0]:
            draft = msgspec.json.decode(row[0], type=NewEntry)
            self._add_rows(db, thread, [draft], now)
            db.execute(Q["close_turn"], (thread.key, first, thread.head, "open", None))
            found = thread_row(db, thread.key)
            assert found is not None
            thread = found[0]
        if first != but:
            db.execute(Q["interrupt_turn"], (thread.key, first))
        return thread

    def _retake(
        self, db: apsw.Connection, thread: ThreadRow, turn: TurnRow, state: dict[str, Any], lease: Lease
    ) -> Begun:
        values = (thread.key, lease.holder, lease.now + lease.ttl_s, lease.ttl_s, turn.first, lease.now)
        epoch = next(iter(db.execute(Q["retake"], values)))[0]
        db.execute(Q["reopen_turn"], (thread.key, turn.first, epoch))
        thread = msgspec.structs.replace(thread, epoch=epoch, holder=lease.holder, open_turn=turn.first)
        return Begun(thread, msgspec.structs.replace(turn, epoch=epoch, status="open"), state, rejoined=True)

    def _take(
        self,
        db: apsw.Connection,
        thread: ThreadRow,
        state: dict[str, Any],
        question: NewEntry,
        lease: Lease,
        idempotency: tuple[str, bytes] | None,
        earlier: TurnRow | None,
    ) -> Begun:
        key, first = thread.key, thread.head
        asks = question.message.role == "user"
        until = lease.now + lease.ttl_s
        values = (key, asks, question.tokens, 0, lease.holder, until, lease.ttl_s, first, lease.now)
        epoch = next(iter(db.execute(Q["take"], values)))[0]
        if earlier is not None:
            db.execute(Q["move_turn"], (key, earlier.first, first, epoch))
        else:
            known = idempotency or (None, None)
            db.execute(Q["new_turn"], (key, first, epoch, int(lease.now * 1000), *known))
        turns, running = thread.turns + asks, thread.running + question.tokens
        self._write(db, key, first, turns, running, question, lease.now)
        thread = msgspec.structs.replace(
            thread,
            head=first + 1,
            turns=turns,
            running=running,
            epoch=epoch,
            holder=lease.holder,
            lease_until=until,
            open_turn=first,
        )
        turn = TurnRow(first, first, "open", idempotency[0] if idempotency else None, epoch, lease.now)
        return Begun(thread, turn, state, rejoined=earlier is not None)

    def _write(
        self, db: apsw.Connection, key: bytes, position: int, turn: int, running: int, new: NewEntry, now: float
    ) -> None:
        db.execute(Q["entry"], to_row(key, position, turn, new.message, new.tokens, running, now))
        if self.indexed and new.words:
            db.execute(Q["index_entry"], (new.words, key.hex(), position))

    def reopen(self, key: bytes, first: int, lease: Lease, *, mode: str) -> Begun | Busy:
        """Take up a waiting, failed or interrupted turn again, under a new epoch."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            row = next(iter(db.execute(Q["turn"], (key, first))), None)
            if found is None or row is None:
                raise UnknownEntry(f"no turn begins at position {first}")
            thread, state, ttl = found
            if _held(thread, ttl, lease) and mode != "interrupt":
                return Busy(thread.holder, thread.lease_until, thread.open_turn == first)
            thread = self._interrupt(db, thread, lease.now, but=first)
            turn = turn_row(next(iter(db.execute(Q["turn"], (key, first)))))
            if turn.status == "done" or turn.last + 1 != thread.head:
                raise TurnClosed(
                    f"the turn at position {first} is {turn.status}, and the thread has gone on to {thread.head}"
                )
            return self._retake(db, thread, turn, state, lease)

    def append(
        self,
        key: bytes,
        epoch: int,
        first: int,
        entries: Sequence[NewEntry],
        now: float,
        *,
        close: Close | None = None,
        state: dict[str, Any] | None = None,
        calls: Sequence[Call] = (),
        lease_until: float = 0.0,
        holder: str = "",
    ) -> int:
        """Append a step to the open turn `first`, and close the turn with it if so told."""
        asked = sum(new.message.role == "user" for new in entries)
        tokens = sum(new.tokens for new in entries)
        done = close is not None
        stays = first if not done or (close is not None and close.status == "waiting") else None
        packed = None if state is None else msgspec.json.encode(state)
        with self.database.writing() as db:
            values = (
                key,
                epoch,
                len(entries),
                asked,
                tokens,
                0.0 if done else lease_until,
                "" if done else holder,
                stays,
                now,
                packed,
            )
            row = next(iter(db.execute(Q["append"], values)), None)
            if row is None:
                raise self._lost(db, key, epoch)
            position, turns, running = row
            for i, new in enumerate(entries):
                turns += new.message.role == "user"
                running += new.tokens
                self._write(db, key, position + i, turns, running, new, now)
            last = position + len(entries) - 1
            if close is not None:
                db.execute(Q["close_turn"], (key, first, last, close.status, close.manifest))
            else:
                db.execute(Q["close_turn"], (key, first, last, "open", None))
            for call in calls:
                db.execute(Q["call"], _call_row(key, first, call, now))
        return int(position)

    def _lost(self, db: apsw.Connection, key: bytes, epoch: int) -> LeaseLost | ThreadErased:
        found = thread_row(db, key)
        if found is None or found[0].status == "erased":
            return ThreadErased("the thread was erased while this turn was open; nothing was stored")
        now = found[0].epoch
        if now == epoch:
            return ThreadErased(f"the thread is {found[0].status}; nothing was stored")
        return LeaseLost(
            f"thread {key.hex()}: epoch {now} has taken over, ours is {epoch}; nothing was stored, "
            "ask again with the same key",
            epoch=epoch,
            taken_by=now,
        )

    def keep_draft(self, key: bytes, epoch: int, first: int, draft: NewEntry | None, lease_until: float) -> bool:
        """Renew the lease, and keep what was streamed so far, for the case that this process dies."""
        with self.database.writing() as db:
            if next(iter(db.execute(Q["renew"], (key, epoch, lease_until))), None) is None:
                return False
            if draft is not None:
                db.execute(Q["keep_draft"], (key, first, msgspec.json.encode(draft)))
        return True

    def add(
        self,
        key: bytes,
        names: tuple[str, str],
        entries: Sequence[NewEntry],
        lease: Lease,
        *,
        created: Sequence[float] = (),
    ) -> int | Busy:
        """Append messages outside of a turn."""
        with self.database.writing() as db:
            thread, _, ttl = self._ensure(db, key, names, lease.now)
            if _held(thread, ttl, lease):
                return Busy(thread.holder, thread.lease_until)
            thread = self._interrupt(db, thread, lease.now, but=None)
            db.execute("UPDATE threads SET open_turn = NULL, lease_until = 0 WHERE thread = ?", (key,))
            return self._add_rows(db, thread, entries, lease.now, created)

    def _add_rows(
        self,
        db: apsw.Connection,
        thread: ThreadRow,
        entries: Sequence[NewEntry],
        now: float,
        created: Sequence[float] = (),
    ) -> int:
        asked = sum(new.message.role == "user" for new in entries)
        opening = 0
        if thread.opening == thread.head:
            while opening < len(entries) and entries[opening].message.role == "system":
                opening += 1
        tokens = sum(new.tokens for new in entries)
        row = next(iter(db.execute(Q["add"], (thread.key, len(entries), asked, tokens, opening, now))))
        position, turns, running = row
        for i, new in enumerate(entries):
            turns += new.message.role == "user"
            running += new.tokens
            self._write(db, thread.key, position + i, turns, running, new, created[i] if created else now)
        return int(position)

    # ------------------------------------------------------------------------------------------ changing what is there
    def set_facts(self, key: bytes, names: tuple[str, str], now: float, **facts: Any) -> None:
        """Set title, tags, metadata, state or status; `patch` sets single keys of the state, `without` removes one."""
        columns = {
            "title": str,
            "tags": _json_text,
            "metadata": msgspec.json.encode,
            "state": msgspec.json.encode,
            "status": str,
        }
        unknown = set(facts) - set(columns) - {"patch", "without"}
        if unknown:
            raise InvalidSpec(f"unknown facts {', '.join(sorted(unknown))}: expected some of {', '.join(columns)}")
        with self.database.writing() as db:
            _, state, _ = self._ensure(db, key, names, now)
            if "patch" in facts or "without" in facts:
                gone = facts.pop("without", None)
                state = {k: v for k, v in state.items() if k != gone} | facts.pop("patch", {})
                facts["state"] = state
            for name, value in facts.items():
                set_one = f"UPDATE threads SET {name} = ?, updated = ? WHERE thread = ?"  # noqa: S608  a column of ours
                db.execute(set_one, (columns[name](value), now, key))  # type: ignore[operator]

    def pin(self, key: bytes, positions: Sequence[int], on: bool) -> None:
        """Pin or unpin positions."""
        with self.database.writing() as db:
            for position in positions:
                db.execute(Q["pin" if on else "unpin"], (key, position))
            db.execute(Q["mark_pinned"], (key,))

    def hide(self, key: bytes, ranges: Sequence[tuple[int, int]], on: bool, now: float) -> None:
        """Take half-open ranges out of contexts, or back in."""
        with self.database.writing() as db:
            if on:
                self._hide(db, key, ranges, now)
                return
            found = thread_row(db, key)
            old = hidden_ranges(db, found[0]) if found is not None else []
            db.execute(Q["clear_hidden"], (key,))
            self._hide(db, key, _without(old, ranges), now)

    def _hide(self, db: apsw.Connection, key: bytes, ranges: Sequence[tuple[int, int]], now: float) -> None:
        for start, stop in ranges:
            if start < stop:
                db.execute(Q["hide_range"], (key, start, stop))
        db.execute(Q["mark_hidden"], (key, now))

    def rewrite(self, thread: ThreadRow, bodies: dict[int, NewEntry | None], now: float) -> int:
        """Replace entries' bodies, or remove them; an entry shared with a fork changes for both."""
        done = 0
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
                sealed = seal(key, row[0], row[1], row[2], row[3], row[4], row[5], name, body)
                db.execute(Q["set_body"], (key, position, body, sealed, name))
                db.execute(Q["unindex"], (f'thread : "{key.hex()}"', position))
                if new is not None and self.indexed and new.words:
                    db.execute(Q["index_entry"], (new.words, key.hex(), position))
                done += 1
            if done:
                db.execute(Q["content_changed"], (thread.key, now))
        return done

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position, without a copy."""
        last = self.range(parent, at - 1, 1, hidden=True) if at else []
        turns, running = (last[0].turn, last[0].running) if last else (0, 0)
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is not None and found[0].status != "erased":
                raise InvalidSpec("a thread of that id exists already: choose another id for the fork")
            source = thread_row(db, parent.key)
            if source is None or source[0].status == "erased":
                raise ThreadErased("the thread was erased")
            facts = source[0]
            values = (
                key, *names, at, turns, min(facts.opening, at), running, facts.title, _json_text(facts.tags),
                msgspec.json.encode(facts.metadata), msgspec.json.encode(source[1]), parent.key, now,
            )  # fmt: skip
            db.execute(Q["fork"], values)
            shared = [(a, min(b, at)) for a, b in hidden_ranges(db, facts) if a < at]
            self._hide(db, key, shared, now)
            for row in list(db.execute(Q["pins"], (parent.key,))):
                if row[0] < at:
                    db.execute(Q["pin"], (key, row[0]))
            db.execute(Q["mark_pinned"], (key,))
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
                db.execute(Q["erased"], (key, now))  # the fence first: from here on no late writer can append
                for child, name, at in list(db.execute(Q["children"], (key,))):
                    named.append(name)
                    self._part(db, found[0], child, at, keep=forks == "keep")
                db.execute(Q["unindex_thread"], (f'thread : "{key.hex()}"',))
                rows["search"] = db.changes()
                for table in ("entries", "turns", "calls", "pins", "hidden"):
                    db.execute(f"DELETE FROM {table} WHERE thread = ?", (key,))  # noqa: S608  a table of ours
                    rows[table] = db.changes()
                db.execute(Q["receipt"], (key, now, _json_text(rows)))
        return Receipt(rows, tuple(named), pending=not self.database.scrub())

    def _part(self, db: apsw.Connection, parent: ThreadRow, child: bytes, at: int, *, keep: bool) -> None:
        """A fork parts from its parent: it takes over what they shared, or that is gone for both."""
        found = thread_row(db, child)
        if found is None:
            return
        if keep:
            for entry in self._shared(db, parent, at):
                message = entry.message if not entry.deleted else Message(entry.message.role)
                db.execute(
                    Q["entry"],
                    to_row(child, entry.position, entry.turn, message, entry.tokens, entry.running, entry.created),
                )
            db.execute(Q["cut_fork"], (child, None, 0))
            return
        for entry in self._shared(db, parent, at):
            row = list(
                to_row(
                    child,
                    entry.position,
                    entry.turn,
                    Message(entry.message.role),
                    entry.tokens,
                    entry.running,
                    entry.created,
                )
            )
            row[7], row[8] = None, None
            row[9] = seal(child, row[1], row[2], row[3], row[4], row[5], row[6], None, None)
            db.execute(Q["entry"], tuple(row))
        db.execute(Q["cut_fork"], (child, None, 0))
        db.execute("UPDATE threads SET opening = 0 WHERE thread = ?", (child,))

    def _shared(self, db: apsw.Connection, parent: ThreadRow, at: int) -> list[Any]:
        out = []
        for key, low, high in self._segments(db, parent):
            if low < at:
                out += [from_row(key, row) for row in db.execute(Q["range"], (key, low, min(high, at), at))]
        return out


def _held(thread: ThreadRow, ttl_s: float, lease: Lease) -> bool:
    """Whether another writer may still be at work.

    A lease further ahead than its time to live comes from a wrong clock, and one whose holder has died on this machine
    holds nothing: both are void. The epoch makes sure that a mistake here can cost an answer, never a history.
    """
    if thread.lease_until <= lease.now or thread.open_turn is None:
        return False
    if thread.lease_until > lease.now + max(ttl_s, lease.ttl_s) + 1.0:
        return False
    return lease.alive is None or bool(lease.alive(thread.holder))


def _without(old: Sequence[tuple[int, int]], gone: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges less other ranges.

    Example: (0, 10) less (3, 5) -> (0, 3) (5, 10).
    """
    out = list(old)
    for start, stop in gone:
        out = [piece for a, b in out for piece in ((a, min(b, start)), (max(a, stop), b)) if piece[0] < piece[1]]
    return out


def _call_row(key: bytes, first: int, call: Call, now: float) -> tuple[Any, ...]:
    return (
        key, first, call.purpose, call.model, call.input, call.output, call.cache_read, call.cache_write,
        call.reasoning, _milliseconds(call.latency_s), _milliseconds(call.first_token_s), call.estimated,
        int(now * 1000),
        msgspec.json.encode(call.raw) if call.raw else None,
    )  # fmt: skip


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
