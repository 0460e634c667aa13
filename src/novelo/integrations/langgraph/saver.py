"""LangGraph's checkpointer on our store: states by reference, messages once, the transcript beside them.

A put, in one transaction: each channel value becomes bytes or, where it is a list of messages, places. Messages of the
root namespace's channel `messages` that have no place yet are appended to the thread's transcript, so that everything
that was ever said stays there, in order, whatever the graph removes from its state later; and the core API reads the
thread as any other. Messages of inner graphs, and what tasks wrote and no state took up yet, are values aside.

What the input of a run became (the task `__start__`) is stored with the next checkpoint or before the next reading, not
in a transaction of its own: lost in a crash it is made again, of the input that its checkpoint holds.

Writes of a checkpoint that is not there yet wait in memory for its put: LangGraph saves both in the background, in any
order, and neither says anything without the other.
"""

from __future__ import annotations

import builtins
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from novelo.aio import threaded
from novelo.connect import checkpoints, open_memory
from novelo.errors import ConcurrentTurnError, InvalidSpec, StorageCorrupt
from novelo.integrations.langgraph.awaited import Awaited
from novelo.integrations.langgraph.codec import Codec, strict
from novelo.integrations.langgraph.copies import Line, Pristine, Recent, Shelf, Talks
from novelo.integrations.langgraph.reading import GONE, Reading
from novelo.memory import Memory
from novelo.stores import checkpoints as stored
from novelo.stores.base import ThreadRow
from novelo.stores.checkpoints import (
    LIST,
    SINGLE,
    SNAPSHOT,
    Blob,
    Cut,
    Inline,
    Kept,
    NewCheckpoint,
    NewWrites,
    Said,
    StalePlaces,
    Talk,
)

MAIN = ("messages", "__root__")  # channels whose messages are the transcript's
CACHED_MESSAGES = 20_000
PAUSE_S = 0.05  # how long a run that lost its thread to another one waits at most before it says so
WAITING = 1_000  # checkpoints whose writes may wait for them at once
KEY_SIGNS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_INPUT = ", __start__"  # how the path of the task ends that hands a run its input
_DECLARED = ("update", "fork")


_Noted = tuple[Line | None, list[tuple[Any, Pristine | None]]]


class Addressed(str):
    """The id of a checkpoint that the caller named: a run from there begins a branch, and knows it."""

    __slots__ = ()


