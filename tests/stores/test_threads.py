"""Reading and changing threads, for every store."""

from __future__ import annotations

import threading

import pytest

from fix_stores import new
from novelo.errors import InvalidMessage, InvalidSpec, StorageUnavailable, ThreadErased, UnknownEntry
from novelo.messages import Message, Other
from novelo.stores.base import Begun, Close, NewEntry
from novelo.stores.search import query_words


def test_positions_are_counted_up_from_zero(hand):
    """Turns, running tokens and positions go on from entry to entry, whoever wrote it."""
    hand.add(new("be kind", "system"), new("hi", "assistant"))
    hand.turn("q1", "a1")
    found = hand.store.range(hand.row, 0, 100)
    assert [(e.position, e.turn, e.running) for e in found] == [(0, 0, 7), (1, 0, 9), (2, 1, 11), (3, 1, 13)]
    assert (hand.row.opening, hand.row.turns, hand.row.running) == (1, 1, 13)


def test_the_opening_is_the_system_messages_at_the_head(hand):
    """System messages count as opening only as long as nothing else was said."""
    hand.add(new("one", "system"))
    hand.add(new("two", "system"), "q", new("three", "system"))
    assert hand.row.opening == 2


def test_tail_and_range_read_pieces(hand):
    """Reading in pieces from either end gives each entry once, without hidden and deleted ones unless asked for."""
    hand.add(*[f"m{i}" for i in range(10)])
    store, row = hand.store, hand.row
    store.hide(hand.key, [(2, 4), (7, 8)], True, hand.now)
    store.rewrite(row, {5: None}, hand.now)
    row = hand.row
    assert [e.position for e in store.tail(row, 10, 3)] == [9, 8, 6]
    assert [e.position for e in store.tail(row, 6, 9)] == [4, 1, 0]
    assert [e.position for e in store.range(row, 1, 3)] == [1, 4, 6]
    assert [e.position for e in store.range(row, 2, 4, hidden=True)] == [2, 3, 4, 5]
    assert [e.hidden for e in store.range(row, 1, 3, hidden=True)] == [False, True, True]
    assert store.range(row, 10, 5) == [] == store.tail(row, 0, 5) == store.tail(row, 10, 0)


def test_a_row_that_was_read_sees_no_later_entries(hand):
    """What came after the row was read stays unseen."""
    hand.add("a", "b")
    row = hand.row
    hand.add("c")
    assert [e.text for e in hand.store.range(row, 0, 9)] == ["a", "b"]
    assert [e.text for e in hand.store.tail(row, 99, 9)] == ["b", "a"]


def test_entries_by_position(hand):
    """Entries come in the order asked for, hidden and deleted ones too; a position that is not there is an error."""
    hand.add("a", "b", "c")
    hand.store.hide(hand.key, [(0, 1)], True, hand.now)
    hand.store.rewrite(hand.row, {1: None}, hand.now)
    found = hand.store.entries(hand.row, [2, 0, 1])
    assert [(e.position, e.hidden, e.deleted) for e in found] == [(2, False, False), (0, True, False), (1, False, True)]
    with pytest.raises(UnknownEntry):
        hand.store.entries(hand.row, [3])


def test_messages_come_back_equal(hand):
    """Everything a message can hold comes back equal, with its time to the millisecond."""
    message = Message(
        "assistant",
        (Other(value={"a": [1, None, "ж"]}),),
        name="x",
        id="m1",
        extra={"k": {"n": 1.5}},
        meta={"made": "y"},
    )
    hand.add(_entry(message), created=[12.345])
    found = hand.store.range(hand.row, 0, 1)[0]
    assert found.message == message and found.created == 12.345 and found.id == "m1"


def test_nothing_is_stored_of_a_list_with_one_bad_message(hand):
    """A message that is no data refuses the whole list (FR-87)."""
    hand.add("keep me")
    with pytest.raises(InvalidMessage):
        hand.add("fine", _entry(Message("user", "bad", extra={"x": object()})))
    assert hand.texts() == ["keep me"] and hand.row.head == 1


