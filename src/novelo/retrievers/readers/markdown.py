"""Markdown, as CommonMark with tables: a section for each heading; tables, lists and code stay whole.

Texts are kept as they were written, marks included: a model reads Markdown well, and a table is one only with its bars.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from novelo.retrievers.readers.base import Document, Sections, clean, decoded

_FRONT = re.compile(r"\A---[^\S\n]*\n(.*?)\n(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"^title:[^\S\n]*(.+)$", re.MULTILINE | re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")
_WHOLE = {"bullet_list_open", "ordered_list_open", "table_open"}


def read(data: bytes) -> Document:
    """A Markdown file; the title is that of its front matter, else its only heading of the highest level."""
    text, title = decoded(data), ""
    front = _FRONT.match(text)
    if front is not None:
        named = _TITLE.search(front[1])
        title = named[1].strip().strip("\"'") if named else ""
        text = text[front.end() :]
    lines = text.split("\n")
    out = Sections()
    tokens = MarkdownIt("commonmark", {"maxNesting": 50}).enable("table").parse(text)
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
    return out.document(title)


def _plain(inline: str) -> str:
    """A heading's text without its marks."""
    inline = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", inline)
    return re.sub(r"[*`]+|(?<!\w)_+|_+(?!\w)", "", _TAG.sub("", inline))
