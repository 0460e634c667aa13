"""Limits of what a thread or an owner may spend, and how a context is held within what is left.

    novelo.open(url, limits=["thread:200000tokens", "owner:5usd/day"])

From `TIGHT` of a limit on, each call may take a tenth of what is left and no more: the policy is tightened first, so
that a conversation can be brought to its end. When all is spent, turns are refused, before anything is stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from novelo.errors import InvalidSpec
from novelo.usage import Spent

TIGHT = Decimal("0.8")  # of a limit; from here on contexts are held down
SHARE = 10  # a call may take so small a part of what is left
LEAST = 200  # tokens of a context: a question and little more
PER = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0, "month": 2_592_000.0}  # seconds; a month has thirty days
_WRITTEN = re.compile(r"(thread|owner):(\d{1,15}(?:\.\d{1,9})?)(tokens?|usd)(?:/(hour|day|week|month))?")


@dataclass(frozen=True)
class Limit:
    """So many tokens (in and out) or US dollars, of a thread or of all an owner's threads, ever or in a time behind us.

    Calls whose price is unknown count nothing for a limit in dollars.
    """

    scope: str
    amount: Decimal
    unit: str
    per: str = ""

    def __str__(self) -> str:
        return f"{self.scope}:{self.amount}{self.unit}" + (f"/{self.per}" if self.per else "")

    def since(self, now: float) -> float:
        """From when on calls count; 0 is ever."""
        return now - PER[self.per] if self.per else 0.0

    def used(self, spent: Spent) -> Decimal:
        """What was spent, in the limit's unit."""
        return spent.cost if self.unit == "usd" else Decimal(spent.tokens)

    def room(self, spent: Spent, token_price: Decimal | None) -> int | None:
        """Tokens that the next context may have; None where nothing need be held down.

        Args:
            spent: so far.
            token_price: US dollars for one input token; None if it is not known.
        """
        used = self.used(spent)
        if used < self.amount * TIGHT:
            return None
        left = max(Decimal(0), self.amount - used) / SHARE
        if self.unit == "usd":
            if not token_price:
                return None
            left /= token_price
        return max(LEAST, int(left))


def limits_of(given: Any) -> tuple[Limit, ...]:
    """Limits from texts.

    Raises:
        InvalidSpec: a text that is none.
    Example: "owner:5usd/day" -> five dollars, of all an owner's threads, within the last 24 hours.
    """
    texts = [given] if isinstance(given, (str, Limit)) else list(given or ())
    return tuple(text if isinstance(text, Limit) else _limit(text) for text in texts)


def _limit(text: Any) -> Limit:
    match = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or not Decimal(match[2]):
        raise InvalidSpec(
            f"limit {text!r}: expected thread:200000tokens, owner:5usd/day, ... (tokens or usd; hour, day, week, month)"
        )
    unit = "usd" if match[3] == "usd" else "tokens"
    return Limit(match[1], Decimal(match[2]), unit, match[4] or "")
