"""What is made after the reply, on every store: summaries are swapped in by comparison, jobs are claimed by one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from fix_stores import new
from novelo.stores.base import PARKED, Base, Work
from novelo.summaries import Summary
from novelo.usage import Call, Spent


def swap(hand, upto, text="s", base=None, **more):
    """Swap a summary in over the entries below a position."""
    base = base or hand.store.base_of(hand.row, upto)
    made = Summary(base=base.summary, upto=upto, text=text, since=upto, **more)
    return hand.store.swap_summary(hand.key, base, made, hand.now)


def used(hand):
    """The text of the summary in use."""
    found = hand.store.summary(hand.row)
    return None if found is None else found.text


def test_a_summary_is_used_and_the_older_one_kept(hand):
    """Each version stays readable, and one of them is in use."""
    hand.add(*"abcdef")
    assert hand.store.summary(hand.row) is None
    swap(hand, 2, "one")
    swap(hand, 4, "two")
    assert used(hand) == "two"
    assert [(s.version, s.text, s.base, s.active) for s in hand.store.summaries(hand.key)] == [
        (1, "one", 0, False),
        (2, "two", 1, True),
    ]


@pytest.mark.parametrize("change", ["summary", "hide", "unhide", "delete", "redact"])
def test_a_summary_whose_base_changed_is_refused(hand, change):
    """What was swapped, hidden, shown or removed meanwhile makes the swap fail, and nothing changes."""
    hand.add(*"abcdef")
    hand.store.hide(hand.key, [(0, 1)], True, hand.now)
    base = hand.store.base_of(hand.row, 4)
    if change == "summary":
        swap(hand, 2, "other")
    elif change == "hide":
        hand.store.hide(hand.key, [(2, 3)], True, hand.now)
    elif change == "unhide":
        hand.store.hide(hand.key, [(0, 1)], False, hand.now)
    else:
        hand.store.rewrite(hand.row, {1: None if change == "delete" else new("x", "user")}, hand.now)
    before = used(hand)
    assert swap(hand, 4, "late", base) is None
    assert used(hand) == before


def test_turns_and_hiding_behind_it_do_not_disturb_a_swap(hand):
    """New messages, and hiding what is not covered, leave the base as it was."""
    hand.add(*"abcdef")
    base = hand.store.base_of(hand.row, 4)
    hand.turn("g", "h")
    hand.store.hide(hand.key, [(4, 6)], True, hand.now)
    assert swap(hand, 4, "in", base) is not None
    assert used(hand) == "in"


def test_hiding_steps_back_to_what_did_not_read_it(hand):
    """After an entry is hidden, contexts use the newest version of the line that ended before it."""
    hand.add(*"abcdefgh")
    for upto in (2, 4, 6):
        swap(hand, upto, f"to {upto}")
    hand.store.hide(hand.key, [(3, 4)], True, hand.now)
    assert used(hand) == "to 2"
    hand.store.hide(hand.key, [(0, 1)], True, hand.now)
    assert used(hand) is None
    assert len(hand.store.summaries(hand.key)) == 3


def test_what_read_something_that_was_removed_is_removed(hand):
    """A deleted or masked entry takes every version with it that read it, and its number is not used again."""
    hand.add(*"abcdefgh")
    swap(hand, 2, "to 2")
    swap(hand, 4, "to 4")
    hand.store.rewrite(hand.row, {3: None}, hand.now)
    assert [s.text for s in hand.store.summaries(hand.key)] == ["to 2"]
    assert used(hand) == "to 2"
    assert swap(hand, 6, "to 6").version == 3


def test_a_fork_begins_with_the_summary_of_what_it_shares(hand):
    """The newest version that ends before the fork goes along as its first; later ones do not."""
    hand.add(*"abcdefgh")
    swap(hand, 2, "to 2")
    swap(hand, 6, "to 6")
    assert used(hand.fork("f7", 7)) == "to 6"
    assert used(hand.fork("f4", 4)) == "to 2"
    assert used(hand.fork("f1", 1)) is None


def test_a_fork_can_step_back_as_its_parent_can(hand):
    """It has the whole line that its summary stands on, numbered anew, without what was undone."""
    hand.add(*"abcdefgh")
    swap(hand, 2, "to 2", source="x2", covered=((0, 2),))
    swap(hand, 4, "undone")
    base = hand.store.base_of(hand.row, 2)
    back = Summary(base=1, upto=2, text="to 2", source="x2", since=8, since_turns=9, since_running=99, undone=2)
    hand.store.swap_summary(hand.key, base, back, hand.now)
    early = hand.fork("early", 6)
    (one,) = early.store.summaries(early.key)
    assert (one.text, one.version, one.base, one.undone, one.covered) == ("to 2", 1, 0, 0, ((0, 2),))
    assert (one.since, one.since_turns, one.since_running) == (6, early.row.turns, early.row.running)
    swap(hand, 6, "to 6", source="x6")
    fork = hand.fork("f", 8)
    assert [(s.version, s.base, s.text, s.source) for s in fork.store.summaries(fork.key)] == [
        (1, 0, "to 2", "x2"),
        (2, 1, "to 6", "x6"),
    ]
    fork.store.hide(fork.key, [(4, 5)], True, hand.now)
    assert (used(fork), used(hand)) == ("to 2", "to 6")
    assert swap(fork, 8, "to 8").version == 3


def test_an_erased_thread_takes_no_job(hand):
    """Asked for a job, a thread that is gone, or never was, has none."""
    hand.store.ask(hand.key, Work("compact", 0.0), hand.now)
    assert hand.store.jobs() == [] and hand.store.next_due() is None
    hand.add("a")
    hand.store.erase(hand.key, hand.now)
    hand.store.ask(hand.key, Work("compact", 0.0), hand.now)
    hand.add("a")
    assert hand.store.jobs() == [] and hand.store.next_due() is None


def test_removing_from_the_parent_removes_the_forks_summary(hand):
    """A fork's summary of an entry that is deleted in the parent goes too."""
    hand.add(*"abcdefgh")
    swap(hand, 4, "to 4")
    fork = hand.fork("f", 6)
    hand.store.rewrite(hand.row, {1: None}, hand.now)
    assert used(fork) is None and fork.store.summaries(fork.key) == []
    other = hand.fork("g", 6)
    swap(other, 3, "again")
    hand.store.erase(hand.key, hand.now)
    assert used(other) is None and other.store.summaries(other.key) == []


