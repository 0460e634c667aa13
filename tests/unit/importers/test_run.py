"""What all imports share: what is new, what is told, and how a foreign file is opened; and the command line."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import novelo
from novelo.cli import app
from novelo.errors import ImportFailed, InvalidSpec
from novelo.importers import KINDS, Conversation, Source, base, open_source, run_import
from novelo.messages import Message

LOGS = Path(__file__).parent / "fixtures" / "llm-0.31.sql"


class Listed(Source):
    """A source of lists."""

    kind = "listed"

    def __init__(self, **said):
        super().__init__("a list")
        self.said = said

    def ids(self):
        """Their names."""
        return list(self.said)

    def read(self, name):
        """Texts as messages, each its own key."""
        found = self.said[name]
        if isinstance(found, Exception):
            raise found
        out = Conversation(name, title=f"about {name}", state={"lang": "pt"}, metadata={"by": "us"})
        for i, text in enumerate(found):
            out.add(Message("user", text), text[:10], 100.0 + i)
        return out


@pytest.fixture
def memory():
    """Where it all goes."""
    with novelo.open("sqlite://", worker="off") as opened:
        yield opened


@pytest.fixture
def logs(tmp_path):
    """A file of llm."""
    path = tmp_path / "logs.db"
    sqlite3.connect(path).executescript(LOGS.read_text("utf-8")).connection.close()
    return path


def said(memory, name, **more):
    """The visible texts of a thread."""
    return [e.message.text for e in memory.thread(name).messages(hidden=False, **more)]


def test_a_thread_has_what_the_source_tells(memory):
    """Times, title, state and metadata of the source are the thread's; a later run leaves title and state alone."""
    report = run_import(memory, Listed(a=["x", "y"]))
    thread = memory.thread("a")
    assert [e.created for e in thread.messages()] == [100.0, 101.0]
    assert (thread.title, dict(thread.state), thread.metadata["by"]) == ("about a", {"lang": "pt"}, "us")
    assert report.messages == 2
    thread.title = "mine"
    run_import(memory, Listed(a=["x", "y", "z"]))
    assert thread.title == "mine"
    assert said(memory, "a") == ["x", "y", "z"]
    assert thread.metadata["imported"]["taken"] == 3


def test_a_run_that_was_cut_off_between_two_writes_doubles_nothing(memory, monkeypatch):
    """What was stored but not noted yet is found again by its key."""
    monkeypatch.setattr("novelo.importers.run.note", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_import(memory, Listed(a=["x", "y"]))
    monkeypatch.undo()
    assert run_import(memory, Listed(a=["x", "y", "z"])).messages == 1
    assert said(memory, "a") == ["x", "y", "z"]


def test_what_was_rewritten_at_the_source(memory):
    """What is there no more is hidden, what is new is appended, and what was kept is neither."""
    run_import(memory, Listed(a=["x", "y", "z"]))
    run_import(memory, Listed(a=["x", "Y", "z"]))
    assert said(memory, "a") == ["x", "z", "Y"]
    assert [e.message.text for e in memory.thread("a").messages()] == ["x", "y", "z", "Y"]
    assert run_import(memory, Listed(a=["x", "Y", "z"])).count("same") == 1


def test_a_message_that_cannot_be_stored_is_named(memory):
    """The others of its conversation come, and a second run does not try it again."""
    source = Listed(a=["x"])
    deep = {}
    for _ in range(100):
        deep = {"a": deep}
    found = source.read("a")
    found.add(Message("user", "bad", extra={"deep": deep}), "bad", None)
    source.read = lambda _: found
    report = run_import(memory, source)
    assert said(memory, "a") == ["x"]
    assert "message bad cannot be stored" in str(report.losses[0])
    assert run_import(memory, source).count("same") == 1


def test_a_conversation_that_cannot_be_read_costs_only_itself(memory):
    """Damage is named; the conversations before and after it come."""
    broken = sqlite3.DatabaseError("database disk image is malformed")
    report = run_import(memory, Listed(a=["x"], b=broken, c=["y"]))
    assert [one.thread_id for one in report.threads] == ["a", "c"]
    assert str(report.losses[0]) == "b: cannot be read: database disk image is malformed"


def test_a_thread_of_the_same_id_is_left_alone(memory):
    """It is refused by name, unless it came from the same place; another owner has threads of his own."""
    memory.thread("a").append([{"role": "user", "content": "mine"}])
    assert run_import(memory, Listed(a=["x"])).count("refused") == 1
    assert said(memory, "a") == ["mine"]
    assert run_import(memory, Listed(a=["x"]), owner="ana").count("new") == 1


def test_progress_is_told_before_each(memory):
    """How many are done, how many there are, and which is next."""
    told = []
    run_import(memory, Listed(a=["x"], b=["y"]), progress=lambda *what: told.append(what))
    assert told == [(0, 2, "a"), (1, 2, "b")]


def test_a_log_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    """Without rights to write beside it a write-ahead log cannot be read: the error says what to do."""
    path = tmp_path / "x.db"
    sqlite3.connect(path).execute("CREATE TABLE t (id)").connection.close()
    opened, ways = base._opened, []

    def without_rights(file, how):
        ways.append(how)
        if "immutable" not in how:
            raise sqlite3.OperationalError("unable to open database file")
        return opened(file, how)

    monkeypatch.setattr(base, "_opened", without_rights)
    base.open_sqlite(str(path)).close()  # no log: nobody has it open
    assert ways == ["mode=ro", "mode=ro&immutable=1"]
    Path(f"{path}-wal").write_bytes(b"frames")
    with pytest.raises(ImportFailed, match=r"copy the file and x\.db-wal into a folder of yours"):
        base.open_sqlite(str(path))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1970-01-01 00:01:00", 60.0),
        ("1970-01-01T00:01:00.5Z", 60.5),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("9999-99-99", None),
        (None, None),
        (7, None),
    ],
    ids=range(6),
)
def test_moments(given, expected):
    """A moment without a zone is UTC, and what is none is nothing."""
    assert base.moment(given) == expected


