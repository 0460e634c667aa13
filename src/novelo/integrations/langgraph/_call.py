"""One model call of an agent, and what its run says of itself: thread, checkpointer, durability."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from langgraph.config import get_config

from novelo.accounts import Accounts
from novelo.connect import as_model
from novelo.context import Context
from novelo.context.summary import Summarize
from novelo.formats.langchain import to_langchain
from novelo.integrations.langgraph._chat import SILENT, Asked
from novelo.integrations.langgraph._kept import Kept
from novelo.integrations.langgraph._talk import (
    Carried,
    Talk,
)
from novelo.memory import Memory
from novelo.messages import Message
from novelo.stores.base import Base
from novelo.summaries import Summary
from novelo.tokens import Correction, TextCounter

_CHECKPOINTER = "__pregel_checkpointer"  # how LangGraph names it in the configuration of a running node
_DURABILITY = "__pregel_durability"


class ModelCall:
    """One model call: what was asked for, and the context that is sent instead."""

    def __init__(self, talk: Talk, given: ModelRequest[Any], told: Carried, started: float) -> None:
        self.talk, self.given, self.told, self.started = talk, given, told, started
        self.purpose = "reply"
        self.summary: Summary | None = None
        self.context: Context
        self.request: ModelRequest[Any]

    def take(self, context: Context) -> None:
        """Put a context into the request: its messages, and its system message where that is another one."""
        self.context = context
        self.talk.manifest = context.manifest
        head = 0
        while head < len(context.entries) and context.entries[head].message.role == "system":
            head += 1
        system = self.given.system_message
        if head != (system is not None) or (head and context.entries[0].source is not system):
            joined = "\n\n".join(e.message.text for e in context.entries[:head])
            system = None if not head else cast(SystemMessage, to_langchain(Message("system", joined)))
        messages = context.messages("langchain")[head:]
        if system is self.given.system_message:
            self.request = self.given.override(messages=messages)
        else:
            self.request = self.given.override(messages=messages, system_message=system)


class Books(Accounts):
    """What is counted without a memory."""

    def __init__(self, counter: TextCounter, window: int | None) -> None:
        self.counter, self.window, self.limits = counter, window, ()
        self.on_usage, self.on_compaction = [], []
        self._ceilings: dict[str | None, int] = {}
        self._corrections: dict[str | None, Correction] = {}


def names_of(runtime: Any) -> tuple[str | None, str, str, Any]:
    """Thread, owner, the agent inside of it that is at work ("" for the thread's own), and the checkpointer."""
    try:
        config: Any = get_config()
    except RuntimeError:
        config = {}
    chosen = config.get("configurable") or {}
    info = getattr(runtime, "execution_info", None)
    thread_id = getattr(info, "thread_id", None) or chosen.get("thread_id")
    space = str(getattr(info, "checkpoint_ns", None) or chosen.get("checkpoint_ns") or "")
    above = [part.split(":")[0] for part in space.split("|")[:-1]]
    inside = "|".join(above) if "tools" in above else ""
    return (
        (None if thread_id is None else str(thread_id)),
        str(chosen.get("owner") or ""),
        inside,
        chosen.get(_CHECKPOINTER),
    )


def writes_at_exit() -> bool:
    """Whether the run saves its last state only: what a hook scrubbed before that is in no checkpoint to wait for."""
    try:
        chosen: Any = get_config().get("configurable") or {}
    except RuntimeError:
        return False
    return bool(chosen.get(_DURABILITY) == "exit")


def kept_of(talk: Talk) -> Kept | None:
    """The memory's thread that has the talk's words; None where they are in this process and in the state only."""
    kept: Kept | None = talk.kept
    return None if kept is None or talk.inner or kept.encrypted else kept


def flush(talk: Talk) -> None:
    """Write rows of the ledger that wait for their thread to be there."""
    if talk.kept is not None and talk.calls:
        with talk.lock:
            waiting = list(talk.calls)
            if talk.kept.note(waiting):
                for _ in waiting:
                    talk.calls.popleft()


def same_base(one: Base, later: Base) -> bool:
    """Whether nothing came between: no other summary, and nothing that was deleted or masked."""
    return (one.summary, one.content_version) == (later.summary, later.content_version)


def same_database(saver: Any, memory: Memory) -> bool:
    """Whether a checkpointer writes its transcripts into a memory's own database."""
    other = getattr(saver, "memory", None)
    if not isinstance(other, Memory):
        return False
    paths = [getattr(getattr(m.store, "database", None), "path", "") for m in (memory, other)]
    return other.store is memory.store or (all(paths) and Path(paths[0]).resolve() == Path(paths[1]).resolve())


def answers_of(response: Any) -> list[Any]:
    """The messages of what a handler gave."""
    response = getattr(response, "model_response", response)
    return list(getattr(response, "result", [response]))


def too_few(stage: Summarize, fresh: int) -> bool:
    """Whether so few messages are new that no summary can be due."""
    return all(any(size.unit == "messages" and fresh < size.number for size in group) for group in stage.trigger)


def writer_of(given: Any) -> Any:
    """Who writes summaries; a chat model of LangChain is asked without the caller's callbacks, in no stream."""
    if given is None:
        return None
    if isinstance(given, Runnable):
        return Asked(given, SILENT)
    return as_model(given)
