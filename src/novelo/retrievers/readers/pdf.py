"""PDF: the text of each page, with the bookmark that leads there as its heading.

Lines that most pages begin or end with (the name of the document, the number of the page) are left out.
"""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from contextlib import suppress
from typing import Any

from novelo.errors import ImportFailed, MissingExtra
from novelo.retrievers.readers.base import MAX_TEXT, TOO_MUCH, Document, Sections

try:
    from pypdf import PdfReader
except ImportError as _error:
    raise MissingExtra("reading PDF needs pypdf: pip install 'novelo[rag]'", extra="rag") from _error

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every oddity; what stops us is told by us
_NUMBER = re.compile(r"\d+")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zà-öø-ÿ])")
_BREAK = re.compile(r"(?<![.!?:;。!?])\n(?=\S)")
MANY = 4  # pages from which on a line that comes again is taken for a running one


def read(data: bytes) -> Document:
    """A PDF file; a section for each page.

    Raises:
        ImportFailed: it is encrypted, damaged, or holds no text.
    """
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ImportFailed("an encrypted PDF: save it without its password")
        pages = _pages(reader)
        title = reader.metadata.title if reader.metadata else None
        marks = _bookmarks(reader)
    except ImportFailed:
        raise
    except Exception as error:  # whatever a broken file makes the library raise
        missing = "cryptography" in str(error) or "PyCryptodome" in str(error)
        said = (
            "an encrypted PDF: save it without its password" if missing else f"a damaged PDF ({type(error).__name__})"
        )
        raise ImportFailed(said) from error
    running = _running(pages)
    out = Sections()
    for number, lines in enumerate(pages, 1):
        out.page(number)
        for level, text in marks.get(number, ()):
            out.heading(level, text)
        kept = [one for one in lines if _mask(one) not in running]
        for paragraph in re.split(r"\n\s*\n", "\n".join(kept)):
            out.block(_BREAK.sub(" ", _HYPHEN.sub("", paragraph)))
    document = out.document(str(title or ""))
    if not document.sections:
        raise ImportFailed("a PDF without text: pictures of pages, which must go through text recognition first")
    return document


def _pages(reader: PdfReader) -> list[list[str]]:
    """The lines of each page."""
    pages, size = [], 0
    for page in reader.pages:
        text = page.extract_text()
        size += len(text)
        if size > MAX_TEXT:
            raise ImportFailed(TOO_MUCH)
        pages.append([one.rstrip() for one in text.split("\n")])
    return pages


def _mask(text: str) -> str:
    return _NUMBER.sub("#", text.strip())


def _running(pages: list[list[str]]) -> set[str]:
    """Lines at the edges of most pages, numbers apart."""
    full = [[one for one in lines if one.strip()] for lines in pages]
    full = [lines for lines in full if lines]
    if len(full) < MANY:
        return set()
    edges = Counter(mask for lines in full for mask in {_mask(one) for one in (lines[0], lines[-1])})
    return {mask for mask, count in edges.items() if count * 10 >= len(full) * 6}


def _bookmarks(reader: PdfReader) -> dict[int, list[tuple[int, str]]]:
    """Headings by page, as the outline names them: level, text."""
    found: dict[int, list[tuple[int, str]]] = {}
    stack: list[tuple[int, Any]] = [(1, one) for one in reversed(reader.outline)]
    while stack and len(found) < 10_000:
        level, one = stack.pop()
        if isinstance(one, list):
            stack += [(level + 1, inner) for inner in reversed(one)] if level < 10 else []
            continue
        with suppress(Exception):  # a bookmark that leads nowhere
            number = reader.get_destination_page_number(one)
            if number is not None:
                found.setdefault(number + 1, []).append((level, str(one.title)))
    return found
