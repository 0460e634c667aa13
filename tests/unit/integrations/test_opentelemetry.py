"""Spans and metrics have the names of OpenTelemetry's conventions, and hold nothing of what was said unless asked."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace

import pytest

from novelo.context.manifest import Manifest
from novelo.events import CompactionEvent, UsageEvent
from novelo.messages import Audio, Image, Message, Reasoning, Text, ToolCall
from novelo.usage import Call

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from novelo.integrations.opentelemetry import CAPTURE, instrument

CALL = Call(
    "reply", "gpt-4o-2024-08-06", 2000, 12, 1800, 30, 5, latency_s=1.5, first_token_s=0.25, created=1_700_000_000.0,
    cost=Decimal("0.0123"), prices="table 1",
)  # fmt: skip
SECRET = "o número do meu pedido é A-4471"


class Telemetry:
    """A memory's two lists, and what came of what was sent to them."""

    def __init__(self, **options):
        self.memory = SimpleNamespace(on_usage=[], on_compaction=[])
        self.spans_out, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracing, metering = TracerProvider(), MeterProvider(metric_readers=[self.reader])
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans_out))
        self.handle = instrument(self.memory, self.tracing, metering, **options)

    def tell(self, call=CALL, **more):
        """A usage event."""
        for callback in self.memory.on_usage:
            callback(UsageEvent("t-1", "ana", call, **more))

    def compact(self, status, **more):
        """A compaction event."""
        for callback in self.memory.on_compaction:
            callback(CompactionEvent("t-1", "ana", 3, status, **more))

    @property
    def span(self):
        """The only span."""
        (found,) = self.spans_out.get_finished_spans()
        return found

    def points(self):
        """Metric name -> its data points."""
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


def test_a_call_is_a_chat_span():
    """A call's span lasts as long as the call did, and names model, thread and tokens by the conventions."""
    telemetry = Telemetry()
    telemetry.tell(manifest=Manifest("buffer", model="gpt-4o"))
    span = telemetry.span
    assert (span.name, span.kind) == ("chat gpt-4o", SpanKind.CLIENT)
    assert (span.start_time, span.end_time) == (1_699_999_998_500_000_000, 1_700_000_000_000_000_000)
    told = dict(span.attributes)
    assert told.pop("gen_ai.provider.name") in ("openai", "unknown")  # told by the price table, which is optional
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.conversation.id": "t-1",
        "gen_ai.usage.input_tokens": 2000,
        "gen_ai.usage.output_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 1800,
        "gen_ai.usage.cache_write.input_tokens": 30,
        "gen_ai.usage.cache_creation.input_tokens": 30,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": 0.25,
        "novelo.purpose": "reply",
        "novelo.cost.usd": 0.0123,
        "novelo.cost.prices": "table 1",
    }


def test_metrics():
    """Tokens by kind, duration and time to the first chunk are histograms with the bounds of the conventions."""
    telemetry = Telemetry(provider="someone")
    telemetry.tell()
    telemetry.tell()
    points = telemetry.points()
    tokens = {point.attributes["gen_ai.token.type"]: point for point in points["gen_ai.client.token.usage"]}
    assert {kind: (point.count, point.sum) for kind, point in tokens.items()} == {"input": (2, 4000), "output": (2, 24)}
    assert tokens["input"].explicit_bounds[:3] == (1, 4, 16)
    (duration,) = points["gen_ai.client.operation.duration"]
    (first,) = points["gen_ai.client.operation.time_to_first_chunk"]
    assert (duration.sum, first.sum) == (3.0, 0.5)
    assert duration.explicit_bounds == first.explicit_bounds
    assert duration.explicit_bounds[-1] == 81.92
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "someone",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "novelo.purpose": "reply",
    }


def test_an_estimate_is_flagged_and_in_no_metric_of_tokens():
    """Tokens that we counted are marked on the span, and are not mixed with those that a provider bills."""
    telemetry = Telemetry()
    telemetry.tell(Call("summary", None, 100, 10, estimated=True, latency_s=0.5))
    span = telemetry.span
    assert span.name == "chat"
    assert span.attributes["novelo.usage.estimated"] is True
    assert span.attributes["novelo.purpose"] == "summary"
    assert {"gen_ai.request.model", "gen_ai.response.model", "novelo.cost.usd"}.isdisjoint(span.attributes)
    assert span.end_time - span.start_time == 500_000_000
    assert set(telemetry.points()) == {"gen_ai.client.operation.duration"}


MESSAGES = (
    Message("system", "Responda em português."),
    Message(
        "user", (Text(text=SECRET), Image(data="AAAA", media_type="image/png"), Audio(url="https://x.example/a.mp3"))
    ),
    Message("assistant", None, (ToolCall("c1", "lookup", '{"id": "A-4471"}'), ToolCall("c2", "odd", "{"))),
    Message("tool", "enviado", tool_call_id="c1"),
    Message("assistant", (Reasoning(text="hm"), Text(text="Já foi enviado."))),
)


