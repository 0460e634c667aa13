"""The chat on a real terminal: a pseudo-terminal, real keys, a real client over HTTP."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

import novelo
from novelo.testing import StrictProvider

pytest.importorskip("openai")
# The terminal becomes the controlling one, as a login makes it, so that the key becomes a signal.
CONTROLLING = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
ANSWER = " ".join(f"palavra{n}" for n in range(60))


class Terminal:
    """A program on a pseudo-terminal; what it has shown so far."""

    def __init__(self, command, env):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        os.close(slave)
        self.shown = ""

    def wait_for(self, text, seconds=20):
        """Read until a text is shown."""
        deadline = time.monotonic() + seconds
        while text not in self.shown and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode("utf-8", "replace")
                except OSError:  # the program has ended, and all it showed was read
                    break
        assert text in self.shown, self.shown[-500:]
        self.shown = self.shown.partition(text)[2]

    def type(self, keys):
        """Press keys."""
        os.write(self.master, keys.encode())


def test_control_c_stops_the_answer_only(tmp_path):
    """Ctrl-C keeps what had come, marked partial; the chat goes on, explains how to leave, and `sair` ends it."""
    with StrictProvider("openai", answers=lambda _: ANSWER, piece_s=0.05).serve() as url:
        env = {
            **os.environ,
            "NOVELO_HOME": str(tmp_path),
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": url,
            "TERM": "xterm",
        }
        command = [sys.executable, "-m", "novelo", "chat", "-m", "openai:strict-1", "--thread", "t", "--lang", "pt"]
        terminal = Terminal([sys.executable, "-c", CONTROLLING, *command], env)
        try:
            terminal.wait_for("sair encerra")
            terminal.type("primeira\\\rsegunda\r")
            terminal.wait_for("palavra3")
            terminal.type("\x03")
            terminal.wait_for("o que chegou foi guardado")
            terminal.type("\x03")
            terminal.wait_for("Digite sair")
            terminal.type("sair\r")
            terminal.wait_for("Salvo como t")
            assert terminal.process.wait(20) == 0
        finally:
            terminal.process.kill()
            terminal.process.wait()
            os.close(terminal.master)
    with novelo.open(f"sqlite:///{tmp_path}/chat.db") as memory:
        question, answer = memory.thread("t").messages()
    assert question.text == "primeira\nsegunda"
    assert answer.partial
    assert ANSWER.startswith(answer.text.strip())
    assert len(answer.text) < len(ANSWER)
