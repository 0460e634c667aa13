"""Keeping values aside from a checkpoint's row: each once, by its hash; a long list of messages as its difference."""

from __future__ import annotations

from hashlib import blake2b
from itertools import takewhile

from novelo.stores.checkpoints import Blob, LongList, Ref, runs_of
from novelo.stores.tables.checkpoint_packing import ENCODE
from novelo.stores.tables.checkpoint_reading import CheckpointReading
from novelo.stores.tables.connection import Connection

LIST_TYPE = "list"
MAX_DEPTH = 64  # of long lists that stand on each other


def keep(db: Connection, key: bytes, blob: Blob, entry: int | None = None, look: bool = True) -> int:
    """The number of a value, which is there already or is kept now."""
    found = next(iter(db.run("value_by_hash", (key, blob.hash))), None) if look else None
    if found is not None and not found[2] and (entry is None or found[1] == entry):
        return int(found[0])
    number = int(next(iter(db.run("last_value", (key,))))[0]) + 1
    db.run("keep", (key, number, blob.hash, blob.type, blob.body, entry))
    return number


def keep_list(
    reading: CheckpointReading, db: Connection, key: bytes, wrap: int, places: list[int], before: Ref | None
) -> Ref:
    """A long list of places, kept as what it has more than the one before it."""
    depth, base, same = 0, 0, 0
    if isinstance(before, LongList):
        former = reading.places_in(db, key, before)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(former, places, strict=False)))
        depth = reading.list_in(db, key, before.number)[0] + 1
        if depth < MAX_DEPTH and 2 * same > len(places):
            base = before.number
        else:
            depth, same = 0, 0
    body = ENCODE((depth, base, same, runs_of(places[same:])))
    return LongList(wrap, keep(db, key, Blob(LIST_TYPE, body, blake2b(body, digest_size=16).digest())))
