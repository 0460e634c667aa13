"""A plain list of messages as a source: converted and counted only as far as it is pulled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from novelo import formats
from novelo.errors import InvalidMessage, InvalidSpec
from novelo.formats.anthropic import AnthropicForm
from novelo.formats.openai import from_openai
from novelo.messages import Message
from novelo.recalling import LISTED, Match, WordList, ranked
from novelo.transcript import MADE, Entry

MAX_MESSAGES = 10_000_000


LOOKED_AT = 500  # messages at the end of a long list whose form is looked at first; older ones when they are pulled
_PLAIN = frozenset((str, type(None)))


class OtherForm(Exception):
    """A message that was pulled later shows that the list is of another form: begin again with it."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.form = form


class ListSource:
    """Messages of any form that `formats.detect` knows; OpenAI dicts and LangChain messages convert when pulled."""

    def __init__(
        self, given: Sequence[Any], count: Callable[[Message], int], written: str = "", form: str | None = None
    ) -> None:
        """Read nothing yet but the form.

        Args:
            given: the messages.
            count: message -> tokens.
            written: how a user message begins that holds tool results as text (templates without tools).
            form: the list's form, if it is known.
        Raises:
            InvalidMessage: not a list of messages.
        """
        apart = isinstance(given, (AnthropicForm, Mapping))  # a body with its system prompt apart
        if not apart and not isinstance(given, (list, tuple)):
            raise InvalidMessage(f"expected a list of messages, got {type(given).__name__}")
        self._unsure = not apart and form is None and len(given) > 2 * LOOKED_AT
        self.form: str = form or ("anthropic" if apart else _form_of(given, self._unsure))
        self._unsure = self._unsure and self.form == "openai"
        one_to_one = not apart and self.form in ("openai", "langchain", "message")
        self._given: Sequence[Any] = given if one_to_one else formats.read(given, self.form)
        self._sourced = self._given is given
        self._convert = _converter(self.form if self._sourced else "message")
        self._count = count
        self._written = written
        self._known: dict[int, Entry] = {}
        self._sums: list[int] | None = None
        self._tallies: dict[str | None, list[int]] = {}
        self._words: tuple[int, WordList] | None = None
        self.end = len(self._given)
        self.begin = 0
        while self.begin < self.end and self.entry(self.begin).message.role == "system":
            self.begin += 1

    def entry(self, position: int) -> Entry:
        """The entry at a position, converted once."""
        found = self._known.get(position)
        if found is None:
            given = self._given[position]
            if self._unsure and (given.__class__ is not dict or given.get("content").__class__ not in _PLAIN):
                self._look_at_all()
            found = Entry(position, self._convert(given), source=given if self._sourced else None)
            self._known[position] = found
        return found

    def _look_at_all(self) -> None:
        self._unsure = False
        form = formats.detect(self._given)
        if form != self.form:
            raise OtherForm(form)

    def opening(self) -> list[Entry]:
        """The system messages at the head."""
        return [self.entry(i) for i in range(self.begin)]

    def newest_first(self) -> Iterator[Entry]:
        """Entries from the end down to `begin`."""
        return map(self.entry, range(self.end - 1, self.begin - 1, -1))

    def oldest_first(self) -> Iterator[Entry]:
        """Entries from `begin` up."""
        return map(self.entry, range(self.begin, self.end))

    def around(self, positions: Sequence[int]) -> list[list[Entry]]:
        """The entries of the turns in which the positions stand."""
        out, done = [], set()
        for position in sorted(set(positions)):
            if not self.begin <= position < self.end:
                continue
            first = position
            while first > self.begin and not self._asks(first):
                first -= 1
            if first in done:
                continue
            done.add(first)
            last = first + 1
            while last < self.end and not self._asks(last):
                last += 1
            out.append([self.entry(i) for i in range(first, last)])
        return out

    def matches(self, questions: Sequence[str], asked: int, below: int, limit: int) -> list[Match]:
        """Older messages that a question is about, the best first; looked for among the newest `LISTED`."""
        asked = min(asked, self.end)
        if self._words is None or self._words[0] > asked:
            self._words = max(self.begin, asked - LISTED), WordList()
        for position in range(self._words[0], asked):  # of a list read at each of its replies only what is new
            self._words[1].put(position, self.entry(position).message)
        self._words = asked, self._words[1]
        return ranked(questions, self._words[1], within=range(self.begin, below), limit=limit)

    def upto(self, end: int) -> Prefix:
        """The same list as it was when it had `end` messages; what was converted and counted is shared."""
        return Prefix(self, end)

    def position_of(self, name: int | str) -> int:
        """The position of a message by its place or its id.

        Raises:
            InvalidSpec: there is no such message.
        """
        if isinstance(name, int):
            found = name if 0 <= name < self.end else None
        else:
            found = next((i for i in range(self.end) if self.entry(i).message.id == name), None)
        if found is None:
            raise InvalidSpec(f"pins: no message {name!r} in a list of {self.end}")
        return found

    @property
    def turn_count(self) -> int:
        """User messages in the list; made ones do not count."""
        return sum(e.message.role == "user" and not self._is_made(e) for e in self.oldest_first())

    @property
    def message_count(self) -> int:
        """Messages behind the opening; made ones do not count."""
        return sum(not self._is_made(e) for e in self.oldest_first())

    def messages_before(self, entry: Entry) -> int:
        """Messages between the opening and this entry; made ones do not count."""
        return sum(not self._is_made(self.entry(i)) for i in range(self.begin, entry.position))

    @property
    def tokens_total(self) -> int:
        """Tokens of all messages behind the opening; all are counted once."""
        return self.running()[-1]

    def tokens_before(self, entry: Entry) -> int:
        """Tokens of the messages between the opening and this entry."""
        return self.running()[entry.position - self.begin]

    def running(self) -> list[int]:
        """Sums of tokens: item k is what the first k messages behind the opening have together."""
        if self._sums is None:
            self._sums = [0, *accumulate(map(self._tokens, self.oldest_first()))]
        return self._sums

    def tally(self, role: str | None = None) -> list[int]:
        """Sums of messages, of one role or all: item k counts the first k behind the opening, without made ones."""
        found = self._tallies.get(role)
        if found is None:
            counted = (role in (None, e.message.role) and not self._is_made(e) for e in self.oldest_first())
            found = self._tallies[role] = [0, *accumulate(map(int, counted))]
        return found

    def _tokens(self, entry: Entry) -> int:
        if entry.tokens < 0:
            entry.tokens = self._count(entry.message)
        return entry.tokens

    def _asks(self, position: int) -> bool:
        """Whether a turn begins at a position: with a user message that is no result of a tool, written as text."""
        message = self.entry(position).message
        content = message.content
        return message.role == "user" and not (
            self._written and isinstance(content, str) and content.startswith(self._written)
        )

    def _is_made(self, entry: Entry) -> bool:
        content = entry.message.content
        return isinstance(content, str) and (
            content in MADE or (bool(self._written) and content.startswith(self._written))
        )


