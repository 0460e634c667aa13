"""The fault tests on PostgreSQL: many writers, kills, terminated backends, restarts, wrong clocks, cancelled calls.

Short forms in every run, long ones with NOVELO_TEST_LONG (see docs/postgres.md for another server's address).
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
from collections import Counter

import pytest

import novelo
from faults.checker import read_log, read_touched
from faults.folding import POLICY, Fold, stir
from faults.postgres import asked, checked, terminate
from faults.sizes import LONG, size
from faults.test_kills import acknowledged, reap, shifted, told, zombie_run
from faults.working import Log, forked, keep_talking, take_turn
from fix_postgres import Pooler
from novelo.stores.postgres.database import Settings
from novelo.stores.postgres.texts import in_schema

OPEN = (
    "SELECT state FROM pg_stat_activity"
    " WHERE application_name = 'novelo' AND (xact_start IS NOT NULL OR state LIKE '%in transaction%')"
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("writers", [2, 8])
def test_many_writers_on_one_thread(postgres_url, tmp_path, writers):
    """T4: writers in 2 to 8 processes on one thread lose no update."""
    each = size("T4.postgres_turns", 240, 4000) // writers
    log = tmp_path / "log"
    pids = [
        forked(keep_talking, postgres_url, log, f"w{i}", ["t"], count=each, policy="window:4turns", queue_s=240.0)
        for i in range(writers)
    ]
    assert [reap(pid) for pid in pids] == [0] * writers
    acks = read_log(log)
    found = checked(postgres_url, acks, each * writers)
    print(f"T4: {writers} writers, {len(acks)} turns acknowledged, {found.entries} entries")
    assert found.violations == []
    assert found.entries == 2 * each * writers


@pytest.mark.timeout(300)
def test_zombie_writer(postgres_url, tmp_path):
    """T3: a writer that was stopped past its lease and wakes up is refused; every answer fits the history before it."""
    acks, refused = zombie_run(tmp_path, stops := size("T3.postgres_stops", 150, 600), postgres_url)
    print(f"T3: {stops} stops, {len(acks)} acknowledged, refused {told(refused)}")
    assert checked(postgres_url, acks, 40).violations == []
    assert refused["LeaseLost"] >= 5


@pytest.mark.timeout(300)
def test_zombie_writer_without_the_fence_is_caught(postgres_url, tmp_path, monkeypatch):
    """T3, the control: without the epoch in the append statement the same run breaks the invariants."""
    from novelo.stores.postgres.texts import texts

    writing = texts(Settings(postgres_url).schema)[1]
    told = writing["append"]
    fence = r"WHERE thread = \$1 AND epoch.*?(?=RETURNING)"
    text = re.sub(fence, "WHERE thread = $1 AND $2 >= 0 AND $11 >= 0 ", told.text, flags=re.DOTALL)
    assert text != told.text
    monkeypatch.setitem(writing, "append", told._replace(text=text))
    closing = writing["close_turn"]
    monkeypatch.setitem(writing, "close_turn", closing._replace(text=closing.text.replace(" AND status = 'open'", "")))
    acks, _ = zombie_run(tmp_path, 150, postgres_url)
    broken = checked(postgres_url, acks, 1).violations
    print(f"T3 without the fence: {broken[0]}" if broken else "T3 without the fence: nothing was seen")
    assert any(v.startswith(("I1", "I3", "I4")) for v in broken)


@pytest.mark.timeout(120)
def test_a_process_stopped_in_a_transaction_does_not_keep_others_out(postgres_url):
    """A process that is stopped while it holds a thread's lock is ended by the server after the lock's time."""
    with novelo.open(f"{postgres_url}&lock_timeout=2") as memory:
        memory.thread("t").append({"role": "user", "content": "x"})
        with memory.store.database._lent() as connection:  # as a stopped process would leave it
            connection.execute(memory.store.database._begin)
            text = in_schema(
                "SELECT 1 FROM threads WHERE thread = $1 FOR UPDATE", memory.store.database.settings.schema
            )
            connection.execute(text, (memory.thread("t").key,))
            with novelo.open(postgres_url) as other:
                at = time.monotonic()
                other.thread("t").append({"role": "user", "content": "y"})
                assert 1.0 < time.monotonic() - at < 10


@pytest.mark.timeout(120)
def test_busy_callers_are_told_at_once(postgres_url):
    """T4: under reject a caller that finds the thread busy gets a typed error within 50 ms."""
    waits = []
    with novelo.open(postgres_url) as one, novelo.open(postgres_url, on_busy="reject") as two:
        with one.thread("t").turn("long") as turn:
            for k in range(100):
                at = time.perf_counter()
                with pytest.raises(novelo.ThreadBusy), two.thread("t").turn(f"q{k}"):
                    pass
                waits.append(time.perf_counter() - at)
            turn.reply("done")
        late = sorted(waits)[int(len(waits) * 0.9)]
        print(f"T4: {len(waits)} busy callers told, 90 of 100 within {late * 1000:.1f} ms")
        assert late < 0.05
        assert len(one.thread("t")) == 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["direct", "pgbouncer"])
def test_kills_and_terminated_backends(durable, tmp_path, way):
    """T5: workers are killed and backends ended at random moments; no acknowledged turn is lost."""
    pooler = Pooler(durable) if way == "pgbouncer" else None
    try:
        kills_and_ends(way, durable.address(), (pooler or durable).address(), tmp_path / "log")
    finally:
        if pooler is not None:
            pooler.stop()


def kills_and_ends(way, server, url, log):
    """The same, for workers that come by an address of their own."""
    kills, ends = size("T5.kills", 40, 150), size("T5.ends", 250, 900)
    least = size("T5.turns", 120, 2000)
    novelo.open(url).close()
    threads = ["t0", "t1", "t2", "t3"]
    rng, count, stop = random.Random(1), Counter(), threading.Event()
    options = {"queue_s": 60.0, "lease_s": 5.0}
    running = {name: forked(keep_talking, url, log, name, threads, **options) for name in ("ana", "bia", "caio")}
    nemesis = threading.Thread(target=terminate, args=(server, rng, stop, count))
    nemesis.start()
    deadline = time.monotonic() + (600 if LONG else 150)
    while time.monotonic() < deadline:
        if count["killed"] >= kills and count["ended"] >= ends and acknowledged(log) >= least:
            break
        time.sleep(rng.uniform(0.2, 0.6))
        name = rng.choice(list(running))
        os.kill(running[name], signal.SIGKILL)
        reap(running[name])
        count["killed"] += 1
        running[name] = forked(keep_talking, url, log, name, threads, **options)
    stop.set()
    nemesis.join()
    for pid in running.values():
        os.kill(pid, signal.SIGKILL)
        reap(pid)
    for name in running:  # what was not acknowledged is asked again with its key
        assert reap(forked(keep_talking, url, log, name, threads, count=1, **options)) == 0
    acks = read_log(log)
    found = checked(server, acks, least)
    print(
        f"T5 {way}: {count['killed']} kills, {count['ended']} connections ended, {len(acks)} turns acknowledged, "
        f"{found.lost} lost, {sum(a['replayed'] for a in acks)} settled by replay"
    )
    assert found.violations == []
    assert count["killed"] >= kills and count["ended"] >= ends


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["direct", "pgbouncer"])
def test_restarts(durable, tmp_path, way):
    """T6: the server crashes and comes back in the middle of turns; nothing is lost, and all goes on within 5 s."""
    restarts, log = size("T6.restarts", 4, 50), tmp_path / "log"
    pooler = Pooler(durable) if way == "pgbouncer" else None
    url = (pooler or durable).address()
    novelo.open(url).close()
    running = [forked(keep_talking, url, log, name, ["t0", "t1"], queue_s=60.0, lease_s=5.0) for name in ("ana", "bia")]
    waits = []
    try:
        for _ in range(restarts):
            time.sleep(1.0)
            durable.stop()
            before = acknowledged(log)
            durable.start()
            at = time.monotonic()
            while acknowledged(log) == before and time.monotonic() < at + 20:
                time.sleep(0.02)
            waits.append(time.monotonic() - at)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            reap(pid)
        if pooler is not None:
            pooler.stop()
    acks = read_log(log)
    found = checked(durable.address(), acks, restarts)
    print(
        f"T6 {way}: {restarts} restarts, {len(acks)} turns acknowledged, {found.lost} lost, "
        f"service again after {sorted(waits)[len(waits) // 2]:.2f} s, {max(waits):.2f} s at most"
    )
    assert found.violations == []
    assert max(waits) <= 5.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("off_s", [-3600, 86_400])
def test_wrong_clocks(postgres_url, tmp_path, off_s):
    """T10: one of two processes has a clock an hour behind or a day ahead; nothing is lost, and all goes on."""
    log, count = tmp_path / "log", size("T10.postgres_turns", 100, 300)
    pids = [
        forked(shifted, postgres_url, log, "wrong", ["t0", "t1"], off_s, count, lease_s=2.0, queue_s=20.0),
        forked(keep_talking, postgres_url, log, "right", ["t0", "t1"], count=count, lease_s=2.0, queue_s=20.0),
    ]
    assert [reap(pid) for pid in pids] == [0, 0]
    acks = read_log(log)
    found = checked(postgres_url, [a for a in acks if a["worker"] == "right"], count)
    print(f"T10 {off_s:+} s: {len({a['key'] for a in acks})} of {2 * count} acknowledged")
    assert found.violations == []
    assert len({a["key"] for a in acks}) >= 0.95 * 2 * count


def test_the_same_key_from_many_processes(postgres_url):
    """T14: one key sent by five processes at once is one turn, whatever each of them is told."""

    def send():
        with novelo.open(postgres_url, queue_s=60.0) as memory:
            for k in range(10):
                with memory.thread("t").turn(f"q{k}", key=f"k{k}") as turn:
                    if not turn.replayed:
                        turn.messages()
                        turn.reply(f"a{k}")

    assert [reap(pid) for pid in [forked(send) for _ in range(5)]] == [0] * 5
    with novelo.open(postgres_url) as memory:
        print(f"T14: 10 keys sent from 5 processes, {len(memory.thread('t')) // 2} turns")
        assert sorted(m.text for m in memory.thread("t").messages()) == sorted(
            [f"q{k}" for k in range(10)] + [f"a{k}" for k in range(10)]
        )


def test_cancelled_calls(postgres_url):
    """T16: half of many calls are cancelled; nobody gets another one's answer, and the pool is whole afterwards."""
    import anyio

    rounds = size("T16.calls", 500, 4000) // 100

    async def run():
        wrong, late = [], 0
        async with novelo.open_async(f"{postgres_url}&pool=8") as memory:
            for k in range(20):
                await memory.thread(f"t{k}").append({"role": "user", "content": f"says {k}"})

            async def ask(k, limit):
                nonlocal late
                with anyio.move_on_after(limit) as scope:
                    found = await memory.thread(f"t{k}").messages()
                    if [m.text for m in found] != [f"says {k}"]:
                        wrong.append(k)
                late += scope.cancel_called

            for _ in range(rounds):
                async with anyio.create_task_group() as group:
                    for k in range(100):
                        group.start_soon(ask, k % 20, 0.0005 if k % 2 else 30)
            assert [m.text for m in await memory.thread("t3").messages()] == ["says 3"]
            pool = memory._inner.store.database._pool.get_stats()
        return wrong, late, pool

    wrong, late, pool = anyio.run(run)
    free = f"{pool['pool_available']} of {pool['pool_size']} connections free"
    print(f"T16: {rounds * 100} calls, {late} cancelled, {len(wrong)} wrong callers, {free} afterwards")
    assert pool["pool_available"] == pool["pool_size"] <= 8 and not pool.get("requests_waiting")
    assert wrong == []
    assert late > 0


