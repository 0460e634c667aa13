"""What a memory tells those who listen: that a model was called, that a thread is being compacted.

memory.on_usage.append(callback)         # called with a UsageEvent after each call that is in the ledger
memory.on_compaction.append(callback)    # called with a CompactionEvent: started, then done or failed
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from novelo.context.manifest import Manifest
from novelo.messages import Message
from novelo.usage import Call


class UsageEvent(msgspec.Struct, frozen=True):
    """A model was called, and the call is in the ledger.

    Attributes:
        thread_id, owner: for which thread.
        call: tokens, times, cost.
        manifest: what the context was made of; None for calls that had none.
        messages: what was sent, and behind it what came back; None where it is not known. Listeners that keep it take
            care of what people said.
    """

    thread_id: str
    owner: str
    call: Call
    manifest: Manifest | None = None
    messages: tuple[Message, ...] | None = None


class CompactionEvent(msgspec.Struct, frozen=True):
    """A thread's older part is being put into a summary.

    Attributes:
        thread_id, owner: which thread.
        version: of the summary: the one that is being made; 0 if that is not known yet.
        status: started, then done or failed.
        messages_before, messages_after: of the context, without and with the summary; tokens likewise.
        strategy: the spec of the stage that asked for it.
        seconds: since it started.
        error: the class of what made it fail; "" if nothing did.
    """

    thread_id: str
    owner: str
    version: int
    status: Literal["started", "done", "failed"]
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    strategy: str = ""
    seconds: float = 0.0
    error: str = ""


OnUsage: TypeAlias = Callable[[UsageEvent], None]
OnCompaction: TypeAlias = Callable[[CompactionEvent], None]
