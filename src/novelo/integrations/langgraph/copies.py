"""Messages that were read once, and what is known of the objects that a graph holds.

A graph gets copies: a node may change a message in place, and the next reader must still see what was stored. The other
way round a checkpoint names every message of a long talk, and nearly all were stored before: an object that this
process gave out, or stored, and that is unchanged since is told by its place without being written again. Unchanged is
what its fields say, compared one by one, so that a change in place is noticed and stored.
"""

from __future__ import annotations

import gc
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from operator import attrgetter
from typing import Any

from langchain_core.messages import BaseMessage

from novelo.stores.checkpoints import Runs, runs_of

_SLOTS = {name: slot for kind in reversed(BaseMessage.__mro__) for name, slot in vars(kind).items()}
_set_fields, _set_given, _set_extra, _set_private = (
    _SLOTS[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
LONG, MANY = 8, 200  # messages: shorter lists are told one by one; longer ones are copied without a break
_fields, _extra = attrgetter("__dict__"), attrgetter("__pydantic_extra__")
_PLAIN = (str, int, float, bool, type(None), bytes)
_NO_DICT: dict[Any, Any] = {}  # stand for all that are empty; never given out
_NO_LIST: list[Any] = []
_SHARED: dict[Any, Any] = {}
_GIVEN: dict[tuple[str, ...], set[str]] = {}


def _frozen(value: Any) -> Any:
    """A copy that shares nothing that could be changed."""
    kind = value.__class__
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {name: item if item.__class__ in _PLAIN else _frozen(item) for name, item in value.items()}
    if kind is list:
        return [item if item.__class__ in _PLAIN else _frozen(item) for item in value]
    return deepcopy(value)


class Pristine:
    """A message as it was stored; what is the same for many messages is kept once for all of them."""

    __slots__ = ("_empty", "_given", "_open", "cls", "extra", "fields")

    def __init__(self, message: Any) -> None:
        self.cls = message.__class__
        self.fields = {name: _kept(value) for name, value in message.__dict__.items()}
        changing = [(name, value) for name, value in self.fields.items() if value.__class__ not in _PLAIN]
        empty = tuple((name, value.__class__) for name, value in changing if value is _NO_DICT or value is _NO_LIST)
        self._empty = _SHARED.setdefault(empty, empty)
        names = {name for name, _ in empty}
        self._open = tuple((name, value) for name, value in changing if name not in names)
        extra = message.__pydantic_extra__
        self.extra = _kept(extra)
        # All fields count as given, as LangGraph's serializer has it: then no copy can add one to the set they share.
        self._given = _GIVEN.setdefault(tuple(self.fields), set(self.fields))

    def is_still(self, message: Any) -> bool:
        """Whether an object says the same."""
        return (
            message.__class__ is self.cls
            and message.__dict__ == self.fields
            and bool(message.__pydantic_extra__ == self.extra)
        )

    def copy(self) -> Any:
        """An object of its own."""
        fields = self.fields.copy()
        for name, kind in self._empty:
            fields[name] = kind()
        for name, value in self._open:
            fields[name] = _frozen(value)
        made = self.cls.__new__(self.cls)
        _set_fields(made, fields)
        _set_given(made, self._given)
        _set_extra(made, _frozen(self.extra) if self.extra else {})
        _set_private(made, None)
        return made


def _kept(value: Any) -> Any:
    if value.__class__ in _PLAIN:
        return value
    if not value and value.__class__ in (dict, list):
        return _NO_DICT if value.__class__ is dict else _NO_LIST
    return _frozen(value)


@contextmanager
def _uncollected(size: int) -> Iterator[None]:
    """No garbage is looked for while many objects are made that all stay.

    It would be looked for among them, again and again, which takes four times as long as making them.
    """
    on = size >= MANY and gc.isenabled()
    if on:
        gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class Line:
    """A list of messages that a graph was given or has stored: what they said, and where that stands."""

    __slots__ = ("classes", "extras", "fields", "places", "runs")

    def __init__(self, kept: list[Pristine], places: list[int], runs: Runs) -> None:
        self.classes = [one.cls for one in kept]
        self.fields = [one.fields for one in kept]
        self.extras = [one.extra for one in kept]
        self.places, self.runs = places, runs

    def longer(self, kept: list[Pristine], places: list[int]) -> Line:
        """The same with more messages behind it."""
        made = Line(kept, places, runs_of(places, self.runs))
        made.classes = self.classes + made.classes
        made.fields = self.fields + made.fields
        made.extras = self.extras + made.extras
        made.places = self.places + made.places
        return made

    def begins(self, messages: list[Any]) -> bool:
        """Whether a list begins with messages that say the same. Lists and dicts are compared in C."""
        n = len(self.places)
        head = messages[:n]
        return (
            len(head) == n > 0
            and [*map(type, head)] == self.classes
            and [*map(_fields, head)] == self.fields
            and [*map(_extra, head)] == self.extras
        )


class Talks:
    """What is known of one thread: its messages by their places, and places by the objects that stand for them.

    A list is nearly always one that is known with something behind it: that is told in one comparison. Single objects
    are found by their identity. None of them is kept alive: whatever has an object's identity later is taken for it
    only if it says the very same.
    """

    def __init__(self, created: float, version: int) -> None:
        self.created, self.version = created, version
        self.whole = True  # with values that are no entries
        self.pristine: dict[int, Pristine | None] = {}  # None: it was deleted
        self.became: dict[int, int] = {}  # values that are entries by now
        self.aside: set[int] = set()  # values that stand in the main line's lists: other versions of entries
        self._lines: deque[Line] = deque(maxlen=4)
        self._out: deque[dict[int, int]] = deque([{}], maxlen=3)  # places by the identities of objects
        self._lock = threading.Lock()

    def entries_only(self) -> Talks:
        """The same less what is no entry of the transcript: that may be gone."""
        made = Talks(self.created, self.version)
        made.whole = False
        made.pristine = {place: kept for place, kept in self.pristine.items() if place >= 0}
        made._out = self._out
        return made

    def begin(self) -> None:
        """A run reads its state: what was given out long ago may be forgotten."""
        with self._lock:
            if self._out[-1]:
                self._out.append({})

    def copies(self, places: list[int], runs: Runs | None = None) -> list[Any]:
        """Objects for some places, those of deleted messages left out."""
        if self.became and runs and min(runs[::2]) < 0:
            places, runs = [self.became.get(place, place) for place in places], None
        found = [self.pristine[place] for place in places]
        kept = [one for one in found if one is not None]
        if len(kept) < len(found):
            places = [place for place, one in zip(places, found, strict=True) if one is not None]
            runs = None
        with _uncollected(len(kept)):
            out = [one.copy() for one in kept]
        if len(out) >= LONG:
            self._keep(Line(kept, places, runs_of(places) if runs is None else runs))
        self._give(out, places)
        return out

    def line_of(self, messages: list[Any], main: bool) -> Line | None:
        """The longest known list that a list begins with.

        Args:
            main: of the main line: what tasks wrote has no place there yet.
        """
        if len(messages) < LONG:
            return None
        with self._lock:
            lines = sorted(self._lines, key=lambda line: -len(line.places))
        found = next((line for line in lines if line.begins(messages)), None)
        if found is not None and main and not self._is_of_main(found):
            return None
        return found

    def _is_of_main(self, line: Line) -> bool:
        if all(place >= 0 for place in line.runs[::2]):
            return True
        return all(place >= 0 or place in self.aside for place in line.places)

    def place_of(self, message: Any, main: bool) -> int | None:
        """The place of an object that is unchanged since it was given out or stored; likewise."""
        at = id(message)
        for given in reversed(self._out):
            place = given.get(at)
            if place is not None:
                place = self.became.get(place, place)
                if place < 0 and main and place not in self.aside:
                    return None
                kept = self.pristine.get(place)
                return place if kept is not None and kept.is_still(message) else None
        return None

    def stored(self, known: Line | None, rest: list[tuple[Any, Pristine | None]], places: Sequence[int]) -> None:
        """A list was stored: one that is known, and more objects as they were before the call."""
        if not rest:
            return
        kept: list[Pristine] = []
        for (_, new), place in zip(rest, places, strict=True):
            if new is not None:
                self.pristine[place] = new
            one = self.pristine.get(place)
            if one is None:
                return
            kept.append(one)
        if known is not None:
            self._keep(known.longer(kept, list(places)), known)
        elif len(kept) >= LONG:
            self._keep(Line(kept, list(places), runs_of(places)))
        self._give([message for message, _ in rest], places)

    def _keep(self, line: Line, instead: Line | None = None) -> None:
        with self._lock:
            if instead is not None and instead in self._lines:
                self._lines.remove(instead)
            self._lines.append(line)

    def _give(self, objects: list[Any], places: Sequence[int]) -> None:
        with self._lock:
            self._out[-1].update(zip(map(id, objects), places, strict=True))


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

    def oldest(self) -> tuple[Any, Any] | None:
        """The key and the thing that were not asked for the longest."""
        with self._lock:
            return next(iter(self._things.items()), None)

    def pop(self, key: Any) -> Any:
        """Take a thing out."""
        with self._lock:
            return self._things.pop(key, None)

    def drop(self, unwanted: Callable[[Any], bool]) -> None:
        """Take out all things whose key is not wanted any more."""
        with self._lock:
            for key in [key for key in self._things if unwanted(key)]:
                del self._things[key]
