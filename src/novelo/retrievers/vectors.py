"""Vectors: as bytes in a table, and how near they are.

The cosines of e5 crowd together (0.75 to 0.9 whatever the texts), because all vectors share a large common part. What
tells texts apart is what is left without it: the mean of the collection is subtracted, from the question's vector too,
and the length made 1 again (Mu and Viswanath, "All-but-the-Top", ICLR 2018, take out some more directions besides).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from novelo.errors import ModelFailed, StorageCorrupt
from novelo.retrievers.base import Vectors


def checked(given: Any, texts: int) -> Vectors:
    """What an embedder gave for some texts, with length 1: (texts, size), float32.

    One NaN in a vector would become the mean of a collection, and every cosine with it; a vector too few would be
    another passage's. So nothing of a batch is taken that is not whole.

    Raises:
        ModelFailed: it is no such matrix, or some of its numbers are none.
    """
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ModelFailed(f"the embedder gave {type(given).__name__}: expected numbers") from error
    if found.ndim != 2 or len(found) != texts or not found.shape[1]:
        raise ModelFailed(f"the embedder gave an array of {found.shape}: expected ({texts}, size)")
    if not np.isfinite(found).all():
        raise ModelFailed("the embedder gave numbers that are not finite")
    length = np.linalg.norm(found, axis=1, keepdims=True)
    scaled: Vectors = (found / np.where(length > 0, length, 1)).astype(np.float32)
    return scaled


def packed(vector: Vectors) -> bytes:
    """A vector as bytes: 16-bit floats, little-endian; a cosine keeps three digits."""
    return np.ascontiguousarray(vector, "<f2").tobytes()


def unpacked(rows: Sequence[bytes], size: int) -> Vectors:
    """Packed vectors, n of them, as a matrix (n, size), float32.

    Raises:
        StorageCorrupt: a row of another length.
    """
    if any(len(row) != 2 * size for row in rows):
        raise StorageCorrupt(f"a vector in the index does not have {size} numbers")
    return np.frombuffer(b"".join(rows), "<f2").astype(np.float32).reshape(len(rows), size)


def of_length_one(given: Sequence[Sequence[float]] | Vectors, size: int = 0) -> Vectors:
    """The n vectors with length 1, (n, size), float32; a vector of zeros stays one."""
    found = np.asarray(given, np.float32)
    found = found.reshape(len(found), found.shape[1] if found.ndim == 2 else size)
    length = np.linalg.norm(found, axis=1, keepdims=True)
    scaled: Vectors = found / np.where(length > 0, length, 1)
    return scaled


class Space:
    """The passages' vectors without what they share, and the mean that a question's must lose likewise."""

    def __init__(self, vectors: Vectors) -> None:
        """From n vectors (n, size); the mean of few says little, and is taken off all the same."""
        self.mean: Vectors = vectors.mean(axis=0) if len(vectors) else np.zeros(vectors.shape[1], np.float32)
        self.vectors = of_length_one(vectors - self.mean, vectors.shape[1])

    def near(self, queries: Vectors, weights: Sequence[float] | None = None) -> Vectors:
        """Cosines of all passages with the weighted sum of m queries: (n,), float32."""
        return self.vectors @ self.toward(queries, weights)

    def toward(self, queries: Vectors, weights: Sequence[float] | None = None) -> Vectors:
        """The one vector, centred and of length 1, that m queries (m, size) ask for together."""
        centred = of_length_one(queries - self.mean, queries.shape[1])
        share = np.asarray(weights if weights is not None else [1.0] * len(queries), np.float32)
        found: Vectors = of_length_one((share @ centred)[None, :], queries.shape[1])[0]
        return found
