"""Bring back older turns that the newest question is about.

What every other stage takes out, this one can bring in again: whole turns, in their order, at most so many, within a
share of the budget. It is no stage of its own among the others: it looks at what all of them together have kept, and
what it finds goes through all of them like a pin. So it may stand anywhere in a policy:

1. the other stages run. What they take out is older than what they keep, or lies between;
2. where all of that is few turns and fits, all of it stays. So a context composed again stays as it is;
3. else they run once more, and budgets leave the share free. The best matches are taken, each a whole turn, or its
   question, the step that matches and the last one where the whole is too long;
4. with these among the anchors they run for the last time: what recall did not use goes to the newest turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from novelo.context.draft import Desk, Draft, Log, Pulled, key, united
from novelo.context.sizes import Size
from novelo.errors import ContextTooSmall, InvalidSpec
from novelo.transcript import Turn

TURNS, SHARE, TOKENS = 6, 50, 2000
MOST_TURNS = 1000
LOOKED_AT = (3, 20)  # turns that are tried: so many times the turns wanted, and so many more

Run = Callable[[Draft], Draft]
Scored = list[tuple[Turn, float]]


@dataclass(frozen=True)
class Recall:
    """Older turns that match the newest question.

    Attributes:
        turns: at most so many.
        share: per cent of the budget that they may take.
        tokens: at most so many tokens; None is 2000 where no budget says how much there is, else no limit.
    """

    turns: int = TURNS
    share: Size = Size(SHARE, "%")
    tokens: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.turns <= MOST_TURNS or (self.tokens is not None and self.tokens < 1):
            raise InvalidSpec(
                f"recall:{self.turns}, tokens={self.tokens}: expected 1 to {MOST_TURNS} turns, and at least 1 token"
            )

    def __str__(self) -> str:
        share = "" if self.share.number == SHARE else f",share={self.share}"
        return f"recall:{self.turns}{share}" + (f",tokens={self.tokens}" if self.tokens is not None else "")

    def __call__(self, draft: Draft) -> Draft:
        """The draft itself: what is recalled joins it before the first stage (see the top of the file)."""
        return draft

    def reserved(self, budget: int) -> int:
        """Tokens of a budget that recalled turns may take."""
        share = budget * self.share.number // 100
        return share if self.tokens is None else min(share, self.tokens)


def recalled(stage: Recall, draft: Draft, run: Run) -> Draft:
    """The draft through all stages, with the older turns that the newest question is about.

    Args:
        stage: how many, and how much of a budget.
        draft: as it is before the first stage.
        run: the other stages; it is called up to three times, and more often only where stages make what was recalled
            longer than it was.
    Raises:
        ContextTooSmall: the other stages alone do not fit.
    """
    desk = draft.desk
    before = desk.log
    try:
        desk.reserve = stage.reserved
        kept = _tried(draft, run, before)
        if kept.turns is draft.turns or (kept.start == draft.start and isinstance(kept.turns, Pulled)):
            return kept  # nothing was taken out
        found = _all_of(stage, draft, kept)
        if found is None:
            desk.holding = desk.log.room is not None
            tight = _tried(draft, run, before) if desk.holding else kept
            desk.holding = False
            found = _best_of(stage, draft, tight, _room(stage, desk))
        return _with(found, draft, run, before)
    finally:
        desk.reserve, desk.holding = None, False


def _tried(draft: Draft, run: Run, before: Log) -> Draft:
    draft.desk.log = Log(list(before.cuts), dict(before.singles), summary=before.summary)
    return run(draft)


def _room(stage: Recall, desk: Desk) -> int:
    return desk.log.room if desk.log.room is not None else stage.tokens or TOKENS


def _with(found: Scored, draft: Draft, run: Run, before: Log) -> Draft:
    """The draft through the stages with what was found; less of it, if a stage made it longer than it was."""
    while True:
        try:
            made = _tried(draft.anchored([turn for turn, _ in found]), run, before)
            break
        except ContextTooSmall:
            if not found:
                raise
            found = found[: len(found) // 2]
    window = {key(turn) for turn in made.turns}
    draft.desk.log.recalled = sorted((turn.start, score) for turn, score in found if key(turn) not in window)
    return made


def _all_of(stage: Recall, draft: Draft, kept: Draft) -> Scored | None:
    """All that was taken out, if it is no more than may come back; None if there is something to choose."""
    desk = draft.desk
    held = {key(turn) for turn in kept.turns}
    anchors = {key(turn): turn for turn in kept.anchors}
    out = (turn for turn in draft.turns if key(turn) not in held and not _within(turn, anchors.get(key(turn))))
    few = list(islice(out, stage.turns + 1))
    room = _room(stage, desk)
    if len(few) > stage.turns or sum(_cost(desk, turn, anchors.get(key(turn))) for turn in few) > room:
        return None
    scores = dict(_scores(draft, kept, 20 * len(few) + 50)) if few else {}
    return [(turn, max((scores.get(e.position, 0.0) for e in turn.entries), default=0.0)) for turn in few]


def _best_of(stage: Recall, draft: Draft, kept: Draft, room: int) -> Scored:
    """The turns that match best, as many as may come back and fit; the best first."""
    desk, out, seen = draft.desk, list[tuple[Turn, float]](), list[tuple[int, int]]()
    held = {key(turn) for turn in kept.turns}
    anchors = {key(turn): turn for turn in kept.anchors}
    tries = LOOKED_AT[0] * stage.turns + LOOKED_AT[1]
    for position, score in _scores(draft, kept, 10 * tries):
        if len(out) == stage.turns or len(seen) == tries or room <= 0:
            break
        if any(start <= position <= stop for start, stop in seen):
            continue
        turn = desk.whole_turn(position)
        if turn is None:
            continue
        places = [entry.position for entry in turn.entries]
        seen.append((min(places), max(places)))
        anchor = anchors.get(key(turn))
        if key(turn) in held or _within(turn, anchor):
            continue
        for part in (turn, _around(turn, position)):
            cost = _cost(desk, part, anchor)
            if cost <= room:
                room -= cost
                out.append((part, score))
                break
    return out


def _scores(draft: Draft, kept: Draft, limit: int) -> list[tuple[int, float]]:
    """Messages that the newest question is about, among those that the stages may have taken out."""
    newest = next((turn.user for turn in draft.turns if turn.user is not None), None)
    if newest is None:
        return []
    wordings = dict.fromkeys(text for text in (draft.desk.question, newest.message.text) if text.strip())
    below = kept.start if kept.start > draft.start else newest.position
    found = draft.desk.source.matches(list(wordings), newest.position, min(below, newest.position), limit)
    return [(match.position, match.score) for match in found]


def _within(turn: Turn, anchor: Turn | None) -> bool:
    return anchor is not None and len(anchor.steps) >= len(turn.steps)


def _around(turn: Turn, position: int) -> Turn:
    """The question of a turn, the step in which a position stands, and the last step: what was said in the end."""
    last = len(turn.steps) - 1
    steps = (s for i, s in enumerate(turn.steps) if i == last or any(e.position == position for e in s.entries))
    return Turn(turn.user, tuple(steps))


def _cost(desk: Desk, turn: Turn, anchor: Turn | None) -> int:
    if anchor is None:
        return desk.cost(turn, newest=False)
    return desk.cost(united(anchor, turn), newest=False) - desk.cost(anchor, newest=False)
