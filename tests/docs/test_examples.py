"""What the README and the documents show runs, offline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(path):
    """The Python blocks of a file, each with empty lines before it, so that an error tells the file's own line."""
    text = path.read_text("utf-8")
    return ["\n" * text.count("\n", 0, found.start(1)) + found[1] for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("path", [p for p in FILES if examples(p)], ids=lambda p: p.stem)
def test_examples_run(path, tmp_path, monkeypatch):
    """The Python blocks of a file run from top to bottom, in an empty folder, without network or key."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    for block in examples(path):
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_links_lead_somewhere(path):
    """Every link to a file of the repository names one that is there."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []
