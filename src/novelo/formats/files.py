"""Conversations in files: our own, which lose nothing, and those that others write.

    own       JSON Lines: {"format": "novelo", "version": 1, "entries": n, "thread": {facts}}, then n lines
              {"position", "turn", "created", "message", "hidden"?, "deleted"?}; the next header begins the next thread
    simple    {"timestamp", "messages": [{"role": "human" | "ai", "content"}]}, as the tutorials save it, or that list
    messages  a list of OpenAI, Anthropic or Responses messages, {"messages": [...]}, {"system", "messages"},
              {"instructions", "input"}, or JSON Lines of messages or of such objects
    chatgpt   `conversations.json` of a ChatGPT data export (`chatgpt.py`)

Files come from anywhere: their size and depth are looked at before they are parsed, and a fault names the file, the
line or item, the field, and what was expected. Reading the bytes from a disk is the caller's.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from novelo import formats
from novelo.errors import ImportFailed, InvalidMessage
from novelo.formats._imported import ImportedThread, is_moment
from novelo.formats._scan import MAX_BYTES, checked, lines, parsed
from novelo.formats.chatgpt import is_conversation, read_conversation
from novelo.formats.openai import to_openai
from novelo.messages import Message

__all__ = ["MAX_BYTES", "ImportedThread", "parse", "write_openai", "write_own", "write_simple"]

FORMAT, VERSION = "novelo", 1
_SIMPLE = {"human": "user", "ai": "assistant", "user": "user", "assistant": "assistant", "system": "system"}
_FACTS: dict[str, type | tuple[type, ...]] = {
    "thread_id": str,
    "owner": str,
    "title": str,
    "created": (int, float),
    "updated": (int, float),
    "tags": list,
    "pins": list,
    "metadata": dict,
    "state": dict,
}


def parse(data: bytes, name: str = "file", *, max_bytes: int = MAX_BYTES) -> list[ImportedThread]:
    """The conversations of a file, whichever kind it is.

    Args:
        data: all of the file.
        name: what errors call it.
        max_bytes: the most that is read, 1 GiB.
    Returns:
        n >= 1 conversations.
    Raises:
        ImportFailed: too large, too deep, no JSON, or nothing of the kinds above; with `file`, and `line`, `position`
            or `field` where there is one.
    """
    try:
        return _parse(checked(data, name, max_bytes), name)
    except ImportFailed as error:
        if not hasattr(error, "file"):
            error.__dict__["file"] = name
        raise


def _parse(data: bytes, name: str) -> list[ImportedThread]:
    found = list(lines(data)) if data[:1] in b"{[ \t\r\n" else []
    if len(found) > 1 and _is_whole(found[0][1]):
        values = [(number, parsed(line, name, number)) for number, line in found]
        return _of_lines(values, name)
    value = parsed(data, name)
    if isinstance(value, dict) and value.get("format") == FORMAT:
        return _of_lines([(1, value)], name)
    return _of_value(value, name)


def write_own(facts: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """A thread as lines of our own format.

    Args:
        facts: thread_id, owner, title, tags, metadata, state, pins, created, updated; what else is given is kept too.
        entries: for each entry its position, turn, created, message as plain values, and true for hidden or deleted.
    """
    kept = list(entries)
    header = {"format": FORMAT, "version": VERSION, "entries": len(kept), "thread": dict(facts)}
    for line in (header, *kept):
        yield msgspec.json.encode(line) + b"\n"


def write_simple(messages: Sequence[Message], timestamp: str) -> bytes:
    """What was said, as the tutorials save it: texts of user and assistant, nothing else.

    Args:
        timestamp: the moment of saving, ISO 8601.
    """
    names = {"user": "human", "assistant": "ai"}
    said = [{"role": names[m.role], "content": m.text} for m in messages if m.role in names and m.text.strip()]
    return _pretty({"timestamp": timestamp, "messages": said})


def write_openai(messages: Sequence[Message]) -> bytes:
    """A list of chat dicts."""
    return _pretty([to_openai(m) for m in messages])


def _pretty(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace") + b"\n"


def _is_whole(line: bytes) -> bool:
    """Whether a line is a JSON object of its own, so that the file is JSON Lines."""
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        parsed(line, "")
    except ImportFailed:
        return False
    return True


def _of_lines(values: Sequence[tuple[int, Any]], name: str) -> list[ImportedThread]:
    for number, value in values:
        if not isinstance(value, dict):
            raise ImportFailed(f"{name}: line {number}: is {_kind(value)}, expected an object", file=name, line=number)
    if values[0][1].get("format") == FORMAT:
        return _own(values, name)
    if all("messages" in value or is_conversation(value) for _, value in values):
        return [t for number, value in values for t in _of_object(value, f"{name}: line {number}", name)]
    numbers = [number for number, _ in values]
    return [_messages([value for _, value in values], name, name, numbers)]


def _of_value(value: Any, name: str) -> list[ImportedThread]:
    if isinstance(value, dict):
        return _of_object(value, name, name)
    if not isinstance(value, list):
        raise ImportFailed(f"{name}: is {_kind(value)}, expected a list of messages or an object", file=name)
    if value and all(is_conversation(v) for v in value):
        return [read_conversation(v, f"{name}: conversation {i}") for i, v in enumerate(value)]
    if value and all(isinstance(v, dict) and "messages" in v and "role" not in v for v in value):
        return [t for i, v in enumerate(value) for t in _of_object(v, f"{name}: item {i}", name)]
    if any(isinstance(v, dict) and v.get("role") in ("human", "ai") for v in value):
        return [_simple({}, value, name, name)]
    return [_messages(value, name, name)]


def _of_object(value: dict[str, Any], where: str, name: str) -> list[ImportedThread]:
    if is_conversation(value):
        return [read_conversation(value, where)]
    if isinstance(value.get("role"), str):  # JSON Lines with a single line
        return [_messages([value], where, name)]
    key = "messages" if "messages" in value else "input"
    messages = value.get(key)
    if key == "input" and isinstance(messages, (str, list)):
        return [_responses(value, messages, where, name)]
    if not isinstance(messages, list):
        told = f"{key} is {_kind(messages)}, expected a list" if key in value else "expected a field 'messages', a list"
        raise ImportFailed(f"{where}: {told}", file=name, field=key if key in value else "messages")
    said = [m.get("role") for m in messages if isinstance(m, dict)]
    if "human" in said or "ai" in said or ("timestamp" in value and "system" not in value):
        return [_simple(value, messages, where, name)]
    if value.get("system") is not None:
        return [_messages({"system": value["system"], "messages": messages}, where, name)]
    return [_messages(messages, where, name)]


def _messages(given: Any, where: str, name: str, numbers: Sequence[int] = ()) -> ImportedThread:
    """Messages in a provider's form; `numbers` are their lines."""
    for i, message in enumerate(given if isinstance(given, list) else given["messages"]):
        if not isinstance(message, dict):
            at = f"line {numbers[i]}" if numbers else f"message {i}"
            text = f"{where}: {at}: is {_kind(message)}, expected an object with role and content"
            raise ImportFailed(text, file=name, position=i)
    try:
        found = [formats.normalize(m) for m in formats.read(given)]
    except InvalidMessage as error:
        place = getattr(error, "position", None)
        if place is not None and place < len(numbers):
            text = f"{where}: line {numbers[place]}: {error}"
            raise ImportFailed(text, file=name, line=numbers[place], position=place) from error
        raise ImportFailed(f"{where}: {error}", file=name, position=place) from error
    return ImportedThread(source="messages", messages=found, times=[None] * len(found))


