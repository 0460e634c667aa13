"""The SQLite store: threads in one file."""

from __future__ import annotations

from novelo.stores.sqlite.database import Database
from novelo.stores.tables.store import TableStore


class SQLiteStore(TableStore):
    """Threads in one SQLite file; see `stores/base.py` for what each method promises."""

    database: Database
