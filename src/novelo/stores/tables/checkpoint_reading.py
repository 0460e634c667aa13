"""Reading checkpoints: states, what was written at them, values by number, lists of messages by place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from novelo.errors import StorageCorrupt
from novelo.stores.checkpoints import (
    GONE,
    Checkpoint,
    Cut,
    LongList,
    NewCheckpoint,
    Places,
    Ref,
    Runs,
    Value,
    Written,
    hash_of,
    runs_of,
    unrolled,
)
from novelo.stores.rules import storable
from novelo.stores.tables.checkpoint_packing import coded
from novelo.stores.tables.checkpoint_rows import read_checkpoint, read_written
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.rows import verify
from novelo.stores.tables.store import TableStore

CUT = "cut:"  # before the type of a value whose texts stand in the transcript
_PIECES = msgspec.msgpack.Decoder(list[bytes | int])
_LIST = msgspec.msgpack.Decoder(tuple[int, int, int, Runs])  # depth, number of the base or 0, how much of it, the rest


class CheckpointReading:
    """The reading half of the checkpoints."""

    def __init__(self, store: TableStore) -> None:
        self.store, self.database = store, store.database

    def get(self, key: bytes, ns: str, checkpoint: str | None) -> Checkpoint | None:
        """A checkpoint by its id, or the newest of a namespace."""
        if not storable(ns) or not storable(checkpoint or ""):
            return None
        with self.database.reading() as db:
            if checkpoint is None:
                row = next(iter(db.run("newest", (key, ns))), None)
            else:
                row = next(iter(db.run("by_id", (key, ns, coded(checkpoint)))), None)
        return None if row is None else read_checkpoint(key, row)

    def writes(self, key: bytes, ns: str, number: int) -> list[Written]:
        """What was written at a checkpoint."""
        with self.database.reading() as db:
            found = [read_written(key, ns, number, row) for row in db.run("written", (key, ns, number))]
            return joined(found, self._before(db, key, ns, number))

    def _before(self, db: Connection, key: bytes, ns: str, number: int) -> Sequence[Written]:
        """What was written at a checkpoint and came with the one that stands next."""
        row = next(iter(db.run("by_number", (key, ns, number + 1))), None)
        return () if row is None else read_checkpoint(key, row).before

    def _written_by(self, db: Connection, key: bytes, ns: str, number: int, task: str) -> Written | None:
        """What a task wrote at a checkpoint."""
        row = next(iter(db.run("written_by", (key, ns, number, task))), None)
        if row is not None:
            return read_written(key, ns, number, row)
        return next((one for one in self._before(db, key, ns, number) if one.task == task), None)

    def values(self, key: bytes, numbers: Sequence[int]) -> dict[int, Value]:
        """Values by their numbers."""
        with self.database.reading() as db:
            return {number: self.value_in(db, key, number) for number in numbers}

    def value_in(self, db: Connection, key: bytes, number: int) -> Value:
        """A value by its number, in a transaction."""
        row = next(iter(db.run("value", (key, number))), None)
        if row is None:
            raise StorageCorrupt(f"value {number} of thread {key.hex()} is missing: restore a backup")
        verify(row[5], "checkpoint value", key, *row[:5])
        kind, body = row[2], row[3]
        if kind.startswith(CUT):
            return self._filled(db, key, Cut(kind.removeprefix(CUT), row[1], tuple(_PIECES.decode(body))))
        return Value(kind, body, row[4])

    def filled(self, key: bytes, ref: Cut) -> Value:
        """A value with the texts put back; gone, if one of them was deleted or masked."""
        with self.database.reading() as db:
            return self._filled(db, key, ref)

    def _filled(self, db: Connection, key: bytes, ref: Cut) -> Value:
        found = thread_row(db, key)
        out = []
        for piece in ref.pieces:
            if isinstance(piece, int) and found is not None:
                text = self.store._rows(db, found[0], piece, 1)[0].message.content
                piece = text.encode() if isinstance(text, str) else b""
            out.append(piece if isinstance(piece, bytes) else b"")
        whole = b"".join(out)
        return Value(ref.type, whole, None) if hash_of(key, ref.type, whole) == ref.hash else Value(GONE, b"", None)

    def places(self, key: bytes, ref: Ref) -> list[int]:
        """The places of a list of messages."""
        if isinstance(ref, Places):
            return unrolled(ref.runs)
        with self.database.reading() as db:
            return self.places_in(db, key, ref)

    def places_in(self, db: Connection, key: bytes, ref: Ref) -> list[int]:
        """The same in a transaction."""
        if isinstance(ref, Places):
            return unrolled(ref.runs)
        assert isinstance(ref, LongList)
        parts: list[tuple[int, Runs]] = []
        number = ref.number
        while number:
            _, base, keep, runs = self.list_in(db, key, number)
            parts.append((keep, runs))
            number = base
        out: list[int] = []
        for keep, runs in reversed(parts):
            out = [*out[:keep], *unrolled(runs)]
        return out

    def list_in(self, db: Connection, key: bytes, number: int) -> tuple[int, int, int, Runs]:
        """A part of a long list: its depth, the number of its base or 0, how much of that it keeps, and the rest."""
        value = self.value_in(db, key, number)
        try:
            return _LIST.decode(value.body or b"")
        except (msgspec.MsgspecError, ValueError) as error:
            raise StorageCorrupt(f"value {number} of thread {key.hex()} is no list of ours") from error

    def entries_of(self, db: Connection, new: NewCheckpoint, found: Checkpoint) -> Iterator[tuple[int, int]]:
        """The entries of the transcript that a state holds."""
        for channel, ref in found.values.items():
            if channel in new.main and isinstance(ref, (Places, LongList)):
                runs = ref.runs if isinstance(ref, Places) else runs_of(self.places_in(db, new.key, ref))
                yield from self.positions(db, new.key, runs)

    def positions(self, db: Connection, key: bytes, runs: Runs) -> Iterator[tuple[int, int]]:
        """The entries that a list is made of, also where it holds another version of one."""
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            if first >= 0:
                yield first, first + count
                continue
            for place in range(first, first - count, -1):
                entry = self.value_in(db, key, -place).entry
                if entry is not None:
                    yield entry, entry + 1

    def history(
        self, key: bytes, ns: str, checkpoint: str, channels: Sequence[str]
    ) -> tuple[dict[str, Ref], dict[str, list[tuple[str, Ref]]]]:
        """What stands of some channels before a checkpoint: their seeds, and what was written, the newest first."""
        seeds: dict[str, Ref] = {}
        found: dict[str, list[tuple[str, Ref]]] = {channel: [] for channel in channels}
        with self.database.reading() as db:
            row = next(iter(db.run("by_id", (key, ns, coded(checkpoint)))), None)
            if row is None:
                return seeds, found
            wanted, above = row[3], row
            # a line is nearly always one of neighbours: read it as a range, and pass over what is of other branches
            lines = db.run("below", (key, ns, row[1]))
            notes = db.run("written_below", (key, ns, row[1]))
            note = next(notes, None)
            for row in lines:
                next_one, above = above, row
                if row[2] != wanted:
                    continue
                at = read_checkpoint(key, row)
                while note is not None and note[0] > at.number:
                    note = next(notes, None)
                written = []
                while note is not None and note[0] == at.number:
                    written.append(read_written(key, ns, at.number, note[1:]))
                    note = next(notes, None)
                if next_one[1] == at.number + 1:
                    written = joined(written, read_checkpoint(key, next_one).before)
                for one in sorted(written, key=lambda one: (one.path, one.task), reverse=True):
                    for _, channel, ref in reversed(one.items):
                        if channel in found and channel not in seeds:
                            found[channel].append((one.task, ref))
                seeds |= {c: at.values[c] for c in channels if c not in seeds and c in at.values}
                wanted = row[3]
                if wanted is None or len(seeds) == len(found):
                    break
        return seeds, found

    def listed(
        self,
        key: bytes | None,
        owner: str,
        ns: str | None,
        checkpoint: str | None,
        before: str | None,
        filter: Sequence[tuple[str, Any]],
        limit: int | None,
    ) -> list[Checkpoint]:
        """Checkpoints, newest first."""
        if not all(storable(text) for text in (owner, ns, checkpoint, before) if text is not None):
            return []
        most = -1 if limit is None else limit
        more = (*(None if name is None else coded(name) for name in (checkpoint, before)), -1 if filter else most)
        out: list[Checkpoint] = []
        with self.database.reading() as db:
            if key is None:
                rows = db.run("of_owner", (owner, ns, *more))
            else:
                rows = db.run("of_thread" if ns is None else "of_namespace", (key, ns, *more))
            for row in rows:
                if len(out) == most:
                    break
                one = read_checkpoint(row[0], row[3:], (row[1], row[2]))
                if not filter or _holds(one, filter):
                    out.append(one)
        return out


def joined(rows: list[Written], before: Sequence[Written]) -> list[Written]:
    """What has a row of its own, and what came with the next checkpoint; a row says all that its task wrote."""
    told = {one.task for one in rows}
    return [*rows, *(one for one in before if one.task not in told)]


def _holds(one: Checkpoint, filter: Sequence[tuple[str, Any]]) -> bool:
    """Whether metadata has each value under its key, or, for a key with dots, at the end of a way into it."""
    try:
        found = msgspec.json.decode(one.metadata)
    except (msgspec.MsgspecError, ValueError) as error:
        raise StorageCorrupt(f"the metadata of checkpoint {one.id} cannot be read: restore a backup") from error
    return all(_same(found, name, value) for name, value in filter)


def _same(metadata: Any, name: str, value: Any) -> bool:
    for way in ([name], name.split(".")):
        at: Any = metadata
        for step in way:
            at = at.get(step) if isinstance(at, dict) else None
        if at is not None:
            return bool(at == value)
    return value is None
