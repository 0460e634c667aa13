"""The message and its parts: values that every provider's form is translated into and out of.

A message is one contribution to a conversation. Its content is a text, or typed parts in order. What a provider adds
that we have no field for stays in `extra`, untouched, and goes back out to the same provider. What *we* note about a
message (that it is a partial answer, that it was made up to fill a gap) stands in `meta` and is never sent.

All values are frozen: equal content is equal. Positions and order belong to the transcript (`transcript.py`).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from novelo.errors import InvalidMessage
from novelo.quiet import Quiet

Role = Literal["system", "user", "assistant", "tool"]
ROLES = ("system", "user", "assistant", "tool")


class _Part(Quiet, msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind"):
    """What all parts share: `extra` keeps fields that we have no name for."""

    SAID = frozenset(("text", "url", "data", "name", "value", "extra"))

    extra: dict[str, Any] = {}


class Text(_Part, frozen=True, tag="text", kw_only=True):
    """A piece of text."""

    text: str


class Image(_Part, frozen=True, tag="image", kw_only=True):
    """A picture: an address (a `data:` URL too), or base64 `data` with its media type, or a provider's `file_id`."""

    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    detail: str | None = None


class Audio(_Part, frozen=True, tag="audio", kw_only=True):
    """Sound: base64 `data` with its format or media type, an address, or a provider's id."""

    data: str | None = None
    url: str | None = None
    media_type: str | None = None
    file_id: str | None = None


class File(_Part, frozen=True, tag="file", kw_only=True):
    """A document: base64 `data`, an address, or a provider's `file_id`."""

    data: str | None = None
    url: str | None = None
    media_type: str | None = None
    name: str | None = None
    file_id: str | None = None


class Reasoning(_Part, frozen=True, tag="reasoning", kw_only=True):
    """What the model thought; `signature` and `data` (redacted or encrypted) are the provider's and never edited."""

    text: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None


class Other(_Part, frozen=True, tag="other", kw_only=True):
    """A part of a kind we do not know, kept whole."""

    value: Any = None


Part = Text | Image | Audio | File | Reasoning | Other
MEDIA = (Image, Audio, File)


class ToolCall(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """The model's request to run a tool; `arguments` is the JSON text exactly as the model wrote it."""

    SAID = frozenset(("arguments", "extra"))

    id: str
    name: str
    arguments: str = "{}"
    extra: dict[str, Any] = {}


class Usage(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model call as the provider reports them; `input` counts all of the input, cached tokens too."""

    SAID = frozenset(("raw",))

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    raw: dict[str, Any] = {}


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One contribution to a conversation.

    `content` is None where there is none (an assistant that only calls tools). `extra` are the provider's further
    fields; `meta` are our own notes, never sent: `made` (why we put the message there), `status` ("error"), `partial`
    (an answer that was cut off), `normalized` (lone surrogates were replaced), `model` (who wrote it).
    """

    role: Role
    content: str | tuple[Part, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    id: str | None = None
    usage: Usage | None = None
    extra: dict[str, Any] = {}
    meta: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The visible text: the content, or its text parts joined by line breaks."""
        content = self.content
        if content is None or content.__class__ is str:
            return content or ""
        return "\n".join(part.text for part in content if part.__class__ is Text)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts; a plain text is one part, no content is none."""
        content = self.content
        if content is None:
            return ()
        return (Text(text=content),) if isinstance(content, str) else content

    def __repr__(self) -> str:
        """Role, id and size: what was said belongs into no log."""
        calls = f", {len(self.tool_calls)} calls" if self.tool_calls else ""
        return f"Message({self.role}, {len(self.text)} characters{calls})"


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Message)
MAX_DEPTH = 64  # of nested lists and dicts in anything we store (reliability: checked before parsing)


def encode(message: Message) -> bytes:
    """A message as JSON bytes: what is stored.

    Raises:
        InvalidMessage: something in `extra` is not data, or is nested deeper than 64 levels.
    """
    try:
        return _ENCODER.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"a {message.role} message cannot be written as JSON: {type(error).__name__}") from error


def decode(body: bytes) -> Message:
    """A message from the bytes that `encode` made. Only our own structs are built; data can name nothing else.

    Raises:
        InvalidMessage: the bytes are not such a message.
    """
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidMessage(f"stored bytes are no message: {type(error).__name__}") from error


def is_blank(message: Message) -> bool:
    """Whether a message says nothing: no text but white space, no media, no call. Thoughts alone say nothing either."""
    content = message.content
    if message.tool_calls:
        return False
    if content is None:
        return True
    if isinstance(content, str):
        return not content.strip()
    return all(isinstance(p, Reasoning) or (isinstance(p, Text) and not p.text.strip()) for p in content)
