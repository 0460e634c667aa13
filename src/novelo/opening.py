"""How a turn is opened, and the turn that we ourselves left open.

A connection that breaks while a turn is begun or ended leaves a turn in the store that may be open, under our own
lease, and that nobody holds: the caller was told an error. Nobody else may take it before the lease ends. We may: who
asks for the thread next, and finds it busy with our own lease while no turn of it is held in this memory or about to
be, takes it over at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from novelo.stores.base import Begun, Busy, Lease

if TYPE_CHECKING:
    from novelo.thread import Thread
    from novelo.turn import LiveTurn


class Openings:
    """The threads in which somebody is about to open a turn: from the first question to the store until it is held."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count: Counter[bytes] = Counter()

    @contextmanager
    def of(self, key: bytes) -> Iterator[None]:
        """While this lasts, one more is about to open a turn in a thread."""
        with self._lock:
            self._count[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._count[key] -= 1
                if not self._count[key]:
                    del self._count[key]

    def alone(self, key: bytes) -> bool:
        """Whether nobody but the caller is about to."""
        with self._lock:
            return self._count[key] <= 1


def open_turn(thread: Thread, turn: LiveTurn, mode: str) -> Begun | Busy:
    """One try to open a turn; one that this memory left open, and holds no longer, is in nobody's way."""
    memory = thread.memory
    with memory.openings.of(thread.key):
        found = _asked(thread, turn, mode, memory.lease())
        if isinstance(found, Busy) and _left(thread, found.holder):
            # By its end the lease is told from one that another turn takes meanwhile, which is not ours to break.
            left = (found.holder, found.lease_until)
            found = _asked(thread, turn, mode, msgspec.structs.replace(memory.lease(), left=left))
        if isinstance(found, Begun) and not found.replayed:
            memory.hold(turn)
    return found


def _left(thread: Thread, holder: str) -> bool:
    """Whether an open turn of a thread is one that we began and that nobody here holds, nor is about to."""
    memory = thread.memory
    mine = holder == memory._holder and memory.openings.alone(thread.key)
    return mine and not any(turn.thread.key == thread.key for turn in list(memory._live))


def _asked(thread: Thread, turn: LiveTurn, mode: str, lease: Lease) -> Begun | Busy:
    memory = thread.memory
    if turn._resumed is not None:
        return memory.store.reopen(thread.key, turn._resumed, lease, mode=mode)
    question = turn._question
    assert question is not None
    idempotency = None if turn.key is None else (turn.key, memory.fingerprint(question))
    return memory.store.begin(
        thread.key, (thread.owner, thread.thread_id), memory.new_entry(question), lease,
        idempotency=idempotency, mode=mode, hide_from=turn._hide_from,
    )  # fmt: skip
