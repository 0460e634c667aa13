"""Keyword scores and vector scores as one.

Ranks alone lose what scores know: that one passage is far ahead, or that none is. Both kinds are standardised over all
passages of the collection and added. A passage without any word of the question has the keyword score 0.
"""

from __future__ import annotations

import numpy as np

from novelo.retrievers.base import Vectors

KEYWORD, VECTOR = 1.0, 1.5  # weights of the two, chosen in docs/followups.md


def standardised(scores: Vectors) -> Vectors:
    """Scores with mean 0 and deviation 1; equal ones become 0."""
    spread = float(scores.std()) if len(scores) else 0.0
    return (scores - scores.mean()) / spread if spread > 1e-9 else np.zeros_like(scores)


def fused(keyword: Vectors, vector: Vectors, weights: tuple[float, float] = (KEYWORD, VECTOR)) -> Vectors:
    """The scores of n passages from both searches: (n,) and (n,) -> (n,)."""
    return weights[0] * standardised(keyword) + weights[1] * standardised(vector)
