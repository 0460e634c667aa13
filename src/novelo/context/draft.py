"""The draft of a context: what a policy takes and gives.

    opening   the system message(s), and later a summary
    anchors   turns (or parts of them) kept out of sequence: pins, the first exchange, recalled turns; oldest first
    turns     the others, newest first, pulled from the source only as far as a policy asks

A draft is a value: policies return new ones. What all drafts of one composition share stands at the `Desk`: the source,
the dialect, the counter, the pins, and the log of what was left out and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from novelo.messages import Message
from novelo.recalling import Match
from novelo.summaries import Summary
from novelo.transcript import Entry, Step, Turn, TurnReader
from novelo.wire import Wire


class Source(Protocol):
    """Where entries come from: a plain list, or a thread in a store.

    `begin` is the first position behind the opening, `end` the position behind the last entry; positions of hidden
    entries are counted but never yielded.
    """

    begin: int
    end: int

    def newest_first(self) -> Iterator[Entry]:
        """Entries from the newest down to `begin`, read as they are pulled."""
        ...

    def oldest_first(self) -> Iterator[Entry]:
        """Entries from `begin` up, read as they are pulled."""
        ...

    def around(self, positions: Sequence[int]) -> list[list[Entry]]:
        """For each position the entries of its turn, oldest first; positions that are gone are passed over."""
        ...

    def matches(self, questions: Sequence[str], asked: int, below: int, limit: int) -> list[Match]:
        """Older messages that a question is about, the best first, at most `limit`; hidden ones are not among them.

        Args:
            questions: the question in one or more wordings.
            asked: its position: it and what follows is not looked at.
            below: only messages below this position are given.
        """
        ...

    @property
    def turn_count(self) -> int:
        """User messages in the thread, hidden ones too."""
        ...

    @property
    def message_count(self) -> int:
        """Messages behind the opening, hidden ones too."""
        ...

    def messages_before(self, entry: Entry) -> int:
        """Messages between the opening and this entry, hidden ones too."""
        ...

    @property
    def tokens_total(self) -> int:
        """Tokens of all entries behind the opening, hidden ones too; stored sums, never rewritten."""
        ...

    def tokens_before(self, entry: Entry) -> int:
        """Tokens of the entries between the opening and this entry, hidden ones too."""
        ...


@dataclass
class Log:
    """What was left out (half-open ranges of positions with the rule) and what was altered, while policies work.

    `room` are the tokens that the budgets have left for recalled turns; None where no budget said anything. `recalled`
    names the turns that came back, by the position of their first entry, with their scores.
    """

    cuts: list[tuple[int, int, str]] = field(default_factory=list)
    singles: dict[int, str] = field(default_factory=dict)
    budget: int | None = None
    summary: int = 0
    room: int | None = None
    recalled: list[tuple[int, float]] = field(default_factory=list)

    def cut(self, start: int, stop: int, why: str) -> None:
        """Note that everything in a range is out, unless an anchor keeps it."""
        if start < stop:
            self.cuts.append((start, stop, why))

    def rule(self, position: int) -> str | None:
        """The rule that took a position out; None if there is none."""
        return self.singles.get(position) or next((w for a, b, w in self.cuts if a <= position < b), None)


@dataclass
class Desk:
    """What all drafts of one composition share.

    Attributes:
        source: where entries come from.
        wire: how turns are written in the provider's dialect.
        count: message -> tokens; called once an entry.
        fixed_tokens: tokens of tools and passages, which no policy can drop.
        correction: tokens to add to the count of a whole context, learnt from reported usage.
        window: tokens of the model's whole window, if known.
        reader: reads entries into turns, and remembers late results.
        pinned: positions that must stay.
        summary: the thread's summary, for the stage that uses it.
        question: the newest question in other words, where such were made.
        reserve: tokens of a budget -> those that recalled turns may take; None where none are wanted.
        holding: whether budgets leave these free, and fill only the rest with the newest turns.
    """

    source: Source
    wire: Wire
    count: Callable[[Message], int]
    reader: TurnReader
    fixed_tokens: int = 0
    correction: int = 0
    window: int | None = None
    pinned: frozenset[int] = frozenset()
    summary: Summary | None = None
    log: Log = field(default_factory=Log)
    question: str = ""
    reserve: Callable[[int], int] | None = None
    holding: bool = False

    def tokens(self, entry: Entry) -> int:
        """Tokens of an entry, counted once."""
        if entry.tokens < 0:
            entry.tokens = self.count(entry.message)
        return entry.tokens

    def cost(self, turn: Turn, newest: bool) -> int:
        """Tokens of a turn as it will be sent; what a dialect adds (made answers, openings) is counted too."""
        return sum(self.tokens(entry) for entry in self.wire.turn(turn, newest, first=True))

    def step_cost(self, step: Step) -> int:
        """Tokens of a step as it will be sent."""
        return sum(self.tokens(entry) for entry in self.wire.step(step))

    def turns_at(self, positions: Sequence[int]) -> list[Turn]:
        """Turns reduced to their question and the steps in which the positions stand."""
        wanted, out = frozenset(positions), []
        reader = TurnReader(written_results=self.reader.written)
        reader.late = dict(self.reader.late)  # results that stand in newer turns, as far as these were read
        for chunk in reversed(self.source.around(sorted(wanted)) if wanted else ()):
            end = chunk[-1].position
            reader.late = {name: [r for r in found if r.position > end] for name, found in reader.late.items()}
            turn = reader.build(list(chunk))
            if turn is not None:
                steps = tuple(s for s in turn.steps if any(e.position in wanted for e in s.entries))
                if steps or (turn.user is not None and turn.user.position in wanted):
                    out.append(Turn(turn.user, steps))
        return out[::-1]

    def whole_turn(self, position: int) -> Turn | None:
        """The turn in which a position stands, as far as it is to be seen; None where it is hidden or gone."""
        found = self.source.around([position])
        reader = TurnReader(written_results=self.reader.written)
        reader.late = {
            name: [r for r in late if found and r.position > found[0][-1].position]
            for name, late in self.reader.late.items()
        }
        return reader.build(list(found[0])) if found else None

    def first_turns(self, number: int) -> list[Turn]:
        """The first turns with a question, oldest first; what stands before the first question is passed over."""
        out: list[Turn] = []
        for turn in TurnReader(written_results=self.reader.written).oldest_first(self.source.oldest_first()):
            if turn.user is not None and not turn.user.made:
                out.append(turn)
            if len(out) == number:
                break
        return out


class Pulled:
    """An iterator that can be gone through again: what was pulled is kept."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._rest = iter(turns)
        self._got: list[Turn] = []

    def __iter__(self) -> Iterator[Turn]:
        at = 0
        while True:
            if at == len(self._got):
                turn = next(self._rest, None)
                if turn is None:
                    return
                self._got.append(turn)
            yield self._got[at]
            at += 1


