"""T12, T15: summaries against turns, changes, erasure, kills, and summarizers that fail."""

from __future__ import annotations

import json
import os

import pytest

from faults.checker import check, read_log, read_touched
from faults.folding import stir
from faults.test_kills import reap
from faults.working import forked

LONG = bool(os.environ.get("NOVELO_TEST_LONG"))


def stirred(tmp_path, count, processes=2, **options):
    """Several processes that talk and change at once; what the checker finds, and the lines of the log."""
    url, log = f"sqlite:///{tmp_path}/a.db", tmp_path / "log"
    mortal = ["m0", "m1", "m2"]
    ids = {"mortal": mortal, "all": [*mortal, "t0", "t1", "t2", "t3", "t4", "t5"]}
    pids = [forked(stir, url, log, name, ids, count // processes, **options) for name in "abcd"[:processes]]
    assert [reap(pid) for pid in pids] == [0] * processes
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    return check(tmp_path / "a.db", read_log(log), least=count - 10, touched=read_touched(log)), lines


@pytest.mark.timeout(900)
def test_compaction_against_turns_against_erasure(tmp_path):
    """T15: while everything goes on at once, each summary is a fold of what it claims; what is erased is gone."""
    found, lines = stirred(tmp_path, 20_000 if LONG else 4000)
    print(f"T15: {found}", [line for line in lines if "changed" in line or "asked" in line])
    assert found.violations == []
    assert found.folds >= 300
