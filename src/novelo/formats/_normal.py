"""What can be stored: texts that are Unicode, values that end."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from novelo.formats._values import check_depth
from novelo.messages import Message, Other

S = TypeVar("S", bound=msgspec.Struct)


def normalize(message: Message) -> Message:
    """The message with lone surrogates replaced by U+FFFD, wherever they stand; the same object if there are none.

    JSON may escape half of a surrogate pair, so models send such texts; UTF-8 has no bytes for them, and no database or
    provider takes them. A changed message says so in `meta["normalized"]`.

    Raises:
        InvalidMessage: something in it is nested deeper than 64 levels, or holds itself.
    """
    content = message.content
    if content.__class__ is str and not message.extra and not message.meta and not message.tool_calls:
        names = (message.id, message.name, message.tool_call_id)
        if _whole(content) and all(n is None or _whole(n) for n in names):
            return message
    _check_depths(message)
    for _ in range(2):  # once for texts, once for objects
        try:
            msgspec.json.encode(message)
            break
        except UnicodeEncodeError:
            message = _mended(message)
        except (TypeError, ValueError):
            if message.meta.get("form") != "langchain":
                break  # no data: the store says so when it writes
            message = _storable(message)
    return message


def _storable(message: Message) -> Message:
    """LangChain lets any object stand in an artifact or in metadata; what is not data leaves a note of its class."""
    extra = {name: _plain(value) for name, value in message.extra.items()}
    return msgspec.structs.replace(message, extra=extra, meta={**message.meta, "normalized": True})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k if isinstance(k, str) else str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return value
    except (TypeError, ValueError, RecursionError):
        return {"not_stored": type(value).__name__}
    return value


def _whole(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_depths(message: Message) -> None:
    if message.extra:
        check_depth(message.extra, 1)
    if message.meta:
        check_depth(message.meta, 1)
    for call in message.tool_calls:
        check_depth(call.extra)
    if isinstance(message.content, tuple):
        for part in message.content:
            check_depth(part.extra)
            if isinstance(part, Other):
                check_depth(part.value)
    if message.usage is not None:
        check_depth(message.usage.raw)


def _mended(message: Message) -> Message:
    content = message.content
    changed: dict[str, Any] = {
        "content": tuple(_struct(p) for p in content) if isinstance(content, tuple) else _value(content),
        "tool_calls": tuple(_struct(c) for c in message.tool_calls),
        "meta": {**_value(message.meta), "normalized": True},
        "usage": _struct(message.usage) if message.usage is not None else None,
    }
    for name in ("tool_call_id", "name", "id", "extra"):
        changed[name] = _value(getattr(message, name))
    return msgspec.structs.replace(message, **changed)


def _struct(value: S) -> S:
    fields = {name: _value(getattr(value, name)) for name in value.__struct_fields__}
    return msgspec.structs.replace(value, **fields)


def _value(value: Any) -> Any:
    """A value with every text mended; its depth has been checked."""
    if isinstance(value, str):
        # UTF-16 joins halves that belong together and replaces those that do not
        return value if _whole(value) else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_value(k): _value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(v) for v in value]
    return value