@dataclass(frozen=True)
class Draft:
    """A context while it is worked on; see the top of the file."""

    opening: tuple[Entry, ...]
    turns: Iterable[Turn]
    desk: Desk
    start: int
    anchors: tuple[Turn, ...] = ()

    def newest(self, turns: Sequence[Turn], why: str) -> Draft:
        """Keep these turns, given newest first, and nothing older but the anchors.

        The oldest of them may lack its first steps; what lies between is noted as left out.
        """
        log = self.desk.log
        if not turns:
            log.cut(self.start, self.desk.source.end, why)
            return replace(self, turns=(), start=self.desk.source.end)
        oldest = turns[-1]
        log.cut(self.start, oldest.start, why)
        if len(turns) == 1 and oldest.user is not None and oldest.steps:
            log.cut(oldest.start + 1, oldest.steps[0].head.position, why)
        return replace(self, turns=tuple(turns), start=oldest.start)

    def mapped(self, change: Callable[[Turn], Turn], old: Callable[[Turn], Turn] | None = None) -> Draft:
        """Every turn changed, newest first, as they are pulled; anchors by `old`, being older than what is kept."""
        old = old or change
        return replace(self, turns=Pulled(map(change, self.turns)), anchors=tuple(old(turn) for turn in self.anchors))

    def anchored(self, turns: Sequence[Turn]) -> Draft:
        """With more turns kept out of sequence; one that is there already gains the steps it lacks."""
        merged: dict[int, Turn] = {key(t): t for t in self.anchors}
        for turn in turns:
            merged[key(turn)] = united(merged[key(turn)], turn) if key(turn) in merged else turn
        return replace(self, anchors=tuple(merged[k] for k in sorted(merged)))

    def messages(self) -> list[Message]:
        """All messages of the draft in order, for policies that work on a plain list."""
        return [e.message for e in self.opening] + [e.message for t in self.in_order() for e in t.entries]

    def in_order(self) -> list[Turn]:
        """Anchors and turns, oldest first; a turn that is both appears once with the steps of both."""
        turns = list(self.turns)
        turns.reverse()
        if not self.anchors:
            return turns
        merged: dict[int, Turn] = {key(t): t for t in self.anchors}
        for turn in turns:
            merged[key(turn)] = united(merged[key(turn)], turn) if key(turn) in merged else turn
        return [merged[k] for k in sorted(merged)]


def key(turn: Turn) -> int:
    """What names a turn however much of it there is: its question's position, -1 for what stands before the first."""
    return -1 if turn.user is None else turn.user.position


def united(a: Turn, b: Turn) -> Turn:
    """One turn with the steps of both; where both have a step, b's."""
    steps = {s.head.position: s for s in a.steps} | {s.head.position: s for s in b.steps}
    return Turn(b.user if b.user is not None else a.user, tuple(steps[k] for k in sorted(steps)))
