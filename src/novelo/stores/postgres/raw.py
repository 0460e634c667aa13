"""Rows of a schema of PostgreSQL as they are, to be read from one state of it, and to be written (stores/raw).

Two connections beside the pool: one reads, a row at a time as the server sends them; the other writes, with COPY.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from novelo.errors import InvalidMessage, InvalidSpec, StorageUnavailable
from novelo.stores.bodies import message_of
from novelo.stores.lexemes import SIGN, lexemes
from novelo.stores.postgres.database import Database, Settings
from novelo.stores.postgres.faults import translated
from novelo.stores.postgres.migrations import current
from novelo.stores.postgres.session import adapt
from novelo.stores.postgres.texts import in_schema, quoted
from novelo.stores.raw.base import HEADS, KEYS, NOTE, Head, Row, head_of
from novelo.stores.raw.columns import META, Table
from novelo.stores.search import indexed_words

# Rows that come at once; one by one each costs as much as all else that is done with it.
CHUNK = 50 if psycopg.capabilities.has_stream_chunked() else 1
SNAPSHOT = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;"
    " SET LOCAL idle_in_transaction_session_timeout = 0"
)
WRITE = "BEGIN; SET LOCAL lock_timeout = 30000; SET LOCAL statement_timeout = 0"
FOUND = """
SELECT s.thread, s.position, tsvector_to_array(s.words), e.role, e.body
FROM search s LEFT JOIN entries e
  ON e.thread = s.thread AND e.position = s.position AND e.thread > $1 AND e.thread <= $2
WHERE s.thread > $1 AND s.thread <= $2 ORDER BY s.thread, s.position
"""
LAST_VECTOR = """
SELECT greatest((SELECT max(number) FROM chunk_vectors WHERE collection = $1),
  (SELECT max(last) FROM collections WHERE collection = $1), 0)
"""
SETTLED = """
UPDATE collections SET last = greatest(last,
  (SELECT max(number) FROM chunk_vectors WHERE chunk_vectors.collection = collections.collection),
  (SELECT max(number & 68719476735) FROM chunks WHERE chunks.collection = collections.collection))
WHERE collection > $1 AND collection <= $2
"""  # 68719476735: 2^36 - 1, below which a chunk's number counts those of its collection
NUMBERED = """
SELECT setval(pg_get_serial_sequence('{}.collections', 'number'), number) FROM
  (SELECT max(number) AS number FROM collections) AS highest WHERE number IS NOT NULL
"""
_NARROWED = """
SELECT row_security_active(%(table)s) AND (
  NOT EXISTS (SELECT 1 FROM pg_catalog.pg_policy WHERE polrelid = %(table)s::regclass AND polname = 'novelo_all')
  OR EXISTS (SELECT 1 FROM pg_catalog.pg_policy, unnest(polroles) AS whose
    WHERE polrelid = %(table)s::regclass AND NOT polpermissive
    AND (whose = 0 OR pg_has_role(current_user, whose, 'USAGE'))))
"""


class PostgresRows:
    """One state of a schema."""

    def __init__(self, settings: Settings, connection: psycopg.Connection[Any]) -> None:
        self.settings, self.connection, self.place = settings, connection, settings.address
        connection.cursor_factory = psycopg.RawCursor
        adapt(connection)

    def facts(self) -> dict[str, bytes]:
        """What stands in the table meta and belongs to the contents."""
        found: dict[str, bytes] = dict(self._run("SELECT name, value FROM meta"))
        return {name: found[name] for name in META if name in found}

    def _run(self, text: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows as the server sends them."""
        with self._ours():
            cursor = self.connection.cursor()
            yield from cursor.stream(in_schema(text, self.settings.schema), values, binary=True, size=CHUNK)

    def heads(self, what: str, after: bytes, limit: int) -> list[Head]:
        """Threads or collections, by key."""
        key = KEYS[what]
        rows = list(self._run(f"{HEADS[what]} WHERE {key} > $1 ORDER BY 1 LIMIT $2", (after, limit)))
        return [head_of(row) for row in rows]

    def rows(self, table: Table, after: bytes, upto: bytes) -> Iterator[Row]:
        """The rows of keys in (after, upto], by key and what tells them apart."""
        special = FOUND if table.name == "search" else None
        return self._run(special or _select(table), (after, upto) if table.ranged else ())

    def same(self, table: Table, row: Row) -> Row:
        """A row as it is compared: of the search index its different words."""
        if table.name == "search":
            return row[0], row[1], sorted(row[2])
        return row

    def whole(self, table: Table, row: Row) -> Row:
        """A row as any engine can store it: here the search index has neither order nor repetition of words.

        They are those of the message, if it can be read and says what the index says.
        """
        if table.name != "search":
            return row
        key, position, found, role, body = row
        owner = [word for word in found if word.startswith(SIGN)]
        words = " ".join(word for word in found if not word.startswith(SIGN))
        if body is not None:
            with suppress(InvalidMessage):
                said = indexed_words(message_of(role, body))
                if set(lexemes(said)) == set(found) - set(owner):
                    words = said
        return key, position, " ".join([*owner, words])

    def count(self, table: str) -> int:
        """How many rows there are."""
        return int(next(self._run(f"SELECT count(*) FROM {table}"))[0])  # noqa: S608  a table of ours

    @contextmanager
    def _ours(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, self.settings, self.connection, False) from error

    def close(self) -> None:
        """The connection is closed."""
        self.connection.close()


