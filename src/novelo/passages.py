"""Passages: rankings put together, how they stand in a request, and which of them an answer names.

A passage is a dict: `text`, and where known `source`, `title` and `score` (the higher, the better).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

Passage = dict[str, Any]
RANK_CONSTANT = 60  # of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)


def fuse(rankings: Iterable[Sequence[Passage]], limit: int | None = None) -> list[Passage]:
    """Several rankings as one, by reciprocal ranks; where two passages draw, the one of the earlier ranking is first.

    Args:
        rankings: passages, the best first; equal texts of one source are one passage.
        limit: how many to give; None is half as many again as the longest ranking has, so that the best of each stay.
    Example: [[A, B, C], [D, A]] -> [A, D, B, C]
    """
    given = [list(ranking) for ranking in rankings]
    weights: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], Passage] = {}
    for ranking in given:
        for rank, passage in enumerate(ranking, 1):
            key = (str(passage.get("source") or ""), str(passage.get("text") or ""))
            weights[key] = weights.get(key, 0.0) + 1 / (RANK_CONSTANT + rank)
            first.setdefault(key, passage)
    most = max(map(len, given), default=0)
    order = sorted(first, key=lambda key: -weights[key])
    return [first[key] for key in order[: (most * 3 + 1) // 2 if limit is None else limit]]


def passages_text(passages: Sequence[Passage], start: int = 1) -> str:
    """Passages as they stand in a request: numbered, with their source, every line quoted."""
    out = []
    for number, passage in enumerate(passages, start):
        named = " · ".join(_line(passage[k]) for k in ("title", "source") if passage.get(k))
        out.append(f"[{number}]{' ' + named if named else ''}\n{quote(str(passage.get('text') or ''))}")
    return "\n\n".join(out)


def cited(text: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """The passages that a text names by their numbers, in order; all where it names none of them."""
    numbers = {
        int(n) for group in re.findall(r"[\[【]([\d\s,;]{1,40})[\]】]", text) for n in re.findall(r"\d{1,4}", group)
    }
    named = tuple(p for n, p in enumerate(passages, 1) if n in numbers)
    return named or tuple(passages)


def with_passages(messages: Sequence[dict[str, Any]], passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Chat messages with the passages put before the newest question, in its message.

    They stand there and not in the system prompt: what they quote has no authority, and all before them stays the same
    from turn to turn, as prompt caches want it.
    """
    if not passages:
        return list(messages)
    block = passages_text(passages)
    at = max(i for i, m in enumerate(messages) if m["role"] == "user")
    content = messages[at]["content"]
    whole = isinstance(content, str)
    content = f"{block}\n\n{content}" if whole else [{"type": "text", "text": block}, *content]
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


def quote(text: str) -> str:
    """A text as quoted lines; an empty one is a line too."""
    return "\n".join(f"> {line}" for line in text.splitlines()) or "> "


def _line(text: Any) -> str:
    """A title or an address in one line, so that it cannot end the quotation."""
    return " ".join(str(text).split())[:200]
