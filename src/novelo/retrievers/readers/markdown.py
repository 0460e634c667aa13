"""Markdown, as CommonMark with tables: a section for each heading; tables, lists and code stay whole.

Texts are kept as they were written, marks included: a model reads Markdown well, and a table is one only with its bars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt

from novelo.retrievers.readers.base import Document, Sections, clean, decoded

_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?)\n(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[^\S\n]*(.+)$", re.MULTILINE | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
SLAB = 200_000  # characters that are parsed at once, about
_WHOLE = {"bullet_list_open", "ordered_list_open", "table_open"}


def read(data: bytes) -> Document:
    """A Markdown file; the title is that of its front matter, else its only heading of the highest level."""
    text, title = decoded(data), ""
    front = _FRONT.match(text)
    if front is not None:
        named = _TITLE.search(front[1])
        title = named[1].strip().strip("\"'") if named else ""
        text = text[front.end() :]
    out = Sections()
    for slab in _slabs(text):
        _through(slab, out)
    return out.document(title)


def _slabs(text: str) -> Iterator[str]:
    """A long file in parts, cut before a heading, else at an empty line: the parser takes a hundred times the text."""
    if len(text) <= SLAB:
        yield text
        return
    held: list[str] = []
    size, fence = 0, ""
    for row in text.split("\n"):
        mark = _FENCE.match(row)
        ready = size > SLAB and (row.startswith("#") or (size > 4 * SLAB and not row.strip()))
        if (ready and not fence) or size > 16 * SLAB:
            yield "\n".join(held)
            held, size, fence = [], 0, ""
        if mark:
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        held.append(row)
        size += len(row) + 1
    yield "\n".join(held)


def _through(text: str, out: Sections) -> None:
    lines = text.split("\n")
    blocks = MarkdownIt("commonmark", {"maxNesting": 50}).enable("table").disable(["inline", "text_join"])
    tokens = blocks.parse(text)  # what stands inside of a line is kept as it is: no time is spent on it
    for i, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        written = "\n".join(lines[slice(*token.map)])
        if token.type == "heading_open":
            out.heading(int(token.tag[1:]), _plain(tokens[i + 1].content))
        elif token.type in ("fence", "code_block"):
            out.block(written, whole=True, raw=True)
        elif token.type in _WHOLE:
            head = "\n".join(written.split("\n")[:2]) if token.type == "table_open" else ""
            out.block(written.rstrip(), whole=True, head=head, raw=True)
        elif token.type == "html_block":
            out.block(_TAG.sub(" ", _COMMENT.sub("", written)))
        else:
            out.block(clean(written))


def _plain(inline: str) -> str:
    """A heading's text without its marks."""
    inline = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", inline)
    return re.sub(r"[*`]+|(?<!\w)_+|_+(?!\w)", "", _TAG.sub("", inline))
