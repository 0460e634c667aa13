"""A thread as LangChain's chat message history, for programs on their way to a graph."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langchain_core")

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import novelo
from novelo.integrations.langchain import NoveloChatMessageHistory


def test_messages_come_back_equal(tmp_path):
    """What was added is there after a restart, tool calls and metadata included; another session is empty."""
    call = AIMessage("", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c1"}], response_metadata={"m": "x"})
    given = [HumanMessage("oi"), call, ToolMessage("7", tool_call_id="c1"), AIMessage("sete")]
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with novelo.open(url) as memory:
        history = NoveloChatMessageHistory("s", memory)
        history.add_messages(given)
        history.add_user_message("mais")
        asyncio.run(history.aadd_messages([AIMessage("oito")]))
    with novelo.open(url) as memory:
        history = NoveloChatMessageHistory("s", memory)
        assert isinstance(history, BaseChatMessageHistory)
        assert history.messages == [*given, HumanMessage("mais"), AIMessage("oito")]
        assert NoveloChatMessageHistory("t", memory).messages == []


def test_a_policy_and_clearing():
    """With a policy the messages are its context; clearing erases, also a thread that never was."""
    with novelo.open("memory://") as memory:
        history = NoveloChatMessageHistory("s", memory, policy="window:1turns")
        history.clear()
        history.add_messages([HumanMessage("um"), AIMessage("1"), HumanMessage("dois")])
        assert [m.text for m in history.messages] == ["dois"]
        history.clear()
        assert NoveloChatMessageHistory("s", memory).messages == []
