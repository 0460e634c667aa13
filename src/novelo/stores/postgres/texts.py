"""Texts for PostgreSQL: the named statements with their tables in a schema, and strings with signs that it refuses.

The schema stands in the statement itself, and nowhere in the session: behind a transaction pooler the next statement
may run on another connection. Strings of PostgreSQL hold no NUL; it is written as two signs, and so is the sign that
begins them, so that what was stored comes back and compares as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from novelo.errors import InvalidSpec
from novelo.stores.lexemes import SIGN, lexeme, lexemes
from novelo.stores.sql import statements

__all__ = ["SIGN", "lexeme", "lexemes", "quoted"]

PACKAGE = "novelo.stores.postgres"
FILES = ("queries.sql", "checkpoints.sql", "documents.sql", "privacy.sql")
TABLES = (
    "meta", "threads", "entries", "turns", "calls", "pins", "hidden", "summaries", "work", "checkpoints",
    "checkpoint_writes", "checkpoint_values", "collections", "sources", "chunks", "chunk_vectors", "search", "vectors",
    "audit", "holds", "marks", "spent", "retention",
)  # fmt: skip
_TABLE = re.compile(rf"\b((?:FROM|JOIN|INTO|UPDATE|CREATE TABLE|INDEX \w+ ON|ALTER TABLE) +)({'|'.join(TABLES)})\b")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_ARGUMENT = re.compile(r"\$(\d+)")
# What SQLite does and this store need not: it has no seals made by statements, and nothing is left over of an erasure.
NOTHING = frozenset(
    ["reseal", "left_over", "is_left_over", "any_left_over", "none_left_over", "seal_chunk", "unindex_chunk"]
)
LOCKED = {"thread": "thread_locked", "collection": "collection_locked"}  # in a transaction that writes


class Statement(NamedTuple):
    """A statement with its schema, how many arguments it takes, how they are made, and whether it gives rows."""

    text: str
    arguments: int
    adapted: Callable[[Any], Any] | None
    gives: bool


def checked_schema(name: str) -> str:
    """The name of a schema.

    Raises:
        InvalidSpec: anything but small letters, digits and underscores.
    """
    if not _SCHEMA.fullmatch(name):
        raise InvalidSpec(f"schema {name!r}: expected small letters, digits and underscores, at most 63")
    return name


def in_schema(text: str, schema: str) -> str:
    """Statements whose tables are those of a schema."""
    return _TABLE.sub(rf'\g<1>"{schema}".\g<2>', text)


@lru_cache(16)
def texts(schema: str) -> tuple[dict[str, Statement], dict[str, Statement]]:
    """All statements by their names, for those who read, and for those who write."""
    named: dict[str, str] = {}
    for file in FILES:
        named |= statements(PACKAGE, file)
    reading = {name: _statement(name, in_schema(text, schema)) for name, text in named.items()}
    return reading, reading | {name: reading[locked] for name, locked in LOCKED.items()}


def _statement(name: str, text: str) -> Statement:
    gives = text.startswith(("SELECT", "WITH")) or "RETURNING" in text
    return Statement(text, max(map(int, _ARGUMENT.findall(text)), default=0), _ADAPTED.get(name), gives)


# ---------------------------------------------------------------------------------------------- words
def quoted(words: list[str], between: str = "&") -> str:
    """A query for words: each in quotes, so that nothing of it is read as an operator."""
    return f" {between} ".join("'" + lexeme(word).replace("\\", "\\\\").replace("'", "''") + "'" for word in words)


def _any_of(match: str) -> str:
    return quoted([word.strip('"') for word in match.split(" OR ")], "|")


def _columns(pieces: list[tuple[str, int, int]]) -> tuple[list[bytes], list[int], list[int]]:
    return (
        [bytes.fromhex(key) for key, _, _ in pieces],
        [start for _, start, _ in pieces],
        [stop for _, _, stop in pieces],
    )


_ADAPTED: dict[str, Callable[[Any], Any]] = {
    "of_runs": lambda args: (msgspec.json.decode(args[0]), *args[1:]),
    "weights": lambda args: _columns(msgspec.json.decode(args[0])),
    "index_chunk": lambda args: (*args[:4], lexemes(f"{args[2]} {args[3]}")),
    "frequency": lambda args: (args[0], quoted([args[1]])),
    "matches": lambda args: (args[0], _any_of(args[1]), args[2]),
    "all_matches": lambda args: (args[0], _any_of(args[1])),
}


# ---------------------------------------------------------------------------------------------- signs
def escaped(text: str) -> str:
    r"""A text without NUL. Example: "a\0b\1" -> "a\1" "0b\1" "1"; order stays as it is."""
    if "\0" in text or "\1" in text:
        return text.replace("\1", "\x011").replace("\0", "\x010")
    return text


def unescaped(text: str) -> str:
    """The text as it was."""
    return text.replace("\x010", "\0").replace("\x011", "\1") if "\1" in text else text
