"""The back-test on the command line: `novelo compare`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import novelo
from novelo.cli.common import console, find_thread, open_database, print_json, say
from novelo.cli.show import AsJson, Database, Owner
from novelo.errors import ImportFailed, InvalidSpec, StorageUnavailable, UnknownEntry
from novelo.formats import files

if TYPE_CHECKING:
    from novelo.report import Report

DEFAULT = "buffer; window:10turns; window:10turns,slack=5; budget:8000; budget:8000,low=4000"
SPARED = ("requests", "least", "messages", "biggest")  # columns that go first where the terminal is narrow


class Talk(NamedTuple):
    """A conversation with the moment of each message, where all are known."""

    messages: list[Any]
    times: list[float] | None


def compare(
    source: Annotated[str, typer.Argument(metavar="FILE|THREAD", help="A file of any kind, - for stdin, or a thread.")],
    policies: Annotated[str, typer.Option("-p", "--policies", help="Separated by semicolons.")] = DEFAULT,
    model: Annotated[str | None, typer.Option("-m", "--model", help="Whose prices and cache rules hold.")] = None,
    prices: Annotated[
        str | None, typer.Option(help="US dollars for a million tokens: input=0.25,cached=0.025,output=2.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="openai, anthropic, gemini, mistral, strict; else the model's, else openai.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option(help="Whose cache rules hold: openai, anthropic, gemini, deepseek, none.")
    ] = None,
    counter: Annotated[str, typer.Option(help="estimate, o200k, cl100k.")] = "estimate",
    window: Annotated[int | None, typer.Option(help="Tokens of the model's window, for budgets in per cent.")] = None,
    summarizer: Annotated[
        str, typer.Option(help="Who writes summaries: offline, openai:NAME, or langchain:PROVIDER:NAME.")
    ] = "offline",
    thread_id: Annotated[str | None, typer.Option("--thread", help="Which one, of a file with several.")] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it: .svg, .png or .pdf.")] = None,
    database: Database = None,
    owner: Owner = "",
    as_json: AsJson = False,
) -> None:
    """Replay a conversation under several policies: tokens, money, cache, exact facts still in reach.

    A request is made before each reply; no model is asked but for summaries, and for these the offline one unless told
    otherwise. Where the moments of the messages are known, cached prefixes lapse as the provider lets them lapse.

    Example: novelo compare talk.json --policies "buffer; window:10turns; budget:8000,low=4000" --plot cost.svg
    """
    specs = [spec.strip() for spec in policies.split(";") if spec.strip()]
    if not specs:
        raise InvalidSpec(f"--policies: expected policies separated by semicolons, such as {DEFAULT!r}")
    if prices and model:
        raise InvalidSpec("--prices and --model: give one, the model's prices are in a table")
    talk = _talk(source, thread_id, database, owner)
    settings: dict[str, Any] = {"provider": provider, "cache": cache, "counter": counter, "window": window}
    with _Progress(len(specs)) as progress:
        report = novelo.backtest(
            talk.messages,
            specs,
            _priced(prices) if prices else model,
            summarizer,
            times=talk.times,
            progress=progress.told,
            **settings,
        )
    if plot:
        from novelo.plots import plot as draw

        say(f"drawn: {draw(report, plot, title=Path(source).name if source != '-' else '')}")
    if as_json:
        return print_json(report.to_dict())
    _print(report)


def _print(report: Report) -> None:
    """The table and the sentence; on a narrow terminal without the columns that matter least."""
    out = console()
    if not out.is_terminal:
        print(report)
        return
    from rich.table import Table

    head, *lines = report.cells()
    spared = []
    for name in SPARED:
        wide = sum(max(len(row[i]) for row in (head, *lines)) + 2 for i, h in enumerate(head) if h not in spared)
        if wide > out.width:
            spared.append(name)
    table = Table(box=None, padding=(0, 1), header_style="bold")
    shown = [i for i, name in enumerate(head) if name not in spared]
    for i in shown:
        table.add_column(head[i], justify="left" if i == 0 else "right", overflow="fold", no_wrap=i > 0)
    best = report.cheapest()
    for row, cells in zip(report.rows, lines, strict=True):
        table.add_row(*(cells[i] for i in shown), style="green" if row is best else None)
    out.print(table)
    out.print(report.verdict(), markup=False)
    if spared:
        say(f"a wider terminal shows {', '.join(spared)}, too; --json has everything")


def _talk(source: str, thread_id: str | None, database: str | None, owner: str) -> Talk:
    """The conversation that the argument names: stdin, a file, or else a thread.

    Raises:
        ImportFailed: the file is nothing we know, or holds several conversations.
        UnknownEntry: there is neither a file nor a thread of that name.
    """
    if source == "-" or Path(source).is_file():
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return _of_file(data, "stdin" if source == "-" else source, thread_id)
    try:
        with open_database(database, must_exist=True) as memory:
            thread = find_thread(memory, source, owner)
            entries = [e for e in thread.messages() if not (e.hidden or e.deleted)]
    except (StorageUnavailable, UnknownEntry) as error:
        raise UnknownEntry(f"{source}: no such file, and as a thread: {error}") from error
    return Talk([e.message for e in entries], [e.created for e in entries])


def _of_file(data: bytes, name: str, thread_id: str | None) -> Talk:
    found = files.parse(data, name)
    if thread_id is not None:
        found = [one for one in found if one.thread_id == thread_id]
    if len(found) != 1:
        ids = ", ".join(one.thread_id or "one without an id" for one in found[:5])
        raise ImportFailed(f"{name}: holds {len(found)} conversations, expected one: name it with --thread ({ids})")
    one = found[0]
    gone = {*(one.facts or {}).get("hidden", ()), *(one.facts or {}).get("deleted", ())}
    kept = [i for i in range(len(one.messages)) if i not in gone]
    times = [one.times[i] for i in kept]
    known = [t for t in times if t is not None]
    return Talk([one.messages[i] for i in kept], known if len(known) == len(times) else None)


def _priced(text: str) -> dict[str, str]:
    """Prices from text.

    Raises:
        InvalidSpec: not name=number.
    """
    out = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value.replace(".", "", 1).isdigit():
            raise InvalidSpec(f"--prices {item.strip()!r}: expected name=number, such as input=0.25")
        out[name] = value
    return out


class _Progress:
    """A bar on stderr while policies are replayed, on a terminal only."""

    def __init__(self, policies: int) -> None:
        self._policies = policies
        self._bar: Any = None
        self.told: Callable[[str, int, int], None] | None = None

    def __enter__(self) -> _Progress:
        err = console(stderr=True)
        if err.is_terminal:
            from rich.progress import Progress

            self._bar = Progress(console=err, transient=True)
            self._bar.start()
            task = self._bar.add_task("replaying", total=None)
            ended: list[str] = []

            def told(policy: str, done: int, total: int) -> None:
                self._bar.update(
                    task, total=self._policies * total, completed=len(ended) * total + done, description=policy
                )
                if done == total:
                    ended.append(policy)

            self.told = told
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
