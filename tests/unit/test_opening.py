"""A turn that a broken connection left open under our own lease: who asks next does not wait for the lease to end."""

from __future__ import annotations

import threading

import pytest

import novelo
from novelo import LeaseLost, StorageUnavailable, ThreadBusy
from novelo.opening import Openings


@pytest.fixture
def memory():
    """A memory whose leases outlast every test, and whose callers do not wait."""
    with novelo.open("memory://", lease_s=3600.0, on_busy="reject") as memory:
        yield memory


def breaks(memory, name, times, done):
    """The store's next calls of that name are done or not, and their answers are lost."""
    store = memory.store
    told, left = getattr(store, name), [times]

    def lost(*args, **more):
        left[0] -= 1
        if not left[0]:
            setattr(store, name, told)
        if done:
            told(*args, **more)
        raise StorageUnavailable("the connection broke")

    setattr(store, name, lost)


@pytest.mark.parametrize("key", ["same", "another", None])
def test_a_begin_whose_answer_is_lost(memory, key):
    """The turn was stored and nobody holds it: the same request goes on with it, another one follows it, at once."""
    thread = memory.thread("t")
    breaks(memory, "begin", 1, done=True)
    with pytest.raises(StorageUnavailable), thread.turn("one?", key="same"):
        pass
    with thread.turn("one?", key=key) as turn:
        turn.messages()
        turn.reply("yes")
    assert turn.rejoined == (key == "same")
    assert [m.text for m in thread.messages()] == ["one?", "yes"] if key == "same" else ["one?", "one?", "yes"]


def test_an_answer_that_could_not_be_stored(memory):
    """Neither the reply nor the end of the turn reached the store: the next turn begins at once, and marks this one."""
    thread = memory.thread("t")
    with pytest.raises(StorageUnavailable), thread.turn("one?") as turn:
        turn.messages()
        breaks(memory, "append", 2, done=False)  # of the reply, and of the end
        turn.reply("lost")
    with thread.turn("two?") as turn:
        turn.reply("yes")
    assert [row.status for row in thread.turns()] == ["interrupted", "done"]


def test_a_turn_that_is_held_is_not_taken(memory):
    """While somebody here holds the turn, the thread is busy for all others."""
    thread = memory.thread("t")
    with thread.turn("one?") as turn:
        with pytest.raises(ThreadBusy), thread.turn("two?"):
            pass
        turn.reply("yes")
    assert [m.text for m in thread.messages()] == ["one?", "yes"]


def test_who_is_about_to_open_one_counts():
    """A turn that is in the store and not yet held, since its opener is on the way, is no left one."""
    openings = Openings()
    with openings.of(b"t"):
        assert openings.alone(b"t")
        with openings.of(b"t"), openings.of(b"u"):
            assert not openings.alone(b"t") and openings.alone(b"u")
        assert openings.alone(b"t")


def test_many_threads_of_one_memory_lose_no_turn():
    """Turns of one memory that wait for each other are never taken for left ones, however close they follow."""
    with novelo.open("memory://", lease_s=3600.0, queue_s=60.0) as memory:
        failures = []

        def talk(name):
            for k in range(40):
                try:
                    with memory.thread("t").turn(f"{name}{k}") as turn:
                        turn.reply(f"to {name}{k}")
                except LeaseLost as error:
                    failures.append(error)

        running = [threading.Thread(target=talk, args=(name,)) for name in "abcdef"]
        for one in running:
            one.start()
        for one in running:
            one.join()
        assert failures == []
        assert len(memory.thread("t")) == 2 * 6 * 40
