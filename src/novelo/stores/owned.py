"""A store of which one owner's threads alone can be reached.

A thread's key is a keyed hash of its owner and its id, so that nobody who has no key can name another owner's thread.
This holds it against whoever got hold of one: each call is looked at before it reaches the store, and what it does not
know is refused. On PostgreSQL the server may hold it too (docs/postgres.md, row-level security).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from novelo.errors import AccessDenied
from novelo.stores.base import Found, Hit, Job, Lease, ThreadRow
from novelo.stores.documents import Collection
from novelo.usage import Call, Spent

# Whose first argument is a key, a thread's row, or a job, and which look at nothing else than that says.
OF_THREAD = frozenset(
    [
        "thread", "state", "turns", "pins", "summaries", "tail", "range", "entries", "find", "holding", "unembedded",
        "vectors", "summary", "base_of", "reopen", "append", "keep_draft", "reap", "pin", "hide", "rewrite", "erase",
        "swap_summary", "note_calls", "ask", "put_vectors", "renew", "finish", "put_off", "drop_texts", "set_term"
    ]
)  # fmt: skip
NAMED = {"begin": 1, "add": 1, "set_facts": 1, "put": 1}  # where the owner and the thread's id stand, behind the key
OF_COLLECTION = frozenset(
    [
        "collection", "remove", "erase", "sources", "source", "chunks_of", "chunks", "find", "without_vector",
        "put_vectors", "drop_vectors", "vectors", "vector_numbers"
    ]
)  # fmt: skip
PLAIN = frozenset(["snapshot", "scrub", "close", "indexed", "vacuum", "traces", "key_destroyed"])
KNOWN = 4096  # keys whose owner is remembered


class _Owned:
    """What threads and collections have in common: calls that begin with a key of the owner's."""

    allowed: frozenset[str]

    def __init__(self, inner: Any, owner: str) -> None:
        self.inner, self.owner = inner, owner
        self._keys: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.inner).__name__})"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name in PLAIN:
            return found
        if name not in self.allowed and name not in NAMED:
            if callable(found):
                return self._refused(name)
            raise AccessDenied(f"{name} is of all owners: ask the memory that was opened for all")

        @wraps(found)
        def checked(first: Any, *args: Any, **more: Any) -> Any:
            self._check(first)
            if name in NAMED:
                self._check_names(first, *args[: NAMED[name]])
            return found(first, *args, **more)

        return checked

    def _refused(self, name: str) -> Callable[..., Any]:
        def refused(*args: Any, **more: Any) -> Any:
            raise AccessDenied(f"{name} is of all owners: ask the memory that was opened for all")

        return refused

    def key_of(self, owner: str, name: str) -> bytes:
        """The key of one of the owner's own.

        Raises:
            AccessDenied: another owner's.
        """
        self.same(owner)
        key: bytes = self.inner.key_of(owner, name)
        self._remember(key)
        return key

    def same(self, owner: str | None) -> str:
        """The owner, if it is that one or none is named."""
        if owner is not None and owner != self.owner:
            raise AccessDenied("this memory was opened for another owner")
        return self.owner

    def _check(self, first: Any) -> None:
        if isinstance(first, ThreadRow | Job | Collection):
            self.same(first.owner)
            first = first.key
        if not isinstance(first, bytes):
            raise AccessDenied(f"{type(first).__name__} names no thread")
        if first in self._keys:
            return
        if self._owner_of(first) != self.owner:
            raise AccessDenied("there is no such thread of this owner")
        self._remember(first)

    def _check_names(self, key: Any, names: Any) -> None:
        self.same(names[0])
        if self.inner.key_of(*names) != key:
            raise AccessDenied("the key belongs to another thread")

    def _owner_of(self, key: bytes) -> str | None:
        raise NotImplementedError

    def _remember(self, key: bytes) -> None:
        if len(self._keys) >= KNOWN:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = None


