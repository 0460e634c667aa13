"""Documents: collections of files and passages that are searched by words and by meaning.

    docs = memory.documents("faq", owner="loja-1")
    docs.ingest(["docs/"])                      # files that changed; those that are gone go
    docs.search("E se eu tiver pago com Pix?")  # passages: text, title, section, source, score

Words are searchable when `ingest` returns. Vectors come behind it, in a thread of this process or by `embed`, which
goes on where an earlier one was stopped; meanwhile passages without one are found by their words. How files are put in
stands in `ingesting.py`, what the handles of a memory share in `indexes.py`.
"""

from __future__ import annotations

import builtins
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.errors import ImportFailed, InvalidSpec, UnknownEntry
from novelo.ingesting import Ingested, OnProgress, Progress, Putting, Waiting, new_source
from novelo.retrieval import Passage
from novelo.retrievers.base import Embedder, Vectors
from novelo.retrievers.chunks import Chunk
from novelo.retrievers.files import MAX_BYTES, walk
from novelo.retrievers.readers import Document, section_of
from novelo.retrievers.support import ENOUGH, own_words
from novelo.stores.documents import MATCHES, SCORED, Collection, Matches, Source, StoredChunk, check_model
from novelo.words import query_stems

if TYPE_CHECKING:
    from novelo.memory import Memory
    from novelo.retrievers.matrix import Matrix

__all__ = ["Documents", "Ingested", "Progress"]

EMBED_CHUNKS = 8  # that are embedded between two writes; a killed process loses no more
ASKED_AS = "queries: expected a text, a list of texts, or a list of (text, weight from 0 up)"
ASKED = 4000  # characters of a question that are searched for
ASKED_WORDS = 64  # different words of it
FOUND_MOST = 1000

Found = list[tuple[int, dict[str, Any]]]  # numbers of chunks with their scores, the best first
Queries = str | Sequence[str] | Sequence[tuple[str, float]]


