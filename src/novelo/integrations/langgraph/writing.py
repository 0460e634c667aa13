"""A checkpoint, and what tasks wrote at it, on the way to the store: planned, stored, and known from then on.

What the input of a run became (the task `__start__`) is stored with the next checkpoint or before the next reading, not
in a transaction of its own: lost in a crash it is made again, of the input that its checkpoint holds.

Writes of a checkpoint that is not there yet wait in memory for its put: LangGraph saves both in the background, in any
order, and neither says anything without the other. Those of a checkpoint that is there wait a moment for the one that
takes them up (`gathering`).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

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

from novelo.errors import (
    ConcurrentTurnError,
    InvalidSpec,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    ThreadHeld,
)
from novelo.integrations.langgraph.addresses import Addressed, Place, config_of
from novelo.integrations.langgraph.copies import Talks
from novelo.integrations.langgraph.gathering import Offer, Since
from novelo.integrations.langgraph.planning import Made, Noted, note, planned
from novelo.integrations.langgraph.shared import LAPSED, Shared, lapsed
from novelo.stores import checkpoints as stored
from novelo.stores.checkpoints import Blob, Cut, Inline, Kept, NewCheckpoint, NewWrites, Said, StalePlaces, Talk

PAUSE_S = 0.05  # how long a run that lost its thread to another one waits at most before it says so
_INPUT = ", __start__"  # how the path of the task ends that hands a run its input
_DECLARED = ("update", "fork")
_LATER = (StorageFull, StorageReadOnly, StorageUnavailable)


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
        with shared.gathering.taking((place.key, place.ns, place.id or "")) as offered:
            _with_places(
                shared,
                place.key,
                lambda talks: _put(shared, place, config, checkpoint, metadata, new_versions, ttl, offered, talks),
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
    offered: Callable[[], list[Offer]],
    talks: Talks | None,
) -> None:
    now = time.time()
    noted: dict[str, Noted] = {}
    values: dict[str, Blob | Talk] = {}
    made: Made = {}
    for channel, value in checkpoint["channel_values"].items():
        main = not place.ns and channel in shared.channels
        values[channel], noted[channel] = planned(shared, place.key, value, talks, main, made)
    hidden = not place.ns and any(c in shared.channels and c not in values for c in new_versions)
    if hidden:  # a `DeltaChannel`: the messages are read from what was written
        for offer in offered():
            _write(shared, place, offer, talks)
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
        _taken(shared, place, checkpoint, new_versions) if hidden else (),
        now,
        None if talks is None else talks.created,
        0 if talks is None else talks.version,
    )
    waiting = (place.key, place.ns, checkpoint["id"])
    with shared.ordered, shared.inputs.taking((place.key, place.ns, parent or "")) as inputs:
        offers = () if hidden else offered()
        writes = [_come(shared, place, one, talks, made) for one in shared.waiting.get(waiting) or ()]
        of_parent = [_planned(shared, place, one, talks, made) for one in (*inputs, *offers)]
        lists, created, wrote = shared.store.put(new, writes, [one.new for one in of_parent])
        shared.waiting.pop(waiting)
    if talks is None:
        row = shared.memory.store.thread(place.key)
        if row is None or row.created != created:
            return
        talks = shared.shelf.of(place.key, row.created, row.content_version)
    for channel, places in lists.items():
        if not place.ns and channel in shared.channels:
            talks.aside.update(p for p in places if p < 0)
        note(talks, values[channel], noted[channel], places)
    for written, found in zip(of_parent, wrote, strict=True):
        _note_written(shared, place.key, written, found, talks)


def _taken(
    shared: Shared, place: Place, checkpoint: Checkpoint, new_versions: ChannelVersions
) -> Sequence[tuple[int, Said]]:
    """Messages of the parent's writes that channels took up without showing their value (`DeltaChannel`)."""
    hidden = [c for c in new_versions if c in shared.channels and c not in checkpoint["channel_values"]]
    if not hidden or place.ns or place.id is None:
        return ()
    flush(shared, place.key)
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
    """Store what a task wrote at a checkpoint, before the next one takes it up, or with it."""
    place = shared.place(config)
    if place.id is None:
        raise InvalidSpec("writes without a checkpoint: configurable['checkpoint_id'] is missing")
    at = (place.key, place.ns, place.id)
    offer = Offer(writes, task_id, task_path)
    special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
    if task_path.endswith(_INPUT) and not special:
        talks = shared.shelf.known(place.key)
        shared.inputs.add(at, offer, _since(talks))
    elif special or not shared.gathering.stored(at, offer):
        _store(shared, place, offer)


