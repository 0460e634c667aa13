"""The turn protocol, for every store."""

from __future__ import annotations

import pytest

from fix_stores import new
from novelo.errors import InvalidSpec, KeyConflict, LeaseLost, ThreadErased, TurnClosed, UnknownEntry
from novelo.stores.base import Begun, Busy, Close
from novelo.usage import Call


def test_a_turn_is_a_question_and_what_follows(hand):
    """A turn writes question and answer at consecutive positions and leaves nothing open."""
    begun = hand.begin("what?")
    assert (begun.turn.first, begun.turn.status, hand.row.open_turn, hand.row.head) == (0, "open", 0, 1)
    assert hand.append(begun, "that") == 1
    row = hand.row
    assert (row.head, row.turns, row.running, row.open_turn, row.lease_until, row.holder) == (2, 1, 9, None, 0.0, "")
    assert [(t.first, t.last, t.status) for t in hand.store.turns(hand.key)] == [(0, 1, "done")]


def test_steps_are_there_as_they_are_appended(hand):
    """A step that was appended is read at once, and the turn's end moves with it."""
    begun = hand.begin()
    hand.append(begun, "step", close=None)
    assert hand.texts() == ["q", "step"]
    assert hand.store.turns(hand.key)[0].last == 1
    assert hand.append(begun, close="failed") == 2
    assert hand.store.turns(hand.key)[0] == hand.store.turns(hand.key)[0].__class__(
        0, 1, "failed", None, 1, 1000.0, number=1
    )


def test_a_live_turn_keeps_others_out(hand):
    """While a lease holds, another turn and an append are told Busy, and nothing is written."""
    hand.begin("a", holder="one")
    assert hand.begin("b", holder="two") == Busy("one", 1030.0)
    assert hand.add("c") == Busy("one", 1030.0)
    assert hand.texts() == ["a"]


def test_a_lapsed_lease_is_taken_over(hand):
    """After the lease a new turn begins, the old one is interrupted, and its writer is refused from then on."""
    old = hand.begin("a", holder="one")
    hand.now += 31
    fresh = hand.begin("b", holder="two")
    assert isinstance(fresh, Begun) and fresh.turn.epoch > old.turn.epoch
    with pytest.raises(LeaseLost):
        hand.append(old, "late")
    assert not hand.store.keep_draft(hand.key, old.turn.epoch, 0, new("late", "assistant"), 9e9)
    assert hand.texts() == ["a", "b"]
    assert [t.status for t in hand.store.turns(hand.key)] == ["open", "interrupted"]


def test_interrupt_takes_over_from_a_live_turn(hand):
    """With mode interrupt the new turn begins at once."""
    old = hand.begin("a")
    assert isinstance(hand.begin("b", mode="interrupt"), Begun)
    with pytest.raises(LeaseLost):
        hand.append(old, "late")


def test_a_dead_holder_and_a_wrong_clock_hold_nothing(hand):
    """A lease of a dead process, or one further ahead than its time to live, is void."""
    hand.begin("a", holder="dead")
    store, lease = hand.store, hand.lease("two", alive=lambda holder: holder != "dead")
    begun = store.begin(hand.key, hand.names, new("b"), lease, idempotency=None, mode="queue")
    assert isinstance(begun, Begun)
    hand.now -= 500  # the other's clock was ahead
    assert isinstance(hand.begin("c", holder="three"), Begun)


def test_a_caller_that_waited_takes_nothing_over(hand):
    """A caller whose moment is old, since it waited for other writers, finds a lease that was taken later to hold."""
    hand.begin("a", holder="one")
    hand.now -= 25
    assert isinstance(hand.begin("b", holder="two"), Busy)


def test_the_same_key_replays_a_turn_that_is_done(hand):
    """A key's finished turn is replayed, and nothing is written."""
    hand.append(hand.begin("a", key="k"), "answer")
    again = hand.begin("a", key="k")
    assert again.replayed and (again.turn.first, again.turn.last) == (0, 1)
    assert hand.texts() == ["a", "answer"] and hand.row.open_turn is None


def test_the_same_key_joins_its_running_turn(hand):
    """While a key's own turn runs, the same key is told so."""
    hand.begin("a", key="k", holder="one")
    assert hand.begin("a", key="k", holder="two") == Busy("one", 1030.0, same_key=True)


def test_a_key_belongs_to_one_request(hand):
    """Another request under a used key is refused, and nothing is written."""
    hand.append(hand.begin("a", key="k"), "answer")
    with pytest.raises(KeyConflict):
        hand.begin("other", key="k", request=b"other")
    assert hand.texts() == ["a", "answer"]


