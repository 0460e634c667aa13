"""Messages that were read once, and what is known of the objects that a graph holds.

A graph gets copies: a node may change a message in place, and the next reader must still see what was stored. The other
way round a checkpoint names every message of a long talk, and nearly all were stored before: an object that this process
gave out, or stored, and that is unchanged since is told by its place without being written again. Unchanged is what its
fields say, compared one by one, so that a change in place is noticed and stored.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from copy import deepcopy
from typing import Any

_set = object.__setattr__
_PLAIN = (str, int, float, bool, type(None), bytes)


def _frozen(value: Any) -> Any:
    """A copy that shares nothing that could be changed."""
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {name: _frozen(item) for name, item in value.items()}
    if kind is list:
        return [_frozen(item) for item in value]
    return deepcopy(value)


class Pristine:
    """A message as it was stored."""

    __slots__ = ("_cls", "_extra", "_fields", "_given", "_open")

    def __init__(self, message: Any) -> None:
        self._cls = message.__class__
        self._fields = {name: _frozen(value) for name, value in message.__dict__.items()}
        self._open = tuple(name for name, value in self._fields.items() if value.__class__ not in _PLAIN)
        self._extra = _frozen(message.__pydantic_extra__) or None
        self._given = frozenset(message.__pydantic_fields_set__)

    def is_still(self, message: Any) -> bool:
        """Whether an object says the same."""
        return (
            message.__class__ is self._cls
            and message.__dict__ == self._fields
            and (message.__pydantic_extra__ or None) == self._extra
        )

    def copy(self) -> Any:
        """An object of its own."""
        fields = self._fields.copy()
        for name in self._open:
            value = fields[name]
            fields[name] = _frozen(value) if value else value.__class__()
        made = self._cls.__new__(self._cls)
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_fields_set__", set(self._given))
        _set(made, "__pydantic_extra__", _frozen(self._extra) or {})
        _set(made, "__pydantic_private__", None)
        return made


class Talks:
    """What is known of one thread: its messages by their places, and places by the objects that stand for them."""

    def __init__(self, created: float, version: int) -> None:
        self.created, self.version = created, version
        self.pristine: dict[int, Pristine | None] = {}  # None: it was deleted
        self._out: deque[dict[int, tuple[Any, int]]] = deque([{}], maxlen=3)

    def begin(self) -> None:
        """A run reads its state: what was given out long ago may be forgotten."""
        if self._out[-1]:
            self._out.append({})

    def copies(self, places: list[int]) -> list[Any]:
        """Objects for some places, those of deleted messages left out."""
        out, given = [], self._out[-1]
        for place in places:
            kept = self.pristine[place]
            if kept is not None:
                made = kept.copy()
                given[id(made)] = (made, place)
                out.append(made)
        return out

    def place_of(self, message: Any) -> int | None:
        """The place of an object that is unchanged since it was given out or stored."""
        at = id(message)
        for given in reversed(self._out):
            found = given.get(at)
            if found is not None and found[0] is message:
                kept = self.pristine.get(found[1])
                return found[1] if kept is not None and kept.is_still(message) else None
        return None

    def placed(self, message: Any, place: int, pristine: Pristine) -> None:
        """An object was stored as it was before the call."""
        self.pristine[place] = pristine
        self._out[-1][id(message)] = (message, place)


class Shelf:
    """The threads that were used last, up to a number of messages."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._threads: OrderedDict[bytes, Talks] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: bytes, created: float, version: int) -> Talks:
        """What is known of a thread; nothing if it was made anew, or content of it was removed."""
        with self._lock:
            found = self._threads.get(key)
            if found is None or (found.created, found.version) != (created, version):
                found = self._threads[key] = Talks(created, version)
            self._threads.move_to_end(key)
            size = sum(len(talks.pristine) for talks in self._threads.values())
            while size > self._most and len(self._threads) > 1:
                size -= len(self._threads.popitem(last=False)[1].pristine)
            return found

    def known(self, key: bytes) -> Talks | None:
        """What is known of a thread, as of the last read."""
        return self._threads.get(key)

    def forget(self, key: bytes) -> None:
        """Nothing is known of a thread any more."""
        with self._lock:
            self._threads.pop(key, None)


class Recent:
    """The last things that were made, by a key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._things: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], Any] | None = None) -> Any:
        """What is there under a key, or what is made now."""
        with self._lock:
            if key in self._things:
                self._things.move_to_end(key)
                return self._things[key]
        if make is None:
            return None
        made = make()
        self.put(key, made)
        return made

    def put(self, key: Any, thing: Any) -> None:
        """Keep a thing."""
        with self._lock:
            self._things[key] = thing
            self._things.move_to_end(key)
            while len(self._things) > self._most:
                self._things.popitem(last=False)

    def pop(self, key: Any) -> Any:
        """Take a thing out."""
        with self._lock:
            return self._things.pop(key, None)
