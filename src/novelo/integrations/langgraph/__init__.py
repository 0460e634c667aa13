"""LangGraph on the same database as our threads: `NoveloSaver`, a checkpointer (pip install 'novelo[langgraph]').

    from novelo.integrations.langgraph import NoveloSaver

    with NoveloSaver.from_conn_string("sqlite:///chat.db") as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": "7", "owner": "ana"}})
        saver.transcript("7", owner="ana")

What is stored, and how, is told in `novelo/stores/checkpoints.py`.
"""

from __future__ import annotations

from novelo.errors import MissingExtra

try:
    from novelo.integrations.langgraph.saver import NoveloSaver
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise MissingExtra("checkpoints need LangGraph: pip install 'novelo[langgraph]'", extra="langgraph") from error

__all__ = ["NoveloSaver"]
