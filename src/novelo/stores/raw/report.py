"""What came of a copy."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Progress = Callable[[int, int, str], None]  # how many are done, how many there are, and of what


class CopyReport(msgspec.Struct):
    """What a copy, or a comparison, did.

    Attributes:
        source, target: addresses, without passwords.
        total, done: threads at the source, and those that are copied and verified.
        same: those that were there already, equal row by row.
        rows: how many rows of each table the source has, all of them read back.
        written, removed: rows that were written to the target, and taken away there.
        bytes: of the rows that were read, as they are packed.
        seconds: since the beginning.
        damaged: a sentence for each thread or collection that cannot be read; all others are copied.
        vault: the source has a vault, which is not copied: the target is opened with it.
        digest: a hash over all that is there, the same for equal contents in whatever engine.
    """

    source: str
    target: str
    total: int = 0
    done: int = 0
    same: int = 0
    rows: dict[str, int] = {}
    written: int = 0
    removed: int = 0
    bytes: int = 0
    seconds: float = 0.0
    vault: bool = False
    damaged: list[str] = []
    digest: str = ""

    @property
    def rate(self) -> float:
        """Rows a second."""
        return sum(self.rows.values()) / self.seconds if self.seconds else 0.0
