"""Statements for whoever runs the server: tables spread over machines or split into partitions, rights, rows by owner.

They are made from the schema itself: which tables there are, and which column of a table says whose row it is. Nothing
here is needed to work with a store, and nothing is run unless it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from importlib import resources

import psycopg

from novelo.errors import InvalidSpec
from novelo.stores.postgres.database import OWNER, OWNER_WORD, Settings
from novelo.stores.postgres.faults import translated
from novelo.stores.postgres.texts import PACKAGE, checked_schema, in_schema

SHARDS = 32  # of a cluster; they are moved whole, so that many more than machines are wanted
PARTITIONS = 64
POLICY, POLICY_ALL = "novelo_owner", "novelo_all"
_TABLE = re.compile(r"^CREATE TABLE (\w+) \((.*?)\n?\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^\s*(\w+) (?:bigint|text|bytea|double precision|tsvector)", re.MULTILINE)
_LINE = re.compile(r",\s(?=\w+ (?:bigint|text|bytea|double|tsvector))")
_INDEX = re.compile(r"^CREATE (?:UNIQUE )?INDEX [^;]*;", re.MULTILINE)
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}")


@lru_cache(1)
def columns() -> dict[str, tuple[str, ...]]:
    """The columns of each table, as schema.sql makes them."""
    text = resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return {name: tuple(_COLUMN.findall(_LINE.sub(",\n", body))) for name, body in _TABLE.findall(text)}


def key_of(table: str) -> str | None:
    """The column that a table is spread by; None for a small one that is everywhere."""
    return next((name for name in ("thread", "collection") if name in columns()[table]), None)


def distribution(schema: str, shards: int = SHARDS) -> list[tuple[str, str]]:
    """Tables of a Citus cluster, and the statement that spreads each: all of a thread, or a collection, on one shard.

    Run on the coordinator, each in a transaction of its own.
    """
    schema = checked_schema(schema)
    if not 1 <= shards <= 64_000:
        raise InvalidSpec(f"{shards} shards: expected 1 to 64000")
    out = []
    for table in sorted(columns(), key=lambda name: (key_of(name) is not None, name != "threads")):
        key, name = key_of(table), f"{schema}.{table}"
        if key is None:
            out.append((table, f"SELECT create_reference_table('{name}')"))
        elif table == "threads":
            more = f"colocate_with => 'none', shard_count => {shards}"
            out.append((table, f"SELECT create_distributed_table('{name}', '{key}', {more})"))
        else:
            more = f"colocate_with => '{schema}.threads'"
            out.append((table, f"SELECT create_distributed_table('{name}', '{key}', {more})"))
    return out


def partitions(schema: str, count: int = PARTITIONS) -> list[tuple[str, str]]:
    """Tables of one server, and the statements that split each by the hash of its key; for a schema without rows."""
    schema = checked_schema(schema)
    if not 2 <= count <= 1024:
        raise InvalidSpec(f"{count} partitions: expected 2 to 1024")
    text = resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8")
    primary = {name: _primary(body) for name, body in _TABLE.findall(text)}
    indexes = [found[0].rstrip(";") for found in _INDEX.finditer(text)]
    out = []
    for table in columns():
        key = key_of(table)
        if key is None or table == "collections":  # small, and numbered by an identity
            continue
        name, plain = f'"{schema}".{table}', f'"{schema}".{table}_plain'
        empty = f"IF EXISTS (SELECT 1 FROM {name}) THEN RAISE EXCEPTION '{table} has rows'; END IF;"  # noqa: S608
        lines = [
            f"DO $$ BEGIN {empty} END $$",
            f"ALTER TABLE {name} RENAME TO {table}_plain",
            f"CREATE TABLE {name} (LIKE {plain} INCLUDING ALL EXCLUDING INDEXES) PARTITION BY HASH ({key})",
            f"DROP TABLE {plain}",
            f"ALTER TABLE {name} ADD PRIMARY KEY ({primary[table]})",
            *(
                in_schema(text, schema) for text in indexes if f" ON {table} " in text
            ),  # under their names, as elsewhere
        ]
        for k in range(count):
            part = f'"{schema}".{table}_{k}'
            lines.append(f"CREATE TABLE {part} PARTITION OF {name} FOR VALUES WITH (MODULUS {count}, REMAINDER {k})")
        out.append((table, ";\n".join(lines)))
    return out


def _primary(body: str) -> str:
    """The columns of a table's primary key."""
    named = re.search(r"PRIMARY KEY \(([^)]+)\)", body)
    return named[1] if named else body.split("PRIMARY KEY")[0].rpartition(",")[2].split()[0]


