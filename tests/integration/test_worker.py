"""Summaries are made after the reply: by threads of this process, by another process, or when they are asked for."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest

import novelo
from novelo.context.redact import Redact
from novelo.errors import InvalidSpec, ModelFailed, SummaryFailed
from novelo.stores.base import Work
from novelo.testing import ScriptedModel

POLICY = "summarize:6messages,keep=2"
GOOD = "A cliente perguntou pelo pedido e a loja respondeu."


def talk(thread, turns, start=0):
    """Plain turns, and how long each took."""
    laps = []
    for k in range(start, start + turns):
        begun = time.perf_counter()
        with thread.turn(f"Pergunta {k}: onde está o pedido?") as turn:
            turn.messages()
            turn.reply(f"Resposta {k}: saiu ontem para entrega.")
        laps.append(time.perf_counter() - begun)
    return laps


def until(what, seconds=10.0):
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def test_a_summary_is_made_after_the_reply(tmp_path):
    """The turn that makes one due does not wait for it, and neither does the next question."""
    asked, go = threading.Event(), threading.Event()

    def slow(request):
        asked.set()
        assert go.wait(20)
        return GOOD

    with novelo.open(f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=slow) as memory:
        thread = memory.thread("t")
        laps = talk(thread, 3)
        assert asked.wait(10)
        laps += talk(thread, 3, start=3)
        assert max(laps) < 5 and thread.summary is None
        go.set()
        until(lambda: thread.summary is not None)
        assert thread.summary.text == GOOD and len(thread) == 12
        assert thread.usage().by("purpose")["summary"].calls >= 1


@pytest.mark.parametrize("pattern", [r"PX-\d+", r"PX-(?:4711|4712)", r"PX-\d{1,9}", "PX-4711,question"])
def test_a_mask_of_any_pattern_holds_in_a_job(tmp_path, pattern):
    """What a pattern of the policy masks reaches no summarizer, whatever signs the pattern is made of."""
    asked = []

    def write(request):
        asked.append(request.messages[-1]["content"])
        return GOOD

    policy = [POLICY, Redact((), (pattern,))]
    with novelo.open(f"sqlite:///{tmp_path}/a.db", policy=policy, summarizer=write, worker="off") as memory:
        thread = memory.thread("t")
        with thread.turn("O pedido é PX-4711,question: onde está?") as turn:
            turn.messages()
            turn.reply("Saiu ontem para entrega.")
        talk(thread, 2)
        assert memory.work() == (1, 0)
    assert asked and "[redacted]" in asked[0] and "PX-4711" not in asked[0]


def test_a_job_that_an_earlier_version_wrote_is_done(tmp_path):
    """Its masks stand in the policy's text."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db", summarizer=ScriptedModel([GOOD]), worker="off") as memory:
        thread = memory.thread("t")
        talk(thread, 3)
        spec = '{"policy": "summarize:6messages,keep=2 + redact:emails"}'
        memory.store.ask(thread.key, Work("compact", 0.0, spec), time.time())
        assert memory.work() == (1, 0) and thread.summary is not None


def test_a_policy_of_policies_summarizes(tmp_path):
    """Stages may come in several texts, some of which are pipelines themselves."""
    policy = ["strip_media + " + POLICY, "budget:2000"]
    with novelo.open(
        f"sqlite:///{tmp_path}/a.db", policy=policy, summarizer=ScriptedModel([GOOD]), worker="off"
    ) as memory:
        talk(memory.thread("t"), 3)
        assert memory.work() == (1, 0)


def test_two_summarizing_stages_tell_a_summary_once(tmp_path):
    """The first one makes and tells it."""
    with novelo.open(
        f"sqlite:///{tmp_path}/a.db",
        policy=POLICY + " + summarize:9messages,keep=2",
        summarizer=ScriptedModel([GOOD]),
        worker="off",
    ) as memory:
        thread = memory.thread("t")
        talk(thread, 3)
        memory.work()
        assert str(thread.context("E agora?").messages()).count(GOOD) == 1


