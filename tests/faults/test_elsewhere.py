"""T4, T5 and `on_busy` on the server that NOVELO_TEST_POSTGRES names: a cluster, or another engine. Else on our own.

No rights are needed but those of the tables' owner: whoever may not end connections kills processes alone.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter

import pytest

import novelo
from faults.checker import read_log
from faults.postgres import checked
from faults.test_kills import acknowledged, reap
from faults.working import forked, keep_talking
from fix_postgres import NAMED, SHARDS
from novelo.errors import LeaseLost, ThreadBusy

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")
pytestmark = pytest.mark.skipif(bool(SHARDS), reason="other processes do not know the shards of this one")

LONG = os.environ.get("NOVELO_TEST_LONG", "") not in ("", "0")
KILLS, ENDS, TURNS = (150, 900, 2000) if LONG else (10, 40, 40)
PROGRAM = f"novelo-test-{os.getpid()}"  # its connections alone are ended: others may use the server


def ends(url, stop, count, rng):
    """End connections of ours at random moments, if we may."""
    while not stop.is_set():
        try:
            with psycopg.connect(url.partition("?")[0], autocommit=True, application_name="nemesis") as connection:
                while not stop.is_set():
                    rows = connection.execute(
                        "SELECT pid FROM pg_stat_activity WHERE application_name = %s", (PROGRAM,)
                    ).fetchall()
                    if rows:
                        connection.execute("SELECT pg_terminate_backend(%s)", rng.choice(rows))
                        count["ended"] += 1
                    time.sleep(rng.uniform(0.0, 0.1))
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.UndefinedFunction,
            psycopg.errors.FeatureNotSupported,
        ):
            count["not allowed"] += 1
            return
        except psycopg.Error:
            time.sleep(0.05)


@pytest.mark.timeout(1200)
def test_kills_and_ended_connections(postgres_url, tmp_path):
    """T5 over there: workers are killed and connections ended at random moments; no acknowledged turn is lost."""
    log, url = tmp_path / "log", f"{postgres_url}&application_name={PROGRAM}"
    novelo.open(url).close()
    rng, count, stop = random.Random(1), Counter(), threading.Event()
    threads, options = ["t0", "t1", "t2", "t3"], {"queue_s": 60.0, "lease_s": 5.0}
    running = {name: forked(keep_talking, url, log, name, threads, **options) for name in ("ana", "bia", "caio")}
    nemesis = threading.Thread(target=ends, args=(url, stop, count, rng))
    nemesis.start()
    deadline = time.monotonic() + (900 if LONG else 120)
    while time.monotonic() < deadline:
        enough = count["ended"] >= ENDS or count["not allowed"]
        if count["killed"] >= KILLS and enough and acknowledged(log) >= TURNS:
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
    found = checked(postgres_url, acks, TURNS)
    print(f"T5: {count['killed']} kills, {count['ended']} connections ended, {len(acks)} turns")
    assert found.violations == []


def take(url, mode, name, pipe):
    """What one process does with a thread that another one holds: says how its turn ended."""
    pipe = open(pipe, "a", encoding="utf-8")  # noqa: SIM115  a child's, closed by its end
    with novelo.open(url, on_busy=mode, queue_s=30.0, worker="off") as memory:
        try:
            with memory.thread("t").turn(f"question {name}", key=name) as turn:
                time.sleep(0.3)
                turn.reply(f"answer {name}")
            pipe.write(f"{name} done\n")
        except (ThreadBusy, LeaseLost) as error:
            pipe.write(f"{name} {type(error).__name__}\n")
    pipe.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("processes", [2, 8])
@pytest.mark.parametrize("mode", ["queue", "reject", "interrupt"])
def test_on_busy_across_processes(postgres_url, tmp_path, mode, processes):
    """Processes want one thread at once: queued all get it, rejected one does, interrupted the last one keeps it."""
    novelo.open(postgres_url).close()
    told = tmp_path / "told"
    pids = [forked(take, postgres_url, mode, f"p{k}", told) for k in range(processes)]
    assert [reap(pid) for pid in pids] == [0] * processes
    ended = Counter(line.split()[1] for line in told.read_text("utf-8").splitlines())
    with novelo.open(postgres_url) as memory:
        thread = memory.thread("t")
        turns = thread.turns()
        texts = [entry.text for entry in thread.messages(hidden=True)]
    assert sum(ended.values()) == processes
    done = [turn for turn in turns if turn.status == "done"]
    assert len(done) == ended["done"] >= 1
    assert len([text for text in texts if text.startswith("answer")]) == ended["done"]
    if mode == "queue":
        assert ended == {"done": processes}
        names = [text.split()[1] for text in texts]
        assert names[::2] == names[1::2]  # every answer stands behind its own question
    elif mode == "reject":
        assert set(ended) <= {"done", "ThreadBusy"} and len(turns) == ended["done"]
    else:
        assert set(ended) <= {"done", "LeaseLost"}
        assert len(turns) == processes and {turn.status for turn in turns} <= {"done", "interrupted"}


def once(url, name, pipe):
    """The same request as the other processes send: its key makes it one turn."""
    pipe = open(pipe, "a", encoding="utf-8")  # noqa: SIM115
    with (
        novelo.open(url, queue_s=30.0, worker="off") as memory,
        memory.thread("t").turn("the question", key="k") as turn,
    ):
        text = turn.stored_reply if turn.replayed else turn.reply(f"answer of {name}").text
        pipe.write(f"{turn.replayed} {turn.position} {text}\n")
    pipe.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("processes", [2, 8])
def test_one_key_is_one_turn(postgres_url, tmp_path, processes):
    """The same key from several processes at once: one of them answers, the others get its answer."""
    novelo.open(postgres_url).close()
    told = tmp_path / "told"
    pids = [forked(once, postgres_url, f"p{k}", told) for k in range(processes)]
    assert [reap(pid) for pid in pids] == [0] * processes
    lines = [line.split(" ", 2) for line in told.read_text("utf-8").splitlines()]
    assert len(lines) == processes
    assert [line[0] for line in lines].count("False") == 1
    assert len({(line[1], line[2]) for line in lines}) == 1
    with novelo.open(postgres_url) as memory:
        assert len(memory.thread("t").messages()) == 2


def test_which_server_it_is(postgres):
    """The address of the environment is the one that the tests use."""
    assert not NAMED or postgres == NAMED