class Documents:
    """One collection of an owner's. Safe to use from several threads; nothing is written before something is put in."""

    min_score = ENOUGH  # below it a passage supports no answer; of `support`

    def __init__(self, memory: Memory, name: str, owner: str, embedder: Embedder | None) -> None:
        """See `Memory.documents`."""
        self.memory, self.name, self.owner, self.embedder = memory, name, owner, embedder
        self.store = memory.store.documents
        self.key = self.store.key_of(owner, name)

    def __repr__(self) -> str:
        return f"Documents({self.name!r}, owner={self.owner!r})"

    # ------------------------------------------------------------------------------------------ what is there
    @property
    def row(self) -> Collection | None:
        """The collection's facts; None while nothing was put in."""
        return self.store.collection(self.key)

    def list(self) -> builtins.list[Source]:
        """All sources, by name."""
        return self.store.sources(self.key)

    def show(self, source: str) -> builtins.list[Passage]:
        """The passages of a source, in order.

        Raises:
            UnknownEntry: there is no such source.
        """
        found = self.store.chunks_of(self.key, source)
        if not found and self.store.source(self.key, source) is None:
            raise UnknownEntry(self._no_source(source))
        return [_passage(chunk) for chunk in found]

    def remove(self, source: str) -> int:
        """Take a source out, or all whose names begin with a folder's ("faq/"); how many. Nothing of them is left.

        Raises:
            UnknownEntry: there is no such source.
        """
        gone = [source] if self.store.source(self.key, source) else []
        if not gone and source.endswith("/"):
            gone = [one.source for one in self.list() if one.source.startswith(source)]
        if not gone:
            raise UnknownEntry(self._no_source(source))
        count = self.store.remove(self.key, gone, time.time())
        self.memory.store.scrub()
        return count

    def erase(self) -> dict[str, int]:
        """Take the whole collection out; rows by kind. Nothing of it is left in the files."""
        rows = self.store.erase(self.key, time.time(), self.memory.note())
        self.memory.indexes.forget(self.key)
        self.memory.store.scrub()
        return rows

    def _no_source(self, source: str) -> str:
        near = [one.source for one in self.list()[:5]]
        hint = f"; there are {', '.join(near)}" if near else "; the collection is empty"
        return f"no source {source!r} in collection {self.name!r}{hint}"

    # ------------------------------------------------------------------------------------------ putting in
    def ingest(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        progress: OnProgress | None = None,
        *,
        vectors: str = "background",
        max_bytes: int = MAX_BYTES,
        stop: threading.Event | None = None,
    ) -> Ingested:
        """Read files and folders into the collection; what was read is searchable by its words at once.

        A file that did not change is skipped, one that did replaces what the index had of it, and what is gone from a
        folder that is named goes. A file that cannot be read is told, what the index had of it stays, and the rest goes
        on.

        Args:
            paths: files, and folders with all below them.
            progress: called after each file.
            vectors: "background" makes them in a thread of this process, "now" before this returns, "later" is left to
                `embed`.
            max_bytes: of one file; larger ones are told as bad.
            stop: ends it behind the file at hand when it is set; the next one goes on from there.
        """
        if vectors not in ("background", "now", "later"):
            raise InvalidSpec(f"vectors={vectors!r}: expected 'background', 'now' or 'later'")
        began = time.monotonic()
        if isinstance(paths, bytes) or not isinstance(paths, (str, os.PathLike, Iterable)):
            raise InvalidSpec(f"paths of type {type(paths).__name__}: expected a path, or a list of paths")
        walked = walk([paths] if isinstance(paths, (str, os.PathLike)) else list(paths))
        put = Putting(self, walked)
        for done, file in enumerate(walked.files, 1):
            if stop is not None and stop.is_set():
                break
            bad = put.file(file, max_bytes)
            if progress is not None:
                seconds = time.monotonic() - began
                progress(Progress("read", done, len(walked.files), file.name, seconds, bad))
        found = put.end(time.monotonic() - began)
        self._then(vectors, progress, stop)
        return found

    def add(self, passages: Iterable[Any], *, vectors: str = "background") -> int:
        """Put passages of your own in: texts, or dicts with `text` and maybe `title`, `section`, `source`.

        Those of one source are put in together, in place of what was there under that name; those without one are each
        a source of their own. How many.

        Raises:
            ImportFailed: one has no text; nothing was put in.
            InvalidSpec: no list was given.
        """
        if isinstance(passages, (str, bytes, Mapping)):
            raise InvalidSpec(f"passages of type {type(passages).__name__}: expected a list of texts or of dicts")
        grouped: dict[str, builtins.list[Any]] = {}
        for number, one in enumerate(passages):
            given = {"text": one} if isinstance(one, str) else one
            try:
                section = section_of(given)
            except ImportFailed as error:
                raise ImportFailed(f"passage {number}: {error}") from error
            name = section.source or "passage-" + blake2b(section.blocks[0].text.encode(), digest_size=8).hexdigest()
            grouped.setdefault(name, []).append(section)
        before, waiting = self.row, Waiting(self)
        for name, sections in grouped.items():
            waiting.add(new_source(Source(name), Document(tuple(sections))))
        waiting.put()
        after = self.row
        if before is not None and after is not None and before.dropped != after.dropped:
            self.memory.store.scrub()  # something was replaced: nothing of it is left in the files
        self._then(vectors, None)
        return sum(map(len, grouped.values()))

    def _then(self, vectors: str, progress: OnProgress | None, stop: threading.Event | None = None) -> None:
        if vectors == "later" or (stop is not None and stop.is_set()):
            return
        if self.embedder is None:
            self.memory.no_embedder()
        elif vectors == "now":
            self.embed(progress, stop=stop)
        elif self.memory.worker_here:
            self.memory.indexes.embed_behind(self)

    # ------------------------------------------------------------------------------------------ vectors
    def embed(
        self, progress: OnProgress | None = None, *, rebuild: bool = False, stop: threading.Event | None = None
    ) -> int:
        """Make the vectors that are missing; how many were made. One that was stopped goes on where it was.

        Args:
            progress: called after each few passages.
            rebuild: throw away those that are there first, as another model needs it.
            stop: ends it early when it is set.
        Raises:
            IndexMismatch: the vectors that are there are of another model.
            InvalidSpec: there is no embedder.
        """
        if self.embedder is None:
            raise InvalidSpec("no embedder: pip install 'novelo[rag]', or give one as embedder=")
        from novelo.retrievers.vectors import checked, packed

        with self.memory.indexes.embedding(self.key):
            if rebuild:
                self.store.drop_vectors(self.key, time.time())
            row = self.row
            if row is None:
                return 0
            self._check_model(row)
            total, made, after, began = row.chunks - row.vectors, 0, 0, time.monotonic()
            while not (stop is not None and stop.is_set()):
                found = self.store.without_vector(self.key, EMBED_CHUNKS, after)
                if not found:
                    break
                after = found[-1].number
                texts = [_embedded(_chunk_of(chunk)) for chunk in found]
                vectors = checked(self.embedder.passages(texts), len(texts))
                rows = [(chunk.number, packed(vector)) for chunk, vector in zip(found, vectors, strict=True)]
                made += self.store.put_vectors(self.key, self.embedder.name, vectors.shape[1], rows, time.time())
                if progress is not None:
                    progress(Progress("embed", made, max(total, made), seconds=time.monotonic() - began))
        return made

    def _check_model(self, row: Collection) -> None:
        assert self.embedder is not None
        check_model(row, self.embedder.name, self.embedder.size or row.size)

    # ------------------------------------------------------------------------------------------ searching
    def search(self, queries: Queries, limit: int = 5, keyword_only: bool = False) -> builtins.list[Passage]:
        """The passages that fit a question best: text, title, section, source, and scores.

        `score` ranks them, and `support` says whether one can carry an answer at all: 0.5 and more is enough.

        Args:
            queries: a question; several, such as the rewritten one and the user's own words; or (question, weight).
            limit: how many, at most 1000.
            keyword_only: by words alone.
        Raises:
            IndexMismatch: the vectors of the index are of another embedding model.
        """
        if not isinstance(limit, int) or not 1 <= limit <= FOUND_MOST:
            raise InvalidSpec(f"limit={limit}: expected 1 to {FOUND_MOST}")
        asked = _asked(queries)
        row = self.row
        if row is None or not asked:
            return []
        by_meaning = not keyword_only and row.vectors > 0
        if by_meaning and self.embedder is None:
            self.memory.no_embedder()
            by_meaning = False
        vectors = None
        if by_meaning:
            self._check_model(row)
            vectors = self._vectors([text for text, _ in asked])
        words = _words_of(asked)
        matches = self.store.find(self.key, words, rest=vectors is not None)
        known = dict(zip((tuple(stems) for stems, _ in words), matches.frequencies, strict=False))
        own = own_words(asked, known, row.chunks)
        matrix: Matrix | None = None
        ranked: Callable[[int], Found]
        if vectors is not None:
            assert self.embedder is not None
            check_model(row, self.embedder.name, vectors.shape[1])  # some know their size by their first vector only
            matrix = self.memory.indexes.matrix(self.store, row)
            weights = [weight for _, weight in asked]
            ranked = partial(_by_both, matrix, vectors, weights, matches, row.chunks)
            strongest = vectors[[weight == max(weights) for weight in weights]]
        else:
            ranked = partial(_by_words, matches)
        most = max(2 * limit, SCORED)
        found = ranked(most)
        out = self._distinct(found, limit)
        if len(out) < limit and len(found) >= SCORED:  # hundreds of equal passages crowd the others out
            if vectors is None:
                ranked = partial(_by_words, self.store.find(self.key, words, rest=True))
            out = self._distinct(ranked(MATCHES), limit)
        near = {} if matrix is None else matrix.cosines([number for number, _ in out], strongest)
        for number, passage in out:
            texts = (passage["text"], passage.get("title", ""), passage.get("section", ""))
            passage["support"] = own.support(texts, near.get(number))
        return [passage for _, passage in out]

    def _distinct(self, found: Found, limit: int) -> builtins.list[tuple[int, Passage]]:
        """The first passages of unlike texts, with the chunks' numbers.

        A text that several sources hold comes once, and takes no other one's place.
        """
        out: dict[str, tuple[int, Passage]] = {}
        stored: dict[int, StoredChunk] = {}
        read = 0
        for place, (number, facts) in enumerate(found):
            if len(out) == limit:
                break
            if place == read:
                read += max(2 * limit, place)  # the more were equal, the more at once
                stored = self.store.chunks(self.key, [number for number, _ in found[place:read]])
            if number in stored:
                passage = _passage(stored[number]) | {name: value for name, value in facts.items() if value is not None}
                out.setdefault(passage["text"], (number, passage))
        return list(out.values())

    def _vectors(self, questions: builtins.list[str]) -> Vectors | None:
        """The vectors of some questions; None if the embedder fails: words still find what they find."""
        from novelo.retrievers.vectors import checked

        assert self.embedder is not None
        try:
            return checked(self.embedder.queries(questions), len(questions))
        except Exception as error:  # whatever an embedder behind a network raises
            self.memory.say_once(
                f"the embedder failed ({type(error).__name__}): collection {self.name!r} is searched by its words alone"
            )
            return None


