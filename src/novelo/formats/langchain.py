"""LangChain's message objects as ours and back; `langchain_core` is imported when one is made, never to read one.

`to_langchain(from_langchain(m)) == m` for human, AI, system, tool, function and chat messages. What has no field of
ours (`additional_kwargs`, `response_metadata`, an artifact) stays in `extra`; `meta["form"] == "langchain"` says whose.

- A chunk is read as the message that it amounts to; of a call that was cut off LangChain guesses the arguments, here
  they stay what the model wrote. `RemoveMessage` is no message but an order to a graph: refused.
- A call whose arguments could not be parsed is a call here too, with the arguments as they are: it wants an answer as
  any other. Written, it is an invalid call again, unless it has been mended.
- A tool's artifact may be any object. It is kept as it is in memory; stored, what is not data leaves a note of its
  class (`normalize`).
- What we made up is told in LangChain's way: status "error" for a result, `additional_kwargs["lc_source"] == "novelo"`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from novelo.errors import InvalidMessage, MissingExtra
from novelo.formats._langchain_parts import read_content, write_content
from novelo.formats._usage import counted
from novelo.formats._values import check_depth, json_text
from novelo.formats.openai import LEGACY, from_openai
from novelo.messages import Message, Part, Role, ToolCall, Usage

_ROLES: dict[str, Role] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
_TYPES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
_CHUNKS = {
    "HumanMessageChunk": "human",
    "AIMessageChunk": "ai",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "function",
    "ChatMessageChunk": "chat",
}
_OPENAI_ROLE = "__openai_role__"  # how LangChain says that a system message goes out as developer
_INVALID, _NO_ID = "invalid", "no id"


def from_langchain(m: Any) -> Message:
    """A LangChain message as ours.

    Args:
        m: a message object; a text (the user's); a pair (role, text); a chat dict.
    Raises:
        InvalidMessage: nothing of these, an instruction such as RemoveMessage, or not data.
    """
    if isinstance(m, (str, tuple, Mapping)):
        return _shorthand(m)
    given = getattr(m, "type", None)
    if not isinstance(given, str) or not hasattr(m, "additional_kwargs"):
        raise InvalidMessage(f"a message is a {type(m).__name__}, expected a LangChain message")
    kind = _CHUNKS.get(given, given)
    said = m.role if kind == "chat" else kind
    role = _ROLES.get(said) if isinstance(said, str) else None
    if role is None:
        more = ", which is an instruction to a graph: apply it first" if kind == "remove" else ""
        raise InvalidMessage(f"a LangChain message of type {kind!r} and role {str(said)[:20]!r}{more}")
    extra = _further(m, kind, given)
    calls = _calls(m) if role == "assistant" else ()
    content = _content(m, calls)
    meta: dict[str, Any] = {"status": "error"} if getattr(m, "status", None) == "error" else {}
    if extra or any(call.extra for call in calls) or isinstance(content, tuple):
        meta["form"] = "langchain"
    told = getattr(m, "usage_metadata", None)
    usage = counted(told) if isinstance(told, Mapping) else None
    if usage is not None:
        meta["form"] = "langchain"
    call_id = LEGACY + m.name if kind == "function" else getattr(m, "tool_call_id", None)
    return Message(role, content, calls, call_id, m.name, m.id, usage, extra, meta)


def _shorthand(m: Any) -> Message:
    if isinstance(m, str):
        return Message("user", m)
    if isinstance(m, Mapping):
        role = m.get("role", m.get("type"))
        return from_openai(
            {**{k: v for k, v in m.items() if k != "type"}, "role": _ROLES.get(role, role)}
            if isinstance(role, str)
            else m
        )
    if len(m) == 2 and isinstance(m[0], str) and isinstance(m[1], (str, list)) and m[0] in _ROLES:
        return from_openai({"role": _ROLES[m[0]], "content": m[1]})
    raise InvalidMessage(f"a message is a tuple of {len(m)}, expected (role, text) with a role that LangChain knows")


def _further(m: Any, kind: str, given: str) -> dict[str, Any]:
    """Fields that have no place of their own in our message."""
    extra: dict[str, Any] = {}
    for name in ("additional_kwargs", "response_metadata"):
        if found := getattr(m, name):
            extra[name] = dict(found)
    if kind not in ("human", "ai", "system", "tool"):
        extra["type"] = kind
    if kind == "chat":
        extra["role"] = m.role
    if getattr(m, "artifact", None) is not None:
        extra["artifact"] = m.artifact
    if m.model_extra and kind == given:
        extra["fields"] = dict(m.model_extra)
    if kind == "ai" and "tool_calls" in m.additional_kwargs and not (m.tool_calls or m.invalid_tool_calls):
        extra["raw_calls"] = True
    if extra:
        check_depth(extra, 1)
    return extra


def _content(m: Any, calls: tuple[ToolCall, ...]) -> str | tuple[Part, ...] | None:
    content = m.content
    if isinstance(content, str):
        return content if content or not calls else None
    if not isinstance(content, (list, tuple)):
        raise InvalidMessage(f"a message's content is a {type(content).__name__}, expected a text or a list of blocks")
    return read_content(list(content), calls)


def _calls(m: Any) -> tuple[ToolCall, ...]:
    out = []
    streamed = {c.get("id"): c.get("args") for c in getattr(m, "tool_call_chunks", ())}
    for call in getattr(m, "tool_calls", ()):
        extra = {k: v for k, v in call.items() if k not in ("name", "args", "id", "type")}
        if call.get("id") is None:
            extra[_NO_ID] = True
        check_depth(extra)
        text = streamed.get(call.get("id"))
        arguments = text if isinstance(text, str) and _object(text) is None else json_text(call["args"])
        out.append(ToolCall(call.get("id") or "", call["name"], arguments, extra))
    for call in getattr(m, "invalid_tool_calls", ()):
        check_depth(call)
        name, args = call.get("name") or "", call.get("args") or ""
        out.append(ToolCall(call.get("id") or "", name, json_text(args), {_INVALID: dict(call)}))
    return tuple(out)


def to_langchain(message: Message) -> Any:
    """A message as a LangChain object.

    Raises:
        MissingExtra: `langchain_core` is not installed.
        InvalidMessage: LangChain does not take it.
    """
    native = message.meta.get("form") == "langchain"
    extra = message.extra if native else {}
    fields: dict[str, Any] = {"content": _written(message, native), "name": message.name, "id": message.id}
    kwargs = dict(extra.get("additional_kwargs", ()))
    kind = extra.get("type") or _TYPES[message.role]
    if message.meta.get("made"):
        kwargs["lc_source"] = "novelo"
    if message.meta.get("role") == "developer":
        kwargs[_OPENAI_ROLE] = "developer"
    if kind == "ai":
        _write_assistant(message, native, fields)
        if not message.tool_calls and "tool_calls" in kwargs and not extra.get("raw_calls"):
            del kwargs["tool_calls"]  # LangChain would read the calls back from there
    elif kind == "tool":
        fields["tool_call_id"] = message.tool_call_id or ""
        fields["artifact"] = extra.get("artifact")
        fields["status"] = "error" if message.meta.get("status") == "error" else "success"
    elif kind == "chat":
        fields["role"] = extra["role"]
    fields |= extra.get("fields", {})
    found = {"additional_kwargs": kwargs, "response_metadata": dict(extra.get("response_metadata", ()))}
    try:
        return _classes()[kind](**fields, **found)
    except (ValueError, TypeError) as error:
        raise InvalidMessage(f"LangChain does not take a {message.role} message: {type(error).__name__}") from error


def _written(message: Message, native: bool) -> str | list[Any]:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    return write_content(content, message.tool_calls, native) or ([] if native else "")


def _write_assistant(message: Message, native: bool, fields: dict[str, Any]) -> None:
    valid, invalid = [], []
    for call in message.tool_calls:
        extra = call.extra if native else {}
        former = extra.get(_INVALID)
        if isinstance(former, dict) and call.arguments == json_text(former.get("args") or ""):
            invalid.append({**former, "id": call.id or former.get("id"), "name": call.name or former.get("name")})
            continue
        call_id = None if extra.get(_NO_ID) and not call.id else call.id
        arguments = _object(call.arguments)
        if arguments is None:
            invalid.append(
                {"name": call.name, "args": call.arguments, "id": call_id, "error": None, "type": "invalid_tool_call"}
            )
        else:
            valid.append({"name": call.name, "args": arguments, "id": call_id, "type": "tool_call"})
    fields["tool_calls"], fields["invalid_tool_calls"] = valid, invalid
    if message.usage is not None:
        fields["usage_metadata"] = dict(message.usage.raw) if native and message.usage.raw else _reported(message.usage)


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _reported(usage: Usage) -> dict[str, Any]:
    """Usage as LangChain tells it."""
    out: dict[str, Any] = {"input_tokens": usage.input, "output_tokens": usage.output}
    out["total_tokens"] = usage.input + usage.output
    details = {"cache_read": usage.cache_read, "cache_creation": usage.cache_write}
    if into := {k: v for k, v in details.items() if v}:
        out["input_token_details"] = into
    if usage.reasoning:
        out["output_token_details"] = {"reasoning": usage.reasoning}
    return out


def _classes() -> dict[str, Any]:
    try:
        from langchain_core import messages
    except ImportError as error:
        text = "LangChain messages need LangChain: pip install 'novelo[langchain]'"
        raise MissingExtra(text, extra="langchain") from error
    return {
        "human": messages.HumanMessage,
        "ai": messages.AIMessage,
        "system": messages.SystemMessage,
        "tool": messages.ToolMessage,
        "function": messages.FunctionMessage,
        "chat": messages.ChatMessage,
    }
