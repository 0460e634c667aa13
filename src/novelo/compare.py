"""The back-test with prices by the model's name and summaries: `replay.py` joined to the price table and to models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from novelo.caching import maker_of, rules_for
from novelo.connect import as_model
from novelo.context.spec import Policy
from novelo.errors import InvalidSpec
from novelo.folding import Summaries
from novelo.protocol import DIALECTS
from novelo.replay import Folding, replay
from novelo.report import Prices, Report
from novelo.tokens import counter as counter_of


def backtest(
    messages: Sequence[Any], policies: Sequence[Any], prices: Any = None, summarizer: Any = "offline", **settings: Any
) -> Report:
    """What a conversation would have cost under each policy, and which exact facts would have stayed in reach.

    Args:
        messages: n messages of any form, oldest first, with the replies that were given.
        policies: specs ("window:10turns"), policies, functions, or lists of them.
        prices: a model's name, whose prices are known, and which tells the provider and the cache rules where they are
            not given; or dollars for a million tokens, {"input": …, "cached": …, "cache_write": …, "output": …}; None
            leaves money out.
        summarizer: who writes the summaries of policies that summarize: a model, its name, or a function from a request
            to a text. The offline one quotes and costs nothing; its tokens are counted all the same.
        settings: provider, model, pins, counter, tools, window as in `compose`; times (seconds of each message), so
            that cached prefixes lapse; facts (message, position -> facts); cache, whose cache rules hold; cached, the
            price of a cached token over that of another; fold, who makes summaries in another way. See
            `novelo.replay.replay`.
    Raises:
        InvalidSpec, InvalidMessage: a policy, a setting, a message or the model's name makes no sense.
    Example: backtest(messages, ["buffer", "window:10turns"], prices="gpt-5-mini").cheapest().policy
    """
    if isinstance(prices, str):
        maker = maker_of(prices)
        if settings.get("provider") is None:
            settings["provider"] = maker if maker in DIALECTS else "openai"
        if settings.get("cache") is None:
            settings["cache"] = rules_for(maker or settings["provider"], prices)
        prices = prices_of(prices)
    if settings.get("provider") is None:
        settings.pop("provider", None)
    if settings.get("fold") is None:
        counter = settings["counter"] = counter_of(settings.get("counter", "estimate"))
        window = settings.get("window")

        def fold(policy: Policy) -> Folding:
            return Summaries(policy, as_model(summarizer), counter, window)

        settings["fold"] = fold
    return replay(messages, policies, prices=prices, **settings)


def prices_of(model: str) -> Prices:
    """The prices of a model.

    Raises:
        InvalidSpec: the price table does not know it.
    """
    from novelo import prices

    known = prices.price_per_million(model)
    if known is None:
        raise InvalidSpec(
            f"prices: no price is known for {model!r}"
            + ("" if prices.installed() else " without the table of prices (pip install 'novelo[prices]')")
            + "; give dollars for a million tokens, such as input=0.25,cached=0.025,output=2 (a dict in Python)"
        )
    return Prices(*known)
