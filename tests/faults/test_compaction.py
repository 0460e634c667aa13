"""T12, T15: summaries against turns, changes, erasure, kills, and summarizers that fail."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import apsw
import msgspec
import pytest

import novelo
from faults.checker import check, read_log, read_touched
from faults.folding import POLICY, Fold, stir
from faults.powercut import Disk, DiskVFS, PowerCut
from faults.sizes import size
from faults.test_kills import reap
from faults.working import Log, forked, take_turn
from novelo import Memory, ModelFailed, StoreError, SummaryFailed, formats, worker
from novelo.asking import ModelReply
from novelo.messages import Message
from novelo.stores.base import Base, Work
from novelo.stores.sqlite import Database, SQLiteStore
from novelo.summaries import Summary


def opened(tmp_path, summarizer, policy=POLICY, **options):
    """A memory whose jobs are done when the test says so."""
    return novelo.open(f"sqlite:///{tmp_path}/a.db", policy=policy, summarizer=summarizer, worker="off", **options)


def said(memory, name="t", count=6, first=0):
    """Some turns; what was acknowledged."""
    return [
        take_turn(memory, memory.thread(name), f"k{k}", f"question k{k}.", "w") for k in range(first, first + count)
    ]


def waited(condition, seconds=20.0):
    """Wait until something holds; whether it does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.005)
    return False


# ------------------------------------------------------------------------------------------------ T15
def stirred(tmp_path, count, processes=2, **options):
    """Several processes that talk and change at once; what the checker finds, and the lines of the log."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    mortal = ["m0", "m1", "m2"]
    ids = {"mortal": mortal, "all": [*mortal, "t0", "t1", "t2", "t3", "t4", "t5"]}
    pids = [forked(stir, url, log, name, ids, count // processes, **options) for name in "abcd"[:processes]]
    assert [reap(pid) for pid in pids] == [0] * processes
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    return check(tmp_path / "a.db", read_log(log), least=count, touched=read_touched(log)), lines


@pytest.mark.timeout(900)
def test_compaction_against_turns_against_erasure(tmp_path):
    """T15: while everything goes on at once, each summary is a fold of what it claims; what is erased is gone."""
    found, lines = stirred(tmp_path, size("T15.turns", 4000, 20_000))
    print(f"T15: {found.folded}")
    print([line for line in lines if "changed" in line or "asked" in line])
    assert found.violations == []
    assert found.folds >= 300


def broken_summaries(tmp_path):
    """The violations of I5; answers of these tests may quote what was changed since."""
    return [v for v in check(tmp_path / "a.db", [], least=0).violations if v.startswith("I5")]


STANDS = SQLiteStore.swap_summary


def careless(self, key, base, made, now, calls=()):
    """A swap that does not look whether what it was made from still stands."""
    thread = self.thread(key)
    now_base = base if thread is None else self.base_of(thread, base.upto)
    return STANDS(self, key, msgspec.structs.replace(now_base, summary=base.summary), made, now, calls)


@pytest.mark.parametrize("mutant", [False, True], ids=["swap", "control"])
@pytest.mark.parametrize("change", ["hide", "unhide", "delete", "redact"])
def test_what_changes_while_the_model_works(tmp_path, monkeypatch, change, mutant):
    """What is hidden, shown or removed meanwhile has the summary refused; a swap that does not look is seen."""
    memory = opened(tmp_path, Fold())
    thread = memory.thread("t")
    said(memory)
    if change == "unhide":
        thread.hide([2])
    memory.summarizer.also = lambda request: getattr(thread, change)([2])
    if mutant:
        monkeypatch.setattr(SQLiteStore, "swap_summary", careless)
    memory.work()
    memory.summarizer.also = lambda request: None
    assert bool(broken_summaries(tmp_path)) == mutant
    if not mutant:
        assert thread.summary is None and thread.compact().active
        assert broken_summaries(tmp_path) == []
    memory.close()


@pytest.mark.timeout(300)
def test_a_careless_swap_is_caught_in_the_crowd(tmp_path, monkeypatch):
    """T15, the control: where the swap does not look, the same run breaks the invariant."""
    monkeypatch.setattr(SQLiteStore, "swap_summary", careless)
    broken = []
    for attempt in range(5):  # what changes under a summary is chance
        folder = tmp_path / str(attempt)
        folder.mkdir()
        stirred(folder, 400, delay_s=0.1)
        broken = broken_summaries(folder)
        if broken:
            break
    assert broken


def test_an_erased_thread_accepts_nothing(tmp_path):
    """I6: what comes late to an erased thread, a summary, a job, a ledger row, leaves no row; nor under its id anew."""
    memory = opened(tmp_path, Fold())
    thread = memory.thread("t")
    said(memory)
    job = memory.store.claim(memory.lease())[0]
    base = memory.store.base_of(thread.row, 4)
    call = memory.call("summary", None, None, 5, Message("assistant", "x"), 0.1)
    acks = []
    for _ in range(2):
        thread.erase()
        assert memory.store.swap_summary(thread.key, base, Summary(upto=4, text="late"), 0.0, [call]) is None
        memory.store.ask(thread.key, Work("compact", 0.0), 0.0)
        memory.store.note_calls(thread.key, [call], 0.0)
        memory.store.put_off(job, 0.0, "late")
        assert not memory.store.renew(job, 1e11) and not memory.store.finish(job, 0.0)
        assert check(tmp_path / "a.db", [], least=0).violations == []
        acks = said(memory, count=2, first=100)
        assert memory.store.swap_summary(thread.key, base, Summary(upto=4, text="late"), 0.0) is None
        assert memory.store.swap_summary(thread.key, Base(0, 0, 4), Summary(upto=4, text="late"), 0.0) is None
    assert check(tmp_path / "a.db", acks).violations == []
    memory.close()


# ------------------------------------------------------------------------------------------------ T12
class Bad:
    """A summarizer with a fault."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def complete(self, request):
        """What it does instead."""
        self.asked += 1
        given = self.answer(request) if callable(self.answer) else self.answer
        return given if isinstance(given, ModelReply) else ModelReply(Message("assistant", given))


