"""Sizes in policies: `20messages`, `10turns`, `8000tokens`, `80%` of the model's window, or LangChain's tuples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from novelo.errors import InvalidSpec

UNITS = ("messages", "turns", "tokens", "%")
_WRITTEN = re.compile(r"(\d{1,12})(messages?|turns?|tokens?|%)?")
_TUPLE_UNITS = {"messages": "messages", "turns": "turns", "tokens": "tokens", "fraction": "%"}


@dataclass(frozen=True)
class Size:
    """A number of messages, turns, tokens, or per cent of the model's window."""

    number: int
    unit: str

    def __str__(self) -> str:
        return f"{self.number}{self.unit}"


def size(value: Any, default: str, allowed: tuple[str, ...] = UNITS, least: int = 1, what: str = "size") -> Size:
    """A size from a text ("10turns"), a number, a `Size`, or a LangChain tuple ("messages", 10).

    Args:
        value: what was given.
        default: the unit of a bare number.
        allowed: the units that make sense here.
        least: the least number.
        what: the word for it in an error.
    Raises:
        InvalidSpec: not such a size; the text says what would be.
    """
    found = _read(value, default)
    if found is None or found.unit not in allowed or found.number < least or (found.unit == "%" and found.number > 100):
        units = " or ".join(f"12{u}" for u in allowed)
        raise InvalidSpec(f"{what} {value!r}: expected a number of at least {least}, such as {units}")
    return found


def _read(value: Any, default: str) -> Size | None:
    if isinstance(value, Size):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Size(value, default)
    if isinstance(value, tuple) and len(value) == 2 and value[0] in _TUPLE_UNITS:
        unit, number = _TUPLE_UNITS[value[0]], value[1]
        if unit == "%" and isinstance(number, float):
            number = round(number * 100)
        return Size(number, unit) if isinstance(number, int) and not isinstance(number, bool) else None
    match = _WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    unit = match[2] or default
    return Size(int(match[1]), unit if unit == "%" or unit.endswith("s") else unit + "s")
