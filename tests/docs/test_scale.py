"""The figures of docs/scale.md come from scripts that run, within seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("numpy")


def simulated(*words):
    """What the simulation gives."""
    command = [sys.executable, str(ROOT / "benchmarks" / "scale_simulation.py"), "--json", "--events", "1000", *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_a_simulated_day(tmp_path):
    """A day has a peak and a night; the hottest machine is at least as busy as the mean; a lost one stops its share."""
    day = simulated("--threads", "1e6", "--turns", "5e7", "--shards", "32", "--nodes", "4", "--cores", "1")
    used = [row["used_most"] for row in day["hours"]]
    assert len(used) == 24 and max(used) > 3 * min(used)
    assert all(row["used_most"] >= row["used"] > 0 for row in day["hours"])
    assert day["hot_node"] >= 1 and day["hot_shard"] >= day["hot_node"]
    assert 0.2 < day["lost"]["turns_touched"] < 0.4
    assert day["lost"]["longest_wait_s"] >= day["lost"]["failover_s"] - 1


def test_too_much_is_said(tmp_path):
    """More than the machines can do: cores in use above one, and waits without end."""
    day = simulated("--turns", "1e9", "--shards", "8", "--nodes", "2", "--cores", "1", "--threads", "1e6")
    assert max(row["used_most"] for row in day["hours"]) > 1
