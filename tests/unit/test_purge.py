"""Retention, holds, receipts and erasure as a program uses them."""

from __future__ import annotations

import time

import anyio
import pytest

import novelo
from novelo import InvalidSpec, Retention, StoreError, ThreadHeld
from novelo.messages import Message
from novelo.purging import Sweeper

DAY = 86_400.0


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    moment = [time.time()]
    monkeypatch.setattr(time, "time", lambda: moment[0])
    return lambda days: moment.__setitem__(0, moment[0] + days * DAY)


def said(memory, name, *texts, owner="", tags=()):
    """A thread in which something was said."""
    thread = memory.thread(name, owner=owner)
    for text in texts or ("hello",):
        with thread.turn(text) as turn:
            turn.messages()
            turn.reply(f"re {text}")
    if tags:
        thread.tags = tags
    return thread


def names(memory):
    """Ids of the threads that are there."""
    return sorted(row.thread_id for row in memory.threads(limit=1000))


def test_purge_previews_and_takes(memory, clock):
    """A dry run counts threads, messages and bytes by rule and reason, and takes nothing; the run takes the same."""
    said(memory, "old", "one", "two"), said(memory, "tagged", tags=["x"])
    clock(40)
    said(memory, "new")
    rules = ["idle:90d", Retention(max_age="30d", tag="x"), "idle:30d"]
    preview = memory.purge(dry_run=True, retention=rules)
    assert names(memory) == ["new", "old", "tagged"] and (preview.threads, preview.messages) == (2, 6)
    assert {rule: {why: t.threads for why, t in found.items()} for rule, found in preview.rules.items()} == {
        "age:30d,tag=x": {"age": 1}, "idle:30d": {"idle": 1},
    }  # fmt: skip
    stored = ["one", "re one", "two", "re two", "hello", "re hello"]
    assert preview.bytes >= sum(len(f'"{text}"}}') for text in stored)  # of bodies; encrypted ones are longer
    done = memory.purge(retention=rules)
    assert (done.rules, done.passed) == (preview.rules, 0) and names(memory) == ["new"]
    acts = memory.audit()
    assert {act.why for act in acts} == {"age:30d,tag=x", "idle:30d"} and {act.who for act in acts} == {"retention"}
    assert memory.purge(retention=rules).threads == 0


def test_purge_goes_in_small_transactions(memory, clock):
    """Threads go a few at a time, and who watches is told; a page boundary loses none."""
    for n in range(23):
        memory.thread(f"t{n}").append("x")
    clock(2)
    told = []
    done = memory.purge(retention="idle:1d", batch=5, progress=lambda p: told.append(p.threads))
    assert done.threads == 23 and told[:5] == [5, 10, 15, 20, 23] and names(memory) == []


def test_held_threads_stay(memory, clock):
    """Retention passes over what is held, by itself or by its owner, and counts it; erasure tells who holds."""
    held, owned, free = said(memory, "held"), said(memory, "owned", owner="ana"), said(memory, "free")
    held.hold("case 12")
    memory.hold_owner("ana")
    assert held.held.reason == "case 12" and owned.held.owner and free.held is None and len(memory.holds()) == 2
    clock(100)
    done = memory.purge(retention="idle:90d")
    assert (done.threads, done.held) == (1, 2) and names(memory) == ["held", "owned"]
    for attempt in (held.erase, lambda: held.delete(0), lambda: held.redact("x"), lambda: held.close(delete=True)):
        with pytest.raises(ThreadHeld, match="release the hold"):
            attempt()
    with pytest.raises(ThreadHeld):
        memory.erase_owner("ana")
    assert held.release() and not held.release() and memory.release_owner("ana") and not memory.release_owner("ana")
    assert memory.purge(retention="idle:90d").threads == 2


def test_erasing_an_owner_keeps_and_names_held_threads(memory):
    """All but threads with a hold of their own go, and the receipt names those; documents and sums go too."""
    said(memory, "a", owner="ana"), said(memory, "other", owner="bob")
    kept = said(memory, "kept", owner="ana")
    kept.hold()
    receipts = memory.erase_owner("ana", reason="DSR-17")
    assert receipts.threads == 1 and receipts.held == ("kept",) and receipts.rows["entries"] == 2
    assert names(memory) == ["kept", "other"] and memory.audit(1)[0].why == "DSR-17"
    kept.release()
    assert memory.erase_owner("ana").threads == 1 and memory.erase_owner("ana") == []


