"""LangGraph checkpoints in tables; see `stores/checkpoints.py` for what each method promises.

A put goes through the files in this order: `checkpoint_lines` (what the checkpoint follows), `placing` (where its
messages stand), `checkpoint_shortening` (values less what became entries), `checkpoint_values` (what is kept aside),
`checkpoint_rows` (the row). `checkpoint_reading` goes the other way; `checkpoint_removing` prunes and copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from novelo.errors import ConcurrentTurnError
from novelo.stores.base import ThreadRow
from novelo.stores.checkpoints import (
    MAX_RUNS,
    ONCE,
    Blob,
    Cut,
    NewCheckpoint,
    NewWrites,
    Places,
    Ref,
    StalePlaces,
    Talk,
    Written,
    hash_of,
    runs_of,
)
from novelo.stores.tables import checkpoint_removing
from novelo.stores.tables.checkpoint_lines import branch, joined_span, parent_of, show
from novelo.stores.tables.checkpoint_packing import body_of, coded, decoded, written_body
from novelo.stores.tables.checkpoint_reading import CheckpointReading
from novelo.stores.tables.checkpoint_rows import put_checkpoint, put_written, read_checkpoint
from novelo.stores.tables.checkpoint_shortening import Row, Shortening, Task
from novelo.stores.tables.checkpoint_values import keep_list
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.placing import Placing
from novelo.stores.tables.store import TableStore


class TableCheckpoints(CheckpointReading):
    """Checkpoints beside the threads of a store, in the same database."""

    def __init__(self, store: TableStore) -> None:
        super().__init__(store)
        self._shortening = Shortening()

    # ------------------------------------------------------------------------------------------ writing
    def put(
        self, new: NewCheckpoint, writes: Sequence[NewWrites] = (), of_parent: Sequence[NewWrites] = ()
    ) -> tuple[dict[str, list[int]], float, list[dict[int, list[int]]]]:
        """Store a checkpoint, with its messages, in one transaction."""
        with self.database.writing() as db:
            db.lock(new.key)
            name, before_it = coded(new.id), None if new.parent is None else coded(new.parent)
            last, newest, own = next(iter(db.run("newest_id", (new.key, new.ns, name))), (0, None, None))
            follows = newest is not None and before_it == newest
            parent = last if follows else parent_of(db, new)
            if own is None and newest is not None and not follows:
                branch(self, db, new, decoded(newest))
            placing = Placing(self, db, new.key, new, self._fence(db, new, [*writes, *of_parent]))
            placing.stale = new.created is not None and new.version != placing.thread.content_version
            number = last + 1 if own is None else own
            for taken, said in new.replayed:
                placing.take_up(taken, said)
            lists: dict[str, list[int]] = {}
            for channel, value in new.values.items():
                if isinstance(value, Talk):
                    lists[channel] = placing.places(value.items, channel in new.main and new.ns == "")
            show(self, db, new, placing)
            start, stop = placing.append(new.now)
            self._shortening.parent(db, new, placing)
            # behind the messages that came of it: they have positions now
            before, wrote = self._taken_up(db, new, parent, 0 if own else number, of_parent, placing)
            refs = self._refs(db, new, lists)
            if own is not None:
                old = read_checkpoint(new.key, next(iter(db.run("by_id", (new.key, new.ns, name)))))
                start, stop = joined_span(db, new, start, stop)
                before = [*old.before]
            body = body_of(new.skeleton, new.metadata, refs, before)
            row = (new.key, new.ns, number, name, before_it, start, stop, new.run, new.expires, body)
            put_checkpoint(db, *row)
            kept = Row(row[:3], new.skeleton, new.metadata, refs, before)
            self._shortening.note((new.key, new.ns, new.id), refs.values(), kept)
            there: set[str] = set()  # a task may have written twice: what it wrote first is there then
            for one in writes:
                look = own is not None or one.task in there
                self._write(db, (new.key, new.ns, new.id), number, one, look=look)
                there.add(one.task)
        self._shortening.committed(new, placing)
        return lists, placing.thread.created, wrote

    def _fence(self, db: Connection, new: NewCheckpoint, writes: Sequence[NewWrites]) -> tuple[ThreadRow, float]:
        """The thread, made now or before, and the time to live of its lease."""
        thread, _, ttl = self.store._ensure(db, new.key, new.names, new.now)
        if new.created is not None:
            found = (thread.created, thread.content_version)
            values = [*new.values.values(), *(item[2] for one in writes for item in one.items)]
            _check_places(db, new.key, found, (new.created, new.version), values)
        return thread, ttl

    def _refs(self, db: Connection, new: NewCheckpoint, lists: dict[str, list[int]]) -> dict[str, Ref]:
        before: dict[str, Ref] | None = None
        refs: dict[str, Ref] = {}
        for channel, value in new.values.items():
            if not isinstance(value, Talk):
                refs[channel] = self._shortening.put(db, (new.key, new.ns, new.id), value, channel in ONCE)
                continue
            runs = runs_of(lists[channel], value.runs)
            if len(runs) > 2 * MAX_RUNS:
                if before is None:
                    at = (new.key, new.ns, coded(new.parent or ""))
                    row = next(iter(db.run("by_id", at)), None)
                    before = read_checkpoint(new.key, row).values if row else {}
                refs[channel] = keep_list(
                    self, db, new.key, value.wrap, [*value.known, *lists[channel]], before.get(channel)
                )
            else:
                refs[channel] = Places(value.wrap, runs)
        return refs

    def put_writes(
        self,
        key: bytes,
        ns: str,
        checkpoint: str,
        writes: NewWrites,
        created: float | None = None,
        version: int = 0,
    ) -> dict[int, list[int]] | None:
        """Store what a task wrote at a checkpoint."""
        with self.database.reading() as db:  # many come before their checkpoint, and need no transaction to be told so
            if next(iter(db.run("place_of", (key, ns, coded(checkpoint)))), None) is None:
                return None
        with self.database.writing() as db:
            db.lock(key)
            row = next(iter(db.run("place_of", (key, ns, coded(checkpoint)))), None)
            if row is None:
                return None
            if created is not None:
                found = next(iter(db.run("fences", (key,))), (0.0, 0))
                _check_places(db, key, found, (created, version), [item[2] for item in writes.items])
                stale = found[1] != version
                if stale and _is_input(writes):
                    return {}
            else:
                stale = False
            placing = Placing(self, db, key)
            placing.stale = stale
            return self._write(db, (key, ns, checkpoint), row[0], writes, placing)

    def _taken_up(
        self,
        db: Connection,
        new: NewCheckpoint,
        parent: int,
        number: int,
        of_parent: Sequence[NewWrites],
        placing: Placing,
    ) -> tuple[list[Written], list[dict[int, list[int]]]]:
        """What was written at the parent: for the new checkpoint's row if that stands next to it, else for rows.

        Args:
            number: where the new checkpoint stands; 0 if it stands there already.
        """
        at = (new.key, new.ns, str(new.parent))
        before: list[Written] = []
        wrote: list[dict[int, list[int]]] = []
        if not of_parent or not parent:
            return before, wrote
        there = {row[0] for row in db.run("written", (new.key, new.ns, parent))}
        for one in of_parent:
            if placing.stale and _is_input(one):
                wrote.append({})
                continue
            if number != parent + 1 or one.task in there:
                wrote.append(self._write(db, at, parent, one, placing))
                continue
            former = next((done for done in before if done.task == one.task), None)
            items, lists = self._items(db, at, one, placing, () if former is None else former.items)
            if former is not None:
                before.remove(former)
            before.append(Written(one.task, one.path, items))
            wrote.append(lists)
        return before, wrote

    def _write(
        self,
        db: Connection,
        at: tuple[bytes, str, str],
        number: int,
        new: NewWrites,
        placing: Placing | None = None,
        look: bool = True,
    ) -> dict[int, list[int]]:
        key, ns, _ = at
        found = self._written_by(db, key, ns, number, new.task) if look else None
        items, lists = self._items(db, at, new, placing, () if found is None else found.items)
        path = new.path if found is None or new.path else found.path
        columns = (key, ns, number, new.task, path)
        put_written(db, *columns, written_body(items))
        self._shortening.note(at, [item[2] for item in items], Task(columns, items))
        return lists

    def _items(
        self,
        db: Connection,
        at: tuple[bytes, str, str],
        new: NewWrites,
        placing: Placing | None,
        former: Iterable[tuple[int, str, Ref]],
    ) -> tuple[list[tuple[int, str, Ref]], dict[int, list[int]]]:
        """What a task wrote, with what it wrote before; places of its lists by index."""
        key, _, _ = at
        there = {item[0]: item for item in former}
        lists: dict[int, list[int]] = {}
        for index, channel, value in new.items:
            ref: Ref
            if isinstance(value, Talk):
                if placing is None:
                    placing = Placing(self, db, key)
                lists[index] = placing.places(value.items, False)
                runs = runs_of(lists[index], value.runs)
                if len(runs) > 2 * MAX_RUNS:
                    ref = keep_list(self, db, key, value.wrap, [*value.known, *lists[index]], None)
                else:
                    ref = Places(value.wrap, runs)
            else:
                ref = self._shortening.put(db, at, value, True, () if placing is None else placing.texts)
            old = there.get(index)
            if old is None or new.special:
                there[index] = (index, channel, ref)
            elif not new.known and (old[1] != channel or not self._agrees(db, key, old[2], ref, value)):
                raise ConcurrentTurnError(
                    f"another run has written at the same checkpoint (task {new.task}); nothing was stored: run again"
                )
        return [there[index] for index in sorted(there)], lists

    def _agrees(self, db: Connection, key: bytes, old: Ref, ref: Ref, value: Blob | Talk) -> bool:
        """Whether what stands there says the same."""
        if old == ref or isinstance(value, Talk):
            return old == ref
        return isinstance(old, Cut) and old.hash == hash_of(key, value.type, value.body)

    # ------------------------------------------------------------------------------------------ reading
    def expired(self, now: float) -> list[tuple[bytes, str, str]]:
        """Threads whose newest checkpoint has lapsed."""
        with self.database.reading() as db:
            return list(db.run("lapsed", (now,)))

    # ------------------------------------------------------------------------------------------ removing, copying
    def forget(self, key: bytes) -> None:
        """Content of a thread is gone: nothing of it stays in memory here."""
        self._shortening.forget(key)

    def delete_runs(self, runs: Sequence[str], owner: str | None) -> int:
        """Remove the checkpoints that some runs made."""
        return checkpoint_removing.delete_runs(self, runs, owner)

    def prune(self, key: bytes, keep_latest: bool) -> int:
        """Remove checkpoints but the newest of each namespace and what it is rebuilt from, or all."""
        return checkpoint_removing.prune(self, key, keep_latest)

    def copy(self, source: ThreadRow, key: bytes, names: tuple[str, str], now: float) -> None:
        """Another thread with the same checkpoints, whose messages it shares."""
        checkpoint_removing.copy(self, source, key, names, now)


def _is_input(new: NewWrites) -> bool:
    """Whether this is what an input became: late, it is left out, and made again of what its checkpoint holds."""
    return new.path.endswith(", __start__")


def _check_places(
    db: Connection,
    key: bytes,
    found: tuple[float, int],
    read: tuple[float, int],
    values: Iterable[Blob | Talk],
) -> None:
    """Positions of a thread are for ever; values that a caller knows may have been removed since.

    Args:
        found: when the thread was made, and the version of its content.
        read: the same when the places were read.
    """
    if found[0] != read[0]:
        raise StalePlaces(anew=True)
    for value in values if found[1] != read[1] else ():
        for place in (*value.known, *value.items) if isinstance(value, Talk) else ():
            if isinstance(place, int) and place < 0 and not list(db.run("value", (key, -place))):
                raise StalePlaces(anew=False)
