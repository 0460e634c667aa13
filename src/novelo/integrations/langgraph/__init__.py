"""LangGraph: a checkpointer on the same database as our threads."""

from __future__ import annotations

from novelo.integrations.langgraph.saver import NoveloSaver

__all__ = ["NoveloSaver"]
