"""One database made equal to another, row by row.

Both sides give the rows of a table in the order of their keys. Where the target has one that the source has not, or has
otherwise, it goes; then what is missing comes. Nothing else is written, so a copy that was killed is resumed by running
it again, and a second run brings over what has changed since. A batch of threads is one transaction of the target; when
it is committed its rows are read back, and their counts and hashes compared with those that were read at the source.
No more than one batch's keys and some rows are held in memory, however long a thread is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, StorageCorrupt
from novelo.stores.raw.base import FIRST, LAST, Head, Row, Source, Target
from novelo.stores.raw.columns import COLLECTION, THREAD, WHOLE, Table
from novelo.stores.raw.report import CopyReport, Progress

BATCH_KEYS, BATCH_SIZE = 200, 4000  # threads, and entries, of one transaction; a longer thread is one of its own
WRITE_ROWS, WRITE_BYTES = 500, 1 << 20  # written at once
PAGE = 1000  # keys that are read at once
SECTIONS: tuple[tuple[str, str, tuple[Table, ...]], ...] = (
    ("thread", "threads", THREAD),
    ("collection", "collections", COLLECTION),
    ("table", "", WHOLE),
)
_PACK = msgspec.msgpack.Encoder().encode
Sum = tuple[int, bytes]  # rows of a key in a table, and a hash over them


def copy_rows(
    source: Source, target: Target, *, overwrite: bool = False, progress: Progress | None = None
) -> CopyReport:
    """Make a target equal to a source; what is equal already is left alone.

    Args:
        overwrite: also where the target has threads that the source has not, or newer ones.
        progress: called after each batch with the threads that are done, how many there are, and the word "threads".
    Raises:
        InvalidSpec: the target holds other data. Nothing was written.
        StorageCorrupt: what was written reads otherwise, or something at the source cannot be read; `report` tells of
            all that was copied.
    """
    copier = _Copier(source, target, progress)
    if not overwrite:
        _refuse_other(source, target)
    target.adopt(source.facts(), source.place)
    for noun, what, tables in SECTIONS:
        for lo, hi, heads in _batches(source, what):
            copier.batch(noun, tables, lo, hi, heads)
    return copier.ended()


def _batches(source: Source, what: str) -> Iterator[tuple[bytes, bytes, list[Head]]]:
    """Ranges of keys, (after, upto], that leave none out, and what the source has in each."""
    if not what:
        yield FIRST, LAST, []
        return
    low, size, batch = FIRST, 0, list[Head]()
    for head in _all_heads(source, what):
        if batch and (len(batch) == BATCH_KEYS or size + head.size > BATCH_SIZE):
            yield low, batch[-1].key, batch
            low, size, batch = batch[-1].key, 0, []
        batch.append(head)
        size += head.size
    yield low, LAST, batch


def _all_heads(side: Source, what: str) -> Iterator[Head]:
    after = FIRST
    while page := side.heads(what, after, PAGE):
        yield from page
        after = page[-1].key


def _refuse_other(source: Source, target: Target) -> None:
    """Whether the target is empty, or an earlier state of the source.

    Raises:
        InvalidSpec: it is neither.
    """
    if "encrypted" in target.facts() and target.facts().get("vault") != source.facts().get("vault"):
        raise InvalidSpec(
            f"{target.place} is encrypted, and {source.place} is not, or has another vault: rows are copied as they "
            "are; export its threads and import them"
        )
    for noun, what, _ in SECTIONS[:2]:
        theirs = _all_heads(source, what)
        head = next(theirs, None)
        for mine in _all_heads(target, what):
            while head is not None and head.key < mine.key:
                head = next(theirs, None)
            if head is None or head.key != mine.key:
                found = f"holds a {noun} {mine.name} that the source has not"
            elif mine.newer(head):
                found = f"holds a newer {noun} {mine.name} than the source"
            else:
                continue
            raise InvalidSpec(
                f"{target.place} {found}: nothing was copied. Name an empty destination, "
                "or make it equal all the same with --overwrite (overwrite=True)"
            )


class _Copier:
    """One run."""

    def __init__(self, source: Source, target: Target, progress: Progress | None) -> None:
        self.source, self.target, self._progress = source, target, progress
        vaulted = "vault" in source.facts()
        self.report = CopyReport(source.place, target.place, total=source.count("threads"), vault=vaulted)
        self._since = time.monotonic()
        self._digest = blake2b(digest_size=16)

    def ended(self) -> CopyReport:
        """The report, once all batches are done."""
        report = self.report
        report.digest = self._digest.hexdigest()
        report.seconds = time.monotonic() - self._since
        if report.damaged:
            raise StorageCorrupt(
                f"{len(report.damaged)} at the source cannot be read, all else was copied: {report.damaged[0]}",
                report=report,
            )
        self.target.settle(None)
        return report

    # ------------------------------------------------------------------------------------------ one batch
    def batch(self, noun: str, tables: Sequence[Table], lo: bytes, hi: bytes, heads: Sequence[Head]) -> None:
        """Make a range of keys equal; what cannot be read is noted, and what stands beside it copied."""
        try:
            self._equal(noun, tables, lo, hi, heads)
        except StorageCorrupt as error:
            if hasattr(error, "mismatch"):
                raise
            if len(heads) < 2:
                self.report.damaged.append(f"{noun} {heads[0].name if heads else 'of no name'}: {error}")
                return
            ends = [*(head.key for head in heads[:-1]), hi]
            for low, high, head in zip([lo, *ends[:-1]], ends, heads, strict=True):
                self.batch(noun, tables, low, high, [head])

    def _equal(self, noun: str, tables: Sequence[Table], lo: bytes, hi: bytes, heads: Sequence[Head]) -> None:
        erased = {head.key for head in heads if head.erased}
        changed: set[bytes] = set()
        fresh = tables[-1].ranged and not self._there(tables[-1].name, lo, hi)
        sums: dict[str, dict[bytes, Sum]] = {}
        self.target.begin()
        try:
            for table in tables:
                if not fresh:
                    sums[table.name], missing = self._clear(table, lo, hi, erased, changed)
                if fresh or missing:
                    sums[table.name] = self._fill(table, lo, hi, erased, fresh)
            if noun == "collection":
                self.target.settle((lo, hi))
            self.target.commit()
        except BaseException:
            self.target.roll_back()
            raise
        if fresh or changed:
            self._read_back(noun, tables, lo, hi, heads, sums)
        if noun == "thread" and not fresh:
            self.report.same += len(heads) - len(changed & {head.key for head in heads})
        self._add_up(noun, tables, heads, sums)

    def _there(self, what: str, lo: bytes, hi: bytes) -> bool:
        """Whether the target has a key in a range."""
        found = self.target.heads(what, lo, 1)
        return bool(found) and found[0].key <= hi

    def _read(self, table: Table, lo: bytes, hi: bytes, erased: set[bytes]) -> Iterator[Row]:
        """The source's rows; of an erased thread its fence alone, whatever still waits there to be removed."""
        rows = self.source.rows(table, lo, hi)
        return rows if not erased or table.name == "threads" else (row for row in rows if row[0] not in erased)

    def _clear(
        self, table: Table, lo: bytes, hi: bytes, erased: set[bytes], changed: set[bytes]
    ) -> tuple[dict[bytes, Sum], bool]:
        """Take out of the target what the source has not; the source's sums, and whether the target lacks rows.

        Args:
            changed: takes the keys whose rows are not the same.
        """
        sums, missing, size = _Sums(), False, 0
        out = _Writer(lambda rows: self.target.delete(table, rows))
        for mine, theirs in self._side_by_side(table, self._read(table, lo, hi, erased), lo, hi):
            equal = False
            if mine is not None:
                wanted = self.source.same(table, mine)
                packed = _PACK(wanted)
                sums.add(_key(table, mine), packed)
                size += len(packed)
                equal = theirs is not None and self.target.same(table, theirs) == wanted
            if theirs is not None and not equal:
                out.put(theirs, 64)
            if not equal:
                changed.add(_key(table, mine or theirs or ()))
                missing |= mine is not None
        self.report.removed += out.ended()
        self.report.bytes += 0 if missing else size
        return sums.ended(), missing

    def _fill(self, table: Table, lo: bytes, hi: bytes, erased: set[bytes], fresh: bool) -> dict[bytes, Sum]:
        """Bring what the target lacks; the source's sums."""
        sums = _Sums()
        out = _Writer(lambda rows: self.target.insert(table, rows))
        for mine, theirs in self._side_by_side(table, self._read(table, lo, hi, erased), lo, hi, fresh):
            if mine is None:
                continue
            wanted = self.source.same(table, mine)
            packed = _PACK(wanted)
            sums.add(_key(table, mine), packed)
            self.report.bytes += len(packed)
            if theirs is None or self.target.same(table, theirs) != wanted:
                out.put(self.source.whole(table, mine), len(packed))
        self.report.written += out.ended()
        return sums.ended()

    def _side_by_side(
        self, table: Table, rows: Iterator[Row], lo: bytes, hi: bytes, fresh: bool = False
    ) -> Iterator[tuple[Row | None, Row | None]]:
        """Rows of the source and of the target that have the same key, or None where one side has none."""
        others = iter(()) if fresh else self.target.rows(table, lo, hi)
        lead = table.lead
        mine, theirs = next(rows, None), next(others, None)
        while mine is not None or theirs is not None:
            if theirs is None or (mine is not None and mine[:lead] < theirs[:lead]):
                yield mine, None
                mine = next(rows, None)
            elif mine is None or theirs[:lead] < mine[:lead]:
                yield None, theirs
                theirs = next(others, None)
            else:
                yield mine, theirs
                mine, theirs = next(rows, None), next(others, None)

    # ------------------------------------------------------------------------------------------ what stands there now
    def _read_back(
        self,
        noun: str,
        tables: Sequence[Table],
        lo: bytes,
        hi: bytes,
        heads: Sequence[Head],
        wanted: dict[str, dict[bytes, Sum]],
    ) -> None:
        """Compare what was committed with what was read.

        Raises:
            StorageCorrupt: it is not the same.
        """
        names = {head.key: head.name for head in heads}
        for table in tables:
            sums = _Sums()
            for row in self.target.rows(table, lo, hi):
                sums.add(_key(table, row), _PACK(self.target.same(table, row)))
            found = sums.ended()
            for key in wanted[table.name].keys() | found.keys():
                (most, one), (much, other) = wanted[table.name].get(key, (0, b"")), found.get(key, (0, b""))
                if (most, one) != (much, other):
                    raise StorageCorrupt(
                        f"{noun} {names.get(key, key.hex())}: the copy differs in {table.name}, {most} rows were read "
                        f"(hash {one.hex()}) and {much} are there ({other.hex()}): copy again",
                        mismatch=True,
                        report=self.report,
                    )

    def _add_up(
        self, noun: str, tables: Sequence[Table], heads: Sequence[Head], sums: dict[str, dict[bytes, Sum]]
    ) -> None:
        report = self.report
        for table in tables:
            count = sum(count for count, _ in sums[table.name].values())
            report.rows[table.name] = report.rows.get(table.name, 0) + count
        for key in sorted(set[bytes]().union(*sums.values())):
            for table in tables:
                if key in sums[table.name]:
                    self._digest.update(b"%b %b %d %b" % (table.name.encode(), key, *sums[table.name][key]))
        if noun == "thread":
            report.done += len(heads)
        report.seconds = time.monotonic() - self._since
        if self._progress is not None and noun == "thread":
            self._progress(report.done, max(report.total, report.done), "threads")


