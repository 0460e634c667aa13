"""What the offline model quotes of passages: the one that fits best, and of it the sentence that tells most.

A search has ranked them, by more than the words of the question; the ranking counts where the passages bring a score.
Where a follow-up was searched with what it leans on, those words count too, though less than the user's own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from novelo._again import nth, says_more
from novelo.errors import InvalidSpec
from novelo.models import _words as words
from novelo.passages import Passage, passage_of, passages_text, place_of, source_of

_SOFT = re.compile(r"(?<=\S)[ \t]*\n(?![\s\-*+•|#>\d])[ \t]*")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”»)]*\s+|(?<=[。！？])|\n+")
READ = 20_000  # characters of one passage that are searched
LEAST = 0.2  # of the question's weight that a passage without a score must share
LEANS = 0.3  # how much a word counts that the question leans on
RANKED = 1.0  # how much the score counts, as a part of the best one's, in the same unit
WHOLE = 600  # characters of a passage that is quoted as a whole


class Quote(NamedTuple):
    """What is quoted, where it stands, the passage's number from 1, and the share of the question's weight in it."""

    text: str
    place: str
    number: int
    share: float


def without_block(content: str, passages: Sequence[Any]) -> str:
    """What the user said, of a message that has the passages quoted before it."""
    block = passages_text([found for found in map(_read, passages) if found])
    return content[len(block) :].lstrip("\n") if block and content.startswith(block) else content


def quoted(asked: str, leans_on: str, passages: Sequence[Any]) -> Quote | None:
    """The sentence that answers best; None if no passage fits.

    Args:
        asked: the user's own words.
        leans_on: the question as it was rewritten, or what it leans on; "" for nothing.
        passages: the best first where they bring scores.
    """
    found = [(number, passage) for number, passage in enumerate(map(_read, passages), 1) if passage]
    more = says_more(asked)
    own = set() if more else set(words.terms(asked))
    leaning = set(words.terms(leans_on)) - own
    texts = [_sentences(passage["text"]) for _, passage in found]
    weights = _weights(own | leaning, [set(words.terms(s)) for sentences in texts for s in sentences])

    whole = sum(weights[t] for t in sorted(own)) or sum(weights[t] for t in sorted(leaning)) or 1.0

    def shares(terms: set[str]) -> tuple[float, float]:
        """The parts of the question's weight that some terms have: of the user's own, and of what they lean on."""
        mine, others = (sum(weights[t] for t in sorted(found & terms)) / whole for found in (own, leaning))
        return mine, others

    wanted = nth(asked) if more else None
    if wanted and abs(wanted) <= len(found):
        number, passage = found[wanted - 1 if wanted > 0 else wanted]
        return Quote(_cut(passage), _place(passage), number, 1.0)
    scores = [max(0.0, float(passage.get("score") or 0.0)) for _, passage in found]
    best: Quote | None = None
    most = 0.0
    for at, ((number, passage), sentences) in enumerate(zip(found, texts, strict=True)):
        head = set(words.terms(f"{passage.get('title', '')} {passage.get('section', '')} {passage.get('source', '')}"))
        mine, others = shares(head | {t for s in sentences for t in words.terms(s)})
        held, ranked = mine + LEANS * others, RANKED * scores[at] / max(*scores, 1e-9)
        if (not ranked and held < LEAST) or not sentences or held + ranked <= most:
            continue
        most = held + ranked
        text = _cut(passage) if more else max(sentences, key=lambda s: shares(set(words.terms(s))))
        best = Quote(text, _place(passage), number, held)
    return best


def _weights(wanted: set[str], sentences: Sequence[set[str]]) -> dict[str, float]:
    """How rare each term is among the sentences: log(1 + n / (1 + k)) where k of n have it."""
    held = Counter(term for terms in sentences for term in terms & wanted)
    return {term: math.log(1 + len(sentences) / (1 + held[term])) for term in wanted}


def _place(passage: Passage) -> str:
    """Title, section, source and page, for brackets."""
    source = source_of(passage)
    named = place_of({**passage, "source": ""})
    return ", ".join(dict.fromkeys(part for part in (named, source) if part))


def _read(passage: Any) -> Passage | None:
    try:
        return passage_of(passage)
    except InvalidSpec:
        return None


def _joined(text: str) -> str:
    """A text whose lines were broken to fit a page, without those breaks."""
    return _SOFT.sub(lambda broken: "" if re.match(f"[{words.UNSPACED}]", text[broken.end() :][:1]) else " ", text)


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.split(_joined(text[:READ])) if sentence.strip()]


def _cut(passage: Passage) -> str:
    text = " ".join(_joined(passage["text"][:READ]).split())
    return text if len(text) <= WHOLE else text[:WHOLE].rsplit(" ", 1)[0] + "…"
