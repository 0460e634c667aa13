"""From an address or a store to what keeps its database: read and written by rows, saved, looked at, mended.

Beside connect.py, which opens memories, the one module that knows every engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from novelo.errors import InvalidSpec
from novelo.stores.base import Store
from novelo.upkeep import Keeper

if TYPE_CHECKING:
    from novelo.stores.findings import Look, OnLook
    from novelo.stores.raw import CopyReport, Progress, Source, Target


def source(given: Store | str) -> Source:
    """One state of a database, to be read row by row; an address is opened so that nothing is written there.

    Raises:
        InvalidSpec: a store that has no rows.
        StorageUnavailable, StorageCorrupt, SchemaTooNew: there is no such database, or none of ours.
    """
    url = given if isinstance(given, str) else ""
    if given_path := _path_of(url):
        from novelo.stores.sqlite.raw import open_source

        return open_source(given_path)
    if url.startswith(("postgresql:", "postgres:")):
        from novelo.stores.postgres import raw
        from novelo.stores.postgres.database import Settings

        return raw.open_source(Settings(url))
    database = _database(given)
    if type(database).__module__.startswith("novelo.stores.sqlite"):
        from novelo.stores.sqlite.raw import source_of

        return source_of(database)
    if type(database).__module__.startswith("novelo.stores.postgres"):
        from novelo.stores.postgres import raw

        return raw.open_source(database.settings)
    raise InvalidSpec(
        "there is nothing to be copied here: give a file, sqlite:///file.db, or postgresql://host/database"
    )


def _database(store: Any) -> Any:
    """The engine's own database below a store, and below what is wrapped around it; None if there is none."""
    database: Any = getattr(store, "database", None)
    while hasattr(database, "inner"):
        database = database.inner
    return database


def target(url: str) -> Target:
    """A database to copy into, made if it is not there.

    Raises:
        InvalidSpec: no address of one that lasts.
    """
    if path := _path_of(url):
        from novelo.stores.sqlite.raw import open_target

        return open_target(path)
    if url.startswith(("postgresql:", "postgres:")):
        from novelo.stores.postgres import raw

        return raw.open_target(url)
    raise InvalidSpec(f"cannot copy to {url.split(':')[0]!r}: give sqlite:///file.db, or postgresql://host/database")


def place(url: str) -> str:
    """An address as `Source.place` gives it: of two that are equal the database is the same."""
    if path := _path_of(url):
        from novelo.stores.sqlite import files

        return files.address(path)
    if url.startswith(("postgresql:", "postgres:")):
        from novelo.stores.postgres.database import Settings

        return Settings(url).address
    return url


def look(store: Store, deep: bool, progress: OnLook | None) -> Look:
    """What an engine says of a store's database; nothing is written.

    Raises:
        InvalidSpec: a store that has no database.
    """
    database = _database(store)
    if type(database).__module__.startswith("novelo.stores.sqlite"):
        from novelo.stores.sqlite import health

        with database.snapshot(), database.reading() as session:
            return health.look(session, database.path, deep=deep, progress=progress)
    if type(database).__module__.startswith("novelo.stores.postgres"):
        from novelo.stores.postgres import health as of_server

        return of_server.looked(database, deep, progress)
    raise InvalidSpec(f"a {type(store).__name__} has no database to be looked at")


def mend(store: Store, what: str) -> int:
    """Let an engine mend something of a store's database: "indexes" or "vacuum"; how many things were done."""
    database = _database(store)
    if type(database).__module__.startswith("novelo.stores.sqlite"):
        from novelo.stores.sqlite import health

        return health.mend(database, what)
    if type(database).__module__.startswith("novelo.stores.postgres"):
        from novelo.stores.postgres import health as of_server

        return of_server.mend(database, what)
    raise InvalidSpec(f"a {type(store).__name__} has no database to be mended")


def is_address(url: str) -> bool:
    """Whether it is, or was to be, the address of a database, and not a path: a slip may leave a password in it."""
    return "://" in url or url.startswith(
        ("sqlite:", "postgres:", "postgresql:", "postgres//", "postgresql//", "memory:")
    )


def _path_of(url: str) -> str | None:
    """The file of an address or a path; None if it is of another kind, or of memory."""
    if not is_address(url):
        return url or None
    path = url.removeprefix("sqlite:///")
    return unquote(path) if path != url and path not in ("", ":memory:") else None


def save(state: Source, path: str, *, force: bool = False, progress: Progress | None = None) -> CopyReport:
    """Write one state of a database to a new file; see `stores/sqlite/backup.py`.

    Raises:
        InvalidSpec: the path is no file's, such as the address of a server; the error does not repeat it.
    """
    from novelo.stores.sqlite import backup
    from novelo.stores.sqlite.raw import SQLiteRows

    file = _path_of(path)
    if file is None:
        raise InvalidSpec("a backup is a SQLite file: name one; novelo copy writes to a server")
    if isinstance(state, SQLiteRows):
        return backup.save_pages(state, file, force=force, progress=progress)
    return backup.save_rows(state, file, force=force, progress=progress)


KEEPER = Keeper(source, target, save, place, look, mend)
