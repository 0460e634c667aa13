"""A checkpoint, and what tasks wrote at it, on the way to the store: planned, stored, and known from then on.

What the input of a run became (the task `__start__`) is stored with the next checkpoint or before the next reading, not
in a transaction of its own: lost in a crash it is made again, of the input that its checkpoint holds.

Writes of a checkpoint that is not there yet wait in memory for its put: LangGraph saves both in the background, in any
order, and neither says anything without the other.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from langchain_core.messages import RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)

from novelo.errors import ConcurrentTurnError, InvalidSpec, ThreadHeld
from novelo.integrations.langgraph.addresses import Addressed, Place, config_of
from novelo.integrations.langgraph.copies import Talks
from novelo.integrations.langgraph.planning import Noted, note, planned
from novelo.integrations.langgraph.shared import LAPSED, Shared, lapsed
from novelo.stores import checkpoints as stored
from novelo.stores.checkpoints import Blob, Cut, Inline, Kept, NewCheckpoint, NewWrites, Said, StalePlaces, Talk

PAUSE_S = 0.05  # how long a run that lost its thread to another one waits at most before it says so
_INPUT = ", __start__"  # how the path of the task ends that hands a run its input
_DECLARED = ("update", "fork")


# ------------------------------------------------------------------------------------------------ a checkpoint
def put(
    shared: Shared,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    ttl: float | None,
) -> RunnableConfig:
    """Store a checkpoint.

    Raises:
        ConcurrentTurnError: another run has moved the thread on; nothing of this one was stored.
        ThreadErased: the thread was deleted while its graph ran.
    """
    place = shared.place(config)
    if ttl is not None and place.id is None:
        _end(shared, place)
    try:
        _with_places(
            shared, place.key, lambda talks: _put(shared, place, config, checkpoint, metadata, new_versions, ttl, talks)
        )
    except ConcurrentTurnError:  # who tries again at once stops the run that was faster: of two none would end
        time.sleep(random.uniform(0, PAUSE_S))  # noqa: S311
        raise
    return config_of(place, checkpoint["id"])


def _end(shared: Shared, place: Place) -> None:
    """A thread whose time is over makes room for the one that begins under its id."""
    newest = shared.store.get(place.key, place.ns, None)
    if newest is not None and lapsed(newest):
        with suppress(ThreadHeld):  # it goes on under its id then
            shared.memory.store.erase(place.key, time.time(), forks="keep", note=shared.memory.note(LAPSED))
            shared.memory.forget(place.key)


def _put(
    shared: Shared,
    place: Place,
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
    ttl: float | None,
    talks: Talks | None,
) -> None:
    now = time.time()
    noted: dict[str, Noted] = {}
    values: dict[str, Blob | Talk] = {}
    for channel, value in checkpoint["channel_values"].items():
        main = not place.ns and channel in shared.channels
        values[channel], noted[channel] = planned(shared, place.key, value, talks, main)
    known = get_checkpoint_metadata(config, metadata)
    run = known.get("run_id")
    parent = place.id
    new = NewCheckpoint(
        place.key,
        (place.owner, place.thread_id),
        place.ns,
        checkpoint["id"],
        parent,
        metadata.get("source") in _DECLARED or isinstance(parent, Addressed),
        not checkpoint["channel_versions"],
        _metadata(known),
        run if isinstance(run, str) else None,
        None if ttl is None else now + 60 * ttl,
        shared.codec.skeleton(checkpoint),  # type: ignore[arg-type]
        values,
        shared.channels,
        _taken(shared, place, checkpoint, new_versions),
        now,
        None if talks is None else talks.created,
        0 if talks is None else talks.version,
    )
    waiting = (place.key, place.ns, checkpoint["id"])
    before = (place.key, place.ns, parent)
    with shared.ordered:
        writes, inputs = shared.waiting.pop(waiting) or (), shared.inputs.get(before) or ()
        lists, created = shared.store.put(new, writes, inputs)
        shared.inputs.pop(before)
    if talks is None:
        row = shared.memory.store.thread(place.key)
        if row is None or row.created != created:
            return
        talks = shared.shelf.of(place.key, row.created, row.content_version)
    for channel, places in lists.items():
        if not place.ns and channel in shared.channels:
            talks.aside.update(p for p in places if p < 0)
        note(talks, values[channel], noted[channel], places)


def _taken(
    shared: Shared, place: Place, checkpoint: Checkpoint, new_versions: ChannelVersions
) -> Sequence[tuple[int, Said]]:
    """Messages of the parent's writes that channels took up without showing their value (`DeltaChannel`)."""
    hidden = [c for c in new_versions if c in shared.channels and c not in checkpoint["channel_values"]]
    if not hidden or place.ns or place.id is None:
        return ()
    shared.flush()
    row = shared.store.get(place.key, place.ns, place.id)
    if row is None:
        return ()
    out: list[tuple[int, Said]] = []
    for one in shared.written(place.key, place.ns, row.number):
        for _, channel, ref in one.items:
            if channel in hidden and not isinstance(ref, (Inline, Kept, Cut)):
                out += _values_of(shared, place.key, [n for n in shared.store.places(place.key, ref) if n < 0])
    return out


