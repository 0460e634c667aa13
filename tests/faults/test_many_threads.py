"""T18: many threads in one process: what they cost in memory, and how long the reading of a context takes.

The whole form is 10,000 threads of 3 turns, on a file and on a server (NOVELO_TEST_LONG); the short one of every run
has 500. What is counted is CPU, so that a busy machine does not decide.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fix_postgres import DISTRIBUTE, SHARDS

LONG = os.environ.get("NOVELO_TEST_LONG", "") not in ("", "0")
THREADS = (1000, 10_000) if LONG else (100, 500)
TURNS = 3
MORE_MIB = 16.0 if LONG else 5.0  # what the threads between the two numbers may add: less than 2 KiB each, and noise
READ_S = 0.005
WORK = """
import gc, json, resource, sys, time
import novelo

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

url, few, many, turns = sys.argv[1], *map(int, sys.argv[2:])
reads, sizes = [], {}
with novelo.open(url, policy="window:10turns", worker="off") as memory:
    for k in range(many):
        thread = memory.thread(f"t{k}", f"owner {k % 97}")
        for n in range(turns):
            with thread.turn(f"Question {n} of {k}: where is my order, and when will it come? " * 4, f"k{n}") as turn:
                at = time.thread_time()
                turn.messages()
                reads.append(time.thread_time() - at)
                turn.reply(f"Answer {n} of {k}: it left the warehouse and comes on Friday. " * 8)
        if k + 1 in (few, many):
            sizes[k + 1] = resident()
    found = [len(memory.thread(f"t{k}", f"owner {k % 97}").messages()) for k in range(0, many, many // 50)]
    listed = len(memory.threads(limit=many))
    with open("/proc/self/status") as file:  # of this program alone: the peak that getrusage tells may be its parent's
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    reads.sort()
    print(json.dumps({"few": sizes[few], "many": sizes[many], "p99": reads[int(len(reads) * 0.99)], "peak": peak,
                      "reads": len(reads), "median": reads[len(reads) // 2], "found": found, "listed": listed}))
"""


@pytest.fixture(params=["file", "server"])
def url(request, tmp_path):
    """A file, in memory where the machine allows it, since not the disk is tried here; or a server."""
    if request.param == "file":
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as folder:
            yield f"sqlite:///{folder}/chat.db"
        return
    if SHARDS or DISTRIBUTE:
        pytest.skip("another process does not know the shards of this one")
    yield request.getfixturevalue("postgres_url")


@pytest.mark.timeout(180)
def test_many_threads_cost_no_memory_and_read_fast(url):
    """T18: memory does not grow with the number of threads, and 99 of 100 contexts are read within 5 ms of CPU."""
    few, many = THREADS
    command = [sys.executable, "-c", WORK, url, str(few), str(many), str(TURNS)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=3000, env=env)
    assert ran.returncode == 0, ran.stderr[-2000:]
    figures = json.loads(ran.stdout)
    more = figures["many"] - figures["few"]
    print(f"T18: {many} threads, {figures['reads']} turns: {more:+.1f} MiB over {few} threads, context read"
          f" {figures['median'] * 1000:.2f} ms, p99 {figures['p99'] * 1000:.2f} ms of CPU")  # fmt: skip
    assert figures["reads"] == many * TURNS
    assert set(figures["found"]) == {2 * TURNS} and figures["listed"] == many
    assert more <= MORE_MIB
    assert figures["p99"] <= READ_S
    assert figures["peak"] < 400
