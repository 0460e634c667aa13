"""Documents in the reference store: dicts, and every chunk is scored for every question."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from novelo.errors import ThreadErased, ThreadHeld
from novelo.stores.documents import (
    ERASED,
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
from novelo.stores.reference.removing import KeptAudited
from novelo.stores.rules import thread_key

replace = msgspec.structs.replace


@dataclass
class _Kept:
    """All that is kept of a collection."""

    row: Collection
    sources: dict[str, Source] = field(default_factory=dict)
    chunks: dict[int, StoredChunk] = field(default_factory=dict)
    words: dict[int, tuple[str, str]] = field(default_factory=dict)
    vectors: dict[int, tuple[int, bytes]] = field(default_factory=dict)


class KeptDocuments:
    """The documents of a reference store."""

    on_erased: Hook | None = None

    def __init__(self, secret: bytes, lock: threading.RLock, store: KeptAudited) -> None:
        self.store = store
        self._secret = hmac.digest(secret, b"documents", hashlib.sha256)
        self._lock = lock
        self._kept: dict[bytes, _Kept] = {}
        self._last = 0

    def _next(self) -> int:
        self._last += 1
        return self._last

    def key_of(self, owner: str, name: str) -> bytes:
        """A collection's key."""
        return thread_key(self._secret, owner, name, "name of a collection")

    # ------------------------------------------------------------------------------------------ collections
    def collection(self, key: bytes) -> Collection | None:
        """A collection's facts."""
        with self._lock:
            return self._kept[key].row if key in self._kept else None

    def collections(self, owner: str | None = None) -> list[Collection]:
        """All collections, of one owner or of everybody."""
        with self._lock:
            rows = [kept.row for kept in self._kept.values() if owner is None or kept.row.owner == owner]
        return sorted(rows, key=lambda row: (row.owner.encode(), row.name.encode()))

    def erase(self, key: bytes, now: float, note: Note = NOBODY) -> dict[str, int]:
        """Take a collection out with all it holds."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return {}
            if self.store.holds([self.store.owner_key(kept.row.owner)]):
                raise ThreadHeld("the documents of this owner must be kept (a hold): nothing was removed")
            del self._kept[key]
            rows = {n: getattr(kept.row, n) for n in ("sources", "chunks", "vectors")}
            if self.on_erased is not None:
                self.on_erased(Gone(key, "collection", now, kept.row.created))
            self.store._act(now, note, "collection", key, rows)
        return rows

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
        """Put sources in, in place of those of the same names; the names that they have now."""
        put = []
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                last = self.store.audit(1, scope=key)
                if since is not None and last and last[0].at >= since:
                    raise ThreadErased(ERASED)
                kept = self._kept[key] = _Kept(Collection(key, *names, self._next(), created=now))
            for one in sources:
                name = named(one.source, kept.sources.get(one.source.source))
                put.append(name)
                self._drop(kept, name)
                kept.sources[name] = replace(one.source, source=name, chunks=len(one.chunks), updated=now)
                for place, chunk in enumerate(one.chunks):
                    number = self._next()
                    kept.chunks[number] = StoredChunk(number, name, place, chunk.body)
                    kept.words[number] = (chunk.heads, chunk.words)
                kept.row = replace(kept.row, put=kept.row.put + 1)
            self._count(kept, now)
        return put

    def remove(self, key: bytes, sources: Sequence[str], now: float) -> int:
        """Take sources out."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return 0
            gone = sum(self._drop(kept, source) for source in sources)
            self._count(kept, now)
            return gone

    def _drop(self, kept: _Kept, source: str) -> bool:
        if kept.sources.pop(source, None) is None:
            return False
        for number in [n for n, chunk in kept.chunks.items() if chunk.source == source]:
            del kept.chunks[number], kept.words[number]
            kept.vectors = {own: one for own, one in kept.vectors.items() if one[0] != number}
        kept.row = replace(kept.row, dropped=kept.row.dropped + 1)
        return True

    def _count(self, kept: _Kept, now: float) -> None:
        words = sum(count_words(texts) for texts in kept.words.values())
        kept.row = replace(
            kept.row, sources=len(kept.sources), chunks=len(kept.chunks), vectors=len(kept.vectors), words=words,
            updated=now,
        )  # fmt: skip

    def sources(self, key: bytes) -> list[Source]:
        """All sources, by name."""
        with self._lock:
            found = self._kept[key].sources if key in self._kept else {}
            return [found[name] for name in sorted(found, key=str.encode)]

    def source(self, key: bytes, source: str) -> Source | None:
        """One of them."""
        with self._lock:
            return self._kept[key].sources.get(source) if key in self._kept else None

    def chunks_of(self, key: bytes, source: str) -> list[StoredChunk]:
        """A source's chunks, in order."""
        with self._lock:
            found = self._kept[key].chunks if key in self._kept else {}
            return [chunk for chunk in found.values() if chunk.source == source]

    def chunks(self, key: bytes, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Chunks by their numbers."""
        with self._lock:
            found = self._kept[key].chunks if key in self._kept else {}
            return {number: found[number] for number in numbers if number in found}

    # ------------------------------------------------------------------------------------------ words
    def find(self, key: bytes, query: Query, rest: bool = False) -> Matches:
        """The chunks that hold words of a question, by BM25; all of them are scored."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return Matches({})
            stems = {n: (heads.split(), words.split()) for n, (heads, words) in kept.words.items()}
            sets = [{*heads, *words} for heads, words in stems.values()]
            row = kept.row
        ranking = Ranking(query, row.chunks, row.words, lambda stem: sum(stem in words for words in sets))
        scores = {number: ranking.score(*both) for number, both in stems.items()}
        found = {number: score for number, score in scores.items() if score > 0}
        return Matches(found, frequencies=tuple(ranking.frequencies))

    # ------------------------------------------------------------------------------------------ vectors
    def without_vector(self, key: bytes, limit: int, after: int = 0) -> list[StoredChunk]:
        """Chunks that have no vector yet, the lowest numbers first."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return []
            known = {number for number, _ in kept.vectors.values()}
            return [chunk for number, chunk in kept.chunks.items() if number > after and number not in known][:limit]

    def put_vectors(self, key: bytes, model: str, size: int, vectors: Sequence[tuple[int, bytes]], now: float) -> int:
        """Vectors of chunks; how many were taken."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return 0
            check_model(kept.row, model, size)
            known = {number for number, _ in kept.vectors.values()}
            new = [(number, bytes(vector)) for number, vector in vectors if number in kept.chunks.keys() - known]
            for one in new:
                kept.vectors[self._next()] = one
            if new:
                kept.row = replace(kept.row, model=model, size=size, put=kept.row.put + 1)
                self._count(kept, now)
            return len(new)

    def drop_vectors(self, key: bytes, now: float) -> int:
        """Take all vectors out."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return 0
            gone, kept.vectors = len(kept.vectors), {}
            kept.row = replace(kept.row, model="", size=0, dropped=kept.row.dropped + 1)
            self._count(kept, now)
            return gone

    def vectors(self, key: bytes, after: int = 0) -> list[tuple[int, int, bytes]]:
        """Vectors in the order in which they came."""
        with self._lock:
            found = self._kept[key].vectors if key in self._kept else {}
            return [(own, *one) for own, one in found.items() if own > after]

    def vector_numbers(self, key: bytes) -> list[int]:
        """The own numbers of all vectors that are there."""
        with self._lock:
            return list(self._kept[key].vectors) if key in self._kept else []
