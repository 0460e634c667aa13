"""HTML: headings, paragraphs, lists, tables and code of a page, without what stands round them.

Nothing is fetched and no script runs: the page is read as data.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

from novelo.errors import ImportFailed, MissingExtra
from novelo.retrievers.readers.base import Document, Sections, decoded, table_text

try:
    from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
    from bs4.dammit import EncodingDetector
    from bs4.element import NavigableString, PreformattedString, Tag
except ImportError as _error:
    raise MissingExtra("reading HTML needs beautifulsoup4: pip install 'novelo[rag]'", extra="rag") from _error

logging.getLogger("bs4.dammit").setLevel(logging.CRITICAL)  # it tells of odd bytes without saying of which file
# fmt: off
_DROPPED = frozenset({
    "script", "style", "noscript", "template", "head", "nav", "footer", "aside", "iframe", "object", "svg", "canvas",
    "form", "button", "select", "dialog", "menu", "title",
})
_INLINE = frozenset({
    "a", "abbr", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img", "ins",
    "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike", "strong", "sub", "sup",
    "time", "tt", "u", "var", "wbr",
})
# fmt: on
MOST_BYTES = 10_000_000
_HEADINGS = {f"h{n}": n for n in range(1, 7)}
_LIST_DEPTH = 20


def read(data: bytes) -> Document:
    """An HTML page; headings make its sections.

    Raises:
        ImportFailed: it is too large: its tree takes a hundred times as much.
    """
    if len(data) > MOST_BYTES:
        raise ImportFailed(f"{len(data) / 1e6:.0f} MB of HTML, at most {MOST_BYTES // 1_000_000} MB are read: split it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        said = EncodingDetector.find_declared_encoding(data, is_html=True)
        soup = BeautifulSoup(decoded(data) if said in (None, "utf-8", "utf8") else data, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    walk = _Walk()
    walk.through(soup.body or soup)
    return walk.out.document(title)


class _Walk:
    """Goes through the elements in order, without recursion: a page may be nested a hundred thousand times."""

    def __init__(self) -> None:
        self.out = Sections()
        self._held: list[str] = []

    def through(self, root: Any) -> None:
        stack: list[Any] = [root]
        while stack:
            node = stack.pop()
            if node is None:  # a block ends
                self._flush()
            elif isinstance(node, Tag):
                stack.extend(self._enter(node))
            elif isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
                self._held.append(str(node).replace("\n", " "))
        self._flush()

    def _enter(self, node: Tag) -> list[Any]:
        """Handle an element whole, or give what stands in it, the last first."""
        name = node.name.lower()
        if name in _DROPPED or node.get("hidden") is not None or node.get("aria-hidden") == "true":
            return []
        if name in _HEADINGS:
            self._flush()
            self.out.heading(_HEADINGS[name], node.get_text(" "))
        elif name == "pre":
            self._flush()
            self.out.block("```\n" + node.get_text().strip("\n") + "\n```", whole=True, raw=True)
        elif name == "table" and node.find("table") is None:
            self._flush()
            text, head = table_text(_rows(node))
            self.out.block(text, whole=True, head=head, raw=True)
        elif name in ("ul", "ol") and node.find(["table", "pre", *_HEADINGS]) is None:
            self._flush()
            self.out.block("\n".join(_items(node, 0)), whole=True, raw=True)
        elif name == "br":
            self._held.append("\n")
        elif name in _INLINE:
            return list(reversed(node.contents))
        else:
            self._flush()
            return [None, *reversed(node.contents)]
        return []

    def _flush(self) -> None:
        text, self._held = "".join(self._held), []
        self.out.block(text)


def _rows(table: Tag) -> list[list[str]]:
    """The cells of a table, row by row.

    Rows and cells need no end in HTML, and the parser puts the next one into one that has none: a cell ends where the
    next begins. So each text is read once.
    """
    rows: list[list[list[str]]] = []
    for node in table.descendants:
        if isinstance(node, Tag) and node.name == "tr":
            rows.append([])
        elif isinstance(node, Tag) and node.name in ("td", "th") and rows:
            rows[-1].append([])
        elif type(node) is NavigableString and rows and rows[-1]:  # no comment, no script
            rows[-1][-1].append(str(node))
    return [[" ".join(texts) for texts in row] for row in rows]


def _items(node: Tag, depth: int) -> list[str]:
    """The lines of a list, those of lists inside it indented."""
    lines: list[str] = []
    for number, item in enumerate(node.find_all("li", recursive=False), 1):
        inner = item.find_all(["ul", "ol"], recursive=False) if depth < _LIST_DEPTH else []
        own = [child.get_text(" ") if isinstance(child, Tag) else str(child) for child in item.contents
               if not any(child is one for one in inner)]  # fmt: skip
        mark = f"{number}." if node.name == "ol" else "-"
        text = " ".join(" ".join(own).split())
        if text:
            lines.append(f"{'  ' * depth}{mark} {text}")
        for one in inner:
            lines += _items(one, depth + 1)
    return lines
