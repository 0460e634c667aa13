"""Readers of files: Markdown, text, HTML, PDF, DOCX, JSONL. None runs or fetches anything that a file names.

Markdown, text and JSONL are read by the bare install, the others with the extra `rag`.
"""

from __future__ import annotations

from importlib import import_module

from novelo.errors import ImportFailed
from novelo.retrievers.readers.base import Block, Document, Section
from novelo.retrievers.readers.jsonl import section_of

__all__ = ["KINDS", "Block", "Document", "Section", "kind_of", "read", "section_of"]

KINDS = {
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".txt": "text", ".text": "text", ".rst": "text",
    ".html": "html", ".htm": "html", ".xhtml": "html", ".pdf": "pdf", ".docx": "docx", ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}  # fmt: skip


def kind_of(suffix: str) -> str | None:
    """The reader for a file's ending; None where it is not known."""
    return KINDS.get(suffix.lower())


def read(data: bytes, kind: str = "text") -> Document:
    """The sections of a file's bytes.

    Args:
        data: the whole file.
        kind: one of the values of `KINDS`.
    Raises:
        ImportFailed: it cannot be read, or holds no text. MissingExtra: its reader is not installed.
    """
    if not data.strip():
        raise ImportFailed("an empty file")
    document: Document = import_module(f"novelo.retrievers.readers.{kind}").read(data)
    if not document.sections:
        raise ImportFailed("no text in it")
    return document
