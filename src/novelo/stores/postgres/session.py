"""One connection as the shared code sees it: statements by their names, rows as tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrDumperUnknown, TextLoader

from novelo.stores.postgres.texts import NOTHING, escaped, in_schema, texts, unescaped

PAGE = 200  # rows that are fetched at once where the reader may stop early
FIRST = (float("inf"), b"")  # before the thread that was used last

Row = tuple[Any, ...]


class Session:
    """Runs the statements of one schema on a connection that somebody else opens, and gives back."""

    __slots__ = ("_changed", "_cursor", "_texts", "connection", "schema")

    def __init__(self, connection: psycopg.Connection[Any], schema: str, writing: bool) -> None:
        self.connection, self.schema = connection, schema
        self._cursor = connection.cursor()
        self._texts = texts(schema)[writing]
        self._changed = 0

    def run(self, name: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a statement.

        What stands at the end of the arguments and is not asked for (a seal) is left out.
        """
        if name in NOTHING:
            return iter(())
        statement = self._texts[name]
        if statement.adapted is not None:
            args = statement.adapted(args)
        cursor = self._cursor.execute(statement.text, args[: statement.arguments], binary=True)
        self._changed = cursor.rowcount
        result = cursor.pgresult  # asked for columns, a cursor would describe each of them in a Python object
        return iter(cursor.fetchall()) if result is not None and result.nfields else iter(())

    def changes(self) -> int:
        """How many rows the last statement changed."""
        return self._changed

    def lock(self, key: bytes) -> None:
        """Wait until no other transaction writes a thread, and keep others from it until the end of this one."""
        self.run("lock", (key,))

    def remove(self, table: str, key: bytes, most: int | None = None) -> int:
        """Take all rows of a thread out of a table; how many went."""
        text = in_schema(f"DELETE FROM {table} WHERE thread = $1", self.schema)  # noqa: S608  a table of ours
        return self.connection.execute(text, (key,), binary=True).rowcount

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
