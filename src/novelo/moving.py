"""From one database to another: everything, with the same ids and keys."""

from __future__ import annotations

import os
from contextlib import closing

from novelo import keeping
from novelo.errors import InvalidSpec
from novelo.stores.raw import CopyReport, Progress, copy_rows


def copy(source: str, target: str, *, overwrite: bool = False, progress: Progress | None = None) -> CopyReport:
    """Make one database equal to another; either may be a SQLite file or a schema of PostgreSQL.

    All rows go over as they are: threads with their owners, turns with their keys, the ledger, summaries, forks, jobs,
    LangGraph's checkpoints, documents with vectors, receipts of erasures, and the secret that keys are made with. The
    source is read as it is at one moment, and not written; it may be used meanwhile, and a second run brings over what
    has changed since. A run that was killed is resumed by running it again. What was written is read back and compared.

    Args:
        source, target: addresses or files; the target is made if it is not there.
        overwrite: make the target equal also where it has threads that the source has not, or newer ones.
        progress: called with how many threads are done, how many there are, and the word "threads".
    Returns:
        Counts, rates, and a hash over all, which is the same for equal contents in whatever engine.
    Raises:
        InvalidSpec: the target holds other data, or is the source. Nothing was written.
        StorageCorrupt: something cannot be read, or reads otherwise than it was written; `report` says what was done.
    Example: copy("sqlite:///chat.db", "postgresql://app@db.example/chat")
    """
    with closing(keeping.source(source)) as state:
        if state.place == keeping.place(target):
            raise InvalidSpec(f"{state.place} is source and target: give two")
        with closing(keeping.target(target)) as there:
            return copy_rows(state, there, overwrite=overwrite, progress=progress)


def backup(source: str, path: str, *, force: bool = False, progress: Progress | None = None) -> CopyReport:
    """Write a database to a new SQLite file, whole or not at all: `memory.backup` without opening it for writing."""
    with closing(keeping.source(source)) as state:
        return keeping.save(state, os.fspath(path), force=force, progress=progress)