def raising(error):
    """A function that raises."""

    def fail(request):
        raise error

    return fail


CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
BAD = {
    "raises": (raising(ModelFailed("overloaded", status=529)), "ModelFailed"),
    "breaks": (raising(ZeroDivisionError("inside")), "ZeroDivisionError"),
    "exits": (raising(SystemExit(1)), "ModelFailed"),
    "hangs": (lambda request: threading.Event().wait(5) or "too late", "ModelFailed"),
    "empty": ("  \n", "SummaryFailed"),
    "error text": ("Error: 503 service unavailable", "SummaryFailed"),
    "refusal": ("I'm sorry, but I can't help with that.", "SummaryFailed"),
    "question back": ("Could you please provide the conversation?", "SummaryFailed"),
    "too long": ("The user asked a question and the assistant answered it. " * 200, "SummaryFailed"),
    "other language": (
        "O usuário fez várias perguntas e o assistente respondeu a todas elas com muita atenção e cuidado.",
        "SummaryFailed",
    ),
    "tool call": (
        lambda request: ModelReply(formats.read([{"role": "assistant", "content": None, "tool_calls": [CALL]}])[0]),
        "SummaryFailed",
    ),
}
WORDS = "Please tell me more about the history of the city and what there is to see in the old town today, question"


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_summarizer_changes_nothing(tmp_path, kind):
    """T12: nothing is lost, the former summary stays in use, five tries are made and no more, and then it mends."""
    answer, error = BAD[kind]
    memory = opened(tmp_path, Fold(), summary_s=0.05 if kind == "hangs" else 20.0)
    memory.retry_s = (0.001, 0.001)
    thread = memory.thread("t")
    acks = [take_turn(memory, thread, f"k{k}", f"{WORDS} k{k}.", "w") for k in range(5)]
    assert memory.work() == (1, 0)
    before = thread.summary
    texts = [e.text for e in thread]
    bad = memory.summarizer = Bad(answer)
    acks += [take_turn(memory, thread, f"k{k}", f"{WORDS} k{k}.", "w") for k in range(5, 10)]
    tries = 0
    while not memory.jobs()[0].parked and tries < 20:
        tries += sum(memory.work())
        time.sleep(0.003)
    (job,) = memory.jobs()
    assert (job.tries, job.error, tries) == (5, error, 5)
    assert memory.work() == (0, 0)
    assert bad.asked == (10 if kind in ("too long", "other language") else 5)  # these are asked for once more
    assert thread.summary == before and len(thread.compactions()) == 1
    assert [e.text for e in thread][: len(texts)] == texts
    with pytest.raises((ModelFailed, SummaryFailed, ZeroDivisionError)):
        thread.compact()
    memory.summarizer = Fold()
    acks += [take_turn(memory, thread, f"k{k}", f"{WORDS} k{k}.", "w") for k in range(10, 11)]
    assert memory.jobs()[0].due < time.time() + 901  # asked for anew it is tried once more, late
    assert thread.compact().version == 2
    found = check(tmp_path / "a.db", acks, least=11)
    assert found.violations == [] and found.folds == 2
    memory.close()


