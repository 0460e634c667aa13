"""What copying asks of an engine: rows in order of their keys, of one state of a database; and places for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from novelo.stores.raw.columns import Table

Row = tuple[Any, ...]
FIRST, LAST = b"", b"\xff" * 17  # before and behind every key


class Head(NamedTuple):
    """What tells of a thread, or collection, how far it is: of two copies the one with the higher counts is newer."""

    key: bytes
    name: str  # for people
    size: int  # entries, or chunks
    counts: tuple[float, ...]  # what only rises
    erased: bool = False

    def newer(self, other: Head) -> bool:
        """Whether something was written to this one that the other one has not."""
        return any(mine > theirs for mine, theirs in zip(self.counts, other.counts, strict=True))


# What an engine is asked for the heads; both understand it.
HEADS = {
    "threads": "SELECT thread, owner, thread_id, head, epoch, content_version, updated, status FROM threads",
    "collections": "SELECT collection, owner, name, chunks, put, dropped, updated, '' FROM collections",
}
KEYS = {"threads": "thread", "collections": "collection"}
NOTE = "copy from"  # in meta, while a copy has begun and not ended


def head_of(row: Row) -> Head:
    """The head of a row that was asked for so."""
    key, owner, name, size, *counts, status = row
    shown = (f"{name!r} of {owner!r}" if owner else repr(name)) if name else bytes(key).hex()
    return Head(key, shown, size, tuple(counts), status == "erased")


class Source(Protocol):
    """One state of a database, read and never written."""

    place: str  # its address for people, without a password

    def facts(self) -> dict[str, bytes]:
        """What stands in the table meta and belongs to the contents: the secret that keys are made with, and others."""
        ...

    def heads(self, what: str, after: bytes, limit: int) -> list[Head]:
        """Threads or collections ("threads", "collections"), by key."""
        ...

    def rows(self, table: Table, after: bytes, upto: bytes) -> Iterator[Row]:
        """The rows of keys in (after, upto], by key and what tells them apart; one reader at a time.

        Of a table that belongs to all, all rows.

        Raises:
            StorageCorrupt: a row was altered outside of this program.
        """
        ...

    def same(self, table: Table, row: Row) -> Row:
        """A row as it is compared: what another engine stores otherwise is brought to one form."""
        ...

    def whole(self, table: Table, row: Row) -> Row:
        """A row as any engine can store it."""
        ...

    def count(self, table: str) -> int:
        """How many rows there are."""
        ...

    def close(self) -> None:
        """The state is let go."""
        ...


class Target(Source, Protocol):
    """A database that is written; what its reading methods give is what was committed last."""

    def adopt(self, facts: dict[str, bytes], note: str) -> None:
        """Take over a secret, if nothing is here yet, and the other facts; note that a copy has begun.

        Raises:
            InvalidSpec: there is something here that was made with another secret.
        """
        ...

    def begin(self) -> None:
        """A transaction begins."""
        ...

    def commit(self) -> None:
        """It ends well."""
        ...

    def roll_back(self) -> None:
        """Nothing of it stays."""
        ...

    def delete(self, table: Table, rows: Sequence[Row]) -> None:
        """Rows go."""
        ...

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Rows come, none of which is there."""
        ...

    def settle(self, upto: tuple[bytes, bytes] | None) -> None:
        """Counters that follow from the collections of a range, in the transaction; None: the copy is done."""
        ...
