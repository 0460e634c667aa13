"""Rows of a SQLite file as they are, to be read from one state of it, and to be written (stores/raw)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import apsw

from novelo.errors import InvalidSpec, StorageCorrupt
from novelo.stores.lexemes import lexemes
from novelo.stores.raw.base import HEADS, KEYS, NOTE, Head, Row, head_of
from novelo.stores.raw.columns import META, Table
from novelo.stores.sqlite import files
from novelo.stores.sqlite.database import Database, translated
from novelo.stores.sqlite.index import POSITIONS
from novelo.stores.sqlite.reading import current, read_only
from novelo.stores.sqlite.session import Session

LOG_PAGES = 16_384  # of the target's log before it goes into the file: a commit that does that waits for the disk
CHUNKS = """
SELECT c.collection, c.number, c.source, c.place, c.body, coalesce(w.heads, ''), coalesce(w.words, ''), c.seal
FROM chunks c INDEXED BY chunks_by_collection LEFT JOIN chunk_words w ON w.rowid = c.number
WHERE c.collection > ? AND c.collection <= ? ORDER BY c.collection, c.number
"""
FOUND = """
SELECT rowid - ?1, words, rowid, 0 FROM search WHERE rowid >= ?1 AND rowid < ?2
UNION ALL SELECT row - ?1, words, row, 1 FROM search_new WHERE row >= ?1 AND row < ?2 ORDER BY 1
"""


class SQLiteRows:
    """One state of a file: what a connection that has begun a transaction sees."""

    def __init__(self, session: Session, place: str, ended: Callable[[], object]) -> None:
        self.session, self.place, self._ended = session, place, ended

    def facts(self) -> dict[str, bytes]:
        """What stands in the table meta and belongs to the contents."""
        with _ours():
            found = dict(self.session.execute("SELECT name, value FROM meta"))
        return {name: found[name] for name in META if name in found}

    def heads(self, what: str, after: bytes, limit: int) -> list[Head]:
        """Threads or collections, by key."""
        key = KEYS[what]
        with _ours():
            rows = list(self.session.execute(f"{HEADS[what]} WHERE {key} > ? ORDER BY {key} LIMIT ?", (after, limit)))
        return [head_of(row) for row in rows]

    def rows(self, table: Table, after: bytes, upto: bytes) -> Iterator[Row]:
        """The rows of keys in (after, upto], by key and what tells them apart."""
        with _ours():
            if table.name == "search":
                yield from self._found(after, upto)
                return
            special = CHUNKS if table.name == "chunks" else None
            rows = self.session.execute(special or _select(table), (after, upto) if table.ranged else ())
            if table.seal is None:
                yield from rows
                return
            what = table.seal[0]
            for *row, found in rows:
                if found != table.sealed(row):
                    raise StorageCorrupt(f"a {what} was altered outside of novelo: restore a backup")
                yield tuple(row)

    def _found(self, after: bytes, upto: bytes) -> Iterator[Row]:
        """The search index: position and words, then the row's number and whether it waits."""
        threads = "SELECT thread, number FROM indexed WHERE thread > ? AND thread <= ? ORDER BY thread"
        for key, number in list(self.session.execute(threads, (after, upto))):
            first = number * POSITIONS
            for row in self.session.execute(FOUND, (first, first + POSITIONS)):
                yield (key, *row)

    def same(self, table: Table, row: Row) -> Row:
        """A row as it is compared: of the search index its different words."""
        if table.name == "search":
            return row[0], row[1], sorted(lexemes(row[2]))
        return row

    def whole(self, table: Table, row: Row) -> Row:
        """A row as any engine can store it."""
        return row

    def count(self, table: str) -> int:
        """How many rows there are."""
        with _ours():
            return int(next(self.session.execute(f"SELECT count(*) FROM {table}"))[0])  # noqa: S608  a table of ours

    def close(self) -> None:
        """The state is let go."""
        self._ended()