def test_ids_are_found(hand):
    """A message's id leads to its newest position; unknown ids are left out."""
    hand.add(_entry(Message("user", "a", id="x")), "b", _entry(Message("user", "c", id="x")))
    assert hand.store.find(hand.row, ["x", "y"]) == {"x": 2}


def test_hiding_and_showing_again(hand):
    """Ranges are hidden and shown piece by piece."""
    hand.add(*"abcdef")
    hide = hand.store.hide
    hide(hand.key, [(1, 5)], True, hand.now)
    assert hand.texts() == ["a", "f"] and hand.row.hidden
    hide(hand.key, [(2, 3), (4, 9)], False, hand.now)
    assert hand.texts() == ["a", "c", "e", "f"]
    hide(hand.key, [(0, 9)], False, hand.now)
    assert hand.texts() == list("abcdef") and not hand.row.hidden


def test_pins(hand):
    """Pins are a set, and the row tells whether there are any."""
    hand.add("a", "b")
    hand.store.pin(hand.key, [1, 0, 1], True)
    assert hand.store.pins(hand.key) == [0, 1] and hand.row.pinned
    hand.store.pin(hand.key, [0, 1], False)
    assert hand.store.pins(hand.key) == [] and not hand.row.pinned


def test_a_thread_that_is_not_there_cannot_be_marked(hand):
    """Pins and hiding need a thread, and leave nothing behind under an erased one's key."""
    hand.add("a")
    hand.store.erase(hand.key, hand.now)
    for call in (lambda: hand.store.pin(hand.key, [0], True), lambda: hand.store.hide(hand.key, [(0, 1)], True, 1.0)):
        with pytest.raises(UnknownEntry):
            call()
    assert hand.store.pins(hand.key) == []


def test_facts(hand):
    """Facts are set one by one, the state by single keys too; what is unknown or no data is refused."""
    hand.store.set_facts(hand.key, hand.names, 5.0, title="T", tags=["a", "b"], metadata={"m": 1}, state={"x": 1})
    hand.store.set_facts(hand.key, hand.names, 6.0, patch={"y": [2]})
    hand.store.set_facts(hand.key, hand.names, 7.0, without="x")
    row = hand.row
    assert (row.title, row.tags, row.metadata, row.head, row.created, row.updated) == (
        "T",
        ("a", "b"),
        {"m": 1},
        0,
        5,
        7,
    )
    assert hand.store.state(hand.key) == {"y": [2]}
    for wrong in ({"colour": 1}, {"state": {"x": object()}}, {"metadata": {"x": {1, object()}}}):
        with pytest.raises(InvalidSpec):
            hand.store.set_facts(hand.key, hand.names, 8.0, **wrong)
    assert hand.store.state(hand.key) == {"y": [2]}


def test_what_was_given_can_be_changed_without_harm(hand):
    """A store keeps copies: changing what went in or came out changes nothing inside."""
    state = {"x": [1]}
    hand.store.set_facts(hand.key, hand.names, 5.0, state=state)
    state["x"].append(2)
    hand.store.state(hand.key)["x"].append(3)
    assert hand.store.state(hand.key) == {"x": [1]}


def test_keys_are_names_of_one_owner(hand):
    """Equal ids of two owners are two threads; what is no name is refused."""
    assert hand.store.key_of("a", "b") != hand.store.key_of("b", "a") != hand.store.key_of("", "ba")
    assert hand.store.key_of("ab", "c") != hand.store.key_of("a", "bc")
    for owner, name in (("", ""), ("", "x" * 1001), ("", 7), ("x" * 1001, "t"), ("", "\ud83d"), (None, "t")):
        with pytest.raises(InvalidSpec):
            hand.store.key_of(owner, name)


def test_threads_are_listed_and_paged(hand):
    """The last used comes first, pages do not overlap even where all times are equal, filters hold."""
    for i in range(7):
        one = hand.other(f"t{i}", owner="o" if i % 2 else "p")
        one.add("x")
        one.store.set_facts(one.key, one.names, hand.now, title=f"Título {i}", tags=["odd"] if i % 2 else [])
    hand.other("new", "o").now = hand.now
    listed = _pages(hand.store, 2)
    assert len(listed) == 7 == len({row.key for row in listed})
    assert {row.thread_id for row in _pages(hand.store, 2, owner="o")} == {"t1", "t3", "t5"}
    assert {row.thread_id for row in _pages(hand.store, 1, tag="odd")} == {"t1", "t3", "t5"}
    assert {row.thread_id for row in _pages(hand.store, 3, search="titulo 4")} == {"t4"}
    later = hand.other("t3", "o")
    later.now += 5
    later.add("y")
    assert _pages(hand.store, 3)[0].thread_id == "t3"


