"""How a SQLite file is: looked at with a connection that cannot write, and mended where it is asked for."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from importlib import resources
from pathlib import Path

import apsw

from novelo.errors import StoreError
from novelo.stores.findings import Finding, Growth, Look, OnLook, Severity, command
from novelo.stores.raw.base import FIRST, LAST, NOTE
from novelo.stores.raw.columns import TABLES
from novelo.stores.sqlite import files
from novelo.stores.sqlite.database import Database
from novelo.stores.sqlite.migrations import PACKAGE, schema_version
from novelo.stores.sqlite.raw import SQLiteRows
from novelo.stores.sqlite.session import Session

SOUND = (3, 51, 3)  # SQLite before it can corrupt a WAL database that several connections write
LARGE = 1 << 30  # bytes; the tables of a larger file are measured only when all of it is read anyway
SMALL = 64 << 20  # bytes; the structure of a smaller file is checked each time
FREE_SHARE, FREE_BYTES = 0.25, 16 << 20  # of pages that hold nothing, from which on it is worth giving them back
LOG_BYTES = 64 << 20
ROOM = 256 << 20  # bytes that should be free on the disk, or a tenth of the file
INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)[^;]*;")


def look(session: Session, path: str, *, deep: bool = False, progress: OnLook | None = None) -> Look:
    """What can be seen of a file, without its threads.

    Args:
        path: of the file; "" for one in memory.
        deep: read all of it: structure, and sizes of the tables whatever their number.
    """
    size = sum(_size(Path(path + end)) for end in ("", "-wal")) if path else 0
    address = files.address(path) if path else "sqlite://"
    out = Look(f"SQLite {apsw.sqlite_lib_version()}", address, schema_version(session), size)
    find = _Finder(out)
    _version(find)
    _structure(find, session, path, deep or size < SMALL, progress)
    if deep or size < LARGE:
        out.tables = _growth(session, progress)
    else:
        out.tables = [Growth(name, None, None) for name in TABLES]
    if deep:
        _seals(find, session, progress)
    _pages(find, session)
    _indexes(find, session)
    _notes(find, session)
    if path:
        _files(find, Path(path), size)
    return out


class _Finder:
    """Where findings go."""

    def __init__(self, out: Look) -> None:
        self.out, self.address = out, out.address

    def add(self, severity: Severity, check: str, place: str, text: str, mended_by: str) -> None:
        self.out.findings.append(Finding(severity, check, place, text, mended_by))

    def mend(self, what: str) -> str:
        """The command that mends something of this database."""
        return command("novelo", "mend", "-d", self.address, f"--{what}")


def _version(find: _Finder) -> None:
    found = apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < SOUND:
        find.add(
            "error", "version", f"SQLite {found}",
            "several connections can corrupt a database in WAL mode, which is mended in 3.51.3",
            "pip install --upgrade apsw",
        )  # fmt: skip


def _structure(find: _Finder, session: Session, path: str, wanted: bool, progress: OnLook | None) -> None:
    if not wanted:
        return
    if progress is not None:
        progress(0, 1, "structure")
    said = [row[0] for row in session.execute("PRAGMA integrity_check(5)")]
    if said != ["ok"]:
        find.add(
            "error", "integrity", path or "memory", f"the file is damaged: {'; '.join(said)[:300]}. Restore a backup; "
            "what can still be read can be copied", command("novelo", "copy", find.address, f"{path}.rescued"),
        )  # fmt: skip


def _seals(find: _Finder, session: Session, progress: OnLook | None) -> None:
    """Compare the seals that statements make; those of messages and calls are compared where these are read."""
    rows = SQLiteRows(session, find.address, lambda: None)
    sealed = [table for table in TABLES.values() if table.seal]
    for done, table in enumerate(sealed):
        if progress is not None:
            progress(done, len(sealed), "tables")
        try:
            for _ in rows.rows(table, FIRST, LAST):
                pass
        except StoreError as error:
            rescue = command("novelo", "copy", find.address, "rescued.db")
            find.add("error", "damage", table.name, f"{error}; the others can be copied", rescue)


def _growth(session: Session, progress: OnLook | None) -> list[Growth]:
    """Bytes of each table with its indexes; an index of words counts as its table."""
    bytes_of: dict[str, int] = {}
    owner: dict[str, str] = dict(session.execute("SELECT name, tbl_name FROM sqlite_schema"))
    for name, used in session.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
        table = owner.get(name, name)
        table = next((word for word in ("search", "chunk_words") if table.startswith(word + "_")), table)
        bytes_of[table] = bytes_of.get(table, 0) + used
    out = []
    tables = [name for name in bytes_of if not name.startswith("sqlite_")]
    for done, name in enumerate(sorted(tables, key=lambda one: -bytes_of[one])):
        if progress is not None:
            progress(done, len(tables), "tables")
        rows = None
        with suppress(apsw.SQLError):
            rows = next(session.execute(f'SELECT count(*) FROM "{name}"'))[0]  # noqa: S608  a name of the schema
        out.append(Growth(name, bytes_of[name], rows))
    return out


def _pages(find: _Finder, session: Session) -> None:
    free, count, size = (
        next(session.execute(f"PRAGMA {name}"))[0] for name in ("freelist_count", "page_count", "page_size")
    )
    if free * size > FREE_BYTES and free > FREE_SHARE * count:
        find.add(
            "note", "size", find.address, f"{free * size >> 20} of {count * size >> 20} MiB of the file hold nothing",
            find.mend("vacuum"),
        )  # fmt: skip


def statements() -> dict[str, str]:
    """The statements that make each index."""
    text = resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8")
    return {found[1]: found[0] for found in INDEX.finditer(text)}


def missing(session: Session) -> dict[str, str]:
    """Indexes that are not there, with the statements that make them."""
    there = {row[0] for row in session.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")}
    return {name: text for name, text in statements().items() if name not in there}


def _indexes(find: _Finder, session: Session) -> None:
    if names := ", ".join(missing(session)):
        find.add(
            "error", "indexes", find.address, f"indexes are missing, and look-ups slow: {names}", find.mend("indexes")
        )  # fmt: skip


def _notes(find: _Finder, session: Session) -> None:
    for name, value in session.execute(
        "SELECT name, value FROM meta WHERE name = ? OR name > 'left over ' AND name < 'left over!'", (NOTE,)
    ):
        if name == NOTE:
            find.add(
                "error", "copy", find.address, f"a copy from {value} has begun and not ended: this is a part of it",
                command("novelo", "copy", str(value), find.address),
            )  # fmt: skip
        else:
            find.add(
                "warning", "erasures", find.address, "rows of an erased thread are still there: the disk was full",
                find.mend("erasures"),
            )  # fmt: skip


def _files(find: _Finder, path: Path, size: int) -> None:
    mine = [path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-ballast")]
    shared = [one for one in mine if os.name == "posix" and one.exists() and stat.S_IMODE(one.stat().st_mode) & 0o077]
    if shared:
        modes = ", ".join(f"{stat.S_IMODE(one.stat().st_mode):o}" for one in shared)
        find.add(
            "warning", "rights", str(shared[0]), f"others than its owner may use it: mode {modes}",
            command("chmod", "600", *map(str, shared)),
        )  # fmt: skip
    log = _size(path.with_name(path.name + "-wal"))
    if log > LOG_BYTES:
        find.add(
            "warning", "log", f"{path}-wal", f"the log has {log >> 20} MiB: a reader has kept it from being emptied",
            find.mend("erasures"),
        )  # fmt: skip
    with suppress(OSError):
        folder = str(path.resolve().parent)
        free = shutil.disk_usage(folder).free
        if free < max(ROOM, size // 10):
            find.add(
                "warning", "disk", folder, f"{free >> 20} MiB are free, and the database has {size >> 20}",
                command("df", "-h", folder),
            )  # fmt: skip
    if size >= files.BALLAST_FROM and not path.with_name(path.name + "-ballast").exists():
        find.add(
            "note", "ballast", f"{path}-ballast", "there is no ballast, by which an erasure passes on a full disk",
            find.mend("erasures"),
        )  # fmt: skip


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def mend(database: Database, what: str) -> int:
    """Mend the file's part of something (indexes, vacuum); how many things were done."""
    if what == "vacuum":
        connection = database._connect()
        try:
            connection.execute("VACUUM")
        finally:
            connection.close()
        database.scrub()
        return 1
    with database.writing() as session:
        wanted = missing(session)
        for text in wanted.values():
            session.execute(text)
    return len(wanted)
