"""The removing half of a thread's handle: deletion, masking, erasure, holds, and its own term."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.errors import InvalidSpec
from novelo.masking import masked_message
from novelo.messages import Message
from novelo.pattern import MASK, Pattern
from novelo.retention import duration
from novelo.stores.base import Changed, Hold, NewEntry, Receipt, StoredEntry, ThreadRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from novelo.memory import Memory


class Removal:
    """What takes content out of a thread, for good."""

    memory: Memory
    owner: str
    thread_id: str
    key: bytes

    if TYPE_CHECKING:  # the keeping half, `Record`

        def _row(self) -> ThreadRow: ...

        def positions(self, ids: Any) -> list[int]:
            """The positions of entries."""

        def messages(self, after: int | None = None, limit: int | None = None) -> Sequence[StoredEntry]:
            """The transcript."""

        def _set(self, **facts: Any) -> None: ...

        @property
        def row(self) -> ThreadRow | None:
            """The thread's facts."""

        @property
        def metadata(self) -> dict[str, Any]:
            """Data of the application's own."""

    def delete(self, ids: Any, *, reason: str = "", vacuum: bool | str = False) -> Changed:
        """The content is physically gone, the place stays; a call that lost its result gets a made one in contexts.

        What was made of it goes too: summaries, vectors, index rows, quotes in manifests, states of graphs.

        Args:
            reason: for the audit; it must name nobody.
            vacuum: as in `erase`.
        Returns:
            How many entries were changed; its `receipt` says what went with them.
        Raises:
            ThreadHeld: a hold forbids it.
        """
        return self._rewrite(dict.fromkeys(self.positions(ids)), reason, vacuum)

    def redact(self, what: Any, *, reason: str = "", vacuum: bool | str = False) -> Changed:
        """Masks a pattern (a regular expression) in all that is kept of the thread, or the whole content of entries.

        A pattern is looked for in messages, title, tags, metadata, state, drafts, manifests, summaries and their facts,
        and in the states of graphs, with versions of messages that a graph has replaced since.

        Returns:
            How many entries were changed; its `receipt` says what else was.
        Raises:
            ThreadHeld: a hold forbids it.
        """
        if isinstance(what, (str, re.Pattern)):
            return self._redact_pattern(Pattern(what), reason, vacuum)
        entries = {p: self._at(p) for p in self.positions(what)}
        bodies = {p: self.memory.new_entry(_blank(e.message)) for p, e in entries.items() if not e.deleted}
        return self._rewrite(dict(bodies), reason, vacuum)

    def _redact_pattern(self, mask: Pattern, reason: str, vacuum: bool | str) -> Changed:
        bodies: dict[int, NewEntry | None] = {}
        for stored in self.messages():
            clean = masked_message(stored.message, mask)
            if clean is not stored.message:
                bodies[stored.position] = self.memory.new_entry(clean)
        return self._rewrite(bodies, reason, vacuum, mask)

    def _rewrite(
        self, bodies: dict[int, NewEntry | None], reason: str, vacuum: bool | str, mask: Pattern | None = None
    ) -> Changed:
        memory = self.memory
        done = memory.store.rewrite(self._row(), bodies, time.time(), note=memory.note(reason, vacuum), mask=mask)
        memory.forget(self.key)
        return Changed(done, memory.finished(done.receipt, vacuum))

    def _at(self, position: int) -> StoredEntry:
        found = self.memory.store.range(self._row(), position, 1, hidden=True)
        return found[0]

    def erase(self, *, forks: str = "erase", reason: str = "", vacuum: bool | str = False) -> Receipt:
        """Everything of the thread is gone for good, in every file; a late writer cannot revive it.

        What it has spent stays in the limits of its owner, as sums.

        Args:
            forks: what forks shared goes too ("erase"), or moves to them ("keep").
            reason: for the audit, such as the number of a request; it must name nobody.
            vacuum: True also rewrites the file without its gaps (SQLite), or has the server pass over dead rows
                (PostgreSQL); "full" has PostgreSQL write its tables anew, and keeps others waiting meanwhile.
        Raises:
            ThreadHeld: a hold forbids it.
        """
        if forks not in ("erase", "keep"):
            raise InvalidSpec(f"forks={forks!r}: expected 'erase' or 'keep'")
        memory = self.memory
        receipt = memory.store.erase(self.key, time.time(), forks=forks, note=memory.note(reason, vacuum))
        memory.forget(self.key)
        return memory.finished(receipt, vacuum, scrubbed=True)

    def close(self, *, delete: bool = False, reason: str = "") -> Receipt | None:
        """Nothing more is to be said: the thread is marked closed. It can be read, and a new turn opens it again.

        Args:
            delete: erase it, with the receipt; forks keep what they share. A rule such as "closed:0d" does so later.
        """
        if delete:
            return self.erase(forks="keep", reason=reason or "closed")
        if self.row is not None:
            self._set(status="closed", metadata={**self.metadata, "closed": time.time()})
        return None

    # ------------------------------------------------------------------------------------------ holds, terms
    def hold(self, reason: str | None = None) -> None:
        """A legal hold: nothing can be removed from the thread, by whomever, until it is released.

        Args:
            reason: such as the number of a case; at most 200 characters, and it must name nobody.
        Raises:
            UnknownEntry: there is no such thread.
        """
        self.memory.store.hold(self.key, time.time(), reason or "", self.memory.note())

    def release(self) -> bool:
        """Release the thread's own hold; False: there was none."""
        return self.memory.store.release(self.key, time.time(), self.memory.note())

    @property
    def held(self) -> Hold | None:
        """The hold on the thread, or on its owner."""
        found = self.memory.store.holds([self.key, self.memory.store.owner_key(self.owner)])
        return found[0] if found else None

    def expire_in(self, after: str | float | None) -> None:
        """A term of the thread's own: retention takes it that long from now, whatever the rules say; None: they say.

        Args:
            after: such as "30d", or seconds.
        """
        self._row()
        self.memory.store.set_term(self.key, None if after is None else time.time() + duration(after))


def _blank(message: Message) -> Message:
    calls = tuple(msgspec.structs.replace(c, arguments="{}", extra={}) for c in message.tool_calls)
    content = MASK if message.content is not None else None
    return Message(message.role, content, calls, message.tool_call_id, id=message.id, meta={"redacted": True})