class _Place(NamedTuple):
    """Which thread and namespace a configuration speaks of."""

    key: bytes
    owner: str
    thread_id: str
    ns: str
    id: str | None


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
        self._channels = frozenset(channels)
        self._store = checkpoints(memory.store)
        self._shelf = Shelf(cached_messages)
        self._said = Recent(512)  # what was made of a message, by its hash: it is written by a task, then by a state
        self._waiting = Recent(WAITING)  # writes whose checkpoint is on its way
        self._inputs = Recent(WAITING)  # what was written of inputs, by checkpoint
        self._fresh = Recent(WAITING)  # messages that tasks wrote last, by checkpoint
        self._seen = Recent(WAITING)  # tasks whose writes were read, by checkpoint
        self._keys = Recent(WAITING)
        self._ordered = threading.RLock()  # a put and the writes that wait for it do not miss each other
        self._owned = False
        self._set_codec()

    def _set_codec(self) -> None:
        self._codec = Codec(self.serde, self.memory)

    @property
    def encrypted(self) -> bool:
        """Whether what is stored is encrypted, and no text stands in the transcript."""
        return self._codec.encrypted

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> NoveloSaver:
        """A saver on a database of its own: a context manager, sync and async, or an object with `close()`.

        Args:
            conn_string: "sqlite:///chat.db", "sqlite:////var/lib/chat.db", "sqlite://" (in memory).
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
            made._set_codec()
        return made

    def setup(self) -> None:
        """Make ready; safe to call twice and from many processes. The tables are made when the database is opened."""
        self.sweep()

    async def asetup(self) -> None:
        """The same, awaited."""
        await threaded(self.setup)

    def close(self) -> None:
        """Close the database if it was opened here."""
        self._flush()
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
        place = self._place(config)
        if self.ttl is not None and place.id is None:
            self._end(place)
        try:
            self._with_places(
                place.key, lambda talks: self._put(place, config, checkpoint, metadata, new_versions, talks)
            )
        except ConcurrentTurnError:  # who tries again at once stops the run that was faster: of two none would end
            time.sleep(random.uniform(0, PAUSE_S))  # noqa: S311
            raise
        return _config(place, checkpoint["id"])

    def _end(self, place: _Place) -> None:
        """A thread whose time is over makes room for the one that begins under its id."""
        newest = self._store.get(place.key, place.ns, None)
        if newest is not None and self._lapsed(newest):
            self._shelf.forget(place.key)
            self.memory.store.erase(place.key, time.time(), forks="keep")

    def _with_places(self, key: bytes, work: Callable[[Talks | None], None]) -> None:
        """Do work with the places that are known of a thread; again with less if they are not there any more."""
        talks = self._shelf.known(key)
        try:
            work(talks)
        except StalePlaces as stale:
            self._shelf.forget(key)
            if stale.anew or talks is None:
                work(None)
            else:
                work(talks.entries_only())

    def _put(
        self,
        place: _Place,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        talks: Talks | None,
    ) -> None:
        now = time.time()
        noted: dict[str, _Noted] = {}
        values: dict[str, Blob | Talk] = {}
        for channel, value in checkpoint["channel_values"].items():
            main = not place.ns and channel in self._channels
            values[channel], noted[channel] = self._planned(place.key, value, talks, main)
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
            _json(known),
            run if isinstance(run, str) else None,
            None if self.ttl is None else now + 60 * self.ttl,
            self._codec.skeleton(checkpoint),  # type: ignore[arg-type]
            values,
            self._channels,
            self._taken(place, checkpoint, new_versions),
            now,
            None if talks is None else talks.created,
            0 if talks is None else talks.version,
        )
        waiting = (place.key, place.ns, checkpoint["id"])
        before = (place.key, place.ns, parent)
        with self._ordered:
            writes, inputs = self._waiting.pop(waiting) or (), self._inputs.get(before) or ()
            lists, created = self._store.put(new, writes, inputs)
            self._inputs.pop(before)
        if talks is None:
            row = self.memory.store.thread(place.key)
            if row is None or row.created != created:
                return
            talks = self._shelf.of(place.key, row.created, row.content_version)
        for channel, places in lists.items():
            if not place.ns and channel in self._channels:
                talks.aside.update(p for p in places if p < 0)
            _note(talks, values[channel], noted[channel], places)

    def _flush(self) -> None:
        """Store what was written of inputs and not taken up yet."""
        with self._ordered:
            while (found := self._inputs.oldest()) is not None:
                at, writes = found
                for one in writes:
                    if self._store.put_writes(at[0], at[1], at[2], one, True) is None:
                        self._waiting.put(at, [*(self._waiting.get(at) or ()), one])
                self._inputs.pop(at)

    def _planned(self, key: bytes, value: Any, talks: Talks | None, main: bool) -> tuple[Blob | Talk, _Noted]:
        """A value for the store, and of a list of messages what is known of it, and what the others say now."""
        kind = value.__class__
        wrap, items = LIST, value
        if kind is _DeltaSnapshot:
            wrap, items = SNAPSHOT, value.value
        elif isinstance(value, BaseMessage):
            wrap, items = SINGLE, [value]
        if items.__class__ is not list or not items or not isinstance(items[0], BaseMessage):
            return self._codec.blob(value, key), (None, [])
        line = None if talks is None else talks.line_of(items, main)
        tail = items if line is None else items[len(line.places) :]
        out: list[int | Said] = []
        rest: list[tuple[Any, Pristine | None]] = []
        for item in tail:
            at = None if talks is None else talks.place_of(item, main)
            if at is not None:
                out.append(at)
                rest.append((item, None))
            elif isinstance(item, BaseMessage):
                rest.append((item, Pristine(item)))
                out.append(self._said_of(item, key))
            else:
                return self._codec.blob(value, key), (None, [])
        if line is None:
            return Talk(out, wrap), (None, rest)
        return Talk(out, wrap, line.places, line.runs), (line, rest)

    def _said_of(self, message: BaseMessage, key: bytes) -> Said:
        blob = self._codec.blob(message, key)
        found: Said = self._said.get((key, blob.hash), lambda: self._codec.said(message, key, blob))
        return found

    def _taken(
        self, place: _Place, checkpoint: Checkpoint, new_versions: ChannelVersions
    ) -> Sequence[tuple[int, Said]]:
        """Messages of the parent's writes that channels took up without showing their value (`DeltaChannel`)."""
        hidden = [c for c in new_versions if c in self._channels and c not in checkpoint["channel_values"]]
        if not hidden or place.ns or place.id is None:
            return ()
        self._flush()
        row = self._store.get(place.key, place.ns, place.id)
        if row is None:
            return ()
        out: list[tuple[int, Said]] = []
        for one in _in_order(self._store.writes(place.key, place.ns, row.number)):
            for _, channel, ref in one.items:
                if channel in hidden and not isinstance(ref, (Inline, Kept, Cut)):
                    out += self._values_of(place.key, [n for n in self._store.places(place.key, ref) if n < 0])
        return out

    def _values_of(self, key: bytes, places: list[int]) -> Iterator[tuple[int, Said]]:
        for place in places:
            found: Said | None = self._fresh.get((key, place))
            if found is None:
                value = self._store.values(key, [-place])[-place]
                if value.body is None or value.type == stored.GONE:
                    continue
                message = self._codec.load(value.type, value.body)
                found = self._codec.said(message, key)
                if isinstance(message, RemoveMessage):
                    continue
            yield -place, found

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote at a checkpoint, before the next one takes it up."""
        place = self._place(config)
        if place.id is None:
            raise InvalidSpec("writes without a checkpoint: configurable['checkpoint_id'] is missing")
        special = all(channel in WRITES_IDX_MAP for channel, _ in writes)

        def work(talks: Talks | None) -> None:
            items: list[tuple[int, str, Blob | Talk]] = []
            noted: dict[int, _Noted] = {}
            for index, (channel, value) in enumerate(writes):
                at = WRITES_IDX_MAP.get(channel, index)
                made, noted[at] = self._planned(place.key, value, talks, False)
                items.append((at, channel, made))
            self._write(place, NewWrites(task_id, task_path, items, special), noted, talks)

        self._with_places(place.key, work)

    def _write(
        self,
        place: _Place,
        new: NewWrites,
        noted: dict[int, _Noted],
        talks: Talks | None,
    ) -> None:
        assert place.id is not None
        at = (place.key, place.ns, place.id)
        seen = new.task in (self._seen.get(at) or ())
        since = (None, 0) if talks is None else (talks.created, talks.version)
        with self._ordered:
            if new.path.endswith(_INPUT) and not new.special:
                self._inputs.put(at, [*(self._inputs.get(at) or ()), new])
                return
            lists = self._store.put_writes(*at, new, seen, *since)
            if lists is None:
                self._waiting.put(at, [*(self._waiting.get(at) or ()), new])
                return
        for index, _, value in new.items:
            if isinstance(value, Talk):
                for item, number in zip(value.items, lists[index], strict=True):
                    if isinstance(item, Said) and number < 0:
                        self._fresh.put((place.key, number), item)
                if talks is not None:
                    _note(talks, value, noted[index], lists[index])

    # ------------------------------------------------------------------------------------------ reading
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint by its id, or the newest of the thread and namespace."""
        place = self._place(config)
        self._flush()
        with self.memory.store.snapshot():
            thread = self.memory.store.thread(place.key)
            row = None if thread is None else self._store.get(place.key, place.ns, place.id)
            if thread is None or row is None or self._lapsed(row):
                return None
            talks = self._shelf.of(place.key, thread.created, thread.content_version)
            talks.begin()
            return self._tuple(place, row, thread, talks, addressed=place.id is not None)

    def _tuple(
        self, place: _Place, row: stored.Checkpoint, thread: ThreadRow, talks: Talks, addressed: bool = False
    ) -> CheckpointTuple:
        bones = self._codec.bones(row.skeleton)
        reading = Reading(self, thread, talks)
        values = reading.values(row.values)
        written = _in_order(self._store.writes(place.key, row.ns, row.number))
        self._seen.put((place.key, row.ns, row.id), {one.task for one in written})
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
            _config(place, Addressed(row.id) if addressed else row.id, row.ns),
            checkpoint,
            metadata,
            None if row.parent is None else _config(place, row.parent, row.ns),
            pending,
        )

    def _lapsed(self, row: stored.Checkpoint) -> bool:
        return row.expires is not None and row.expires <= time.time()

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
        self._flush()
        wanted = (config or {}).get("configurable", {})
        owner = wanted.get("owner") or ""
        place = self._place(config) if config is not None and "thread_id" in wanted else None
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidSpec(f"limit={limit!r}: expected a number, 0 or more")
        rows = self._store.listed(
            None if place is None else place.key,
            owner,
            wanted.get("checkpoint_ns"),
            wanted.get("checkpoint_id"),
            None if before is None else before["configurable"].get("checkpoint_id"),
            [(_filter_key(name), _filter_value(value)) for name, value in (filter or {}).items()],
            limit,
        )
        for row in rows:
            if self._lapsed(row):
                continue
            with self.memory.store.snapshot():
                thread = self.memory.store.thread(row.key)
                if thread is None:
                    continue
                talks = self._shelf.of(row.key, thread.created, thread.content_version)
                at = _Place(row.key, row.names[0], row.names[1], row.ns, row.id)
                found = self._tuple(at, row, thread, talks)
            yield found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels on the way to a checkpoint, from the last one that holds their value on."""
        place = self._place(config)
        self._flush()
        out: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        if not channels:
            return out
        with self.memory.store.snapshot():
            thread = self.memory.store.thread(place.key)
            row = None if thread is None else self._store.get(place.key, place.ns, place.id)
            if thread is None or row is None:
                return out
            talks = self._shelf.of(place.key, thread.created, thread.content_version)
            reading = Reading(self, thread, talks)
            seeds, found = self._store.history(place.key, place.ns, row.id, channels)
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

    def transcript(self, thread_id: str, *, owner: str = "", hidden: bool = False) -> builtins.list[Any]:
        """All that was ever said in a thread, in order, as LangChain messages; whatever its state holds by now.

        It is the line that led to the newest checkpoint: what was said in a branch that was left is hidden.

        Args:
            hidden: with what was said in other branches, and what was hidden by `thread.hide`.
        """
        key = self.memory.store.key_of(owner, thread_id)
        out: list[Any] = []
        with self.memory.store.snapshot():
            thread = self.memory.store.thread(key)
            if thread is None:
                return out
            talks = self._shelf.of(key, thread.created, thread.content_version)
            reading = Reading(self, thread, talks)
            for entry in self.memory.thread(thread_id, owner=owner).messages(hidden=hidden):
                if not entry.deleted:
                    kept = reading.of_entry(entry)
                    out += [] if kept is None else [kept.copy()]
        return out

    # ------------------------------------------------------------------------------------------ removing, copying
    def delete_thread(self, thread_id: str, *, owner: str = "") -> None:
        """Erase a thread: its checkpoints and its transcript. Copies and forks of it keep what they share."""
        key = self.memory.store.key_of(owner, str(thread_id))
        self._shelf.forget(key)
        self.memory.store.erase(key, time.time(), forks="keep")

    def delete_for_runs(self, run_ids: Sequence[str], *, owner: str | None = None) -> None:
        """Remove the checkpoints of some runs, of all owners or one; the transcript stays."""
        self._store.delete_runs([str(run) for run in run_ids], owner)

    def copy_thread(self, source_thread_id: str, target_thread_id: str, *, owner: str = "") -> None:
        """Copy a thread with all its checkpoints; the messages are shared, not copied.

        Raises:
            InvalidSpec: there is a thread of the target's id.
        """
        self._flush()
        source = self.memory.store.thread(self.memory.store.key_of(owner, str(source_thread_id)))
        if source is None:
            return
        names = (owner, str(target_thread_id))
        self._store.copy(source, self.memory.store.key_of(*names), names, time.time())

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", owner: str = "") -> None:
        """Remove checkpoints: all but the newest of each namespace and what it is rebuilt from, or all ("delete").

        The transcript stays in both cases; `delete_thread` erases it too.

        Raises:
            InvalidSpec: another strategy.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidSpec(f"strategy={strategy!r}: expected 'keep_latest' or 'delete'")
        self._flush()
        for thread_id in thread_ids:
            self._store.prune(self.memory.store.key_of(owner, str(thread_id)), strategy == "keep_latest")

    def sweep(self) -> int:
        """Erase the threads whose time to live is over; how many. `setup` does it too."""
        lapsed = self._store.expired(time.time())
        for key, _, _ in lapsed:
            self._shelf.forget(key)
            self.memory.store.erase(key, time.time(), forks="keep")
        return len(lapsed)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """1, 2, 3, ...: values are told apart by what they say, so that versions need not be unique over branches."""
        if current is None:
            return 1
        if current.__class__ is int:
            return int(current) + 1
        return int(str(current).partition(".")[0]) + 1

    # ------------------------------------------------------------------------------------------ places
    def _place(self, config: RunnableConfig) -> _Place:
        wanted = config["configurable"]
        owner, thread_id = wanted.get("owner") or "", str(wanted["thread_id"])
        ns, name = wanted.get("checkpoint_ns") or "", wanted.get("checkpoint_id") or None
        key = self._keys.get((owner, thread_id), lambda: self.memory.store.key_of(owner, thread_id))
        return _Place(key, owner, thread_id, ns, name)