class SQLiteTarget(SQLiteRows):
    """A file that is written through a second connection."""

    def __init__(self, database: Database, reader: Session, writer: Session, place: str) -> None:
        super().__init__(reader, place, reader.close)
        self._database, self._writer = database, writer

    def adopt(self, facts: dict[str, bytes], note: str) -> None:
        """Take over a secret, if nothing is here yet, and the other facts; note that a copy has begun."""
        with _ours():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                if facts["secret"] != self.facts()["secret"]:
                    for table in ("threads", "collections", "audit"):
                        if count := self.count(table):
                            raise InvalidSpec(
                                f"{self.place} holds other data ({count} rows of {table}, with another secret): "
                                "nothing was copied. Name an empty destination"
                            )
                self._writer.executemany("DELETE FROM meta WHERE name = ?", [(name,) for name in META])
                self._writer.executemany("INSERT INTO meta VALUES (?, ?)", list(facts.items()))
                self._writer.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (NOTE, note))
                self._writer.execute("COMMIT")
            except BaseException:
                self.roll_back()
                raise

    def begin(self) -> None:
        """A transaction begins."""
        with _ours():
            self._writer.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """It ends well."""
        with _ours():
            self._writer.execute("COMMIT")

    def roll_back(self) -> None:
        """Nothing of it stays."""
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def delete(self, table: Table, rows: Sequence[Row]) -> None:
        """Rows go."""
        with _ours():
            if table.name == "search":
                for row in rows:
                    self._writer.run("unindex_waiting" if row[4] else "unindex", (row[3],))
                return
            if table.name == "chunks":
                self._writer.executemany("DELETE FROM chunk_words WHERE rowid = ?", [(row[1],) for row in rows])
            where = " AND ".join(f"{name} = ?" for name in table.columns[: table.lead])
            text = f"DELETE FROM {table.name} WHERE {where}"  # noqa: S608  a table of ours
            self._writer.executemany(text, [row[: table.lead] for row in rows])

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Rows come."""
        with _ours():
            if table.name == "search":
                self._index(rows)
                return
            made = rows if table.seal is None else [(*row, table.sealed(row)) for row in rows]
            if table.name == "chunks":
                words = [(row[1], *row[5:7]) for row in rows]
                self._writer.executemany("INSERT INTO chunk_words (rowid, heads, words) VALUES (?, ?, ?)", words)
                made = [(*row[:5], row[7]) for row in made]
            self._writer.executemany(_insert(table), made)

    def _index(self, rows: Sequence[Row]) -> None:
        for key, group in groupby(rows, itemgetter(0)):
            number = next(iter(self._writer.run("thread_number", (key,))), (None,))[0]
            if number is None:
                number = next(iter(self._writer.run("next_number")))[0]
                self._writer.run("number_thread", (key, number))
            values = [(number * POSITIONS + row[1], row[2], key, row[1]) for row in group if row[1] < POSITIONS]
            self._writer.executemany("INSERT INTO search (rowid, words, thread, position) VALUES (?, ?, ?, ?)", values)

    def settle(self, upto: tuple[bytes, bytes] | None) -> None:
        """Nothing follows from what was written here; at the end the note on the copy goes."""
        if upto is None:
            with _ours():
                self._writer.execute("DELETE FROM meta WHERE name = ?", (NOTE,))

    def close(self) -> None:
        """All connections are closed; the log goes into the file."""
        self.session.close()
        self._writer.close()
        self._database.scrub()
        self._database.close()


def source_of(database: Database) -> SQLiteRows:
    """The state that an open database has now; of a file through a connection of its own that cannot write."""
    if database.path:
        return open_source(database.path)
    with ExitStack() as stack:
        stack.enter_context(database.snapshot())
        session = stack.enter_context(database.reading())
        return SQLiteRows(session, "sqlite://", stack.pop_all().close)


def open_source(path: str) -> SQLiteRows:
    """The state that a file has now.

    Raises:
        StorageUnavailable, StorageCorrupt: there is none, or it is none of ours.
        SchemaTooNew, StorageReadOnly: a newer version wrote it, or an older one, and it was not opened since.
    """
    with _ours():
        session = read_only(path)
        try:
            session.execute("BEGIN")
            current(session, path)  # the first read is what the state is of
        except BaseException:
            session.close()
            raise
    return SQLiteRows(session, files.address(path), session.close)


def open_target(path: str, *, synchronous: str = "NORMAL", ballast_bytes: int | None = None) -> SQLiteTarget:
    """A file to copy into, made if it is not there.

    Args:
        synchronous: NORMAL: a power cut may take the last batches, never a part of one; the end is on disk.
        ballast_bytes: see `Database`.
    """
    database = Database(path, synchronous=synchronous, ballast_bytes=ballast_bytes)
    with _ours():
        reader, writer = database._connect(), database._connect()
        writer.wal_autocheckpoint(LOG_PAGES)
        return SQLiteTarget(database, reader, writer, files.address(path))


@lru_cache(64)
def _select(table: Table) -> str:
    columns = ", ".join((*table.columns, *(["seal"] if table.seal else [])))
    order = ", ".join(table.columns[: table.lead])
    where = table.where("?", "?")
    return f"SELECT {columns} FROM {table.name} {where} ORDER BY {order}"  # noqa: S608  names of ours


@lru_cache(64)
def _insert(table: Table) -> str:
    columns = table.columns[:5] if table.name == "chunks" else table.columns
    columns = (*columns, "seal") if table.seal else columns
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608


@contextmanager
def _ours() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        raise translated(error) from error
