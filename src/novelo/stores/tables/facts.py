"""Rows of threads, turns, pins and the ledger as values, each compared with its seal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from novelo.errors import StorageCorrupt
from novelo.stores.base import ThreadRow, TurnRow
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.rows import Facts, unsealed, verify
from novelo.usage import Call, Spent


def thread_row(
    connection: Connection, key: bytes, statement: str = "thread"
) -> tuple[ThreadRow, dict[str, Any], float] | None:
    """A thread's facts, its state, and the time to live of its lease; in a transaction that writes it is ours then.

    Args:
        statement: "ancestor" reads without a lock.
    """
    row = next(iter(connection.run(statement, (key,))), None)
    return None if row is None else read_thread(row)


def read_thread(row: tuple[Any, ...]) -> tuple[ThreadRow, dict[str, Any], float]:
    """The same of a row with all columns of a thread.

    Raises:
        StorageCorrupt: it was altered outside of this program.
    """
    (
        key,
        owner,
        thread_id,
        head,
        turns,
        opening,
        running,
        epoch,
        holder,
        lease_until,
        lease_s,
        open_turn,
        status,
        title,
        tags,
    ) = row[:15]
    metadata, state, version, parent, fork_at, hidden, pins, asked, summary, created, updated, found = row[15:]
    try:
        counts = (head, turns, opening, running, epoch, status, version, parent, fork_at, hidden, pins, asked, summary)
        verify(found, "thread", key, *counts, created)
        known = msgspec.json.decode(unsealed(key, "facts", metadata), type=Facts) if metadata else Facts()
        copies = (owner, thread_id, title, msgspec.json.decode(tags, type=tuple[str, ...]))
        if copies != (known.owner, known.thread_id, known.title, known.tags):
            raise StorageCorrupt(
                f"the facts of thread {bytes(key).hex()} were altered outside of novelo: restore a backup"
            )
        facts = ThreadRow(
            key, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, open_turn, status, title,
            known.tags, known.metadata, version, parent, fork_at, bool(hidden), bool(pins), asked, summary, created,
            updated,
        )  # fmt: skip
        return facts, msgspec.json.decode(unsealed(key, "state", state)) if state else {}, lease_s
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StorageCorrupt(f"the row of thread {bytes(key).hex()} was altered outside of novelo") from error


def turn_row(key: bytes, row: tuple[Any, ...]) -> TurnRow:
    """A turn of the columns first, number, last, status, epoch, created, key, request, seal, manifest."""
    first, number, last, status, epoch, created, name, _, found, packed = row
    verify(found, "turn", key, *row[:8])
    manifest = None if packed is None else unsealed(key, "manifest", packed)
    return TurnRow(first, last, status, name, epoch, created / 1000, manifest, number)


def pinned(connection: Connection, key: bytes) -> list[int]:
    """Pinned positions, in order."""
    out = []
    for position, found in connection.run("pins", (key,)):
        verify(found, "pin", key, position)
        out.append(position)
    return out


def read_call(key: bytes, row: tuple[Any, ...]) -> Call:
    """A call of the ledger, of its columns behind thread and number."""
    verify(row[17], "call", key, *row[:17])
    turn, purpose, model, into, out, read, write, thought, latency, first, estimated, created, cost, prices = row[:14]
    raw = row[16]
    return Call(
        purpose, model, into, out, read, write, thought, _seconds(latency), _seconds(first), bool(estimated),
        msgspec.json.decode(unsealed(key, "usage", raw)) if raw else {}, turn, created / 1000,
        None if cost is None else Decimal(cost), prices,
    )  # fmt: skip


def spent_of(row: tuple[Any, ...]) -> Spent:
    """What the thread had spent with a call, of the same columns."""
    return Spent(row[14], Decimal(row[15]))


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
