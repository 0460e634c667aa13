"""A connection to a SQLite file as the shared code sees it: statements by their names."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from novelo.stores.sql import statements
from novelo.stores.sqlite.migrations import PACKAGE

STATEMENTS = {
    **statements(PACKAGE),
    **statements(PACKAGE, "checkpoints.sql"),
    **statements(PACKAGE, "documents.sql"),
    **statements(PACKAGE, "privacy.sql"),
}
# What tells a row from the others of its thread, by table: rows that go piece by piece are named by it.
PLACES = {
    "entries": "position", "turns": "first", "calls": "number", "pins": "position", "hidden": "start",
    "summaries": "version", "work": "kind", "checkpoints": "ns, number", "checkpoint_writes": "ns, number, task",
    "checkpoint_values": "number", "vectors": "model, position", "retention": "thread",
}  # fmt: skip


# Which the shared code reads later than it asks, or not at all, while it writes: a statement that has rows left keeps
# its snapshot, and a connection with an old one cannot write.
AT_ONCE = frozenset(("thread", "turn_by_key", "append", "close_turn"))


class Session(apsw.Connection):
    """See `tables/connection.py`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._asked: list[weakref.ref[apsw.Cursor]] = []

    def run(self, name: str, args: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement."""
        rows = self.execute(STATEMENTS[name], args)
        if name in AT_ONCE:
            return iter(rows.fetchall())
        self._asked.append(weakref.ref(rows))
        return rows

    def settle(self) -> None:
        """Whoever had this connection is done: what was left half read is read no further, and keeps no snapshot.

        An idle connection with one would keep the log from being emptied, for as long as nobody needs it.
        """
        if self.txn_state() != apsw.SQLITE_TXN_NONE:
            for rows in filter(None, (asked() for asked in self._asked)):
                rows.close(True)
        self._asked.clear()

    def lock(self, key: bytes) -> None:
        """One writer at a time has the whole file here."""

    def remove(self, table: str, key: bytes, most: int | None = None) -> int:
        """Take all rows of a thread out of a table, or so many; how many went."""
        place = PLACES[table]
        first = f"SELECT {place} FROM {table} WHERE thread = ?1 LIMIT ?2"  # noqa: S608  tables of ours
        self.execute(f"DELETE FROM {table} WHERE thread = ?1 AND ({place}) IN ({first})", (key, most or -1))  # noqa: S608
        return self.changes()

    def count(self, table: str, key: bytes) -> int:
        """How many rows a thread has in a table."""
        return int(next(self.execute(f"SELECT count(*) FROM {table} WHERE thread = ?", (key,)))[0])  # noqa: S608

    def threads(self, owner: str | None, cursor: tuple[float, bytes] | None) -> Iterator[tuple[Any, ...]]:
        """Rows of threads, the last used first, from behind one on."""
        where, values = ["status <> 'erased'"], []
        if owner is not None:
            where.append("owner = ?")
            values.append(owner)
        if cursor is not None:
            where.append("(updated, thread) < (?, ?)")
            values += cursor  # type: ignore[arg-type]
        query = f"SELECT * FROM threads WHERE {' AND '.join(where)} ORDER BY updated DESC, thread DESC"  # noqa: S608
        rows = self.execute(query, values)
        self._asked.append(weakref.ref(rows))
        return rows
