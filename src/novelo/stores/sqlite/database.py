"""Connections to one SQLite file: how they are opened, lent out, and how their errors become ours.

apsw brings its own current SQLite: the library of many systems (below 3.51.3) can corrupt a WAL database that several
connections write. Every connection runs with WAL, synchronous=FULL (what was committed survives a power cut),
secure_delete (what was removed is overwritten), and waits for other writers with jitter.
"""

from __future__ import annotations

import os
import random
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import apsw

from novelo.errors import (
    InvalidSpec,
    SchemaTooNew,
    StorageCorrupt,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    StoreError,
)

SCHEMA = 1
BUSY_S = 30.0  # how long a write waits for writers of other processes before it gives up
PACKAGE = "novelo.stores.sqlite"


def translated(error: apsw.Error) -> StoreError:
    """The error of ours for one of SQLite's."""
    text = str(error)
    if isinstance(error, apsw.FullError):
        return StorageFull(f"the disk is full ({text}): nothing was stored; free some space and try again")
    if isinstance(error, apsw.ReadOnlyError):
        return StorageReadOnly(f"the database cannot be written ({text}): check the rights of the file and its folder")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return StorageCorrupt(f"the database file is damaged ({text}): restore a backup")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return StorageUnavailable(f"another process kept the database locked for more than {BUSY_S:g} s: try again")
    return StorageUnavailable(f"the database cannot be used ({type(error).__name__}: {text})")