class Prefix:
    """The first messages of a list, as a source: what the list was before the rest was said.

    Example: a list of 100 messages read at each of its 50 replies -> 50 prefixes, and every message is converted and
    counted once.
    """

    def __init__(self, whole: ListSource, end: int) -> None:
        self._whole = whole
        self.begin = min(whole.begin, end)
        self.end = end

    def opening(self) -> list[Entry]:
        """The system messages at the head."""
        return [self._whole.entry(i) for i in range(self.begin)]

    def newest_first(self) -> Iterator[Entry]:
        """Entries from the end of the prefix down to `begin`."""
        return map(self._whole.entry, range(self.end - 1, self.begin - 1, -1))

    def oldest_first(self) -> Iterator[Entry]:
        """Entries from `begin` up to the end of the prefix."""
        return map(self._whole.entry, range(self.begin, self.end))

    def around(self, positions: Sequence[int]) -> list[list[Entry]]:
        """The entries of the turns in which the positions stand, as far as the prefix goes."""
        inside = [p for p in positions if p < self.end]
        return [[e for e in chunk if e.position < self.end] for chunk in self._whole.around(inside)]

    def matches(self, questions: Sequence[str], asked: int, below: int, limit: int) -> list[Match]:
        """Older messages that a question is about, among those of the prefix."""
        return self._whole.matches(questions, min(asked, self.end), below, limit)

    @property
    def turn_count(self) -> int:
        """User messages in the prefix; made ones do not count."""
        return self._whole.tally("user")[self.end - self.begin]

    @property
    def message_count(self) -> int:
        """Messages behind the opening; made ones do not count."""
        return self._whole.tally()[self.end - self.begin]

    def messages_before(self, entry: Entry) -> int:
        """Messages between the opening and this entry; made ones do not count."""
        return self._whole.tally()[entry.position - self.begin]

    @property
    def tokens_total(self) -> int:
        """Tokens of the prefix behind the opening."""
        return self._whole.running()[self.end - self.begin]

    def tokens_before(self, entry: Entry) -> int:
        """Tokens of the messages between the opening and this entry."""
        return self._whole.running()[entry.position - self.begin]


def _form_of(given: Sequence[Any], long: bool) -> str:
    """The form of a list; of a long one by its end, if that is plain."""
    form = formats.detect(given[-LOOKED_AT:]) if long else "openai"
    return formats.detect(given) if not long or form != "openai" else form


def _converter(form: str) -> Callable[[Any], Message]:
    if form == "openai":
        return from_openai
    if form == "langchain":
        from novelo.formats.langchain import from_langchain

        return from_langchain
    return _as_is


def _as_is(message: Any) -> Message:
    if not isinstance(message, Message):
        raise InvalidMessage(f"expected a message, got {type(message).__name__}")
    return message
