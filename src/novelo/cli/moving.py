"""`novelo backup` and `novelo copy`: a database saved, and moved to another one."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from novelo.cli.common import default_database, print_json, say
from novelo.cli.show import AsJson
from novelo.errors import InvalidSpec, NoveloError, StorageCorrupt

if TYPE_CHECKING:
    from novelo.stores.raw import CopyReport

PAUSE_S = 5.0  # between two signs of life where no terminal shows them
LIVE_S = 0.1
SHOWN = 20  # of what is damaged; --json has all


def backup(
    places: Annotated[
        list[str],
        typer.Argument(metavar="[DB] FILE", help="The database, your own if none is named; and the new file."),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a database to a new SQLite file, while programs go on using it; the file is there whole or not at all.

    Its structure is checked, and every row compared with the database. Restore it by copying it to its place, or with
    novelo copy.

    Example: novelo backup sqlite:///chat.db /backups/chat-monday.db
    """
    import novelo

    if len(places) > 2:
        raise InvalidSpec("backup: expected at most a database and a file")
    source, path = [default_database(), *places][-2:]
    with Telling() as told:
        report = novelo.backup(source, path.removeprefix("sqlite:///"), force=force, progress=told)
    report.same = report.written = 0  # of interest to a copy that is brought up to date
    _print(report, as_json)


def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="A file, or an address.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="A file, or an address; made if it is not there.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also where DST has threads that SRC has not, or newer ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make one database equal to another: files and PostgreSQL, in every direction, with the same ids and keys.

    SRC is only read, as it is at one moment, and may be used meanwhile; a second run brings over what has changed. A
    run that was killed goes on where it was. All that was written is read back and compared. Exit status 1 if something
    cannot be read; all else is copied.

    Example: novelo copy chat.db 'postgresql://app@db.example/chat?schema=novelo'
    """
    import novelo

    damaged = False
    with Telling() as told:
        try:
            report = novelo.copy(source, target, overwrite=overwrite, progress=told)
        except StorageCorrupt as error:
            found = getattr(error, "report", None)
            if found is None or not found.damaged:
                raise
            report, damaged = found, True
    _print(report, as_json)
    for text in report.damaged[:SHOWN]:
        say(f"not copied: {text}")
    if damaged:
        raise NoveloError(f"{len(report.damaged)} could not be read at the source; the copy is not complete")


def _print(report: CopyReport, as_json: bool) -> None:
    if as_json:
        import msgspec

        return print_json({**msgspec.to_builtins(report), "rate": report.rate})
    rows = ", ".join(f"{count} {name}" for name, count in report.rows.items() if count)
    print(f"{report.source} -> {report.target}")
    print(f"{rows or 'nothing'}")
    changed = f"{report.written} rows written, {report.removed} removed, " if report.written + report.removed else ""
    same = f", {report.same} of them unchanged" if report.same else ""
    print(f"{report.done} threads{same}; {changed}every row compared")
    print(f"{report.bytes / 1e6:.1f} MB in {report.seconds:.1f} s, {report.rate:,.0f} rows/s; hash {report.digest}")
    if report.vault:
        print("The vault is apart, and not in it: save that after it, elsewhere (docs/encryption.md).")


class Telling:
    """Progress on stderr: one line that changes on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self._live = sys.stderr.isatty()
        self._what, self._since = "", self._began

    def __enter__(self) -> Telling:
        return self

    def __call__(self, done: int, total: int, what: str) -> None:
        """So many are done, of so many."""
        now = time.monotonic()
        if what != self._what:
            self._what, self._since = what, now
        if now - self._last < (LIVE_S if self._live else PAUSE_S) and done < total:
            return
        rate = done / (now - self._since) if now > self._since else 0.0
        text = f"{done:,} of {total:,} {what}" + (f", {rate:,.0f}/s" if rate else "")
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif now - self._last >= PAUSE_S:
            say(text)
        self._last = now

    def __exit__(self, *_: object) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K")