def _key(table: Table, row: Row) -> bytes:
    """What a row's sum goes to: its key, or, of a table that is read as a whole, none."""
    return row[0] if table.ranged else b""


class Checked:
    """A source in the place of a target: where anything would have to be written, it is an error."""

    def __init__(self, inner: Source) -> None:
        self._inner, self.place = inner, inner.place
        self.heads, self.rows, self.same = inner.heads, inner.rows, inner.same
        self.facts, self.whole, self.count, self.close = inner.facts, inner.whole, inner.count, inner.close

    def adopt(self, facts: dict[str, bytes], note: str) -> None:
        """They must be the same."""
        if facts != self.facts():
            raise StorageCorrupt(f"{self.place} has other facts than {note}: it is no copy of it", mismatch=True)

    def delete(self, table: Table, rows: Sequence[Row]) -> None:
        """A row too many."""
        raise StorageCorrupt(
            f"{table.by} {bytes(rows[0][0]).hex()}: {table.name} in {self.place} has other rows than the source",
            mismatch=True,
        )

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """A row too few."""
        raise StorageCorrupt(
            f"{table.by} {bytes(rows[0][0]).hex()}: {table.name} in {self.place} lacks a row", mismatch=True
        )

    def begin(self) -> None:
        """Nothing is written."""

    commit = roll_back = begin

    def settle(self, upto: tuple[bytes, bytes] | None) -> None:
        """Nothing is written."""


