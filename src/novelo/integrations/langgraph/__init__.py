"""LangGraph on the same database as our threads: `NoveloSaver`, a checkpointer.

    from novelo.integrations.langgraph import NoveloSaver       # pip install 'novelo[langgraph]'

    with NoveloSaver.from_conn_string("sqlite:///chat.db") as saver:
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"messages": [("user", "hi")]}, {"configurable": {"thread_id": "7", "owner": "ana"}})
        saver.transcript("7", owner="ana")
"""

from __future__ import annotations

from novelo.errors import MissingExtra

try:
    import langgraph.checkpoint.base as _
except ImportError as error:
    raise MissingExtra("checkpoints need LangGraph: pip install 'novelo[langgraph]'", extra="langgraph") from error

from novelo.integrations.langgraph.saver import NoveloSaver

__all__ = ["NoveloSaver"]
