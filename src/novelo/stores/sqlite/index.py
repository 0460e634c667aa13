"""The search index: one row a message, with the folded words and two more that say whose they are.

A row begins with a word for its thread and one for its owner, written with a sign that no folded text holds. The
search of one thread, or of one owner, is then a single MATCH that passes over nobody else's messages. It keeps no
positions of words, since only whole words are asked for; and it overwrites what is taken out (`secure-delete`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import blake2b
from itertools import islice

import apsw

from novelo.stores.rules import storable
from novelo.stores.sql import statements
from novelo.stores.sqlite.migrations import PACKAGE

Q = statements(PACKAGE)
_WORD = re.compile(r"[0-9a-z\u0080-\U0010ffff]+")
SIGN = "\N{SECTION SIGN}"  # no letter or digit: `fold` never gives it
LAST_SIGN = "\U0010ffff"
MOST_LOOKED_AT, MOST_KIN = 2000, 50  # words that begin alike, and those of them that are the same word


class Index:
    """What is written to the index and found in it, on a connection of the caller's; off, nothing is."""

    def __init__(self, secret: bytes, on: bool) -> None:
        self._secret, self.on = secret, on

    def put(self, db: apsw.Connection, key: bytes, owner: str, position: int, words: str) -> None:
        """A message, by its folded words."""
        if self.on and words:
            text = f"{_thread_word(key)} {self._owner_word(owner)} {words}"
            db.execute(Q["index_entry"], (text, key, position))

    def remove(
        self, db: apsw.Connection, key: bytes, positions: Collection[int] | None = None, most: int | None = None
    ) -> int:
        """Take some messages of a thread out, or all; also where the index is off now, but was on before."""
        found = db.execute(Q["indexed"], (_quoted([_thread_word(key)]),))
        rows = [row[0] for row in islice(found, most) if positions is None or row[1] in positions]
        for row in rows:
            db.execute(Q["unindex"], (row,))
        return len(rows)

    def count(self, db: apsw.Connection, key: bytes) -> int:
        """Messages of a thread that are in the index."""
        return sum(1 for _ in db.execute(Q["indexed"], (_quoted([_thread_word(key)]),)))

    def move(self, db: apsw.Connection, key: bytes, start: int, stop: int, to: bytes, owner: str) -> None:
        """What a stretch of a thread is found by is what it is found by in another."""
        match = _quoted([_thread_word(key)])
        for text, position in list(db.execute(Q["words_between"], (match, start, stop))):
            self.put(db, to, owner, position, text.split(" ", 2)[2])

    def find(
        self, db: apsw.Connection, words: Sequence[str], key: bytes | None, owner: str | None
    ) -> Iterator[tuple[bytes, int, float]]:
        """Thread, position and score of the messages that hold all the words, the best first."""
        if not all(_WORD.fullmatch(word) and storable(word) for word in words):
            return  # no words of a folded text
        places = [] if key is None else [_thread_word(key)]
        places += [] if owner is None else [self._owner_word(owner)]
        for thread, position, rank in db.execute(Q["find_words"], (_quoted([*places, *words]),)):
            yield thread, position, -rank

    def kin(self, db: apsw.Connection, start: str, same: Callable[[str], bool]) -> list[str]:
        """The words of the index, of whatever thread, that begin so and pass a test; at most `MOST_KIN`."""
        found = (row[0] for row in db.execute(Q["index_words"], (start, start + LAST_SIGN)))
        return list(islice(filter(same, islice(found, MOST_LOOKED_AT)), MOST_KIN))

    def positions(self, db: apsw.Connection, words: Sequence[str], key: bytes) -> list[int]:
        """Positions of a thread's own messages that hold one of some words of the index."""
        match = f"{_quoted([_thread_word(key)])} AND ({_quoted(words, 'OR')})"
        return [row[0] for row in db.execute(Q["places_of_words"], (match,))]

    def _owner_word(self, owner: str) -> str:
        return f"{SIGN}o{blake2b(owner.encode(), key=self._secret, digest_size=8).hexdigest()}"


def _thread_word(key: bytes) -> str:
    return f"{SIGN}{key.hex()}"


def _quoted(words: Sequence[str], between: str = "AND") -> str:
    """Every word in quotes: nothing of it is read as an operator, a column, or a prefix."""
    return f" {between} ".join(f'"{word}"' for word in words)
