"""Which older messages of a thread a question is about: a ranking by words, and by meaning where vectors are there.

A message of a chat is short, and often the word that was asked for stands in the one before it or behind it. So a
message has its own words once, and those of its neighbours with less weight. With t the weight of a word at a message,
n the messages that have it, of N:

    score = sum over the question's words of   weight * ln(1 + (N - n + 0.5) / (n + 0.5)) * t * (K + 1) / (t + K)

(the BM25 of Robertson and Zaragoza, 2009, without lengths: they tell nothing of messages). A name of somebody who
speaks in the thread counts little as a word, and lifts what that speaker said. Then the words that the best messages
share are looked for, too (pseudo-relevance feedback, after Lavrenko and Croft, SIGIR 2001). Where there are vectors,
both scores are standardised over the thread and added.

The weights were chosen on three of six conversations and tried on the other three: see docs/recall.md. How a thread is
read is the caller's (`Words`): an index in a store, or a list in memory (`WordList`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from math import log, sqrt
from typing import NamedTuple, Protocol

from novelo.messages import Message
from novelo.words import SPEAKER, full_words, kin, speaker_words, words

NEIGHBOURS = (0.4, 0.2, 0.1)  # weight of the words of the message beside, of the one behind that, ...
STEPS = tuple((step, w) for distance, w in enumerate(NEIGHBOURS, 1) for step in (-distance, distance))
SATURATION = 1.2  # K above
NAME_WEIGHT = 0.2  # of a speaker's name as a word
SPEAKER_LIFT = 1.4  # times the score, where a named one speaks
FEEDBACK_MESSAGES, FEEDBACK_WORDS, FEEDBACK_WEIGHT = 10, 20, 0.8  # the words together, against the question's
FEEDBACK_TRIED = 40  # words that are looked up for these
SHORT = 8  # words: what a shorter message says counts as if it had so many
NEAR = 1.0  # deviations above the mean: a message without any of the words is a match from this nearness on
MAX_WORDS = 40  # of a question
MAX_QUESTION, MAX_TEXT, MAX_LISTED = 4000, 4000, 20_000  # characters looked at: for feedback, of a listed message
COMMON = 0.5  # share of the messages: a word that more of them have tells nothing
MOST_PLACES = 4000  # where words may stand together before the commonest are passed over: a thread of many thousands
LISTED = 5000  # newest messages of a plain list, or of a store without an index, that are looked through


Places = list[tuple[float, Sequence[int]]]  # words: what each weighs, and the positions that have it


class Match(NamedTuple):
    """A message that matches: its position, and how well."""

    position: int
    score: float


class Words(Protocol):
    """What the ranking asks of a thread; only messages that contexts may hold are told of.

    Attributes:
        size: how many messages there are, about.
    """

    size: int

    def holding(self, start: str, same: Callable[[str], bool]) -> Sequence[int]:
        """Positions of messages with a word that begins with `start` and passes the test, each once.

        In any order; of more than `MOST_PLACES` only the newest.
        """
        ...

    def texts(self, positions: Sequence[int]) -> list[str]:
        """What the messages at some positions say."""
        ...


def ranked(
    questions: Sequence[str],
    thread: Words,
    near: Mapping[int, float] | None = None,
    *,
    within: range | None = None,
    limit: int = 200,
) -> list[Match]:
    """The messages that some questions are about, the best first.

    Args:
        questions: the question in one or more wordings; a word that stands in several counts once.
        thread: who is asked where words stand.
        near: standardised nearness in meaning, by position; messages without one count as average.
        within: positions that may be found; None is all. The others still tell how rare a word is.
        limit: at most so many.
    """
    asked = dict.fromkeys(w for q in questions for w in full_words(q[:MAX_QUESTION]))
    scores = _by_words(list(asked)[:MAX_WORDS], thread)
    found: Iterable[tuple[float, int]] = ((s, p) for p, s in scores.items() if within is None or p in within)
    if near:
        centre, spread = _moments(scores.values(), max(thread.size, len(scores), 1))
        more = (p for p, z in near.items() if z >= NEAR and p not in scores and (within is None or p in within))
        both = [((s - centre) / spread + near.get(p, 0.0), p) for s, p in found]
        found = both + [(near[p] - centre / spread, p) for p in more]
    return [Match(position, score) for score, position in nlargest(limit, found)]


def _moments(values: Iterable[float], size: int) -> tuple[float, float]:
    """Mean and deviation of some scores among `size`; the others are 0. Without any spread the deviation is 1."""
    listed = list(values)
    mean = sum(listed) / size
    spread = sqrt(max(0.0, sum(v * v for v in listed) / size - mean * mean))
    return mean, spread if spread > 1e-9 else 1.0


def _by_words(asked: Sequence[str], thread: Words) -> dict[int, float]:
    """Scores of the messages that words speak for, or for which their neighbours do."""
    spoken: set[int] = set()
    places: Places = []
    for word in asked:
        voices = thread.holding(SPEAKER + word, (SPEAKER + word).__eq__)
        spoken.update(voices)
        places.append((NAME_WEIGHT if voices else 1.0, thread.holding(*kin(word))))
    scores = _add({}, _rarest(places, MOST_PLACES), thread.size)
    if not scores:
        return scores
    told = sum(weight for weight, positions in places if positions)
    more = _feedback(_lifted(scores, spoken), set(asked), told, thread)
    return _lifted(_add(scores, _rarest(more, MOST_PLACES // 2), thread.size), spoken)


def _rarest(places: Places, most: int) -> Places:
    """The words that tell most: as many of the rarest as stand at so many places in all, at least one."""
    out: Places = []
    for weight, positions in sorted(places, key=lambda place: len(place[1])):
        most -= len(positions)
        if out and most < 0:
            break
        out.append((weight, positions))
    return out


def _lifted(scores: dict[int, float], spoken: Iterable[int]) -> dict[int, float]:
    """The scores, higher where a named speaker speaks."""
    out = dict(scores)
    for position in spoken:
        if position in out:
            out[position] *= SPEAKER_LIFT
    return out


def _add(out: dict[int, float], places: Places, size: int) -> dict[int, float]:
    """The sum at the top of the file, added to what is there: weights, and the positions that have the word."""
    for weight, positions in places:
        if not positions:
            continue
        at: dict[int, float] = dict.fromkeys(positions, 1.0)
        if len(positions) <= COMMON * size or size < 2 * len(NEIGHBOURS):
            had = at.get
            for step, share in STEPS:
                for position in positions:
                    place = position + step
                    at[place] = had(place, 0.0) + share
        rare = log(1 + (max(size, len(positions)) - len(positions) + 0.5) / (len(positions) + 0.5))
        factor = weight * rare * (SATURATION + 1)
        so_far = out.get
        for position, t in at.items():
            out[position] = so_far(position, 0.0) + factor * t / (t + SATURATION)
    return out


def _feedback(scores: Mapping[int, float], asked: set[str], weight_of_question: float, thread: Words) -> Places:
    """Words that the best messages share beyond the question's, with their weights and where they stand."""
    best = [p for _, p in nlargest(FEEDBACK_MESSAGES, ((s, p) for p, s in scores.items()))]
    total = sum(scores[p] for p in best)
    tests = [kin(word) for word in asked]
    weights: Counter[str] = Counter()
    for position, text in zip(best, thread.texts(best), strict=True):
        told = full_words(text[:MAX_TEXT])
        for word in told:
            weights[word] += scores[position] / total / max(SHORT, len(told))  # type: ignore[assignment]
    tried: Places = []
    known: list[Callable[[str], bool]] = [same for _, same in tests]
    for word, weight in weights.most_common():
        if any(same(word) for same in known):
            continue
        start, same = kin(word)
        known.append(same)
        positions = thread.holding(start, same)
        if positions:
            tried.append((weight * log(1 + thread.size / len(positions)), positions))
        if len(tried) == FEEDBACK_TRIED:
            break
    tried = sorted(tried, key=lambda found: -found[0])[:FEEDBACK_WORDS]
    scale = FEEDBACK_WEIGHT * weight_of_question / sum(weight for weight, _ in tried) if tried else 0.0
    return [(scale * weight, positions) for weight, positions in tried]


class WordList:
    """A list of messages in memory, as the ranking asks for it; more can be put behind."""

    def __init__(self) -> None:
        self.size = 0
        self._texts: dict[int, str] = {}
        self._places: dict[str, list[int]] = {}
        self._sorted: list[str] | None = []

    def put(self, position: int, message: Message) -> None:
        """One more message."""
        self.size += 1
        self._texts[position] = text = message.text[:MAX_LISTED]
        for word in {*words(text), *(speaker_words(message.name) if text else ())}:
            if word not in self._places:
                self._places[word] = []
                self._sorted = None
            self._places[word].append(position)

    def holding(self, start: str, same: Callable[[str], bool]) -> Sequence[int]:
        """Positions of messages that hold a word; see `Words`."""
        if self._sorted is None:
            self._sorted = sorted(self._places)
        found: set[int] = set()
        at = bisect_left(self._sorted, start)
        while at < len(self._sorted) and self._sorted[at].startswith(start):
            if same(self._sorted[at]):
                found.update(self._places[self._sorted[at]])
            at += 1
        return sorted(found, reverse=True)[:MOST_PLACES]

    def texts(self, positions: Sequence[int]) -> list[str]:
        """What the messages at some positions say."""
        return [self._texts.get(p, "") for p in positions]
