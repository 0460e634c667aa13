"""Checkpoints of LangGraph's own savers, put into ours: the graph goes on, and the transcript has all that was said.

The checkpoints of a thread are put one after the other, as they once were, so that `NoveloSaver` builds the transcript
from the history and not from the last state. Ids, parents, metadata and pending writes stay what they are. Versions
become numbers (`00000002.0.53` is 2), since our saver counts on.

Values are not built to be moved: the bytes of a value go over as they are, whatever class it has, and no code of it
runs. Only messages are read, since they go into the transcript. What is pickled or encrypted is named and left.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, EXT_PYDANTIC_V2, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from novelo.connect import open_memory
from novelo.errors import ImportFailed
from novelo.importers.base import Conversation, Source, moment
from novelo.importers.run import note
from novelo.integrations.langgraph import NoveloSaver
from novelo.integrations.langgraph.addresses import Addressed
from novelo.integrations.langgraph.codec import WRITTEN, strict
from novelo.integrations.langgraph.saver import MAIN
from novelo.memory import Memory
from novelo.stores.checkpoints import Checkpoint as StoredCheckpoint
from novelo.stores.checkpoints import NewCheckpoint
from novelo.thread import Thread

KNOWN_MESSAGES = 20_000  # kept decoded: each checkpoint of these savers repeats all messages
_RAW_LIST = msgspec.msgpack.Decoder(list[msgspec.Raw])
_RAW_DICT = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_EXT = msgspec.msgpack.Decoder(msgspec.msgpack.Ext)


class Name(NamedTuple):
    """Which checkpoint of a thread."""

    ns: str
    id: str


class Packed(msgspec.Struct, frozen=True):
    """A value as the source's serializer wrote it."""

    kind: str
    body: bytes


class State(msgspec.Struct):
    """A checkpoint: all fields of it but the values, the values by channel, and the metadata."""

    rest: dict[str, Any]
    values: dict[str, Any]
    metadata: dict[str, Any]


class Written(msgspec.Struct):
    """What a task wrote at a checkpoint: index, channel, value."""

    task: str
    path: str
    items: list[tuple[int, str, Any]]


