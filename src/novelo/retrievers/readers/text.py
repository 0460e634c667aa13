"""Plain text: paragraphs stand between empty lines."""

from __future__ import annotations

import re

from novelo.retrievers.readers.base import Document, Sections, decoded

_BETWEEN = re.compile(r"\n[^\S\n]*\n")


def read(data: bytes) -> Document:
    """A text file as one section."""
    out = Sections()
    for paragraph in _BETWEEN.split(decoded(data)):
        out.block(paragraph)
    return out.document()
