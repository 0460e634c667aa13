"""The demo holds what it tells."""

from __future__ import annotations

import subprocess
import sys


def test_the_demo_holds_its_facts():
    """`make demo` remembers across a restart, keeps threads apart, and counts what was sent."""
    ended = subprocess.run([sys.executable, "-m", "novelo.demo"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("ok: ") == 5
    assert "NOT SO" not in ended.stdout
