"""Sessions that the OpenAI Agents SDK wrote itself."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

import novelo
from novelo.errors import ImportFailed
from novelo.importers import open_source, run_import
from novelo.integrations.openai_agents import NoveloSession


class Scripted(Model):
    """Thinks, calls a tool, and answers."""

    def __init__(self) -> None:
        self.calls = 0

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:
        """A thought and a call, then an answer."""
        self.calls += 1
        n = self.calls
        if n % 2:
            thought = ResponseReasoningItem(id=f"rs{n}", summary=[], type="reasoning", encrypted_content="x")
            call = ResponseFunctionToolCall(
                id=f"fc{n}", call_id=f"c{n}", name="lookup", arguments='{"order": "7"}', type="function_call"
            )
            return ModelResponse(output=[thought, call], usage=Usage(), response_id=None)
        text = ResponseOutputText(text=f"answer {n}", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id=f"m{n}", content=[text], role="assistant", status="completed", type="message"
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        """Not here."""
        raise NotImplementedError


@function_tool
def lookup(order: str) -> str:
    """Look an order up."""
    return f"order {order} is on its way"


def talk(path: Any, session_id: str, *questions: str) -> list[Any]:
    """A talk with the SDK's own runner; the items of the session after it."""

    async def go() -> list[Any]:
        session = SQLiteSession(session_id, path)
        try:
            for question in questions:
                await Runner.run(Agent(name="a", model=Scripted(), tools=[lookup]), question, session=session)
            return await session.get_items()
        finally:
            session.close()

    return asyncio.run(go())


def brought(path: Any, memory: Any, **more: Any) -> Any:
    """An import, run."""
    with open_source("openai-agents", str(path)) as source:
        return run_import(memory, source, **more)


def items(memory: Any, session_id: str) -> list[Any]:
    """The items of a session of ours."""
    return asyncio.run(NoveloSession(session_id, memory).get_items())


@pytest.fixture
def memory():
    """Where it all goes."""
    with novelo.open("sqlite://", worker="off") as opened:
        yield opened


def test_the_items_come_back_the_same(tmp_path, memory):
    """Thoughts stay with their calls and calls with their outputs; the session of ours has the very same items."""
    path = tmp_path / "sessions.db"
    first = talk(path, "s1", "Where is 7?", "And now?")
    second = talk(path, "s2", "Hello")
    report = brought(path, memory)
    assert report.losses == []
    assert [(one.thread_id, one.was, one.messages) for one in report.threads] == [("s1", "new", 8), ("s2", "new", 4)]
    assert items(memory, "s1") == first
    assert items(memory, "s2") == second
    roles = [entry.role for entry in memory.thread("s2").messages()]
    assert roles == ["user", "assistant", "tool", "assistant"]


def test_a_second_run_follows_the_session(tmp_path, memory):
    """New items are added once; what was popped is hidden here; what was said here since is left alone."""
    path = tmp_path / "sessions.db"
    talk(path, "s", "one")
    brought(path, memory)
    after = talk(path, "s", "two")
    assert [(t.was, t.messages) for t in brought(path, memory).threads] == [("grown", 4)]
    assert items(memory, "s") == after
    assert [t.was for t in brought(path, memory).threads] == ["same"]
    memory.thread("s").append([{"role": "user", "content": "said here"}])

    async def pop() -> None:
        session = SQLiteSession("s", path)
        await session.pop_item()
        await session.add_items([{"role": "user", "content": "instead"}])
        session.close()

    asyncio.run(pop())
    assert [(t.was, t.messages) for t in brought(path, memory).threads] == [("grown", 1)]
    visible = [e.message.text for e in memory.thread("s").messages(hidden=False)]
    assert visible[-2:] == ["said here", "instead"]
    assert "answer 2" in visible
    assert len(memory.thread("s")) == 10


def test_what_was_deleted_here_does_not_come_back(tmp_path, memory):
    """A message that was deleted stays so, whatever is new at the source."""
    path = tmp_path / "sessions.db"
    talk(path, "s", "a secret")
    brought(path, memory)
    memory.thread("s").delete(0)
    talk(path, "s", "two")
    brought(path, memory)
    found = memory.thread("s").messages()
    assert len(found) == 8
    assert found[0].deleted
    asyncio.run(SQLiteSession("s", path).pop_item())
    assert "were deleted here" in str(brought(path, memory).losses[0])
    assert len(memory.thread("s")) == 8


def test_broken_and_encrypted_items_are_named(tmp_path, memory):
    """A row that is no JSON, no item, or encrypted is named by its number, and the others come."""
    path = tmp_path / "sessions.db"
    talk(path, "s", "one")
    with sqlite3.connect(path) as db:
        for data in (
            "{",
            "[1]",
            '{"__enc__": 1, "payload": "x"}',
            '{"role": "robot", "content": "x"}',
            '{"role": "user", "content": "two"}',
        ):
            db.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('s', ?)", (data,))
    db.close()
    report = brought(path, memory)
    assert [str(loss).split(":")[1].strip() for loss in report.losses] == [
        "item 6 is no JSON",
        "item 7 is list, expected an object",
        "item 8 is encrypted",
        "item 9 is none that we know",
    ]
    assert [e.message.text for e in memory.thread("s").messages()][-1] == "two"


def test_tables_of_other_names_and_branches(tmp_path, memory):
    """Tables are known by their columns, and of an advanced session the main branch is read."""
    from agents.extensions.memory import AdvancedSQLiteSession

    path = tmp_path / "named.db"

    async def go() -> list[Any]:
        session = SQLiteSession("s", path, sessions_table="ours", messages_table="said")
        await session.add_items([{"role": "user", "content": "one"}])
        session.close()
        advanced = AdvancedSQLiteSession(session_id="s", db_path=tmp_path / "advanced.db", create_tables=True)
        await advanced.add_items([{"role": "user", "content": "one"}, {"role": "assistant", "content": "1"}])
        await advanced.add_items([{"role": "user", "content": "two"}, {"role": "assistant", "content": "2"}])
        main = await advanced.get_items()
        await advanced.create_branch_from_turn(2)
        await advanced.add_items([{"role": "user", "content": "other"}])
        advanced.close()
        return main

    main = asyncio.run(go())
    brought(path, memory)
    assert [e.message.text for e in memory.thread("s").messages()] == ["one"]
    report = brought(tmp_path / "advanced.db", memory, owner="b")
    assert [e.message.text for e in memory.thread("s", owner="b").messages()] == [item["content"] for item in main]
    assert "not on the main line" in str(report.losses[0])


def test_a_file_of_something_else(tmp_path):
    """It is told in one line."""
    (tmp_path / "a.txt").write_text("hello, this is no database")
    with pytest.raises(ImportFailed, match="is no SQLite database"):
        open_source("openai-agents", str(tmp_path / "a.txt"))
    sqlite3.connect(tmp_path / "b.db").execute("CREATE TABLE t (id)").connection.close()
    with pytest.raises(ImportFailed, match="no table has the columns"):
        open_source("openai-agents", str(tmp_path / "b.db"))
    with pytest.raises(ImportFailed, match="No such file"):
        open_source("openai-agents", str(tmp_path / "c.db"))