class PostgresTarget(PostgresRows):
    """A schema that is written through a second connection."""

    def __init__(
        self, settings: Settings, connection: psycopg.Connection[Any], writer: psycopg.Connection[Any]
    ) -> None:
        super().__init__(settings, connection)
        self._writer = writer
        writer.cursor_factory = psycopg.RawCursor
        adapt(writer)

    def _write(self, text: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        return self._writer.execute(in_schema(text, self.settings.schema), values)

    def adopt(self, facts: dict[str, bytes], note: str) -> None:
        """Take over a secret, if nothing is here yet, and the other facts; note that a copy has begun."""
        with self._ours(), self._writer.transaction():
            if facts["secret"] != self.facts()["secret"]:
                for table in ("threads", "collections", "audit"):
                    if count := self.count(table):
                        raise InvalidSpec(
                            f"{self.place} holds other data ({count} rows of {table}, with another secret): "
                            "nothing was copied. Name an empty destination, or another ?schema="
                        )
            for name in (*META, NOTE):
                self._write("DELETE FROM meta WHERE name = $1", (name,))
            for name, value in (facts | {NOTE: note.encode()}).items():
                self._write("INSERT INTO meta (name, value) VALUES ($1, $2)", (name, value))

    def begin(self) -> None:
        """A transaction begins."""
        with self._ours():
            self._writer.execute(WRITE)

    def commit(self) -> None:
        """It ends well."""
        with self._ours():
            self._writer.execute("COMMIT")

    def roll_back(self) -> None:
        """Nothing of it stays."""
        with suppress(psycopg.Error):
            self._writer.execute("ROLLBACK")

    def delete(self, table: Table, rows: Sequence[Row]) -> None:
        """Rows go."""
        names = table.columns[: table.lead]
        where = " AND ".join(f"{name} = ${place}" for place, name in enumerate(names, 1))
        values = [row[: table.lead] for row in rows]
        with self._ours(), self._writer.cursor() as cursor:
            text = in_schema(f"DELETE FROM {table.name} WHERE {where}", self.settings.schema)  # noqa: S608
            cursor.executemany(text, values)

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Rows come."""
        columns = table.columns
        if table.name == "search":
            rows = [(*row[:2], quoted(lexemes(row[2]), "")) for row in rows]
        elif table.name == "chunks":
            columns = (*columns, "lexemes")
            rows = [(*row, quoted(lexemes(f"{row[5]} {row[6]}"), "")) for row in rows]
        elif table.name == "chunk_vectors":
            columns, rows = (*columns, "number"), self._numbered(rows)
        text = f'COPY "{self.settings.schema}".{table.name} ({", ".join(columns)}) FROM STDIN'
        with self._ours(), self._writer.cursor() as cursor, cursor.copy(text) as copy:
            for row in rows:
                copy.write_row(row)

    def _numbered(self, rows: Sequence[Row]) -> list[Row]:
        out: list[Row] = []
        for key, group in groupby(rows, itemgetter(0)):
            row = self._write(LAST_VECTOR, (key,)).fetchone()
            last = 0 if row is None else int(row[0])
            out += [(*one, number) for number, one in enumerate(group, last + 1)]
        return out

    def settle(self, upto: tuple[bytes, bytes] | None) -> None:
        """Numbers that are given next are above all that are there; at the end the note on the copy goes."""
        with self._ours():
            if upto is not None:
                self._write(SETTLED, upto)
                return
            with self._writer.transaction():
                self._write(NUMBERED.format(f'"{self.settings.schema}"'))
                self._write("DELETE FROM meta WHERE name = $1", (NOTE,))

    def close(self) -> None:
        """Both connections are closed."""
        self.connection.close()
        self._writer.close()


def open_source(settings: Settings) -> PostgresRows:
    """The state that a schema has now; it can be a role's that may only read.

    Raises:
        StorageUnavailable, StorageCorrupt: there is none, or it is none of ours.
        SchemaTooNew, StorageReadOnly: a newer version wrote it, or an older one, and it was not opened since.
    """
    connection = _connected(settings)
    try:
        current(connection, settings.schema)
        sees_all(connection, settings)
        connection.execute(SNAPSHOT)
        made = PostgresRows(settings, connection)
        made.facts()  # the first read is what the state is of
        return made
    except psycopg.Error as error:
        connection.close()
        raise translated(error, settings, None, False) from error
    except BaseException:
        connection.close()
        raise


def open_target(url: str) -> PostgresTarget:
    """A schema to copy into, made if it is not there."""
    database = Database(url)
    database.close()
    settings = database.settings
    reader, writer = _connected(settings), _connected(settings)
    try:
        sees_all(reader, settings)
    except BaseException:
        reader.close()
        writer.close()
        raise
    return PostgresTarget(settings, reader, writer)


def sees_all(connection: psycopg.Connection[Any], settings: Settings) -> None:
    """Whether a role sees the rows of all owners: a copy that lacks what nobody noticed would be worse than none.

    Raises:
        StorageUnavailable: row-level security keeps some from it.
    """
    try:
        row = connection.execute(_NARROWED, {"table": f'"{settings.schema}".threads'}).fetchone()
    except psycopg.Error as error:
        raise translated(error, settings, None, False) from error
    if row == (True,):
        raise StorageUnavailable(
            f"this user sees at {settings.place} the rows of one owner alone, or none (row-level security): "
            "use the owner of the tables, a user with the rights of novelo grants alone, or a role with BYPASSRLS"
        )


def _connected(settings: Settings) -> psycopg.Connection[Any]:
    try:
        return psycopg.Connection.connect(**settings.options, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        raise translated(error, settings, None, False) from error


@lru_cache(64)
def _select(table: Table) -> str:
    columns, order = ", ".join(table.columns), ", ".join(table.columns[: table.lead])
    where = table.where("$1", "$2")
    return f"SELECT {columns} FROM {table.name} {where} ORDER BY {order}"  # noqa: S608  names of ours
