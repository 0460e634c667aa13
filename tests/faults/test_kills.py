"""T1, T3, T4, T10: processes that are killed, stopped, or many, and clocks that are wrong."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import Counter

import pytest

from faults.checker import check, read_log
from faults.sizes import LONG, size
from faults.working import forked, keep_talking


def reap(pid):
    """Wait for a process; its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.timeout(600)
def test_kill_9(tmp_path):
    """T1: of two processes on the same threads, killed 500 times at random moments, no acknowledged turn is lost."""
    kills, least = size("T1.kills", 500, 2000), size("T1.turns", 2500, 10_000)
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    threads = ["t0", "t1", "t2", "t3"]
    rng = random.Random(1)
    running = {name: forked(keep_talking, url, log, name, threads) for name in ("ana", "bia")}
    due = dict.fromkeys(running, time.monotonic() + 0.5)
    done = 0
    deadline = time.monotonic() + (2400 if LONG else 480)
    while (done < kills or acknowledged(log) < least) and time.monotonic() < deadline:
        name = min(due, key=due.get)
        time.sleep(max(0, due[name] - time.monotonic()))
        os.kill(running[name], signal.SIGKILL)
        reap(running[name])
        done += 1
        running[name] = forked(keep_talking, url, log, name, threads)
        late = acknowledged(log) < done * least / kills  # on a slow machine a process must live to get anything done
        due[name] = time.monotonic() + rng.uniform(0.01, 0.3) * (10 if late else 1)
    for pid in running.values():
        os.kill(pid, signal.SIGKILL)
        reap(pid)
    # what was not acknowledged is asked again with its key
    for name in running:
        assert reap(forked(keep_talking, url, log, name, threads, count=1)) == 0
    acks = read_log(log)
    found = check(tmp_path / "a.db", acks, least=least)
    print(f"T1: {done} kills, {len(acks)} acknowledged, {sum(a['replayed'] for a in acks)} replayed")
    assert found.violations == []
    assert done >= kills


def told(refused):
    """What was refused how often, in words."""
    return ", ".join(f"{refused[name]} {name}" for name in sorted(filter(None, refused))) or "nothing"


def acknowledged(log):
    """How many lines of a log tell of an acknowledged turn."""
    return log.read_bytes().count(b'"ack"') if log.exists() else 0


def zombie_run(tmp_path, pauses, url=None):
    """Two writers on one thread, one at a time stopped past its lease; the acknowledgements, and what was refused."""
    url, log = url or f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    rng = random.Random(2)

    def slow():
        time.sleep(random.random() * 0.004)

    def run(name):
        keep_talking(url, log, name, ["t"], think=slow, lease_s=0.04, on_busy="queue")

    running = {name: forked(run, name) for name in ("ana", "bia", "caio")}
    time.sleep(0.5)
    for _ in range(pauses):
        pid = running[rng.choice(list(running))]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(rng.uniform(0.05, 0.14))
        os.kill(pid, signal.SIGCONT)
        time.sleep(rng.uniform(0.005, 0.03))
    for pid in running.values():
        os.kill(pid, signal.SIGKILL)
        reap(pid)
    refused = Counter(json.loads(line).get("refused") for line in log.read_bytes().splitlines() if line.endswith(b"}"))
    return read_log(log), refused


@pytest.mark.timeout(300)
def test_zombie_writer(tmp_path):
    """T3: a writer that was stopped past its lease and wakes up is refused; every answer fits the history before it."""
    acks, refused = zombie_run(tmp_path, stops := size("T3.stops", 220, 800))
    found = check(tmp_path / "a.db", acks, least=200)
    print(f"T3: {stops} stops, {len(acks)} acknowledged, refused {told(refused)}")
    assert found.violations == []
    assert refused["LeaseLost"] >= 20


@pytest.mark.timeout(300)
def test_zombie_writer_without_the_fence_is_caught(tmp_path, monkeypatch):
    """T3, the control: without the epoch in the append statement the same run breaks the invariants."""
    from novelo.stores.sqlite.session import STATEMENTS

    fence = r"WHERE thread = \?1 AND epoch.*?(?=RETURNING)"
    unfenced = re.sub(fence, "WHERE thread = ?1 AND ?2 >= 0 AND ?11 >= 0 ", STATEMENTS["append"], flags=re.DOTALL)
    assert unfenced != STATEMENTS["append"]
    monkeypatch.setitem(STATEMENTS, "append", unfenced)
    monkeypatch.setitem(STATEMENTS, "close_turn", STATEMENTS["close_turn"].replace(" AND status = 'open'", ""))
    broken = []
    for attempt in range(4):  # what a stopped writer hits is chance
        folder = tmp_path / str(attempt)
        folder.mkdir()
        acks, _ = zombie_run(folder, 150)
        found = check(folder / "a.db", acks, least=1)
        broken += [v for v in found.violations if v.startswith(("I1", "I3", "I4"))]
        if broken:
            break
    print(f"T3 without the fence: {broken[0]}" if broken else "T3 without the fence: nothing was seen")
    assert broken


