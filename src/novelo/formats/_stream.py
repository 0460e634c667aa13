"""Streamed answers put together from their chunks, whoever sends them.

What has come so far is a message at any moment, also when the stream breaks. Chunks are told apart one by one: texts,
OpenAI chat chunks, events of Anthropic and of OpenAI's Responses, LangChain chunks, pieces of our own models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from novelo.errors import InvalidMessage, ModelFailed
from novelo.formats._reply import read_reply
from novelo.formats._usage import add, field, plain, read_usage
from novelo.formats.anthropic import from_anthropic
from novelo.messages import Message, ToolCall, Usage

_THOUGHTS = ("reasoning_content", "reasoning")  # deltas of servers that speak OpenAI's form and show thoughts


class StreamReader:
    """Reads chunks, and tells the message, usage, finish reason and model as far as they have come."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.model: str | None = None
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._thoughts: dict[str, list[str]] = {}
        self._calls: list[_Call] = []
        self._blocks: dict[int, _Block] = {}
        self._raw_usage: dict[str, Any] = {}
        self._langchain: list[Any] = []
        self._whole: Message | None = None

    def read(self, chunk: Any) -> str:
        """Take one chunk.

        Returns:
            The visible text that it adds; "" if none.
        Raises:
            InvalidMessage: a chunk of no known kind.
            ModelFailed: the chunk says that the model failed.
        """
        if isinstance(chunk, str):
            return self._say(chunk)
        if isinstance(chunk, tuple) and len(chunk) == 2:  # LangGraph's stream mode "messages": chunk and metadata
            chunk = chunk[0]
        if chunk is None:
            return ""
        if field(chunk, "choices") is not None:
            return self._chat(chunk)
        kind = field(chunk, "type")
        if isinstance(kind, str):
            return self._typed(kind, chunk)
        if isinstance(field(chunk, "text"), str) and hasattr(chunk, "reasoning"):
            return self._piece(chunk)
        raise InvalidMessage(f"a chunk of a stream is a {type(chunk).__name__} of no known kind")

    def message(self, partial: bool = False) -> Message:
        """The message so far.

        Args:
            partial: whether the stream broke off; the message then says so in `meta`.
        """
        message = self._assembled()
        if not partial:
            return message
        return msgspec.structs.replace(message, meta={**message.meta, "partial": True})

    def _assembled(self) -> Message:
        if self._whole is not None:
            return self._whole
        if self._langchain:
            from novelo.formats.langchain import from_langchain

            first, others = self._langchain[0], self._langchain[1:]
            return from_langchain(first + others if others else first)
        if self._blocks:
            return self._from_blocks()
        text = "".join(self._texts) or "".join(self._refusals)
        calls = tuple(call.made() for call in self._calls)
        extra: dict[str, Any] = {name: "".join(pieces) for name, pieces in self._thoughts.items()}
        meta: dict[str, Any] = {"form": "openai"} if extra or any(c.extra for c in calls) else {}
        return Message("assistant", None if calls and not text else text, calls, extra=extra, meta=meta)

    def _say(self, text: Any) -> str:
        if not isinstance(text, str) or not text:
            return ""
        self._texts.append(text)
        return text

    def _note(self, chunk: Any) -> None:
        self.model = _text(field(chunk, "model")) or self.model
        usage = field(chunk, "usage")
        if usage is not None:
            self.usage = read_usage(usage) or self.usage

    # ------------------------------------------------------------------------------------------ OpenAI chat
    def _chat(self, chunk: Any) -> str:
        self._note(chunk)
        said = ""
        for choice in field(chunk, "choices") or ():
            if field(choice, "index") not in (None, 0):
                continue
            self.finish_reason = _text(field(choice, "finish_reason")) or self.finish_reason
            delta = field(choice, "delta")
            if delta is not None:
                said += self._delta(delta)
        return said

    def _delta(self, delta: Any) -> str:
        for name in _THOUGHTS:
            thought = field(delta, name)
            if isinstance(thought, str) and thought:
                self._thoughts.setdefault(name, []).append(thought)
        for piece in field(delta, "tool_calls") or ():
            function = field(piece, "function")
            place, call_id = field(piece, "index"), field(piece, "id")
            self._call(place, call_id, field(function, "name"), field(function, "arguments"), _further(piece))
        refusal = field(delta, "refusal")
        if isinstance(refusal, str) and refusal:
            self._refusals.append(refusal)
            return refusal
        return self._say(field(delta, "content"))

    def _call(self, place: Any, call_id: Any, name: Any, arguments: Any, extra: dict[str, Any]) -> None:
        """Add to the call at a place; some servers number all calls 0, some none, but each has an id."""
        known = next((c for c in reversed(self._calls) if place is None or c.place == place), None)
        if known is None or (call_id and known.id and call_id != known.id):
            known = _Call(place)
            self._calls.append(known)
        known.id = known.id or _text(call_id) or ""
        known.name = known.name or _text(name) or ""
        known.extra.update(extra)
        if arguments is not None:
            known.arguments.append(
                arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            )

    # ------------------------------------------------------------------------------------------ events
    def _typed(self, kind: str, chunk: Any) -> str:
        if kind.startswith("response."):
            return self._response(kind, chunk)
        if kind in _EVENTS:
            return _EVENTS[kind](self, chunk)
        if kind == "error":
            raise ModelFailed("the stream reported an error", kind=_text(field(field(chunk, "error"), "type")))
        if not isinstance(chunk, Mapping) and hasattr(chunk, "response_metadata"):
            self._langchain.append(chunk)
            return self._langchain_text(chunk)
        return ""  # pings, and the Anthropic helper's own events, which repeat what the others say

    def _started(self, event: Any) -> str:
        message = field(event, "message")
        self.model = _text(field(message, "model")) or self.model
        self._add_usage(field(message, "usage"))
        return ""

    def _block(self, event: Any) -> str:
        block = plain(field(event, "content_block"))
        if not isinstance(block, Mapping):
            raise InvalidMessage("a stream opens a content block without content_block")
        self._blocks[int(field(event, "index") or 0)] = _Block({k: v for k, v in block.items() if v is not None})
        text = block.get("text") if block.get("type") == "text" else ""
        return self._say(text)

    def _block_delta(self, event: Any) -> str:
        block = self._blocks.get(int(field(event, "index") or 0))
        delta = field(event, "delta")
        if block is None:
            raise InvalidMessage("a stream goes on with a content block that it has not opened")
        return self._say(block.add(str(field(delta, "type")), delta))

    def _message_delta(self, event: Any) -> str:
        self.finish_reason = _text(field(field(event, "delta"), "stop_reason")) or self.finish_reason
        self._add_usage(field(event, "usage"))
        return ""

    def _add_usage(self, given: Any) -> None:
        """Anthropic reports input at the start and the sums so far later on: later figures replace earlier ones.

        A 0 says nothing new: servers that copy the form repeat the fields that they do not count.
        """
        given = plain(given)
        if isinstance(given, Mapping):
            self._raw_usage.update(
                {k: v for k, v in given.items() if v is not None and (v or k not in self._raw_usage)}
            )
            self.usage = read_usage(self._raw_usage) or self.usage

    def _from_blocks(self) -> Message:
        blocks = [self._blocks[place] for place in sorted(self._blocks)]
        message = from_anthropic([{"role": "assistant", "content": [block.whole() for block in blocks]}])[0]
        written = ["".join(block.inputs) for block in blocks if block.value.get("type") == "tool_use"]
        if len(written) != len(message.tool_calls):
            return message
        pairs = zip(message.tool_calls, written, strict=True)
        # the text as the model wrote it; a call without parameters streams none
        calls = tuple(msgspec.structs.replace(c, arguments=text) if text else c for c, text in pairs)
        return msgspec.structs.replace(message, tool_calls=calls)

    def _response(self, kind: str, event: Any) -> str:
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            return self._say(field(event, "delta"))
        if kind == "response.failed":
            raise ModelFailed(
                "the response failed", kind=_text(field(field(field(event, "response"), "error"), "code"))
            )
        if kind in ("response.completed", "response.incomplete"):
            reply = read_reply(field(event, "response"))
            self._whole, self.usage = reply.message, reply.usage
            self.finish_reason, self.model = reply.finish_reason, reply.model
        return ""

    # ------------------------------------------------------------------------------------------ LangChain, ours
    def _langchain_text(self, chunk: Any) -> str:
        told = chunk.response_metadata or {}
        self.model = _text(told.get("model_name") or told.get("model")) or self.model
        self.finish_reason = _text(told.get("finish_reason") or told.get("stop_reason")) or self.finish_reason
        given = getattr(chunk, "usage_metadata", None)
        if given:
            self.usage = _sum(self.usage, read_usage(given))
        content = chunk.content
        if isinstance(content, str):
            return content
        texts = [b if isinstance(b, str) else b.get("text") for b in content if isinstance(b, str) or _is_text(b)]
        return "".join(text for text in texts if isinstance(text, str))

    def _piece(self, piece: Any) -> str:
        self._note(piece)
        self.finish_reason = _text(field(piece, "finish_reason")) or self.finish_reason
        if piece.reasoning:
            self._thoughts.setdefault("reasoning_content", []).append(piece.reasoning)
        for call in field(piece, "tool_calls") or ():
            self._call(call.index, call.id, call.name, call.arguments, {})
        return self._say(piece.text)


