"""A connection to a database whose content is encrypted: the shared code sees texts, the engine sees none.

It stands between the two and knows statements by their names. Which of their columns hold content is told in
`columns.py`; here is how they are hidden and revealed, and the few rows that need more than that: threads (whose owner,
id, title and tags are one hidden value, with a hash of the owner to look for), entries (whose whole row is bound to the
body), turns that move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.errors import InvalidSpec, StorageCorrupt, ThreadErased, Undecipherable
from novelo.stores.tables.connection import Row
from novelo.stores.tables.rows import Facts, over, unsealed, verify
from novelo.stores.vaults.ciphers import MARK, TEXT_MARK, ThreadKey, bytes_of, version_of
from novelo.stores.vaults.columns import (
    BYTES,
    CLEAR,
    DOCUMENTS,
    FREE,
    NAME,
    QUOTING,
    RULES,
    TEXT,
    Column,
    Rule,
)  # fmt: skip
from novelo.stores.vaults.guard import GuardedConnection

if TYPE_CHECKING:
    from novelo.stores.vaults.encrypted import EncryptedDatabase

OWNER, THREAD_ID, EPOCH, STATUS, TITLE, TAGS, METADATA, STATE = 1, 2, 7, 12, 13, 14, 15, 16  # of a thread's row
LOOKING = ("turn_by_key", "position_of_id", "positions_of_id", "value_by_hash")  # nothing is found of no thread
FENCED = ("append", "keep_draft")  # behind the thread's epoch, in a transaction that reads no row of it
NAMED = "-"  # in place of a thread's id: there is one
_PACK = msgspec.msgpack.Encoder().encode


class Cipher(GuardedConnection):
    """A connection that was lent out."""

    _guard: EncryptedDatabase

    def __init__(self, inner: Any, guard: EncryptedDatabase) -> None:
        super().__init__(inner, guard)
        self.known: dict[
            bytes, tuple[int, int]
        ] = {}  # epoch, and version of the key, of threads whose row was read here

    def run(self, name: str, args: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a statement, revealed; what it takes is hidden first."""
        rule = RULES.get(name)
        if rule is not None:
            if name in FENCED:
                self._recall(args[0])
            if rule.takes or rule.owner is not None:
                try:
                    args = self._hidden(rule, args)
                except ThreadErased:
                    if name in LOOKING:
                        return iter(())
                    raise
            rows: Iterator[Row] = self._inner.run(name, args)
            return map(self._revealing(rule, args), rows) if rule.gives or rule.names else rows
        if name in FREE or name in DOCUMENTS or (name in CLEAR and self._guard.documents):
            return self._inner.run(name, args)  # type: ignore[no-any-return]
        by_hand = _BY_HAND.get(name)
        if by_hand is not None:
            return by_hand(self, name, args)
        if name in QUOTING:
            return self._quoting(name, args)
        if name in CLEAR:
            raise InvalidSpec(
                "collections of documents are not encrypted, and this memory is: keep them in another database, or "
                "open this one with clear_documents=True"
            )
        raise InvalidSpec(f"{name}: an encrypted memory does not say what this statement stores")

    def threads(self, owner: str | None, cursor: tuple[float, bytes] | None) -> Iterator[Row]:
        """Rows of an owner's threads, or of all."""
        found = self._inner.threads(None if owner is None else self._guard.keyring.owner(owner), cursor)
        return map(self._thread, found)

    # ------------------------------------------------------------------------------------------ keys
    def _key(self, thread: bytes) -> ThreadKey:
        """The key that a thread is written with, as its row says."""
        if thread not in self.known:
            row = next(iter(self._inner.run("ancestor", (thread,))), None)
            if row is None or row[METADATA] is None:
                raise ThreadErased("the thread was erased; nothing was stored")
            self._thread(row)
            if thread not in self.known:
                raise Undecipherable(f"thread {thread.hex()} was erased: its key was destroyed", destroyed=True)
        return self._guard.keyring.get(thread, self.known[thread][1])

    def _recall(self, thread: bytes) -> None:
        """The key as this process knows it, for a transaction that reads no row of the thread: its epoch fences it."""
        version = self._guard.keyring.current(thread)
        if thread not in self.known and version is not None:
            self.known[thread] = (-1, version)

    def _version(self, row: Row) -> int:
        return version_of(row[METADATA], "threads.metadata", row[0]) if row[METADATA] is not None else 0

    # ------------------------------------------------------------------------------------------ columns
    def _hidden(self, rule: Rule, args: Sequence[Any]) -> list[Any]:
        out = list(args)
        if rule.owner is not None and out[rule.owner] is not None:
            out[rule.owner] = self._guard.keyring.owner(out[rule.owner])
        if not rule.takes:
            return out
        thread = args[0]
        for column in rule.takes:
            value = out[column.at]
            if value is not None and value not in (b"", ""):  # nothing at all says nothing: a vector of no bytes
                key = self._key(thread)
                out[column.at] = self._hide(key, column, value, [out[i] for i in column.place])
        if rule.taken is not None:
            kind, first, stop, at, _ = rule.taken
            out[at] = over(kind, thread, *out[first:stop])
        return out

    def _hide(self, key: ThreadKey, column: Column, value: Any, place: list[Any]) -> Any:
        if column.form == BYTES:
            return key.hide(value, column.name, *place)
        if column.form == TEXT:
            return key.hide_text(value, column.name, *place)
        return key.name(value, column.name) if column.form == NAME else key.mark(value, column.name)

    def _revealing(self, rule: Rule, args: Sequence[Any]) -> Callable[[Row], Row]:
        """What reveals the rows of a statement that ran with some arguments."""

        def reveal(row: Row) -> Row:
            thread = bytes(row[rule.thread] if rule.thread >= 0 else args[~rule.thread])
            out = list(row)
            if rule.given is not None:
                kind, first, stop, at, before = rule.given
                verify(row[at], kind, thread, *(args[i] for i in before), *row[first:stop])
                out[at] = True
            version = _version_in(row, rule)
            for column in rule.gives:
                value = row[column.at]
                if value is None or value in (b"", ""):
                    continue
                place = [row[i] if i >= 0 else args[~i] for i in column.place]
                out[column.at] = self._reveal(thread, column, value, place, version)
            for at, what in rule.names:
                if row[at]:  # an erased thread has no name
                    out[at] = getattr(self._facts(thread), what)
            return tuple(out)

        return reveal

    def _reveal(self, thread: bytes, column: Column, value: Any, place: list[Any], version: int | None = None) -> Any:
        """What a column says.

        Args:
            version: of the key of another column of the row, for names, which do not tell theirs.
        """
        if self._is_plain(value):
            return value
        if column.form == BYTES:
            version = version_of(value, column.name, thread)
            return self._guard.keyring.get(thread, version).reveal(value, column.name, *place)
        if column.form == TEXT:
            version = version_of(bytes_of(value), column.name, thread)
            return self._guard.keyring.get(thread, version).reveal_text(value, column.name, *place)
        key = self._key(thread) if version is None else self._guard.keyring.get(thread, version)
        return key.named(value, column.name) if column.form == NAME else key.marked(value, column.name)

    def _is_plain(self, value: Any) -> bool:
        """Whether a value that is not encrypted passes; in strict mode none does."""
        if self._guard.strict:
            return False
        return not value.startswith(MARK if isinstance(value, bytes) else TEXT_MARK)

    def _facts(self, thread: bytes) -> Facts:
        """A thread's names; its key is a hash of them, so that they never change."""
        known = self._guard.names.get(thread)
        if known is None:
            row = next(iter(self._inner.run("ancestor", (thread,))), None)
            if row is None:
                raise StorageCorrupt(f"the row of thread {thread.hex()} is missing: restore a backup")
            known = self._guard.names[thread] = self._thread_facts(row)[0]
            if len(self._guard.names) > 10_000:
                self._guard.names.pop(next(iter(self._guard.names)))
        return known

    # ------------------------------------------------------------------------------------------ threads
    def _thread_facts(self, row: Row) -> tuple[Facts, bytes | None]:
        """The texts of a thread's row, and the same as they are stored under a seal."""
        thread, blob = bytes(row[0]), row[METADATA]
        if blob is None:
            if row[STATUS] != "erased":
                raise Undecipherable(f"the names of thread {thread.hex()} were taken out: restore a backup")
            return Facts(), None
        if self._is_plain(blob):
            return msgspec.json.decode(unsealed(thread, "facts", blob), type=Facts), blob
        version = version_of(blob, "threads.metadata", thread)
        try:
            key = self._guard.keyring.get(thread, version)
        except Undecipherable as error:
            if self._guard.replaying and getattr(error, "destroyed", False):
                return Facts(), None
            raise
        sealed = key.reveal(blob, "threads.metadata")
        self.known[thread] = (row[EPOCH], version)
        facts = msgspec.json.decode(unsealed(thread, "facts", sealed), type=Facts)
        if (row[OWNER], *row[TITLE : TAGS + 1]) != (self._guard.keyring.owner(facts.owner), "", "[]"):
            raise Undecipherable(f"the names of thread {thread.hex()} were altered outside of novelo: restore a backup")
        return facts, sealed

    def _thread(self, row: Row) -> Row:
        thread = bytes(row[0])
        try:
            facts, sealed = self._thread_facts(row)
            out = list(row)
            out[OWNER], out[THREAD_ID], out[TITLE] = facts.owner, facts.thread_id, facts.title
            out[TAGS] = msgspec.json.encode(facts.tags).decode()
            out[METADATA] = sealed
            if sealed is None:
                out[STATE] = None
            elif row[STATE] is not None:
                out[STATE] = self._reveal(thread, _STATE, row[STATE], [])
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise Undecipherable(f"the names of thread {thread.hex()} were altered: restore a backup") from error
        return tuple(out)

    def _threads_rows(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        return map(self._thread, self._inner.run(name, args))

    def _standing(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """Threads that retention may take; one that cannot be revealed is told of as one that was altered."""
        for row in self._inner.run(name, args):
            try:
                yield self._thread(row)
            except Undecipherable:
                yield row

    def _new_thread(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        thread, owner, _, now, metadata = args
        key = self._begin(thread)
        values = (
            thread, self._guard.keyring.owner(owner), NAMED, now, key.hide(metadata, "threads.metadata")
        )  # fmt: skip
        return self._inner.run(name, values)  # type: ignore[no-any-return]

    def _begin(self, thread: bytes) -> ThreadKey:
        """A new key; what is read of the thread's row behind it counts more: another one may have been quicker."""
        key = self._guard.keyring.begin(thread)
        self.known[thread] = (-1, key.version)
        return key

    def _fork(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        out = list(args)
        key = self._begin(args[0])
        out[1], out[2] = self._guard.keyring.owner(args[1]), NAMED
        out[7], out[8], out[9] = "", "[]", key.hide(args[9], "threads.metadata")
        if args[10] is not None:
            out[10] = key.hide(args[10], "threads.state")
        return self._inner.run(name, out)  # type: ignore[no-any-return]

    def _set_facts(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        thread, _, _, metadata, state, status, now = args
        key = self._key(thread)
        hidden = None if state is None else key.hide(state, "threads.state")
        values = (thread, "", "[]", key.hide(metadata, "threads.metadata"), hidden, status, now)
        return self._inner.run(name, values)  # type: ignore[no-any-return]

    def _noted(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        return super().run(name, args)

    # ------------------------------------------------------------------------------------------ entries
    def _entry(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        return self._inner.run(name, self._hidden_entry(args))  # type: ignore[no-any-return]

    def _hidden_entry(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """A whole row of an entry as it is stored: its body is bound to all other columns."""
        thread, position, turn, role, tokens, running, created, name, body, _ = args
        key = self._key(thread)
        name = None if name is None else key.name(name, "entries.id")
        about = (position, turn, role, tokens, running, created, name)
        if body is not None:
            body = key.hide(body, "entries.body", *about)
        return (thread, *about, body, _seal(key, about, body))

    def _set_body(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        thread, position, body, _, called = args
        row = next(iter(self._inner.run("entry_at", (thread, position))))
        hidden = self._hidden_entry((thread, *row[:6], called, body, None))
        values = (thread, position, hidden[8], hidden[9], hidden[7])
        self._note_entry(thread, position, body)
        return self._inner.run(name, values)  # type: ignore[no-any-return]

    def print_key(self, thread: bytes) -> bytes:
        """The thread's data key counts too: when that is destroyed, its fingerprints tell nobody anything."""
        return blake2b(super().print_key(thread), key=self._key(thread).print_key, digest_size=32).digest()

    def _entries(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        thread = bytes(args[0])
        return (self._read_entry(thread, row) for row in self._inner.run(name, args))

    def _read_entry(self, thread: bytes, row: Row) -> Row:
        position, turn, role, tokens, running, created, name, body, found = row
        about = (position, turn, role, tokens, running, created, name)
        try:
            if body is None:
                key = self._key(thread)
                if found != _seal(key, about, None):
                    raise Undecipherable(f"entry {position} of thread {thread.hex()} was altered: restore a backup")
                return (*about, None, True)
            if self._is_plain(body):
                return row
            key = self._guard.keyring.get(thread, version_of(body, "entries.body", thread))
            body = key.reveal(body, "entries.body", *about)
        except Undecipherable as error:
            if self._guard.replaying and getattr(error, "destroyed", False):
                return (*about[:6], None, None, True)
            raise Undecipherable(str(error), position=position) from None
        return (*about[:6], None if name is None else key.named(name, "entries.id"), body, True)

    # ------------------------------------------------------------------------------------------ turns, vectors
    def _move_turn(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """What a turn has hidden is bound to its place, and is hidden anew for the next one."""
        thread, first, to = args[:3]
        rule = RULES["turn"]
        stored = next(iter(self._inner.run("turn", (thread, first))), None)
        done = iter(list(self._inner.run(name, args)))
        if stored is not None:
            row = self._revealing(rule, (thread, first))(stored)
            key, request, manifest = self._key(thread), row[7], row[9]
            if request is not None:
                request = key.hide(request, "turns.request", to, stored[6])
            if manifest is not None:
                manifest = key.hide(manifest, "turns.manifest", to)
            self._inner.run("set_turn", (thread, to, request, manifest))
        return done

    def _move_vectors(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """Another thread takes vectors over, and has another key."""
        thread, start, stop, to = args
        self._kept.add(thread)
        for model, position, vector in list(self._inner.run("vectors_between", (thread, start, stop))):
            plain = self._reveal(thread, _VECTOR, vector, [model, position]) if vector else vector
            self.run("put_vector", (to, model, position, plain))
        return self._inner.run("drop_vectors", (thread, start, stop))  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------------ compare and set
    def _shorten(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """A checkpoint's body in place of another: they are compared by what they say, as no cipher comes twice."""
        thread, ns, number, body, former = args
        stored = next(iter(self._inner.run("by_number", (thread, ns, number))), None)
        return self._in_place_of(name, _BODY, stored, (thread, ns, number), body, former)

    def _shorten_write(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """The same of what a task wrote."""
        thread, ns, number, task, path, body, former, _ = args
        found = next(iter(self._inner.run("written_by", (thread, ns, number, task))), None)
        stored = None if found is None else (*found[:2], None, None, None, None, None, None, found[2])
        return self._in_place_of(name, _WROTE, stored, (thread, ns, number, task, path), body, former)

    def _in_place_of(
        self, name: str, column: Column, stored: Row | None, at: tuple[Any, ...], body: bytes, former: bytes
    ) -> Iterator[Row]:
        if stored is None:
            return iter(())
        place = [at[i] for i in column.place]
        if self._reveal(at[0], column, stored[8], place) != former:
            return iter(())
        hidden = self._hide(self._key(at[0]), column, body, place)
        seal = () if column is _BODY else (over("checkpoint writes", *at, hidden),)
        return self._inner.run(name, (*at, hidden, stored[8], *seal))  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------------ looking inside
    def _quoting(self, name: str, args: Sequence[Any]) -> Iterator[Row]:
        """Rows whose hidden bytes hold one of some signs."""
        statement, rule, signs, at, given = QUOTING[name]
        wanted = [s.encode() if isinstance(s, str) else bytes(s) for s in (args[i] for i in signs)]
        everything = ["" if i in signs else value for i, value in enumerate(args)]  # nothing at all is in every text
        args = everything if statement == name else args[:1]
        rows = map(self._revealing(rule, args), list(self._inner.run(statement, args)))
        return (tuple(row[i] for i in given) for row in rows if row[at] and any(sign in row[at] for sign in wanted))


_BODY = Column(8, "checkpoints.body", BYTES, (1, 2))
_WROTE = Column(8, "checkpoint_writes.body", BYTES, (1, 2, 3))
_STATE, _VECTOR = Column(STATE, "threads.state"), Column(2, "vectors.vector")
_BY_HAND: dict[str, Callable[[Cipher, str, Sequence[Any]], Iterator[Row]]] = {
    **dict.fromkeys(("thread", "ancestor"), Cipher._threads_rows),
    **dict.fromkeys(("tail", "range", "entry_at"), Cipher._entries),
    "standing": Cipher._standing,
    "shorten": Cipher._shorten,
    "shorten_write": Cipher._shorten_write,
    "new_thread": Cipher._new_thread,
    "fork": Cipher._fork,
    "set_facts": Cipher._set_facts,
    **dict.fromkeys(("erased", "act"), Cipher._noted),
    "entry": Cipher._entry,
    "set_body": Cipher._set_body,
    "move_turn": Cipher._move_turn,
    "move_vectors": Cipher._move_vectors,
}


def _version_in(row: Row, rule: Rule) -> int | None:
    """The version of the key that a row was written with, of a column that tells."""
    for column in rule.gives:
        if column.form == BYTES and isinstance(row[column.at], bytes) and row[column.at][:2] == MARK:
            return version_of(row[column.at], column.name, b"")
    return None


def _seal(key: ThreadKey, about: tuple[Any, ...], body: bytes | None) -> bytes:
    """Eight bytes over an entry's row that nobody makes without its key: that it was deleted cannot be feigned."""
    return blake2b(_PACK((key.thread, about, body)), key=key.seal_key, digest_size=8).digest()
