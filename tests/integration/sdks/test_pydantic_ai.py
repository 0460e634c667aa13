"""The history processor of Pydantic AI, with its own agent and test models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from novelo.errors import InvalidSpec
from novelo.integrations.pydantic_ai import history_processor
from novelo.transcript import NO_RESULT


def turn(n: int, *, tool: bool = True, lost: bool = False) -> list[Any]:
    """A question, perhaps a call with its return, and an answer."""
    call = ModelResponse([ThinkingPart("…", signature="s"), ToolCallPart("stock", {"n": n}, f"c{n}")])
    back = [] if lost else [ModelRequest([ToolReturnPart("stock", f"{n} left", f"c{n}")])]
    return [
        ModelRequest([UserPromptPart(f"q{n}")]),
        *([call, *back] if tool else []),
        ModelResponse([TextPart(f"a{n}")]),
    ]


def kinds(messages: list[Any]) -> list[str]:
    """What the parts are, message by message."""
    return ["+".join(p.part_kind for p in m.parts) for m in messages]


HISTORY = [ModelRequest([SystemPromptPart("Be brief."), UserPromptPart("q0")]), ModelResponse([TextPart("a0")])]
HISTORY += turn(1) + turn(2)


def test_all_that_fits_is_the_very_history():
    """A policy that cuts nothing gives the very objects."""
    found = history_processor("buffer")(HISTORY)
    assert len(found) == len(HISTORY) and all(a is b for a, b in zip(found, HISTORY, strict=True))
    assert history_processor("buffer")([]) == []


def test_a_cut_keeps_the_system_prompt_and_whole_steps():
    """Calls stay with their returns, and the system prompt stays though its question went."""
    found = history_processor("window:1turns")(HISTORY)
    assert kinds(found) == ["system-prompt", "user-prompt", "thinking+tool-call", "tool-return", "text"]
    assert found[1:] == HISTORY[-4:] and all(a is b for a, b in zip(found[1:], HISTORY[-4:], strict=True))


def test_a_lost_return_is_made_up():
    """A call without its return gets one, of the same name and id."""
    found = history_processor("buffer")(turn(1, lost=True))
    assert kinds(found) == ["user-prompt", "thinking+tool-call", "tool-return", "text"]
    assert (found[2].parts[0].content, found[2].parts[0].tool_call_id) == (NO_RESULT, "c1")


def test_what_a_policy_alters_is_altered_in_place():
    """Cleared results and masks change the text of a part and nothing else of it."""
    found = history_processor("clear_tools:keep=1")(HISTORY)
    returns = [p for m in found for p in m.parts if isinstance(p, ToolReturnPart)]
    assert (
        "1 left" not in str(returns[0].content) and returns[0].tool_name == "stock" and returns[1].content == "2 left"
    )
    secret = [
        ModelRequest([UserPromptPart("senha: abacaxi99")]),
        ModelResponse([TextPart("abacaxi99: senha: abacaxi99")]),
    ]
    found = history_processor("redact:secrets")([*secret, *turn(1)])
    assert "abacaxi99" not in found[0].parts[0].content and kinds(found)[:2] == ["user-prompt", "text"]


def test_a_request_of_several_parts_stays_one():
    """Two returns and a prompt in one request are one request again."""
    both = ModelResponse([ToolCallPart("stock", {}, "a"), ToolCallPart("stock", {}, "b")])
    mixed = ModelRequest([ToolReturnPart("stock", "1", "a"), ToolReturnPart("stock", "2", "b")])
    history = [ModelRequest([UserPromptPart(["q", "r"])]), both, mixed]
    found = history_processor("window:5turns")(history)
    assert all(a is b for a, b in zip(found, history, strict=True))


def test_an_agent_runs_with_it():
    """The model is sent the window in every call of a run with tools."""
    seen: list[list[str]] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        seen.append(kinds(messages))
        if isinstance(messages[-1].parts[-1], ToolReturnPart):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("stock", {}, f"c{len(seen)}")])

    agent = Agent(FunctionModel(answer), capabilities=[ProcessHistory(history_processor("window:1turns"))])

    @agent.tool_plain
    def stock() -> str:
        """How many there are."""
        return "7"

    async def talk() -> Any:
        first = await agent.run("um")
        return await agent.run("dois", message_history=first.all_messages())

    assert asyncio.run(talk()).output == "done"
    assert seen[-1] == ["user-prompt", "tool-call", "tool-return"]


def test_nonsense_is_refused():
    """A policy or provider that does not exist is told when the processor is made."""
    for bad in ({"policy": "windw"}, {"provider": "nobody"}):
        with pytest.raises(InvalidSpec):
            history_processor(**bad)
