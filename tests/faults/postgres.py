"""What the fault tests on PostgreSQL share: the tables for the checker, and who ends connections at random."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pytest

from faults.checker import check

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")

from novelo.stores.postgres.database import Settings  # noqa: E402
from novelo.stores.postgres.texts import in_schema  # noqa: E402


class Tables:
    """The tables of a store for the checker, which speaks SQLite's SQL: all in one snapshot."""

    def __init__(self, url):
        self.settings = Settings(url)
        self.connection = psycopg.connect(**self.settings.options)
        self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def execute(self, text):
        """The rows of a statement."""
        if text.startswith("PRAGMA"):
            return [("ok",)]
        if text.startswith(("SAVEPOINT", "RELEASE")):
            return []
        return self.connection.execute(in_schema(text.replace("x''", "''::bytea"), self.settings.schema)).fetchall()


def checked(url, acks, least, **more):
    """What the checker finds in a schema."""
    tables = Tables(url)
    try:
        return check(None, acks, least=least, connection=tables, **more)
    finally:
        tables.connection.close()


def asked(url, statement, *values):
    """The rows of one statement, over a connection of its own that is not taken for one of novelo's."""
    with psycopg.connect(url.partition("?")[0], autocommit=True, application_name="nemesis") as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def terminate(address, rng: random.Random, stop: threading.Event, count: Counter, pause_s=0.04):
    """End backends of the workers at random moments, until told to stop."""
    while not stop.is_set():
        try:
            with psycopg.connect(address, autocommit=True, application_name="nemesis") as connection:
                while not stop.is_set():
                    pids = [
                        row[0]
                        for row in connection.execute(
                            "SELECT pid FROM pg_stat_activity WHERE application_name = 'novelo'"
                        )
                    ]
                    if pids:
                        connection.execute("SELECT pg_terminate_backend(%s)", (rng.choice(pids),))
                        count["ended"] += 1
                    time.sleep(rng.uniform(0.0, pause_s))
        except psycopg.Error:
            time.sleep(0.05)
