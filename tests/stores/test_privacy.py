"""Removing, on every store: holds, the audit, kept spending, masks over all that is kept, and retention."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from fix_stores import new
from novelo.errors import InvalidSpec, ThreadErased, ThreadHeld, UnknownEntry
from novelo.stores.base import Close, Cut, Note
from novelo.summaries import Summary
from novelo.usage import Call, Spent

ALL = Cut(1e9, 1e9, 1e9)
DPO = Note("dpo", "DSR-17")


def mask(text):
    """Takes one word out."""
    return text.replace("canary", "[redacted]")


def encrypted(hand):
    """Whether the store is an encrypted one."""
    return type(getattr(hand.store, "database", None)).__name__ == "EncryptedDatabase"


def summarized(hand, text="they spoke", upto=None):
    """A summary of the thread's beginning, in use."""
    row = hand.row
    made = Summary(text=text, upto=row.head if upto is None else upto, covered=((0, row.head),), messages=row.head)
    return hand.store.swap_summary(hand.key, hand.store.base_of(row, made.upto), made, hand.now)


# ---------------------------------------------------------------------------------------------- holds
def test_a_hold_refuses_every_removal(hand):
    """A held thread keeps everything: erase, rewrite, retention and dropped texts are refused; released, they pass."""
    hand.add("one", "two")
    summarized(hand)
    hand.store.hold(hand.key, hand.now, "case 12")
    with pytest.raises(ThreadHeld) as found:
        hand.store.erase(hand.key, 5.0)
    assert (found.value.reason, found.value.since) == ("case 12", hand.now)
    for bodies, more in (({0: None}, {}), ({0: new("x")}, {}), ({}, {"mask": mask})):
        with pytest.raises(ThreadHeld):
            hand.store.rewrite(hand.row, bodies, 5.0, **more)
    assert hand.store.erase_due([(hand.row, DPO)], 5.0) == [] and hand.store.drop_texts(hand.row, 5.0) is None
    assert hand.texts() == ["one", "two"]
    assert [(h.scope, h.reason, h.owner) for h in hand.store.holds()] == [(hand.key, "case 12", False)]
    assert hand.store.release(hand.key, 6.0) and not hand.store.release(hand.key, 6.0)
    assert hand.store.rewrite(hand.row, {0: None}, 7.0) == 1 and hand.store.erase(hand.key, 8.0).rows["entries"] == 2


def test_an_owners_hold_holds_threads_and_documents(hand):
    """What is held by its owner stays, also a thread that is made later; others' threads go."""
    mine, theirs = hand.other("a", "ana"), hand.other("a", "bob")
    mine.add("x"), theirs.add("x")
    scope = hand.store.owner_key("ana")
    hand.store.hold(scope, 1.0, "", owner="ana")
    later = hand.other("b", "ana")
    later.add("y")
    for one in (mine, later):
        with pytest.raises(ThreadHeld):
            one.store.erase(one.key, 2.0)
    assert hand.store.erase(theirs.key, 2.0).number and hand.store.holds([scope])[0].owner
    docs = hand.store.documents
    key = docs.key_of("ana", "d")
    if encrypted(hand):  # which takes no documents
        return
    docs.put(key, ("ana", "d"), [], 1.0)
    with pytest.raises(ThreadHeld):
        docs.erase(key, 2.0)
    assert hand.store.release(scope, 3.0, owner="ana") and docs.erase(key, 4.0, DPO)["sources"] == 0
    assert hand.store.audit(1)[0].action == "collection" and hand.store.audit_check()[1] == []


def test_what_a_held_fork_shares_stays(hand):
    """Erasing a parent, or an entry of it, would take content of a held fork: it is refused, or moves to the fork."""
    hand.add("one", "two")
    fork = hand.fork("f", 2)
    hand.store.hold(fork.key, 1.0, "")
    with pytest.raises(ThreadHeld):
        hand.store.erase(hand.key, 2.0)
    with pytest.raises(ThreadHeld):
        hand.store.rewrite(hand.row, {0: None}, 2.0)
    assert hand.store.erase(hand.key, 2.0, forks="keep").forks == ("f",)
    assert fork.texts() == ["one", "two"]


