"""LangGraph checkpoints in the SQLite store; see `stores/checkpoints.py` for what each method promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Any, NamedTuple

import apsw
import msgspec

from novelo.errors import ConcurrentTurnError, ThreadErased
from novelo.stores.base import ThreadRow
from novelo.stores.checkpoints import (
    INLINE_BYTES,
    MAX_RUNS,
    ONCE,
    ONCE_BYTES,
    Blob,
    Checkpoint,
    Cut,
    Inline,
    Kept,
    LongList,
    NewCheckpoint,
    NewWrites,
    Places,
    Ref,
    Runs,
    StalePlaces,
    Talk,
    hash_of,
    runs_of,
    unrolled,
)
from novelo.stores.rules import merged, storable, without
from novelo.stores.sqlite.checkpoint_reading import CUT, CheckpointReading
from novelo.stores.sqlite.checkpoint_rows import (
    ENCODE,
    Q,
    body_of,
    put_checkpoint,
    put_written,
    read_checkpoint,
    read_written,
    written_body,
)
from novelo.stores.sqlite.facts import Q as THREADS
from novelo.stores.sqlite.facts import thread_row
from novelo.stores.sqlite.placing import Placing
from novelo.stores.sqlite.rows import verify
from novelo.stores.sqlite.store import SQLiteStore

LIST_TYPE = "list"
WORTH = 24  # characters of a text that is worth it
RAW, RAW_BYTES = 256, 1 << 16  # checkpoints whose values may still be shortened; larger values are not
MAX_DEPTH = 64  # of long lists that stand on each other


class SQLiteCheckpoints(CheckpointReading):
    """Checkpoints beside the threads of a store, in the same database."""

    def __init__(self, store: SQLiteStore) -> None:
        super().__init__(store)
        self._raw: dict[tuple[bytes, str, str], list[_Row | _Task | tuple[int, Blob]]] = {}  # as it came, by checkpoint
        self._texts: dict[tuple[bytes, str, str], list[tuple[int, bytes]]] = {}  # what its children added, by position

    # ------------------------------------------------------------------------------------------ writing
    def put(
        self, new: NewCheckpoint, writes: Sequence[NewWrites] = (), of_parent: Sequence[NewWrites] = ()
    ) -> tuple[dict[str, list[int]], float]:
        """Store a checkpoint, with its messages, in one transaction."""
        with self.database.writing() as db:
            last, newest, own = next(iter(db.execute(Q["newest_id"], (new.key, new.ns, new.id))), (0, None, None))
            follows = newest is not None and new.parent == newest
            parent = last if follows else self._parent(db, new)
            if own is None and newest is not None and not follows:
                self._branch(db, new, newest)
            placing = Placing(self, db, new.key, new, self._fence(db, new))
            number = last + 1 if own is None else own
            for taken, said in new.replayed:
                placing.take_up(taken, said)
            lists: dict[str, list[int]] = {}
            for channel, value in new.values.items():
                if isinstance(value, Talk):
                    lists[channel] = placing.places(value.items, channel in new.main and new.ns == "")
            self._show(db, new, placing)
            start, stop = placing.append(new.now)
            self._shorten(db, new, placing)
            for one in (
                of_parent if parent else ()
            ):  # behind the messages that came of it: those are told by their positions
                self._write(db, (new.key, new.ns, str(new.parent)), parent, one, known=True)
            refs = self._refs(db, new, lists)
            body = body_of(new.skeleton, refs)
            if own is not None:
                start, stop = self._former(db, new, start, stop)
            row = (new.key, new.ns, number, new.id, new.parent, start, stop, new.run, new.expires, new.metadata, body)
            put_checkpoint(db, *row)
            self._note_raw((new.key, new.ns, new.id), refs.values(), _Row(row[:3], new.skeleton, refs))
            for one in writes:
                self._write(db, (new.key, new.ns, new.id), number, one, known=True, look=own is not None)
            return lists, placing.thread.created

    def _fence(self, db: apsw.Connection, new: NewCheckpoint) -> tuple[ThreadRow, float]:
        """The thread, made now or before, and the time to live of its lease."""
        thread, _, ttl = self.store._ensure(db, new.key, new.names, new.now)
        if new.created is not None:
            found = (thread.created, thread.content_version)
            _check_places(db, new.key, found, (new.created, new.version), new.values.values())
        return thread, ttl

    def _parent(self, db: apsw.Connection, new: NewCheckpoint) -> int:
        """Where the parent stands; 0 if there is none."""
        if new.parent is None:
            return 0
        row = next(iter(db.execute(Q["place_of"], (new.key, new.ns, new.parent))), None)
        if row is not None:
            return int(row[0])
        found = thread_row(db, new.key)
        if found is None or found[0].status == "erased" or not list(db.execute(Q["any"], (new.key,))):
            raise ThreadErased("the thread was deleted while its graph ran; nothing was stored")
        raise ConcurrentTurnError(f"checkpoint {new.parent} is not there any more; nothing was stored: run again")

    def _branch(self, db: apsw.Connection, new: NewCheckpoint, newest: str) -> None:
        """A checkpoint that does not follow the newest one begins a branch, if that was said."""
        if new.ns:
            return  # graphs inside of a graph come and go with the steps of the outer one, which is watched
        if new.parent is None:
            if not new.first:
                raise ConcurrentTurnError(
                    f"the thread begins anew at checkpoint {new.id}, but another run has brought it to {newest}; "
                    "this checkpoint was not stored: read the state, then run again",
                    newest=newest,
                )
            return
        if not new.declared:
            raise ConcurrentTurnError(
                f"checkpoint {new.id} follows {new.parent}, but another run has brought the thread to {newest}; "
                "this checkpoint was not stored: read the state, then run again",
                newest=newest,
            )
        old, line = self._said(db, new, newest, new.parent), self._said(db, new, new.parent, newest)
        for ranges, on in ((without(old, line), True), (without(line, old), False)):
            if ranges:
                self.store._hide(db, new.key, ranges, new.now, on)

    def _said(self, db: apsw.Connection, new: NewCheckpoint, end: str, other: str) -> list[tuple[int, int]]:
        """Positions of what was said on the line to a checkpoint.

        It is what its checkpoints added to the transcript, and what their states hold since the line left the one to
        another checkpoint: a message may have been said in a third branch first, and stands there.
        """
        out = list(db.execute(Q["line"], (new.key, end)))
        shared = {row[0] for row in db.execute(Q["ancestors"], (new.key, other))}
        at: str | None = end
        while at is not None:
            row = next(iter(db.execute(Q["by_id"], (new.key, new.ns, at))), None)
            if row is None:
                break
            found = read_checkpoint(new.key, row)
            out += self._entries_of(db, new, found)
            at = None if at in shared else found.parent
        return merged(out)

    def _entries_of(self, db: apsw.Connection, new: NewCheckpoint, found: Checkpoint) -> Iterator[tuple[int, int]]:
        """The entries of the transcript that a state holds."""
        for channel, ref in found.values.items():
            if channel in new.main and isinstance(ref, (Places, LongList)):
                runs = ref.runs if isinstance(ref, Places) else runs_of(self._places(db, new.key, ref))
                yield from self._positions(db, new.key, runs)

    def _show(self, db: apsw.Connection, new: NewCheckpoint, placing: Placing) -> None:
        """What a state takes up from a branch that was left is said in this one too."""
        main = [v for channel, v in new.values.items() if isinstance(v, Talk) and channel in new.main and not new.ns]
        taken: list[Runs] = [runs_of([i for i in value.items if isinstance(i, int)], value.runs) for value in main]
        if not any(taken) or not placing.thread.hidden:
            return
        shown = merged([piece for runs in taken for piece in self._positions(db, new.key, runs)])
        if ranges := without(shown, placing.before):
            self.store._hide(db, new.key, ranges, new.now, False)

    def _positions(self, db: apsw.Connection, key: bytes, runs: Runs) -> Iterator[tuple[int, int]]:
        """The entries that a list is made of, also where it holds another version of one."""
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            if first >= 0:
                yield first, first + count
                continue
            for place in range(first, first - count, -1):
                entry = self._value(db, key, -place).entry
                if entry is not None:
                    yield entry, entry + 1

    def _former(self, db: apsw.Connection, new: NewCheckpoint, start: int, stop: int) -> tuple[int, int]:
        """What the checkpoint that is replaced had added stays of its line."""
        row = next(iter(db.execute(Q["by_id"], (new.key, new.ns, new.id))))
        pieces = [piece for piece in ((row[4], row[5]), (start, stop)) if piece[0] < piece[1]] or [(start, stop)]
        return min(pieces)[0], max(piece[1] for piece in pieces)

    def _refs(self, db: apsw.Connection, new: NewCheckpoint, lists: dict[str, list[int]]) -> dict[str, Ref]:
        before: dict[str, Ref] | None = None
        refs: dict[str, Ref] = {}
        for channel, value in new.values.items():
            if not isinstance(value, Talk):
                refs[channel] = self._blob(db, (new.key, new.ns, new.id), value, channel in ONCE)
                continue
            runs = runs_of(lists[channel], value.runs)
            if len(runs) > 2 * MAX_RUNS:
                if before is None:
                    row = next(iter(db.execute(Q["by_id"], (new.key, new.ns, new.parent))), None)
                    before = read_checkpoint(new.key, row).values if row else {}
                refs[channel] = self._long(
                    db, new.key, value.wrap, [*value.known, *lists[channel]], before.get(channel)
                )
            else:
                refs[channel] = Places(value.wrap, runs)
        return refs

    def _blob(self, db: apsw.Connection, at: tuple[bytes, str, str], blob: Blob, once: bool) -> Ref:
        if len(blob.body) <= (ONCE_BYTES if once else INLINE_BYTES):
            ref = Inline(blob.type, blob.body)
            return self._shortened(at[0], ref, self._texts.get(at, ())) or ref
        number = self._keep(db, at[0], blob)
        if "+" not in blob.type:
            self._cut(db, at[0], number, blob, self._texts.get(at, ()))
            if len(blob.body) <= RAW_BYTES:
                _remember(self._raw, at, [*self._raw.get(at, ()), (number, blob)])
        return Kept(number)

    # A graph's input, and what its tasks wrote, say again what stands in the transcript a step later. Such a value
    # keeps its bytes less the texts: (bytes, position, bytes, ...). If a message is deleted or masked, it is gone too.
    def _note_raw(self, at: tuple[bytes, str, str], refs: Iterable[Ref], row: _Row | _Task) -> None:
        if any(isinstance(ref, Inline) and len(ref.body) >= WORTH and "+" not in ref.type for ref in refs):
            _remember(self._raw, at, [*self._raw.get(at, ()), row])

    def _shorten(self, db: apsw.Connection, new: NewCheckpoint, placing: Placing) -> None:
        """Values of the parent, less the texts that are entries from now on."""
        at = (new.key, new.ns, new.parent or "")
        raw = self._raw.pop(at, ())
        if not placing.new:
            return
        texts = []
        for position, said in enumerate(placing.new, placing.head):
            text = said.entry.message.content
            if isinstance(text, str) and len(text) >= WORTH:
                texts.append((position, text.encode()))
        for one in raw:
            if isinstance(one, _Row):
                short = {c: self._shortened(new.key, ref, texts) or ref for c, ref in one.refs.items()}
                if short != one.refs:
                    db.execute(Q["shorten"], (*one.columns, body_of(one.skeleton, short)))
            elif isinstance(one, _Task):
                items = [(i, c, self._shortened(new.key, ref, texts) or ref) for i, c, ref in one.items]
                if items != one.items:
                    put_written(db, *one.columns, written_body(items))
            else:
                self._cut(db, new.key, *one, texts)
        _remember(self._texts, at, texts)  # what a task wrote may come later than the state that took it up

    def _shortened(self, key: bytes, ref: Ref, texts: Sequence[tuple[int, bytes]]) -> Cut | None:
        if not isinstance(ref, Inline) or "+" in ref.type or len(ref.body) < WORTH:
            return None
        pieces = _pieces(ref.body, texts)
        return Cut(ref.type, hash_of(key, ref.type, ref.body), tuple(pieces)) if len(pieces) > 1 else None

    def _cut(
        self, db: apsw.Connection, key: bytes, number: int, blob: Blob, texts: Sequence[tuple[int, bytes]]
    ) -> None:
        pieces = _pieces(blob.body, texts)
        if len(pieces) > 1:
            db.execute(Q["cut"], (key, number, CUT + blob.type, ENCODE(pieces), blob.hash))

    def _keep(self, db: apsw.Connection, key: bytes, blob: Blob, entry: int | None = None, look: bool = True) -> int:
        """The number of a value, which is there already or is kept now."""
        found = next(iter(db.execute(Q["value_by_hash"], (key, blob.hash))), None) if look else None
        if found is not None and not found[2] and (entry is None or found[1] == entry):
            return int(found[0])
        number = int(next(iter(db.execute(Q["last_value"], (key,))))[0]) + 1
        db.execute(Q["keep"], (key, number, blob.hash, blob.type, blob.body, entry))
        return number

    def _long(self, db: apsw.Connection, key: bytes, wrap: int, places: list[int], before: Ref | None) -> Ref:
        depth, base, keep = 0, 0, 0
        if isinstance(before, LongList):
            former = self._places(db, key, before)
            keep = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(former, places, strict=False)))
            depth = self._list(db, key, before.number)[0] + 1
            if depth < MAX_DEPTH and 2 * keep > len(places):
                base = before.number
            else:
                depth, keep = 0, 0
        body = ENCODE((depth, base, keep, runs_of(places[keep:])))
        return LongList(wrap, self._keep(db, key, Blob(LIST_TYPE, body, blake2b(body, digest_size=16).digest())))

    def put_writes(
        self,
        key: bytes,
        ns: str,
        checkpoint: str,
        writes: NewWrites,
        known: bool,
        created: float | None = None,
        version: int = 0,
    ) -> dict[int, list[int]] | None:
        """Store what a task wrote at a checkpoint."""
        with self.database.reading() as db:  # many come before their checkpoint, and need no transaction to be told so
            if next(iter(db.execute(Q["place_of"], (key, ns, checkpoint))), None) is None:
                return None
        with self.database.writing() as db:
            row = next(iter(db.execute(Q["place_of"], (key, ns, checkpoint))), None)
            if row is None:
                return None
            if created is not None:
                found = next(iter(db.execute(Q["fences"], (key,))), (0.0, 0))
                _check_places(db, key, found, (created, version), [item[2] for item in writes.items])
            return self._write(db, (key, ns, checkpoint), row[0], writes, known)

    def _write(
        self,
        db: apsw.Connection,
        at: tuple[bytes, str, str],
        number: int,
        new: NewWrites,
        known: bool,
        look: bool = True,
    ) -> dict[int, list[int]]:
        key, ns, _ = at
        row = next(iter(db.execute(Q["written_by"], (key, ns, number, new.task))), None) if look else None
        there = {} if row is None else {item[0]: item for item in read_written(key, ns, number, row).items}
        placing: Placing | None = None
        lists: dict[int, list[int]] = {}
        for index, channel, value in new.items:
            ref: Ref
            if isinstance(value, Talk):
                if placing is None:
                    placing = Placing(self, db, key)
                lists[index] = placing.places(value.items, False)
                runs = runs_of(lists[index], value.runs)
                if len(runs) > 2 * MAX_RUNS:
                    ref = self._long(db, key, value.wrap, [*value.known, *lists[index]], None)
                else:
                    ref = Places(value.wrap, runs)
            else:
                ref = self._blob(db, at, value, True)
            old = there.get(index)
            if old is None or new.special:
                there[index] = (index, channel, ref)
            elif not known and (old[1] != channel or not self._agrees(db, key, old[2], ref, value)):
                raise ConcurrentTurnError(
                    f"another run has written at the same checkpoint (task {new.task}); nothing was stored: run again"
                )
        path = new.path if row is None or new.path else row[1]
        items = [there[index] for index in sorted(there)]
        columns = (key, ns, number, new.task, path)
        put_written(db, *columns, written_body(items))
        self._note_raw(at, [item[2] for item in items], _Task(columns, items))
        return lists

    def _agrees(self, db: apsw.Connection, key: bytes, old: Ref, ref: Ref, value: Blob | Talk) -> bool:
        """Whether what stands there says the same."""
        if old == ref or isinstance(value, Talk):
            return old == ref
        return isinstance(old, Cut) and old.hash == hash_of(key, value.type, value.body)

    # ------------------------------------------------------------------------------------------ reading
    def expired(self, now: float) -> list[tuple[bytes, str, str]]:
        """Threads whose newest checkpoint has lapsed."""
        with self.database.reading() as db:
            return list(db.execute(Q["lapsed"], (now,)))

    # ------------------------------------------------------------------------------------------ removing, copying
    def delete_runs(self, runs: Sequence[str], owner: str | None) -> int:
        """Remove the checkpoints that some runs made."""
        named = msgspec.json.encode([run for run in runs if storable(run)]).decode()
        with self.database.writing() as db:
            found = list(db.execute(Q["of_runs"], (named, owner)))
            for place in found:
                db.execute(Q["drop"], place)
                db.execute(Q["drop_writes"], place)
            for key in {place[0] for place in found}:
                self._sweep(db, key)
        return len(found)

    def prune(self, key: bytes, keep_latest: bool) -> int:
        """Remove checkpoints but the newest of each namespace and what it is rebuilt from, or all."""
        with self.database.writing() as db:
            rows = [read_checkpoint(key, row) for row in db.execute(Q["all_of_thread"], (key,))]
            kept = _needed(rows) if keep_latest else set()
            gone = [row for row in rows if (row.ns, row.number) not in kept]
            for row in gone:
                db.execute(Q["drop"], (key, row.ns, row.number))
                db.execute(Q["drop_writes"], (key, row.ns, row.number))
            if gone:
                self._sweep(db, key)
        return len(gone)

    def _sweep(self, db: apsw.Connection, key: bytes) -> None:
        """Values that nothing refers to any more go; what an entry of the transcript points to stays."""
        refs: list[Ref] = []
        for row in db.execute(Q["all_of_thread"], (key,)):
            refs += read_checkpoint(key, row).values.values()
        for row in db.execute(Q["all_written"], (key,)):
            refs += [item[2] for item in read_written(key, row[0], row[1], row[2:]).items]
        used: set[int] = set()
        for ref in refs:
            if isinstance(ref, Kept):
                used.add(ref.number)
            elif isinstance(ref, LongList):
                number = ref.number
                while number and number not in used:
                    used.add(number)
                    _, number, _, runs = self._list(db, key, number)
                    used.update(-place for place in unrolled(runs) if place < 0)
            elif isinstance(ref, Places):
                used.update(-place for place in unrolled(ref.runs) if place < 0)
        last = next(iter(db.execute(Q["last_value"], (key,))))[0]
        for number, _, _, body, entry, _ in list(db.execute(Q["all_values"], (key,))):
            if number not in used and (entry is None or body is None):
                # the highest one leaves its number behind, so that no other value gets it
                db.execute(Q["gone"] if number == last else Q["drop_value"], (key, number))
        db.execute(THREADS["content_changed"], (key,))
        db.execute(THREADS["reseal"], (key,))

    def copy(self, source: ThreadRow, key: bytes, names: tuple[str, str], now: float) -> None:
        """Another thread with the same checkpoints, whose messages it shares."""
        with self.database.writing() as db:
            found = thread_row(db, source.key)
            self.store._fork(db, source, key, names, found[0].head if found else 0, now)
            for row in list(db.execute(Q["all_of_thread"], (source.key,))):
                read_checkpoint(source.key, row)
                put_checkpoint(db, key, *row[:10])
            for row in list(db.execute(Q["all_written"], (source.key,))):
                read_written(source.key, row[0], row[1], row[2:])
                put_written(db, key, *row[:5])
            for row in list(db.execute(Q["all_values"], (source.key,))):
                verify(row[5], "checkpoint value", source.key, *row[:5])
                db.execute(Q["keep"], (key, *row[:5]))


class _Row(NamedTuple):
    """A checkpoint as it was stored, in case that its values are shortened."""

    columns: tuple[Any, ...]
    skeleton: bytes
    refs: dict[str, Ref]


class _Task(NamedTuple):
    """What a task wrote, likewise."""

    columns: tuple[Any, ...]
    items: list[tuple[int, str, Ref]]


def _check_places(
    db: apsw.Connection,
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
            if isinstance(place, int) and place < 0 and not list(db.execute(Q["value"], (key, -place))):
                raise StalePlaces(anew=False)


def _pieces(body: bytes, texts: Sequence[tuple[int, bytes]]) -> list[bytes | int]:
    pieces: list[bytes | int] = [body]
    for position, text in texts:
        pieces = _without(pieces, text, position)
    return pieces


def _remember(kept: dict[Any, Any], at: Any, what: Any) -> None:
    kept[at] = what
    while len(kept) > RAW:
        del kept[next(iter(kept))]


def _without(pieces: list[bytes | int], text: bytes, position: int) -> list[bytes | int]:
    """Bytes without a text that an entry says."""
    out: list[bytes | int] = []
    for piece in pieces:
        if isinstance(piece, int) or text not in piece:
            out.append(piece)
            continue
        parts = piece.split(text)
        for part in parts[:-1]:
            out += (part, position)
        out.append(parts[-1])
    return out


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
