"""A history processor for Pydantic AI: what the model is sent is composed by a policy.

    Agent("openai:gpt-…", capabilities=[ProcessHistory(history_processor("window:10turns"))])

A call and its return stay together, a call whose return was lost gets one, and the newest prompt is always there. Parts
that nothing altered are the very objects that came in, so thoughts keep their signatures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from novelo.context import compose_source, parse
from novelo.context.listing import ListSource
from novelo.errors import MissingExtra
from novelo.messages import Message, Other, Part, Text, ToolCall
from novelo.protocol import dialect
from novelo.tokens import count_message
from novelo.tokens import counter as counter_of
from novelo.transcript import Entry

try:
    from pydantic_ai import messages as ai
except ImportError as _error:
    raise MissingExtra(
        "this processor needs Pydantic AI: pip install 'novelo[pydantic-ai]'", extra="pydantic-ai"
    ) from _error

# Parts of a request that say something; some of them only older or newer versions have.
_SPEAKING: tuple[Any, ...] = tuple(
    getattr(ai, name)
    for name in ("SystemPromptPart", "UserPromptPart", "ToolReturnPart", "RetryPromptPart", "RetryFeedbackPart")
    if hasattr(ai, name)
)
Origin = tuple[int, tuple[Any, ...]]  # the message's place, and the parts that became ours


def history_processor(
    policy: Any = "buffer", *, counter: Any = "estimate", provider: str = "openai", window: int | None = None
) -> Callable[[list[ai.ModelMessage]], list[ai.ModelMessage]]:
    """A function from a history to what of it the model is sent.

    Args:
        policy: a spec such as "window:10turns" or "budget:8000", or a policy. Summaries need a memory: not here.
        counter: as for `novelo.open`.
        provider: whose rules hold: openai, anthropic, gemini, mistral.
        window: tokens of the model's window, for budgets in per cent.
    """
    chosen, count = parse(policy), counter_of(counter)
    dialect(provider)

    def process(messages: list[ai.ModelMessage]) -> list[ai.ModelMessage]:
        read, origins = _read(messages)
        if not read:
            return list(messages)
        source = ListSource(read, partial(count_message, count=count), form="message")
        context = compose_source(
            source, source.opening(), chosen, counter=count, provider=provider, window=window, form="message"
        )
        return _written(context.entries, messages, origins)

    return process


# ------------------------------------------------------------------------------------------------ in
def _read(messages: Sequence[ai.ModelMessage]) -> tuple[list[Message], list[Origin]]:
    """Our messages, system prompts first, and where each came from."""
    found: list[tuple[Message, Origin]] = []
    for at, message in enumerate(messages):
        if isinstance(message, ai.ModelResponse):
            found.append((_answer(message), (at, tuple(message.parts))))
            continue
        for group in _groups(message.parts):
            found.append((_asked(group), (at, group)))
    found.sort(key=lambda pair: pair[0].role != "system")
    return [m for m, _ in found], [o for _, o in found]


def _groups(parts: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The parts of a request, each alone; what is no contribution to the talk goes with the one before it."""
    out: list[tuple[Any, ...]] = []
    for part in parts:
        if out and not isinstance(part, _SPEAKING):
            out[-1] = (*out[-1], part)
        else:
            out.append((part,))
    return out


def _answer(message: ai.ModelResponse) -> Message:
    parts: list[Part] = []
    calls = []
    for part in message.parts:
        if isinstance(part, ai.TextPart):
            parts.append(Text(text=part.content))
        elif isinstance(part, ai.ToolCallPart):
            calls.append(ToolCall(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        else:  # thoughts, files, calls of the provider's own tools: they stay as they are, in their message
            parts.append(Other(value=type(part).__name__))
    return Message("assistant", tuple(parts) or None, tuple(calls))


def _asked(parts: tuple[Any, ...]) -> Message:
    part = parts[0]
    if isinstance(part, ai.SystemPromptPart):
        return Message("system", part.content)
    if isinstance(part, ai.ToolReturnPart):
        return Message("tool", part.model_response_str(), tool_call_id=part.tool_call_id, name=part.tool_name)
    if isinstance(part, ai.UserPromptPart):
        if isinstance(part.content, str):
            return Message("user", part.content)
        return Message(
            "user", tuple(Text(text=c) if isinstance(c, str) else Other(value=type(c).__name__) for c in part.content)
        )
    if (call_id := getattr(part, "tool_call_id", None)) and getattr(part, "tool_name", None):  # a retry, as v2 has it
        return Message("tool", str(part.content), tool_call_id=call_id, name=part.tool_name)
    content = getattr(part, "content", None)
    return Message("user", content if isinstance(content, str) else (Other(value=type(part).__name__),))


# ------------------------------------------------------------------------------------------------ out
def _written(
    entries: Sequence[Entry], messages: Sequence[ai.ModelMessage], origins: Sequence[Origin]
) -> list[ai.ModelMessage]:
    """The entries as messages: parts of one request that follow each other are one request again."""
    out: list[tuple[int, str, list[Any]]] = []
    for entry in entries:
        at, parts = origins[entry.position] if entry.position >= 0 and not entry.made else (-1, ())
        new = list(parts) if entry.source is not None else _altered(entry.message, parts)
        kind = "response" if entry.message.role == "assistant" else "request"
        if out and kind == "request" and at >= 0 and out[-1][:2] == (at, kind):
            out[-1][2].extend(new)
        elif new:
            out.append((at, kind, new))
    return [_message(kind, parts, messages[at] if at >= 0 else None) for at, kind, parts in out]


def _message(kind: str, parts: list[Any], given: Any) -> ai.ModelMessage:
    """A message of these parts: the very one that came in, where they are just its own."""
    if given is not None and given.kind == kind:
        same = len(parts) == len(given.parts) and all(a is b for a, b in zip(parts, given.parts, strict=True))
        return cast(ai.ModelMessage, given if same else dataclasses.replace(given, parts=parts))
    return ai.ModelResponse(parts=parts) if kind == "response" else ai.ModelRequest(parts=parts)


def _altered(message: Message, parts: tuple[Any, ...]) -> list[Any]:
    """The parts with another text; what we made up as parts of its kind."""
    text = message.text
    if message.role == "assistant":
        calls = [ai.ToolCallPart(c.name, c.arguments, c.id) for c in message.tool_calls]
        return [*([ai.TextPart(text)] if text else []), *calls]
    part = parts[0] if len(parts) == 1 else None
    if message.role == "tool":
        if part is not None:
            return [dataclasses.replace(part, content=text)]
        return [ai.ToolReturnPart(tool_name=message.name or "", content=text, tool_call_id=message.tool_call_id or "")]
    if part is not None:
        return [dataclasses.replace(part, content=text)]
    return [ai.SystemPromptPart(text) if message.role == "system" else ai.UserPromptPart(text)]
