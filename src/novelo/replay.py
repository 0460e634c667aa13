"""What a conversation would have cost under each of several policies, and what the model would still have known.

    messages -> a request before each reply -> composed by each policy -> tokens, cache, money, facts in reach

A back-test replays a conversation that took place: wherever the model answered, the list as it was then is composed by
the policy, and the request is counted, laid against the provider's prompt cache (`caching.py`) and searched for the
exact facts that were said so far. Replies stay as they were given: what another context would have made of them, no
replay can know. Nothing is asked of a model; moments, prices and summaries are handed in.

Each message is converted and counted once for all policies and requests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache as remembered
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from novelo.caching import CacheRules, PrefixTree, named_rules, rules_for
from novelo.context import Context, Policy, Source, compose_source, parse
from novelo.context.listing import ListSource, OtherForm
from novelo.context.spec import name_of
from novelo.errors import ContextTooSmall, InvalidContext, InvalidSpec
from novelo.facts import facts_of
from novelo.messages import Message
from novelo.protocol import dialect
from novelo.report import Prices, Report, Row, Series
from novelo.summaries import Summary
from novelo.tokens import TextCounter, count_message, count_tools
from novelo.tokens import counter as counter_of
from novelo.transcript import Entry
from novelo.wire import WRITTEN_RESULT

MILLION = Decimal(1_000_000)
FactsOf = Callable[[Message, int], Iterable[Any]]  # a message and its position -> facts, each with a .text


# ------------------------------------------------------------------------------------------------- what is handed in
class Folded(NamedTuple):
    """What making summaries after a reply came to.

    Attributes:
        summary: the version that stands for the older messages from now on; None if there is none yet.
        calls: summary calls made after this reply; input, output: their tokens.
    """

    summary: Summary | None = None
    calls: int = 0
    input: int = 0
    output: int = 0


class Folding(Protocol):
    """Summaries for one policy, made as the conversation grows. The replay asks after each reply, in order."""

    def fold(self, source: Source) -> Folded:
        """The summary that holds behind this reply.

        Args:
            source: the conversation up to and with the reply.
        """
        ...


# --------------------------------------------------------------------------------------------------------- the replay
def replay(
    messages: Sequence[Any],
    policies: Sequence[Any],
    *,
    prices: Prices | Mapping[str, Any] | None = None,
    provider: str = "openai",
    model: str | None = None,
    pins: Iterable[int | str] = (),
    counter: Any = "estimate",
    tools: Sequence[dict[str, Any]] | None = None,
    window: int | None = None,
    times: Sequence[float] | None = None,
    facts: FactsOf | None = facts_of,
    fold: Callable[[Policy], Folding] | None = None,
    cache: str | CacheRules | None = None,
    cached: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Replay a conversation under each policy; see the top of the file.

    Args:
        messages: n messages of any form, oldest first, with the replies that were given. A request is made before each
            assistant message that answers a question or tool results.
        policies: specs ("window:10turns"), policies, functions, or lists of them.
        prices: dollars for a million tokens: "input", and "cached", "cache_write", "output" if they are known; the
            first two follow from the cache rules where they are not.
        provider, model, pins, counter, tools, window: as in `compose`; the model's name also picks its cache rules.
        times: seconds of each message (any epoch); a prefix older than the cache's lifetime is not read then. Without
            them no prefix ever lapses.
        facts: message, position -> its exact facts; asked of what users and tools say. None does not look for them.
        fold: a policy -> who makes its summaries; called once for each policy that summarises.
        cache: the cache's rules or their name (openai, anthropic, gemini, deepseek, none); else the provider's.
        cached: price of a token read from the cache over that of another; else by prices, or the rules' (a tenth).
        progress: called with a policy, requests done, requests in all.
    Raises:
        InvalidSpec, InvalidMessage: a policy, a setting or a message makes no sense; a policy summarises, and no `fold`
            is given.
    Example: 50 exchanges under a system message -> `buffer` sends 2 + 4 + … + 100 = 2550 messages.
    """
    rules = named_rules(cache, model) if cache is not None else rules_for(provider, model)
    priced = None if prices is None else _prices(prices, rules, cached)
    if cached is not None or (priced is not None and priced.input):
        ratio = cached if cached is not None else float(priced.cached / priced.input) if priced else rules.read
        rules = msgspec.structs.replace(rules, read=ratio)
    chosen = [(one if isinstance(one, str) else name_of(parse(one)), _parsed(one, fold)) for one in policies]
    counted = _counting_once(counter_of(counter))
    talk = _Talk(messages, counted, provider, times, facts, tools)
    settings: dict[str, Any] = {
        "provider": provider,
        "model": model,
        "counter": counted,
        "tools": tools,
        "window": window,
    }
    settings["pins"] = [talk.source.position_of(pin) for pin in pins]
    rows = []
    for name, policy in chosen:
        folding = fold(policy) if fold is not None and _summarises(name_of(policy)) else None
        run = _Run(talk, rules, priced, folding)
        for done, end in enumerate(talk.requests, 1):
            run.request(end, policy, settings)
            if progress is not None:
                progress(name, done, len(talk.requests))
        rows.append(run.row(name))
    return Report(tuple(rows), provider, model, counted.name, rules, times is not None, priced)


