"""Spans and metrics of a memory's model calls and compactions, by OpenTelemetry's names for generative AI.

    from novelo.integrations.opentelemetry import instrument

    instrument(memory)          # with the tracer and meter of the application; pip install 'novelo[otel]'

A call becomes a span `chat` with its tokens, and adds to the histograms of tokens, duration and time to first chunk.
A compaction becomes a span `compact_messages`. Nothing of what was said is recorded unless it is asked for, with
`capture_content=True`, or with the variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT set to SPAN_ONLY,
SPAN_AND_EVENT or true.

Source: the semantic conventions for generative AI, github.com/open-telemetry/semantic-conventions-genai, in docs/gen-ai
gen-ai-spans.md and gen-ai-metrics.md. They are young and their constants move: the names stand here as texts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Protocol

import msgspec

from novelo.errors import MissingExtra
from novelo.events import CompactionEvent, OnCompaction, OnUsage, UsageEvent
from novelo.messages import Audio, File, Image, Message, Part, Reasoning, Text
from novelo.prices import provider_of
from novelo.usage import Call

try:
    from opentelemetry.metrics import Histogram, MeterProvider, get_meter
    from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, get_tracer
except ImportError as error:
    raise MissingExtra("telemetry needs OpenTelemetry: pip install 'novelo[otel]'") from error

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS = ("true", "1", "span_only", "span_and_event")
_SECONDS = [0.01 * 2**n for n in range(14)]
_TOKENS = [4**n for n in range(14)]
# Providers as the price table names them -> as the conventions do; others keep their name.
_PROVIDERS = {
    "aws": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google": "gcp.gen_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "x-ai": "x_ai",
}


class Listened(Protocol):
    """A memory, as far as it is needed here."""

    on_usage: list[OnUsage]
    on_compaction: list[OnCompaction]


def instrument(
    memory: Listened,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool | None = None,
    *,
    provider: str | None = None,
) -> Instrumentation:
    """Send what a memory tells to OpenTelemetry, until the returned object's `remove()`.

    Args:
        memory: a `Memory` or `AsyncMemory`.
        tracer_provider, meter_provider: instead of the application's global ones.
        capture_content: whether messages stand in the spans; None asks the environment.
        provider: the provider's name where all calls go to one; None tells it from the model's name.
    """
    found = Instrumentation(tracer_provider, meter_provider, _captured(capture_content), provider)
    found.listen(memory)
    return found


class Instrumentation:
    """The callbacks of an instrumented memory."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        capture_content: bool,
        provider: str | None,
    ) -> None:
        own = ("novelo", version("novelo"))
        self.capture_content, self.provider = capture_content, provider
        self._tracer = get_tracer(*own, tracer_provider=tracer_provider)
        meter = get_meter(*own, meter_provider=meter_provider)

        def histogram(name: str, unit: str, description: str, bounds: list[Any]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

        self._tokens = histogram(
            "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.", _TOKENS
        )
        self._duration = histogram("gen_ai.client.operation.duration", "s", "GenAI operation duration.", _SECONDS)
        self._first_chunk = histogram(
            "gen_ai.client.operation.time_to_first_chunk", "s", "Time to receive the first chunk.", _SECONDS
        )
        self._memories: list[Listened] = []

    def listen(self, memory: Listened) -> None:
        """Hear this memory too."""
        memory.on_usage.append(self.called)
        memory.on_compaction.append(self.compacted)
        self._memories.append(memory)

    def remove(self) -> None:
        """Hear no more; safe to call again."""
        while self._memories:
            memory = self._memories.pop()
            if self.called in memory.on_usage:
                memory.on_usage.remove(self.called)
            if self.compacted in memory.on_compaction:
                memory.on_compaction.remove(self.compacted)

    # ------------------------------------------------------------------------------------------ calls
    def called(self, event: UsageEvent) -> None:
        """A model call: a span that ends when the call did, and the metrics."""
        call, asked = event.call, event.manifest.model if event.manifest is not None else None
        shared = self._shared(call, asked)
        told = {**shared, **_told(event)}
        if self.capture_content and event.messages is not None:
            told |= _content(event.messages)
        ended = _nanoseconds(call.created) if call.created else time.time_ns()
        began = ended - _nanoseconds(call.latency_s or 0.0)
        name = " ".join(("chat", *filter(None, [asked or call.model])))
        self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=told, start_time=began).end(ended)
        if not call.estimated:  # the conventions want counts that the provider bills, or none
            self._tokens.record(call.input, {**shared, "gen_ai.token.type": "input"})
            self._tokens.record(call.output, {**shared, "gen_ai.token.type": "output"})
        if call.latency_s is not None:
            self._duration.record(call.latency_s, shared)
        if call.first_token_s is not None:
            self._first_chunk.record(call.first_token_s, shared)

    def _shared(self, call: Call, asked: str | None) -> dict[str, str]:
        """What spans and metrics have in common: few values, so that no metric has a series for every thread."""
        host = provider_of(call.model or asked)
        found = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.provider or _PROVIDERS.get(host or "", host) or "unknown",
            "novelo.purpose": call.purpose,
        }
        models = {"gen_ai.request.model": asked, "gen_ai.response.model": call.model}
        return found | {name: model for name, model in models.items() if model}

    # ------------------------------------------------------------------------------------------ compactions
    def compacted(self, event: CompactionEvent) -> None:
        """A compaction that is over: a span over the time it took."""
        if event.status == "started":
            return
        ended = time.time_ns()
        told: dict[str, Any] = {
            "gen_ai.conversation.id": event.thread_id,
            "compaction.strategy": event.strategy,
            "compaction.messages_before": event.messages_before,
            "compaction.tokens_before": event.tokens_before,
            "novelo.summary.version": event.version,
        }
        if event.status == "done":  # the conventions know this mark as true only, never as false
            told["gen_ai.conversation.compacted"] = True
            told["compaction.messages_after"] = event.messages_after
            told["compaction.tokens_after"] = event.tokens_after
        else:
            told["error.type"] = event.error or "_OTHER"
        began = ended - _nanoseconds(event.seconds)
        span = self._tracer.start_span("compact_messages", attributes=told, start_time=began)
        if event.status == "failed":
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)


