"""Old copies of rows inside of pages: SQLite's secure_delete overwrites what is deleted, and not what was moved.

A page of a tree is, from its beginning: a header, an array of places, a gap that belongs to nobody, and the rows. When
rows move to a neighbour, the page is written anew from its end, and in the gap stands what stood there before: copies
of rows. If such a row is deleted later, in the page where it lives by then, its old copy stays (found by the test of a
hundred canaries: in one erasure of about fifty, SQLite 3.54.1). VACUUM takes it away, and writes the whole file for it.

Here the gaps are looked through, and written over with zeros where there is something in them. Nobody reads a gap, so
that this changes nothing, whenever a reader looks or the power fails. What must hold while it is done:

- the log is empty, and nobody can write into it: we hold the lock of writers. Else a page could come out of the log at
  the same moment. Other connections forget their copies of pages when one more transaction has been committed, ours;
- the file is never closed here while a connection of this process has it open: by the rules of POSIX that would let go
  of all their locks. The descriptors are kept, and counted.

A page that is no tree's begins with the number of another page (of a chain, of the list of free ones), whose first byte
is 0 below 2^24 pages: it is not taken for one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

TREE = frozenset((2, 5, 10, 13))  # the first byte of a page of a tree: inner and outer ones, of an index or a table
MOST_BYTES = 1 << 30  # of a file that is looked through after each removal (a second); a larger one waits for a VACUUM
MOST_PAGES = 1 << 24
CHUNK = 1 << 20
_LOCK = threading.Lock()
_OPEN: dict[tuple[int, int], list[int]] = {}  # (device, file) -> descriptor, and how many have it


class File:
    """A database file as bytes, beside the connections that have it open."""

    def __init__(self, path: str) -> None:
        found = os.stat(path)
        self._name = (found.st_dev, found.st_ino)
        with _LOCK:
            if self._name not in _OPEN:
                _OPEN[self._name] = [os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)), 0]
            _OPEN[self._name][1] += 1
            self._descriptor = _OPEN[self._name][0]

    def close(self) -> None:
        """Let it go; the last one closes it, when all connections of its database are closed."""
        with _LOCK:
            kept = _OPEN[self._name]
            kept[1] -= 1
            if not kept[1]:
                os.close(_OPEN.pop(self._name)[0])

    def gaps(self) -> list[tuple[int, int]]:
        """Gaps with something in them: where each begins, and its bytes."""
        size = os.fstat(self._descriptor).st_size
        head = os.pread(self._descriptor, 100, 0)
        page = int.from_bytes(head[16:18], "big") if len(head) == 100 else 0
        page = 65536 if page == 1 else page
        if not page or size // page >= MOST_PAGES:
            return []
        return [gap for at in range(0, size, CHUNK) for gap in self._of_chunk(at, page)]

    def _of_chunk(self, at: int, page: int) -> Iterator[tuple[int, int]]:
        data = os.pread(self._descriptor, CHUNK, at)
        for first in range(0, len(data) - page + 1, page):
            head = first + (100 if at + first == 0 else 0)
            kind = data[head]
            if kind not in TREE:
                continue
            begin = head + (12 if kind < 8 else 8) + 2 * (data[head + 3] << 8 | data[head + 4])
            end = first + ((data[head + 5] << 8 | data[head + 6]) or 65536)
            if begin < end <= first + page and data.count(0, begin, end) != end - begin:
                yield at + begin, end - begin

    def overwrite(self, gaps: list[tuple[int, int]]) -> None:
        """Write zeros over gaps, durably."""
        for at, size in gaps:
            os.pwrite(self._descriptor, bytes(size), at)
        os.fsync(self._descriptor)


def can_wash(path: str) -> bool:
    """Whether a file's gaps can be looked through here: where the system can, and the file is not too large."""
    return hasattr(os, "pread") and Path(path).stat().st_size <= MOST_BYTES
