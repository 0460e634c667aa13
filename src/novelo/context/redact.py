"""Masks what must not leave: secrets, card numbers, e-mail addresses, Brazilian tax ids, or a pattern of your own.

The transcript is not touched (that is `thread.redact`); this is a mask on the way out, over every text, result and
argument of the context. The newest question goes out as it was asked: the model is to act on it ("my address is …, find
my order"), and it is masked from the next question on. The word `question` masks it too. Masks are fixed texts that no
pattern matches, so masking twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from novelo.context.draft import Draft
from novelo.errors import InvalidSpec
from novelo.messages import Message, Part, Text, ToolCall
from novelo.pattern import MASK
from novelo.transcript import Entry, Step, Turn


def luhn(digits: str) -> bool:
    """Whether a number has the check digit of a payment card (ISO/IEC 7812-1, annex B)."""
    total = 0
    for i, digit in enumerate(reversed(digits)):
        n = int(digit) * (1 + i % 2)
        total += n - 9 if n > 9 else n
    return total % 10 == 0


def _card(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match[0])
    return "[card]" if 13 <= len(digits) <= 19 and luhn(digits) else match[0]


_SECRETS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{0,8000}?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk)[-_](?:[a-z0-9]+[-_])*[A-Za-z0-9_-]{16,}"  # API keys of OpenAI, Anthropic, Stripe and their like
    r"|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"  # JSON web tokens
)
_LABELLED = re.compile(
    r"(?i)\b(password|passwd|senha|secret|api[_-]?key|token|密码)(\s*[:=]\s*|\s+is\s+|\s+é\s+)(?!\[)([^\s\"',;]{6,})"
)


@dataclass(frozen=True)
class Mask:
    """One kind of thing to mask."""

    pattern: re.Pattern[str]
    put: str | Callable[[re.Match[str]], str]

    def __call__(self, text: str) -> str:
        """The text with every match masked."""
        return self.pattern.sub(self.put, text)


MASKS: dict[str, tuple[Mask, ...]] = {
    "secrets": (Mask(re.compile(_SECRETS), "[secret]"), Mask(_LABELLED, r"\1\2[secret]")),
    "cards": (Mask(re.compile(r"(?<![\d.])\d(?:[ -]?\d){12,18}(?![\d.])"), _card),),
    "emails": (Mask(re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"), "[e-mail]"),),
    "cpf": (Mask(re.compile(r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b"), "[cpf]"),),
}


@dataclass(frozen=True)
class Redact:
    """Masks kinds of things by name (`MASKS`), and patterns of your own."""

    kinds: tuple[str, ...] = ("secrets",)
    patterns: tuple[str, ...] = ()
    question: bool = False

    def __post_init__(self) -> None:
        unknown = [k for k in self.kinds if k not in MASKS]
        if unknown or not (self.kinds or self.patterns):
            raise InvalidSpec(f"redact {', '.join(unknown) or 'nothing'}: expected some of {', '.join(MASKS)}")
        for pattern in self.patterns:
            if not pattern:
                raise InvalidSpec("redact pattern '': expected a regular expression")
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidSpec(f"redact pattern {pattern!r}: {error}") from error

    def __str__(self) -> str:
        return "redact:" + ",".join(
            self.kinds + tuple(f"pattern={p}" for p in self.patterns) + ("question",) * self.question
        )

    def __call__(self, draft: Draft) -> Draft:
        """The draft with every match masked, the system message too."""
        newest = None if self.question else next((t.user for t in draft.turns if t.user is not None), None)

        def turn(given: Turn) -> Turn:
            user = given.user if given.user is None or given.user is newest else self._entry(given.user)
            return Turn(user, tuple(Step(self._entry(s.head), tuple(map(self._entry, s.results))) for s in given.steps))

        return replace(draft.mapped(turn), opening=tuple(map(self._entry, draft.opening)))

    def text(self, text: str) -> str:
        """A text with every match masked."""
        for kind in self.kinds:
            for mask in MASKS[kind]:
                text = mask(text)
        for pattern in self.patterns:
            text = re.sub(pattern, lambda match: MASK if match[0] else "", text)  # `[0-9]*` finds nothing too
        return text

    def _entry(self, entry: Entry) -> Entry:
        message = self.message(entry.message)
        return entry if message is entry.message else entry.altered(message, str(self))

    def message(self, message: Message) -> Message:
        """The message with every match masked; the same object if there is none."""
        content: Any = message.content
        if isinstance(content, str):
            content = self.text(content)
        elif content is not None:
            content = tuple(map(self._part, content))
        calls = tuple(map(self._call, message.tool_calls))
        if content == message.content and calls == message.tool_calls:
            return message
        return msgspec.structs.replace(message, content=content, tool_calls=calls)

    def _part(self, part: Part) -> Part:
        return msgspec.structs.replace(part, text=self.text(part.text)) if isinstance(part, Text) else part

    def _call(self, call: ToolCall) -> ToolCall:
        if self.text(call.arguments) == call.arguments:
            return call
        try:  # numbers may be cards too, and a mask must not break the JSON
            value = msgspec.json.decode(call.arguments)
            arguments = msgspec.json.encode(self._value(value)).decode()
        except (msgspec.MsgspecError, ValueError, RecursionError):
            arguments = self.text(call.arguments)
        return msgspec.structs.replace(call, arguments=arguments)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(k): self._value(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._value(v) for v in value]
        if isinstance(value, int) and not isinstance(value, bool) and self.text(str(value)) != str(value):
            return self.text(str(value))
        return value
