"""What the writing and the reading half of a saver share: the store, the codec, and what this process knows of runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from copy import copy

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol

from novelo.connect import checkpoints
from novelo.integrations.langgraph.addresses import Place
from novelo.integrations.langgraph.codec import Codec
from novelo.integrations.langgraph.copies import Recent, Shelf
from novelo.integrations.langgraph.gathering import Gathering, Inputs
from novelo.memory import Memory
from novelo.stores import checkpoints as stored

LAPSED = "ttl of a graph"  # why a thread went, for the audit
WAITING = 1_000  # checkpoints whose writes may wait for them at once


class Shared:
    """One saver's store and codec, and what it remembers."""

    def __init__(
        self, memory: Memory, serde: SerializerProtocol, channels: Iterable[str], cached_messages: int
    ) -> None:
        """Remember nothing yet.

        Raises:
            InvalidSpec: a store that keeps no checkpoints.
        """
        self.memory = memory
        self.channels = frozenset(channels)
        self.store = checkpoints(memory.store)
        self.shelf = Shelf(cached_messages)
        self.said = Recent(512)  # what was made of a message, by its hash: it is written by a task, then by a state
        self.gathering = Gathering()
        self.waiting = Recent(WAITING)  # writes whose checkpoint is on its way
        self.inputs = Inputs(WAITING)
        self.fresh = Recent(WAITING)  # messages that tasks wrote last, by checkpoint
        self.seen = Recent(WAITING)  # tasks whose writes were read, by checkpoint
        self._keys = Recent(WAITING)
        self.ordered = threading.RLock()  # a put and the writes that wait for it do not miss each other
        self.codec = Codec(serde, memory)
        memory.on_removed(self.forget)

    def forget(self, key: bytes) -> None:
        """Content of a thread is gone: nothing of it stays in memory here, but what runs still hold."""
        self.shelf.forget(key)
        erased = self.memory.store.thread(key) is None
        for kept in (self.said, self.inputs, self.fresh, self.seen, *((self.waiting,) if erased else ())):
            kept.drop(lambda at: at[0] == key)
        self.store.forget(key)

    def with_serde(self, serde: SerializerProtocol) -> Shared:
        """The same with another serializer."""
        made = copy(self)
        made.codec = Codec(serde, self.memory)
        self.memory.on_removed(made.forget)
        return made

    def place(self, config: RunnableConfig) -> Place:
        """What a configuration speaks of."""
        wanted = config["configurable"]
        owner, thread_id = wanted.get("owner") or "", str(wanted["thread_id"])
        ns, name = wanted.get("checkpoint_ns") or "", wanted.get("checkpoint_id") or None
        key = self._keys.get((owner, thread_id), lambda: self.memory.store.key_of(owner, thread_id))
        return Place(key, owner, thread_id, ns, name)

    def written(self, key: bytes, ns: str, number: int) -> list[stored.Written]:
        """What tasks wrote at a checkpoint, in the order in which a run applies it."""
        return sorted(self.store.writes(key, ns, number), key=lambda one: writes_sort_key(one.path, one.task))


def lapsed(row: stored.Checkpoint) -> bool:
    """Whether a checkpoint's time is over."""
    return row.expires is not None and row.expires <= time.time()
