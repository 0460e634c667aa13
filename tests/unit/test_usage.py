"""Sums over the ledger."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

import novelo
from novelo.errors import InvalidSpec
from novelo.messages import Message, Usage
from novelo.usage import Call, Ledger, Row, Sum, ThreadUsage, total

DAY = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC).timestamp()
H = 3600.0


def spent(purpose, read, wrote, **more):
    """A call with these tokens."""
    return Call(purpose, input=read, output=wrote, **more)


THREE_TURNS = [spent("reply", 100, 50), spent("reply", 150, 50), spent("summary", 90_000, 800), spent("reply", 300, 50)]


def test_a_summary_is_part_of_what_a_thread_spent():
    """The total holds the summary's call, which is listed with its own purpose; the answers alone are told apart."""
    used = ThreadUsage(THREE_TURNS)
    assert (used.total.calls, used.total.input, used.total.output) == (4, 90_550, 950)
    by = used.by("purpose")
    assert list(by) == ["reply", "summary"]
    assert (by["reply"].input, by["reply"].output) == (550, 150)
    assert (by["summary"].input, by["summary"].output) == (90_000, 800)


def test_the_old_shape_holds():
    """A thread's usage is the list of its calls, a memory's the list of (owner, thread id, call)."""
    memory = novelo.open("sqlite:///:memory:")
    with memory.thread("t", owner="a").turn("Oi") as turn:
        turn.messages()
        turn.reply("Olá")
    (call,) = memory.thread("t", owner="a").usage()
    assert isinstance(call, Call)
    assert memory.usage() == [("a", "t", call)]
    ((owner, thread_id, same),) = memory.usage("a")
    assert (owner, thread_id, same) == ("a", "t", call)
    assert memory.usage("b").total == Sum()
    memory.close()


def test_missing_usage_is_estimated_and_flagged():
    """A reply without a report is counted by our own estimate, and the sums say how many calls are."""
    memory = novelo.open("sqlite:///:memory:")
    thread = memory.thread("t")
    with thread.turn("继续写下一章。") as turn:
        turn.messages()
        turn.reply("第五章:雨夜。" * 1000)
    used = thread.usage()
    assert used.total.estimated == 1
    assert used.total.output > 3000
    assert used.total.cost is None
    memory.close()


@pytest.mark.parametrize("nonsense", [10**30, 2**63, 2**62, float("inf"), float("nan"), -5, "12"])
def test_a_report_that_makes_no_sense_loses_no_answer(memory, nonsense):
    """The answer is stored whatever its usage says; what is no count of tokens counts nothing, limits still work."""
    thread = memory.thread("t")
    usage = {"prompt_tokens": nonsense, "completion_tokens": 7}
    answers = [{"choices": [{"message": {"role": "assistant", "content": "Olá"}}], "usage": usage}]
    if isinstance(nonsense, int):
        answers.append(Message("assistant", "Olá", usage=Usage(input=nonsense, output=7)))
    for answer in answers:
        with thread.turn("Oi") as turn:
            turn.messages()
            turn.reply(answer)
        assert turn.status == "done"
    assert thread.usage().total.tokens == memory.store.spent(thread.key, "", 0.0).tokens == 7 * len(answers)


def test_costs_of_known_prices_are_added_and_the_rest_counted():
    """The cost is of the calls whose price is known, exact to the last digit; it is None where that is none."""
    known, unknown = spent("reply", 1, 1, cost=Decimal("0.1")), spent("reply", 1, 1)
    found = total([known, known, known, unknown])
    assert (found.cost, found.unpriced) == (Decimal("0.3"), 1)
    assert (total([unknown]).cost, total([unknown]).unpriced) == (None, 1)
    free = total([spent("reply", 1, 1, cost=Decimal(0))])
    assert (free.cost, free.unpriced) == (0, 0)
    assert total([]) == Sum()


def test_times_are_medians_of_what_was_timed():
    """One slow call does not hide the usual time, and calls without a time do not count as 0."""
    calls = [spent("reply", 1, 1, latency_s=s) for s in (1.0, 2.0, 90.0, None)]
    assert (total(calls).latency_s, total(calls).first_token_s) == (2.0, None)


def test_shares():
    """The cached share is of all input, and 0 where nothing was read."""
    assert total([spent("reply", 2000, 12, cache_read=1800)]).cached_share == 0.9
    assert Sum().cached_share == 0.0
    assert total([spent("reply", 2000, 12)]).tokens == 2012


ROWS = Ledger(
    [
        Row("a", "t", spent("reply", 1, 1, model="m", turn=0, created=DAY)),
        Row("b", "t", spent("reply", 2, 1, model="n", turn=0, created=DAY + 1)),
        Row("a", "t", spent("summary", 4, 1, turn=None, created=DAY + 14 * H)),
        Row("a", "u", spent("reply", 8, 1, model="m", turn=2, created=DAY + 20 * H)),
    ]
)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("purpose", {"reply": 11, "summary": 4}),
        ("model", {"m": 9, "n": 2, None: 4}),
        ("thread", {("a", "t"): 5, ("b", "t"): 2, ("a", "u"): 8}),
        ("owner", {"a": 13, "b": 2}),
        ("day", {"2026-11-01": 3, "2026-11-02": 12}),
        ("turn", {("a", "t", 0): 1, ("b", "t", 0): 2, ("a", "t", None): 4, ("a", "u", 2): 8}),
    ],
)
def test_by(what, expected):
    """Sums by each key add up to the total; equal thread ids of two owners are two threads."""
    found = ROWS.by(what)
    assert {key: value.input for key, value in found.items()} == expected
    assert list(found) == list(expected)
    assert sum(value.calls for value in found.values()) == ROWS.total.calls == 4


def test_days_are_those_of_a_zone():
    """The day is that of the zone asked for."""
    west = datetime.timezone(datetime.timedelta(hours=-3))
    assert [value.input for value in ROWS.by("day", west).values()] == [7, 8]
    assert sum(value.input for value in ROWS.by("day", None).values()) == 15


def test_turns_of_one_thread_are_positions():
    """In one thread a turn is the position of its question, and None is the work between turns."""
    used = ThreadUsage([row.call for row in ROWS if row.thread_id == "t"], "a", "t")
    assert {key: value.calls for key, value in used.by("turn").items()} == {0: 2, None: 1}
    assert list(used.by("thread")) == [("a", "t")]


def test_since():
    """Only calls from a moment on, that moment included."""
    assert [row.call.input for row in ROWS.since(DAY + 14 * H)] == [4, 8]


@pytest.mark.parametrize("ledger", [ROWS, ThreadUsage()], ids=["many", "one"])
def test_sums_by_anything_else_are_refused(ledger):
    """A key that is not there is a clear error, also for an empty ledger."""
    with pytest.raises(InvalidSpec, match="purpose, model, thread, owner, day, turn"):
        ledger.by("colour")
