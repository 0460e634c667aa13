"""Tokens of a call as four kinds of providers report them, brought to one meaning.

OpenAI chat   prompt_tokens, completion_tokens, and details of both
Responses     input_tokens, output_tokens, and details of both
LangChain     the same with other names for the details
Anthropic     input_tokens *without* what was read from or written to the cache: the three are added up; a call may
              take several passes, and those that only compact or advise are missing in its own figures

Whatever reports input and output as 0 has reported nothing: no call reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from novelo.messages import Usage

COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
MOST = 10**12  # tokens; a report of more is a mistake, and counts nothing
# Passes of an Anthropic call whose tokens its own figures leave out. Source: the API's reference of `usage.iterations`
# ("a compaction entry's tokens are not included in the top-level usage"), and the page of the advisor tool.
_LEFT_OUT = ("compaction", "advisor_message")
_LONG = "ephemeral_1h_input_tokens"


class Pass(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of a model within a call; most calls have one.

    Attributes:
        kind: message, compaction, advisor_message, fallback_message.
        usage: its tokens, without `raw`.
        long_writes: of the tokens written to the cache, those that stay an hour instead of five minutes.
        model: whose run it was, where the provider names one; else the call's.
    """

    kind: str
    usage: Usage
    long_writes: int = 0
    model: str | None = None


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
    usage = counted(raw)
    return usage if usage.input or usage.output else None


def counted(raw: Mapping[str, Any]) -> Usage:
    """The tokens of a report in any of the forms, also of one that counts nothing."""
    if "prompt_tokens" in raw or "completion_tokens" in raw:
        read, wrote = raw.get("prompt_tokens_details"), raw.get("completion_tokens_details")
        cached = _number(field(read, "cached_tokens")) or _number(raw.get("prompt_cache_hit_tokens"))
        return _usage(
            raw, "prompt_tokens", "completion_tokens", cached, _number(field(read, "cache_write_tokens")), wrote
        )
    if "input_token_details" in raw or "output_token_details" in raw:
        read = raw.get("input_token_details")
        wrote = {"reasoning_tokens": field(raw.get("output_token_details"), "reasoning")}
        by_lifetime = _number(field(read, "ephemeral_5m_input_tokens")) + _number(field(read, _LONG))
        written = max(_number(field(read, "cache_creation")), by_lifetime)  # told in total, by lifetime, or both
        return _usage(raw, "input_tokens", "output_tokens", _number(field(read, "cache_read")), written, wrote)
    read, wrote = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    if read is not None or "total_tokens" in raw or "cached_input_tokens" in raw:
        cached = _number(field(read, "cached_tokens")) or _number(raw.get("cached_input_tokens"))
        return _usage(raw, "input_tokens", "output_tokens", cached, _number(field(read, "cache_write_tokens")), wrote)
    return msgspec.structs.replace(add(p.usage for p in passes(raw)), raw=dict(raw))


def passes(raw: Mapping[str, Any]) -> list[Pass]:
    """The runs of a model behind an Anthropic call, each with its own tokens; one for a call without iterations.

    The call's own figures are the sum of its message passes. Where a list of those tells more (a loop with tools of the
    server may report the input of the first only), the list is believed.
    """
    own = _pass(raw, "message")
    listed = [_pass(entry, str(entry.get("type"))) for entry in _entries(raw)]
    extra = [entry for entry in listed if entry.kind in _LEFT_OUT]
    replies = [entry for entry in listed if entry.kind == "message"]
    told = add(entry.usage for entry in replies)
    whole = len(replies) + len(extra) == len(listed)  # a declined pass before a fallback's may be told but not billed
    if replies and whole and all(getattr(told, name) >= getattr(own.usage, name) for name in COUNTS[:4]):
        return listed
    return [own, *extra]


def sound(usage: Usage) -> Usage:
    """The same with counts that a ledger can hold and add up, however they came about."""
    counts = {name: getattr(usage, name) for name in COUNTS}
    kept = {name: _number(count) for name, count in counts.items()}
    return usage if kept == counts else msgspec.structs.replace(usage, **kept)


def add(several: Iterable[Usage]) -> Usage:
    """The sum, without `raw`."""
    rows = list(several)
    return Usage(**{name: sum(getattr(row, name) for row in rows) for name in COUNTS})


def context_tokens(usage: Usage) -> int:
    """Tokens of the context that the model read last: not the sum over the passes of a call.

    A compaction's pass reads a conversation of its own, so the last message's counts.
    """
    replies = [entry for entry in _entries(usage.raw) if entry.get("type") in ("message", "fallback_message")]
    return _pass(replies[-1], "message").usage.input if replies else usage.input


def long_writes(raw: Mapping[str, Any]) -> int:
    """Tokens written to the cache for an hour, in whichever form they are told."""
    told = field(raw.get("input_token_details"), _LONG)
    return _number(told) if told is not None else sum(entry.long_writes for entry in passes(raw))


def _entries(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = raw.get("iterations")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, (list, tuple)) else []


def _pass(told: Mapping[str, Any], kind: str) -> Pass:
    cached, written = _number(told.get("cache_read_input_tokens")), _number(told.get("cache_creation_input_tokens"))
    wrote = told.get("output_tokens_details")
    thought = _number(field(wrote, "thinking_tokens")) or _number(field(wrote, "reasoning_tokens"))
    read = _number(told.get("input_tokens")) + cached + written
    usage = Usage(read, _number(told.get("output_tokens")), cached, written, thought)
    model = told.get("model")
    lasting = min(written, _number(field(told.get("cache_creation"), _LONG)))
    return Pass(kind, usage, lasting, model if isinstance(model, str) else None)


def _usage(raw: Mapping[str, Any], read: str, wrote: str, cached: int, written: int, details: Any) -> Usage:
    thought = _number(field(details, "reasoning_tokens"))
    return Usage(_number(raw.get(read)), _number(raw.get(wrote)), cached, written, thought, dict(raw))


def _number(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < MOST else 0
