"""A file that appears whole or not at all, and the pages of a database in it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from novelo.errors import InvalidSpec, StorageCorrupt, StorageUnavailable
from novelo.stores.raw import Checked, CopyReport, Progress, copy_rows
from novelo.stores.raw.base import Source
from novelo.stores.sqlite import files
from novelo.stores.sqlite.database import translated
from novelo.stores.sqlite.raw import SQLiteRows, open_source, open_target

PAGES = 4096  # copied between two signs of life
BESIDE = ("", "-wal", "-shm", "-journal")


def save_pages(source: SQLiteRows, path: str, *, force: bool = False, progress: Progress | None = None) -> CopyReport:
    """Write one state of a file to another, page by page, while others go on writing to it.

    The new file is looked at before it has its name: its structure (`integrity_check`), and every row against the
    source, by counts and hashes.

    Raises:
        InvalidSpec: the path is taken, or is the source's.
        StorageFull, StorageReadOnly, StorageUnavailable: it cannot be written. StorageCorrupt: it is not the same.
    """
    began = time.monotonic()
    with whole_file(path, force, source.place) as part:
        with _ours(), _connected(part) as target:
            # The source has begun to read: the pages are those of that moment, whatever is written meanwhile.
            with target.backup("main", source.session, "main") as backup:
                while not backup.done:
                    backup.step(PAGES)
                    if progress is not None:
                        progress(backup.page_count - backup.remaining, backup.page_count, "pages")
            target.execute("PRAGMA journal_mode = DELETE")  # one file, that can be read where nothing can be written
        report = checked(source, part, progress)
    report.target, report.seconds = files.address(path), time.monotonic() - began
    return report


def save_rows(source: Source, path: str, *, force: bool = False, progress: Progress | None = None) -> CopyReport:
    """Write one state of any database to a file, row by row; otherwise as `save_pages`."""
    with whole_file(path, force, source.place) as part:
        target = open_target(part, synchronous="OFF", ballast_bytes=0)
        try:
            report = copy_rows(source, target, progress=progress)
        finally:
            target.close()
        with _ours(), _connected(part) as file:
            file.execute("PRAGMA journal_mode = DELETE")
            _sound(file)
    report.target = files.address(path)
    return report


def checked(source: Source, path: str, progress: Progress | None = None) -> CopyReport:
    """Compare a file with the state that it should be.

    Raises:
        StorageCorrupt: it is damaged, or not the same.
    """
    there = open_source(path)
    try:
        with _ours():
            _sound(there.session)
        return copy_rows(source, Checked(there), progress=progress)
    finally:
        there.close()


def _sound(connection: apsw.Connection) -> None:
    found = next(iter(connection.execute("PRAGMA integrity_check(1)")))[0]
    if found != "ok":
        raise StorageCorrupt(f"the copy is damaged ({found}): look at the disk, and at the source with novelo doctor")


@contextmanager
def whole_file(path: str, force: bool, source: str = "") -> Iterator[str]:
    """A path to write a new file at; at the end, and not before, it has the wanted name. Readable for its owner alone.

    Raises:
        InvalidSpec: the wanted name is taken.
    """
    target = Path(path)
    _free(target, force, source)
    part = target.with_name(target.name + ".part")
    files.make(part)
    lock = _locked(part)
    try:
        _remove(part, BESIDE[1:])
        os.truncate(part, 0)
        part.chmod(files.OWNER_ONLY)
        yield str(part)
        _free(target, force, source)  # somebody else may have come meanwhile
        _named(part, target, force)
    except OSError as error:
        raise files.refused(target, error) from error
    finally:
        _remove(part, BESIDE)
        os.close(lock)


def _free(target: Path, force: bool, source: str) -> None:
    if target.is_dir():
        raise StorageUnavailable(f"{target} is a folder; give a file in it, such as {target / 'backup.db'}")
    if target.exists() and not target.is_file():
        raise StorageUnavailable(f"{target} is no file, but a device or a pipe: give a file")
    if target.exists() and files.address(str(target)) == source:
        raise InvalidSpec(f"{target} is the database itself: give the backup another name")
    if target.exists() and not force:
        raise InvalidSpec(f"{target} is there already: give another name, or --force to replace it")
    for beside in ("-wal", "-journal"):
        log = target.with_name(target.name + beside)
        if log.exists() and log.stat().st_size:
            raise InvalidSpec(
                f"{target}{beside} lies beside {target}: a database of that name is open, or was not closed, and "
                "its log would be taken for the backup's. Give another name"
            )


def _locked(part: Path) -> int:
    """Nobody else writes the same backup at once; a process that was killed holds no lock."""
    handle = os.open(part, os.O_RDWR)
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise StorageUnavailable(f"another process is writing {part}: wait for it, or give another name") from error
    return handle


def _named(part: Path, target: Path, force: bool) -> None:
    handle = os.open(part, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    if force:
        part.replace(target)
        _remove(target, BESIDE[1:])  # empty: see `_free`
    else:
        try:
            os.link(part, target)  # unlike a renaming, it replaces nothing
        except FileExistsError:
            raise InvalidSpec(f"{target} is there already: give another name, or --force to replace it") from None
        except OSError:
            part.rename(target)
    with suppress(OSError):  # where a folder cannot be opened, the name is written when the system likes
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove(part: Path, beside: tuple[str, ...]) -> None:
    for end in beside:
        with suppress(OSError):
            part.with_name(part.name + end).unlink()


@contextmanager
def _connected(path: str) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(path)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _ours() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translated(error) from error
