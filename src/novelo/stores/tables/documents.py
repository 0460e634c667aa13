"""Documents in tables: sources, chunks, their words and their vectors; see `stores/documents.py`.

Each word in the index begins with the number of its collection and a sign that no word has: `12§reembols`. A search
passes over no other collection's rows, and a word's frequency is that of the one collection. FTS5 finds chunks with the
rarest words of a question and ranks them roughly; the best of them are scored exactly, with all words, here. A search
whose words are in few chunks is exact as a whole; one over a hundred thousand chunks reads some 8,000 postings.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from novelo.errors import StorageCorrupt, ThreadErased, ThreadHeld
from novelo.stores.documents import (
    ERASED,
    MATCHES,
    SCORED,
    Collection,
    Matches,
    NewSource,
    Query,
    Source,
    StoredChunk,
    check_model,
    named,
)
from novelo.stores.privacy import NOBODY, Gone, Hook, Note
from novelo.stores.ranking import Ranking, count_words
from novelo.stores.rules import owner_key, storable, thread_key
from novelo.stores.tables.audited import act, unguarded
from novelo.stores.tables.connection import Connection, Database
from novelo.stores.tables.rows import whole

SIGN = "\N{SECTION SIGN}"  # no letter or digit: no word has it
STRONG = 0.5  # words of this share of the highest weight are also looked for without the weaker ones
replace = msgspec.structs.replace


class TableDocuments:
    """The documents of one database."""

    on_erased: Hook | None = None

    def __init__(self, database: Database, secret: bytes) -> None:
        self.database = database
        self._base = secret
        self._secret = hmac.digest(secret, b"documents", hashlib.sha256)

    def key_of(self, owner: str, name: str) -> bytes:
        """A collection's key: a hash keyed with the database's secret."""
        return thread_key(self._secret, owner, name, "name of a collection")

    # ------------------------------------------------------------------------------------------ collections
    def collection(self, key: bytes) -> Collection | None:
        """A collection's facts."""
        with self.database.reading() as db:
            return _collection(db, key)

    def collections(self, owner: str | None = None) -> list[Collection]:
        """All collections, of one owner or of everybody."""
        if owner is not None and not storable(owner):
            return []
        with self.database.reading() as db:
            return [_checked(row[0], row[1:]) for row in db.run("collections", (owner,))]

    def erase(self, key: bytes, now: float, note: Note = NOBODY) -> dict[str, int]:
        """Take a collection out with all it holds."""

        def work() -> dict[str, int]:
            with self.database.writing() as db:
                found = _collection(db, key)
                if found is None:
                    return {}
                hold = next(iter(db.run("held", (owner_key(self._base, found.owner),))), None)
                if hold is not None:
                    raise ThreadHeld("the documents of this owner must be kept (a hold): nothing was removed")
                for row in list(db.run("sources", (key,))):
                    self._drop(db, key, row[0])
                db.run("drop_chunk_vectors", (key,))
                db.run("drop_collection", (key,))
                rows = {"sources": found.sources, "chunks": found.chunks, "vectors": found.vectors}
                if self.on_erased is not None:
                    self.on_erased(Gone(key, "collection", now, found.created))
                act(db, self._base, now, note, "collection", key, rows)
                return rows

        return self.database.with_room(work)

    # ------------------------------------------------------------------------------------------ sources
    def put(
        self,
        key: bytes,
        names: tuple[str, str],
        sources: Sequence[NewSource],
        now: float,
        *,
        since: float | None = None,
    ) -> list[str]:
        """Put sources in, in place of those of the same names, in one transaction; the names that they have now."""
        put = []
        with self.database.writing() as db:
            found = _collection(db, key)
            if found is None:
                last = next(iter(db.run("audit", (1 << 60, key, 1))), None)
                if since is not None and last is not None and last[1] >= since:
                    raise ThreadErased(ERASED)
                unguarded(db, "encrypted")
                found = _new(db, key, names, now)
            for one in sources:
                there = next(iter(db.run("source", (key, one.source.source))), None)
                facts = replace(one.source, source=named(one.source, _source(key, there) if there else None))
                put.append(facts.source)
                found = self._less(db, found, facts.source)
                tokens, size = facts.tokens, len(one.chunks)
                values = (facts.source, facts.path, facts.hash, facts.title, size, tokens, facts.bytes, now)
                db.run("put_source", (key, *values))
                words = 0
                for place, chunk in enumerate(one.chunks):
                    row = next(iter(db.run("put_chunk", (key, facts.source, place, chunk.body))))
                    db.run("seal_chunk", (key, row[0]))
                    texts = (_tagged(found.number, chunk.heads), _tagged(found.number, chunk.words))
                    db.run("index_chunk", (key, row[0], *texts))
                    words += count_words(texts)
                found = replace(
                    found, sources=found.sources + 1, chunks=found.chunks + size, words=found.words + words,
                    put=found.put + 1,
                )  # fmt: skip
            _set(db, replace(found, updated=now))
        return put

    def remove(self, key: bytes, sources: Sequence[str], now: float) -> int:
        """Take sources out."""

        def work() -> int:
            with self.database.writing() as db:
                found = _collection(db, key)
                if found is None:
                    return 0
                before = found.sources
                for source in sources:
                    found = self._less(db, found, source)
                _set(db, replace(found, updated=now))
                return before - found.sources

        return self.database.with_room(work)

    def _less(self, db: Connection, found: Collection, source: str) -> Collection:
        """A collection without a source."""
        if not storable(source) or not list(db.run("source", (found.key, source))):
            return found
        chunks, words, vectors = self._drop(db, found.key, source)
        return replace(
            found, sources=found.sources - 1, chunks=found.chunks - chunks, words=found.words - words,
            vectors=found.vectors - vectors, dropped=found.dropped + 1,
        )  # fmt: skip

    def _drop(self, db: Connection, key: bytes, source: str) -> tuple[int, int, int]:
        """A source goes; how many chunks, words and vectors went."""
        words = vectors = 0
        numbers = [row[0] for row in db.run("chunks_of", (key, source))]
        for number in numbers:
            words += sum(count_words(row) for row in db.run("words_of", (key, number)))
            db.run("unindex_chunk", (key, number))
            db.run("drop_vector", (key, number))
            vectors += db.changes()
        db.run("drop_chunks", (key, source))
        db.run("drop_source", (key, source))
        return len(numbers), words, vectors

    def sources(self, key: bytes) -> list[Source]:
        """All sources, by name."""
        with self.database.reading() as db:
            return [_source(key, row) for row in db.run("sources", (key,))]

    def source(self, key: bytes, source: str) -> Source | None:
        """One of them."""
        if not storable(source):
            return None
        with self.database.reading() as db:
            row = next(iter(db.run("source", (key, source))), None)
        return None if row is None else _source(key, row)

    def chunks_of(self, key: bytes, source: str) -> list[StoredChunk]:
        """A source's chunks, in order."""
        if not storable(source):
            return []
        with self.database.reading() as db:
            return [_chunk(key, row) for row in db.run("chunks_of", (key, source))]

    def chunks(self, key: bytes, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Chunks by their numbers."""
        with self.database.reading() as db:
            rows = (row for number in numbers for row in db.run("chunk", (key, number)))
            return {row[0]: _chunk(key, row) for row in rows}

    # ------------------------------------------------------------------------------------------ words
    def find(self, key: bytes, query: Query, rest: bool = False) -> Matches:
        """The chunks that hold words of a question, by BM25."""
        with self.database.snapshot(), self.database.reading() as db:
            found = _collection(db, key)
            if found is None:
                return Matches({})
            tagged = [([f"{found.number}{SIGN}{stem}" for stem in stems], weight) for stems, weight in query]
            ranking = Ranking(tagged, found.chunks, found.words, lambda stem: _frequency(db, key, stem))
            asked = [
                _Word(n, stems, weight)
                for n, (stems, weight) in zip(ranking.frequencies, tagged, strict=True)
                if n and weight > 0
            ]
            rough: dict[int, float] = {}
            best: set[int] = set()
            for group in _groups(asked):
                chosen = _rarest(group)
                match = " OR ".join(f'"{stem}"' for word in chosen for stem in word.stems)
                every = rest and sum(word.chunks for word in chosen) <= MATCHES
                rows = db.run("all_matches", (key, match)) if every else db.run("matches", (key, match, SCORED))
                said = list(rows)
                best.update(number for number, _ in nlargest(SCORED, said, key=itemgetter(1)))
                rough.update(said)
            scores = {}
            for number in sorted(best):
                for heads, words in db.run("words_of", (key, number)):
                    scores[number] = ranking.score(heads.split(), words.split())
        share = sum(scores.values()) / (sum(rough[number] for number in scores) or 1.0)
        return Matches(scores, rough if rest else {}, share if rest else 1.0, tuple(ranking.frequencies))

    # ------------------------------------------------------------------------------------------ vectors
    def without_vector(self, key: bytes, limit: int, after: int = 0) -> list[StoredChunk]:
        """Chunks that have no vector yet, the lowest numbers first."""
        with self.database.reading() as db:
            return [_chunk(key, row) for row in db.run("without_vector", (key, after, limit))]

    def put_vectors(self, key: bytes, model: str, size: int, vectors: Sequence[tuple[int, bytes]], now: float) -> int:
        """Vectors of chunks; how many were taken."""
        with self.database.writing() as db:
            found = _collection(db, key)
            if found is None:
                return 0
            check_model(found, model, size)
            taken = 0
            for number, vector in vectors:
                db.run("put_chunk_vector", (key, number, vector))
                taken += db.changes()
            if taken:
                vectors_now = found.vectors + taken
                found = replace(found, model=model, size=size, vectors=vectors_now, put=found.put + 1, updated=now)
                _set(db, found)
            return taken

    def drop_vectors(self, key: bytes, now: float) -> int:
        """Take all vectors out."""
        with self.database.writing() as db:
            found = _collection(db, key)
            if found is None:
                return 0
            db.run("drop_chunk_vectors", (key,))
            _set(db, replace(found, model="", size=0, vectors=0, dropped=found.dropped + 1, updated=now))
            return found.vectors

    def vectors(self, key: bytes, after: int = 0) -> list[tuple[int, int, bytes]]:
        """Vectors in the order in which they came: their own number, the chunk's, the vector."""
        with self.database.reading() as db:
            return list(db.run("chunk_vectors", (key, after)))

    def vector_numbers(self, key: bytes) -> list[int]:
        """The own numbers of all vectors that are there, ascending."""
        with self.database.reading() as db:
            return [row[0] for row in db.run("vector_numbers", (key,))]


class _Word(NamedTuple):
    """A word of a question: in how many chunks it stands, its stems, and its weight."""

    chunks: int
    stems: Sequence[str]
    weight: float


def _groups(asked: list[_Word]) -> list[list[_Word]]:
    """All words, and the strong ones alone: many weak words must not crowd out what has the few strong ones."""
    top = max((word.weight for word in asked), default=0.0)
    strong = [word for word in asked if word.weight >= STRONG * top]
    return [group for group in ([asked, strong] if len(strong) < len(asked) else [asked]) if group]


def _rarest(words: list[_Word]) -> list[_Word]:
    """The rarest words, as many as one search reads the postings of; one in any case."""
    out: list[_Word] = []
    left = MATCHES
    for word in sorted(words, key=lambda word: word.chunks):
        left -= word.chunks
        if out and left < 0:
            break
        out.append(word)
    return out


def _frequency(db: Connection, key: bytes, stem: str) -> int:
    row = next(iter(db.run("frequency", (key, stem))), None)
    return 0 if row is None else int(row[0])


def _tagged(number: int, words: str) -> str:
    return " ".join(f"{number}{SIGN}{word}" for word in words.split())


def _new(db: Connection, key: bytes, names: tuple[str, str], now: float) -> Collection:
    row = next(iter(db.run("new_collection", (key, *names, now))))
    return Collection(key, *names, row[0], created=now, updated=now)


def _set(db: Connection, found: Collection) -> None:
    key, owner, name, number, *counts = msgspec.structs.astuple(found)
    db.run("set_collection", (key, number, owner, name, *counts))


def _collection(db: Connection, key: bytes) -> Collection | None:
    row = next(iter(db.run("collection", (key,))), None)
    return None if row is None else _checked(key, row)


def _checked(key: bytes, row: tuple[Any, ...]) -> Collection:
    number, owner, name, *counts, found = row
    if not whole(found, "collection", key, number, owner, name, *counts):
        raise StorageCorrupt(f"the collection {key.hex()} was altered outside of novelo: restore a backup")
    return Collection(key, owner, name, number, *counts)


def _source(key: bytes, row: tuple[Any, ...]) -> Source:
    if not whole(row[8], "source", key, *row[:8]):
        raise StorageCorrupt(f"a source of collection {key.hex()} was altered outside of novelo: restore a backup")
    return Source(*row[:8])


def _chunk(key: bytes, row: tuple[Any, ...]) -> StoredChunk:
    number, source, place, body, found = row
    if not whole(found, "chunk", key, number, source, place, body):
        raise StorageCorrupt(
            f"chunk {number} of collection {key.hex()} was altered outside of novelo: restore a backup"
        )
    return StoredChunk(number, source, place, body)