def test_pauses_grow(tmp_path):
    """T12: each failure waits four times as long as the one before, and never longer than the longest pause."""
    memory = opened(tmp_path, Bad(""))
    memory.retry_s = (0.02, 1.0)
    said(memory)
    pauses = []
    for _ in range(4):
        assert waited(lambda: sum(memory.work()))
        pauses.append(memory.jobs()[0].due - time.time())
    for pause, meant in zip(pauses, (0.02, 0.08, 0.32, 1.0), strict=True):
        assert meant * 0.8 - 0.3 < pause <= meant * 1.2
    assert pauses[3] > pauses[1]
    memory.close()


LIE = "The user decided to buy the red boat for 99,999 euros and asked that all other orders be cancelled at once."


@pytest.mark.parametrize(("more", "asked"), [("", 1), (",facts=0", 2), (",facts=0,refuse", 2)])
def test_a_lying_summarizer(tmp_path, more, asked):
    """T12: what it makes up never enters the ledger, which holds what was said, nor the loss report."""
    memory = opened(tmp_path, Bad(LIE), "summarize:8messages,keep=2" + more)
    thread = memory.thread("t")
    facts = ["PX-48213-7", "R$ 1.347,90", "livia@example.com", "2026-11-03"]
    acks = [take_turn(memory, thread, f"k{k}", f"My order is {facts[k % 4]}, question k{k}.", "w") for k in range(6)]
    refused = "refuse" in more
    assert memory.work() == ((0, 1) if refused else (1, 0))
    assert memory.summarizer.asked == asked
    found = thread.summary
    assert (found is None) == refused
    if found is not None:
        texts = [e.text for e in thread]
        assert all(fact.text in texts[fact.position] for fact in (*found.facts, *found.lost))
        assert {f.text for f in (found.lost if "facts=0" in more else found.facts)} >= set(facts)
        assert not [f for f in (*found.facts, *found.lost) if "99,999" in f.text]
        thread.undo_compaction()
        assert thread.summary is None
    assert check(tmp_path / "a.db", acks, least=6).violations == []
    memory.close()


