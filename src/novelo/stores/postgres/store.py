"""The PostgreSQL store: the shared code, and work that met other transactions done again.

Every method of a store that writes is one transaction, which is stored whole or not at all. What the server refuses
because two came at once (a deadlock, two first writes of one thread), and what a broken connection took with it, can
therefore be done again from the beginning. Whether a transaction ended well that broke in its COMMIT, only the caller
can find out.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, TypeVar

from novelo.stores.base import Cut, Found, Note, Receipt, Standing
from novelo.stores.postgres.database import Database
from novelo.stores.postgres.faults import Conflict, Lost
from novelo.stores.postgres.raw import sees_all
from novelo.stores.privacy import NOBODY
from novelo.stores.tables.checkpoints import TableCheckpoints
from novelo.stores.tables.documents import TableDocuments
from novelo.stores.tables.store import TableStore

F = TypeVar("F", bound=Callable[..., Any])
TRIES = 8  # of work that met others; they were written meanwhile, so somebody always gets on
LOST_TRIES = 3  # of work whose connection broke: a server that ended them all is there again soon, or not


def again(method: F) -> F:
    """A method that does its work again if it met another transaction, or its connection broke before the end."""

    @wraps(method)
    def done(*args: Any, **more: Any) -> Any:
        lost = 0
        for attempt in range(TRIES):
            try:
                return method(*args, **more)
            except Lost:
                lost += 1
                if lost == LOST_TRIES:
                    raise
            except Conflict:
                if attempt + 1 == TRIES:
                    raise
            time.sleep(random.uniform(0.001, 0.01 * 2**attempt))  # noqa: S311  to come apart, not to hide
        raise AssertionError("not reached")

    return done  # type: ignore[return-value]


def repeated(*names: str) -> Callable[[type], type]:
    """A class some of whose methods are done again so."""

    def change(kind: Any) -> Any:
        for name in names:
            setattr(kind, name, again(getattr(kind, name)))
        return kind

    return change


@repeated("put", "remove", "erase", "put_vectors", "drop_vectors")
class PostgresDocuments(TableDocuments):
    """Collections of documents, in the same database."""


@repeated(
    "thread", "state", "tail", "range", "entries", "find", "turns", "calls", "pins", "search", "summary", "summaries",
    "begin", "reopen", "append", "keep_draft", "add", "reap", "set_facts", "pin", "hide", "rewrite", "fork", "erase",
    "swap_summary", "note_calls", "ask", "claim", "renew", "finish", "put_off", "put_vectors", "spent", "jobs",
    "next_due", "threads", "vectors", "unembedded", "holding", "base_of", "hold", "release", "holds", "audit",
    "audit_check", "forget_owner", "standing", "weights", "erase_due", "drop_texts", "set_term", "once_in",
)  # fmt: skip
class PostgresStore(TableStore):
    """Threads in one schema of a PostgreSQL database; see `stores/base.py` for what each method promises."""

    database: Database

    def for_owner(self, owner: str) -> PostgresStore:
        """The same store, which tells the server in each transaction whose rows are meant (row-level security)."""
        made = copy.copy(self)
        made.__dict__.pop("documents", None)
        made.database = self.database.of(owner, self.index.owner_word(owner))
        return made

    def standing(self, cut: Cut, after: bytes, limit: int) -> Found[Standing]:
        """Threads that rules may take; a user who sees no rows is told so, since nothing would ever be taken."""
        if not after:
            self._sees_all()
        return super().standing(cut, after, limit)

    def forget_owner(self, owner: str, now: float, counts: dict[str, int], note: Note = NOBODY) -> Receipt:
        """Remove an owner's kept spending; where nothing was found, a user who sees no rows is told so."""
        if not any(counts.values()):
            self._sees_all()
        return super().forget_owner(owner, now, counts, note)

    def _sees_all(self) -> None:
        if not self.database.of_one_owner:
            with self.database._ours(), self.database._connected() as connection:
                sees_all(connection, self.database.settings)

    @cached_property
    def documents(self) -> PostgresDocuments:
        """Collections of documents, in the same database."""
        return PostgresDocuments(self.database, self._secret)


@repeated("put", "put_writes", "delete_runs", "prune", "copy", "get", "writes", "values", "listed", "history")
class PostgresCheckpoints(TableCheckpoints):
    """LangGraph's checkpoints, in the same database."""
