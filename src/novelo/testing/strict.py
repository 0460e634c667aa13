"""A provider that refuses what the real ones refuse, and fails when it is told to.

    provider = StrictProvider("anthropic", window_tokens=8000)
    provider.complete(request)                 # a model like any other; raises ModelFailed with the provider's status

    with StrictProvider("openai", fail={2: 429, 3: "cut:4"}).serve() as url:
        client = openai.OpenAI(base_url=url, api_key="x")      # the real SDK over HTTP; anthropic.Anthropic(...) too

It judges each request by rules of its own (`_rules.py`), counts its tokens, refuses one that is longer than its window,
reports usage with what prompt caching would have saved, answers, streams, hangs and breaks. Nothing leaves the machine.

A fault is the number of an HTTP status, or one of

    "timeout"      answers after `hang_s` seconds with a time-out
    "disconnect"   closes the connection without a word
    "cut:3"        breaks the stream after three pieces; an answer in one piece is not sent to its end
    "empty"        an answer without text
    "huge"         10 MB of text
    "bad utf-8"    bytes that are no text
    "bad json"     a body that ends in the middle
    "wrong json"   JSON that is no answer
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec

from novelo.asking import ModelReply, ModelRequest
from novelo.errors import InvalidSpec
from novelo.messages import Usage
from novelo.models.base import Model, ModelDelta
from novelo.models.failures import failure
from novelo.testing._prefixes import PrefixCache
from novelo.testing._refusals import DIALECTS, Refused, failed, too_long
from novelo.testing._rules import anthropic_refusal, blocks_of, refusal, text_of
from novelo.testing._server import serving
from novelo.testing._wire import cut_after, pieces_of
from novelo.testing.scripted import ScriptedModel
from novelo.tokens import count_text

Fault = int | str
FAULTS = ("timeout", "disconnect", "empty", "huge", "bad utf-8", "bad json", "wrong json")
HUGE = 10_000_000  # characters
MESSAGE = 4  # tokens round each message
MEDIUM = 300  # tokens of a picture, a sound, a file


@dataclass(frozen=True)
class Call:
    """A request that was let in.

    Attributes:
        number: which call of the provider's life, from 1.
        request: what was asked.
        fault: what shall go wrong with it, or None.
        tokens: of all that was sent.
        cached: of these, read from the prompt cache.
        written: of these, written into it.
    """

    number: int
    request: ModelRequest
    fault: Fault | None
    tokens: int
    cached: int
    written: int


class StrictProvider:
    """A fake provider; see the head of this file.

    Attributes:
        requests: what it was asked, refused requests too, oldest first.
        refusals: number of the call, and the wording, of each request that it refused.
        usages: usage of each answer, in order.
        left: how many clients of the server went away before their answer ended.
    """

    def __init__(
        self,
        dialect: str = "openai",
        *,
        window_tokens: int | None = None,
        answers: Model | Sequence[Any] | Callable[[ModelRequest], Any] | None = None,
        fail: Mapping[int, Fault] | Callable[[int, ModelRequest], Fault | None] | None = None,
        hang_s: float = 0.0,
        piece_s: float = 0.0,
        cache_min_tokens: int = 1024,
        cache_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        count: Callable[[str], int] = count_text,
        model: str = "strict-1",
    ) -> None:
        """Set a provider up.

        Args:
            dialect: whose rules and wordings: "openai", "anthropic", "gemini", "mistral", "strict" (chat templates).
            window_tokens: the longest request it takes; None for any.
            answers: a model, a list of scripted replies, or a function of the request; None says "answer 1", …
            fail: which call (from 1) fails how, or a function of number and request that says so.
            hang_s: how long a call with the fault "timeout" hangs.
            piece_s: a pause before each piece of a stream.
            cache_min_tokens: the shortest prefix that is cached.
            cache_s: how long a prefix lives after its last use.
            clock: gives seconds; a test hands in its own to let time pass.
            count: text -> tokens.
            model: the name it reports.
        Raises:
            InvalidSpec: no such dialect or fault.
        """
        if dialect not in DIALECTS:
            raise InvalidSpec(f"strict provider: unknown dialect {dialect!r}, use one of {', '.join(DIALECTS)}")
        self.dialect = dialect
        self.name = f"strict:{dialect}"
        self.model = model
        self.window_tokens = window_tokens
        self.hang_s, self.piece_s = hang_s, piece_s
        self.requests: list[ModelRequest] = []
        self.refusals: list[tuple[int, str]] = []
        self.usages: list[Usage] = []
        self.left = 0
        self._fail = _checked_faults(fail)
        self._answers = _model_of(answers)
        self._count = count
        self._cache = PrefixCache(cache_min_tokens, cache_s, clock)
        self._lock = threading.Lock()
        self._released = threading.Event()

    # -------------------------------------------------------------------------------------------- as a model
    def complete(self, request: ModelRequest) -> ModelReply:
        """The answer.

        Raises:
            ModelFailed: refused or failed; what a client library would have raised stands behind it.
        """
        try:
            call = self.begin(request)
            self._break(call)
            return self.answer(call)
        except (Refused, OSError, ValueError) as error:
            raise failure(error, self.name) from error

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """The answer in pieces; refused at once, not with the first piece.

        Raises:
            ModelFailed: as `complete`; with "cut:n" after n pieces.
        """
        try:
            call = self.begin(request)
            if cut_after(call.fault) is None:
                self._break(call)
            reply = self.answer(call)
        except (Refused, OSError, ValueError) as error:
            raise failure(error, self.name) from error
        return self._pieces(call, reply)

    def _pieces(self, call: Call, reply: ModelReply) -> Iterator[ModelDelta]:
        cut = cut_after(call.fault)
        for at, delta in enumerate(pieces_of(reply)):
            if at == cut:
                break
            self.pause(self.piece_s)
            yield delta
        if cut is not None:
            error = ConnectionResetError("peer closed connection without sending complete message body")
            raise failure(error, self.name) from error

    def _break(self, call: Call) -> None:
        """Raise what a client library raises for a call's fault, where it raises at all."""
        if isinstance(call.fault, int):
            raise Refused(failed(self.dialect, call.fault), self.dialect)
        if call.fault == "timeout":
            self.pause(self.hang_s)
            raise TimeoutError("Request timed out.")
        if call.fault == "disconnect" or cut_after(call.fault) is not None:
            raise ConnectionResetError("Server disconnected without sending a response.")
        if call.fault == "bad json":
            raise json.JSONDecodeError("Unterminated string", "", 0)
        if call.fault == "wrong json":
            raise ValueError("the answer holds no message")

    # -------------------------------------------------------------------------------------------- as a server
    def serve(self) -> AbstractContextManager[str]:
        """A server on a free port of this machine: gives its address, and ends with the block.

        It speaks `/v1/chat/completions` and `/v1/messages` (also without `/v1`), streamed and not.
        """
        return serving(self)

    # -------------------------------------------------------------------------------------------- one call
    def begin(self, request: ModelRequest, body: Mapping[str, Any] | None = None) -> Call:
        """Record a request and judge it.

        Args:
            request: what is asked, in the chat form.
            body: the same as a body of the Messages API, if it came so; then that is judged.
        Raises:
            Refused: the provider would not take it.
        """
        with self._lock:
            self.requests.append(copy.deepcopy(request))
            number = len(self.requests)
        wrong = anthropic_refusal(body) if body is not None else refusal(request.messages, self.dialect)
        segments = self._segments(request)
        tokens = sum(size for _, size in segments)
        if wrong is None and self.window_tokens is not None and tokens > self.window_tokens:
            wrong = too_long(self.dialect, tokens, self.window_tokens)
        if wrong is not None:
            self.refusals.append((number, wrong.text))
            raise Refused(wrong, self.dialect if body is None else "anthropic")
        marks = _marks(segments) if self.dialect == "anthropic" else None
        cached, written = self._cache.look(segments, marks)
        return Call(number, request, self._fault(number, request), tokens, cached, written)

    def answer(self, call: Call) -> ModelReply:
        """The answer to a call, with usage."""
        if call.fault in _TEXTS:
            reply = ScriptedModel([_TEXTS[str(call.fault)]]).complete(call.request)
        elif self._answers is None:
            reply = ScriptedModel([f"answer {call.number}"]).complete(call.request)
        else:
            reply = self._answers.complete(call.request)
        said = self._count(reply.text) + sum(self._count(c.name + c.arguments) for c in reply.message.tool_calls)
        usage = Usage(input=call.tokens, output=said, cache_read=call.cached, cache_write=call.written)
        with self._lock:
            self.usages.append(usage)
        message = msgspec.structs.replace(reply.message, usage=usage)
        return ModelReply(message, usage, reply.finish_reason, self.model)

    def pause(self, seconds: float) -> None:
        """Wait, unless the hanging calls have been released."""
        if seconds > 0:
            self._released.wait(seconds)

    def release(self) -> None:
        """Let all calls that hang go on at once, those of later too."""
        self._released.set()

    def _fault(self, number: int, request: ModelRequest) -> Fault | None:
        return _checked_fault(self._fail(number, request))

    def _segments(self, request: ModelRequest) -> list[tuple[Any, int]]:
        """What is sent, in the order in which it is cached, each with its tokens."""
        parts: list[tuple[Any, int]] = []
        if request.tools:
            parts.append((list(request.tools), self._count(json.dumps(list(request.tools), ensure_ascii=False))))
        return [*parts, *((dict(m), self._size(m)) for m in request.messages)]

    def _size(self, message: Mapping[str, Any]) -> int:
        """Tokens of a message: its text, its calls as JSON, and a fixed number for each medium."""
        content = message.get("content")
        media = sum(1 for b in blocks_of(content) if not isinstance(b, Mapping) or b.get("type") != "text")
        calls = message.get("tool_calls")
        written = self._count(json.dumps(calls, ensure_ascii=False, default=str)) if calls else 0
        return MESSAGE + self._count(text_of(content)) + written + MEDIUM * media


