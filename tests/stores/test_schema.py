"""The schema over time: fresh and migrated databases are alike, old ones are read, newer ones refused."""

from __future__ import annotations

import os
import signal
import time
from importlib import resources
from pathlib import Path

import apsw
import pytest

import novelo
from novelo.errors import SchemaTooNew, StorageCorrupt
from novelo.stores.sqlite import migrations
from novelo.stores.sqlite.migrations import SCHEMA, bring_up, create, migrate, schema_version
from old_database import content, fill

FIXTURES = Path(__file__).parent / "fixtures"
STEP = """
ALTER TABLE threads ADD COLUMN colour TEXT NOT NULL DEFAULT 'green';
CREATE TABLE colours (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""


def schema_of(connection):
    """All that the schema says, in a form that does not depend on how a table came to its columns."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'sqlite_sequence'"
    tables = sorted(row[0] for row in connection.execute(query))
    columns = {t: list(connection.execute(f"SELECT * FROM pragma_table_info('{t}')")) for t in tables}
    indexes = sorted(
        (row[0], " ".join(row[1].split()))
        for row in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    )
    return columns, indexes


def fresh(script=""):
    """A fresh database in memory, made by schema.sql and what a test puts behind it."""
    connection = apsw.Connection(":memory:")
    create(connection)
    connection.execute(script)
    return connection


def dumped(path, number=1):
    """A database file of an old schema, from its dump."""
    connection = apsw.Connection(str(path))
    connection.execute((FIXTURES / f"schema{number}.sql").read_text("utf-8"))
    connection.close()
    return path


def test_a_fresh_database_is_a_migrated_one():
    """`schema.sql` and the steps from the oldest dump end alike."""
    old = apsw.Connection(":memory:")
    old.execute((FIXTURES / "schema1.sql").read_text("utf-8"))
    migrate(old, 1, SCHEMA)
    assert schema_of(old) == schema_of(fresh())


def test_a_made_up_step_ends_like_a_made_up_schema():
    """A step that is led to by `migrate` gives what a fresh database of that schema would be, and its number."""
    old = fresh()
    bring_up(old, wanted=2, known={2: STEP})
    assert schema_of(old) == schema_of(fresh(STEP)) and schema_version(old) == 2
    bring_up(old, wanted=2, known={})  # nothing is done twice


def test_a_missing_step_changes_nothing():
    """If a step is missing or fails, the database stays what it was."""
    for known in ({3: STEP}, {2: STEP, 3: "CREATE TABLE threads (x)"}):
        old = fresh()
        before = schema_of(old)
        with pytest.raises((StorageCorrupt, apsw.SQLError)):
            bring_up(old, wanted=3, known=known)
        assert schema_of(old) == before and schema_version(old) == 1


def test_the_steps_are_numbered_from_two():
    """The steps of the package lead without a gap to its schema."""
    assert sorted(migrations.steps()) == list(range(2, SCHEMA + 1))
    assert resources.files("novelo.stores.sqlite").joinpath("schema.sql").is_file()


def test_a_newer_database_is_refused(tmp_path):
    """A database of a newer version is refused by name, and not touched."""
    path = tmp_path / "a.db"
    novelo.open(f"sqlite:///{path}").close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA + 1,))
    connection.close()
    with pytest.raises(SchemaTooNew) as refused:
        novelo.open(f"sqlite:///{path}")
    assert refused.value.found == SCHEMA + 1


def test_another_programs_database_is_refused(tmp_path):
    """A database without our tables is not ours to write into."""
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    with pytest.raises(StorageCorrupt):
        novelo.open(f"sqlite:///{path}")


def test_a_database_of_schema_1_is_read(tmp_path):
    """The dump of a database of schema 1 gives the content that the same steps give today, and can be written to."""
    with novelo.open("sqlite://") as today:
        fill(today)
        expected = content(today)
    with novelo.open(f"sqlite:///{dumped(tmp_path / 'a.db')}") as memory:
        assert content(memory) == expected
        with memory.thread("viagem", owner="ana").turn("mais uma") as turn:
            turn.reply("sim")
        assert [h.text for h in memory.search("mais uma")] == ["mais uma"]


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.05])
def test_a_migration_that_is_killed_leaves_old_or_new(tmp_path, pause):
    """A process that is killed while it migrates leaves the old schema or the new one, whole."""
    path = dumped(tmp_path / "a.db")
    child = os.fork()
    if child == 0:
        try:
            slow = ";".join(f"INSERT INTO colours VALUES ('{n}')" for n in range(3000))
            connection = apsw.Connection(str(path))
            connection.execute("PRAGMA journal_mode = WAL")
            (tmp_path / "ready").touch()
            bring_up(connection, wanted=2, known={2: STEP + slow})
        finally:
            os._exit(0)
    while not (tmp_path / "ready").exists():
        time.sleep(0.002)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    connection = apsw.Connection(str(path))
    found = schema_version(connection)
    has_step = "colours" in schema_of(connection)[0]
    assert (found, has_step) in ((1, False), (2, True))
    if has_step:
        assert next(connection.execute("SELECT count(*) FROM colours"))[0] == 3000
    assert next(connection.execute("SELECT count(*) FROM entries"))[0] == 8
    assert next(connection.execute("PRAGMA integrity_check"))[0] == "ok"
