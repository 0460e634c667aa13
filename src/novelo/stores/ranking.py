"""BM25 over the chunks of a collection: what words, their weights and the collection's own numbers say of a chunk.

A word of a question may stand in a text by one of several stems, or by several at once where nobody could tell the
text's language; they count as one word, as often as the one that stands there most. Stems of titles and headings
count beside those of the text, and a chunk's length is that of both.

    score = Σ weight · idf · tf · (K1 + 1) / (tf + K1 · (1 - B + B · length / average))
    idf   = ln(1 + (N - n + 0.5) / (n + 0.5))

Source: Robertson and Zaragoza (2009); the form of idf that is never negative is Lucene's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from novelo.stores.documents import HEADS, K1, B, Query
from novelo.words import idf


class Ranking:
    """The score of chunks for one question."""

    def __init__(self, query: Query, chunks: int, words: int, frequency: Callable[[str], int]) -> None:
        """From the words of a question and the collection's numbers.

        Args:
            query: words, each as its stems, and their weights.
            chunks, words: how many the collection has.
            frequency: stem -> chunks that have it.
        """
        self.average = max(1.0, words / max(1, chunks))
        self.frequencies: list[int] = []
        self._words: list[tuple[tuple[str, ...], float]] = []
        for stems, weight in query:
            n = min(chunks, sum(map(frequency, stems)))
            self.frequencies.append(n)
            self._words.append((tuple(stems), weight * idf(n, chunks) if n else 0.0))

    def score(self, heads: list[str], words: list[str]) -> float:
        """The score of a chunk by the stems of its headings and of its text."""
        in_heads, in_words = Counter(heads), Counter(words)
        norm = K1 * (1 - B + B * (len(heads) + len(words)) / self.average)
        total = 0.0
        for stems, weight in self._words:
            tf = 0.0
            for stem in stems:
                if stem in in_words or stem in in_heads:
                    tf = max(tf, in_words[stem] + HEADS * in_heads[stem])
            if tf:
                total += weight * tf * (K1 + 1) / (tf + norm)
        return total


def count_words(texts: Iterable[str]) -> int:
    """How many words some texts have that are joined by spaces."""
    return sum(text.count(" ") + 1 for text in texts if text)