def test_unknown_kinds_are_refused():
    """The error lists those that there are."""
    with pytest.raises(InvalidSpec, match=r"langgraph-sqlite, .*, claude-code"):
        open_source("chatgpt", "x")


@pytest.mark.parametrize("missing", ["langgraph", "psycopg"])
def test_a_missing_package_is_named_with_its_extra(missing):
    """Only the sources that need one ask for it."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from novelo.errors import MissingExtra\nfrom novelo.importers import open_source\n"
        "try: open_source('langgraph-postgres', 'postgresql://x')\n"
        "except MissingExtra as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"novelo[{'langgraph' if missing == 'langgraph' else 'postgres'}]" in found


# ------------------------------------------------------------------------------------------------ the command line
def command(*words):
    """Run `novelo import`."""
    return CliRunner().invoke(app, ["import", *map(str, words)])


def test_the_command(logs, tmp_path):
    """A line for each thread on stdout, what was lost on stderr; a dry run makes no database."""
    target = tmp_path / "chat.db"
    dry = command("--from", "llm", logs, "-d", target, "--dry-run")
    assert "2 new; 14 messages would be added" in dry.stderr
    assert not target.exists()
    done = command("--from", "llm", logs, "-d", target)
    assert done.exit_code == 0
    assert (
        done.stdout
        == dry.stdout
        == ("01m8p01sq42y2r816g42sm8b5q  new  12 messages  Q1\n01m8p01swe2623c1p4y1m6h6rq  new  2 messages  alone\n")
    )
    assert "1 did not come along" in done.stderr
    assert "attachment 7343d363" in done.stderr
    again = command("--from", "llm", logs, "-d", target, "--json")
    assert [t["was"] for t in json.loads(again.stdout)["threads"]] == ["same", "same"]
    assert "2 same; 0 messages added" in again.stderr


def test_the_command_takes_one_conversation(logs, tmp_path):
    """`--thread` names it, `--owner` whose it becomes; one that is not there is exit status 1."""
    target = tmp_path / "chat.db"
    words = ("--from", "llm", logs, "-d", target, "--owner", "ana", "--thread")
    assert command(*words, "01m8p01swe2623c1p4y1m6h6rq").exit_code == 0
    with novelo.open(f"sqlite:///{target}", worker="off") as memory:
        assert [(row.owner, row.title) for row in memory.threads()] == [("ana", "alone")]
    assert command(*words, "no").exit_code == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--from", "chatgpt", "x"), InvalidSpec),
        (("--from", "llm", "a.db", "b.db"), 2),
        (("a.json", "--dry-run"), 2),
        (("--from", "llm", __file__), ImportFailed),
        *[(("--from", kind, "nowhere"), ImportFailed) for kind in KINDS if not kind.startswith("langgraph")],
    ],
    ids=range(7),
)
def test_wrong_words_leave_nothing_behind(words, error, tmp_path):
    """A wrong kind, path or file ends before the database is opened."""
    found = command(*words, "-d", tmp_path / "chat.db")
    assert found.exit_code == error if isinstance(error, int) else isinstance(found.exception, error)
    assert list(tmp_path.iterdir()) == []
