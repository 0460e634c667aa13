"""Small things that several forms need: limits of what we keep unread, data URLs, JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from novelo.errors import InvalidMessage
from novelo.messages import MAX_DEPTH

_NESTED = (dict, list, tuple)
_MAX_VALUES = 50_000_000  # a list that holds itself twice per level would be endless to write without being deep
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")


def check_depth(value: Any, used: int = 2) -> None:
    """Refuse what could not be written: a value that holds itself, or is nested deeper than 64 levels.

    Level by level and without recursion, so that 10,000 levels cost no more than 64.

    Args:
        value: anything that is kept unread.
        used: levels above it in the message.
    Raises:
        InvalidMessage: too deep, or too many values.
    """
    if value.__class__ not in _NESTED:
        return
    level: dict[int, tuple[Any, int]] = {id(value): (value, 1)}
    total = 0
    for _ in range(MAX_DEPTH - used):
        below: dict[int, tuple[Any, int]] = {}
        for holder, times in level.values():
            values: Iterable[Any] = holder.values() if isinstance(holder, dict) else holder
            total += times * len(holder)
            for item in values:
                if isinstance(item, _NESTED):
                    seen = below.get(id(item))
                    below[id(item)] = (item, times + (seen[1] if seen else 0))
        if total > _MAX_VALUES:
            raise InvalidMessage(f"a message holds more than {_MAX_VALUES} values, or one that holds itself")
        if not below:
            return
        level = below
    raise InvalidMessage(f"a message is nested deeper than {MAX_DEPTH} levels, or holds itself")


def json_text(value: Any) -> str:
    """A value as JSON text: a text as it is, nothing as an empty object.

    Raises:
        InvalidMessage: the value is not data.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "{}"
    check_depth(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"tool arguments cannot be written as JSON: {type(error).__name__}") from error


def json_object(text: str) -> dict[str, Any]:
    """Arguments as an object; what is no JSON object is quoted in one, so that nothing of it is lost."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"_incomplete_arguments": text}


def split_data_url(url: str) -> tuple[str, str] | None:
    """`data:<media type>;base64,<data>` as media type and data; None for any other address."""
    found = _DATA_URL.match(url)
    return (found[1], url[found.end() :]) if found else None


def data_url(media_type: str | None, data: str) -> str:
    """Base64 data as an address."""
    return f"data:{media_type or 'application/octet-stream'};base64,{data}"
