"""What a store promises about documents: collections of sources, cut into chunks that words and vectors find.

A collection belongs to an owner; its key is a keyed hash of owner and name, as a thread's is, and every statement
begins with it, so that no name reaches another owner's texts. A source is what was put in at once and goes at once: a
file, or a passage of the caller's. Its chunks are numbered in the order in which they came; no number is used twice.

The words of a chunk come from `novelo.words`: those of its title and headings apart from those of its text. A word
index is written with the chunk, in the same transaction. Vectors come later and on their own: a chunk has none, or one
of the collection's model. Scores are computed over one collection: what others hold changes nothing.

Promises: a put replaces a source whole or changes nothing; after `remove`, `erase` and `scrub` no byte of a text, a
word or a vector is left in any file; a row that was altered outside of the store is `StorageCorrupt` to its reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from novelo.errors import IndexMismatch
from novelo.stores.privacy import NOBODY, Hook, Note

ERASED = "the collection was erased while this was being read in; nothing was stored"

MATCHES = 8_000  # postings that one search reads, about; words that most chunks have are left for the second step
SCORED = 300  # best ones of a search that are scored exactly
K1, B = 1.2, 0.75  # of BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009)
HEADS = 1.0  # how much a word of a title or heading counts, against one of the text


class Collection(msgspec.Struct, frozen=True):
    """A collection's facts.

    Attributes:
        sources, chunks, vectors: how many there are.
        words: of all chunks, headings included.
        model, size: of its vectors; "" and 0 where there are none yet.
        put, dropped: rise whenever chunks or vectors come, or go.
    """

    key: bytes
    owner: str
    name: str
    number: int
    sources: int = 0
    chunks: int = 0
    vectors: int = 0
    words: int = 0
    model: str = ""
    size: int = 0
    put: int = 0
    dropped: int = 0
    created: float = 0.0
    updated: float = 0.0


class Source(msgspec.Struct, frozen=True):
    """A source's facts: the path of the file that it was read from, or ""; a hash of the file and of how it was cut."""

    source: str
    path: str = ""
    hash: bytes = b""
    title: str = ""
    chunks: int = 0
    tokens: int = 0
    bytes: int = 0
    updated: float = 0.0


class NewChunk(msgspec.Struct, frozen=True):
    """A chunk to be put: its body as bytes, and the words of its headings and of its text, each joined by spaces."""

    body: bytes
    heads: str = ""
    words: str = ""


class NewSource(msgspec.Struct, frozen=True):
    """A source to be put, with all its chunks; its counts are taken from these."""

    source: Source
    chunks: Sequence[NewChunk]


def named(new: Source, there: Source | None) -> str:
    """The name under which a source is put: a file whose name another source has is named by its path.

    It is asked in the transaction of the put: two processes may put files of one name in at the same time.

    Args:
        there: the source that has the name now.
    """
    taken = there is not None and new.path != "" and there.path != new.path
    return new.path if taken else new.source


class StoredChunk(msgspec.Struct, frozen=True):
    """A chunk: its number in the index, its source, and its place there, from 0."""

    number: int
    source: str
    place: int
    body: bytes


class Matches(msgspec.Struct, frozen=True):
    """What a keyword search found.

    Attributes:
        scores: chunk number -> score, of those scored exactly.
        rest: of all chunks with a word of the question, roughly; empty unless it was asked for.
        share: what a rough score is to be multiplied with to stand beside an exact one.
        frequencies: how many chunks have each word of the query.
    """

    scores: dict[int, float]
    rest: dict[int, float] = {}
    share: float = 1.0
    frequencies: tuple[int, ...] = ()


Query = Sequence[tuple[Sequence[str], float]]  # words, each with the stems that a text may have for it, and its weight


def check_model(found: Collection, model: str, size: int) -> None:
    """Refuse vectors of another model than the collection's.

    Raises:
        IndexMismatch: they are, with the command that makes the index anew.
    """
    if found.model and (found.model, found.size) != (model, size):
        whose = f" --owner {found.owner!r}" if found.owner else ""
        raise IndexMismatch(
            f"the vectors of collection {found.name!r} are of {found.model} ({found.size} numbers), not of {model} "
            f"({size}): search by keywords alone, or make them anew with `novelo docs embed --rebuild "
            f"--collection {found.name!r}{whose}`",
            found=found.model, wanted=model,
        )  # fmt: skip


class DocumentStore(Protocol):
    """See the top of the file. `key` is always a collection's key. Errors of the store may come from every method."""

    on_erased: Hook | None  # as a store's

    def key_of(self, owner: str, name: str) -> bytes:
        """A collection's key.

        Raises:
            InvalidSpec: no text, an empty name, more than 1000 characters, half a surrogate pair.
        """
        ...

    def collection(self, key: bytes) -> Collection | None:
        """A collection's facts; None if nothing was put into it."""
        ...

    def collections(self, owner: str | None = None) -> list[Collection]:
        """All collections, of one owner or of everybody, by owner and name."""
        ...

    def put(
        self,
        key: bytes,
        names: tuple[str, str],
        sources: Sequence[NewSource],
        now: float,
        *,
        since: float | None = None,
    ) -> list[str]:
        """Put sources in, in place of those of the same names, in one transaction; the first makes the collection.

        Args:
            since: when the caller began to read: a collection that was erased since is not made again.
        Returns:
            The names that they have now (`named`).
        Raises:
            ThreadErased: it was erased since.
        """
        ...

    def remove(self, key: bytes, sources: Sequence[str], now: float) -> int:
        """Take sources out; how many there were."""
        ...

    def erase(self, key: bytes, now: float, note: Note = NOBODY) -> dict[str, int]:
        """Take a collection out with all it holds; rows by kind.

        Raises:
            ThreadHeld: a hold on its owner forbids it.
        """
        ...

    def sources(self, key: bytes) -> list[Source]:
        """All sources, by name."""
        ...

    def source(self, key: bytes, source: str) -> Source | None:
        """One of them."""
        ...

    def chunks_of(self, key: bytes, source: str) -> list[StoredChunk]:
        """A source's chunks, in order."""
        ...

    def chunks(self, key: bytes, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Chunks by their numbers; those that are gone are left out."""
        ...

    def find(self, key: bytes, query: Query, rest: bool = False) -> Matches:
        """The chunks that hold words of a question, by BM25; a word's weight counts its score that many times."""
        ...

    def without_vector(self, key: bytes, limit: int, after: int = 0) -> list[StoredChunk]:
        """Chunks that have no vector yet, with numbers above `after`, the lowest first."""
        ...

    def put_vectors(self, key: bytes, model: str, size: int, vectors: Sequence[tuple[int, bytes]], now: float) -> int:
        """Vectors of chunks; how many were taken: chunks that are gone, or have one, get none.

        Raises:
            IndexMismatch: the collection's vectors are of another model.
        """
        ...

    def drop_vectors(self, key: bytes, now: float) -> int:
        """Take all vectors out, so that those of another model can come; how many there were."""
        ...

    def vectors(self, key: bytes, after: int = 0) -> list[tuple[int, int, bytes]]:
        """Vectors in the order in which they came: their own number (above `after`), the chunk's, the vector."""
        ...

    def vector_numbers(self, key: bytes) -> list[int]:
        """The own numbers of all vectors that are there, ascending."""
        ...