class _Call:
    """A tool call while it comes in."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.id = self.name = ""
        self.arguments: list[str] = []
        self.extra: dict[str, Any] = {}

    def made(self) -> ToolCall:
        return ToolCall(self.id, self.name, "".join(self.arguments) or "{}", self.extra)


class _Block:
    """An Anthropic content block while it comes in."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.inputs: list[str] = []
        self.pieces: dict[str, list[str]] = {}

    def add(self, kind: str, delta: Any) -> str:
        """Take a delta; the visible text that it adds."""
        if kind == "input_json_delta":
            self.inputs.append(field(delta, "partial_json") or "")
        elif kind == "citations_delta":
            self.value.setdefault("citations", []).append(plain(field(delta, "citation")))
        else:
            name = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(kind)
            piece = field(delta, name) if name else None
            if name and isinstance(piece, str):
                self.pieces.setdefault(name, []).append(piece)
                return piece if name == "text" else ""
        return ""

    def whole(self) -> dict[str, Any]:
        """The block so far."""
        out = dict(self.value)
        for name, pieces in self.pieces.items():
            out[name] = (out.get(name) or "") + "".join(pieces)
        if self.inputs and out.get("type") != "tool_use":  # a server's own tool
            try:
                out["input"] = json.loads("".join(self.inputs))
            except ValueError:
                out["input"] = {}
        return out