def test_erasure_takes_summaries_and_jobs(hand):
    """Nothing that was made from a thread outlives it."""
    hand.add(*"abcdef")
    swap(hand, 4, "to 4")
    hand.store.ask(hand.key, Work("compact", 0.0), hand.now)
    receipt = hand.store.erase(hand.key, hand.now)
    assert (receipt.rows["summaries"], receipt.rows["work"]) == (1, 1)
    assert hand.store.jobs() == [] and hand.store.summaries(hand.key) == []
    assert hand.store.swap_summary(hand.key, Base(0, 0, 0), Summary(), hand.now) is None


def test_calls_are_noted_also_where_the_summary_is_refused(hand):
    """A summary that came too late has cost what it cost."""
    hand.add(*"abcdef")
    base = hand.store.base_of(hand.row, 4)
    swap(hand, 2)
    call = Call("summary", input=10, output=5, cost=Decimal("0.02"), prices="2026-11-01")
    assert hand.store.swap_summary(hand.key, base, Summary(upto=4), hand.now, [call]) is None
    hand.store.note_calls(hand.key, [call], hand.now)
    rows = [c for _, _, c in hand.store.calls(hand.key)]
    assert [(c.purpose, c.input, c.cost, c.prices, c.turn) for c in rows] == [
        ("summary", 10, Decimal("0.02"), "2026-11-01", None)
    ] * 2


