"""The vectors of one collection in memory, and a search over them together with what a keyword search found.

A hundred thousand vectors of 384 numbers take 77 MB as they are stored, and 154 MB more without their common part, as
they are searched. What has come or gone since is all that is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from novelo.retrievers.base import Vectors
from novelo.retrievers.fusion import VECTOR, fused
from novelo.retrievers.vectors import Space, unpacked

Numbers: TypeAlias = NDArray[np.int64]


class Ranked(NamedTuple):
    """A chunk that was found: its number, its score in all, that of its words, and the cosine of its vector."""

    number: int
    score: float
    keyword: float
    cosine: float | None


class Matrix:
    """The vectors of a collection: a value, which several threads may search while one makes the next."""

    def __init__(
        self, size: int, own: Numbers | None = None, chunks: Numbers | None = None, stored: Any = None
    ) -> None:
        """Vectors of so many numbers.

        Args:
            own, chunks: the vectors' own numbers, ascending, and those of their chunks; none without.
            stored: the vectors, (n, size), float16.
        """
        self.size = size
        self.own: Numbers = np.zeros(0, np.int64) if own is None else own
        self.chunks: Numbers = np.zeros(0, np.int64) if chunks is None else chunks
        self._stored = np.zeros((0, size), np.float16) if stored is None else stored
        self._ready: tuple[Space, Numbers] | None = None

    def __len__(self) -> int:
        return len(self.own)

    @property
    def last(self) -> int:
        """The highest own number."""
        return int(self.own[-1]) if len(self.own) else 0

    def only(self, own: Sequence[int]) -> Matrix:
        """Those of these numbers."""
        there = np.isin(self.own, np.asarray(own, np.int64))
        return self if there.all() else Matrix(self.size, self.own[there], self.chunks[there], self._stored[there])

    def with_more(self, rows: Sequence[tuple[int, int, bytes]]) -> Matrix:
        """These and more: their own number, the chunk's, the packed vector.

        Raises:
            StorageCorrupt: one is of another length.
        """
        if not rows:
            return self
        new = np.nan_to_num(unpacked([row[2] for row in rows], self.size), posinf=0.0, neginf=0.0).astype(np.float16)
        own, chunks = (np.asarray([row[i] for row in rows], np.int64) for i in (0, 1))
        return Matrix(
            self.size,
            np.concatenate([self.own, own]),
            np.concatenate([self.chunks, chunks]),
            np.concatenate([self._stored, new]),
        )

    def cosines(self, numbers: Sequence[int], queries: Vectors) -> dict[int, float]:
        """How near some chunks are to the nearest of m queries (m, size); those without a vector are left out."""
        rows = {int(self.chunks[i]): i for i in np.nonzero(np.isin(self.chunks, np.asarray(numbers, np.int64)))[0]}
        if not rows:
            return {}
        space, _ = self.ready
        vectors = space.vectors[list(rows.values())]
        near = np.stack([vectors @ space.toward(query[None, :]) for query in queries]).max(axis=0)
        return dict(zip(rows, map(float, near), strict=True))

    @property
    def ready(self) -> tuple[Space, Numbers]:
        """The vectors as they are searched, and their order by the chunks' numbers."""
        if self._ready is None:
            self._ready = Space(self._stored.astype(np.float32)), np.argsort(self.chunks)
        return self._ready

    def search(
        self,
        queries: Vectors,
        weights: Sequence[float],
        keyword: Mapping[int, float],
        limit: int,
        rest: Mapping[int, float] | None = None,
        share: float = 1.0,
        of: int = 0,
    ) -> list[Ranked]:
        """The best chunks by words and by meaning.

        Args:
            queries: m vectors (m, size), and their weights.
            keyword: chunk number -> score by words; also of chunks that have no vector yet: those get the vector score
                of an average chunk.
            limit: how many.
            rest: the same of more chunks, each to be multiplied with `share`; `keyword` goes before it.
            of: chunks that there are. While few of them have a vector, meaning counts that much less: what has one must
                not pass what the words found.
        """
        space, order = self.ready
        cosines = space.near(queries, weights)
        words, bare = self._by_words(order, keyword, rest or {}, share)
        mean = float(cosines.mean()) if len(cosines) else 0.0
        near = np.concatenate([cosines, np.full(len(bare), mean, np.float32)])
        have = min(1.0, len(self) / of) if of else 1.0
        total = fused(words, near, VECTOR * have)
        best = (
            np.argpartition(-total, min(limit, len(total)) - 1)[:limit] if len(total) > limit else np.arange(len(total))
        )
        best = best[np.argsort(-total[best], kind="stable")]
        every = np.concatenate([self.chunks, bare])
        return [
            Ranked(int(every[i]), float(total[i]), float(words[i]), float(near[i]) if i < len(self) else None)
            for i in best
        ]

    def _by_words(
        self, order: Numbers, keyword: Mapping[int, float], rest: Mapping[int, float], share: float
    ) -> tuple[Vectors, Numbers]:
        """Scores by words in the order of the vectors, behind them those of chunks without one; these chunks."""
        pairs = [(rest, share), (keyword, 1.0)]
        numbers = np.concatenate([np.fromiter(found, np.int64, len(found)) for found, _ in pairs])
        scores = np.concatenate(
            [np.fromiter(found.values(), np.float32, len(found)) * np.float32(factor) for found, factor in pairs]
        )
        there = self.chunks[order]
        at = np.searchsorted(there, numbers)
        known = at < len(there)
        known[known] = there[at[known]] == numbers[known]
        bare, where = np.unique(numbers[~known], return_inverse=True)
        words = np.zeros(len(self) + len(bare), np.float32)
        words[order[at[known]]] = scores[known]
        words[len(self) + where] = scores[~known]
        return words, bare
