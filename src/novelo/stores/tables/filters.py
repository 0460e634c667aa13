"""Filters of checkpoints by their metadata, where no statement can look into it."""

from __future__ import annotations

from typing import Any

import msgspec


def holds(metadata: str, key: str, path: str, value: Any) -> bool:
    """Whether metadata has a value under a key, or, for a key with dots, at the end of a way into nested values."""
    found = msgspec.json.decode(metadata)
    for way in ([key[3:-1]], path[3:-1].split('"."')):
        at: Any = found
        for step in way:
            at = at.get(step) if isinstance(at, dict) else None
        if at is not None:
            return bool(at == value) and (isinstance(at, bool) == isinstance(value, bool) or at == value)
    return value is None
