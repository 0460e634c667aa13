"""A thread in a store as a source of entries: read backwards in pieces, and asked for what matches a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from novelo.recalling import LISTED, MOST_PLACES, Match, WordList, ranked
from novelo.stores.base import Store, StoredEntry, ThreadRow
from novelo.transcript import Entry

FIRST_PIECE = 40  # entries of the first read: ten turns with a tool call now and then
LARGEST_PIECE = 1000


class ThreadSource:
    """What `compose_source` reads: the thread as it was when its row was read; later entries are not seen."""

    def __init__(
        self,
        store: Store,
        thread: ThreadRow,
        opening: Sequence[StoredEntry] = (),
        near: Callable[[Sequence[str]], Mapping[int, float]] | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            near: how near messages are to a question in meaning, if anybody knows; see `recalling.ranked`.
        """
        self._store, self._thread, self._near = store, thread, near
        self._words: tuple[int, WordList] | None = None
        self.begin = thread.opening
        self.end = thread.head
        self._base = opening[-1].running if opening else 0

    def newest_first(self) -> Iterator[Entry]:
        """Visible entries from the end down to `begin`."""
        before, size = self.end, FIRST_PIECE
        while before > self.begin:
            piece = self._store.tail(self._thread, before, min(size, before - self.begin))
            for stored in piece:
                if stored.position < self.begin:
                    return
                yield entry(stored)
            if not piece:
                return
            before, size = piece[-1].position, min(size * 2, LARGEST_PIECE)

    def oldest_first(self) -> Iterator[Entry]:
        """Visible entries from `begin` up."""
        start = self.begin
        while start < self.end:
            piece = self._store.range(self._thread, start, FIRST_PIECE)
            if not piece:
                return
            for stored in piece:
                if stored.position >= self.end:
                    return
                yield entry(stored)
            start = piece[-1].position + 1

    def around(self, positions: Sequence[int]) -> list[list[Entry]]:
        """For each position the entries of its turn, oldest first."""
        out, done = [], set()
        for position in sorted(set(positions)):
            chunk = self._turn_of(position)
            if chunk and chunk[0].position not in done:
                done.add(chunk[0].position)
                out.append(chunk)
        return out

    def _turn_of(self, position: int) -> list[Entry]:
        if not self.begin <= position < self.end:
            return []
        back: list[StoredEntry] = []
        before = position + 1
        while before > self.begin and not (back and back[-1].role == "user"):
            piece = self._store.tail(self._thread, before, FIRST_PIECE)
            if not piece:
                break
            for stored in piece:
                back.append(stored)
                if stored.role == "user" or stored.position <= self.begin:
                    break
            before = back[-1].position
        if not back or back[0].position != position:
            return []  # hidden or deleted meanwhile
        forward: list[StoredEntry] = []
        start = position + 1
        while start < self.end:
            piece = self._store.range(self._thread, start, FIRST_PIECE)
            for stored in piece:
                if stored.role == "user":
                    return [entry(s) for s in [*reversed(back), *forward]]
                forward.append(stored)
            if not piece:
                break
            start = piece[-1].position + 1
        return [entry(s) for s in [*reversed(back), *forward]]

    def matches(self, questions: Sequence[str], asked: int, below: int, limit: int) -> list[Match]:
        """Older messages that a question is about, the best first; see `draft.Source`."""
        asked = min(asked, self.end)
        words = _Indexed(self._store, self._thread, self.begin, asked) if self._store.indexed else self._listed(asked)
        near = None if self._near is None else self._near(questions)
        return ranked(questions, words, near, within=range(self.begin, below), limit=limit)

    def _listed(self, asked: int) -> WordList:
        """The newest messages, where the store has no index."""
        if self._words is None or self._words[0] != asked:
            words, before = WordList(), asked
            while words.size < LISTED and (piece := self._store.tail(self._thread, before, LARGEST_PIECE)):
                for stored in piece:
                    if stored.position >= self.begin:
                        words.put(stored.position, stored.message)
                before = piece[-1].position
            self._words = asked, words
        return self._words[1]

    @property
    def turn_count(self) -> int:
        """User messages in the thread, hidden ones too."""
        return self._thread.turns

    @property
    def message_count(self) -> int:
        """Messages behind the opening, hidden ones too."""
        return self.end - self.begin

    def messages_before(self, found: Entry) -> int:
        """Messages between the opening and this entry."""
        return found.position - self.begin

    @property
    def tokens_total(self) -> int:
        """Tokens of all entries behind the opening: stored sums, never rewritten."""
        return self._thread.running - self._base

    def tokens_before(self, found: Entry) -> int:
        """Tokens of the entries between the opening and this entry."""
        return found.running - found.stored - self._base


class _Indexed:
    """A thread's messages below a position, by the store's index; see `recalling.Words`."""

    def __init__(self, store: Store, thread: ThreadRow, begin: int, before: int) -> None:
        self._store, self._thread, self._begin, self._before = store, thread, begin, before
        self.size = max(0, before - begin)

    def holding(self, start: str, same: Callable[[str], bool]) -> Sequence[int]:
        """Positions of messages that hold a word."""
        found = self._store.holding(self._thread, start, same, self._before, MOST_PLACES)
        return [p for p in found if p >= self._begin] if self._begin else found

    def texts(self, positions: Sequence[int]) -> list[str]:
        """What the messages at some positions say; nothing where none is to be seen."""
        inside = [p for p in positions if self._begin <= p < self._before]
        found = {e.position: e for e in self._store.entries(self._thread, inside)}
        return ["" if p not in found or found[p].hidden else found[p].text for p in positions]


def entry(stored: StoredEntry) -> Entry:
    """A stored entry as policies see it."""
    return Entry(stored.position, stored.message, stored.tokens, stored.turn, stored.running, stored=stored.tokens)
