"""How near the messages of a thread are to a question in meaning, in deviations above or below the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from novelo.retrievers.base import Vectors
from novelo.retrievers.fusion import standardised
from novelo.retrievers.vectors import Space, checked, packed, unpacked

LEAST = 8  # vectors: the mean of fewer says nothing of what they share

__all__ = ["checked", "nearness", "packed"]


def nearness(rows: Sequence[tuple[int, bytes]], questions: Vectors) -> dict[int, float]:
    """Standardised nearness by position; nothing where there are too few vectors to tell.

    Args:
        rows: positions and packed vectors, n of them; those of another length are passed over.
        questions: m wordings of one question (m, size); they ask together.
    """
    size = questions.shape[1]
    rows = [row for row in rows if len(row[1]) == 2 * size]
    if len(rows) < LEAST:
        return {}
    vectors = np.nan_to_num(unpacked([vector for _, vector in rows], size))
    scores = standardised(Space(vectors).near(questions))
    return dict(zip((position for position, _ in rows), scores.tolist(), strict=True))
