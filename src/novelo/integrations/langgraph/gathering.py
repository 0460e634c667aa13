"""What tasks wrote waits a moment for the checkpoint that takes it up, so that both are stored in one transaction.

LangGraph saves what a task wrote, and right after it the checkpoint that follows, each on a thread of its own. What
comes first is the writes: they are offered, and their thread waits until the put of that checkpoint has stored them
with itself, or until none has come for a fiftieth of a second in which nothing was put into that thread of talk; then
it stores them alone. So nobody is told that something is stored which is not, and of one step there is one
transaction, in which its messages are entries at once.

What comes when that put is at work already is stored alone. Where no checkpoint came in time (tasks side by side, one
worker for all, a put that waits for the writes, as it does with a `DeltaChannel`), the next offers of that node are not
made: one, two, four, up to `PAUSES` of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

WAIT_S = 0.02
LONGEST = 25  # such waits, while other checkpoints of the thread are put
PAUSES = 64
NODES, PASSED = 1000, 1000  # that are remembered

At = tuple[bytes, str, str]  # key of the thread, namespace, id of the checkpoint that was written at


class Offer:
    """What one task wrote, as it came."""

    __slots__ = ("_open", "path", "settled", "stored", "task", "writes")

    def __init__(self, writes: Sequence[tuple[str, Any]], task: str, path: str) -> None:
        self.writes, self.task, self.path = writes, task, path
        self.settled = self.stored = False
        self._open = threading.Lock()  # held until it is settled; an event is made of more than that
        self._open.acquire()

    def settle(self, stored: bool) -> None:
        """Tell who waits how it went."""
        self.settled, self.stored = True, stored
        self._open.release()

    def wait(self, seconds: float = -1) -> bool:
        """Whether it is settled, within so many seconds; without a number of them when it is."""
        if not self.settled and self._open.acquire(timeout=seconds):
            self._open.release()
        return self.settled


class Gathering:
    """Offers by the checkpoint that was written at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offers: dict[At, list[Offer]] = {}
        self._at_work: Counter[bytes] = Counter()  # puts by the key of their thread
        self._passed: dict[At, None] = {}  # checkpoints whose followers were put of late
        self._pauses: dict[Hashable, list[int]] = {}  # by node: how many offers are left out, and how many still

    def stored(self, at: At, offer: Offer) -> bool:
        """Wait for a checkpoint; whether it stored what is offered."""
        node = (at[1], offer.path)
        with self._lock:
            if at in self._passed:
                return False
            pause = self._pauses.get(node)
            if pause is not None and pause[1] > 0:
                pause[1] -= 1
                return False
            self._offers.setdefault(at, []).append(offer)
        for _ in range(LONGEST):
            if offer.wait(WAIT_S) or not self._at_work[at[0]]:
                break
        if not offer.settled:
            with self._lock:
                mine = self._offers.get(at, [])
                if offer in mine:
                    mine.remove(offer)
                    if not mine:
                        del self._offers[at]
                    self._in_vain(node)
                    return False
        offer.wait()  # a put has taken it, and is at work, or done
        if offer.stored:
            self._pauses.pop(node, None)
        return offer.stored

    def _in_vain(self, node: Hashable) -> None:
        longer = min(PAUSES, 2 * self._pauses.get(node, [0, 0])[0] or 1)
        self._pauses[node] = [longer, longer]
        while len(self._pauses) > NODES:
            del self._pauses[next(iter(self._pauses))]

    @contextmanager
    def taking(self, at: At) -> Iterator[Callable[[], list[Offer]]]:
        """Put what follows a checkpoint: a call for what was offered at it so far; whatever comes later comes too late.

        It is stored when the block ends, and given back if that raises.
        """
        offers: list[Offer] = []

        def take() -> list[Offer]:
            with self._lock:
                offers.extend(self._offers.pop(at, ()))
                self._passed[at] = None
                while len(self._passed) > PASSED:
                    del self._passed[next(iter(self._passed))]
            return offers

        with self._lock:
            self._at_work[at[0]] += 1
        stored = False
        try:
            yield take
            stored = True
        finally:
            with self._lock:
                self._at_work[at[0]] -= 1
                if not self._at_work[at[0]]:
                    del self._at_work[at[0]]
                if not stored:
                    self._passed.pop(at, None)
            for offer in offers:
                offer.settle(stored)
