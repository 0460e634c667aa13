"""`novelo ingest` and `novelo docs`: documents into the index, and what is found there."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from novelo.cli.common import FAILED, console, counted, open_database, print_json, say
from novelo.documents import Documents, Ingested, Progress
from novelo.retrievers.files import MAX_BYTES
from novelo.words import CJK, WORD, query_stems, words

if TYPE_CHECKING:
    import rich.progress
    from rich.console import Console
    from rich.text import Text

    import novelo

Database = Annotated[
    str | None, typer.Option("-d", "--database", help="A file, or an address such as sqlite:///chat.db.")
]
Collection = Annotated[str, typer.Option("-C", "--collection", help="The collection.")]
Owner = Annotated[str, typer.Option(help="Whose collection it is.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Source = Annotated[str, typer.Argument(help="The source's name, as `novelo docs list` shows it.")]

docs = typer.Typer(help="Look at documents: list, show, search, remove, embed.", no_args_is_help=True)
PAUSE_S = 5.0  # between two signs of life where no terminal shows them
SHOWN = 500  # characters of a passage that a search shows
BAD = 20  # files that are told; --json has all


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files, and folders with all below them.")],
    database: Database = None,
    collection: Collection = "default",
    owner: Owner = "",
    vectors: Annotated[
        bool, typer.Option("--vectors/--no-vectors", help="Make vectors too, or leave them to `novelo docs embed`.")
    ] = True,
    max_mb: Annotated[int, typer.Option(min=1, help="Files up to so many megabytes are read.")] = MAX_BYTES
    // 1_000_000,
    as_json: AsJson = False,
) -> None:
    """Read documents into a collection: Markdown, text, HTML, PDF, DOCX, JSONL.

    What did not change is skipped, what did is replaced, what is gone from a folder goes. Exit status 1 if a file could
    not be read. Example: novelo ingest docs/ faq.jsonl --collection ajuda
    """
    with open_database(database, worker="off") as memory:
        handle = memory.documents(collection, owner)
        with Telling("reading", "files") as told:
            done = handle.ingest(paths, told, vectors="later", max_bytes=max_mb * 1_000_000)
        if not as_json:
            _sum_up(done)
        if vectors and handle.embedder is None:
            memory.no_embedder()
        elif vectors:
            _embed(handle)
    if as_json:
        print_json(done)
    if done.bad:
        raise typer.Exit(FAILED)


def _sum_up(done: Ingested) -> None:
    counts = [(len(getattr(done, name)), name) for name in ("added", "changed", "same", "removed")]
    print(", ".join(f"{count} {name}" for count, name in counts if count) or "no files", end="")
    print(f"; {done.chunks} {'passage' if done.chunks == 1 else 'passages'} in {done.seconds:.1f} s")
    if done.others:
        say(f"{done.others} files of other kinds were left out")
    for path, what in list(done.bad.items())[:BAD]:
        say(f"not read: {path}: {what}")
    if len(done.bad) > BAD:
        say(f"and {len(done.bad) - BAD} more: --json has all")


def _embed(handle: Documents, rebuild: bool = False) -> int:
    try:
        with Telling("embedding", "passages") as told:
            return handle.embed(told, rebuild=rebuild)
    except KeyboardInterrupt:
        row = handle.row
        left = row.chunks - row.vectors if row else 0
        say(f"stopped; {left} passages have no vector yet and are found by their words: `novelo docs embed` goes on")
        raise


@docs.command("list")
def list_(
    database: Database = None, collection: Collection = "default", owner: Owner = "", as_json: AsJson = False
) -> None:
    """List the sources of a collection.

    Example: novelo docs list --collection ajuda
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        handle = memory.documents(collection, owner)
        row, rows = handle.row, handle.list()
        if row is None:
            no_collection(memory, collection, owner)
    if as_json:
        return print_json([_source_facts(one) for one in rows])
    from rich.table import Table

    table = Table(box=None, padding=(0, 1))
    for name, right in (("source", False), ("title", False), ("passages", True), ("tokens", True), ("bytes", True)):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for one in rows:
        table.add_row(one.source, one.title, str(one.chunks), str(one.tokens), str(one.bytes))
    console().print(table)
    if row is not None:
        have = f"{row.vectors} with a vector of {row.model}" if row.vectors else "none with a vector"
        say(f"{counted(row.sources, 'source')}, {counted(row.chunks, 'passage')}, {have}")