def test_what_was_spent_by_thread_owner_and_since(hand):
    """Sums of tokens and money are exact, of a thread or of all an owner's, since ever or since a moment."""
    other = hand.other("t2")
    for one in (hand, other):
        for k in range(3):
            one.now = 1000.0 + 100 * k
            begun = one.begin("q")
            one.append(begun, "a", calls=[Call(input=10, output=k, cost=Decimal("0.001") * k if k else None)])
    hand.other("t3", owner="somebody").turn("q", "a")
    assert hand.store.spent(hand.key, "", 0.0) == Spent(33, Decimal("0.003"))
    assert hand.store.spent(hand.key, "", 1100.0) == Spent(23, Decimal("0.003"))
    assert hand.store.spent(hand.key, "", 1150.0) == Spent(12, Decimal("0.002"))
    assert hand.store.spent(None, "", 1150.0) == Spent(24, Decimal("0.004"))
    assert hand.store.spent(None, "somebody", 0.0) == Spent()
    assert hand.store.spent(None, "nobody", 0.0) == Spent()


# ------------------------------------------------------------------------------------------------ jobs
def claim(hand, holder="w1", limit=9, key=None, alive=None):
    """Take what is due."""
    return hand.store.claim(hand.lease(holder, alive=alive), limit, key)


def test_a_job_is_claimed_by_one_and_done_once(hand):
    """Asked for twice it is one job; who comes second gets nothing, and after it is done there is none."""
    hand.add("a")
    for _ in range(2):
        hand.store.ask(hand.key, Work("compact", hand.now, "spec"), hand.now)
    (job,) = claim(hand)
    assert (job.kind, job.spec, job.owner, job.thread_id, job.tries) == ("compact", "spec", "", "t", 1)
    assert claim(hand, "w2") == []
    assert hand.store.finish(job, hand.now)
    assert hand.store.jobs() == [] and hand.store.next_due() is None


def test_a_job_asked_for_while_it_runs_is_due_again(hand):
    """What came up during the work is not lost."""
    hand.add("a")
    hand.store.ask(hand.key, Work("compact", hand.now), hand.now)
    (job,) = claim(hand)
    hand.store.ask(hand.key, Work("compact", hand.now), hand.now)
    assert not hand.store.finish(job, hand.now)
    (again,) = claim(hand, "w2")
    assert again.tries == 1


def test_a_job_of_a_dead_worker_comes_back(hand):
    """A lease that lapsed, or whose holder is dead, is void; the late worker can neither renew nor finish."""
    hand.add("a")
    hand.store.ask(hand.key, Work("compact", hand.now), hand.now)
    (job,) = claim(hand)
    assert claim(hand, "w2", alive=lambda holder: True) == []
    (second,) = claim(hand, "w2", alive=lambda holder: False)
    assert second.tries == 2
    assert not hand.store.renew(job, hand.now + 30)
    assert not hand.store.finish(job, hand.now)
    assert hand.store.renew(second, hand.now + 30)
    hand.now += 31
    (third,) = claim(hand, "w3")
    assert third.tries == 3


def test_a_failed_job_waits_and_a_new_request_does_not_hurry_it(hand):
    """Its pause stands; a parked one is taken up late, once it is asked for anew, or by its thread's name."""
    hand.add("a")
    hand.store.ask(hand.key, Work("compact", hand.now), hand.now)
    (job,) = claim(hand)
    hand.store.put_off(job, hand.now + 50, "TimeoutError")
    hand.store.ask(hand.key, Work("compact", hand.now), hand.now)
    assert claim(hand) == [] and hand.store.jobs(hand.key)[0].error == "TimeoutError"
    hand.now += 51
    (job,) = claim(hand)
    assert job.tries == 2
    hand.store.put_off(job, PARKED, "TimeoutError")
    hand.now += 1e6
    assert claim(hand) == [] and hand.store.jobs()[0].parked
    (named,) = claim(hand, key=hand.key)
    hand.store.put_off(named, PARKED, "TimeoutError")
    hand.store.ask(hand.key, Work("compact", hand.now), hand.now)
    assert claim(hand) == []
    hand.now += 901
    assert len(claim(hand)) == 1


def test_the_last_step_of_a_turn_asks_for_a_job_in_the_same_transaction(hand):
    """A turn that is refused asks for nothing."""
    begun = hand.begin()
    hand.append(begun, "a", work=[Work("compact", hand.now + 5, "spec")])
    assert hand.store.next_due() == hand.now + 5
    with pytest.raises(Exception, match="closed"):
        hand.append(begun, "b", work=[Work("other", hand.now)])
    assert [job.kind for job in hand.store.jobs()] == ["compact"]
