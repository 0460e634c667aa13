"""Retention at work: threads that are due are looked for page by page, and taken in transactions of a few.

Which ones are due follows from what stands in the store, and from nothing that was noted before: a sweep that was
missed, or killed in the middle, is made good by the next one.
"""

from __future__ import annotations

import logging
import random
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from novelo.errors import NoveloError, StorageCorrupt, StorageUnavailable
from novelo.receipts import Purged
from novelo.retention import Due, Facts, Retention, due, reaches
from novelo.stores.base import Cut, Note, Standing, ThreadRow

if TYPE_CHECKING:
    from novelo.memory import Memory

PAGE = 500  # threads that are looked at together
BATCH, BATCH_MESSAGES = 50, 5_000  # threads, or their messages, that go in one transaction
SWEEP_S = 300.0  # between two sweeps, of all processes together
FIRST_S = 5.0  # before the first look of a process
Progress = Callable[[Purged], None]
Found = tuple[Standing, Due]
log = logging.getLogger("novelo")


def purge(
    memory: Memory,
    rules: Sequence[Retention],
    now: float,
    *,
    dry_run: bool = False,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> Purged:
    """Take what is due by some rules, or only count it; nothing is scrubbed yet."""
    out, held = Purged(dry_run), {hold.scope for hold in memory.store.holds()}
    for page in _pages(memory, rules, now, out):
        free = []
        for one in page:
            kept = one[0].row.key in held or memory.store.owner_key(one[0].row.owner) in held
            out.held += kept
            if not kept:
                free.append(one)
        sizes = _sizes(memory, free)
        if dry_run:
            for standing, reason in free:
                out.count(reason.rule, reason.why, *sizes.get(standing.row.key, (0, 0)))
        else:
            _take(memory, free, sizes, now, batch, out, progress)
        if progress is not None:
            progress(out)
    return out


def _pages(memory: Memory, rules: Sequence[Retention], now: float, out: Purged) -> Iterator[list[Found]]:
    """Threads that are due, a page at a time."""
    idle, age, closed = reaches(rules, now)
    after = b""
    while True:
        page = memory.store.standing(Cut(now, idle, age, closed), after, PAGE)
        out.damaged += page.damaged
        if page:
            after = page[-1].row.key
        reasons = [(one, due(rules, facts_of(one, now), now)) for one in page if one.row.status != "damaged"]
        found = [(one, reason) for one, reason in reasons if reason is not None]
        if found:
            yield found
        if len(page) < PAGE:
            return


def facts_of(standing: Standing, now: float) -> Facts:
    """A thread as rules see it."""
    row = standing.row
    moment = row.metadata.get("closed")
    closed = float(moment) if isinstance(moment, (int, float)) else 0.0
    if closed < row.created:  # no such moment: the application's own, such as `True`
        closed = row.updated
    return Facts(
        row.owner, row.thread_id, row.tags, row.created, row.updated,
        closed=closed if row.status == "closed" else None,
        summary=row.summary, dropped=standing.dropped, expires=standing.expires,
        busy=row.open_turn is not None and row.lease_until > now,
    )  # fmt: skip


def _sizes(memory: Memory, found: Iterable[Found]) -> dict[bytes, tuple[int, int]]:
    """Messages and bytes that go with each thread."""
    pieces = []
    for standing, reason in found:
        row, stop = standing.row, standing.row.head
        if reason.keep == "summary":
            summary = memory.store.summary(row)
            stop = row.opening if summary is None else summary.upto
        pieces.append((row.key, row.opening if reason.keep == "summary" else 0, stop))
    return memory.store.weights(pieces) if pieces else {}


def _take(
    memory: Memory,
    found: Sequence[Found],
    sizes: dict[bytes, tuple[int, int]],
    now: float,
    batch: int,
    out: Purged,
    progress: Progress | None,
) -> None:
    reasons = {standing.row.key: reason for standing, reason in found}
    for rows in _batches([s.row for s, reason in found if reason.keep == "nothing"], batch):
        taken = _erased(memory, rows, reasons, now, out)
        for row in taken:
            memory.forget(row.key)
            out.count(reasons[row.key].rule, reasons[row.key].why, *sizes.get(row.key, (0, 0)))
        out.passed += len(rows) - len(taken)
        if progress is not None:
            progress(out)
    for standing, reason in found:
        if reason.keep == "summary":
            row = standing.row
            try:
                receipt = memory.store.drop_texts(row, now, _note(memory, reason))
            except StorageCorrupt as error:
                out.damaged.append(str(error))
                continue
            memory.forget(row.key)
            out.passed += receipt is None
            if receipt is not None:
                out.count(reason.rule, reason.why, receipt.rows.get("entries", 0), sizes.get(row.key, (0, 0))[1])


def _batches(rows: Sequence[ThreadRow], batch: int) -> Iterator[list[ThreadRow]]:
    """A few threads at a time: so many, or as many as have a bounded number of messages."""
    out: list[ThreadRow] = []
    for row in rows:
        if out and (len(out) >= batch or sum(one.head for one in out) + row.head > BATCH_MESSAGES):
            yield out
            out = []
        out.append(row)
    if out:
        yield out


def _erased(
    memory: Memory, rows: Sequence[ThreadRow], reasons: dict[bytes, Due], now: float, out: Purged
) -> list[ThreadRow]:
    """The threads of a batch that went; where one cannot be read, the others go alone."""
    several = [(row, _note(memory, reasons[row.key])) for row in rows]
    try:
        return [row for row, _ in memory.store.erase_due(several, now)]
    except StorageCorrupt as error:
        if len(rows) == 1:
            out.damaged.append(str(error))
            out.passed -= 1
            return []
        return [one for row in rows for one in _erased(memory, [row], reasons, now, out)]


def _note(memory: Memory, reason: Due) -> Note:
    return Note(memory.actor or "retention", reason.told)


class Sweeper:
    """Looks now and then whether something is due, in a thread of its own; one process of all does it at a time."""

    def __init__(self, memory: Memory, pause_s: float = SWEEP_S) -> None:
        self._memory = weakref.ref(memory)
        self._stop = threading.Event()
        self._pause_s = pause_s
        self._thread = threading.Thread(target=self._run, name="novelo-sweeper", daemon=True)
        weakref.finalize(memory, self._stop.set)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self, wait_s: float = 5.0) -> None:
        """Look no more; a transaction that runs is waited for, for a moment."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(wait_s)

    def _run(self) -> None:
        wait = min(FIRST_S, self._pause_s)
        while not self._stop.wait(wait):
            memory = self._memory()
            if memory is None:
                return
            try:
                memory.sweep(self._pause_s, self._go_on)
            except NoveloError as error:
                if not self._stop.is_set():
                    why = str(error) if isinstance(error, StorageUnavailable) else type(error).__name__
                    log.warning("a sweep of retention ended (%s); the next one goes on", why)
            except Stopped:
                return
            del memory
            wait = self._pause_s * random.uniform(0.9, 1.1)  # noqa: S311  so that processes do not ask together

    def _go_on(self, _: Purged) -> None:
        if self._stop.is_set():
            raise Stopped


class Stopped(Exception):
    """The memory is being closed."""