def _responses(value: dict[str, Any], items: str | list[Any], where: str, name: str) -> ImportedThread:
    """The body of a request to the Responses API: its instructions are the system message."""
    given = [{"role": "user", "content": items}] if isinstance(items, str) else items
    thread = _messages(given, where, name)
    told = value.get("instructions")
    if told is not None and not isinstance(told, str):
        raise ImportFailed(f"{where}: instructions is {_kind(told)}, expected a text", file=name, field="instructions")
    if told:
        thread.messages.insert(0, formats.normalize(Message("system", told)))
        thread.times.insert(0, None)
    return thread


def _simple(value: dict[str, Any], messages: list[Any], where: str, name: str) -> ImportedThread:
    """The tutorials' file: its moment is the only one known, for each of its messages."""
    moment = _moment(value.get("timestamp"), where, name)
    found = []
    for i, message in enumerate(messages):
        at = f"{where}: message {i}"
        if not isinstance(message, dict):
            raise ImportFailed(f"{at}: is {_kind(message)}, expected an object", file=name, position=i)
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in _SIMPLE:
            told = f"is {role[:20]!r}" if isinstance(role, str) else f"is {_kind(role)}"
            raise ImportFailed(f"{at}: role {told}, expected human or ai", file=name, position=i, field="role")
        if not isinstance(content, str):
            text = f"{at}: content is {_kind(content)}, expected a text"
            raise ImportFailed(text, file=name, position=i, field="content")
        found.append(formats.normalize(Message(_SIMPLE[role], content)))  # type: ignore[arg-type]
    return ImportedThread(source="simple", messages=found, times=[moment] * len(found), created=moment)


