"""A vault in a file of its own: no log beside it, everything that is overwritten is overwritten with zeros."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from novelo.errors import StorageUnavailable, StoreError
from novelo.stores.sqlite.database import BUSY_S, translated
from novelo.stores.sqlite.files import make
from novelo.stores.vaults.base import SCHEMA, Ask

TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE ledger (
  number INTEGER PRIMARY KEY, thread BLOB NOT NULL, kind TEXT NOT NULL, moment REAL NOT NULL, born REAL NOT NULL,
  version INTEGER NOT NULL, place INTEGER NOT NULL, mark BLOB NOT NULL
);
CREATE TABLE keys (
  thread BLOB NOT NULL, version INTEGER NOT NULL, wrapper TEXT NOT NULL, wrapped BLOB NOT NULL, made REAL NOT NULL,
  PRIMARY KEY (thread, version)
) WITHOUT ROWID;
"""
# A rollback journal goes with each commit; a write-ahead log would keep destroyed keys until somebody empties it.
OPTIONS = """
PRAGMA secure_delete = ON;
PRAGMA journal_mode = DELETE;
PRAGMA synchronous = EXTRA;
PRAGMA temp_store = MEMORY;
PRAGMA cell_size_check = ON;
"""


class VaultFile:
    """See `base.Place`."""

    def __init__(self, path: str, create: bool) -> None:
        """Open or make the file.

        Raises:
            StorageUnavailable: it is not there, and must be.
        """
        self.path = path
        self._lock = threading.RLock()
        self._process = os.getpid()
        if not Path(path).exists() and not create:
            raise StorageUnavailable(
                f"the vault {path} is not there: correct vault= or NOVELO_VAULT, or restore it from its own backup"
            )
        try:
            make(Path(path))
            self._connection = apsw.Connection(path)
            self._connection.set_busy_timeout(int(BUSY_S * 1000))
            self._connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            for _ in self._connection.execute(OPTIONS):
                pass
            with self.transaction() as ask:
                if not ask("SELECT 1 FROM sqlite_master"):
                    self._connection.execute(TABLES)
                    values = ("schema", str(SCHEMA).encode(), "id", os.urandom(16))
                    ask("INSERT INTO facts VALUES (?, ?), (?, ?)", *values)
        except (apsw.Error, StoreError) as error:
            raise self._told(error) from error

    @property
    def name(self) -> str:
        """The file's path."""
        return self.path

    def _told(self, error: Exception) -> StoreError:
        ours = error if isinstance(error, StoreError) else translated(error)
        text = str(ours).removeprefix("the database ").removeprefix("the vault ")
        return type(ours)(f"the vault {self.path}: {text.removeprefix(self.path).strip()}")

    @contextmanager
    def transaction(self) -> Iterator[Ask]:
        """Statements in one transaction, which no other process writes beside."""
        if self._process != os.getpid():
            raise StorageUnavailable("the vault was opened before this process was forked: open it again here")
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._ask
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except apsw.ConnectionClosedError as error:
                raise StorageUnavailable("the vault is closed: open the memory again") from error
            except apsw.Error as error:
                raise self._told(error) from error

    def _ask(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(text, values))

    def scrub(self) -> None:
        """Nothing is left to do: the journal is gone, and old bytes were overwritten."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