class GraphSource(Source):
    """A source that holds checkpoints."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.serde = strict()
        self._messages: dict[tuple[bool, bytes], BaseMessage] = {}

    @abstractmethod
    def names(self, thread: str) -> list[tuple[Name, str | None]]:
        """The checkpoints of a thread by their ids, the oldest first, each with the id of its parent."""

    @abstractmethod
    def state(self, thread: str, name: Name) -> State:
        """A checkpoint.

        Raises:
            ImportFailed: it cannot be read.
        """

    @abstractmethod
    def written(self, thread: str) -> dict[Name, list[Written]]:
        """What tasks wrote at the checkpoints of a thread; what cannot be read is lost."""

    def read(self, name: str) -> Conversation:
        """A thread; its messages come with its checkpoints (`bring`)."""
        return Conversation(name)

    def bring(self, memory: Memory, found: Conversation, thread: Thread, *, dry_run: bool) -> tuple[int, int]:
        """Put the checkpoints that are new; in a dry run into a database in memory."""
        if not dry_run:
            return Move(self, memory, thread).all()
        there, known = len(thread), len(_stored(NoveloSaver(memory), thread))
        with open_memory("sqlite://", worker="off", search=False) as scratch:
            copy = scratch.thread(thread.thread_id, owner=thread.owner)
            _, states = Move(self, scratch, copy).all()
            return max(0, len(copy) - there), max(0, states - known)

    # ------------------------------------------------------------------------------------------ values
    def value(self, kind: str, body: bytes, main: bool = False) -> Any:
        """A value as we put it: messages read, everything else packed.

        Args:
            main: it is of a state of the outermost graph. Only there the saver may know an object again: one that it
                knows from elsewhere it takes for a message that is of no transcript.
        Raises:
            ImportFailed: it is pickled, encrypted, or broken.
        """
        if kind == "json":  # of savers before 2025; only LangChain's and LangGraph's own classes are built
            return self._loaded(kind, body)
        if kind not in WRITTEN:
            what = "pickled" if kind == "pickle" else "encrypted" if "+" in kind else "of a form that we do not know"
            raise ImportFailed(f"a value of type {kind[:40]!r} is {what}")
        if kind != "msgpack":
            return Packed(kind, body)
        try:
            return self._unpacked(body, main)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ImportFailed("a value is cut short or broken") from error

    def _unpacked(self, body: bytes, main: bool) -> Any:
        first = body[0] if body else 0
        if 0x90 <= first <= 0x9F or first in (0xDC, 0xDD):
            return self._list(body, main) or Packed("msgpack", body)
        if first in (0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8):
            ext = _EXT.decode(body)
            if ext.code == EXT_DELTA_SNAPSHOT and (found := self._list(bytes(ext.data), main)):
                return _DeltaSnapshot(found)
            return self._message(body, main) or Packed("msgpack", body)
        if not body:
            raise ValueError("nothing")
        return Packed("msgpack", body)

    def _list(self, body: bytes, main: bool) -> list[BaseMessage] | None:
        """A list of nothing but messages; else None."""
        out: list[BaseMessage] = []
        try:
            items = _RAW_LIST.decode(body)
        except msgspec.ValidationError:
            return None
        for item in items:
            found = self._message(bytes(item), main)
            if found is None:
                return None
            out.append(found)
        return out

    def _message(self, body: bytes, main: bool) -> BaseMessage | None:
        """A message of LangChain's; None if the bytes are anything else."""
        known = self._messages.get((main, body))
        if known is not None:
            return known
        try:
            ext = _EXT.decode(body)
            if ext.code != EXT_PYDANTIC_V2:
                return None
            where = msgspec.msgpack.decode(_RAW_LIST.decode(ext.data)[0])
        except (msgspec.MsgspecError, IndexError):
            return None
        if not isinstance(where, str) or not where.startswith("langchain_core.messages"):
            return None
        made = self._loaded("msgpack", body)
        if not isinstance(made, BaseMessage):
            return None
        if len(self._messages) >= KNOWN_MESSAGES:
            self._messages.clear()
        self._messages[main, body] = made
        return made

    def fields(self, kind: str, body: bytes, main: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """A whole checkpoint from its bytes: its fields, and its values by channel.

        Raises:
            ImportFailed: it is none.
        """
        if kind != "msgpack":
            found = self.value(kind, body, main)
            if not isinstance(found, dict):
                raise ImportFailed("it is no checkpoint")
            values = found.pop("channel_values", None)
        else:
            try:
                raw = _RAW_DICT.decode(body)
                packed = raw.pop("channel_values", None)
                channels = {} if packed is None else _RAW_DICT.decode(packed)
                values = {name: self.value(kind, bytes(value), main) for name, value in channels.items()}
            except (msgspec.MsgspecError, ValueError) as error:
                raise ImportFailed("it is cut short, or no checkpoint") from error
            found = {name: self._loaded(kind, bytes(value)) for name, value in raw.items()}
        if not isinstance(values, dict) or not isinstance(found.get("channel_versions"), dict):
            raise ImportFailed("it is no checkpoint")
        return found, values

    def _loaded(self, kind: str, body: bytes) -> Any:
        try:
            return self.serde.loads_typed((kind, body))
        except Exception as error:  # whatever a foreign file holds
            raise ImportFailed(f"a value of type {kind[:40]!r} cannot be read: {type(error).__name__}") from error


class Move:
    """The checkpoints of one thread on their way into our saver."""

    def __init__(self, source: GraphSource, memory: Memory, thread: Thread) -> None:
        self.source, self.thread = source, thread
        self.saver = NoveloSaver(memory, serde=Passing())
        self.stored: Any = Dated(self.saver._shared.store)
        self.saver._shared.store = self.stored
        self.there = _stored(self.saver, thread)
        self.versions: dict[Name, dict[str, Any]] = {}  # of the channels that are the transcript's
        self.newest: str | None = next((name.id for name in self.there if not name.ns), None)  # newest first

    def all(self) -> tuple[int, int]:
        """Put what is new; how many messages and checkpoints that is."""
        named = self.source.names(self.thread.thread_id)
        parents = dict(named)
        new = [name for name in parents if name not in self.there]
        if any(not name.ns and name not in parents for name in self.there):
            if any(not name.ns for name in new):
                self._lose(f"{len(new)} checkpoints are new there, and the graph has gone on here too: not merged")
            return 0, 0
        before, states = len(self.thread), 0
        written = self.source.written(self.thread.thread_id)
        if lost := sum(name not in parents for name in written):
            self._lose(f"writes of {lost} checkpoints that are not there")
        for name in _parents_first(parents):
            try:
                if name in self.there:
                    states += self._more(name, written.get(name, ()))
                else:
                    self._put(name, parents, written.get(name, ()))
                    states += 1
            except ImportFailed as error:
                self._lose(f"checkpoint {name.id} of namespace {name.ns!r}: {error}")
        note(self.thread, taken=len(parents))
        return len(self.thread) - before, states

    def _put(self, name: Name, parents: dict[Name, str | None], written: Sequence[Written]) -> None:
        state = self.source.state(self.thread.thread_id, name)
        parent = self._parent(name, parents, state)
        checkpoint: Any = {**state.rest, "id": name.id, "channel_values": state.values}
        checkpoint["channel_versions"] = versions = _numbered(state.rest["channel_versions"])
        seen = state.rest.get("versions_seen")
        checkpoint["versions_seen"] = {k: _numbered(v) for k, v in seen.items()} if isinstance(seen, dict) else {}
        before = {} if parent is None else self._versions(Name(name.ns, parent))
        changed = {c: v for c, v in versions.items() if c in MAIN and before.get(c) != v}
        self.stored.now = moment(state.rest.get("ts"))
        for one in written:  # they wait for their checkpoint, and are stored in its transaction
            self._write(name, one)
        config = self._config(name.ns, None if parent is None else Addressed(parent))
        metadata: Any = state.metadata
        self.saver.put(config, checkpoint, metadata, changed)
        self.there[name] = None
        self.versions[name] = {c: v for c, v in versions.items() if c in MAIN}
        if not name.ns:
            self.newest = name.id

    def _parent(self, name: Name, parents: dict[Name, str | None], state: State) -> str | None:
        """The parent, or who stands in for one that is not there."""
        given = found = parents[name]
        while found is not None and Name(name.ns, found) not in self.there:
            found = parents.get(Name(name.ns, found))
        if found is None and not name.ns and self.newest is not None and state.rest["channel_versions"]:
            found = self.newest  # a state from nowhere: our saver takes none behind others
        if found != given:
            self._lose(f"checkpoint {name.id}: its parent {given} is not there, it follows {found or 'none'}")
        return found

    def _versions(self, name: Name) -> dict[str, Any]:
        if name not in self.versions:
            row = self.stored.get(self.thread.key, name.ns, name.id)
            found = {} if row is None else self.saver._shared.codec.bones(row.skeleton)["channel_versions"]
            self.versions[name] = {c: v for c, v in found.items() if c in MAIN}
        return self.versions[name]

    def _more(self, name: Name, written: Sequence[Written]) -> bool:
        """Writes that have come to a checkpoint since it was put: an interrupt that was answered."""
        row = self.there[name]
        if row is None or not written:
            return False
        stored = self.stored.writes(self.thread.key, name.ns, row.number)
        known = {(w.task, min(at, 0)) for w in stored for at, _, _ in w.items}  # one mark for all that is not special
        self.saver._shared.seen.put((self.thread.key, name.ns, name.id), {w.task for w in stored})
        grown = False
        for one in written:
            items = [item for item in one.items if (one.task, min(item[0], 0)) not in known]
            if items:
                self._write(name, Written(one.task, one.path, items))
                grown = True
        return grown

    def _write(self, name: Name, one: Written) -> None:
        """What a task wrote; LangGraph tells special writes (errors, interrupts) apart by an index below 0."""
        for special in (True, False):
            items = [(channel, value) for at, channel, value in one.items if (at < 0) is special]
            if items:
                self.saver.put_writes(self._config(name.ns, name.id), items, one.task, one.path)

    def _config(self, ns: str, checkpoint: str | None) -> Any:
        found = {"thread_id": self.thread.thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint}
        return {"configurable": {**found, "owner": self.thread.owner} if self.thread.owner else found}

    def _lose(self, what: str) -> None:
        self.source.lose(self.thread.thread_id, what)


class Passing(JsonPlusSerializer):
    """LangGraph's serializer, which leaves what is packed already as it is."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value's bytes."""
        return (obj.kind, obj.body) if obj.__class__ is Packed else super().dumps_typed(obj)


class Dated:
    """A store of checkpoints that writes with the time of the source."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.now: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, new: NewCheckpoint, *more: Any) -> Any:
        """Store a checkpoint."""
        return self._store.put(new if self.now is None else msgspec.structs.replace(new, now=self.now), *more)


def _stored(saver: NoveloSaver, thread: Thread) -> dict[Name, StoredCheckpoint | None]:
    """The checkpoints of a thread of ours, newest first."""
    rows = saver._shared.store.listed(thread.key, thread.owner, None, None, None, [], None)
    return {Name(row.ns, row.id): row for row in rows}


def _parents_first(parents: dict[Name, str | None]) -> Iterator[Name]:
    """Checkpoints in their order, but none before its parent."""
    done: set[Name] = set()
    for name in parents:
        way: list[Name] = []
        at: Name | None = name
        while at is not None and at in parents and at not in done:
            done.add(at)
            way.append(at)
            up = parents[at]
            at = None if up is None else Name(at.ns, up)
        yield from reversed(way)


def _numbered(versions: Any) -> dict[str, Any]:
    """Versions of channels as numbers that our saver counts on."""
    return {channel: _number(version) for channel, version in versions.items()} if isinstance(versions, dict) else {}


def _number(version: Any) -> Any:
    if not isinstance(version, str):
        return version
    head = version.partition(".")[0]
    if not head.isdigit():
        raise ImportFailed(f"a version of a channel is {version[:40]!r}, expected a number")
    return int(head)
