"""Where output goes: a full disk, a closed pipe, a device, an stdout that has not all letters."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import novelo
from novelo.cli import app
from novelo.portable import export_file

FULL = Path("/dev/full")


@pytest.fixture
def run(tmp_path):
    """The program as a process, on a database with one thread; its stdout goes where it is told."""
    file = tmp_path / "a.db"
    with novelo.open(f"sqlite:///{file}", worker="off") as memory:
        memory.thread("t").append([{"role": "user", "content": "olá ✓"}, {"role": "assistant", "content": "漢字"}])

    def novelo_(*arguments, stdout=subprocess.PIPE, shell="", **environment):
        command = [sys.executable, "-m", "novelo", *arguments, "-d", str(file)]
        if shell:
            command = ["sh", "-c", f'"$@" {shell}', "sh", *command]
        return subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=60, env={**os.environ, **environment}
        )

    return novelo_


@pytest.mark.parametrize("command", [["show", "t"], ["show", "t", "--json"], ["search", "ola"], ["threads"]])
def test_an_stdout_without_all_letters(run, command):
    """What an stdout has no letters for is told as numbers; JSON stays JSON."""
    done = run(*command, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.isascii()
    if "--json" in command:
        assert [one["message"]["content"] for one in json.loads(done.stdout)] == ["olá ✓", "漢字"]


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", [["show", "t"], ["show", "t", "--json"], ["export", "t"], ["threads"]])
def test_a_full_disk_behind_stdout(run, command):
    """It is told in one line, with exit status 1."""
    with FULL.open("wb") as full:
        done = run(*command, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["novelo: what is printed cannot be written: No space left on device"]


@pytest.mark.skipif(os.name != "posix", reason="no shell")
def test_a_closed_stdout(run):
    """Nobody reads it: the work is done all the same."""
    assert run("show", "t", "--json", shell=">&-").returncode == 0


def test_an_export_into_what_is_no_file(tmp_path):
    """A pipe is written into and stays one; a folder, or nothing, is refused."""
    if os.name != "posix":
        pytest.skip("no pipes with a name")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with novelo.open("sqlite://", worker="off") as memory:
            thread = memory.thread("t")
            thread.append([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}])
            assert export_file([thread], pipe) == 2
            assert b"hello" in os.read(reader, 10_000)
            for wrong in (tmp_path, ""):
                with pytest.raises(novelo.InvalidSpec, match="is a folder"):
                    export_file([thread], wrong)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with novelo.open(f"sqlite:///{tmp_path}/a.db", worker="off"):
        pass
    with pytest.raises(novelo.StorageUnavailable, match="no file"):
        novelo.backup(f"{tmp_path}/a.db", pipe, force=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_chat_in_which_nothing_was_said_is_saved_nowhere(tmp_path):
    """Whoever leaves at once is not told of a thread that is not there."""
    words = ["chat", "--thread", "t", "-m", "offline", "-d", str(tmp_path / "a.db"), "--lang", "en"]
    empty = CliRunner().invoke(app, words, input="")
    said = CliRunner().invoke(app, words, input="hello\n")
    assert "Saved as" not in empty.output + empty.stderr and empty.exit_code == 0
    assert "Saved as t" in said.output + said.stderr
