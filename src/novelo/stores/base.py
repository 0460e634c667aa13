"""What a store promises: one class, short transactions, the same suite for every engine.

A store keeps threads. Every statement begins with the thread's key, a keyed hash of owner and thread id, so no id can
reach another owner's rows, and the schema can be spread over machines. The promises:

- what a method returned for is on disk; what it raised for changed nothing, and the same call may be tried again;
- positions of a thread are 0, 1, 2, ... without a gap, in the order of commits, never of a clock;
- an entry's position, role and sums never change; only deleting, redacting and erasing replace a body;
- who may write is decided by the thread's epoch: `begin` raises it, and a writer that holds an older one is refused
  (`LeaseLost`), whatever clocks say. The lease only decides who may try.

- an entry, a fact, a turn or a ledger row that was altered outside of the store is an error to its reader
  (`StorageCorrupt`), never another text; other threads stay readable, and lists over many threads go on without it.

A store may be used from several threads, and a file from several processes. Moments are given by the caller, in seconds
since 1970; entries keep milliseconds. Stores read no clock, except to wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from novelo.messages import Message
from novelo.usage import Call

T = TypeVar("T")


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread's facts.

    `head` is the number of entries, `running` their tokens, `turns` the user messages, `opening` the system messages at
    the head. `open_turn` is the position of the question of an open or waiting turn; a waiting one has no lease.
    `status` is active, or closed until the next turn. `content_version` rises with every entry that is deleted or
    redacted. Positions below `fork_at` are the parent's entries. `hidden` and `pinned` tell whether there are any.
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
    """A message to be appended, with its token count and the words it is found by (`stores.search.fold`)."""

    message: Message
    tokens: int = 0
    words: str = ""


class StoredEntry(msgspec.Struct, frozen=True):
    """A message at its place in the transcript.

    `turn` counts the user messages up to it, 0 before the first; `running` the tokens of all entries up to and with it.
    A deleted entry keeps its place, role and sums, and has an empty message.
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


class TurnRow(msgspec.Struct, frozen=True):
    """One turn.

    `first` is the position of its question, `last` of its newest entry; status open, done, failed, interrupted (also
    when its writer died), or waiting. `key` is the idempotency key.
    """

    first: int
    last: int
    status: str
    key: str | None = None
    epoch: int = 0
    created: float = 0.0
    manifest: bytes | None = None


class Lease(msgspec.Struct, frozen=True):
    """Who wants to write, and for how long.

    `alive` tells of the holder of another lease whether it may still run (True if that cannot be known); it must be
    quick and not raise. A lease that lapsed, that ends later than its time to live allows (a wrong clock), or whose
    holder is dead, is void.
    """

    holder: str
    ttl_s: float
    now: float
    alive: Callable[[str], bool] | None = None


class Begun(msgspec.Struct, frozen=True):
    """What `begin` did: the thread as it is now, the turn's row and epoch, and the custom state.

    `replayed`: the key's turn is done, nothing was written; the reply stands at `turn.first` to `turn.last`.
    `rejoined`: an unfinished turn of this key was taken over. It goes on where it stopped, the question is not appended
    again, and an answer that was cut off is hidden; if later messages stand between, all it had is hidden and the
    question is asked anew at the end.
    """

    thread: ThreadRow
    turn: TurnRow
    state: dict[str, Any]
    replayed: bool = False
    rejoined: bool = False


class Busy(msgspec.Struct, frozen=True):
    """Nothing was written, since a turn is open whose lease holds. `same_key`: it is the turn of the key itself."""

    holder: str
    lease_until: float
    same_key: bool = False


class Close(msgspec.Struct, frozen=True):
    """How a turn ends (done, failed, interrupted) or pauses (waiting), in the same transaction as its last step."""

    status: str
    manifest: bytes | None = None


class Hit(msgspec.Struct, frozen=True):
    """A found message, the best first; `spans` are where the words stand in its text, (start, stop) in characters."""

    entry: StoredEntry
    score: float
    thread_id: str = ""
    owner: str = ""
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        """The message's visible text."""
        return self.entry.text


