"""Documents in the SQLite store: sources, chunks, their words and their vectors; see `stores/documents.py`.

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

import apsw
import msgspec

from novelo.errors import StorageCorrupt
from novelo.stores.documents import (
    MATCHES,
    SCORED,
    Collection,
    Matches,
    NewSource,
    Query,
    Source,
    StoredChunk,
    check_model,
)
from novelo.stores.ranking import Ranking, count_words
from novelo.stores.rules import storable, thread_key
from novelo.stores.sql import statements
from novelo.stores.sqlite.database import Database
from novelo.stores.sqlite.migrations import PACKAGE
from novelo.stores.sqlite.rows import over

Q = statements(PACKAGE, "documents.sql")
RECEIPT = statements(PACKAGE)["receipt"]
SIGN = "\N{SECTION SIGN}"  # no letter or digit: no word has it
STRONG = 0.5  # words of this share of the highest weight are also looked for without the weaker ones
replace = msgspec.structs.replace


class SQLiteDocuments:
    """The documents of one SQLite file."""

    def __init__(self, database: Database, secret: bytes) -> None:
        self.database = database
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
            return [_checked(row[0], row[1:]) for row in db.execute(Q["collections"], (owner,))]

    def erase(self, key: bytes, now: float) -> dict[str, int]:
        """Take a collection out with all it holds."""

        def work() -> dict[str, int]:
            with self.database.writing() as db:
                found = _collection(db, key)
                if found is None:
                    return {}
                for row in list(db.execute(Q["sources"], (key,))):
                    self._drop(db, key, row[0])
                db.execute(Q["drop_vectors"], (key,))
                db.execute(Q["drop_collection"], (key,))
                rows = {"sources": found.sources, "chunks": found.chunks, "vectors": found.vectors}
                db.execute(RECEIPT, (key, now, msgspec.json.encode(rows).decode()))
                return rows

        return self.database.with_room(work)

    # ------------------------------------------------------------------------------------------ sources
    def put(self, key: bytes, names: tuple[str, str], sources: Sequence[NewSource], now: float) -> None:
        """Put sources in, in place of those of the same names, in one transaction."""
        with self.database.writing() as db:
            found = _collection(db, key) or _new(db, key, names, now)
            for one in sources:
                found = self._less(db, found, one.source.source)
                tokens, size = one.source.tokens, len(one.chunks)
                facts = one.source
                values = (facts.source, facts.path, facts.hash, facts.title, size, tokens, facts.bytes, now)
                db.execute(Q["put_source"], (key, *values))
                words = 0
                for place, chunk in enumerate(one.chunks):
                    row = next(iter(db.execute(Q["put_chunk"], (key, facts.source, place, chunk.body))))
                    db.execute(Q["seal_chunk"], (key, row[0]))
                    texts = (_tagged(found.number, chunk.heads), _tagged(found.number, chunk.words))
                    db.execute(Q["index_chunk"], (row[0], *texts))
                    words += count_words(texts)
                found = replace(
                    found, sources=found.sources + 1, chunks=found.chunks + size, words=found.words + words,
                    put=found.put + 1,
                )  # fmt: skip
            _set(db, replace(found, updated=now))

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

    def _less(self, db: apsw.Connection, found: Collection, source: str) -> Collection:
        """A collection without a source."""
        if not storable(source) or not list(db.execute(Q["source"], (found.key, source))):
            return found
        chunks, words, vectors = self._drop(db, found.key, source)
        return replace(
            found, sources=found.sources - 1, chunks=found.chunks - chunks, words=found.words - words,
            vectors=found.vectors - vectors, dropped=found.dropped + 1,
        )  # fmt: skip

    def _drop(self, db: apsw.Connection, key: bytes, source: str) -> tuple[int, int, int]:
        """A source goes; how many chunks, words and vectors went."""
        words = vectors = 0
        numbers = [row[0] for row in db.execute(Q["chunks_of"], (key, source))]
        for number in numbers:
            words += sum(count_words(row) for row in db.execute(Q["words_of"], (number,)))
            db.execute(Q["unindex_chunk"], (number,))
            db.execute(Q["drop_vector"], (key, number))
            vectors += db.changes()
        db.execute(Q["drop_chunks"], (key, source))
        db.execute(Q["drop_source"], (key, source))
        return len(numbers), words, vectors

    def sources(self, key: bytes) -> list[Source]:
        """All sources, by name."""
        with self.database.reading() as db:
            return [_source(key, row) for row in db.execute(Q["sources"], (key,))]

    def source(self, key: bytes, source: str) -> Source | None:
        """One of them."""
        if not storable(source):
            return None
        with self.database.reading() as db:
            row = next(iter(db.execute(Q["source"], (key, source))), None)
        return None if row is None else _source(key, row)

    def chunks_of(self, key: bytes, source: str) -> list[StoredChunk]:
        """A source's chunks, in order."""
        if not storable(source):
            return []
        with self.database.reading() as db:
            return [_chunk(key, row) for row in db.execute(Q["chunks_of"], (key, source))]

    def chunks(self, key: bytes, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Chunks by their numbers."""
        with self.database.reading() as db:
            rows = (row for number in numbers for row in db.execute(Q["chunk"], (key, number)))
            return {row[0]: _chunk(key, row) for row in rows}

    # ------------------------------------------------------------------------------------------ words
    def find(self, key: bytes, query: Query, rest: bool = False) -> Matches:
        """The chunks that hold words of a question, by BM25."""
        with self.database.snapshot(), self.database.reading() as db:
            found = _collection(db, key)
            if found is None:
                return Matches({})
            tagged = [([f"{found.number}{SIGN}{stem}" for stem in stems], weight) for stems, weight in query]
            ranking = Ranking(tagged, found.chunks, found.words, lambda stem: _frequency(db, stem))
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
                rows = db.execute(Q["all_matches"], (match,)) if every else db.execute(Q["matches"], (match, SCORED))
                said = list(rows)
                best.update(number for number, _ in nlargest(SCORED, said, key=itemgetter(1)))
                rough.update(said)
            scores = {}
            for number in sorted(best):
                for heads, words in db.execute(Q["words_of"], (number,)):
                    scores[number] = ranking.score(heads.split(), words.split())
        share = sum(scores.values()) / (sum(rough[number] for number in scores) or 1.0)
        return Matches(scores, rough if rest else {}, share if rest else 1.0, tuple(ranking.frequencies))

    # ------------------------------------------------------------------------------------------ vectors
    def without_vector(self, key: bytes, limit: int, after: int = 0) -> list[StoredChunk]:
        """Chunks that have no vector yet, the lowest numbers first."""
        with self.database.reading() as db:
            return [_chunk(key, row) for row in db.execute(Q["without_vector"], (key, after, limit))]

    def put_vectors(self, key: bytes, model: str, size: int, vectors: Sequence[tuple[int, bytes]], now: float) -> int:
        """Vectors of chunks; how many were taken."""
        with self.database.writing() as db:
            found = _collection(db, key)
            if found is None:
                return 0
            check_model(found, model, size)
            taken = 0
            for number, vector in vectors:
                db.execute(Q["put_vector"], (key, number, vector))
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
            db.execute(Q["drop_vectors"], (key,))
            _set(db, replace(found, model="", size=0, vectors=0, dropped=found.dropped + 1, updated=now))
            return found.vectors

    def vectors(self, key: bytes, after: int = 0) -> list[tuple[int, int, bytes]]:
        """Vectors in the order in which they came: their own number, the chunk's, the vector."""
        with self.database.reading() as db:
            return list(db.execute(Q["vectors"], (key, after)))

    def vector_numbers(self, key: bytes) -> list[int]:
        """The own numbers of all vectors that are there, ascending."""
        with self.database.reading() as db:
            return [row[0] for row in db.execute(Q["vector_numbers"], (key,))]


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


def _frequency(db: apsw.Connection, stem: str) -> int:
    row = next(iter(db.execute(Q["frequency"], (stem,))), None)
    return 0 if row is None else int(row[0])


def _tagged(number: int, words: str) -> str:
    return " ".join(f"{number}{SIGN}{word}" for word in words.split())


def _new(db: apsw.Connection, key: bytes, names: tuple[str, str], now: float) -> Collection:
    row = next(iter(db.execute(Q["new_collection"], (key, *names, now))))
    return Collection(key, *names, row[0], created=now, updated=now)


def _set(db: apsw.Connection, found: Collection) -> None:
    key, owner, name, number, *counts = msgspec.structs.astuple(found)
    db.execute(Q["set_collection"], (key, number, owner, name, *counts))


def _collection(db: apsw.Connection, key: bytes) -> Collection | None:
    row = next(iter(db.execute(Q["collection"], (key,))), None)
    return None if row is None else _checked(key, row)


def _checked(key: bytes, row: tuple[Any, ...]) -> Collection:
    number, owner, name, *counts, found = row
    if found != over("collection", key, number, owner, name, *counts):
        raise StorageCorrupt(f"the collection {key.hex()} was altered outside of novelo: restore a backup")
    return Collection(key, owner, name, number, *counts)


def _source(key: bytes, row: tuple[Any, ...]) -> Source:
    if row[8] != over("source", key, *row[:8]):
        raise StorageCorrupt(f"a source of collection {key.hex()} was altered outside of novelo: restore a backup")
    return Source(*row[:8])


def _chunk(key: bytes, row: tuple[Any, ...]) -> StoredChunk:
    number, source, place, body, found = row
    if found != over("chunk", key, number, source, place, body):
        raise StorageCorrupt(
            f"chunk {number} of collection {key.hex()} was altered outside of novelo: restore a backup"
        )
    return StoredChunk(number, source, place, body)