def test_a_hold_needs_a_thread_and_a_short_reason(hand):
    """No thread, no hold; a reason is a short text."""
    with pytest.raises(UnknownEntry):
        hand.store.hold(hand.key, 1.0, "")
    hand.add("x")
    for reason in ("x" * 201, None, "\ud800"):
        with pytest.raises(InvalidSpec):
            hand.store.hold(hand.key, 1.0, reason)
    hand.store.hold(hand.key, 1.0, "first")
    hand.store.hold(hand.key, 2.0, "second")
    assert [(h.since, h.reason) for h in hand.store.holds()] == [(1.0, "second")]


def test_a_late_reader_of_documents_revives_nothing(hand):
    """What was being read in while the collection was erased is not stored; who begins later makes it anew."""
    docs = hand.store.documents
    key = docs.key_of("ana", "d")
    if encrypted(hand):
        pytest.skip("an encrypted store takes no documents")
    docs.put(key, ("ana", "d"), [], 10.0, since=9.0)
    docs.erase(key, 20.0)
    with pytest.raises(ThreadErased):
        docs.put(key, ("ana", "d"), [], 21.0, since=19.0)
    assert docs.collection(key) is None
    docs.put(key, ("ana", "d"), [], 22.0, since=20.5)
    assert docs.collection(key) is not None


# ---------------------------------------------------------------------------------------------- the audit
def test_the_audit_tells_acts_without_names(hand):
    """Each removal, hold and release is one act in a whole chain: who, when, what, on which key, counts, why."""
    talk = hand.other("thread-canary", "owner-canary")
    talk.add("canary one", "two")
    hand.store.hold(talk.key, 1.0, "case", DPO)
    hand.store.release(talk.key, 2.0, DPO)
    changed = hand.store.rewrite(talk.row, {0: None}, 3.0, note=DPO)
    receipt = hand.store.erase(talk.key, 4.0, note=DPO)
    rows = hand.store.audit()
    assert [(r.number, r.at, r.action) for r in rows] == [
        (4, 4.0, "erase"), (3, 3.0, "messages"), (2, 2.0, "release"), (1, 1.0, "hold"),
    ]  # fmt: skip
    assert (changed.receipt.number, receipt.number, changed.receipt.kind) == (3, 4, "messages")
    assert {(r.who, r.why, r.scope) for r in rows} == {("dpo", "DSR-17", talk.key)}
    assert rows[0].counts["entries"] == 2 and rows[1].counts["entries"] == 1
    assert "canary" not in str(msgspec.to_builtins(rows))
    assert [r.number for r in hand.store.audit(2, before=4)] == [3, 2]
    assert hand.store.audit(scope=hand.key) == [] and hand.store.audit_check() == (4, [])


def test_nothing_done_is_no_act(hand):
    """A removal that finds nothing leaves no act, and its receipt has no number."""
    hand.add("one")
    assert hand.store.erase(hand.other("no").key, 1.0).number == 0
    assert hand.store.rewrite(hand.row, {}, 1.0, mask=mask).receipt.number == 0
    assert hand.store.rewrite(hand.row, {0: None}, 1.0) == 1 and hand.store.rewrite(hand.row, {0: None}, 1.0) == 0
    assert hand.store.audit_check() == (1, [])


@pytest.mark.parametrize("attack", ["UPDATE audit SET who = 'x' WHERE number = 2", "DELETE FROM audit WHERE number = 2",
                                    "DELETE FROM audit WHERE number = 3"])  # fmt: skip
def test_an_altered_audit_is_found(file_memory, attack):
    """A row that was altered, taken out of the middle, or cut off at the end breaks the chain at its number."""
    for name in "abc":
        file_memory.thread(name).append("x")
        file_memory.thread(name).erase()
    assert file_memory.audit_check() == (3, [])
    with file_memory.store.database.writing() as db:
        db.execute(attack)
    count, broken = file_memory.audit_check()
    assert count == 3 and broken[0] == (3 if "3" in attack else 2)


