"""Whole answers, told apart by their fields; no SDK is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from novelo.errors import InvalidMessage
from novelo.formats._usage import field, plain, read_usage
from novelo.formats.anthropic import from_anthropic
from novelo.formats.openai import from_openai
from novelo.messages import Message, Part, Text, Usage


class Reply(msgspec.Struct, frozen=True):
    """A model's answer.

    Attributes:
        message: the assistant's message.
        usage: tokens as reported, None if nothing was.
        finish_reason: "stop", "tool_use", "length", … in the provider's word.
        model: who wrote it, in the provider's word.
    """

    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str | None = None


def read_reply(reply: Any) -> Reply:
    """An answer of any kind.

    Args:
        reply: a text; what the OpenAI SDK gives (chat completion, its message, or a response); what the Anthropic SDK
            gives; a LangChain message; one of our messages; or the same as dicts.
    Raises:
        InvalidMessage: nothing of these, or no assistant's message.
    """
    if isinstance(reply, str):
        return Reply(Message("assistant", reply))
    if isinstance(reply, Message):
        return Reply(_assistant(reply), reply.usage, None, _text(reply.meta.get("model")))
    own = field(reply, "message")
    if isinstance(own, Message):  # a reply of our own models
        usage = read_usage(field(reply, "usage")) or own.usage
        return Reply(_assistant(own), usage, _text(field(reply, "finish_reason")), _text(field(reply, "model")))
    if _is_langchain(reply):
        return _langchain(reply)
    given = plain(reply)
    if not isinstance(given, Mapping):
        raise InvalidMessage(f"a reply is a {type(reply).__name__}, expected a text, a message or an SDK's answer")
    if isinstance(given.get("choices"), (list, tuple)):
        return _completion(given)
    if isinstance(given.get("output"), (list, tuple)) and "role" not in given:
        return _response(given)
    if isinstance(given.get("content"), (list, tuple)) and (given.get("type") == "message" or "stop_reason" in given):
        return _anthropic(given)
    return Reply(_assistant(from_openai({"role": field(reply, "role"), **given})), read_usage(given.get("usage")))


def _completion(given: Mapping[str, Any]) -> Reply:
    choices = given["choices"]
    choice = choices[0] if choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise InvalidMessage("a chat completion has no choice with a message")
    # the SDK fills absent fields with nulls and empty lists; stored, they would be sent with every later call
    filled = {k: v for k, v in message.items() if v is not None and v != []}
    chat = {"role": "assistant", "content": None, **filled}
    usage, reason = read_usage(given.get("usage")), _text(choice.get("finish_reason"))
    return Reply(_assistant(from_openai(chat)), usage, reason, _text(given.get("model")))


def _response(given: Mapping[str, Any]) -> Reply:
    from novelo.formats.responses import from_responses

    items = [item for item in given["output"] if isinstance(item, Mapping)]
    messages = [m for m in from_responses(items) if m.role == "assistant"]
    reason = field(given.get("incomplete_details"), "reason") or given.get("status")
    message = _joined(messages) if messages else Message("assistant", "")
    return Reply(message, read_usage(given.get("usage")), _text(reason), _text(given.get("model")))


def _anthropic(given: Mapping[str, Any]) -> Reply:
    message = from_anthropic([{"role": given.get("role", "assistant"), "content": given["content"]}])[0]
    usage, reason = read_usage(given.get("usage")), _text(given.get("stop_reason"))
    return Reply(_assistant(message), usage, reason, _text(given.get("model")))


def _langchain(reply: Any) -> Reply:
    from novelo.formats.langchain import from_langchain

    message = from_langchain(reply)
    told = getattr(reply, "response_metadata", None) or {}
    usage = read_usage(getattr(reply, "usage_metadata", None)) or message.usage
    reason = told.get("finish_reason") or told.get("stop_reason") or told.get("done_reason")
    return Reply(_assistant(message), usage, _text(reason), _text(told.get("model_name") or told.get("model")))


def _is_langchain(reply: Any) -> bool:
    if isinstance(reply, Mapping):
        return False
    return hasattr(reply, "response_metadata") and hasattr(reply, "content") and hasattr(reply, "type")


def _joined(messages: Sequence[Message]) -> Message:
    """One message of several that one call gave."""
    first = messages[0]
    if len(messages) == 1:
        return first
    parts: list[Part] = []
    for message in messages:
        if isinstance(message.content, str):
            parts.extend([Text(text=message.content)] if message.content else [])
        else:
            parts.extend(message.content or ())
    calls = tuple(call for message in messages for call in message.tool_calls)
    extra = {k: v for message in reversed(messages) for k, v in message.extra.items()}
    meta = {k: v for message in reversed(messages) for k, v in message.meta.items()}
    return msgspec.structs.replace(first, content=tuple(parts) or None, tool_calls=calls, extra=extra, meta=meta)


def _assistant(message: Message) -> Message:
    if message.role != "assistant":
        raise InvalidMessage(f"a reply has the role {message.role!r}, expected assistant")
    return message


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
