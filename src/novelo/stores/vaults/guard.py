"""A database that has a vault: what erases in it is noted there, in the order that `base.py` tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from typing import Any, TypeVar

from novelo.errors import StorageUnavailable, StoreError
from novelo.pattern import Piece
from novelo.stores.tables.connection import Index, Row
from novelo.stores.vaults.base import ENTRY, KEPT, PATTERN, THREAD, Erased, Vault
from novelo.stores.vaults.prints import fingerprints

T = TypeVar("T")
CREATED = 24  # where a thread's row says when it was made


class GuardedConnection:
    """A connection that was lent out; what erases on it is remembered until the transaction ends."""

    guarded = True

    def __init__(self, inner: Any, guard: GuardedDatabase) -> None:
        self._inner, self._guard = inner, guard
        self.notes: list[Erased] = []
        self._kept: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, name: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a statement."""
        if name == "erased":
            self._note(args[0], KEPT if args[0] in self._kept else THREAD, args[1])
        elif name == "move_vectors":  # a fork takes over what it shared
            self._kept.add(args[0])
        elif name == "set_body":
            self._note_entry(*args[:3])
        elif name == "act":
            self._note_act(args[0], args[-1])
        rows: Iterator[Row] = self._inner.run(name, args)
        return rows

    def masked(self, keys: Iterable[bytes], found: Collection[Piece]) -> None:
        """A pattern took something out of threads; the act that tells of it follows."""
        for key in () if self._guard.replaying else keys:
            self._note(key, PATTERN, time.time(), mark=fingerprints(found, self.print_key(key)))

    def print_key(self, thread: bytes) -> bytes:
        """What is hashed with of what a thread says: neither the vault nor the database tells it alone."""
        return blake2b(thread, key=self._guard.secret, digest_size=32, person=b"said").digest()

    def mark(self, thread: bytes, position: int, body: bytes) -> bytes:
        """What the ledger says of an entry that was masked: a hash that tells nothing of the text."""
        return blake2b(b"%d " % position + body, key=self.print_key(thread), digest_size=8).digest()

    def _note_entry(self, key: bytes, position: int, body: bytes | None) -> None:
        mark = b"" if body is None else self.mark(key, position, body)
        self._note(key, ENTRY, time.time(), position, mark)

    def _note_act(self, number: int, link: bytes) -> None:
        """The act of what was masked: its link in the chain tells it from an act of the same number in a copy."""
        for at, note in enumerate(self.notes):
            if note.kind == PATTERN and note.place < 0:
                self.notes[at] = note._replace(place=number, mark=link + note.mark)

    def _note(self, key: bytes, kind: str, now: float, place: int = -1, mark: bytes = b"") -> None:
        row = next(iter(self._inner.run("ancestor", (key,))), None)
        if row is not None:
            self.notes.append(Erased(0, key, kind, now, row[CREATED], self._version(row), place, mark))

    def _version(self, row: Row) -> int:
        """The version of the data key of a thread's row; 0 without encryption."""
        return 0


class GuardedDatabase:
    """See `tables/connection.py`; everything else is the database's that it stands before."""

    connection: Any = GuardedConnection

    def __init__(self, inner: Any, vault: Vault) -> None:
        self.inner, self.vault = inner, vault
        self.replaying = False
        self._secret = bytes(inner.secret)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r}, {self.vault!r})"

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        return bool(self.inner.read_only)

    @property
    def secret(self) -> bytes:
        """What threads' keys are made with; with encryption the database alone does not tell."""
        return self._secret

    def index(self, secret: bytes, on: bool) -> Index:
        """The search index."""
        made: Index = self.inner.index(secret, on)
        return made

    def of(self, owner: str, word: str) -> GuardedDatabase:
        """The same before a database that names an owner to its server in each transaction."""
        made: GuardedDatabase = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.inner = self.inner.of(owner, word)
        return made

    # ------------------------------------------------------------------------------------------ lending
    @contextmanager
    def reading(self) -> Iterator[Any]:
        """A connection."""
        with self.inner.reading() as connection:
            guarded = type(self).connection(connection, self)
            yield guarded
            self.seen(guarded)

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that this thread of execution reads inside sees one state of the database."""
        found: AbstractContextManager[None] = self.inner.snapshot()
        return found

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """A connection inside a transaction; what it erases is noted before it commits."""
        numbers: list[int] = []
        notes: list[Erased] = []
        try:
            with self.inner.writing() as connection:
                guarded = type(self).connection(connection, self)
                yield guarded
                # A masked entry is compared with what the mask makes of it, so that the mask comes first.
                notes = [] if self.replaying else sorted(guarded.notes, key=lambda note: note.kind != PATTERN)
                if notes:
                    numbers = self.vault.note(notes)
        except StoreError as error:
            # Where the connection broke in the middle of the commit nobody knows what became of it: the note stays, and
            # the erasure, which was asked for, is completed when the database is opened again.
            if numbers and type(error) is not StorageUnavailable:
                with suppress(StoreError):
                    self.vault.withdraw(numbers, time.time())
            raise
        self.seen(guarded)
        if notes:
            self.committed(notes)

    def seen(self, connection: Any) -> None:
        """What was read and written on a connection stands."""

    def committed(self, notes: Sequence[Erased]) -> None:
        """An erasure is done."""

    # ------------------------------------------------------------------------------------------ the rest
    def with_room(self, work: Callable[[], T], smaller: Callable[[], T] | None = None) -> T:
        """Do work that must pass on a full disk too."""
        done: T = self.inner.with_room(work, smaller)
        return done

    def scrub(self) -> bool:
        """Nothing of what was removed is left in any file; False if a reader is in the way."""
        return bool(self.inner.scrub())

    def close(self) -> None:
        """Close all connections, those of the vault too."""
        self.inner.close()
        self.vault.close()
