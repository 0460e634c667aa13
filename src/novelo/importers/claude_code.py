"""Session files of Claude Code: JSON Lines under `~/.claude/projects/<project>/`, a file a session.

A line that was said is of type user or assistant; its `message` is Anthropic's, `parentUuid` names the line before it.
The way from the last such line up is the main line; where the program compacted its context it goes on before that, so
that all that was said comes. An answer of the model is several lines of one `message.id`, a block each, and of parallel
calls each result hangs at its own: both are put together again.

Left out and counted: other branches (a rewind), side chains (a subagent's talk inside of the file; a file of its own is
a thread of its own), summaries that replaced what is here anyway, answers that the program made up for an error of the
API, and what the program noted for itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from novelo.errors import ImportFailed, InvalidMessage
from novelo.formats._usage import read_usage
from novelo.formats.anthropic import from_anthropic
from novelo.formats.files import MAX_BYTES
from novelo.importers.base import Conversation, Source, moment
from novelo.messages import Message, is_blank

_SAID = ("user", "assistant")
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}  # the best first


class Line(dict[str, Any]):
    """A line of a session, and its number from 1."""

    number = 0

    @property
    def message(self) -> dict[str, Any]:
        """What was said."""
        found = self.get("message")
        return found if isinstance(found, dict) else {}

    @property
    def is_said(self) -> bool:
        """Whether somebody said it."""
        return self.get("type") in _SAID and isinstance(self.get("uuid"), str) and bool(self.message)

    def blocks(self, kind: str, field: str) -> set[str]:
        """A field of all blocks of a kind."""
        content = self.message.get("content")
        found = (
            [b.get(field) for b in content if isinstance(b, dict) and b.get("type") == kind]
            if isinstance(content, list)
            else []
        )
        return {name for name in found if isinstance(name, str)}


class Sessions(Source):
    """The sessions of a file, or of all files in a folder."""

    kind = "claude-code"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        place = Path(path).expanduser()
        try:
            found = sorted(place.rglob("*.jsonl")) if place.is_dir() else [place]
            self._files = {file.stem: file for file in found}
            if not found or not any(self._looks_right(file) for file in found):
                raise ImportFailed(f"{path}: holds no session of Claude Code", file=path)
        except OSError as error:
            raise ImportFailed(f"{path}: cannot be read: {error.strerror}", file=path) from error
        if twice := len(found) - len(self._files):
            self.lose("", f"{twice} files have the name of another one")

    @staticmethod
    def _looks_right(file: Path) -> bool:
        """Whether one of the first lines is of a session."""
        with file.open("rb") as lines:
            for _, line in zip(range(50), lines, strict=False):
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    return False
                if isinstance(value, dict) and "type" in value and {"sessionId", "uuid", "leafUuid"} & set(value):
                    return True
        return False

    def ids(self) -> list[str]:
        """Sessions, the file that was written to last at the end."""
        return sorted(self._files, key=lambda name: self._files[name].stat().st_mtime)

    def read(self, name: str) -> Conversation:
        """One session."""
        out = Conversation(name)
        lines = list(self._lines(name))
        said = [line for line in lines if line.is_said]
        aside = [line for line in said if line.get("isSidechain") is True]
        if len(aside) < len(said):
            if aside:
                self.lose(name, f"{len(aside)} messages of side chains")
            said = [line for line in said if line.get("isSidechain") is not True]
        chosen = self._whole(said, self._main(name, said, lines))
        if others := len(said) - len(chosen):
            self.lose(name, f"{others} messages of other branches are not on the main line")
        for first, group in _grouped(self._kept(name, chosen)):
            self._add(out, first, group)
        self._facts(out, lines)
        return out

    def _lines(self, name: str) -> Iterator[Line]:
        file = self._files[name]
        broken: list[int] = []
        seen: set[str] = set()
        try:
            if file.stat().st_size > MAX_BYTES:
                raise ImportFailed(f"the file is larger than {MAX_BYTES} bytes")
            with file.open("rb") as lines:
                for number, text in enumerate(lines, 1):
                    if not text.strip():
                        continue
                    try:
                        value = json.loads(text)
                    except (ValueError, RecursionError):
                        value = None
                    if not isinstance(value, dict):
                        broken.append(number)
                    elif value.get("uuid") is None or value["uuid"] not in seen:
                        line = Line(value)
                        line.number = number
                        if isinstance(line.get("uuid"), str):
                            seen.add(line["uuid"])
                        yield line
        except OSError as error:
            raise ImportFailed(f"the file cannot be read: {error.strerror}") from error
        if broken:
            self.lose(name, f"{len(broken)} lines are no JSON object: {', '.join(map(str, broken[:20]))}")

    def _main(self, name: str, said: list[Line], lines: list[Line]) -> set[int]:
        """The numbers of the lines from the last one that was said up to the first."""
        nodes = {line["uuid"]: line for line in lines if isinstance(line.get("uuid"), str)}
        way: set[int] = set()
        at = said[-1] if said else None
        while at is not None and at.number not in way:
            way.add(at.number)
            up = at.get("parentUuid") or at.get("logicalParentUuid")
            found = nodes.get(up) if isinstance(up, str) else None
            if found is None and (up or at.get("isCompactSummary") or at.get("subtype") == "compact_boundary"):
                found = next((line for line in reversed(said) if line.number < at.number), None)
                if up and found is not None:
                    self.lose(
                        name, f"line {at.number} follows a line that is not there: line {found.number} stands for it"
                    )
            at = found
        return way & {line.number for line in said}

    @staticmethod
    def _whole(said: list[Line], way: set[int]) -> list[Line]:
        """The main line with the blocks and results that hang beside it."""
        answers = {
            line.message.get("id") for line in said if line.number in way and line.get("type") == "assistant"
        } - {None}
        way |= {line.number for line in said if line.get("type") == "assistant" and line.message.get("id") in answers}
        asked = {name for line in said if line.number in way for name in line.blocks("tool_use", "id")}
        asked -= {name for line in said if line.number in way for name in line.blocks("tool_result", "tool_use_id")}
        for line in said:
            told = line.blocks("tool_result", "tool_use_id")
            if line.number not in way and told and told <= asked:
                way.add(line.number)
                asked -= told
        return [line for line in said if line.number in way]

    def _kept(self, name: str, chosen: list[Line]) -> list[Line]:
        """Without what the program made up."""
        for field, what in (
            ("isCompactSummary", "summaries"),
            ("isApiErrorMessage", "errors of the API, told as answers"),
        ):
            if count := sum(line.get(field) is True for line in chosen):
                self.lose(name, f"{count} {what}")
                chosen = [line for line in chosen if line.get(field) is not True]
        return chosen

    def _add(self, out: Conversation, first: Line, group: list[Line]) -> None:
        role, when = first["type"], moment(first.get("timestamp"))
        content: Any = first.message.get("content")
        if len(group) > 1:
            content = [block for line in group for block in _blocks(line.message.get("content"))]
        try:
            messages = [m for m in from_anthropic([{"role": role, "content": content}]) if not is_blank(m) or m.parts]
        except InvalidMessage as error:
            self.lose(out.id, f"line {first.number} is no message: {error}")
            return
        last = group[-1].message
        for i, message in enumerate(messages):
            key = first["uuid"] + (f"+{len(group) - 1}" if len(group) > 1 else "") + (f"/{i}" if i else "")
            out.add(_told(message, last) if role == "assistant" else message, key, when)

    def _facts(self, out: Conversation, lines: list[Line]) -> None:
        for kind, field in _TITLES.items():
            told = [line[field] for line in lines if line.get("type") == kind and isinstance(line.get(field), str)]
            out.title = out.title or (told[-1] if told else "")
        places = [line for line in lines if isinstance(line.get("cwd"), str)]
        if places:
            known = {field: places[-1].get(field) for field in ("cwd", "gitBranch", "version")}
            out.metadata[self.kind] = {field: value for field, value in known.items() if isinstance(value, str)}
        notes = Counter(
            str(line.get("type"))[:40] for line in lines if not line.is_said and line.get("type") not in _TITLES
        )
        if notes:
            self.lose(out.id, "notes of the program: " + ", ".join(f"{n} {kind}" for kind, n in sorted(notes.items())))
        if beside := sum("toolUseResult" in line for line in lines):
            self.lose(out.id, f"what the program noted beside {beside} results of tools")


def _grouped(lines: list[Line]) -> list[tuple[Line, list[Line]]]:
    """Lines that are one message: the answers of one id, at the place of the first."""
    out: list[tuple[Line, list[Line]]] = []
    by_id: dict[str, list[Line]] = {}
    for line in lines:
        name = line.message.get("id") if line["type"] == "assistant" else None
        if isinstance(name, str) and name in by_id:
            by_id[name].append(line)
            continue
        out.append((line, [line]))
        if isinstance(name, str):
            by_id[name] = out[-1][1]
    return out


def _blocks(content: Any) -> list[Any]:
    return (
        content
        if isinstance(content, list)
        else [{"type": "text", "text": content}]
        if isinstance(content, str)
        else []
    )


def _told(message: Message, given: dict[str, Any]) -> Message:
    """An answer with its id, model and usage."""
    model, name = given.get("model"), given.get("id")
    meta = message.meta | ({"model": model} if isinstance(model, str) else {})
    return Message(
        message.role,
        message.content,
        message.tool_calls,
        id=name if isinstance(name, str) else None,
        usage=read_usage(given.get("usage")),
        extra=message.extra,
        meta=meta,
    )


def load(path: str) -> Sessions:
    """The sessions of a file, or of a folder such as ~/.claude/projects."""
    return Sessions(path)
