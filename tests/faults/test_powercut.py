"""T2: power cuts. Under FULL nothing acknowledged is lost; the controls show that the test can see a loss."""

from __future__ import annotations

import random
from contextlib import suppress

import apsw
import pytest

from faults.checker import check
from faults.powercut import Disk, DiskVFS, PowerCut
from faults.sizes import size
from faults.working import take_turn
from novelo import Memory, StoreError
from novelo.stores.sqlite import Database, SQLiteStore

# SQLite's own clean-up meets the cut again; what it ignores is not ours to judge
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
CHAIN = 40  # cuts that one database lives through before a fresh one takes its place


def one_life(image, seed, synchronous, acked):
    """Open the disk, look whether all is there, take turns until the power goes; the image that is left."""
    disk = Disk(seed, image)
    name = f"disk{seed}"
    layer = DiskVFS(name, disk)
    rng = random.Random(seed)
    problems = []
    memory = None
    try:
        memory = Memory(SQLiteStore(Database("a.db", vfs=name, synchronous=synchronous, exclusive=True)))
        with memory.store.database.reading() as connection:
            connection.wal_autocheckpoint(20)  # often, so that cuts fall into checkpoints too
            problems = check("a.db", acked, connection=connection, least=0).violations
        if image is not None or rng.random() < 0.5:
            disk.cut_at = disk.operations + rng.randrange(1, 320)
        thread = memory.thread("t")
        for k in range(40):
            acked.append(take_turn(memory, thread, f"{seed}-{k}", f"question {seed}-{k}", "w"))
        disk.off = True
    except (PowerCut, apsw.Error, StoreError):
        if not disk.off:
            raise
    finally:
        disk.off = True
        if memory is not None:
            memory._stop.set()
            with suppress(PowerCut, apsw.Error, StoreError):
                memory.close()
        layer.unregister()
    return disk.after_cut(), problems


def lives(cuts, synchronous, first_seed):
    """Many cuts; problems, how many turns were acknowledged, and how many databases could not be opened again."""
    problems, turns, corrupt = [], 0, 0
    image, acked = None, []
    for n in range(cuts):
        if n % CHAIN == 0:
            turns += len(acked)
            image, acked = None, []
        try:
            image, found = one_life(image, first_seed + n, synchronous, acked)
        except (apsw.Error, StoreError, KeyError, ValueError, IndexError) as error:
            found = [f"corrupt: {type(error).__name__}"]
        if found:
            problems += found[:1]
            corrupt += found[0].startswith(("corrupt", "integrity"))
            turns += len(acked)
            image, acked = None, []
    return problems, turns + len(acked), corrupt


@pytest.mark.timeout(600)
def test_power_cuts_lose_nothing(tmp_path):
    """2,000 cuts under FULL: no acknowledged turn is lost, no database is corrupt."""
    cuts = size("T2.cuts", 2000, 10_000)
    problems, turns, _ = lives(cuts, "FULL", 10_000)
    print(f"T2: {cuts} cuts, {turns} turns acknowledged")
    assert problems == []
    assert turns >= cuts * 2


@pytest.mark.timeout(300)
def test_the_simulation_sees_lost_turns():
    """The control: under NORMAL, which syncs at checkpoints only, the same cuts lose acknowledged turns."""
    problems, _, _ = lives(300, "NORMAL", 500_000)
    assert [p for p in problems if p.startswith("I1")]


@pytest.mark.timeout(300)
def test_the_simulation_sees_corruption():
    """The control: under OFF, which never syncs, the same cuts corrupt databases."""
    problems, _, corrupt = lives(200, "OFF", 900_000)
    assert corrupt or [p for p in problems if p.startswith(("I2", "I3", "integrity"))]
