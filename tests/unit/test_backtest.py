"""The back-test: what a replay counts, what the cache saves, which facts stay in reach, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from itertools import pairwise
from types import ModuleType

import pytest

import novelo
from novelo.caching import CacheRules, PrefixTree, maker_of, rules_for
from novelo.context import compose
from novelo.context.listing import ListSource
from novelo.errors import InvalidSpec
from novelo.replay import Folded, replay
from novelo.report import Prices
from novelo.summaries import Summary
from novelo.tokens import count_message
from novelo.transcript import Step, Turn

SYSTEM = {"role": "system", "content": "Você é a atendente."}
PLAIN = CacheRules("plain", least=1, lifetime_s=None)


class Order:
    """A fact of these tests: an order number."""

    def __init__(self, text: str) -> None:
        self.text = text


def orders(message, position):
    """Order numbers in a message."""
    return [Order(found) for found in re.findall(r"PX-\d+", message.text)]


def rounds(number: int, words: int = 1) -> list[dict[str, str]]:
    """Exchanges, each recognisable."""
    out = []
    for k in range(number):
        out.append({"role": "user", "content": f"pergunta {k} sobre PX-{1000 + k}" + " por favor" * words})
        out.append({"role": "assistant", "content": f"resposta {k}" + " tudo certo" * words})
    return out


def with_tools(number: int) -> list[dict]:
    """Turns with a call, its result, and an answer."""
    out = []
    for k in range(number):
        call = {"id": f"c{k}", "type": "function", "function": {"name": "find", "arguments": '{"k": 1}'}}
        out.append({"role": "user", "content": f"onde está o pedido {k}?"})
        out.append({"role": "assistant", "content": None, "tool_calls": [call]})
        out.append({"role": "tool", "tool_call_id": f"c{k}", "content": f"PX-{k} saiu"})
        out.append({"role": "assistant", "content": f"o pedido {k} saiu"})
    return out


def test_a_full_buffer_of_fifty_rounds_sends_2550_messages() -> None:
    """Fifty exchanges under a system message send 2 + 4 + … + 100 messages; a window of five turns sends 480."""
    report = novelo.backtest([SYSTEM, *rounds(50)], ["buffer", "window:5turns"])
    assert [(r.policy, r.requests, r.messages) for r in report.rows] == [
        ("buffer", 50, 2550),
        ("window:5turns", 50, 480),
    ]


@pytest.mark.parametrize(
    "policy",
    ["buffer", "window:3turns", "window:6messages,slack=2", "budget:300", "budget:300>150", "clear_tools:keep=1"],
)
def test_each_request_is_what_compose_gives(policy: str) -> None:
    """A request is the context that `compose` makes of the list as it was before the reply, token by token."""
    messages = [SYSTEM, *with_tools(12), *rounds(8)]
    series = novelo.backtest(messages, [policy]).rows[0].series
    contexts = [compose(messages[:end], policy) for end in series.positions]
    assert list(series.tokens) == [c.tokens for c in contexts]
    assert list(series.messages) == [len(c) for c in contexts]


def test_a_prefix_is_the_list_as_it_was() -> None:
    """A prefix of a list gives the entries and sums that a list of only those messages gives."""
    messages = [SYSTEM, *with_tools(5)]
    whole = ListSource(messages, count_message)
    for end in range(1, len(messages) + 1):
        prefix, alone = whole.upto(end), ListSource(messages[:end], count_message)
        for name in ("begin", "end", "turn_count", "message_count", "tokens_total"):
            assert getattr(prefix, name) == getattr(alone, name)
        assert [e.position for e in prefix.newest_first()] == [e.position for e in alone.newest_first()]
        assert [e.position for e in prefix.opening()] == [e.position for e in alone.opening()]
        for entry in prefix.oldest_first():
            assert prefix.tokens_before(entry) == alone.tokens_before(entry)
            assert prefix.messages_before(entry) == alone.messages_before(entry)
        around = [[e.position for e in chunk] for chunk in prefix.around([2, 7])]
        assert around == [[e.position for e in chunk] for chunk in alone.around([2, 7])]


def test_a_request_is_made_for_each_reply_and_for_nothing_else() -> None:
    """Tool calls are replies too; a greeting answers nothing, and two answers in a row are one request."""
    greeting = {"role": "assistant", "content": "Olá!"}
    again = {"role": "assistant", "content": "Mais uma coisa."}
    messages = [SYSTEM, greeting, *with_tools(2), again, {"role": "user", "content": "e agora?"}]
    assert novelo.backtest(messages, ["buffer"]).rows[0].series.positions == (3, 5, 7, 9)


def test_a_conversation_without_a_reply_says_so() -> None:
    """Without a reply nothing was sent, and no policy is called the cheapest."""
    report = novelo.backtest([{"role": "user", "content": "oi"}], ["buffer"])
    assert report.rows[0].requests == 0
    assert "nothing to compare" in report.verdict()


def test_the_unchanged_prefix_costs_a_tenth() -> None:
    """In a plain cache a request pays a tenth for what the one before sent, and in full for what is new."""
    messages = [SYSTEM, *rounds(3)]
    row = novelo.backtest(messages, ["buffer"], cache=PLAIN).rows[0]
    a, b, c = row.series.tokens
    assert row.series.cached == (0, a, b)
    assert row.billed == pytest.approx(a + (b - a) + 0.1 * a + (c - b) + 0.1 * b, abs=0.2)
    assert novelo.backtest(messages, ["buffer"], cache=PLAIN, cached=0.5).rows[0].billed > row.billed


def test_least_length_and_steps_are_the_providers() -> None:
    """OpenAI caches nothing below 1,024 tokens and reads multiples of 128."""
    series = novelo.backtest([SYSTEM, *rounds(40, words=20)], ["buffer"]).rows[0].series
    for sent, before, cached in zip(series.tokens[1:], series.tokens, series.cached[1:], strict=False):
        assert cached == (before // 128 * 128 if before >= 1024 else 0)
        assert cached <= sent
    assert any(series.cached)


def test_a_prefix_lapses_after_its_lifetime() -> None:
    """A prefix that was used six minutes ago is not read; four minutes later it is, and reading keeps it alive."""
    messages = rounds(4, words=300)
    moments = [0, 5, 360, 365, 600, 605, 840, 845]
    cached = novelo.backtest(messages, ["buffer"], times=[1.8e9 + t for t in moments]).rows[0].series.cached
    assert [bool(n) for n in cached] == [False, False, True, True]
    with pytest.raises(InvalidSpec, match="times: 1 for 8"):
        novelo.backtest(messages, ["buffer"], times=[1.0])


def test_marked_prefixes_are_written_at_a_premium_and_read_whole() -> None:
    """Anthropic's cache is written to the newest message at 1.25 times; a slide reads the system message only."""
    long = [{"role": "system", "content": "regra da casa " * 800}, *rounds(12, words=60)]
    report = novelo.backtest(long, ["buffer", "window:2turns"], provider="anthropic", model="claude-sonnet-4-5")
    buffer, window = report.rows
    sent, cached = buffer.series.tokens, buffer.series.cached
    assert list(cached[1:]) == list(sent[:-1])
    assert buffer.written == sent[0] + sum(b - a for a, b in pairwise(sent))
    assert len(set(window.series.cached[4:])) == 1 and window.series.cached[4] > 1024
    assert rules_for("anthropic", "claude-haiku-4-5").least == 4096


