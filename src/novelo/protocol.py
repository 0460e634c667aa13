"""What may follow what: the one table of legal moves, and the check that holds messages against it.

A conversation is a game of three players. Whose move it is, what arrives, and whose move it is then:

    opening   system message          -> opening        model   reply                -> user
              user message            -> model                  tool calls           -> tools
                                                        tools   tool result          -> tools
    user      user message            -> model                  last tool result     -> model

A context can be sent when it is the model's move. Providers differ in the details: `DIALECTS` holds them as data. Where
a rule stands here, the provider (or the chat template) was seen to refuse its breach; the grade "house" marks the few
rules that only we ask for, because no reader can make sense of a breach (a blank message, one call id twice in a
message).

This file knows no store, no policy and no clock. Mending a list is `transcript.py` (pairing) and `wire.py` (provider
details).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from novelo.errors import InvalidSpec
from novelo.messages import Message, is_blank

NEXT = {  # whose move it is -> what arrives -> whose move it is then
    "opening": {"system": "opening", "user": "model", "reply": "user", "tool calls": "tools"},
    "model": {"user": "model", "reply": "user", "tool calls": "tools", "system": "model"},
    "tools": {"tool result": "tools", "last tool result": "model"},
    "user": {"user": "model", "reply": "user", "tool calls": "tools", "system": "user"},
}


@dataclass(frozen=True)
class Dialect:
    """What one provider, or one family of chat templates, asks beyond the table.

    Attributes:
        opens_with_user: refuses a list whose first message is the assistant's.
        opens_with_call: takes a list that opens with a call of the assistant's.
        blank_text: takes a text of white space only (ours is stricter: see "empty-text").
        system_inside: takes system messages behind the opening.
        one_system: takes a single system message only.
        user_after_result: takes a user message directly behind a tool result.
        alternates: wants user and assistant strictly in turn.
        tools: has tool calls and results at all; without, they are written out as text.
        call_id: the form of a call's id, None for any.
    """

    name: str
    opens_with_user: bool = False
    opens_with_call: bool = True
    system_inside: bool = False
    one_system: bool = False
    user_after_result: bool = True
    alternates: bool = False
    tools: bool = True
    call_id: re.Pattern[str] | None = None


DIALECTS = {
    # OpenAI Chat Completions: system anywhere, two users or two assistants in a row are fine (recorded requests).
    "openai": Dialect("openai", system_inside=True),
    # Anthropic Messages: "first message must use the user role"; tool_use.id matches '^[a-zA-Z0-9_-]+$'.
    "anthropic": Dialect(
        "anthropic", opens_with_user=True, opens_with_call=False, call_id=re.compile(r"[a-zA-Z0-9_-]+")
    ),
    # Gemini generateContent: "function call turn comes immediately after a user turn or after a function response
    # turn".
    "gemini": Dialect("gemini", opens_with_call=False),
    # Mistral chat: "Unexpected role 'user' after role 'tool'" (code 3230); its validator counts calls from the second
    # message on.
    "mistral": Dialect("mistral", opens_with_call=False, user_after_result=False),
    # Gemma, Llama-2, Mistral v1 templates: "Conversation roles must alternate user/assistant/user/assistant/..."; no
    # tool messages.
    "strict": Dialect(
        "strict",
        opens_with_user=True,
        opens_with_call=False,
        one_system=True,
        user_after_result=False,
        alternates=True,
        tools=False,
    ),
}

RULES = {
    "empty-list": "a request holds at least one message besides the system message",
    "first-not-user": "the first message behind the system message is the user's",
    "call-turn-first": "a call comes behind a user message or a tool result",
    "system-inside": "system messages stand at the head only",
    "no-content": "every message says something: text, media or a tool call",
    "empty-text": "a text is not blank",
    "bad-shape": "a call has an id and a name, a tool result names its call",
    "bad-arguments": "a call's arguments are the text of a JSON object",
    "tool-orphan": "a tool result answers a call of the message directly before the results",
    "tool-duplicate": "a call has one result",
    "call-unanswered": "the results of a call's message follow it directly, one for each call",
    "dup-call-id": "a call id stands once in a message",
    "call-id-format": "a call id has only the characters the provider takes",
    "user-after-tool": "the assistant speaks between a tool result and the next user message",
    "not-alternating": "user and assistant messages take turns",
    "tool-unsupported": "the template knows no tool calls or results",
    "hidden-call": "a tool call stands in `tool_calls`, not in a content block",
}


class Violation(msgspec.Struct, frozen=True):
    """One breach: the rule's id (a key of `RULES`), the position in the list, and what was found there."""

    rule: str
    position: int
    reason: str

    def __str__(self) -> str:
        return f"{self.rule} at message {self.position}: {self.reason}"