@docs.command()
def collections(
    database: Database = None,
    owner: Annotated[str | None, typer.Option(help="Only this owner's.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the collections.

    Example: novelo docs collections --json
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        rows = memory.collections(owner)
    if as_json:
        facts = ("name", "owner", "sources", "chunks", "vectors", "model", "created", "updated")
        return print_json([{name: getattr(row, name) for name in facts} for row in rows])
    from rich.table import Table

    table = Table(box=None, padding=(0, 1))
    for name in ("collection", "owner", "sources", "passages", "vectors", "model"):
        table.add_column(name, justify="right" if name in ("sources", "passages", "vectors") else "left")
    for row in rows:
        table.add_row(row.name, row.owner, str(row.sources), str(row.chunks), str(row.vectors), row.model)
    console().print(table)


@docs.command()
def show(
    source: Source,
    database: Database = None,
    collection: Collection = "default",
    owner: Owner = "",
    as_json: AsJson = False,
) -> None:
    """Show the passages of a source, in order.

    Example: novelo docs show devolucoes.md
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        found = memory.documents(collection, owner, embedder=None).show(source)
    if as_json:
        return print_json(found)
    from rich.text import Text

    out = console()
    for number, passage in enumerate(found, 1):
        out.print(Text.assemble((f"{number:>3}  ", "dim"), (_heading(passage), "bold")))
        _print_indented(out, Text(passage["text"]), 5)


@docs.command()
def remove(
    sources: Annotated[list[str], typer.Argument(help='Names of sources, or of folders: "faq/".')],
    database: Database = None,
    collection: Collection = "default",
    owner: Owner = "",
) -> None:
    """Remove sources from a collection; nothing of them is left in the index.

    Example: novelo docs remove devolucoes.md faq/
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        handle = memory.documents(collection, owner, embedder=None)
        count = sum(handle.remove(source) for source in sources)
    print(f"{count} removed")


@docs.command()
def search(
    question: Annotated[str, typer.Argument(help="A question, or words; accents and endings do not matter.")],
    database: Database = None,
    collection: Collection = "default",
    owner: Owner = "",
    number: Annotated[int, typer.Option("-n", min=1, max=1000, help="At most so many.")] = 5,
    keyword_only: Annotated[bool, typer.Option("--keyword", help="By words alone.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Whole passages.")] = False,
    as_json: AsJson = False,
) -> None:
    """Search a collection. Exit status 1 if nothing was found.

    Example: novelo docs search "qual o prazo do reembolso?"
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        handle = memory.documents(collection, owner)
        if handle.row is None:
            no_collection(memory, collection, owner)
        found = handle.search(question, number, keyword_only)
    if as_json:
        print_json(found)
    else:
        print_passages(found, question, full)
    if not found:
        raise typer.Exit(FAILED)


@docs.command()
def embed(
    database: Database = None,
    collection: Collection = "default",
    owner: Owner = "",
    rebuild: Annotated[bool, typer.Option("--rebuild", help="All anew, as another model needs it.")] = False,
) -> None:
    """Make the vectors that are missing; one that was stopped goes on where it was.

    Example: novelo docs embed --rebuild
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        handle = memory.documents(collection, owner)
        if handle.row is None:
            no_collection(memory, collection, owner)
        print(f"{_embed(handle, rebuild)} vectors made")


def no_collection(memory: novelo.Memory, name: str, owner: str = "") -> None:
    """Tell which collections there are instead of this one, and leave."""
    others = [f"{row.name!r}" + (f" of owner {row.owner!r}" if row.owner else "") for row in memory.collections()[:5]]
    hint = f"there are {', '.join(others)}" if others else "put something in with `novelo ingest PATH`"
    whose = f" of owner {owner!r}" if owner else ""
    say(f"novelo: no collection {name!r}{whose}; {hint}")
    raise typer.Exit(FAILED)


def _source_facts(source: Any) -> dict[str, Any]:
    return {n: v for n, v in msgspec.structs.asdict(source).items() if n != "hash"}


# ------------------------------------------------------------------------------------------------ passages
def print_passages(found: list[dict[str, Any]], question: str, full: bool = False) -> None:
    """What a search found, for people: score, headings and source, and the text with the words of the question."""
    from rich.text import Text

    out = console()
    for number, passage in enumerate(found, 1):
        page = f" p. {passage['page']}" if passage.get("page") else ""
        head = Text.assemble((f"{number:>2}  ", "dim"), (f"{passage['score']:6.2f}  ", "cyan"))
        head.append(_heading(passage) or passage["source"], "bold")
        out.print(head.append(f"  {passage['source']}{page}", "dim"), soft_wrap=True)
        text = highlighted(passage["text"], question, len(passage["text"]) if full else SHOWN)
        _print_indented(out, text, 4)


def _print_indented(out: Console, text: Text, places: int) -> None:
    """Lines behind a margin; where no terminal shows them they are as long as they were written."""
    lines = text.wrap(out, max(20, out.width - places)) if out.is_terminal else text.split("\n", allow_blank=True)
    for line in lines:
        line.rstrip()
        line.pad_left(places if line.plain else 0)
        out.print(line, soft_wrap=True)


def highlighted(text: str, question: str, most: int) -> Text:
    """A text with the words of a question marked; of a long one the part that has most of them."""
    from rich.text import Text

    marks = spans(text, question)
    start = 0
    if len(text) > most:
        inside = [sum(a <= one[0] and one[1] <= a + most for one in marks) for a, _ in marks]
        start = marks[inside.index(max(inside))][0] if marks else 0
        start = max(0, min(start - most // 5, len(text) - most))
        start = text.find(" ", start, start + 40) + 1 if start and " " in text[start : start + 40] else start
    out = Text(text[start : start + most].rstrip())
    for a, b in marks:
        if start <= a and b <= start + most:
            out.stylize("bold yellow", a - start, b - start)
    if start:
        out = Text("… ").append_text(out)
    return out.append(" …") if start + most < len(text) else out


def spans(text: str, question: str) -> list[tuple[int, int]]:
    """Where words of a question stand in a text, by their stems: (start, stop) in characters."""
    wanted = {stem for word in query_stems(question) for stem in word}
    out: list[tuple[int, int]] = []
    for match in WORD.finditer(text):
        if CJK[0] <= match[0][0] <= "\uffff" and len(match[0]) > 1:
            for i in range(match.start(), match.end() - 1):
                if words(text[i : i + 2], single=False)[:1] and words(text[i : i + 2], single=False)[0] in wanted:
                    out.append((max(i, out[-1][1]) if out else i, i + 2))
        elif {stem for word in query_stems(match[0]) for stem in word} & wanted:
            out.append(match.span())
    return out


def _heading(passage: dict[str, Any]) -> str:
    return " › ".join(passage[name] for name in ("title", "section") if passage.get(name))


# ------------------------------------------------------------------------------------------------ progress
class Telling:
    """Progress on stderr: a bar on a terminal, else a line now and then."""

    def __init__(self, doing: str, what: str) -> None:
        self._doing, self._what = doing, what
        self._last = time.monotonic()
        self._bar: rich.progress.Progress | None = None
        self._task: Any = None

    def __enter__(self) -> Telling:
        if sys.stderr.isatty():
            import rich.progress as bars

            columns = (
                bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn(),
                bars.TextColumn("{task.fields[rate]}"), bars.TimeRemainingColumn(),
            )  # fmt: skip
            self._bar = bars.Progress(*columns, console=console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __call__(self, progress: Progress) -> None:
        """One more step was done."""
        rate = f"{progress.rate:.1f} {self._what}/s"
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(self._doing, total=progress.total, rate=rate)
            self._bar.update(self._task, completed=progress.done, total=progress.total, rate=rate)
        elif time.monotonic() - self._last >= PAUSE_S:
            self._last = time.monotonic()
            say(f"{self._doing}: {progress.done} of {progress.total} {self._what}, {rate}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
