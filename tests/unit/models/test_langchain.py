"""The LangChain backend: real chat models of LangChain against a strict provider over HTTP."""

import pytest
from langchain.chat_models import init_chat_model

from novelo.errors import InvalidSpec, ModelFailed
from novelo.models import ModelRequest, collect
from novelo.models.langchain import LangChainModel, load
from novelo.testing import StrictProvider

ASK = ModelRequest([{"role": "system", "content": "Seja breve."}, {"role": "user", "content": "Oi!"}])
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"n": 1}'}}
TOOL = {
    "type": "function",
    "function": {"name": "find", "description": "Find it.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
def reach(monkeypatch):
    """A model at the address of a provider; the client's own retries are off, so that each failure shows."""

    def connected(url):
        monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        return LangChainModel(init_chat_model("openai:gpt-x", max_retries=0))

    return connected


def test_an_answer_comes_whole_with_usage(monkeypatch):
    """Text, finish reason, the model's name and usage must be those that the server sent; so must what it was asked."""
    provider = StrictProvider(answers=["Olá, Ana!"])
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with provider.serve() as url:
        monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
        reply = load("openai:gpt-x").complete(ASK)
    assert (reply.text, reply.finish_reason, reply.model) == ("Olá, Ana!", "stop", "gpt-x")
    assert (reply.usage.input, reply.usage.output) == (provider.usages[0].input, provider.usages[0].output)
    assert [(m["role"], m["content"]) for m in provider.requests[0].messages] == [
        ("system", "Seja breve."),
        ("user", "Oi!"),
    ]


def test_a_stream_comes_in_pieces_with_usage(reach):
    """Streamed, the answer must come in several pieces, with usage although the address is not the provider's own."""
    provider = StrictProvider(answers=["Olá, Ana! Tudo bem?"])
    with provider.serve() as url:
        pieces = list(reach(url).stream(ASK))
    reply = collect(pieces)
    assert sum(bool(piece.text) for piece in pieces) == 4
    assert (reply.text, reply.finish_reason) == ("Olá, Ana! Tudo bem?", "stop")
    assert (reply.usage.input, reply.usage.output) == (provider.usages[0].input, provider.usages[0].output)


@pytest.mark.parametrize("streamed", [False, True])
def test_tools_go_out_and_calls_come_back(reach, streamed):
    """Tool definitions and an earlier call with its result must be sent, and a call must come back."""
    provider = StrictProvider(answers=[{"role": "assistant", "content": None, "tool_calls": [CALL]}])
    earlier = [
        {"role": "user", "content": "Ache."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "achei"},
    ]
    asked = ModelRequest(earlier, tools=[TOOL], temperature=0.5)
    with provider.serve() as url:
        reply = collect(reach(url).stream(asked)) if streamed else reach(url).complete(asked)
    (call,) = reply.message.tool_calls
    assert (call.id, call.name, call.arguments.replace(" ", "")) == ("c1", "find", '{"n":1}')
    got = provider.requests[0]
    assert [m["role"] for m in got.messages] == ["user", "assistant", "tool"]
    assert got.messages[1]["tool_calls"][0]["id"] == got.messages[2]["tool_call_id"] == "c1"
    assert (got.tools[0]["function"]["name"], got.temperature) == ("find", 0.5)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("fault", "status"), [(401, 401), (500, 500), ("disconnect", None), ("cut:1", None)])
def test_every_failure_is_ours(reach, fault, status, streamed):
    """Whatever the server does, `ModelFailed` must come out, with its status."""
    with StrictProvider(answers=["um dois três quatro"], fail=lambda number, request: fault).serve() as url:
        model = reach(url)
        with pytest.raises(ModelFailed) as caught:
            collect(model.stream(ASK)) if streamed else model.complete(ASK)
    assert caught.value.status == status
    assert "Oi!" not in str(caught.value)


def test_a_context_that_is_too_long_is_recognised(reach):
    """The provider's refusal of a long request must be marked as an overflow."""
    with StrictProvider(window_tokens=20).serve() as url, pytest.raises(ModelFailed) as caught:
        reach(url).complete(ModelRequest([{"role": "user", "content": "palavra " * 100}]))
    assert caught.value.overflow


def test_a_chat_model_that_exists_is_taken():
    """A chat model of LangChain's own must work, calls with broken arguments and thoughts included."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    broken = {"name": "find", "args": '{"n": ', "id": "c9", "error": None, "type": "invalid_tool_call"}
    said = [AIMessage("oi"), AIMessage("", invalid_tool_calls=[broken]), AIMessage("um dois")]
    model = LangChainModel(GenericFakeChatModel(messages=iter(said)), "fake")
    assert (model.complete(ASK).text, model.name) == ("oi", "langchain:fake")
    (call,) = model.complete(ASK).message.tool_calls
    assert (call.id, call.arguments) == ("c9", '{"n": ')
    assert collect(model.stream(ASK)).text == "um dois"


def test_what_is_missing_is_said(monkeypatch):
    """Without a model, with an unknown provider or without a key, the error must say so."""
    with pytest.raises(InvalidSpec, match="MODEL_NAME"):
        load("")
    with pytest.raises(InvalidSpec, match="could not make it"):
        load("no-such-provider:x")
    with pytest.raises(InvalidSpec, match="langchain:openai:gpt-x"):
        load("openai:gpt-x")