def _store(shared: Shared, place: Place, offer: Offer, since: Since | None = None) -> None:
    """Store what a task wrote alone.

    Args:
        since: which content of the thread it was made beside, where that is not the present one: it may say what was
            removed meanwhile.
    """
    _with_places(shared, place.key, lambda talks: _write(shared, place, offer, talks, since))


def _write(shared: Shared, place: Place, offer: Offer, talks: Talks | None, since: Since | None = None) -> None:
    assert place.id is not None
    at = (place.key, place.ns, place.id)
    written = _planned(shared, place, offer, talks, {})
    if since is None:
        since = _since(talks)
    with shared.ordered:
        lists = shared.store.put_writes(*at, written.new, *since)
        if lists is None:
            one = _Waiting(offer, written.new, _since(talks))
            shared.waiting.put(at, [*(shared.waiting.get(at) or ()), one])
            return
    _note_written(shared, place.key, written, lists, talks)


class _Waiting(NamedTuple):
    """What a task wrote at a checkpoint that is on its way, as it was planned beside which content of the thread."""

    offer: Offer
    new: NewWrites
    since: Since


def _since(talks: Talks | None) -> Since:
    return (None, 0) if talks is None else (talks.created, talks.version)


def _come(shared: Shared, place: Place, one: _Waiting, talks: Talks | None, made: Made) -> NewWrites:
    """What waited for a checkpoint; planned anew where the places that it names may be gone."""
    as_before = one.since == _since(talks) and (talks is None or talks.whole)
    new = one.new if as_before else _planned(shared, place, one.offer, talks, made).new
    return msgspec.structs.replace(new, known=True)


class _Planned(NamedTuple):
    """What a task wrote, for the store, and what is to be known of it afterwards."""

    new: NewWrites
    noted: dict[int, Noted]


def _planned(shared: Shared, place: Place, offer: Offer, talks: Talks | None, made: Made) -> _Planned:
    items: list[tuple[int, str, Blob | Talk]] = []
    noted: dict[int, Noted] = {}
    for index, (channel, value) in enumerate(offer.writes):
        at = WRITES_IDX_MAP.get(channel, index)
        plan, noted[at] = planned(shared, place.key, value, talks, False, made)
        items.append((at, channel, plan))
    special = all(channel in WRITES_IDX_MAP for channel, _ in offer.writes)
    known = offer.path.endswith(_INPUT) or offer.task in (shared.seen.get((place.key, place.ns, place.id)) or ())
    return _Planned(NewWrites(offer.task, offer.path, items, special, known), noted)


def _note_written(
    shared: Shared, key: bytes, written: _Planned, lists: dict[int, list[int]], talks: Talks | None
) -> None:
    for index, _, value in written.new.items:
        if isinstance(value, Talk) and index in lists:  # what came too late was left out
            for item, number in zip(value.items, lists[index], strict=True):
                if isinstance(item, Said) and number < 0:
                    shared.fresh.put((key, number), item)
            if talks is not None:
                note(talks, value, written.noted[index], lists[index])


def flush(shared: Shared, key: bytes | None = None) -> None:
    """Store what was written of a thread's inputs, or of all, and not taken up yet; before it is read.

    Whoever reads is told of no failure: what the store cannot take now stays for the next time, and what nobody can
    store (it is not serializable) goes. Its run was told by the checkpoint that holds the input.
    """
    with shared.ordered:
        for at, since in shared.inputs.waiting(key):
            place = Place(at[0], "", "", *at[1:])
            with suppress(*_LATER), shared.inputs.taking(at) as offers:
                for offer in offers:
                    try:
                        _store(shared, place, offer, since)
                    except _LATER:
                        raise
                    except Exception:  # noqa: S112  a serializer may raise anything
                        continue


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