class Found(list[T]):
    """What was found over many threads; `damaged` tells, a sentence each, of rows that were left out as altered."""

    def __init__(self, rows: Iterable[T] = (), damaged: Iterable[str] = ()) -> None:
        super().__init__(rows)
        self.damaged: list[str] = list(damaged)


class Receipt(msgspec.Struct, frozen=True):
    """What an erasure removed: rows by kind, never content; `forks` are the thread ids of the forks that it touched.

    `pending`: traces are still in the files, since a reader holds the log or the disk is full; they go with the next
    `scrub`, or when the store is closed and opened again.
    `beyond` names what no program here can reach.
    """

    rows: dict[str, int]
    forks: tuple[str, ...] = ()
    pending: bool = False
    beyond: tuple[str, ...] = ("backups and copies made outside of this program",)


class Store(Protocol):
    """See the top of the file. `key` is always a thread's key, as `key_of` makes it.

    Besides what a method names, any of them may raise `StorageFull`, `StorageReadOnly`, `StorageCorrupt`, or
    `StorageUnavailable` (closed, locked for too long, or not to be reached).
    """

    indexed: bool  # whether messages are put into the search index; without it search looks through the newest ones

    def key_of(self, owner: str, thread_id: str) -> bytes:
        """The thread's key: 16 bytes of a hash of owner and thread id, keyed with the database's secret.

        Texts are taken as they are: other case or other composition of accents is another thread.

        Raises:
            InvalidSpec: no text, an empty thread id, more than 1000 characters, half a surrogate pair.
        """
        ...

    def close(self) -> None:
        """Close all connections; the last one of a file leaves no log behind."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads of this thread of execution inside `with store.snapshot():` see one state of the store; no writes."""
        ...

    def scrub(self) -> bool:
        """See to it that nothing of what was removed is left in any file; False if a reader is in the way."""
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

        A turn whose writer is gone is closed as interrupted, and so is a waiting one; what it was streaming when it
        died (`keep_draft`) joins the transcript. Under the id of an erased thread a new one begins, above its epochs.

        Args:
            names: owner and thread id, for a thread that is new.
            idempotency: the caller's key (1 to 1000 characters) and the hash of the request.
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
        """Append a step (or nothing) to the open turn `first`, and close the turn with it if so told; all or nothing.

        Args:
            epoch: of `Begun.turn`: it must still be the thread's.
            state: the thread's custom state as a whole, if it changed.
            calls: rows of the ledger.
            lease_until, holder: the renewed lease; of no meaning with `close`.
        Returns:
            The position of the first new entry.
        Raises:
            LeaseLost: a newer turn has taken the thread over. TurnClosed: this turn is closed, or waits.
            ThreadErased: the thread is gone.
        """
        ...

    def keep_draft(self, key: bytes, epoch: int, first: int, draft: NewEntry | None, lease_until: float) -> bool:
        """Renew the lease, and keep what was streamed so far, in case this process dies; False: not our turn."""
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
        """Append messages outside of a turn: a greeting, an imported history; the fence is taken for one transaction.

        Args:
            created: the times they had, if not now.
            hide_from: a position; it and all that follows is hidden in the same transaction.
        Returns:
            The position of the first, or `Busy` while a turn is open. A turn that waits or was abandoned is closed as
            interrupted.
        """
        ...

    def reap(self, key: bytes, lease: Lease) -> bool:
        """Close an open turn whose writer is gone as interrupted; False if there is none."""
        ...

    # ------------------------------------------------------------------------------------------ reading
    def thread(self, key: bytes) -> ThreadRow | None:
        """The thread's facts; None if there is no such thread."""
        ...

    def state(self, key: bytes) -> dict[str, Any]:
        """The thread's custom state."""
        ...

    def tail(self, thread: ThreadRow, before: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries below a position, newest first; without the hidden and deleted ones unless asked for.

        At most `limit`, and fewer only at the thread's beginning. The cost does not depend on the thread's length.
        Entries that came after `thread` was read are not seen.

        Raises:
            ThreadErased: the thread was erased since `thread` was read.
        """
        ...

    def range(self, thread: ThreadRow, start: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries from a position on, oldest first; otherwise as `tail`."""
        ...

    def entries(self, thread: ThreadRow, positions: Sequence[int]) -> list[StoredEntry]:
        """The entries at some positions, in the order asked for, hidden and deleted ones too.

        Raises:
            UnknownEntry: a position that the thread does not have.
        """
        ...

    def find(self, thread: ThreadRow, ids: Sequence[str]) -> dict[str, int]:
        """Positions of entries by their message's id, the newest if an id stands twice; unknown ids are left out."""
        ...

    def turns(self, key: bytes, limit: int = 200, before: int | None = None) -> list[TurnRow]:
        """Turns that began in this thread (not in one that it forked from), newest first, below a position."""
        ...

    def calls(self, key: bytes | None, owner: str | None = None) -> list[tuple[str, str, Call]]:
        """The ledger of a thread, an owner or all: owner, thread id, call; oldest first in each thread."""
        ...

    def pins(self, key: bytes) -> list[int]:
        """Pinned positions, in order."""
        ...

    def threads(
        self, *, owner: str | None, search: str | None, tag: str | None, limit: int, cursor: tuple[float, bytes] | None
    ) -> Found[ThreadRow]:
        """Threads, the last used first; one whose row was altered is left out and told of in `damaged`.

        Args:
            owner, tag: only theirs; None is all.
            search: words of the title or the thread id, folded.
            cursor: `updated` and `key` of the last thread of the page before.
        """
        ...

    def search(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> Found[Hit]:
        """Messages that hold all the words (of `stores.search.query_words`): of a thread, an owner, or all.

        Of a fork only what was said in it. Without an index the newest 2000 messages are looked through. What was
        altered is left out and told of in `damaged`; in the search of one thread it is `StorageCorrupt`.
        """
        ...

    # ------------------------------------------------------------------------------------------ changing what is there
    def set_facts(self, key: bytes, names: tuple[str, str], now: float, **facts: Any) -> None:
        """Set title, tags, metadata, state or status (active, closed); makes the thread if it is new.

        Args:
            facts: `patch` (a dict) sets single keys of the state, `without` (a name) removes one.
        Raises:
            InvalidSpec: an unknown fact, or a value that cannot be stored as data.
        """
        ...

    def pin(self, key: bytes, positions: Sequence[int], on: bool) -> None:
        """Pin or unpin positions.

        Raises:
            UnknownEntry: there is no such thread.
        """
        ...

    def hide(self, key: bytes, ranges: Sequence[tuple[int, int]], on: bool, now: float) -> None:
        """Take half-open ranges of positions out of contexts, or back in; likewise."""
        ...

    def rewrite(self, thread: ThreadRow, bodies: dict[int, NewEntry | None], now: float) -> int:
        """Replace entries' bodies (redaction), or remove them (None: deletion), for good.

        Position, role and sums stay. Index rows are replaced, what manifests quote goes, and `content_version` rises in
        every thread that has the entry. A deleted entry stays deleted. Call `scrub` when all is done.

        Returns:
            How many entries were changed.
        """
        ...

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position, without a copy.

        Title, tags, metadata, state, and what is hidden or pinned below the position come along; turns and ledger do
        not.

        Raises:
            InvalidSpec: the key's thread is there already. ThreadErased: the parent is gone.
            UnknownEntry: the parent is not so long.
        """
        ...

    def erase(self, key: bytes, now: float, *, forks: str = "erase") -> Receipt:
        """Remove a thread for good; a late writer cannot revive it.

        Args:
            forks: "erase" removes what forks shared with it there too; "keep" moves that to them.
        """
        ...
