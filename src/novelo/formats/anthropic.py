"""Anthropic's messages: a system prompt apart, and a list of user and assistant messages made of blocks.

There a tool result is a block of a user message; here it is a message of its own. So one user message with two results
and a text is read as three messages, and neighbours of one side are written as one message again, results first. Where
the list had neighbours of one side that stood apart, the second notes `meta["apart"]`; where a call stood before other
blocks, its message notes `meta["calls_at"]`. What only this provider may be sent notes `meta["form"] == "anthropic"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from novelo.errors import InvalidMessage
from novelo.formats._anthropic_parts import as_block, legal_call_id, read_block, read_call, write_block, write_call
from novelo.formats._openai_parts import SPELLED, rest
from novelo.messages import Message, Other, Part, Reasoning, ToolCall

__all__ = ["AnthropicForm", "from_anthropic", "legal_call_id", "to_anthropic"]

System = str | list[dict[str, Any]] | None
Written = str | list[dict[str, Any]]


class AnthropicForm(tuple[System, list[dict[str, Any]]]):
    """A system prompt (None if there is none) and messages: the pair that the Messages API takes."""

    __slots__ = ()

    def __new__(cls, system: System, messages: list[dict[str, Any]]) -> AnthropicForm:
        """The pair of both."""
        return super().__new__(cls, (system, messages))

    @property
    def system(self) -> System:
        """The system prompt: a text, text blocks, or None."""
        return self[0]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages."""
        return self[1]

    def body(self) -> dict[str, Any]:
        """Both as keyword arguments of the API; without `system` when there is none."""
        return {"messages": self[1]} if self[0] is None else {"system": self[0], "messages": self[1]}

    def __getnewargs__(self) -> tuple[System, list[dict[str, Any]]]:
        return (self[0], self[1])


def from_anthropic(messages: Sequence[Any], system: Any = None) -> list[Message]:
    """Anthropic messages as ours.

    Args:
        messages: n messages, oldest first; content and answers of the SDK may stand among them as objects.
        system: the system prompt: a text or text blocks.
    Returns:
        At least as many messages; a system prompt is the first.
    Raises:
        InvalidMessage: no list of messages; `position` says which of the n.
    """
    if not isinstance(messages, (list, tuple)):
        raise InvalidMessage(f"expected a list of messages, got {type(messages).__name__}")
    out: list[Message] = []
    if system is not None:
        out.append(_Reader({"role": "system", "content": system}, False).messages()[0])
    before = ""
    for position, given in enumerate(messages):
        try:
            mapping = _mapping(given)
            role = _role(mapping)
            out.extend(_Reader(mapping, role == before or (role == "system" and before != "")).messages())
        except InvalidMessage as error:
            raise InvalidMessage(f"message {position}: {error}", position=position) from error
        before = role if role != "system" or before else before
    return out


def to_anthropic(messages: Iterable[Message]) -> AnthropicForm:
    """Messages as the pair (system, messages).

    `to_anthropic(from_anthropic(m, s)) == (s, m)` for every legal pair. Messages of other forms are joined where one
    side speaks twice, with results first; ids become legal, arguments objects; blank texts are left out, system
    messages inside join the system prompt.
    """
    heads: list[Message] = []
    groups: list[list[tuple[Message, Written]]] = []
    side = ""
    for message in messages:
        apart = _native(message) and bool(message.meta.get("apart"))
        if message.role == "system" and not (apart and groups):
            heads.append(message)
            continue
        written = _written(message)
        if written is None:
            continue
        its = "user" if message.role == "tool" else message.role
        if its == side and not apart:
            groups[-1].append((message, written))
        else:
            groups.append([(message, written)])
        side = its
    return AnthropicForm(_system(heads), [_joined(group) for group in groups])