@pytest.mark.timeout(300)
@pytest.mark.parametrize("writers", [2, 8])
def test_many_writers_on_one_thread(tmp_path, writers):
    """T4: writers in 2 to 8 processes on one thread lose no update."""
    each = size("T4.turns", 2000, 8000) // writers
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    pids = [
        forked(keep_talking, url, log, f"w{i}", ["t"], count=each, policy="window:4turns", queue_s=240.0)
        for i in range(writers)
    ]
    assert [reap(pid) for pid in pids] == [0] * writers
    acks = read_log(log)
    found = check(tmp_path / "a.db", acks, least=each * writers)
    print(f"T4: {writers} writers, {len(acks)} turns acknowledged, {found.entries} entries")
    assert found.violations == []
    assert found.entries == 2 * each * writers


@pytest.mark.timeout(120)
def test_busy_callers_are_told_at_once(tmp_path):
    """T4: under reject a caller that finds the thread busy gets a typed error within 50 ms."""
    import novelo

    url = f"sqlite:///{tmp_path}/a.db"
    one, two = novelo.open(url), novelo.open(url, on_busy="reject")
    waits = []
    with one.thread("t").turn("long") as turn:
        for k in range(200):
            started = time.perf_counter()
            with pytest.raises(novelo.ThreadBusy), two.thread("t").turn(f"q{k}"):
                pass
            waits.append(time.perf_counter() - started)
        turn.reply("done")
    late = sorted(waits)[int(len(waits) * 0.95)]
    print(f"T4: {len(waits)} busy callers told, 95 of 100 within {late * 1000:.1f} ms")
    assert late < 0.05
    assert len(one.thread("t")) == 2


def shifted(url, log, name, threads, seconds, count, **options):
    """Take turns with a clock that is off; it jumps once more in the middle of a lease."""
    real, state = time.time, {"off": seconds, "calls": 0}

    def clock():
        state["calls"] += 1
        if state["calls"] % 97 == 0:
            state["off"] = -state["off"]
        return real() + state["off"]

    time.time = clock
    keep_talking(url, log, name, threads, count=count, **options)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("off_s", [-3600, 86_400])
def test_wrong_clocks(tmp_path, off_s):
    """T10: one of two processes has a clock an hour behind or a day ahead; nothing is lost, and all goes on."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    count = 300
    pids = [
        forked(shifted, url, log, "wrong", ["t0", "t1"], off_s, count, lease_s=2.0, queue_s=20.0),
        forked(keep_talking, url, log, "right", ["t0", "t1"], count=count, lease_s=2.0, queue_s=20.0),
    ]
    assert [reap(pid) for pid in pids] == [0, 0]
    acks = read_log(log)
    found = check(tmp_path / "a.db", [a for a in acks if a["worker"] == "right"], least=count)
    print(f"T10 {off_s:+} s: {len({a['key'] for a in acks})} of {2 * count} acknowledged")
    assert found.violations == []
    assert len({a["key"] for a in acks}) >= 0.95 * 2 * count


@pytest.mark.timeout(120)
@pytest.mark.parametrize("off_s", [-3600, 86_400])
def test_lease_of_a_dead_process_with_a_wrong_clock(tmp_path, off_s):
    """T10: a turn left by a process of another machine with a wrong clock is taken over within two lease times."""
    import novelo

    url = f"sqlite:///{tmp_path}/a.db"
    dead = novelo.open(url, lease_s=1.0)
    dead._holder = "another-machine|boot|1|1|x"
    real = time.time
    time.time = lambda: real() + off_s
    try:
        dead.thread("t").turn("lost?").__enter__()
    finally:
        time.time = real
    dead._stop.set()
    dead._live.clear()
    started = time.monotonic()
    with novelo.open(url, lease_s=1.0, queue_s=10.0) as memory, memory.thread("t").turn("next") as turn:
        took = time.monotonic() - started
        print(f"T10 {off_s:+} s: taken over after {took:.2f} s, the lease is 1 s")
        assert took < 2.0 + 0.5
        texts = [m["content"] for m in turn.messages()]
        turn.reply("ok")
    assert texts == ["lost?", "next"]
