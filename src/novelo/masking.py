"""Masking texts inside of data: JSON, MessagePack and messages, as deep as they go, with everything else as it was.

A mask is a function text -> text. What is nested in what is nested counts too: a graph's state holds objects as
MessagePack inside of MessagePack, `Ext(code, [module, class, fields, ...])`, whose first two texts name code and stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from novelo.messages import Message, Text, ToolCall
from novelo.pattern import MASK

Mask = Callable[[str], str]
NAMES = frozenset(["kind", "id", "data", "signature", "media_type", "role"])  # of a part: no texts of anybody's
DEEPEST = 200  # of nesting: deeper data is taken for unreadable
_PACK = msgspec.msgpack.Encoder().encode


class Unreadable(ValueError):
    """Bytes that cannot be looked into."""


def masked(value: Any, mask: Mask, *, keys: bool = True, depth: int = 0) -> Any:
    """Data with every text masked; the same object where nothing matched.

    Numbers are looked at as texts too: a card number may stand as one.

    Args:
        keys: also the keys of dicts.
    Raises:
        Unreadable: it is nested too deep.
    """
    if depth > DEEPEST:
        raise Unreadable("data nested too deep")
    if isinstance(value, str):
        found = mask(value)
        return value if found == value else found
    if isinstance(value, dict):
        made = {
            (masked(k, mask, depth=depth + 1) if keys else k): masked(v, mask, keys=keys, depth=depth + 1)
            for k, v in value.items()
        }
        return value if _same(value.values(), made.values()) and _same(value, made) else made
    if isinstance(value, (list, tuple)):
        items = [masked(v, mask, keys=keys, depth=depth + 1) for v in value]
        return value if _same(value, items) else type(value)(items)
    if isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
        found = mask(text)
        return value if found == text else found
    if isinstance(value, bytes):
        return _masked_bytes(value, mask)
    if isinstance(value, msgspec.msgpack.Ext):
        return _masked_object(value, mask, depth)
    return value


def _same(old: Any, new: Any) -> bool:
    return all(a is b for a, b in zip(old, new, strict=True))


def _masked_bytes(value: bytes, mask: Mask) -> bytes:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    found = mask(text)
    return value if found == text else found.encode()


def _masked_object(value: msgspec.msgpack.Ext, mask: Mask, depth: int) -> msgspec.msgpack.Ext:
    try:
        inner = msgspec.msgpack.decode(value.data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        was = bytes(value.data)
        data = _masked_bytes(was, mask)
        return value if data is was else msgspec.msgpack.Ext(value.code, data)
    if isinstance(inner, list) and len(inner) > 2 and all(isinstance(name, str) for name in inner[:2]):
        named = inner[:2]
        rest = masked(inner[2:], mask, keys=True, depth=depth + 1)
        made = inner if rest == inner[2:] else [*named, *rest]
    else:
        made = masked(inner, mask, depth=depth + 1)
    return value if made is inner else msgspec.msgpack.Ext(value.code, _PACK(made))


def masked_json(data: bytes, mask: Mask, *, keys: bool = True, but: frozenset[str] = frozenset()) -> bytes:
    """JSON with every text masked; the same object where nothing matched.

    Args:
        but: names of fields of the outermost object that stay as they are.
    Raises:
        Unreadable: it is no JSON.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable("no JSON") from error
    made = _but(value, mask, keys, but)
    return data if made is value else msgspec.json.encode(made)


def masked_msgpack(data: bytes, mask: Mask, *, but: frozenset[str] = frozenset()) -> bytes:
    """MessagePack, likewise."""
    try:
        value = msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable("no MessagePack") from error
    made = _but(value, mask, True, but)
    return data if made is value else _PACK(made)


def _but(value: Any, mask: Mask, keys: bool, but: frozenset[str]) -> Any:
    if not but or not isinstance(value, dict):
        return masked(value, mask, keys=keys)
    loose = {name: one for name, one in value.items() if name not in but}
    made = masked(loose, mask, keys=keys)
    return value if made is loose else {name: one for name, one in value.items() if name in but} | made


def says(data: bytes, mask: Mask) -> bool:
    """Whether bytes of any form hold what a mask takes out, as they lie there or with JSON's escapes undone."""
    text = data.decode("utf-8", "replace")
    if mask(text) != text:
        return True
    if "\\u" not in text:
        return False
    try:
        plain = text.encode("utf-8", "replace").decode("unicode_escape", "replace")
    except UnicodeError:
        return False
    return mask(plain) != plain


# ---------------------------------------------------------------------------------------------- messages
def masked_message(message: Message, mask: Mask) -> Message:
    """A message with every text masked; the same object where nothing matched.

    Other than on the way out to a model (`Redact.message`), reasoning, addresses of media, names and what the provider
    added are looked at too.
    """
    content = message.content
    if isinstance(content, str):
        content = mask(content)
    elif content is not None:
        parts = tuple(_masked_part(part, mask) for part in content)
        content = content if _same(content, parts) else parts
    calls = tuple(_masked_call(call, mask) for call in message.tool_calls)
    usage = message.usage
    if usage is not None and (raw := masked(usage.raw, mask, keys=False)) is not usage.raw:
        usage = msgspec.structs.replace(usage, raw=raw)
    fields = {
        "content": content, "usage": usage, "name": message.name and mask(message.name),
        "tool_calls": message.tool_calls if _same(message.tool_calls, calls) else calls,
        "extra": masked(message.extra, mask), "meta": masked(message.meta, mask, keys=False),
    }  # fmt: skip
    if all(getattr(message, name) is value or getattr(message, name) == value for name, value in fields.items()):
        return message
    return msgspec.structs.replace(message, **fields)


def _masked_part(part: Any, mask: Mask) -> Any:
    kept = {name: getattr(part, name) for name in part.__struct_fields__ if name not in NAMES}
    clean = masked(kept, mask, keys=False)
    if clean is kept:
        return part
    try:
        return msgspec.convert(msgspec.to_builtins(part) | clean, type(part))
    except msgspec.ValidationError:  # the mask broke its form: nothing of it stays
        return Text(text=MASK)


def _masked_call(call: ToolCall, mask: Mask) -> ToolCall:
    arguments, extra = _masked_arguments(call.arguments, mask), masked(call.extra, mask)
    if arguments == call.arguments and extra is call.extra:
        return call
    return msgspec.structs.replace(call, arguments=arguments, extra=extra)


def _masked_arguments(arguments: str, mask: Mask) -> str:
    """A call's arguments, which stay JSON; what matches across their fields alone empties them."""
    try:
        found = masked_json(data := arguments.encode("utf-8", "surrogatepass"), mask)
    except Unreadable:
        return mask(arguments)
    if found is not data:
        return found.decode()
    return arguments if mask(arguments) == arguments else "{}"