def test_several_threads_side_by_side_and_one_job_each(tmp_path):
    """Two conversations are summarized at the same time, one of them never twice at once."""
    running, most, lock, twice = set(), [0], threading.Lock(), []
    both = threading.Barrier(2, timeout=20)

    def slow(request):
        name = "a" if "[a]" in request.messages[-1]["content"] else "b"
        with lock:
            twice.extend([name] * (name in running))
            running.add(name)
            most[0] = max(most[0], len(running))
        if not both.broken:
            try:
                both.wait(2)
            except threading.BrokenBarrierError:
                both.abort()
        with lock:
            running.discard(name)
        return GOOD

    with novelo.open(f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=slow) as memory:
        threads = [memory.thread(name) for name in "ab"]
        for k in range(4):
            for thread in threads:
                with thread.turn(f"[{thread.thread_id}] pergunta {k}") as turn:
                    turn.messages()
                    turn.reply("certo")
        until(lambda: all(t.summary for t in threads))
    assert most[0] == 2 and not twice


def test_jobs_survive_a_restart(tmp_path):
    """What was due when a process ended is made by the next one, as it opens."""
    url = f"sqlite:///{tmp_path}/a.db"
    with novelo.open(url, policy=POLICY, summarizer=ScriptedModel([]), worker="off") as memory:
        talk(memory.thread("t"), 3)
        assert [job.kind for job in memory.jobs()] == ["compact"]
    with novelo.open(url, policy=POLICY, summarizer=ScriptedModel([GOOD] * 3)) as memory:
        until(lambda: memory.thread("t").summary is not None)
        until(lambda: memory.jobs() == [])


def test_work_is_done_when_it_is_asked_for(tmp_path):
    """With the worker off nothing happens by itself; `memory.work()` does what is due, and no more."""
    with novelo.open(
        f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=ScriptedModel([GOOD] * 9), worker="off"
    ) as memory:
        thread = memory.thread("t")
        talk(thread, 2)
        assert memory.work() == (0, 0) and memory.jobs() == []
        talk(thread, 1)
        assert thread.summary is None
        assert memory.work() == (1, 0)
        assert thread.summary.upto == 4 and memory.work() == (0, 0)


def test_a_thread_that_is_not_idle_yet_waits(tmp_path):
    """With `idle_s` each turn puts the job off; what would not fit the budget any more does not wait."""
    url = f"sqlite:///{tmp_path}/a.db"
    with novelo.open(url, policy=POLICY, summarizer=ScriptedModel([GOOD] * 9), worker="off", idle_s="cache") as memory:
        thread = memory.thread("t")
        talk(thread, 3)
        first = memory.jobs()[0].due
        assert 260 < first - time.time() < 271
        talk(thread, 1, start=3)
        assert memory.jobs()[0].due >= first and memory.work() == (0, 0)
    tight = f"{POLICY} + budget:60"
    with novelo.open(url, policy=tight, summarizer=ScriptedModel([GOOD] * 9), worker="off", idle_s=3600) as memory:
        thread = memory.thread("u")
        talk(thread, 3)
        assert memory.work() == (1, 0)


def test_a_failing_summarizer_is_tried_again_later(tmp_path):
    """The turn does not notice; the job is put off, its error is named, and it is done when the time has come."""
    model = ScriptedModel([ModelFailed("busy"), GOOD])
    events = []
    with novelo.open(
        f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=model, worker="off", on_compaction=events.append
    ) as memory:
        memory.retry_s = (0.05, 0.05)
        thread = memory.thread("t")
        talk(thread, 3)
        assert memory.work() == (0, 1)
        (job,) = memory.jobs()
        assert (job.error, job.tries, job.parked) == ("ModelFailed", 1, False)
        until(lambda: memory.work() == (1, 0))
        assert thread.summary.text == GOOD
    assert [(e.status, e.error) for e in events] == [
        ("started", ""),
        ("failed", "ModelFailed"),
        ("started", ""),
        ("done", ""),
    ]
    assert events[-1].messages_before == 4 and events[-1].messages_after == 2 and events[-1].version == 1