def test_cache_rules_by_name() -> None:
    """The model's name tells the maker and the rules; unknown providers promise nothing, unknown names are refused."""
    assert [maker_of(m) for m in ("gpt-5-mini", "x/claude-opus-4-1", "gemini-2.5-pro", "o3", "my-model")] == [
        "openai",
        "anthropic",
        "gemini",
        "openai",
        None,
    ]
    assert rules_for("openai", "gpt-5.6").write == 1.25 and rules_for("openai", "gpt-5.2").write == 1
    assert rules_for("mistral").least == 0
    with pytest.raises(InvalidSpec, match="cache rules 'nobody'"):
        novelo.backtest(rounds(1), ["buffer"], cache="nobody")


def test_the_tree_finds_any_earlier_request() -> None:
    """A prefix is found again though another request came between, and none below the first unlike message."""
    tree = PrefixTree(CacheRules("plain", least=1, lifetime_s=10))
    assert tree.look([1, 2, 3], [5, 5, 5], 1, 0) == (0, 0)
    assert tree.look([1, 9], [5, 5], 1, 1) == (5, 0)
    assert tree.look([1, 2, 3, 4], [5, 5, 5, 5], 1, 2) == (15, 0)
    assert tree.look([1, 9], [5, 5], 1, 11.5) == (5, 0)  # the first message was used at 2, the second at 1


