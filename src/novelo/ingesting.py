"""Files and passages on their way into a collection: read, cut, put in, and told how far that is.

A file is known by the hash of its bytes and of how it is cut. What cannot be read is told by its path, what the index
has of it stays, and the rest goes on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from novelo.errors import ImportFailed, MissingExtra
from novelo.languages import language_of
from novelo.retrievers.chunks import chunks
from novelo.retrievers.files import File, Walked, below, content, shown
from novelo.retrievers.readers import Document, read
from novelo.stores.documents import NewChunk, NewSource, Source
from novelo.words import STEMMED, stems

if TYPE_CHECKING:
    from novelo.documents import Documents

CUT = b"1"  # part of a source's hash: a file is read again when the way in which it is cut has changed
PUT_CHUNKS = 256  # that are put in at once: a turn of a chat may wait for that long
LANGUAGE_OF = 20_000  # characters of a document that its language is told by


class Progress(msgspec.Struct, frozen=True):
    """How far a long call is.

    Attributes:
        stage: "read" (files) or "embed" (chunks).
        done, total: of these.
        name: of the file.
        seconds: since the call began.
        bad: what is wrong with this file.
    """

    stage: str
    done: int
    total: int
    name: str = ""
    seconds: float = 0.0
    bad: str = ""

    @property
    def rate(self) -> float:
        """How many a second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0


OnProgress = Callable[[Progress], object]


class Ingested(msgspec.Struct, frozen=True):
    """What `ingest` did: sources by what became of them, bad files with what is wrong, files of unknown kinds."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    bad: dict[str, str] = {}
    others: int = 0
    chunks: int = 0
    seconds: float = 0.0


class Waiting:
    """Sources that are put in together: a transaction for each would be slow, one for all would hold up a chat."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._since = time.time()
        self._sources: list[NewSource] = []
        self._chunks = self.chunks = 0
        self.names: dict[str, str] = {}  # path -> the name under which its file was put in

    def add(self, source: NewSource) -> None:
        """One more."""
        self._sources.append(source)
        self._chunks += len(source.chunks)
        if self._chunks >= PUT_CHUNKS:
            self.put()

    def put(self) -> None:
        """Put in what waits."""
        if self._sources:
            docs = self._documents
            names = (docs.owner, docs.name)
            put = docs.store.put(docs.key, names, self._sources, time.time(), since=self._since)
            self.names |= {one.source.path: name for one, name in zip(self._sources, put, strict=True)}
        self.chunks += self._chunks
        self._sources, self._chunks = [], 0


class Putting:
    """Files on their way into a collection."""

    def __init__(self, documents: Documents, walked: Walked) -> None:
        self._documents, self._walked = documents, walked
        known = documents.list()
        self._by_path = {one.path: one for one in known if one.path}
        self._waiting = Waiting(documents)
        self._done: dict[str, list[str]] = {"added": [], "changed": [], "same": []}  # paths

    def file(self, file: File, max_bytes: int) -> str:
        """Read a file; what is wrong with it, or ""."""
        path = shown(file.path)
        known = self._by_path.get(path)
        try:
            data = content(file.path, max_bytes)
            seal = blake2b(data, digest_size=16, key=CUT + file.kind.encode()).digest()
            if known is not None and known.hash == seal:
                self._done["same"].append(path)
                return ""
            document = read(data, file.kind)
        except (ImportFailed, MissingExtra) as error:
            stays = "; what the index has of it stays" if known is not None else ""
            self._walked.bad[path] = f"{error}{stays}"
            return str(error)
        name = known.source if known is not None else file.name
        title = os.path.splitext(os.path.basename(path))[0]
        made = new_source(Source(name, path, seal, document.title or title, bytes=len(data)), document)
        self._waiting.add(made)
        self._done["added" if known is None else "changed"].append(path)
        return ""

    def end(self, seconds: float) -> Ingested:
        """Put in what waits, and take out what is gone from the folders."""
        self._waiting.put()
        walked, docs = self._walked, self._documents
        here = {shown(file.path) for file in walked.files} | walked.bad.keys()
        gone = [
            one.source
            for path, one in self._by_path.items()
            if path not in here
            and any(below(path, folder) for folder in walked.folders)
            and not any(below(path, folder) for folder in walked.unknown)
        ]
        if gone:
            docs.store.remove(docs.key, gone, time.time())
        if gone or self._done["changed"]:
            docs.memory.store.scrub()
        names = {path: one.source for path, one in self._by_path.items()} | self._waiting.names
        lists = {what: tuple(names[path] for path in paths) for what, paths in self._done.items()}
        return Ingested(**lists, removed=tuple(gone), bad=walked.bad, others=walked.others, chunks=self._waiting.chunks,
                        seconds=seconds)  # fmt: skip


def new_source(source: Source, document: Document) -> NewSource:
    """A source cut into chunks, each with the words it is found by."""
    cut = chunks(document, source.title)
    language = language_of("\n".join(chunk.text for chunk in cut)[:LANGUAGE_OF])
    mixed = (
        len(document.sections) > 1 and document.sections[0].entry
    )  # passages of several languages may stand in a file
    made = []
    for chunk in cut:
        spoken = (language_of(chunk.text) if mixed else None) or language
        heads, words = (" ".join(_stems(text, spoken)) for text in (chunk.heading, chunk.text))
        made.append(NewChunk(msgspec.json.encode(chunk), heads, words))
    tokens = sum(chunk.tokens for chunk in cut)
    return NewSource(msgspec.structs.replace(source, tokens=tokens, chunks=len(made)), made)


def _stems(text: str, language: str | None) -> list[str]:
    """The stems of a text; where its language is not known, a word's stems in each language that has any."""
    if language is not None:
        return stems(text, language)
    return [stem for word in zip(*(stems(text, one) for one in STEMMED), strict=True) for stem in dict.fromkeys(word)]
