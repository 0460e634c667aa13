"""Limits of what may be spent: contexts grow shorter first, turns are refused last, and nothing is lost."""

from __future__ import annotations

from decimal import Decimal

import pytest

import novelo
from novelo.errors import InvalidSpec, LimitReached
from novelo.limits import Limit, limits_of
from novelo.usage import Spent

LONG = "onde está o pedido? " * 40


def test_limits_are_read_from_texts():
    """Scope, amount, unit and time are named; the text comes back."""
    found = limits_of(["thread:200000tokens", "owner:5usd/day", "owner:0.5usd/month", "thread:1token/hour"])
    assert [str(limit) for limit in found] == [
        "thread:200000tokens",
        "owner:5usd/day",
        "owner:0.5usd/month",
        "thread:1tokens/hour",
    ]
    assert found[1].since(100_000.0) == 13_600.0 and found[0].since(100_000.0) == 0.0
    assert limits_of(()) == () and limits_of("owner:5usd")[0].unit == "usd"


@pytest.mark.parametrize("bad", ["5usd", "thread:5", "thread:0tokens", "owner:-1usd", "owner:5usd/year", 5, "x:5usd"])
def test_a_limit_that_makes_no_sense_is_an_error(bad):
    """The error says what would make sense."""
    with pytest.raises(InvalidSpec, match=r"thread:200000tokens|expected"):
        limits_of([bad])


def test_room_is_a_tenth_of_what_is_left_behind_four_fifths():
    """Below four fifths nothing is held down; above, a call may have a tenth of the rest; of money by the price."""
    limit = Limit("thread", Decimal(10_000), "tokens")
    assert limit.room(Spent(7_999), None) is None
    assert limit.room(Spent(8_000), None) == 200
    assert Limit("thread", Decimal(100_000), "tokens").room(Spent(90_000), None) == 1000
    money = Limit("owner", Decimal(1), "usd")
    assert money.room(Spent(0, Decimal("0.9")), Decimal("0.00001")) == 1000
    assert money.room(Spent(0, Decimal("0.9")), None) is None


def ask(thread, text="Oi", **more):
    """A turn, and the context it was given."""
    with thread.turn(text) as turn:
        turn.messages(**more)
        turn.reply("Certo.")
    return turn.context


def test_contexts_grow_shorter_before_turns_are_refused():
    """Behind four fifths of a limit the context is held within a tenth of the rest, and the manifest says so."""
    with novelo.open("sqlite://", limits="thread:9000tokens") as memory:
        thread = memory.thread("t")
        sizes = []
        with pytest.raises(LimitReached) as refused:
            for _ in range(100):
                sizes.append((thread.usage().total.tokens, ask(thread, LONG)))
        assert refused.value.limit == "thread:9000tokens"
        free = [context.tokens for spent, context in sizes if spent < 7200]
        held = [context for spent, context in sizes if spent >= 7200]
        assert max(free) > 1000 and held
        assert all("budget" in context.manifest.policy and context.tokens <= 400 for context in held)
        assert all(context.entries[-1].message.text == LONG for context in held)
        said = len(thread)
        with pytest.raises(LimitReached, match="nothing was stored"), thread.turn("mais") as turn:
            turn.reply("x")
        assert len(thread) == said


def test_an_owners_limit_counts_all_threads_of_that_owner_only():
    """What one owner's threads spend together is refused together, and nobody else is."""
    with novelo.open("sqlite://", limits=["owner:60tokens"]) as memory:
        with pytest.raises(LimitReached):
            for number in range(40):
                ask(memory.thread(f"t{number}", owner="ana"), "uma pergunta com algumas palavras")
        ask(memory.thread("t0", owner="rui"))


def test_a_limit_in_dollars_goes_by_the_price_of_each_call():
    """Known prices count, unknown ones count nothing."""
    pytest.importorskip("genai_prices")
    with novelo.open("sqlite://", limits=["thread:0.01usd"]) as memory:
        answer = {
            "model": "gpt-4o",
            "choices": [{"message": {"role": "assistant", "content": "Sim."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100},
        }
        turns = 0
        with pytest.raises(LimitReached):
            for _ in range(50):
                with memory.thread("t").turn("Oi") as turn:
                    turn.messages(model="gpt-4o")
                    turn.reply(answer)
                turns += 1
        assert turns == 3  # 0.0035 dollars each
        for _ in range(10):
            ask(memory.thread("free"))


def test_resuming_is_refused_too_and_reading_never():
    """A waiting turn is not taken up behind the limit; transcript, search and contexts stay readable."""
    with novelo.open("sqlite://", limits=["thread:20tokens"]) as memory:
        thread = memory.thread("t")
        with thread.turn("uma pergunta com algumas palavras") as turn:
            turn.messages()
            call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            turn.add({"role": "assistant", "content": "muitas palavras " * 5, "tool_calls": [call]})
            turn.wait()
        with pytest.raises(LimitReached), thread.resume():
            pass
        assert thread.messages() and thread.context("e?").tokens and thread.search("pergunta")


def test_an_own_policy_must_leave_the_newest_question():
    """A function that gives no messages is an error where there were some, and never an empty request."""
    with novelo.open("sqlite://", policy=lambda draft: []) as memory:
        thread = memory.thread("t")
        with pytest.raises(novelo.InvalidContext, match="no messages"), thread.turn("Oi") as turn:
            turn.messages()
        assert len(memory.thread("empty").context()) == 0
