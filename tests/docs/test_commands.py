"""The commands work as a user would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from novelo.cli import app


@pytest.fixture
def run(tmp_path):
    """The program in a process of its own, with an empty home."""

    def novelo(*arguments, given=None):
        env = {**os.environ, "NOVELO_HOME": str(tmp_path), "LANG": "C.UTF-8"}
        command = [sys.executable, "-m", "novelo", *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, env=env, timeout=60)

    return novelo


def test_a_chat_is_kept_and_shown(run):
    """Lines from a pipe are answered, kept across processes, listed, shown, explained, and found."""
    first = run("chat", "--thread", "t1", "--lang", "pt", given="Meu nome é Ana.\n\nsair\n")
    assert first.returncode == 0, first.stderr
    second = run("chat", "-c", "--lang", "pt", given="Qual é o meu nome?\n/context\n/usage\n/nada\n")
    assert "Ana" in second.stdout
    assert "4 de 4 mensagens" in second.stdout
    assert "/nada" in second.stderr
    (row,) = json.loads(run("threads", "--json").stdout)
    assert (row["thread_id"], row["messages"]) == ("t1", 4)
    shown = json.loads(run("show", "t1", "--json").stdout)
    assert [e["role"] for e in shown] == ["user", "assistant", "user", "assistant"]
    assert json.loads(run("context", "t1", "--turn", "2", "--json").stdout)["manifest"]["end"] == 3
    run("chat", "-c", "-p", "window:1turns", given="E agora?\n")
    assert "under window:1turns" in run("context", "t1").stdout  # the next context is composed as the last one was
    assert "under buffer" in run("context", "t1", "-p", "buffer").stdout
    assert "t1" in run("search", "nome").stdout
    assert run("search", "bicicleta").returncode == 1


def test_export_delete_import(run, tmp_path):
    """A thread comes back from its export as it was, after it was erased."""
    run("chat", "--thread", "t1", given="Meu nome é Ana.\n")
    before = json.loads(run("show", "t1", "--json").stdout)
    assert run("export", "t1", "-o", str(tmp_path / "t1.jsonl")).returncode == 0
    assert run("delete", "t1", "--yes").returncode == 0
    assert run("show", "t1").returncode == 1
    assert run("import", str(tmp_path / "t1.jsonl")).returncode == 0
    after = json.loads(run("show", "t1", "--json").stdout)
    assert [e["message"] for e in after] == [e["message"] for e in before]


def test_check_fix_and_compose(run):
    """A broken list is told with exit status 1, mended, and composed; nonsense is status 2, in one line."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    broken = json.dumps(
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    )
    told = run("check", "-", given=broken)
    assert told.returncode == 1
    assert "call-unanswered" in told.stdout
    mended = run("check", "-", "--fix", given=broken)
    assert run("check", "-", given=mended.stdout).returncode == 0
    assert [m["role"] for m in json.loads(run("compose", "-", "-p", "window:1turns", given=broken).stdout)] == [
        "user",
        "assistant",
        "tool",
    ]
    for wrong in (("compose", "-", "-p", "window:0turns"), ("check", "-", "--provider", "nobody")):
        ended = run(*wrong, given=broken)
        assert ended.returncode == 2
        assert ended.stderr.startswith("novelo: ")
        assert "Traceback" not in ended.stderr
    for bad in ("{", "7", "not json"):
        ended = run("check", "-", given=bad)
        assert ended.returncode == 1
        assert "Traceback" not in ended.stderr


