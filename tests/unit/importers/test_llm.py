"""`logs.db` of the tool llm, in the forms of two of its versions."""

from __future__ import annotations

import base64
import sqlite3
from pathlib import Path

import pytest

import novelo
from novelo.errors import ImportFailed
from novelo.importers import open_source, run_import
from novelo.messages import Image, Reasoning, Text

FILES = {name: Path(__file__).parent / "fixtures" / f"llm-{name}.sql" for name in ("0.31", "0.36")}


def made(path: Path, version: str, *more: str) -> str:
    """A file as that version wrote it, and statements after it."""
    with sqlite3.connect(path) as db:
        db.executescript(FILES[version].read_text("utf-8"))
        for statement in more:
            db.execute(statement)
    db.close()
    return str(path)


def brought(path, memory, **more):
    """An import, run."""
    with open_source("llm", str(path)) as source:
        return run_import(memory, source, **more)


@pytest.fixture
def memory():
    """Where it all goes."""
    with novelo.open("sqlite://", worker="off") as opened:
        yield opened


@pytest.mark.parametrize("version", FILES)
def test_a_conversation_with_media_fragments_and_a_tool(version, tmp_path, memory):
    """Prompts, system prompts, fragments, answers, calls and results come in order, with times, usage and title."""
    report = brought(made(tmp_path / "logs.db", version), memory)
    first, alone = report.threads
    thread = memory.thread(first.thread_id)
    assert (thread.title, alone.title) == ("Q1", "alone")
    found = [e.message for e in thread.messages() if e.message.text != "sysfrag"]  # 0.36 did not send it
    assert [(m.role, m.text.replace("[image]", "").strip()) for m in found] == [
        ("system", "be short"),
        ("user", "Q1"),
        ("assistant", "answer 1"),
        ("user", "long fragment\nQ2"),
        ("assistant", "answer 2"),
        ("user", "use the tool"),
        ("assistant", ""),
        ("tool", "PANDA"),
        ("assistant", "answer 4"),
        ("user", "Q4"),
        ("assistant", "answer 5"),
    ]
    (call,) = found[6].tool_calls
    assert (call.name, call.arguments, found[7].tool_call_id) == ("upper", '{"text": "panda"}', call.id)
    assert found[2].meta["model"] == "fake"
    assert (found[2].usage.input, found[2].usage.output) == (11, 5)
    times = [e.created for e in thread.messages()]
    assert times == sorted(times)
    assert novelo.check(thread.context().messages("openai")) == []


@pytest.mark.parametrize("version", FILES)
def test_media_that_are_a_path_are_named(version, tmp_path, memory):
    """Bytes and addresses come along; of a path a word stays, and the report names it."""
    report = brought(made(tmp_path / "logs.db", version), memory)
    (loss,) = report.losses
    assert "7343d363" in loss.what
    assert "is a path" in loss.what
    assert "/home/ana" not in loss.what
    asked = next(e.message for e in memory.thread(report.threads[0].thread_id).messages() if e.role == "user")
    word, address, data = asked.content[1:]
    assert word == Text(text="[image]")
    assert address.url == "https://x.test/b.png"
    assert isinstance(data, Image)
    assert base64.b64decode(data.data).endswith(b"1111")


@pytest.mark.parametrize("version", FILES)
def test_a_second_run_adds_nothing(version, tmp_path, memory):
    """A file that has not changed is the same, in a dry run and in a run."""
    path = made(tmp_path / "logs.db", version)
    would = brought(path, memory, dry_run=True)
    assert list(memory.threads()) == []
    assert brought(path, memory).threads == would.threads
    assert brought(path, memory).count("same") == 2
    assert brought(path, memory, dry_run=True).messages == 0


def test_only_one(tmp_path, memory):
    """One conversation may be asked for by its id."""
    path = made(tmp_path / "logs.db", "0.31")
    assert [t.title for t in brought(path, memory, only="01m8p01swe2623c1p4y1m6h6rq").threads] == ["alone"]
    assert brought(path, memory, only="no").threads == []


def test_answers_without_a_conversation_thoughts_and_old_columns(tmp_path, memory):
    """A call of no conversation is one of its own; thoughts come along; columns of later versions may be missing."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE conversations (id TEXT PRIMARY KEY, name TEXT, model TEXT)")
        db.execute("CREATE TABLE responses (id TEXT, model, prompt, system, response, conversation_id, reasoning)")
        db.execute("INSERT INTO responses VALUES ('r1', 'm', 'hi', NULL, 'hello', NULL, 'a thought')")
        db.execute("INSERT INTO responses VALUES ('r2', 'm', 'nothing came', NULL, NULL, NULL, NULL)")
    db.close()
    report = brought(path, memory)
    first = [e.message for e in memory.thread("r1").messages()]
    assert [m.text for m in first] == ["hi", "hello"]
    assert first[1].content[0] == Reasoning(text="a thought")
    assert [str(loss) for loss in report.losses] == ["r2: the answer r2 is empty"]
    assert novelo.check(memory.thread("r1").context().messages("openai")) == []


def test_a_file_of_both_forms(tmp_path, memory):
    """A conversation that went on in a newer version is one thread, where the newer one sent it all again too."""
    old = "INSERT INTO responses (id, model, prompt, response, conversation_id) VALUES ('00', 'm', '{}', 'a', '{}')"
    sent_again, apart = "01m8p01vbddftb65gmssw953nd", "01m8p01vdkfeh502bdq7ah81xm"
    path = made(
        tmp_path / "logs.db",
        "0.36",
        old.format("Q1", sent_again),
        f"DELETE FROM turns WHERE thread_id = '{sent_again}' AND id < '01m8p01vc'",
        old.format("before", apart).replace("'00'", "'01'"),
    )
    brought(path, memory)
    assert [e.message.text for e in memory.thread(sent_again).messages()].count("Q1\n[image]") == 1
    assert "a" not in [e.message.text for e in memory.thread(sent_again).messages()]
    assert [e.message.text for e in memory.thread(apart).messages()] == ["before", "a", "alone", "answer 6"]


def test_other_branches_and_broken_parts_are_named(tmp_path, memory):
    """Calls beside the main line, parts that are no JSON and a chain with a gap are told by their ids."""
    alone = "01m8p01vdkfeh502bdq7ah81xm"
    path = made(
        tmp_path / "logs.db",
        "0.36",
        f"INSERT INTO turns (id, thread_id, tip_message_hash) VALUES ('zz', '{alone}', 'b2:elsewhere')",
        """UPDATE turns SET options_json = '{"temperature": 1}', schema_id = 's' WHERE id = 'zz'""",
        "UPDATE parts SET payload = '{', text = NULL WHERE text = 'alone'",
        "DELETE FROM messages WHERE parent_hash IS NULL AND role = 'system'",
    )
    report = brought(path, memory)
    told = "\n".join(map(str, report.losses))
    assert "1 calls are not on the main line: zz" in told
    assert "options and a schema of call zz" in told
    assert "cannot be read" in told
    assert "is not in the file, nor what came before it" in told
    assert [e.message.text for e in memory.thread(alone).messages()] == ["answer 6"]


def test_a_file_of_something_else(tmp_path):
    """It is told in one line."""
    sqlite3.connect(tmp_path / "b.db").execute("CREATE TABLE t (id)").connection.close()
    with pytest.raises(ImportFailed, match="is no file of llm: it has no table 'conversations'"):
        open_source("llm", str(tmp_path / "b.db"))
