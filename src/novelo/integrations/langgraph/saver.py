"""LangGraph's checkpointer on our store: states by reference, messages once, the transcript beside them.

A put, in one transaction: each channel value becomes bytes or, where it is a list of messages, places. Messages of the
root namespace's channel `messages` that have no place yet are appended to the thread's transcript, so that everything
that was ever said stays there, in order, whatever the graph removes from its state later; and the core API reads the
thread as any other. Messages of inner graphs, and what tasks wrote and no state took up yet, are values aside.

What is stored goes through the files in this order: `writing` (a checkpoint, or what a task wrote), `planning` (its
values and messages), `codec` (bytes), and the store. What is read comes through `states`, `reading` and `copies`.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from novelo.aio import threaded
from novelo.connect import open_memory
from novelo.errors import InvalidSpec, ThreadHeld
from novelo.integrations.langgraph import states, writing
from novelo.integrations.langgraph.awaited import Awaited
from novelo.integrations.langgraph.codec import strict
from novelo.integrations.langgraph.shared import LAPSED, Shared
from novelo.memory import Memory

MAIN = ("messages", "__root__")  # channels whose messages are the transcript's
CACHED_MESSAGES = 20_000


class NoveloSaver(Awaited):
    """A checkpointer for any graph; the same object serves `invoke` and `ainvoke`.

    with NoveloSaver.from_conn_string("sqlite:///chat.db") as saver: ...

    The thread's owner stands in `configurable["owner"]`, and is nobody ("") otherwise; `configurable["thread_id"]` is
    one of that owner's threads.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type | tuple[str, ...]] = (),
        channels: Sequence[str] = MAIN,
        ttl: float | None = None,
        cached_messages: int = CACHED_MESSAGES,
    ) -> None:
        """A saver on the database of an open memory, which stays open when the saver is closed.

        Args:
            memory: of `novelo.open`.
            serde: another serializer; LangGraph's own with its strict allow-list if there is none.
                With an `EncryptedSerializer` the transcript holds no texts, and no search finds them.
            allow: types of your own that may be built when a state is read: classes, or (module, name).
            channels: whose messages make up the transcript.
            ttl: minutes after its last checkpoint that a thread is erased; None keeps it.
            cached_messages: how many messages are kept decoded in memory.
        Raises:
            InvalidSpec: a store that keeps no checkpoints.
        """
        super().__init__(serde=serde or strict(allow))
        if not isinstance(memory, Memory):
            raise InvalidSpec(
                f"NoveloSaver of a {type(memory).__name__}: expected a memory of novelo.open(...); for an address "
                "use NoveloSaver.from_conn_string"
            )
        if ttl is not None and not ttl > 0:
            raise InvalidSpec(f"ttl={ttl!r}: expected minutes, or None")
        self.memory = memory
        self.ttl = ttl
        self._shared = Shared(memory, self.serde, channels, cached_messages)
        self._owned = False

    @property
    def encrypted(self) -> bool:
        """Whether what is stored is encrypted, and no text stands in the transcript."""
        return self._shared.codec.encrypted

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> NoveloSaver:
        """A saver on a database of its own: a context manager, sync and async, or an object with `close()`.

        Args:
            conn_string: "sqlite:///chat.db", "sqlite:////var/lib/chat.db", "sqlite://" (in memory), "postgresql://...".
                Its memory has no worker and no retention: for those, give `NoveloSaver` a memory of your own.
            options: see `NoveloSaver`.
        """
        memory = open_memory(conn_string, worker="off")
        try:
            made = cls(memory, **options)
        except BaseException:
            memory.close()
            raise
        made._owned = True
        return made

    def with_allowlist(self, extra_allowlist: Any) -> BaseCheckpointSaver[int]:
        """The same saver, which may build some types more; LangGraph asks for it in its strict mode."""
        made = super().with_allowlist(extra_allowlist)
        if isinstance(made, NoveloSaver) and made is not self:
            made._shared = made._shared.with_serde(made.serde)
        return made

    def setup(self) -> None:
        """Make ready; safe to call twice and from many processes. The tables are made when the database is opened."""
        self.sweep()

    async def asetup(self) -> None:
        """The same, awaited."""
        await threaded(self.setup)

    def close(self) -> None:
        """Close the database if it was opened here."""
        try:
            writing.flush(self._shared)
        finally:
            if self._owned:
                self.memory.close()

    async def aclose(self) -> None:
        """The same, awaited."""
        await threaded(self.close)

    def __enter__(self) -> NoveloSaver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> NoveloSaver:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # ------------------------------------------------------------------------------------------ writing
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint.

        Raises:
            ConcurrentTurnError: another run has moved the thread on; nothing of this one was stored.
            ThreadErased: the thread was deleted while its graph ran.
        """
        return writing.put(self._shared, config, checkpoint, metadata, new_versions, self.ttl)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote at a checkpoint, before the next one takes it up."""
        writing.put_writes(self._shared, config, writes, task_id, task_path)

    # ------------------------------------------------------------------------------------------ reading
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the newest of the thread and namespace."""
        return states.get_tuple(self._shared, config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints of a thread, newest first; without a thread those of an owner.

        Args:
            filter: keys of the metadata and their values; a dot leads into a nested value.
            before: only checkpoints that were made before this one.
            limit: at most so many.
        Raises:
            InvalidSpec: a key of other signs than letters, digits, `_`, `.` and `-`, or a limit that is no number.
        """
        return states.listed(self._shared, config, filter=filter, before=before, limit=limit)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels on the way to a checkpoint, from the last one that holds their value on."""
        return states.delta_history(self._shared, config=config, channels=channels)

    def transcript(self, thread_id: str, *, owner: str = "", hidden: bool = False) -> builtins.list[Any]:
        """All that was ever said in a thread, in order, as LangChain messages; whatever its state holds by now.

        It is the line that led to the newest checkpoint: what was said in a branch that was left is hidden.

        Args:
            hidden: with what was said in other branches, and what was hidden by `thread.hide`.
        """
        return states.transcript(self._shared, thread_id, owner=owner, hidden=hidden)

    # ------------------------------------------------------------------------------------------ removing, copying
    def delete_thread(self, thread_id: str, *, owner: str = "") -> None:
        """Erase a thread: its checkpoints and its transcript. Copies and forks of it keep what they share.

        Raises:
            ThreadHeld: a hold forbids it.
        """
        key = self.memory.store.key_of(owner, str(thread_id))
        self.memory.store.erase(key, time.time(), forks="keep", note=self.memory.note())
        self.memory.forget(key)

    def delete_for_runs(self, run_ids: Sequence[str], *, owner: str | None = None) -> None:
        """Remove the checkpoints of some runs, of all owners or one; the transcript stays.

        Raises:
            ThreadHeld: a hold forbids it for one of their threads; nothing was removed.
        """
        self._shared.store.delete_runs([str(run) for run in run_ids], owner)

    def copy_thread(self, source_thread_id: str, target_thread_id: str, *, owner: str = "") -> None:
        """Copy a thread with all its checkpoints; the messages are shared, not copied.

        Raises:
            InvalidSpec: there is a thread of the target's id.
        """
        key = self.memory.store.key_of(owner, str(source_thread_id))
        writing.flush(self._shared, key)
        source = self.memory.store.thread(key)
        if source is None:
            return
        names = (owner, str(target_thread_id))
        self._shared.store.copy(source, self.memory.store.key_of(*names), names, time.time())

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", owner: str = "") -> None:
        """Remove checkpoints: all but the newest of each namespace and what it is rebuilt from, or all ("delete").

        The transcript stays in both cases; `delete_thread` erases it too.

        Raises:
            InvalidSpec: another strategy.
            ThreadHeld: holds forbid it for some of the threads; all others are pruned.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidSpec(f"strategy={strategy!r}: expected 'keep_latest' or 'delete'")
        refused: ThreadHeld | None = None
        for thread_id in thread_ids:
            key = self.memory.store.key_of(owner, str(thread_id))
            writing.flush(self._shared, key)
            try:
                self._shared.store.prune(key, strategy == "keep_latest")
            except ThreadHeld as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def sweep(self) -> int:
        """Erase the threads whose time to live is over; how many. `setup` does it too. Held ones stay."""
        done = 0
        for key, _, _ in self._shared.store.expired(time.time()):
            with suppress(ThreadHeld):
                self.memory.store.erase(key, time.time(), forks="keep", note=self.memory.note(LAPSED))
                self.memory.forget(key)
                done += 1
        return done

    def get_next_version(self, current: Any, channel: None) -> Any:
        """1, 2, 3, ...: values are told apart by what they say, so that versions need not be unique over branches."""
        if current is None:
            return 1
        if current.__class__ is int:
            return int(current) + 1
        return int(str(current).partition(".")[0]) + 1
