"""Mistral's chat form: OpenAI's dicts, with call ids of nine letters and digits and no fields that Mistral has not.

Source: mistral-common, request validation of versions 3 to 11 (ids); the API refuses unknown fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from novelo.formats.openai import to_openai
from novelo.messages import Message, ToolCall

_LEGAL = re.compile(r"[a-zA-Z0-9]{9}")
_UNKNOWN = ("annotations", "audio", "function_call", "refusal", "id")  # an OpenAI answer's, when it is put into a list


def to_mistral(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as Mistral's dicts; an id that must change changes in the same way on call and result, each time."""
    return [_one(message) for message in messages]


def short_call_id(call_id: str) -> str:
    """An id of nine letters or digits: itself, or the start of its hash."""
    if _LEGAL.fullmatch(call_id):
        return call_id
    return blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()[:9]


def _one(message: Message) -> dict[str, Any]:
    if message.tool_calls:
        calls = tuple(ToolCall(short_call_id(c.id), c.name, c.arguments, c.extra) for c in message.tool_calls)
        message = msgspec.structs.replace(message, tool_calls=calls)
    if message.tool_call_id is not None:
        message = msgspec.structs.replace(message, tool_call_id=short_call_id(message.tool_call_id))
    out = to_openai(message)
    if out["role"] in ("developer", "function"):
        out["role"] = message.role
    if out.get("content") is None and isinstance(out.get("refusal"), str):
        out["content"] = out["refusal"]
    for key in _UNKNOWN:
        out.pop(key, None)
    return out