def test_stability_tells_how_often_the_whole_request_before_is_kept() -> None:
    """A buffer always begins with the request before; a slide never does once it cuts; a low mark mostly does."""
    rows = novelo.backtest([SYSTEM, *rounds(60)], ["buffer", "budget:400", "budget:400>200"], cache=PLAIN)
    assert rows["buffer"].stable == 1.0
    assert rows["budget:400"].stable < 0.4 < rows["budget:400>200"].stable < 1
    assert rows["budget:400"].billed > rows["budget:400>200"].billed
    assert 0 < rows["budget:400"].shared < rows["buffer"].shared < 1


def test_money_by_prices_for_a_million_tokens() -> None:
    """Input, cached input and output have their prices; without a cached price the rules' tenth holds."""
    messages = [SYSTEM, *rounds(4)]
    row = novelo.backtest(messages, ["buffer"], {"input": 1, "output": 8}, cache=PLAIN).rows[0]
    read = sum(row.series.cached)
    cost = (row.tokens - read + Decimal(read) / 10 + 8 * row.output) / 1_000_000
    assert row.cost == cost
    assert sum(row.series.cost) == pytest.approx(float(cost))
    assert novelo.backtest(messages, ["buffer"]).rows[0].cost is None
    with pytest.raises(InvalidSpec, match="no input"):
        novelo.backtest(messages, ["buffer"], {"output": 8})


def test_a_models_name_gives_prices_provider_and_cache_rules(monkeypatch) -> None:
    """The price table is asked for the model; its maker's dialect and cache rules hold; an unknown name is refused."""
    table = ModuleType("novelo.prices")
    known = {"claude-haiku-4-5": (Decimal(1), Decimal("0.1"), Decimal("1.25"), Decimal(5))}
    table.price_per_million = known.get
    monkeypatch.setitem(sys.modules, "novelo.prices", table)
    report = novelo.backtest(rounds(2), ["buffer"], prices="claude-haiku-4-5")
    assert (report.provider, report.cache.name, report.cache.least) == ("anthropic", "anthropic", 4096)
    assert report.prices == Prices(*known["claude-haiku-4-5"]) and report.rows[0].cost > 0
    with pytest.raises(InvalidSpec, match="no price is known for 'my-model'"):
        novelo.backtest(rounds(2), ["buffer"], prices="my-model")


def test_a_cached_price_sets_the_ratio() -> None:
    """Where the price of cached input is known, billed tokens use it too."""
    report = novelo.backtest(rounds(2), ["buffer"], {"input": 2, "cached": "0.5"}, cache=PLAIN)
    assert report.cache.read == 0.25
    assert report.prices == Prices(Decimal(2), Decimal("0.5"), Decimal(2), Decimal(0))


def test_facts_in_reach_by_turn() -> None:
    """A buffer holds every order number; a window of two turns holds those of two turns, 2 of k at turn k."""
    report = novelo.backtest(rounds(10), ["buffer", "window:2turns"], facts=orders)
    buffer, window = report.rows
    assert set(buffer.series.facts) == {1.0}
    assert window.series.facts == tuple(min(1, 2 / k) for k in range(1, 11))
    assert window.facts == pytest.approx(sum(window.series.facts) / 10)
    assert window.facts_least == 0.2


def test_facts_are_looked_for_in_what_is_sent() -> None:
    """A fact counts where its text stands: said again later it is back, and in a cleared result it is gone."""
    again = [*rounds(3), {"role": "user", "content": "e o PX-1000?"}, {"role": "assistant", "content": "saiu"}]
    assert novelo.backtest(again, ["window:1turns"], facts=orders).rows[0].series.facts == (1, 0.5, 1 / 3, 1 / 3)
    cleared = novelo.backtest(with_tools(4), ["buffer", "clear_tools:keep=1"], facts=orders).rows
    assert cleared[0].facts == 1 and cleared[1].series.facts[-1] == 0.25


def test_facts_are_found_by_the_rules_of_the_ledger() -> None:
    """Without a finder of one's own the exact-facts rules are used; None leaves facts out."""
    assert novelo.backtest(rounds(6), ["window:1turns"]).rows[0].facts_least == pytest.approx(1 / 6, abs=0.2)
    assert novelo.backtest(rounds(6), ["buffer"], facts=None).rows[0].facts is None
    chat = [{"role": "user", "content": "oi"}, {"role": "assistant", "content": "olá"}]
    assert novelo.backtest(chat, ["buffer"]).rows[0].facts is None


