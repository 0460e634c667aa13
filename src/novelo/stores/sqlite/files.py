"""The files of a database: made for their owner alone, watched, and a ballast beside them for a full disk."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from urllib.parse import quote

from novelo.errors import InvalidSpec, StorageFull, StorageReadOnly, StorageUnavailable, StoreError

BALLAST_BYTES = 4 << 20  # an erasure writes what it overwrites to the log first: enough for some thousand turns
BALLAST_FROM = 64 << 20  # smaller databases are not worth it unless asked for: the ballast would outweigh them
UNREADABLE = "the database {} cannot be read: check the rights of the file"
OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR


def make(path: Path) -> None:
    """An owner-only file, and the folders to it; what is there already is left alone.

    Raises:
        InvalidSpec: not a path of this machine.
        StorageFull, StorageReadOnly, StorageUnavailable: it cannot be made.
    """
    if str(path).startswith("\\\\") or "\x00" in str(path):
        raise InvalidSpec(f"database path {str(path)!r}: expected a file's path on this machine")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, OWNER_ONLY))
    except OSError as error:
        raise refused(path, error) from error
    if path.is_dir():
        raise StorageUnavailable(f"{path} is a folder; give a file in it, such as {path / 'chat.db'}")
    if not os.access(path, os.R_OK):
        raise StorageReadOnly(UNREADABLE.format(path))


def refused(path: Path, error: OSError) -> StoreError:
    """The error of ours for a file that cannot be made."""
    text = f"the file {path} cannot be made: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(text)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StorageReadOnly(text)
    return StorageUnavailable(text)


def address(path: str) -> str:
    """A file's address, the same however it was named."""
    return f"sqlite:///{quote(str(Path(path).resolve()))}"


def identity(path: str) -> tuple[int, int] | None:
    """Which file stands under a path now; None if there is none.

    SQLite goes on writing to a file that was removed or replaced under it, and what it writes is lost.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Ballast:
    """Bytes held back in a file of their own: on a full disk even a deletion fails, until they are given back."""

    def __init__(self, database: str, size: int | None) -> None:
        """Beside which database, and how large; None: 4 MiB once the database has 64 MiB, 0: none."""
        self._database = Path(database)
        self._path = Path(f"{database}-ballast")
        self._size = size

    def lay(self) -> None:
        """Make the file if it is wanted and there is room; it is written in full, since holes hold nothing back."""
        size = self._size
        if size == 0 or self._path.exists():
            return
        try:
            if size is None and self._database.stat().st_size < BALLAST_FROM:
                return
            handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
        except OSError:
            return
        try:
            os.write(handle, b"\0")
            _fill(handle, size or BALLAST_BYTES)
        except OSError:
            self.drop()
        finally:
            os.close(handle)

    def drop(self) -> bool:
        """Give the space back; False if there was none."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def _fill(handle: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    block = bytes(1 << 16)
    for at in range(0, size, len(block)):
        os.pwrite(handle, block[: size - at], at)
