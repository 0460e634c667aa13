"""The scripted model."""

from __future__ import annotations

import anyio
import pytest

from novelo.errors import ModelFailed, NoveloError
from novelo.messages import Message, Usage
from novelo.models import ModelReply, ModelRequest, collect
from novelo.testing import ScriptedModel, ScriptEnded

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"n": 1}'}}


def ask(text="Oi!"):
    """A request with one user message."""
    return ModelRequest([{"role": "user", "content": text}])


def test_replies_in_every_form() -> None:
    """Texts, chat dicts, completions, messages, replies, functions and pieces all become replies, in order."""
    completion = {"choices": [{"message": {"role": "assistant", "content": "c"}, "finish_reason": "length"}]}
    model = ScriptedModel(
        [
            "a",
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            completion | {"usage": {"prompt_tokens": 7, "completion_tokens": 2}},
            Message("assistant", "d"),
            ModelReply(Message("assistant", "e"), Usage(input=1, output=1)),
            lambda request: request.messages[-1]["content"].upper(),
            ["f", "g"],
        ]
    )
    a, b, c, d, e, f, g = (model.complete(ask("oi")) for _ in range(7))
    assert [r.text for r in (a, b, c, d, e, f, g)] == ["a", "", "c", "d", "e", "OI", "fg"]
    assert b.message.content is None and b.finish_reason == "tool_calls"
    assert (b.message.tool_calls[0].name, b.message.tool_calls[0].arguments) == ("find", '{"n": 1}')
    assert (c.usage.input, c.usage.output, c.finish_reason) == (7, 2, "length")
    assert a.usage.input > 0 and a.message.usage == a.usage and model.left == 0


def test_exceptions_are_raised_and_the_next_reply_comes_after() -> None:
    """An exception in the list fails that request only; the request is recorded all the same."""
    model = ScriptedModel([ModelFailed("no", status=429), TimeoutError, "b"])
    with pytest.raises(ModelFailed):
        model.complete(ask())
    with pytest.raises(TimeoutError):
        model.stream(ask())
    assert model.complete(ask()).text == "b"
    assert len(model.requests) == 3


def test_requests_are_copies() -> None:
    """Changing the list afterwards does not change what was recorded."""
    messages = [{"role": "user", "content": "antes"}]
    model = ScriptedModel(["a"])
    model.complete(ModelRequest(messages, purpose="summary"))
    messages[0]["content"] = "depois"
    assert model.requests[0].messages == [{"role": "user", "content": "antes"}]
    assert model.requests[0].purpose == "summary"


def test_running_out_is_a_clear_error() -> None:
    """One request too many says how many there were, and fails a test as an assertion does."""
    model = ScriptedModel(["a"])
    model.complete(ask())
    with pytest.raises(ScriptEnded, match="asked 2 times, has 1 replies") as caught:
        model.complete(ask())
    assert isinstance(caught.value, NoveloError) and isinstance(caught.value, AssertionError)


def test_a_single_text_instead_of_a_list_is_refused() -> None:
    """A text is not taken for a list of letters."""
    with pytest.raises(TypeError, match="put it in a list"):
        ScriptedModel("abc")


def test_every_way_of_asking() -> None:
    """Called, awaited, streamed, with a request, messages or a text: the same replies, each request recorded once."""
    model = ScriptedModel(["a b", "b", "c", "d e f"])
    assert model("Oi").text == "a b"
    assert anyio.run(model.acomplete, ask()).text == "b"
    assert model([{"role": "user", "content": "Oi"}]).text == "c"
    pieces = list(model.stream(ask()))
    assert [p.text for p in pieces] == ["d ", "e ", "f", ""]
    assert collect(pieces).text == "d e f" and pieces[-1].usage is not None
    assert [r.messages[0]["content"] for r in model.requests] == ["Oi", "Oi!", "Oi", "Oi!"]


def test_streams_keep_tool_calls() -> None:
    """A streamed reply with calls carries them."""
    reply = collect(ScriptedModel([{"content": "x", "tool_calls": [CALL]}]).stream(ask()))
    assert reply.message.tool_calls[0].id == "c1"


def test_each_way_of_asking_can_be_wrapped_by_a_subclass() -> None:
    """A subclass may wrap every asking method and sees each request exactly once."""
    seen = []

    def hook(name):
        def asked(self, *args, **named):
            seen.append(name)
            return getattr(ScriptedModel, name)(self, *args, **named)

        return asked

    names = ("complete", "acomplete", "__call__", "stream")
    probe = type("Probe", (ScriptedModel,), {name: hook(name) for name in names})(["a", "b", "c", "d"])
    probe.complete(ask())
    anyio.run(probe.acomplete, ask())
    probe(ask())
    list(probe.stream(ask()))
    assert seen == list(names)
