"""What goes into a store and comes out of it: typed values, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from novelo.messages import Message
from novelo.quiet import Quiet

T = TypeVar("T")


class ThreadRow(Quiet, msgspec.Struct, frozen=True):
    """A thread's facts.

    `head` is the number of entries, `running` their tokens, `turns` the user messages, `opening` the system messages at
    the head. `open_turn` is the position of the question of an open or waiting turn; a waiting one has no lease.
    `status` is active, or closed until the next turn. `content_version` rises with every entry that is deleted or
    redacted. Positions below `fork_at` are the parent's entries. `hidden` and `pinned` tell whether there are any.
    `asked` is the number of turns that began here, `summary` the version of the summary that contexts use, 0 for none.
    """

    SAID = frozenset(("title", "tags", "metadata"))

    key: bytes
    owner: str
    thread_id: str
    head: int = 0
    turns: int = 0
    opening: int = 0
    running: int = 0
    epoch: int = 0
    holder: str = ""
    lease_until: float = 0.0
    open_turn: int | None = None
    status: str = "active"
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    content_version: int = 0
    parent: bytes | None = None
    fork_at: int = 0
    hidden: bool = False
    pinned: bool = False
    asked: int = 0
    summary: int = 0
    created: float = 0.0
    updated: float = 0.0


class NewEntry(Quiet, msgspec.Struct, frozen=True):
    """A message to be appended, with its token count and the words it is found by (`stores.search.fold`)."""

    SAID = frozenset(("words",))

    message: Message
    tokens: int = 0
    words: str = ""


class StoredEntry(msgspec.Struct, frozen=True):
    """A message at its place in the transcript.

    `turn` counts the user messages up to it, 0 before the first; `running` the tokens of all entries up to and with it.
    A deleted entry keeps its place, role and sums, and has an empty message.
    """

    position: int
    message: Message
    turn: int = 0
    tokens: int = 0
    running: int = 0
    created: float = 0.0
    hidden: bool = False
    deleted: bool = False

    @property
    def id(self) -> str:
        """The message's own id, or "#" and its position."""
        return self.message.id or f"#{self.position}"

    @property
    def role(self) -> str:
        """The message's role."""
        return self.message.role

    @property
    def content(self) -> Any:
        """The message's content."""
        return self.message.content

    @property
    def text(self) -> str:
        """The message's visible text."""
        return self.message.text

    @property
    def partial(self) -> bool:
        """Whether this is an answer that was cut off."""
        return bool(self.message.meta.get("partial"))


class TurnRow(Quiet, msgspec.Struct, frozen=True):
    """One turn.

    `first` is the position of its question, `last` of its newest entry; status open, done, failed, interrupted (also
    when its writer died), or waiting. `key` is the idempotency key; `number` counts the thread's turns from 1.
    """

    SAID = frozenset(("manifest", "key"))

    first: int
    last: int
    status: str
    key: str | None = None
    epoch: int = 0
    created: float = 0.0
    manifest: bytes | None = None
    number: int = 0


class Lease(msgspec.Struct, frozen=True):
    """Who wants to write, and for how long.

    `alive` tells of the holder of another lease whether it may still run (True if that cannot be known); it must be
    quick and not raise. A lease that lapsed, that ends later than its time to live allows (a wrong clock), whose
    holder is dead, or which is the one that was `left`, by its holder and its end, is void.
    """

    holder: str
    ttl_s: float
    now: float
    alive: Callable[[str], bool] | None = None
    left: tuple[str, float] | None = None


class Begun(Quiet, msgspec.Struct, frozen=True):
    """What `begin` did: the thread as it is now, the turn's row and epoch, and the custom state.

    `replayed`: the key's turn is done, nothing was written; the reply stands at `turn.first` to `turn.last`.
    `rejoined`: an unfinished turn of this key was taken over. It goes on where it stopped, the question is not appended
    again, and an answer that was cut off is hidden; if later messages stand between, all it had is hidden and the
    question is asked anew at the end.
    """

    SAID = frozenset(("state",))

    thread: ThreadRow
    turn: TurnRow
    state: dict[str, Any]
    replayed: bool = False
    rejoined: bool = False


class Busy(msgspec.Struct, frozen=True):
    """Nothing was written, since a turn is open whose lease holds. `same_key`: it is the turn of the key itself."""

    holder: str
    lease_until: float
    same_key: bool = False


class Close(Quiet, msgspec.Struct, frozen=True):
    """How a turn ends (done, failed, interrupted) or pauses (waiting), in the same transaction as its last step."""

    SAID = frozenset(("manifest",))

    status: str
    manifest: bytes | None = None


class Work(Quiet, msgspec.Struct, frozen=True):
    """A job that is wanted: what is to be done for a thread, from when on, and by which rule (a policy's spec)."""

    SAID = frozenset(("spec",))

    kind: str
    due: float
    spec: str = ""


class Job(Quiet, msgspec.Struct, frozen=True):
    """A job, one for each thread and kind.

    `generation` rises whenever it is asked for again, `tries` with every time that somebody took it, until it is done.
    `holder` and `lease_until` tell who works at it; `error` is the kind of the last failure, never a text. One that
    failed too often has no due moment any more (`parked`).
    """

    SAID = frozenset(("spec",))

    key: bytes
    kind: str
    due: float
    generation: int
    tries: int
    spec: str
    error: str
    owner: str
    thread_id: str
    holder: str = ""
    lease_until: float = 0.0

    @property
    def parked(self) -> bool:
        """Whether nobody tries any more."""
        return self.due >= PARKED


class Base(msgspec.Struct, frozen=True):
    """What a summary was made from, and what must still stand when it is swapped in.

    `summary` is the version in use, `hidden` the ranges below `upto` that contexts do not see.
    """

    summary: int
    content_version: int
    upto: int
    hidden: tuple[tuple[int, int], ...] = ()


PARKED = 1e12  # seconds since 1970: a due moment that never comes


class Hit(msgspec.Struct, frozen=True):
    """A found message, the best first; `spans` are where the words stand in its text, (start, stop) in characters."""

    entry: StoredEntry
    score: float
    thread_id: str = ""
    owner: str = ""
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        """The message's visible text."""
        return self.entry.text


class Found(list[T]):
    """What was found over many threads; `damaged` tells, a sentence each, of rows that were left out as altered.

    `partial`: there is no index, and of more messages than are looked through without one only the newest were.
    """

    def __init__(self, rows: Iterable[T] = (), damaged: Iterable[str] = (), partial: bool = False) -> None:
        super().__init__(rows)
        self.damaged: list[str] = list(damaged)
        self.partial = partial


BACKUPS = "backups and copies made outside of this program"


class Receipt(msgspec.Struct, frozen=True):
    """What a removal took: rows by kind, never content; `forks` are the thread ids of the forks that it touched.

    `pending`: traces are still in the files; `waits` tells which, and when they go: with the next `scrub`, when the
    store is closed and opened again, or with a VACUUM. `beyond` names what no program here can reach. `held` are ids of
    threads that a hold has kept.
    `kind` is thread, messages, pattern, text, collection or owner; `scope` the key in hexadecimal; `number` that of its
    row in the audit, 0 if nothing was removed. `shredded`: the thread was encrypted, and its key is destroyed: no copy
    of the database can be read any more where this thread is concerned.
    """

    rows: dict[str, int]
    forks: tuple[str, ...] = ()
    pending: bool = False
    beyond: tuple[str, ...] = (BACKUPS,)
    waits: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    kind: str = "thread"
    scope: str = ""
    at: float = 0.0
    number: int = 0
    shredded: bool = False
