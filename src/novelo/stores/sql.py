"""Statements live in `.sql` files: `-- name --`, a sentence, the statement. Python calls them by name."""

from __future__ import annotations

import re
from importlib import resources

_HEAD = re.compile(r"^-- (\w+) --$", re.MULTILINE)


def statements(package: str, file: str = "queries.sql") -> dict[str, str]:
    r"""The named statements of a file, comments left out.

    Example: "-- count --\n-- How many.\nSELECT 1;" -> {"count": "SELECT 1"}.
    """
    text = resources.files(package).joinpath(file).read_text("utf-8")
    pieces = _HEAD.split(text)
    out = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        out[name] = "\n".join(lines).strip().rstrip(";")
    return out
