"""A thread as a session of the OpenAI Agents SDK, with the SDK's own runner."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, ModelResponse, Runner, Usage, function_tool
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

import novelo
from novelo.errors import InvalidSpec
from novelo.integrations.openai_agents import NoveloSession


class Scripted(Model):
    """Answers from a list, and keeps the items it was sent."""

    def __init__(self, *outputs: list[Any]) -> None:
        self.outputs, self.seen = list(outputs), []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **more: Any) -> ModelResponse:
        """The next answer."""
        self.seen.append(input)
        return ModelResponse(output=self.outputs.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        """Not here."""
        raise NotImplementedError


def said(text: str) -> ResponseOutputMessage:
    """A message of the model's."""
    content = [ResponseOutputText(text=text, type="output_text", annotations=[])]
    return ResponseOutputMessage(id=f"m-{text}", content=content, role="assistant", status="completed", type="message")


def called(call_id: str) -> ResponseFunctionToolCall:
    """A call of the model's."""
    return ResponseFunctionToolCall(
        arguments="{}", call_id=call_id, name="stock", type="function_call", id=f"f-{call_id}"
    )


@function_tool
def stock() -> str:
    """How many there are."""
    return "7"


def thinking(name: str) -> Any:
    """A thought, as an item."""
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": "x"}


CALL = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "stock", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "7"}
ANSWER = said("Sete.").model_dump(exclude_unset=True)
ITEMS = [{"role": "user", "content": "Quantos há?"}, thinking("r1"), CALL, OUTPUT, thinking("r2"), ANSWER]


def run(job: Any) -> Any:
    """Await something here."""
    return asyncio.run(job)


@pytest.fixture
def session():
    """A session in a memory that lasts as long as the test."""
    with novelo.open("memory://") as memory:
        yield NoveloSession("s", memory)


def test_it_is_a_session(session):
    """The SDK's protocol recognises the class."""
    assert isinstance(session, Session)


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path):
    """A question, a call with its result and an answer are in the next run's input, after a restart too."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    first = Scripted([called("c1")], [said("Sete.")])
    with novelo.open(url) as memory:
        run(Runner.run(Agent("a", model=first, tools=[stock]), "Quantos há?", session=NoveloSession("s", memory)))
    second = Scripted([said("Sete, ainda.")])
    with novelo.open(url) as memory:
        asked = Runner.run(Agent("a", model=second, tools=[stock]), "E agora?", session=NoveloSession("s", memory))
        assert run(asked).final_output == "Sete, ainda."
    kinds = [item.get("type") or item["role"] for item in second.seen[0]]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]


def test_items_come_back_equal(session):
    """Thoughts, calls, outputs and messages come back as they were given, also in several pieces."""
    run(session.add_items(ITEMS[:4]))
    run(session.add_items(ITEMS[4:]))
    run(session.add_items([]))
    assert run(session.get_items()) == ITEMS
    assert run(session.get_items(100)) == ITEMS


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 2), (5, 5), (6, 6)])
def test_a_limit_parts_no_group(session, limit, kept):
    """A thought stays with what it led to, and a call with its output: together under the limit, or not at all."""
    run(session.add_items(ITEMS))
    assert run(session.get_items(limit)) == (ITEMS[-kept:] if kept else [])


def test_the_settings_limit_holds(session):
    """Where no limit is asked for, that of the SDK's settings holds; a negative one is refused."""
    run(session.add_items(ITEMS))
    session.session_settings = SessionSettings(limit=2)
    assert run(session.get_items()) == ITEMS[-2:]
    session.session_settings = {"limit": 5}
    assert run(session.get_items()) == ITEMS[-5:]
    with pytest.raises(InvalidSpec):
        run(session.get_items(-1))


def test_popping_takes_items_one_by_one(session):
    """The newest item goes first, out of a message of several too; the transcript keeps what was said."""
    run(session.add_items(ITEMS))
    for left in range(len(ITEMS), 0, -1):
        assert run(session.pop_item()) == ITEMS[left - 1]
        assert run(session.get_items()) == ITEMS[: left - 1]
    assert run(session.pop_item()) is None and len(session.thread.messages()) >= 4


def test_clearing_erases(session):
    """A cleared session is empty, is gone from the memory, and can be used again."""
    run(session.clear_session())
    run(session.add_items(ITEMS))
    run(session.clear_session())
    assert run(session.get_items()) == []
    again = NoveloSession("s", session.thread.memory)
    run(again.add_items(ITEMS[:1]))
    assert run(again.get_items()) == ITEMS[:1]


def test_a_policy_composes_what_is_given(session):
    """With a policy the items are a context of it."""
    run(session.add_items(ITEMS))
    run(session.add_items([{"role": "user", "content": "E agora?"}]))
    short = NoveloSession("s", session.thread.memory, policy="window:1turns")
    assert run(short.get_items()) == [{"role": "user", "content": "E agora?"}]


def test_long_sessions_are_read_from_their_end(session):
    """A limit over more than a page of messages gives just the newest."""
    items = [{"role": "user", "content": str(n)} for n in range(130)]
    run(session.add_items(items))
    assert run(session.get_items(120)) == items[-120:]


def test_owners_and_async_memories():
    """Sessions of two owners are two threads, and an asynchronous memory serves as well."""

    async def talk() -> Any:
        async with novelo.open_async("memory://") as memory:
            await NoveloSession("s", memory, owner="x").add_items(ITEMS[:1])
            return await NoveloSession("s", memory, owner="y").get_items()

    assert run(talk()) == []


def test_reasoning_objects_of_the_sdk_are_taken(session):
    """Items may be the SDK's own objects."""
    item = ResponseReasoningItem(id="r1", summary=[], type="reasoning")
    run(session.add_items([ITEMS[0], item, said("Sete.")]))
    assert [i.get("type") for i in run(session.get_items())] == [None, "reasoning", "message"]