def test_close_with_delete_and_by_a_rule(memory, clock):
    """A closed thread is marked; it goes at once with `delete`, or by a rule, unless it was opened again."""
    gone, closed, again = said(memory, "gone"), said(memory, "closed"), said(memory, "again")
    assert gone.close(delete=True).rows["entries"] == 2 and gone.row is None
    assert closed.close() is None and closed.row.status == "closed"
    again.close()
    said(memory, "again")
    assert memory.purge(retention="closed:1d").threads == 0
    clock(1)
    assert memory.purge(retention="closed:1d").threads == 1 and names(memory) == ["again"]


def test_a_thread_has_a_term_of_its_own(memory, clock):
    """`expire_in` takes one thread when its time is over, without any rule; None takes the term back."""
    one, two = said(memory, "one"), said(memory, "two")
    one.expire_in("7d"), two.expire_in("7d"), two.expire_in(None)
    clock(8)
    assert memory.purge().threads == 1 and names(memory) == ["two"]
    with pytest.raises(StoreError):
        memory.thread("nobody").expire_in("1d")


def test_texts_go_and_the_summary_stays(url, clock):
    """keep="summary": contexts go on with the summary, the next one builds on it, and undoing is not possible."""
    policy = "summarize:4messages,keep=1"
    with novelo.open(url, policy=policy, summarizer=lambda r: "They spoke of invoices.", worker="off") as memory:
        thread = said(memory, "t", "alpha", "beta", "gamma")
        said(memory, "without", "delta")
        assert memory.work()[0] == 1
        upto = thread.summary.upto
        clock(31)
        rule = Retention(max_idle="30d", keep="summary")
        preview = memory.purge(dry_run=True, retention=rule)
        assert (preview.threads, preview.messages) == (1, upto)
        done = memory.purge(retention=rule)
        assert (done.threads, done.messages) == (1, upto) and memory.purge(retention=rule).threads == 0
        assert [e.deleted for e in thread] == [True] * upto + [False] * (len(thread) - upto)
        assert "invoices" in str(thread.context("and?").messages()) and "alpha" not in str(thread.context().messages())
        assert thread.undo_compaction() is None and thread.compact(redo=True) is None
        for text in ("epsilon", "zeta"):
            said(memory, "t", text)
        assert memory.work()[0] == 1 and thread.summary.version > 1 and thread.summary.messages > upto
        clock(31)
        assert memory.purge(retention=rule).threads == 1


def test_a_memory_of_one_owner_removes_that_owners_alone(memory):
    """It erases its own, sees its holds, and can neither release them nor purge or read the audit of all."""
    said(memory, "a", owner="ana"), said(memory, "b", owner="bob"), said(memory, "c", owner="ana")
    mine = memory.for_owner("ana")
    memory.thread("c", owner="ana").hold("case")
    assert mine.thread("c").held.reason == "case" and mine.thread("a").delete(0).receipt.rows["entries"] == 1
    for refused in (mine.purge, mine.audit, mine.holds, mine.thread("c").release, mine.thread("c").hold,
                    lambda: mine.erase_owner("bob"), lambda: mine.purge(retention="idle:0s")):  # fmt: skip
        with pytest.raises(novelo.AccessDenied):
            refused()
    assert mine.erase_owner("ana").held == ("c",) and names(memory) == ["b", "c"]


def test_an_open_turn_is_left_alone(memory, clock):
    """A thread in which somebody is being answered does not go, however old it is."""
    thread = said(memory, "t")
    clock(10)
    with thread.turn("wait") as turn:
        assert memory.purge(retention=["age:5d", "idle:0s"]).threads == 0
        turn.reply("here")
    clock(1)
    assert memory.purge(retention="age:5d").threads == 1


def test_receipts_say_what_went_and_what_did_not(file_memory):
    """A number that has a receipt: rows by kind, its act, what waits, and the days of what cannot be reached."""
    thread = said(file_memory, "t", "my code is 4711", "so?")
    thread.title, thread.metadata = "code 4711", {"code": 4711}
    done = thread.redact("4711", reason="DSR-1")
    assert done == 1 + 1 and done.receipt.kind == "pattern" and done.receipt.number == 1
    assert {"entries", "facts", "search"} <= set(done.receipt.rows) and not done.receipt.pending
    assert (thread.title, thread.metadata) == ("code [redacted]", {"code": "[redacted]"})
    assert "backup_days" in done.receipt.beyond[-1] and file_memory.audit(1)[0].why == "DSR-1"
    file_memory.backup_days = 35
    receipt = thread.delete(2).receipt
    assert receipt.kind == "messages" and "kept 35 days, until 20" in receipt.beyond[-1]
    assert thread.erase(vacuum=True).rows["entries"] == 4
    with pytest.raises(InvalidSpec, match="vacuum"):
        said(file_memory, "u").erase(vacuum="sometimes")


