"""Checkpoints as a graph reads them: one, many, the writes on the way to one, and all that was said in a thread."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, DeltaChannelHistory, PendingWrite

from novelo.errors import InvalidSpec, StorageCorrupt
from novelo.integrations.langgraph.addresses import Addressed, Place, config_of
from novelo.integrations.langgraph.copies import Talks
from novelo.integrations.langgraph.reading import GONE, Reading
from novelo.integrations.langgraph.shared import Shared, lapsed
from novelo.integrations.langgraph.writing import flush
from novelo.stores import checkpoints as stored
from novelo.stores.base import ThreadRow

KEY_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


def get_tuple(shared: Shared, config: RunnableConfig) -> CheckpointTuple | None:
    """A checkpoint by its id, or the newest of the thread and namespace."""
    place = shared.place(config)
    flush(shared, place.key)
    with shared.memory.store.snapshot():
        thread = shared.memory.store.thread(place.key)
        row = None if thread is None else shared.store.get(place.key, place.ns, place.id)
        if thread is None or row is None or lapsed(row):
            return None
        talks = shared.shelf.of(place.key, thread.created, thread.content_version)
        talks.begin()
        return _tuple(shared, place, row, thread, talks, addressed=place.id is not None)


def _tuple(
    shared: Shared, place: Place, row: stored.Checkpoint, thread: ThreadRow, talks: Talks, addressed: bool = False
) -> CheckpointTuple:
    bones = shared.codec.bones(row.skeleton)
    reading = Reading(shared, thread, talks)
    values = reading.values(row.values)
    written = shared.written(place.key, row.ns, row.number)
    shared.seen.put((place.key, row.ns, row.id), {one.task for one in written})
    pending: list[PendingWrite] = []
    for one in written:
        for _, channel, ref in sorted(one.items, key=lambda item: item[0]):
            found = reading.value(ref)
            pending.append((one.task, channel, None if found is GONE else found))
    checkpoint: Any = {**bones, "id": row.id, "channel_values": values}
    try:
        metadata = json.loads(row.metadata)
    except ValueError as error:
        raise StorageCorrupt(f"the metadata of checkpoint {row.id} cannot be read: restore a backup") from error
    return CheckpointTuple(
        config_of(place, Addressed(row.id) if addressed else row.id, row.ns),
        checkpoint,
        metadata,
        None if row.parent is None else config_of(place, row.parent, row.ns),
        pending,
    )


def listed(
    shared: Shared,
    config: RunnableConfig | None,
    *,
    filter: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[CheckpointTuple]:
    """See `NoveloSaver.list`."""
    wanted = (config or {}).get("configurable", {})
    owner = wanted.get("owner") or ""
    place = shared.place(config) if config is not None and "thread_id" in wanted else None
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidSpec(f"limit={limit!r}: expected a number, 0 or more")
    flush(shared, None if place is None else place.key)
    rows = shared.store.listed(
        None if place is None else place.key,
        owner,
        wanted.get("checkpoint_ns"),
        wanted.get("checkpoint_id"),
        None if before is None else before["configurable"].get("checkpoint_id"),
        [(_filter_key(name), _filter_value(value)) for name, value in (filter or {}).items()],
        limit,
    )
    for listed_row in rows:
        with shared.memory.store.snapshot():  # whoever reads slowly reads what is there by then
            thread = shared.memory.store.thread(listed_row.key)
            row = None if thread is None else shared.store.get(listed_row.key, listed_row.ns, listed_row.id)
            if thread is None or row is None or lapsed(row):
                continue
            talks = shared.shelf.of(row.key, thread.created, thread.content_version)
            at = Place(row.key, *listed_row.names, row.ns, row.id)
            found = _tuple(shared, at, row, thread, talks)
        yield found


def _filter_key(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not KEY_SIGNS.issuperset(name):
        raise InvalidSpec("a filter's key: expected 1 to 64 letters, digits, '_', '.' and '-'")
    return name


def _filter_value(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:
        raise InvalidSpec(f"a filter's value of type {type(value).__name__}: expected data") from error


def delta_history(
    shared: Shared, *, config: RunnableConfig, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """What was written to channels on the way to a checkpoint, from the last one that holds their value on."""
    place = shared.place(config)
    flush(shared, place.key)
    out: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
    if not channels:
        return out
    with shared.memory.store.snapshot():
        thread = shared.memory.store.thread(place.key)
        row = None if thread is None else shared.store.get(place.key, place.ns, place.id)
        if thread is None or row is None:
            return out
        talks = shared.shelf.of(place.key, thread.created, thread.content_version)
        reading = Reading(shared, thread, talks)
        seeds, found = shared.store.history(place.key, place.ns, row.id, channels)
        reading.prepare([*seeds.values(), *(ref for pairs in found.values() for _, ref in pairs)])
        for channel in channels:
            if channel in seeds:
                seed = reading.value(seeds[channel])
                if seed is not GONE:
                    out[channel]["seed"] = seed
            for task, ref in reversed(found[channel]):
                value = reading.value(ref)
                if value is not GONE:
                    out[channel]["writes"].append((task, channel, value))
    return out


def transcript(shared: Shared, thread_id: str, *, owner: str, hidden: bool) -> list[Any]:
    """See `NoveloSaver.transcript`."""
    key = shared.memory.store.key_of(owner, thread_id)
    out: list[Any] = []
    with shared.memory.store.snapshot():
        thread = shared.memory.store.thread(key)
        if thread is None:
            return out
        talks = shared.shelf.of(key, thread.created, thread.content_version)
        reading = Reading(shared, thread, talks)
        for entry in shared.memory.thread(thread_id, owner=owner).messages(hidden=hidden):
            if not entry.deleted:
                kept = reading.of_entry(entry)
                out += [] if kept is None else [kept.copy()]
    return out
