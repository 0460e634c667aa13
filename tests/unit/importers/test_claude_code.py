"""Session files of Claude Code."""

from __future__ import annotations

import json

import pytest

import novelo
from novelo.errors import ImportFailed
from novelo.formats.anthropic import to_anthropic
from novelo.importers import open_source, run_import


def user(uuid, parent, content, **more):
    """A line of the user's."""
    line = {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
    return line | {"timestamp": "2026-05-01T10:00:00.000Z", "message": {"role": "user", "content": content}} | more


def model(uuid, parent, message_id, *blocks, **more):
    """A line of the model's."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 2}
    message = {"role": "assistant", "id": message_id, "model": "claude-x", "content": list(blocks), "usage": usage}
    line = {"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": False}
    return line | {"timestamp": "2026-05-01T10:00:05.500Z", "message": message} | more


def text(said):
    """A block of text."""
    return {"type": "text", "text": said}


def call(call_id):
    """A block with a call."""
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}


def result(call_id, said="done"):
    """Blocks with a result."""
    return [{"type": "tool_result", "tool_use_id": call_id, "content": said}]


def written(folder, *lines, name="s"):
    """A session's file."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture
def memory():
    """Where it all goes."""
    with novelo.open("sqlite://", worker="off") as opened:
        yield opened


def brought(path, memory, **more):
    """An import, run."""
    with open_source("claude-code", str(path)) as source:
        return run_import(memory, source, **more)


def said(memory, name="s"):
    """What the thread has: a letter for the role, and the text or the ids of calls."""
    return [
        (e.role[0], e.message.text or ",".join(c.id for c in e.message.tool_calls))
        for e in memory.thread(name).messages()
    ]


def test_a_session_with_parallel_calls(tmp_path, memory):
    """Lines of one answer are one message, and results that hang beside the main line come too."""
    path = written(
        tmp_path,
        {"type": "summary", "summary": "Listing files", "leafUuid": "x"},
        user("u1", None, "list twice", cwd="/home/ana/p", gitBranch="main", version="2.1.0"),
        model("a1", "u1", "m1", {"type": "thinking", "thinking": "hm", "signature": "sig"}),
        model("a2", "a1", "m1", text("I will.")),
        model("a3", "a2", "m1", call("c1")),
        user("r1", "a3", result("c1"), toolUseResult={"stdout": "done"}),
        model("a4", "a3", "m1", call("c2")),
        user("r2", "a4", result("c2")),
        model("a5", "r2", "m2", text("Both done.")),
    )
    report = brought(path, memory)
    assert said(memory) == [("u", "list twice"), ("a", "I will."), ("t", "done"), ("t", "done"), ("a", "Both done.")]
    thread = memory.thread("s")
    answer = thread.messages()[1].message
    assert [c.id for c in answer.tool_calls] == ["c1", "c2"]
    assert (answer.id, answer.usage.input, answer.usage.output, answer.meta["model"]) == ("m1", 7, 2, "claude-x")
    assert thread.title == "Listing files"
    assert thread.metadata["claude-code"] == {"cwd": "/home/ana/p", "gitBranch": "main", "version": "2.1.0"}
    assert thread.messages()[4].created - thread.messages()[0].created == 5.5
    assert [loss.what for loss in report.losses] == ["what the program noted beside 1 results of tools"]
    assert to_anthropic([answer]).messages[0]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        *(text("I will."), call("c1"), call("c2")),
    ]
    assert novelo.check(thread.context(provider="anthropic").messages("anthropic"), provider="anthropic") == []


def test_branches_side_chains_and_notes_are_counted(tmp_path, memory):
    """The main line is the way from the last message up; what is beside it is told, and broken lines too."""
    path = written(
        tmp_path,
        user("u1", None, "first"),
        model("a1", "u1", "m1", text("left")),
        "{broken",
        user("b1", "u1", "in a side chain", isSidechain=True),
        user("u2", "u1", "after a rewind"),
        {"type": "system", "uuid": "y1", "parentUuid": "u2", "subtype": "local_command", "content": "x"},
        model("e1", "y1", "me", text("API Error: 529"), isApiErrorMessage=True),
        model("a2", "e1", "m2", text("stayed")),
        {"type": "file-history-snapshot", "messageId": "u1"},
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"},
    )
    report = brought(path, memory)
    assert said(memory) == [("u", "first"), ("u", "after a rewind"), ("a", "stayed")]
    assert memory.thread("s").title == "Mine"
    assert [loss.what for loss in report.losses] == [
        "1 lines are no JSON object: 3",
        "1 messages of side chains",
        "1 messages of other branches are not on the main line",
        "1 errors of the API, told as answers",
        "notes of the program: 1 file-history-snapshot, 1 system",
    ]


