"""What a back-test found: figures by policy and by request, as a table, a sentence, or plain values for JSON."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from novelo.caching import CacheRules


class Prices(msgspec.Struct, frozen=True):
    """US dollars for a million tokens: uncached input, input read from the cache or written into it, output."""

    input: Decimal
    cached: Decimal
    cache_write: Decimal
    output: Decimal = Decimal(0)


class Series(msgspec.Struct, frozen=True):
    """The figures of each request, in order, for plots; positions are those of the replies.

    Attributes:
        messages, tokens: what was sent; cached: the tokens of it read from the cache.
        billed: tokens as they are billed, see `Row`; cost: dollars of the call, empty without prices. Summaries made
            since the request before are in.
        facts: share of the exact facts said so far that were in reach; empty if facts were not looked for.
    """

    positions: tuple[int, ...] = ()
    messages: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    cached: tuple[int, ...] = ()
    billed: tuple[float, ...] = ()
    cost: tuple[float, ...] = ()
    facts: tuple[float, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """What one policy made of the conversation.

    Attributes:
        policy: the spec.
        requests: calls of the model for a reply.
        messages, tokens: sent over all requests; biggest: tokens of the largest request.
        cached, written: tokens read from the provider's cache; written into it, where writing is billed.
        billed: tokens at the cached price: uncached ones count 1, read ones a tenth or what the rules say, written ones
            1.25 or so; summary calls are in.
        output: tokens of the replies, the same for every policy.
        cost: US dollars for input, output and summary calls; None without prices.
        stable: share of the requests, from the second on, that begin with the whole request before.
        shared: mean share of a request's tokens that the request before began with, too.
        refused: requests that could not be made, since the least context was over the budget.
        invalid: requests that the provider's rules would refuse.
        facts: mean share of the exact facts said so far whose text stands in the request; None if not looked for.
        facts_least: the least such share.
        summary_calls, summary_input, summary_output: calls for summaries and their tokens.
        series: the same by request.
    """

    policy: str
    requests: int
    messages: int
    tokens: int
    cached: int
    written: int
    billed: float
    output: int
    cost: Decimal | None
    biggest: int
    stable: float
    shared: float
    refused: int
    invalid: int
    facts: float | None
    facts_least: float | None
    summary_calls: int
    summary_input: int
    summary_output: int
    series: Series

    @property
    def valid(self) -> bool:
        """Whether every request could be made and sent."""
        return not (self.refused or self.invalid)


class Report(msgspec.Struct, frozen=True):
    """A back-test: one row a policy, in the order asked.

    Attributes:
        rows: the figures.
        provider, model, counter: whose rules held, and who counted.
        cache: the rules of the prompt cache; lifetimes: whether moments were given, so that prefixes could lapse.
        prices: what money was computed from.
    """

    rows: tuple[Row, ...]
    provider: str = "openai"
    model: str | None = None
    counter: str = "estimate"
    cache: CacheRules = CacheRules("none", least=0)
    lifetimes: bool = False
    prices: Prices | None = None

    def __getitem__(self, policy: str) -> Row:
        """The row of a policy, by its spec."""
        for row in self.rows:
            if row.policy == policy:
                return row
        raise KeyError(policy)

    def cheapest(self) -> Row | None:
        """The valid policy with the lowest bill; None if none is valid."""
        return min((row for row in self.rows if row.valid), key=_bill, default=None)

    def verdict(self) -> str:
        """A sentence: which valid policy is cheapest, by how much, and what it keeps in reach."""
        best = self.cheapest()
        if best is None:
            return "No policy is valid: each has requests that could not be made."
        if not best.requests:
            return "There is nothing to compare: no message of the conversation is a reply."
        worst = max((row for row in self.rows if row.valid), key=_bill)
        told = f"The cheapest valid policy is {best.policy}: "
        told += f"{best.billed:,.0f} billed tokens" if best.cost is None else f"{_dollars(best.cost)} US dollars"
        if worst is not best and _bill(worst):
            told += f", {100 * _bill(best) / _bill(worst):.0f} % of {worst.policy}"
        if best.facts is not None:
            told += f"; {100 * best.facts:.0f} % of the exact facts were in reach on average"
        return told + "."

    def table(self) -> str:
        """The rows as text, a line each."""
        head, *lines = self.cells()
        widths = [max(len(row[i]) for row in (head, *lines)) for i in range(len(head))]
        return "\n".join(
            "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in (head, *lines)
        )

    def cells(self) -> list[list[str]]:
        """The rows as cells, the head first; columns that say nothing about any policy are left out."""
        columns: list[tuple[str, Callable[[Row], str]]] = [
            ("policy", lambda r: r.policy),
            ("requests", lambda r: f"{r.requests:,}"),
            ("messages", lambda r: f"{r.messages:,}"),
            ("tokens", lambda r: f"{r.tokens:,}"),
            ("cached", lambda r: _percent(r.cached, r.tokens)),
            ("billed", lambda r: f"{r.billed:,.0f}"),
            ("US dollars", lambda r: "" if r.cost is None else _dollars(r.cost)),
            ("biggest", lambda r: f"{r.biggest:,}"),
            ("stable", lambda r: _percent(r.stable, 1)),
            ("facts", lambda r: "" if r.facts is None else _percent(r.facts, 1)),
            ("least", lambda r: "" if r.facts_least is None else _percent(r.facts_least, 1)),
            ("summaries", lambda r: str(r.summary_calls or "")),
            ("valid", _valid),
        ]
        shown = [(name, cell) for name, cell in columns if not self.rows or any(cell(row) for row in self.rows)]
        return [[name for name, _ in shown], *([cell(row) for _, cell in shown] for row in self.rows)]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values for JSON; money is a float."""
        facts: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(Decimal,))
        for row, made in zip(self.rows, facts["rows"], strict=True):
            made["valid"] = row.valid
            made["cost"] = None if row.cost is None else float(row.cost)
        if self.prices is not None:
            facts["prices"] = {name: float(value) for name, value in facts["prices"].items()}
        return facts | {"verdict": self.verdict()}

    def __str__(self) -> str:
        return f"{self.table()}\n{self.verdict()}"


def _bill(row: Row) -> float:
    return row.billed if row.cost is None else float(row.cost)


def _dollars(cost: Decimal) -> str:
    return f"{cost:.4f}" if cost < 10 else f"{cost:,.2f}"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def _valid(row: Row) -> str:
    troubles = [f"{row.refused} over budget"] if row.refused else []
    troubles += [f"{row.invalid} illegal"] if row.invalid else []
    return ", ".join(troubles) or "yes"
