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

import math
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
    # Portuguese
    "a o e as os um uma uns umas de da do das dos em no na nos nas num numa por pelo pela pelos pelas para pra com "
    "sem sob sobre ate entre desde que qual quais quem quando onde como quanto quanta quantos quantas se eu tu voce "
    "voces ele ela eles elas me te lhe lhes meu minha meus minhas seu sua seus suas nosso nossa nossos nossas dele "
    "dela deles delas isso isto aquilo esse essa esses essas este esta estes estas aquele aquela aqueles aquelas "
    "disso nisso ser sou era foi sao eram foram sido seria estar estou esta estao estava ter tem tenho tinha teve ha "
    "haver fazer faz pode podem posso poderia quero queria deve devo vai vao vou ir ja so tambem mas ou nao sim ao "
    "aos mais menos muito muita muitos muitas entao porque pois assim ainda agora aqui ali la bem cada outro outra "
    "outros outras mesmo mesma todo toda todos todas tudo nada algo algum alguma alguns algumas qualquer disse falou "
    "fornecer favor contexto tiver tivesse tera teria tinham houver houve havia sera estiver esteja seja fosse podemos "
    "deveria preciso gostaria "
    # Spanish
    "el los las del al y u una unos unas lo le les su sus mi mis tus yo ella ellos ellas usted ustedes nosotros "
    "nuestro nuestra nuestros nuestras es son fue fueron siendo estan estoy hay haber han he hace hacer puede pueden "
    "puedo quiero tiene tienen tengo debe va voy cual cuales quien quienes cuando donde cuanto cuanta cuantos cuantas "
    "esto eso ese esos esas aquello aquel aquella aquellos pero sino muy mas tan tambien hasta ni si ahora entonces "
    "aun cada otro otra otros otras mismo misma algun alguna algunos algunas dijo "
    # English
    "the an and or nor but of to in on at by for from with without within about into onto over under between through "
    "during before after above below against among is are was were be been being am do does did doing done can could "
    "should would will shall may might must have has had having i you he she it we they my your his her hers its our "
    "ours their theirs him us them myself yourself himself herself itself themselves this that these those there here "
    "what which who whom whose where when why how many much more most less least not than then so if as because while "
    "until though although also too very just only even still yet ever again already some any each every all both few "
    "other others another such same own like know tell get got let give want make please thank thanks yes ok okay "
    "something anything everything nothing someone anyone really actually maybe perhaps out up down off s t d m ll re "
    "ve don doesn didn isn aren wasn weren won wouldn couldn shouldn can haven hasn hadn provide context "
    # French, German, Italian
    "des du et un une est sont je vous il nous dans pour sur avec pas qui ou der die das und ist sind ich sie wir ein "
    "eine zu von mit auf nicht wie wo er di che per con non "
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
    if not word.isascii() or not word.isalpha() or len(word) < LEAST_STEMMED:  # "pedido4711" has no other ending
        return word, word.__eq__
    own = {language: _stem(word, language) for language in STEMMED}
    start = min(own.values(), key=len)
    start = start[:-1] if len(start) > LEAST_STEMMED else start  # a last letter may change: study, studies -> studi
    start = word[: len(start)] if not word.startswith(start) else start

    def same(other: str) -> bool:
        if other == word:
            return True
        return other not in EMPTY and any(_stem(other, name) == stem for name, stem in own.items())

    return start, same


def speaker_words(name: str | None) -> list[str]:
    """The words by which a speaker is found in an index: "Ana Lima" -> ["§nana", "§nlima"]."""
    return [SPEAKER + word for word in words(name[:200], single=False)] if name else []


def idf(n: int, texts: int) -> float:
    """How much a word tells that n of so many texts have: inverse document frequency, never negative (Lucene's form).

    Example: 0 of 52 -> 4.66; 52 of 52 -> 0.01
    """
    return math.log(1 + (texts - n + 0.5) / (n + 0.5))


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
