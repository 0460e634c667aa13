"""What changes a thread outside of turns: facts, pins, hiding, deletion. Forks and erasure stand in `forks.py`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, UnknownEntry
from novelo.messages import Message, encode
from novelo.pattern import remembering
from novelo.stores.base import Changed, NewEntry, Note, Receipt, ThreadRow
from novelo.stores.privacy import NOBODY, Gone
from novelo.stores.rules import (
    QUOTING,
    checked_facts,
    checked_positions,
    clamped,
    merged,
    without,
    without_quotes,
)
from novelo.stores.tables.audited import Audited, act, guarded, masked_in, unguarded
from novelo.stores.tables.checkpoint_rows import forget
from novelo.stores.tables.connection import Connection, Row
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.masking import mask_thread
from novelo.stores.tables.rows import Facts, from_row, seal, sealed, to_row, unsealed
from novelo.stores.tables.walk import hidden_between

LATELY = (5000, 60.0)  # how many, and for how many seconds: a graph's background writes come within moments
TABLES = (
    "entries", "turns", "calls", "pins", "hidden", "summaries", "work", "checkpoints", "checkpoint_writes",
    "checkpoint_values", "vectors", "retention",
)  # fmt: skip


class Changes(Audited):
    """The changing half of a store over tables."""

    def _ensure(
        self, db: Connection, key: bytes, names: tuple[str, str], now: float, there: Iterator[Row] | None = None
    ) -> tuple[ThreadRow, dict[str, Any], float]:
        found = self.known(db, key, there)
        if found is None or found[0].status == "erased":
            if found is not None:
                self._clear(db, key)
            db.run("new_thread", (key, *names, now, facts_of(key, Facts(*names))))
            db.run("reseal", (key,))
            facts = [] if guarded(db) else db.run("vault_facts")  # goes along with what is asked next
            found = thread_row(db, key)
            unguarded(db, "encrypted", facts)
        assert found is not None
        return found

    @cached_property
    def replaced(self) -> Lately:
        """What this process has masked or removed lately.

        A checkpoint that is still on its way to the disk must not bring it back.
        """
        return Lately()

    def _clear(self, db: Connection, key: bytes) -> None:
        """What an erasure on a full disk has left goes before a new thread takes the place."""
        name = left_over(key)
        if next(iter(db.run("is_left_over", (name,))), None) is not None:
            self._remove(db, key)
            db.run("none_left_over", (name,))

    def _remove(self, db: Connection, key: bytes, most: int | None = None) -> dict[str, int]:
        """Take all rows of a thread out, or so many of each table; how many went."""
        rows = {"search": self.index.remove(db, key, most=most)}
        return rows | {table: db.remove(table, key, most) for table in TABLES}

    def set_facts(self, key: bytes, names: tuple[str, str], now: float, **facts: Any) -> None:
        """Set title, tags, metadata, state or status; `patch` sets single keys of the state, `without` removes one."""
        facts = checked_facts(facts)
        with self.database.writing() as db:
            thread, state, _ = self._ensure(db, key, names, now)
            gone, patch = facts.get("without"), facts.get("patch", {})
            state = {k: v for k, v in facts.get("state", state).items() if k != gone} | patch
            title, tags = facts.get("title", thread.title), facts.get("tags", thread.tags)
            texts = Facts(thread.owner, thread.thread_id, title, tags, facts.get("metadata", thread.metadata))
            packed = sealed(key, "state", data(state)) if state else None
            status = facts.get("status", thread.status)
            db.run("set_facts", (key, title, json_text(tags), facts_of(key, texts), packed, status, now))
            db.run("reseal", (key,))

    def pin(self, key: bytes, positions: Sequence[int], on: bool) -> None:
        """Pin or unpin positions."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                raise UnknownEntry("there is no such thread")
            for position in checked_positions(positions, found[0].head):
                db.run("pin" if on else "unpin", (key, position))
            db.run("mark_pinned", (key,))
            db.run("reseal", (key,))

    def hide(self, key: bytes, ranges: Sequence[tuple[int, int]], on: bool, now: float) -> None:
        """Take half-open ranges out of contexts, or back in."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                raise UnknownEntry("there is no such thread")
            self._hide(db, key, clamped(ranges, found[0].head), now, on)

    def _hide(self, db: Connection, key: bytes, ranges: Sequence[tuple[int, int]], now: float, on: bool = True) -> None:
        for start, stop in ranges:
            # what touches it is taken out, and comes back in one piece with it, or without it
            old = hidden_between(db, key, start - 1, stop + 1)
            for piece in old:
                db.run("show_range", (key, piece[0]))
            for piece in merged([*old, (start, stop)]) if on else without(old, [(start, stop)]):
                db.run("hide_range", (key, *piece))
            self._drop_vectors(db, key, start, stop)
        db.run("mark_hidden", (key, now))
        db.run("reseal", (key,))
        if ranges:
            self._changed_below(db, key, min(start for start, _ in ranges), drop=False)

    def rewrite(
        self,
        thread: ThreadRow,
        bodies: dict[int, NewEntry | None],
        now: float,
        *,
        note: Note = NOBODY,
        mask: Callable[[str], str] | None = None,
    ) -> Changed:
        """Replace entries' bodies, or remove them; an entry shared with a fork changes for both."""
        return self.database.with_room(lambda: self._rewrite(thread, bodies, now, note, mask))

    def _rewrite(
        self,
        thread: ThreadRow,
        bodies: dict[int, NewEntry | None],
        now: float,
        note: Note,
        mask: Callable[[str], str] | None,
    ) -> Changed:
        counts: Counter[str] = Counter()
        kind = "messages" if mask is None else "pattern"
        with self.database.writing() as db:
            holders = {position: self.holder_of(db, thread, position) for position in bodies}
            family = self._sharers(db, thread.key, holders)
            self._free(db, family.values())
            changed = self._set_bodies(db, holders, bodies, counts)
            for key, words in changed.items():
                self._reindex(db, key, words, counts)
                self._content_changed(db, key, min(words), counts)
            if mask is not None:
                mask = remembering(mask)
                for key in family:
                    mask_thread(self, db, key, mask, counts)
                masked_in(db, family, mask.found)
            number = 0
            if counts.total():
                db.run("used", (thread.key, now))
                self._tell_changed(holders, kind, now, family)
                number = act(db, self._secret, now, note, kind, thread.key, counts)
        receipt = Receipt(dict(+counts), kind=kind, scope=thread.key.hex(), at=now, number=number)
        return Changed(counts["entries"], receipt)

    def _tell_changed(self, holders: dict[int, bytes], kind: str, now: float, family: dict[bytes, ThreadRow]) -> None:
        for key, thread in family.items():
            places = tuple(sorted(position for position, holder in holders.items() if holder == key))
            if places or kind == "pattern":
                self._told(Gone(key, kind, now, thread.created, places))

    def _sharers(self, db: Connection, key: bytes, holders: dict[int, bytes]) -> dict[bytes, ThreadRow]:
        """The thread, those whose entries change, and all that share these; each is ours from now on."""
        lowest: dict[bytes, int] = {}
        for position, holder in holders.items():
            lowest[holder] = min(position, lowest.get(holder, position))
        keys = {key, *lowest}
        for holder, position in lowest.items():
            keys |= {row[0] for row in db.run("sharing", (holder, position))}
        rows = {one: thread_row(db, one) for one in sorted(keys)}
        return {one: found[0] for one, found in rows.items() if found is not None and found[0].status != "erased"}

    def _set_bodies(
        self, db: Connection, holders: dict[int, bytes], bodies: dict[int, NewEntry | None], counts: Counter[str]
    ) -> dict[bytes, dict[int, str]]:
        """Other bodies in place of those that must go; the words they are found by, by who holds them."""
        changed: dict[bytes, dict[int, str]] = {}
        for position, new in bodies.items():
            key = holders[position]
            row = next(iter(db.run("entry_at", (key, position))), None)
            if row is None or row[7] is None:
                continue
            former = from_row(key, row)  # never seal what was altered
            self.replaced.note(key, former.message, position)
            for (one,) in list(db.run("sharing", (key, position))):
                counts["checkpoint_values"] += forget(db, one, position, former.message, replaced=new is not None)
                counts["vectors"] += self._drop_vectors(db, one, position, position + 1)
            name, body = None, None
            if new is not None:
                made = to_row(key, row[0], row[1], new.message, row[3], row[4], row[5] / 1000)
                name, body = made[7], made[8]
            over_all = seal(key, row[0], row[1], row[2], row[3], row[4], row[5], name, body)
            db.run("set_body", (key, position, body, over_all, name))
            changed.setdefault(key, {})[position] = "" if new is None else new.words
            counts["entries"] += 1
        return changed

    def _content_changed(
        self,
        db: Connection,
        key: bytes,
        position: int,
        counts: Counter[str],
        keep: Collection[bytes] = (),
        gone: bytes = b"",
    ) -> None:
        """Note it in every thread that has the entry, and take what they quoted out of their manifests.

        Args:
            keep: threads whose summaries stay.
            gone: a thread that goes as a whole, and need not be read any more.
        """
        for (one,) in list(db.run("sharing", (key, position))):
            if one == gone:
                continue
            db.run("content_changed", (one,))
            db.run("reseal", (one,))
            if one not in keep:
                counts["summaries"] += self._changed_below(db, one, position, drop=True)
            for first, manifest in list(db.run("quoting", (one, position, *QUOTING))):
                clean = sealed(one, "manifest", without_quotes(unsealed(one, "manifest", manifest)))
                if clean != manifest:
                    db.run("set_manifest", (one, first, clean))
                    counts["manifests"] += 1

    def _reindex(self, db: Connection, key: bytes, words: dict[int, str], counts: Counter[str]) -> None:
        found = thread_row(db, key)
        counts["search"] += self.index.remove(db, key, words)
        for position, text in words.items():
            self.index.put(db, key, found[0].owner if found else "", position, text)