def _parsed(one: Any, fold: Any) -> Policy:
    """The policy; one that summarises is refused while nobody can make its summaries."""
    if fold is None and _summarises(one if isinstance(one, str) else name_of(parse(one))):
        raise InvalidSpec(f"policy {one!r}: a back-test of summaries needs fold=, which makes them; leave it out")
    return parse(one)


def _summarises(spec: str) -> bool:
    return any(stage.strip().startswith("summarize") for stage in spec.replace("|", "+").split("+"))


def _counting_once(counter: TextCounter) -> TextCounter:
    """The same counter, each text counted once: what a policy alters is made anew for each request."""
    if counter.of_message is not None:
        return counter
    return TextCounter(counter.name, remembered(counter.of_text))


def _prices(given: Prices | Mapping[str, Any], rules: CacheRules, cached: float | None) -> Prices:
    """Prices with what was not given by the cache rules."""
    if isinstance(given, Prices):
        return given
    known = {name: Decimal(str(value)) for name, value in given.items() if value is not None}
    unknown = sorted(known.keys() - {"input", "cached", "cache_write", "output"})
    if unknown or "input" not in known:
        raise InvalidSpec(f"prices: {', '.join(unknown) or 'no input'}; expected input, cached, cache_write, output")
    read = Decimal(str(rules.read if cached is None else cached))
    return Prices(
        known["input"],
        known.get("cached", known["input"] * read),
        known.get("cache_write", known["input"] * Decimal(str(rules.write))),
        known.get("output", Decimal(0)),
    )


class _Talk:
    """The conversation: what all policies share. Messages, keys, facts and tokens are worked out once."""

    def __init__(
        self,
        messages: Sequence[Any],
        counter: TextCounter,
        provider: str,
        times: Sequence[float] | None,
        facts: FactsOf | None,
        tools: Sequence[dict[str, Any]] | None,
    ) -> None:
        count = partial(count_message, count=counter)
        self.source = _source(messages, count, "" if dialect(provider).tools else WRITTEN_RESULT)
        self.count = count
        self.tools = count_tools(list(tools), counter) if tools else 0
        entries = [self.source.entry(i) for i in range(self.source.end)]
        self.messages = [e.message for e in entries]
        self.requests = list(_requests(self.messages))
        if times is not None and len(times) != len(entries):
            raise InvalidSpec(f"times: {len(times)} for {len(entries)} messages, expected one for each")
        self._times = times
        self._interned: dict[bytes, int] = {}
        self._own = {id(m): self._key(m) for m in self.messages}
        found = None if facts is None else _Facts(self.messages, facts)
        self.facts = found if found is not None and found.texts else None

    def moment(self, end: int) -> float:
        """When the request behind the first `end` messages was made: the moment of its newest message."""
        return 0.0 if self._times is None else float(self._times[end - 1])

    def key(self, message: Message) -> int:
        """A number that is equal for messages that are sent alike."""
        found = self._own.get(id(message))
        return self._key(message) if found is None else found

    def _key(self, m: Message) -> int:
        sent = msgspec.json.encode([m.role, m.content, m.tool_calls, m.tool_call_id, m.name, m.extra], enc_hook=str)
        return self._interned.setdefault(sent, len(self._interned) + 1)

    def tokens(self, entry: Entry) -> int:
        """Tokens of an entry, counted once."""
        if entry.tokens < 0:
            entry.tokens = self.count(entry.message)
        return entry.tokens


