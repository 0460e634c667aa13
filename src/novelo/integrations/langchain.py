"""LangChain's names for two things of ours: a collection of documents as a retriever, a thread as a message history.

    create_conversational_rag_graph(llm, NoveloRetriever(documents=memory.documents("faq")))
    RunnableWithMessageHistory(chain, lambda session_id: NoveloChatMessageHistory(session_id, memory))

The history is for programs that have one, on their way to a graph. New programs are better served by a graph with a
checkpointer and `MemoryMiddleware`, or by `thread.turn()`: a history knows no turns, so nothing tells it that a process
died between a question and its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from novelo import formats
from novelo.aio import threaded
from novelo.errors import MissingExtra
from novelo.memory import Memory
from novelo.retrievers.support import ENOUGH

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.messages import BaseMessage
    from langchain_core.retrievers import BaseRetriever
except ImportError as _error:
    raise MissingExtra("this module needs LangChain: pip install 'novelo[langchain]'", extra="langchain") from _error


class NoveloRetriever(BaseRetriever):
    """A collection of documents as a retriever; metadata holds source, title, section, page and scores.

    Attributes:
        documents: the handle that `memory.documents()` gives.
        k: how many documents a question gets.
        keyword_only: search by words alone.
        enough: the `support` below which a document carries no answer, for `create_conversational_rag_graph`; None for
            no such bound. What is found is given in any case.
    """

    documents: Any
    k: int = 5
    keyword_only: bool = False
    enough: float | None = ENOUGH

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._search(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await threaded(self._search, query)

    def _search(self, query: str) -> list[Document]:
        handle = getattr(self.documents, "_inner", self.documents)  # also the awaited one
        found = handle.search(query, self.k, self.keyword_only)
        return [
            Document(passage["text"], metadata={name: value for name, value in passage.items() if name != "text"})
            for passage in found
        ]


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
