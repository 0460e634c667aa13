"""How many tokens a message is: by an estimate that needs nothing, or by an exact counter that is asked for by name.

    counter("estimate") -> TextCounter: text -> tokens
    count_message(message, counter) -> tokens of a message with all that is sent of it
    count_tools(tools, counter) -> tokens of tool definitions
    Correction: what reported usage teaches about the rest

Providers count with tokenizers of their own and add what we cannot see, so no count here is what the bill says. It is a
little high rather than low, and `Correction` moves it towards what the provider reports. Nothing here keeps a text.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from novelo._estimate import estimate_text
from novelo._media import audio_tokens, file_tokens, image_tokens
from novelo.errors import InvalidSpec, MissingExtra
from novelo.messages import Audio, File, Image, Message, Part, Reasoning, Text, ToolCall

__all__ = ["Correction", "TextCounter", "count_message", "count_text", "count_tools", "counter", "estimate_text"]

TextCount = Callable[[str], int]

MESSAGE = 4  # tokens for the role and the marks around a message (OpenAI cookbook: 3 to 4)
NAME = 1  # what a name costs besides its text
CALL = 6  # the marks around a tool call
TOOL = 8  # the marks around a tool definition
OPAQUE = 100  # a part of an unknown kind that cannot be written as text
EXACT = {"o200k": "o200k_base", "cl100k": "cl100k_base"}
_EXPECTED = f"estimate, {', '.join(EXACT)}, langchain:<model>, or a function text -> tokens"


class TextCounter(msgspec.Struct, frozen=True):
    """A function text -> tokens with a name; called like the function.

    Attributes:
        name: what stands in manifests: "estimate", "o200k", "langchain:…", or the name of a user's function.
        of_text: text -> tokens.
        of_message: message -> tokens, where a user's function counts whole messages itself.
    """

    name: str
    of_text: TextCount
    of_message: Callable[[Message], int] | None = None

    def __call__(self, text: str) -> int:
        """Tokens of a text."""
        return self.of_text(text)


def counter(wanted: str | Callable[..., Any] | TextCounter = "estimate") -> TextCounter:
    """The counter that a name or a function asks for.

    Args:
        wanted: "estimate"; "o200k" or "cl100k", exact and offline, from the extra `exact`; "langchain:<model>", which
            asks that model's own `get_num_tokens` (it may need the network); an object with `get_num_tokens`; or a
            function. A function takes a text, or a `Message` if its first argument is annotated or named so; which of
            the two is looked up once, in its signature.
    Raises:
        MissingExtra: the counter needs a package that is not installed.
        InvalidSpec: there is no counter of that name.
    """
    if isinstance(wanted, TextCounter):
        return wanted
    if isinstance(wanted, str):
        return _named(wanted)
    of_model = getattr(wanted, "get_num_tokens", None)
    if callable(of_model):
        return TextCounter(f"langchain:{type(wanted).__name__}", _checked(of_model, "get_num_tokens"))
    if callable(wanted):
        return _given(wanted)
    raise InvalidSpec(f"token counter: got {type(wanted).__name__}, expected {_EXPECTED}")


def count_text(text: str, count: TextCount = estimate_text) -> int:
    """Tokens of a text."""
    return count(text)


def count_message(message: Message, count: TextCount = estimate_text) -> int:
    """Tokens of a message: its text, thoughts, media by size, tool calls, names, and 4 for the message itself.

    Args:
        message: ids, usage and our own notes are not sent and not counted; the id of the call that a tool answers is.
        count: text -> tokens; a `TextCounter` with `of_message` counts the whole message itself.
    Raises:
        Whatever the counter raises, as it is: there is no second attempt with another counter.
    Example: user "Oi!" (2 tokens) -> 6.
    """
    if isinstance(count, TextCounter):
        if count.of_message is not None:
            return count.of_message(message)
        count = count.of_text
    content = message.content
    tokens = MESSAGE
    if isinstance(content, str):
        tokens += count(content)
    elif content:
        tokens += sum(_part(part, count) for part in content)
    if message.name:
        tokens += NAME + count(message.name)
    if message.tool_call_id:
        tokens += count(message.tool_call_id)
    if message.tool_calls:
        tokens += sum(_call(call, count) for call in message.tool_calls)
    if message.extra:  # what a model said elsewhere than in the content: a refusal, a call in the form of 2023
        tokens += sum(_value(message.extra[k], count) for k in ("refusal", "function_call") if message.extra.get(k))
    return tokens


def count_tools(tools: Sequence[Mapping[str, Any]], count_text: TextCount | None = None) -> int:
    """Tokens of tool definitions, counted as the JSON that is sent.

    Args:
        tools: n definitions in any provider's form.
        count_text: text -> tokens; the estimate if None.
    Raises:
        InvalidSpec: a definition cannot be written as JSON.
    """
    count = count_text or estimate_text
    tokens = 0
    for at, tool in enumerate(tools):
        try:
            tokens += TOOL + count(msgspec.json.encode(tool).decode())
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidSpec(f"tools: definition {at} cannot be written as JSON: {type(error).__name__}") from error
    return tokens


# ------------------------------------------------------------------------------------------------ parts of a message
def _part(part: Part, count: TextCount) -> int:
    """Tokens of one part of a content."""
    match part:
        case Text():
            return count(part.text)
        case Image():
            return image_tokens(part)
        case Audio():
            return audio_tokens(part)
        case File():
            return file_tokens(part) + (count(part.name) if part.name else 0)
        case Reasoning():  # a signature proves the text and is not read; encrypted thoughts are, by their bytes
            return (count(part.text) if part.text else 0) + len(part.data or "") * 3 // 16
        case _:
            return _value(part.value, count)


def _call(call: ToolCall, count: TextCount) -> int:
    return CALL + count(call.name) + count(call.arguments)


_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]{512,}")


def _value(value: Any, count: TextCount) -> int:
    """Tokens of data of an unknown kind: its JSON, long base64 inside by its bytes as a file would be."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError):
            return OPAQUE
    blobs = [len(found) for found in _BASE64.findall(text)]
    if not blobs:
        return count(text)
    return count(_BASE64.sub("", text)) + sum(file_tokens(File(data="A" * size)) for size in blobs)


