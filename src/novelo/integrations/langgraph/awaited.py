"""The awaited half of the saver: each method runs its twin on a worker thread, shielded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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

from novelo.aio import threaded


class Awaited(BaseCheckpointSaver[int]):
    """See the methods of the same names without an `a` in `saver.py`."""

    def transcript(self, thread_id: str, *, owner: str = "", hidden: bool = False) -> Any:
        """All that was ever said in a thread."""
        raise NotImplementedError

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await threaded(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        rows = self.list(config, filter=filter, before=before, limit=limit)
        while (found := await threaded(next, rows, None)) is not None:
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        return await threaded(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await threaded(self.put_writes, config, writes, task_id, task_path)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await threaded(self.get_delta_channel_history, config=config, channels=channels)

    async def atranscript(self, thread_id: str, *, owner: str = "", hidden: bool = False) -> Any:
        """See `transcript`."""
        return await threaded(self.transcript, thread_id, owner=owner, hidden=hidden)

    async def adelete_thread(self, thread_id: str, *, owner: str = "") -> None:
        """See `delete_thread`."""
        await threaded(self.delete_thread, thread_id, owner=owner)

    async def adelete_for_runs(self, run_ids: Sequence[str], *, owner: str | None = None) -> None:
        """See `delete_for_runs`."""
        await threaded(self.delete_for_runs, run_ids, owner=owner)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str, *, owner: str = "") -> None:
        """See `copy_thread`."""
        await threaded(self.copy_thread, source_thread_id, target_thread_id, owner=owner)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", owner: str = "") -> None:
        """See `prune`."""
        await threaded(self.prune, thread_ids, strategy=strategy, owner=owner)
