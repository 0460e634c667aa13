"""What a store promises: one class, short transactions, the same suite for every engine.

A store keeps threads. Every statement begins with the thread's key, a keyed hash of owner and thread id, so no id can
reach another owner's rows, and the schema can be spread over machines. The promises:

- what a method returned for is on disk; what it raised for changed nothing;
- positions of a thread are 0, 1, 2, ... without a gap, in the order of commits, never of a clock;
- an entry's position, role and sums never change; only deleting, redacting and erasing replace a body;
- who may write is decided by the thread's epoch: `begin` raises it, and a writer that holds an older one is refused
  (`LeaseLost`), whatever clocks say. The lease only decides who may try.

Moments are given by the caller, in seconds since 1970. Stores read no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from novelo.messages import Message


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread's facts.

    `running` are the tokens of all entries, `turns` the user messages, `opening` the system messages at the head;
    positions below `fork_at` are the parent's entries.
    """

    key: bytes
    owner: str
    thread_id: str
    head: int = 0
    turns: int = 0
    opening: int = 0
    running: int = 0
    epoch: int = 0
    holder: str = ""
    lease_until: float = 0.0
    open_turn: int | None = None
    status: str = "active"
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    content_version: int = 0
    parent: bytes | None = None
    fork_at: int = 0
    hidden: bool = False
    pinned: bool = False
    created: float = 0.0
    updated: float = 0.0


class NewEntry(msgspec.Struct, frozen=True):
    """A message to be appended, with its token count and the words it is found by."""

    message: Message
    tokens: int = 0
    words: str = ""


class StoredEntry(msgspec.Struct, frozen=True):
    """A message at its place in the transcript.

    `turn` counts the user messages up to it; `running` the tokens of all entries up to and with it. A deleted entry
    keeps its place and has an empty message.
    """

    position: int
    message: Message
    turn: int = 0
    tokens: int = 0
    running: int = 0
    created: float = 0.0
    hidden: bool = False
    deleted: bool = False

    @property
    def id(self) -> str:
        """The message's own id, or "#" and its position."""
        return self.message.id or f"#{self.position}"

    @property
    def role(self) -> str:
        """The message's role."""
        return self.message.role

    @property
    def content(self) -> Any:
        """The message's content."""
        return self.message.content

    @property
    def text(self) -> str:
        """The message's visible text."""
        return self.message.text

    @property
    def partial(self) -> bool:
        """Whether this is an answer that was cut off."""
        return bool(self.message.meta.get("partial"))


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One model call in the ledger; `estimated` where the provider reported nothing and the counts are ours."""

    purpose: str = "reply"
    model: str | None = None
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    latency_s: float | None = None
    first_token_s: float | None = None
    estimated: bool = False
    raw: dict[str, Any] = {}
    turn: int | None = None
    created: float = 0.0


class TurnRow(msgspec.Struct, frozen=True):
    """One turn.

    `first` is the position of its question, `last` of its newest entry; status open, done, failed, interrupted,
    or waiting.
    """

    first: int
    last: int
    status: str
    key: str | None = None
    epoch: int = 0
    created: float = 0.0
    manifest: bytes | None = None


class Lease(msgspec.Struct, frozen=True):
    """Who wants to write, until when; `alive` tells whether the holder of another lease still runs on this machine."""

    holder: str
    ttl_s: float
    now: float
    alive: Any = None


class Begun(msgspec.Struct, frozen=True):
    """What `begin` did: the thread as it is now, the turn's row and epoch, and the state.

    `replayed`: the key's turn is done, nothing was written. `rejoined`: the turn of this key was taken over where it
    stopped.
    """

    thread: ThreadRow
    turn: TurnRow
    state: dict[str, Any]
    replayed: bool = False
    rejoined: bool = False


class Busy(msgspec.Struct, frozen=True):
    """`begin` was refused, since another turn is open; nothing was written. `same_key`: it is that key's own turn."""

    holder: str
    lease_until: float
    same_key: bool = False


class Close(msgspec.Struct, frozen=True):
    """How a turn ends, or pauses ("waiting"), in the same transaction as its last step."""

    status: str
    manifest: bytes | None = None


class Hit(msgspec.Struct, frozen=True):
    """A found message, the best first."""

    entry: StoredEntry
    score: float
    thread_id: str = ""
    owner: str = ""

    @property
    def text(self) -> str:
        """The message's visible text."""
        return self.entry.text


