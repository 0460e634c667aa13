"""The table of fault tests: what `benchmarks/faults/run.py` says of tests that pass, fail, or are not there."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parents[2]
SHORT = argparse.Namespace(long=False, size="", only="")


@pytest.fixture(scope="module")
def table():
    """The program, imported."""
    spec = importlib.util.spec_from_file_location("faults_table", ROOT / "benchmarks/faults/run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("body", "result", "measured"),
    [
        ("print('T99 way: 3 of 3'); print('T9: of another'); print('other words')", "ok", ["way: 3 of 3", "1 tests"]),
        ("print('T99: 2 of 3'); assert False", "SHORT", ["2 of 3"]),
        ("import pytest; pytest.skip('no such program')", "skipped", ["no such program"]),
        ("import time; time.sleep(60)", "SHORT", ["not ready after 4 s"]),
    ],
)
def test_a_row_tells_what_came_of_its_tests(table, tmp_path, body, result, measured):
    """Figures are the lines that begin with the row's number; a test that fails, or is not ready, falls short."""
    file = tmp_path / "test_made_up.py"
    file.write_text(f"def test_it():\n    {body}\n", "utf-8")
    found = table.run(table.Row("T99", "", "all of them", str(file)), SHORT, 4.0 if "sleep" in body else 60.0)
    assert (found.result, found.measured[: len(measured)]) == (result, measured)
    assert json.loads(json.dumps(found.facts()))["demand"] == "all of them"


def test_a_row_whose_file_is_not_here_is_skipped(table):
    """What another version has, and this one lacks, is told and is no failure."""
    found = table.run(table.Row("T99", "", "", "tests/faults/test_not_here.py"), SHORT, 5.0)
    assert found.result == "skipped"


def test_every_row_picks_tests(table):
    """A renamed test does not drop out of the table: each row whose file is here picks at least one."""
    files = {row.file for row in table.ROWS if row.file.startswith("tests/") and (ROOT / row.file).exists()}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    ids = [line.lower() for line in done.stdout.splitlines() if "::" in line]
    assert {one.partition("::")[0] for one in ids} == files
    for row in table.ROWS:
        wanted = Expression.compile(row.only or "test")
        of_file = [one.partition("::")[2] for one in ids if one.startswith(f"{row.file}::")]
        assert row.file not in files or any(
            wanted.evaluate(lambda name, one=one, **_: name in one) for one in of_file
        ), row.name


def test_the_table_of_the_docs_has_every_row(table):
    """docs/reliability.md has a line for each number of the table."""
    text = (ROOT / "docs/reliability.md").read_text("utf-8")
    assert [row.test for row in table.ROWS if f"| {row.test} |" not in text] == []