def test_no_transaction_is_open_while_models_stream(postgres_url):
    """While eight answers are streamed no transaction is open, and no connection waits in the middle of one."""
    writers, open_ones, samples = 8, [], 0
    begun, ended = threading.Barrier(writers + 1), threading.Event()

    def chunks():
        begun.wait(30)
        while not ended.wait(0.01):
            yield "word "

    def answer(memory, name):
        with memory.thread(name).turn("q") as turn:
            turn.messages()
            list(turn.stream(chunks()))

    with novelo.open(postgres_url) as memory:
        for lap in range(size("stream.rounds", 2, 10)):
            running = [threading.Thread(target=answer, args=(memory, f"{lap}-{k}")) for k in range(writers)]
            for one in running:
                one.start()
            begun.wait(30)
            until = time.monotonic() + 1.5  # shorter than the two seconds after which a draft is kept
            while time.monotonic() < until:
                open_ones += asked(postgres_url, OPEN)
                samples += 1
            ended.set()
            for one in running:
                one.join()
            ended.clear()
            begun.reset()
        assert len(memory.thread("0-0")) == 2
    print(f"streams: {writers} at once, {samples} looks into pg_stat_activity, {len(open_ones)} open transactions")
    assert open_ones == [] and samples >= 20


@pytest.mark.timeout(900)
def test_compaction_against_turns_against_erasure(postgres_url, tmp_path):
    """T15: turns, summaries, deletions, masking and erasures at once: a summary is a fold of what it claims."""
    count, log = size("T15.postgres_turns", 400, 4000), tmp_path / "log"
    novelo.open(postgres_url).close()
    mortal = ["m0", "m1", "m2"]
    ids = {"mortal": mortal, "all": [*mortal, "t0", "t1", "t2", "t3", "t4", "t5"]}
    pids = [forked(stir, postgres_url, log, name, ids, count // 2) for name in "ab"]
    assert [reap(pid) for pid in pids] == [0, 0]
    found = checked(postgres_url, read_log(log), count, touched=read_touched(log))
    print(f"T15: {found.folded}")
    assert found.violations == []
    assert found.folds >= count * 3 // 40


@pytest.mark.timeout(300)
@pytest.mark.parametrize("forks", ["keep", "erase"])
def test_a_thread_and_its_fork_are_erased_at_once(postgres_url, forks):
    """I6: what a thread leaves to its fork does not stay when the fork is erased in the same moment."""
    begin = threading.Barrier(2)

    def erase(memory, name):
        begin.wait(30)
        memory.thread(name).erase(forks=forks)

    with novelo.open(postgres_url) as one, novelo.open(postgres_url) as two:
        for k in range(10):
            take_turn(one, one.thread(f"t{k}"), "k", "question", "w")
            one.thread(f"t{k}").fork(None, f"f{k}")
            at_once = [threading.Thread(target=erase, args=given) for given in ((one, f"t{k}"), (two, f"f{k}"))]
            for thread in at_once:
                thread.start()
            for thread in at_once:
                thread.join()
    assert checked(postgres_url, [], 0).violations == []


def working(url, log_path, name):
    """A process whose worker does what is there, until no job is left."""
    log = Log(log_path)
    summarizer = Fold(also=lambda request: (log.write(worker=name, asking=True), time.sleep(0.02)))
    with novelo.open(url, policy=POLICY, summarizer=summarizer) as memory:
        while memory.jobs():
            time.sleep(0.02)


@pytest.mark.timeout(120)
def test_two_workers_do_each_job_once(postgres_url, tmp_path):
    """Two processes share the jobs of one database: the model is asked once for each."""
    log, jobs = tmp_path / "log", 20
    with novelo.open(postgres_url, policy=POLICY, summarizer=Fold(), worker="off") as memory:
        acks = []
        for k in range(jobs):
            acks += [take_turn(memory, memory.thread(f"t{k}"), f"k{n}", f"question k{n}.", "w") for n in range(4)]
    assert [reap(pid) for pid in [forked(working, postgres_url, log, name) for name in ("ana", "bia")]] == [0, 0]
    asked = [json.loads(line)["worker"] for line in log.read_bytes().splitlines()]
    assert len(asked) == jobs and set(asked) == {"ana", "bia"}
    found = checked(postgres_url, acks, jobs * 4)
    assert found.violations == [] and found.folds == jobs
