"""A vault in a PostgreSQL database: another one than that of the threads, with short-lived backups of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from novelo.errors import StorageUnavailable, StoreError
from novelo.stores.postgres.database import Settings
from novelo.stores.postgres.faults import translated
from novelo.stores.vaults.base import SCHEMA, Ask

import psycopg  # isort: skip  the extra is asked for by `stores.postgres.database`, in words
from psycopg import sql  # isort: skip

NAME = "vault"  # of the schema, unless the address says otherwise
LOCK = (
    0x6E6F76656C6F  # an advisory lock: "novelo" in ASCII; one writer at a time, so that notes are seen in their order
)
TABLES = """
CREATE TABLE {0}.facts (name text PRIMARY KEY, value bytea NOT NULL);
CREATE TABLE {0}.ledger (
  number bigint PRIMARY KEY, thread bytea NOT NULL, kind text NOT NULL, moment double precision NOT NULL,
  born double precision NOT NULL, version bigint NOT NULL, place bigint NOT NULL, mark bytea NOT NULL
);
CREATE TABLE {0}.keys (
  thread bytea NOT NULL, version bigint NOT NULL, wrapper text NOT NULL, wrapped bytea NOT NULL,
  made double precision NOT NULL, PRIMARY KEY (thread, version)
);
"""


class VaultServer:
    """See `base.Place`."""

    def __init__(self, url: str, create: bool) -> None:
        """Connect, and make the tables if they are not there.

        Raises:
            StorageUnavailable: it cannot be reached, or is not there and must be.
        """
        self.settings = Settings(url)
        self.schema = self.settings.schema if "schema=" in url else NAME
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection: psycopg.Connection[Any] | None = None
        try:
            with self._open() as connection, connection.transaction():
                found = connection.execute("SELECT to_regclass(%s)", (f'"{self.schema}".facts',)).fetchone()
                if found == (None,):
                    self._make(connection, create)
        except psycopg.Error as error:
            raise self._told(error) from error

    def _make(self, connection: psycopg.Connection[Any], create: bool) -> None:
        if not create:
            raise StorageUnavailable(
                f"the vault {self.name} is not there: correct vault= or NOVELO_VAULT, or restore it from its own backup"
            )
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if connection.execute("SELECT to_regclass(%s)", (f'"{self.schema}".facts',)).fetchone() != (None,):
            return  # another process was quicker
        name = sql.Identifier(self.schema)
        if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self.schema,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        connection.execute(sql.SQL(TABLES).format(name))
        values = ("schema", str(SCHEMA).encode(), "id", os.urandom(16))
        connection.execute(sql.SQL("INSERT INTO {}.facts VALUES (%s, %s), (%s, %s)").format(name), values)

    @property
    def name(self) -> str:
        """The server, the database and the schema."""
        return f"{self.settings.place} (schema {self.schema})"

    def _told(self, error: psycopg.Error) -> StoreError:
        """The error of ours; what the user has no right to is of the vault, and not of the database."""
        ours = translated(error, self.settings, None, False)
        if error.sqlstate == "42501":
            return StorageUnavailable(f"this user may not do that in the vault {self.name}: see docs/encryption.md")
        return ours

    def _open(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**self.settings.options, autocommit=True, prepare_threshold=None)

    def _ready(self) -> psycopg.Connection[Any]:
        """The connection, or another one in place of one that broke while it lay idle."""
        found = self._connection
        if found is not None and not found.closed:
            with suppress(psycopg.Error):
                found.execute("SELECT 1")
                return found
        self._connection = self._open()
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[Ask]:
        """Statements in one transaction; writers follow one another, so that no note is seen before an earlier one."""
        if self._process != os.getpid():
            raise StorageUnavailable("the vault was opened before this process was forked: open it again here")
        with self._lock:
            try:
                connection = self._ready()
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                    yield lambda text, *values: self._ask(connection, text, values)
            except psycopg.Error as error:
                raise self._told(error) from error

    def _ask(self, connection: psycopg.Connection[Any], text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        for table in ("facts", "ledger", "keys"):
            for word in ("FROM", "INTO", "UPDATE"):
                text = text.replace(f"{word} {table}", f'{word} "{self.schema}".{table}')
        cursor = connection.execute(text.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description is not None else []

    def scrub(self) -> None:
        """The old versions of rows go; what stands in the server's log and its archive goes with those."""
        with self._lock, suppress(psycopg.Error):  # only the tables' owner may
            self._ready().execute(sql.SQL("VACUUM {}.keys").format(sql.Identifier(self.schema)))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
