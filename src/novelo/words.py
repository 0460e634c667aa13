"""Words: how a text is cut for every index, and what of it two texts have to share to speak of the same.

    words   O reembolso já foi concluído?   ->  o reembolso ja foi concluido       (exact search)
            可以退货                         ->  可 以 退 货 可以 以退 退货
    stems   O reembolso já foi concluído?   ->  reembols conclu                    (ranked search)

Accents and case are folded; words of letters and digits stay words; Chinese, Japanese and Korean signs, which are
written without spaces, become single signs and pairs. A stem is the word without its ending, by the Snowball rules of
the text's language (Portuguese, English, Spanish; other languages keep their words). It is made from the folded word,
so that a question typed without accents meets the same stems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

import Stemmer

from novelo.languages import language_of

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
WORD = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+")
SPEAKER = "\N{SECTION SIGN}n"  # opens the words of a speaker's name: no folded text holds the sign
LEAST_STEMMED = 4  # letters: shorter words and stems are taken as they are
STEMMED = {"pt": "portuguese", "en": "english", "es": "spanish"}

# Words that most sentences have, whatever they are about; folded. Those of all languages count in all: a word that is
# empty in one and full in another ("come" in Italian and in English) is rare enough.
_EMPTY_WORDS = (
    "a o e as os um uma de da do das dos em no na nos nas por para pra com sem sob sobre que qual quais quem "
    "quando onde como quanto quantos se eu tu voce ele ela eles elas me te lhe meu minha seu sua isso isto esse "
    "essa este esta ser sou era foi sao estar ter tem tenho ha fazer pode posso vai ir ja so tambem mas ou nao "
    "sim ao aos mais menos muito entao porque disse falou poderia fornecer favor contexto el la los las del al y una "
    "unos lo le su mi yo es son hay puede cual quien cuando donde cuanto esto eso ese pero muy dijo the an and or "
    "but of to in on at by for from with about is are was were be do does did can could would should will may "
    "have has had i you he she it we they my your his her its our their this that there what which who where when "
    "why how many much not if so than please provide context more le les des du et un une est sont je vous il "
    "nous dans pour sur avec pas qui ou der die das und ist sind ich sie wir ein eine zu von mit auf nicht wie wo "
    "was wer di che il per con non"
)
EMPTY = frozenset(_EMPTY_WORDS.split())
EMPTY_SIGNS = frozenset(
    "的了是我你您他她它们吗呢吧啊么什怎哪谁几多少这那个有在和与或就都也还很请问能可以不没要会到为对把给说"
)
# What folding takes from a word and the rules for endings need: informacao -> informação, reservacion -> reservación.
_ACCENTS = {
    "portuguese": (("coes", "ções"), ("soes", "sões"), ("oes", "ões"), ("cao", "ção"), ("sao", "são")),
    "spanish": (("cion", "ción"), ("sion", "sión")),
    "english": (),
}


def folded(text: str) -> str:
    """A text without case and accents; compatibility forms (full width, ligatures) as the usual ones."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text).casefold()
    for mark in {c for c in set(text) if c > "\u02ff" and unicodedata.combining(c)}:  # a text has few different ones
        text = text.replace(mark, "")
    return unicodedata.normalize("NFC", text)


def words(text: str, single: bool = True) -> list[str]:
    """The words of a text, folded; of a run of CJK signs its pairs, and with `single` the signs too.

    Example: "可以退货", single=False -> ["可以", "以退", "退货"]
    """
    text = folded(text)
    if text.isascii() or max(text, default="") < CJK[0]:
        return WORD.findall(text)
    out: list[str] = []
    for word in WORD.findall(text):
        if is_cjk(word):
            out.extend(_signs(word, single))
        else:
            out.append(word)
    return out


def is_cjk(word: str) -> bool:
    """Whether a word (as `WORD` finds them) is a run of Chinese, Japanese or Korean signs."""
    return word[0] >= CJK[0] and re.match(f"[{CJK}]", word) is not None


def stems(text: str, language: str | None = None) -> list[str]:
    """What a text is about, as an index keeps it: stems in order, without empty words.

    Args:
        text: any text.
        language: "pt", "en", "es", ...; told from the text if not given.
    """
    language = language or language_of(text)
    return [_stem(w, language) for w in words(text) if not _is_empty(w)]


def query_stems(text: str) -> list[list[str]]:
    """The words of a question that it is about, each with the stems that a text may have for it.

    A question is often too short to tell its language, and the texts may be in several: each word is looked for as it
    is and by its stem in each language. Equal words come once.

    Example: "reembolsos" -> [["reembolsos", "reembolso", "reembols"]]
    """
    found = dict.fromkeys(w for w in words(text, single=False) if not _is_empty(w))
    return [list(dict.fromkeys([w, *(_stem(w, language) for language in STEMMED)])) for w in found]


def full_words(text: str) -> list[str]:
    """The words of a text that it is about, in order, as they are: folded, without the empty ones."""
    return [w for w in words(text, single=False) if not _is_empty(w)]


def kin(word: str) -> tuple[str, Callable[[str], bool]]:
    """What tells whether another word is the same one with another ending, in one of the languages with stems.

    Args:
        word: a folded word.
    Returns:
        How all such words begin, and a test for one that does.
    Example: "reembolsos" -> ("reembol", a test that "reembolso" passes)
    """
    if not word.isascii() or word.isdigit() or len(word) < LEAST_STEMMED:
        return word, word.__eq__
    own = {language: _stem(word, language) for language in STEMMED}
    start = min(own.values(), key=len)
    start = start[:-1] if len(start) > LEAST_STEMMED else start  # a last letter may change: study, studies -> studi
    start = word[: len(start)] if not word.startswith(start) else start
    return start, lambda other: other == word or any(_stem(other, name) == stem for name, stem in own.items())


def speaker_words(name: str | None) -> list[str]:
    """The words by which a speaker is found in an index: "Ana Lima" -> ["§nana", "§nlima"]."""
    return [SPEAKER + word for word in words(name[:200], single=False)] if name else []


def _signs(run: str, single: bool) -> Iterator[str]:
    if single or len(run) == 1:
        yield from run
    for i in range(len(run) - 1):
        yield run[i : i + 2]


def _is_empty(word: str) -> bool:
    return word in EMPTY or (word[0] >= CJK[0] and all(sign in EMPTY_SIGNS for sign in word))


@lru_cache(100_000)
def _stem(word: str, language: str | None) -> str:
    """The stem of a folded word."""
    if language not in STEMMED or not word.isascii() or len(word) > 40 or word.isdigit():
        return word
    name = STEMMED[language]
    for bare, marked in _ACCENTS[name]:
        if word.endswith(bare):
            word = word[: len(word) - len(bare)] + marked
            break
    return folded(_stemmer(name).stemWord(word))


@cache
def _stemmer(name: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(name)  # used under the interpreter's lock: one for all threads
