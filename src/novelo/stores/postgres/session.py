"""One connection as the shared code sees it: statements by their names, rows as tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumperUnknown, TextLoader

from novelo.stores.postgres.steps import STEPS
from novelo.stores.postgres.texts import NOTHING, escaped, in_schema, texts, unescaped

PAGE = 200  # threads of a list that are fetched at once
LIMITED = ("of_namespace", "of_thread", "of_owner")  # the last argument is how many rows are wanted, or -1
# Where the reader may stop early, or many rows be due: before the first row, and which columns say where a page ended.
PAGES: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "due_work": ((float("-inf"), b"", ""), (2, 0, 1)),
    "below": ((1 << 62,), (1,)),
    "written_below": ((1 << 62, ""), (0, 1)),
    "of_namespace": ((1 << 62,), (4,)),
    "of_thread": ((None, "", 0), (5, 3, 4)),
    "of_owner": ((None, b"", "", 0), (5, 0, 3, 4)),
}
FIRST_PAGE, LARGEST_PAGE = 16, 1024
FIRST = (float("inf"), b"")  # before the thread that was used last

Row = tuple[Any, ...]


class Session:
    """Runs the statements of one schema on a connection that somebody else opens, and gives back.

    In a transaction statements are sent one behind the other, and an answer is waited for only where somebody reads it
    (libpq's pipeline mode): a plain turn is about nine round trips, and not one for each statement. An error is told
    where the next answer is read, at the latest at the end of the transaction, which it undoes.
    """

    __slots__ = ("_last", "_pipeline", "_texts", "connection", "schema")

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        schema: str,
        writing: bool,
        pipeline: psycopg.Pipeline | None = None,
    ) -> None:
        self.connection, self.schema = connection, schema
        self._pipeline = pipeline
        self._texts = texts(schema)[writing]
        self._last: psycopg.Cursor[Any] | None = None

    def run(self, name: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a statement; it runs, and in its place, also where nobody reads them.

        What stands at the end of the arguments and is not asked for (a seal) is left out.
        """
        if name in NOTHING:
            return iter(())
        if name in STEPS:
            return STEPS[name](self, args)
        if name in LIMITED:
            return self._limited(name, args)
        if name in PAGES:
            return self._paged(name, args)
        return self.one(name, args)

    def one(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """The rows of a single statement; see `steps.py`."""
        statement = self._texts[name]
        if statement.adapted is not None:
            args = statement.adapted(args)
        cursor = self.connection.execute(statement.text, args[: statement.arguments], binary=True)
        self._last = cursor
        if not statement.gives:
            return iter(())
        return iter(cursor.fetchall()) if self._pipeline is None else _when_asked(cursor)

    def nothing(self) -> None:
        """The last statement changed no row."""
        self._last = None

    def changes(self) -> int:
        """How many rows the last statement changed."""
        if self._pipeline is not None:
            self._pipeline.sync()
        return 0 if self._last is None else self._last.rowcount

    def lock(self, key: bytes) -> None:
        """Wait until no other transaction writes a thread, and keep others from it until the end of this one."""
        self.run("lock", (key,))

    def remove(self, table: str, key: bytes, most: int | None = None) -> int:
        """Take all rows of a thread out of a table; how many went."""
        text = in_schema(f"DELETE FROM {table} WHERE thread = $1", self.schema)  # noqa: S608  a table of ours
        self._last = self.connection.execute(text, (key,), binary=True)
        return self.changes()

    def count(self, table: str, key: bytes) -> int:
        """How many rows a thread has in a table."""
        text = in_schema(f"SELECT count(*) FROM {table} WHERE thread = $1", self.schema)  # noqa: S608  a table of ours
        row = self.connection.execute(text, (key,), binary=True).fetchone()
        return 0 if row is None else int(row[0])

    def threads(self, owner: str | None, cursor: tuple[float, bytes] | None) -> Iterator[Row]:
        """Rows of threads, the last used first, from behind one on; a page at a time."""
        name, more = ("threads", ()) if owner is None else ("threads_of_owner", (owner,))
        at: tuple[float, bytes] = cursor or FIRST
        while True:
            rows = list(self.run(name, (*at, PAGE, *more)))
            yield from rows
            if len(rows) < PAGE:
                return
            at = rows[-1][-2], rows[-1][0]

    def _limited(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """Rows a page at a time, and no more of them than the last argument says."""
        *args, most = args
        if most < 0:
            return self._paged(name, args)
        return islice(self._paged(name, args, most), most)

    def _paged(self, name: str, args: Sequence[Any], size: int = FIRST_PAGE) -> Iterator[Row]:
        """Rows a page at a time: no more are read than somebody looks at. A pooler would lose a cursor."""
        at, places = PAGES[name]
        while True:
            size = max(1, min(size, LARGEST_PAGE))
            rows = list(self.one(name, (*args, *at, size)))
            yield from rows
            if len(rows) < size:
                return
            at, size = tuple(rows[-1][place] for place in places), 4 * size


def _when_asked(cursor: psycopg.Cursor[Any]) -> Iterator[Row]:
    """Rows that are waited for when the first one is read."""
    yield from cursor.fetchall()


# ---------------------------------------------------------------------------------------------- values
class _Text(StrDumperUnknown):
    """A text without NUL."""

    def dump(self, obj: str) -> Buffer | None:
        """The bytes that are sent."""
        return super().dump(escaped(obj))


class _Truth(Int8BinaryDumper):
    """1 or 0: truth is a number here."""

    def dump(self, obj: Any) -> Buffer | None:
        """The bytes that are sent."""
        return super().dump(int(obj))


class _Read(TextLoader):
    """A text as it was."""

    def load(self, data: Buffer) -> str:
        """The text of the bytes that came."""
        found = super().load(data)
        return unescaped(found if isinstance(found, str) else bytes(found).decode())


class _ReadBinary(_Read):
    """The same of a row that came in binary form."""

    format = Format.BINARY


def adapt(connection: psycopg.Connection[Any]) -> None:
    """How Python's values become PostgreSQL's on a connection, and back."""
    maps = connection.adapters
    maps.register_dumper(str, _Text)
    maps.register_dumper(bool, _Truth)
    for loader in (_Read, _ReadBinary):
        maps.register_loader("text", loader)
