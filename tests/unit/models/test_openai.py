"""The OpenAI backend: the real SDK against a strict provider over HTTP."""

from contextlib import closing

import openai
import pytest

from novelo.errors import InvalidSpec, ModelFailed
from novelo.models import ModelRequest, collect
from novelo.models.openai import OpenAIModel, load
from novelo.testing import StrictProvider

ASK = ModelRequest([{"role": "user", "content": "Oi!"}])
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"n": 1}'}}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture
def reach():
    """A model at the address of a provider; the SDK's own retries are off, so that each failure shows."""
    made = []

    def connected(url, **options):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, **options)
        made.append(OpenAIModel("gpt-x", client))
        return made[-1]

    yield connected
    for model in made:
        model.close()


def test_an_answer_comes_whole_with_usage(reach):
    """Text, finish reason, the model's name and usage must be those that the server sent."""
    provider = StrictProvider(answers=["Olá, Ana!"])
    with provider.serve() as url:
        reply = reach(url).complete(ASK)
    assert (reply.text, reply.finish_reason, reply.model) == ("Olá, Ana!", "stop", "gpt-x")
    assert reply.usage.input == provider.usages[0].input > 0
    assert reply.usage.output == provider.usages[0].output > 0
    assert provider.requests[0].messages == ASK.messages


def test_a_stream_is_the_same_answer_in_pieces(reach):
    """Streamed, the same answer must come in several pieces, and its usage in the end."""
    provider = StrictProvider(answers=["Olá, Ana! Tudo bem?"] * 2)
    with provider.serve() as url:
        model = reach(url)
        pieces = list(model.stream(ASK))
        whole = model.complete(ASK)
    streamed = collect(pieces)
    assert sum(bool(piece.text) for piece in pieces) == 4
    assert (streamed.text, streamed.finish_reason, streamed.model) == (whole.text, "stop", "gpt-x")
    assert (streamed.usage.input, streamed.usage.output) == (whole.usage.input, whole.usage.output)


@pytest.mark.parametrize("streamed", [False, True])
def test_tools_go_out_and_calls_come_back(reach, streamed):
    """Tool definitions must be sent, and calls must come back with id, name and arguments, streamed or not."""
    provider = StrictProvider(
        answers=[{"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]}]
    )
    asked = ModelRequest(ASK.messages, tools=[TOOL], max_output_tokens=50, temperature=0.5)
    with provider.serve() as url:
        reply = collect(reach(url).stream(asked)) if streamed else reach(url).complete(asked)
    assert [(c.id, c.name, c.arguments) for c in reply.message.tool_calls] == [
        ("c1", "find", '{"n": 1}'),
        ("c2", "find", '{"n": 1}'),
    ]
    assert reply.finish_reason == "tool_calls"
    got = provider.requests[0]
    assert (list(got.tools), got.max_output_tokens, got.temperature) == ([TOOL], 50, 0.5)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("fault", "status", "retryable"),
    [
        (401, 401, False),
        (429, 429, True),
        (500, 500, True),
        ("disconnect", None, True),
        ("cut:1", None, True),
        ("bad json", None, None),
        ("wrong json", None, None),
    ],
)
def test_every_failure_is_ours(reach, fault, status, retryable, streamed):
    """Whatever the server does, `ModelFailed` must come out, with its status and whether to try again."""
    with StrictProvider(answers=["um dois três quatro"], fail={1: fault}).serve() as url:
        model = reach(url)
        with pytest.raises(ModelFailed) as caught:
            collect(model.stream(ASK)) if streamed else model.complete(ASK)
    assert caught.value.status == status
    assert retryable is None or caught.value.retryable is retryable
    assert "Oi!" not in str(caught.value)


def test_what_came_before_a_cut_is_not_lost(reach):
    """When a stream breaks, the pieces that came must have been given out before the failure."""
    came = []
    provider = StrictProvider(answers=["um dois três quatro"], fail={1: "cut:2"})
    with provider.serve() as url, pytest.raises(ModelFailed):
        for piece in reach(url).stream(ASK):
            came.append(piece.text)
    assert "".join(came).strip() == "um dois"


def test_a_context_that_is_too_long_is_recognised(reach):
    """The provider's refusal of a long request must be marked as an overflow, which a shorter request may pass."""
    with StrictProvider(window_tokens=20).serve() as url, pytest.raises(ModelFailed) as caught:
        reach(url).complete(ModelRequest([{"role": "user", "content": "palavra " * 100}]))
    assert caught.value.overflow
    assert not caught.value.retryable
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")


def test_odd_answers_are_answers(reach):
    """An empty answer and one of 10 MB must come as they are."""
    with StrictProvider(fail={1: "empty", 2: "huge"}).serve() as url:
        assert reach(url).complete(ASK).text == ""
        assert len(reach(url).complete(ASK).text) == 10_000_000


def test_a_slow_server_is_a_timeout(reach):
    """A server that says nothing within the client's time must fail as a retryable time-out."""
    with StrictProvider(fail={1: "timeout"}, hang_s=20).serve() as url:
        model = reach(url, timeout=0.2)
        with pytest.raises(ModelFailed) as caught:
            model.complete(ASK)
    assert caught.value.retryable
    assert caught.value.status is None


def test_a_stream_that_is_left_closes_its_connection(reach):
    """Leaving a stream early must close the connection, so that the server stops."""
    provider = StrictProvider(answers=["palavra " * 4000], piece_s=0.001)
    with provider.serve() as url:
        pieces = reach(url).stream(ASK)
        next(pieces)
        pieces.close()
        for _ in range(200):
            if provider.left:
                break
            provider.pause(0.01)
    assert provider.left == 1


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_address_key_and_model_come_from_the_environment(monkeypatch, name):
    """Either name of the address, and `MODEL_NAME` where none is said, must be used; a local server needs no key."""
    provider = StrictProvider()
    with provider.serve() as url:
        monkeypatch.setenv(name, f"{url}/v1")
        monkeypatch.setenv("MODEL_NAME", "from-env")
        with closing(load()) as unnamed, closing(load("said")) as named:
            assert unnamed.complete(ASK).text == "answer 1"
            named.complete(ASK)
    assert [request.model for request in provider.requests] == ["from-env", "said"]


def test_what_is_missing_is_said(monkeypatch):
    """Without a model, or without a key for the provider's own address, the error must say what to set."""
    with pytest.raises(InvalidSpec, match="MODEL_NAME"):
        load("")
    with pytest.raises(InvalidSpec, match="OPENAI_API_KEY"):
        load("gpt-x")
