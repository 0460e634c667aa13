"""Conversations out of other programs' stores: one small file a source, read and never written.

    langgraph-sqlite     checkpoints of LangGraph's SqliteSaver: transcript and graph states   langgraph_sqlite.py
    langgraph-postgres   the same of its PostgresSaver                                         langgraph_postgres.py
    openai-agents        sessions of the OpenAI Agents SDK's SQLiteSession                     openai_agents.py
    llm                  `logs.db` of the command line tool llm                                llm.py
    claude-code          session files of Claude Code                                          claude_code.py

    from novelo.importers import open_source, run_import

    with novelo.open("sqlite:///chat.db") as memory, open_source("llm", "logs.db") as source:
        report = run_import(memory, source)

A run that was cut off is begun again: a thread notes where it came from and how much of it was taken (`run.py`). What
the target cannot hold is named by its id (`Loss`), all else is imported.
"""

from __future__ import annotations

from importlib import import_module

from novelo.errors import InvalidSpec
from novelo.importers.base import Conversation, Loss, Source
from novelo.importers.run import Report, Taken, run_import

__all__ = ["KINDS", "Conversation", "Loss", "Report", "Source", "Taken", "open_source", "run_import"]

KINDS = {
    "langgraph-sqlite": "langgraph_sqlite",
    "langgraph-postgres": "langgraph_postgres",
    "openai-agents": "openai_agents",
    "llm": "llm",
    "claude-code": "claude_code",
}


def open_source(kind: str, path: str) -> Source:
    """A source, opened read-only; close it, or use it with `with`.

    Args:
        kind: one of `KINDS`.
        path: a file; for claude-code also a folder of them, for langgraph-postgres the address of a database.
    Raises:
        InvalidSpec: no such kind. ImportFailed: nothing of that kind is there. MissingExtra: a package is needed.
    """
    if kind not in KINDS:
        raise InvalidSpec(f"import from {kind!r}: expected one of {', '.join(KINDS)}")
    made: Source = import_module(f"novelo.importers.{KINDS[kind]}").load(path)
    return made
