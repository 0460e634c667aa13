"""The vault: what must not lie in the database, nor in its backups. The ledger of erasures, and the threads' keys.

A backup that is restored brings back what was erased since. So each erasure is noted in a place of its own, by the
thread's key (a hash) and nothing that was said, and made again on a database before it serves (`replay.py`). What a
pattern masked is noted by keyed hashes of it (`prints.py`), and by the act in the database's audit that tells of it: a
database that has the act had the masks put on, and what was said in it since is none of their business.
With encryption the vault also holds each thread's data key, wrapped by a key that lies in neither place; when a thread
is erased its data key is destroyed, and no copy of the database can be read any more where that thread is concerned.

The order in which things are made durable, and what a crash between two of them leaves:

1. the note of an erasure, before the erasure's own transaction commits. A crash behind it leaves a note of an erasure
   that somebody asked for and nobody was told the end of: it is completed when the database is opened again. A note
   *after* the commit would be lost with the crash, and a backup from before would bring the thread back for good.
2. the erasure itself. If the transaction is rolled back while we live, the note is withdrawn by another note.
3. the data key goes. A crash before it leaves a key without a thread; opening the database destroys it.

A new thread goes the other way: its data key is durable in the vault before anything that it encrypts is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from novelo.errors import StorageCorrupt

SCHEMA = 1
# Kinds of notes.
THREAD, KEPT, ENTRY, COLLECTION, WITHDRAWN = "thread", "thread, forks kept", "entry", "collection", "withdrawn"
PATTERN = "pattern"
LINK = 32  # bytes of an act's link in the chain of the audit
PAGE = 500  # keys that are rewrapped in one transaction

Ask = Callable[..., "list[tuple[Any, ...]]"]


class Erased(NamedTuple):
    """One note of the ledger.

    `key` is the thread's, `kind` what was erased (a `THREAD`, one whose forks `KEPT` what they shared with it, the
    content of one `ENTRY`, what a `PATTERN` matched, a `COLLECTION` of documents), `moment` when, in seconds.
    `born` is the moment the erased thread was made at, so that a later thread of the same id is not taken for it; 0 if
    that is not known. `version` is that of its data key, 0 without encryption. `place` is the position of an entry, and
    `mark` tells what stands there instead, nothing where it was deleted. Of a pattern `place` is the number of the act,
    and `mark` its link in the audit's chain (`LINK` bytes) with the fingerprints behind it.
    """

    number: int
    key: bytes
    kind: str
    moment: float
    born: float = 0.0
    version: int = 0
    place: int = -1
    mark: bytes = b""

    def means(self, created: float) -> bool:
        """Whether a thread that was made at a moment is the one that was erased, and no later one of the same id."""
        return created == self.born if self.born else created <= self.moment


class Wrapped(NamedTuple):
    """A data key as it lies in the vault: `wrapper` names the key that it is wrapped by; destroyed ones are empty."""

    thread: bytes
    version: int
    wrapper: str
    wrapped: bytes


class Place(Protocol):
    """Where a vault lies: a file, or a schema of a PostgreSQL database."""

    @property
    def name(self) -> str:
        """Where, for errors; never a password."""
        ...

    def transaction(self) -> AbstractContextManager[Ask]:
        """Statements in one durable transaction, one of all writers at a time: `ask(sql, *values) -> rows`."""
        ...

    def scrub(self) -> None:
        """What was overwritten is left in no file, as far as that can be done from here."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class Vault:
    """The ledger of erasures and the wrapped keys of one database's threads. Safe to use from several threads."""

    def __init__(self, place: Place) -> None:
        """Of a place that is ready; use `open_vault`."""
        self._place = place
        with place.transaction() as ask:
            found: dict[str, bytes] = dict(ask("SELECT name, value FROM facts"))
        if found.get("schema") != str(SCHEMA).encode():
            raise StorageCorrupt(f"the vault at {place.name} is none of this version: restore it, or upgrade novelo")
        self.id: bytes = bytes(found["id"])

    def __repr__(self) -> str:
        return f"Vault({self._place.name})"

    @property
    def name(self) -> str:
        """Where it lies; never a password."""
        return self._place.name

    def close(self) -> None:
        """Close its connections."""
        self._place.close()

    # ------------------------------------------------------------------------------------------ the ledger
    def note_erased(
        self,
        key: bytes,
        kind: str = THREAD,
        now: float = 0.0,
        *,
        born: float = 0.0,
        version: int = 0,
        place: int = -1,
        mark: bytes = b"",
    ) -> int:
        """Note an erasure, durably, before its own transaction commits; the number of the note.

        A memory that was opened with a vault does this by itself for whatever erases in it.
        """
        return self.note([Erased(0, key, kind, now, born, version, place, mark)])[0]

    def note(self, what: Sequence[Erased]) -> list[int]:
        """Note several at once; their numbers."""
        with self._place.transaction() as ask:
            number = _last(ask)
            for one in what:
                number += 1
                ask("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)", number, *one[1:])
        return list(range(number - len(what) + 1, number + 1))

    def withdraw(self, numbers: Sequence[int], now: float) -> None:
        """The transaction of some notes was rolled back, and whoever asked for it knows."""
        self.note([Erased(0, b"", WITHDRAWN, now, place=number) for number in numbers])

    def erased(self, after: int = 0) -> list[Erased]:
        """The notes behind a number, without those that were withdrawn, in order."""
        with self._place.transaction() as ask:
            rows = [_erased(row) for row in ask("SELECT * FROM ledger WHERE number > ? ORDER BY number", after)]
        gone = {row.place for row in rows if row.kind == WITHDRAWN}
        return [row for row in rows if row.kind != WITHDRAWN and row.number not in gone]

    def last(self) -> int:
        """The number of the newest note; 0 if there is none."""
        with self._place.transaction() as ask:
            return _last(ask)

    # ------------------------------------------------------------------------------------------ keys
    def new_key(self, thread: bytes, now: float, wrap: Callable[[int], tuple[str, bytes]]) -> int:
        """Keep a new data key for a thread, durably; its version, which no key of the thread had before.

        Args:
            wrap: from the version to the name of the wrapping key, and the wrapped one.
        """
        with self._place.transaction() as ask:
            version = int(ask("SELECT coalesce(max(version), 0) FROM keys WHERE thread = ?", thread)[0][0]) + 1
            ask("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", thread, version, *wrap(version), now)
        return version

    def key(self, thread: bytes, version: int) -> Wrapped | None:
        """A thread's wrapped data key; an empty one was destroyed, None was never there."""
        with self._place.transaction() as ask:
            rows = ask(_KEY, thread, version)
        return _wrapped(rows[0]) if rows else None

    def destroy(self, thread: bytes, version: int) -> bool:
        """Destroy a data key of a thread, for good; False if there was none any more.

        No other version is touched: a writer of another process may be about to begin the thread anew with one.
        """
        with self._place.transaction() as ask:
            found = ask(_KEY, thread, version)
            there = bool(found and found[0][3])
            if there:
                ask("UPDATE keys SET wrapped = ? WHERE thread = ? AND version = ?", b"", thread, version)
        if there:
            self._place.scrub()
        return there

    def keys(self) -> dict[str, int]:
        """How many living data keys each wrapping key wraps."""
        with self._place.transaction() as ask:
            return dict(ask("SELECT wrapper, count(*) FROM keys WHERE wrapped <> ? GROUP BY wrapper", b""))

    def rewrap(self, wrapper: str, again: Callable[[Wrapped], bytes]) -> int:
        """Wrap some keys anew that another key wraps, in one transaction; how many. The key of no thread comes last.

        Args:
            wrapper: the name of the new wrapping key.
            again: from a key as it lies there to one that is wrapped by the new key.
        """
        with self._place.transaction() as ask:
            rows = ask(_OTHERS, wrapper, b"", PAGE)
            for row in map(_wrapped, rows):
                values = (again(row), wrapper, row.thread, row.version)
                ask("UPDATE keys SET wrapped = ?, wrapper = ? WHERE thread = ? AND version = ?", *values)
        if rows:
            self._place.scrub()
        return len(rows)

    # ------------------------------------------------------------------------------------------ facts
    def fact(self, name: str) -> bytes | None:
        """A fact by its name."""
        with self._place.transaction() as ask:
            rows = ask("SELECT value FROM facts WHERE name = ?", name)
        return bytes(rows[0][0]) if rows else None

    def settle(self, name: str, value: bytes) -> bytes:
        """A fact that is set once: the value that stands there, which is this one if there was none."""
        with self._place.transaction() as ask:
            rows = ask("SELECT value FROM facts WHERE name = ?", name)
            if not rows:
                ask("INSERT INTO facts VALUES (?, ?)", name, value)
        return bytes(rows[0][0]) if rows else value


_KEY = "SELECT thread, version, wrapper, wrapped FROM keys WHERE thread = ? AND version = ?"
_OTHERS = (
    "SELECT thread, version, wrapper, wrapped FROM keys WHERE wrapper <> ? AND wrapped <> ?"
    " ORDER BY thread DESC, version LIMIT ?"
)


def _last(ask: Ask) -> int:
    return int(ask("SELECT coalesce(max(number), 0) FROM ledger")[0][0])


def _erased(row: tuple[Any, ...]) -> Erased:
    number, key, kind, moment, born, version, place, mark = row
    return Erased(number, bytes(key), kind, moment, born, version, place, bytes(mark))


def _wrapped(row: tuple[Any, ...]) -> Wrapped:
    return Wrapped(bytes(row[0]), row[1], row[2], bytes(row[3]))
