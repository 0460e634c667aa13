"""LangChain's content blocks as parts, and back.

A list there may hold texts, OpenAI's and Anthropic's blocks, and LangChain's own: those of version 1 (`mime_type`,
`base64`) and those before it (`source_type`). Each notes under `SPELLED` what it was. A block that repeats a call of
`tool_calls` is kept out of sight (`MIRROR`), so that nobody takes it for a call that is hidden in the content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from novelo.formats._anthropic_parts import read_block, write_block
from novelo.formats._openai_parts import SPELLED, read_part, rest, write_part
from novelo.formats._values import check_depth, data_url, split_data_url
from novelo.messages import MEDIA, Audio, File, Image, Other, Part, Reasoning, Text, ToolCall

MIRROR = "_repeats_call"
_CALLS = frozenset(("tool_use", "function_call", "functionCall", "tool-call", "tool_call"))
_MEDIA: dict[str, type[Image] | type[Audio] | type[File]] = {"image": Image, "audio": Audio, "file": File}
_V1 = {"url": "url", "base64": "data", "file_id": "file_id", "mime_type": "media_type"}
_V0 = {"url": "url", "data": "data", "id": "file_id", "mime_type": "media_type"}


def read_content(content: list[Any], calls: tuple[ToolCall, ...]) -> tuple[Part, ...]:
    """A list of content blocks.

    Args:
        content: texts and blocks.
        calls: the message's calls, which blocks may repeat.
    Raises:
        InvalidMessage: a block of another type, or nested too deep.
    """
    known = {call.id for call in calls}
    return tuple([_read(block, known) for block in content])


def _read(block: Any, known: set[str]) -> Part:
    if not isinstance(block, Mapping) or SPELLED in block:
        return read_part(block)
    kind = block.get("type")
    if isinstance(kind, str):
        if kind in _CALLS:
            call_id = block.get("call_id", block.get("id"))
            if isinstance(call_id, str) and call_id in known:
                check_depth(block)
                return Other(value={MIRROR: call_id, "block": dict(block)})
        elif kind in ("image", "document") and isinstance(block.get("source"), Mapping):
            part = read_block(block)
            return part if isinstance(part, Other) else _spelled(part, "anthropic")
        elif kind in _MEDIA:
            media = _read_media(_MEDIA[kind], block, _V0 if "source_type" in block else _V1)
            if media is not None:
                return media
    return read_part(block)


def _spelled(part: Part, how: str) -> Part:
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    return type(part)(**{**fields, "extra": {**part.extra, SPELLED: how}})


def _read_media(
    kind: type[Image] | type[Audio] | type[File], block: Mapping[str, Any], names: dict[str, str]
) -> Part | None:
    """A block of LangChain's own; None where a field is no text, or it is another's."""
    own = {field: block[name] for name, field in names.items() if name in block}
    if not own.keys() & {"url", "data", "file_id"} or not all(isinstance(v, str) for v in own.values()):
        return None
    extra = rest(block, ("type", *names))
    return kind(**own, extra={**extra, SPELLED: "v0" if names is _V0 else "v1"})


def write_content(parts: tuple[Part, ...], calls: tuple[ToolCall, ...], native: bool) -> list[Any]:
    """Parts as content blocks; what has no meaning outside its own form is left out.

    Args:
        parts: the parts.
        calls: the calls as they are now; a block that repeats one which is gone or altered is left out.
        native: whether the message came from LangChain.
    """
    written = (_write(part, calls, native) for part in parts)
    return [block for block in written if block is not None]


def _write(part: Part, calls: tuple[ToolCall, ...], native: bool) -> Any:
    if not native:
        return _translated(part)
    if isinstance(part, Other) and isinstance(part.value, dict) and MIRROR in part.value:
        block = part.value["block"]
        return block if any(_repeats(block, part.value[MIRROR], call) for call in calls) else None
    spelled = part.extra.get(SPELLED)
    if spelled == "anthropic":
        return write_block(part, native=True)
    if spelled in ("v0", "v1") and isinstance(part, MEDIA):
        return _media(part, _V1 if spelled == "v1" else _V0)
    if isinstance(part, MEDIA) and spelled is None and not _is_openai(part):
        return _translated(part)
    return write_part(part, native=True)


def _is_openai(part: Image | Audio | File) -> bool:
    """Whether a part is one that an OpenAI block can say; others were put there by a policy."""
    return part.url is not None if isinstance(part, Image) else part.data is not None or part.file_id is not None


def _repeats(block: Mapping[str, Any], call_id: str, call: ToolCall) -> bool:
    if call.id != call_id:
        return False
    given = next((block[k] for k in ("arguments", "input", "args") if k in block), None)
    if isinstance(given, str) and block["type"] != "function_call":
        return True  # pieces of a stream: `input` is still a text there
    try:
        arguments = json.loads(call.arguments)
        return given is None or arguments == (json.loads(given) if isinstance(given, str) else given)
    except ValueError:
        return True  # broken on both sides


def _media(part: Image | Audio | File, names: dict[str, str]) -> dict[str, Any]:
    own = {name: getattr(part, field) for name, field in names.items() if getattr(part, field) is not None}
    return {"type": type(part).__name__.lower(), **own, **{k: v for k, v in part.extra.items() if k != SPELLED}}


def _translated(part: Part) -> dict[str, Any] | None:
    """A part of another form in blocks that every integration reads; only Anthropic has signed thoughts."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if isinstance(part, Reasoning):
        if part.signature is not None:
            return {"type": "thinking", "thinking": part.text or "", "signature": part.signature}
        return None
    if isinstance(part, Other):
        return None
    if isinstance(part, Image) and (part.url is not None or part.data is not None):
        url = part.url if part.url is not None else data_url(part.media_type or "image/png", part.data or "")
        return {"type": "image_url", "image_url": {"url": url}}
    split = split_data_url(part.url) if part.url is not None else None
    media_type, data = split if split is not None else (part.media_type, part.data)
    own = {"url": None if split else part.url, "base64": data, "file_id": part.file_id, "mime_type": media_type}
    named = {"extras": {"filename": part.name}} if isinstance(part, File) and part.name else {}
    return {"type": type(part).__name__.lower(), **{k: v for k, v in own.items() if v is not None}, **named}
