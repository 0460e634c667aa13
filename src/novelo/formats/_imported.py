"""What a file gave: one conversation, not yet stored."""

from __future__ import annotations

from typing import Any

import msgspec

from novelo.messages import Message


class ImportedThread(msgspec.Struct):
    """One conversation read from a file.

    Attributes:
        source: what the file was: novelo, simple, messages, chatgpt.
        messages: n messages, oldest first.
        times: n moments, seconds since 1970; None where the file has none.
        turns: n turn numbers, of our own files; else empty.
        title, thread_id, owner, created: where the file has them.
        facts: of our own files: tags, metadata, state, pins, and the positions that are `hidden` and `deleted`.
        left_out: messages of a ChatGPT export that stand in other branches.
    """

    source: str
    messages: list[Message] = []
    times: list[float | None] = []
    turns: list[int | None] = []
    title: str | None = None
    thread_id: str | None = None
    owner: str | None = None
    created: float | None = None
    facts: dict[str, Any] = {}
    left_out: int = 0

    def __repr__(self) -> str:
        """Kind and size: what was said belongs into no log."""
        return f"ImportedThread({self.source}, {len(self.messages)} messages)"


_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # years 1 to 9999: what a date can say


def is_moment(value: Any) -> bool:
    """Whether a value is seconds since 1970 that a date can tell."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and _FIRST <= value <= _LAST