def _values_of(shared: Shared, key: bytes, places: list[int]) -> Iterator[tuple[int, Said]]:
    for place in places:
        found: Said | None = shared.fresh.get((key, place))
        if found is None:
            value = shared.store.values(key, [-place])[-place]
            if value.body is None or value.type == stored.GONE:
                continue
            message = shared.codec.load(value.type, value.body)
            found = shared.codec.said(message, key)
            if isinstance(message, RemoveMessage):
                continue
        yield -place, found


def _metadata(known: CheckpointMetadata) -> str:
    """Metadata as JSON text; what is no data is told by its name."""
    try:
        return msgspec.json.encode(known).decode()
    except (TypeError, ValueError):
        return json.dumps(known, ensure_ascii=False, default=str).encode("utf-8", "ignore").decode()


# ------------------------------------------------------------------------------------------------ what a task wrote
def put_writes(
    shared: Shared, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
) -> None:
    """Store what a task wrote at a checkpoint, before the next one takes it up."""
    place = shared.place(config)
    if place.id is None:
        raise InvalidSpec("writes without a checkpoint: configurable['checkpoint_id'] is missing")
    special = all(channel in WRITES_IDX_MAP for channel, _ in writes)

    def work(talks: Talks | None) -> None:
        items: list[tuple[int, str, Blob | Talk]] = []
        noted: dict[int, Noted] = {}
        for index, (channel, value) in enumerate(writes):
            at = WRITES_IDX_MAP.get(channel, index)
            made, noted[at] = planned(shared, place.key, value, talks, False)
            items.append((at, channel, made))
        _write(shared, place, NewWrites(task_id, task_path, items, special), noted, talks)

    _with_places(shared, place.key, work)


def _write(
    shared: Shared,
    place: Place,
    new: NewWrites,
    noted: dict[int, Noted],
    talks: Talks | None,
) -> None:
    assert place.id is not None
    at = (place.key, place.ns, place.id)
    seen = new.task in (shared.seen.get(at) or ())
    since = (None, 0) if talks is None else (talks.created, talks.version)
    with shared.ordered:
        if new.path.endswith(_INPUT) and not new.special:
            shared.inputs.put(at, [*(shared.inputs.get(at) or ()), new])
            shared.since.put(at, since)
            return
        lists = shared.store.put_writes(*at, new, seen, *since)
        if lists is None:
            shared.waiting.put(at, [*(shared.waiting.get(at) or ()), new])
            return
    for index, _, value in new.items:
        if isinstance(value, Talk):
            for item, number in zip(value.items, lists[index], strict=True):
                if isinstance(item, Said) and number < 0:
                    shared.fresh.put((place.key, number), item)
            if talks is not None:
                note(talks, value, noted[index], lists[index])


def _with_places(shared: Shared, key: bytes, work: Callable[[Talks | None], None]) -> None:
    """Do work with the places that are known of a thread; again with less if they are not there any more."""
    talks = shared.shelf.known(key)
    try:
        work(talks)
    except StalePlaces as stale:
        shared.shelf.forget(key)
        if stale.anew or talks is None:
            work(None)
        else:
            work(talks.entries_only())