def test_every_command_and_option_is_documented():
    """docs/cli.md has a heading for each command, and names each of its options there."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text("utf-8")
    sections = {
        found[1]: found[0] for found in re.finditer(r"^### `novelo (\w+(?: [a-z]+)?).*?(?=^##|\Z)", text, re.M | re.S)
    }
    commands = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        commands |= {name: command} if inner is None else {f"{name} {one}": c for one, c in inner.items()}
    assert set(sections) == set(commands)
    for name, command in commands.items():
        for option in command.params:
            if option.param_type_name == "option" and "--database" not in option.opts:
                assert any(f"`{opt}`" in sections[name] for opt in option.opts), f"{name}: {option.opts}"


def test_a_failed_export_leaves_the_old_file(run, tmp_path):
    """An export that is refused does not touch the file that was there."""
    run("chat", "--thread", "t1", given="Meu nome é Ana.\n")
    kept = tmp_path / "old.jsonl"
    kept.write_text("precious")
    for wrong in (("export", "t1", "--kind", "nope", "-o", str(kept)), ("export", "t9", "-o", str(kept))):
        assert run(*wrong).returncode in (1, 2)
        assert kept.read_text() == "precious"


def test_usage_sums_and_draws(run):
    """What was spent is told by turn, day or call, as a table with bars and as JSON; no call is counted twice."""
    run("chat", "--thread", "t1", given="Meu nome é Ana.\nQual é o meu nome?\n")
    told = run("usage", "t1", "--by", "turn")
    assert told.returncode == 0, told.stderr
    assert re.search(r"^ 2 +1 ", told.stdout, re.M)
    assert re.search("tokens a turn  [▁▂▃▄▅▆▇█]{2}  most ", told.stdout)
    assert "tokens a day" in run("usage", "--days", "2", "--by", "day").stdout
    found = json.loads(run("usage", "--json", "--by", "purpose").stdout)
    assert [row["purpose"] for row in found["rows"]] == ["reply"]
    calls = json.loads(run("usage", "t1", "--json", "--by", "call").stdout)
    assert sum(call["input"] for call in calls["rows"]) == calls["total"]["input"] == found["total"]["input"]
    assert calls["total"]["calls"] == 2
    assert json.loads(run("usage", "--owner", "nobody", "--json").stdout)["total"]["calls"] == 0
    assert run("usage", "--owner", "nobody").returncode == 0
    assert run("usage", "t9").returncode == 1
    assert run("usage", "--by", "colour").returncode == 2
    assert run("usage", "--days", "0").returncode == 2
    shown = run("chat", "-c", given="/usage\n").stdout
    assert "purpose" in shown
    assert "$0.00" in shown


def test_summaries_by_command(run):
    """A thread is summarized, explained, taken back and made again; progress and sizes are told, data is JSON."""
    lines = "Meu nome é Lívia.\nO pedido é PX-48213-7.\nPaguei R$ 10,90.\nQual é o prazo?\n/why PX-48213-7\n"
    said = run("chat", "--thread", "t1", "--lang", "pt", "-p", "window:2turns", given=lines)
    assert "does not have it" in said.stdout and "out, by window:2turns" in said.stdout
    made = run("compact", "t1", "-p", "summarize:6messages,keep=2", "-m", "offline", "--focus", "prazo")
    assert made.returncode == 0 and "summary 1 (in use)" in made.stdout, made.stderr
    (record,) = json.loads(run("summaries", "t1", "--json").stdout)
    assert record["active"] and record["upto"] == 6 and record["ratio"] > 0
    why = run("why", "t1", "px-48213-7", "-p", "summarize:6messages,keep=2")
    assert "summary 1 (in use)" in why.stdout and why.returncode == 0
    assert run("why", "t1", "girassol").returncode == 1
    assert json.loads(run("usage", "t1", "--json").stdout)["total"]["calls"] == 5
    assert run("compact", "t1", "--undo").returncode == 0
    assert run("compact", "t1", "--undo").returncode == 1
    assert "takes summary 1 back" in run("summaries", "t1").stdout
    assert json.loads(run("worker", "--status", "--json").stdout) == []
    assert run("worker", "--once", "-m", "offline").returncode == 0


def test_a_chat_within_a_limit(run):
    """A turn behind the limit is refused in words, and the chat goes on."""
    done = run(
        "chat", "--thread", "t1", "--limit", "thread:30tokens", given="Oi, tudo bem com você?\n" * 5 + "/usage\n"
    )
    assert done.returncode == 0 and "thread:30tokens is used up" in done.stderr and "reply" in done.stdout
    assert run("chat", "--limit", "much", given="Oi\n").returncode == 2


def test_help_is_broken_by_the_terminal_alone(run, monkeypatch):
    """On a wide terminal a paragraph of the help is one line."""
    monkeypatch.setenv("COLUMNS", "300")
    told = run("chat", "--help").stdout
    assert "the built-in offline one, which needs no network and only quotes. Lines from a pipe" in told