_TEXTS = {"empty": "", "huge": "long " * (HUGE // 5), "bad utf-8": "\udcff\udcfe"}


def _checked_fault(fault: Fault | None) -> Fault | None:
    known = fault is None or isinstance(fault, int) or fault in FAULTS
    if not known and not (str(fault).startswith("cut:") and str(fault).removeprefix("cut:").isdigit()):
        raise InvalidSpec(
            f"strict provider: unknown fault {fault!r}, use an HTTP status, cut:n, or {', '.join(FAULTS)}"
        )
    return fault


def _checked_faults(fail: Any) -> Callable[[int, ModelRequest], Fault | None]:
    if fail is None:
        return lambda number, request: None
    if callable(fail):
        return fail  # type: ignore[no-any-return]
    for fault in fail.values():
        _checked_fault(fault)
    return lambda number, request: fail.get(number)


def _model_of(answers: Any) -> Model | None:
    if answers is None or isinstance(answers, Model):
        return answers
    return _Function(answers) if callable(answers) else ScriptedModel(list(answers))


class _Function:
    """A function of the request, as a model."""

    def __init__(self, function: Callable[[ModelRequest], Any]) -> None:
        self._function = function

    def complete(self, request: ModelRequest) -> ModelReply:
        """What the function says, in any form that a scripted reply may have."""
        return ScriptedModel([self._function(request)]).complete(request)


def _marks(segments: Sequence[tuple[Any, int]]) -> list[int]:
    """Where `cache_control` stands."""
    return [at for at, (value, _) in enumerate(segments) if '"cache_control"' in json.dumps(value, default=str)]
