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
from novelo.context import Context, Policy, compose_source, parse
from novelo.context.listing import ListSource, OtherForm
from novelo.context.spec import name_of
from novelo.errors import ContextTooSmall, InvalidContext, InvalidSpec
from novelo.messages import Message
from novelo.protocol import dialect
from novelo.tokens import TextCounter, count_message, count_tools
from novelo.tokens import counter as counter_of
from novelo.transcript import Entry
from novelo.wire import WRITTEN_RESULT

MILLION = Decimal(1_000_000)
FactsOf = Callable[[Message, int], Iterable[Any]]  # a message and its position -> facts, each with a .text


# ------------------------------------------------------------------------------------------------- what is handed in
class Prices(msgspec.Struct, frozen=True):
    """US dollars for a million tokens: of uncached input, of input read from the cache, of input written into it, of
    output."""

    input: Decimal
    cached: Decimal
    cache_write: Decimal
    output: Decimal = Decimal(0)


class Folded(NamedTuple):
    """What making summaries after a reply came to.

    Attributes:
        summary: the record that stands for the older messages from now on; None if there is none yet.
        calls: summary calls made after this reply; input, output: their tokens.
    """

    summary: Any = None
    calls: int = 0
    input: int = 0
    output: int = 0


class Folding(Protocol):
    """Summaries for one policy, made as the conversation grows. The replay asks after each reply, in order."""

    def fold(self, messages: Sequence[Message]) -> Folded:
        """The summary that holds behind this reply.

        Args:
            messages: all up to and with the reply, oldest first.
        """
        ...


# ------------------------------------------------------------------------------------------------ what is handed back
class Series(msgspec.Struct, frozen=True):
    """The figures of each request, in order, for plots; positions are those of the replies.

    Attributes:
        messages, tokens: what was sent; cached: the tokens of it read from the cache.
        billed: tokens as they are billed, see `Row`; cost: dollars of the call, None without prices.
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


# --------------------------------------------------------------------------------------------------------- the replay
def back_test(
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
    facts: FactsOf | None = None,
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
        facts: message, position -> its exact facts; asked of what users and tools say.
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
    settings = {"provider": provider, "model": model, "counter": counted, "tools": tools, "window": window}
    settings["pins"] = [talk.source.position_of(pin) for pin in pins]
    rows = []
    for name, policy in chosen:
        folding = fold(policy) if fold is not None and _summarises(name_of(policy)) else None
        replay = _Replay(talk, rules, priced, folding)
        for done, end in enumerate(talk.requests, 1):
            replay.request(end, policy, settings)
            if progress is not None:
                progress(name, done, len(talk.requests))
        rows.append(replay.row(name))
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
        self.facts = None if facts is None else _Facts(self.messages, facts)

    def now(self, end: int) -> float:
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

    def __init__(self, messages: Sequence[Message], facts_of: FactsOf) -> None:
        first: dict[str, int] = {}
        for position, message in enumerate(messages):
            if message.role in ("user", "tool"):
                for fact in facts_of(message, position):
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


class _Replay:
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
            self._fold(self._talk.messages[: end + 1])

    def _compose(self, end: int, policy: Policy, settings: Mapping[str, Any]) -> Context:
        prefix = self._talk.source.upto(end)
        prefix.summary = self._folded.summary
        pins = [pin for pin in settings["pins"] if pin < end]
        return compose_source(prefix, prefix.opening(), policy, **{**settings, "pins": pins})

    def _fold(self, messages: Sequence[Message]) -> None:
        """Let the summaries be made, and add them to the bill."""
        assert self._folding is not None
        made = self._folded = self._folding.fold(messages)
        total = self._summaries
        self._summaries = Folded(None, total.calls + made.calls, total.input + made.input, total.output + made.output)
        if self._prices is not None:
            self._cost += (made.input * self._prices.input + made.output * self._prices.output) / MILLION

    def _note(self, end: int, context: Context) -> None:
        """The figures of one request; tool definitions are a message of their own at its head."""
        talk = self._talk
        keys = [talk.key(e.message) for e in context.entries]
        tokens = [talk.tokens(e) for e in context.entries]
        opening = next((i for i, e in enumerate(context.entries) if e.message.role != "system"), len(keys))
        if talk.tools:
            keys, tokens, opening = [0, *keys], [talk.tools, *tokens], opening + 1
        total = sum(tokens)
        read, written = self._tree.look(keys, tokens, opening, talk.now(end))
        self._compare(keys, tokens, total)
        output = talk.tokens(talk.source.entry(end))
        self._written += written
        self._output += output
        noted = self._series
        noted["positions"].append(end)
        noted["messages"].append(len(context.entries))
        noted["tokens"].append(total)
        noted["cached"].append(read)
        noted["billed"].append(total - read - written + read * self._rules.read + written * self._rules.write)
        if self._prices is not None:
            prices = self._prices
            spent = (total - read - written) * prices.input + read * prices.cached + written * prices.cache_write
            spent = (spent + output * prices.output) / MILLION
            self._cost += spent
            noted["cost"].append(float(spent))
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
            billed=round(sum(series.billed) + summaries.input, 1),
            output=self._output,
            cost=self._cost if self._prices is not None else None,
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
