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
from typing import Any, NamedTuple

WAIT_S = 0.02
LONGEST = 25  # such waits, while other checkpoints of the thread are put
PAUSES = 64
NODES, PASSED = 1000, 1000  # that are remembered

At = tuple[bytes, str, str]  # key of the thread, namespace, id of the checkpoint that was written at
Since = tuple[float | None, int]  # when the thread was made, as far as that is known, and the version of its content


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


class Arrived(NamedTuple):
    """What came at one checkpoint, and which content of the thread the first of it was made beside."""

    since: Since
    offers: list[Offer]

    def then(self, offers: list[Offer]) -> Arrived:
        """The same with what came later."""
        return Arrived(self.since, [*self.offers, *offers])


class Inputs:
    """What the inputs of runs became, by checkpoint, until it is stored: with the next one, or before a reading.

    It comes and is taken without waiting for a put that is at work: what comes behind the put that could have taken it
    costs a transaction of its own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._arrived: dict[At, Arrived] = {}
        self._taken: set[At] = set()

    def add(self, at: At, offer: Offer, since: Since) -> None:
        """Keep what came."""
        with self._lock:
            former = self._arrived.pop(at, None)
            self._arrived[at] = Arrived(since, [offer]) if former is None else former.then([offer])
            while len(self._arrived) > self._most:
                del self._arrived[next(iter(self._arrived))]

    @contextmanager
    def taking(self, at: At) -> Iterator[list[Offer]]:
        """What came at a checkpoint, to store it; given back if that raises, unless it was dropped meanwhile."""
        with self._lock:
            arrived = self._arrived.pop(at, None)
            if arrived is not None:
                self._taken.add(at)
        try:
            yield [] if arrived is None else arrived.offers
        except BaseException:
            with self._lock:
                if arrived is not None and at in self._taken:
                    later = self._arrived.get(at)
                    self._arrived[at] = arrived if later is None else arrived.then(later.offers)
            raise
        finally:
            with self._lock:
                self._taken.discard(at)

    def waiting(self, key: bytes | None = None) -> list[tuple[At, Since]]:
        """Where something came, of one thread or all, the oldest first; beside which content each was made."""
        with self._lock:
            return [(at, arrived.since) for at, arrived in self._arrived.items() if key in (None, at[0])]

    def drop(self, unwanted: Callable[[At], bool]) -> None:
        """Keep nothing of checkpoints that are not wanted any more."""
        with self._lock:
            self._arrived = {at: arrived for at, arrived in self._arrived.items() if not unwanted(at)}
            self._taken = {at for at in self._taken if not unwanted(at)}


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