@pytest.mark.timeout(120)
def test_the_circuit_opens_and_closes(tmp_path, monkeypatch):
    """T12: after three failures in a row nobody is asked for a while; then all jobs are done."""
    monkeypatch.setattr(worker, "CIRCUIT", (3, 2.0))
    bad = Bad(raising(ModelFailed("overloaded", status=529)))
    memory = novelo.open(f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=bad)
    memory.retry_s = (0.001, 0.001)
    acks = []
    for name in ("t0", "t1", "t2", "t3"):
        acks += said(memory, name, 5)
    assert waited(lambda: memory.worker.paused)
    assert waited(lambda: not memory.worker._running)
    asked = bad.asked
    assert 3 <= asked <= 5
    time.sleep(0.4)
    assert bad.asked == asked
    good = memory.summarizer = Fold()
    assert waited(lambda: not memory.jobs())
    assert good.asked == 4 and not memory.worker.paused
    found = check(tmp_path / "a.db", acks, least=20)
    assert found.violations == [] and found.folds == 4
    memory.close()


@pytest.mark.timeout(300)
def test_a_summarizer_that_fails_now_and_then(tmp_path, monkeypatch):
    """T12: with three of ten summaries failing no turn fails, nothing is lost, and no context exceeds its budget."""
    monkeypatch.setattr(worker, "CIRCUIT", (3, 0.2))
    url = f"sqlite:///{tmp_path}/a.db"
    memory = novelo.open(url, policy=POLICY + " + budget:800", summarizer=Fold(0.01, failing=0.3))
    memory.retry_s = (0.005, 0.05)
    acks, sizes = [], []
    rng = random.Random(3)
    count = size("T12.turns", 500, 3000)
    for k in range(count):
        name = f"t{rng.randrange(4)}"
        thread = memory.thread(name)
        acks.append(take_turn(memory, thread, f"k{k}", f"{WORDS * 2} k{k}.", "w"))
        sizes.append(thread.context("And then?").tokens)
    failed = memory.worker.failed
    waited(lambda: not [j for j in memory.jobs() if not j.parked])
    memory.close()
    found = check(tmp_path / "a.db", acks, least=count)
    print(f"T12: {failed} of {memory.summarizer.asked} failed, {found.folds} summaries, at most {max(sizes)} tokens")
    assert found.violations == []
    assert 700 < max(sizes) <= 800 and failed >= 20 and found.folds >= 20


# ------------------------------------------------------------------------------------------------ kills
PHASES = ("planning", "asking", "answered", "swapping", "swapped")


def summarizing(url, log_path, name):
    """Take turns and summarize until killed; each step of a summary is told before it is done."""
    log = Log(log_path)
    swap, planned = SQLiteStore.swap_summary, worker.Compaction._planned

    def told_plan(self):
        log.write(phase="planning", worker=name)
        return planned(self)

    def told_swap(self, *given):
        log.write(phase="swapping", worker=name)
        done = swap(self, *given)
        log.write(phase="swapped", worker=name)
        return done

    worker.Compaction._planned, SQLiteStore.swap_summary = told_plan, told_swap
    summarizer = Fold(0.01, also=lambda request: log.write(phase="asking", worker=name))
    memory = novelo.open(url, policy=POLICY, summarizer=summarizer)
    number = 0
    while True:
        key = f"{name}-{number}"
        log.write(**take_turn(memory, memory.thread(f"t{number % 2}"), key, f"question {key}.", name))
        number += 1


def recover(url, log_path):
    """What the next process finds, and does at once."""
    memory = novelo.open(url, policy=POLICY, summarizer=Fold(), worker="off")
    held = [job for job in memory.jobs() if job.holder]
    started = time.monotonic()
    done, failed = memory.work()
    seconds = time.monotonic() - started
    left = [job for job in memory.jobs() if job.holder or job.due <= time.time()]
    Log(log_path).write(recovered=done, failed=failed, held=len(held), left=len(left), seconds=seconds)
    memory.close()


