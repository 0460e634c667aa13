"""Prompt caching as providers bill it: what a request shares with an earlier one, from its very beginning, is cheaper.

    rules_for(provider, model) -> CacheRules: the provider's rules, a row of a table
    PrefixTree(rules).look(…)  -> tokens read from the cache, tokens written into it

A prefix can be read when an earlier request began with the same messages, is long enough, and was used not too long
ago. Some providers keep every prefix, some only those that end where the caller (or the end of a request) marks them;
some bill the writing. All of it is data in `RULES`; facts change with models, so each row names where it is from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from novelo.errors import InvalidSpec


class CacheRules(msgspec.Struct, frozen=True):
    """How one provider caches prompts.

    Attributes:
        name: the provider; models: a pattern that the model's name must hold, "" fits all.
        least: tokens that a prefix must have to be cached at all; 0 switches the cache off.
        step: what is read is a multiple of so many tokens.
        lifetime_s: seconds after its last use for which a prefix is surely there; None is as good as for ever.
        read: price of a token that is read, over that of an uncached one.
        write: price of a token that is written, likewise; 1 costs nothing extra.
        marked: prefixes end only behind the system message and at the end of a request, not behind every message.
    """

    name: str
    models: str = ""
    least: int = 1024
    step: int = 1
    lifetime_s: float | None = 300.0
    read: float = 0.1
    write: float = 1.0
    marked: bool = False


# The first row that fits the provider and the model holds. Where a provider promises a span, its lower end is taken.
RULES = (
    # developers.openai.com/api/docs/guides/prompt-caching: 1,024 tokens, in steps of 128; kept for 5 to 10 minutes of
    # inactivity, writing is free. From GPT-5.6 on prefixes match at a breakpoint only (by itself behind the newest
    # message; behind the system message one is taken to be set), live 30 minutes, and writing costs 1.25 times.
    CacheRules("openai", r"gpt-(5\.([6-9]|\d\d)|[6-9])", lifetime_s=1800.0, write=1.25, marked=True),
    CacheRules("openai", step=128),
    # platform.claude.com/docs/en/build-with-claude/prompt-caching: up to four marks (two are enough here: the system
    # message and the newest message), 5 minutes, writing 1.25 times, reading a tenth; the least length is the model's.
    CacheRules("anthropic", r"opus-4-[56]|haiku-4-5", least=4096, write=1.25, marked=True),
    CacheRules("anthropic", r"haiku|opus-4-7", least=2048, write=1.25, marked=True),
    CacheRules("anthropic", r"opus-5", least=512, write=1.25, marked=True),
    CacheRules("anthropic", write=1.25, marked=True),
    # ai.google.dev/gemini-api/docs/caching: implicit caching, "a short amount of time", a discount of 90 %.
    CacheRules("gemini", r"gemini-2\.5", least=2048),
    CacheRules("gemini", least=4096),
    # api-docs.deepseek.com/guides/kv_cache: prefixes end where requests end, and where several began alike; writing is
    # free. Units of 64 tokens, kept for hours to days: said in the guide's first editions.
    CacheRules("deepseek", least=64, step=64, lifetime_s=None, marked=True),
    # What we know no promise of.
    CacheRules("none", least=0),
)
# How a model's name tells who made it, also behind a prefix such as "openrouter/anthropic/".
MAKERS = {
    "openai": r"\b(gpt-|chatgpt-|o[1-9]\b)",
    "anthropic": r"\bclaude-",
    "gemini": r"\bgemini-",
    "deepseek": "deepseek",
}
NAMES = tuple(dict.fromkeys(rules.name for rules in RULES))


def rules_for(provider: str, model: str | None = None) -> CacheRules:
    """The cache rules of a provider, by the model's name where they differ; "none" where nothing is promised.

    Example: rules_for("anthropic", "claude-haiku-4-5") -> at least 4,096 tokens, writing 1.25 times.
    """
    name = provider if provider in NAMES else "none"
    return next(r for r in RULES if r.name == name and (not r.models or re.search(r.models, model or "")))


def maker_of(model: str) -> str | None:
    """Whose rules hold for a model, told from its name; None if it is not told.

    Example: "claude-haiku-4-5" -> "anthropic"; "my-model" -> None.
    """
    return next((maker for maker, pattern in MAKERS.items() if re.search(pattern, model)), None)


def named_rules(wanted: str | CacheRules, model: str | None = None) -> CacheRules:
    """The rules that a caller asks for by name, or made.

    Raises:
        InvalidSpec: there are none of that name.
    """
    if isinstance(wanted, CacheRules):
        return wanted
    if wanted not in NAMES:
        raise InvalidSpec(f"cache rules {wanted!r}: expected one of {', '.join(NAMES)}")
    return rules_for(wanted, model)


_NEVER = float("-inf")


class _Node:
    """A prefix: its next messages, and when it was last used (never, if it cannot be read)."""

    __slots__ = ("next", "used")

    def __init__(self) -> None:
        self.next: dict[int, _Node] = {}
        self.used = _NEVER


class PrefixTree:
    """The prefixes of earlier requests, each alive for a while after its last use.

    Example: OpenAI's rules, requests of 1000 + 500 and 1000 + 500 + 300 tokens -> the second one reads 1408 (1500 in
    steps of 128); after the lifetime, or with another first message, it reads 0.
    """

    def __init__(self, rules: CacheRules) -> None:
        self._rules = rules
        self._root = _Node()

    def look(self, keys: Sequence[int], tokens: Sequence[int], opening: int, now: float) -> tuple[int, int]:
        """Tokens that a request reads from the cache, and tokens whose writing is billed; the request is remembered.

        Args:
            keys: a number for each message, equal where the messages are equal; tokens: of each of them.
            opening: how many stand at the head that never change (tools, system messages).
            now: seconds; a request without a time is always in time if all say 0.
        """
        rules = self._rules
        if not rules.least or not keys:
            return 0, 0
        marks = {opening, len(keys)} if rules.marked else None
        oldest = _NEVER if rules.lifetime_s is None else now - rules.lifetime_s
        node, read, total, reading = self._root, 0, 0, True
        for at, key in enumerate(keys, 1):
            total += tokens[at - 1]
            following = node.next.get(key)
            if following is None:
                following = node.next[key] = _Node()
            node = following
            alive = node.used >= oldest and node.used != _NEVER
            reading = reading and (alive or marks is not None)
            if alive and reading:
                read = total
            if alive or marks is None or at in marks:
                node.used = now
        read = read // rules.step * rules.step
        read = read if read >= rules.least else 0
        return read, (total - read if rules.write > 1 and total >= rules.least else 0)
