"""T19: a long run of everything at once with kills in between; the store stays whole, and a process does not grow.

Three processes share the threads of one store: one lives from the beginning to the end, two are killed in turns. All
of them talk, summarize, hide, mask, delete, edit, fork and erase. What is measured is the process that lives on.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

import novelo
from faults.checker import check, read_log, read_touched
from faults.folding import stir
from faults.sizes import LONG, size
from faults.test_kills import reap
from faults.working import forked, keep_talking

OPEN = novelo.open
THREADS = 10  # that use one memory: talkers, a changer, the worker, its jobs, and who renews leases
LIFE_S = 60.0  # so long a thread is talked in, then a fresh one: the store grows, the threads do not, nor may a process
PAUSE_S = 0.03  # between turns: a run of half an hour is about what adds up, not about speed
OPTIONS = {"lease_s": 5.0, "queue_s": 60.0}


class Lately:
    """Ids of threads that are the same in all processes, and others after a while."""

    def __init__(self, *names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, number):
        return f"{self.names[number]}-{time.monotonic() // LIFE_S:.0f}"


IDS = {"mortal": Lately("m0", "m1"), "all": Lately("m0", "m1", "t0", "t1", "t2", "t3")}
PLAIN = Lately("k0", "k1")  # of these every answer says what it was computed from (I4)


def with_all_connections(*args, **options):
    """A memory whose pool has as many connections as its threads may ever need at once: no later one is a growth."""
    memory = OPEN(*args, **options)
    with ExitStack() as held:
        for _ in range(THREADS if str(args[0]).startswith("sqlite") else 0):
            held.enter_context(memory.store.database.reading())
    return memory


def survivor(url, log, seconds):
    """The process that lives on: two talkers, a changer, a worker, and one that takes plain turns."""
    novelo.open = with_all_connections  # a process of its own
    end = time.monotonic() + seconds
    plain = threading.Thread(
        target=keep_talking,
        args=(url, log, "ana", PLAIN),
        kwargs={"until": lambda: time.monotonic() > end, "think": lambda: time.sleep(PAUSE_S), **OPTIONS},
    )
    plain.start()
    stir(url, log, "a0", IDS, 1 << 40, talkers=2, pause_s=PAUSE_S, seconds=seconds, queue_s=60.0)
    plain.join()


def grown(samples):
    """Memory or open files behind the warm-up, a third of the run, and at the end: medians of a tenth of the run."""
    tenth = max(1, len(samples) // 10)
    begin = len(samples) // 3
    return median(samples[begin : begin + tenth]), median(samples[-tenth:])


def own_mib(pid):
    """Memory of a process that is its own, in MiB: pages of files and of libraries do not count."""
    text = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    return int(re.search(r"RssAnon:\s+(\d+)", text).group(1)) / 1024


def soaked(url, log, rng):
    """The run itself; kills, samples of memory and of open files, and the survivor's exit status."""
    seconds, every = size("T19.seconds", 25, 1800), size("T19.every", 5, 10)
    start = {
        "bia": lambda n: forked(keep_talking, url, log, "bia", PLAIN, think=lambda: time.sleep(PAUSE_S), **OPTIONS),
        "b": lambda n: forked(stir, url, log, f"b{n}", IDS, 1 << 40, talkers=2, pause_s=PAUSE_S, queue_s=60.0),
    }
    lives = forked(survivor, url, log, seconds)
    running = {name: begin(0) for name, begin in start.items()}
    begun, kills, memory, files = time.monotonic(), 0, [], []
    try:
        while time.monotonic() < begun + seconds - 1:
            time.sleep(rng.uniform(0.8, 1.2) * min(every, 1.0))
            memory.append(own_mib(lives))
            files.append(len(os.listdir(f"/proc/{lives}/fd")))
            if time.monotonic() > begun + (kills + 1) * every:
                kills += 1
                name = list(start)[kills % 2]
                os.kill(running[name], signal.SIGKILL)
                reap(running[name])
                running[name] = start[name](kills)
        status = reap(lives)
    finally:
        for pid in running.values():
            os.kill(pid, signal.SIGKILL)
            reap(pid)
    assert reap(forked(keep_talking, url, log, "bia", PLAIN, count=1, **OPTIONS)) == 0  # what was not acknowledged
    return seconds, kills, memory, files, status


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory and open files are read from /proc")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_soak(tmp_path, request, engine):
    """T19: with kills in between nothing is lost or broken, and the process that lives on does not grow."""
    log = tmp_path / "log"
    file = f"sqlite:///{tmp_path}/a.db"
    url = file if engine == "sqlite" else request.getfixturevalue("durable").address()
    seconds, kills, memory, files, status = soaked(url, log, random.Random(19))
    acks, touched = read_log(log), read_touched(log)
    if engine == "sqlite":
        found = check(tmp_path / "a.db", acks, least=seconds, touched=touched)
    else:
        from faults.postgres import checked

        found = checked(url, acks, seconds, touched=touched)
    (before, after), (_, open_now) = grown(memory), grown(files)
    # A pool of a server opens a connection when all others are in use: until two thirds of the run.
    opened = max(files[len(files) // 3 : 2 * len(files) // 3])
    print(
        f"T19 {engine}: {seconds} s, {kills} kills, {found.folded}, {len(found.violations)} violations; "
        f"memory {before:.1f} to {after:.1f} MiB ({after / before - 1:+.1%}), open files {opened:.0f} to {open_now:.0f}"
    )
    assert found.violations == []
    assert status == 0 and kills >= seconds // size("T19.every", 5, 10) - 2
    assert open_now <= opened * 1.05
    assert after <= before * (1.05 if LONG or seconds >= 300 else 1.25)  # a short run is still warming up
