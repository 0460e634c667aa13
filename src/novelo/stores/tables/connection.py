"""What the shared code asks of an engine: statements by their names, transactions, and an index of words.

Every engine has its own text for each name (`queries.sql`, `checkpoints.sql`, `documents.sql`), its own schema and its
own index. Rows are tuples, in the order of columns that the names promise. What an engine has no seal for has `True` in
its place, which no sealed row can hold (`rows.verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from novelo.stores.privacy import Traces

T = TypeVar("T")
Row = tuple[Any, ...]


class Connection(Protocol):
    """A connection that was lent out, with or without a transaction."""

    def run(self, name: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """Run a statement; its rows, which may be read while others run.

        An engine far away waits for an answer no sooner than somebody reads it: what is run before that goes along.
        """
        ...

    def changes(self) -> int:
        """How many rows the last statement changed."""
        ...

    def lock(self, key: bytes) -> None:
        """Nobody else writes this thread until the end of the transaction; reading its row (`thread`) does the same."""
        ...

    def remove(self, table: str, key: bytes, most: int | None = None) -> int:
        """Take all rows of a thread out of a table, or so many; how many went."""
        ...

    def count(self, table: str, key: bytes) -> int:
        """How many rows a thread has in a table."""
        ...

    def threads(self, owner: str | None, cursor: tuple[float, bytes] | None) -> Iterator[Row]:
        """Rows of an owner's threads, or of all, that are not erased: the last used first, from behind one on."""
        ...


class Index(Protocol):
    """Which messages hold which words; see `sqlite/index.py` and `postgres/index.py`."""

    def put(self, db: Any, key: bytes, owner: str, position: int, words: str) -> None:
        """A message, by its folded words."""
        ...

    def owner_word(self, owner: str) -> str:
        """The word that marks an owner's messages in the index."""
        ...

    def caught_up(self, database: Any) -> None:
        """See to it that a search finds what was written last like all else."""
        ...

    def remove(self, db: Any, key: bytes, positions: Collection[int] | None = None, most: int | None = None) -> int:
        """Take some messages of a thread out, or all; also where the index is off now, but was on before."""
        ...

    def count(self, db: Any, key: bytes) -> int:
        """Messages of a thread that are in the index."""
        ...

    def move(self, db: Any, key: bytes, start: int, stop: int, to: bytes, owner: str) -> None:
        """What a stretch of a thread is found by is what it is found by in another."""
        ...

    def find(
        self, db: Any, words: Sequence[str], key: bytes | None, owner: str | None
    ) -> Iterator[tuple[bytes, int, float]]:
        """Thread, position and score of the messages that hold all the words, the best first."""
        ...

    def positions(
        self, db: Any, start: str, same: Callable[[str], bool], key: bytes, within: range, limit: int
    ) -> list[int]:
        """Positions of a thread's own messages in a range, the newest, with a word that begins so and passes a test."""
        ...


class Database(Protocol):
    """Connections to one database, lent out for a moment each."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        ...

    @property
    def secret(self) -> bytes:
        """What threads' keys are made with."""
        ...

    def index(self, secret: bytes, on: bool) -> Index:
        """The search index."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection; each statement sees one snapshot, inside of `snapshot` all of them the same."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """A connection inside a transaction: committed at the end, or rolled back whole."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that this thread of execution reads inside sees one state of the database."""
        ...

    def with_room(self, work: Callable[[], T], smaller: Callable[[], T] | None = None) -> T:
        """Do work that must pass on a full disk too, with less room if even that does not help."""
        ...

    def scrub(self) -> bool:
        """Nothing of what was removed is left in any file; False if a reader is in the way."""
        ...

    def vacuum(self, full: bool) -> bool:
        """Rewrite what holds gaps; False if a reader is in the way."""
        ...

    def traces(self, clean: bool, vacuumed: str) -> Traces:
        """What is left of removed rows, in words."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
