"""Messages as items of the Responses API: the way out of `responses.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from novelo.formats._openai_parts import SPELLED
from novelo.formats._responses_parts import ITEM, PLAIN, SINGLE, WHOLE, write_content_part, write_reasoning
from novelo.formats._values import json_object
from novelo.messages import Message, Other, Part, Reasoning, Text, ToolCall

_WITH_THOUGHTS = frozenset(("message", "function_call", "custom_tool_call"))  # refused if the thoughts are missing


def items_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The items of n messages; m >= n where a message holds several."""
    out: list[dict[str, Any]] = []
    kinds: dict[str, str] = {}  # of calls by id, for outputs that came in another form or were made
    for message in messages:
        if message.role == "assistant":
            items = _assistant(message)
            kinds.update((i["call_id"], i["type"]) for i in items if isinstance(i.get("call_id"), str))
            out.extend(items)
        elif message.role == "tool":
            out.append(_output(message, kinds.get(message.tool_call_id or "", "function_call")))
        else:
            out.append(_said(message))
    return out


def _native(message: Message) -> bool:
    return message.meta.get("form") == "responses"


def _said(message: Message) -> dict[str, Any]:
    native, content = _native(message), message.content
    if native and isinstance(content, tuple) and len(content) == 1 and content[0].extra.get(ITEM) == WHOLE:
        return dict(content[0].value)  # type: ignore[union-attr]
    developer = message.meta.get("role") == "developer" and message.role == "system"
    out: dict[str, Any] = {"role": "developer" if developer else message.role}
    if native:
        if message.id is not None:
            out["id"] = message.id
        out |= message.extra
    out["content"] = _written(content, message, native) if isinstance(content, tuple) else content or ""
    return out


def _written(parts: Sequence[Part], message: Message, native: bool) -> list[dict[str, Any]]:
    found = (write_content_part(part, message.role, native) for part in parts)
    return [block for block in found if block is not None]


def _output(message: Message, kind: str) -> dict[str, Any]:
    """A tool's message as the output of a call of that kind."""
    native, content = _native(message), message.content
    extra = message.extra if native else {}
    kind = extra.get("type") or (kind.removesuffix("_call") if kind == "tool_search_call" else kind) + "_output"
    named = "id" if kind == "local_shell_call_output" else "call_id"
    out: dict[str, Any] = {"type": kind, named: message.tool_call_id or ""}
    if native and message.id is not None:
        out["id"] = message.id
    out |= {k: v for k, v in extra.items() if k != SPELLED}
    if isinstance(content, tuple):
        blocks = _written(content, message, native)
        out["output"] = blocks[0] if extra.get(SPELLED) == SINGLE and len(blocks) == 1 else blocks
    elif content is not None or not native:
        out["output"] = content or ""
    if kind == "shell_call_output" and isinstance(out.get("output"), str):
        outcome = {"type": "exit", "exit_code": 1 if message.meta.get("status") == "error" else 0}
        out["output"] = [{"stdout": out["output"], "stderr": "", "outcome": outcome}]
    if kind == "apply_patch_call_output" and not native:
        out.setdefault("status", "failed" if message.meta.get("status") == "error" else "completed")
    return out


def _assistant(message: Message) -> list[dict[str, Any]]:
    """The items of one message of the assistant, in the order they came in."""
    native = _native(message)
    if not native or not isinstance(message.content, tuple):
        text = _plain(message)
        items = [] if text is None else [{"role": "assistant", "content": text}]
        items += [_call(call, native) for call in message.tool_calls]
    else:
        items = _native_items(message)
        while items and items[-1].get("type") == "reasoning" and not message.meta.get("open"):
            items.pop()  # what it led to has been left out
    if native and sum(item.get("type") == "reasoning" for item in items) < message.meta.get("thoughts", 0):
        for item in items:
            if item.get("type") in _WITH_THOUGHTS or "role" in item:
                item.pop("id", None)
    return items


def _plain(message: Message) -> str | None:
    """What was said as one text; the API takes an answer without an id only so."""
    content = message.content
    if isinstance(content, str):
        return content if content or not message.tool_calls else None
    if content is None:
        return None if message.tool_calls or _native(message) else ""
    blocks = [b for b in _written(content, message, False) if "text" in b]
    text = "\n".join(b["text"] for b in blocks)
    return text if text or not message.tool_calls else None


def _native_items(message: Message) -> list[dict[str, Any]]:
    entries: list[Part | ToolCall] = [*(message.content or ())]
    places = message.meta.get("calls_at")
    if isinstance(places, list) and len(places) == len(message.tool_calls):
        for place, call in zip(places, message.tool_calls, strict=True):
            entries.insert(place, call)
    else:
        entries.extend(message.tool_calls)
    out: list[dict[str, Any]] = []
    said: dict[str, Any] | None = None  # the message item that parts still go into
    for entry in entries:
        if isinstance(entry, (ToolCall, Reasoning)) or (isinstance(entry, Other) and entry.extra.get(ITEM) == WHOLE):
            said = None
            out.append(_item(entry))
            continue
        fields = entry.extra.get(ITEM)
        if said is None or isinstance(fields, dict):
            said = {**fields} if isinstance(fields, dict) else {}
            said |= {"role": "assistant", "content": []}
            out.append(said)
        _add(said, entry)
    return out


def _item(entry: Part | ToolCall) -> dict[str, Any]:
    if isinstance(entry, ToolCall):
        return _call(entry, True)
    return write_reasoning(entry) if isinstance(entry, Reasoning) else dict(entry.value)  # type: ignore[union-attr]


def _add(said: dict[str, Any], part: Part) -> None:
    spelled = part.extra.get(SPELLED)
    if isinstance(part, Text) and spelled == "empty" and not part.text:
        return
    if isinstance(part, Text) and spelled == PLAIN and not said["content"]:
        said["content"] = part.text
        return
    block = write_content_part(part, "assistant", True)
    if block is not None and isinstance(said["content"], list):
        said["content"].append(block)


def _call(call: ToolCall, native: bool) -> dict[str, Any]:
    extra = call.extra if native else {}
    if isinstance(whole := extra.get(ITEM), dict):
        return dict(whole)
    more = {k: v for k, v in extra.items() if k != SPELLED}
    if extra.get("type") == "custom_tool_call":
        given = json_object(call.arguments).get("input", call.arguments)
        return {"call_id": call.id, "name": call.name, "input": given, **more}
    out = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments, **more}
    if extra.get(SPELLED) == "absent":
        del out["arguments"]
    elif extra.get(SPELLED) == "null" and call.arguments == "{}":
        out["arguments"] = None
    elif extra.get(SPELLED) == "object":
        out["arguments"] = json.loads(call.arguments)
    return out
