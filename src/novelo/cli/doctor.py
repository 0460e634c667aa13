"""`novelo doctor` and `novelo mend`: what is wrong with a database, and what mends it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from novelo.cli.common import console, counted, default_database, open_database, print_json, say
from novelo.cli.moving import Telling
from novelo.cli.show import AsJson, Database
from novelo.errors import InvalidSpec

if TYPE_CHECKING:
    from novelo.doctor import Checkup
    from novelo.stores.findings import Finding

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def doctor(
    place: Annotated[str | None, typer.Argument(metavar="[DB]", help="A file, or an address; else your own.")] = None,
    database: Database = None,
    policy: Annotated[
        str | None, typer.Option("-p", "--policy", help="Under which policy; else that of each thread's last turn.")
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Tokens of the model's window; else that of its last model.")
    ] = None,
    number: Annotated[
        int, typer.Option("-n", help="Threads that are looked at, the last used first; 0 is all.")
    ] = 1000,
    deep: Annotated[bool, typer.Option("--deep", help="Read everything: the file's structure, every message.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong with a database, or soon will be; each finding with the command that mends it.

    Nothing is written. Exit status 1 if there is an error or a warning.

    Example: novelo doctor chat.db --deep
    """
    if number < 0 or (place and database):
        raise InvalidSpec("doctor: expected one database, and a number of threads of 0 or more")
    if window is not None and window < 1:
        raise InvalidSpec(f"--window {window}: expected the tokens of a model's window")
    with Telling() as told, open_database(
        place or database or default_database(), must_exist=True, read_only=True, worker="off"
    ) as memory:  # fmt: skip
        found = memory.doctor(policy=policy, window=window, most=number, deep=deep, progress=told)
        clear = bool(os.environ.get("NOVELO_KEY")) and not memory.encrypted
    if as_json:
        import msgspec

        print_json({**msgspec.to_builtins(found), "sound": found.sound})
    else:
        _print(found)
    if clear:
        say("NOVELO_KEY is set, and this database is in clear: `novelo keys begin` begins an encrypted one")
    if not found.sound:
        raise typer.Exit(1)


def _print(found: Checkup) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    base = found.database
    out.print(Text(f"{base.address}: {base.engine}, schema {base.schema}, {_bytes(base.bytes)}", style="bold"))
    table = Table(box=None, padding=(0, 1))
    for name, right in (("table", False), ("bytes", True), ("rows", True)):
        table.add_column(name, justify="right" if right else "left")
    for of in base.tables:
        if of.rows or of.rows is None:
            table.add_row(of.table, _bytes(of.bytes), "" if of.rows is None else f"{of.rows:,}")
    out.print(table)
    for one in found.findings:
        _tell(out, one)
    for kind, count in found.more.items():
        out.print(Text(f"and {count} more of {kind}"))
    say(f"{found.looked_at:,} of {counted(found.threads, 'thread')} looked at; " + _sum(found))


def _tell(out: Any, one: Finding) -> None:
    from rich.text import Text

    out.print(Text.assemble((one.severity, STYLES[one.severity]), f" {one.check}: {one.place}: {one.text}"))
    print(f"    {one.command}")  # a line of its own, whole, to be copied


def _sum(found: Checkup) -> str:
    counts = {word: sum(one.severity == word for one in found.findings) for word in STYLES}
    said = ", ".join(counted(count, word) for word, count in counts.items() if count)
    return said or "nothing is wrong"


def _bytes(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / (1 << 20):,.1f} MiB" if count >= 1 << 20 else f"{count / 1024:,.0f} KiB"


def mend(
    database: Database = None,
    turns: Annotated[bool, typer.Option("--turns", help="Close turns whose writer is gone.")] = False,
    jobs: Annotated[bool, typer.Option("--jobs", help="Take up jobs again that failed too often.")] = False,
    erasures: Annotated[
        bool, typer.Option("--erasures", help="End erasures, empty the log, and make the ballast.")
    ] = False,
    indexes: Annotated[bool, typer.Option("--indexes", help="Make missing indexes.")] = False,
    vacuum: Annotated[bool, typer.Option("--vacuum", help="Give room back that holds nothing.")] = False,
) -> None:
    """Do what novelo doctor proposes and no other command does.

    Example: novelo mend -d chat.db --turns --jobs
    """
    every = {"turns": turns, "jobs": jobs, "erasures": erasures, "indexes": indexes, "vacuum": vacuum}
    chosen = [name for name, wanted in every.items() if wanted]
    if not chosen:
        raise InvalidSpec(f"mend: expected one of {', '.join('--' + name for name in every)}")
    with open_database(database, must_exist=True, worker="off") as memory:
        for name in chosen:
            say(f"{name}: {memory.mend(name)} done")
