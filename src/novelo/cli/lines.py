"""Text on a terminal, broken between words, also while it streams in; anywhere else it goes out as it is."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from typing import TextIO

_WIDE = ("W", "F")


class Lines:
    """A stream of pieces on lines that a terminal has room for.

    A word is held until it ends. Signs of two places (Chinese, Japanese, Korean) are words each; what may not begin a
    line, such as "。", stays with the one before.
    """

    def __init__(self, out: TextIO, width: int | None = None) -> None:
        """Write to a stream.

        Args:
            out: where to.
            width: places in a line; else those of the terminal, and no breaks where there is none.
        """
        self._out = out
        self._width = width or (shutil.get_terminal_size().columns if out.isatty() else 0)
        self._column = 0
        self._gap = self._word = ""

    def write(self, piece: str) -> None:
        """The next piece; what is whole of it is shown at once."""
        if not self._width:
            self._out.write(piece)
        for sign in piece if self._width else "":
            if sign.isspace():
                self._put()
                self._gap += sign
                if sign == "\n":
                    self._out.write(self._gap)
                    self._gap, self._column = "", 0
                continue
            if unicodedata.east_asian_width(sign) in _WIDE and not unicodedata.category(sign).startswith("P"):
                self._put()
            self._word += sign
        self._out.flush()

    def end(self) -> None:
        """Show what is held; nothing more comes."""
        self._put()
        self._out.write(self._gap)
        self._gap = ""
        self._out.flush()

    def _put(self) -> None:
        if not self._word:
            return
        places = _places(self._word)
        if self._column and self._column + len(self._gap) + places > self._width:
            self._out.write("\n")
            self._gap, self._column = "", 0
        self._out.write(self._gap + self._word)
        self._column += len(self._gap) + places
        if self._column > self._width:  # a word longer than a line: the terminal breaks it
            self._column %= self._width
        self._gap = self._word = ""


def put(text: str, out: TextIO | None = None) -> None:
    """One text and the end of its line; to stdout unless another stream is named."""
    lines = Lines(out or sys.stdout)
    lines.write(text + "\n")
    lines.end()


def _places(text: str) -> int:
    """Places that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in _WIDE else 1 for sign in text
    )
