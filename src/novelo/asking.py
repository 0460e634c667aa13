"""What a model is asked and what it answers, as values; logic that must ask is a generator of them.

    def standalone_question(...) -> Flow[str]:
        reply = yield ModelRequest([...], purpose="condense")
        return reply.text

Such a flow knows no model: it is run sync, async, in a graph node, or by a test that answers by hand; see
`models/base.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

import msgspec

from novelo.messages import Message, Usage

T = TypeVar("T")


class ModelRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model is asked.

    Attributes:
        messages: n messages in the OpenAI Chat form, system messages among them; sent as they stand.
        tools: definitions in the OpenAI form, {"type": "function", "function": {...}}.
        model: which model, where one backend serves several; None leaves it to the backend.
        purpose: why it is asked: "reply", "summary", "condense", …; for the usage ledger, never sent.
        max_output_tokens: a limit for the reply, in tokens.
        temperature: as the provider understands it.
        stream: whether the asker would rather have it piece by piece; a hint.
        passages: n texts, or dicts or objects with a text, found for this question. They stand in the messages
            already, for models that read; the offline model and tests look here.
        question: the newest question so that it makes sense alone, where it was rewritten; for the same.
        extra: further options, handed to the backend as they are.
    """

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    model: str | None = None
    purpose: str = "reply"
    max_output_tokens: int | None = None
    temperature: float | None = None
    stream: bool = False
    passages: Sequence[Any] = ()
    question: str = ""
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        """Purpose and sizes: what was said belongs into no log."""
        return f"ModelRequest({self.purpose}, {len(self.messages)} messages, {len(self.tools)} tools)"


class ModelReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model answered.

    Attributes:
        message: the assistant's message, ready to be stored.
        usage: tokens as the provider reports them; None if it said nothing.
        finish_reason: "stop", "length", "tool_calls", … in the provider's word.
        model: who answered, as the provider names it.
        raw: the SDK's own object, or None.
    """

    message: Message
    usage: Usage | None = None
    finish_reason: str | None = None
    model: str | None = None
    raw: Any = None

    @property
    def text(self) -> str:
        """The visible text of the answer."""
        return self.message.text

    def __repr__(self) -> str:
        """The message's size, never its text."""
        return f"ModelReply({self.message!r}, finish_reason={self.finish_reason!r})"


Flow = Generator[ModelRequest, ModelReply, T]