def dialect(provider: str) -> Dialect:
    """The dialect of a provider's name.

    Raises:
        InvalidSpec: no such provider.
    """
    found = DIALECTS.get(provider) if isinstance(provider, str) else None
    if found is None:
        raise InvalidSpec(f"unknown provider {provider!r}: use one of {', '.join(DIALECTS)}")
    return found


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_json_object(text: object) -> bool:
    """Whether a text is a JSON object. Values are skipped, not built, so size does no harm; too deep is a no."""
    if text == "{}":
        return True
    if not isinstance(text, str):
        return False
    try:
        _OBJECT.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def check_messages(messages: Sequence[Message], rules: Dialect) -> list[Violation]:
    """Every breach of a dialect's rules, in order of place; empty means that the list can be sent.

    Args:
        messages: n messages, oldest first. The list may rest at any player's move but the tools'.
        rules: the dialect.
    """
    found = [*_opening(messages, rules), *_contents(messages), *_pairing(messages, rules), *_order(messages, rules)]
    return sorted(set(found), key=lambda v: v.position) if found else found


def _opening(messages: Sequence[Message], rules: Dialect) -> Iterator[Violation]:
    systems = 0
    for i, message in enumerate(messages):
        if message.role == "system":
            systems += 1
            continue
        if message.role == "assistant" and rules.opens_with_user:
            yield Violation("first-not-user", i, "opens with the assistant")
        break
    else:
        if messages:
            yield Violation("empty-list", 0, "nothing but system messages")
        else:
            yield Violation("empty-list", 0, "no messages")
    if rules.one_system and systems > 1:
        yield Violation("system-inside", 1, f"{systems} system messages")
    if not rules.opens_with_call:
        for i in range(systems, len(messages)):
            if messages[i].role != "assistant":
                break
            if messages[i].tool_calls:
                yield Violation("call-turn-first", i, "opens with a tool call")
                break


def _contents(messages: Sequence[Message]) -> Iterator[Violation]:
    from novelo.formats.openai import hidden_calls

    for i, message in enumerate(messages):
        content = message.content
        if message.role == "tool":
            if content is None or content == ():
                yield Violation("no-content", i, "tool result without content")
        elif is_blank(message):
            kind = "no-content" if content is None or content == () else "empty-text"
            yield Violation(kind, i, f"{message.role} message that says nothing")
        elif content.__class__ is tuple and message.role == "assistant" and hidden_calls(message):
            yield Violation("hidden-call", i, "tool call inside a content block")


def _pairing(messages: Sequence[Message], rules: Dialect) -> Iterator[Violation]:
    owner = 0  # the message whose calls are being answered
    ids: list[str] = []
    done: set[str] = set()
    for i, message in enumerate(messages):
        if message.role == "tool":
            if not message.tool_call_id:
                yield Violation("bad-shape", i, "tool result without tool_call_id")
            elif message.tool_call_id not in ids:
                yield Violation("tool-orphan", i, "answers no call of the message directly before the results")
            elif message.tool_call_id in done:
                yield Violation("tool-duplicate", i, f"second result for a call of message {owner}")
            else:
                done.add(message.tool_call_id)
            continue
        yield from (
            Violation("call-unanswered", owner, "a call has no result directly behind it") for c in ids if c not in done
        )
        owner, ids, done = i, [], set()
        if message.tool_calls:
            ids = [call.id for call in message.tool_calls]
            yield from _calls(i, message, rules)
    yield from (
        Violation("call-unanswered", owner, "a call has no result directly behind it") for c in ids if c not in done
    )


def _calls(i: int, message: Message, rules: Dialect) -> Iterator[Violation]:
    if message.role != "assistant":
        yield Violation("bad-shape", i, f"tool calls on a {message.role} message")
    seen: set[str] = set()
    for call in message.tool_calls:
        if not call.id or not call.name:
            yield Violation("bad-shape", i, "tool call without id or name")
        elif call.id in seen:
            yield Violation("dup-call-id", i, "one call id twice")
        elif rules.call_id is not None and not rules.call_id.fullmatch(call.id):
            yield Violation("call-id-format", i, f"call id with characters that {rules.name} refuses")
        seen.add(call.id)
        if not is_json_object(call.arguments):
            yield Violation(
                "bad-arguments", i, f"arguments of {len(call.arguments)} characters that are no JSON object"
            )


def _order(messages: Sequence[Message], rules: Dialect) -> Iterator[Violation]:
    previous, begun = "", False
    for i, message in enumerate(messages):
        role = message.role
        if role == "system":
            if begun and not rules.system_inside:
                yield Violation("system-inside", i, "system message behind the opening")
            continue
        begun = True
        if role == "user" and previous == "tool" and not rules.user_after_result:
            yield Violation("user-after-tool", i, "user message directly behind a tool result")
        if not rules.tools and (role == "tool" or message.tool_calls):
            yield Violation("tool-unsupported", i, "tool call or result")
        elif rules.alternates and role == previous:
            yield Violation("not-alternating", i, f"two {role} messages in a row")
        previous = role
