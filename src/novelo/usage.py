"""The usage ledger: one row for each model call."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec


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


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
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
