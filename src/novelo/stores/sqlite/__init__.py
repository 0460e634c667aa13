"""The embedded store: one file, many processes."""

from novelo.stores.sqlite.database import Database
from novelo.stores.sqlite.store import SQLiteStore

__all__ = ["Database", "SQLiteStore"]