def test_search_finds_all_words_in_any_script(hand):
    """All the words must be there; accents and case do not matter; owners and threads are kept apart."""
    hand.add("O reembolso foi CONCLUÍDO ontem", "可以退货吗", "concluido, mas sem reembolso")
    hand.other("elsewhere", "other").add("reembolso concluído")
    found = lambda words, key=None, owner=None: sorted(  # noqa: E731
        h.text for h in hand.store.search(query_words(words), key, owner, 10)
    )
    assert found("reembolso concluido", hand.key) == ["O reembolso foi CONCLUÍDO ontem", "concluido, mas sem reembolso"]
    assert found("退货") == ["可以退货吗"]
    assert found("货退") == [] == found("reembolso", owner="nobody")
    assert found("reembolso", owner="other") == ["reembolso concluído"]
    assert len(found("concluído")) == 3


def test_one_owner_is_found_among_many(hand):
    """However much others said about it, an owner's own message is found."""
    for i in range(30):
        hand.other(f"t{i}", "loud").add("refund")
    hand.other("mine", "quiet").add("a long message that speaks of many things and only at its end of a refund")
    assert [h.thread_id for h in hand.store.search(["refund"], None, "quiet", 2)] == ["mine"]


def test_rewriting_removes_and_replaces(hand):
    """A body is replaced or gone, in the search too; place, role and sums stay; a deleted one stays deleted."""
    hand.add("secret one", "secret two", "three")
    before = hand.row
    assert hand.store.rewrite(hand.row, {0: None, 1: new("masked"), 9: None}, hand.now) == 2
    assert hand.store.rewrite(hand.row, {0: new("back")}, hand.now) == 0
    assert hand.texts(hidden=True) == [None, "masked", "three"]
    assert [e.running for e in hand.store.range(hand.row, 0, 9, hidden=True)] == [10, 20, 25]
    assert hand.store.search(["secret"], hand.key, None, 9) == []
    assert [h.text for h in hand.store.search(["masked"], hand.key, None, 9)] == ["masked"]
    assert (hand.row.head, hand.row.running) == (before.head, before.running)
    assert hand.row.content_version > before.content_version


def test_erasing_leaves_nothing_but_a_fence(hand):
    """Everything of an erased thread is gone, the receipt counts it, and erasing again is harmless."""
    hand.turn("secret", "answer")
    hand.store.pin(hand.key, [0], True)
    hand.store.set_facts(hand.key, hand.names, hand.now, title="secret", state={"s": 1})
    receipt = hand.store.erase(hand.key, hand.now)
    assert (receipt.rows["entries"], receipt.rows["turns"], receipt.rows["pins"]) == (2, 1, 1)
    assert hand.row is None and hand.store.state(hand.key) == {} and hand.store.turns(hand.key) == []
    assert hand.store.search(["secret"], None, None, 9) == [] == _pages(hand.store, 5)
    assert hand.store.erase(hand.key, hand.now).rows == {}
    hand.turn("anew", "b")
    assert hand.texts() == ["anew", "b"] and hand.row.title == "" and hand.store.state(hand.key) == {}
    assert hand.row.epoch > 1


def test_a_reader_of_an_erased_thread_is_told_so(hand):
    """A row that was read before the erasure leads to ThreadErased, not to damage that is not there."""
    hand.add("a", "b")
    row = hand.row
    hand.store.erase(hand.key, hand.now)
    for read in (lambda: hand.store.tail(row, 2, 5), lambda: hand.store.range(row, 0, 5)):
        with pytest.raises(ThreadErased):
            read()


