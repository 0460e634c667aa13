"""Documents: collections of files and passages that are searched by words and by meaning.

    docs = memory.documents("faq", owner="loja-1")
    docs.ingest(["docs/"])                      # files that changed; those that are gone go
    docs.search("E se eu tiver pago com Pix?")  # passages: text, title, section, source, score

Words are searchable when `ingest` returns. Vectors come behind it, in a thread of this process or by `embed`, which
goes on where an earlier one was stopped; meanwhile passages without one are found by their words.
"""

from __future__ import annotations

import builtins
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.errors import ImportFailed, InvalidSpec, MissingExtra, NoveloError, UnknownEntry
from novelo.languages import language_of
from novelo.retrieval import Passage
from novelo.retrievers.base import Embedder
from novelo.retrievers.chunks import Chunk, chunks
from novelo.retrievers.files import MAX_BYTES, File, Walked, below, content, shown, walk
from novelo.retrievers.readers import Document, read, section_of
from novelo.retrievers.support import ENOUGH, own_words
from novelo.stores.documents import Collection, NewChunk, NewSource, Source, StoredChunk, check_model
from novelo.words import STEMMED, query_stems, stems

if TYPE_CHECKING:
    from novelo.memory import Memory
    from novelo.retrievers.matrix import Matrix

CUT = b"1"  # part of a source's hash: a file is read again when the way in which it is cut has changed
PUT_CHUNKS = 256  # that are put in at once: a turn of a chat may wait for that long
EMBED_CHUNKS = 16  # that are embedded between two writes; a killed process loses no more
ASKED = 4000  # characters of a question that are searched for
ASKED_WORDS = 64  # different words of it
STALE_S = 5.0  # for so long new vectors may wait to be searched while more are coming
FOUND_MOST = 1000
LANGUAGE_OF = 20_000  # characters of a document that its language is told by

Queries = str | Sequence[str] | Sequence[tuple[str, float]]


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


