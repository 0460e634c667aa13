"""What is found in a database that is not as it should be, and how large its tables are."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]
OnLook = Callable[[int, int, str], None]  # how many are looked at, how many there are, and of what


class Finding(msgspec.Struct, frozen=True):
    """One thing.

    Attributes:
        severity: error: something is lost, refused, or soon will be; warning: it costs, or goes wrong one day; note.
        check: which look found it, in a word or two.
        place: the thread, table, file or setting.
        text: what was found, and what was expected.
        command: what mends it, or shows what can be done, to be typed in a shell.
    """

    severity: Severity
    check: str
    place: str
    text: str
    command: str


class Growth(msgspec.Struct, frozen=True):
    """A table: its bytes with indexes, and its rows; None where the database is too large to count them each time."""

    table: str
    bytes: int | None
    rows: int | None


class Look(msgspec.Struct):
    """What an engine says of a database.

    Attributes:
        engine: with its version. schema: the number of its tables' version.
        bytes: of all, with logs.
        address: as commands take it, without a password.
    """

    engine: str
    address: str
    schema: int
    bytes: int
    tables: list[Growth] = []
    findings: list[Finding] = []


def command(*words: str) -> str:
    """A command line, each word quoted where a shell needs it."""
    return " ".join(shlex.quote(word) for word in words)
