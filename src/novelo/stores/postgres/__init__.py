"""The store for many processes and machines: one schema of a PostgreSQL database."""

from novelo.stores.postgres.database import Database
from novelo.stores.postgres.store import PostgresCheckpoints, PostgresStore

__all__ = ["Database", "PostgresCheckpoints", "PostgresStore"]
