"""The seam: asking, streaming, putting pieces together, and running flows."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

from novelo.errors import ModelFailed
from novelo.messages import Usage
from novelo.models import (
    Assembly,
    Model,
    ModelDelta,
    ModelRequest,
    ToolCallDelta,
    acomplete,
    adrive,
    astream,
    collect,
    drive,
    stream,
)
from novelo.testing import ScriptedModel, ScriptEnded

ASK = ModelRequest([{"role": "user", "content": "Oi!"}])


class OnlyComplete:
    """A model with the one method."""

    def __init__(self, inner):
        self.inner = inner
        self.threads = []

    def complete(self, request):
        """Ask the inner model, and note the thread."""
        self.threads.append(threading.get_ident())
        return self.inner.complete(request)


def two_questions():
    """A flow that asks twice and joins the answers."""
    first = yield ModelRequest([{"role": "user", "content": "1"}], purpose="condense")
    second = yield ModelRequest([{"role": "user", "content": first.text}])
    return f"{first.text} {second.text}"


def forgiving():
    """A flow that asks again when the model fails."""
    try:
        reply = yield ASK
    except ModelFailed:
        reply = yield ASK
    return reply.text


def test_one_method_is_enough() -> None:
    """Any object with `complete` is a model, answers piece by piece in one piece, and may be awaited on a thread."""
    model = OnlyComplete(ScriptedModel(["a", "b", "c", "d"]))
    assert isinstance(model, Model)
    assert [delta.text for delta in stream(model, ASK)] == ["a"]
    assert anyio.run(acomplete, model, ASK).text == "b"
    assert model.threads[0] == threading.get_ident() != model.threads[1]

    async def pieces():
        return [delta.text async for delta in astream(model, ASK)]

    assert anyio.run(pieces) == ["c"]


def test_pieces_make_the_message_that_was_meant() -> None:
    """Text, thoughts, interleaved tool calls and usage from many pieces become one message."""
    reply = collect(
        [
            ModelDelta("Vou "),
            ModelDelta("ver.", reasoning="hm"),
            ModelDelta(tool_calls=(ToolCallDelta(0, "a", "find", '{"id":'), ToolCallDelta(1, "b", "list"))),
            ModelDelta(tool_calls=(ToolCallDelta(0, arguments=" 1}"),)),
            ModelDelta(usage=Usage(input=3, output=2), finish_reason="tool_calls", model="m-1"),
        ]
    )
    assert reply.text == "Vou ver."
    assert reply.message.extra["reasoning_content"] == "hm"
    assert [(c.id, c.name, c.arguments) for c in reply.message.tool_calls] == [
        ("a", "find", '{"id": 1}'),
        ("b", "list", "{}"),
    ]
    assert (reply.usage, reply.finish_reason, reply.model) == (Usage(input=3, output=2), "tool_calls", "m-1")
    assert reply.message.usage == reply.usage and reply.message.meta["model"] == "m-1"


def test_a_broken_stream_leaves_what_had_come() -> None:
    """After an error in the middle the assembly holds the text so far."""
    assembly = Assembly()
    with pytest.raises(ConnectionError):
        for delta in ScriptedModel([["Olá", ", ", ConnectionError()]]).stream(ASK):
            assembly.add(delta)
    assert assembly.reply().text == "Olá, "


@pytest.mark.parametrize("run", [drive, lambda flow, model: anyio.run(adrive, flow, model)], ids=["drive", "adrive"])
def test_a_flow_is_sent_the_replies(run) -> None:
    """Each request of a flow is put to the model in order, and the flow's result comes out."""
    model = ScriptedModel(["um", "dois"])
    assert run(two_questions(), model) == "um dois"
    assert [r.messages[0]["content"] for r in model.requests] == ["1", "um"]
    assert [r.purpose for r in model.requests] == ["condense", "reply"]


@pytest.mark.parametrize("run", [drive, lambda flow, model: anyio.run(adrive, flow, model)], ids=["drive", "adrive"])
def test_a_flow_sees_failures_where_it_asked(run) -> None:
    """A model's failure is raised inside the flow; what the flow does not catch comes out, and the flow is closed."""
    assert run(forgiving(), ScriptedModel([ModelFailed("busy"), "agora"])) == "agora"
    flow = two_questions()
    with pytest.raises(ScriptEnded):
        run(flow, ScriptedModel(["um"]))
    assert flow.gi_frame is None


def test_a_flow_without_a_question_asks_nobody() -> None:
    """A flow that never yields ends without a request."""

    def silent():
        return 7
        yield ASK

    model = ScriptedModel([])
    assert drive(silent(), model) == 7
    assert model.requests == []


def test_a_cancelled_caller_does_not_wait() -> None:
    """Cancelling an awaited request returns at once although the model still works."""
    begun, free = threading.Event(), threading.Event()

    class Slow:
        def complete(self, request):
            begun.set()
            free.wait(5)

    async def main():
        started = time.monotonic()
        with anyio.move_on_after(0.05):
            await acomplete(Slow(), ASK)
        return time.monotonic() - started

    try:
        assert anyio.run(main) < 2
    finally:
        free.set()
    assert begun.is_set()


@pytest.mark.parametrize("while_running", [False, True])
def test_a_stream_that_is_left_early_is_closed(while_running: bool) -> None:
    """Leaving or cancelling an awaited stream closes the model's iterator, also while its thread waits for a piece."""
    closed, free = threading.Event(), threading.Event()

    class Slow:
        def complete(self, request):
            raise AssertionError

        def stream(self, request):
            try:
                yield ModelDelta("a")
                if while_running:
                    free.wait(5)
                yield ModelDelta("b")
                yield ModelDelta("c")
            finally:
                closed.set()

    async def main():
        seen = []
        with anyio.move_on_after(0.1):
            pieces = astream(Slow(), ASK)
            try:
                async for delta in pieces:
                    seen.append(delta.text)
                    if delta.text == "b":
                        break
            finally:
                await pieces.aclose()
        free.set()
        await anyio.to_thread.run_sync(closed.wait, 5)
        return seen

    assert anyio.run(main) == (["a"] if while_running else ["a", "b"])
    assert closed.is_set()


def test_an_async_model_is_asked_its_own_way() -> None:
    """A model's own `acomplete` and `astream` are used where it has them."""

    class Own(ScriptedModel):
        async def astream(self, request):
            yield ModelDelta("own")

    async def main():
        return (await acomplete(Own(["x"]), ASK)).text, [d.text async for d in astream(Own(), ASK)]

    assert anyio.run(main) == ("x", ["own"])


def test_nothing_that_was_said_stands_in_a_repr() -> None:
    """Requests and replies show sizes only, since their repr ends up in logs."""
    request = ModelRequest([{"role": "user", "content": "segredo"}])
    assert "segredo" not in repr(request) + repr(ScriptedModel(["segredo"]).complete(request))
