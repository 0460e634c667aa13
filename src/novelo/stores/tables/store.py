"""The store over tables: the turn protocol. `reading.py` reads, `changes.py` and `removing.py` do all else.

A plain turn is two transactions: `begin` writes the question, `append` the answer with everything that goes with it.
Between them no transaction is open and no connection held, however long the model takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from novelo.errors import KeyConflict, TurnClosed, UnknownEntry
from novelo.stores.base import Begun, Busy, Close, Lease, NewEntry, ThreadRow, TurnRow, Work
from novelo.stores.rules import checked_key, clamped, held, lost, takes_over, tokens_of
from novelo.stores.tables.changes import data
from novelo.stores.tables.connection import Connection, Row
from novelo.stores.tables.documents import TableDocuments
from novelo.stores.tables.facts import thread_row, turn_row
from novelo.stores.tables.removing import Removing
from novelo.stores.tables.rows import from_row, sealed, to_row, unsealed
from novelo.usage import Call


class TableStore(Removing):
    """Threads in the tables of one database; see `stores/base.py` for what each method promises."""

    @cached_property
    def documents(self) -> TableDocuments:
        """Collections of documents, in the same database."""
        return TableDocuments(self.database, self._secret)

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
        hide_from: int | None = None,
    ) -> Begun | Busy:
        """Open a turn with its question, in one transaction."""
        if idempotency is not None:
            checked_key(idempotency[0])
        with self.database.writing() as db:
            there = db.run("thread", (key,))
            known = self._of_key(db, key, idempotency)  # asked for before the first answer is waited for
            thread, state, ttl = self._ensure(db, key, names, lease.now, there)
            earlier = self._turn_of(key, known, idempotency)
            if earlier is not None and earlier.status == "done":
                return Begun(thread, earlier, state, replayed=True)
            if held(thread, ttl, lease) and not takes_over(mode):
                return Busy(
                    thread.holder, thread.lease_until, earlier is not None and earlier.first == thread.open_turn
                )
            cut, own = thread.open_turn, None if earlier is None else earlier.first
            thread = self._interrupt(db, thread, lease.now, but=own)
            if mode == "rollback" and cut is not None and cut != own:
                self._hide(db, key, [(cut, thread.head)], lease.now)
            if earlier is not None:  # what was streamed may have joined it
                earlier = self._turn_of(key, self._of_key(db, key, idempotency), idempotency)
            if earlier is not None and earlier.last + 1 == thread.head:
                return self._retake(db, thread, earlier, state, lease)
            if earlier is not None:  # later messages follow: ask anew at the end, the former try is hidden
                self._hide(db, key, [(earlier.first, earlier.last + 1)], lease.now)
            if hide_from is not None:
                self._hide(db, key, clamped([(hide_from, thread.head)], thread.head), lease.now)
            if earlier is not None or hide_from is not None or mode == "rollback":
                thread, _, _ = self._ensure(db, key, names, lease.now)
            return self._take(db, thread, state, question, lease, idempotency, earlier)

    def _of_key(self, db: Connection, key: bytes, idempotency: tuple[str, bytes] | None) -> Iterator[Row]:
        return iter(()) if idempotency is None else db.run("turn_by_key", (key, idempotency[0]))

    def _turn_of(self, key: bytes, rows: Iterator[Row], idempotency: tuple[str, bytes] | None) -> TurnRow | None:
        row = next(iter(list(rows)), None)
        if row is None or idempotency is None:
            return None
        if row[7] != idempotency[1]:
            raise KeyConflict(
                "the idempotency key belongs to another request of this thread: use a new key for a new request"
            )
        return turn_row(key, row)

    def _interrupt(self, db: Connection, thread: ThreadRow, now: float, but: int | None) -> ThreadRow:
        """Close the turn of a writer that is gone; what it had streamed joins the transcript, marked partial."""
        first = thread.open_turn
        if first is None:
            return thread
        row = next(iter(db.run("draft", (thread.key, first))), None)
        if row is not None and row[0]:
            draft = msgspec.json.decode(unsealed(thread.key, "draft", row[0]), type=NewEntry)
            self._add_rows(db, thread, [draft], now)
            list(db.run("close_turn", (thread.key, first, 1, "open", None)))
            found = thread_row(db, thread.key)
            assert found is not None
            thread = found[0]
        if first != but:
            db.run("interrupt_turn", (thread.key, first))
        return thread

    def _retake(self, db: Connection, thread: ThreadRow, turn: TurnRow, state: dict[str, Any], lease: Lease) -> Begun:
        """A turn goes on where it stopped; an answer that was cut off makes way for the next one."""
        cut = turn.last
        while cut > turn.first and self._is_partial(db, thread.key, cut):
            cut -= 1
        self._hide(db, thread.key, clamped([(cut + 1, turn.last + 1)], thread.head), lease.now)
        until = lease.now + lease.ttl_s
        values = (thread.key, lease.holder, until, lease.ttl_s, turn.first, lease.now, turn.status == "new")
        epoch, number = next(iter(db.run("retake", values)))
        db.run("reseal", (thread.key,))
        if turn.status == "new":
            turn = msgspec.structs.replace(turn, number=number)
            db.run("new_turn", (thread.key, turn.first, epoch, int(lease.now * 1000), None, None, number))
        else:
            db.run("reopen_turn", (thread.key, turn.first, epoch))
        found = thread_row(db, thread.key)
        assert found is not None
        thread = found[0]
        return Begun(thread, msgspec.structs.replace(turn, epoch=epoch, status="open"), state, rejoined=True)

    def _take(
        self,
        db: Connection,
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
        new = earlier is None
        values = (key, asks, tokens_of([question]), 0, lease.holder, until, lease.ttl_s, first, lease.now, new)
        db.run("take", values)
        epoch, number = thread.epoch + 1, thread.asked + new  # the row is ours: nobody else counts
        if earlier is not None:
            db.run("close_ranks", (key, earlier.first, first))
            db.run("move_turn", (key, earlier.first, first, epoch, number))
        else:
            known = idempotency or (None, None)
            db.run("new_turn", (key, first, epoch, int(lease.now * 1000), *known, number))
        turns, running = thread.turns + asks, thread.running + question.tokens
        self._write(db, key, thread.owner, first, turns, running, question, lease.now)
        thread = msgspec.structs.replace(
            thread,
            head=first + 1,
            turns=turns,
            running=running,
            epoch=epoch,
            holder=lease.holder,
            lease_until=until,
            open_turn=first,
            status="active",
            asked=number,
            updated=lease.now,
        )
        name = idempotency[0] if idempotency else None
        turn = TurnRow(first, first, "open", name, epoch, lease.now, number=number)
        return Begun(thread, turn, state, rejoined=earlier is not None)

    def _write(
        self,
        db: Connection,
        key: bytes,
        owner: str,
        position: int,
        turn: int,
        running: int,
        new: NewEntry,
        now: float,
    ) -> None:
        db.run("entry", to_row(key, position, turn, new.message, new.tokens, running, now))
        self.index.put(db, key, owner, position, new.words)

    def _is_partial(self, db: Connection, key: bytes, position: int) -> bool:
        row = next(iter(db.run("entry_at", (key, position))), None)
        return row is not None and from_row(key, row).partial

    def reopen(self, key: bytes, first: int, lease: Lease, *, mode: str) -> Begun | Busy:
        """Take up a turn again, or answer a user message at the end that no turn has answered."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased" or not self._asks(db, found[0], first):
                raise UnknownEntry(f"no turn begins at position {first}")
            thread, state, ttl = found
            if held(thread, ttl, lease) and not takes_over(mode):
                return Busy(thread.holder, thread.lease_until, thread.open_turn == first)
            thread = self._interrupt(db, thread, lease.now, but=first)
            row = next(iter(db.run("turn", (key, first))), None)
            turn = TurnRow(first, first, "new", created=lease.now) if row is None else turn_row(key, row)
            if turn.status == "done" or turn.last + 1 != thread.head:
                raise TurnClosed(
                    f"the turn at position {first} is {turn.status}, and the thread has gone on to {thread.head}"
                )
            return self._retake(db, thread, turn, state, lease)

    def _asks(self, db: Connection, thread: ThreadRow, position: int) -> bool:
        """Whether a turn begins at a position, or could."""
        if next(iter(db.run("turn", (thread.key, position))), None) is not None:
            return True
        holder = self.holder_of(db, thread, position)
        row = next(iter(db.run("entry_at", (holder, position))), None)
        return row is not None and position < thread.head and from_row(holder, row).role == "user"

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
        work: Sequence[Work] = (),
        lease_until: float = 0.0,
        holder: str = "",
    ) -> int:
        """Append a step to the open turn `first`, and close the turn with it if so told."""
        asked = sum(new.message.role == "user" for new in entries)
        tokens = tokens_of(entries)
        done = close is not None
        stays = first if not done or (close is not None and close.status == "waiting") else None
        packed = None if state is None else sealed(key, "state", data(state))
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
                first,
            )
            moved = db.run("append", values)
            manifest = None if close is None or close.manifest is None else sealed(key, "manifest", close.manifest)
            status = "open" if close is None else close.status
            closed = db.run("close_turn", (key, first, len(entries), status, manifest))
            before = self._newest_call(db, key) if calls else iter(())
            row = next(iter(list(moved)), None)
            if row is None or not list(closed):  # another epoch, or a turn that waits or was interrupted
                found = thread_row(db, key)
                raise lost(None if found is None else found[0], key, epoch)
            position, turns, running, owner = row
            for i, new in enumerate(entries):
                turns += new.message.role == "user"
                running += new.tokens
                self._write(db, key, owner, position + i, turns, running, new, now)
            self._note(db, key, first, calls, now, before)
            for one in work:
                self._ask(db, key, one, now)
        return int(position)

    def keep_draft(self, key: bytes, epoch: int, first: int, draft: NewEntry | None, lease_until: float) -> bool:
        """Renew the lease, and keep what was streamed so far, for the case that this process dies."""
        with self.database.writing() as db:
            if next(iter(db.run("renew", (key, epoch, lease_until, first))), None) is None:
                return False
            if draft is not None:
                db.run("keep_draft", (key, first, sealed(key, "draft", msgspec.json.encode(draft))))
        return True

    def add(
        self,
        key: bytes,
        names: tuple[str, str],
        entries: Sequence[NewEntry],
        lease: Lease,
        *,
        created: Sequence[float] = (),
        hide_from: int | None = None,
    ) -> int | Busy:
        """Append messages outside of a turn."""
        with self.database.writing() as db:
            thread, _, ttl = self._ensure(db, key, names, lease.now)
            if held(thread, ttl, lease):
                return Busy(thread.holder, thread.lease_until)
            thread = self._interrupt(db, thread, lease.now, but=None)
            db.run("no_turn", (key,))
            if hide_from is not None:
                self._hide(db, key, clamped([(hide_from, thread.head)], thread.head), lease.now)
            return self._add_rows(db, thread, entries, lease.now, created)

    def reap(self, key: bytes, lease: Lease) -> bool:
        """Close an open turn whose writer is gone as interrupted."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].open_turn is None or held(found[0], found[2], lease):
                return False
            row = next(iter(db.run("turn", (key, found[0].open_turn))), None)
            if row is None or row[3] != "open":
                return False
            self._interrupt(db, found[0], lease.now, but=None)
            db.run("reaped", (key, lease.now))
            db.run("reseal", (key,))
            return True

    def _add_rows(
        self,
        db: Connection,
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
        tokens = tokens_of(entries)
        row = next(iter(db.run("add", (thread.key, len(entries), asked, tokens, opening, now))))
        position, turns, running = row
        for i, new in enumerate(entries):
            turns += new.message.role == "user"
            running += new.tokens
            moment = created[i] if created else now
            self._write(db, thread.key, thread.owner, position + i, turns, running, new, moment)
        return int(position)