def _source(messages: Sequence[Any], count: Callable[[Message], int], written: str) -> ListSource:
    """The whole list, read to its end, so that its form is sure."""
    source = ListSource(messages, count, written)
    try:
        for _ in source.oldest_first():
            pass
    except OtherForm as other:
        source = ListSource(messages, count, written, other.form)
    return source


def _requests(messages: Sequence[Message]) -> Iterator[int]:
    """The positions of replies: assistant messages behind a question or tool results.

    A greeting answers nothing, and of several assistant messages in a row the first did.
    """
    asked = False
    for position, message in enumerate(messages):
        if message.role == "assistant" and asked:
            yield position
        asked = message.role in ("user", "tool") or (message.role == "system" and asked)


class _Facts:
    """The exact facts of a conversation, by the order in which they were first said."""

    def __init__(self, messages: Sequence[Message], find: FactsOf) -> None:
        first: dict[str, int] = {}
        for position, message in enumerate(messages):
            if message.role in ("user", "tool"):
                for fact in find(message, position):
                    first.setdefault(fact.text, position)
        self.texts = [text for text in first if text]
        self._positions = [first[text] for text in self.texts]
        self._inside: dict[int, tuple[int, ...]] = {}

    def said(self, end: int) -> int:
        """How many were said in the first `end` messages."""
        return bisect_left(self._positions, end)

    def inside(self, key: int, message: Message) -> tuple[int, ...]:
        """The facts whose text stands in a message, by number."""
        found = self._inside.get(key)
        if found is None:
            text = "\n".join((message.text, *(call.arguments for call in message.tool_calls)))
            found = self._inside[key] = tuple(i for i, fact in enumerate(self.texts) if fact in text)
        return found


class _Reach:
    """How many of the facts said so far stand in the request at hand: only what came and went is looked at."""

    def __init__(self, facts: _Facts) -> None:
        self._facts = facts
        self._times = [0] * len(facts.texts)  # in how many messages of the request each fact stands
        self._there: dict[int, Message] = {}
        self._said = 0
        self._reached = 0

    def share(self, end: int, request: dict[int, Message]) -> float:
        """The share of the facts of the first `end` messages that a request holds; 1 if there are none."""
        while self._said < self._facts.said(end):
            self._reached += self._times[self._said] > 0
            self._said += 1
        for key in request.keys() - self._there.keys():
            self._moved(key, request[key], 1)
        for key in self._there.keys() - request.keys():
            self._moved(key, self._there[key], -1)
        self._there = request
        return self._reached / self._said if self._said else 1.0

    def _moved(self, key: int, message: Message, by: int) -> None:
        for fact in self._facts.inside(key, message):
            before = self._times[fact] > 0
            self._times[fact] += by
            if fact < self._said:
                self._reached += (self._times[fact] > 0) - before


