"""Content blocks of OpenAI chat messages as parts, and back.

What a block has beyond the fields we name stays in the part's `extra`. A block that is spelled in one of several ways
(a picture as a plain address, thoughts under three names) notes its spelling there under `SPELLED`, which is never
sent; the note also says that the part came from a chat dict, so its further fields may go back into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from novelo.errors import InvalidMessage
from novelo.formats._values import check_depth, data_url, split_data_url
from novelo.messages import Audio, File, Image, Other, Part, Reasoning, Text

SPELLED = "_spelled"
SOUNDS = {"wav": "audio/wav", "mp3": "audio/mp3"}  # the formats of `input_audio`
_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
_THOUGHTS = {"thinking": ("thinking",), "redacted_thinking": ("data",), "reasoning": ("text", "reasoning")}


def read_part(block: Any) -> Part:
    """One content block.

    Raises:
        InvalidMessage: neither a mapping nor a text, or nested too deep.
    """
    if isinstance(block, str):
        return Text(text=block, extra={SPELLED: "plain"})
    if not isinstance(block, Mapping):
        raise InvalidMessage(f"a content block is a {type(block).__name__}, expected a mapping with a type")
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str) and SPELLED not in block:
        text: str = block["text"]
        return Text(text=text) if len(block) == 2 else Text(text=text, extra=rest(block, ("type", "text")))
    read = _READERS.get(kind) if isinstance(kind, str) and SPELLED not in block else None
    part = read(block) if read is not None else None
    if part is not None:
        return part
    value = dict(block)
    check_depth(value)
    return Other(value=value)


def write_part(part: Part, native: bool, media: bool = True) -> dict[str, Any] | str | None:
    """A part as a content block; None if it has no place in a chat message.

    Args:
        part: the part.
        native: whether the message came from a chat dict, so that further fields and unknown blocks belong there.
        media: whether media from elsewhere may stand here; else a text says that something stood there.
    """
    extra = part.extra
    spelled = extra.get(SPELLED) if extra and native else None
    more = {k: v for k, v in extra.items() if k != SPELLED} if extra and native else {}
    if isinstance(part, Text):
        if spelled == "plain":
            return part.text
        kind = "refusal" if spelled in ("refusal", "refusal field") else "text"
        return {"type": kind, kind: part.text, **more}
    if isinstance(part, Reasoning):
        return _thought(part, spelled, more) if spelled else None
    if isinstance(part, Other):
        return part.value if native and isinstance(part.value, dict) else None
    if not media and not native:
        return _placeholder(part)
    if isinstance(part, Image):
        return _image(part, spelled, more)
    return _audio(part, more) if isinstance(part, Audio) else _file(part, more, native)


def rest(block: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The fields that we have no name for, refused if they could never be written."""
    more = {k: v for k, v in block.items() if k not in known}
    if more:
        check_depth(more)
    return more


def _strings(fields: Mapping[str, Any]) -> bool:
    return all(isinstance(v, str) for v in fields.values())


def _inner(block: Mapping[str, Any], name: str, known: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Any]] | None:
    """The texts of a nested block by name, and all else; None if a field we name holds no text."""
    inner = block.get(name)
    if not isinstance(inner, Mapping):
        return None
    fields = {k: inner[k] for k in known if k in inner}
    if not _strings(fields):
        return None
    extra = rest(block, ("type", name))
    further = rest(inner, known)
    if further:
        extra[name] = further
    return fields, extra


def _read_image(block: Mapping[str, Any]) -> Part | None:
    if isinstance(block.get("image_url"), str):
        return Image(url=block["image_url"], extra={**rest(block, ("type", "image_url")), SPELLED: "plain"})
    found = _inner(block, "image_url", ("url", "detail"))
    if found is None or "url" not in found[0]:
        return None
    return Image(**found[0], extra=found[1])


