"""What a model call gave back: an SDK's object, a dict, a LangChain message, a text, or a stream of pieces of any of them.

SDKs are recognised by what their objects look like, never imported. Usage is read with its cached and reasoning tokens;
`input` always counts the whole input, so Anthropic's cache figures, which stand beside its input, are added in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from novelo.errors import InvalidMessage
from novelo.formats.anthropic import from_anthropic
from novelo.formats.openai import from_openai
from novelo.messages import Message, Part, Reasoning, Text, ToolCall, Usage

__all__ = ["Reply", "StreamReader", "read_reply", "read_usage"]


class Reply(msgspec.Struct, frozen=True):
    """A model's answer: the message, and what was reported with it."""

    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str | None = None


def read_reply(reply: Any) -> Reply:
    """The answer in whatever a model call returned.

    Args:
        reply: a text; a chat dict; an OpenAI chat completion or Responses result, an Anthropic message, each as the SDK's
            object or as a dict; a LangChain message; a `ModelReply`; a `Message`.
    Raises:
        InvalidMessage: nothing of these, or an answer without a choice.
    """
    if isinstance(reply, str):
        return Reply(Message("assistant", reply))
    if isinstance(reply, Message):
        return Reply(reply, reply.usage, None, reply.meta.get("model"))
    inner = getattr(reply, "message", None)
    if isinstance(inner, Message):
        return Reply(inner, getattr(reply, "usage", None), getattr(reply, "finish_reason", None), getattr(reply, "model", None))
    if _is_langchain(reply):
        return _langchain(reply)
    body = plain(reply)
    if isinstance(body.get("choices"), list):
        return _chat(body)
    if isinstance(body.get("output"), list):
        return _responses(body)
    if body.get("type") == "message" and isinstance(body.get("content"), list):
        return _anthropic(body)
    if "role" in body:
        return Reply(from_openai(body), None)
    raise InvalidMessage(f"a reply of type {type(reply).__name__}: expected a text, a chat dict, or a provider's response")


def plain(value: Any) -> dict[str, Any]:
    """An SDK's object as a dict of what it was sent; unset fields are left out.

    Raises:
        InvalidMessage: it is nothing of that kind.
    """
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        found = dump(mode="json", exclude_unset=True)
        if isinstance(found, dict):
            return found
    raise InvalidMessage(f"a reply of type {type(value).__name__}: expected a text, a chat dict, or a provider's response")


def _chat(body: Mapping[str, Any]) -> Reply:
    choices = body["choices"]
    if not choices or not isinstance(choices[0], Mapping) or not isinstance(choices[0].get("message"), Mapping):
        raise InvalidMessage("a chat completion without a choice: the provider answered nothing")
    message = {k: v for k, v in choices[0]["message"].items() if v is not None or k == "content"}
    return Reply(from_openai(message), read_usage(body.get("usage")), choices[0].get("finish_reason"), body.get("model"))


def _responses(body: Mapping[str, Any]) -> Reply:
    from novelo.formats.responses import from_responses

    found = [m for m in from_responses(body["output"]) if m.role == "assistant"]
    message = found[0] if found else Message("assistant", "")
    for more in found[1:]:
        calls = message.tool_calls + more.tool_calls
        message = msgspec.structs.replace(message, content=message.parts + more.parts, tool_calls=calls)
    return Reply(message, read_usage(body.get("usage")), body.get("status"), body.get("model"))


def _anthropic(body: Mapping[str, Any]) -> Reply:
    if not body["content"]:
        message = Message("assistant", "")
    else:
        message = from_anthropic([{"role": "assistant", "content": body["content"]}])[0]
    return Reply(message, read_usage(body.get("usage")), body.get("stop_reason"), body.get("model"))


def _is_langchain(value: Any) -> bool:
    return hasattr(value, "response_metadata") and hasattr(value, "type") and hasattr(value, "content")


def _langchain(value: Any) -> Reply:
    from novelo.formats.langchain import from_langchain

    facts = value.response_metadata or {}
    model = facts.get("model_name") or facts.get("model")
    reason = facts.get("finish_reason") or facts.get("stop_reason")
    return Reply(from_langchain(value), read_usage(getattr(value, "usage_metadata", None)), reason, model)


def read_usage(given: Any) -> Usage | None:
    """Usage in any provider's words; None if nothing was reported.

    Example: {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}} -> input 9, output 2,
    cache_read 4.
    """
    if given is None or isinstance(given, Usage):
        return given
    raw = dict(given) if isinstance(given, Mapping) else plain(given)
    if not any(isinstance(v, int) and v for v in raw.values()):
        return None
    into = _mapping(raw, "prompt_tokens_details", "input_tokens_details", "input_token_details")
    out = _mapping(raw, "completion_tokens_details", "output_tokens_details", "output_token_details")
    read = _number(raw, "cache_read_input_tokens") or _number(into, "cached_tokens", "cache_read")
    written = _number(raw, "cache_creation_input_tokens") or _number(into, "cache_write_tokens", "cache_creation")
    whole = _number(raw, "prompt_tokens", "input_tokens")
    if "cache_read_input_tokens" in raw or "cache_creation_input_tokens" in raw:  # Anthropic counts these apart
        whole += read + written
    return Usage(
        whole,
        _number(raw, "completion_tokens", "output_tokens"),
        read,
        written,
        _number(out, "reasoning_tokens", "reasoning"),
        raw,
    )