class _Run:
    """One policy going through the conversation, request by request."""

    def __init__(self, talk: _Talk, rules: CacheRules, prices: Prices | None, folding: Folding | None) -> None:
        self._talk = talk
        self._rules = rules
        self._prices = prices
        self._folding = folding
        self._tree = PrefixTree(rules)
        self._reach = _Reach(talk.facts) if talk.facts is not None else None
        self._folded = Folded()
        self._summaries = Folded()
        self._before: list[int] | None = None
        self._stable = self._refused = self._invalid = self._written = self._output = 0
        self._shared: list[float] = []
        self._owed, self._owed_cost = 0.0, Decimal(0)  # for summaries since the last request, told with the next one
        self._cost = Decimal(0)
        self._series: dict[str, list[Any]] = {name: [] for name in Series.__struct_fields__}

    def request(self, end: int, policy: Policy, settings: Mapping[str, Any]) -> None:
        """Make the request that the message at `end` replied to, and note its figures."""
        try:
            context = self._compose(end, policy, settings)
        except ContextTooSmall:
            self._refused += 1
        except InvalidContext:
            self._invalid += 1
        else:
            self._note(end, context)
        if self._folding is not None:
            self._fold(self._talk.source.upto(end + 1))

    def _compose(self, end: int, policy: Policy, settings: Mapping[str, Any]) -> Context:
        prefix = self._talk.source.upto(end)
        pins = [pin for pin in settings["pins"] if pin < end]
        return compose_source(
            prefix, prefix.opening(), policy, summary=self._folded.summary, **{**settings, "pins": pins}
        )

    def _fold(self, source: Source) -> None:
        """Let the summaries be made, and add them to the bill."""
        assert self._folding is not None
        made = self._folded = self._folding.fold(source)
        total = self._summaries
        self._summaries = Folded(None, total.calls + made.calls, total.input + made.input, total.output + made.output)
        self._owed += made.input
        if self._prices is not None:
            self._owed_cost += (made.input * self._prices.input + made.output * self._prices.output) / MILLION

    def _note(self, end: int, context: Context) -> None:
        """The figures of one request; tool definitions are a message of their own at its head."""
        talk = self._talk
        keys = [talk.key(e.message) for e in context.entries]
        tokens = [talk.tokens(e) for e in context.entries]
        opening = next((i for i, e in enumerate(context.entries) if e.message.role != "system"), len(keys))
        if talk.tools:
            keys, tokens, opening = [0, *keys], [talk.tools, *tokens], opening + 1
        total = sum(tokens)
        read, written = self._tree.look(keys, tokens, opening, talk.moment(end))
        self._compare(keys, tokens, total)
        output = talk.tokens(talk.source.entry(end))
        self._written += written
        self._output += output
        noted = self._series
        noted["positions"].append(end)
        noted["messages"].append(len(context.entries))
        noted["tokens"].append(total)
        noted["cached"].append(read)
        billed = total - read - written + read * self._rules.read + written * self._rules.write
        noted["billed"].append(round(billed + self._owed, 1))
        if self._prices is not None:
            prices = self._prices
            spent = (total - read - written) * prices.input + read * prices.cached + written * prices.cache_write
            spent = (spent + output * prices.output) / MILLION + self._owed_cost
            self._cost += spent
            noted["cost"].append(float(spent))
        self._owed, self._owed_cost = 0.0, Decimal(0)
        if self._reach is not None:
            request = dict(
                zip(keys[len(keys) - len(context.entries) :], (e.message for e in context.entries), strict=True)
            )
            noted["facts"].append(self._reach.share(end, request))

    def _compare(self, keys: list[int], tokens: list[int], total: int) -> None:
        """What the request shares with the one before."""
        if self._before is not None:
            same = 0
            for a, b in zip(self._before, keys, strict=False):
                if a != b:
                    break
                same += 1
            self._stable += same == len(self._before)
            self._shared.append(sum(tokens[:same]) / total if total else 1.0)
        self._before = keys

    def row(self, name: str) -> Row:
        """The figures of the whole conversation."""
        series = Series(**{field: tuple(values) for field, values in self._series.items()})
        summaries = self._summaries
        pairs = len(self._shared)
        return Row(
            policy=name,
            requests=len(series.tokens),
            messages=sum(series.messages),
            tokens=sum(series.tokens),
            cached=sum(series.cached),
            written=self._written,
            billed=round(sum(series.billed) + self._owed, 1),
            output=self._output,
            cost=self._cost + self._owed_cost if self._prices is not None else None,
            biggest=max(series.tokens, default=0),
            stable=self._stable / pairs if pairs else 1.0,
            shared=sum(self._shared) / pairs if pairs else 1.0,
            refused=self._refused,
            invalid=self._invalid,
            facts=sum(series.facts) / len(series.facts) if series.facts else None,
            facts_least=min(series.facts, default=None),
            summary_calls=summaries.calls,
            summary_input=summaries.input,
            summary_output=summaries.output,
            series=series,
        )
