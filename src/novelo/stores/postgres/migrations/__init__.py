"""The schema of a database: made when it is fresh, led from an older one to this one, refused when it is newer.

`schema.sql` is what a fresh database gets. Numbered steps lead older ones to the same end: `0002.sql` leads schema 1 to
schema 2. All of it runs inside one transaction under an advisory lock that ends with it: of many processes that open an
old database at once, one migrates it, and a process that is killed in the middle leaves the old schema behind, whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from typing import Any

import psycopg
from psycopg import sql

from novelo.errors import SchemaTooNew, StorageCorrupt, StorageReadOnly, StorageUnavailable
from novelo.stores.postgres.texts import PACKAGE, TABLES, in_schema
from novelo.stores.tables.rows import sealed, unsealed

SCHEMA = 1
SECRET = bytes(16)  # in place of a thread's key, for the seal over the secret
LOCK = 0x6E6F76656C6F  # "novelo", the advisory lock of all who make or change a schema


def steps() -> dict[int, str]:
    """The steps of this version: schema reached -> statements."""
    folder = resources.files(__name__)
    return {int(f.name[:-4]): f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".sql")}


def schema_version(connection: psycopg.Connection[Any], schema: str) -> int:
    """The schema's number; 0 where nothing of ours is.

    Raises:
        StorageCorrupt: another program's tables, or a number that was altered.
    """
    # Asked of the catalogue's tables: functions such as to_regclass may answer as if we had not waited for the lock.
    names = {
        row[0]
        for row in connection.execute(
            "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s",
            (schema,),
        )
    }
    of_meta = {
        row[0]
        for row in connection.execute(
            "SELECT a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = 'meta'",
            (schema,),
        )
    }
    if not names.isdisjoint(TABLES) and not of_meta.issuperset(("name", "number", "value")):
        raise StorageCorrupt(f"the schema {schema!r} holds tables of another program: name another, ?schema=...")
    if "meta" not in names:
        return 0
    found = connection.execute(in_schema("SELECT number FROM meta WHERE name = 'schema'", schema)).fetchall()
    if len(found) != 1 or not isinstance(found[0][0], int) or found[0][0] < 1:
        raise StorageCorrupt("the number of the database's schema was altered outside of novelo: restore a backup")
    return int(found[0][0])


def bring_up(
    connection: psycopg.Connection[Any],
    schema: str,
    *,
    wanted: int = SCHEMA,
    known: Mapping[int, str] | None = None,
    lock_s: float = 30.0,
) -> bytes:
    """Make the tables, or lead older ones to the wanted schema; the database's secret.

    Args:
        connection: in autocommit mode.
        schema: the name of the schema that the tables stand in.
        known: the steps, instead of this version's.
        lock_s: how long to wait for another process that makes or changes it, and for those that use its tables.
    Raises:
        SchemaTooNew: a newer version wrote the database. StorageReadOnly: it would have to be written.
    """
    if checked(schema_version(connection, schema), wanted) != wanted:
        if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            raise StorageReadOnly(f"the server is a standby, and schema {wanted} is needed: open the primary once")
        encoding = connection.execute("SHOW server_encoding").fetchone()
        if encoding != ("UTF8",):
            raise StorageUnavailable(f"the database's encoding is {encoding and encoding[0]}: create one with UTF8")
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {round(lock_s * 1000)}")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            found = checked(schema_version(connection, schema), wanted)  # another process may have been quicker
            if found == 0:
                create(connection, schema)
            elif found < wanted:
                migrate(connection, schema, found, wanted, known)
    return secret_of(connection, schema)


def current(connection: psycopg.Connection[Any], schema: str) -> bytes:
    """The secret of a schema that is there, of this version; nothing is made or led on.

    Raises:
        StorageUnavailable, SchemaTooNew, StorageReadOnly: there is none, or of a newer or an older version.
    """
    found = checked(schema_version(connection, schema), SCHEMA)
    if found == 0:
        raise StorageUnavailable(f"there is nothing of ours in the schema {schema!r}: name another, ?schema=...")
    if found < SCHEMA:
        raise StorageReadOnly(f"the database has schema {found}, {SCHEMA} is needed: open it once to migrate it")
    return secret_of(connection, schema)


def checked(found: int, wanted: int) -> int:
    """A schema's number that is not above the wanted one.

    Raises:
        SchemaTooNew: it is.
    """
    if found > wanted:
        raise SchemaTooNew(
            f"the database has schema {found}, this version knows up to {wanted}: upgrade novelo", found=found
        )
    return found


def create(connection: psycopg.Connection[Any], schema: str) -> None:
    """The tables of a fresh database, and its secret; the caller holds the transaction."""
    if connection.execute("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    connection.execute(in_schema(resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8"), schema))
    secret = sealed(SECRET, "secret", os.urandom(32))
    connection.execute(
        in_schema("INSERT INTO meta VALUES ('schema', %s, NULL), ('secret', NULL, %s)", schema), (SCHEMA, secret)
    )


def secret_of(connection: psycopg.Connection[Any], schema: str) -> bytes:
    """The database's secret, which threads' keys are made with: of another one all threads would seem to be gone.

    Raises:
        StorageCorrupt: it was altered.
    """
    row = connection.execute(in_schema("SELECT value FROM meta WHERE name = 'secret'", schema)).fetchone()
    return unsealed(SECRET, "secret", b"" if row is None else row[0])


def migrate(
    connection: psycopg.Connection[Any], schema: str, found: int, wanted: int, known: Mapping[int, str] | None = None
) -> None:
    """Lead a database from one schema to a later one; the caller holds the transaction.

    Raises:
        StorageCorrupt: a step is missing.
    """
    known = steps() if known is None else known
    for number in range(found + 1, wanted + 1):
        if number not in known:
            raise StorageCorrupt(f"no migration leads to schema {number}: the package is incomplete, install it again")
        connection.execute(in_schema(known[number], schema))
        connection.execute(in_schema("UPDATE meta SET number = %s WHERE name = 'schema'", schema), (number,))
