"""A thread's context is what `compose` makes of the plain list of its messages, whatever the policy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import novelo
from builders import says, user
from novelo.errors import ContextTooSmall
from novelo.testing.strategies import broken_conversations, conversations, policies

LONG = [
    "window:3turns,slack=2",
    "window:5messages",
    "budget:400",
    "budget:600,low=300",
    "budget:50%,low=25%,window=900",
    "window:3turns + recall:2",
    "recall:3,share=40% + budget:400",
]
talks = conversations() | broken_conversations()


@pytest.fixture(scope="module", params=["memory://", "sqlite://"])
def memory(request):
    """One memory for all examples; each takes a thread of its own."""
    with novelo.open(request.param) as opened:
        yield opened


def outcome(make):
    """The messages and their tokens, or the error and what it says."""
    try:
        context = make()
    except ContextTooSmall as error:
        return (error.needed, error.budget)
    return context.messages("openai"), context.tokens


def filled(memory, messages):
    """A new thread with these messages."""
    thread = memory.thread(memory.new_id())
    thread.append(messages)
    return thread


@settings(max_examples=80)
@given(messages=talks, policy=policies(), pin=st.none() | st.integers(0, 30))
def test_a_context_is_a_composed_list(memory, messages, policy, pin):
    """Stored and composed is the same as composed, with pins too, valid histories and broken ones."""
    thread = filled(memory, messages)
    pins = [] if pin is None or pin >= len(thread) else [pin]
    thread.pin(pins)
    plain = [e.message for e in thread]
    expected = outcome(lambda: novelo.compose(plain, policy, pins=pins))
    assert outcome(lambda: thread.context(policy=policy)) == expected


@settings(max_examples=60)
@given(
    messages=conversations(max_turns=4), policy=policies(budgets=False), hidden=st.sets(st.integers(0, 20), max_size=5)
)
def test_hidden_messages_are_as_if_they_were_not_there(memory, messages, policy, hidden):
    """Without what is hidden the context is that of the visible ones; windows with slack and recall know of gaps."""
    thread = filled(memory, messages)
    first = next(e.position for e in thread if e.role == "user")  # without it the talk would be cut, and say so
    thread.hide([p for p in hidden if first < p < len(thread)])
    policy = "window:3turns" if "slack" in policy or "recall" in policy else policy
    expected = novelo.compose([e.message for e in thread if not e.hidden], policy)
    found = thread.context(policy=policy)
    assert found.messages() == expected.messages("openai") and found.tokens == expected.tokens


@settings(max_examples=60)
@given(messages=conversations(), policy=policies(), data=st.data())
def test_a_fork_composes_like_its_own_list(memory, messages, policy, data):
    """A fork, and a fork of that, gives the context of what it holds, however its past is spread."""
    thread = filled(memory, messages)
    first = thread.fork(at=data.draw(st.integers(0, len(thread))))
    thread.append([user("later"), says("words")])
    first.append([user("own"), says("answer")])
    second = first.fork(at=data.draw(st.integers(1, len(first))))
    second.append([user("more")])
    for fork in (first, second):
        plain = [e.message for e in fork]
        expected = outcome(lambda plain=plain: novelo.compose(plain, policy))
        assert outcome(lambda fork=fork: fork.context(policy=policy)) == expected


@pytest.mark.parametrize("policy", LONG)
def test_a_long_thread_composes_like_its_list_at_every_turn(memory, policy):
    """As a thread grows, windows with slack and budgets with low marks cut it where they cut the list."""
    thread, plain = memory.thread(memory.new_id()), []
    for n in range(60):
        words = "word " * (n * 7 % 23)
        thread.append([user(f"q{n} {words}")])
        plain.append(thread.messages(newest_first=True, limit=1)[0].message)
        assert thread.context(policy=policy).messages() == novelo.compose(plain, policy).messages("openai")
        thread.append([says(f"a{n} {words}")])
        plain.append(thread.messages(newest_first=True, limit=1)[0].message)


@settings(max_examples=40)
@given(messages=conversations(ends_with_user=False), policy=policies() | st.sampled_from(LONG))
def test_a_question_is_as_if_it_had_been_asked(memory, messages, policy):
    """`context(question)` is the context that the turn then has."""
    thread = filled(memory, messages)
    expected = outcome(lambda: thread.context("one more question", policy=policy))
    with thread.turn("one more question"):
        assert outcome(lambda: thread.context(policy=policy)) == expected
