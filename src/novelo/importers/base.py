"""What every source of an import shares: its conversations, what it loses, and how a foreign SQLite file is read.

A foreign file is opened read-only in two ways at once (`mode=ro`, `query_only`) and read in one transaction, so that a
program that goes on writing to it changes nothing under us. Bytes in it are data only: nothing is unpickled.
"""

from __future__ import annotations

import datetime
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec

from novelo.errors import ImportFailed, NoveloError
from novelo.memory import Memory
from novelo.messages import Message
from novelo.thread import Thread

TEXTS = 200  # characters of a foreign id that a report repeats


class Loss(msgspec.Struct, frozen=True):
    """Something that did not come along, named by ids and numbers, never by what was said.

    Attributes:
        conversation: the id of its conversation at the source; "" where it belongs to none.
        what: what it is, and why it did not come.
    """

    conversation: str
    what: str

    def __str__(self) -> str:
        return f"{self.conversation[:TEXTS]}: {self.what}" if self.conversation else self.what


class Conversation(msgspec.Struct):
    """One conversation as a source has it.

    Attributes:
        id: its stable id at the source, and the id of the thread that it becomes.
        messages: n messages, oldest first.
        keys: n stable names of them within the conversation: by these a second run knows what is there already.
        times: n moments, seconds since 1970; None where the source has none.
        title, state, metadata: of the new thread.
    """

    id: str
    messages: list[Message] = []
    keys: list[str] = []
    times: list[float | None] = []
    title: str = ""
    state: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    def add(self, message: Message, key: str, time: float | None) -> None:
        """One more message."""
        self.messages.append(message)
        self.keys.append(key)
        self.times.append(time)

    def __repr__(self) -> str:
        return f"Conversation({self.id[:60]!r}, {len(self.messages)} messages)"


class Source(ABC):
    """A store of another program, opened read-only."""

    kind: str

    def __init__(self, path: str) -> None:
        self.path = path
        self.losses: list[Loss] = []

    @abstractmethod
    def ids(self) -> list[str]:
        """The ids of all conversations, the oldest first where that is known."""

    @abstractmethod
    def read(self, name: str) -> Conversation:
        """One conversation; what of it cannot come is told to `lose`."""

    def conversations(self, only: str | None = None) -> Iterator[Conversation]:
        """All conversations, or one, each read when it is asked for; one that cannot be read is a loss."""
        for name in self.ids():
            if only is None or name == only:
                try:
                    if not isinstance(name, str) or not name:  # a column of a foreign file may hold anything
                        raise ImportFailed("its id is no text")
                    found = self.read(name)
                except (NoveloError, sqlite3.Error) as error:
                    self.lose(str(name), f"cannot be read: {error}")
                    continue
                yield found

    def bring(self, memory: Memory, found: Conversation, thread: Thread, *, dry_run: bool) -> tuple[int, int] | None:
        """Bring a conversation in by means of its own: how many messages and states are new; None: it has none."""
        return None

    def lose(self, conversation: str, what: str) -> None:
        """Note what does not come along."""
        self.losses.append(Loss(conversation, what))

    def close(self) -> None:  # noqa: B027  not all have something to close
        """Let go of the source."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SQLiteSource(Source):
    """A source that is one SQLite file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.db = open_sqlite(path)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        return list(self.db.execute(statement, values))

    def tables(self) -> dict[str, list[str]]:
        """The columns of each table."""
        names = [row[0] for row in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: [row[0] for row in self.rows("SELECT name FROM pragma_table_info(?)", (name,))] for name in names}

    def expect(self, what: str, **columns: str) -> None:
        """Refuse a file that does not have some tables with some columns, given as words.

        Raises:
            ImportFailed: it is a file of something else.
        """
        there = self.tables()
        for table, names in columns.items():
            missing = [name for name in names.split() if name not in there.get(table, ())]
            if table not in there or missing:
                told = (
                    f"table {table!r} has no column {missing[0]!r}" if table in there else f"it has no table {table!r}"
                )
                self.close()
                raise ImportFailed(f"{self.path}: is no file of {what}: {told}", file=self.path)

    def close(self) -> None:
        """Close the file."""
        self.db.close()


def open_sqlite(path: str) -> sqlite3.Connection:
    """A foreign SQLite file for reading, in one transaction.

    Raises:
        ImportFailed: no such file, no SQLite database, or a write-ahead log that cannot be read without rights.
    """
    file = Path(path)
    try:
        with file.open("rb") as found:
            head = found.read(16)
    except OSError as error:
        raise ImportFailed(f"{path}: cannot be read: {error.strerror}", file=path) from error
    if head != b"SQLite format 3\0":
        raise ImportFailed(f"{path}: is no SQLite database", file=path)
    log = Path(f"{path}-wal")
    try:
        return _opened(file, "mode=ro")
    except sqlite3.Error as error:
        if _size(log):
            raise ImportFailed(
                f"{path}: has a write-ahead log that cannot be read without rights to write beside it ({error}): copy "
                f"the file and {log.name} into a folder of yours, and import the copy",
                file=path,
            ) from error
        first = error
    try:
        return _opened(file, "mode=ro&immutable=1")  # nobody has it open: there is no log
    except sqlite3.Error:
        raise ImportFailed(f"{path}: cannot be read: {first}", file=path) from first


def _opened(file: Path, how: str) -> sqlite3.Connection:
    made = sqlite3.connect(f"file:{quote(str(file.resolve()))}?{how}", uri=True, isolation_level=None)
    try:
        made.text_factory = _text
        made.execute("PRAGMA query_only = 1")
        made.execute("PRAGMA trusted_schema = 0")
        made.execute("BEGIN")
        made.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except BaseException:
        made.close()
        raise
    return made


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def moment(given: Any) -> float | None:
    """A moment of ISO 8601 as seconds since 1970, UTC where no zone is told; None if it is none."""
    if not isinstance(given, str):
        return None
    try:
        found = datetime.datetime.fromisoformat(given)
        return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
