"""Forks share their past without a copy, and outlive what they were forked from; for every store."""

from __future__ import annotations

import pytest

from fix_stores import new
from novelo.errors import InvalidSpec, ThreadErased, UnknownEntry


def test_a_fork_shares_the_past_and_nothing_after_it(hand):
    """Both go their own ways behind the fork."""
    hand.turn("q1", "a1")
    hand.turn("q2", "a2")
    fork = hand.fork("f", 2)
    fork.turn("other", "way")
    hand.turn("q3", "a3")
    assert fork.texts() == ["q1", "a1", "other", "way"]
    assert hand.texts() == ["q1", "a1", "q2", "a2", "q3", "a3"]
    assert (fork.row.head, fork.row.turns, fork.row.running) == (4, 2, 12)
    assert [e.running for e in fork.store.tail(fork.row, 4, 4)] == [12, 9, 4, 2]
    assert [t.first for t in fork.store.turns(fork.key)] == [2]


def test_forks_of_forks(hand):
    """A chain of forks reads through all of them, wherever it was cut."""
    hand.add(*"abcdef")
    first = hand.fork("f1", 4)
    first.add("1", "2")
    second, short = first.fork("f2", 5), first.fork("f3", 2)
    second.add("x")
    short.add("y")
    assert second.texts() == ["a", "b", "c", "d", "1", "x"]
    assert short.texts() == ["a", "b", "y"]
    assert [e.text for e in second.store.tail(second.row, 5, 3)] == ["1", "d", "c"]
    assert [e.text for e in second.store.range(second.row, 3, 2)] == ["d", "1"]
    assert [e.text for e in second.store.entries(second.row, [5, 0, 4])] == ["x", "a", "1"]
    empty = second.fork("f4", 0)
    empty.add("alone")
    assert empty.texts() == ["alone"] and empty.row.turns == 1


def test_what_a_fork_takes_along(hand):
    """Title, tags, metadata, state, pins and hidden ranges below the fork come along; later changes do not."""
    hand.add(new("be kind", "system"), *"abcd")
    store = hand.store
    store.set_facts(hand.key, hand.names, hand.now, title="T", tags=["x"], metadata={"m": 1}, state={"s": [1]})
    store.pin(hand.key, [1, 4], True)
    store.hide(hand.key, [(2, 5)], True, hand.now)
    fork = hand.fork("f", 4)
    store.set_facts(hand.key, hand.names, hand.now, title="U", state={})
    store.hide(hand.key, [(0, 9)], False, hand.now)
    row = fork.row
    assert (row.title, row.tags, row.metadata, row.opening, row.pinned, row.hidden) == (
        "T",
        ("x",),
        {"m": 1},
        1,
        True,
        True,
    )
    assert store.state(fork.key) == {"s": [1]} and store.pins(fork.key) == [1]
    assert fork.texts() == ["be kind", "a"] and hand.texts() == ["be kind", "a", "b", "c", "d"]
    store.hide(fork.key, [(0, 9)], False, fork.now)
    assert fork.texts() == ["be kind", "a", "b", "c"]


def test_a_fork_needs_a_free_name_a_living_parent_and_a_place_in_it(hand):
    """Whatever cannot be is refused, and nothing is made."""
    hand.add("a")
    hand.other("taken").add("b")
    with pytest.raises(InvalidSpec):
        hand.fork("taken", 1)
    for at in (2, -1):
        with pytest.raises(UnknownEntry):
            hand.fork("f", at)
    row, other = hand.row, hand.other("f")
    hand.store.erase(hand.key, hand.now)
    with pytest.raises(ThreadErased):
        hand.store.fork(row, other.key, other.names, 1, 1.0)
    assert other.row is None


def test_a_shared_entry_is_removed_for_all(hand):
    """What is deleted in a fork is gone in the parent and in other forks, and all of them note the change."""
    hand.add("secret", "b")
    one, two = hand.fork("f1", 2), hand.fork("f2", 1)
    far = one.fork("f3", 2)
    versions = [h.row.content_version for h in (hand, one, two, far)]
    assert far.store.rewrite(far.row, {0: None}, 1.0) == 1
    assert [h.texts(hidden=True) for h in (hand, one, two, far)] == [[None, "b"], [None, "b"], [None], [None, "b"]]
    assert all(h.row.content_version > v for h, v in zip((hand, one, two, far), versions, strict=True))
    assert hand.store.search(["secret"], None, None, 9) == []


