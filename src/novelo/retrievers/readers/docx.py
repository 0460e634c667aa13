"""DOCX: headings by their styles, paragraphs, lists and tables in the order of the document."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from novelo.errors import ImportFailed, MissingExtra
from novelo.retrievers.readers.base import MAX_TEXT, Document, Sections, table_text

try:
    import docx
    from docx.table import Table
except ImportError as _error:
    raise MissingExtra("reading DOCX needs python-docx: pip install 'novelo[rag]'", extra="rag") from _error

_OLD = b"\xd0\xcf\x11\xe0"  # how the files of old Word, and encrypted new ones, begin
_HEADING = re.compile(r"heading (\d)", re.IGNORECASE)


def read(data: bytes) -> Document:
    """A Word document.

    Raises:
        ImportFailed: it is encrypted or of old Word, damaged, or unpacks to far too much.
    """
    if data.startswith(_OLD):
        raise ImportFailed("an encrypted document, or one of old Word (.doc): save it as .docx without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            marked = sum(part.file_size for part in packed.infolist() if part.filename.endswith((".xml", ".rels")))
            if marked > MAX_TEXT:
                raise ImportFailed("it unpacks to far more than a document holds: not read")
        document = docx.Document(io.BytesIO(data))
        out = Sections()
        items: list[str] = []
        title = document.core_properties.title or ""
        for one in document.iter_inner_content():
            if isinstance(one, Table):
                items = _flush(out, items)
                text, head = table_text([[cell.text for cell in row.cells] for row in one.rows])
                out.block(text, whole=True, head=head, raw=True)
                continue
            style = (one.style.name if one.style is not None else "") or ""
            heading = _HEADING.match(style)
            if _is_item(one, style) and not heading:
                items.append(f"- {' '.join(one.text.split())}")
                continue
            items = _flush(out, items)
            if heading:
                out.heading(int(heading[1]), one.text)
            elif style == "Title":
                title = title or one.text
            else:
                out.block(one.text)
        _flush(out, items)
    except ImportFailed:
        raise
    except Exception as error:  # whatever a broken file makes the library raise
        raise ImportFailed(f"a damaged DOCX ({type(error).__name__})") from error
    return out.document(title)


def _is_item(paragraph: Any, style: str) -> bool:
    properties = paragraph._p.pPr
    return bool(paragraph.text.strip()) and (
        style.startswith("List") or (properties is not None and properties.numPr is not None)
    )


def _flush(out: Sections, items: list[str]) -> list[str]:
    out.block("\n".join(items), whole=True, raw=True)
    return []
