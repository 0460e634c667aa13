"""What a follow-up question carries over from the conversation, told without a model.

"E se eu tiver pago com Pix?" names no refund; the turns before it do. The question is searched together with them, each
with a weight:

    1      the question
    0.2    the user's question before it, 0.06 the one before that, ...; the first one 0.3, for it names the subject
    0.25   the telling words of the newest reply, half of that for each older one, for three replies
    0.1    the names in those replies, halved likewise

All but the first are times 1.5 where the question has few words and one that points back ("quando ela nasceu?"), and
times 0.7 where it has more and none that does.

A search adds up the scores of all (`retrievers/`): rare words of the former turns weigh more than common ones, as in
the question itself, and vectors are added up with the same weights. How the weights were chosen, and what comes of
them, is in docs/followups.md.

What the user has just read is seldom the answer to what is asked next: `unread_first` puts passages that stand word for
word in an answer of the thread behind the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from novelo._again import chats, says_more
from novelo._questions import leans, names
from novelo.languages import language_of
from novelo.messages import Message
from novelo.passages import says_nothing
from novelo.words import EMPTY, EMPTY_SIGNS, WORD, folded, is_cjk, stems

Query = tuple[str, float]
_HIRAGANA = r"[\u3041-\u309f]+"
_EMPTY = f"[{''.join(sorted(EMPTY_SIGNS))}]+"
P = TypeVar("P", bound="dict[str, Any]")

FIRST = 0.3  # weight of the thread's first question
LAST, FADES = 0.2, 0.3  # of the newest question before this one, and what is left of it a question further back
REPLY, NAMES = 0.25, 0.1  # of the newest reply's words, and of the names in it once more
REPLY_FADES = 0.5  # what is left of both a reply further back
FEW = 3  # telling words of a question
LEANING, NAMING = 1.5, 0.7  # times these weights: few words and one that points back; more words and none that does
OWN_WORDS, BESIDE = 0.3, 0.5  # the user's words beside a rewritten question, and of the weights of former turns
REPLIES, QUESTIONS = 3, 4  # how far back is looked, the first question apart
WORDS = 20  # telling words of a reply
SHOWN = 6  # words that make a follow-up readable
READ = 4000  # characters of a message that are looked at
OVERLAP = 0.9  # of a passage's stems in one answer: it has been read


class Carried(msgspec.Struct, frozen=True):
    """A follow-up question with what it leans on.

    Attributes:
        queries: texts with their weights, the question first with weight 1; all scores are to be added up.
        text: the question and a few words of the former turns, for a search that takes one text.
    """

    queries: tuple[Query, ...]
    text: str


def carried(history: Sequence[Message], question: str) -> Carried:
    """What to search for, so that a follow-up finds what it would find with its subject named.

    Args:
        history: n messages before the question, oldest first; users' and assistants' texts are read. What names no
            subject is to be left out before (`leant_on`).
        question: the user's words.
    """
    few = len(dict.fromkeys(_words(question[:READ]))) <= FEW
    share = LEANING if few and leans(question) else NAMING if not few and not leans(question) else 1.0
    asked = [m.text[:READ] for m in history if m.role == "user" and m.text.strip()][::-1]
    told = [_said(m.text[:READ]) for m in history if m.role == "assistant" and m.text.strip()][: -REPLIES - 1 : -1]
    out = [(question, 1.0)]
    for back, text in enumerate(asked):
        first = back == len(asked) - 1
        weight = LAST * FADES**back if back < QUESTIONS else 0.0
        if first or weight:
            out.append((text, max(weight, FIRST) if first else weight))
    for back, text in enumerate(told):
        out.append((" ".join(telling(text)), REPLY * REPLY_FADES**back))
        out.append((" ".join(names(text)), NAMES * REPLY_FADES**back))
    queries = tuple((text, round(weight * share, 4)) for text, weight in out[1:] if text)
    return Carried((out[0], *queries), _readable(question, asked, told))


def leant_on(history: Sequence[Message]) -> list[Message]:
    """What a follow-up may lean on: no greetings and their answers, no "explique melhor", no "I did not find this".

    Their words would be searched for, and a question behind a greeting is a first one.
    """
    out: list[Message] = []
    talk = False
    for message in history:
        talk = chats(message.text) if message.role == "user" else talk
        again = message.role == "user" and says_more(message.text)
        if not (talk or again or says_nothing(message.text)):
            out.append(message)
    return out


def found_nothing(history: Sequence[Message]) -> bool:
    """Whether the newest answer is that nothing was found, greetings and their answers passed over.

    "por quê?" and "e o segundo?" behind it ask about nothing that was told: passages of older answers are not meant.
    """
    answer, talk = "", False
    for message in history:
        talk = chats(message.text) if message.role == "user" else talk
        if message.role == "assistant" and message.text.strip() and not talk:
            answer = message.text
    return says_nothing(answer)


def rewritten_queries(standalone: str, kept: Carried) -> tuple[Query, ...]:
    """What to search for when a model has rewritten the question: that, and with less weight what would be carried.

    Even where people rewrote it, both together found more than the rewritten question alone.
    """
    (question, _), *former = kept.queries
    own = () if question == standalone else ((question, OWN_WORDS),)
    return ((standalone, 1.0), *own, *((text, round(weight * BESIDE, 4)) for text, weight in former))


def telling(text: str, most: int = WORDS) -> list[str]:
    """The words of a text that tell most about its subject, the best first: said often, names before others.

    Of a run of Chinese, Japanese or Korean signs its parts between empty signs are the words.

    Example: "西湖在唐宋两代经过多次疏浚。" -> ["西湖", "唐宋两代经过", "次疏浚"]
    """
    language = language_of(text)
    named = {stem for name in names(text) for stem in stems(name, language)}
    counts: Counter[str] = Counter()
    surface: dict[str, str] = {}
    for word in _words(text):
        stem = word if is_cjk(word) else next(iter(stems(word, language)), "")
        if stem:
            counts[stem] += 1
            surface.setdefault(stem, word)
    order = sorted(counts, key=lambda stem: -counts[stem] * (2 if stem in named else 1))
    return [surface[stem] for stem in order[:most]]


def unread_first(passages: Iterable[P], history: Sequence[Message], limit: int | None = None) -> list[P]:
    """Passages with those behind the others that stand word for word in an answer of the thread.

    A follow-up wants to know more; what it leans on was read a moment ago and matches its words best. Of those that
    were among the best the first keeps the last place, in case it is asked for once more.

    Args:
        passages: the best first; as many more than `limit` as there may be such ones.
        history: the messages before the question.
        limit: how many to give.
    """
    passages = list(passages)
    told = [set(stems(m.text)) for m in history if m.role == "assistant" and m.text.strip()]
    new: list[P] = []
    read: list[P] = []
    for passage in passages:
        words = set(stems(str(passage.get("text") or "")))
        known = any(len(words & answer) >= OVERLAP * len(words) for answer in told)
        (read if known and words else new).append(passage)
    if limit is None or not any(one is two for one in read for two in passages[:limit]):
        return [*new, *read][:limit]
    return [*new[: max(1, limit - 1)], *read][:limit]


_CITED = re.compile(r"[\[【]\d{1,3}(?:\s*,\s*\d{1,3})*[\]】]")
_QUOTATION = re.compile(r"«([^«»]{2,})»|“([^“”]{2,})”|「([^「」]{2,})」|『([^『』]{2,})』")
MOSTLY = 0.4  # of a reply: so much in one quotation, and it speaks of that and not of the words around it


def _said(reply: str) -> str:
    """What a reply says: its one long quotation, or all of it without the numbers of passages.

    Example: "Nos documentos: «O prazo é de 5 dias úteis.» (Trocas, trocas.md) [1]" -> "O prazo é de 5 dias úteis."
    """
    quoted = max((next(filter(None, found)) for found in _QUOTATION.findall(reply)), key=len, default="")
    return quoted if len(quoted) >= MOSTLY * len(reply) else _CITED.sub(" ", reply)


def _words(text: str) -> Iterator[str]:
    """The words of a text as they are written, without empty ones.

    Of a run of signs the parts between empty signs; in Japanese what is not written in hiragana, as endings and small
    words are.
    """
    japanese = re.search(_HIRAGANA, text) is not None
    for word in WORD.findall(text):
        if is_cjk(word):
            parts = re.split(_HIRAGANA, word) if japanese else re.split(_EMPTY, word)
            yield from filter(None, parts)
        elif folded(word) not in EMPTY and (len(word) > 1 or word.isdigit()):
            yield word


def _readable(question: str, asked: Sequence[str], told: Sequence[str]) -> str:
    """The question, and in brackets what the first question, the last one and the last answer speak of."""
    known = set(stems(question))
    shown: list[str] = []
    for text in dict.fromkeys([*asked[-1:], *asked[:1], *told[:1]]):
        new = [word for word in telling(text) if not known.issuperset(stems(word))][:SHOWN]
        shown += new
        known |= {stem for word in new for stem in stems(word)}
    return f"{question} ({' '.join(shown)})" if shown else question
