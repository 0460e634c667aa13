"""The words by which a message is found, and by which it is looked for: one function for every index.

Accents and case are folded; words of letters and digits stay words; Chinese, Japanese and Korean signs, which are
written without spaces, become single signs and pairs, so that 退货 is found in 可以退货吗.

    O reembolso já foi concluído?   ->  o reembolso ja foi concluido
    可以退货                         ->  可 以 退 货 可以 以退 退货
"""

from __future__ import annotations

import re
import unicodedata

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
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
    text = unicodedata.normalize("NFKD", text).casefold()
    text = unicodedata.normalize("NFC", "".join(c for c in text if not unicodedata.combining(c)))
    out: list[str] = []
    for word in _WORD.findall(text):
        if not _IS_CJK.match(word):
            out.append(word)
            continue
        if single or len(word) == 1:
            out.extend(word)
        out.extend(word[i : i + 2] for i in range(len(word) - 1))
    return out
