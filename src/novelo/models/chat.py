"""What comes back in the OpenAI Chat form: as a message, with its usage.

Every backend here speaks this form at its edge, so what is special about an answer is read in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from novelo.errors import InvalidMessage, ModelFailed
from novelo.formats.openai import from_openai
from novelo.formats.reply import read_usage
from novelo.messages import Message, Usage
from novelo.tokens import count_message, count_tools

FRAME = 4  # tokens that a counted message has beyond its content; a reply is not charged for them


def message_of(chat: Mapping[str, Any], usage: Usage | None = None, model: str | None = None) -> Message:
    """An assistant's message from its OpenAI Chat dict.

    Args:
        chat: {"role": "assistant", "content": text or parts, "tool_calls": [...]}; absent, null and empty are alike. A
            call without an id, as some servers send it, gets one by its place.
        usage: what the provider reported for it.
        model: who wrote it, noted in `meta`.
    Raises:
        ModelFailed: it is no such dict. Nothing of its content is in the error.
    """
    filled = {key: value for key, value in chat.items() if value is not None and value != []}
    role = filled.setdefault("role", "assistant")
    filled.setdefault("content", None)
    if role != "assistant":
        raise ModelFailed(f"the model answered with a message of role {role!r}, expected assistant")
    try:
        message = from_openai(filled)
    except InvalidMessage as error:
        raise ModelFailed(f"the model answered with something that is no message: {error}", retryable=True) from error
    calls = tuple(c if c.id else msgspec.structs.replace(c, id=f"call_{at}") for at, c in enumerate(message.tool_calls))
    if any(not call.name for call in calls):
        raise ModelFailed("the model called a tool without naming it", retryable=True)
    content = None if calls and message.content == "" else message.content
    meta = message.meta | {"model": model} if model else message.meta
    return msgspec.structs.replace(message, content=content, tool_calls=calls, usage=usage, meta=meta)


def usage_of(body: Any) -> Usage | None:
    """Usage in the OpenAI form; None if there is none. `input` counts cached tokens too, as the provider does."""
    return read_usage(body) if isinstance(body, Mapping) else None


def estimated_usage(messages: Sequence[Any], tools: Sequence[Mapping[str, Any]], answer: Message) -> Usage:
    """Usage by the estimate, for models that nobody bills.

    Args:
        messages: n chat dicts, or messages of ours.
        tools: the definitions that were sent.
        answer: what came back.
    """
    read = sum(count_message(m if isinstance(m, Message) else from_openai(m)) for m in messages)
    return Usage(input=read + count_tools(tools), output=max(0, count_message(answer) - FRAME))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
