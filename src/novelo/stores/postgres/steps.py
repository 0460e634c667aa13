"""What one statement does in a file takes several here: tables may be spread over machines by their thread.

A statement then names one thread, and changes rows of that one alone: none walks from thread to thread (`WITH
RECURSIVE` over forks), moves rows to another one, takes what it inserts from a query, or writes in a common table
expression. See docs/scale.md for what else is avoided, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class Runner(Protocol):
    """A session, as the steps need it."""

    def one(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """Run a single statement; its rows."""
        ...

    def nothing(self) -> None:
        """Nothing was changed."""
        ...


def _family(db: Runner, key: bytes, position: int) -> list[Row]:
    """All forks, and forks of forks, that share entries behind a position with a thread."""
    found: dict[bytes, Row] = {}
    left = [key]
    while left:
        asked = [db.one("forks", (one, position)) for one in left]  # sent together
        rows = [row for rows in asked for row in rows if row[0] not in found and row[0] != key]
        found |= {row[0]: row for row in rows}
        left = [row[0] for row in rows]
    return list(found.values())


def _sharing(db: Runner, args: Sequence[Any]) -> Iterator[Row]:
    key, position = args
    return iter([(key,), *((row[0],) for row in _family(db, key, position))])


def _heirs(db: Runner, args: Sequence[Any]) -> Iterator[Row]:
    key, position = args
    ordered = sorted(_family(db, key, position), key=lambda row: (row[2], row[3], row[1]))
    return iter([(row[0], row[1]) for row in ordered])


def _move_vectors(db: Runner, args: Sequence[Any]) -> Iterator[Row]:
    key, start, stop, to = args
    for model, position, vector in list(db.one("vectors_between", (key, start, stop))):
        db.one("put_vector", (to, model, position, vector))
    return db.one("drop_vectors", (key, start, stop))


def _put_chunk(db: Runner, args: Sequence[Any]) -> Iterator[Row]:
    numbers = list(db.one("next_chunk", args[:1]))
    for (number,) in numbers:
        db.one("put_chunk", (*args, number))
    return iter(numbers)


def _put_chunk_vector(db: Runner, args: Sequence[Any]) -> Iterator[Row]:
    numbers = list(db.one("next_vector", args[:2]))
    db.nothing()
    for (number,) in numbers:
        db.one("put_chunk_vector", (*args, number))
    return iter(())


def _all_work(db: Runner, args: Sequence[Any]) -> Iterator[Row]:
    return db.one("all_work", ()) if args[0] is None else db.one("work_of", args)


STEPS: dict[str, Callable[[Any, Sequence[Any]], Iterator[Row]]] = {
    "all_work": _all_work,
    "sharing": _sharing,
    "heirs": _heirs,
    "move_vectors": _move_vectors,
    "put_chunk": _put_chunk,
    "put_chunk_vector": _put_chunk_vector,
}
