"""When a summary is due, and which entries it covers.

Whole turns older than what is kept; never the open question, nor the newest calls that wait for their result. Of a turn
that alone is longer than what is kept the older steps are covered, its question stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from novelo.context.draft import Source
from novelo.context.redact import Redact
from novelo.context.spec import Policy, stages_of
from novelo.context.summary import Summarize
from novelo.languages import language_of
from novelo.messages import Message
from novelo.summaries import Summary
from novelo.transcript import NO_RESULT, Entry, Turn, TurnReader

# Steps with calls that wait for a result, which stay word for word through any number of summaries; older ones are past
# hope.
HELD_CALLS = 3


def stage_of(policy: Policy) -> Summarize | None:
    """The stage of a policy that summarizes; None if there is none."""
    return next((stage for stage in stages_of(policy) if isinstance(stage, Summarize)), None)


def masks_of(policy: Policy) -> tuple[Redact, ...]:
    """The stages of a policy that mask: what they mask reaches no summarizer either."""
    return tuple(stage for stage in stages_of(policy) if isinstance(stage, Redact))


# ------------------------------------------------------------------------------------------------ what is covered
@dataclass(frozen=True)
class Plan:
    """The entries that a summary is to cover, oldest first, and what stays of what it stands for.

    `turns` and `running` are the thread's user messages and token sum up to `upto`; `base` is the version to update.
    """

    base: Summary | None
    start: int
    upto: int
    entries: tuple[Entry, ...]
    held: tuple[int, ...]
    turns: int
    running: int

    @property
    def language(self) -> str | None:
        """The conversation's language: of what the user says here, else of all of it, else of the former summary."""
        said = [e.message.text for e in self.entries]
        asked = [e.message.text for e in self.entries if e.message.role == "user"]
        found = language_of("\n".join(asked)) or language_of("\n".join(said))
        return found or (self.base.language if self.base else None)


def plan(
    source: Source,
    stage: Summarize,
    base: Summary | None,
    count: Callable[[Message], int],
    *,
    window: int | None = None,
    force: bool = False,
    upto: int | None = None,
    masks: Sequence[Redact] = (),
    crowded: Callable[[], None] = lambda: None,
) -> Plan | None:
    """What the next summary has to cover; None if none is due, or there is nothing to cover.

    The cost is that of what was said since the base, not of the thread.

    Args:
        source: the thread.
        stage: the trigger, and what to keep.
        base: the summary to update.
        count: message -> tokens.
        window: tokens of the model's window, for triggers in per cent.
        force: whether the trigger is passed over.
        upto: cover the entries below this position, instead of what is kept says (to make a version again).
        masks: what no model may see.
        crowded: called where what is kept reaches the trigger alone, so that no summary can get below it.
    """
    low = base.upto if base is not None else source.begin
    reader = TurnReader()
    seen: list[Entry] = []
    turns = _newer(source, reader, low, seen)
    if not turns:
        return None
    cut = max(low, _cut(turns, stage, count)) if upto is None else upto
    fresh = [e for e in seen if e.position >= (low if base is None else max(low, base.since))]
    if not force and not _due(stage, fresh, cut, base, count, window, crowded):
        return None
    before = frozenset(() if base is None else base.held)
    chunks = [c for c in source.around(sorted(before)) if c[0].position < turns[-1].start]
    older = [turn for turn in map(reader.build, reversed(chunks)) if turn is not None]
    held = _held([*turns, *older], cut) & ({e.position for e in seen} | before)
    earlier = [e for chunk in source.around(sorted(before)) for e in chunk if e.position in before]
    entries = {e.position: e for e in [*earlier, *seen] if e.position < cut and e.position not in held}
    if not entries or (upto is None and base is not None and cut <= base.upto and max(entries) < base.upto):
        return None  # nothing new: what was held before waits for the next cut, however its calls are read this time
    covered = tuple(_masked(entries[p], masks) for p in sorted(entries))
    last = next((e for e in seen if e.position < cut), covered[-1])  # seen: newest first
    return Plan(base, source.begin, cut, covered, tuple(sorted(held)), last.turn, last.running)


