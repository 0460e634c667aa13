"""The vectors of one collection in memory, and a search over them together with what a keyword search found.

A hundred thousand vectors of 384 numbers take 77 MB as they are stored, and 154 MB more without their common part, as
they are searched. What has come or gone since is all that is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from novelo.retrievers.base import Vectors
from novelo.retrievers.fusion import fused
from novelo.retrievers.vectors import Space, unpacked


class Ranked(NamedTuple):
    """A chunk that was found: its number, its score in all, that of its words, and the cosine of its vector."""

    number: int
    score: float
    keyword: float
    cosine: float | None


class Matrix:
    """The vectors of a collection."""

    def __init__(self, size: int) -> None:
        """An empty one, for vectors of so many numbers."""
        self.size = size
        self.own = np.zeros(0, np.int64)
        self.chunks = np.zeros(0, np.int64)
        self._stored = np.zeros((0, size), np.float16)
        self._space: Space | None = None
        self._order = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.own)

    @property
    def last(self) -> int:
        """The highest own number."""
        return int(self.own[-1]) if len(self.own) else 0

    def keep(self, own: Sequence[int]) -> None:
        """Only vectors of these numbers stay."""
        there = np.isin(self.own, np.asarray(own, np.int64))
        if not there.all():
            self.own, self.chunks, self._stored = self.own[there], self.chunks[there], self._stored[there]
            self._space = None

    def add(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """More vectors: their own number, the chunk's, the packed vector.

        Raises:
            StorageCorrupt: one is of another length.
        """
        if not rows:
            return
        new = np.nan_to_num(unpacked([row[2] for row in rows], self.size), posinf=0.0, neginf=0.0)
        self._stored = np.concatenate([self._stored, new.astype(np.float16)])
        self.own = np.concatenate([self.own, np.asarray([row[0] for row in rows], np.int64)])
        self.chunks = np.concatenate([self.chunks, np.asarray([row[1] for row in rows], np.int64)])
        self._space = None

    def cosines(self, numbers: Sequence[int], queries: Vectors) -> dict[int, float]:
        """How near some chunks are to the nearest of m queries (m, size); those without a vector are left out."""
        rows = {int(self.chunks[i]): i for i in np.nonzero(np.isin(self.chunks, np.asarray(numbers, np.int64)))[0]}
        if not rows:
            return {}
        vectors = self.space.vectors[list(rows.values())]
        near = np.stack([vectors @ self.space.toward(query[None, :]) for query in queries]).max(axis=0)
        return dict(zip(rows, map(float, near), strict=True))

    @property
    def space(self) -> Space:
        """The vectors as they are searched."""
        if self._space is None:
            self._space = Space(self._stored.astype(np.float32))
            self._order = np.argsort(self.chunks)
        return self._space

    def search(
        self,
        queries: Vectors,
        weights: Sequence[float],
        keyword: Mapping[int, float],
        limit: int,
        rest: Mapping[int, float] | None = None,
        share: float = 1.0,
    ) -> list[Ranked]:
        """The best chunks by words and by meaning.

        Args:
            queries: m vectors (m, size), and their weights.
            keyword: chunk number -> score by words; also of chunks that have no vector yet: those get the vector score
                of an average chunk.
            limit: how many.
            rest: the same of more chunks, each to be multiplied with `share`; `keyword` goes before it.
        """
        cosines = self.space.near(queries, weights)
        words, bare = self._by_words(keyword, rest or {}, share)
        mean = float(cosines.mean()) if len(cosines) else 0.0
        near = np.concatenate([cosines, np.full(len(bare), mean, np.float32)])
        total = fused(words, near)
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
        self, keyword: Mapping[int, float], rest: Mapping[int, float], share: float
    ) -> tuple[Vectors, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
        """Scores by words in the order of the vectors, behind them those of chunks without one; these chunks."""
        pairs = [(rest, share), (keyword, 1.0)]
        numbers = np.concatenate([np.fromiter(found, np.int64, len(found)) for found, _ in pairs])
        scores = np.concatenate(
            [np.fromiter(found.values(), np.float32, len(found)) * np.float32(factor) for found, factor in pairs]
        )
        there = self.chunks[self._order]
        at = np.searchsorted(there, numbers)
        known = at < len(there)
        known[known] = there[at[known]] == numbers[known]
        bare, where = np.unique(numbers[~known], return_inverse=True)
        words = np.zeros(len(self) + len(bare), np.float32)
        words[self._order[at[known]]] = scores[known]
        words[len(self) + where] = scores[~known]
        return words, bare
