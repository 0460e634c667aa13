"""Items of OpenAI's Responses API as messages and back, losing nothing.

There a reply is several items: thoughts, messages, calls, and what the service did on its own (searches, code). The
items that follow each other without a word of the user or a tool's output between them are one message of the
assistant here, so that no policy can part a thought from what it belongs to: the provider refuses either alone.

- `function_call` and `custom_tool_call` are calls, and so are those that a client runs itself (a shell, a computer).
- An item that only the service reads or that we do not know is kept whole, in its place, as an `Other` part.
- In the message of several items each part that opens an item notes the item's further fields (`ITEM`), and
  `meta["calls_at"]` the places of calls that did not come last.

`to_responses(from_responses(items)) == items`; `meta["form"] == "responses"` is noted where something of this form is
kept that no other provider may be sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from novelo.errors import InvalidMessage
from novelo.formats._openai_parts import SPELLED, rest
from novelo.formats._responses_parts import (
    ITEM,
    PLAIN,
    RESERVED,
    SINGLE,
    WHOLE,
    read_content_part,
    read_reasoning,
)
from novelo.formats._responses_write import items_of
from novelo.formats._values import check_depth, json_text
from novelo.messages import MEDIA, Message, Other, Part, Reasoning, Role, Text, ToolCall

_ROLES: dict[str, Role] = {"user": "user", "system": "system", "developer": "system"}
_CLIENT = frozenset(("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call"))
_OUTPUTS = frozenset(f"{kind}_output" for kind in (*_CLIENT, "function_call", "custom_tool_call")) | {
    "tool_search_output"
}
_FORM = {"form": "responses"}


def from_responses(items: Any) -> list[Message]:
    """Items of the Responses API as messages.

    Args:
        items: n items as a request's `input` or a reply's `output` has them, mappings or the SDK's objects; or a text,
            which is the user's.
    Returns:
        m <= n messages.
    Raises:
        InvalidMessage: no list, or one of the items is none; `position` says which.
    """
    if isinstance(items, str):
        return [Message("user", items)]
    if not isinstance(items, (list, tuple)):
        raise InvalidMessage(f"expected a list of items, got {type(items).__name__}")
    reader = _Reader()
    for position, item in enumerate(items):
        try:
            reader.take(_mapping(item))
        except InvalidMessage as error:
            raise InvalidMessage(f"item {position}: {error}", position=position) from error
    return reader.end()


def read_items(items: Iterable[Any]) -> tuple[list[Message], list[int | InvalidMessage]]:
    """Items as messages, those that are none left out: for an import that must not stop at one.

    Returns:
        m messages, and for each item the number of its message, 0 to m - 1, or what is wrong with it.
    """
    reader = _Reader()
    places: list[int | InvalidMessage] = []
    for item in items:
        try:
            reader.take(_mapping(item))
        except InvalidMessage as error:
            reader.forget_empty()
            places.append(error)
        else:
            places.append(len(reader.out) if reader.group is not None else len(reader.out) - 1)
    return reader.end(), places


def to_responses(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as items: a request's `input`.

    A message of another form goes without its thoughts and that form's extras; its media are translated. Thoughts go
    only before what they led to; where they have been left out, the items that followed go without their ids, since
    the provider refuses an id whose thoughts are missing.
    """
    return items_of(messages)


def _mapping(item: Any) -> dict[str, Any]:
    if isinstance(item, Mapping):
        return dict(item)
    dump = getattr(item, "model_dump", None)
    if dump is None or isinstance(item, type):
        raise InvalidMessage(f"is a {type(item).__name__}, expected a mapping")
    return dict(dump(exclude_unset=True, by_alias=True))