def test_closing_waits_a_little_for_a_running_job(tmp_path):
    """A job that ends soon is kept; the memory is closed behind it."""
    url = f"sqlite:///{tmp_path}/a.db"
    begun = threading.Event()

    def slow(request):
        begun.set()
        time.sleep(0.3)
        return GOOD

    with novelo.open(url, policy=POLICY, summarizer=slow) as memory:
        talk(memory.thread("t"), 3)
        assert begun.wait(10)
    with novelo.open(url) as memory:
        assert memory.thread("t").summary.text == GOOD


def test_listeners_that_fail_harm_nobody(tmp_path, caplog):
    """Callbacks are told of calls and compactions; one that raises is named in the log, and all goes on."""
    told = []

    def broken(event):
        raise RuntimeError("a listener of the application's")

    with novelo.open(
        f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=ScriptedModel([GOOD] * 3), worker="off",
        on_usage=[broken, told.append], on_compaction=broken,
    ) as memory:  # fmt: skip
        thread = memory.thread("t", owner="ana")
        talk(thread, 3)
        memory.work()
        assert thread.summary is not None
    assert [(e.owner, e.thread_id, e.call.purpose) for e in told] == [("ana", "t", "reply")] * 3 + [
        ("ana", "t", "summary")
    ]
    assert told[0].manifest.end == 1 and told[0].messages[-1].text.startswith("Resposta 0")
    assert "RuntimeError" in caplog.text and "of the application's" not in caplog.text


def test_by_hand_redo_undo_and_what_cannot_be_done():
    """Compact raises what the summarizer did; redo makes another version of the same; undo goes back step by step."""
    model = ScriptedModel([GOOD, "", "Outro resumo do pedido.", "E mais outro."])
    with novelo.open("sqlite://", policy=POLICY, summarizer=model, worker="off") as memory:
        thread = memory.thread("t")
        assert thread.compact() is None and thread.undo_compaction() is None
        talk(thread, 4)
        first = thread.compact(focus="o prazo")
        assert (first.upto, first.focus, first.version) == (6, "o prazo", 1)
        assert "o prazo" in model.requests[0].messages[0]["content"]
        assert thread.compact() is None  # nothing but what is kept is left
        with pytest.raises(SummaryFailed) as failed:
            thread.compact(redo=True)
        assert failed.value.reason == "empty" and thread.summary.text == GOOD
        second = thread.compact(redo=True, prompt="Em uma frase.")
        assert (second.upto, second.base, second.text) == (6, 0, "Outro resumo do pedido.")
        assert model.requests[-1].messages[0]["content"].startswith("Em uma frase.")
        assert thread.undo_compaction().text == "" and thread.summary is None
        assert len(thread.context("e?")) == 9 and thread.undo_compaction() is None
        talk(thread, 1, start=4)
        asked = len(model.requests)  # undone: none is due before as much again was said
        assert memory.work() == (1, 0) and memory.jobs() == [] and len(model.requests) == asked
        talk(thread, 2, start=5)
        assert [job.kind for job in memory.jobs()] == ["compact"]
    with novelo.open("sqlite://", policy=POLICY) as memory, pytest.raises(InvalidSpec, match="summarizer"):
        talk(memory.thread("t"), 4)
        memory.thread("t").compact()


def test_undo_goes_back_to_the_summary_before():
    """With two versions the first undo brings the former summary back, the second the text."""
    with novelo.open("sqlite://", policy=POLICY, summarizer=ScriptedModel(["Um.", "Dois."]), worker="off") as memory:
        thread = memory.thread("t")
        talk(thread, 3)
        memory.work()
        talk(thread, 2, start=3)
        memory.work()
        assert thread.summary.text == "Dois." and thread.summary.base == 1
        assert thread.undo_compaction().text == "Um." and thread.summary.upto == 4
        assert thread.undo_compaction().text == "" and thread.summary is None
        assert [s.text for s in thread.compactions()] == ["Um.", "Dois.", "Um.", ""]


