"""A process dies at each point of a turn that calls a tool, and the next one goes on (the complaint FR-104)."""

from __future__ import annotations

import subprocess
import sys

import pytest

import novelo

PROGRAM = """
import os, sys
import novelo

folder, dies_at = sys.argv[1], sys.argv[2]
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "send_newsletter", "arguments": '{"issue": 7}'}}]}

def point(name):
    if name == dies_at:
        os._exit(9)

def send():
    with open(folder + "/sent", "a") as file:
        file.write("7\\n")

memory = novelo.open(f"sqlite:///{folder}/chat.db", worker="off")
with memory.thread("news").turn("Send the newsletter.", key="k1") as turn:
    point("begun")
    said = turn.messages()
    if not any(message.get("tool_calls") for message in said):
        turn.add(CALL)
        point("called")
        send()
        point("sent")
        turn.add_tool_result("c1", "sent to 1200 readers")
    else:
        result = next(message["content"] for message in said if message["role"] == "tool")
        print(result)
        if "sent to" not in result:  # not known whether it ran: the program asks, it does not guess
            turn.add_tool_result("c1", "looked up: sent to 1200 readers")
    point("result")
    turn.reply("It is out.")
    point("replied")
print(turn.replayed, turn.stored_reply)
"""


def run(folder, dies_at=""):
    """The program once; what it printed."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder), dies_at], capture_output=True, text=True)
    assert done.returncode == (9 if dies_at else 0), done.stderr
    return done.stdout


@pytest.mark.parametrize("dies_at", ["begun", "called", "sent", "result", "replied"])
def test_a_turn_that_died_is_gone_on_with(tmp_path, dies_at):
    """The question is there once, a stored result is used again, and nothing is sent twice."""
    run(tmp_path, dies_at)
    told = run(tmp_path)
    sent = (tmp_path / "sent").read_text().splitlines() if (tmp_path / "sent").exists() else []
    assert sent == ([] if dies_at == "called" else ["7"])  # when it died before sending, only the user can tell
    if dies_at in ("called", "sent"):
        assert "sent to" not in told.splitlines()[0] and "result" in told.splitlines()[0]  # says that none is known
    elif dies_at == "result":
        assert told.splitlines()[0] == "sent to 1200 readers"
    assert run(tmp_path).splitlines()[-1] == "True It is out."
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", worker="off") as memory:
        said = [(entry.role, entry.text) for entry in memory.thread("news").messages()]
        assert [text for role, text in said if role == "user"] == ["Send the newsletter."]
        assert said[-1] == ("assistant", "It is out.") and [turn.status for turn in memory.thread("news").turns()] == [
            "done"
        ]
        assert novelo.check([entry.message for entry in memory.thread("news").messages()]) == []
