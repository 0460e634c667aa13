"""Gemini's generateContent form, out only: contents of user and model, a system instruction apart.

Results carry the name of the call they answer, and the results of one message's calls stand in one content; pictures
that a tool gave follow in a content of their own. Source: the API reference of `generateContent` (Content, Part,
FunctionCall, FunctionResponse); both patterns stand in recorded requests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from novelo.formats._values import json_object, split_data_url
from novelo.messages import Audio, File, Image, Message, Part, Text, ToolCall

_DEFAULTS = {Image: "image/png", Audio: "audio/wav", File: "application/pdf"}


def to_gemini(messages: Sequence[Message]) -> dict[str, Any]:
    """Messages as a request body.

    Args:
        messages: n messages, oldest first. System messages join the instruction wherever they stand.
    Returns:
        {"contents": [{"role": "user" | "model", "parts": [...]}, ...]}, and "systemInstruction" if there is one.
            Neighbours of one role are one content. Thoughts are left out.
    """
    system: list[dict[str, Any]] = []
    contents: list[tuple[str, list[dict[str, Any]]]] = []  # by what stands in them: user, model, tool, media of tools
    names: dict[str, str] = {}
    for message in messages:
        parts = _parts(message)
        if message.role == "system":
            system += parts
        elif message.role == "tool":
            media = [part for part in parts if "text" not in part]
            if contents and contents[-1][0] == "media":
                _add(contents, "media", media)
                contents[-2][1].append(_result(message, names))
            else:
                _add(contents, "tool", [_result(message, names)])
                _add(contents, "media", media)
        elif message.role == "assistant":
            names = {call.id: call.name for call in message.tool_calls}
            _add(contents, "model", parts + [_call(call) for call in message.tool_calls])
        else:
            _add(contents, "user", parts)
    written = [{"role": "model" if kind == "model" else "user", "parts": parts} for kind, parts in contents]
    return {"contents": written, **({"systemInstruction": {"parts": system}} if system else {})}


def _add(contents: list[tuple[str, list[dict[str, Any]]]], kind: str, parts: list[dict[str, Any]]) -> None:
    """Parts join the last content if it is of their kind."""
    if contents and contents[-1][0] == kind:
        contents[-1][1].extend(parts)
    elif parts:
        contents.append((kind, parts))


def _parts(message: Message) -> list[dict[str, Any]]:
    found = (_part(part) for part in message.parts)
    return [part for part in found if part is not None]


def _part(part: Part) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return {"text": part.text} if part.text.strip() else None
    if not isinstance(part, (Image, Audio, File)):
        return None
    media_type, data = part.media_type or _DEFAULTS[type(part)], part.data
    split = split_data_url(part.url) if data is None and part.url is not None else None
    if split is not None:
        media_type, data = split
    if data is not None:
        return {"inlineData": {"mimeType": media_type if "/" in media_type else f"audio/{media_type}", "data": data}}
    if part.url is not None:
        return {"fileData": {"mimeType": media_type, "fileUri": part.url}}
    kind = type(part).__name__.lower()
    return {"text": f"[{kind}]"}


def _call(call: ToolCall) -> dict[str, Any]:
    out: dict[str, Any] = {"functionCall": {"id": call.id, "name": call.name, "args": json_object(call.arguments)}}
    signature = _signature(call)
    return {**out, "thoughtSignature": signature} if signature else out


def _signature(call: ToolCall) -> str | None:
    """The signed thought that Gemini's OpenAI-shaped endpoint puts beside a call, and wants back unchanged."""
    found: Any = call.extra
    for name in ("extra_content", "google", "thought_signature"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _result(message: Message, names: dict[str, str]) -> dict[str, Any]:
    """A result as an object, which Gemini asks for: itself if it is one, else under `result`, or `error`."""
    name = names.get(message.tool_call_id or "") or message.name or "unknown"
    text = message.text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if message.meta.get("status") == "error":
        value = {"error": value}
    response = value if isinstance(value, dict) else {"result": text}
    return {"functionResponse": {"id": message.tool_call_id or "", "name": name, "response": response}}
