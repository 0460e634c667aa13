"""A stand-in for a cluster: tables spread over schemas of one server, and each statement sent to the one of its thread.

What a statement needs of another shard it does not find, what names no thread is refused, and only plain reads see all
shards. So a statement that works here needs rows of one thread alone. Real clusters refuse more; test_portable.py reads
the statements for that.
"""

from __future__ import annotations

import os
import re
import zlib
from contextlib import contextmanager
from functools import lru_cache

# Read before tests clear the environment (conftest.py).
SHARDS = int(os.environ.get("NOVELO_TEST_SHARDS", "0"))
_SCHEMA = re.compile(r'"(\w+)"\.(\w+)')
_KEY = re.compile(r"\b(?:\w+\.)?(?:thread|collection) = \$(\d+)")
_INSERT = re.compile(r'INSERT INTO "\w+"\.\w+ \((?:thread|collection),.*?VALUES \(\$(\d+)', re.DOTALL)


@lru_cache(1)
def keyed():
    """Tables that are spread; the others are everywhere."""
    from novelo.stores.postgres import administering

    return frozenset(name for name in administering.columns() if administering.key_of(name) is not None)


class NoShard(AssertionError):
    """A statement that would run on no shard, or on several."""


@lru_cache(1024)
def argument(text):
    """Which argument of a statement names its thread; None for a read of all shards.

    Raises:
        NoShard: none does, or several do, and it is no plain read.
    """
    found = set(_INSERT.findall(text)) if text.startswith("INSERT") else set(_KEY.findall(text))
    if len(found) == 1:
        return int(found.pop()) - 1
    if len(found) > 1 or not text.startswith("SELECT") or "FOR UPDATE" in text:
        raise NoShard(f"this statement names no thread: {text[:200]}")
    return None


class Router:
    """Sends each statement to the schema of its shard."""

    def __init__(self, count):
        self.count, self.schemas, self.sent = count, set(), set()

    def routed(self, text, args):
        """The statement as it is run."""
        if not isinstance(text, str):
            return text
        schemas = {schema for schema, table in _SCHEMA.findall(text) if table in keyed()} & self.schemas
        if not schemas:
            return text
        (schema,) = schemas
        place = argument(text)
        shard = "all" if place is None else zlib.crc32(bytes(args[place])) % self.count
        self.sent.add(shard)
        return _SCHEMA.sub(lambda found: f'"{schema}_{shard}".{found[2]}' if found[2] in keyed() else found[0], text)

    def spread(self, connection, schema):
        """Make the shards of a fresh schema, and views over all of them for reads."""
        from novelo.stores.postgres import administering
        from novelo.stores.postgres.texts import in_schema

        text = administering.resources.files(administering.PACKAGE).joinpath("schema.sql").read_text("utf-8")
        names = [f"{schema}_{k}" for k in range(self.count)]
        for name in names:
            connection.execute(f'CREATE SCHEMA "{name}"')
            connection.execute(in_schema(text, name))
        connection.execute(f'CREATE SCHEMA "{schema}_all"')
        for table in administering.columns():
            union = " UNION ALL ".join(f'SELECT * FROM "{name}".{table}' for name in names)
            connection.execute(f'CREATE VIEW "{schema}_all".{table} AS {union}')
        self.schemas.add(schema)

    def drop(self, connection, schema):
        """Take the shards of a schema away."""
        for shard in ("all", *range(self.count)):
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}_{shard}" CASCADE')


@contextmanager
def sharded(count):
    """While this lasts, stores that are made are spread over so many shards."""
    import psycopg

    from novelo.stores.postgres import migrations

    router, create, execute = Router(count), migrations.create, psycopg.RawCursor.execute

    def created(connection, schema):
        create(connection, schema)
        router.spread(connection, schema)

    def routed(self, text, args=None, **more):
        return execute(self, router.routed(text, args), args, **more)

    migrations.create, psycopg.RawCursor.execute = created, routed
    try:
        yield router
    finally:
        migrations.create, psycopg.RawCursor.execute = create, execute