@pytest.mark.parametrize("said", ["", "NO_CONTENT", "EVENT_ONLY", "false", "SPAN_ONLY", "SPAN_AND_EVENT", "true"])
@pytest.mark.parametrize("asked", [None, False, True])
def test_content_only_when_asked(monkeypatch, said, asked):
    """Messages stand in the span only if the argument or the conventions' variable says so; the argument wins."""
    monkeypatch.setenv(CAPTURE, said)
    telemetry = Telemetry(capture_content=asked)
    telemetry.tell(messages=MESSAGES)
    wanted = asked if asked is not None else said in ("SPAN_ONLY", "SPAN_AND_EVENT", "true")
    assert any(SECRET in str(value) for value in telemetry.span.attributes.values()) is wanted
    names = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"}
    assert names & set(telemetry.span.attributes) == (names if wanted else set())


def test_content_has_the_form_of_the_conventions():
    """System text and the answer stand apart; calls, results and thoughts are parts; media leave their bytes behind."""
    telemetry = Telemetry(capture_content=True)
    telemetry.tell(messages=MESSAGES)
    told = telemetry.span.attributes
    assert json.loads(told["gen_ai.system_instructions"]) == [{"type": "text", "content": "Responda em português."}]
    user, asked, result = json.loads(told["gen_ai.input.messages"])
    assert [part["type"] for part in user["parts"]] == ["text", "image", "uri"]
    assert user["parts"][0]["content"] == SECRET
    assert "AAAA" not in told["gen_ai.input.messages"]
    assert asked["parts"] == [
        {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"id": "A-4471"}},
        {"type": "tool_call", "id": "c2", "name": "odd", "arguments": "{"},
    ]
    assert result == {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "enviado"}]}
    (answer,) = json.loads(told["gen_ai.output.messages"])
    assert [part["type"] for part in answer["parts"]] == ["reasoning", "text"]
    assert answer["finish_reason"] == "stop"


def test_the_owner_is_never_told():
    """Whose thread it is stays here: nothing that is sent names the owner."""
    telemetry = Telemetry(capture_content=True)
    telemetry.tell()
    telemetry.compact("done")
    assert "ana" not in "".join(span.to_json() for span in telemetry.spans_out.get_finished_spans())


def test_a_compaction_is_a_span():
    """A compaction that is done has one span over its time, with the sizes before and after."""
    telemetry = Telemetry()
    telemetry.compact("started", messages_before=40, tokens_before=9000)
    assert telemetry.spans_out.get_finished_spans() == ()
    sizes = {"messages_before": 40, "messages_after": 7, "tokens_before": 9000, "tokens_after": 1200}
    telemetry.compact("done", strategy="summarize:20messages", seconds=2.0, **sizes)
    span = telemetry.span
    assert (span.name, span.status.status_code) == ("compact_messages", StatusCode.UNSET)
    assert span.end_time - span.start_time == 2_000_000_000
    assert dict(span.attributes) == {
        "gen_ai.conversation.id": "t-1",
        "gen_ai.conversation.compacted": True,
        "compaction.strategy": "summarize:20messages",
        **{f"compaction.{name}": size for name, size in sizes.items()},
        "novelo.summary.version": 3,
    }


def test_a_failed_compaction_is_an_error():
    """A compaction that failed names the class of its error, and claims no sizes after it."""
    telemetry = Telemetry()
    telemetry.compact("failed", error="ModelFailed", messages_before=40)
    span = telemetry.span
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ModelFailed"
    assert {"gen_ai.conversation.compacted", "compaction.messages_after"}.isdisjoint(span.attributes)


def test_spans_stand_below_the_span_of_the_application():
    """A call that is told inside a span of the application is its child."""
    telemetry = Telemetry()
    with telemetry.tracing.get_tracer("app").start_as_current_span("request") as outer:
        telemetry.tell()
    chat = next(span for span in telemetry.spans_out.get_finished_spans() if span.name.startswith("chat"))
    assert chat.parent.span_id == outer.get_span_context().span_id


def test_remove():
    """After remove nothing is sent, other callbacks stay, and removing again is harmless."""
    telemetry = Telemetry()
    telemetry.memory.on_usage.insert(0, heard := (lambda event: None))
    telemetry.handle.remove()
    telemetry.handle.remove()
    telemetry.tell()
    assert telemetry.memory.on_usage == [heard]
    assert telemetry.memory.on_compaction == []
    assert telemetry.spans_out.get_finished_spans() == ()


def test_a_real_memory_is_heard():
    """Turns and a compaction of a real memory become spans and metrics, under its thread's id."""
    import novelo

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    with novelo.open("sqlite://", policy="summarize:6messages,keep=2", summarizer="offline", worker="off") as memory:
        instrument(memory, tracing, MeterProvider(metric_readers=[reader]))
        thread = memory.thread("t-1", owner="ana")
        for k in range(3):
            with thread.turn(f"{SECRET} {k}") as turn:
                turn.messages(model="gpt-4o-mini")
                turn.reply("Certo.")
        assert memory.work() == (1, 0)
        with thread.turn("E agora?") as turn:
            turn.messages()
            turn.reply("Certo.")
    found = spans.get_finished_spans()
    assert [s.name for s in found] == ["chat gpt-4o-mini"] * 3 + ["chat offline", "compact_messages", "chat"]
    assert {s.attributes["gen_ai.conversation.id"] for s in found} == {"t-1"}
    assert [s.attributes.get("gen_ai.conversation.compacted", False) for s in found][-1]
    assert SECRET not in str([dict(s.attributes) for s in found])
    assert (
        found[4].attributes["compaction.messages_before"] == 4 and found[4].status.status_code is not StatusCode.ERROR
    )
    assert reader.get_metrics_data().resource_metrics
