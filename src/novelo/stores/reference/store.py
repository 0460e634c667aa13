"""The reference: threads in dicts, behind one lock. What it does is what every other store must do.

It keeps nothing on disk and is not fast; it is short enough to be read beside `base.py`, and the suite in tests/stores
compares the other stores with it after any run of operations.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, KeyConflict, TurnClosed, UnknownEntry
from novelo.messages import decode, encode
from novelo.stores.base import (
    Begun,
    Busy,
    Close,
    Lease,
    NewEntry,
    StoredEntry,
    ThreadRow,
    TurnRow,
    Work,
)
from novelo.stores.reference.changes import KeptChanges
from novelo.stores.reference.documents import KeptDocuments
from novelo.stores.reference.kept import Kept
from novelo.stores.rules import (
    checked_key,
    held,
    lost,
    takes_over,
    tokens_of,
)
from novelo.usage import Call

replace = msgspec.structs.replace


class ReferenceStore(KeptChanges):
    """The in-memory store; see `stores/base.py` for what each method promises."""

    @cached_property
    def documents(self) -> KeptDocuments:
        """Collections of documents."""
        return KeptDocuments(self._secret, self._lock, self)

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
        """Open a turn with its question."""
        question = _checked(question)
        if idempotency is not None:
            checked_key(idempotency[0])
        with self._lock:
            kept = self._ensure(key, names, lease.now)
            earlier = self._turn_of(kept, idempotency)
            if earlier is not None and earlier.status == "done":
                return Begun(kept.row, earlier, copy.deepcopy(kept.state), replayed=True)
            if held(kept.row, kept.lease_s, lease) and not takes_over(mode):
                same = earlier is not None and earlier.first == kept.row.open_turn
                return Busy(kept.row.holder, kept.row.lease_until, same)
            cut, own = kept.row.open_turn, None if earlier is None else earlier.first
            self._interrupt(kept, lease.now, but=own)
            if mode == "rollback" and cut is not None and cut != own:
                self._hide(kept, [(cut, kept.row.head)], lease.now)
            if earlier is not None:
                earlier = kept.turns[earlier.first]
                if earlier.last + 1 == kept.row.head:
                    return self._retake(kept, earlier, lease)
                self._hide(kept, [(earlier.first, earlier.last + 1)], lease.now)
            if hide_from is not None:
                self._hide(kept, [(hide_from, kept.row.head)], lease.now)
            return self._take(kept, question, lease, idempotency, earlier)

    def _turn_of(self, kept: Kept, idempotency: tuple[str, bytes] | None) -> TurnRow | None:
        if idempotency is None:
            return None
        row = next((turn for turn in kept.turns.values() if turn.key == idempotency[0]), None)
        if row is not None and kept.requests[idempotency[0]] != idempotency[1]:
            raise KeyConflict(
                "the idempotency key belongs to another request of this thread: use a new key for a new request"
            )
        return row

    def _interrupt(self, kept: Kept, now: float, but: int | None) -> None:
        """Close the turn of a writer that is gone; what it had streamed joins the transcript, marked partial."""
        first = kept.row.open_turn
        turn = None if first is None else kept.turns.get(first)
        if first is None or turn is None:
            return
        draft = kept.drafts.pop(first, None)
        if draft is not None and turn.status == "open":
            turn = replace(turn, last=self._put(kept, [draft], now))
            kept.row = replace(kept.row, epoch=kept.row.epoch + 1, updated=now)
        if first != but and turn.status in ("open", "waiting"):
            turn = replace(turn, status="interrupted")
        kept.turns[first] = turn

    def _retake(self, kept: Kept, turn: TurnRow, lease: Lease) -> Begun:
        """A turn goes on where it stopped; an answer that was cut off makes way for the next one."""
        cut = turn.last
        while cut > turn.first and self._entry(kept.row, cut).partial:
            cut -= 1
        if cut < turn.last:
            self._hide(kept, [(cut + 1, turn.last + 1)], lease.now)
        self._open(kept, turn.first, lease)
        turn = kept.turns[turn.first] = replace(turn, epoch=kept.row.epoch, status="open")
        kept.drafts.pop(turn.first, None)
        kept.row = replace(kept.row, asked=len(kept.turns))
        return Begun(kept.row, turn, copy.deepcopy(kept.state), rejoined=True)

    def _open(self, kept: Kept, first: int, lease: Lease) -> None:
        kept.lease_s = lease.ttl_s
        kept.row = replace(
            kept.row,
            status="active",
            epoch=kept.row.epoch + 1,
            holder=lease.holder,
            lease_until=lease.now + lease.ttl_s,
            open_turn=first,
            updated=lease.now,
        )

    def _take(
        self,
        kept: Kept,
        question: NewEntry,
        lease: Lease,
        idempotency: tuple[str, bytes] | None,
        earlier: TurnRow | None,
    ) -> Begun:
        first = kept.row.head
        self._put(kept, [question], lease.now, opening=False)
        self._open(kept, first, lease)
        if earlier is not None:
            del kept.turns[earlier.first]
            kept.drafts.pop(earlier.first, None)
            turn = replace(earlier, first=first, last=first, status="open", epoch=kept.row.epoch)
        else:
            name = None if idempotency is None else idempotency[0]
            turn = TurnRow(first, first, "open", name, kept.row.epoch, lease.now)
        if idempotency is not None:
            kept.requests[idempotency[0]] = idempotency[1]
        kept.turns[first] = turn
        kept.row = replace(kept.row, asked=len(kept.turns))
        return Begun(
            kept.row, replace(turn, number=len(kept.turns)), copy.deepcopy(kept.state), rejoined=earlier is not None
        )

    def reopen(self, key: bytes, first: int, lease: Lease, *, mode: str) -> Begun | Busy:
        """Take up a turn again, or answer a user message at the end that no turn has answered."""
        with self._lock:
            kept = self._living(key)
            if kept is None or (first not in kept.turns and not self._asks(kept.row, first)):
                raise UnknownEntry(f"no turn begins at position {first}")
            if held(kept.row, kept.lease_s, lease) and not takes_over(mode):
                return Busy(kept.row.holder, kept.row.lease_until, kept.row.open_turn == first)
            turn = kept.turns.get(first) or TurnRow(first, first, "new", created=lease.now)
            if turn.status == "done" or turn.last + 1 != kept.row.head:
                raise TurnClosed(
                    f"the turn at position {first} is {turn.status}, and the thread has gone on to {kept.row.head}"
                )
            self._interrupt(kept, lease.now, but=first)
            return self._retake(kept, kept.turns.get(first, turn), lease)

    def _asks(self, row: ThreadRow, position: int) -> bool:
        return 0 <= position < row.head and self._entry(row, position).role == "user"

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
        entries, state = [_checked(new) for new in entries], _data(state)
        with self._lock:
            kept = self._all().get(key)
            turn = None if kept is None else kept.turns.get(first)
            if kept is None or turn is None or kept.row.epoch != epoch or kept.row.status == "erased":
                raise lost(None if kept is None else kept.row, key, epoch)
            if turn.status != "open" or kept.row.open_turn != first:
                raise lost(kept.row, key, epoch)
            position = kept.row.head
            self._put(kept, entries, now, opening=False)
            stays = first if close is None or close.status == "waiting" else None
            kept.row = replace(
                kept.row,
                lease_until=0.0 if close else lease_until,
                holder="" if close else holder,
                open_turn=stays,
                updated=now,
            )
            kept.state = kept.state if state is None else state
            turn = replace(turn, last=max(turn.last, kept.row.head - 1) if entries else turn.last, status="open")
            if close is not None:
                turn = replace(turn, status=close.status, manifest=close.manifest or turn.manifest)
            kept.turns[first] = turn
            kept.drafts.pop(first, None)
            kept.calls += [replace(call, turn=first, created=now) for call in calls]
            for one in work:
                self._ask(kept, one, now)
            return position

    def keep_draft(self, key: bytes, epoch: int, first: int, draft: NewEntry | None, lease_until: float) -> bool:
        """Renew the lease, and keep what was streamed so far."""
        with self._lock:
            kept = self._all().get(key)
            row = None if kept is None else kept.row
            if kept is None or row is None or (row.epoch, row.open_turn) != (epoch, first) or row.lease_until <= 0:
                return False
            kept.row = replace(kept.row, lease_until=lease_until)
            if draft is not None:
                kept.drafts[first] = _checked(draft)
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
        entries = [_checked(new) for new in entries]
        with self._lock:
            kept = self._ensure(key, names, lease.now)
            if held(kept.row, kept.lease_s, lease):
                return Busy(kept.row.holder, kept.row.lease_until)
            self._interrupt(kept, lease.now, but=None)
            if hide_from is not None:
                self._hide(kept, [(hide_from, kept.row.head)], lease.now)
            position = kept.row.head
            self._put(kept, entries, lease.now, created)
            kept.row = replace(
                kept.row, open_turn=None, lease_until=0.0, epoch=kept.row.epoch + 1, updated=lease.now, status="active"
            )
            return position

    def reap(self, key: bytes, lease: Lease) -> bool:
        """Close an open turn whose writer is gone as interrupted."""
        with self._lock:
            kept = self._living(key)
            turn = None if kept is None or kept.row.open_turn is None else kept.turns[kept.row.open_turn]
            if kept is None or turn is None or turn.status != "open" or held(kept.row, kept.lease_s, lease):
                return False
            self._interrupt(kept, lease.now, but=None)
            kept.row = replace(
                kept.row, open_turn=None, lease_until=0.0, epoch=kept.row.epoch + 1, updated=lease.now, status="active"
            )
            return True

    def _put(
        self,
        kept: Kept,
        entries: Sequence[NewEntry],
        now: float,
        created: Sequence[float] = (),
        *,
        opening: bool = True,
    ) -> int:
        """Write entries at the end; returns the position of the last."""
        for i, new in enumerate(entries):
            row, role = kept.row, new.message.role
            opens = opening and role == "system" and row.opening == row.head
            kept.row = row = replace(
                row,
                head=row.head + 1,
                turns=row.turns + (role == "user"),
                running=row.running + new.tokens,
                opening=row.opening + opens,
            )
            at = row.head - 1
            moment = created[i] if created else now
            kept.entries[at] = StoredEntry(at, new.message, row.turns, new.tokens, row.running, moment)
            if new.words:
                kept.words[at] = new.words
        return kept.row.head - 1


def _checked(new: NewEntry) -> NewEntry:
    """The entry as it comes back from a disk: data, and nothing else."""
    tokens_of([new])
    return NewEntry(decode(encode(new.message)), new.tokens, new.words)


def _data(value: Any) -> Any:
    try:
        return None if value is None else msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"a value that cannot be stored as data: {type(error).__name__}") from error
