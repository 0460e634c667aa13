"""`novelo purge`, `erase`, `hold`, `release` and `audit`: what they print, and what they end with."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import novelo
from novelo.cli import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The program, on a database with three threads of two owners."""
    file = tmp_path / "a.db"
    with novelo.open(f"sqlite:///{file}", worker="off") as memory:
        for name, owner in (("t1", "ana"), ("t2", "ana"), ("u", "bob")):
            with memory.thread(name, owner=owner).turn("my code is 4711") as turn:
                turn.reply("noted 4711")

    def novelo_(*arguments, given=None):
        return CliRunner().invoke(app, [*arguments, "-d", str(file)], input=given)

    return novelo_


def test_purge_counts_asks_and_takes(run):
    """A dry run takes nothing, no is no, and yes is told by rule; held threads are named on stderr."""
    assert "3 threads would be removed: 6 messages" in run("purge", "--idle", "0s", "--dry-run").stdout
    assert run("purge", "--idle", "0s", given="n\n").exit_code == 1
    assert run("hold", "u", "--owner", "bob", "--reason", "case 12").exit_code == 0
    (held,) = json.loads(run("hold", "--list", "--json").stdout)
    assert (held["thread_id"], held["reason"], held["what"]) == ("u", "case 12", "thread")
    done = run("purge", "idle:0s,owner=ana", "--idle", "0s", "--yes", "--vacuum", "--backup-days", "35")
    assert "idle:0s,owner=ana  idle: 2 threads, 4 messages" in done.stdout and "2 threads removed" in done.stdout
    assert "due, but held, and kept: 1 thread" in done.stderr and "kept 35 days" in done.stderr
    told = json.loads(run("purge", "idle:0s", "--dry-run", "--json").stdout)
    assert (told["threads"], told["held"], told["dry_run"]) == (0, 1, True)


def test_an_owner_that_a_script_left_empty_is_nobody(run):
    """`--owner "$NAME"` with an empty name does not erase all threads that have no owner; a person who is asked may."""
    refused = run("erase", "--owner", "", "--yes")
    assert refused.exit_code == 2 and "is empty" in refused.stderr
    assert "0 threads: nothing erased" in run("erase", "--owner", "", given="y\n").stdout
    refused = run("purge", "--idle", "0s", "--owner", "", "--yes")
    assert refused.exit_code == 2 and "is empty" in refused.stderr
    assert run("purge", "--idle", "0s", "--owner", "", "--dry-run").exit_code == 0


@pytest.mark.parametrize("given", ["", "[0-9]*", "$"])
def test_a_pattern_that_finds_nothing_takes_nothing(run, given):
    """`--pattern "$WHAT"` with an empty one is refused, not the whole thread; matches of no characters are none."""
    done = run("erase", "t1", "--owner", "ana", "--pattern", given, "--yes")
    assert done.exit_code == (0 if "0" in given else 1)
    assert isinstance(done.exception, novelo.InvalidSpec) == (not given)
    left = [one["message"]["content"] for one in json.loads(run("show", "t1", "--owner", "ana", "--json").stdout)]
    assert left == (
        ["my code is [redacted]", "noted [redacted]"] if "0" in given else ["my code is 4711", "noted 4711"]
    )
    assert run("erase", "--owner", "ana", "--pattern", given, "--yes").exit_code == 2
    assert run("erase", "t1", "--owner", "ana", "--pattern", given, "-m", "#1", "--yes").exit_code == 2


def test_json_is_all_there_is_on_stdout(run):
    """Whoever is asked for a yes sees what would go on stderr; a hold is told as one document."""
    held = json.loads(run("hold", "u", "--owner", "bob", "--reason", "case 12", "--json").stdout)
    assert (held["thread_id"], held["reason"]) == ("u", "case 12")
    assert json.loads(run("hold", "--owner", "bob", "--json").stdout)["what"] == "owner"
    done = run("purge", "--idle", "0s", "--json", given="y\n")
    assert json.loads(done.stdout.removeprefix(" y\n"))["threads"] == 2 and "2 threads would be removed" in done.stderr
    assert json.loads(run("purge", "--idle", "0s", "--json").stdout)["threads"] == 0