class _Sums:
    """Counts and hashes of rows, key by key."""

    def __init__(self) -> None:
        self._done: dict[bytes, Sum] = {}
        self._key, self._count, self._hash = b"", 0, blake2b(digest_size=16)

    def add(self, key: bytes, packed: bytes) -> None:
        """One more row; keys come in order."""
        if key != self._key:
            self._end()
            self._key, self._count, self._hash = key, 0, blake2b(digest_size=16)
        self._count += 1
        self._hash.update(packed)

    def _end(self) -> None:
        if self._count:
            self._done[self._key] = self._count, self._hash.digest()

    def ended(self) -> dict[bytes, Sum]:
        """All of them."""
        self._end()
        return self._done


class _Writer:
    """Rows that are written some hundred at once; how many they were."""

    def __init__(self, write: Callable[[list[Row]], Any]) -> None:
        self._write, self._rows, self._bytes, self._all = write, list[Row](), 0, 0

    def put(self, row: Row, size: int) -> None:
        """One more, of about so many bytes."""
        self._rows.append(row)
        self._bytes += size
        if len(self._rows) == WRITE_ROWS or self._bytes > WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._write(self._rows)
            self._all += len(self._rows)
            self._rows, self._bytes = [], 0

    def ended(self) -> int:
        """The last ones are written; how many there were."""
        self._flush()
        return self._all