def test_redaction_reaches_all_of_a_message(memory):
    """Reasoning, names, addresses of media, a tool's extras and what the provider added are masked as well."""
    from novelo.messages import Image, Reasoning, Text, ToolCall

    parts = (Text(text="fine"), Reasoning(text="the canary"), Image(url="https://x/canary.png"))
    call = ToolCall("c1", "look", '{"q": "canary"}', {"note": "canary"})
    message = Message("assistant", parts, (call,), name="canary", extra={"x": ["canary"]}, meta={"y": "canary"})
    thread = memory.thread("t")
    thread.append([{"role": "user", "content": "hi"}])
    thread.store_messages([message])
    assert thread.redact("canary") == 1
    found = thread.messages()[1].message
    assert found.content[1].text == "the [redacted]" and found.content[2].url == "https://x/[redacted].png"
    assert found.tool_calls[0].arguments == '{"q":"[redacted]"}' and found.tool_calls[0].extra == {"note": "[redacted]"}
    assert (found.name, found.extra["x"], found.meta["y"]) == ("[redacted]", ["[redacted]"], "[redacted]")


def test_a_sweep_is_made_by_one_of_all(file_memory, tmp_path):
    """Of several processes one sweeps in a time; a memory with rules and a worker does it by itself."""
    said(file_memory, "t")
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", retention="idle:0s", worker="off") as other:
        assert other.sweeper is None and other.sweep().threads == 1 and other.sweep() is None
        assert file_memory.sweep() is None
        said(file_memory, "u")
        sweeper = Sweeper(other, pause_s=0.01)
        sweeper.start()
        deadline = time.monotonic() + 20
        while names(other) and time.monotonic() < deadline:
            time.sleep(0.01)
        sweeper.close()
        assert names(other) == [] and not sweeper._thread.is_alive()
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", retention="idle:90d") as mine:
        assert mine.sweeper._thread.is_alive()
    assert not mine.sweeper._thread.is_alive()


def test_bad_rules_and_options(memory):
    """No rule, no days, no batch: a clear error before anything goes."""
    for bad in (lambda: memory.purge(retention="x"), lambda: memory.purge(retention=[]),
                lambda: memory.purge(batch=0), lambda: novelo.open("memory://", backup_days=-1),
                lambda: novelo.open("memory://", retention="idle")):  # fmt: skip
        with pytest.raises(InvalidSpec):
            bad()


def test_the_same_awaited(tmp_path):
    """The async memory purges, holds and erases by the same names."""

    async def main():
        async with novelo.open_async(f"sqlite:///{tmp_path}/a.db") as memory:
            thread = memory.thread("t", owner="ana")
            await thread.append("hello")
            await thread.hold("x")
            assert (await memory.purge(retention="idle:0s")).held == 1
            await thread.release()
            assert (await thread.delete(0)).receipt.rows["entries"] == 1
            assert (await memory.erase_owner("ana")).threads == 1

    anyio.run(main)


@pytest.mark.parametrize(
    "remove",
    [
        lambda memory, thread: thread.erase(vacuum="fast"),
        lambda memory, thread: thread.erase(reason=5),
        lambda memory, thread: thread.delete([0], vacuum="fast"),
        lambda memory, thread: thread.redact("hello", vacuum="fast"),
        lambda memory, thread: memory.erase_owner("", vacuum="fast"),
        lambda memory, thread: memory.erase_owner("", reason=None),
        lambda memory, thread: memory.purge(retention="idle:0s", vacuum="fast"),
        lambda memory, thread: memory.purge(retention="idle:0s", batch=1.5),
        lambda memory, thread: memory.purge(retention=0),
    ],
)
def test_a_wrong_option_is_told_before_anything_goes(memory, remove):
    """An option that means nothing is refused while everything is still there, and no act stands in the audit."""
    thread = said(memory, "t")
    with pytest.raises(InvalidSpec):
        remove(memory, thread)
    assert [stored.message.content for stored in thread.messages()] == ["hello", "re hello"]
    assert memory.audit() == []


@pytest.mark.parametrize("limit", [-1, "5", 10**30, True])
def test_a_page_of_the_audit_has_a_size(memory, limit):
    """What is no number of acts is refused, and not taken for a damaged database, or for all of it."""
    with pytest.raises(InvalidSpec):
        memory.audit(limit)


@pytest.mark.parametrize("own", [True, 0, 1.5, "yesterday"])
def test_an_applications_own_word_is_no_moment_of_closing(memory, clock, own):
    """Where `closed` in the metadata is no moment in the thread's life, it was closed when it was used last."""
    thread = said(memory, "t")
    thread.close()
    thread.metadata = {"closed": own}
    assert not memory.purge(dry_run=True, retention="closed:90d").threads
    clock(91)
    assert memory.purge(dry_run=True, retention="closed:90d").threads == 1
