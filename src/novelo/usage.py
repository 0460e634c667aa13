"""The usage ledger: one row for each model call, and the sums over rows.

`thread.usage()` gives the calls of one thread, `memory.usage(owner)` rows of (owner, thread_id, call). Both are lists
that can be summed: `.total` is a Sum, `.by("purpose")` is {"reply": Sum, "summary": Sum}, in the order in which the
keys first came.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from novelo.errors import InvalidSpec
from novelo.quiet import Quiet


class Spent(msgspec.Struct, frozen=True):
    """What calls took: tokens in and out, and US dollars as far as prices were known."""

    tokens: int = 0
    cost: Decimal = Decimal(0)

    def plus(self, call: Call) -> Spent:
        """With one call more."""
        return Spent(self.tokens + call.input + call.output, self.cost + (call.cost or 0))

    def add(self, other: Spent) -> Spent:
        """Both together."""
        return Spent(self.tokens + other.tokens, self.cost + other.cost)

    def less(self, other: Spent) -> Spent:
        """Without another part."""
        return Spent(self.tokens - other.tokens, self.cost - other.cost)


class Call(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """One model call in the ledger.

    Attributes:
        purpose: reply, summary, condense, recall or retry.
        model: who answered, as the provider names it; None if unknown.
        input: all input tokens, cached ones included; output, cache_read, cache_write, reasoning likewise in tokens.
        latency_s, first_token_s: from the request to the whole answer, and to its first piece.
        estimated: the provider reported nothing and the counts are ours.
        raw: the provider's own usage, as it came.
        turn: the position of the turn's question; None for work between turns.
        created: seconds since 1970.
        cost: in US dollars by the price table of that day; None is unknown, never zero.
        prices: the version of that table.
    """

    SAID = frozenset(("raw",))

    purpose: str = "reply"
    model: str | None = None
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    latency_s: float | None = None
    first_token_s: float | None = None
    estimated: bool = False
    raw: dict[str, Any] = {}
    turn: int | None = None
    created: float = 0.0
    cost: Decimal | None = None
    prices: str = ""


class Row(NamedTuple):
    """A call and whose it is."""

    owner: str
    thread_id: str
    call: Call


class Sum(msgspec.Struct, frozen=True, omit_defaults=True):
    """Several calls in one row.

    Attributes:
        calls: how many.
        input: all input tokens, cached ones included; output, cache_read, cache_write, reasoning likewise in tokens.
        cost: in US dollars, of the calls whose price is known; None if that is none of them.
        unpriced: calls whose price is unknown; while there is one, the cost is a lower bound.
        estimated: calls whose tokens we counted, for want of a report.
        latency_s, first_token_s: medians of the calls that were timed; None if none was.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: Decimal | None = None
    unpriced: int = 0
    estimated: int = 0
    latency_s: float | None = None
    first_token_s: float | None = None

    @property
    def tokens(self) -> int:
        """Input and output."""
        return self.input + self.output

    @property
    def cached_share(self) -> float:
        """How much of the input was read from the provider's cache, 0 to 1."""
        return min(1.0, self.cache_read / self.input) if self.input else 0.0


def total(calls: Iterable[Call]) -> Sum:
    """The sum of calls."""
    rows = list(calls)
    costs = [call.cost for call in rows if call.cost is not None]
    return Sum(
        calls=len(rows),
        input=sum(call.input for call in rows),
        output=sum(call.output for call in rows),
        cache_read=sum(call.cache_read for call in rows),
        cache_write=sum(call.cache_write for call in rows),
        reasoning=sum(call.reasoning for call in rows),
        cost=sum(costs, Decimal(0)) if costs else None,
        unpriced=len(rows) - len(costs),
        estimated=sum(call.estimated for call in rows),
        latency_s=_median(call.latency_s for call in rows),
        first_token_s=_median(call.first_token_s for call in rows),
    )


def _median(seconds: Iterable[float | None]) -> float | None:
    timed = [s for s in seconds if s is not None]
    if not timed:
        return None
    from statistics import median  # loads slowly, and few programs sum calls up

    return median(timed)


def _day(row: Row, zone: datetime.tzinfo | None) -> str:
    return datetime.datetime.fromtimestamp(row.call.created, zone).date().isoformat()


# What sums can be made by, and the key of a row there. Equal thread ids of two owners are two threads.
KEYS: dict[str, Callable[[Row, datetime.tzinfo | None], Any]] = {
    "purpose": lambda row, _: row.call.purpose,
    "model": lambda row, _: row.call.model,
    "thread": lambda row, _: (row.owner, row.thread_id),
    "owner": lambda row, _: row.owner,
    "day": _day,
    "turn": lambda row, _: (row.owner, row.thread_id, row.call.turn),
}


def sums(rows: Iterable[Row], what: str, zone: datetime.tzinfo | None = datetime.UTC) -> dict[Any, Sum]:
    """Sums of rows by their purpose, model, thread, owner, day or turn, in the order in which the keys first came.

    Args:
        rows: n rows.
        what: one of KEYS.
        zone: whose days; None is the zone of this machine.
    Raises:
        InvalidSpec: there are no sums by that.
    """
    if what not in KEYS:
        raise InvalidSpec(f"usage by {what!r}: expected one of {', '.join(KEYS)}")
    key, groups = KEYS[what], dict[Any, list[Call]]()
    for row in rows:
        groups.setdefault(key(row, zone), []).append(row.call)
    return {name: total(calls) for name, calls in groups.items()}


class Ledger(list[Row]):
    """Rows of many threads, the oldest first in each."""

    @property
    def total(self) -> Sum:
        """All rows in one."""
        return total(row.call for row in self)

    def by(self, what: str, zone: datetime.tzinfo | None = datetime.UTC) -> dict[Any, Sum]:
        """Sums by "purpose", "model", "thread" (owner, thread id), "owner", "day" or "turn" (owner, thread id, turn).

        Args:
            what: by which of these.
            zone: whose days; None is the zone of this machine.
        Raises:
            InvalidSpec: there are no sums by that.
        """
        return sums(self, what, zone)

    def since(self, moment: float) -> Ledger:
        """Only the calls from a moment on, in seconds since 1970."""
        return Ledger(row for row in self if row.call.created >= moment)


class ThreadUsage(list[Call]):
    """Calls of one thread, the oldest first."""

    def __init__(self, calls: Iterable[Call] = (), owner: str = "", thread_id: str = "") -> None:
        super().__init__(calls)
        self.owner, self.thread_id = owner, thread_id

    @property
    def rows(self) -> Ledger:
        """The same as a ledger of many threads has it."""
        return Ledger(Row(self.owner, self.thread_id, call) for call in self)

    @property
    def total(self) -> Sum:
        """All calls in one."""
        return total(self)

    def by(self, what: str, zone: datetime.tzinfo | None = datetime.UTC) -> dict[Any, Sum]:
        """Sums by "purpose", "model", "day", "turn" (the position of its question, None between turns), and so on.

        Args:
            what: as in a `Ledger`.
            zone: whose days; None is the zone of this machine.
        Raises:
            InvalidSpec: there are no sums by that.
        """
        found = sums(self.rows, what, zone)
        return {key[2]: value for key, value in found.items()} if what == "turn" else found