def _note(talks: Talks, value: Blob | Talk, noted: _Noted, places: Sequence[int]) -> None:
    """What was stored is known from now on."""
    talks.stored(noted[0], noted[1], places)
    if isinstance(value, Talk):
        for item, place in zip(value.items, places, strict=True):
            if isinstance(item, Said):
                item.fresh = False
                if place < 0:
                    item.value = -place


def _json(known: CheckpointMetadata) -> str:
    """Metadata as JSON text; what is no data is told by its name."""
    try:
        return msgspec.json.encode(known).decode()
    except (TypeError, ValueError):
        return json.dumps(known, ensure_ascii=False, default=str).encode("utf-8", "ignore").decode()


def _in_order(written: Sequence[stored.Written]) -> list[stored.Written]:
    """What tasks wrote, in the order in which a run applies it."""
    return sorted(written, key=lambda one: writes_sort_key(one.path, one.task))


def _config(place: _Place, name: str, ns: str | None = None) -> RunnableConfig:
    found = {"thread_id": place.thread_id, "checkpoint_ns": place.ns if ns is None else ns, "checkpoint_id": name}
    return {"configurable": {**found, "owner": place.owner} if place.owner else found}


def _filter_key(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 64 or not KEY_SIGNS.issuperset(name):
        raise InvalidSpec("a filter's key: expected 1 to 64 letters, digits, '_', '.' and '-'")
    return name


def _filter_value(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError) as error:
        raise InvalidSpec(f"a filter's value of type {type(value).__name__}: expected data") from error
