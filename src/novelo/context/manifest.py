"""What one call was given, and why the rest was not: small, so that every call can leave one behind."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec

from novelo.context.draft import Log
from novelo.passages import place_of
from novelo.quiet import Quiet

SHOWN = 200  # characters of a query


class Retrieved(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """What was searched for a question, and what came of it.

    Attributes:
        queries: what was searched, with weights; none where the passages of the turn before were used again.
        decision: how the queries came about, in a few words.
        rejected: what was found and supports no answer: title, section, source and score, without the text.
        least: the score below which a passage supports nothing; None where none was asked for.
        answered: False where nothing supported an answer and no model was asked.
        collection: the name of the collection that was searched; "" for another retriever.
    """

    SAID = frozenset(("queries", "rejected"))

    queries: list[tuple[str, float]] = []
    decision: str = ""
    rejected: list[dict[str, Any]] = []
    least: float | None = None
    answered: bool = True
    collection: str = ""


class Manifest(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of one context. Positions are those of the transcript; ranges are half-open: [start, stop).

    Attributes:
        policy: the spec; provider and counter likewise.
        end: one past the newest position there was.
        kept: ranges that went in.
        left_out: [start, stop, rule] for every entry that did not.
        changed: [position, rule] for every entry that went in altered.
        made: messages that we made up to keep the list valid.
        tokens: by part: system, tools, passages, messages, total; and `budget` if one applied.
        summary: the version that stood for older entries, 0 for none.
        recalled: [position, score] of the older turns that came back, since the question is about them.
        system: the system prompt, if it was given with the call.
        question: the standalone question, where one was made; passages: what was retrieved for it.
        retrieved: what was searched, how that came about, and what was rejected.
    """

    SAID = frozenset(("system", "question", "passages"))

    policy: str
    provider: str = "openai"
    counter: str = "estimate"
    end: int = 0
    kept: list[tuple[int, int]] = []
    left_out: list[tuple[int, int, str]] = []
    changed: list[tuple[int, str]] = []
    made: int = 0
    tokens: dict[str, int] = {}
    summary: int = 0
    recalled: list[tuple[int, float]] = []
    system: str | None = None
    question: str | None = None
    passages: list[dict[str, Any]] = []
    retrieved: Retrieved | None = None
    model: str | None = None


def ranges(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Half-open ranges that cover sorted positions.

    Example: 0 1 2 5 6 -> (0, 3) (5, 7).
    """
    out: list[tuple[int, int]] = []
    for position in positions:
        if out and out[-1][1] == position:
            out[-1] = (out[-1][0], position + 1)
        else:
            out.append((position, position + 1))
    return out


def left_out(kept: list[tuple[int, int]], end: int, log: Log) -> list[tuple[int, int, str]]:
    """What the kept ranges leave of [0, end), each with its rule.

    An entry that no rule names was not there to be read: hidden, deleted, or replaced by the system prompt of the call.
    """
    gaps = []
    at = 0
    for start, stop in [*kept, (end, end)]:
        if at < start:
            gaps.append((at, start))
        at = max(at, stop)
    edges = sorted(
        {p for start, stop, _ in log.cuts for p in (start, stop)} | {q for p in log.singles for q in (p, p + 1)}
    )
    out: list[tuple[int, int, str]] = []
    for start, stop in gaps:
        points = [start, *(p for p in edges if start < p < stop), stop]
        for a, b in pairwise(points):
            why = log.rule(a) or "hidden"
            if out and out[-1][1] == a and out[-1][2] == why:
                out[-1] = (out[-1][0], b, why)
            else:
                out.append((a, b, why))
    return out


def explain(manifest: Manifest) -> str:
    """The manifest in words, a line an idea."""
    inside = sum(stop - start for start, stop in manifest.kept)
    parts = ", ".join(f"{name} {n}" for name, n in manifest.tokens.items() if n and name not in ("total", "budget"))
    total = manifest.tokens.get("total", 0)
    budget = manifest.tokens.get("budget")
    lines = [f"{inside} of {manifest.end} messages under {manifest.policy} for {manifest.provider}"]
    lines.append(
        f"{total} tokens by {manifest.counter}" + (f" of {budget}" if budget else "") + (f" ({parts})" if parts else "")
    )
    if manifest.summary:
        lines.append(f"in: summary {manifest.summary}")
    if manifest.kept:
        lines.append("in: " + ", ".join(_span(a, b) for a, b in manifest.kept))
    if manifest.recalled:
        turns = ", ".join(f"the turn at {position} (score {score:.2f})" for position, score in manifest.recalled)
        lines.append(f"recalled: {turns}")
    lines += [f"out: {_span(a, b)}, by {why}" for a, b, why in manifest.left_out]
    lines += [f"changed: {_span(p, p + 1)}, by {why}" for p, why in manifest.changed]
    if manifest.made:
        lines.append(f"made up to keep the list valid: {manifest.made}")
    return "\n".join([*lines, *searched(manifest)])


def searched(manifest: Manifest) -> list[str]:
    """What was searched and found, a line each; nothing for a call without documents."""
    found = manifest.retrieved or Retrieved()
    lines = [f"question: {found.decision}"] if found.decision else []
    if manifest.question and manifest.question not in (text for text, _ in found.queries):
        lines.append(f"standalone: {_short(manifest.question)}")
    lines += [f"searched: {_short(text)}{'' if weight == 1 else f' (× {weight:g})'}" for text, weight in found.queries]
    lines += [f"[{n}] {_found(p)}" for n, p in enumerate(manifest.passages, 1)]
    limit = "" if found.least is None else f" (least {found.least:.2f})"
    lines += [f"too weak{limit}: {_found(p)}" for p in found.rejected]
    if not found.answered:
        lines.append("nothing supported an answer: no model was asked")
    return lines


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _found(passage: dict[str, Any]) -> str:
    told = [(name, passage.get(name)) for name in ("score", "support")]
    numbers = [f"{name} {value:.2f}" for name, value in told if isinstance(value, int | float)]
    return ", ".join([place_of(passage) or "a passage without a title", *numbers])


def _span(start: int, stop: int) -> str:
    return f"message {start}" if stop == start + 1 else f"messages {start} to {stop - 1}"