class Database:
    """One file, or memory, and a pool of connections; writers of this process take turns."""

    def __init__(self, path: str, *, vfs: str | None = None, synchronous: str = "FULL", exclusive: bool = False) -> None:
        """Open the file, make or migrate its schema, and set every connection up for durability.

        Args:
            path: a file's path, or "" for memory.
            vfs: SQLite's file layer, for fault tests.
            synchronous: FULL; anything less can lose what was acknowledged.
            exclusive: for one process only, where the file layer has no shared memory.
        Raises:
            StorageUnavailable, StorageReadOnly, StorageCorrupt: the file cannot be opened.
            SchemaTooNew: a newer version wrote it.
        """
        self.path = path
        self.read_only = False
        self._vfs, self._synchronous, self._exclusive = vfs, synchronous, exclusive
        self._free: list[apsw.Connection] = []
        self._all: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        self._closed = False
        if path and vfs is None:
            _make_file(Path(path))
        with self.translating():
            connection = self._connect()
            self._prepare(connection)
            self._free.append(connection)

    @contextmanager
    def translating(self) -> Iterator[None]:
        """SQLite's errors become ours."""
        try:
            yield
        except apsw.Error as error:
            raise translated(error) from error

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """A connection; each statement sees one snapshot."""
        connection = self._take()
        try:
            yield connection
        except apsw.Error as error:
            raise translated(error) from error
        finally:
            self._free.append(connection)

    @contextmanager
    def writing(self) -> Iterator[apsw.Connection]:
        """A connection inside an immediate transaction: committed at the end, or rolled back whole."""
        if self.read_only:
            raise StorageReadOnly("the database was opened read-only: its folder cannot be written")
        with self._writing:
            connection = self._take()
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    self._roll_back(connection)
                    raise
                try:
                    connection.execute("COMMIT")
                except BaseException:
                    self._roll_back(connection)
                    raise
            except apsw.Error as error:
                raise translated(error) from error
            finally:
                self._free.append(connection)

    def _roll_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def _take(self) -> apsw.Connection:
        try:
            return self._free.pop()
        except IndexError:
            pass
        if self._closed:
            raise StorageUnavailable("the memory is closed: open it again")
        if not self.path:  # memory lives in one connection: wait for it
            while not self._free:
                time.sleep(0.0005)
                if self._closed:
                    raise StorageUnavailable("the memory is closed: open it again")
            return self._take()
        with self.translating():
            return self._connect()

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        name = self.path or ":memory:"
        if self.read_only:
            name, flags = (
                f"file:{Path(self.path).resolve().as_posix()}?immutable=1",
                apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
            )
        connection = apsw.Connection(name, flags=flags, vfs=self._vfs, statementcachesize=100)
        connection.set_busy_handler(_Patience())
        if not self.read_only:
            try:
                self._set_up(connection)
            except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError):
                connection.close()
                if not self._can_be_read_only():
                    raise
                self.read_only = True
                return self._connect()
        with self._lock:
            self._all.append(connection)
        return connection

    def _set_up(self, connection: apsw.Connection) -> None:
        if self._exclusive:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA journal_size_limit = 4194304")

    def _can_be_read_only(self) -> bool:
        """A WAL database can be read without writing only if nobody can be writing it: no log beside it, no rights."""
        path = Path(self.path)
        log = path.with_name(path.name + "-wal")
        return path.exists() and not (log.exists() and log.stat().st_size) and not os.access(path.parent, os.W_OK)

    def _prepare(self, connection: apsw.Connection) -> None:
        """Make the schema, or lead an older one to this one."""
        from novelo.stores.sqlite.migrations import migrate

        found = schema_version(connection)
        if found > SCHEMA:
            raise SchemaTooNew(
                f"the database has schema {found}, this version knows up to {SCHEMA}: upgrade novelo", found=found
            )
        if found == SCHEMA:
            return
        if self.read_only:
            raise StorageReadOnly(
                f"the database has schema {found} and its folder cannot be written: {SCHEMA} is needed"
            )
        connection.execute("BEGIN EXCLUSIVE")
        try:
            found = schema_version(connection)  # another process may have been quicker
            if found == 0:
                create(connection)
            else:
                migrate(connection, found, SCHEMA)
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    def scrub(self) -> bool:
        """Write the log into the file and empty it, so that nothing removed is left; False if a reader blocks it."""
        if not self.path:
            return True
        deadline = time.monotonic() + 2.0
        with self._writing, self.reading() as connection:
            while True:
                busy, _, _ = next(iter(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
                if not busy or time.monotonic() > deadline:
                    return not busy
                time.sleep(0.02)

    def close(self) -> None:
        """Close all connections; the last one writes the log into the file and removes it."""
        self._closed = True
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
            self._free.clear()


class _Patience:
    """Waits for other writers: short pauses with jitter, so that nobody starves and nobody spins."""

    def __init__(self) -> None:
        self.since = 0.0

    def __call__(self, tries: int) -> bool:
        if tries == 0:
            self.since = time.monotonic()
        if time.monotonic() - self.since > BUSY_S:
            return False
        time.sleep(random.uniform(0.0005, min(0.02, 0.001 * (tries + 1))))  # noqa: S311
        return True


def _make_file(path: Path) -> None:
    """An owner-only file in a folder that is there."""
    if str(path).startswith("\\\\") or "\x00" in str(path):
        raise InvalidSpec(f"database path {str(path)!r}: expected a file's path on this machine")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR))
    except OSError as error:
        raise StorageUnavailable(f"the database {path} cannot be made: {error.strerror}") from error
    if path.is_dir():
        raise StorageUnavailable(f"{path} is a folder; give a file in it, such as {path / 'chat.db'}")


def schema_version(connection: apsw.Connection) -> int:
    """The schema's number; 0 for an empty file.

    Raises:
        StorageCorrupt: another program's database.
    """
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names:
        return 0
    if "meta" not in names:
        raise StorageCorrupt("the file is a database of another program: choose another file")
    rows = list(connection.execute("SELECT value FROM meta WHERE name = 'schema'"))
    return int(rows[0][0]) if rows else 0


def create(connection: apsw.Connection) -> None:
    """The schema of a fresh database, and its secret."""
    connection.execute(resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8"))
    connection.execute("INSERT INTO meta VALUES ('schema', ?), ('secret', ?)", (SCHEMA, os.urandom(32)))


def named(connection: apsw.Connection, query: str, values: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """Rows as dicts by column name."""
    cursor = connection.execute(query, values)
    for row in cursor:
        yield dict(zip((d[0] for d in cursor.get_description()), row, strict=True))
