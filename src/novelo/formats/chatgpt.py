"""ChatGPT's data export, `conversations.json`: a list of conversations, each a tree of nodes.

What is read is the visible branch, the way from `current_node` up to the root; answers that were asked again and
questions that were edited stand in other branches, which are counted and left out. Hidden nodes (the service's own
system texts, profiles) are no part of what was said. Files and pictures lie beside the export and cannot be sent again:
their place is kept as a word, the pointer in the part's `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from novelo.errors import ImportFailed
from novelo.formats._imported import ImportedThread, is_moment
from novelo.formats._values import json_text
from novelo.messages import Message, Part, Reasoning, Text, ToolCall

_HIDDEN = "is_visually_hidden_from_conversation"
_FORM = {"form": "chatgpt"}


def is_conversation(value: Any) -> bool:
    """Whether a value looks like one conversation of an export."""
    return isinstance(value, Mapping) and "mapping" in value


def read_conversation(value: Mapping[str, Any], where: str) -> ImportedThread:
    """One conversation.

    Args:
        value: an item of the export's list.
        where: file and item, for errors.
    Raises:
        ImportFailed: a field of another type, a parent that is missing, claimed twice, or its own ancestor.
    """
    nodes = _field(value, "mapping", dict, where)
    for name, node in nodes.items():
        if not isinstance(node, Mapping):
            raise ImportFailed(f"{where}: mapping[{name!r}] is {_kind(node)}, expected an object", field="mapping")
    _check_tree(nodes, where)
    way = _branch(nodes, value.get("current_node"), where)
    out = ImportedThread(
        source="chatgpt",
        title=_optional(value, "title", str, where),
        thread_id=_optional(value, "conversation_id", str, where) or _optional(value, "id", str, where),
        created=_time(value),
    )
    spoken = _Branch(out, where)
    for name in way:
        spoken.node(name, nodes[name])
    on_way = set(way)
    out.left_out = sum(
        1 for name, node in nodes.items() if name not in on_way and isinstance(node.get("message"), dict)
    )
    return out


def _check_tree(nodes: Mapping[str, Mapping[str, Any]], where: str) -> None:
    """Every node has one way up that ends; each is walked once."""
    owner: dict[str, str] = {}
    for parent, node in nodes.items():
        for child in _list(node.get("children"), f"{where}: mapping[{parent!r}].children"):
            if isinstance(child, str) and owner.setdefault(child, parent) != parent:
                text = f"{where}: node {child!r} is a child of {owner[child]!r} and of {parent!r}, expected one parent"
                raise ImportFailed(text, field="children")
    sound: set[Any] = {None}
    for start in nodes:
        way: dict[str, None] = {}
        name: Any = start
        while not isinstance(name, (str, type(None))) or name not in sound:
            if not isinstance(name, str) or name not in nodes:
                child = next(reversed(way))
                raise ImportFailed(f"{where}: the parent of node {child!r} is not in the mapping", field="parent")
            if name in way:
                raise ImportFailed(f"{where}: node {name!r} is its own ancestor, expected a tree", field="parent")
            way[name] = None
            name = nodes[name].get("parent")
        sound.update(way)


def _branch(nodes: Mapping[str, Mapping[str, Any]], current: Any, where: str) -> list[str]:
    """The names from the root to the current node; without one, to the leaf that was written last."""
    if current is not None and (not isinstance(current, str) or current not in nodes):
        raise ImportFailed(f"{where}: current_node is not in the mapping", field="current_node")
    if current is None and nodes:
        leaves = [name for name, node in nodes.items() if not node.get("children")] or list(nodes)
        current = max(reversed(leaves), key=lambda name: _time(nodes[name].get("message")) or 0.0)
    way: list[str] = []
    while current is not None:
        way.append(current)
        current = nodes[current].get("parent")
    return way[::-1]


class _Branch:
    """Nodes in order as messages; a tool's answer belongs to the call before it."""

    def __init__(self, out: ImportedThread, where: str) -> None:
        self.out = out
        self.where = where
        self.call_id: str | None = None

    def node(self, name: str, node: Mapping[str, Any]) -> None:
        """Take one node; those that say nothing or are hidden are passed over."""
        given = node.get("message")
        if given is None:
            return
        where = f"{self.where}, node {name!r}"
        if not isinstance(given, Mapping):
            raise ImportFailed(f"{where}: message is {_kind(given)}, expected an object", field="message")
        noted = given.get("metadata")
        noted = noted if isinstance(noted, Mapping) else {}
        message = None if noted.get(_HIDDEN) else self._message(name, given, noted, where)
        if message is not None:
            self.out.messages.append(message)
            self.out.times.append(_time(given))

    def _message(self, name: str, given: Mapping[str, Any], noted: Mapping[str, Any], where: str) -> Message | None:
        author = _field(given, "author", dict, where)
        role = author.get("role")
        content = _content(_field(given, "content", dict, where), where)
        if not content:
            return None
        common: dict[str, Any] = {"id": name}
        meta: dict[str, Any] = dict(_FORM) if isinstance(content, tuple) else {}
        if role == "assistant" and isinstance(noted.get("model_slug"), str):
            meta["model"] = noted["model_slug"]
        recipient = given.get("recipient")
        if role == "assistant" and isinstance(recipient, str) and recipient != "all":
            self.call_id = name
            return Message("assistant", None, (ToolCall(name, recipient, _arguments(content)),), meta=meta, **common)
        if role == "tool":
            if self.call_id is None:  # a tool that the service ran on its own: its text is all there is
                role = "assistant"
            else:
                common["tool_call_id"] = self.call_id
                tool = author.get("name")
                common["name"] = tool if isinstance(tool, str) else None
        if role not in ("user", "assistant", "system", "tool"):
            raise ImportFailed(
                f"{where}: author.role is {_kind(role)}, expected user, assistant, system or tool", field="role"
            )
        if role != "tool":
            self.call_id = None
        return Message(role, content, meta=meta, **common)