def _mapping(raw: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    return next((raw[n] for n in names if isinstance(raw.get(n), Mapping)), {})


def _number(raw: Mapping[str, Any], *names: str) -> int:
    return next((raw[n] for n in names if isinstance(raw.get(n), int) and not isinstance(raw.get(n), bool)), 0)


class StreamReader:
    """Puts a streamed answer together, whatever its pieces are: texts, OpenAI chunks, Anthropic events, LangChain chunks,
    or our `ModelDelta`. At any moment `message()` is what has come so far."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.model: str | None = None
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._signature: str | None = None
        self._calls: dict[int, list[str]] = {}

    def read(self, chunk: Any) -> str:
        """Take in one piece; returns the visible text in it.

        Raises:
            InvalidMessage: a piece of no kind that is known.
        """
        text = self._read(chunk)
        if text:
            self._text.append(text)
        return text

    def message(self, partial: bool = False) -> Message:
        """The answer as far as it has come; `partial` marks it as cut off, and leaves out calls that are not whole."""
        text = "".join(self._text)
        content: str | tuple[Part, ...] | None = text
        if self._thoughts or self._signature:
            thought = Reasoning(text="".join(self._thoughts), signature=self._signature)
            content = (thought, Text(text=text)) if text else (thought,)
        calls = tuple(ToolCall(i, name, arguments or "{}") for i, name, arguments in self._calls.values())
        if partial:
            return Message("assistant", content, meta={"partial": True})
        return Message("assistant", content if content or not calls else None, calls)

    def _read(self, chunk: Any) -> str:
        if isinstance(chunk, str):
            return chunk
        if _is_langchain(chunk):
            return self._langchain(chunk)
        if isinstance(chunk, msgspec.Struct):
            return self._delta(chunk)
        body = plain(chunk)
        if "choices" in body:
            return self._openai(body)
        if isinstance(body.get("type"), str):
            return self._event(body)
        raise InvalidMessage(f"a streamed piece of type {type(chunk).__name__}: expected a text or a provider's chunk")

    def _delta(self, delta: Any) -> str:
        for piece in delta.tool_calls:
            self._call(piece.index, piece.id, piece.name, piece.arguments)
        if delta.reasoning:
            self._thoughts.append(delta.reasoning)
        self._note(delta.usage, delta.finish_reason, delta.model)
        return str(delta.text)

    def _openai(self, body: Mapping[str, Any]) -> str:
        self._note(read_usage(body.get("usage")), None, body.get("model"))
        text = ""
        for choice in body["choices"][:1]:
            self._note(None, choice.get("finish_reason"), None)
            delta = choice.get("delta") or {}
            for piece in delta.get("tool_calls") or ():
                function = piece.get("function") or {}
                self._call(piece.get("index", 0), piece.get("id"), function.get("name"), function.get("arguments"))
            text += delta.get("content") or ""
        return text

    def _event(self, body: Mapping[str, Any]) -> str:
        """Anthropic's events, and OpenAI's Responses events."""
        kind, index = body["type"], body.get("index", body.get("output_index", 0))
        if kind == "message_start":
            message = body.get("message") or {}
            self._note(read_usage(message.get("usage")), None, message.get("model"))
        elif kind == "content_block_start" and (block := body.get("content_block") or {}).get("type") == "tool_use":
            self._call(index, block.get("id"), block.get("name"), "")
        elif kind == "content_block_delta":
            return self._block_delta(index, body.get("delta") or {})
        elif kind == "message_delta":
            self._merge_usage(body.get("usage"))
            self._note(None, (body.get("delta") or {}).get("stop_reason"), None)
        elif kind == "response.output_text.delta":
            return str(body.get("delta") or "")
        elif kind == "response.output_item.added" and (item := body.get("item") or {}).get("type") == "function_call":
            self._call(index, item.get("call_id"), item.get("name"), "")
        elif kind == "response.function_call_arguments.delta":
            self._call(index, None, None, body.get("delta"))
        elif kind == "response.completed":
            response = body.get("response") or {}
            self._note(read_usage(response.get("usage")), response.get("status"), response.get("model"))
        return ""

    def _block_delta(self, index: int, delta: Mapping[str, Any]) -> str:
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._call(index, None, None, delta.get("partial_json"))
        elif kind == "thinking_delta":
            self._thoughts.append(delta.get("thinking") or "")
        elif kind == "signature_delta":
            self._signature = (self._signature or "") + (delta.get("signature") or "")
        return str(delta.get("text") or "") if kind == "text_delta" else ""

    def _langchain(self, chunk: Any) -> str:
        for piece in getattr(chunk, "tool_call_chunks", None) or ():
            self._call(piece.get("index") or 0, piece.get("id"), piece.get("name"), piece.get("args"))
        facts = chunk.response_metadata or {}
        self._note(read_usage(getattr(chunk, "usage_metadata", None)), facts.get("finish_reason"), facts.get("model_name"))
        content = chunk.content
        if isinstance(content, str):
            return content
        return "".join(str(b.get("text") or "") for b in content if isinstance(b, dict) and b.get("type") == "text")

    def _call(self, index: int, call_id: str | None, name: str | None, arguments: str | None) -> None:
        call = self._calls.setdefault(index, ["", "", ""])
        call[0] = call_id or call[0]
        call[1] = name or call[1]
        call[2] += arguments or ""

    def _merge_usage(self, given: Any) -> None:
        """Anthropic reports input at the start and output at the end."""
        found = read_usage(given)
        if found is not None and self.usage is not None:
            raw = {**self.usage.raw, **{k: v for k, v in found.raw.items() if v is not None}}
            found = read_usage(raw)
        self.usage = found or self.usage

    def _note(self, usage: Usage | None, reason: str | None, model: str | None) -> None:
        self.usage = usage or self.usage
        self.finish_reason = reason or self.finish_reason
        self.model = model or self.model
