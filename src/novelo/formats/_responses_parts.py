"""Content parts and reasoning items of OpenAI's Responses API as our parts, and back.

A part's further fields stay in its `extra`; `SPELLED` there notes a kind that its place would not tell (a refusal, an
`input_text` of the assistant), `ITEM` opens an item: its fields, or `WHOLE` where the part is an item of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novelo.errors import InvalidMessage
from novelo.formats._openai_parts import SPELLED, read_part, rest, write_part
from novelo.formats._values import check_depth, data_url, split_data_url
from novelo.messages import Audio, File, Image, Other, Part, Reasoning, Role, Text

ITEM = "_item"
WHOLE = "whole"
PLAIN = "plain"  # a content that was a text, not a list
_BARE = "_bare"  # a reasoning item without a summary
RESERVED = frozenset((ITEM, SPELLED, _BARE))
SINGLE = "single"  # an output that was one part, not a list
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_SCREEN = "computer_screenshot"
_IMAGES = ("input_image", _SCREEN)
_IMAGE = {"image_url": "url", "file_id": "file_id", "detail": "detail"}
_FILE = {"file_data": "data", "file_url": "url", "filename": "name", "file_id": "file_id"}


def read_content_part(block: Any, role: Role) -> Part:
    """One part of a message's content or of an output.

    Args:
        block: the part.
        role: whose message it stands in; it tells which kind of text is the usual one.
    Raises:
        InvalidMessage: no mapping, or nested too deep.
    """
    if not isinstance(block, Mapping):
        raise InvalidMessage(f"a content part is a {type(block).__name__}, expected a mapping with a type")
    kind = block.get("type")
    part: Part | None = None
    if not RESERVED.isdisjoint(block):
        kind = None
    if kind in _TEXTS and isinstance(block.get(_TEXTS[kind]), str):
        extra = rest(block, ("type", _TEXTS[kind]))
        if kind != _usual(role):
            extra[SPELLED] = kind
        return Text(text=block[_TEXTS[kind]], extra=extra)
    if kind in _IMAGES:
        known = _known(block, _IMAGE)
        extra = rest(block, ("type", *(k for k, field in _IMAGE.items() if field in known)))
        if "url" in known or "file_id" in known:
            part = Image(**known, extra=extra | ({SPELLED: _SCREEN} if kind == _SCREEN else {}))
    elif kind == "input_file":
        part = _read_file(block)
    elif kind == "input_audio":
        part = read_part(block)
    if part is not None:
        return part
    value = dict(block)
    check_depth(value)
    return Other(value=value)


def write_content_part(part: Part, role: Role, native: bool) -> dict[str, Any] | None:
    """A part as a content part of a message or an output; None if it has no place there.

    Args:
        part: the part.
        role: whose message it stands in: only the user's and a tool's may hold pictures and files.
        native: whether the message came from this form.
    """
    spelled = part.extra.get(SPELLED) if native else None
    more = {k: v for k, v in part.extra.items() if k not in (SPELLED, ITEM)} if native and part.extra else {}
    if isinstance(part, Text):
        kind = spelled if spelled in _TEXTS else _usual(role)
        return {"type": kind, _TEXTS[kind]: part.text, **more}
    if isinstance(part, Reasoning):
        return None
    if isinstance(part, Other):
        return part.value if native and isinstance(part.value, dict) else None
    if native or role in ("user", "tool"):
        named = (part.data, part.url, part.file_id) != (None, None, None)
        if isinstance(part, Image) and named:
            return {"type": spelled if spelled == _SCREEN else "input_image", **_image(part), **more}
        if isinstance(part, File) and named:
            return {"type": "input_file", **_file(part), **more}
        if isinstance(part, Audio) and part.data is not None and (native or role == "user"):
            found = write_part(part, native)
            return {k: v for k, v in found.items() if k != ITEM} if isinstance(found, dict) else None
    name = getattr(part, "name", None) or getattr(part, "url", None) or ""
    told = "" if name.startswith("data:") else f": {name}"
    kind = type(part).__name__.lower()
    return {"type": _usual(role), "text": f"[{kind}{told if name else ''}]"}


def read_reasoning(item: Mapping[str, Any]) -> Reasoning:
    """A reasoning item: its summary or its words to read, its encrypted content and its id as they are."""
    summary, content = item.get("summary"), item.get("content")
    known = ["type"]
    fields: dict[str, Any] = {}
    for name, field in (("id", "id"), ("encrypted_content", "data")):
        if isinstance(item.get(name), str):
            fields[field] = item[name]
            known.append(name)
    text = _joined(content) or _joined(summary)
    if "content" not in item and summary == _summary(text):
        known.append("summary")
    extra = rest(item, tuple(known))
    if "summary" not in item:
        extra[_BARE] = True
    return Reasoning(text=text, **fields, extra=extra)


def write_reasoning(part: Reasoning) -> dict[str, Any]:
    """A reasoning item as it came."""
    out: dict[str, Any] = {"type": "reasoning"}
    if part.id is not None:
        out["id"] = part.id
    if "summary" not in part.extra and _BARE not in part.extra:
        out["summary"] = _summary(part.text)
    if part.data is not None:
        out["encrypted_content"] = part.data
    return out | {k: v for k, v in part.extra.items() if k not in (_BARE, ITEM)}


def _usual(role: Role) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _known(block: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """The texts among the fields that we name; what else stands there stays in `extra`."""
    return {field: block[name] for name, field in names.items() if isinstance(block.get(name), str)}


def _read_file(block: Mapping[str, Any]) -> File | None:
    known = _known(block, _FILE)
    if not known.keys() & {"data", "url", "file_id"}:
        return None
    extra = rest(block, ("type", *(k for k, field in _FILE.items() if field in known)))
    split = split_data_url(known["data"]) if "data" in known else None
    if split is not None:
        known["media_type"], known["data"] = split
    return File(**known, extra=extra)


def _image(part: Image) -> dict[str, Any]:
    url = part.url
    if url is None and part.data is not None:
        url = data_url(part.media_type or "image/png", part.data)
    found = {"image_url": url, "file_id": part.file_id, "detail": part.detail}
    return {name: value for name, value in found.items() if value is not None}


def _file(part: File) -> dict[str, Any]:
    data = part.data
    if data is not None and part.media_type is not None:
        data = data_url(part.media_type, data)
    found = {"file_data": data, "file_url": part.url, "filename": part.name, "file_id": part.file_id}
    return {name: value for name, value in found.items() if value is not None}


def _summary(text: str | None) -> list[dict[str, str]]:
    return [] if text is None else [{"type": "summary_text", "text": text}]


def _joined(blocks: Any) -> str | None:
    """The texts of a list of summaries or thoughts, a blank line between them."""
    if not isinstance(blocks, (list, tuple)):
        return None
    said = [b["text"] for b in blocks if isinstance(b, Mapping) and isinstance(b.get("text"), str)]
    return "\n\n".join(said) if said else None