def test_what_was_said_before_a_compaction_comes_too(tmp_path, memory):
    """The line goes on above the boundary, with and without the name of its logical parent; the summary stays away."""
    path = written(
        tmp_path,
        user("u1", None, "one"),
        model("a1", "u1", "m1", text("1")),
        user("k1", None, "This session is being continued …", isCompactSummary=True),
        model("a2", "k1", "m2", text("2")),
        {"type": "system", "subtype": "compact_boundary", "uuid": "k2", "parentUuid": None, "logicalParentUuid": "a2"},
        user("k3", "k2", "This session is being continued …", isCompactSummary=True),
        user("u3", "k3", "three"),
    )
    report = brought(path, memory)
    assert said(memory) == [("u", "one"), ("a", "1"), ("a", "2"), ("u", "three")]
    assert "2 summaries" in [loss.what for loss in report.losses]


def test_a_parent_that_is_not_there(tmp_path, memory):
    """The line before stands for it, and the report says so; a circle ends."""
    path = written(
        tmp_path,
        user("u1", "a1", "one"),
        model("a1", "u1", "m1", text("1")),
        user("u2", "gone", "two"),
    )
    report = brought(path, memory)
    assert said(memory) == [("u", "one"), ("a", "1"), ("u", "two")]
    assert "line 3 follows a line that is not there: line 2 stands for it" in [loss.what for loss in report.losses]


def test_a_folder_with_subagents(tmp_path, memory):
    """Each file is a thread; a subagent's own file too, though all of it is a side chain."""
    project = tmp_path / "-home-ana-p"
    project.mkdir()
    written(project, user("u1", None, "one"), name="s1")
    written(
        project,
        user("x1", None, "sub", isSidechain=True),
        model("x2", "x1", "m", text("done"), isSidechain=True),
        name="agent-7",
    )
    written(project, {"type": "summary", "summary": "nothing", "leafUuid": "q"}, name="s2")
    report = brought(tmp_path, memory)
    assert {one.thread_id: one.messages for one in report.threads} == {"s1": 1, "agent-7": 2, "s2": 0}
    assert said(memory, "agent-7") == [("u", "sub"), ("a", "done")]


def test_a_session_that_goes_on(tmp_path, memory):
    """A second run adds what is new; after a rewind what was left is hidden and the new line stands at the end."""
    lines = [user("u1", None, "one"), model("a1", "u1", "m1", text("1"))]
    brought(written(tmp_path, *lines), memory)
    lines += [user("u2", "a1", "two"), model("a2", "u2", "m2", text("2"))]
    assert brought(written(tmp_path, *lines), memory).messages == 2
    assert brought(written(tmp_path, *lines), memory).count("same") == 1
    lines += [user("u3", "a1", "instead"), model("a3", "u3", "m3", text("3"))]
    assert brought(written(tmp_path, *lines), memory).messages == 2
    visible = [e.message.text for e in memory.thread("s").messages(hidden=False)]
    assert visible == ["one", "1", "instead", "3"]
    assert len(memory.thread("s")) == 6


def test_messages_of_no_known_form_are_named(tmp_path, memory):
    """Blocks of unknown kinds are kept whole; a message that is none, or is nested without end, is told by its line."""
    deep: object = "x"
    for _ in range(100):
        deep = [deep]
    path = written(
        tmp_path,
        user("u1", None, [text("look"), {"type": "hologram", "data": 1}]),
        user("u2", "u1", 7),
        user("u3", "u2", [{"type": "hologram", "data": deep}]),
        user("u4", "u3", "end"),
    )
    report = brought(path, memory)
    assert [t for _, t in said(memory)] == ["look", "end"]
    assert len(report.losses) == 2
    assert memory.thread("s").context().messages("anthropic").messages[0]["content"][1] == {
        "type": "hologram",
        "data": 1,
    }


@pytest.mark.parametrize("content", ["", "hello\n", '{"role": "user", "content": "x"}\n', "[1, 2]\n"], ids=range(4))
def test_a_file_of_something_else(tmp_path, content):
    """It is told in one line, and so are an empty folder and a path that leads nowhere."""
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(ImportFailed, match="holds no session"):
        open_source("claude-code", str(path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportFailed, match="holds no session"):
        open_source("claude-code", str(tmp_path / "empty"))
    with pytest.raises(ImportFailed, match="No such file"):
        open_source("claude-code", str(tmp_path / "no.jsonl"))
