"""Providers' forms and ours: each file translates one of them both ways, here is the way in.

    openai      chat dicts; `developer`, refusals, the older functions
    anthropic   a system prompt apart, and messages of blocks
    responses   items of OpenAI's Responses API
    langchain   message objects
    gemini      contents and system instruction; out only
    mistral     chat dicts with Mistral's call ids; they are read as openai
    message     our own

Reading loses nothing: what was read from a form and is written in it comes out equal. Writing another form translates
what it knows and leaves out what only the first could understand (signed thoughts, cache marks).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from novelo.errors import InvalidMessage, InvalidSpec
from novelo.formats._detect import detect
from novelo.formats._normal import normalize
from novelo.formats.anthropic import AnthropicForm, from_anthropic, to_anthropic
from novelo.formats.openai import from_openai, to_openai
from novelo.messages import Message

__all__ = ["FORMS", "detect", "normalize", "read", "write", "writer"]

FORMS = ("openai", "anthropic", "responses", "langchain", "gemini", "mistral", "message")


def read(messages: Any, form: str | None = None) -> list[Message]:
    """A list of any form as messages.

    Args:
        messages: n messages, oldest first; Anthropic's also as the whole body or `AnthropicForm`, with its system
            prompt.
        form: the form, if known; else it is detected. Chat dicts, LangChain messages and our own may stand mixed.
    Returns:
        The messages; one Anthropic message with several tool results becomes several.
    Raises:
        InvalidMessage: no list, or one of them is no message; `position` says which.
        InvalidSpec: no such form, or one that is only written.
    """
    if isinstance(messages, AnthropicForm):
        return from_anthropic(messages.messages, messages.system)
    if isinstance(messages, Mapping) and "messages" in messages:
        return from_anthropic(messages["messages"], messages.get("system"))
    if not isinstance(messages, (list, tuple)):
        raise InvalidMessage(f"expected a list of messages, got {type(messages).__name__}")
    wanted = form or detect(messages)
    if wanted == "anthropic":
        return from_anthropic(messages)
    if wanted == "responses":
        from novelo.formats.responses import from_responses

        return from_responses(list(messages))
    if wanted not in ("openai", "langchain", "message", "mistral"):
        raise InvalidSpec(f"form {wanted!r}: expected one of {', '.join(f for f in FORMS if f != 'gemini')}")
    out = []
    for position, message in enumerate(messages):
        try:
            out.append(_one(message))
        except InvalidMessage as error:
            raise InvalidMessage(f"message {position}: {error}", position=position) from error
    return out


def write(messages: Sequence[Message], form: str) -> Any:
    """Messages in a form.

    Args:
        messages: n messages, oldest first.
        form: one of `FORMS`.
    Returns:
        A list; for anthropic an `AnthropicForm` (system, messages); for gemini a dict with contents.
    Raises:
        InvalidSpec: no such form.
    """
    if form == "anthropic":
        return to_anthropic(messages)
    if form == "responses":
        from novelo.formats.responses import to_responses

        return to_responses(list(messages))
    if form == "gemini":
        from novelo.formats.gemini import to_gemini

        return to_gemini(messages)
    if form == "mistral":
        from novelo.formats.mistral import to_mistral

        return to_mistral(messages)
    return [*map(writer(form), messages)]


def writer(form: str) -> Callable[[Message], Any]:
    """The function that writes one message, for the forms in which one message is one message.

    Raises:
        InvalidSpec: not openai, langchain or message.
    """
    if form == "openai":
        return to_openai
    if form == "message":
        return _itself
    if form == "langchain":
        from novelo.formats.langchain import to_langchain

        return to_langchain
    raise InvalidSpec(f"form {form!r}: expected one of {', '.join(FORMS)}")


def _itself(message: Message) -> Message:
    return message


def _one(message: Any) -> Message:
    if isinstance(message, Message):
        return message
    shorthand = isinstance(message, (str, tuple))
    if isinstance(message, Mapping) or not (shorthand or (hasattr(message, "type") and hasattr(message, "content"))):
        return from_openai(message)
    from novelo.formats.langchain import from_langchain

    return from_langchain(message)
