"""Keep the newest turns or messages.

The question counts as one of them. Turns are kept whole; only the newest turn, when it alone is too long for a window
of messages, is cut: its question and its newest steps stay. With slack the cut moves on a grid, so that it holds still
for some turns and the provider's prompt cache stays warm: after T turns, ceil((T - turns) / slack) * slack are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from novelo.context.draft import Draft
from novelo.context.sizes import Size
from novelo.errors import InvalidSpec
from novelo.transcript import Step, Turn


@dataclass(frozen=True)
class Window:
    """The newest `size` turns or messages, the system message not counted.

    Example: turns of 2, 4 and 2 messages and a new question under 5 messages -> the last turn and the question (3),
    since the turn before it (4) does not fit whole.
    """

    size: Size
    slack: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.slack <= self.size.number:
            raise InvalidSpec(f"window slack {self.slack}: expected 0 to {self.size.number}")

    def __str__(self) -> str:
        return f"window:{self.size}" + (f",slack={self.slack}" if self.slack else "")

    def __call__(self, draft: Draft) -> Draft:
        """The newest turns of the draft; see the class."""
        if self.size.unit == "turns":
            return self._turns(draft)
        return self._messages(draft)

    def _turns(self, draft: Draft) -> Draft:
        limit, dropped = self.size.number, 0
        if self.slack:
            dropped = on_grid(draft.desk.source.turn_count, limit, self.slack)
            limit = max(1, draft.desk.source.turn_count - dropped) if dropped else limit
        kept: list[Turn] = []
        for turn in draft.turns:
            if len(kept) == limit:
                return draft.newest(kept, str(self))
            kept.append(turn)
        return draft.newest(kept, str(self)) if dropped else draft

    def _messages(self, draft: Draft) -> Draft:
        limit, floor = self.size.number, 0
        source = draft.desk.source
        if self.slack:
            floor = on_grid(source.message_count, limit, self.slack)
        kept: list[Turn] = []
        room = limit
        for turn in draft.turns:
            behind = floor and kept and source.messages_before(turn.entries[0]) < floor
            if turn.size > room or behind:
                if not kept:
                    kept = [cut_turn(turn, room - 1, lambda step: step.size)]
                return draft.newest(kept, str(self))
            kept.append(turn)
            room -= turn.size
        return draft


def on_grid(total: int, limit: int, slack: int) -> int:
    """How many of `total` to drop so that at most `limit` stay, in multiples of `slack`.

    Example: limit 10, slack 5: of 10 none, of 11 to 15 five, of 16 to 20 ten.
    """
    return -(-(total - limit) // slack) * slack if total > limit else 0


def cut_turn(turn: Turn, room: int, cost: Callable[[Step], int]) -> Turn:
    """The turn with its newest steps that fit into `room`, at least the last; its question stays."""
    kept: list[Step] = []
    for step in reversed(turn.steps):
        room -= cost(step)
        if kept and room < 0:
            break
        kept.append(step)
    return Turn(turn.user, tuple(reversed(kept)))
