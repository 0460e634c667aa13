"""`novelo import --from`: what it says while it runs, and what it says at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

import novelo
from novelo.cli.common import FAILED, default_database, open_database, print_json, say
from novelo.importers import Loss, Report, open_source, run_import

LOSSES = 20  # that are shown; --json has all
PAUSE_S = 5.0  # between two signs of life where no terminal shows them


def import_from(
    kind: str, path: str, database: str | None, owner: str, only: str | None, dry_run: bool, as_json: bool
) -> None:
    """Import from another program's store. Exit status 1 if a conversation was refused, or is not there."""
    with open_source(kind, path) as source, _target(database, dry_run) as memory:
        told = Telling()
        report = run_import(memory, source, owner=owner, only=only, dry_run=dry_run, progress=told)
        told.done()
    if as_json:
        print_json(report)
    else:
        for one in report.threads:
            states = f", {one.states} graph states" if one.states else ""
            print(f"{one.thread_id}  {one.was}  {one.messages} messages{states}  {one.title}".rstrip())
    _sum_up(report)
    if only is not None and not report.threads:
        say(f"novelo: there is no conversation {only!r} to import")
    if report.count("refused") or (only is not None and not report.threads):
        raise typer.Exit(FAILED)


def _target(database: str | None, dry_run: bool) -> novelo.Memory:
    """The database; a dry run makes none where there is none."""
    url = database or default_database()
    path = url.removeprefix("sqlite:///")
    if dry_run and "://" not in path and not Path(path).exists():
        return novelo.open("sqlite://", worker="off")
    return open_database(database, worker="off")


def _sum_up(report: Report) -> None:
    counts = ", ".join(f"{report.count(was)} {was}" for was in ("new", "grown", "same", "refused") if report.count(was))
    would = "would be added" if report.dry_run else "added"
    say(f"{counts or 'no conversations'}; {report.messages} messages {would}")
    _tell_losses(report.losses)


def _tell_losses(losses: Sequence[Loss]) -> None:
    if losses:
        say(f"{len(losses)} did not come along, all else did:")
    for loss in losses[:LOSSES]:
        say(f"  {loss}")
    if len(losses) > LOSSES:
        say(f"  and {len(losses) - LOSSES} more: --json has all")


class Telling:
    """Progress on stderr: one line that changes on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._live = sys.stderr.isatty()

    def __call__(self, done: int, total: int, name: str) -> None:
        """One more conversation begins."""
        text = f"{done + 1} of {total}: {name[:60]}"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif time.monotonic() - self._last >= PAUSE_S:
            self._last = time.monotonic()
            say(text)

    def done(self) -> None:
        """The line goes."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