def test_a_policy_that_cannot_make_its_requests_is_not_valid() -> None:
    """Requests over the budget are counted, the policy is not valid, and the verdict names another."""
    messages = [SYSTEM, *rounds(3), {"role": "user", "content": "longa " * 400}, {"role": "assistant", "content": "ok"}]
    report = novelo.backtest(messages, ["budget:100", "buffer"])
    assert report["budget:100"].refused == 1 and not report["budget:100"].valid
    assert report.cheapest() is report["buffer"]
    assert "1 over budget" in report.table()
    assert "No policy is valid" in novelo.backtest(messages, ["budget:100"]).verdict()


def test_a_policy_that_breaks_the_protocol_is_not_valid() -> None:
    """A function that drops a tool result but keeps its call makes illegal requests, and they are counted."""

    def broken(draft):
        return draft.mapped(lambda turn: Turn(turn.user, tuple(Step(step.head) for step in turn.steps)))

    row = novelo.backtest(with_tools(2), [broken]).rows[0]
    assert (row.policy, row.requests, row.invalid, row.valid) == ("broken", 1, 3, False)


def test_a_policy_that_summarises_needs_somebody_to_summarise() -> None:
    """Without `fold` a summarising policy is refused by name; others are not touched."""
    with pytest.raises(InvalidSpec, match=r"summarize:20messages.*fold="):
        replay(rounds(2), ["buffer", "summarize:20messages,keep=6 + budget:8000"])


def test_summaries_are_made_after_each_reply_and_billed() -> None:
    """The fold sees the list with the reply, its record stands in the next request's source, its tokens are billed."""
    seen: list[tuple[int, str]] = []
    given: list[object] = []

    class Counting:
        def fold(self, source):
            seen.append((source.end, next(source.newest_first()).message.role))
            return Folded(Summary(text=f"record {len(seen)}"), calls=1, input=100, output=10)

    def summarize(draft):
        given.append(draft.desk.summary and draft.desk.summary.text)
        return draft

    report = novelo.backtest(
        rounds(3), [summarize, "buffer"], {"input": 1, "output": 1}, cache=PLAIN, fold=lambda policy: Counting()
    )
    assert seen == [(2, "assistant"), (4, "assistant"), (6, "assistant")]
    assert given == [None, "record 1", "record 2"]
    folded, plain = report.rows
    assert (folded.summary_calls, folded.summary_input, folded.summary_output) == (3, 300, 30)
    assert folded.billed == pytest.approx(plain.billed + 300)
    assert folded.cost - plain.cost == Decimal(330) / 1_000_000
    assert plain.summary_calls == 0


@pytest.mark.parametrize("tools", [False, True])
def test_summaries_are_those_of_a_thread(tools: bool) -> None:
    """A replayed policy that summarises sends what a thread sends whose jobs are done after each turn, call by call."""
    policy = "summarize:12messages,keep=4 + budget:900"
    size, said = (4, with_tools(14)) if tools else (2, rounds(24))
    turns = [said[i : i + size] for i in range(0, len(said), size)]
    row = novelo.backtest(said, [policy], summarizer=notes).rows[0]
    sent = []
    with novelo.open("memory://", policy=policy, summarizer=notes, worker="off") as memory:
        thread = memory.thread("t")
        for question, *steps, last in turns:
            with thread.turn(question["content"]) as turn:
                for message in [*steps, last]:
                    if message["role"] == "assistant":
                        turn.messages()
                        sent.append(turn.context.tokens)
                    (turn.reply if message is last else turn.add)(message)
            memory.work()
        calls = [call for call in thread.usage() if call.purpose == "summary"]
    assert list(row.series.tokens) == sent
    assert row.summary_calls == len(calls) >= 3


def notes(request) -> str:
    """A summarizer: the numbers that it was shown, in the conversation's language."""
    asked = re.findall(r"PX-\d+", request.messages[-1]["content"])
    return f"O cliente perguntou por {len(asked)} pedidos, e a atendente respondeu que tudo está certo com eles."