def _told(event: UsageEvent) -> dict[str, Any]:
    """What a span tells beyond the metrics."""
    call = event.call
    told: dict[str, Any] = {
        "gen_ai.conversation.id": event.thread_id,
        "gen_ai.usage.input_tokens": call.input,
        "gen_ai.usage.output_tokens": call.output,
        "gen_ai.usage.cache_read.input_tokens": call.cache_read,
        "gen_ai.usage.cache_write.input_tokens": call.cache_write,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write,  # the older name, which most still read
    }
    if call.reasoning:
        told["gen_ai.usage.reasoning.output_tokens"] = call.reasoning
    if call.first_token_s is not None:
        told["gen_ai.request.stream"] = True
        told["gen_ai.response.time_to_first_chunk"] = call.first_token_s
    if call.estimated:
        told["novelo.usage.estimated"] = True
    if call.cost is not None:
        told["novelo.cost.usd"], told["novelo.cost.prices"] = float(call.cost), call.prices
    if getattr(event.manifest, "summary", None):
        told["gen_ai.conversation.compacted"] = True
    return told


# -------------------------------------------------------------------------------------------------- content
def _captured(wanted: bool | None) -> bool:
    return os.environ.get(CAPTURE, "").strip().lower() in _ON_SPANS if wanted is None else wanted


def _content(messages: Iterable[Message]) -> dict[str, str]:
    """Messages in the conventions' JSON: the system's apart, and the answer, which is the last one, apart."""
    rows = list(messages)
    answer = [rows.pop()] if rows and rows[-1].role == "assistant" else []
    system = [part for message in rows if message.role == "system" for part in _parts(message)]
    sent = [_message(message) for message in rows if message.role != "system"]
    found = {
        "gen_ai.system_instructions": system,
        "gen_ai.input.messages": sent,
        "gen_ai.output.messages": [
            {**_message(m), "finish_reason": "tool_call" if m.tool_calls else "stop"} for m in answer
        ],
    }
    return {name: msgspec.json.encode(value).decode() for name, value in found.items() if value}


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": _parts(message)}


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}]
    content = message.content
    told = [{"type": "text", "content": content}] if isinstance(content, str) else [_part(p) for p in content or ()]
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call.arguments)}
        for call in message.tool_calls
    ]
    return [*told, *calls]


def _part(part: Part) -> dict[str, Any]:
    """A part; of media only what it is and where it lies, never its bytes."""
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "content": part.text or ""}
    if isinstance(part, (Image, Audio, File)):
        kind = {Image: "image", Audio: "audio"}.get(type(part), "document")
        mime = {"modality": kind, "mime_type": part.media_type}
        if part.file_id:
            return {"type": "file", "file_id": part.file_id, **mime}
        if part.url and not part.url.startswith("data:"):
            return {"type": "uri", "uri": part.url, **mime}
        return {"type": kind, **mime}
    return {"type": "other"}


def _arguments(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
