"""Threads as an application sees them: owners, facts, what is changed afterwards, forks, lists."""

from __future__ import annotations

import gc
import threading
import time

import pytest

import novelo
from builders import calls, result, roles, says, system, texts, user
from novelo.errors import InvalidSpec, StorageUnavailable, ThreadBusy, UnknownEntry


def say(thread, question, answer):
    """A whole turn."""
    with thread.turn(question) as turn:
        turn.messages()
        turn.reply(answer)


def seen(thread):
    """The texts that the model would see."""
    return texts(thread.context().messages())


def test_owners_do_not_see_each_other(memory):
    """FR-113: whatever B tries with A's thread id is done to a thread of B's own."""
    mine = memory.thread("note", owner="A")
    say(mine, "My private note: the code is 4711.", "Stored.")
    theirs = memory.thread("note", owner="B")
    assert list(theirs) == [] and theirs.row is None and theirs.search("4711") == [] and not theirs.state
    with pytest.raises(novelo.TurnClosed):
        theirs.resume()
    for attempt in (theirs.retry, theirs.fork, lambda: theirs.delete(0), lambda: theirs.hide(0), lambda: theirs.pin(0)):
        with pytest.raises(UnknownEntry):
            attempt()
    assert theirs.erase().rows == {} and memory.search("4711", owner="B") == [] and memory.threads(owner="B") == []
    theirs.append("hello")
    assert len(theirs) == 1 and [e.text for e in mine] == ["My private note: the code is 4711.", "Stored."]
    assert [row.owner for row in memory.threads(owner="A")] == ["A"]


def test_append_takes_messages_in_any_form(memory):
    """Text, dicts and lists are appended outside of turns; a text is the assistant's."""
    thread = memory.thread("t")
    assert [e.position for e in thread.append("Olá! Em que posso ajudar?")] == [0]
    made = thread.append([user("q"), calls("c1"), result("c1", "r"), says("a")])
    assert [e.position for e in made] == [1, 2, 3, 4]
    assert roles([{"role": e.role} for e in thread]) == "auata" and thread.append([]) == []
    assert thread.turns() == []


def test_append_waits_for_nobody_to_lose(memory):
    """While a turn is open an append is refused or waits; nothing is written in between."""
    thread = memory.thread("t")
    with thread.turn("q") as turn:
        quick = novelo.Memory(memory.store, on_busy="reject").thread("t")
        with pytest.raises(ThreadBusy):
            quick.append("x")
        with pytest.raises(ThreadBusy):
            quick.edit(0, "r")
        assert seen(thread) == ["q"]
        turn.reply("a")
    assert [e.text for e in thread] == ["q", "a"]


def test_messages_are_read_in_pieces_from_both_ends(memory):
    """`after` and `limit` page through a transcript without gap or overlap."""
    thread = memory.thread("t")
    thread.append([user(f"m{i}") for i in range(7)])
    assert [e.position for e in thread.messages(after=1, limit=3)] == [2, 3, 4]
    assert [e.position for e in thread.messages(limit=2, newest_first=True)] == [6, 5]
    assert [e.position for e in thread.messages(after=5, limit=9, newest_first=True)] == [4, 3, 2, 1, 0]
    thread.hide([1, 2])
    assert [e.position for e in thread.messages(hidden=False, limit=3)] == [0, 3, 4]
    assert len(thread) == 7 and bool(memory.thread("nobody")) and len(memory.thread("nobody")) == 0


def test_facts_of_a_thread(memory):
    """Title, tags, metadata and state are kept, and listed by."""
    thread = memory.thread("t", owner="ana")
    thread.title, thread.tags, thread.metadata = "Viagem a Évora", ["férias"], {"n": 1}
    thread.state["a"] = [1]
    thread.state.update(b=2, c=3)
    del thread.state["c"]
    with pytest.raises(KeyError):
        del thread.state["nothing"]
    again = memory.thread("t", owner="ana")
    assert (again.title, again.tags, again.metadata, dict(again.state)) == (
        "Viagem a Évora", ("férias",), {"n": 1}, {"a": [1], "b": 2})  # fmt: skip
    assert (
        [r.thread_id for r in memory.threads(search="evora")]
        == ["t"]
        == [r.thread_id for r in memory.threads(tag="férias", owner="ana")]
    )
    assert memory.threads(tag="f") == [] == memory.threads(owner="bia")
    thread.state = {"x": 1}
    with pytest.raises(InvalidSpec):
        thread.state["bad"] = object()
    assert dict(thread.state) == {"x": 1}