def test_whoever_keeps_a_ledger_is_told_before_it_is_stored(hand):
    """The hook gets each removal inside its transaction: if it raises, nothing goes."""
    hand.add("one", "two")
    told = []
    hand.store.on_erased = told.append
    hand.store.rewrite(hand.row, {1: None}, 2.0)
    hand.store.erase(hand.key, 3.0)
    assert [(g.key, g.kind, g.now, g.born, g.places) for g in told] == [
        (hand.key, "messages", 2.0, hand.now, (1,)), (hand.key, "thread", 3.0, hand.now, ()),
    ]  # fmt: skip

    def fails(gone):
        raise OSError("the ledger is full")

    hand.add("three")
    hand.store.on_erased = fails
    with pytest.raises(OSError, match="ledger"):
        hand.store.erase(hand.key, 4.0)
    if type(hand.store).__name__ != "ReferenceStore":  # which has no transactions to roll back
        assert hand.texts() == ["three"]


# ---------------------------------------------------------------------------------------------- kept spending
def test_what_an_erased_thread_has_spent_stays_in_its_owners_limits(hand):
    """Tokens and cost of an erased thread count for its owner, ever and by the hour; forgetting the owner ends it."""
    hand = hand.other("t", "ana")
    hand.now = 100_000.0
    begun = hand.begin()
    calls = [Call(input=7, output=3, cost=Decimal("0.000123456789")), Call(input=1, output=1)]
    answer = [new("a", "assistant")]
    hand.store.append(hand.key, begun.turn.epoch, 0, answer, hand.now, close=Close("done"), calls=calls)
    spent = Spent(12, Decimal("0.000123456789"))
    assert hand.store.spent(None, "ana", 0.0) == spent
    hand.store.erase(hand.key, hand.now + 5)
    for since in (0.0, hand.now - 1, hand.now):
        assert hand.store.spent(None, "ana", since) == spent
    assert hand.store.spent(None, "ana", hand.now + 1) == Spent() and hand.store.spent(None, "bob", 0.0) == Spent()
    assert hand.store.spent(hand.key, "ana", 0.0) == Spent()
    again = hand.begin()
    hand.append(again, "b")
    hand.store.erase(hand.key, hand.now + 6)
    assert hand.store.spent(None, "ana", 0.0) == spent
    assert hand.store.forget_owner("ana", hand.now, {}, DPO).rows == {"spent": 1}
    assert hand.store.spent(None, "ana", 0.0) == Spent() and hand.store.audit(1)[0].action == "owner"
    assert hand.store.forget_owner("ana", hand.now, {}).number == 0


# ---------------------------------------------------------------------------------------------- masks
def test_a_mask_goes_over_all_that_is_kept(hand):
    """Title, tags, metadata, state, drafts, manifests, summaries and their facts; places and counts stay."""
    from novelo.facts import Fact

    begun = hand.begin("hello")
    manifest = msgspec.json.encode({"policy": "buffer", "question": "the canary?", "system": "canary rules", "end": 3})
    hand.append(begun, "fine", calls=())
    second = hand.begin("again")
    hand.store.append(
        hand.key, second.turn.epoch, second.turn.first, [new("so", "assistant")], hand.now,
        close=Close("done", manifest),
    )  # fmt: skip
    facts = (Fact("name", "canary bird", 0), Fact("name", "other", 0))
    made = Summary(text="a canary came", upto=2, covered=((0, 2),), messages=2, facts=facts, lost=facts[:1])
    hand.store.swap_summary(hand.key, hand.store.base_of(hand.row, 2), made, hand.now)
    third = hand.begin("and?")
    hand.store.keep_draft(hand.key, third.turn.epoch, third.turn.first, new("the canary s", "assistant"), hand.now + 9)
    hand.store.set_facts(
        hand.key, hand.names, hand.now, title="My canary", tags=["x", "canary"],
        metadata={"canary": [1, {"k": "canary"}]}, state={"note": "canary", "n": 5},
    )  # fmt: skip
    before = hand.row
    done = hand.store.rewrite(before, {}, hand.now, mask=mask)
    row = hand.row
    assert (row.title, row.tags) == ("My [redacted]", ("x", "[redacted]"))
    assert row.metadata == {"[redacted]": [1, {"k": "[redacted]"}]}
    assert hand.store.state(hand.key) == {"note": "[redacted]", "n": 5}
    (summary,) = hand.store.summaries(hand.key)
    assert (summary.text, [f.text for f in summary.facts], summary.lost) == ("a [redacted] came", ["other"], ())
    (found,) = [t.manifest for t in hand.store.turns(hand.key) if t.manifest]
    assert msgspec.json.decode(found) == {"policy": "buffer", "system": "[redacted] rules", "end": 3}
    assert done == 0 and set(done.receipt.rows) == {"facts", "state", "drafts", "manifests", "summaries"}
    assert row.content_version > before.content_version and (row.head, row.running) == (before.head, before.running)
    hand.now += 60
    hand.begin("next")
    assert hand.texts()[-2:] == ["the [redacted] s", "next"]