def _mapping(given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    role, content = getattr(given, "role", None), getattr(given, "content", None)
    if isinstance(role, str) and content is not None:  # an answer of the SDK, put into the list as it came
        return {"role": role, "content": content}
    raise InvalidMessage(f"a message is a {type(given).__name__}, expected a mapping with role and content")


def _role(given: Mapping[str, Any]) -> str:
    role = given.get("role")
    if isinstance(role, str) and role in ("user", "assistant", "system"):
        return role
    told = repr(role[:20]) if isinstance(role, str) else type(role).__name__
    raise InvalidMessage(f"a message has the role {told}, expected user or assistant")


class _Reader:
    """One Anthropic message on its way to one or several of ours."""

    def __init__(self, given: Mapping[str, Any], apart: bool) -> None:
        self.role: Any = given["role"]
        self.content = given.get("content")
        self.extra = rest(given, ("role", "content"))
        self.notes: dict[str, Any] = {"form": "anthropic", "apart": True} if apart else {}
        found = self.extra.get("id")
        self.id = found if isinstance(found, str) else None
        self.out: list[Message] = []

    def messages(self) -> list[Message]:
        """The messages, in the order of the blocks."""
        content = self.content
        if isinstance(content, str) or content is None:
            if not content or not content.strip():
                self.notes["form"] = "anthropic"  # only the last answer may be blank, and only there
            self._add(Message(self.role, content))
            return self.out
        if not isinstance(content, (list, tuple)):
            raise InvalidMessage(
                f"a message's content is a {type(content).__name__}, expected a text or a list of blocks"
            )
        blocks = [as_block(block) for block in content]
        if self.role == "assistant":
            self._assistant(blocks)
        else:
            self._user(blocks)
        return self.out

    def _add(self, message: Message, special: bool = False) -> None:
        """Fields of the whole message stand at its first part."""
        notes, self.notes = self.notes, {}
        extra, self.extra = self.extra, {}
        name, self.id = self.id, None
        if special or extra:
            notes["form"] = "anthropic"
        self.out.append(
            Message(
                message.role,
                message.content,
                message.tool_calls,
                message.tool_call_id,
                id=name,
                extra={**extra, **message.extra},
                meta={**notes, **message.meta},
            )
        )

    def _assistant(self, blocks: list[Mapping[str, Any]]) -> None:
        parts: list[Part] = []
        calls: list[ToolCall] = []
        places: list[int] = []
        for place, block in enumerate(blocks):
            call = read_call(block) if block.get("type") == "tool_use" else None
            if call is None:
                parts.append(read_block(block))
            else:
                calls.append(call)
                places.append(place)
        special = any(call.extra for call in calls) or not _portable(parts)
        if places and places[0] < len(parts):
            self.notes["calls_at"] = places
            special = True
        content = tuple(parts) if parts or not calls else None
        if content == ():
            special = True
        self._add(Message("assistant", content, tuple(calls)), special)

    def _user(self, blocks: list[Mapping[str, Any]]) -> None:
        parts: list[Part] = []
        for block in blocks:
            if self.role == "user" and block.get("type") == "tool_result":
                if parts:
                    self._add(Message(self.role, tuple(parts)), not _portable(parts))
                    parts = []
                self._result(block)
            else:
                parts.append(read_block(block))
        if parts or not self.out:
            self._add(Message(self.role, tuple(parts)), not parts or not _portable(parts))

    def _result(self, block: Mapping[str, Any]) -> None:
        call_id, content = block.get("tool_use_id"), block.get("content")
        known = ["type", "tool_use_id", "content"]
        meta: dict[str, Any] = {}
        if block.get("is_error") is True:
            known.append("is_error")
            meta["status"] = "error"
        parts: str | tuple[Part, ...] | None
        if isinstance(content, str) or content is None:
            parts = content
        elif isinstance(content, (list, tuple)):
            parts = tuple(read_block(as_block(b)) for b in content)
        else:
            raise InvalidMessage(f"a tool result's content is a {type(content).__name__}, expected a text or blocks")
        extra = rest(block, tuple(known))
        if extra:
            meta["result"] = extra  # the block's own fields, beside those of the message
        special = bool(extra) or (isinstance(parts, tuple) and not _portable(parts))
        told = call_id if isinstance(call_id, str) else ""
        self._add(Message("tool", parts, tool_call_id=told, meta=meta), special)


def _portable(parts: Iterable[Part]) -> bool:
    """Whether other forms can say all that the parts hold."""
    return all(
        not p.extra and not isinstance(p, (Other, Reasoning)) and getattr(p, "file_id", None) is None for p in parts
    )


def _native(message: Message) -> bool:
    return bool(message.meta.get("form", "anthropic") == "anthropic")


def _system(heads: Sequence[Message]) -> System:
    if not heads:
        return None
    if len(heads) == 1 and _native(heads[0]) and isinstance(heads[0].content, (str, tuple)):
        content = heads[0].content
        return content if isinstance(content, str) else _blocks(heads[0])
    if all(isinstance(m.content, str) or m.content is None for m in heads):
        said = [m.content for m in heads if isinstance(m.content, str) and m.content.strip()]
        return "\n\n".join(said) or None
    return [block for m in heads for block in _blocks(m)] or None


def _blocks(message: Message) -> list[dict[str, Any]]:
    """The content as blocks; blank texts are left out."""
    native = _native(message)
    responses = message.meta.get("form") == "responses"
    found = (write_block(part, native, responses) for part in message.parts)
    return [block for block in found if block is not None]


def _written(message: Message) -> Written | None:
    """The content of one message: its text, or blocks; None if nothing of it can be sent."""
    content = message.content
    blank = message.meta.get("form") == "anthropic"  # there the last answer may be blank
    if message.role == "tool":
        return [_result(message)]
    if (content is None or isinstance(content, str)) and not message.tool_calls:
        return content if content is not None and (blank or content.strip()) else None
    blocks = _turn(message)
    return blocks if blocks or (blank and content == ()) else None


def _joined(group: Sequence[tuple[Message, Written]]) -> dict[str, Any]:
    """Messages of one side as one: results first, whatever the order."""
    first, content = group[0]
    if len(group) > 1:
        results = [block for m, written in group if m.role == "tool" for block in _as_blocks(written)]
        content = results + [block for m, written in group if m.role != "tool" for block in _as_blocks(written)]
    out: dict[str, Any] = {"role": "user" if first.role == "tool" else first.role, "content": content}
    for message, _ in group:
        if message.extra and _native(message):
            out.update({k: v for k, v in message.extra.items() if k not in out and k != SPELLED})
    return out


def _as_blocks(written: Written) -> list[dict[str, Any]]:
    if isinstance(written, str):
        return [{"type": "text", "text": written}] if written.strip() else []
    return written


def _turn(message: Message) -> list[dict[str, Any]]:
    """Blocks and calls of one message, calls last unless they came otherwise."""
    native = _native(message)
    blocks = _blocks(message)
    calls = [write_call(call, native) for call in message.tool_calls]
    places = message.meta.get("calls_at") if native else None
    if not isinstance(places, list) or len(places) != len(calls) or places[-1] >= len(calls) + len(blocks):
        return blocks + calls
    for place, call in zip(places, calls, strict=True):
        blocks.insert(place, call)
    return blocks


def _result(message: Message) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "tool_result", "tool_use_id": legal_call_id(message.tool_call_id or "")}
    content = message.content
    if isinstance(content, str):
        out["content"] = content
    elif content is not None:
        out["content"] = _blocks(message)
    if message.meta.get("status") == "error":
        out["is_error"] = True
    further = message.meta.get("result")
    if _native(message) and isinstance(further, dict):
        out.update(further)
    return out