def test_an_answer_that_is_no_summary_is_billed_and_changes_nothing() -> None:
    """Refusals leave the requests as they are without a summary; each due turn asks again, and the bill has it all."""
    plain, refused = novelo.backtest(
        rounds(12), ["buffer", "summarize:12messages,keep=4"], {"input": 1}, summarizer=lambda request: "Error: 503"
    ).rows
    assert refused.series.tokens == plain.series.tokens
    assert refused.summary_calls == 7 and refused.summary_output > 0
    assert refused.billed == pytest.approx(plain.billed + refused.summary_input)
    assert refused.cost - plain.cost == Decimal(refused.summary_input) / 1_000_000


def test_a_failing_summarizer_ends_the_replay() -> None:
    """A summarizer that cannot be asked is an error of the replay: figures without summaries would mislead."""

    def fails(request):
        raise novelo.ModelFailed("no answer", retryable=True)

    with pytest.raises(novelo.ModelFailed):
        novelo.backtest(rounds(12), ["summarize:12messages,keep=4"], summarizer=fails)
    assert novelo.backtest(rounds(12), ["buffer"], summarizer=fails).rows[0].valid


def test_facts_of_the_ledger_are_in_reach() -> None:
    """An order number that the summary's ledger carries is in reach, where a window of the same size has lost it."""
    report = novelo.backtest(
        rounds(12), ["window:4messages", "summarize:12messages,keep=4"], facts=orders, summarizer=notes
    )
    assert report.rows[0].facts < 0.5 and report.rows[1].facts == 1


def test_tools_stand_at_the_head_and_are_counted() -> None:
    """Tool definitions are part of every request, and of its cached prefix."""
    tools = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
    bare = novelo.backtest(rounds(2), ["buffer"], cache=PLAIN).rows[0]
    tooled = novelo.backtest(rounds(2), ["buffer"], cache=PLAIN, tools=tools).rows[0]
    extra = tooled.series.tokens[0] - bare.series.tokens[0]
    assert extra > 0 and tooled.series.tokens[1] - bare.series.tokens[1] == extra
    assert tooled.series.cached[1] - bare.series.cached[1] == extra
    assert tooled.messages == bare.messages


def test_other_forms_and_pins() -> None:
    """Anthropic's form is read like any other, and a pinned message stays from the request on that can hold it."""
    body = {"system": "Seja breve.", "messages": rounds(6)}
    assert novelo.backtest(body, ["buffer"], provider="anthropic").rows[0].messages == sum(range(2, 14, 2))
    pinned = novelo.backtest(rounds(6), ["window:1turns"], pins=[0], facts=orders).rows[0]
    assert pinned.series.facts == (1, 1, 2 / 3, 0.5, 0.4, 1 / 3)


def test_a_report_is_plain_values_and_text() -> None:
    """The report is JSON with all figures, a table with a line for each policy, and a sentence."""
    report = novelo.backtest(rounds(12), ["buffer", "window:2turns"], {"input": 1, "output": 2}, facts=orders)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["rows"][1]["policy"] == "window:2turns" and plain["rows"][1]["valid"] is True
    assert plain["rows"][0]["cost"] == float(report.rows[0].cost)
    assert len(plain["rows"][0]["series"]["tokens"]) == 12
    assert plain["verdict"].startswith("The cheapest valid policy is window:2turns: 0.")
    head, *lines = report.table().splitlines()
    assert " ".join(head.split()) == (
        "policy requests messages tokens cached billed US dollars biggest stable facts least valid"
    )
    assert len(lines) == 2
    assert "summaries" not in head
    with pytest.raises(KeyError):
        report["budget:1"]


def test_progress_is_told_for_each_request() -> None:
    """The caller hears of every request of every policy, in order."""
    heard: list[tuple[str, int, int]] = []
    novelo.backtest(rounds(2), ["buffer", "window:1turns"], progress=lambda *told: heard.append(told))
    assert heard == [("buffer", 1, 2), ("buffer", 2, 2), ("window:1turns", 1, 2), ("window:1turns", 2, 2)]


def test_a_user_counter_is_asked_once_a_message() -> None:
    """Counting is asked once for each message, however many policies and requests there are."""
    asked: list[str] = []

    def count(message) -> int:
        asked.append(message.text)
        return 7

    messages = rounds(10)
    report = novelo.backtest(messages, ["buffer", "window:3turns", "budget:60>30"], counter=count)
    assert report.rows[0].tokens == 7 * report.rows[0].messages
    assert len(asked) == len(messages)
