"""Support: whether a passage can carry an answer to a question at all, on one scale for every collection and search.

The scores of a search tell which passage is better, not whether the best one is good: BM25 grows with the question, and
standardised scores have a best one for any question. What tells is how much of what the question is about stands in the
passage, by the weight of its words (idf), and the cosine of the two vectors without their common part:

    strength = coverage + 2 · cosine        (coverage alone where there is no vector)
    support  = strength / (2 · least)       0.5 and more is enough; 1 at most

A follow-up is searched together with former turns. It is measured by its own words; but where the collection has more
than half of these somewhere, what they are about was found by the former turns, and that is enough. Of "Vocês vendem
pneus?" a collection that says "não vendemos dados" has half: that is enough only where a passage nearly supports it.

How the constants were chosen, and what comes of them on data not seen: `benchmarks/support.py`, docs/answers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from novelo.words import EMPTY_SIGNS, idf, is_cjk, query_stems

ENOUGH = 0.5  # of support
BY_WORDS = 0.30  # coverage that is enough where there is no vector
BY_BOTH = 0.65  # strength that is enough
COSINE = 2.0  # how much a cosine counts against the coverage
KNOWN = 0.5  # of a follow-up's words that the collection has: more, or so many and a strength that is nearly enough
NEARLY = 0.8  # of that
HALF_EMPTY = 0.3  # how much a pair of signs counts of which one is empty


class Own(msgspec.Struct, frozen=True):
    """The words of a question itself, each with its stems and its weight, and how much of them the collection has."""

    words: tuple[tuple[tuple[str, ...], float], ...]
    known: float = 0.0
    follows: bool = False

    def support(self, texts: Iterable[str], cosine: float | None) -> float:
        """How far a passage supports an answer, 0 to 1.

        Args:
            texts: its text, title and headings.
            cosine: of its vector and the question's; None where it has none.
        """
        there = {stem for text in texts for stems in query_stems(text) for stem in stems}
        whole = sum(weight for _, weight in self.words)
        held = sum(weight for stems, weight in self.words if not there.isdisjoint(stems))
        coverage = held / whole if whole else 0.0
        strength, least = (coverage, BY_WORDS) if cosine is None else (coverage + COSINE * cosine, BY_BOTH)
        if self.follows and (self.known > KNOWN or (self.known == KNOWN and strength >= NEARLY * least)):
            strength = max(strength, least)
        return round(min(1.0, max(0.0, strength / (2 * least))), 4)


def own_words(queries: Sequence[tuple[str, float]], frequencies: dict[tuple[str, ...], int], chunks: int) -> Own:
    """The words of the queries with the highest weight: of the question itself, where others come from former turns.

    Args:
        queries: texts and their weights, one at least.
        frequencies: of each word, by its stems: how many chunks have it.
        chunks: how many the collection has.
    """
    most = max(weight for _, weight in queries)
    own = dict.fromkeys(tuple(word) for text, weight in queries if weight == most for word in query_stems(text))
    words = []
    for stems in own:
        n = frequencies.get(stems, 0)
        half = is_cjk(stems[0]) and len(stems[0]) > 1 and any(sign in EMPTY_SIGNS for sign in stems[0])
        words.append((stems, idf(n, chunks) * (HALF_EMPTY if half else 1.0), n))
    known = sum(n > 0 for _, _, n in words) / len(words) if words else 1.0  # "e por quanto tempo?" only leans
    return Own(tuple((stems, weight) for stems, weight, _ in words), known, any(weight < most for _, weight in queries))
