"""The words by which a message is found, and by which it is looked for: one function for every index.

Accents and case are folded; words of letters and digits stay words; Chinese, Japanese and Korean signs, which are
written without spaces, become single signs and pairs, so that 退货 is found in 可以退货吗.

    O reembolso já foi concluído?   ->  o reembolso ja foi concluido
    可以退货                         ->  可 以 退 货 可以 以退 退货
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
LOOKED_THROUGH = 2000  # newest messages that a search without an index reads
MAX_INDEXED = 20_000  # characters of one message that are indexed; a 50 MB message would fill the index with noise


def fold(text: str) -> str:
    """The words of a text, folded, joined by single spaces."""
    return " ".join(_words(text[:MAX_INDEXED], single=True))


def query_words(text: str) -> list[str]:
    """The words that a message must hold to be found: like `fold`, but of a run of CJK signs only the pairs."""
    return list(dict.fromkeys(_words(text[:1000], single=False)))


def _words(text: str, single: bool) -> list[str]:
    if text.isascii():
        return _WORD.findall(text.lower())
    text = _folded(text)
    if max(text, default="") < _CJK[0]:
        return _WORD.findall(text)
    out: list[str] = []
    for word in _WORD.findall(text):
        if not _is_cjk(word):
            out.append(word)
            continue
        if single or len(word) == 1:
            out.extend(word)
        out.extend(word[i : i + 2] for i in range(len(word) - 1))
    return out


def _is_cjk(word: str) -> bool:
    return word[0] >= _CJK[0] and re.match(f"[{_CJK}]", word) is not None


def _folded(text: str) -> str:
    text = unicodedata.normalize("NFKD", text).casefold()
    for mark in {c for c in set(text) if c > "\u02ff" and unicodedata.combining(c)}:  # a text has few different ones
        text = text.replace(mark, "")
    return unicodedata.normalize("NFC", text)


@lru_cache(4096)
def _folded_sign(sign: str) -> str:
    return _folded(sign)


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
    for match in _WORD.finditer(folded):
        word = match.group()
        if word in words:
            yield match.span()
        elif _is_cjk(word):
            for i in range(len(word)):
                size = 2 if word[i : i + 2] in words else 1
                if word[i : i + size] in words:
                    yield match.start() + i, match.start() + i + size
