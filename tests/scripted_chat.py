"""A chat model of LangChain that answers from a list and keeps what it was sent; it streams, and may fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field


class ScriptedChat(BaseChatModel):
    """Answers are texts, messages, or errors to raise; when they are used up it echoes."""

    answers: list[Any] = Field(default_factory=list)
    seen: list[list[BaseMessage]] = Field(default_factory=list)
    profile: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedChat:
        """Tools change nothing here."""
        return self

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.seen.append(list(messages))
        answer = self.answers.pop(0) if self.answers else f"echo {messages[-1].text}"
        if isinstance(answer, Exception):
            raise answer
        return answer.model_copy() if isinstance(answer, AIMessage) else AIMessage(answer)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> Iterator[Any]:
        message = self._answer(messages)
        if message.tool_calls:
            chunks = [
                {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": i}
                for i, c in enumerate(message.tool_calls)
            ]
            yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=chunks))
            return
        for word in message.text.split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(word + " "))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


class ClaudeLikeAnthropic(ScriptedChat):
    """The same by a name that says whose rules hold."""


def chat(*answers: Any, kind: type[ScriptedChat] = ScriptedChat) -> Any:
    """A scripted model with lists of its own."""
    return kind(answers=list(answers), seen=[])


def calling(name: str, call_id: str, **arguments: Any) -> AIMessage:
    """An answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


def thread(thread_id: str, **more: Any) -> Any:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": thread_id, **more}}


def texts(messages: Any) -> list[str]:
    """The texts of messages."""
    return [m.text for m in messages]
