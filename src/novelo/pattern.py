"""Masks that remember what they took out, so that a ledger can note how to find it again.

What a pattern finds in a text depends on what stands around it, so it is remembered as the text that matched. From
`SHORT` characters on that text alone is remembered, and found again wherever it stands. A shorter one ("42", "Ana")
stands in many words that nobody wanted to mask: it is remembered with `NEAR` characters on each side, and found again
only between these. `PAD` stands before the beginning and behind the end of every text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

from novelo.errors import InvalidSpec

MASK = "[redacted]"
SHORT = NEAR = 4  # characters
PAD = "\0" * NEAR


class Piece(NamedTuple):
    """A text that was taken out, inside of so many characters `near` on each side of it."""

    window: str
    near: int = 0


class Finding(Protocol):
    """A mask, and what it has taken out so far."""

    found: set[Piece]

    def __call__(self, text: str) -> str:
        """The text, masked."""
        ...


class Pattern:
    """A mask over everything that a regular expression matches."""

    def __init__(self, what: str | re.Pattern[str]) -> None:
        """Of an expression as text, or a compiled one with its flags.

        Raises:
            InvalidSpec: it is none, or empty. The error does not repeat it: it may be what must be forgotten.
        """
        try:
            self._pattern = re.compile(what)
        except re.error as error:
            raise InvalidSpec(f"redact: the pattern is no regular expression ({error.msg})") from None
        if not isinstance(self._pattern.pattern, str):
            raise InvalidSpec("redact: the pattern looks for bytes; expected one that looks for text")
        if not self._pattern.pattern:
            raise InvalidSpec("redact: the pattern is empty; expected a regular expression")
        self.found: set[Piece] = set()

    def __call__(self, text: str) -> str:
        """The text with every match masked; what matches no characters is none."""
        return self._pattern.sub(self._take, text)

    def _take(self, match: re.Match[str]) -> str:
        start, stop = match.span()
        if start == stop:  # `[0-9]*` finds nothing too: there is nothing to be masked
            return ""
        if stop - start >= SHORT:
            self.found.add(Piece(match[0]))
        else:
            before = match.string[max(0, start - NEAR) : start].rjust(NEAR, PAD[0])
            behind = match.string[stop : stop + NEAR].ljust(NEAR, PAD[0])
            self.found.add(Piece(before + match[0] + behind, NEAR))
        return MASK


class Whole:
    """Any other mask: what it took out of a text it does not tell, so the whole text is remembered."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self.found: set[Piece] = set()

    def __call__(self, text: str) -> str:
        """The text as the mask leaves it."""
        made = self._mask(text)
        if made != text:
            self.found.add(Piece(PAD + text + PAD, NEAR))
        return made


def remembering(mask: Callable[[str], str]) -> Finding:
    """The mask itself if it remembers what it takes out, or one around it that does."""
    return cast("Finding", mask) if hasattr(mask, "found") else Whole(mask)
