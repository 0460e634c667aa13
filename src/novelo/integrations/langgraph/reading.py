"""Values of checkpoints as a graph gets them: messages from the transcript, everything else from its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from novelo.errors import StorageCorrupt
from novelo.formats.langchain import to_langchain
from novelo.integrations.langgraph.copies import Pristine, Talks
from novelo.integrations.langgraph.shared import Shared
from novelo.stores import checkpoints as stored
from novelo.stores.base import StoredEntry, ThreadRow
from novelo.stores.checkpoints import SINGLE, SNAPSHOT, Cut, Inline, Kept, Places, Ref

GONE: Any = object()  # a value that was removed for good


class Reading:
    """Values of one snapshot as a graph gets them."""

    def __init__(self, shared: Shared, thread: ThreadRow, talks: Talks) -> None:
        self._shared, self._thread, self._talks = shared, thread, talks
        self._lists: dict[int, list[int]] = {}

    def values(self, refs: dict[str, Ref]) -> dict[str, Any]:
        """All channel values of a checkpoint, less those that were removed for good."""
        self.prepare(list(refs.values()))
        found = {channel: self.value(ref) for channel, ref in refs.items()}
        return {channel: value for channel, value in found.items() if value is not GONE}

    def prepare(self, refs: list[Ref]) -> None:
        """Read the messages of many lists at once."""
        wanted: set[int] = set()
        for ref in refs:
            if not isinstance(ref, (Inline, Kept, Cut)):
                self._lists[id(ref)] = places = self._shared.store.places(self._thread.key, ref)
                wanted.update(places)
        self._read(wanted)

    def value(self, ref: Ref) -> Any:
        """One value."""
        if isinstance(ref, Inline):
            return GONE if ref.type == stored.GONE else self._shared.codec.load(ref.type, ref.body)
        if isinstance(ref, (Kept, Cut)):
            if isinstance(ref, Cut):
                value = self._shared.store.filled(self._thread.key, ref)
            else:
                value = self._shared.store.values(self._thread.key, [ref.number])[ref.number]
            return GONE if value.type == stored.GONE else self._shared.codec.load(value.type, value.body or b"")
        places = self._lists.get(id(ref))
        if places is None:
            places = self._shared.store.places(self._thread.key, ref)
            self._read(set(places))
        out = self._talks.copies(places, ref.runs if isinstance(ref, Places) else None)
        if ref.wrap == SINGLE:
            return out[0] if out else GONE
        return _DeltaSnapshot(out) if ref.wrap == SNAPSHOT else out

    def _read(self, places: set[int]) -> None:
        missing = sorted(places - self._talks.pristine.keys())
        entries: list[int] = []
        for place in missing:
            if place >= 0:
                entries.append(place)
                continue
            value = self._shared.store.values(self._thread.key, [-place])[-place]
            if value.entry is not None and value.body is None:
                self._read({value.entry})
                self._talks.became[place] = value.entry
                self._talks.pristine[place] = self._talks.pristine[value.entry]
            elif value.entry is not None:
                self._talks.aside.add(place)
                self._talks.pristine[place] = self._loaded(value)
            else:
                self._talks.pristine[place] = self._loaded(value)
        for first, count in _stretches(entries):
            while count:
                found = self._shared.memory.store.range(self._thread, first, count, hidden=True)
                if not found:
                    raise StorageCorrupt(
                        f"entry {first} of thread {self._thread.key.hex()} is missing: restore a backup"
                    )
                for entry in found:
                    self.of_entry(entry)
                    first, count = entry.position + 1, count - 1

    def of_entry(self, entry: StoredEntry) -> Pristine | None:
        """The message of an entry of the transcript."""
        if entry.position in self._talks.pristine:
            return self._talks.pristine[entry.position]
        made: Pristine | None = None
        number = entry.message.meta.get("value")
        if isinstance(number, int) and not entry.deleted:
            made = self._loaded(self._shared.store.values(self._thread.key, [number])[number])
        if made is None and not entry.deleted:
            made = Pristine(to_langchain(entry.message))
        self._talks.pristine[entry.position] = made
        return made

    def _loaded(self, value: stored.Value) -> Pristine | None:
        if value.type == stored.GONE or value.body is None:
            return None
        message = self._shared.codec.load(value.type, value.body)
        if not isinstance(message, BaseMessage):
            raise StorageCorrupt("a value that should be a message is none: restore a backup")
        return Pristine(message)


def _stretches(positions: list[int]) -> Iterator[tuple[int, int]]:
    """Positions in order as (first, how many)."""
    start = 0
    for i in range(1, len(positions) + 1):
        if i == len(positions) or positions[i] != positions[i - 1] + 1:
            yield positions[start], i - start
            start = i
