"""A memory as its keeper sees it: saved, and moved to another database."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from novelo.errors import InvalidSpec
from novelo.stores.base import Store

if TYPE_CHECKING:
    from novelo.doctor import Checkup
    from novelo.memory import Memory
    from novelo.stores.findings import Look, OnLook
    from novelo.stores.raw import CopyReport, Progress, Source, Target

SAMPLE = 1000  # threads that the doctor looks at, unless told otherwise


class Keeper(NamedTuple):
    """What keeping.py knows of engines.

    How one state of a store is read, a database opened by its address to be written, a state saved to a file; an
    address in one form; how a database is looked at, and mended.
    """

    source: Callable[[Store], Source]
    target: Callable[[str], Target]
    save: Callable[..., CopyReport]
    place: Callable[[str], str]
    look: Callable[[Store, bool, OnLook | None], Look]
    mend: Callable[[Store, str], int]


class Upkeep:
    """What a memory can do for the database that it stands in."""

    store: Store
    keeper: Keeper | None

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
        keeper = self._keeper()
        with closing(keeper.source(self.store)) as state:
            return keeper.save(state, os.fspath(path), force=force, progress=progress)

    def copy_to(self, url: str, *, overwrite: bool = False, progress: Progress | None = None) -> CopyReport:
        """Make another database equal to this one: `novelo.copy` from here."""
        from novelo.stores.raw import copy_rows

        keeper = self._keeper()
        with closing(keeper.source(self.store)) as state:
            if state.place == keeper.place(url):
                raise InvalidSpec(f"{state.place} is source and target: name another one")
            with closing(keeper.target(url)) as target:
                return copy_rows(state, target, overwrite=overwrite, progress=progress)

    def doctor(
        self,
        *,
        policy: Any = None,
        window: int | None = None,
        most: int = SAMPLE,
        deep: bool = False,
        progress: OnLook | None = None,
    ) -> Checkup:
        """Look for what is wrong, or soon will be; nothing is written. See `novelo.doctor`.

        Args:
            policy: by which contexts are composed; None is what the last turn of each thread says.
            window: tokens of the model's window; None is what the table of prices says of its last model.
            most: threads that are looked at, the last used first; 0 is all.
            deep: read everything: the file's structure, and every message.
            progress: called with how many are looked at, how many there are, and of what.
        """
        from novelo.doctor import examined

        return examined(cast("Memory", self), self._keeper().look, policy, window, most, deep, progress)

    def mend(self, what: str) -> int:
        """Do what `doctor` proposes and nothing else does; how many things were done.

        Args:
            what: "turns" closes turns whose writer is gone, "jobs" takes up jobs that nobody tries any more, "erasures"
                ends those that found no room, "indexes" makes missing ones, "vacuum" gives room back.
        Raises:
            InvalidSpec: nothing of these.
        """
        from novelo.doctor import mended

        if what in ("indexes", "vacuum"):
            return self._keeper().mend(self.store, what)
        return mended(cast("Memory", self), what)

    def _keeper(self) -> Keeper:
        if self.keeper is None:
            raise InvalidSpec("this memory was made by hand: open one with novelo.open to look after its database")
        return self.keeper