class Documents:
    """One collection of an owner's. Safe to use from several threads; nothing is written before something is put in."""

    min_score = ENOUGH  # below it a passage supports no answer; of `support`

    def __init__(self, memory: Memory, name: str, owner: str, embedder: Embedder | None) -> None:
        """See `Memory.documents`."""
        self.memory, self.name, self.owner, self.embedder = memory, name, owner, embedder
        self._store = memory.store.documents
        self.key = self._store.key_of(owner, name)

    def __repr__(self) -> str:
        return f"Documents({self.name!r}, owner={self.owner!r})"

    # ------------------------------------------------------------------------------------------ what is there
    @property
    def row(self) -> Collection | None:
        """The collection's facts; None while nothing was put in."""
        return self._store.collection(self.key)

    def list(self) -> builtins.list[Source]:
        """All sources, by name."""
        return self._store.sources(self.key)

    def show(self, source: str) -> builtins.list[Passage]:
        """The passages of a source, in order.

        Raises:
            UnknownEntry: there is no such source.
        """
        found = self._store.chunks_of(self.key, source)
        if not found and self._store.source(self.key, source) is None:
            raise UnknownEntry(self._no_source(source))
        return [_passage(chunk) for chunk in found]

    def remove(self, source: str) -> int:
        """Take a source out, or all whose names begin with a folder's ("faq/"); how many. Nothing of them is left.

        Raises:
            UnknownEntry: there is no such source.
        """
        gone = [source] if self._store.source(self.key, source) else []
        if not gone and source.endswith("/"):
            gone = [one.source for one in self.list() if one.source.startswith(source)]
        if not gone:
            raise UnknownEntry(self._no_source(source))
        count = self._store.remove(self.key, gone, time.time())
        self.memory.store.scrub()
        return count

    def erase(self) -> dict[str, int]:
        """Take the whole collection out; rows by kind. Nothing of it is left in the files."""
        rows = self._store.erase(self.key, time.time())
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
        """
        if vectors not in ("background", "now", "later"):
            raise InvalidSpec(f"vectors={vectors!r}: expected 'background', 'now' or 'later'")
        began = time.monotonic()
        named = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        walked = walk(named)
        put = _Putting(self, walked)
        for done, file in enumerate(walked.files, 1):
            bad = put.file(file, max_bytes)
            if progress is not None:
                seconds = time.monotonic() - began
                progress(Progress("read", done, len(walked.files), file.name, seconds, bad))
        found = put.end(time.monotonic() - began)
        self._then(vectors, progress)
        return found

    def add(self, passages: Iterable[Any], *, vectors: str = "background") -> int:
        """Put passages of your own in: texts, or dicts with `text` and maybe `title`, `section`, `source`.

        Those of one source are put in together, in place of what was there under that name; those without one are each
        a source of their own. How many.

        Raises:
            ImportFailed: one has no text; nothing was put in.
        """
        grouped: dict[str, builtins.list[Any]] = {}
        for number, one in enumerate(passages):
            given = {"text": one} if isinstance(one, str) else one
            try:
                section = section_of(given)
            except ImportFailed as error:
                raise ImportFailed(f"passage {number}: {error}") from error
            name = section.source or "passage-" + blake2b(section.blocks[0].text.encode(), digest_size=8).hexdigest()
            grouped.setdefault(name, []).append(section)
        waiting = _Waiting(self)
        for name, sections in grouped.items():
            waiting.add(_new_source(Source(name), Document(tuple(sections))))
        waiting.put()
        self._then(vectors, None)
        return sum(map(len, grouped.values()))

    def _then(self, vectors: str, progress: OnProgress | None) -> None:
        if vectors == "later":
            return
        if self.embedder is None:
            self.memory.no_embedder()
        elif vectors == "now":
            self.embed(progress)
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
        from novelo.retrievers.vectors import packed

        with self.memory.indexes.embedding(self.key):
            if rebuild:
                self._store.drop_vectors(self.key, time.time())
            row = self.row
            if row is None:
                return 0
            self._check_model(row)
            total, made, after, began = row.chunks - row.vectors, 0, 0, time.monotonic()
            while not (stop is not None and stop.is_set()):
                found = self._store.without_vector(self.key, EMBED_CHUNKS, after)
                if not found:
                    break
                after = found[-1].number
                vectors = self.embedder.passages([_embedded(_chunk_of(chunk)) for chunk in found])
                rows = [(chunk.number, packed(vector)) for chunk, vector in zip(found, vectors, strict=True)]
                made += self._store.put_vectors(self.key, self.embedder.name, vectors.shape[1], rows, time.time())
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
        if not 1 <= limit <= FOUND_MOST:
            raise InvalidSpec(f"limit={limit}: expected 1 to {FOUND_MOST}")
        asked = _asked(queries)
        row = self.row
        if row is None or not asked:
            return []
        by_meaning = not keyword_only and row.vectors > 0
        if by_meaning and self.embedder is None:
            self.memory.no_embedder()
            by_meaning = False
        if by_meaning:
            self._check_model(row)
        words = _words_of(asked)
        matches = self._store.find(self.key, words, rest=by_meaning)
        known = dict(zip((tuple(stems) for stems, _ in words), matches.frequencies, strict=False))
        own = own_words(asked, known, row.chunks)
        near: dict[int, float] = {}
        found: builtins.list[tuple[int, dict[str, Any]]]
        if by_meaning:
            assert self.embedder is not None
            vectors = self.embedder.queries([text for text, _ in asked])
            check_model(row, self.embedder.name, vectors.shape[1])  # some know their size by their first vector only
            matrix = self.memory.indexes.matrix(self._store, row)
            weights = [weight for _, weight in asked]
            ranked = matrix.search(vectors, weights, matches.scores, 2 * limit, matches.rest, matches.share)
            found = [(one.number, {"score": one.score, "keyword": one.keyword, "cosine": one.cosine}) for one in ranked]
            most = max(weight for _, weight in asked)
            strongest = [n for n, (_, weight) in enumerate(asked) if weight == most]
            near = matrix.cosines([one.number for one in ranked], vectors[strongest])
        else:
            best = nlargest(2 * limit, matches.scores.items(), key=lambda one: (one[1], -one[0]))
            found = [(number, {"score": score, "keyword": score}) for number, score in best]
        stored = self._store.chunks(self.key, [number for number, _ in found])
        out: dict[str, Passage] = {}  # a text that several sources hold comes once
        for number, facts in found:
            if number in stored:
                passage = _passage(stored[number]) | {name: value for name, value in facts.items() if value is not None}
                texts = (passage["text"], passage.get("title", ""), passage.get("section", ""))
                passage["support"] = own.support(texts, near.get(number))
                out.setdefault(passage["text"], passage)
        return list(out.values())[:limit]


# ------------------------------------------------------------------------------------------------ what a memory shares
class Indexes:
    """What all handles of a memory share: vectors in memory, and the threads that make them."""

    def __init__(self, most: int = 8) -> None:
        """Keep the vectors of so many collections, the last used ones."""
        self._most = most
        self._lock = threading.RLock()
        self._matrices: dict[bytes, tuple[Matrix, int, int, float]] = {}
        self._locks: dict[bytes, threading.Lock] = {}
        self._threads: dict[bytes, threading.Thread] = {}
        self._stop = threading.Event()

    def matrix(self, store: Any, row: Collection) -> Matrix:
        """The vectors of a collection; of new ones that are still coming in the newest may be some seconds late."""
        from novelo.retrievers.matrix import Matrix

        with self._lock:
            known = self._matrices.pop(row.key, None)
            if known is None or known[0].size != row.size:
                known = (Matrix(row.size), -1, -1, 0.0)
            matrix, put, dropped, read = known
            coming = row.vectors < row.chunks and time.monotonic() - read < STALE_S
            if dropped != row.dropped or (put != row.put and not coming):
                if dropped != row.dropped:
                    matrix.keep(store.vector_numbers(row.key))
                matrix.add(store.vectors(row.key, matrix.last))
                known = (matrix, row.put, row.dropped, time.monotonic())
            self._matrices[row.key] = known
            while len(self._matrices) > self._most:
                del self._matrices[next(iter(self._matrices))]
            return matrix

    def embedding(self, key: bytes) -> threading.Lock:
        """One at a time makes the vectors of a collection here."""
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())

    def embed_behind(self, documents: Documents) -> None:
        """Make a collection's vectors in a thread of its own."""
        with self._lock:
            running = self._threads.get(documents.key)
            if self._stop.is_set() or (running is not None and running.is_alive()):
                return
            thread = threading.Thread(target=self._embed, args=(documents,), daemon=True, name="novelo-embed")
            self._threads[documents.key] = thread
            thread.start()

    def _embed(self, documents: Documents) -> None:
        try:
            while not self._stop.is_set() and documents.embed(stop=self._stop):
                pass  # what came while it ran is made too
        except NoveloError as error:
            if not self._stop.is_set():
                documents.memory.say_once(f"vectors of collection {documents.name!r} were not made: {error}")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the vectors that are being made; False if they are not done in time."""
        for thread in list(self._threads.values()):
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads.values())

    def forget(self, key: bytes) -> None:
        """A collection is gone."""
        with self._lock:
            self._matrices.pop(key, None)

    def close(self) -> None:
        """Stop making vectors; what is half done is left to the next one."""
        self._stop.set()
        self.wait(5.0)
        self._matrices.clear()


class _Waiting:
    """Sources that are put in together: a transaction for each would be slow, one for all would hold up a chat."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._sources: builtins.list[NewSource] = []
        self._chunks = self.chunks = 0

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
            docs._store.put(docs.key, (docs.owner, docs.name), self._sources, time.time())
        self.chunks += self._chunks
        self._sources, self._chunks = [], 0