class _Reader:
    """Items in order; those of the assistant are gathered until something else follows."""

    def __init__(self) -> None:
        self.out: list[Message] = []
        self.group: _Group | None = None
        self.client: set[str] = set()  # ids of calls that wait for an output of the client
        self.kinds: dict[str, str] = {}  # of calls by id

    def end(self) -> list[Message]:
        """The messages, the last group included."""
        if self.group is not None:
            self.out.append(self.group.message())
            self.group = None
        return self.out

    def forget_empty(self) -> None:
        """Drop a group that was begun for an item that turned out to be none."""
        if self.group is not None and not (self.group.parts or self.group.calls):
            self.group = None

    def take(self, item: dict[str, Any]) -> None:
        """Take one item."""
        kind, role = item.get("type"), item.get("role")
        if kind is None and role is None and not isinstance(item.get("id"), str):
            raise InvalidMessage("has neither a type nor a role, expected an item")
        if not isinstance(kind, (str, type(None))):
            raise InvalidMessage(f"type is a {type(kind).__name__}, expected a text")
        if kind in (None, "message") and role is not None:
            self._message(item, role)
        elif kind == "function_call" and RESERVED.isdisjoint(item):
            self._assistant().call(item, _function_call(item))
        elif kind == "custom_tool_call" and isinstance(item.get("input"), str) and _is_call(item):
            self._assistant().call(item, _custom_call(item))
        elif kind in _CLIENT and isinstance(item.get("call_id"), str) and not _hosted(item):
            self.client.add(item["call_id"])
            self._assistant().call(item, _client_call(item))
        elif kind in _OUTPUTS and (call_id := self._answered(item)) is not None:
            self.end()
            usual = self.kinds.get(call_id, "function_call") == "function_call" and kind == "function_call_output"
            self.out.append(_output(item, call_id, usual))
            return
        elif role in ("developer", "system"):
            check_depth(item)
            self.end()
            self.out.append(Message("system", (Other(value=item, extra={ITEM: WHOLE}),), meta=dict(_FORM)))
        else:
            self._assistant().whole(item)
        if self.group is not None and kind is not None and isinstance(item.get("call_id"), str):
            self.kinds[item["call_id"]] = kind

    def _assistant(self) -> _Group:
        if self.group is None:
            self.group = _Group()
        return self.group

    def _message(self, item: dict[str, Any], role: Any) -> None:
        if role == "assistant":
            if self.group is not None and self.group.is_complete(item):
                self.end()
            self._assistant().said(item)
            return
        ours = _ROLES.get(role) if isinstance(role, str) else None
        if ours is None:
            found = repr(role[:20]) if isinstance(role, str) else type(role).__name__
            raise InvalidMessage(f"role {found}, expected user, assistant, system or developer")
        self.end()
        self.out.append(_said(item, ours))

    def _answered(self, item: dict[str, Any]) -> str | None:
        """The call that an output answers; None if it is no client's, and so part of what the service did."""
        call_id = item.get("id" if item["type"] == "local_shell_call_output" else "call_id")
        if not isinstance(call_id, str) or not RESERVED.isdisjoint(item):
            return None
        if item["type"] in ("shell_call_output", "tool_search_output") and self.group is not None:
            return call_id if call_id in self.client else None
        return call_id


