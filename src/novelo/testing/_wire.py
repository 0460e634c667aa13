"""The bodies of Chat Completions and of the Messages API, read and written as the providers' servers do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.asking import ModelReply, ModelRequest
from novelo.messages import Usage
from novelo.models.base import ModelDelta, as_delta
from novelo.testing._rules import blocks_of
from novelo.testing.scripted import WORDS

if TYPE_CHECKING:
    from novelo.testing.strict import Call, StrictProvider

CREATED = 1_764_460_800  # seconds since 1970: a fixed moment, so that equal calls have equal answers
STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


@dataclass(frozen=True)
class Event:
    """A server-sent event: its data, its name where the form has names, and whether it brings a piece of the answer."""

    data: Mapping[str, Any] | str
    name: str = ""
    piece: bool = False

    def written(self) -> bytes:
        """The event as bytes."""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return f"{f'event: {self.name}' + chr(10) if self.name else ''}data: {data}\n\n".encode()


# ------------------------------------------------------------------------------------------------ reading
def from_chat(body: Mapping[str, Any]) -> ModelRequest:
    """A body of Chat Completions as a request."""
    return ModelRequest(
        [dict(m) for m in body["messages"]],
        tools=body.get("tools") or (),
        model=body.get("model"),
        max_output_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        temperature=body.get("temperature"),
        stream=bool(body.get("stream")),
    )


def from_anthropic(body: Mapping[str, Any]) -> ModelRequest:
    """A body of the Messages API as a request in the chat form, for counting and answering; it is judged as it came."""
    messages: list[dict[str, Any]] = []
    if body.get("system"):
        messages.append({"role": "system", "content": body["system"]})
    for message in body.get("messages") or ():
        blocks = blocks_of(message.get("content"))
        results = [b for b in blocks if b.get("type") == "tool_result"]
        calls = [_call_of(b) for b in blocks if b.get("type") == "tool_use"]
        rest = [b for b in blocks if b.get("type") not in ("tool_result", "tool_use")]
        for b in results:
            messages.append({"role": "tool", "tool_call_id": b.get("tool_use_id"), "content": b.get("content") or ""})
        if rest or calls or not results:
            content: Any = message["content"] if isinstance(message.get("content"), str) else rest or None
            said = {"role": message.get("role"), "content": content}
            messages.append({**said, "tool_calls": calls} if calls else said)
    tools = [
        {"type": "function", "function": {"name": t.get("name"), "parameters": t.get("input_schema")}}
        for t in body.get("tools") or ()
    ]
    return ModelRequest(messages, tools, body.get("model"), "reply", body.get("max_tokens"), body.get("temperature"))


def _call_of(block: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": block.get("name"), "arguments": json.dumps(block.get("input"), ensure_ascii=False)}
    return {"id": block.get("id"), "type": "function", "function": function}


# ------------------------------------------------------------------------------------------------ writing
def whole(form: str, provider: StrictProvider, call: Call) -> dict[str, Any]:
    """An answer in one piece: "openai" or "anthropic"."""
    reply = provider.answer(call)
    if form == "anthropic":
        head = _anthropic_head(provider, call)
        content = [*([{"type": "text", "text": reply.text}] if reply.text else ()), *map(_tool_use, _calls(reply))]
        stop = STOPS.get(reply.finish_reason or "stop", "end_turn")
        return {**head, "content": content, "stop_reason": stop, "usage": _anthropic_usage(reply.usage)}
    calls = _calls(reply)
    message: dict[str, Any] = {"role": "assistant", "content": None if calls and not reply.text else reply.text}
    message |= {"refusal": None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.finish_reason}
    head = _chat_head(provider, call, "chat.completion")
    return {**head, "choices": [choice], "usage": _chat_usage(reply.usage)}


def events(form: str, provider: StrictProvider, call: Call, usage: bool) -> Iterator[Event]:
    """The same as server-sent events; `usage` asks the chat form for it."""
    reply = provider.answer(call)
    return (
        _anthropic_events(provider, call, reply) if form == "anthropic" else _chat_events(provider, call, reply, usage)
    )


def pieces_of(reply: ModelReply) -> Iterator[ModelDelta]:
    """A reply word by word; a very long one in large pieces. Calls, usage and finish reason stand in the last one."""
    text = reply.text
    size = 100_000  # characters
    for word in WORDS.findall(text) if len(text) < size else [text[i : i + size] for i in range(0, len(text), size)]:
        yield ModelDelta(word)
    yield msgspec.structs.replace(as_delta(reply), text="")


def cut_after(fault: int | str | None) -> int | None:
    """After how many pieces a fault cuts a stream; None if it does not."""
    if isinstance(fault, str) and fault.startswith("cut:"):
        return int(fault.removeprefix("cut:"))
    return None


def _calls(reply: ModelReply) -> list[dict[str, Any]]:
    return [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in reply.message.tool_calls
    ]


def _chat_head(provider: StrictProvider, call: Call, kind: str) -> dict[str, Any]:
    model = call.request.model or provider.model
    return {"id": f"chatcmpl-{call.number}", "object": kind, "created": CREATED, "model": model}


def _chat_usage(usage: Usage | None) -> dict[str, Any]:
    told = usage or Usage()
    return {
        "prompt_tokens": told.input,
        "completion_tokens": told.output,
        "total_tokens": told.input + told.output,
        "prompt_tokens_details": {"cached_tokens": told.cache_read},
    }


def _chat_events(provider: StrictProvider, call: Call, reply: ModelReply, usage: bool) -> Iterator[Event]:
    head = _chat_head(provider, call, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], reason: str | None = None, piece: bool = False) -> Event:
        choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": reason}
        return Event({**head, "choices": [choice], **({"usage": None} if usage else {})}, piece=piece)

    yield chunk({"role": "assistant", "content": ""})
    for delta in pieces_of(reply):
        if delta.text:
            yield chunk({"content": delta.text}, piece=True)
    for at, one in enumerate(_calls(reply)):
        opened = {**one, "index": at, "function": {**one["function"], "arguments": ""}}
        yield chunk({"tool_calls": [opened]}, piece=True)
        yield chunk(
            {"tool_calls": [{"index": at, "function": {"arguments": one["function"]["arguments"]}}]}, piece=True
        )
    yield chunk({}, reply.finish_reason)
    if usage:
        yield Event({**head, "choices": [], "usage": _chat_usage(reply.usage)})
    yield Event("[DONE]")


def _anthropic_head(provider: StrictProvider, call: Call) -> dict[str, Any]:
    model = call.request.model or provider.model
    head = {"id": f"msg_{call.number}", "type": "message", "role": "assistant", "model": model}
    return {**head, "content": [], "stop_reason": None, "stop_sequence": None}


def _anthropic_usage(usage: Usage | None) -> dict[str, Any]:
    """Here `input_tokens` leaves out what was read from the cache or written into it."""
    told = usage or Usage()
    return {
        "input_tokens": told.input - told.cache_read - told.cache_write,
        "cache_read_input_tokens": told.cache_read,
        "cache_creation_input_tokens": told.cache_write,
        "output_tokens": told.output,
    }


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    try:
        given = json.loads(call["function"]["arguments"])
    except ValueError:
        given = {}
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given}


def _anthropic_events(provider: StrictProvider, call: Call, reply: ModelReply) -> Iterator[Event]:
    def event(kind: str, piece: bool = False, **fields: Any) -> Event:
        return Event({"type": kind, **fields}, kind, piece)

    usage = _anthropic_usage(reply.usage)
    head = {**_anthropic_head(provider, call), "usage": {**usage, "output_tokens": 1}}
    yield event("message_start", message=head)
    at = 0
    if reply.text:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for delta in pieces_of(reply):
            if delta.text:
                told = {"type": "text_delta", "text": delta.text}
                yield event("content_block_delta", True, index=0, delta=told)
        yield event("content_block_stop", index=0)
        at = 1
    for place, one in enumerate(_calls(reply), at):
        block = {**_tool_use(one), "input": {}}
        yield event("content_block_start", index=place, content_block=block)
        told = {"type": "input_json_delta", "partial_json": one["function"]["arguments"]}
        yield event("content_block_delta", True, index=place, delta=told)
        yield event("content_block_stop", index=place)
    stop = {"stop_reason": STOPS.get(reply.finish_reason or "stop", "end_turn"), "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": usage["output_tokens"]})
    yield event("message_stop")
