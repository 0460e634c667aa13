"""Keep what fits a number of tokens.

All that the model reads is counted: system message, tools, passages, anchors, and the turns. Older turns are kept
whole; the newest is cut to its question and its newest steps where it alone is too long. What cannot be cut any further
and still does not fit is an error that says by how much: an unreadable request is never sent in silence.

With a low mark the cut is deep and then holds still. With R the tokens of all entries and step = high - low,
dropped = ceil((R - high) / step) * step where R > high, and the context begins at the first turn before which at least
that much was said. The grid needs no stored state: it follows from sums that never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from novelo.context.draft import Draft, key, united
from novelo.context.sizes import Size
from novelo.context.window import cut_turn, on_grid
from novelo.errors import ContextTooSmall, InvalidSpec
from novelo.transcript import Turn


@dataclass(frozen=True)
class Budget:
    """The newest turns that fit `high` tokens; with `low`, cut down towards it and hold.

    Attributes:
        high: tokens, or per cent of the model's window.
        low: the low mark, in the same unit; None cuts as little as it must.
        reserve: tokens kept free for the reply, taken off `high`.
        window: the model's window in tokens, for per cents; else the composition must know it.
    """

    high: Size
    low: Size | None = None
    reserve: int = 0
    window: int | None = None

    def __post_init__(self) -> None:
        if self.low is not None and (self.low.unit != self.high.unit or not 0 < self.low.number < self.high.number):
            raise InvalidSpec(f"budget low mark {self.low}: expected less than {self.high}, in the same unit")
        if self.reserve < 0 or (self.high.unit == "tokens" and self.reserve >= self.high.number):
            raise InvalidSpec(f"budget reserve {self.reserve}: expected 0 to less than {self.high}")

    def __str__(self) -> str:
        more = f",low={self.low.number}{'%' if self.low.unit == '%' else ''}" if self.low is not None else ""
        more += f",reserve={self.reserve}" if self.reserve else ""
        more += f",window={self.window}" if self.window else ""
        return f"budget:{self.high.number}{'%' if self.high.unit == '%' else ''}{more}"

    def __call__(self, draft: Draft) -> Draft:
        """The newest turns of the draft that fit; see the class.

        Raises:
            ContextTooSmall: system message, anchors, the newest question and the newest step are larger than the
                budget.
        """
        desk = draft.desk
        high = self._tokens(self.high, desk.window) - self.reserve
        desk.log.budget = high
        draft = self._with_room(draft, high)
        fixed = desk.fixed_tokens + desk.correction + sum(map(desk.tokens, draft.opening))
        fixed += sum(desk.cost(turn, newest=False) for turn in draft.anchors)
        reserved = max(0, min(high - fixed, desk.reserve(high))) if desk.reserve is not None else 0
        held = reserved if desk.holding else 0
        kept: list[Turn] = []
        total = fixed
        for turn in draft.turns:
            cost = self._cost(draft, turn, newest=not kept)
            if total + cost > (high - held if kept else high):
                if kept and self.low is None:
                    kept += self._filled(draft, turn, high - held - total)
                break
            kept.append(turn)
            total += cost
        else:
            if total > high:
                raise _too_small(total, high)
            self._leave(draft, reserved, high - total)
            return draft
        if self.low is not None:
            kept = self._down_to_grid(draft, kept, fixed, high)
        if not kept:
            kept = [self._newest_cut(draft, turn, fixed, high)]
        self._leave(
            draft, reserved, high - fixed - sum(self._cost(draft, t, newest=i == 0) for i, t in enumerate(kept))
        )
        return draft.newest(kept, str(self))

    def _leave(self, draft: Draft, reserved: int, left: int) -> None:
        """Note what recalled turns may take; where several budgets stand in line, the least of them."""
        log = draft.desk.log
        if draft.desk.reserve is not None:
            log.room = max(0, min(reserved, left, reserved if log.room is None else log.room))

    def _cost(self, draft: Draft, turn: Turn, newest: bool) -> int:
        """Tokens of a turn, without what an anchor of the same turn has brought in."""
        anchor = next((a for a in draft.anchors if key(a) == key(turn)), None)
        if anchor is None:
            return draft.desk.cost(turn, newest)
        return draft.desk.cost(united(anchor, turn), newest) - draft.desk.cost(anchor, newest=False)

    def _filled(self, draft: Draft, turn: Turn, room: int) -> list[Turn]:
        """What still fits of the first turn that does not: its question and its newest steps, or nothing.

        An older turn of an agent is mostly tool results; its question and its answer often fit where it does not.
        """
        desk = draft.desk
        if turn.user is None or len(turn.steps) < 2 or any(key(turn) == key(a) for a in draft.anchors):
            return []
        for first in range(1, len(turn.steps)):
            part = Turn(turn.user, turn.steps[first:])
            if desk.cost(part, newest=False) <= room:
                desk.log.cut(turn.user.position + 1, part.steps[0].head.position, str(self))
                return [part]
        return []

    def high_tokens(self, window: int | None) -> int | None:
        """The high mark in tokens; None where it is in per cent of a window that is not known."""
        if self.high.unit == "%" and not (self.window or window):
            return None
        return self._tokens(self.high, window) - self.reserve

    def _with_room(self, draft: Draft, high: int) -> Draft:
        """The draft, without its summary where that leaves no room for the newest question and step."""
        told = [e for e in draft.opening if e.made]
        newest = next(iter(draft.turns), None) if told else None
        if newest is None:
            return draft
        desk = draft.desk
        least = desk.cost(Turn(newest.user, newest.steps[-1:]), newest=True)
        least += sum(desk.cost(turn, newest=False) for turn in draft.anchors)
        if desk.fixed_tokens + desk.correction + sum(map(desk.tokens, draft.opening)) + least <= high:
            return draft
        desk.log.summary = 0
        return replace(draft, opening=tuple(e for e in draft.opening if not e.made))

    def _tokens(self, size: Size, window: int | None) -> int:
        if size.unit == "tokens":
            return size.number
        window = self.window or window
        if not window:
            raise InvalidSpec(f"{self}: the model's window is not known; give it as window=128000")
        return window * size.number // 100

    def _dropped(self, draft: Draft, fixed: int, high: int) -> int:
        step = high + self.reserve - self._tokens(self.low, draft.desk.window) if self.low else 0
        return on_grid(draft.desk.source.tokens_total + fixed, high, step)

    def _down_to_grid(self, draft: Draft, kept: Sequence[Turn], fixed: int, high: int) -> list[Turn]:
        dropped, source = self._dropped(draft, fixed, high), draft.desk.source
        return [turn for turn in kept if source.tokens_before(turn.entries[0]) >= dropped]

    def _newest_cut(self, draft: Draft, turn: Turn, fixed: int, high: int) -> Turn:
        desk = draft.desk
        newest = next(iter(draft.turns))
        if newest is not turn or not turn.steps:
            turn = newest
        least = self._cost(draft, Turn(turn.user, turn.steps[-1:]), newest=True)
        room = high - fixed - (least - sum(map(desk.step_cost, turn.steps[-1:])))  # without the question, or a made one
        if fixed + least > high:
            raise _too_small(fixed + least, high)
        if self.low is not None:
            dropped = self._dropped(draft, fixed, high)
            deep = tuple(s for s in turn.steps if desk.source.tokens_before(s.head) >= dropped) or turn.steps[-1:]
            turn = Turn(turn.user, deep)
        return cut_turn(turn, room, desk.step_cost)


def _too_small(needed: int, budget: int) -> ContextTooSmall:
    return ContextTooSmall(
        f"the least valid context has {needed} tokens, the budget is {budget}: raise the budget by {needed - budget}, "
        "shorten the system message or the newest message, or clear tool results (clear_tools)",
        needed=needed,
        budget=budget,
    )