def test_a_dead_turn_is_rejoined_without_a_second_question(hand):
    """The key of an abandoned turn takes it up where it stopped."""
    old = hand.begin("a", key="k")
    hand.append(old, "step", close=None)
    hand.now += 60
    again = hand.begin("a", key="k", holder="two")
    assert again.rejoined and (again.turn.first, again.turn.last) == (0, 1)
    hand.append(again, "answer")
    assert hand.texts() == ["a", "step", "answer"]
    with pytest.raises(LeaseLost):
        hand.append(old, "late")


def test_a_dead_turn_behind_later_messages_is_asked_anew(hand):
    """If others spoke meanwhile, the question stands again at the end and the former try is out of contexts."""
    hand.begin("a", key="k")
    hand.now += 60
    hand.turn("b", "to b")
    again = hand.begin("a", key="k")
    assert again.rejoined and again.turn.first == 3
    hand.append(again, "to a")
    assert hand.texts() == ["b", "to b", "a", "to a"]
    assert hand.texts(hidden=True) == ["a", "b", "to b", "a", "to a"]
    assert hand.begin("a", key="k").replayed
    assert [(t.first, t.status) for t in hand.store.turns(hand.key)] == [(3, "done"), (1, "done")]


def test_what_a_dead_turn_streamed_joins_the_transcript(hand):
    """A draft that a dead writer left becomes a partial entry of its turn."""
    begun = hand.begin("a")
    draft = new("half an ans", "assistant", meta={"partial": True})
    assert hand.store.keep_draft(hand.key, begun.turn.epoch, 0, draft, hand.now + 30)
    assert hand.texts() == ["a"]
    hand.now += 60
    hand.turn("b", "to b")
    assert hand.texts() == ["a", "half an ans", "b", "to b"]
    assert hand.store.range(hand.row, 1, 1)[0].partial
    assert [(t.first, t.last, t.status) for t in hand.store.turns(hand.key)] == [(2, 3, "done"), (0, 1, "interrupted")]


def test_a_rejoined_turn_puts_its_cut_off_answer_aside(hand):
    """The same key after a kill in mid-stream finds its question, and the half answer out of contexts."""
    begun = hand.begin("a", key="k")
    draft = new("half", "assistant", meta={"partial": True})
    hand.store.keep_draft(hand.key, begun.turn.epoch, 0, draft, hand.now + 30)
    hand.now += 60
    again = hand.begin("a", key="k")
    assert again.rejoined and (again.turn.first, again.turn.last) == (0, 1)
    assert hand.texts() == ["a"] and hand.texts(hidden=True) == ["a", "half"]
    hand.append(again, "whole")
    assert hand.texts() == ["a", "whole"]


def test_a_waiting_turn_is_taken_up_again(hand):
    """A waiting turn holds no lease, keeps its place, and goes on under a new epoch."""
    begun = hand.begin("a")
    hand.append(begun, "call", close="waiting")
    assert (hand.row.open_turn, hand.row.lease_until) == (0, 0.0)
    with pytest.raises(TurnClosed):
        hand.append(begun, "too late")
    again = hand.store.reopen(hand.key, 0, hand.lease("two"), mode="queue")
    assert again.turn.last == 1 and again.turn.epoch > begun.turn.epoch
    hand.append(again, "answer")
    with pytest.raises(TurnClosed):
        hand.store.reopen(hand.key, 0, hand.lease(), mode="queue")


def test_a_new_question_supersedes_a_waiting_turn(hand):
    """A waiting turn does not block; once passed over it cannot be taken up any more."""
    hand.append(hand.begin("a"), "call", close="waiting")
    hand.turn("b", "to b")
    assert [t.status for t in hand.store.turns(hand.key)] == ["done", "interrupted"]
    with pytest.raises(TurnClosed):
        hand.store.reopen(hand.key, 0, hand.lease(), mode="queue")
    hand.begin("c")
    hand.now += 60
    before = hand.store.turns(hand.key)
    with pytest.raises(TurnClosed):  # a refusal changes nothing, not even an abandoned turn
        hand.store.reopen(hand.key, 0, hand.lease(), mode="queue")
    assert hand.store.turns(hand.key) == before and before[0].status == "open"


def test_reopen_answers_a_message_that_no_turn_began_with(hand):
    """A user message at the end becomes a turn of its own; an answered one, and one that is not there, do not."""
    hand.add("first", new("hello", "assistant"), "last")
    begun = hand.store.reopen(hand.key, 2, hand.lease(), mode="queue")
    assert (begun.turn.first, begun.turn.last, begun.turn.status) == (2, 2, "open")
    hand.append(begun, "answer")
    assert hand.texts() == ["first", "hello", "last", "answer"]
    assert [(t.first, t.last, t.status) for t in hand.store.turns(hand.key)] == [(2, 3, "done")]
    for wrong, error in ((0, TurnClosed), (1, UnknownEntry), (9, UnknownEntry), (-1, UnknownEntry)):
        with pytest.raises(error):
            hand.store.reopen(hand.key, wrong, hand.lease(), mode="queue")


