"""Anthropic's content blocks as parts and calls, and back.

Source: the Messages API's request types (anthropic-sdk-python, `types/*_block_param.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from novelo.errors import InvalidMessage
from novelo.formats._openai_parts import SPELLED, rest
from novelo.formats._values import check_depth, json_object, split_data_url
from novelo.messages import Audio, File, Image, Other, Part, Reasoning, Text, ToolCall

PLAIN_DOCUMENT = "_document"  # marks a text that came as a document: other providers read it as text
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def legal_call_id(call_id: str) -> str:
    """A call id of letters, digits, _ and -: itself, or the legal rest of it and a hash, the same each time.

    Example: "call_ab1|fc_99" -> "call_ab1_fc_99_" and eight hexadecimal digits.
    Source: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'" (error of the Messages API).
    """
    if _LEGAL_ID.fullmatch(call_id):
        return call_id
    name = _ILLEGAL.sub("_", call_id) or "call"
    return f"{name}_{blake2b(call_id.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"


def as_block(block: Any) -> Mapping[str, Any]:
    """A block as a mapping; the SDK's own objects are taken as they would be sent.

    Raises:
        InvalidMessage: neither a mapping, nor a text, nor such an object.
    """
    if isinstance(block, Mapping):
        return block
    if isinstance(block, str):
        return {"type": "text", "text": block}
    dump = getattr(block, "model_dump", None)
    dumped = dump(exclude_unset=True, mode="json") if callable(dump) and not isinstance(block, type) else None
    if isinstance(dumped, dict):
        return dumped if "type" in dumped else {"type": getattr(block, "type", None), **dumped}
    raise InvalidMessage(f"a content block is a {type(block).__name__}, expected a mapping with a type")


def read_block(block: Mapping[str, Any]) -> Part:
    """One block that is neither a call nor a result.

    Raises:
        InvalidMessage: nested too deep.
    """
    kind = block.get("type")
    part: Part | None = None
    if kind == "text" and isinstance(block.get("text"), str):
        part = Text(text=block["text"], extra=rest(block, ("type", "text")))
    elif kind == "thinking" and isinstance(block.get("thinking"), str):
        part = _thought(block, "text", "thinking")
    elif kind == "redacted_thinking" and isinstance(block.get("data"), str):
        part = _thought(block, "data", "data")
    elif kind in ("image", "document") and isinstance(block.get("source"), Mapping):
        part = _read_source(block, block["source"])
    if part is not None:
        return part
    value = dict(block)
    check_depth(value)
    return Other(value=value)


def write_block(part: Part, native: bool, responses: bool = False) -> dict[str, Any] | None:
    """A part as a block; None for what must not be sent: blank texts, and thoughts or unknown blocks of others.

    Args:
        part: the part.
        native: whether it may have come from this form.
        responses: whether it came from OpenAI's Responses, whose encrypted thoughts look like redacted ones.
    """
    more = (
        {k: v for k, v in part.extra.items() if k != SPELLED and k != PLAIN_DOCUMENT} if native and part.extra else {}
    )
    if isinstance(part, Text):
        if native and PLAIN_DOCUMENT in part.extra:
            return _document({"type": "text", "media_type": "text/plain", "data": part.text}, more)
        return {"type": "text", "text": part.text, **more} if part.text.strip() else None
    if isinstance(part, Reasoning):
        return None if responses else _write_thought(part, native, more)
    if isinstance(part, Other):
        return part.value if native and isinstance(part.value, dict) else None
    if isinstance(part, Audio):
        return {"type": "text", "text": "[audio]"}
    source = _source(part, native)
    if source is None:
        return _placeholder(part)
    if isinstance(part, Image):
        return _sourced("image", source, more)
    return _document(source, more if part.name is None else {"title": part.name, **more})


def read_call(block: Mapping[str, Any]) -> ToolCall | None:
    """A `tool_use` block as a call; None if its id or name is no text."""
    call_id, name = block.get("id"), block.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    given = block.get("input")
    check_depth(given)
    try:
        arguments = "{}" if given is None else json.dumps(given, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"a tool's input cannot be written as JSON: {type(error).__name__}") from error
    return ToolCall(call_id, name, arguments, rest(block, ("type", "id", "name", "input")))


def write_call(call: ToolCall, native: bool) -> dict[str, Any]:
    """A call as a `tool_use` block."""
    more = {k: v for k, v in call.extra.items() if k != SPELLED} if native and call.extra else {}
    arguments = json_object(call.arguments)
    return {"type": "tool_use", "id": legal_call_id(call.id), "name": call.name, "input": arguments, **more}


def _thought(block: Mapping[str, Any], field: str, key: str) -> Reasoning:
    signature = block.get("signature") if field == "text" else None
    known = ("type", key, "signature") if isinstance(signature, str) else ("type", key)
    said = {field: block[key]}
    return Reasoning(**said, signature=signature if len(known) > 2 else None, extra=rest(block, known))


def _write_thought(part: Reasoning, native: bool, more: dict[str, Any]) -> dict[str, Any] | None:
    """Thoughts go back signed, as they came; without a signature they are refused, so others' are left out."""
    if part.data is not None and part.text is None:
        return {"type": "redacted_thinking", "data": part.data, **more}
    if part.text is None or (not native and not part.signature):
        return None
    signed = {} if part.signature is None else {"signature": part.signature}
    return {"type": "thinking", "thinking": part.text, **signed, **more}


_SOURCES = {"base64": ("media_type", "data"), "url": ("url",), "file": ("file_id",)}


def _read_source(block: Mapping[str, Any], source: Mapping[str, Any]) -> Part | None:
    """A picture or document by its source; None for sources that only this provider has."""
    kind, image = source.get("type"), block["type"] == "image"
    text = kind == "text" and not image and source.get("media_type") == "text/plain"
    names = ("media_type", "data") if text else _SOURCES.get(kind) if isinstance(kind, str) else None
    if names is None or not all(isinstance(source.get(name), str) for name in names):
        return None
    title = block.get("title") if not image and not text else None
    named = isinstance(title, str)
    extra = rest(block, ("type", "source", "title") if named else ("type", "source"))
    further = rest(source, ("type", *names))
    if further:
        extra["source"] = further
    if text:
        return Text(text=source["data"], extra={**extra, PLAIN_DOCUMENT: True})
    fields = {name: source[name] for name in names}
    return Image(**fields, extra=extra) if image else File(**fields, name=title if named else None, extra=extra)


def _source(part: Image | File, native: bool) -> dict[str, Any] | None:
    url, data, media_type = part.url, part.data, part.media_type
    if data is None and url is not None:
        split = split_data_url(url)
        if split is None:
            return {"type": "url", "url": url}
        media_type, data = split
    if data is not None:
        default = "image/png" if isinstance(part, Image) else "application/pdf"
        return {"type": "base64", "media_type": media_type or default, "data": data}
    return {"type": "file", "file_id": part.file_id} if part.file_id is not None and native else None


def _document(source: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return _sourced("document", source, more)


def _sourced(kind: str, source: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    further = more.get("source")
    return {**more, "type": kind, "source": {**source, **further} if isinstance(further, dict) else source}


def _placeholder(part: Image | File) -> dict[str, Any]:
    name = part.name if isinstance(part, File) else None
    kind = type(part).__name__.lower()
    return {"type": "text", "text": f"[{kind}: {name}]" if name else f"[{kind}]"}
