"""How a schema of PostgreSQL is: looked at in one state of it, and mended where it is asked for."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any, cast

import psycopg

from novelo.stores.findings import Finding, Growth, Look, OnLook, Severity, command
from novelo.stores.postgres.database import Database, Settings
from novelo.stores.postgres.raw import sees_all
from novelo.stores.postgres.texts import PACKAGE, in_schema
from novelo.stores.raw.base import NOTE
from novelo.stores.raw.columns import TABLES

OLDEST = 140_000
LARGE = 1 << 30  # bytes of a table; the rows of a larger one are told as the server estimates them
DEAD, DEAD_SHARE = 10_000, 0.2  # rows that are removed and still there, from which on a VACUUM is overdue
INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)[^;]*;")
SETTINGS = {
    "fsync": ("error", "a crash can lose or damage all"),
    "full_page_writes": ("error", "a crash can damage what was being written"),
    "synchronous_commit": ("error", "a crash loses what was acknowledged last"),
}
SIZES = """
SELECT c.relname, sum(pg_total_relation_size(coalesce(i.inhrelid, c.oid)))::bigint,
  sum(greatest(p.reltuples, 0))::bigint, coalesce(sum(s.n_dead_tup), 0)::bigint, coalesce(sum(s.n_live_tup), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_inherits i ON i.inhparent = c.oid JOIN pg_class p ON p.oid = coalesce(i.inhrelid, c.oid)
  LEFT JOIN pg_stat_all_tables s ON s.relid = p.oid
WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND NOT c.relispartition GROUP BY c.relname
"""


def look(settings: Settings, connection: psycopg.Connection[Any], *, deep: bool, progress: OnLook | None) -> Look:
    """What can be seen of a schema, without its threads; the connection has the cursors of psycopg, and only reads."""
    version = connection.info.server_version
    (schema,) = _row(connection, in_schema("SELECT number FROM meta WHERE name = 'schema'", settings.schema))
    out = Look(f"PostgreSQL {version // 10_000}.{version % 10_000}", settings.address, int(schema), 0)

    def add(severity: str, check: str, place: str, text: str, mended_by: str) -> None:
        out.findings.append(Finding(cast(Severity, severity), check, place, text, mended_by))

    if version < OLDEST:
        add(
            "error",
            "version",
            out.engine,
            "expected 14 or newer",
            command("psql", settings.server, "-c", "SELECT version()"),
        )
    for name, (severity, why) in SETTINGS.items():
        (value,) = _row(connection, f"SHOW {name}")
        if value == "off":
            set_on = command(
                "psql", settings.server, "-c", f"ALTER SYSTEM SET {name} = on", "-c", "SELECT pg_reload_conf()"
            )
            add(severity, "durability", name, f"it is off: {why}", set_on)
    if _row(connection, "SHOW data_checksums") == ("off",):
        add(
            "note", "checksums", "data_checksums", "a flipped bit is not noticed; with the server stopped",
            f"pg_checksums --enable --pgdata {_data_directory(connection)}",
        )  # fmt: skip
    _tables(out, settings, connection, deep, progress)
    there = {
        row[0]
        for row in connection.execute("SELECT indexname FROM pg_indexes WHERE schemaname = %s", (settings.schema,))
    }
    if lost := ", ".join(name for name in statements() if name not in there):
        add(
            "error",
            "indexes",
            settings.schema,
            f"indexes are missing, and look-ups slow: {lost}",
            _mend(settings, "indexes"),
        )
    note = connection.execute(in_schema("SELECT value FROM meta WHERE name = %s", settings.schema), (NOTE,)).fetchone()
    if note is not None:
        origin = bytes(note[0]).decode()
        text = f"a copy from {origin} has begun and not ended: this is a part of it"
        add("error", "copy", settings.address, text, command("novelo", "copy", origin, settings.address))
    return out


def looked(database: Database, deep: bool, progress: OnLook | None) -> Look:
    """What can be seen of an open database, in a transaction that cannot write."""
    with database._ours(), database._connected() as connection:
        sees_all(connection, database.settings)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return look(database.settings, connection, deep=deep, progress=progress)


def _row(connection: psycopg.Connection[Any], text: str) -> tuple[Any, ...]:
    return tuple(connection.execute(text).fetchone() or (None,))


def _data_directory(connection: psycopg.Connection[Any]) -> str:
    """Where the server's files are, if we may know, as a shell takes it."""
    allowed = _row(connection, "SELECT pg_has_role(current_user, 'pg_read_all_settings', 'member')")[0]
    return command(_row(connection, "SHOW data_directory")[0]) if allowed else '"$PGDATA"'


def _mend(settings: Settings, what: str) -> str:
    return command("novelo", "mend", "-d", settings.address, f"--{what}")


def _tables(
    out: Look, settings: Settings, connection: psycopg.Connection[Any], deep: bool, progress: OnLook | None
) -> None:
    found = sorted(connection.execute(SIZES, (settings.schema,)).fetchall(), key=lambda row: -row[1])
    for done, (name, size, guess, dead, live) in enumerate(found):
        if progress is not None:
            progress(done, len(found), "tables")
        out.bytes += size
        if name not in TABLES and name != "meta":
            continue
        exact = deep or size < LARGE
        rows = _row(connection, f'SELECT count(*) FROM "{settings.schema}"."{name}"')[0] if exact else guess  # noqa: S608
        out.tables.append(Growth(name, size, rows))
        if dead > DEAD and dead > DEAD_SHARE * live:
            text = (
                f"{dead} removed rows are still there beside {live}: what was erased is in the files, and look-ups slow"
            )
            out.findings.append(Finding("warning", "vacuum", name, text, _mend(settings, "vacuum")))


def statements() -> dict[str, str]:
    """The statements that make each index."""
    text = resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8")
    return {found[1]: found[0] for found in INDEX.finditer(text)}


def mend(database: Database, what: str) -> int:
    """Mend the schema's part of something (indexes, vacuum); how many things were done."""
    settings = database.settings
    if what == "vacuum":
        database.vacuumed("VACUUM (ANALYZE)", TABLES)
        return len(TABLES)
    with database._ours(), database._connected() as connection:
        query = "SELECT indexname FROM pg_indexes WHERE schemaname = %s"
        there = {row[0] for row in connection.execute(query, (settings.schema,))}
        wanted = [text for name, text in statements().items() if name not in there]
        for text in wanted:
            connection.execute(in_schema(text, settings.schema))
        return len(wanted)
