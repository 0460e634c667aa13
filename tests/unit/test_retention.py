"""Which thread is due by which rule: pure rules, texts and durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo import InvalidSpec, Retention
from novelo.retention import Facts, due, duration, reaches, retention_of

DAY = 86_400.0
NOW = 1_000 * DAY
days = st.integers(0, 1000)
owners, tags, ids = (st.none() | st.sampled_from(names) for names in (["ana", "bob"], ["x", "y"], ["t1", "t2"]))


@st.composite
def rules(draw):
    """A rule with at least one time."""
    times = draw(st.dictionaries(st.sampled_from(["max_idle", "max_age", "closed"]), days, min_size=1))
    return Retention(
        **{name: f"{n}d" for name, n in times.items()},
        owner=draw(owners), tag=draw(tags), thread=draw(ids), keep=draw(st.sampled_from(["nothing", "summary"])),
    )  # fmt: skip


@st.composite
def threads(draw):
    """Facts of a thread that was made, used, and perhaps closed, in this order."""
    made, used = sorted((draw(days), draw(days)), reverse=True)
    return Facts(
        draw(st.sampled_from(["ana", "bob"])), draw(st.sampled_from(["t1", "t2"])),
        tuple(draw(st.lists(st.sampled_from("xyz"), unique=True))), NOW - made * DAY, NOW - used * DAY,
        closed=draw(st.none() | st.just(NOW - used * DAY)), summary=draw(st.integers(0, 2)),
        dropped=draw(st.integers(0, 2)), busy=draw(st.booleans()),
    )  # fmt: skip


@given(rules(), threads())
def test_a_rule_takes_what_is_over_and_meant(rule, thread):
    """One of its times is over and all of its conditions hold, and only then; the reason names the time."""
    why = rule.takes(thread, NOW)
    since = {"idle": thread.updated, "age": thread.created, "closed": thread.closed}
    spans = {"idle": rule.max_idle, "age": rule.max_age, "closed": rule.closed}
    over = {
        word for word, span in spans.items() if span is not None and since[word] is not None
        if NOW - since[word] >= duration(span)
    }  # fmt: skip
    meant = rule.owner in (None, thread.owner) and rule.thread in (None, thread.thread_id)
    meant = meant and (rule.tag is None or rule.tag in thread.tags)
    if rule.keep == "summary":
        meant = meant and thread.summary > 0 and thread.summary != thread.dropped
    assert (why in over) if meant and over else why is None


@given(st.lists(rules(), max_size=4), threads())
def test_what_rules_take_is_in_their_reach(several, thread):
    """Whatever is due lies within the moments that candidates are looked for by; a busy thread is never due."""
    found = due(several, thread, NOW)
    idle, age, closed = reaches(several, NOW)
    within = thread.updated <= idle or thread.created <= age or (closed and thread.closed is not None)
    assert found is None or (within and not thread.busy)
    assert found is None or found.rule in [str(rule) for rule in several]


@given(rules())
def test_a_rule_comes_back_from_its_text(rule):
    """A rule's text is the rule; the one for the audit names neither owner nor thread."""
    assert retention_of(str(rule)) == (rule,)
    assert "ana" not in rule.told and "t1" not in rule.told and "t2" not in rule.told


def test_a_threads_own_term_comes_first():
    """A term of its own takes a thread whatever the rules say, and not before."""
    thread = Facts("", "t", (), NOW, NOW, expires=NOW)
    assert due([], thread, NOW).why == "expires" and due([], thread, NOW - 1) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 90 * DAY), ("1.5h", 5400), ("10s", 10), ("2 weeks", 14 * DAY), ("6mo", 180 * DAY), ("1y", 365 * DAY),
     ("30min", 1800), (5, 5), (0, 0), ("0d", 0), ("1 Day", DAY)],
)  # fmt: skip
def test_durations(text, seconds):
    """Numbers with a unit, in short or as a word; a bare number is seconds."""
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "90", "-1d", "1x", None, True, -1, float("nan"), "1d2h", "9" * 30 + "d"])
def test_no_durations(text):
    """Anything else is refused; a text without a unit too, since nobody knows what it means."""
    with pytest.raises(InvalidSpec):
        duration(text)


@pytest.mark.parametrize(
    "text", ["", "idle", "idle:", "idle:x", "tag=x", "idle:1d,idle:2d", "idle=1d", "colour=red,idle:1d",
             "idle:1d,keep=all", 5, "owner=ana"],
)  # fmt: skip
def test_no_rules(text):
    """A rule without a time, an unknown word, a word twice."""
    with pytest.raises(InvalidSpec):
        retention_of([text])


@pytest.mark.parametrize("wrong", [{"owner": 5}, {"tag": ["x"]}, {"thread": b"t"}])
def test_a_condition_that_no_thread_can_meet_is_refused(wrong):
    """A rule that would never take anything does not pass for one that has nothing to take."""
    with pytest.raises(InvalidSpec):
        Retention(max_idle="1d", **wrong)
