"""Numbered steps from an older schema to the next: `0002.sql` leads schema 1 to schema 2.

Steps run inside one exclusive transaction: a process killed in the middle leaves the old schema behind, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import apsw

from novelo.errors import StorageCorrupt


def steps() -> dict[int, str]:
    """The steps of this version: schema reached -> statements."""
    folder = resources.files(__name__)
    return {int(f.name[:-4]): f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".sql")}


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
