"""Words as PostgreSQL can hold them: of very long ones the beginning, and a hash."""

from __future__ import annotations

import hashlib

LONGEST = 400  # bytes of a word; PostgreSQL takes less than 2048
KEPT = 64  # characters that stay of a longer one, before a hash of the whole
SIGN = "\N{SECTION SIGN}"  # no letter or digit: no folded word holds it


def lexeme(word: str) -> str:
    """A word as PostgreSQL can hold it; done twice, it is the same."""
    if len(word) * 4 <= LONGEST or len(word.encode()) <= LONGEST:
        return word
    return f"{word[:KEPT]}{SIGN}{hashlib.blake2b(word.encode(), digest_size=16).hexdigest()}"


def lexemes(words: str) -> list[str]:
    """The different words of a folded text."""
    found = set(words.split())
    if found and len(max(found, key=len)) * 4 > LONGEST:  # nearly never, and asking each word takes ten times as long
        found = set(map(lexeme, found))
    return list(found)
