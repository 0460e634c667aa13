"""T7: the primary crashes with its stream to the standby stalled, and the standby takes its place.

Two servers on this machine, clients with both addresses and `target_session_attrs=read-write`. A commit is
acknowledged when the standby has it on its disk (`synchronous_standby_names`), also on a new primary, which therefore
takes no write until it has a standby again. The control does without that, and must be seen to lose.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest

import novelo
from faults.checker import read_log
from faults.postgres import asked, checked
from faults.sizes import size
from faults.test_kills import acknowledged, reap
from faults.working import forked, keep_talking, take_turn
from fix_postgres import with_standby
from novelo import StorageUnavailable

FLAGS = "-c max_connections=60 -c shared_buffers=32MB -c cluster_name=standby"
WAITING = f"{FLAGS} -c synchronous_standby_names=standby"
STALL_S = 0.4  # how long nothing is sent before a crash


def both(primary, standby, **more):
    """The address of whichever of two servers takes writes."""
    asks = urlencode({"target_session_attrs": "read-write", **more})
    return f"postgresql://novelo@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres?{asks}"


def streaming(primary, seconds=30.0):
    """Wait until the standby gets all that is written; the processes that send it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = asked(primary.address(), "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'")
        if found:
            return tuple(row[0] for row in found)
        time.sleep(0.02)
    raise AssertionError("the standby does not follow")


def stall(primary):
    """Stop those that send to the standby; who they are."""
    senders = streaming(primary)
    for pid in senders:
        os.kill(pid, signal.SIGSTOP)
    return senders


@pytest.fixture
def servers(request):
    """A primary and its standby, with the flags that the test says."""
    pair = with_standby(request.param)
    yield list(pair)
    for server in pair:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def first_ack(log: Path, after, seconds):
    """When the first turn after a moment was acknowledged; None if none was for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = [ack["at"] for ack in read_log(log) if ack["at"] > after]
        if found:
            return min(found)
        time.sleep(0.05)
    return None


def some_turns(log, count, seconds=60.0):
    """Let so many more turns be acknowledged, and never less than a second pass."""
    wanted, until = acknowledged(log) + count, time.monotonic() + seconds
    time.sleep(1.0)
    while acknowledged(log) < wanted and time.monotonic() < until:
        time.sleep(0.05)


def fail_over(servers, log):
    """One crash, the standby promoted, another standby made; seconds until each of them, and until the first turn."""
    primary, standby = servers
    senders = stall(primary)
    time.sleep(STALL_S)
    at = time.monotonic()
    primary.crash(senders)
    down = time.monotonic()
    standby.promote()
    writable = time.monotonic() - at
    servers.reverse()
    primary.follow(standby)
    streaming(standby)
    whole = time.monotonic() - at
    acked = first_ack(log, down, 60.0)
    return writable, whole, (float("inf") if acked is None else acked - at)


def talked(servers, log, enough):
    """Failovers while three processes talk, until `enough(number so far)`; seconds of each."""
    url = both(*servers)
    novelo.open(url).close()
    names = ("ana", "bia", "caio")
    running = [forked(keep_talking, url, log, name, ["t0", "t1"], queue_s=60.0, lease_s=5.0) for name in names]
    found = []
    try:
        while not enough(len(found)):
            some_turns(log, 15)
            found.append(fail_over(servers, log))
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            reap(pid)
    return found


def told(found):
    """Seconds of failovers in words."""
    names = ("promoted", "another standby", "first turn")
    columns = (sorted(column) for column in zip(*found, strict=True))
    pairs = zip(names, columns, strict=True)
    return ", ".join(f"{name} after {one[len(one) // 2]:.1f} s ({one[-1]:.1f} s at most)" for name, one in pairs)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("servers", [WAITING], indirect=True, ids=["synchronous"])
def test_failover_to_a_synchronous_standby(servers, tmp_path):
    """T7: however often the primary crashes in the middle of turns, the standby has all that was acknowledged."""
    count, log = size("T7.failovers", 2, 20), tmp_path / "log"
    found = talked(servers, log, lambda done: done >= count)
    acks = read_log(log)
    seen = checked(servers[0].address(), acks, 10 * count)
    print(f"T7 synchronous: {count} failovers, {len(acks)} turns acknowledged, {seen.lost} lost, {told(found)}")
    assert seen.violations == []
    assert max(acked - whole for _, whole, acked in found) <= 5.0  # without a standby nothing can be acknowledged


@pytest.mark.timeout(300)
@pytest.mark.parametrize("servers", [FLAGS], indirect=True, ids=["asynchronous"])
def test_failover_to_an_asynchronous_standby_loses(servers, tmp_path):
    """T7, the control: a standby that nobody waits for lacks turns that were acknowledged, and the checker sees it."""
    least, most, log = size("T7.control", 1, 8), 12, tmp_path / "log"
    seen = []

    def enough(done):
        if done:
            seen.append(checked(servers[0].address(), read_log(log), 0).lost)
        return done >= most or (done >= least and bool(seen[-1]))

    found = talked(servers, log, enough)
    acks = read_log(log)
    print(f"T7 asynchronous: {len(found)} failovers, {len(acks)} turns acknowledged, {seen[-1]} lost, {told(found)}")
    assert seen[-1] > 0


def cancelled_in_commit(server, seconds=20.0):
    """Cancel whoever waits for the standby in its COMMIT, as an administrator may; whether there was one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        wanted = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        if asked(server.address(), wanted):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.timeout(120)
@pytest.mark.parametrize("servers", [WAITING], indirect=True, ids=["synchronous"])
def test_a_commit_that_no_standby_confirmed_is_not_acknowledged(servers):
    """A COMMIT whose wait for the standby is cancelled tells success: the caller is told that nobody knows."""
    primary, standby = servers
    with novelo.open(both(primary, standby)) as memory, ThreadPoolExecutor(1) as other:
        thread = memory.thread("t")
        take_turn(memory, thread, "k0", "question k0", "w")
        senders = stall(primary)
        try:
            begun = other.submit(thread.append, {"role": "user", "content": "kept, or not"})
            assert cancelled_in_commit(primary)
            with pytest.raises(StorageUnavailable, match="same key"):
                begun.result(20)
        finally:
            for pid in senders:
                os.kill(pid, signal.SIGCONT)
        streaming(primary)
        take_turn(memory, thread, "k1", "question k1", "w")
