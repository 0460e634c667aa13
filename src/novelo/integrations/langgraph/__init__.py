"""Novelo in LangChain agents and LangGraph graphs; each name loads what it needs when it is asked for.

NoveloSaver                       a checkpointer on the database of our threads
MemoryMiddleware                  contexts, summaries and the usage ledger of an agent made by `create_agent`
create_chat_graph                 a chat with a window over its history
create_conversational_rag_graph   the same over documents: condense, retrieve, answer
search_conversation               a tool: an agent looks through the older part of its own conversation

with NoveloSaver.from_conn_string("sqlite:///chat.db") as saver:
    agent = create_agent(model, tools, middleware=[MemoryMiddleware("window:10turns")], checkpointer=saver)
    agent.invoke({"messages": [("user", "Oi!")]}, {"configurable": {"thread_id": "7", "owner": "ana"}})
    saver.transcript("7", owner="ana")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from novelo.errors import MissingExtra

if TYPE_CHECKING:
    from novelo.integrations.langgraph.graphs import create_chat_graph, create_conversational_rag_graph
    from novelo.integrations.langgraph.middleware import MemoryMiddleware
    from novelo.integrations.langgraph.saver import NoveloSaver
    from novelo.integrations.langgraph.searching import search_conversation

_HOME = {
    "MemoryMiddleware": "middleware",
    "NoveloSaver": "saver",
    "create_chat_graph": "graphs",
    "create_conversational_rag_graph": "graphs",
    "search_conversation": "searching",
}

__all__ = [
    "MemoryMiddleware",
    "NoveloSaver",
    "create_chat_graph",
    "create_conversational_rag_graph",
    "search_conversation",
]


def __getattr__(name: str) -> Any:
    """What is asked for, from the module that it stands in."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("langchain", "langchain_core", "langgraph"):
            raise
        raise MissingExtra(
            f"{name} needs LangGraph: pip install 'novelo[langgraph]' ({error.name} is missing)", extra="langgraph"
        ) from error
