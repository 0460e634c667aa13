"""A thread as LangChain's `BaseChatMessageHistory`: for programs that have one, on their way to a graph.

    RunnableWithMessageHistory(chain, lambda session_id: NoveloChatMessageHistory(session_id, memory))

New programs are better served by a graph with a checkpointer and `MemoryMiddleware`, or by `thread.turn()`: a history
knows no turns, so nothing tells it that a process died between a question and its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from novelo import formats
from novelo.errors import MissingExtra
from novelo.memory import Memory

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage
except ImportError as _error:
    raise MissingExtra("this history needs LangChain: pip install 'novelo[langchain]'", extra="langchain") from _error


class NoveloChatMessageHistory(BaseChatMessageHistory):
    """The messages of a thread; with a policy, the context that it makes of them."""

    def __init__(self, session_id: str, memory: Memory, *, owner: str = "", policy: Any = None) -> None:
        """Read nothing yet.

        Args:
            session_id: the thread's id.
            memory: where the thread is.
            owner: whose it is.
            policy: what `messages` gives of it; None is all that is not hidden.
        """
        self.thread = memory.thread(session_id, owner)
        self._policy = policy

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # there it is an attribute
        """The messages, as LangChain has them; those that came from there are equal to what was added."""
        if self._policy is not None:
            found: list[BaseMessage] = self.thread.context(policy=self._policy).messages("langchain")
            return found
        return list(formats.write([e.message for e in self.thread.messages(hidden=False)], "langchain"))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append; all of them or, if the thread is busy, none."""
        self.thread.append(list(messages))

    def clear(self) -> None:
        """Erase the thread for good."""
        if self.thread.row is not None:
            self.thread.erase()