def test_a_closed_store_says_so(hand):
    """After close every call is refused as unavailable; closing again is harmless."""
    hand.add("a")
    row = hand.row
    hand.store.close()
    hand.store.close()
    for call in (lambda: hand.row, lambda: hand.add("b"), lambda: hand.store.tail(row, 1, 1)):
        with pytest.raises(StorageUnavailable):
            call()


def test_many_threads_of_execution_share_a_store(hand):
    """Writers in several threads of execution lose nothing and double nothing, in memory too (FR-85)."""
    wrong = []

    def work(number):
        try:
            mine = hand.other(f"own{number}")
            for i in range(10):
                shared = hand.add(f"{number}-{i}")
                assert isinstance(shared, int)
                mine.turn(f"q{i}", f"a{i}")
        except Exception as error:
            wrong.append(error)

    crew = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert not wrong
    assert sorted(hand.texts()) == sorted(f"{n}-{i}" for n in range(4) for i in range(10))
    assert hand.other("own2").texts() == [t for i in range(10) for t in (f"q{i}", f"a{i}")]


def test_a_snapshot_sees_one_state(hand):
    """Reads inside a snapshot agree with each other."""
    hand.add("a")
    with hand.store.snapshot():
        row = hand.row
        assert [e.text for e in hand.store.range(row, 0, 9)] == ["a"] and hand.store.thread(hand.key) == row
    assert hand.store.scrub()


def test_nothing_is_written_when_a_step_cannot_be(hand):
    """A step with a message that is no data leaves the turn as it was, still open (FR-87)."""
    begun = hand.begin("q")
    assert isinstance(begun, Begun)
    with pytest.raises(InvalidMessage):
        hand.store.append(
            hand.key, begun.turn.epoch, 0, [new("ok"), _entry(Message("assistant", extra={"x": object()}))], hand.now,
            close=Close("done"),
        )  # fmt: skip
    assert hand.texts() == ["q"] and hand.row.open_turn == 0
    hand.append(begun, "a")
    assert hand.texts() == ["q", "a"]


def _entry(message):
    made = new("")
    return made.__class__(message, 1, "")


def _pages(store, limit, **filters):
    """All threads, page by page."""
    chosen = {"owner": None, "search": None, "tag": None} | filters
    out, cursor = [], None
    while page := store.threads(**chosen, limit=limit, cursor=cursor):
        out += page
        cursor = (page[-1].updated, page[-1].key)
    return out


def test_manifests_do_not_outlive_what_they_quote(hand):
    """What is removed goes from manifests that could quote it, here and in forks; other manifests stay as they are."""
    quoting = b'{"policy":"buffer","question":"what did Ana say?","passages":[{"text":"Ana said so"}],'
    quoting += b'"retrieved":{"queries":["what did Ana say?"]},"end":2}'
    plain = b'{"policy": "buffer", "end": 2}'
    for manifest in (quoting, plain, quoting):
        begun = hand.begin("q")
        hand.append(begun, "a", close=None)
        hand.store.append(hand.key, begun.turn.epoch, begun.turn.first, [], 1.0, close=Close("done", manifest))
    fork = hand.fork("f", 4)
    begun = fork.begin("q")
    hand.store.append(fork.key, begun.turn.epoch, begun.turn.first, [], 1.0, close=Close("done", quoting))
    hand.store.rewrite(hand.row, {3: None}, 2.0)
    clean = b'{"policy":"buffer","end":2}'
    assert [t.manifest for t in hand.store.turns(hand.key)] == [clean, plain, quoting]
    assert [t.manifest for t in hand.store.turns(fork.key)] == [clean]


def test_a_closed_thread_is_opened_by_its_next_turn(hand):
    """Closing is a note: it can be read and marked, its open turn goes on, and whoever speaks next opens it."""
    begun = hand.begin("q")
    hand.store.set_facts(hand.key, hand.names, 2.0, status="closed")
    hand.append(begun, "a")
    hand.store.set_facts(hand.key, hand.names, 3.0, title="x")
    assert hand.row.status == "closed"
    hand.turn("again", "b")
    assert hand.row.status == "active"
    hand.store.set_facts(hand.key, hand.names, 4.0, status="closed")
    hand.add("c")
    assert hand.row.status == "active"


