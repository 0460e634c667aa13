"""Values less the texts that stand in the transcript.

A graph's input, and what its tasks wrote, say again what stands in the transcript a step later. Such a value keeps its
bytes less the texts: (bytes, position, bytes, ...). If a message is deleted or masked, it is gone too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from novelo.stores.checkpoints import (
    INLINE_BYTES,
    ONCE_BYTES,
    Blob,
    Cut,
    Inline,
    Kept,
    NewCheckpoint,
    Ref,
    Written,
    hash_of,
)
from novelo.stores.tables.checkpoint_packing import ENCODE, body_of, written_body
from novelo.stores.tables.checkpoint_reading import CUT
from novelo.stores.tables.checkpoint_rows import shorten_written
from novelo.stores.tables.checkpoint_values import keep
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.placing import Placing

WORTH = 24  # characters of a text that is worth it
RAW, RAW_BYTES = 256, 1 << 16  # checkpoints whose values may still be shortened; larger values are not


class Row(NamedTuple):
    """A checkpoint as it was stored, in case that its values are shortened."""

    columns: tuple[Any, ...]
    skeleton: bytes
    metadata: str
    refs: dict[str, Ref]
    before: Sequence[Written]


class Task(NamedTuple):
    """What a task wrote, likewise."""

    columns: tuple[Any, ...]
    items: list[tuple[int, str, Ref]]


class Shortening:
    """What was stored of late, and is shortened when its texts become entries."""

    def __init__(self) -> None:
        self._raw: dict[tuple[bytes, str, str], list[Row | Task | tuple[int, Blob]]] = {}  # as it came, by checkpoint
        self._texts: dict[tuple[bytes, str, str], list[tuple[int, bytes]]] = {}  # what its children added, by position

    def forget(self, key: bytes) -> None:
        """Content of a thread is gone: nothing of it stays in memory here."""
        for kept in (self._raw, self._texts):
            for at in [at for at in list(kept) if at[0] == key]:
                kept.pop(at, None)

    def put(
        self,
        db: Connection,
        at: tuple[bytes, str, str],
        blob: Blob,
        once: bool,
        now: Sequence[tuple[int, bytes]] = (),
    ) -> Ref:
        """A value for a row: inline, or kept aside.

        Args:
            now: texts that become entries in this transaction.
        """
        texts = [*self._texts.get(at, ()), *now]
        if len(blob.body) <= (ONCE_BYTES if once else INLINE_BYTES):
            ref = Inline(blob.type, blob.body)
            return _shortened(at[0], ref, texts) or ref
        number = keep(db, at[0], blob)
        if "+" not in blob.type:
            _cut(db, at[0], number, blob, texts)
            if len(blob.body) <= RAW_BYTES:
                _remember(self._raw, at, [*self._raw.get(at, ()), (number, blob)])
        return Kept(number)

    def note(self, at: tuple[bytes, str, str], refs: Iterable[Ref], row: Row | Task) -> None:
        """Remember what was stored at a checkpoint, in case that its texts become entries."""
        if any(isinstance(ref, Inline) and len(ref.body) >= WORTH and "+" not in ref.type for ref in refs):
            _remember(self._raw, at, [*self._raw.get(at, ()), row])

    def parent(self, db: Connection, new: NewCheckpoint, placing: Placing) -> None:
        """Values of the parent, less the texts that are entries from now on; the texts are left with the placing."""
        at = (new.key, new.ns, new.parent or "")
        raw = self._raw.pop(at, ())
        if not placing.new:
            return
        texts = placing.texts
        for position, said in enumerate(placing.new, placing.head):
            text = said.entry.message.content
            if isinstance(text, str) and len(text) >= WORTH:
                texts.append((position, text.encode()))
        for one in raw:
            if isinstance(one, Row):
                short = {c: _shortened(new.key, ref, texts) or ref for c, ref in one.refs.items()}
                if short != one.refs:  # unless the row has lost something since: what was removed must not come back
                    body = body_of(one.skeleton, one.metadata, short, one.before)
                    former = body_of(one.skeleton, one.metadata, one.refs, one.before)
                    db.run("shorten", (*one.columns, body, former))
            elif isinstance(one, Task):
                items = [(i, c, _shortened(new.key, ref, texts) or ref) for i, c, ref in one.items]
                if items != one.items:
                    shorten_written(db, one.columns, written_body(items), written_body(one.items))
            else:
                _cut(db, new.key, *one, texts)

    def committed(self, new: NewCheckpoint, placing: Placing) -> None:
        """The texts are entries: what a task wrote at the parent may come later than the state that took it up.

        Before the commit nothing is remembered: an entry that is not there after all would take the value with it.
        """
        if placing.texts:
            _remember(self._texts, (new.key, new.ns, new.parent or ""), placing.texts)


def _shortened(key: bytes, ref: Ref, texts: Sequence[tuple[int, bytes]]) -> Cut | None:
    if not isinstance(ref, Inline) or "+" in ref.type or len(ref.body) < WORTH:
        return None
    pieces = _pieces(ref.body, texts)
    return Cut(ref.type, hash_of(key, ref.type, ref.body), tuple(pieces)) if len(pieces) > 1 else None


def _cut(db: Connection, key: bytes, number: int, blob: Blob, texts: Sequence[tuple[int, bytes]]) -> None:
    pieces = _pieces(blob.body, texts)
    if len(pieces) > 1:
        db.run("cut", (key, number, CUT + blob.type, ENCODE(pieces), blob.hash))


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
