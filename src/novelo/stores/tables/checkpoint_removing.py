"""Checkpoints that go, with the values that nothing refers to any more; and a thread's copied to another one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from novelo.stores.base import ThreadRow
from novelo.stores.checkpoints import Checkpoint, Kept, LongList, Places, Ref, unrolled
from novelo.stores.rules import storable
from novelo.stores.tables.checkpoint_packing import written_body
from novelo.stores.tables.checkpoint_reading import CheckpointReading
from novelo.stores.tables.checkpoint_rows import put_checkpoint, put_written, read_checkpoint, read_written
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.rows import verify


def delete_runs(reading: CheckpointReading, runs: Sequence[str], owner: str | None) -> int:
    """Remove the checkpoints that some runs made."""
    named = msgspec.json.encode([run for run in runs if storable(run)]).decode()
    with reading.database.writing() as db:
        found = list(db.run("of_runs", (named, owner)))
        for key in sorted({place[0] for place in found}):
            _lock(reading, db, key)
        for key in {place[0] for place in found}:
            _drop(db, key, {(place[1], place[2]) for place in found if place[0] == key})
            _sweep(reading, db, key)
    return len(found)


def prune(reading: CheckpointReading, key: bytes, keep_latest: bool) -> int:
    """Remove checkpoints but the newest of each namespace and what it is rebuilt from, or all."""
    with reading.database.writing() as db:
        _lock(reading, db, key)
        rows = [read_checkpoint(key, row) for row in db.run("all_of_thread", (key,))]
        kept = _needed(rows) if keep_latest else set()
        gone = [row for row in rows if (row.ns, row.number) not in kept]
        _drop(db, key, {(row.ns, row.number) for row in gone})
        if gone:
            _sweep(reading, db, key)
    return len(gone)


def _lock(reading: CheckpointReading, db: Connection, key: bytes) -> None:
    """One writer at a time; of a thread that is held nothing goes."""
    db.lock(key)
    found = thread_row(db, key)
    reading.store._free(db, [] if found is None else [found[0]])


def _drop(db: Connection, key: bytes, gone: set[tuple[str, int]]) -> None:
    """Checkpoints go, with what was written at them; what came with them and was written at one that stays, stays."""
    for ns, number in gone:
        if (ns, number - 1) not in gone and list(db.run("by_number", (key, ns, number - 1))):
            there = {row[0] for row in db.run("written", (key, ns, number - 1))}
            for row in list(db.run("by_number", (key, ns, number))):
                for one in read_checkpoint(key, row).before:
                    if one.task not in there:
                        put_written(db, key, ns, number - 1, one.task, one.path, written_body(one.items))
        db.run("drop", (key, ns, number))
        db.run("drop_writes", (key, ns, number))


def _needed(rows: Sequence[Checkpoint]) -> set[tuple[str, int]]:
    """The newest checkpoint of each namespace, and those that its channels are replayed from."""
    by_id = {(row.ns, row.id): row for row in rows}
    out: set[tuple[str, int]] = set()
    for newest in {row.ns: row for row in rows}.values():
        out.add((newest.ns, newest.number))
        counters = msgspec.json.decode(newest.metadata).get("counters_since_delta_snapshot") or {}
        missing = set(counters) - set(newest.values)
        at = newest
        while missing and at.parent is not None and (at.ns, at.parent) in by_id:
            at = by_id[at.ns, at.parent]
            if (at.ns, at.number) in out and at is not newest:
                break
            out.add((at.ns, at.number))
            missing -= set(at.values)
    return out


def _sweep(reading: CheckpointReading, db: Connection, key: bytes) -> None:
    """Values that nothing refers to any more go; what an entry of the transcript points to stays."""
    refs: list[Ref] = []
    for row in db.run("all_of_thread", (key,)):
        found = read_checkpoint(key, row)
        refs += [*found.values.values(), *(item[2] for one in found.before for item in one.items)]
    for row in db.run("all_written", (key,)):
        refs += [item[2] for item in read_written(key, row[0], row[1], row[2:]).items]
    used: set[int] = set()
    for ref in refs:
        if isinstance(ref, Kept):
            used.add(ref.number)
        elif isinstance(ref, LongList):
            number = ref.number
            while number and number not in used:
                used.add(number)
                _, number, _, runs = reading.list_in(db, key, number)
                used.update(-place for place in unrolled(runs) if place < 0)
        elif isinstance(ref, Places):
            used.update(-place for place in unrolled(ref.runs) if place < 0)
    last = next(iter(db.run("last_value", (key,))))[0]
    for number, _, _, body, entry, _ in list(db.run("all_values", (key,))):
        if number not in used and (entry is None or body is None):
            # the highest one leaves its number behind, so that no other value gets it
            db.run("gone" if number == last else "drop_value", (key, number))
    db.run("content_changed", (key,))
    db.run("reseal", (key,))


def copy(reading: CheckpointReading, source: ThreadRow, key: bytes, names: tuple[str, str], now: float) -> None:
    """Another thread with the same checkpoints, whose messages it shares."""
    with reading.database.writing() as db:
        found = thread_row(db, source.key)
        reading.store._fork(db, source, key, names, found[0].head if found else 0, now)
        for row in list(db.run("all_of_thread", (source.key,))):
            read_checkpoint(source.key, row)
            put_checkpoint(db, key, *row[:9])
        for row in list(db.run("all_written", (source.key,))):
            read_written(source.key, row[0], row[1], row[2:])
            put_written(db, key, *row[:5])
        for row in list(db.run("all_values", (source.key,))):
            verify(row[5], "checkpoint value", source.key, *row[:5])
            db.run("keep", (key, *row[:5]))
