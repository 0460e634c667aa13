"""Old pictures, sounds and files become placeholders: Base64 in the history is paid for with every call."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from novelo.context.draft import Draft
from novelo.context.sizes import Size
from novelo.messages import Audio, File, Image, Part, Text
from novelo.transcript import Entry, Step, Turn

PLACEHOLDERS: dict[type, str] = {Image: "[image removed]", Audio: "[audio removed]", File: "[file removed]"}


@dataclass(frozen=True)
class StripMedia:
    """Media older than the newest `keep` turns become a text that says what stood there; text is not touched."""

    keep: Size = Size(1, "turns")

    def __str__(self) -> str:
        return f"strip_media:keep={self.keep.number}turn{'s' if self.keep.number != 1 else ''}"

    def __call__(self, draft: Draft) -> Draft:
        """The draft with old media replaced, as turns are pulled."""
        return draft.mapped(
            _Stripping(self, draft.desk.pinned, self.keep.number), _Stripping(self, draft.desk.pinned, 0)
        )


class _Stripping:
    def __init__(self, policy: StripMedia, pinned: frozenset[int], keep: int) -> None:
        self.policy, self.pinned, self.left = policy, pinned, keep

    def __call__(self, turn: Turn) -> Turn:
        self.left -= 1
        if self.left >= 0 or not any(e.message.content.__class__ is tuple for e in turn.entries):
            return turn
        user = None if turn.user is None else self._entry(turn.user)
        return Turn(user, tuple(Step(self._entry(s.head), tuple(map(self._entry, s.results))) for s in turn.steps))

    def _entry(self, entry: Entry) -> Entry:
        content = entry.message.content
        if (
            not isinstance(content, tuple)
            or entry.position in self.pinned
            or not any(type(p) in PLACEHOLDERS for p in content)
        ):
            return entry
        parts: tuple[Part, ...] = tuple(
            Text(text=PLACEHOLDERS[type(p)]) if type(p) in PLACEHOLDERS else p for p in content
        )
        return entry.altered(msgspec.structs.replace(entry.message, content=parts), str(self.policy))