def _further(piece: Any) -> dict[str, Any]:
    """Fields of a call that a server adds (Gemini's signed thoughts); not those of the form itself."""
    known = ("index", "id", "function", "type")
    more = piece.items() if isinstance(piece, Mapping) else (getattr(piece, "model_extra", None) or {}).items()
    return {k: v for k, v in more if k not in known and v is not None}


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    """LangChain's chunks report shares of the usage, which are added up.

    Some providers' chunks repeat the sums so far instead. The input is known before the first piece, so it is told once
    in shares: when it comes again and not less, the later report replaces the earlier one.
    """
    if one is None or other is None:
        return one or other
    if 0 < one.input <= other.input and one.output <= other.output:
        return other
    return msgspec.structs.replace(add((one, other)), raw=_added(one.raw, other.raw))


def _added(one: Any, other: Any) -> Any:
    """Two raw reports in one: numbers are added up, the rest is the later one's."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {**one, **{k: _added(one.get(k), v) for k, v in other.items()}}
    counts = all(isinstance(v, int) and not isinstance(v, bool) for v in (one, other))
    return one + other if counts else other


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_EVENTS: dict[str, Callable[[StreamReader, Any], str]] = {
    "message_start": StreamReader._started,
    "content_block_start": StreamReader._block,
    "content_block_delta": StreamReader._block_delta,
    "message_delta": StreamReader._message_delta,
}
