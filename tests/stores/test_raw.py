"""Rows as they are: every table is named, and a copy holds what its source holds, whichever engine either is."""

from __future__ import annotations

import re
from importlib import resources
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

import novelo
from novelo.connect import connect
from novelo.stores.raw.columns import ELSEWHERE, OWN, OWN_COLUMNS, TABLES
from novelo.stores.sqlite import Database, SQLiteStore
from stores.test_machine import NAMES, TwoStores, _everything


# ---------------------------------------------------------------------------------------------- the list of tables
def columns_of(engine):
    """Tables and columns of an engine's schema, as a fresh database has them."""
    text = resources.files(f"novelo.stores.{engine}").joinpath("schema.sql").read_text("utf-8")
    text = re.sub(r"--[^\n]*", "", text)
    found = {}
    for name, body in re.findall(
        r"CREATE TABLE (\w+) \((.*?)\)(?: WITHOUT ROWID)?(?: PARTITION BY[^;]*)?;", text, re.S
    ):
        parts = re.split(r",(?![^(]*\))", body)
        found[name] = {part.split()[0] for part in parts if part.split()[0] not in ("PRIMARY", "UNIQUE")}
    return found, set(re.findall(r"CREATE VIRTUAL TABLE (\w+)", text))


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_every_table_and_column_is_named(engine):
    """What a schema has is carried by a copy, or stands among what is not, with a reason: nothing is forgotten."""
    tables, virtual = columns_of(engine)
    assert tables.keys() | virtual == TABLES.keys() - virtual | OWN[engine].keys() | (TABLES.keys() & virtual)
    for name, table in TABLES.items():
        if name in virtual:
            continue
        own = {column for of, column in OWN_COLUMNS[engine] if of == name}
        elsewhere = {column for of, column in ELSEWHERE[engine] if of == name}
        seal = {"seal"} if table.seal and engine == "sqlite" else set()
        assert set(table.columns) - elsewhere | own | seal == tables[name], name


# ---------------------------------------------------------------------------------------------- random stores
NUMBERS = count(1)


class Copying(TwoStores):
    """Random operations on the reference and on a source; now and then its copy is brought up to date."""

    source = target = back = ""  # addresses, of fresh databases
    every = 12

    def __init__(self):
        super().__init__()
        self.stores[1].close()
        # A power cut is none of this test's business.
        self.stores[1] = (
            connect(self.source)
            if "postgres" in self.source
            else SQLiteStore(Database(self.source.removeprefix("sqlite:///"), synchronous="OFF"))
        )
        self.done = 0

    @invariant()
    def alike(self):
        """The copy answers every question as the source does, and so does a copy of the copy."""
        self.done += 1
        if self.done % self.every == 0:
            self.compare()

    def teardown(self):
        """Once more at the end."""
        self.compare()
        super().teardown()

    def compare(self):
        """Copy, and compare."""
        report = novelo.copy(self.source, self.target)
        again = novelo.copy(self.target, self.back)
        assert again.digest == report.digest
        assert again.rows == report.rows
        for url in (self.target, self.back):
            assert novelo.copy(self.source, url).written == 0
            other = connect(url)
            assert [other.key_of(*name) for name in NAMES] == [self.stores[1].key_of(*name) for name in NAMES]
            assert _everything(other) == _everything(self.stores[1])
            other.close()


def run(kind, examples):
    """Run a machine; what fails says how it came about."""
    run_state_machine_as_test(
        kind, settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_copies_of_random_files(tmp_path):
    """Whatever was done to a file, its copy, brought up to date again and again, holds the same to the last column."""

    class Files(Copying):
        """Three new files for each run."""

        def __init__(self):
            folder = tmp_path / str(next(NUMBERS))
            self.source, self.target, self.back = (f"sqlite:///{folder}/{name}.db" for name in "abc")
            super().__init__()

    run(Files, 12)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("from_server", [True, False])
def test_copies_of_random_stores_between_engines(from_server, postgres_url, tmp_path):
    """The same from a file to a server and back to a file, and from a server to a file and back to a server."""
    urls = [postgres_url, postgres_url + "_other"]
    for url in urls:
        connect(url).close()

    class Engines(Copying):
        """New files, and schemas that are emptied, for each run."""

        def __init__(self):
            folder = tmp_path / str(next(NUMBERS))
            files = [f"sqlite:///{folder}/{name}.db" for name in "ab"]
            for url in urls:
                emptied(url)
            self.source, self.back = urls if from_server else files
            self.target = files[0] if from_server else urls[0]
            super().__init__()

    run(Engines, 6)
    dropped(urls[1])


def emptied(url):
    """Take everything but the secret out of a schema."""
    import psycopg

    from novelo.stores.postgres.database import Settings

    where = Settings(url)
    with psycopg.connect(**where.options) as connection:
        connection.execute("TRUNCATE " + ", ".join(f'"{where.schema}".{table}' for table in TABLES))


def dropped(url):
    """Take a schema away."""
    import psycopg

    from novelo.stores.postgres.database import Settings

    where = Settings(url)
    with psycopg.connect(**where.options) as connection:
        connection.execute(f'DROP SCHEMA "{where.schema}" CASCADE')