def left_over(key: bytes) -> str:
    """The name of the note that rows of an erased thread are still there."""
    return f"left over {key.hex()}"


class Lately:
    """What was masked or removed a moment ago, by thread and by what it said."""

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, bytes], tuple[int, float]] = {}

    def note(self, key: bytes, message: Message, position: int) -> None:
        """An entry says something else from now on, or nothing."""
        self._found[key, _words_of(message)] = (position, time.monotonic())
        while len(self._found) > LATELY[0]:
            del self._found[next(iter(self._found))]

    def position(self, key: bytes, message: Message) -> int | None:
        """Where a message stood that says the same; None if none did lately."""
        if not self._found:
            return None
        position, at = self._found.get((key, _words_of(message)), (0, -LATELY[1]))
        return position if time.monotonic() - at < LATELY[1] else None


def _words_of(message: Message) -> bytes:
    """A hash of what a message says, whatever its id and whatever we have noted beside it."""
    return blake2b(encode(msgspec.structs.replace(message, meta={}, id=None)), digest_size=16).digest()


def facts_of(key: bytes, facts: Facts) -> bytes:
    """A thread's texts as they are stored, under a seal."""
    return sealed(key, "facts", data(facts))


def data(value: Any) -> bytes:
    """A value as JSON bytes.

    Raises:
        InvalidSpec: it is no data.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"a value that cannot be stored as data: {type(error).__name__}") from error


def json_text(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode()
