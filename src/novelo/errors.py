"""Every error Novelo raises.

    NoveloError
    ├── InvalidSpec (ValueError)         a policy, size or option that makes no sense
    ├── InvalidMessage (ValueError)      something that is no message, or cannot be stored as one
    ├── InvalidHistory (ValueError)      messages that came in break a rule and could not be mended
    ├── InvalidContext                   messages we built break a rule: a fault of ours or of a custom policy
    ├── ContextTooSmall                  the least valid context is larger than the budget
    ├── ImportFailed (ValueError)        a file that cannot be read; nothing was imported
    ├── MissingExtra (ImportError)       an optional dependency is needed and not installed
    ├── ModelFailed                      a model refused, failed, or timed out
    ├── SummaryFailed                    a summarizer gave no summary; the thread is as it was
    ├── LimitReached                     a limit of tokens or money is used up; nothing was asked
    ├── AccessDenied (PermissionError)   another owner's, asked of a memory that was opened for one
    └── StoreError
        ├── ThreadBusy                   another turn of the thread is open
        ├── LeaseLost                    a newer turn has taken the thread over; nothing was stored
        ├── ConcurrentTurnError          a graph's checkpoint came after another run had moved the thread on
        ├── KeyConflict (ValueError)     the idempotency key was used for another request
        ├── TurnClosed                   the turn has been closed or never began
        ├── ThreadErased                 the thread was erased while this handle was open
        ├── ThreadHeld                   a legal hold forbids to remove anything of the thread
        ├── UnknownEntry (LookupError)   no such entry, turn or position in this thread
        ├── IndexMismatch                the vectors in an index are of another embedding model
        ├── KeyRefused (ValueError)      the key of an encrypted database is missing, or is another one
        ├── StorageFull, StorageReadOnly, StorageUnavailable
        ├── StorageCorrupt
        │   └── Undecipherable           something encrypted was altered or moved, or something is not encrypted
        └── SchemaTooNew                 the database was written by a newer version

Texts name ids and numbers, never what was said in a message; the same facts are attributes.
"""

from __future__ import annotations

from typing import Any


class NoveloError(Exception):
    """The root of the family; keyword facts become attributes."""

    def __init__(self, text: str = "", **facts: Any) -> None:
        super().__init__(text or (type(self).__doc__ or "").strip())
        for name, value in facts.items():
            setattr(self, name, value)


class InvalidSpec(NoveloError, ValueError):
    """A policy, size or option makes no sense."""


class AccessDenied(NoveloError, PermissionError):
    """Something of another owner, or of all, was asked of a memory that was opened for one owner."""


class InvalidMessage(NoveloError, ValueError):
    """A value is no message, or cannot be stored as one."""


class InvalidHistory(NoveloError, ValueError):
    """The messages that came in break a rule and could not be mended."""


class InvalidContext(NoveloError):
    """The context that was built would be refused by the provider."""


class ContextTooSmall(NoveloError):
    """The least valid context is larger than the token budget."""

    needed: int
    budget: int


class ImportFailed(NoveloError, ValueError):
    """A file cannot be imported; nothing of it was."""


class MissingExtra(NoveloError, ImportError):
    """An optional dependency is needed and not installed."""


class ModelFailed(NoveloError):
    """The model refused, failed or timed out."""

    status: int | None = None  # of HTTP
    code: str | None = None  # the provider's word for it
    retryable: bool = False  # the same request may pass later
    overflow: bool = False  # the context was too long: a shorter one may pass


class SummaryFailed(NoveloError):
    """The summarizer gave no summary that can be used; the thread is as it was."""

    reason: str = ""  # in a word or two: empty, a refusal, too long, ...


class LimitReached(NoveloError):
    """A limit of tokens or money is used up; nothing was stored and no model was asked."""

    limit: str = ""  # as it was given


class StoreError(NoveloError):
    """The store could not do what was asked; nothing was changed."""


class ThreadBusy(StoreError):
    """Another turn of the thread is open."""


class LeaseLost(StoreError):
    """A newer turn has taken the thread over; nothing was stored."""


class ConcurrentTurnError(StoreError):
    """Another run has moved the thread on; nothing was stored. Read the newest state and run again."""


class KeyConflict(StoreError, ValueError):
    """The idempotency key was used for another request."""


class TurnClosed(StoreError):
    """The turn is closed, or was never begun."""


class ThreadErased(StoreError):
    """The thread was erased."""


class ThreadHeld(StoreError):
    """A legal hold forbids to remove anything of the thread; nothing was removed."""

    reason: str = ""  # as it was given with the hold
    since: float = 0.0  # seconds since 1970


class UnknownEntry(StoreError, LookupError):
    """There is no such entry in this thread."""


class IndexMismatch(StoreError):
    """The vectors in an index are of another embedding model: they cannot be compared."""

    found: str = ""  # the model of the index
    wanted: str = ""


class StorageFull(StoreError):
    """The disk is full; nothing was stored. Free some space and try again."""


class StorageReadOnly(StoreError):
    """The database cannot be written."""


class StorageCorrupt(StoreError):
    """The database holds something that was not written by us, or was altered."""


class Undecipherable(StorageCorrupt):
    """Something encrypted was altered, moved or stripped of its encryption, or its key was destroyed."""


class KeyRefused(StoreError, ValueError):
    """The key of an encrypted database is missing, or is another one; nothing was read."""


class StorageUnavailable(StoreError):
    """The database cannot be opened or reached."""


class SchemaTooNew(StoreError):
    """The database was written by a newer version of Novelo."""