def grants(schema: str, role: str) -> list[tuple[str, str]]:
    """The least rights of a program: rows of the tables, and of what they are made by only the reading."""
    schema, role = checked_schema(schema), _role(role)
    tables = ", ".join(f'"{schema}".{table}' for table in columns() if table != "meta")
    return [
        ("", f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'),
        ("meta", f'GRANT SELECT ON "{schema}".meta TO {role}'),
        ("", f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role}"),
        ("audit", f'REVOKE UPDATE, DELETE ON "{schema}".audit FROM {role}'),
    ]


def row_security(schema: str, role: str) -> list[tuple[str, str]]:
    """Policies by which a role sees and writes rows of one owner alone: the one that a transaction names.

    The owner stands in the setting `novelo.owner`, which a restricted memory sets in each transaction. What is left of
    erased threads (a key and counts, no name) is seen by all, since no owner can be told from it; `meta` holds no rows
    of anybody. The search index is found by an owner's word of its own, so that a search can still use it.

    A table that has policies shows nothing to a role that none of them names. So there is one for all, which lets the
    rights decide, and what narrows one role is restrictive: it takes away, and other roles (a worker's, a second
    program's) keep what they have.
    """
    schema, role = checked_schema(schema), _role(role)
    policy = f"{POLICY}_{blake2b(role.encode(), digest_size=6).hexdigest()}"  # of each role one: names are 63 bytes
    mine = f"current_setting('{OWNER}', true)"
    word = f"coalesce(quote_literal(nullif(current_setting('{OWNER_WORD}', true), ''))::tsquery, ''::tsquery)"
    out = []
    for table, names in columns().items():
        place = f'"{schema}".{table}'
        if table in ("threads", "collections"):
            test = f"left(owner, 200) = left({mine}, 200) AND owner = {mine}"
            if "status" in names:
                test = f"({test}) OR status = 'erased'"
        elif table == "search":
            test = f"words @@ {word}"
        elif key_of(table) is None:
            continue
        else:
            whose = "threads" if "thread" in names else "collections"
            key = key_of(table)
            test = f'EXISTS (SELECT 1 FROM "{schema}".{whose} AS whose WHERE whose.{key} = {table}.{key})'  # noqa: S608  names of ours
        lines = [
            f"ALTER TABLE {place} ENABLE ROW LEVEL SECURITY",
            f"DROP POLICY IF EXISTS {POLICY_ALL} ON {place}",
            f"CREATE POLICY {POLICY_ALL} ON {place} USING (true) WITH CHECK (true)",
            f"DROP POLICY IF EXISTS {policy} ON {place}",
            f"CREATE POLICY {policy} ON {place} AS RESTRICTIVE TO {role} USING ({test}) WITH CHECK ({test})",
        ]
        out.append((table, ";\n".join(lines)))
    return out


def run(url: str, statements: Iterable[tuple[str, str]], *, spread: bool = False) -> list[str]:
    """Run statements one by one on the server of an address; the tables that each was about.

    Args:
        spread: they spread tables over a cluster; those that are spread already are passed over.
    Raises:
        InvalidSpec: there is no such role, no Citus, or a table to split has rows.
        StorageUnavailable: the server, or the user's rights, do not let us.
    """
    settings = Settings(url)
    done = []
    try:
        with psycopg.connect(**settings.options, autocommit=True) as connection:
            there = _spread(connection, settings.schema) if spread else set()
            for table, text in statements:
                if table not in there:
                    connection.execute(text.encode())
                    done.append(table)
    except psycopg.errors.UndefinedObject as error:
        raise InvalidSpec(f"there is no such role at {settings.place}: CREATE ROLE ... LOGIN makes it") from error
    except psycopg.errors.RaiseException as error:
        text = error.diag.message_primary or "a table has rows"
        raise InvalidSpec(f"{text}: tables are split before the first thread, on a fresh schema") from error
    except psycopg.Error as error:
        raise translated(error, settings, None, False) from error
    return done


def _spread(connection: psycopg.Connection[object], schema: str) -> set[str]:
    if connection.execute("SELECT 1 FROM pg_catalog.pg_extension WHERE extname = 'citus'").fetchone() is None:
        raise InvalidSpec("this server has no Citus: CREATE EXTENSION citus in this database, or use novelo partition")
    rows = connection.execute(
        "SELECT c.relname FROM pg_catalog.pg_dist_partition p JOIN pg_catalog.pg_class c ON c.oid = p.logicalrelid"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s",
        (schema,),
    ).fetchall()
    return {str(row[0]) for row in rows}  # type: ignore[index]


def _role(name: str) -> str:
    if not _ROLE.fullmatch(name):
        raise InvalidSpec(f"role {name!r}: expected letters, digits, underscores and hyphens")
    return f'"{name}"'