# ------------------------------------------------------------------------------------------------ ranking
def _by_both(
    matrix: Matrix, vectors: Vectors, weights: Sequence[float], matches: Matches, chunks: int, most: int
) -> Found:
    """The best chunks by words and by meaning."""
    ranked = matrix.search(vectors, weights, matches.scores, most, matches.rest, matches.share, chunks)
    return [(one.number, {"score": one.score, "keyword": one.keyword, "cosine": one.cosine}) for one in ranked]


def _by_words(matches: Matches, most: int) -> Found:
    """The best chunks by words; those that were scored roughly, where there are any, among them."""
    scores = {number: rough * matches.share for number, rough in matches.rest.items()} | matches.scores
    best = nlargest(most, scores.items(), key=lambda one: (one[1], -one[0]))
    return [(number, {"score": score, "keyword": score}) for number, score in best]


# ------------------------------------------------------------------------------------------------ values
def _chunk_of(stored: StoredChunk) -> Chunk:
    return msgspec.json.decode(stored.body, type=Chunk)


def _embedded(chunk: Chunk) -> str:
    """What of a chunk is embedded: its headings and its text."""
    return f"{chunk.heading}\n{chunk.text}" if chunk.heading else chunk.text


def _passage(stored: StoredChunk) -> Passage:
    chunk = _chunk_of(stored)
    facts = {"title": chunk.title, "section": chunk.section, "page": chunk.page}
    return {"text": chunk.text, "source": chunk.source or stored.source} | {n: v for n, v in facts.items() if v}


