"""What a store promises about removing: erasure with receipts, holds that forbid it, retention, and the audit of all.

- A removal is one transaction: the fence first, then rows, what was made from them, and the row of the audit.
- A hold on a thread, or on its owner, refuses every removal (`ThreadHeld`), whoever asks for it.
- The audit names no person and no word of a conversation: who acted, when, what, on which key, how many rows, and why.
  Each row's `chain` is a hash over the row and the chain before it, keyed with the store's secret: a row that was
  altered, or taken out of the middle, is found.
- What a thread had spent stays in its owner's limits after it: sums of hours, in `spent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from novelo.stores.values import Found, NewEntry, Receipt, ThreadRow


class Gone(msgspec.Struct, frozen=True):
    """What a removal is about to take, for a ledger outside of the database.

    `kind` is thread, messages, pattern, text or collection, `born` when the thread was made, `places` are the positions
    of entries whose content goes or is masked, in the thread of this key.
    """

    key: bytes
    kind: str
    now: float
    born: float = 0.0
    places: tuple[int, ...] = ()


Hook = Callable[[Gone], None]


class Note(msgspec.Struct, frozen=True):
    """Who removes, and why; both go into the audit, so that neither may name a person who is spoken of.

    `why` is a rule of retention, or a word of the operator's such as a case number.
    """

    who: str = ""
    why: str = ""


class Hold(msgspec.Struct, frozen=True):
    """A thread (or an owner, by the hash of the name) that must not be removed from."""

    scope: bytes
    since: float
    reason: str = ""
    owner: bool = False


class AuditRow(msgspec.Struct, frozen=True):
    """One act: `action` is erase, messages, pattern, text, collection, owner, hold, release, hold owner, release owner.

    `scope` is the key of a thread or collection, or the hash of an owner; `counts` are rows by kind.
    """

    number: int
    at: float
    who: str
    action: str
    scope: bytes
    counts: dict[str, int]
    why: str = ""


class Standing(msgspec.Struct, frozen=True):
    """A thread as rules of retention see it, with the summary whose covered texts went (0: none), and its own term."""

    row: ThreadRow
    dropped: int = 0
    expires: float | None = None


class Cut(msgspec.Struct, frozen=True):
    """Which threads rules may take: last used, or made, before a moment (0: never), closed, or at their own term."""

    now: float
    idle: float = 0.0
    age: float = 0.0
    closed: bool = False


class Traces(NamedTuple):
    """What is still there after a removal, in words.

    `waits` goes by itself, `gaps` when something is written over it, and `copies` when nobody keeps them any more.
    """

    waits: tuple[str, ...]
    gaps: tuple[str, ...]
    copies: tuple[str, ...]


class Changed(int):
    """How many entries were changed; `receipt` tells the rest."""

    receipt: Receipt

    def __new__(cls, count: int, receipt: Receipt) -> Changed:
        """A number with a receipt."""
        made = super().__new__(cls, count)
        made.receipt = receipt
        return made


NOBODY = Note()


class PrivacyStore(Protocol):
    """The removing part of a store."""

    on_erased: Hook | None  # told inside of each removal's transaction, before it is stored; if it raises, nothing goes

    def owner_key(self, owner: str) -> bytes:
        """What holds, sums and the audit name an owner by: 16 bytes of a hash keyed with the store's secret."""
        ...

    def scrub(self) -> bool:
        """See to it that nothing of what was removed is left in any file; False if a reader is in the way."""
        ...

    def vacuum(self, full: bool = False) -> bool:
        """Rewrite what holds gaps; False if a reader is in the way.

        Args:
            full: also where that keeps everybody else waiting (PostgreSQL's VACUUM FULL).
        """
        ...

    def key_destroyed(self, key: bytes) -> bool:
        """Whether an erasure destroyed the key that a thread was encrypted with; told once."""
        ...

    def traces(self, clean: bool, vacuumed: str) -> Traces:
        """What is still there after a removal, in words: what will go, and what cannot be reached from here.

        Args:
            clean: what `scrub` or `vacuum` gave.
            vacuumed: "", "plain" or "full".
        """
        ...

    # ------------------------------------------------------------------------------------------ removing
    def rewrite(
        self,
        thread: ThreadRow,
        bodies: dict[int, NewEntry | None],
        now: float,
        *,
        note: Note = NOBODY,
        mask: Callable[[str], str] | None = None,
    ) -> Changed:
        """Replace entries' bodies (redaction), or remove them (None: deletion), for good.

        Position, role and sums stay. Index rows are replaced, what manifests quote goes, and `content_version` rises in
        every thread that has the entry. A deleted entry stays deleted. Call `scrub` when all is done.

        Args:
            mask: is put over all else that is kept of the thread too: title, tags, metadata, state, drafts, manifests,
                summaries, and the checkpoints of graphs. A vault notes what it says it took out (`novelo.pattern`), or
                all of each text that it changed.
        Returns:
            How many entries were changed.
        Raises:
            ThreadHeld: a hold forbids it.
        """
        ...

    def erase(self, key: bytes, now: float, *, forks: str = "erase", note: Note = NOBODY) -> Receipt:
        """Remove a thread for good; a late writer cannot revive it.

        Args:
            forks: "erase" removes what forks shared with it there too; "keep" moves that to them.
        Raises:
            ThreadHeld: a hold forbids it.
        """
        ...

    def forget_owner(self, owner: str, now: float, counts: dict[str, int], note: Note = NOBODY) -> Receipt:
        """Remove what is kept of an owner beside threads and collections, and note that all is gone.

        Args:
            counts: what was removed before, for the audit.
        """
        ...

    # ------------------------------------------------------------------------------------------ holds
    def hold(self, scope: bytes, now: float, reason: str, note: Note = NOBODY, *, owner: str | None = None) -> None:
        """Forbid all removals from a thread, or from all threads of an owner.

        Args:
            scope: a thread's key, or `owner_key(owner)`.
        Raises:
            UnknownEntry: there is no such thread. InvalidSpec: a reason of more than 200 characters.
        """
        ...

    def release(self, scope: bytes, now: float, note: Note = NOBODY, *, owner: str | None = None) -> bool:
        """Allow them again; False: there was no hold."""
        ...

    def holds(self, scopes: Sequence[bytes] | None = None) -> list[Hold]:
        """Holds of some scopes, or all, the oldest first."""
        ...

    # ------------------------------------------------------------------------------------------ retention
    def standing(self, cut: Cut, after: bytes, limit: int) -> Found[Standing]:
        """Threads that rules may take, by key from behind one on; those that cannot be read are in `damaged`."""
        ...

    def weights(self, pieces: Sequence[tuple[bytes, int, int]]) -> dict[bytes, tuple[int, int]]:
        """Messages that have content, and the bytes of them, by thread; of own entries in a range of positions each."""
        ...

    def erase_due(self, due: Sequence[tuple[ThreadRow, Note]], now: float) -> list[tuple[ThreadRow, Receipt]]:
        """Remove threads that nobody has used since they were read, in one transaction; forks keep what they share.

        What is held, was used or is gone meanwhile is passed over. A receipt names the forks that stay: those that go
        in the same transaction have receipts of their own. Call `scrub` when all is done.
        """
        ...

    def drop_texts(self, row: ThreadRow, now: float, note: Note = NOBODY) -> Receipt | None:
        """Remove the texts that the summary in use covers, and keep it: contexts go on with it.

        Behind the opening; what a fork shares stays. None: it is held, was used meanwhile, or has no summary.
        """
        ...

    def set_term(self, key: bytes, expires: float | None) -> None:
        """When retention takes the thread, whatever the rules say; None: when they do."""
        ...

    def once_in(self, name: str, now: float, pause_s: float) -> bool:
        """Whether this is the first to ask in such a time, of all processes."""
        ...

    # ------------------------------------------------------------------------------------------ the audit
    def audit(self, limit: int = 100, before: int | None = None, scope: bytes | None = None) -> list[AuditRow]:
        """Acts, the newest first, below a number, of one scope or all."""
        ...

    def audit_check(self) -> tuple[int, list[int]]:
        """How many acts there are, and the numbers of those where the chain is broken."""
        ...
