"""The schema of a database: made when it is fresh, led from an older one to this one, refused when it is newer.

`schema.sql` is what a fresh database gets. Numbered steps lead older ones to the same end: `0002.sql` leads schema 1 to
schema 2. All steps run inside one exclusive transaction: a process killed in the middle leaves the old schema behind,
whole, and two processes that open an old database at once migrate it once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources

import apsw

from novelo.errors import SchemaTooNew, StorageCorrupt, StorageReadOnly
from novelo.stores.tables.rows import sealed, unsealed

SCHEMA = 1
PACKAGE = "novelo.stores.sqlite"
OURS = {"meta": {"name", "value"}, "threads": {"thread"}}  # by which a database of ours is told, of any schema
SECRET = bytes(16)  # in place of a thread's key, for the seal over the secret


def steps() -> dict[int, str]:
    """The steps of this version: schema reached -> statements."""
    folder = resources.files(__name__)
    return {int(f.name[:-4]): f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".sql")}


def schema_version(connection: apsw.Connection) -> int:
    """The schema's number; 0 for an empty file.

    Raises:
        StorageCorrupt: another program's database, or one whose number was altered.
    """
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not names:
        return 0
    if not names.issuperset(OURS) or not all(_columns(connection, table) >= OURS[table] for table in OURS):
        raise StorageCorrupt("the file is a database of another program: choose another file")
    found = [row[0] for row in connection.execute("SELECT value FROM meta WHERE name = 'schema'")]
    if len(found) != 1 or not isinstance(found[0], int) or found[0] < 1:
        raise StorageCorrupt("the number of the database's schema was altered outside of novelo: restore a backup")
    return found[0]


def _columns(connection: apsw.Connection, table: str) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def bring_up(
    connection: apsw.Connection,
    read_only: bool = False,
    *,
    wanted: int = SCHEMA,
    known: Mapping[int, str] | None = None,
) -> None:
    """Make the schema, or lead an older one to the wanted one.

    Args:
        read_only: nothing can be written, so that only the wanted schema will do.
        known: the steps, instead of this version's.
    Raises:
        SchemaTooNew: a newer version wrote the database. StorageReadOnly: it would have to be written.
    """
    found = schema_version(connection)
    if found > wanted:
        raise SchemaTooNew(
            f"the database has schema {found}, this version knows up to {wanted}: upgrade novelo", found=found
        )
    if found == wanted:
        return
    if read_only:
        raise StorageReadOnly(f"the database has schema {found}, {wanted} is needed, and its folder cannot be written")
    connection.execute("BEGIN EXCLUSIVE")
    try:
        found = schema_version(connection)  # another process may have been quicker
        if found == 0:
            create(connection)
        else:
            migrate(connection, found, wanted, known)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def create(connection: apsw.Connection) -> None:
    """The schema of a fresh database, and its secret."""
    connection.execute(resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8"))
    secret = sealed(SECRET, "secret", os.urandom(32))
    connection.execute("INSERT INTO meta VALUES ('schema', ?), ('secret', ?)", (SCHEMA, secret))


def secret_of(connection: apsw.Connection) -> bytes:
    """The database's secret, which threads' keys are made with: of another one all threads would seem to be gone.

    Raises:
        StorageCorrupt: it was altered.
    """
    row = next(iter(connection.execute("SELECT value FROM meta WHERE name = 'secret'")), (b"",))
    return unsealed(SECRET, "secret", row[0])


def migrate(connection: apsw.Connection, found: int, wanted: int, known: Mapping[int, str] | None = None) -> None:
    """Lead a database from one schema to a later one; the caller holds the transaction.

    Raises:
        StorageCorrupt: a step is missing.
    """
    known = steps() if known is None else known
    for number in range(found + 1, wanted + 1):
        if number not in known:
            raise StorageCorrupt(f"no migration leads to schema {number}: the package is incomplete, install it again")
        connection.execute(known[number])
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (number,))