def test_threads_are_paged(memory):
    """Pages follow each other by their cursor; a search finds titles first, then what was said, each thread once."""
    for i in range(5):
        say(memory.thread(f"t{i}"), "talk of a refund" if i % 2 else "talk of rain", "yes")
        memory.thread(f"t{i}").title = "Refund" if i == 3 else f"Talk {i}"
    pages, cursor = [], None
    while True:
        page = memory.threads(limit=2, cursor=cursor)
        pages.append([r.thread_id for r in page])
        cursor = page.cursor
        if cursor is None:
            break
    assert pages == [["t4", "t3"], ["t2", "t1"], ["t0"]]
    assert {r.thread_id for r in memory.threads(search="refund")} == {"t1", "t3"}
    found, cursor = [], None
    while True:
        page = memory.threads(search="talk", limit=2, cursor=cursor)
        found += [r.thread_id for r in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(found) == ["t0", "t1", "t2", "t3", "t4"] and found[-1] == "t3"
    for wrong in ({"limit": 0}, {"cursor": "nonsense"}, {"cursor": "1:zz"}):
        with pytest.raises(InvalidSpec):
            memory.threads(**wrong)


def test_hide_and_unhide(memory):
    """Hidden entries stay in the transcript and leave the context; an id or an entry names them too."""
    thread = memory.thread("t")
    say(thread, "q1", "a1")
    say(thread, "q2", "a2")
    thread.hide(list(thread)[:2])
    assert seen(thread) == ["q2", "a2"] and len(thread) == 4
    thread.unhide(["#0", 1])
    assert seen(thread) == ["q1", "a1", "q2", "a2"]
    for wrong in (4, -1, "#9", "nobody"):
        with pytest.raises(UnknownEntry):
            thread.hide(wrong)


def test_a_hidden_or_deleted_opening_stays_out(memory):
    """A system message that was hidden or deleted is not replaced by what stands behind it."""
    for change in ("hide", "delete"):
        thread = memory.thread(change)
        thread.append([system("Be terse."), user("q"), says("a")])
        getattr(thread, change)(0)
        for policy in ("buffer", "window:1turns", "budget:500tokens"):
            assert texts(thread.context(policy=policy).messages()) == ["q", "a"]
        assert thread.context("next").messages()[-1] == user("next")


def test_pins_stay(memory):
    """A pinned turn is in every context, until it is unpinned; in forks of what it is part of too."""
    thread = memory.thread("t", policy="window:1turns")
    for n in range(4):
        say(thread, f"q{n}", f"a{n}")
    thread.pin(1)
    assert seen(thread) == ["q0", "a0", "q3", "a3"] or seen(thread) == ["q0", "a1", "q3", "a3"]
    assert seen(thread.fork(at=4))[0] == "q0"
    thread.unpin(1)
    assert seen(thread) == ["q3", "a3"]


def test_delete_takes_the_content_away(memory):
    """FR-98: a deleted result is gone, the context is valid, deleting again is harmless, an unknown id an error."""
    thread = memory.thread("t")
    thread.append(
        [user("Find the invoice."), calls("c1"), result("c1", "invoice_12.pdf"), says("Found it."), user("Thanks")]
    )
    assert thread.delete(2) == 1 and thread.delete("#2") == 0
    with pytest.raises(UnknownEntry):
        thread.delete("never")
    sent = thread.context().messages()
    assert novelo.check(sent) == [] and "invoice_12.pdf" not in str(sent)
    found = list(thread)
    assert [e.deleted for e in found] == [False, False, True, False, False] and found[2].text == ""
    assert [e.text for e in found if not e.deleted] == ["Find the invoice.", "", "Found it.", "Thanks"]
    assert thread.search("invoice_12") == []


def test_redact_masks_a_pattern_or_an_entry(memory):
    """A pattern is masked wherever it stands, an entry as a whole; the search forgets it too."""
    thread = memory.thread("t")
    thread.append(
        [user("my card is 4242-X"), calls("c1", arguments='{"card": "4242-X"}'), result("c1", "ok"), says("done")]
    )
    assert thread.redact(r"4242-X") == 2
    assert "4242" not in str([e.message for e in thread]) and "4242" not in str(thread.context().messages())
    assert thread.search("4242") == []
    assert thread.redact([3]) == 1 and list(thread)[3].text == "[redacted]"
    assert novelo.check(thread.context().messages()) == []


def test_edit_and_retry_and_back_again(memory):
    """FR-99: one path at a time is in the context, all versions stay readable, and one can go back."""
    thread = memory.thread("t")
    say(thread, "Name a river.", "The Rhine.")
    say(thread, "Another one.", "The Loire.")
    original = thread.fork(thread_id="original")
    with thread.retry() as turn:
        assert texts(turn.messages()) == ["Name a river.", "The Rhine.", "Another one."]
        turn.reply("The Po.")
    assert seen(thread) == ["Name a river.", "The Rhine.", "Another one.", "The Po."]
    thread.edit(0, "Name a lake.")
    assert seen(thread) == ["Name a lake."]
    with thread.retry() as turn:
        assert texts(turn.messages()) == ["Name a lake."]
        turn.reply("Lake Garda.")
    assert seen(thread) == ["Name a lake.", "Lake Garda."]
    assert [e.text for e in thread] == [
        "Name a river.", "The Rhine.", "Another one.", "The Loire.", "Another one.", "The Po.",
        "Name a lake.", "Lake Garda."]  # fmt: skip
    assert seen(original) == ["Name a river.", "The Rhine.", "Another one.", "The Loire."]
    thread.hide([6, 7])
    thread.unhide([0, 1, 2, 3])
    assert seen(thread) == ["Name a river.", "The Rhine.", "Another one.", "The Loire."]


def test_an_edited_question_is_answered_once(memory):
    """After edit, retry answers the question that stands there, and a new turn goes on behind it."""
    thread = memory.thread("t")
    say(thread, "q1", "a1")
    thread.edit(0, "q1, better")
    with thread.retry() as turn:
        assert turn.position == 2
        turn.reply("a1, better")
    say(thread, "q2", "a2")
    assert seen(thread) == ["q1, better", "a1, better", "q2", "a2"] and len(thread) == 6
    assert [(t.first, t.last) for t in thread.turns()] == [(0, 1), (2, 3), (4, 5)]


def test_retry_of_a_turn_that_failed(memory):
    """A question whose turn failed without a word is answered where it stands; one cut off is asked again."""
    thread = memory.thread("t")
    with pytest.raises(TimeoutError), thread.turn("q"):
        raise TimeoutError
    with thread.retry() as turn:
        turn.reply("a")
    assert [e.text for e in thread] == ["q", "a"] and [t.status for t in thread.turns()] == ["done"]
    with pytest.raises(TimeoutError), thread.turn("r") as turn:
        for _ in turn.stream(iter(["half"])):
            raise TimeoutError
    with thread.retry() as turn:
        assert texts(turn.messages()) == ["q", "a", "r"]
        turn.reply("b")
    assert seen(thread) == ["q", "a", "r", "b"]


def test_retry_that_does_not_begin_hides_nothing(memory):
    """A retry that is refused, or never entered, leaves the answer where it was."""
    thread = memory.thread("t")
    say(thread, "q", "a")
    turn = thread.retry()
    assert seen(thread) == ["q", "a"]
    with thread.turn("live") as live:
        with pytest.raises(ThreadBusy), thread.retry(on_busy="reject"):
            pass
        live.reply("b")
    assert seen(thread) == ["q", "a", "live", "b"] and turn.status == "new"
    with pytest.raises(UnknownEntry):
        memory.thread("empty").retry()


def test_a_fork_goes_its_own_way(memory):
    """A fork answers its last question anew, and is searched with what it shares; neither sees the other's words."""
    thread = memory.thread("t", owner="ana")
    say(thread, "um rio", "o Tejo")
    say(thread, "outro", "o Douro")
    fork = thread.fork(at=3)
    with fork.retry() as turn:
        assert texts(turn.messages()) == ["um rio", "o Tejo", "outro"]
        turn.reply("o Mondego")
    assert seen(fork) == ["um rio", "o Tejo", "outro", "o Mondego"] and fork.owner == "ana"
    found = lambda t, words: [h.text for h in t.search(words)]  # noqa: E731
    assert (found(fork, "tejo"), found(fork, "douro"), found(thread, "mondego")) == (["o Tejo"], [], [])
    assert fork.thread_id != "t" and [e.position for e in fork] == [0, 1, 2, 3]
    with pytest.raises(UnknownEntry):
        thread.fork(at=99)


def test_reconcile_adds_only_what_is_new(memory):
    """FR-97: a client's whole list without ids adds its end once; one that parts from the thread is refused."""
    thread = memory.thread("t")
    thread.append([{**user("Bom dia"), "id": "m1"}, {**says("Bom dia! Como posso ajudar?"), "id": "m2"}])
    before = [e.id for e in thread]
    sent = [user("Bom dia"), says("Bom dia! Como posso ajudar?"), user("Quero cancelar meu plano.")]
    assert [e.position for e in thread.reconcile(sent)] == [2]
    assert thread.reconcile(sent) == [] and len(thread) == 3 and [e.id for e in thread][:2] == before
    with pytest.raises(InvalidSpec):
        thread.reconcile([user("Boa noite")])
    assert len(thread) == 3


def test_what_cannot_be_stored_refuses_the_whole_list(memory):
    """FR-87: one bad message, and the history stays as it was."""
    thread = memory.thread("t")
    thread.append([user("keep me"), says("safe")])
    with pytest.raises((novelo.InvalidMessage, TypeError)):
        thread.append([user("fine"), {"role": "user", "content": object()}])
    assert [e.text for e in thread] == ["keep me", "safe"]


def test_odd_characters_come_back(memory):
    """FR-93: null characters are kept, half a surrogate pair is replaced, and all else is intact."""
    thread = memory.thread("t")
    thread.append([user("读取附件。"), calls("c1"), result("c1", "第一章\u0000概述"), says("已读取。\ud83d")])
    found = [e.text for e in thread]
    assert found[2] == "第一章\u0000概述" and found[3] == "已读取。\ufffd" and found[0] == "读取附件。"
    assert novelo.check(thread.context("x").messages()) == []


def test_many_writers_lose_nothing(memory):
    """FR-85: appends at the same time all arrive, deletions at the same time count once."""
    thread = memory.thread("t")
    crew = [threading.Thread(target=lambda i=i: memory.thread("t").append(user(f"m{i}"))) for i in range(5)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert sorted(e.text for e in thread) == ["m0", "m1", "m2", "m3", "m4"]
    done = []
    crew = [threading.Thread(target=lambda: done.append(memory.thread("t").delete(4))) for _ in range(2)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert sorted(done) == [0, 1]


def test_context_writes_nothing(memory):
    """A context with a question is what a turn would send, and leaves the thread alone."""
    thread = memory.thread("t")
    say(thread, "q1", "a1")
    asked = thread.context("q2")
    assert len(thread) == 2 and asked.tokens > thread.context().tokens
    with thread.turn("q2") as turn:
        assert turn.messages() == asked.messages() and turn.context.tokens == asked.tokens
        turn.reply("a2")
    assert memory.thread("nobody").context("hello").messages() == [user("hello")]
    assert memory.thread("nobody").row is None


def test_erasing_leaves_no_byte_in_any_file(file_memory, tmp_path):
    """FR-80: no file beside or under the database holds a byte of what was said, and erasing again is harmless."""
    canaries = ["000.000.000-00", "Rua Inventada", "canarytitle", "canarystate", "canarydraft", "canarytag"]
    thread = file_memory.thread("t", owner="ana")
    say(thread, "Meu CPF fictício é 000.000.000-00 e moro na Rua Inventada, 1.", "Obrigado, registrado.")
    thread.title, thread.tags = "canarytitle", ["canarytag"]
    thread.state["x"] = "canarystate"
    with thread.turn("more") as turn:
        stream = turn.stream(iter(["canarydraft", " and more"]))
        next(stream)
        turn.keep_draft()
    fork = thread.fork()
    fork.append("Rua Inventada again")
    receipts = file_memory.erase_owner("ana")
    assert sum(r.rows.get("entries", 0) for r in receipts) >= 4 and "Rua" not in str(receipts)
    assert file_memory.erase_owner("ana") == [] and thread.erase().rows == {}
    held = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert len(held) >= 1
    for canary in canaries:
        for word in (canary, canary.lower()):
            assert [p for p, data in held.items() if word.encode() in data] == [], canary


def test_a_deleted_and_a_redacted_text_leave_no_byte(file_memory, tmp_path):
    """What was deleted or masked is in no file any more."""
    thread = file_memory.thread("t")
    thread.append([user("canaryone is here"), says("and canarytwo there")])
    thread.delete(0)
    thread.redact("canarytwo")
    data = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"canaryone" not in data and b"canarytwo" not in data


def test_a_closed_memory_says_so(memory):
    """After close every use is refused with an error that says what to do."""
    thread = memory.thread("t")
    thread.append("x")
    memory.close()
    for use in (lambda: len(thread), lambda: thread.append("y"), lambda: thread.turn("q").__enter__(), memory.threads):
        with pytest.raises(StorageUnavailable):
            use()
    memory.close()


def test_a_forgotten_memory_stops_its_heart(url):
    """The thread that renews leases ends soon after the memory is gone."""
    memory = novelo.open(url)
    turn = memory.thread("t").turn("q")
    turn.__enter__()
    heart = memory._heart
    store = memory.store
    del memory, turn
    gc.collect()
    heart.join(2.0)
    assert not heart.is_alive()
    store.close()


def test_a_lease_is_renewed_while_a_model_thinks(url):
    """A turn that takes longer than its lease keeps it."""
    with novelo.open(url, lease_s=0.3) as memory:
        thread = memory.thread("t")
        with thread.turn("q") as turn:
            time.sleep(0.7)
            with pytest.raises(ThreadBusy), thread.turn("r", on_busy="reject"):
                pass
            turn.reply("a")
    assert turn.status == "done"


def test_a_context_is_read_from_one_snapshot(tmp_path):
    """What is redacted while a context is being read is in it whole or not at all, never in part."""
    url = f"sqlite:///{tmp_path}/a.db"
    memory, other = novelo.open(url), novelo.open(url)
    thread = memory.thread("t")
    for k in range(120):
        with thread.turn(f"secret {k}") as turn:
            turn.reply("noted")

    def meddling(draft):
        worker = threading.Thread(target=lambda: other.thread("t").redact("secret"))
        turns = iter(draft.turns)
        next(turns)  # the newest part has been read
        worker.start()
        worker.join()
        return draft

    asked = [m["content"] for m in thread.context(policy=meddling).messages() if m["role"] == "user"]
    assert asked == [f"secret {k}" for k in range(120)]
    assert not any("secret" in e.text for e in thread.messages())
    memory.close()
    other.close()


def test_an_export_counts_what_it_holds(memory, tmp_path):
    """Hidden messages are in our own kind alone, and so they are counted there alone."""
    thread = memory.thread("t")
    say(thread, "q", "a")
    say(thread, "q2", "a2")
    thread.hide([0, 1])
    counts = {kind: thread.export_file(tmp_path / kind, kind) for kind in ("novelo", "openai", "simple")}
    assert counts == {"novelo": 4, "openai": 2, "simple": 2}
