"""`novelo compare` as a user would run it, the pictures it draws, and the page that shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import novelo

ROOT = Path(__file__).parents[2]
PAIRS = [
    {"role": role, "content": f"{role} {k}: order PX-{4000 + k}" + " and more of it" * 30}
    for k in range(12)
    for role in ("user", "assistant")
]


@pytest.fixture
def run(tmp_path):
    """The program in a process of its own, in an empty folder."""

    def novelo(*arguments, given=None):
        env = {**os.environ, "NOVELO_HOME": str(tmp_path), "LANG": "C.UTF-8"}
        command = [sys.executable, "-m", "novelo", *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, env=env, timeout=60, cwd=tmp_path)

    return novelo


def test_a_list_is_compared(run):
    """Stdin is replayed under each policy; the table has a line for each, and the last line names the cheapest."""
    told = run("compare", "-", "--policies", "buffer; window:2turns", given=json.dumps(PAIRS))
    assert told.returncode == 0, told.stderr
    head, buffer, window, verdict = told.stdout.splitlines()
    assert head.startswith("policy") and buffer.startswith("buffer ") and window.startswith("window:2turns ")
    assert verdict.startswith("The cheapest valid policy is window:2turns: ")
    assert told.stderr == ""


def test_json_and_prices(run):
    """With --json all figures are one document; prices are given by hand, and half a price is refused in one line."""
    plain = run("compare", "-", "-p", "buffer", "--prices", "input=1,output=2", "--json", given=json.dumps(PAIRS))
    row = json.loads(plain.stdout)["rows"][0]
    assert row["requests"] == 12 and row["cost"] > 0 and len(row["series"]["facts"]) == 12
    for wrong in ("input", "input=x", "output=2"):
        refused = run("compare", "-", "--prices", wrong, given=json.dumps(PAIRS))
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert run("compare", "-", "-p", " ; ", given=json.dumps(PAIRS)).returncode == 2


def test_summaries_are_made_and_counted(run):
    """A policy that summarises is replayed without a fold of one's own; an unknown summarizer is refused in a line."""
    asked = ("compare", "-", "-p", "buffer; summarize:8messages,keep=2")
    told = run(*asked, given=json.dumps(PAIRS))
    assert told.returncode == 0, told.stderr
    head, _, summarized, _ = told.stdout.splitlines()
    assert "summaries" in head and summarized.split()[-1] == "yes" and int(summarized.split()[-2]) >= 2
    refused = run(*asked, "--summarizer", "nobody", given=json.dumps(PAIRS))
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_a_thread_is_compared_with_its_moments(run, tmp_path):
    """A thread of the database is replayed by its moments, hidden messages apart; its export gives the same figures."""
    with novelo.open(f"sqlite:///{tmp_path}/chat.db") as memory:
        thread = memory.thread("t1")
        thread.append(PAIRS)
        thread.hide([0, 1])
        thread.export_file(tmp_path / "t1.jsonl")
    first, second = (run("compare", name, "-p", "buffer", "--json") for name in ("t1", "t1.jsonl"))
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)
    assert found == json.loads(second.stdout)
    assert found["lifetimes"] is True and found["rows"][0]["requests"] == 11


def test_what_is_not_there_is_told(run, tmp_path):
    """A name that is neither file nor thread is an error that says both; so is a file with two conversations."""
    gone = run("compare", "nothing")
    assert gone.returncode == 1 and "no such file" in gone.stderr
    two = tmp_path / "two.jsonl"
    with novelo.open(f"sqlite:///{tmp_path}/chat.db") as memory:
        for name in ("a", "b"):
            memory.thread(name).append(PAIRS[:2])
    assert run("export", "a", "b", "-o", str(two)).returncode == 0
    several = run("compare", str(two))
    assert several.returncode == 1 and "holds 2 conversations" in several.stderr
    assert run("compare", str(two), "--thread", "b").returncode == 0


def test_a_picture_is_drawn(run, tmp_path):
    """Both endings are drawn, an SVG's text stays text and its bytes do not change; another ending is refused."""
    pytest.importorskip("matplotlib")
    pictures = []
    for name in ("a.svg", "b.svg", "c.png"):
        told = run("compare", "-", "-p", "buffer; window:2turns", "--plot", name, given=json.dumps(PAIRS))
        assert told.returncode == 0 and name in told.stderr
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1] and b"window:2turns" in pictures[0] and b"Exact facts in reach" in pictures[0]
    assert pictures[2].startswith(b"\x89PNG")
    assert run("compare", "-", "--plot", "a.gif", given=json.dumps(PAIRS)).returncode == 2


def test_no_reply_no_picture(run):
    """A conversation without a reply gives a table and no picture."""
    told = run("compare", "-", "--plot", "a.svg", given=json.dumps(PAIRS[:1]))
    assert told.returncode == 2 and "nothing to draw" in told.stderr


def test_the_page_shows_what_its_commands_make():
    """The tables of docs/cost.md are what its commands print; if not, scripts/cost_page.py writes them anew."""
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(ROOT / "scripts" / "cost_page.py"), "--check"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "docs/cost.md has changed" not in told.stdout, told.stderr
    assert (told.returncode == 0) == (told.stdout == ""), told.stderr  # a picture's bytes may vary with matplotlib
