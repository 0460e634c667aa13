"""The words by which a message is found, and by which it is looked for: one function for every index.

Accents and case are folded; words of letters and digits stay words; Chinese, Japanese and Korean signs, which are
written without spaces, become single signs and pairs, so that 退货 is found in 可以退货吗.

    O reembolso já foi concluído?   ->  o reembolso ja foi concluido
    可以退货                         ->  可 以 退 货 可以 以退 退货
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from novelo.messages import Message
from novelo.words import WORD, folded, is_cjk, speaker_words
from novelo.words import words as _words

LOOKED_THROUGH = 2000  # newest messages that a search without an index reads
MAX_INDEXED = 20_000  # characters of one message that are indexed; a 50 MB message would fill the index with noise


def fold(text: str) -> str:
    """The words of a text, folded, joined by single spaces."""
    return " ".join(_words(text[:MAX_INDEXED]))


def indexed_words(message: Message) -> str:
    """The words of a message for the index, and those by which its speaker is found; no search asks for these."""
    said = fold(message.text)
    return f"{said} {' '.join(speaker_words(message.name))}" if said and message.name else said


def query_words(text: str) -> list[str]:
    """The words that a message must hold to be found: like `fold`, but of a run of CJK signs only the pairs."""
    return list(dict.fromkeys(_words(text[:1000], single=False)))


@lru_cache(4096)
def _folded_sign(sign: str) -> str:
    return folded(sign)


def holds(text: str, words: Sequence[str]) -> bool:
    """Whether a message is found by all of these words, as `query_words` gives them."""
    return set(words) <= set(fold(text).split())


def spans(text: str, words: Sequence[str], most: int = 50) -> tuple[tuple[int, int], ...]:
    """Where words stand in a text as it was written: (start, stop) in characters, in order, without overlap.

    Args:
        words: folded ones, as `query_words` gives them.
        most: so many at most.

    Example: "Já foi CONCLUÍDO." and ["concluido"] -> ((7, 16),).
    """
    text = text[:MAX_INDEXED]
    folded, origin = [], []
    for i, sign in enumerate(text):
        for piece in sign.lower() if sign.isascii() else _folded_sign(sign):
            folded.append(piece)
            origin.append(i)
    found: list[tuple[int, int]] = []
    for start, stop in _stands("".join(folded), set(words)):
        first, last = origin[start], origin[stop - 1] + 1
        while last < len(text) and unicodedata.combining(text[last]):
            last += 1
        if found and first < found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        elif len(found) == most:
            break
        else:
            found.append((first, last))
    return tuple(found)


def _stands(folded: str, words: set[str]) -> Iterator[tuple[int, int]]:
    for match in WORD.finditer(folded):
        word = match.group()
        if word in words:
            yield match.span()
        elif is_cjk(word):
            for i in range(len(word)):
                found = next((one for one in (word[i : i + 2], word[i]) if one in words), "")
                if found:  # of the last sign the pair is itself
                    yield match.start() + i, match.start() + i + len(found)
