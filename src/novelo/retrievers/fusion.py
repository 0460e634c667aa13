"""Keyword scores and vector scores as one.

Ranks alone lose what scores know: that one passage is far ahead, or that none is. So scores are added up:

    score = (keyword / the best keyword score) ** 0.8 + 2 * cosine

BM25 grows with the question and has no scale of its own; divided by its best it has one. Cosines without their common
part have one already: where nothing is near to a question they all are low, and words decide. Standardising both over
the collection, as was done first, blows such cosines up, and lets one outlier among the words press all others
together. A passage without any word of the question has the keyword score 0.

Source: the convex combination of Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval" (ACM
TOIS, 2023), with 0 for the least score of words. How the constants were chosen: docs/followups.md.
"""

from __future__ import annotations

import numpy as np

from novelo.retrievers.base import Vectors

SUBLINEAR = 0.8  # exponent of keyword scores: what repeats a rare word must not leave the runners-up too far behind
VECTOR = 2.0  # weight of a cosine against the best keyword score


def standardised(scores: Vectors) -> Vectors:
    """Scores with mean 0 and deviation 1; equal ones become 0."""
    spread = float(scores.std()) if len(scores) else 0.0
    return (scores - scores.mean()) / spread if spread > 1e-9 else np.zeros_like(scores)


def fused(keyword: Vectors, cosines: Vectors, weight: float = VECTOR) -> Vectors:
    """The scores of n passages from both searches: (n,) and (n,) -> (n,); the keyword scores are 0 and more."""
    best = float(keyword.max()) if len(keyword) else 0.0
    words = (keyword / best) ** SUBLINEAR if best > 0 else np.zeros_like(keyword)
    found: Vectors = words + weight * cosines
    return found