def _due(
    stage: Summarize,
    fresh: Sequence[Entry],
    cut: int,
    base: Summary | None,
    count: Callable[[Message], int],
    window: int | None,
    crowded: Callable[[], None],
) -> bool:
    """Whether a summary is due by what was said since the base; what is kept anyway is no reason for one.

    Where the kept part alone reaches the trigger, a summary can never get below it: one is then due when as much waits
    to be covered, else each new message would be worth a call.
    """

    def reached(entries: Sequence[Entry], more: int = 0) -> bool:
        said = sum(e.message.role == "user" for e in entries)
        return stage.due(len(entries), said, more + sum(_tokens(e, count) for e in entries), window)

    if not reached(fresh, base.tokens if base is not None and base.text else 0):
        return False
    if not reached([e for e in fresh if e.position >= cut]):
        return True
    crowded()
    return reached([e for e in fresh if e.position < cut])


def _newer(source: Source, reader: TurnReader, low: int, seen: list[Entry]) -> list[Turn]:
    """Turns that begin or go on behind a position, newest first; their entries from there on are noted in `seen`."""

    def noting() -> Iterator[Entry]:
        for entry in source.newest_first():
            if entry.position >= low:
                seen.append(entry)
            yield entry

    out = []
    for turn in reader.newest_first(noting()):
        if all(entry.position < low for entry in turn.entries):
            break
        out.append(turn)
    return out


def _cut(turns: Sequence[Turn], stage: Summarize, count: Callable[[Message], int]) -> int:
    """Where the kept part begins."""
    room = stage.keep.number
    kept: Turn | None = None
    for turn in turns:
        weight = _weight(turn.entries, stage.keep.unit, count)
        if turn.user is not None and not turn.steps and kept is None:
            kept = turn  # the open question is always kept, and takes no room
            continue
        if weight > room:
            return _inside(turn, stage, count) if kept is None else kept.start
        room -= weight
        kept = turn
    return kept.start if kept is not None else 0


def _inside(turn: Turn, stage: Summarize, count: Callable[[Message], int]) -> int:
    """The same inside of a newest turn that is larger than what is to be kept: its question and newest steps stay."""
    if stage.keep.unit == "turns":
        return turn.start
    room, at = stage.keep.number, len(turn.steps)
    room -= 0 if turn.user is None else _weight([turn.user], stage.keep.unit, count)
    while at > 0:
        room -= _weight(turn.steps[at - 1].entries, stage.keep.unit, count)
        if room < 0 and at < len(turn.steps):
            break
        at -= 1
    return turn.start if at == 0 else turn.steps[at].head.position


def _weight(entries: Iterable[Entry], unit: str, count: Callable[[Message], int]) -> int:
    if unit == "turns":
        return 1
    real = [e for e in entries if not e.made]
    return len(real) if unit == "messages" else sum(_tokens(e, count) for e in real)


def _tokens(entry: Entry, count: Callable[[Message], int]) -> int:
    if entry.tokens < 0:
        entry.tokens = count(entry.message)
    return entry.tokens


def _held(turns: Sequence[Turn], cut: int) -> set[int]:
    """Positions below the cut that stay word for word, of turns given newest first.

    They are the question of a turn that is cut; the newest calls that wait for a result, with their questions; calls
    whose result came so late that it stands in the kept part; and results that stand before their call, which is kept.
    """
    out: set[int] = set()
    left = HELD_CALLS
    for turn in turns:
        question = set() if turn.user is None else {turn.user.position}
        if turn.start < cut and any(step.head.position >= cut for step in turn.steps):
            out |= question
        for step in reversed(turn.steps):
            if step.head.position >= cut:
                out |= {r.position for r in step.results if not r.made}
            elif left and any(_waits(r) or r.position >= cut for r in step.results):
                out |= {e.position for e in step.entries if not e.made} | question
                left -= 1
    return {p for p in out if p < cut}


def _waits(result: Entry) -> bool:
    return result.made and result.message.text == NO_RESULT


def _masked(entry: Entry, masks: Sequence[Redact]) -> Entry:
    message = entry.message
    for mask in masks:
        message = mask.message(message)
    return entry if message is entry.message else entry.altered(message, "masked")
