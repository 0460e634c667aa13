"""Keep the ends, or all but the oldest: the cuts that the tutorials teach, made on whole steps."""

from __future__ import annotations

from dataclasses import dataclass

from novelo.context.draft import Draft
from novelo.context.sizes import Size
from novelo.context.window import Window
from novelo.errors import InvalidSpec
from novelo.transcript import Turn


@dataclass(frozen=True)
class Ends:
    """The first exchanges (`first` turns) and the newest part (`last` messages or turns)."""

    first: int = 1
    last: Size = Size(3, "messages")

    def __post_init__(self) -> None:
        if self.first < 0:
            raise InvalidSpec(f"ends first={self.first}: expected 0 or more turns")

    def __str__(self) -> str:
        return f"ends:first={self.first},last={self.last.number if self.last.unit == 'messages' else self.last}"

    def __call__(self, draft: Draft) -> Draft:
        """The first exchanges join the anchors, then a window keeps the newest part."""
        kept = Window(self.last)(draft)
        if kept is draft:
            return draft
        newest = next(iter(kept.turns), None)
        first = [turn for turn in draft.desk.first_turns(self.first) if newest is None or turn.start != newest.start]
        return kept.anchored([turn for turn in first if turn.start < kept.start])


@dataclass(frozen=True)
class DropOldest:
    """All but the oldest `number` messages, rounded up to whole turns; of the newest turn only steps go."""

    number: Size

    def __str__(self) -> str:
        return f"drop_oldest:{self.number}"

    def __call__(self, draft: Draft) -> Draft:
        """The draft without its oldest turns. Reads the whole draft: the oldest end is not known before."""
        turns = list(draft.turns)
        left = self.number.number
        by_turn = self.number.unit == "turns"
        while len(turns) > 1 and left > 0:
            left -= 1 if by_turn else turns.pop().size
            if by_turn:
                turns.pop()
        if turns and left > 0 and not by_turn:
            steps = list(turns[0].steps)
            while len(steps) > 1 and left > 0:
                left -= steps.pop(0).size
            turns = [Turn(turns[0].user, tuple(steps))]
        return draft.newest(turns, str(self)) if turns else draft