def test_an_awaited_memory_compacts_too():
    """The same names, awaited; a summarizer that can only be awaited is asked in a loop of its own."""
    import anyio

    from novelo.asking import ModelReply
    from novelo.messages import Message

    class Awaited:
        async def acomplete(self, request):
            await anyio.sleep(0)
            return ModelReply(Message("assistant", GOOD))

    async def main():
        async with novelo.open_async("sqlite://", policy=POLICY, summarizer=Awaited(), worker="off") as memory:
            thread = memory.thread("t")
            for k in range(3):
                async with thread.turn(f"pergunta {k}") as turn:
                    await turn.messages()
                    await turn.reply("certo")
            assert (await thread.compact()).text == GOOD
            assert (await memory.jobs())[0].kind == "compact"
            assert (await thread.why("pergunta 0")).said

    anyio.run(main)


def test_the_worker_command_does_the_jobs_of_other_processes(tmp_path):
    """`novelo worker` makes what a process with its worker off left, and ends at SIGTERM."""
    path = tmp_path / "a.db"
    with novelo.open(f"sqlite:///{path}", policy=POLICY, summarizer=ScriptedModel([]), worker="off") as memory:
        thread = memory.thread("t")
        talk(thread, 3)
        env = {**os.environ, "NOVELO_HOME": str(tmp_path)}
        command = [sys.executable, "-m", "novelo", "worker", "-d", str(path), "-m", "offline", "--poll", "0.05"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as worker:
            try:
                until(lambda: thread.summary is not None, 30)
                talk(thread, 3, start=3)
                until(lambda: thread.summary.base == 1, 30)
            finally:
                worker.send_signal(signal.SIGTERM)
            told = worker.communicate(timeout=20)[1]
    assert worker.returncode == 0 and "t: summary 1" in told, told


def test_a_job_that_makes_no_sense_is_put_off_and_named(tmp_path):
    """A job row of a future version does not stop the others."""
    with novelo.open(
        f"sqlite:///{tmp_path}/a.db", policy=POLICY, summarizer=ScriptedModel([GOOD]), worker="off"
    ) as memory:
        talk(memory.thread("a"), 1)
        memory.store.ask(memory.thread("a").key, Work("compact", 0.0, "{"), time.time())
        talk(memory.thread("b"), 3)
        assert memory.work() == (1, 1)
        assert [job.thread_id for job in memory.jobs()] == ["a"]


def test_summaries_as_few_as_the_arithmetic_allows():
    """Over 100 turns with trigger 20 and keep 6: the first at 20 messages, then one for every 14."""
    model = ScriptedModel([GOOD] * 99)
    with novelo.open("sqlite://", policy="summarize:20messages,keep=6", summarizer=model, worker="off") as memory:
        thread = memory.thread("t")
        sizes = []
        for k in range(100):
            talk(thread, 1, start=k)
            memory.work()
            sizes.append(len(thread.context()))
        assert len(model.requests) == 1 + (200 - 20) // 14
        assert max(sizes) <= 20 + 2 and statistics.median(sizes) > 6


def test_jobs_for_a_worker_elsewhere_need_no_summarizer_here(tmp_path):
    """With the worker off a due summary is a job, whoever does it; without any the log says so once."""
    url = f"sqlite:///{tmp_path}/a.db"
    with novelo.open(url, policy=POLICY, worker="off") as memory:
        talk(memory.thread("t"), 3)
        assert [job.kind for job in memory.jobs()] == ["compact"]
    with novelo.open(url, policy=POLICY, summarizer=ScriptedModel([GOOD]), worker="off") as memory:
        assert memory.work() == (1, 0)


def test_a_policy_that_cannot_summarize_says_so_once(caplog):
    """Without a summarizer nothing is summarized, and the log has one line about it."""
    with novelo.open("sqlite://", policy=POLICY) as memory:
        talk(memory.thread("t"), 5)
        assert memory.jobs() == []
    assert caplog.text.count("there is no summarizer") == 1
