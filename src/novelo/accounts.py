"""What a memory counts: the ledger's rows and their cost, limits, and what it learns from what models report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.context.manifest import Manifest
from novelo.errors import LimitReached
from novelo.events import OnCompaction, OnUsage, UsageEvent
from novelo.formats.reply import context_tokens, sound
from novelo.limits import Limit
from novelo.messages import Message, Usage
from novelo.stores.base import Store
from novelo.tokens import Correction, TextCounter, count_message
from novelo.usage import Call, Spent

if TYPE_CHECKING:
    from novelo.record import Record

log = logging.getLogger("novelo")


class Accounts:
    """The counting half of a memory."""

    store: Store
    counter: TextCounter
    limits: tuple[Limit, ...]
    window: int | None
    on_usage: list[OnUsage]
    on_compaction: list[OnCompaction]
    _ceilings: dict[str | None, int]
    _corrections: dict[str | None, Correction]

    def count(self, message: Message) -> int:
        """Tokens of a message."""
        return count_message(message, self.counter)

    def correction(self, model: str | None) -> int:
        """Tokens to add to a context's count, learnt from what this model reported."""
        found = self._corrections.get(model)
        return 0 if found is None else found.tokens

    def learn(self, model: str | None, counted: int, usage: Usage) -> None:
        """Learn from a reported usage how far our count was off."""
        read = context_tokens(usage)
        if counted > 0 and read > 0 and self.counter.name == "estimate":
            raw = counted - self.correction(model)
            self._corrections[model] = self._corrections.get(model, Correction()).learned(raw, read)

    def ceiling(self, model: str | None) -> int | None:
        """Tokens that a model's contexts may have, learnt from a refusal; None if it refused none."""
        return self._ceilings.get(model)

    def learn_ceiling(self, model: str | None, tokens: int) -> None:
        """A model refused a longer context."""
        self._ceilings[model] = min(tokens, self._ceilings.get(model, tokens))

    def window_of(self, model: str | None) -> int | None:
        """The model's window in tokens: as given, else by the table of prices; None if neither knows it."""
        if self.window is not None or model is None:
            return self.window
        from novelo import prices

        return prices.window_of(model)

    # ------------------------------------------------------------------------------------------ the ledger
    def call(
        self,
        purpose: str,
        model: str | None,
        usage: Usage | None,
        counted: int,
        message: Message,
        latency_s: float | None = None,
        first_token_s: float | None = None,
    ) -> Call:
        """A row of the ledger, with its cost where the price is known; our own counts where nothing was reported."""
        if usage is None:
            made = Call(purpose, model, counted, self.count(message), estimated=True)
        else:
            usage = sound(usage)
            made = Call(
                purpose, model, usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning,
                raw=usage.raw,
            )  # fmt: skip
        made = msgspec.structs.replace(made, latency_s=latency_s, first_token_s=first_token_s, created=time.time())
        if model is None:
            return made
        from novelo import prices

        return prices.cost_of(made)

    def tell_usage(
        self, thread: Record, call: Call, manifest: Manifest | None = None, messages: Sequence[Message] | None = None
    ) -> None:
        """Tell those who listen that a call is in the ledger."""
        if self.on_usage:
            sent = None if messages is None else tuple(messages)
            self.tell(self.on_usage, UsageEvent(thread.thread_id, thread.owner, call, manifest, sent))

    def tell(self, listeners: Sequence[Callable[[Any], None]], event: Any) -> None:
        """Tell listeners; one that fails is named in the log and harms nobody."""
        for listener in list(listeners):
            try:
                listener(event)
            except Exception as error:
                log.warning("a listener of %s failed with %s", type(event).__name__, type(error).__name__)

    def within_limits(self, thread: Record) -> None:
        """See whether a turn may begin.

        Raises:
            LimitReached: a limit of the thread or of its owner is used up.
        """
        for limit in self.limits:
            if limit.used(self._spent(thread, limit)) >= limit.amount:
                raise LimitReached(
                    f"the limit {limit} is used up: nothing was stored and no model was asked; raise the limit"
                    + (", or wait" if limit.per else ""),
                    limit=str(limit),
                )

    def room(self, thread: Record, model: str | None) -> int | None:
        """Tokens that the next context may have by the limits; None where nothing need be held down."""
        rooms = []
        for limit in self.limits:
            price = None
            if limit.unit == "usd" and model is not None:
                from novelo import prices

                found = prices.price_per_million(model)
                price = None if found is None else found.input / 1_000_000
            rooms.append(limit.room(self._spent(thread, limit), price))
        return min((room for room in rooms if room is not None), default=None)

    def _spent(self, thread: Record, limit: Limit) -> Spent:
        key = thread.key if limit.scope == "thread" else None
        return self.store.spent(key, thread.owner, limit.since(time.time()))
