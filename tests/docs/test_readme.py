"""What the README shows runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_examples_of_the_readme_run(number, tmp_path, monkeypatch):
    """Every Python block of the README runs by itself, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})


def test_the_first_commands_are_demo_and_test():
    """A newcomer finds `make demo` and `make test` first."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"^(make \w+)", text, re.MULTILINE)[:2] == ["make demo", "make test"]