def _moment(timestamp: Any, where: str, name: str) -> float | None:
    if timestamp is None:
        return None
    if is_moment(timestamp):
        return float(timestamp)
    try:
        return datetime.datetime.fromisoformat(timestamp).timestamp()
    except (TypeError, ValueError, OverflowError) as error:
        text = f"{where}: timestamp is {_kind(timestamp)}, expected a moment as ISO 8601"
        raise ImportFailed(text, file=name, field="timestamp") from error


def _own(values: Sequence[tuple[int, dict[str, Any]]], name: str) -> list[ImportedThread]:
    """Threads of our own format."""
    out: list[ImportedThread] = []
    at = 0
    while at < len(values):
        number, header = values[at]
        thread, count = _header(header, number, name)
        body = values[at + 1 : at + 1 + count]
        for position, (line, entry) in enumerate(body):
            _entry(thread, entry, position, line, name)
        at += 1 + count
        if len(body) < count:
            text = f"{name}: holds {len(body)} of the {count} entries that line {number} tells: it was cut short"
            raise ImportFailed(text, file=name, line=number, field="entries")
        out.append(thread)
    return out


def _header(header: dict[str, Any], number: int, name: str) -> tuple[ImportedThread, int]:
    def failed(field: str, expected: str) -> ImportFailed:
        text = f"{name}: line {number}: {field} is {_kind(header.get(field))}, expected {expected}"
        return ImportFailed(text, file=name, line=number, field=field)

    if header.get("format") != FORMAT:
        raise failed("format", f"{FORMAT!r}, the header of a thread")
    version, count, facts = header.get("version"), header.get("entries"), header.get("thread")
    if version.__class__ is not int:
        raise failed("version", "a number")
    if version > VERSION:
        text = f"{name}: line {number}: version {version} was written by a newer Novelo, this one reads {VERSION}"
        raise ImportFailed(text, file=name, line=number, field="version")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise failed("entries", "their number")
    if not isinstance(facts, dict):
        raise failed("thread", "an object")
    for field, kind in _FACTS.items():
        if facts.get(field) is not None and not isinstance(facts[field], kind):
            text = f"{name}: line {number}: thread.{field} is {_kind(facts[field])}"
            raise ImportFailed(text, file=name, line=number, field=f"thread.{field}")
    if facts.get("created") is not None and not is_moment(facts["created"]):
        text = f"{name}: line {number}: thread.created is no moment, expected seconds since 1970"
        raise ImportFailed(text, file=name, line=number, field="thread.created")
    named: dict[str, Any] = {key: facts.get(key) for key in ("title", "thread_id", "owner", "created")}
    kept = {key: value for key, value in facts.items() if value is not None}
    return ImportedThread(source="novelo", facts=kept | {"hidden": [], "deleted": []}, **named), count


def _entry(thread: ImportedThread, entry: dict[str, Any], position: int, line: int, name: str) -> None:
    def failed(field: str, expected: str) -> ImportFailed:
        text = f"{name}: line {line}: {field} is {_kind(entry.get(field))}, expected {expected}"
        return ImportFailed(text, file=name, line=line, field=field)

    if entry.get("position") != position or entry["position"].__class__ is not int:
        raise failed("position", str(position))
    created, turn = entry.get("created"), entry.get("turn")
    if created is not None and not is_moment(created):
        raise failed("created", "seconds since 1970")
    if turn is not None and (not isinstance(turn, int) or isinstance(turn, bool)):
        raise failed("turn", "a number")
    try:
        message = msgspec.convert(entry.get("message"), Message)
    except msgspec.ValidationError as error:
        text = f"{name}: line {line}: message is none of ours: {_safe(error)}"
        raise ImportFailed(text, file=name, line=line, field="message") from error
    thread.messages.append(formats.normalize(message))
    thread.times.append(None if created is None else float(created))
    thread.turns.append(turn)
    for flag in ("hidden", "deleted"):
        if entry.get(flag, False) is True:
            thread.facts[flag].append(position)


def _safe(error: msgspec.ValidationError) -> str:
    """What a validation error says, without the value that it may quote."""
    text = str(error)
    return (
        text
        if "value" not in text
        else "a value that is not allowed" + text[text.rfind(" - at ") :]
        if " - at " in text
        else "a value"
    )


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
