"""The search index: one row a message, with its folded words and one more that says whose they are.

A row's number says where it stands: the number of its thread, and its position. The search of one thread is then a
MATCH over a range of rows, which passes over nobody else's messages and gives positions without reading a row; that of
one owner is a MATCH with a word for the owner, written with a sign that no folded text holds. The index keeps no places
of words inside a message, since only whole words are asked for; and it overwrites what is taken out (`secure-delete`).

A row that goes into a full-text index alone costs as much as all else that a turn writes, and many at once cost little
more. So new rows wait in a plain table (`search_new`), where they are found by looking through them, until there are
`WAITING` of them; a search that ranks takes them in before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING

from novelo.errors import StoreError
from novelo.stores.rules import storable
from novelo.stores.sqlite.session import Session

if TYPE_CHECKING:
    from novelo.stores.sqlite.database import Database

_WORD = re.compile(r"[0-9a-z\u0080-\U0010ffff]+")
SIGN = "\N{SECTION SIGN}"  # no letter or digit: `fold` never gives it
LAST_SIGN = "\U0010ffff"
MOST_PASSED = 40_000  # words that begin alike
LONGEST_ENDING = 10  # letters behind that beginning, of a word that may be the same
MOST_LOOKED_AT, MOST_KIN = 2000, 50  # such words, and those of them that are the same
POSITIONS = 1 << 20  # of a thread that can be found; so many rows are set aside for each
FIRST = 1e6  # score of a message that waits: only where nothing can be written it is not taken in before
WAITING = 48  # rows that wait for the full-text index, of all threads together


class Index:
    """What is written to the index and found in it, on a connection of the caller's; off, nothing is."""

    def __init__(self, secret: bytes, on: bool) -> None:
        self._secret, self.on = secret, on

    def put(self, db: Session, key: bytes, owner: str, position: int, words: str) -> None:
        """A message, by its folded words."""
        if not self.on or not words or position >= POSITIONS:
            return
        values = (f"{self.owner_word(owner)} {words}", key, position)
        db.run("index_entry", values)
        if not db.changes():
            number = next(iter(db.run("next_number")))[0]
            db.run("number_thread", (key, number))
            db.run("index_entry", values)
        if next(iter(db.run("waiting")))[0] >= WAITING:
            self.take_in(db)

    def caught_up(self, database: Database) -> None:
        """What is new goes into the full-text index, so that it is ranked like all else; where that can be written."""
        with database.reading() as db:
            if not next(iter(db.run("waiting")))[0]:
                return
        with suppress(StoreError), database.writing() as db:
            self.take_in(db)

    def take_in(self, db: Session) -> None:
        """Rows that wait go into the full-text index."""
        db.run("take_in")
        db.run("none_waits")

    def remove(self, db: Session, key: bytes, positions: Collection[int] | None = None, most: int | None = None) -> int:
        """Take some messages of a thread out, or all; also where the index is off now, but was on before."""
        rows = _rows_of(db, key)
        if positions is None:
            found = list(islice(db.run("indexed", (rows.start, rows.stop)), most))
        else:
            wanted = (rows.start + position for position in positions if position < len(rows))
            found = [one for row in wanted for one in db.run("indexed", (row, row + 1))]
        for row, waits in found:
            db.run("unindex_waiting" if waits else "unindex", (row,))
        return len(found)

    def count(self, db: Session, key: bytes) -> int:
        """Messages of a thread that are in the index."""
        rows = _rows_of(db, key)
        return sum(1 for _ in db.run("indexed", (rows.start, rows.stop)))

    def move(self, db: Session, key: bytes, start: int, stop: int, to: bytes, owner: str) -> None:
        """What a stretch of a thread is found by is what it is found by in another."""
        rows = _rows_of(db, key)
        found = db.run("words_between", (rows.start + start, min(rows.start + stop, rows.stop)))
        for text, position in list(found):
            self.put(db, to, owner, position, text.split(" ", 1)[1])

    def find(
        self, db: Session, words: Sequence[str], key: bytes | None, owner: str | None
    ) -> Iterator[tuple[bytes, int, float]]:
        """Thread, position and score of the messages that hold all the words, the best first."""
        if not all(_WORD.fullmatch(word) and storable(word) for word in words):
            return  # no words of a folded text
        wanted = [*([] if owner is None else [self.owner_word(owner)]), *words]
        rows = range(1 << 62) if key is None else _rows_of(db, key)
        for text, thread, position in db.run("waiting_between", (rows.start, rows.stop)):
            if set(wanted) <= set(text.split()):
                yield thread, position, FIRST
        found = db.run("find_words", (_quoted(wanted), rows.start, rows.stop))
        for thread, position, rank in found:
            yield thread, position, -rank

    def kin(self, db: Session, start: str, same: Callable[[str], bool]) -> list[str]:
        """The words of the index, of whatever thread, that begin so and pass a test; at most `MOST_KIN`.

        One with a number or a sign in it is itself alone ("pedido4711"), and one that is much longer is no other form
        of the word; so the thousands of such words that begin alike do not stand before the others.
        """
        if not start.isalpha():
            return [start] if same(start) else []
        rows = islice(db.run("index_words", (start, start + LAST_SIGN)), MOST_PASSED)
        found = (word for (word,) in rows if len(word) <= len(start) + LONGEST_ENDING)
        return list(islice(filter(same, islice(found, MOST_LOOKED_AT)), MOST_KIN))

    def positions(
        self, db: Session, start: str, same: Callable[[str], bool], key: bytes, within: range, limit: int
    ) -> list[int]:
        """Positions of a thread's own messages in a range, the newest, with a word that begins so and passes a test."""
        rows = _rows_of(db, key)
        first, last = rows.start + within.start, min(rows.start + within.stop, rows.stop)
        out = []
        for text, _, position in db.run("waiting_between", (first, last)):
            if start in text and any(word.startswith(start) and same(word) for word in text.split()):
                out.append(position)
        words = self.kin(db, start, same)
        if words:
            found = db.run("rows_of_words", (_quoted(words, "OR"), first, last, limit))
            out += [row[0] - rows.start for row in found]
        return out

    def owner_word(self, owner: str) -> str:
        """The word that says whose a message is; no message holds it."""
        return f"{SIGN}o{blake2b(owner.encode(), key=self._secret, digest_size=8).hexdigest()}"


def _rows_of(db: Session, key: bytes) -> range:
    """The rows that are set aside for a thread; none if it never had any."""
    number = next(iter(db.run("thread_number", (key,))), (None,))[0]
    return range(0) if number is None else range(number * POSITIONS, (number + 1) * POSITIONS)


def _quoted(words: Sequence[str], between: str = "AND") -> str:
    """Every word in quotes: nothing of it is read as an operator, a column, or a prefix."""
    return f" {between} ".join(f'"{word}"' for word in words)
