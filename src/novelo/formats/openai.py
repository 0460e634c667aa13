"""OpenAI chat dicts: `{"role": ..., "content": ...}` as messages and back, losing nothing.

What has a name in `messages.py` goes there; every other field stays in `extra` at its level (message, part, call,
function) and goes back out. Two roles exist only here: `developer` is a system message, and the older `function` with
`function_call` is a tool result and a call whose id is made from the function's name, since it has none.

`meta["form"] == "openai"` is noted where something of this form is kept that no other provider may be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from novelo.errors import InvalidMessage
from novelo.formats._openai_parts import SPELLED, read_part, rest, write_part
from novelo.formats._values import check_depth, json_object, json_text
from novelo.messages import MEDIA, Message, Other, Part, Role, Text, ToolCall

_PLAIN = frozenset(("user", "assistant", "system"))
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
    "developer": "system",
    "function": "tool",
}
_NAMED = ("role", "content")
_HIDDEN = frozenset(("tool_use", "function_call", "functionCall", "tool-call", "tool_call"))
LEGACY = "function_call:"  # opens the id that a call without ids gets; the function's name follows


def from_openai(d: Any) -> Message:
    """A chat dict as a message.

    Args:
        d: one message as the Chat Completions API takes or gives it.
    Raises:
        InvalidMessage: no mapping, no known role, content or calls of another type, or nested deeper than 64 levels.
    """
    if d.__class__ is dict and len(d) == 2:
        role, content = d.get("role"), d.get("content")
        if content.__class__ is str and role.__class__ is str and role in _PLAIN:
            return Message(role, content)  # type: ignore[arg-type]
    elif d.__class__ is dict and len(d) == 3 and d.get("role") == "tool":
        call_id, content = d.get("tool_call_id"), d.get("content")
        if content.__class__ is str and call_id.__class__ is str:
            return Message("tool", content, (), call_id)
    return _read(_mapping(d))


def to_openai(m: Message) -> dict[str, Any]:
    """A message as a chat dict. `to_openai(from_openai(d)) == d` for every legal `d`.

    A message of another form goes without its thoughts and that form's extras; its media are translated.
    """
    content = m.content
    if content.__class__ is str and not m.extra and not m.tool_calls and m.name is None:
        if not m.meta and m.role in _PLAIN:
            return {"role": m.role, "content": content}
        call_id = m.tool_call_id
        if m.role == "tool" and call_id is not None and not call_id.startswith(LEGACY):
            return {"role": "tool", "tool_call_id": call_id, "content": content}
    return _write(m)


def hidden_calls(message: Message) -> tuple[ToolCall, ...]:
    """Tool calls that stand in content blocks, where no provider of chat dicts looks for them."""
    content = message.content
    if content.__class__ is not tuple:
        return ()
    return tuple(_hidden(p.value) for p in content if isinstance(p, Other) and is_hidden_call(p.value))


def is_hidden_call(block: Any) -> bool:
    """Whether a content block is a tool call in one of the spellings that other providers and libraries use."""
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind in _HIDDEN


def _hidden(block: dict[str, Any]) -> ToolCall:
    call_id = next((block[k] for k in ("call_id", "toolCallId", "id") if isinstance(block.get(k), str)), "")
    name = next((block[k] for k in ("name", "toolName") if isinstance(block.get(k), str)), "")
    given = next((block[k] for k in ("arguments", "input", "args") if block.get(k) is not None), None)
    function = block.get("function")
    if not name and isinstance(function, dict):
        name, given = _text(function.get("name")), function.get("arguments")
    return ToolCall(call_id, name, json_text(given))


def _mapping(d: Any) -> Mapping[str, Any]:
    if isinstance(d, Mapping):
        return d
    dump = getattr(d, "model_dump", None)  # an answer of the SDK, put into the list as it came
    if callable(dump) and isinstance(getattr(d, "role", None), str):
        dumped = dump(exclude_unset=True)
        if isinstance(dumped, dict):
            return {"role": d.role, **dumped}
    raise InvalidMessage(f"a message is a {type(d).__name__}, expected a mapping with role and content")


def _read(d: Mapping[str, Any]) -> Message:
    given = d.get("role")
    role = _ROLES.get(given) if isinstance(given, str) else None
    if role is None:
        raise InvalidMessage(_role_fault(d))
    notes: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    named: dict[str, Any] = {}
    calls: tuple[ToolCall, ...] = ()
    for key, value in d.items():
        if key in _NAMED:
            continue
        if (key == "name" or key == "tool_call_id") and isinstance(value, str):
            named[key] = value
        elif key == "tool_calls" and value is not None and value != []:
            calls = read_calls(value)
        else:
            extra[key] = value
            if key == "id" and isinstance(value, str):
                named["id"] = value
    if given != role:
        notes["role"] = given
    if role == "tool" and given == "function":
        named["tool_call_id"] = LEGACY + named.get("name", "")
    if not calls and isinstance(extra.get("function_call"), Mapping):
        calls = (_legacy_call(extra.pop("function_call")),)
    content = _content(d, extra, notes)
    if extra:
        check_depth(extra, 1)
        notes["form"] = "openai"
    elif notes or any(c.extra for c in calls) or (content.__class__ is tuple and not _portable(role, content)):
        notes["form"] = "openai"
    return Message(role, content, calls, extra=extra, meta=notes, **named)


def _role_fault(d: Mapping[str, Any]) -> str:
    if "role" not in d:
        return "a message has no role, expected system, user, assistant or tool"
    role = d["role"]
    told = repr(role[:20]) if isinstance(role, str) else type(role).__name__
    return f"a message has the role {told}, expected system, user, assistant or tool"


def _content(d: Mapping[str, Any], extra: dict[str, Any], notes: dict[str, Any]) -> str | tuple[Part, ...] | None:
    """The content; a refusal that stands beside no content is what the message says."""
    content = d.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        if "content" not in d:
            notes["absent"] = "content"
        refusal = extra.get("refusal")
        if not isinstance(refusal, str) or not refusal:
            return None
        del extra["refusal"]
        return (Text(text=refusal, extra={SPELLED: "refusal field"}),)
    if not isinstance(content, (list, tuple)):
        raise InvalidMessage(f"a message's content is a {type(content).__name__}, expected a text or a list of blocks")
    return tuple([read_part(block) for block in content])


def _portable(role: Role, content: Any) -> bool:
    """Whether parts hold nothing that only this form knows."""
    allowed = (Text,) if role != "user" else (Text, *MEDIA)
    return all(isinstance(p, allowed) and not p.extra and getattr(p, "file_id", None) is None for p in content)


def read_calls(value: Any) -> tuple[ToolCall, ...]:
    """The calls of an assistant message.

    Raises:
        InvalidMessage: not a list of mappings, each with a function.
    """
    if not isinstance(value, (list, tuple)):
        raise InvalidMessage(f"tool_calls is a {type(value).__name__}, expected a list")
    return tuple([_call(call, i) for i, call in enumerate(value)])


def _call(call: Any, place: int) -> ToolCall:
    if not isinstance(call, Mapping):
        raise InvalidMessage(f"tool call {place} is a {type(call).__name__}, expected a mapping")
    kind = call.get("type")
    field = "custom" if kind == "custom" else "function"
    function = call.get(field)
    if not isinstance(function, Mapping):
        raise InvalidMessage(f"tool call {place} has no {field}, expected a mapping with name and arguments")
    call_id, name = _text(call.get("id")), _text(function.get("name"))
    if field == "custom":
        arguments = json_text({"input": function.get("input")})
        known = ("name", "input")
    else:
        arguments, known = json_text(function.get("arguments")), ("name", "arguments")
    if kind == "function" and len(call) == 3 and len(function) == 2:
        return ToolCall(call_id, name, arguments)
    extra = rest(call, ("id", field, "type") if kind == "function" else ("id", field))
    further = rest(function, known)
    if further:
        extra[field] = further
    if kind is None and "type" not in call:
        extra[SPELLED] = "untyped"
    return ToolCall(call_id, name, arguments, extra)


def _legacy_call(given: Mapping[str, Any]) -> ToolCall:
    name = _text(given.get("name"))
    further = rest(given, ("name", "arguments"))
    return ToolCall(LEGACY + name, name, json_text(given.get("arguments")), {"function": further} if further else {})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_legacy(call_id: str | None) -> bool:
    return call_id is not None and call_id.startswith(LEGACY)


def _write(m: Message) -> dict[str, Any]:
    meta = m.meta
    native = meta.get("form", "openai") == "openai"
    role = m.role
    out: dict[str, Any] = {"role": meta["role"] if native and _ROLES.get(meta.get("role", "")) == role else role}
    if role == "tool" and _is_legacy(m.tool_call_id):
        out["role"] = "function"
        out["name"] = (m.tool_call_id or "")[len(LEGACY) :]
    elif m.tool_call_id is not None:
        out["tool_call_id"] = m.tool_call_id
    if native and m.extra:
        out.update(m.extra)
    if m.name is not None:
        out["name"] = m.name
    _write_content(m, native, out)
    if m.tool_calls:
        if len(m.tool_calls) == 1 and _is_legacy(m.tool_calls[0].id):
            out["function_call"] = _function(m.tool_calls[0], native, "function")
        else:
            out["tool_calls"] = [write_call(call, native) for call in m.tool_calls]
    return out


def _write_content(m: Message, native: bool, out: dict[str, Any]) -> None:
    content = m.content
    if isinstance(content, tuple):
        if len(content) == 1 and content[0].extra.get(SPELLED) == "refusal field":
            out["refusal"] = content[0].text  # type: ignore[union-attr]
            content = None
        else:
            blocks = [write_part(part, native, m.role == "user") for part in content]
            out["content"] = [b for b in blocks if b is not None]
            if not out["content"] and content:
                out["content"] = None if m.tool_calls else ""
            return
    if content is not None or not native or m.meta.get("absent") != "content":
        out["content"] = content


def write_call(call: ToolCall, native: bool = True) -> dict[str, Any]:
    """A call as `{"id", "type", "function"}`; further fields only of calls that came in this form."""
    extra = call.extra if native else {}
    field = "custom" if extra.get("type") == "custom" else "function"
    out: dict[str, Any] = {"id": call.id, "type": "function", field: _function(call, native, field)}
    for key, value in extra.items():
        if key != field and key != SPELLED:
            out[key] = value
    if extra.get(SPELLED) == "untyped":
        del out["type"]
    return out


def _function(call: ToolCall, native: bool, field: str) -> dict[str, Any]:
    further = call.extra.get(field) if native else None
    more = further if isinstance(further, dict) else {}
    if field == "custom":
        return {"name": call.name, "input": json_object(call.arguments).get("input", call.arguments), **more}
    return {"name": call.name, "arguments": call.arguments, **more}
