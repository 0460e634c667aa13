"""The model of these programs: a real one by the environment, else one that follows a few lines of rules.

MODEL_NAME=gpt-… OPENAI_API_KEY=… python examples/langchain/d01_restart.py      (OPENAI_BASE_URL for other servers)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

Rule = Callable[[list[BaseMessage]], "AIMessage | str"]


class Scripted(BaseChatModel):
    """A chat model that answers by a function of what it was sent, and keeps that."""

    rule: Any
    seen: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Scripted:
        """Tools are known to the rule."""
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        self.seen.append(list(messages))
        answer = self.rule(messages)
        message = answer if isinstance(answer, AIMessage) else AIMessage(answer)
        return ChatResult(generations=[ChatGeneration(message=message)])


def chat_model(rule: Rule) -> Any:
    """The model that MODEL_NAME names; without one, a scripted model that follows the rule."""
    name = os.environ.get("MODEL_NAME")
    if not name:
        return Scripted(rule=rule, seen=[])
    from langchain.chat_models import init_chat_model

    return init_chat_model(name, **({} if ":" in name else {"model_provider": "openai"}))


def seen(model: Any) -> list[list[BaseMessage]]:
    """What a scripted model was sent, call by call; nothing of a real one."""
    return getattr(model, "seen", [])


def calls(tool: str, /, **arguments: Any) -> AIMessage:
    """An answer that calls a tool."""
    calls.count += 1
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call_{calls.count}"}])


calls.count = 0


def asked(messages: list[BaseMessage]) -> str:
    """The newest question."""
    return next((m.text for m in reversed(messages) if isinstance(m, HumanMessage)), "")


def result(messages: list[BaseMessage]) -> str | None:
    """What a tool has just returned; None if the newest message is no result."""
    return messages[-1].text if messages and isinstance(messages[-1], ToolMessage) else None


def found(messages: list[BaseMessage], pattern: str) -> str | None:
    """What the newest message that matches says in the pattern's group."""
    texts = (m.text for m in reversed(messages))
    return next((match[1] for match in (re.search(pattern, text) for text in texts) if match), None)
