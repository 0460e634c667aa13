"""What a newcomer reads first."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_commands_are_demo_and_test():
    """A newcomer finds `make demo` and `make test` first."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"^(make \w+)", text, re.MULTILINE)[:2] == ["make demo", "make test"]
