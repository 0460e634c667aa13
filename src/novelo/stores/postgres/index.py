"""The search index: one row a message, with its folded words as a tsvector and one more that says whose they are.

The words are ours (`stores.search.fold`), whatever the language, and the same in every store: PostgreSQL neither cuts
nor stems them. They stand there without places, since only whole words are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import blake2b

from novelo.stores.postgres.session import Session
from novelo.stores.postgres.texts import SIGN, lexeme, lexemes, quoted
from novelo.stores.rules import storable

_WORD = re.compile(r"[0-9a-z\u0080-\U0010ffff]+")
POSITIONS = 1 << 20  # of a thread that can be found, as in the other stores
PAGE = 200


class Index:
    """What is written to the index and found in it, on a connection of the caller's; off, nothing is."""

    def __init__(self, secret: bytes, on: bool) -> None:
        self._secret, self.on = secret, on

    def put(self, db: Session, key: bytes, owner: str, position: int, words: str) -> None:
        """A message, by its folded words."""
        if self.on and words and position < POSITIONS:
            db.run("index_entry", (key, position, [self.owner_word(owner), *lexemes(words)]))

    def caught_up(self, database: object) -> None:
        """Rows do not wait here."""

    def remove(self, db: Session, key: bytes, positions: Collection[int] | None = None, most: int | None = None) -> int:
        """Take some messages of a thread out, or all."""
        if positions is None:
            return db.remove("search", key)
        gone = 0
        for position in positions:
            db.run("unindex_entry", (key, position))
            gone += db.changes()
        return gone

    def count(self, db: Session, key: bytes) -> int:
        """Messages of a thread that are in the index."""
        return db.count("search", key)

    def move(self, db: Session, key: bytes, start: int, stop: int, to: bytes, owner: str) -> None:
        """What a stretch of a thread is found by is what it is found by in another."""
        for position, words in list(db.run("words_between", (key, start, stop))):
            said = [word for word in words if not word.startswith(SIGN)]
            db.run("index_entry", (to, position, [self.owner_word(owner), *said]))

    def find(
        self, db: Session, words: Sequence[str], key: bytes | None, owner: str | None
    ) -> Iterator[tuple[bytes, int, float]]:
        """Thread, position and score of the messages that hold all the words, the best first."""
        if not all(_WORD.fullmatch(word) and storable(word) for word in words):
            return  # no words of a folded text
        wanted = [*([] if owner is None else [self.owner_word(owner)]), *words]
        name, more = ("find_words", ()) if key is None else ("find_words_of", (key,))
        at, page = 0, PAGE
        while True:
            rows = list(db.run(name, (quoted(wanted), page, at, *more)))
            yield from rows
            if len(rows) < page:
                return
            at, page = at + page, 4 * page

    def positions(
        self, db: Session, start: str, same: Callable[[str], bool], key: bytes, within: range, limit: int
    ) -> list[int]:
        """Positions of a thread's own messages in a range, the newest, with a word that begins so and passes a test."""
        begins = lexeme(start)
        out: list[int] = []
        high = within.stop
        while len(out) < limit:
            rows = list(db.run("rows_of_words", (key, within.start, high, f"{quoted([begins])}:*", limit)))
            out += [at for at, words in rows if any(word.startswith(begins) and same(word) for word in words)]
            if len(rows) < limit:
                break
            high = rows[-1][0]
        return out

    def owner_word(self, owner: str) -> str:
        """The word that says whose a message is; no message holds it."""
        return f"{SIGN}o{blake2b(owner.encode(), key=self._secret, digest_size=8).hexdigest()}"