def _asked(queries: Queries) -> builtins.list[tuple[str, float]]:
    """Questions and their weights; equal ones are one, and what has no text is none."""
    if not isinstance(queries, Iterable) or isinstance(queries, Mapping):
        raise InvalidSpec(ASKED_AS)
    given: Sequence[Any] = [queries] if isinstance(queries, str) else list(queries)
    out: dict[str, float] = {}
    for one in given:
        pair = (one, 1.0) if isinstance(one, str) else one
        if (
            not isinstance(pair, (tuple, builtins.list))
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or not isinstance(pair[1], (int, float))
            or not 0 <= pair[1] < math.inf
        ):
            raise InvalidSpec(ASKED_AS)
        text = pair[0][:ASKED].strip()
        if text and pair[1] > 0:
            out[text] = out.get(text, 0.0) + pair[1]
    return list(out.items())


def _words_of(asked: Sequence[tuple[str, float]]) -> builtins.list[tuple[Sequence[str], float]]:
    """Words of all questions with their stems; one that several have counts with the sum of their weights."""
    weights: dict[tuple[str, ...], float] = {}
    for text, weight in asked:
        for word in query_stems(text):
            weights[tuple(word)] = weights.get(tuple(word), 0.0) + weight
    return nlargest(ASKED_WORDS, weights.items(), key=lambda one: one[1])
