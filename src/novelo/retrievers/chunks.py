"""Chunks: the passages that are searched and cited, cut along the structure of a document.

A section that fits is one chunk. A longer one is cut between its blocks into parts of about equal size; a table, a list
or code that does not fit a part is cut between lines, a table with its header again on top, a paragraph between
sentences. Only where running text is cut, a part begins with the last sentence of the one before. Nothing is put
together from two sections: a chunk has one heading that is true for all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from novelo.retrievers.readers.base import Block, Document, Section
from novelo.tokens import estimate_text

SIZE = 300  # tokens of a chunk, at most; e5 reads 512, and a heading and a title come with it
OVERLAP = 50  # tokens, at most, that a part repeats of the one before
ENTRY_SIZE = 450  # of a question with its answer, and of passages that somebody else cut
WIDEST = 12  # signs of a token, at most, that a part is looked for in
HEADING = " › "
_SENTENCE = re.compile(r"(?<=[.!?…:;])\s+|(?<=[。!?;])|\n+")


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A passage of a document.

    Attributes:
        text: its text.
        title, section: of the document, and the headings above it, the highest first.
        page: where it begins, from 1; 0 is unknown.
        source: of its own, where one file holds passages of several.
        tokens: about how many the text has.
    """

    text: str
    title: str = ""
    section: str = ""
    page: int = 0
    source: str = ""
    tokens: int = 0

    @property
    def heading(self) -> str:
        """Title and headings on one line, as they are indexed with the text."""
        return HEADING.join(piece for piece in (self.title, self.section) if piece)


class _Piece(msgspec.Struct, frozen=True):
    """What is not cut any further; `running`: a sentence of a paragraph that goes on, `gap`: what stands before it."""

    text: str
    tokens: int
    running: bool = False
    gap: str = "\n\n"
    head: str = ""


def chunks(document: Document, title: str = "", size: int = SIZE, overlap: int = OVERLAP) -> list[Chunk]:
    """The chunks of a document, in order.

    Args:
        title: where the document has none of its own.
        size: tokens of a chunk, by the estimate.
        overlap: tokens that a part of a cut paragraph repeats, at most.
    """
    out = []
    for section in document.sections:
        named = section.title or document.title or title
        limit = max(size, ENTRY_SIZE) if section.entry else size
        for text in _cut(section, limit, overlap):
            out.append(
                Chunk(text, named, HEADING.join(section.path), section.page, section.source, estimate_text(text))
            )
    return out


def _cut(section: Section, size: int, overlap: int) -> Iterator[str]:
    pieces = [piece for block in section.blocks for piece in _pieces(block, size)]
    total = sum(piece.tokens for piece in pieces)
    room = size - overlap if any(piece.running for piece in pieces) else size
    share = total if total <= size else total / -(-total // max(1, room))  # equal parts: no crumb is left at the end
    held: list[_Piece] = []
    used = new = 0
    for piece in pieces:
        if held and (used + piece.tokens > size or new + piece.tokens / 2 > share):
            yield _joined(held)
            held = _tail(held, overlap, size - piece.tokens) if piece.running and held[-1].running else []
            used, new = sum(one.tokens for one in held), 0
            if piece.head and not held:
                head = _Piece(piece.head, estimate_text(piece.head))
                held, used = [head], head.tokens
        held.append(piece)
        used, new = used + piece.tokens, new + piece.tokens
    if held:
        yield _joined(held)


def _joined(pieces: Sequence[_Piece]) -> str:
    return pieces[0].text + "".join(piece.gap + piece.text for piece in pieces[1:])


def _tail(held: Sequence[_Piece], overlap: int, room: int) -> list[_Piece]:
    """The last sentences of a part, as many as the overlap has room for."""
    kept: list[_Piece] = []
    for piece in reversed(held):
        overlap, room = overlap - piece.tokens, room - piece.tokens
        if not piece.running or min(overlap, room) < 0 or len(kept) + 1 == len(held):
            break
        kept.insert(0, piece)
    return kept


def _pieces(block: Block, size: int) -> Iterator[_Piece]:
    """A block that fits, or its lines, or its sentences; of those that are too long themselves, parts."""
    tokens = estimate_text(block.text)
    if tokens <= size:
        yield _Piece(block.text, tokens)
        return
    if block.whole:
        lines, head = block.text.split("\n"), ""
        if block.head and estimate_text(block.head) * 2 < size:
            head = block.head
        room = size - (estimate_text(head) if head else 0)
        for number, text in enumerate(lines):
            for part in _parts(text, room):
                gap = "\n\n" if number == 0 else "\n"
                in_head = bool(head) and number <= head.count("\n")
                yield _Piece(part, estimate_text(part), gap=gap, head="" if in_head else head)
        return
    start, gap = 0, "\n\n"
    for match in [*_SENTENCE.finditer(block.text), None]:
        for part in _parts(block.text[start : match.start() if match else None], size):
            yield _Piece(part, estimate_text(part), running=True, gap=gap)
            gap = ""
        if match is not None:
            start, gap = match.end(), "\n" if "\n" in match[0] else match[0][:1]


def _parts(text: str, size: int) -> Iterator[str]:
    """A text within the size: cut between words, or between signs where there are no spaces."""
    start = 0
    while start < len(text):
        part = text[start : start + WIDEST * size]  # never all of it: a file may be one line of 50 MB
        ends = start + len(part) == len(text)
        while len(part) > size and (tokens := estimate_text(part)) > size:  # a token has at least one sign
            ends = False
            part = part[: max(size, min(len(part) * size // tokens, len(part) * 19 // 20))]
        space = -1 if ends else part.rfind(" ", len(part) // 2)
        part = part[: space + 1] if space > 0 else part
        start += len(part)
        if part.strip():
            yield part.strip(" ")