# ---------------------------------------------------------------------------------------------- retention
def test_standing_finds_candidates_by_key(hand):
    """Threads last used, made, closed or with a term before a moment; page by page, no erased one among them."""
    for name, moment in (("a", 10.0), ("b", 20.0), ("c", 30.0), ("gone", 10.0)):
        one = hand.other(name)
        one.now = moment
        one.add("x")
    hand.store.erase(hand.other("gone").key, 40.0)
    late = hand.other("b")
    late.now = 50.0
    late.add("y")
    names = lambda cut: sorted(s.row.thread_id for s in hand.store.standing(cut, b"", 100))  # noqa: E731
    assert names(Cut(60.0, idle=30.0)) == ["a", "c"] and names(Cut(60.0, age=20.0)) == ["a", "b"]
    assert names(Cut(60.0)) == []
    hand.store.set_term(late.key, 55.0)
    assert names(Cut(54.0)) == [] and names(Cut(56.0)) == ["b"]
    hand.store.set_term(late.key, None)
    hand.store.set_facts(late.key, late.names, 51.0, status="closed")
    assert names(Cut(60.0, closed=True)) == ["b"] and names(Cut(60.0)) == []
    pages, after = [], b""
    while page := hand.store.standing(ALL, after, 2):
        pages.append([s.row.key for s in page])
        after = page[-1].row.key
    keys = [key for page in pages for key in page]
    assert keys == sorted(keys) and len(keys) == 3 and [len(page) for page in pages] == [2, 1]


def test_retention_passes_over_what_was_used_meanwhile(hand):
    """A thread that somebody has used since it was read stays; the others of the batch go, each with its own act."""
    ones = [hand.other(name) for name in "abc"]
    for one in ones:
        one.add("x", "y")
    read = [one.row for one in ones]
    ones[1].now += 1
    ones[1].add("z")
    done = hand.store.erase_due([(row, Note("retention", "idle:1d")) for row in read], 2000.0)
    assert {row.thread_id for row, _ in done} == {"a", "c"} and all(r.rows["entries"] == 2 for _, r in done)
    assert [one.row is None for one in ones] == [True, False, True]
    assert [(a.action, a.who, a.why) for a in hand.store.audit()] == [("erase", "retention", "idle:1d")] * 2
    assert hand.store.erase_due([(read[0], Note())], 2001.0) == []


def test_retention_leaves_forks_what_they_share(hand):
    """A fork keeps the past that it shares with a thread whose time is over."""
    hand.add("one", "two", "three")
    fork = hand.fork("f", 2)
    ((_, receipt),) = hand.store.erase_due([(hand.row, Note())], 2.0)
    assert receipt.forks == ("f",) and fork.texts() == ["one", "two"] and hand.row is None