class Receipt(msgspec.Struct, frozen=True):
    """What an erasure removed: rows by kind, never content.

    `pending`: traces are still in the write-ahead log, since a reader holds it; they go at the next erasure or close.
    `beyond` names what no program here can reach.
    """

    rows: dict[str, int]
    forks: tuple[str, ...] = ()
    pending: bool = False
    beyond: tuple[str, ...] = ("backups and copies made outside of this program",)


class Store(Protocol):
    """See the top of the file. `key` is always a thread's key, as `key_of` makes it."""

    def key_of(self, owner: str, thread_id: str) -> bytes:
        """The thread's key: 16 bytes of a hash keyed with the database's secret."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...

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
        """Open a turn with its question, in one transaction.

        Args:
            names: owner and thread id, for a thread that is new.
            idempotency: the caller's key and the hash of the request.
            mode: "interrupt" takes over from a live turn; anything else is told `Busy`.
            hide_from: a position; it and all that follows is hidden before the question is written.
        Raises:
            KeyConflict: the key belongs to another request.
        """
        ...

    def reopen(self, key: bytes, first: int, lease: Lease, *, mode: str) -> Begun | Busy:
        """Take up a waiting, failed or interrupted turn again, under a new epoch; what it was cut off in is hidden.

        A user message at the end that no turn began with (an edited one, the last of a fork) becomes a turn likewise.

        Raises:
            UnknownEntry: no such turn or message.
            TurnClosed: the turn is done, or another turn came after it.
        """
        ...

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
        """Append a step to the open turn `first`, and close the turn with it if so told.

        Returns:
            The position of the first new entry.
        Raises:
            LeaseLost: a newer turn has taken the thread over. ThreadErased: the thread is gone. TurnClosed: the turn
                is. Nothing was written.
        """
        ...

    def keep_draft(self, key: bytes, epoch: int, first: int, draft: NewEntry | None, lease_until: float) -> bool:
        """Renew the lease, and keep what was streamed so far, in case this process dies. False: lease lost."""
        ...

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
        """Append messages outside of a turn: a greeting, an imported history. Returns the position of the first.

        Args:
            created: the times they had, if not now.
            hide_from: a position; it and all that follows is hidden in the same transaction.
        """
        ...

    # ------------------------------------------------------------------------------------------ reading
    def thread(self, key: bytes) -> ThreadRow | None:
        """The thread's facts; None if there is no such thread."""
        ...

    def state(self, key: bytes) -> dict[str, Any]:
        """The thread's custom state."""
        ...

    def tail(self, thread: ThreadRow, before: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries below a position, newest first; without the hidden and deleted ones unless asked for."""
        ...

    def range(self, thread: ThreadRow, start: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries from a position on, oldest first; likewise."""
        ...

    def find(self, thread: ThreadRow, ids: Sequence[str]) -> dict[str, int]:
        """Positions of entries by their message's id."""
        ...

    def turns(self, key: bytes, limit: int = 200, before: int | None = None) -> list[TurnRow]:
        """Turns, newest first."""
        ...

    def calls(self, key: bytes | None, owner: str | None = None) -> list[tuple[str, str, Call]]:
        """The ledger of a thread, an owner or all: owner, thread id, call."""
        ...

    def pins(self, key: bytes) -> list[int]:
        """Pinned positions."""
        ...

    def threads(
        self, *, owner: str | None, search: str | None, tag: str | None, limit: int, cursor: tuple[float, bytes] | None
    ) -> list[ThreadRow]:
        """Threads, the last used first."""
        ...

    def search(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> list[Hit]:
        """Messages that hold all the folded words."""
        ...

    # ------------------------------------------------------------------------------------------ changing what is there
    def set_facts(self, key: bytes, names: tuple[str, str], now: float, **facts: Any) -> None:
        """Set title, tags, metadata, state or status; `patch` sets single keys of the state, `without` removes one."""
        ...

    def pin(self, key: bytes, positions: Sequence[int], on: bool) -> None:
        """Pin or unpin positions."""
        ...

    def hide(self, key: bytes, ranges: Sequence[tuple[int, int]], on: bool, now: float) -> None:
        """Take half-open ranges out of contexts, or back in."""
        ...

    def rewrite(self, thread: ThreadRow, bodies: dict[int, NewEntry | None], now: float) -> int:
        """Replace entries' bodies (redaction), or remove them (None: deletion); what was derived from them goes too."""
        ...

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position, without a copy."""
        ...

    def erase(self, key: bytes, now: float, *, forks: str = "erase") -> Receipt:
        """Remove a thread for good; a late writer cannot revive it."""
        ...
