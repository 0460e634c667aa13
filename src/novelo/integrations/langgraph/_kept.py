"""An agent's messages in a memory: a transcript beside the checkpoints, with the summary and the ledger.

The graph's state is the truth. `sync` brings the transcript after it, by the messages' ids: new messages are appended,
rewritten ones rewritten (a secret that was scrubbed from the state is gone from the transcript too), and the end of a
branch that was left by going back is hidden. Messages that a trim removes from the state stay in the transcript.

Where `NoveloSaver` keeps the graph's checkpoints in the same database, it writes the transcript, and we only rewrite
what was rewritten.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from novelo.errors import InvalidMessage
from novelo.facts import Fact
from novelo.formats.langchain import from_langchain, to_langchain
from novelo.integrations.langgraph._talk import Made, Print, agree, print_of
from novelo.memory import Memory
from novelo.messages import Message
from novelo.stores.base import Base, Busy, NewEntry, StoredEntry
from novelo.summaries import Summary
from novelo.usage import Call

Place = Callable[[int], int]
SAVER_S = (500, 0.02)  # how often, and after how many seconds, it is looked whether the saver has written


class Kept:
    """One thread of a memory, as an agent's transcript."""

    def __init__(
        self, memory: Memory, thread_id: str, owner: str, *, follows: bool = False, encrypted: bool = False
    ) -> None:
        """Read nothing yet.

        Args:
            memory, thread_id, owner: which thread.
            follows: whether somebody else writes the transcript.
            encrypted: whether that one keeps all texts out of it: then so do we, and it has the ledger only.
        """
        self.memory, self.follows, self.encrypted = memory, follows, encrypted
        self.thread = memory.thread(thread_id, owner)
        self._head = self._version = 0
        self._known: dict[str, tuple[int, Print]] = {}  # id -> position, print
        self._visible: list[int] = []
        self._said: set[str] = set()  # ids of what the model answered, which we saw before any hook
        self._patient = True  # whether the saver writes all that a state has
        self._seen: dict[str, Print] = {}  # id -> what the state said when it was last looked at
        # Ids that were there when we came, or when the transcript was redacted. Beside the saver what was there when we
        # came may have been said in this very run; and its states are redacted with the transcript.
        self._old: frozenset[str] | None = frozenset() if follows else None

    # ------------------------------------------------------------------------------------------ the transcript
    def sync(self, messages: Sequence[Any], *, last: bool = False) -> None:
        """Bring the transcript after the state's messages.

        Args:
            messages: the state's.
            last: whether nobody comes again in this run: what a hook may have scrubbed before we saw it is awaited.
        Raises:
            NoveloError: the store cannot be written now; the next call brings it up again.
        """
        if self.encrypted:
            return
        self._read_on()
        named = [m for m in messages if m.id]
        now = {m.id: print_of(m) for m in named}
        late = [i for i, shape in now.items() if self._seen.get(i, shape) != shape and i not in self._known]
        if self.follows and last and self._patient:
            unseen = [i for i in now if i not in self._known and i not in self._said]
            self._patient = not self._awaited(unseen)
        if self.follows and late:
            late = self._awaited(late)
        self._rewrite([m for m in named if self._was_rewritten(m.id, now[m.id])])
        self._seen = now | {name: self._seen[name] for name in late}
        if self.follows:
            return
        common = [self._known[m.id][0] for m in named if m.id in self._known]
        fresh = [m for m in named if m.id not in self._known]
        if common and fresh:
            self._leave_branch(max(common), frozenset(common))
        if fresh:
            self._append([self.memory.new_entry(from_langchain(m)) for m in fresh])

    def said(self, messages: Sequence[Any]) -> None:
        """Note what the model answered, before hooks change it."""
        for m in messages:
            if m.id:
                self._seen.setdefault(m.id, print_of(m))
                self._said.add(m.id)

    def _awaited(self, names: Sequence[str]) -> list[str]:
        """Wait a moment for scrubbed messages that the saver has not written yet; the ones still out."""
        left = [name for name in names if name not in self._known]
        for _ in range(SAVER_S[0]):
            if not left:
                break
            time.sleep(SAVER_S[1])
            self._read_on()
            left = [name for name in left if name not in self._known]
        return left

    def _was_rewritten(self, name: str, now: Print) -> bool:
        """Whether the state says something else than the transcript, and the state is right.

        It is for messages that were said, or changed, under our eyes; where the transcript was redacted before, an old
        state must not undo it.
        """
        known = self._known.get(name)
        changed = self._seen.get(name, now) != now
        if known is None or (agree(known[1], now) and not changed):
            return False
        return changed or name not in (self._old or ())

    def _append(self, new: Sequence[NewEntry]) -> None:
        """Append without waiting: the user does."""
        memory, thread = self.memory, self.thread
        first = memory.store.add(thread.key, (thread.owner, thread.thread_id), new, memory.lease())
        if isinstance(first, Busy):
            raise thread.busy("reject")
        self._note(thread.messages(after=first - 1, limit=len(new)))

    def _read_on(self) -> None:
        """Read what others have appended."""
        row = self.thread.row
        head = 0 if row is None else row.head
        version = 0 if row is None else row.content_version
        if head < self._head:  # erased, and begun again
            self._head, self._known, self._visible, self._seen = 0, {}, [], {}
        elif version != self._version and self._head:  # something was redacted or deleted: no state may undo it
            self._old = (self._old or frozenset()) | frozenset(self._known)
            self._head, self._known, self._visible = 0, {}, []
        self._version = version
        if head > self._head:
            self._note(self.thread.messages(after=self._head - 1))
        if self._old is None:
            self._old = frozenset(self._known)

    def _note(self, entries: Sequence[StoredEntry]) -> None:
        for stored in entries:
            self._head = max(self._head, stored.position + 1)
            if not stored.hidden and not stored.deleted:
                self._visible.append(stored.position)
            if stored.message.id:
                self._known[stored.message.id] = (stored.position, _print_of(stored.message))

    def _rewrite(self, changed: Sequence[Any]) -> None:
        if not changed:
            return
        row = self.thread.row
        assert row is not None
        bodies: dict[int, NewEntry | None] = {}
        for m in changed:
            with suppress(InvalidMessage):  # the saver keeps what we have no form for, and tells its text
                bodies[self._known[m.id][0]] = self.memory.new_entry(from_langchain(m))
        if bodies:
            self.memory.store.rewrite(row, bodies, time.time())
            self.memory.store.scrub()
            row = self.thread.row
            self._version = self._version if row is None else row.content_version
        for m in changed:
            self._known[m.id] = (self._known[m.id][0], print_of(m))

    def _leave_branch(self, last: int, common: frozenset[int]) -> None:
        """Hide what stands behind the newest message that the state still has."""
        left = [p for p in self._visible[bisect_left(self._visible, last + 1) :] if p not in common]
        if left:
            self.thread.hide(left)
            gone = frozenset(left)
            self._visible = [p for p in self._visible if p not in gone]

    # ------------------------------------------------------------------------------------------ the summary
    def load(self) -> Made | None:
        """The thread's summary in positions of a list of the visible messages."""
        if self.encrypted:
            return None
        self._read_on()
        found = self.thread.summary
        if found is None:
            return None
        visible = self._visible
        upto = bisect_left(visible, found.upto)
        by_position = dict(self._known.values())
        prints = {rank: by_position[p] for rank, p in enumerate(visible[:upto]) if p in by_position}
        return Made(_moved(found, lambda position: bisect_left(visible, position)), prints)

    def place(self, messages: Sequence[Any], offset: int, upto: int) -> Place | None:
        """How positions of a list are told in the transcript; None if that does not have all of them, word for word.

        Args:
            messages: the list.
            offset: how many messages had been pruned before it.
            upto: the index up to which they are asked for.
        """
        if self.encrypted:
            return None
        self._read_on()
        known = [self._known.get(m.id) for m in messages]
        visible, head = list(self._visible), self._head
        if offset > len(visible) or not all(
            one is not None and agree(one[1], print_of(m))
            for one, m in zip(known[: max(0, upto)], messages, strict=False)
        ):
            return None

        def position(at: int) -> int:
            found = known[at - offset] if 0 <= at - offset < len(known) else None
            return found[0] if found is not None else visible[at] if 0 <= at < len(visible) else head

        return position

    def words(self, source: str) -> Summary | None:
        """The summary of this source, as the thread still has it; None where what it was made from is gone."""
        row = None if self.encrypted else self.thread.row
        if row is None:
            return None
        active = self.memory.store.summary(row)
        found = [active] if active is not None and active.source == source else self.thread.compactions()
        return next((one for one in reversed(found) if one.source == source and one.text), None)

    def base(self, upto: int) -> Base | None:
        """What must still stand when a summary of the entries below a position is swapped in."""
        row = self.thread.row
        return None if row is None else self.memory.store.base_of(row, upto)

    def save(self, made: Summary, place: Place, base: Base, calls: Sequence[Call]) -> bool:
        """Put a summary in use, with the calls that it took; False if what it was made from has changed."""
        placed = msgspec.structs.replace(_moved(made, place), base=base.summary)
        return self.memory.store.swap_summary(self.thread.key, base, placed, time.time(), calls) is not None

    def note(self, calls: Sequence[Call]) -> bool:
        """Rows for the ledger; False where the thread is not there yet."""
        if self.thread.row is None:
            return False
        self.memory.store.note_calls(self.thread.key, calls, time.time())
        return True


def _print_of(stored: Message) -> Print:
    """The print of a message of ours as LangChain spells it; of what we have no whole form for only its text."""
    plain = print_of(stored)
    return plain if plain[2] is not None or "value" in stored.meta else print_of(to_langchain(stored))


def end_of(place: Place, upto: int) -> int:
    """The position behind the last message below an end."""
    return place(upto - 1) + 1 if upto > 0 else 0


def _moved(summary: Summary, place: Place) -> Summary:
    """A summary in other positions."""

    def fact(given: Fact) -> Fact:
        return msgspec.structs.replace(given, position=place(given.position) if given.position >= 0 else -1)

    return msgspec.structs.replace(
        summary,
        start=place(summary.start) if summary.start > 0 else 0,
        upto=end_of(place, summary.upto),
        since=end_of(place, summary.since),
        covered=tuple((place(a), end_of(place, b)) for a, b in summary.covered),
        held=tuple(place(p) for p in summary.held),
        facts=tuple(map(fact, summary.facts)),
        lost=tuple(map(fact, summary.lost)),
    )