def _content(content: Mapping[str, Any], where: str) -> str | tuple[Part, ...]:
    """What a node says: a text, or parts where pictures or files stand among texts; empty if nothing."""
    kind = content.get("content_type")
    if kind == "thoughts":
        said = [
            t.get("content") or t.get("summary")
            for t in _list(content.get("thoughts"), where)
            if isinstance(t, Mapping)
        ]
        text = "\n\n".join(t for t in said if isinstance(t, str) and t.strip())
        return (Reasoning(text=text),) if text else ""
    if "parts" not in content:
        for key in ("text", "result", "content"):
            if isinstance(content.get(key), str):
                return str(content[key])
        return ""
    parts = [_part(p) for p in _list(content["parts"], f"{where}: content.parts")]
    kept = [p for p in parts if p is not None and (p.extra or p.text.strip())]
    if all(not p.extra for p in kept):
        return "\n".join(p.text for p in kept)
    return tuple(kept)


def _part(part: Any) -> Text | None:
    if isinstance(part, str):
        return Text(text=part)
    if not isinstance(part, Mapping):
        return None
    if isinstance(part.get("text"), str):  # audio_transcription: what was heard
        return Text(text=part["text"])
    kind = str(part.get("content_type") or "file").removesuffix("_asset_pointer").removesuffix("_container")
    return Text(text=f"[{kind.replace('_', ' ')}]", extra={"chatgpt": dict(part)})


def _arguments(content: str | tuple[Part, ...]) -> str:
    text = content if isinstance(content, str) else "\n".join(p.text for p in content if isinstance(p, Text))
    try:
        msgspec.json.decode(text, type=dict)
    except (msgspec.MsgspecError, ValueError):
        return json_text({"input": text})
    return text


def _time(message: Any) -> float | None:
    found = message.get("create_time") if isinstance(message, Mapping) else None
    return float(found) if is_moment(found) else None  # type: ignore[arg-type]


def _field(value: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    found = value.get(name)
    if not isinstance(found, kind):
        raise ImportFailed(f"{where}: {name} is {_kind(found)}, expected an object", field=name)
    return found


def _optional(value: Mapping[str, Any], name: str, kind: Any, where: str) -> Any:
    found = value.get(name)
    if found is not None and (not isinstance(found, kind) or isinstance(found, bool)):
        raise ImportFailed(f"{where}: {name} is {_kind(found)}", field=name)
    return found


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ImportFailed(f"{where}: is {_kind(value)}, expected a list")
    return value


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        int: "a number",
        float: "a number",
    }
    return "missing" if value is None else names.get(type(value), type(value).__name__)
