"""Connections to one SQLite file: how they are opened, lent out, and how their errors become ours.

apsw brings its own current SQLite: the library of many systems (below 3.51.3) can corrupt a WAL database that several
connections write. Every connection runs with WAL, synchronous=FULL (what was committed survives a power cut),
secure_delete (what was removed is overwritten), and waits for other writers with jitter.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import apsw

from novelo.errors import StorageCorrupt, StorageFull, StorageReadOnly, StorageUnavailable, StoreError
from novelo.stores.base import BACKUPS
from novelo.stores.privacy import Traces
from novelo.stores.sqlite import files
from novelo.stores.sqlite.index import Index
from novelo.stores.sqlite.migrations import bring_up, schema_version, secret_of
from novelo.stores.sqlite.reading import current
from novelo.stores.sqlite.reading import read_only as for_reading
from novelo.stores.sqlite.session import Session
from novelo.stores.sqlite.washing import File, can_wash
from novelo.stores.tables.rows import over

T = TypeVar("T")
BUSY_S = 30.0  # how long a write waits for writers of other processes before it gives up
GAPS = "old copies of rows inside of pages, until they are written over (a vacuum writes the file anew)"
LOG_WAITS = (
    "the write-ahead log beside the file, which a reader holds: it goes with the next removal, or with the last close"
)
WASHES = 5  # tries to find the log empty
SCRUB_S = 2.0  # how long the log waits for readers to let it be emptied
OPTIONS = """
PRAGMA secure_delete = ON;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA cell_size_check = ON;
PRAGMA journal_size_limit = 4194304;
"""
_SAID: tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...] = (
    ((apsw.FullError,), StorageFull, "the disk is full ({}): nothing was stored; free some space and try again"),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError),
        StorageReadOnly,
        "the database cannot be written ({}): check the rights of the file and its folder",
    ),
    (
        (apsw.NotADBError,),
        StorageCorrupt,
        "the file is no database ({}), or its beginning was overwritten: name another one",
    ),
    ((apsw.CorruptError,), StorageCorrupt, "the database file is damaged ({}): restore a backup"),
    (
        (apsw.ConstraintError, apsw.MismatchError, UnicodeDecodeError),
        StorageCorrupt,
        "the database was altered outside of novelo ({}): restore a backup",
    ),
    (
        (apsw.BusyError, apsw.LockedError),
        StorageUnavailable,
        f"another process kept the database locked for more than {BUSY_S:g} s ({{}}): try again",
    ),
)


def translated(error: Exception) -> StoreError:
    """The error of ours for one of SQLite's."""
    if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:  # the log's index could not grow
        return StorageFull("the disk is full: nothing was stored; free some space and try again")
    for kinds, ours, text in _SAID:
        if isinstance(error, kinds):
            said = "text that is no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            return ours(text.format(said))
    return StorageUnavailable(f"the database cannot be used ({type(error).__name__}: {error})")


