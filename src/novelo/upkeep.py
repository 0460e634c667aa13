"""A memory as its keeper sees it: saved, and moved to another database."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from novelo.errors import InvalidSpec
from novelo.stores.base import Store
from novelo.stores.raw import CopyReport, Progress, Source, Target, copy_rows


class Moving(NamedTuple):
    """How one state of a store is read, a database written by its address, and a state saved to a file (connect.py)."""

    source: Callable[[Store], Source]
    target: Callable[[str], Target]
    save: Callable[..., CopyReport]
    place: Callable[[str], str]


class Upkeep:
    """What a memory can do for the database that it stands in."""

    store: Store
    moving: Moving | None

    def backup(
        self, path: str | os.PathLike[str], *, force: bool = False, progress: Progress | None = None
    ) -> CopyReport:
        """Write all that is here now to a new SQLite file, while turns go on; it is there whole or not at all.

        Args:
            path: the file; it is made for its owner alone.
            force: replace one that is there.
            progress: called with how many pages or threads are done, how many there are, and which of both.
        Returns:
            Counts, a hash over all, and how long it took; every row of the file was compared with the database.
        Raises:
            InvalidSpec: the file is there already.
            StorageFull, StorageReadOnly, StorageUnavailable: it cannot be written; nothing is left of it.
            StorageCorrupt: what was written, or what is here, is damaged.
        """
        moving = self._moving()
        with closing(moving.source(self.store)) as state:
            return moving.save(state, os.fspath(path), force=force, progress=progress)

    def copy_to(self, url: str, *, overwrite: bool = False, progress: Progress | None = None) -> CopyReport:
        """Make another database equal to this one: `novelo.copy` from here."""
        moving = self._moving()
        with closing(moving.source(self.store)) as state:
            if state.place == moving.place(url):
                raise InvalidSpec(f"{state.place} is source and target: name another one")
            with closing(moving.target(url)) as target:
                return copy_rows(state, target, overwrite=overwrite, progress=progress)

    def _moving(self) -> Moving:
        if self.moving is None:
            raise InvalidSpec("this memory was made by hand: open one with novelo.open to back it up, or to copy it")
        return self.moving
