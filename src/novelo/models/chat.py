"""What comes back in the OpenAI Chat form: as a message, and as a reply.

Every backend here speaks this form at its edge, so it is read in one place. Reading is lenient: a field that we have no
name for goes into `extra`; only what cannot be an assistant's message is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from novelo.errors import ModelFailed
from novelo.messages import Message, Other, Part, Reasoning, Text, ToolCall, Usage

_READ = {"role", "content", "tool_calls", "name", "id", "reasoning_content", "reasoning"}


def message_of(chat: Mapping[str, Any], usage: Usage | None = None, model: str | None = None) -> Message:
    """An assistant's message from its OpenAI Chat dict.

    Args:
        chat: {"role": "assistant", "content": text or parts, "tool_calls": [...]}; absent and null fields are alike.
        usage: what the provider reported for it.
        model: who wrote it, noted in `meta`.
    Raises:
        ModelFailed: it is no such dict. Nothing of its content is in the error.
    """
    role = chat.get("role") or "assistant"
    if role != "assistant":
        raise ModelFailed(f"the model answered with a message of role {role!r}, expected assistant", retryable=False)
    content = _content(chat.get("content"))
    thoughts = chat.get("reasoning_content") or chat.get("reasoning")
    if isinstance(thoughts, str):
        rest: tuple[Part, ...] = (Text(text=content),) if isinstance(content, str) and content else ()
        content = (Reasoning(text=thoughts), *(content if isinstance(content, tuple) else rest))
    calls = tuple(_call(call, at) for at, call in enumerate(_listed(chat.get("tool_calls"), "tool_calls")))
    return Message(
        "assistant",
        None if calls and not content else content,
        tool_calls=calls,
        name=_text_or_none(chat.get("name")),
        id=_text_or_none(chat.get("id")),
        usage=usage,
        extra={k: v for k, v in chat.items() if k not in _READ and v is not None},
        meta={"model": model} if model else {},
    )


def usage_of(body: Any) -> Usage | None:
    """Usage in the OpenAI form; None if there is none. `input` counts cached tokens too, as the provider does."""
    if not isinstance(body, Mapping):
        return None
    read = body.get("prompt_tokens_details") or {}
    wrote = body.get("completion_tokens_details") or {}
    return Usage(
        input=_number(body.get("prompt_tokens")),
        output=_number(body.get("completion_tokens")),
        cache_read=_number(read.get("cached_tokens")) if isinstance(read, Mapping) else 0,
        reasoning=_number(wrote.get("reasoning_tokens")) if isinstance(wrote, Mapping) else 0,
        raw=dict(body),
    )


def _content(content: Any) -> str | tuple[Part, ...] | None:
    if content is None or isinstance(content, str):
        return content
    parts: list[Part] = []
    for part in _listed(content, "content"):
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") in ("text", "output_text") else None
        parts.append(Text(text=text) if isinstance(text, str) else Other(value=part))
    return tuple(parts)


def _call(call: Any, at: int) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ModelFailed(f"the model's tool call {at} has no function name", retryable=True)
    arguments = function.get("arguments")
    return ToolCall(
        id=_text_or_none(call.get("id")) or f"call_{at}",
        name=function["name"],
        arguments=arguments if isinstance(arguments, str) else "{}",
        extra={k: v for k, v in call.items() if k not in ("id", "type", "function", "index") and v is not None},
    )


def _listed(value: Any, field: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise ModelFailed(f"the model's {field} is {type(value).__name__}, expected a list", retryable=True)
    return value


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
