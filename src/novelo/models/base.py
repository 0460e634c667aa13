"""The seam between Novelo and whatever answers: one method, `complete(request) -> reply`.

    request = ModelRequest([{"role": "user", "content": "Oi!"}])
    reply = model.complete(request)            # any object with this method is a model
    for delta in stream(model, request): ...   # piece by piece; in one piece if the model cannot stream
    await acomplete(model, request)            # on a worker thread, unless the model has an `acomplete` of its own

Logic that must ask a model is a generator that yields requests and is sent replies; `drive` and `adrive` run it. So the
logic is written once, for sync code, async code, a graph node, or a test that plays the model by hand.

Failures are `ModelFailed` (see `failures.py`), and a flow sees them where it asked.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from novelo.asking import Flow, ModelReply, ModelRequest
from novelo.messages import Usage
from novelo.models.chat import message_of
from novelo.quiet import Quiet

T = TypeVar("T")


class ToolCallDelta(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a tool call: `index` says which call, `arguments` is appended to what came before."""

    SAID = frozenset(("arguments",))

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class ModelDelta(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a reply. Pieces are appended; usage, finish reason and model usually stand in the last one."""

    SAID = frozenset(("text", "reasoning"))

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str | None = None


@runtime_checkable
class Model(Protocol):
    """Anything that answers. `stream`, `acomplete` and `astream` may be there too and are then used."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole answer.

        Raises:
            ModelFailed: it refused, failed or timed out.
        """
        ...


class Assembly:
    """Pieces put together: what has come so far is a message at any moment, also when the stream breaks."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.model: str | None = None

    def add(self, delta: ModelDelta) -> ModelDelta:
        """Take one piece in, and give it back."""
        self._text.append(delta.text)
        self._reasoning.append(delta.reasoning)
        for piece in delta.tool_calls:
            call = self._calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = piece.id or call["id"]
            call["name"] = piece.name or call["name"]
            call["arguments"] += piece.arguments
        self.usage = delta.usage or self.usage
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.model = delta.model or self.model
        return delta

    def reply(self) -> ModelReply:
        """The reply as far as it has come."""
        chat: dict[str, Any] = {"role": "assistant", "content": "".join(self._text)}
        if thoughts := "".join(self._reasoning):
            chat["reasoning_content"] = thoughts
        if self._calls:
            chat["tool_calls"] = [_chat_call(**self._calls[index]) for index in sorted(self._calls)]
        message = message_of(chat, usage=self.usage, model=self.model)
        return ModelReply(message, self.usage, self.finish_reason, self.model)


def _chat_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments or "{}"}}


def collect(deltas: Iterable[ModelDelta]) -> ModelReply:
    """The reply that a stream amounts to."""
    assembly = Assembly()
    for delta in deltas:
        assembly.add(delta)
    return assembly.reply()


def as_delta(reply: ModelReply) -> ModelDelta:
    """A whole reply as one piece."""
    calls = tuple(
        ToolCallDelta(index, call.id, call.name, call.arguments) for index, call in enumerate(reply.message.tool_calls)
    )
    return ModelDelta(reply.text, "", calls, reply.usage, reply.finish_reason, reply.model)


# ------------------------------------------------------------------------------------------------ asking
def stream(model: Model, request: ModelRequest) -> Iterator[ModelDelta]:
    """The answer piece by piece; in one piece from a model that cannot stream."""
    streaming = getattr(model, "stream", None)
    if streaming is None:
        return iter((as_delta(model.complete(request)),))
    deltas: Iterator[ModelDelta] = streaming(request)
    return deltas


async def acomplete(model: Model, request: ModelRequest) -> ModelReply:
    """The whole answer, awaited: by the model's own `acomplete`, else on a worker thread.

    A cancelled caller does not wait for the thread; its answer is dropped.
    """
    own = getattr(model, "acomplete", None)
    if own is not None:
        reply: ModelReply = await own(request)
        return reply
    from anyio import to_thread  # an import does not pay for what only awaited programs use

    return await to_thread.run_sync(model.complete, request, abandon_on_cancel=True)


async def astream(model: Model, request: ModelRequest) -> AsyncIterator[ModelDelta]:
    """The answer piece by piece, awaited; a stream that is left early is closed, which ends the provider's work too."""
    own = getattr(model, "astream", None)
    if own is not None:
        async for delta in own(request):
            yield delta
        return
    from anyio import to_thread

    pump = _Pump(model, request)
    try:
        while (piece := await to_thread.run_sync(pump.next, abandon_on_cancel=True)) is not None:
            yield piece
    finally:
        pump.stop()


class _Pump:
    """A sync stream read from worker threads, one piece at a time.

    A cancelled reader leaves a thread behind that still waits for its piece. An iterator cannot be closed while it
    runs, so whoever comes last, the thread or the reader, closes it.
    """

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self._ask = (model, request)
        self._pieces: Iterator[ModelDelta] | None = None
        self._lock = threading.Lock()
        self._running = self._stopped = False

    def next(self) -> ModelDelta | None:
        """The next piece; None at the end."""
        with self._lock:
            if self._stopped:
                return None
            self._running = True
        try:
            if self._pieces is None:
                self._pieces = stream(*self._ask)
            return next(self._pieces, None)
        finally:
            with self._lock:
                self._running = False
                stopped = self._stopped
            if stopped:
                self._close()

    def stop(self) -> None:
        """Close the stream, now or as soon as its thread comes back."""
        with self._lock:
            self._stopped = True
            running = self._running
        if not running:
            self._close()

    def _close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


# ------------------------------------------------------------------------------------------------ running flows
def drive(flow: Flow[T], model: Model) -> T:
    """Run a flow to its end: each request it yields is put to the model, each reply sent back.

    A failure of the model is raised inside the flow, where the request was made; what the flow does not catch comes out
    here. The flow is closed in any case.
    """
    outcome: ModelReply | Exception | None = None
    try:
        while True:
            move = _advance(flow, outcome)
            if isinstance(move, _Done):
                return move.value
            try:
                outcome = model.complete(move)
            except Exception as error:
                outcome = error
    finally:
        flow.close()


async def adrive(flow: Flow[T], model: Model) -> T:
    """`drive`, awaited: the flow runs here, the model as `acomplete` says."""
    outcome: ModelReply | Exception | None = None
    try:
        while True:
            move = _advance(flow, outcome)
            if isinstance(move, _Done):
                return move.value
            try:
                outcome = await acomplete(model, move)
            except Exception as error:
                outcome = error
    finally:
        flow.close()


class _Done(Generic[T]):
    """The end of a flow, with its result."""

    def __init__(self, value: T) -> None:
        self.value = value


def _advance(flow: Flow[T], outcome: ModelReply | Exception | None) -> ModelRequest | _Done[T]:
    """One move of a flow: begin (None), take a reply, or be told of a failure; its next request, or its end."""
    try:
        if isinstance(outcome, Exception):
            return flow.throw(outcome)
        return flow.send(outcome)  # type: ignore[arg-type]  # None begins a generator
    except StopIteration as end:
        return _Done(end.value)
