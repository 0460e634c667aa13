"""Novelo: the memory of a conversation. Everything is kept, little is sent, and what is sent is always valid.

To follow one user message through the files:

    turn.py         the turn: append the question, compose, append the answer
    thread.py       the thread: its turns and its contexts             record.py   what it keeps
    memory.py       the threads of a store, leases, counters
    stores/         where entries are kept                             source.py   a thread read backwards
    transcript.py   entries -> turns of steps, newest first
    context/        policies: draft in, draft out; compose()
    wire.py         turns -> the list of one provider's dialect        protocol.py the table of legal moves, check()
    formats/        our messages <-> OpenAI, Anthropic, LangChain
    usage.py        the ledger of every call                           accounts.py its cost, and limits
    covering.py     after the reply: what a summary covers             compaction.py how it is asked for
    worker.py       jobs: claimed, done, swapped in                    summaries.py a version as a value

To follow a back-test: compare.py -> replay.py, every request under each policy -> caching.py -> report.py.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from novelo.connect import open_memory as open
from novelo.context import Context, Draft, compose
from novelo.documents import Documents
from novelo.errors import (
    AccessDenied,
    ConcurrentTurnError,
    ContextTooSmall,
    ImportFailed,
    IndexMismatch,
    InvalidContext,
    InvalidHistory,
    InvalidMessage,
    InvalidSpec,
    KeyConflict,
    LeaseLost,
    LimitReached,
    MissingExtra,
    ModelFailed,
    NoveloError,
    SchemaTooNew,
    StorageCorrupt,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    StoreError,
    SummaryFailed,
    ThreadBusy,
    ThreadErased,
    ThreadHeld,
    TurnClosed,
    UnknownEntry,
)
from novelo.memory import Memory
from novelo.messages import Message
from novelo.protocol import Violation
from novelo.repair import Repaired, check, repair
from novelo.retention import Retention
from novelo.thread import Thread
from novelo.turn import LiveTurn

if _TYPE_CHECKING:
    from novelo.aio import AsyncMemory, open_async
    from novelo.compare import backtest
    from novelo.moving import backup, copy

__all__ = [
    "AccessDenied",
    "AsyncMemory",
    "ConcurrentTurnError",
    "Context",
    "ContextTooSmall",
    "Documents",
    "Draft",
    "ImportFailed",
    "IndexMismatch",
    "InvalidContext",
    "InvalidHistory",
    "InvalidMessage",
    "InvalidSpec",
    "KeyConflict",
    "LeaseLost",
    "LimitReached",
    "LiveTurn",
    "Memory",
    "Message",
    "MissingExtra",
    "ModelFailed",
    "NoveloError",
    "Repaired",
    "Retention",
    "SchemaTooNew",
    "StorageCorrupt",
    "StorageFull",
    "StorageReadOnly",
    "StorageUnavailable",
    "StoreError",
    "SummaryFailed",
    "Thread",
    "ThreadBusy",
    "ThreadErased",
    "ThreadHeld",
    "TurnClosed",
    "UnknownEntry",
    "Violation",
    "backtest",
    "backup",
    "check",
    "compose",
    "copy",
    "open",
    "open_async",
    "repair",
]


def __getattr__(name: str) -> _Any:
    """What few programs use is loaded when it is asked for."""
    if name == "backtest":
        from novelo.compare import backtest

        return backtest
    if name in ("backup", "copy"):
        from novelo import moving

        return getattr(moving, name)
    if name in ("AsyncMemory", "open_async"):
        from novelo import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