@pytest.mark.timeout(600)
def test_kill_9_while_a_summary_is_made(tmp_path):
    """Killed while planning, asking or swapping: the transcript is whole, and the next worker takes the job at once."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    log.touch()
    rng = random.Random(4)
    kills = size("T12.kills", 24, 200)
    for k in range(kills):
        pid = forked(summarizing, url, log, f"w{k}")
        wanted = f'"phase": "{PHASES[k % len(PHASES)]}", "worker": "w{k}"'.encode()
        if PHASES[k % len(PHASES)] == "answered":
            wanted = wanted.replace(b"answered", b"asking")
        assert waited(lambda wanted=wanted: wanted in log.read_bytes())
        time.sleep(rng.uniform(0, 0.012 if k % len(PHASES) == 2 else 0.003))
        os.kill(pid, signal.SIGKILL)
        reap(pid)
        assert check(tmp_path / "a.db", read_log(log), least=0).violations == []
        assert reap(forked(recover, url, log)) == 0
    acks = read_log(log)
    found = check(tmp_path / "a.db", acks, least=kills * 3)
    lines = [json.loads(line) for line in log.read_bytes().splitlines() if b'"recovered"' in line]
    held = sum(line["held"] for line in lines)
    print(f"{kills} kills, {len(acks)} acknowledged, {found.folds} summaries, {held} jobs of the dead taken up")
    assert found.violations == [] and found.folds >= kills // 2
    assert [line for line in lines if line["left"] or line["failed"]] == []
    assert held >= kills // 3


def one_life(image, seed, acked, versions):
    """Take turns and summarize on a disk until its power goes; the image that is left, and what was missing before."""
    disk = Disk(seed, image)
    layer = DiskVFS(f"summaries{seed}", disk)
    memory, problems = None, []
    try:
        store = SQLiteStore(Database("a.db", vfs=f"summaries{seed}", synchronous="FULL", exclusive=True))
        memory = Memory(store, policy="summarize:6messages,keep=2,floor=0%", summarizer=Fold(), worker="off")
        thread = memory.thread("t")
        with store.database.reading() as connection:
            connection.wal_autocheckpoint(20)
            problems = check("a.db", acked, connection=connection, least=0).violations
        there = {s.version: s.text for s in thread.compactions()}
        problems += [f"summary {v} is gone" for v, text in versions.items() if there.get(v) != text]
        disk.cut_at = disk.operations + random.Random(seed).randrange(1, 320)
        for k in range(40):
            acked.append(take_turn(memory, thread, f"{seed}-{k}", f"question {seed}-{k}.", "w"))
            if memory.work() != (0, 0):
                versions |= {s.version: s.text for s in thread.compactions()}
        disk.off = True
    except (PowerCut, apsw.Error, StoreError):
        if not disk.off:
            raise
    finally:
        disk.off = True
        if memory is not None:
            with suppress(PowerCut, apsw.Error, StoreError):
                memory.close()
        layer.unregister()
    return disk.after_cut(), problems


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_power_cuts_around_summaries():
    """A summary that was told as made outlives a power cut, and one that was cut off has left nothing."""
    image, acked, versions, made, problems = None, [], {}, 0, []
    cuts = size("T12.cuts", 300, 2000)
    for n in range(cuts):
        if n % 30 == 0:
            made += len(versions)
            image, acked, versions = None, [], {}
        image, found = one_life(image, 70_000 + n, acked, versions)
        problems += found
    made += len(versions)
    print(f"T12: {cuts} power cuts, {made} summaries")
    assert problems == []
    assert made >= cuts // 2


# ------------------------------------------------------------------------------------------------ two workers
def working(url, log_path, name, delay_s, lease_s=30.0):
    """A process whose worker does what is there, until no job is left."""
    log = Log(log_path)
    told = SQLiteStore.finish

    def finish(self, job, now):
        done = told(self, job, now)
        log.write(worker=name, thread_id=job.thread_id, finished=done)
        return done

    SQLiteStore.finish = finish
    summarizer = Fold(also=lambda request: (log.write(worker=name, asking=True), time.sleep(delay_s)))
    with novelo.open(url, policy=POLICY, summarizer=summarizer, lease_s=lease_s) as memory:
        waited(lambda: not memory.jobs())


@pytest.mark.timeout(120)
def test_two_workers_do_each_job_once(tmp_path):
    """Two processes share the jobs of one file: each is done by one of them, and the model is asked once for each."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    memory = opened(tmp_path, Fold())
    jobs = 40
    acks = [ack for k in range(jobs) for ack in said(memory, f"t{k}", 4)]
    memory.close()
    pids = [forked(working, url, log, name, 0.05) for name in ("ana", "bia")]
    assert [reap(pid) for pid in pids] == [0, 0]
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    asked = Counter(line["worker"] for line in lines if "asking" in line)
    done = Counter(line["thread_id"] for line in lines if line.get("finished"))
    assert sum(asked.values()) == jobs and min(asked.values()) >= jobs // 10
    assert len(done) == jobs and set(done.values()) == {1}
    found = check(tmp_path / "a.db", acks, least=jobs * 4)
    assert found.violations == [] and found.folds == jobs


