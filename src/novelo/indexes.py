"""What all handles of a memory share of its collections: their vectors in memory, and the threads that make them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from novelo.errors import NoveloError
from novelo.stores.documents import Collection

if TYPE_CHECKING:
    from novelo.documents import Documents
    from novelo.retrievers.matrix import Matrix

STALE_S = 5.0  # for so long new vectors may wait to be searched while more are coming


class Indexes:
    """What all handles of a memory share: vectors in memory, and the threads that make them."""

    def __init__(self, most: int = 8) -> None:
        """Keep the vectors of so many collections, the last used ones."""
        self._most = most
        self._lock = threading.RLock()
        self._matrices: dict[bytes, tuple[Matrix, int, int, float]] = {}
        self._locks: dict[bytes, threading.Lock] = {}
        self._threads: dict[bytes, threading.Thread] = {}
        self._wanted: set[bytes] = set()
        self._stop = threading.Event()

    def matrix(self, store: Any, row: Collection) -> Matrix:
        """The vectors of a collection; of new ones that are still coming in the newest may be some seconds late."""
        from novelo.retrievers.matrix import Matrix

        with self._lock:
            known = self._matrices.pop(row.key, None)
            if known is None or known[0].size != row.size:
                known = (Matrix(row.size), -1, -1, 0.0)
            matrix, put, dropped, read = known
            coming = row.vectors < row.chunks and time.monotonic() - read < STALE_S
            if dropped != row.dropped or (put != row.put and not coming):
                if dropped != row.dropped:
                    matrix = matrix.only(store.vector_numbers(row.key))
                matrix = matrix.with_more(store.vectors(row.key, matrix.last))
                known = (matrix, row.put, row.dropped, time.monotonic())
            self._matrices[row.key] = known
            while len(self._matrices) > self._most:
                del self._matrices[next(iter(self._matrices))]
            return matrix

    def embedding(self, key: bytes) -> threading.Lock:
        """One at a time makes the vectors of a collection here."""
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())

    def embed_behind(self, documents: Documents) -> None:
        """Make a collection's vectors in a thread of its own."""
        with self._lock:
            self._wanted.add(documents.key)
            if self._stop.is_set() or documents.key in self._threads:
                return
            thread = threading.Thread(target=self._embed, args=(documents,), daemon=True, name="novelo-embed")
            self._threads[documents.key] = thread
            thread.start()

    def _embed(self, documents: Documents) -> None:
        while True:
            with self._lock:
                if documents.key not in self._wanted or self._stop.is_set():
                    self._threads.pop(documents.key, None)  # whoever wants more from now on starts another one
                    return
                self._wanted.discard(documents.key)
            try:
                documents.embed(stop=self._stop)
            except Exception as error:  # of ours, or whatever an embedder behind a network raises
                if not self._stop.is_set():
                    said = str(error) if isinstance(error, NoveloError) else type(error).__name__
                    documents.memory.say_once(f"vectors of collection {documents.name!r} were not made: {said}")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the vectors that are being made; False if they are not done in time."""
        with self._lock:
            running = list(self._threads.values())
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for thread in running:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in running)

    def forget(self, key: bytes) -> None:
        """A collection is gone."""
        with self._lock:
            self._matrices.pop(key, None)

    def close(self) -> None:
        """Stop making vectors; what is half done is left to the next one."""
        self._stop.set()
        self.wait(5.0)
        self._matrices.clear()
