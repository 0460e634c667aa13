"""What a retriever and an embedder promise.

A retriever gives passages for a question, the best first; a passage is a dict (`retrieval.py`): `text`, and where known
`source`, `title`, `section` and `score`. An embedder turns texts into vectors whose cosine tells how near two are in
meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from novelo.retrieval import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
else:
    Vectors: TypeAlias = Any  # an embedder brings numpy along; a keyword search needs none

__all__ = ["Embedder", "Passage", "Retriever", "Vectors"]


class Retriever(Protocol):
    """Anything that finds passages for a question."""

    def search(self, question: str, limit: int = 5) -> list[Passage]:
        """At most `limit` passages, the best first."""
        ...


class Embedder(Protocol):
    """Texts into vectors; questions and passages may be embedded in different ways.

    Attributes:
        name: the model, as it is kept beside the vectors: those of different models cannot be compared.
        size: numbers in a vector.
    """

    name: str
    size: int

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of n questions, (n, size), float32, of length 1."""
        ...

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of n passages, likewise."""
        ...