@pytest.mark.timeout(120)
def test_a_stopped_worker_cannot_finish_what_another_took_over(tmp_path):
    """A worker that was stopped past its lease and wakes up leaves the job to the one who has it now."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    log.touch()
    memory = opened(tmp_path, Fold())
    acks = said(memory, "t", 6)
    memory.close()

    def lines(name, word):
        found = [json.loads(line) for line in log.read_bytes().splitlines()]
        return [line for line in found if line.get("worker") == name and word in line]

    def row():
        reader = opened(tmp_path, None)
        with reader:
            return [(job.holder.split("|")[2], job.tries) for job in reader.jobs()]

    ana = forked(working, url, log, "ana", 1.0, 1.2)
    assert waited(lambda: lines("ana", "asking"))
    os.kill(ana, signal.SIGSTOP)
    assert row() == [(str(ana), 1)]
    bia = forked(working, url, log, "bia", 3.5, 1.2)
    assert waited(lambda: lines("bia", "asking"))
    assert row() == [(str(bia), 2)]
    os.kill(ana, signal.SIGCONT)
    time.sleep(2.0)  # more than the lease: bia renews hers while she works
    assert row() == [(str(bia), 2)]
    assert [reap(ana), reap(bia)] == [0, 0]
    assert [line["finished"] for line in lines("ana", "finished")] in ([], [False])
    assert [line["finished"] for line in lines("bia", "finished")] == [True]
    found = check(tmp_path / "a.db", acks, least=6)
    assert found.violations == [] and found.folds == 1


# ------------------------------------------------------------------------------------------------ what is covered
def test_a_summary_never_ends_before_the_one_it_stands_on(tmp_path):
    """Asked to keep more than before, in a turn that was cut, nothing goes back; the question stays with its steps."""
    memory = opened(tmp_path, Fold())
    thread = memory.thread("t")
    said(memory, count=3)
    with thread.turn("question with a call whose result never comes.") as turn:
        turn.add({"role": "assistant", "content": None, "tool_calls": [CALL]})
    with thread.turn("question with many steps.") as turn:
        for k in range(8):
            call = {**CALL, "id": f"d{k}"}
            turn.add({"role": "assistant", "content": None, "tool_calls": [call]})
            turn.add_tool_result(f"d{k}", f"result {k}")
        turn.reply("answer")
    question = turn.position
    first = thread.compact(policy="summarize:12messages,keep=9,floor=0%")
    assert first.upto > question and question in first.held
    thread.hide(range(first.upto, first.upto + 2))
    later = [thread.compact(policy=f"summarize:90messages,keep={keep},floor=0%") for keep in (30, 80, 2)]
    uptos = [s.upto for s in thread.compactions()]
    assert uptos == sorted(uptos)
    assert later[-1] is not None and question in later[-1].held
    again = thread.compact(redo=True)
    assert (again.upto, again.held, again.covered) == (later[-1].upto, later[-1].held, later[-1].covered)
    assert broken_summaries(tmp_path) == []
    memory.close()
