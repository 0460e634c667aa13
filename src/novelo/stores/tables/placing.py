"""Where the messages of a checkpoint stand: in the transcript already, at its end from now on, or aside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from novelo.errors import ConcurrentTurnError
from novelo.messages import encode
from novelo.stores.base import Lease, NewEntry, ThreadRow
from novelo.stores.checkpoints import (
    NewCheckpoint,
    Said,
)
from novelo.stores.rules import held, merged
from novelo.stores.tables.checkpoint_packing import coded
from novelo.stores.tables.checkpoint_reading import CheckpointReading
from novelo.stores.tables.checkpoint_rows import read_checkpoint
from novelo.stores.tables.checkpoint_values import keep
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.rows import from_row
from novelo.stores.tables.walk import hidden_between


class Placing:
    """Finding a place for messages, inside of one transaction."""

    def __init__(
        self,
        owner: CheckpointReading,
        db: Connection,
        key: bytes,
        new: NewCheckpoint | None = None,
        found: tuple[ThreadRow, float] | None = None,
    ) -> None:
        self.owner, self.db, self.key, self._new, self._found = owner, db, key, new, found
        self.new: list[Said] = []
        self.by_hash: dict[bytes, int] = {}  # of messages with an id that were placed in this transaction
        self.became: list[tuple[int, int, bool]] = []
        self.texts: list[tuple[int, bytes]] = []  # of messages that are entries if this transaction is committed
        self.stale = False  # content was removed or masked since the caller read the thread

    @property
    def thread(self) -> ThreadRow:
        """The thread, read when it is first asked for."""
        if self._found is None:
            found = thread_row(self.db, self.key)
            assert found is not None
            self._found = found[0], found[2]
        return self._found[0]

    @cached_property
    def before(self) -> list[tuple[int, int]]:
        """The entries that the state held that this one follows."""
        new = self._new
        if new is None or new.parent is None:
            return []
        row = next(iter(self.db.run("by_id", (new.key, new.ns, coded(new.parent)))), None)
        if row is None:
            return []
        return merged(list(self.owner.entries_of(self.db, new, read_checkpoint(new.key, row))))

    @property
    def head(self) -> int:
        """Where the first new message goes."""
        return self.thread.head

    def places(self, items: Sequence[int | Said], main: bool) -> list[int]:
        """A place for each of the messages."""
        return [item if item.__class__ is int else self._place(item, main) for item in items]  # type: ignore[arg-type]

    def take_up(self, value: int, said: Said) -> None:
        """A value that a state took up is of the transcript from now on."""
        self._place(said, True, value)

    def _place(self, said: Said, main: bool, value: int | None = None) -> int:
        name = said.entry.message.id
        if name:
            known = self.by_hash.get(said.blob.hash)
            if known is not None:
                return known
            place = self._there(said, name, main)
            if place is None:
                place = self._append(said, value) if main else self._aside(said)
            self.by_hash[said.blob.hash] = place
            return place
        if main:
            return self._append(said, value)
        masked = self.owner.store.replaced.position(self.key, said.entry.message)  # an input that is written late
        return self._aside(said) if masked is None else masked

    def _there(self, said: Said, name: str, main: bool) -> int | None:
        """Where the same message stands in the transcript already.

        Another one of its id gets a version of its own, if that was said on this line and in no branch that was left.
        """
        others: list[int] = []
        for key, _, high in self.owner.store._segments(self.db, self.thread):
            rows: list[tuple[int]] = list(self.db.run("positions_of_id", (key, name, high)))
            for (position,) in rows:
                entry = from_row(key, next(iter(self.db.run("entry_at", (key, position)))))
                replaced = self.owner.store.replaced.position(key, said.entry.message) == position
                if entry.deleted or replaced or self._same(said, entry.message):
                    if main and self.thread.hidden:
                        self.owner.store._hide(
                            self.db, self.key, [(position, position + 1)], self.thread.updated, False
                        )
                    return position
                others.append(position)
        found = next((position for position in others if not main or self._is_of_line(position)), None)
        if found is not None and self.stale:  # it may be what was there before: nothing that was removed comes back
            return found
        if found is not None:
            return -keep(self.db, self.key, said.blob, found)
        for i, one in enumerate(self.new):  # another one of its id in the same state
            if one.entry.message.id == name:
                return -keep(self.db, self.key, said.blob, self.thread.head + i)
        return None

    def _is_of_line(self, position: int) -> bool:
        """Whether an entry is shown, or hidden by hand and still in the state."""
        if not self.thread.hidden or not hidden_between(self.db, self.key, position, position + 1):
            return True
        return any(start <= position < stop for start, stop in self.before)

    def _same(self, said: Said, there: Any) -> bool:
        number = there.meta.get("value")
        if number is not None:
            row = next(iter(self.db.run("value", (self.key, number))), None)
            return row is not None and row[1] == said.blob.hash
        return said.exact and encode(there) == encode(said.entry.message)

    def _append(self, said: Said, value: int | None = None) -> int:
        position = self.thread.head + len(self.new)
        self.new.append(said)
        if value is None:
            value = said.value
        if value is None and not said.fresh:
            found = next(iter(self.db.run("value_by_hash", (self.key, said.blob.hash))), None)
            value = found[0] if found is not None and found[1] is None else None
        if value is not None:
            self.became.append((value, position, said.exact))
        return position

    def _aside(self, said: Said) -> int:
        return -keep(self.db, self.key, said.blob, look=not said.fresh)

    def append(self, now: float) -> tuple[int, int]:
        """Write the new messages into the transcript; the positions that they got."""
        if not self.new or self._found is None:
            return 0, 0
        head = self.thread.head
        if held(self.thread, self._found[1], Lease("", 30.0, now)):
            raise ConcurrentTurnError("a turn of this thread is open; nothing was stored: run again when it is done")
        if self.thread.open_turn is not None:
            self.owner.store._interrupt(self.db, self.thread, now, but=None)
            self.db.run("no_turn", (self.key,))
            found = thread_row(self.db, self.key)
            if found is None or found[0].head != head:
                raise ConcurrentTurnError("a turn of this thread was cut off; nothing was stored: run again")
        numbers = {position: value for value, position, exact in self.became if not exact}
        entries: list[NewEntry] = []
        for position, said in enumerate(self.new, head):
            entry = said.entry
            if not said.exact:
                number = numbers.get(position) or keep(self.db, self.key, said.blob, position)
                meta = {**entry.message.meta, "value": number}
                entry = NewEntry(msgspec.structs.replace(entry.message, meta=meta), entry.tokens, entry.words)
            entries.append(entry)
        first = self.owner.store._add_rows(self.db, self.thread, entries, now)
        assert first == head
        for value, position, exact in self.became:
            body = None if exact else self.new[position - head].blob.body
            self.db.run("became", (self.key, value, body, position, self.new[position - head].blob.hash))
        return head, head + len(entries)
