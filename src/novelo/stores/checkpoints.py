"""What a store promises about LangGraph checkpoints: bytes in, bytes out, every message stored once.

A checkpoint is a state of a graph: a skeleton (versions, times), and one reference for every channel value. A value is
kept inside of the row if it is small, else once for the thread under its hash. A list of messages is neither: it is a
list of places. A place from 0 up is a position in the thread's transcript, one below 0 the number of a value
(-1 is value 1), for messages that are of no transcript: subgraphs, later versions, writes that no state took up.
Places that follow each other are one run, so that the list of a long talk costs a few bytes in every checkpoint.

    messages 0 to 5 of the transcript, then value 7      runs (0, 6, -7, 1)
    the first message, and the last three of forty       runs (0, 1, 37, 3)

A list with many runs is written as what it shares with the list before it, and the rest (`LongList`).

Promises: a put is one transaction, its messages go into the transcript with it; a put whose parent is not the newest
checkpoint of the root namespace is refused (`ConcurrentTurnError`) unless it is declared to be a fork; nothing comes
back after `erase`; a row that was altered outside of the store is `StorageCorrupt` to its reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from novelo.quiet import Quiet
from novelo.stores.values import NewEntry, ThreadRow

INLINE_BYTES = 48  # a value up to this size stands in the checkpoint's own row
ONCE_BYTES = 1536  # likewise, of a value that no other checkpoint will have: an input, or what a task wrote
ONCE = ("__start__", "__pregel_tasks")  # channels of such values
MAX_RUNS = 24  # a list of more runs is told by what it shares with the one before

LIST, SINGLE, SNAPSHOT = range(3)  # how messages stood: in a list, one alone, in the snapshot of a DeltaChannel
GONE = "gone"  # the type of a value that was removed for good

Runs = tuple[int, ...]


class StalePlaces(Exception):
    """Places that a caller knows are not there any more; `anew`: the whole thread was made anew since."""

    def __init__(self, *, anew: bool) -> None:
        super().__init__()
        self.anew = anew


class Blob(Quiet, msgspec.Struct, frozen=True):
    """A value as the serializer wrote it, and the hash of what it says (not of its cipher)."""

    SAID = frozenset(("body",))

    type: str
    body: bytes
    hash: bytes


class Said(msgspec.Struct, eq=False):
    """A message that has no place yet.

    `exact`: the entry gives the very same object back, so that the blob need not be kept beside it. An entry of an
    encrypted message has no text, and points to the blob. `value` is the number of the value that it was last kept as,
    `fresh` that nobody has looked for it so far: it was made by the run that stores it.
    """

    entry: NewEntry
    blob: Blob
    exact: bool = True
    value: int | None = None
    fresh: bool = True


class Talk(msgspec.Struct, frozen=True):
    """A list of messages: first those of some known places, which are these runs; then each by its place, or new.

    `wrap` tells how the list stood in its channel.
    """

    items: Sequence[int | Said]
    wrap: int = LIST
    known: Sequence[int] = ()
    runs: Runs = ()


class Inline(Quiet, msgspec.Struct, frozen=True, array_like=True, tag_field="what", tag=0):
    """A small value, in the row itself."""

    SAID = frozenset(("body",))

    type: str
    body: bytes


class Kept(msgspec.Struct, frozen=True, array_like=True, tag_field="what", tag=1):
    """The number of a value."""

    number: int


class Places(msgspec.Struct, frozen=True, array_like=True, tag_field="what", tag=2):
    """A list of messages as runs of places."""

    wrap: int
    runs: Runs


class LongList(msgspec.Struct, frozen=True, array_like=True, tag_field="what", tag=3):
    """A list of messages whose runs stand in a value of their own."""

    wrap: int
    number: int


class Cut(Quiet, msgspec.Struct, frozen=True, array_like=True, tag_field="what", tag=4):
    """A small value less the texts that entries of the transcript say: its bytes, with their positions between."""

    SAID = frozenset(("pieces",))

    type: str
    hash: bytes
    pieces: tuple[bytes | int, ...]


Ref = Inline | Kept | Places | LongList | Cut


class NewWrites(msgspec.Struct, frozen=True):
    """What a task wrote: (index, channel, value) of each write.

    Args:
        special: they replace what stands at their index.
        known: an earlier write of other content at the same index is no surprise to the caller, and stays.
    """

    task: str
    path: str
    items: Sequence[tuple[int, str, Blob | Talk]]
    special: bool = False
    known: bool = True


class NewCheckpoint(Quiet, msgspec.Struct, frozen=True):
    """A checkpoint to be put.

    Args:
        names: owner and thread id.
        declared: the caller said that this begins a branch.
        first: it has no parent and holds no state: it takes nothing away from a thread that is there.
        main: channels whose messages are of the transcript.
        replayed: messages of the parent's writes that channels took up without showing their value: each with the
            number of the value that it is so far.
        created, version: of the thread and its content when the known places were read; None if there are none.
    """

    SAID = frozenset(("metadata", "skeleton"))

    key: bytes
    names: tuple[str, str]
    ns: str
    id: str
    parent: str | None
    declared: bool
    first: bool
    metadata: str
    run: str | None
    expires: float | None
    skeleton: bytes
    values: dict[str, Blob | Talk]
    main: frozenset[str]
    replayed: Sequence[tuple[int, Said]]
    now: float
    created: float | None = None
    version: int = 0


class Written(msgspec.Struct, frozen=True):
    """What a task wrote, stored."""

    task: str
    path: str
    items: Sequence[tuple[int, str, Ref]]


class Checkpoint(Quiet, msgspec.Struct, frozen=True):
    """A stored checkpoint; `before`: what tasks wrote at its parent and came with it."""

    SAID = frozenset(("metadata", "skeleton"))

    key: bytes
    ns: str
    number: int
    id: str
    parent: str | None
    metadata: str
    skeleton: bytes
    values: dict[str, Ref]
    names: tuple[str, str] = ("", "")
    expires: float | None = None
    before: Sequence[Written] = ()


class Value(Quiet, msgspec.Struct, frozen=True):
    """A stored value; one that became an entry of the transcript has its position and no body."""

    SAID = frozenset(("body",))

    type: str
    body: bytes | None
    entry: int | None


def hash_of(key: bytes, form: str, body: bytes) -> bytes:
    """The hash of what a value says, keyed with its thread."""
    return blake2b(form.encode() + b"\0" + body, key=key, digest_size=16).digest()


def runs_of(places: Sequence[int], before: Runs = ()) -> Runs:
    """Places as runs, behind other runs: first place, how many.

    Example: 0 1 2 -4 -5 -> (0, 3, -4, 2).
    """
    out = list(before)
    for place in places:
        if out:
            first, count = out[-2:]
            if (place == first + count) if first >= 0 else (place == first - count):
                out[-1] += 1
                continue
        out += (place, 1)
    return tuple(out)


def unrolled(runs: Runs) -> list[int]:
    """The places of runs."""
    out: list[int] = []
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        out += range(first, first + count) if first >= 0 else range(first, first - count, -1)
    return out


class CheckpointStore(Protocol):
    """See the top of the file. Errors of the store may come from every method."""

    def put(
        self, new: NewCheckpoint, writes: Sequence[NewWrites] = (), of_parent: Sequence[NewWrites] = ()
    ) -> tuple[dict[str, list[int]], float, list[dict[int, list[int]]]]:
        """Store a checkpoint, and writes that waited for it.

        Args:
            of_parent: what was written at the parent and not stored yet.
        Returns:
            Places for items of lists by channel, the thread's `created`, and for each of `of_parent` places by index.
        Raises:
            ConcurrentTurnError: the parent is not the newest checkpoint any more, another run wrote something else at
                it, or a turn of the thread is open.
            ThreadErased: the parent is gone. StalePlaces: the places are of a thread that is gone.
        """
        ...

    def put_writes(
        self,
        key: bytes,
        ns: str,
        checkpoint: str,
        writes: NewWrites,
        created: float | None = None,
        version: int = 0,
    ) -> dict[int, list[int]] | None:
        """Store what a task wrote at a checkpoint; places of its lists by index, None if there is no such checkpoint.

        Raises:
            ConcurrentTurnError: another run wrote something else there.
        """
        ...

    def get(self, key: bytes, ns: str, checkpoint: str | None) -> Checkpoint | None:
        """A checkpoint; the newest of the namespace without an id."""
        ...

    def writes(self, key: bytes, ns: str, number: int) -> list[Written]:
        """What was written at a checkpoint."""
        ...

    def values(self, key: bytes, numbers: Sequence[int]) -> dict[int, Value]:
        """Values by their numbers."""
        ...

    def filled(self, key: bytes, ref: Cut) -> Value:
        """A value with the texts put back; gone, if one of them was deleted or masked."""
        ...

    def places(self, key: bytes, ref: Ref) -> list[int]:
        """The places of a list of messages."""
        ...

    def history(
        self, key: bytes, ns: str, checkpoint: str, channels: Sequence[str]
    ) -> tuple[dict[str, Ref], dict[str, list[tuple[str, Ref]]]]:
        """What stands of some channels before a checkpoint: (task, value) of their writes, the newest first.

        For each channel the writes at the parent of the checkpoint, its parent, and so on, up to the first one that
        holds a value for it: the seed.
        """
        ...

    def listed(
        self,
        key: bytes | None,
        owner: str,
        ns: str | None,
        checkpoint: str | None,
        before: str | None,
        filter: Sequence[tuple[str, Any]],
        limit: int | None,
    ) -> list[Checkpoint]:
        """Checkpoints of a thread, or of an owner, newest first; `filter` are keys of the metadata and their values."""
        ...

    def delete_runs(self, runs: Sequence[str], owner: str | None) -> int:
        """Remove the checkpoints that some runs made; how many.

        Raises:
            ThreadHeld: a hold forbids it for one of their threads; nothing was removed.
        """
        ...

    def prune(self, key: bytes, keep_latest: bool) -> int:
        """Remove checkpoints but the newest of each namespace and what it is rebuilt from, or all; how many.

        Raises:
            ThreadHeld: a hold forbids it.
        """
        ...

    def copy(self, source: ThreadRow, key: bytes, names: tuple[str, str], now: float) -> None:
        """Another thread with the same checkpoints, whose messages it shares.

        Raises:
            InvalidSpec: it is there already.
        """
        ...

    def forget(self, key: bytes) -> None:
        """Content of a thread is gone: nothing of it stays in memory here."""
        ...

    def expired(self, now: float) -> list[tuple[bytes, str, str]]:
        """Threads whose newest checkpoint has lapsed: key, owner, thread id."""
        ...
