"""Lines of checkpoints: what one follows, where it begins a branch, and what is said on the line that it stands on."""

from __future__ import annotations

from novelo.errors import ConcurrentTurnError, ThreadErased
from novelo.stores.checkpoints import NewCheckpoint, Runs, Talk, runs_of
from novelo.stores.rules import merged, without
from novelo.stores.tables.checkpoint_packing import coded, decoded
from novelo.stores.tables.checkpoint_reading import CheckpointReading
from novelo.stores.tables.checkpoint_rows import read_checkpoint
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.placing import Placing


def parent_of(db: Connection, new: NewCheckpoint) -> int:
    """Where the parent stands; 0 if there is none."""
    if new.parent is None:
        return 0
    row = next(iter(db.run("place_of", (new.key, new.ns, coded(new.parent)))), None)
    if row is not None:
        return int(row[0])
    found = thread_row(db, new.key)
    if found is None or found[0].status == "erased" or not list(db.run("any", (new.key,))):
        raise ThreadErased("the thread was deleted while its graph ran; nothing was stored")
    raise ConcurrentTurnError(f"checkpoint {new.parent} is not there any more; nothing was stored: run again")


def branch(reading: CheckpointReading, db: Connection, new: NewCheckpoint, newest: str) -> None:
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
    old, line = _said(reading, db, new, newest, new.parent), _said(reading, db, new, new.parent, newest)
    for ranges, on in ((without(old, line), True), (without(line, old), False)):
        if ranges:
            reading.store._hide(db, new.key, ranges, new.now, on)


def _said(
    reading: CheckpointReading, db: Connection, new: NewCheckpoint, end: str, other: str
) -> list[tuple[int, int]]:
    """Positions of what was said on the line to a checkpoint.

    It is what its checkpoints added to the transcript, and what their states hold since the line left the one to
    another checkpoint: a message may have been said in a third branch first, and stands there.
    """
    out = list(db.run("line", (new.key, coded(end))))
    shared = {decoded(row[0]) for row in db.run("ancestors", (new.key, coded(other)))}
    at: str | None = end
    while at is not None:
        row = next(iter(db.run("by_id", (new.key, new.ns, coded(at)))), None)
        if row is None:
            break
        found = read_checkpoint(new.key, row)
        out += reading.entries_of(db, new, found)
        at = None if at in shared else found.parent
    return merged(out)


def show(reading: CheckpointReading, db: Connection, new: NewCheckpoint, placing: Placing) -> None:
    """What a state takes up from a branch that was left is said in this one too."""
    main = [v for channel, v in new.values.items() if isinstance(v, Talk) and channel in new.main and not new.ns]
    taken: list[Runs] = [runs_of([i for i in value.items if isinstance(i, int)], value.runs) for value in main]
    if not any(taken) or not placing.thread.hidden:
        return
    shown = merged([piece for runs in taken for piece in reading.positions(db, new.key, runs)])
    if ranges := without(shown, placing.before):
        reading.store._hide(db, new.key, ranges, new.now, False)


def joined_span(db: Connection, new: NewCheckpoint, start: int, stop: int) -> tuple[int, int]:
    """What the checkpoint that is replaced had added stays of its line."""
    row = next(iter(db.run("by_id", (new.key, new.ns, coded(new.id)))))
    pieces = [piece for piece in ((row[4], row[5]), (start, stop)) if piece[0] < piece[1]] or [(start, stop)]
    return min(pieces)[0], max(piece[1] for piece in pieces)
