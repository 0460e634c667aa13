"""Old tool results become a short fixed placeholder: they are long, and what mattered in them is in the answers."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from novelo.context.draft import Draft
from novelo.errors import InvalidSpec
from novelo.transcript import Entry, Step, Turn

CLEARED = "[old tool result removed]"


@dataclass(frozen=True)
class ClearTools:
    """Tool results older than the newest `keep` are replaced by a placeholder; the calls stay, so nothing is orphaned.

    Attributes:
        keep: how many of the newest results stay as they are.
        exclude: names of tools whose results always stay.
    """

    keep: int = 3
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.keep < 0:
            raise InvalidSpec(f"clear_tools keep={self.keep}: expected 0 or more")

    def __str__(self) -> str:
        return f"clear_tools:keep={self.keep}" + "".join(f",exclude={name}" for name in self.exclude)

    def __call__(self, draft: Draft) -> Draft:
        """The draft with old results cleared, as turns are pulled."""
        return draft.mapped(_Clearing(self, draft.desk.pinned, self.keep), _Clearing(self, draft.desk.pinned, 0))


class _Clearing:
    """Counts results newest first while turns are pulled."""

    def __init__(self, policy: ClearTools, pinned: frozenset[int], keep: int) -> None:
        self.policy, self.pinned, self.left = policy, pinned, keep

    def __call__(self, turn: Turn) -> Turn:
        if not any(step.results for step in turn.steps):
            return turn
        return Turn(turn.user, tuple(reversed([self._step(step) for step in reversed(turn.steps)])))

    def _step(self, step: Step) -> Step:
        if not step.results:
            return step
        names = {call.id: call.name for call in step.head.message.tool_calls}
        results = [self._result(r, names.get(r.message.tool_call_id or "", "")) for r in reversed(step.results)]
        return Step(step.head, tuple(reversed(results)))

    def _result(self, entry: Entry, name: str) -> Entry:
        if name in self.policy.exclude or entry.position in self.pinned:
            return entry
        self.left -= 1
        if self.left >= 0 or entry.made or entry.message.content == CLEARED:
            return entry
        return entry.altered(msgspec.structs.replace(entry.message, content=CLEARED), str(self.policy))
