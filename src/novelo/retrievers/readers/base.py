"""What a reader gives: a document as sections under their headings, each of blocks that may be cut or are best not.

A reader takes the bytes of one file, already within the size limit, and gives a `Document`; it raises `ImportFailed`
with a sentence that says what is wrong with the file and what to do. It never runs, fetches or follows anything that
the file names.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import msgspec

from novelo.errors import ImportFailed

MAX_TEXT = 50_000_000  # characters that one file may unpack to: a small PDF or DOCX can hold gigabytes
TOO_MUCH = f"it unpacks to more than {MAX_TEXT // 1_000_000} million characters: split it"
CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")
_SPACE = re.compile(r"[^\S\n]+")
_GAPS = re.compile(r"\n{3,}")


class Block(msgspec.Struct, frozen=True):
    """A piece of a section.

    Attributes:
        text: a paragraph, or several lines.
        whole: a table, a list, code: not cut where that can be avoided, else between lines.
        head: lines that are repeated on top of each part where it must be cut: the header of a table.
    """

    text: str
    whole: bool = False
    head: str = ""


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands under one heading.

    Attributes:
        blocks: its pieces in order.
        path: the headings above it, the highest first.
        page: where it begins, counted from 1; 0 is unknown.
        title, source: of its own, where a file is a collection of passages.
        entry: a question and its answer, or a passage that somebody cut already: one chunk, if it is not far too long.
    """

    blocks: tuple[Block, ...]
    path: tuple[str, ...] = ()
    page: int = 0
    title: str = ""
    source: str = ""
    entry: bool = False


class Document(msgspec.Struct, frozen=True):
    """A file's text; the title is "" where the file names none."""

    sections: tuple[Section, ...]
    title: str = ""


Reader = Callable[[bytes], Document]


def decoded(data: bytes) -> str:
    """The text of a file: UTF-8, UTF-16 with its mark, else Windows' Western encoding.

    A file with more letters beyond ASCII than bytes that are no UTF-8 is UTF-8 with a fault in it, such as a last
    letter that was cut in two: read as Western, every accent of it would become two signs.

    Raises:
        ImportFailed: it is no text.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:65536]:
        raise ImportFailed("a binary file, not text")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("utf-8-sig", "replace")
            beyond = sum(not sign.isascii() for sign in text)
            if beyond <= 2 * text.count("\ufffd"):
                text = data.decode("cp1252", "replace")
                odd = sum(1 for sign in text[:65536] if sign == "\ufffd" or CONTROL.match(sign))
                if odd * 50 > min(len(text), 65536):
                    raise ImportFailed("a binary file, not text") from None
    if len(CONTROL.findall(text[:65536])) * 10 > min(len(text), 65536):
        raise ImportFailed("a binary file, not text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def clean(text: str) -> str:
    """A text without control signs, with accents composed, single spaces and no more than one empty line in a row."""
    text = CONTROL.sub("", unicodedata.normalize("NFC", text)).encode("utf-8", "replace").decode("utf-8")
    text = "\n".join(_SPACE.sub(" ", line).strip() for line in text.split("\n"))
    return _GAPS.sub("\n\n", text).strip()


def line(text: str) -> str:
    """A heading or a title as one line of at most 300 characters."""
    return " ".join(clean(text).split())[:300]


def table_text(rows: list[list[str]]) -> tuple[str, str]:
    """A table as Markdown rows, and its header."""
    rows = [[line(cell).replace("|", "\\|") for cell in row] for row in rows]
    rows = [row for row in rows if any(row)]
    if not rows:
        return "", ""
    width = max(map(len, rows))
    written = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in rows]
    head = written[0] + "\n|" + " --- |" * width
    return "\n".join([head, *written[1:]]), head


class Sections:
    """Builds sections while a reader goes through a file: headings open one, blocks fill it."""

    def __init__(self) -> None:
        self._path: list[tuple[int, str]] = []
        self._blocks: list[Block] = []
        self._page = 0
        self._size = 0
        self.done: list[Section] = []
        self.first_heading = ""

    def heading(self, level: int, text: str) -> None:
        """A heading: 1 is the highest level."""
        text = line(text)
        if not text:
            return
        self.end()
        self.first_heading = self.first_heading or text
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        self._path.append((level, text))

    def page(self, number: int) -> None:
        """A page begins, and a section with it."""
        self.end()
        self._page = number

    def block(self, text: str, *, whole: bool = False, head: str = "", raw: bool = False) -> None:
        """A piece of the section; raw text keeps its spaces."""
        text = CONTROL.sub("", unicodedata.normalize("NFC", text)).strip("\n") if raw else clean(text)
        if not text.strip():
            return
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise ImportFailed(TOO_MUCH)
        self._blocks.append(Block(text, whole, head))

    def end(self) -> None:
        """The section is complete; one without text is none."""
        if self._blocks:
            path = tuple(text for _, text in self._path)
            self.done.append(Section(tuple(self._blocks), path, self._page))
        self._blocks = []

    def document(self, title: str = "") -> Document:
        """All sections. A heading over everything is the title, and no part of the sections' paths."""
        self.end()
        title = line(title)
        if not title:
            firsts = {section.path[0] for section in self.done if section.path}
            if len(firsts) == 1:
                title = firsts.pop()
        sections = [
            msgspec.structs.replace(s, path=s.path[1:]) if s.path and s.path[0] == title else s for s in self.done
        ]
        return Document(tuple(sections), title or self.first_heading)
