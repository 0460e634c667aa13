"""Tokens of a call as four kinds of providers report them, brought to one meaning.

OpenAI chat   prompt_tokens, completion_tokens, and details of both
Responses     input_tokens, output_tokens, and details of both
LangChain     the same with other names for the details
Anthropic     input_tokens *without* what was read from or written to the cache: the three are added up
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novelo.messages import Usage


def field(value: Any, name: str) -> Any:
    """A field of a mapping or of an SDK's object; None if there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def plain(value: Any) -> Any:
    """An SDK's object as plain data; anything else as it is."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, (type, Mapping)):
        return dump(exclude_unset=True, mode="json", warnings=False)
    return value


def read_usage(given: Any) -> Usage | None:
    """Usage in any of the forms above; None if nothing was reported. `input` counts all input, cached tokens too."""
    if given is None or isinstance(given, Usage):
        return given
    given = plain(given)
    if not isinstance(given, Mapping) or not given:
        return None
    raw = {k: v for k, v in given.items() if v is not None}
    if "prompt_tokens" in raw or "completion_tokens" in raw:
        read, wrote = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
        cached = _number(field(read, "cached_tokens")) or _number(raw.get("prompt_cache_hit_tokens"))
        return _usage(
            raw, "prompt_tokens", "completion_tokens", cached, _number(field(read, "cache_write_tokens")), wrote
        )
    if "input_token_details" in raw or "output_token_details" in raw:
        read = raw.get("input_token_details")
        wrote = {"reasoning_tokens": field(raw.get("output_token_details"), "reasoning")}
        cached, written = _number(field(read, "cache_read")), _number(field(read, "cache_creation"))
        return _usage(raw, "input_tokens", "output_tokens", cached, written, wrote)
    read, wrote = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    if read is not None or "total_tokens" in raw:
        cached, written = _number(field(read, "cached_tokens")), _number(field(read, "cache_write_tokens"))
        return _usage(raw, "input_tokens", "output_tokens", cached, written, wrote)
    cached, written = _number(raw.get("cache_read_input_tokens")), _number(raw.get("cache_creation_input_tokens"))
    if "input_tokens" not in raw and "output_tokens" not in raw:
        return None
    thought = _number(field(wrote, "thinking_tokens")) or _number(field(wrote, "reasoning_tokens"))
    total = _number(raw.get("input_tokens")) + cached + written
    return Usage(total, _number(raw.get("output_tokens")), cached, written, thought, raw)


def _usage(raw: dict[str, Any], read: str, wrote: str, cached: int, written: int, details: Any) -> Usage:
    thought = _number(field(details, "reasoning_tokens"))
    return Usage(_number(raw.get(read)), _number(raw.get(wrote)), cached, written, thought, raw)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else 0
