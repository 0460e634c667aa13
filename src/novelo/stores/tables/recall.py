"""What a thread's older entries are found by when a question comes back to them: where words stand, and vectors.

Words are those of the search index (`index.py`). Which of its words are meant is asked of the index's own list,
so that a message needs no more at its append than the search has anyway. Vectors are made later, by a job, and stand in
a table of their own; one of no bytes says that there is nothing to be found by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from novelo.stores.base import VECTOR_REACH, Base, ThreadRow
from novelo.stores.rules import storable
from novelo.stores.tables.background import Background, hidden_below
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.walk import shown_below


class Recalled(Background):
    """Finding older entries again, in a store over tables."""

    def holding(self, thread: ThreadRow, start: str, same: Callable[[str], bool], before: int, limit: int) -> list[int]:
        """Positions of visible messages below one that hold a word, or a kin of it."""
        if not storable(start):
            return []
        with self.database.reading() as db:
            out: list[int] = []
            for key, low, high in self._segments(db, thread):
                if len(out) < limit:
                    out += self.index.positions(db, start, same, key, range(low, min(high, before)), limit - len(out))
            if not thread.hidden or not out:
                return out[:limit]
            shown = list(shown_below(db, thread, before))
        return [p for p in out if any(low <= p < high for low, high in shown)][:limit]

    # ------------------------------------------------------------------------------------------ vectors of messages
    def unembedded(self, thread: ThreadRow, model: str, limit: int) -> list[int]:
        """The newest positions of the thread's own entries without a vector of a model, newest first."""
        first = thread.fork_at if thread.parent is not None else 0
        with self.database.reading() as db:
            done = {row[0] for row in db.run("embedded", (thread.key, model))}
        if len(done) == thread.head - first:
            return []
        out: list[int] = []
        for position in range(thread.head - 1, first - 1, -1):
            if len(out) == limit:
                break
            if position not in done:
                out.append(position)
        return out

    def put_vectors(self, key: bytes, model: str, base: Base, vectors: Mapping[int, bytes]) -> bool:
        """Keep vectors of the thread's own entries, if what they were made from still stands."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased" or found[0].content_version != base.content_version:
                return False
            if hidden_below(db, key, base.upto) != base.hidden:
                return False
            for position, vector in vectors.items():
                db.run("put_vector", (key, model, position, vector))
            return True

    def vectors(self, thread: ThreadRow, model: str, limit: int) -> list[tuple[int, bytes]]:
        """Position and vector of the newest visible entries that have one of a model, newest first."""
        out: list[tuple[int, bytes]] = []
        with self.database.reading() as db:
            shown = list(shown_below(db, thread, thread.head)) if thread.hidden else []
            for key, low, high in self._segments(db, thread):
                rows = db.run("vectors", (key, model, low, high))
                for position, vector in rows:
                    if len(out) == limit:
                        return out
                    if not thread.hidden or any(a <= position < b for a, b in shown):
                        out.append((position, vector))
        return out

    def _drop_vectors(self, db: Connection, key: bytes, start: int, stop: int) -> int:
        """Vectors of a thread's own entries in a range go, and of those behind it that may be made from them."""
        db.run("drop_vectors", (key, start, stop + VECTOR_REACH))
        return db.changes()