def test_a_closed_turn_takes_no_more(hand):
    """After its end nothing can be added to a turn, nor can it be closed a second time."""
    begun = hand.begin("a")
    hand.append(begun, "answer")
    for status in (None, "failed"):
        with pytest.raises(TurnClosed):
            hand.append(begun, "more", close=status)
    assert hand.texts() == ["a", "answer"] and hand.store.turns(hand.key)[0].status == "done"


def test_hide_from_hides_only_if_the_turn_begins(hand):
    """What a new turn replaces is hidden with its question; a refused turn hides nothing."""
    hand.turn("a", "to a")
    live = hand.begin("b", holder="one")
    assert isinstance(hand.begin("a", holder="two", hide_from=0), Busy)
    assert isinstance(hand.add("c", hide_from=0), Busy)
    assert hand.texts() == ["a", "to a", "b"]
    hand.append(live, "to b")
    hand.begin("b again", hide_from=2)
    assert hand.texts() == ["a", "to a", "b again"]


def test_state_and_ledger_are_written_with_the_step(hand):
    """State and usage are there exactly when the step is; a refused step leaves both alone."""
    begun = hand.begin("a")
    call = Call(model="m", input=7, output=2, raw={"n": 1})
    hand.append(begun, "x", close=None, state={"n": 1}, calls=[call])
    hand.begin("b", mode="interrupt")
    with pytest.raises(LeaseLost):
        hand.append(begun, "y", state={"n": 2}, calls=[call])
    assert hand.store.state(hand.key) == {"n": 1}
    owner, name, kept = hand.store.calls(hand.key)[0]
    assert len(hand.store.calls(hand.key)) == 1
    assert (owner, name, kept.input, kept.raw, kept.turn, kept.created) == ("", "t", 7, {"n": 1}, 0, 1000.0)


def test_reap_closes_an_abandoned_turn(hand):
    """A turn whose lease lapsed is closed by reap, a live or waiting one is not."""
    begun = hand.begin("a")
    assert not hand.store.reap(hand.key, hand.lease("two"))
    hand.now += 60
    assert hand.store.reap(hand.key, hand.lease("two"))
    assert not hand.store.reap(hand.key, hand.lease("two"))
    assert hand.row.open_turn is None and hand.store.turns(hand.key)[0].status == "interrupted"
    with pytest.raises(LeaseLost):
        hand.append(begun, "late")


def test_a_late_writer_cannot_revive_an_erased_thread(hand):
    """After an erasure the open turn's writer is refused, also when a new thread has begun under the id."""
    begun = hand.begin("a")
    hand.store.erase(hand.key, hand.now)
    with pytest.raises(ThreadErased):
        hand.append(begun, "late")
    assert hand.row is None
    hand.turn("anew", "fresh")
    with pytest.raises((LeaseLost, TurnClosed)):
        hand.append(begun, "late")
    assert hand.texts() == ["anew", "fresh"]


def test_manifests_stay_with_their_turns(hand):
    """A manifest is kept with its turn; a close without one keeps the former."""
    begun = hand.begin("a")
    store, epoch = hand.store, begun.turn.epoch
    store.append(hand.key, epoch, 0, [], hand.now, close=Close("waiting", b'{"policy":"a"}'))
    again = store.reopen(hand.key, 0, hand.lease(), mode="queue")
    hand.append(again, "x")
    assert store.turns(hand.key)[0].manifest == b'{"policy":"a"}'


def test_a_draft_belongs_to_an_open_turn(hand):
    """Only the writer of the open turn can renew its lease and leave a draft."""
    begun = hand.begin("q")
    turn = begun.turn

    def keep(epoch, first):
        return hand.store.keep_draft(hand.key, epoch, first, new("half"), hand.now + 30)

    assert keep(turn.epoch, turn.first)
    assert not keep(turn.epoch + 1, turn.first) and not keep(turn.epoch, turn.first + 1)
    hand.append(begun, "a", close="waiting")
    assert not keep(turn.epoch, turn.first)
    again = hand.store.reopen(hand.key, turn.first, hand.lease(), mode="queue")
    hand.append(again, "b")
    assert not keep(again.turn.epoch, turn.first)


def test_a_key_must_be_a_text_that_can_be_stored(hand):
    """An idempotency key that is empty, too long, or not well-formed is refused, and nothing is written."""
    for key in ("", "x" * 1001, "\ud800"):
        with pytest.raises(InvalidSpec):
            hand.begin("q", key=key)
    assert hand.row is None