class OwnedDocuments(_Owned):
    """Collections of documents of one owner."""

    allowed = OF_COLLECTION

    def _owner_of(self, key: bytes) -> str | None:
        found = self.inner.collection(key)
        return None if found is None else str(found.owner)

    def collections(self, owner: str | None = None) -> list[Collection]:
        """All of the owner's collections."""
        found: list[Collection] = self.inner.collections(self.same(owner))
        return found


class OwnedStore(_Owned):
    """Threads of one owner; see `stores/base.py` for what each method promises."""

    allowed = OF_THREAD

    def __init__(self, store: Any, owner: str) -> None:
        restricted = getattr(store, "for_owner", None)
        super().__init__(store if restricted is None else restricted(owner), owner)
        self.documents = OwnedDocuments(self.inner.documents, owner)

    def _owner_of(self, key: bytes) -> str | None:
        found = self.inner.thread(key)
        return None if found is None else str(found.owner)

    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread of the owner's, from one of the owner's."""
        self._check(parent)
        self._check_names(key, names)
        made: ThreadRow = self.inner.fork(parent, key, names, at, now)
        return made

    def threads(self, *, owner: str | None = None, **more: Any) -> Found[ThreadRow]:
        """The owner's threads, the last used first."""
        found: Found[ThreadRow] = self.inner.threads(owner=self.same(owner), **more)
        return found

    def search(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> Found[Hit]:
        """The owner's messages that hold all the words."""
        if key is not None:
            self._check(key)
        found: Found[Hit] = self.inner.search(words, key, self.same(owner), limit)
        return found

    def calls(self, key: bytes | None, owner: str | None = None) -> list[tuple[str, str, Call]]:
        """The owner's ledger."""
        if key is not None:
            self._check(key)
        self.same(owner)
        found: list[tuple[str, str, Call]] = self.inner.calls(key, None if key is not None else self.owner)
        return found

    def spent(self, key: bytes | None, owner: str, since: float) -> Spent:
        """What the owner has spent, in one thread or in all."""
        if key is not None:
            self._check(key)
        found: Spent = self.inner.spent(key, self.same(owner), since)
        return found

    def jobs(self, key: bytes | None = None) -> list[Job]:
        """The owner's jobs."""
        if key is not None:
            self._check(key)
        return [job for job in self.inner.jobs(key) if job.owner == self.owner]

    def claim(self, lease: Lease, limit: int = 1, key: bytes | None = None, kinds: Any = None) -> list[Job]:
        """Jobs of one of the owner's threads; those of all are worked off elsewhere."""
        if key is None:
            raise AccessDenied("jobs of all owners: work them off with the memory that was opened for all")
        self._check(key)
        found: list[Job] = self.inner.claim(lease, limit, key, kinds)
        return found

    # ------------------------------------------------------------------------------------------ removing
    def owner_key(self, owner: str) -> bytes:
        """What holds, sums and the audit name the owner by."""
        key: bytes = self.inner.owner_key(self.same(owner))
        return key

    def _check_scope(self, scope: bytes | None) -> None:
        if scope is None:
            raise AccessDenied("that is of all owners: name a thread's key, or the owner's")
        if scope != self.inner.owner_key(self.owner):
            self._check(scope)

    # Holds are set and released by the memory that was opened for all: they may be against the owner.
    def holds(self, scopes: Sequence[bytes] | None = None) -> Any:
        """Holds of some of the owner's threads, or of the owner."""
        for scope in scopes if scopes is not None else [None]:
            self._check_scope(scope)
        return self.inner.holds(scopes)

    def forget_owner(self, owner: str, *args: Any, **more: Any) -> Any:
        """Remove what is kept of the owner beside threads and collections."""
        return self.inner.forget_owner(self.same(owner), *args, **more)

    def audit(self, limit: int = 100, before: int | None = None, scope: bytes | None = None) -> Any:
        """Acts on one of the owner's threads, or on the owner."""
        self._check_scope(scope)
        return self.inner.audit(limit, before, scope)
