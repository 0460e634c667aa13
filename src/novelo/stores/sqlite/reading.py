"""A connection to a file that cannot write: for copies, backups, and looks at its health."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from novelo.errors import SchemaTooNew, StorageCorrupt, StorageReadOnly, StorageUnavailable
from novelo.stores.sqlite.files import UNREADABLE
from novelo.stores.sqlite.migrations import SCHEMA, schema_version
from novelo.stores.sqlite.session import Session
from novelo.stores.tables.rows import over

BUSY_MS = 30_000


def read_only(path: str) -> Session:
    """Open a file for reading alone; one whose folder cannot be written as one that nobody is writing.

    Raises:
        StorageUnavailable: there is no such file.
        StorageReadOnly: its newest turns are in a log beside it, which cannot be read without writing there.
    """
    file = Path(path)
    if not file.exists():
        raise StorageUnavailable(f"there is no database {path}")
    if file.is_dir():
        raise StorageUnavailable(f"{path} is a folder; give a file in it")
    try:
        return _set_up(Session(path, flags=apsw.SQLITE_OPEN_READONLY))
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.IOError) as error:
        if not os.access(path, os.R_OK):
            raise StorageReadOnly(UNREADABLE.format(path)) from error
        log = file.with_name(file.name + "-wal")
        if os.access(file.parent, os.W_OK):
            raise
        if log.exists() and log.stat().st_size:
            raise StorageReadOnly(
                f"the folder of {path} cannot be written, and the newest turns are in the log beside it: "
                "give write access, or copy both files to a folder that can be written"
            ) from error
    name = f"file:{file.resolve().as_posix()}?immutable=1"
    return _set_up(Session(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI))


def _set_up(connection: Session) -> Session:
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.create_scalar_function("seal", over, deterministic=True)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        for _ in connection.execute("PRAGMA query_only = ON; SELECT count(*) FROM sqlite_schema"):
            pass
    except BaseException:
        connection.close()
        raise
    return connection


def current(connection: Session, path: str) -> None:
    """Whether a file is one of ours, of this version's schema.

    Raises:
        StorageCorrupt, SchemaTooNew, StorageReadOnly: it is none, or of a newer or an older one.
    """
    found = schema_version(connection)
    if found == 0:
        raise StorageCorrupt(f"there is nothing of ours in {path}: it is empty")
    if found > SCHEMA:
        raise SchemaTooNew(
            f"the database has schema {found}, this version knows up to {SCHEMA}: upgrade novelo", found=found
        )
    if found < SCHEMA:
        raise StorageReadOnly(f"the database has schema {found}, {SCHEMA} is needed: open it once to migrate it")