class _Putting:
    """Files on their way into a collection."""

    def __init__(self, documents: Documents, walked: Walked) -> None:
        self._documents, self._walked = documents, walked
        known = documents.list()
        self._by_path = {one.path: one for one in known if one.path}
        self._names = {one.source: one.path for one in known}
        self._waiting = _Waiting(documents)
        self._done: dict[str, builtins.list[str]] = {"added": [], "changed": [], "same": []}

    def file(self, file: File, max_bytes: int) -> str:
        """Read a file; what is wrong with it, or ""."""
        path = shown(file.path)
        known = self._by_path.get(path)
        try:
            data = content(file.path, max_bytes)
            seal = blake2b(data, digest_size=16, key=CUT + file.kind.encode()).digest()
            if known is not None and known.hash == seal:
                self._done["same"].append(known.source)
                return ""
            document = read(data, file.kind)
        except (ImportFailed, MissingExtra) as error:
            stays = "; what the index has of it stays" if known is not None else ""
            self._walked.bad[path] = f"{error}{stays}"
            return str(error)
        name = known.source if known is not None else file.name
        if self._names.get(name, path) != path:
            name = path  # two folders hold a file of that name
        self._names[name] = path
        title = os.path.splitext(os.path.basename(path))[0]
        made = _new_source(Source(name, path, seal, document.title or title, bytes=len(data)), document)
        self._waiting.add(made)
        self._done["added" if known is None else "changed"].append(name)
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
            docs._store.remove(docs.key, gone, time.time())
        if gone or self._done["changed"]:
            docs.memory.store.scrub()
        lists = {name: tuple(found) for name, found in self._done.items()}
        return Ingested(**lists, removed=tuple(gone), bad=walked.bad, others=walked.others, chunks=self._waiting.chunks,
                        seconds=seconds)  # fmt: skip


# ------------------------------------------------------------------------------------------------ values
def _new_source(source: Source, document: Document) -> NewSource:
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


def _stems(text: str, language: str | None) -> builtins.list[str]:
    """The stems of a text; where its language is not known, a word's stems in each language that has any."""
    if language is not None:
        return stems(text, language)
    return [stem for word in zip(*(stems(text, one) for one in STEMMED), strict=True) for stem in dict.fromkeys(word)]


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
    given: Sequence[Any] = [queries] if isinstance(queries, str) else list(queries)
    out: dict[str, float] = {}
    for one in given:
        pair = (one, 1.0) if isinstance(one, str) else one
        if (
            not isinstance(pair, (tuple, builtins.list))
            or len(pair) != 2
            or not isinstance(pair[0], str)
            or not isinstance(pair[1], (int, float))
            or pair[1] < 0
        ):
            raise InvalidSpec("queries: expected a text, a list of texts, or a list of (text, weight from 0 up)")
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