@pytest.mark.parametrize(
    "facts",
    [{"status": "erased"}, {"title": 5}, {"title": "\ud800"}, {"tags": "abc"}, {"state": [1]}, {"patch": None},
     {"metadata": {"f": print}}, {"colour": "red"}],
    ids=lambda facts: next(iter(facts)),
)  # fmt: skip
def test_facts_of_the_wrong_kind_are_refused(hand, facts):
    """A fact that is no such fact, or no data, is an InvalidSpec, and makes no thread."""
    with pytest.raises(InvalidSpec):
        hand.store.set_facts(hand.key, hand.names, 1.0, **facts)
    assert hand.row is None


def test_names_that_cannot_be_stored_find_nothing(hand):
    """Half a pair of surrogates, quotes, operators in filters, words and ids find nothing, and break nothing."""
    hand.add("words near others")
    store = hand.store
    for odd in ("\ud800", "' OR 1=1 --", '"', "NEAR(a b)", "words:near", "a*", "\0"):
        assert store.threads(owner=odd, search=None, tag=None, limit=9, cursor=None) == []
        assert store.threads(owner=None, search=None, tag=odd, limit=9, cursor=None) == []
        assert store.search([odd], None, None, 9) == store.search(["words"], None, odd, 9) == []
        assert store.calls(None, odd) == [] and store.find(hand.row, [odd]) == {}
    assert [h.text for h in store.search(query_words("NEAR(words)"), hand.key, None, 9)] == ["words near others"]


def test_places_outside_of_a_thread(hand):
    """Reading beyond either end gives what is there; hiding is cut to it; a pin needs an entry."""
    hand.add("a", "b")
    row = hand.row
    assert [e.text for e in hand.store.tail(row, 10**20, 9)] == ["b", "a"]
    assert [e.text for e in hand.store.range(row, -5, 9)] == ["a", "b"]
    assert hand.store.tail(row, -5, 9) == hand.store.range(row, 99, 9) == hand.store.tail(row, 9, 0) == []
    hand.store.hide(hand.key, [(-9, 1), (7, 10**20)], True, 1.0)
    hand.add("c", "d")
    assert hand.texts() == ["b", "c", "d"]
    for place in (-1, 4, 10**20):
        with pytest.raises(UnknownEntry):
            hand.store.pin(hand.key, [0, place], True)
    assert hand.store.pins(hand.key) == []
    with pytest.raises(InvalidSpec):
        hand.store.add(hand.key, hand.names, [NewEntry(Message("user", "x"), 1 << 63)], hand.lease())
    assert hand.row.head == 4


def test_a_hit_says_where_its_words_stand(hand):
    """The spans of a hit are the words in the text as it was written."""
    hand.add("O reembolso já foi CONCLUÍDO; 可以退货吗")
    for words, found in (
        ("concluido", ["CONCLUÍDO"]),
        ("退货吗 reembolso", ["reembolso", "退货吗"]),
        ("吗", ["吗"]),  # the last sign, which begins no pair
    ):
        [hit] = hand.store.search(query_words(words), hand.key, None, 9)
        assert [hit.text[a:b] for a, b in hit.spans] == found


ODD_NAMES = (
    "../../x", "/etc/passwd", "'; DROP TABLE threads; --", "a\0b", "a\0c", "\u202eabc", "é", "e\u0301", "É", "x" * 1000,
    "%", "_", "*", '"', "NULL", " ", "👩‍👩‍👧", "\n",
)  # fmt: skip


def test_every_odd_name_is_a_thread_of_its_own(hand):
    """Names that look like paths, statements or patterns, or differ in case or composition only, stay apart."""
    handles = [hand.other(name, owner) for name in ODD_NAMES for owner in ("", name)]
    for number, one in enumerate(handles):
        one.add(f"text {number}")
    assert len({one.key for one in handles}) == len(handles)
    for number, one in enumerate(handles):
        assert one.texts() == [f"text {number}"]
        assert (one.row.owner, one.row.thread_id) == one.names
    for name in ODD_NAMES:
        assert [row.thread_id for row in _pages(hand.store, 9, owner=name)] == [name]
    assert len(_pages(hand.store, 5)) == len(handles)