# ------------------------------------------------------------------------------------------------ counters
def _named(name: str) -> TextCounter:
    """A counter by its name."""
    if name == "estimate":
        return TextCounter(name, estimate_text)
    short = name.removesuffix("_base")
    if short in EXACT:
        return TextCounter(short, functools.partial(_count_exact, _encoding(EXACT[short])))
    scheme, _, model = name.partition(":")
    if scheme == "langchain" and model:
        return TextCounter(name, _checked(_langchain_model(model).get_num_tokens, name))
    raise InvalidSpec(f"token counter {name!r}: expected {_EXPECTED}")


@functools.cache
def _encoding(name: str) -> Callable[[str], list[int]]:
    """The tokenizer of this name; loaded once (some 0.1 s), it keeps no text."""
    try:
        with warnings.catch_warnings():  # it reads its data in a way that Python calls deprecated
            warnings.simplefilter("ignore", DeprecationWarning)
            import bpe_openai

            encode: Callable[[str], list[int]] = bpe_openai.get_encoding(name).encode_ordinary
    except ImportError as error:
        raise MissingExtra(
            f"exact counting ({name}) needs bpe-openai: pip install 'novelo[exact]', or use counter=\"estimate\"",
            extra="exact",
        ) from error
    return encode


_LONGEST = 50_000  # characters: bpe-openai refuses more than 200,000 tokens, and a character is at most four


def _count_exact(encode: Callable[[str], list[int]], text: str) -> int:
    """Exact tokens; a long text in pieces, cut where no token can reach across."""
    if len(text) <= _LONGEST:
        return len(encode(text))
    tokens = at = 0
    while at < len(text):
        end = _cut(text, at, at + _LONGEST)
        tokens += len(encode(text[at:end]))
        at = end
    return tokens


def _cut(text: str, at: int, end: int) -> int:
    """The last place up to `end` before a single space between two letters; `end` if there is none near."""
    if end >= len(text):
        return len(text)
    space = end
    for _ in range(200):
        space = text.rfind(" ", at + 1, space)
        if space < 0:
            break
        if text[space - 1].isalpha() and text[space + 1].isalpha():
            return space
    return end


def _langchain_model(model: str) -> Any:
    """A chat model of LangChain by its name, "provider:model"."""
    try:
        models = importlib.import_module("langchain.chat_models")
    except ImportError as error:
        raise MissingExtra(
            f"counter 'langchain:{model}' needs LangChain: pip install 'novelo[langchain]'", extra="langchain"
        ) from error
    return models.init_chat_model(model)


def _given(function: Callable[..., Any]) -> TextCounter:
    """A user's function as a counter."""
    name = getattr(function, "__name__", type(function).__name__)
    checked = _checked(function, name)
    if not _takes_message(function):
        return TextCounter(name, checked)
    return TextCounter(name, lambda text: checked(Message(role="user", content=text)), checked)


def _takes_message(function: Callable[..., Any]) -> bool:
    """Whether the first argument of a function is a message, by its annotation or else its name."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # built in C without a signature
        return False
    if first is None:
        return False
    if first.annotation is inspect.Parameter.empty:
        return first.name in ("message", "msg")
    return first.annotation is Message or str(first.annotation).rpartition(".")[2] == "Message"


def _checked(function: Callable[[Any], Any], name: str) -> Callable[[Any], int]:
    """A user's function whose result must be a number of tokens. What it raises is not touched."""

    def count(value: Any) -> int:
        tokens = function(value)
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise InvalidSpec(f"token counter {name}: gave {tokens!r}, expected a whole number, 0 or more")
        return tokens

    return count


# ------------------------------------------------------------------------------------------------ learning from usage
class Correction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to add to the count of a context so that it meets what the provider reports; one for each model.

    It is additive, since what a count misses is mostly a fixed part (a hidden prompt, the marks of tools): a factor
    learnt on a short context would be absurd on a long one. It is the median of the last differences, so that one odd
    report moves nothing, and never more than 20 % of the context, so that no report can switch a budget off.

    Example: counted 1000 and reported 1100, 1000 and 1120, 1000 and 5000 (held to 200) -> differences 100, 120, 200, so
    120 are added: a context of 2000 counts as 2120, one of 300 as 360 (20 %).

    Attributes:
        model: whose reports these are.
        differences: reported minus counted of the last calls, oldest first, at most 5.
    """

    model: str = ""
    differences: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """What to add to a context of ordinary size: the median of the differences, 0 before the first report."""
        return sorted(self.differences)[len(self.differences) // 2] if self.differences else 0

    def learned(self, counted: int, reported: int | None) -> Correction:
        """The correction after one more call.

        Args:
            counted: tokens of the context by our counter, without correction.
            reported: input tokens as the provider reports them, cached ones too; None or 0 is unknown and changes
                nothing.
        """
        if not reported or counted <= 0:
            return self
        return Correction(self.model, (*self.differences, _bounded(reported - counted, counted))[-_REMEMBERED:])

    def apply(self, counted: int) -> int:
        """The corrected count of a context."""
        return counted + _bounded(self.tokens, counted)


_REMEMBERED = 5  # calls


def _bounded(difference: int, counted: int) -> int:
    """A difference held within 20 % of a count."""
    most = counted // 5
    return max(-most, min(most, difference))