class Database:
    """One file, or memory, and a pool of connections; writers of this process take turns."""

    def __init__(
        self,
        path: str,
        *,
        vfs: str | None = None,
        synchronous: str = "FULL",
        exclusive: bool = False,
        ballast_bytes: int | None = None,
        read_only: bool = False,
    ) -> None:
        """Open the file, make or migrate its schema, and set every connection up for durability.

        Args:
            path: a file's path, or "" for memory.
            vfs: SQLite's file layer, for fault tests.
            synchronous: FULL; anything less can lose what was acknowledged.
            exclusive: for one process only, where the file layer has no shared memory.
            ballast_bytes: held back for erasures on a full disk; None is 4 MiB once the file has 64 MiB.
            read_only: for looking alone: nothing is made, and nothing written.
        Raises:
            StorageUnavailable, StorageReadOnly, StorageFull, StorageCorrupt: the file cannot be opened.
            SchemaTooNew: a newer version wrote it.
        """
        self.path = path
        self.read_only = read_only
        self._vfs, self._synchronous, self._exclusive = vfs, synchronous, exclusive
        self._free: list[Session] = []
        self._lock = threading.Lock()
        self._writing = threading.RLock()
        self._only = None if path else threading.RLock()  # memory lives in one connection
        self._mine = threading.local()
        self._process = os.getpid()
        self._closed = self._unclean = self._known = False
        self._washed = True
        self._lent = 0
        self._bytes: File | None = None
        on_disk = bool(path) and vfs is None
        if on_disk and not read_only:
            files.make(Path(path))
        self._file = files.identity(path) if on_disk else None
        self._ballast = files.Ballast(path, ballast_bytes if on_disk and not read_only else 0)
        with _ours():
            connection = self._connect()
            try:
                current(connection, path) if read_only else bring_up(connection, self.read_only)
            except BaseException:
                connection.close()
                raise
        self._known = True
        self._free.append(connection)
        if not self.read_only:
            self._ballast.lay()

    @property
    def secret(self) -> bytes:
        """What threads' keys are made with."""
        with self.reading() as connection:
            return secret_of(connection)

    def index(self, secret: bytes, on: bool) -> Index:
        """The search index."""
        return Index(secret, on)

    # ------------------------------------------------------------------------------------------ lending
    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A connection; each statement sees one snapshot, inside of `snapshot` all of them the same."""
        held = getattr(self._mine, "connection", None)
        if held is not None:
            with _ours():
                yield held
            return
        connection = self._take()
        try:
            yield connection
        except (apsw.Error, UnicodeDecodeError) as error:
            raise translated(error) from error
        finally:
            self._give_back(connection)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that this thread reads inside sees one state of the database."""
        if getattr(self._mine, "connection", None) is not None:
            yield
            return
        with self.reading() as connection:
            connection.execute("BEGIN")
            self._mine.connection = connection
            try:
                yield
            finally:
                self._mine.connection = None
                _roll_back(connection)

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A connection inside an immediate transaction: committed at the end, or rolled back whole."""
        if self.read_only:
            raise StorageReadOnly(
                "the database was opened read-only: for a look, or since its folder cannot be written"
            )
        if getattr(self._mine, "connection", None) is not None:
            raise StorageUnavailable("a snapshot is for reading: leave it before you write")
        with self._writing:
            connection = self._take()
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    self._check_file()
                    connection.execute("COMMIT")
                except BaseException:
                    _roll_back(connection)
                    raise
            except (apsw.Error, UnicodeDecodeError) as error:
                raise translated(error) from error
            finally:
                self._give_back(connection)

    def _check_file(self) -> None:
        if self._file is not None and files.identity(self.path) != self._file:
            raise StorageUnavailable(
                f"the database {self.path} was removed or replaced while it was open: nothing was stored; open it again"
            )

    def _take(self) -> Session:
        if self._process != os.getpid():
            raise StorageUnavailable("the database was opened before this process was forked: open it again here")
        if self._only is not None:
            self._only.acquire()
        with self._lock:
            if not self._closed:
                self._lent += 1
            if not self._closed and self._free:
                return self._free.pop()
        if self._closed or not self.path:
            if self._only is not None:
                self._only.release()
            raise StorageUnavailable("the memory is closed: open it again")
        try:
            with _ours():
                return self._connect()
        except BaseException:
            with self._lock:
                self._lent -= 1
            raise

    def _give_back(self, connection: Session) -> None:
        connection.settle()
        with self._lock:
            if not self._closed:
                self._free.append(connection)
        if self._closed:
            connection.close()
        with self._lock:
            self._lent -= 1
        if self._only is not None:
            self._only.release()

    # ------------------------------------------------------------------------------------------ opening
    def _connect(self) -> Session:
        if self.read_only:
            return for_reading(self.path)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = Session(self.path or ":memory:", flags=flags, vfs=self._vfs, statementcachesize=200)
        connection.set_busy_handler(_Patience())
        try:
            self._set_up(connection)
        except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError) as error:
            connection.close()
            if not self._may_be_read_only(error):
                raise
            self.read_only = True
            return self._connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: Session) -> None:
        connection.create_scalar_function("seal", over, deterministic=True)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        # One plan a statement: else those with an order are prepared anew at each call, for the values of that call.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        if self._exclusive:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        deadline = time.monotonic() + BUSY_S
        while True:  # two processes that make a file's log at once are told "busy" without waiting
            try:
                if not self._known:
                    schema_version(connection)  # another program's database stays as it is
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.01))  # noqa: S311
        for _ in connection.execute(f"PRAGMA synchronous = {self._synchronous};{OPTIONS}"):
            pass  # some answer with a row, and what stands behind such a one runs only when the row was read

    def _may_be_read_only(self, error: Exception) -> bool:
        """A WAL database can be read without its log only if nobody can be writing it: no log beside it, no rights."""
        path = Path(self.path)
        log = path.with_name(path.name + "-wal")
        if self._vfs is not None or not path.exists() or os.access(path.parent, os.W_OK):
            return False
        if log.exists() and log.stat().st_size:
            raise StorageReadOnly(
                f"the folder of {path} cannot be written, and the newest turns are in the log beside it: "
                "give write access, or copy both files to a folder that can be written"
            ) from error
        return True

    # ------------------------------------------------------------------------------------------ leaving nothing behind
    def scrub(self) -> bool:
        """Write the log into the file and empty it, so that nothing removed is left; False if a reader blocks it."""
        if not self.path or self.read_only:
            return True
        self._unclean = not self._emptied(SCRUB_S)
        if not self._unclean and self._vfs is None and not self._exclusive:
            self._washed = not can_wash(self.path) or self._wash()
        self._ballast.lay()
        return not self._unclean and self._washed

    def _wash(self) -> bool:
        """Write over old copies of rows inside of pages (`washing.py`); False if others write all the time."""
        if self._bytes is None:
            self._bytes = File(self.path)
        for _ in range(WASHES):
            if not self._bytes.gaps():
                return True
            with self._writing, self.reading() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    log = Path(f"{self.path}-wal")
                    if not log.exists() or not log.stat().st_size:  # else a page may come out of it at any moment
                        self._check_file()
                        self._bytes.overwrite(self._bytes.gaps())
                        connection.execute("PRAGMA shrink_memory")
                        next(connection.run("next_wash"))  # a commit, at which all forget their copies of pages
                        connection.execute("COMMIT")
                finally:
                    _roll_back(connection)
            if not self._emptied(SCRUB_S):
                return False
        return not self._bytes.gaps()

    def _emptied(self, patience_s: float) -> bool:
        """Write the log into the file and cut it to nothing; False if a reader blocks it for so long.

        Between two tries others may write: a reader of another process stays as long as it likes.
        """
        deadline = time.monotonic() + patience_s
        while not self._checkpointed():
            if time.monotonic() > deadline:
                return False
            time.sleep(random.uniform(0.005, 0.03))  # noqa: S311
        return True

    def _checkpointed(self) -> bool:
        with self._writing, self.reading() as connection:
            connection.set_busy_timeout(0)  # our own patience is shorter than a writer's
            try:
                return not next(iter(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")))[0]
            finally:
                connection.set_busy_handler(_Patience())

    def vacuum(self, full: bool) -> bool:
        """Write the file anew without its gaps, and empty the log; False if a reader is in the way."""
        if not self.path or self.read_only:
            return True
        with self._writing, self.reading() as connection:
            connection.execute("VACUUM")
        return self.scrub()

    def traces(self, clean: bool, vacuumed: str) -> Traces:
        """What is left of removed rows, in words."""
        waits = () if clean else (LOG_WAITS,)
        large = bool(self.path) and not self.read_only and not vacuumed and not can_wash(self.path)
        return Traces(waits, (GAPS,) if large else (), (BACKUPS,))

    def with_room(self, work: Callable[[], T], smaller: Callable[[], T] | None = None) -> T:
        """Do work that must pass on a full disk too: the ballast is given back, and the work is done again.

        What was rolled back for want of room still takes it, in the log: that is emptied before each further try.

        Args:
            smaller: does the same with less room, if even that does not help.
        """
        try:
            return work()
        except StorageFull:
            if not self._ballast.drop() and smaller is None:
                raise
            self._give_room()
            try:
                return work()
            except StorageFull:
                self._give_room()
                if smaller is None:
                    raise
                return smaller()
        finally:
            self._ballast.lay()

    def _give_room(self) -> None:
        with suppress(StoreError):
            self._emptied(0.0)

    def close(self) -> None:
        """Close all connections; the last one writes the log into the file and removes it.

        A connection that is lent out at this moment is closed when it comes back. In a process that was forked since,
        nothing is closed.
        """
        if self._closed or self._process != os.getpid():
            self._closed = True
            return
        if self._unclean:
            try:
                self.scrub()
            except StoreError:
                self._unclean = True  # a reader, a full disk: the log goes with the last connection of all
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()
        if self._bytes is not None and not self._lent:  # else it stays open: closing it would take locks of others
            self._bytes.close()
            self._bytes = None


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


@contextmanager
def _ours() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        raise translated(error) from error


def _roll_back(connection: Session) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
