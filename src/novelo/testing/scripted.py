"""A model whose answers are written beforehand, and which remembers what it was asked.

    model = ScriptedModel(["Olá, Ana!", {"role": "assistant", "tool_calls": [...]}, TimeoutError("slow")])
    ...
    assert model.requests[0].messages[-1]["content"] == "Meu nome é Ana."

Each request takes the next reply. A reply is

    a text                          the answer
    a dict                          an assistant's message in the OpenAI Chat form, or a whole chat completion
    a Message, a ModelReply         as it stands
    a list                          the pieces of a stream; an exception among them breaks the stream there
    an exception (or its class)     raised
    a function of the request       gives one of these
"""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from novelo.asking import ModelReply, ModelRequest
from novelo.errors import NoveloError
from novelo.messages import Message, Usage
from novelo.models.base import ModelDelta, as_delta, collect
from novelo.models.chat import estimated_usage, message_of, usage_of

WORDS = re.compile(r"\s*\S+\s*|\s+")


class ScriptEnded(NoveloError, AssertionError):
    """A scripted model was asked more often than it has replies."""


class ScriptedModel:
    """Answers from a list, in order.

    Attributes:
        requests: what it was asked, oldest first; copies, so that later changes of a list do not show.
    """

    name = "scripted"

    def __init__(self, replies: Sequence[Any] = ()) -> None:
        """Take n replies; see the head of this file."""
        if isinstance(replies, (str, bytes, dict)):
            raise TypeError(
                f"ScriptedModel takes a list of replies, got one {type(replies).__name__}: put it in a list"
            )
        self._replies = list(replies)
        self._next = 0
        self._lock = threading.Lock()  # a background worker and a turn may ask at the same time
        self.requests: list[ModelRequest] = []

    @property
    def left(self) -> int:
        """How many replies have not been given yet."""
        return max(0, len(self._replies) - self._next)

    def complete(self, request: ModelRequest | Sequence[Any] | str) -> ModelReply:
        """The next reply.

        Args:
            request: a request, a list of messages, or the text of one user message.
        Raises:
            ScriptEnded: there is none left.
            Exception: the next reply is an exception.
        """
        asked, reply = self._take(request)
        return self._whole(asked, reply)

    async def acomplete(self, request: ModelRequest | Sequence[Any] | str) -> ModelReply:
        """`complete`, awaited."""
        asked, reply = self._take(request)
        return self._whole(asked, reply)

    def __call__(self, request: ModelRequest | Sequence[Any] | str) -> ModelReply:
        """`complete`, for code that takes a function."""
        asked, reply = self._take(request)
        return self._whole(asked, reply)

    def stream(self, request: ModelRequest | Sequence[Any] | str) -> Iterator[ModelDelta]:
        """The next reply word by word, usage and finish reason in the last piece. The request is recorded at once."""
        asked, reply = self._take(request)
        return self._pieces(asked, reply)

    def _take(self, request: ModelRequest | Sequence[Any] | str) -> tuple[ModelRequest, Any]:
        """Record a request and take the next reply for it; exceptions are raised, functions asked."""
        asked = _as_request(request)
        with self._lock:
            self.requests.append(copy.deepcopy(asked))
            place = self._next
            self._next += 1
        if place >= len(self._replies):
            raise ScriptEnded(
                f"scripted model: asked {len(self.requests)} times, has {len(self._replies)} replies"
                f" (this request: {asked.purpose}, {len(asked.messages)} messages)",
                asked=len(self.requests),
                replies=len(self._replies),
            )
        reply = self._replies[place]
        if callable(reply) and not isinstance(reply, type):
            reply = reply(asked)
        if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
            raise reply
        return asked, reply

    def _whole(self, asked: ModelRequest, reply: Any) -> ModelReply:
        """A reply in whichever form it was written, as a `ModelReply` with usage."""
        if isinstance(reply, (list, tuple)):
            reply = collect(self._written_pieces(reply))
        if not isinstance(reply, ModelReply):
            reply = self._read(reply)
        if reply.usage is not None:
            return _with(reply, reply.usage, self.name)
        return _with(reply, estimated_usage(asked.messages, asked.tools, reply.message), self.name)

    def _read(self, reply: Any) -> ModelReply:
        if isinstance(reply, str):
            return ModelReply(Message("assistant", reply), None, "stop")
        if isinstance(reply, Message):
            return ModelReply(reply, reply.usage, _reason(reply))
        if isinstance(reply, dict):
            choice: Any = reply["choices"][0] if reply.get("choices") else {"message": reply}
            message = message_of(choice["message"])
            usage = usage_of(reply.get("usage"))
            return ModelReply(message, usage, choice.get("finish_reason") or _reason(message), raw=reply)
        raise TypeError(
            f"scripted model: a reply is {type(reply).__name__}, expected a text, dict, Message or exception"
        )

    def _pieces(self, asked: ModelRequest, reply: Any) -> Iterator[ModelDelta]:
        if isinstance(reply, (list, tuple)):
            yield from self._written_pieces(reply)
            if all(isinstance(piece, str) for piece in reply):
                whole = self._whole(asked, reply)
                yield ModelDelta(usage=whole.usage, finish_reason="stop", model=whole.model)
            return
        whole = self._whole(asked, reply)
        for word in WORDS.findall(whole.text):
            yield ModelDelta(word)
        last = as_delta(whole)
        yield ModelDelta("", "", last.tool_calls, last.usage, last.finish_reason, last.model)

    def _written_pieces(self, pieces: Sequence[Any]) -> Iterator[ModelDelta]:
        for piece in pieces:
            if isinstance(piece, BaseException) or (isinstance(piece, type) and issubclass(piece, BaseException)):
                raise piece
            yield piece if isinstance(piece, ModelDelta) else ModelDelta(piece)


def _reason(message: Message) -> str:
    return "tool_calls" if message.tool_calls else "stop"


def _as_request(request: ModelRequest | Sequence[Any] | str) -> ModelRequest:
    if isinstance(request, ModelRequest):
        return request
    return ModelRequest([{"role": "user", "content": request}] if isinstance(request, str) else [*request])


def _with(reply: ModelReply, usage: Usage, model: str) -> ModelReply:
    """A reply that says who answered and what it cost."""
    message = reply.message
    if message.usage is None:
        message = msgspec.structs.replace(message, usage=usage)
    return ModelReply(message, usage, reply.finish_reason or "stop", reply.model or model, reply.raw)