def test_erase_tells_what_went(run):
    """Messages, a pattern, a thread, an owner: each with its receipt; nothing without a name or a yes."""
    assert run("erase", "t1", "--owner", "ana", given="n\n").exit_code == 1
    assert "1 entry" in run("erase", "t1", "--owner", "ana", "-m", "#1", "--yes").stdout
    receipt = json.loads(run("erase", "t1", "--owner", "ana", "--pattern", "47[0-9]+", "--yes", "--json").stdout)
    assert (receipt["kind"], receipt["rows"]["entries"], receipt["pending"]) == ("pattern", 1, False)
    assert "(act 3 of the audit)" in run("erase", "t2", "--owner", "ana", "--yes", "--reason", "DSR-1").stdout
    assert run("erase", "--owner", "ana", "--yes").stdout.startswith("1 thread: ")
    assert isinstance(json.loads(run("erase", "--owner", "bob", "--yes", "--json").stdout), list)
    for wrong in (["erase"], ["erase", "--pattern", "x", "--owner", "a"], ["erase", "u", "-m", "1", "--pattern", "x"],
                  ["purge"], ["hold"], ["release"]):  # fmt: skip
        assert run(*wrong).exit_code == 2


def test_hold_release_audit(run):
    """A hold refuses, is released once, and all of it is in the audit, whose chain is whole."""
    assert run("hold", "--owner", "ana", "--as", "legal").exit_code == 0
    refused = run("erase", "t1", "--owner", "ana", "--yes")
    assert refused.exit_code == 1 and isinstance(refused.exception, novelo.ThreadHeld)
    assert run("release", "--owner", "ana").exit_code == 0 and run("release", "--owner", "ana").exit_code == 1
    assert run("erase", "t1", "--owner", "ana", "--yes").exit_code == 0
    rows = json.loads(run("audit", "--json").stdout)
    assert [row["action"] for row in rows] == ["erase", "release owner", "hold owner"] and rows[2]["who"] == "legal"
    assert "hold owner by legal" in run("audit", "--limit", "3").stdout
    assert [r["action"] for r in json.loads(run("audit", "t1", "--owner", "ana", "--json").stdout)] == ["erase"]
    assert run("audit", "--check").exit_code == 0 and "3 acts" in run("audit", "--check").stderr


def test_a_worker_sweeps(run):
    """`novelo worker --once --retention` removes what is over, beside its jobs."""
    assert "3 threads removed" in run("worker", "--once", "--retention", "idle:0s", "-m", "offline").stderr


def test_all_of_an_owner_are_exported(run, monkeypatch):
    """`export --all` reads all pages of a list, those of one owner too; an owner without threads is told as such."""
    monkeypatch.setattr("novelo.cli.files.EXPORTED", 1)

    every = [json.loads(line) for line in run("export", "--all").stdout.splitlines() if line]
    assert {row["thread"]["thread_id"] for row in every if "thread" in row} == {"t1", "t2", "u"}
    hers = [json.loads(line) for line in run("export", "--all", "--owner", "ana").stdout.splitlines() if line]
    assert {row["thread"]["thread_id"] for row in hers if "thread" in row} == {"t1", "t2"}
    nobody = run("export", "--all", "--owner", "carl")
    assert isinstance(nobody.exception, novelo.UnknownEntry) and "no thread of owner 'carl'" in str(nobody.exception)


def test_what_was_not_erased_fails(run):
    """A script learns by the exit status that a hold kept something, or that there was nothing under the name."""
    assert run("erase", "t1", "--owner", "ana", "--pattern", "nowhere", "--yes").exit_code == 1
    assert run("erase", "--owner", "nobody", "--yes").exit_code == 1
    run("hold", "t1", "--owner", "ana")
    some = run("erase", "--owner", "ana", "--yes")
    assert some.exit_code == 1 and "held, and kept: t1" in some.stderr and some.stdout.startswith("1 thread: ")
    assert run("erase", "--owner", "bob", "--yes").exit_code == 0


def test_a_thread_that_is_not_there(run):
    """The error tells whose it is, or that the owner has none: a missing --owner is the usual reason."""
    assert "it is one of 'ana': add --owner" in str(run("show", "t1").exception)
    assert "others have: add --owner" in str(run("show", "nobody").exception)
    assert "the last used are" in str(run("show", "nobody", "--owner", "ana").exception)
    assert "owner 'carl' has none" in str(run("show", "nobody", "--owner", "carl").exception)


def test_an_audit_without_acts_says_so(run):
    """Nothing on stdout, and a word on stderr."""
    found = run("audit", "t1", "--owner", "ana")
    assert (found.exit_code, found.stdout) == (0, "") and "no act" in found.stderr


def test_full_is_a_vacuum_of_its_own(run, monkeypatch):
    """`--full` alone rewrites the gaps; without it, or `--vacuum`, nothing does."""
    asked = []
    monkeypatch.setattr("novelo.stores.sqlite.Database.vacuum", lambda self, full: asked.append(full) or True)
    assert run("erase", "t1", "--owner", "ana", "--yes").exit_code == 0 and asked == []
    assert run("purge", "--idle", "0s", "--full", "--yes").exit_code == 0 and asked == [True]
