"""JSONL: a passage a line (`text`, and where known `title`, `section`, `source`), or a question and its answer.

Such passages were cut by somebody who knew them: each is one chunk, if it is not far too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from novelo.errors import ImportFailed
from novelo.retrievers.readers.base import Block, Document, Section, clean, decoded, line

TEXT = ("text", "content", "page_content", "passage", "body")
QUESTION = ("question", "q", "pergunta", "问题", "問題")
ANSWER = ("answer", "a", "resposta", "answers", "回答", "答案")
TITLE, SECTION, SOURCE = ("title",), ("section", "heading"), ("source", "url", "id")


def read(data: bytes) -> Document:
    """A file of JSON objects, a line each.

    Raises:
        ImportFailed: a line is no object of these kinds; nothing of the file is read.
    """
    sections = []
    for number, text in enumerate(decoded(data).split("\n"), 1):
        if not text.strip():
            continue
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            raise ImportFailed(f"line {number}: no JSON object") from error
        try:
            sections.append(section_of(found))
        except ImportFailed as error:
            raise ImportFailed(f"line {number}: {error}") from error
    return Document(tuple(sections))


def section_of(found: Any) -> Section:
    """A passage, or a question with its answer, as a section.

    Raises:
        ImportFailed: it is neither.
    """
    if not isinstance(found, Mapping):
        raise ImportFailed("expected an object with a text, or a question and an answer")
    given = found.get("metadata")
    meta: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    question, answer, text = _of(found, QUESTION), _of(found, ANSWER), _of(found, TEXT)
    if question and answer:
        text = f"{clean(question)}\n{clean(answer)}"
    if not text.strip():
        raise ImportFailed("expected an object with a text, or a question and an answer")
    path = tuple(line(piece) for piece in _of(found, SECTION).split(" › ") if piece.strip())
    return Section(
        (Block(clean(text)),), path, title=line(_of(found, TITLE) or _of(meta, TITLE)),
        source=line(_of(found, SOURCE) or _of(meta, SOURCE)), entry=True,
    )  # fmt: skip


def _of(found: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = found.get(name)
        if isinstance(value, (list, tuple)):
            value = "\n".join(str(one) for one in value if isinstance(one, (str, int, float)))
        if isinstance(value, (str, int)) and str(value).strip():
            return str(value)
    return ""