@pytest.mark.parametrize("forks", ["keep", "erase"])
def test_a_parent_is_erased(hand, forks):
    """What a fork shared moves to it, or is gone there too; what is its own stays either way."""
    hand.add(new("be kind", "system"), "common words", "c")
    fork = hand.fork("f", 2)
    fork.turn("own", "answer")
    far = fork.fork("g", 3)
    receipt = hand.store.erase(hand.key, 5.0, forks=forks)
    assert sorted(receipt.forks) == ["f", "g"] and hand.row is None  # the fork of the fork shared it as well
    shared = ["be kind", "common words"] if forks == "keep" else [None, None]
    assert fork.texts(hidden=True) == [*shared, "own", "answer"]
    assert far.texts(hidden=True) == [*shared, "own"]
    assert (fork.row.head, fork.row.turns, fork.row.running) == (4, 2, 28)
    hits = hand.store.search(["common"], fork.key, None, 9)
    assert [h.text for h in hits] == (["common words"] if forks == "keep" else [])
    fork.add("more")
    assert [e.position for e in fork.store.range(fork.row, 0, 9, hidden=True)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("forks", ["keep", "erase"])
def test_the_middle_of_a_chain_is_erased(hand, forks):
    """Only what the erased thread itself kept moves or goes; what all shared with the first stays shared."""
    hand.add("a", "b")
    middle = hand.fork("m", 2)
    middle.add("c", "d")
    last, early = middle.fork("l", 3), middle.fork("e", 1)
    last.add("z")
    hand.store.erase(middle.key, 5.0, forks=forks)
    assert hand.texts() == ["a", "b"]
    assert last.texts(hidden=True) == ["a", "b", "c" if forks == "keep" else None, "z"]
    assert early.texts() == ["a"]
    hand.store.rewrite(hand.row, {0: new("A")}, 6.0)
    assert last.texts()[0] == "A" == early.texts()[0]
    hand.store.erase(hand.key, 7.0, forks=forks)
    assert last.texts(hidden=True) == (["A", "b", "c", "z"] if forks == "keep" else [None, None, None, "z"])


def test_a_fork_is_erased(hand):
    """Erasing a fork leaves its parent alone, and its name can be used again."""
    hand.add("a", "b")
    fork = hand.fork("f", 1)
    fork.add("own")
    assert hand.store.erase(fork.key, 5.0).rows["entries"] == 1
    assert hand.texts() == ["a", "b"] and fork.row is None
    again = hand.fork("f", 2)
    assert again.texts() == ["a", "b"] and again.row.epoch > 0


def test_a_reader_of_a_fork_survives_its_parent(hand):
    """A row that was read before the parent went still leads to what was kept."""
    hand.add("a", "b")
    fork = hand.fork("f", 2)
    row = fork.row
    hand.store.erase(hand.key, 5.0, forks="keep")
    assert [e.text for e in hand.store.tail(row, 2, 9)] == ["b", "a"]
    assert [e.text for e in hand.store.range(row, 0, 9)] == ["a", "b"]


def test_ids_are_found_through_forks(hand):
    """An id is found where it is shared, and not behind the fork."""
    hand.add(_named("x"), _named("y"))
    fork = hand.fork("f", 1)
    fork.add(_named("z"))
    assert fork.store.find(fork.row, ["x", "y", "z"]) == {"x": 0, "z": 1}


def _named(name):
    return new(name, id=name)


@pytest.mark.parametrize("forks", ["keep", "erase"])
def test_several_forks_share_what_their_parent_leaves(hand, forks):
    """The fork that shared most takes the entries over, once; the others go on sharing them with it."""
    hand.add("a", "b", "c", "d")
    short, long, empty = hand.fork("short", 2), hand.fork("long", 4), hand.fork("empty", 0)
    short.add("x")
    before = [hand.other(f).row.content_version for f in ("short", "long", "empty")]
    receipt = hand.store.erase(hand.key, 5.0, forks=forks)
    assert receipt.rows["entries"] == 4 and sorted(receipt.forks) == ["long", "short"]
    kept = forks == "keep"
    assert long.texts(hidden=True) == (["a", "b", "c", "d"] if kept else [None] * 4)
    assert short.texts(hidden=True) == (["a", "b", "x"] if kept else [None, None, "x"])
    assert (short.row.parent, short.row.fork_at, long.row.parent) == (long.key, 2, None)
    assert empty.texts() == []
    after = [hand.other(f).row.content_version for f in ("short", "long", "empty")]
    assert [b - a for a, b in zip(before, after, strict=True)] == ([0, 0, 0] if kept else [1, 1, 0])
    hand.store.rewrite(long.row, {1: None}, 6.0)
    assert short.texts(hidden=True)[1] is None