class _Group:
    """The items of one message of the assistant."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.places: list[int] = []  # of calls, among parts and calls
        self.messages = 0
        self.id: str | None = None
        self.ends_in_thought = False

    def is_complete(self, item: dict[str, Any]) -> bool:
        """Whether a message that a client wrote by hand begins an answer of its own."""
        return self.messages > 0 and not self.calls and isinstance(item.get("content"), str) and "id" not in item

    def call(self, item: dict[str, Any], call: ToolCall) -> None:
        """Take a call."""
        self.places.append(len(self.parts) + len(self.calls))
        self.calls.append(call)
        self.ends_in_thought = False

    def whole(self, item: dict[str, Any]) -> None:
        """Take thoughts, or an item that is kept whole."""
        self.ends_in_thought = item.get("type") == "reasoning" and RESERVED.isdisjoint(item)
        if self.ends_in_thought:
            self.parts.append(read_reasoning(item))
            return
        check_depth(item)
        self.parts.append(Other(value=item, extra={ITEM: WHOLE}))

    def said(self, item: dict[str, Any]) -> None:
        """Take a message."""
        self.messages += 1
        self.ends_in_thought = False
        parts = list(_content(item, "assistant"))
        fields = rest(item, ("role", "content"))
        if isinstance(item["content"], str):
            parts = [Text(text=item["content"], extra={SPELLED: PLAIN})]
        elif not parts:
            parts = [Text(text="", extra={SPELLED: "empty"})]
        if self.id is None and isinstance(item.get("id"), str):
            self.id = item["id"]
        first = parts[0]
        parts[0] = type(first)(**_fields(first) | {"extra": {**first.extra, ITEM: fields}})
        self.parts.extend(parts)

    def message(self) -> Message:
        """All of it as one message."""
        calls, plain = tuple(self.calls), self._plain()
        content: Any = tuple(self.parts) or None if plain is None else plain
        meta: dict[str, Any] = {}
        if self.places and self.places[0] < len(self.parts) and plain is None:
            meta["calls_at"] = self.places
        if isinstance(content, tuple) or any(call.extra for call in calls):
            meta["form"] = "responses"
        if thoughts := sum(isinstance(part, Reasoning) for part in self.parts):
            meta["thoughts"] = thoughts
        if self.ends_in_thought:
            meta["open"] = True
        return Message("assistant", content, calls, id=self.id, meta=meta)

    def _plain(self) -> str | None:
        """The text of a single message without further fields, if no call stands before it."""
        only = self.parts[0] if len(self.parts) == 1 and 0 not in self.places else None
        if isinstance(only, Text) and only.extra == {SPELLED: PLAIN, ITEM: {}} and (only.text or not self.calls):
            return only.text
        return None


def _fields(part: Part) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__struct_fields__}


def _content(item: Mapping[str, Any], role: Role) -> tuple[Part, ...]:
    content = item.get("content")
    if isinstance(content, str):
        return (Text(text=content),)
    if not isinstance(content, (list, tuple)):
        raise InvalidMessage(f"content is a {type(content).__name__}, expected a text or a list of parts")
    return tuple([read_content_part(block, role) for block in content])


def _portable(parts: Sequence[Part], role: Role) -> bool:
    """Whether parts hold nothing that only this form knows, or takes from this role."""
    allowed = (Text,) if role != "user" else (Text, *MEDIA)
    return all(isinstance(part, allowed) and not part.extra for part in parts)


def _said(item: Mapping[str, Any], role: Role) -> Message:
    """A message of the user, the system or the developer."""
    parts = _content(item, role)
    content = item["content"] if isinstance(item["content"], str) else parts
    message_id = item.get("id")
    extra = rest(item, ("role", "content", "id") if isinstance(message_id, str) else ("role", "content"))
    meta = {"role": "developer"} if item["role"] == "developer" else {}
    if extra or isinstance(message_id, str) or not _portable(parts, role):
        meta["form"] = "responses"
    return Message(role, content, id=message_id if isinstance(message_id, str) else None, extra=extra, meta=meta)


def _is_call(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("call_id"), str) and isinstance(item.get("name"), str) and RESERVED.isdisjoint(item)


def _function_call(item: dict[str, Any]) -> ToolCall:
    for field in ("call_id", "name"):
        if not isinstance(item.get(field), str):
            raise InvalidMessage(f"{field} is a {type(item.get(field)).__name__}, expected a text")
    given = item.get("arguments")
    extra = rest(item, ("type", "call_id", "name", "arguments"))
    if not isinstance(given, str):
        extra[SPELLED] = "object" if given is not None else "null" if "arguments" in item else "absent"
    return ToolCall(item["call_id"], item["name"], json_text(given), extra)


def _custom_call(item: dict[str, Any]) -> ToolCall:
    extra = rest(item, ("call_id", "name", "input"))
    return ToolCall(item["call_id"], item["name"], json_text({"input": item["input"]}), extra)


def _client_call(item: dict[str, Any]) -> ToolCall:
    """A call of a built-in tool that the client runs; what to do is its arguments, the item is kept whole."""
    noted = ("type", "id", "call_id", "status", "caller", "pending_safety_checks", "environment", "execution")
    asked = {k: v for k, v in item.items() if k not in noted}
    check_depth(item)
    name = str(item["type"]).removesuffix("_call")
    arguments = item["arguments"] if isinstance(item.get("arguments"), str) else json.dumps(asked, default=str)
    return ToolCall(item["call_id"], name, arguments, {ITEM: item})


def _hosted(item: Mapping[str, Any]) -> bool:
    """Whether the service runs the call itself, and tells the output too."""
    place = item.get("environment")
    kind = place.get("type") if isinstance(place, Mapping) else None
    return item.get("execution") == "server" or (isinstance(kind, str) and kind.startswith("container"))


def _output(item: dict[str, Any], call_id: str, usual: bool) -> Message:
    """The output of a call as a tool's message; `usual` if its kind follows from its call."""
    named = "id" if item["type"] == "local_shell_call_output" else "call_id"
    known = ["type", named]
    message_id = item.get("id") if named != "id" else None
    if isinstance(message_id, str):
        known.append("id")
    given = item.get("output")
    content: str | tuple[Part, ...] | None = None
    extra: dict[str, Any] = {}
    if isinstance(given, str):
        content = given
    elif isinstance(given, (list, tuple)):
        content = tuple([read_content_part(block, "tool") for block in given])
    elif isinstance(given, Mapping):
        content = (read_content_part(given, "tool"),)
        extra[SPELLED] = SINGLE
    if content is not None:
        known.append("output")
    extra |= rest(item, tuple(known))
    if not usual:
        extra["type"] = item["type"]
    odd = isinstance(content, tuple) and not _portable(content, "tool")
    noted = extra or isinstance(message_id, str) or odd or content is None
    return Message(
        "tool",
        content,
        (),
        call_id,
        id=message_id if isinstance(message_id, str) else None,
        extra=extra,
        meta=dict(_FORM) if noted else {},
    )