def _image(part: Image, spelled: Any, more: dict[str, Any]) -> dict[str, Any]:
    url = part.url if part.url is not None else None
    if url is None and part.data is not None:
        url = data_url(part.media_type or "image/png", part.data)
    if url is None:
        return _placeholder(part)
    if spelled == "plain":
        return {"type": "image_url", "image_url": url, **more}
    inner = {"url": url, **({"detail": part.detail} if part.detail is not None else {})}
    return _nested("image_url", inner, more)


def _read_audio(block: Mapping[str, Any]) -> Part | None:
    found = _inner(block, "input_audio", ("data", "format"))
    if found is None or len(found[0]) < 2 or found[0]["format"].startswith("audio/"):
        return None
    form = found[0]["format"]
    return Audio(data=found[0]["data"], media_type=SOUNDS.get(form, form), extra=found[1])


def _audio(part: Audio, more: dict[str, Any]) -> dict[str, Any]:
    if part.data is None:
        return _placeholder(part)
    form = part.media_type or "wav"
    return _nested("input_audio", {"data": part.data, "format": _FORMATS.get(form, form.removeprefix("audio/"))}, more)


def _read_file(block: Mapping[str, Any]) -> Part | None:
    found = _inner(block, "file", ("file_data", "filename", "file_id"))
    if found is None or not found[0]:
        return None
    fields, extra = found
    data = fields.get("file_data")
    split = split_data_url(data) if data is not None else None
    media_type, data = split if split is not None else (None, data)
    name, file_id = fields.get("filename"), fields.get("file_id")
    return File(data=data, media_type=media_type, name=name, file_id=file_id, extra=extra)


def _file(part: File, more: dict[str, Any], native: bool) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    if part.data is not None:
        inner["file_data"] = data_url(part.media_type, part.data) if part.media_type else part.data
    if part.file_id is not None and native:  # another provider's id names nothing here
        inner["file_id"] = part.file_id
    if not inner and not more and (part.name is None or not native):
        return _placeholder(part)
    if part.name is not None:
        inner["filename"] = part.name
    return _nested("file", inner, more)


def _nested(kind: str, inner: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    further = more.get(kind)
    return {**more, "type": kind, kind: {**inner, **further} if isinstance(further, dict) else inner}


def _read_refusal(block: Mapping[str, Any]) -> Part | None:
    if not isinstance(block.get("refusal"), str):
        return None
    return Text(text=block["refusal"], extra={**rest(block, ("type", "refusal")), SPELLED: "refusal"})


def _read_thought(block: Mapping[str, Any]) -> Part | None:
    kind = block["type"]
    key = next((k for k in _THOUGHTS[kind] if isinstance(block.get(k), str)), "")
    known = {k: block[k] for k in ("signature", "id") if isinstance(block.get(k), str)}
    extra = rest(block, ("type", *((key,) if key else ()), *known))
    if not key and kind != "reasoning":
        return None
    said = {"data" if key == "data" else "text": block[key]} if key else {}
    return Reasoning(**said, **known, extra={**extra, SPELLED: f"{kind}:{key}"})


def _thought(part: Reasoning, spelled: Any, more: dict[str, Any]) -> dict[str, Any]:
    kind, _, key = str(spelled).partition(":")
    out = {"type": kind, **more}
    if key:
        out[key] = part.data if key == "data" else part.text
    if part.signature is not None:
        out["signature"] = part.signature
    if part.id is not None:
        out["id"] = part.id
    return out


def _placeholder(part: Part) -> dict[str, Any]:
    """Words for what this provider cannot be given here; an address is told, since it can still be opened."""
    kind = type(part).__name__.lower()
    name = getattr(part, "name", None) or getattr(part, "url", None) or ""
    told = "" if name.startswith("data:") else name
    return {"type": "text", "text": f"[{kind}: {told}]" if told else f"[{kind}]"}


_READERS: dict[str, Callable[[Mapping[str, Any]], Part | None]] = {
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
    "refusal": _read_refusal,
    "thinking": _read_thought,
    "redacted_thinking": _read_thought,
    "reasoning": _read_thought,
}
