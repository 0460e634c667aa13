"""What a store promises: one class, short transactions, the same suite for every engine.

A store keeps threads. Every statement begins with the thread's key, a keyed hash of owner and thread id, so no id can
reach another owner's rows, and the schema can be spread over machines. The promises:

- what a method returned for is on disk; what it raised for changed nothing, and the same call may be tried again;
- positions of a thread are 0, 1, 2, ... without a gap, in the order of commits, never of a clock;
- an entry's position, role and sums never change; only deleting, redacting and erasing replace a body;
- who may write is decided by the thread's epoch: `begin` raises it, and a writer that holds an older one is refused
  (`LeaseLost`), whatever clocks say. The lease only decides who may try.

- an entry, a fact, a turn or a ledger row that was altered outside of the store is an error to its reader
  (`StorageCorrupt`), never another text; other threads stay readable, and lists over many threads go on without it
  (on a server, which watches its own files, entries, ledger and texts of a thread have a seal, and its counts none).

A store may be used from several threads, and a file from several processes. Moments are given by the caller, in seconds
since 1970; entries keep milliseconds. Stores read no clock, except to wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from novelo.stores.documents import DocumentStore
from novelo.stores.privacy import AuditRow, Changed, Cut, Hold, Note, PrivacyStore, Standing
from novelo.stores.values import (
    BACKUPS,
    PARKED,
    Base,
    Begun,
    Busy,
    Close,
    Found,
    Hit,
    Job,
    Lease,
    NewEntry,
    Receipt,
    StoredEntry,
    ThreadRow,
    TurnRow,
    Work,
)
from novelo.summaries import Summary
from novelo.usage import Call, Spent

__all__ = [
    "BACKUPS",
    "PARKED",
    "VECTOR_REACH",
    "AuditRow",
    "Base",
    "Begun",
    "Busy",
    "Changed",
    "Close",
    "Cut",
    "Found",
    "Hit",
    "Hold",
    "Job",
    "Lease",
    "NewEntry",
    "Note",
    "Receipt",
    "Standing",
    "Store",
    "StoredEntry",
    "ThreadRow",
    "TurnRow",
    "Work",
]


VECTOR_REACH = 4  # entries before an entry that its vector may be made from


class Store(PrivacyStore, Protocol):
    """See the top of the file; removing stands in `privacy.py`. `key` is always a thread's key, as `key_of` makes it.

    Besides what a method names, any of them may raise `StorageFull`, `StorageReadOnly`, `StorageCorrupt`, or
    `StorageUnavailable` (closed, locked for too long, or not to be reached).
    """

    indexed: bool  # whether messages are put into the search index; without it search looks through the newest ones

    @property
    def documents(self) -> DocumentStore:
        """Collections of documents, in the same database."""
        ...

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
            mode: "interrupt" takes over from a live turn, "rollback" also hides what that turn had; anything else is
                told `Busy`.
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
        work: Sequence[Work] = (),
        lease_until: float = 0.0,
        holder: str = "",
    ) -> int:
        """Append a step (or nothing) to the open turn `first`, and close the turn with it if so told; all or nothing.

        Args:
            epoch: of `Begun.turn`: it must still be the thread's.
            state: the thread's custom state as a whole, if it changed.
            calls: rows of the ledger.
            work: jobs that are due with it.
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

    def spent(self, key: bytes | None, owner: str, since: float) -> Spent:
        """What a thread, or (without a key) all threads of an owner have spent since a moment; 0 is ever."""
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

    def holding(self, thread: ThreadRow, start: str, same: Callable[[str], bool], before: int, limit: int) -> list[int]:
        """Where a word stands: positions below one, in no order, of visible messages; of a fork what it shares too.

        Only for stores that are `indexed`.

        Args:
            start: how the word begins, in the form of the index (`NewEntry.words`).
            same: tells of a word that begins so whether it is meant.
            limit: at most about so many, the newest.
        """
        ...

    # ------------------------------------------------------------------------------------------ vectors of messages
    def unembedded(self, thread: ThreadRow, model: str, limit: int) -> list[int]:
        """The newest positions of the thread's own entries without a vector of a model, newest first."""
        ...

    def put_vectors(self, key: bytes, model: str, base: Base, vectors: Mapping[int, bytes]) -> bool:
        """Keep vectors of the thread's own entries, if what they were made from still stands; False: it does not.

        What hides, deletes or masks an entry removes its vector, and those of the `VECTOR_REACH` entries behind it, in
        the same transaction: a vector may be made from an entry and some before it.

        Args:
            base: as `base_of` gives it for the thread as it was read; its summary is of no meaning.
            vectors: packed, by position; empty where an entry says nothing to be found by.
        """
        ...

    def vectors(self, thread: ThreadRow, model: str, limit: int) -> list[tuple[int, bytes]]:
        """Position and vector of the newest visible entries that have one of a model; of a fork what it shares too."""
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

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position, without a copy.

        Title, tags, metadata, state, and what is hidden or pinned below the position come along; turns and ledger do
        not.

        Raises:
            InvalidSpec: the key's thread is there already. ThreadErased: the parent is gone.
            UnknownEntry: the parent is not so long.
        """
        ...

    # ------------------------------------------------------------------------------------------ after the reply
    def summary(self, thread: ThreadRow) -> Summary | None:
        """The version that contexts use; None if there is none."""
        ...

    def summaries(self, key: bytes) -> list[Summary]:
        """All versions, oldest first; the one in use is marked active."""
        ...

    def base_of(self, thread: ThreadRow, upto: int) -> Base:
        """What a summary of the entries below a position stands on; read it in the snapshot of those entries."""
        ...

    def swap_summary(
        self, key: bytes, base: Base, made: Summary, now: float, calls: Sequence[Call] = ()
    ) -> Summary | None:
        """Put a new version in use, if what it was made from still stands; head and epoch stay as they are.

        Whatever hides, deletes or masks an entry below a summary's end makes the thread go back to the newest version
        of the same line that did not read it; what read something that was removed is removed too.

        Args:
            calls: rows of the ledger; they are noted also where the version is refused.
        Returns:
            The version with its number; None if another one is in use by now, or entries were hidden or changed.
        """
        ...

    def note_calls(self, key: bytes, calls: Sequence[Call], now: float) -> None:
        """Rows of the ledger for calls between turns; nothing if the thread is gone."""
        ...

    def ask(self, key: bytes, work: Work, now: float) -> None:
        """A job is wanted. Asked for again it is done once; a failed one keeps its pause, a parked one is due late."""
        ...

    def claim(
        self, lease: Lease, limit: int = 1, key: bytes | None = None, kinds: Collection[str] | None = None
    ) -> list[Job]:
        """Jobs that are due, ours until the lease lapses; with a key, that thread's whether due or not.

        `lease.holder` must be another one for each claim.

        Args:
            kinds: only jobs of these kinds; None is all.
        """
        ...

    def renew(self, job: Job, until: float) -> bool:
        """A longer lease; False: the job is not ours any more."""
        ...

    def finish(self, job: Job, now: float) -> bool:
        """A job is done; False: it was asked for again meanwhile, and is due at once."""
        ...

    def put_off(self, job: Job, due: float, error: str) -> None:
        """A job failed and is due later, or never (`PARKED`)."""
        ...

    def jobs(self, key: bytes | None = None) -> list[Job]:
        """All jobs, of one thread or of all, the next due first."""
        ...

    def next_due(self, kinds: Collection[str] | None = None) -> float | None:
        """When the next job, of one of some kinds or of any, can be claimed; None if there is none."""
        ...
