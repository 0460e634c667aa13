"""Check a plain list, and mend it: the whole list, no policy.

`repair` is what every context goes through on its way out, offered to those who keep their lists themselves. It only
adds what the provider asks for and takes away what no provider accepts; everything that the user said stays, in order.
A valid list comes back equal, made of the same objects; repairing twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from novelo import formats
from novelo.context.listing import ListSource
from novelo.errors import InvalidMessage
from novelo.formats.anthropic import AnthropicForm
from novelo.messages import Message
from novelo.protocol import Violation, check_messages, dialect
from novelo.transcript import Entry, TurnReader
from novelo.wire import WRITTEN_RESULT, Wire


class Change(msgspec.Struct, frozen=True):
    """One thing that `repair` did: `what` (made, removed, or the rule that altered it) to the message at a position."""

    position: int
    what: str
    role: str = ""

    def __str__(self) -> str:
        return (
            f"message {self.position} ({self.role}): {self.what}"
            if self.role
            else f"message {self.position}: {self.what}"
        )


class Repaired(msgspec.Struct, frozen=True):
    """A list that can be sent, in the form that came in, and what was changed to get there."""

    messages: Any
    changes: list[Change]


def check(messages: Sequence[Any], provider: str = "openai") -> list[Violation]:
    """What a provider would refuse in a list; empty means that it can be sent.

    Args:
        messages: n messages in any form, oldest first; positions in the result are places in this list (of the messages
            read from it, where one Anthropic message holds several results).
        provider: openai, anthropic, gemini, mistral, strict.
    Raises:
        InvalidSpec: unknown provider.
        InvalidMessage: not a list of messages.
    """
    rules = dialect(provider)
    source = _whole(messages)
    return check_messages([source.entry(i).message for i in range(source.end)], rules)


def repair(messages: Sequence[Any], provider: str = "openai") -> Repaired:
    """A list that the provider takes.

    Args:
        messages: n messages in any form, oldest first.
        provider: openai, anthropic, gemini, mistral, strict.
    Returns:
        The mended list, in the same form, and the changes; no change gives back the given list itself.
    Raises:
        InvalidMessage: not a list of messages.
    Example: question, call c1, question -> question, call c1, "[no result was recorded for this call]", question.
    """
    rules = dialect(provider)
    source = _whole(messages)
    given = [source.entry(i) for i in range(source.end)]
    if not check_messages([e.message for e in given], rules):
        return Repaired(messages, [])
    reader = TurnReader(written_results="" if rules.tools else WRITTEN_RESULT)
    turns = list(reader.newest_first(source.newest_first()))
    turns.reverse()
    opening = [e for e in source.opening() if e.message.text.strip()]
    out = Wire(rules, begin=source.begin).assemble(opening, turns)
    changes = _changes(given, out, reader.findings.left_out)
    return Repaired(_written(out, source.form, messages), changes)


def _changes(given: Sequence[Entry], out: Sequence[Entry], left_out: dict[int, str]) -> list[Change]:
    kept = {e.position for e in out if e.changed != "made"}
    found = [Change(e.position, e.changed, e.message.role) for e in out if e.changed]
    found += [
        Change(e.position, f"removed: {left_out.get(e.position, 'joined or says nothing')}", e.message.role)
        for e in given
        if e.position not in kept
    ]
    moved = [e.position for e in out if e.changed != "made"]
    if not found and moved != sorted(moved):
        found += [Change(b, "moved") for a, b in pairwise(moved) if b < a]
    return sorted(found, key=lambda change: change.position)


def _written(out: Sequence[Entry], form: str, given: Any) -> Any:
    """The mended list in the form that came in; Anthropic messages stay a plain list without a system prompt."""
    if form in ("openai", "langchain", "message"):
        write = formats.writer(form)
        return [write(e.message) if e.source is None else e.source for e in out]
    written = formats.write([e.message for e in out], form)
    if isinstance(written, AnthropicForm):
        if type(given) in (list, tuple) and written.system is None:
            return written.messages
        return written.body() if isinstance(given, Mapping) else written
    return written


def _whole(messages: Sequence[Any]) -> ListSource:
    return ListSource(messages, _no_count, form=formats.detect(messages) if type(messages) in (list, tuple) else None)


def _no_count(message: Message) -> int:
    raise InvalidMessage("not counted")