@pytest.mark.parametrize("stays", [None, "fork", "fork of the fork"])
def test_retention_takes_a_thread_and_its_forks_together(hand, stays):
    """Whichever goes first by key, each receipt counts what was its own, and names the forks that stay, no others."""
    hand.add("one", "two", "three")
    fork = hand.fork("fork", 2)
    fork.add("four")
    last = fork.fork("fork of the fork", 3)
    last.add("five", "six")
    rows = [one.row for one in (hand, fork, last) if one.row.thread_id != stays]
    done = {row.thread_id: receipt for row, receipt in hand.store.erase_due([(row, Note()) for row in rows], 2000.0)}
    own = {hand.names[1]: 3, "fork": 1, "fork of the fork": 2}
    assert {name: receipt.rows["entries"] for name, receipt in done.items()} == {n: own[n] for n in own if n != stays}
    above = {None: [], "fork": [hand.names[1]], "fork of the fork": [hand.names[1], "fork"]}
    assert {name: receipt.forks for name, receipt in done.items()} == {
        name: (stays,) if name in above[stays] else () for name in done
    }
    texts = {"fork": ["one", "two", "four"], "fork of the fork": ["one", "two", "four", "five", "six"]}
    assert stays is None or (fork if stays == "fork" else last).texts() == texts[stays]


def test_dropped_texts_leave_the_summary(hand):
    """What the summary covers goes, but the opening, held entries and the tail; the summary stays in use, alone."""
    hand.add(new("be kind", "system"), "one", "two", "three", "four", "five")
    row = hand.row
    first = Summary(text="one", upto=2, covered=((1, 2),), messages=1, start=1)
    hand.store.swap_summary(hand.key, hand.store.base_of(row, 2), first, 1.0)
    made = Summary(text="one to three", base=1, upto=5, start=1, covered=((2, 5),), held=(3,), messages=3)
    hand.store.swap_summary(hand.key, hand.store.base_of(hand.row, 5), made, 2.0)
    receipt = hand.store.drop_texts(hand.row, 3.0, Note("retention", "idle:1d,keep=summary"))
    assert receipt.rows["entries"] == 3 and receipt.rows["summaries"] == 1 and receipt.kind == "text"
    assert hand.texts(hidden=True) == ["be kind", None, None, "three", None, "five"]
    assert hand.store.summary(hand.row).text == "one to three"
    assert [s.version for s in hand.store.summaries(hand.key)] == [2]
    (standing,) = hand.store.standing(ALL, b"", 10)
    assert standing.dropped == standing.row.summary == 2
    assert hand.store.search(["two"], hand.key, None, 9) == []
    assert hand.store.weights([(hand.key, 0, 6)])[hand.key][0] == 3
    assert hand.store.audit(1)[0].action == "text"


def test_dropped_texts_are_none_that_a_fork_shares(hand):
    """Entries that a fork has from the thread stay; without a summary nothing goes."""
    hand.add("one", "two", "three", "four")
    assert hand.store.drop_texts(hand.row, 1.0) is None
    hand.fork("f", 2)
    summarized(hand, upto=3)
    assert hand.store.drop_texts(hand.row, 2.0).rows["entries"] == 1
    assert hand.texts(hidden=True) == ["one", "two", None, "four"]


def test_weights_count_what_has_content(hand):
    """Messages and bytes of ranges of own entries; deleted ones weigh nothing, and bytes are those of the body."""
    hand.add("x" * 100, "y" * 50, "z")
    hand.store.rewrite(hand.row, {2: None}, 1.0)
    count, size = hand.store.weights([(hand.key, 0, 9)])[hand.key]
    assert count == 2 and (size > 178 if encrypted(hand) else size == 150 + 2 * len('""}'))
    assert hand.store.weights([(hand.key, 1, 2), (hand.other("no").key, 0, 9)])[hand.key][0] == 1


def test_once_in_a_while(hand):
    """The first to ask is it, until the time is over; a moment far ahead (a wrong clock) holds nobody up."""
    ask = hand.store.once_in
    assert ask("sweep", 1000.0, 300) and not ask("sweep", 1299.0, 300) and ask("sweep", 1300.0, 300)
    assert ask("other", 1000.0, 300) and ask("sweep", 900.0, 300)


@pytest.mark.parametrize("owner", [None, 5, "\ud800", "x" * 1001])
def test_what_names_no_owner_is_refused(memory, owner):
    """Nothing is held, released or erased for what is no text of an owner."""
    for method in (memory.hold_owner, memory.release_owner, memory.erase_owner):
        with pytest.raises(InvalidSpec):
            method(owner)
