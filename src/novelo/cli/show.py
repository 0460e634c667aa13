"""Commands that look: threads, show, search, context."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from novelo.cli.common import (
    console,
    entry_facts,
    find_thread,
    open_database,
    print_json,
    print_lines,
    say,
    tell_damaged,
    thread_facts,
)
from novelo.context import parse
from novelo.errors import InvalidSpec

if TYPE_CHECKING:
    from novelo.thread import Thread

Database = Annotated[
    str | None, typer.Option("-d", "--database", help="A file, or an address such as sqlite:///chat.db.")
]
Owner = Annotated[str, typer.Option(help="Whose thread it is.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
AsLines = Annotated[bool, typer.Option("--nl", help="JSON, a line each.")]
ThreadId = Annotated[str, typer.Argument(help="The thread's id.")]


def threads(
    database: Database = None,
    owner: Annotated[str | None, typer.Option(help="Only this owner's.")] = None,
    query: Annotated[
        str | None, typer.Option("-q", "--search", help="Words of the title, the id, or of what was said.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    number: Annotated[int, typer.Option("-n", help="How many; 0 is all.")] = 20,
    as_json: AsJson = False,
    as_lines: AsLines = False,
) -> None:
    """List threads, the last used first.

    Example: novelo threads -q reembolso -n 0 --json
    """
    with open_database(database, must_exist=True) as memory:
        rows = memory.threads(owner=owner, search=query, tag=tag, limit=number or 100_000)
    tell_damaged(rows)
    if as_json:
        return print_json([thread_facts(row) for row in rows])
    if as_lines:
        return print_lines(thread_facts(row) for row in rows)
    from rich.table import Table

    table = Table(box=None, padding=(0, 1))
    for name, right in (
        ("thread", False),
        ("owner", False),
        ("messages", True),
        ("tokens", True),
        ("last used", False),
        ("title", False),
    ):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(row.thread_id, row.owner, str(row.head), str(row.running), _moment(row.updated), row.title)
    console().print(table)


def show(
    thread_id: ThreadId,
    database: Database = None,
    owner: Owner = "",
    number: Annotated[int, typer.Option("-n", help="The newest so many; 0 is all.")] = 0,
    as_json: AsJson = False,
    as_lines: AsLines = False,
) -> None:
    """Show the transcript of a thread: everything, hidden messages too.

    Example: novelo show atendimento-4471 -n 10
    """
    with open_database(database, must_exist=True) as memory:
        thread = find_thread(memory, thread_id, owner)
        entries = thread.messages(limit=number, newest_first=True)[::-1] if number else thread.messages()
    if as_json:
        return print_json([entry_facts(e) for e in entries])
    if as_lines:
        return print_lines(entry_facts(e) for e in entries)
    print_entries(entries)


def print_entries(entries: list[Any]) -> None:
    """A transcript for people."""
    from rich.text import Text

    out = console()
    for entry in entries:
        marks = [m for m in ("hidden", "deleted", "partial") if getattr(entry, m)]
        head = f"{entry.position:>4}  {entry.role}" + (f" ({', '.join(marks)})" if marks else "")
        out.print(Text(head, style=_STYLES.get(entry.role, "")))
        body = [entry.text] if entry.text else []
        body += [f"→ {call.name}({call.arguments})" for call in entry.message.tool_calls]
        for text in body:
            out.print(Text("\n".join("      " + line for line in text.splitlines())))


_STYLES = {"user": "bold green", "assistant": "bold blue", "tool": "yellow", "system": "magenta"}


def search(
    words: Annotated[str, typer.Argument(help="Words that a message must hold; accents and case do not matter.")],
    database: Database = None,
    owner: Annotated[str | None, typer.Option(help="Only this owner's threads.")] = None,
    thread_id: Annotated[str | None, typer.Option("--thread", help="Only this thread.")] = None,
    number: Annotated[int, typer.Option("-n", help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Search what was said.

    Example: novelo search "reembolso concluido"
    """
    with open_database(database, must_exist=True) as memory:
        thread = None if thread_id is None else find_thread(memory, thread_id, owner or "")
        hits = memory.search(words, owner=owner, thread=thread, limit=number)
    tell_damaged(hits)
    if hits.partial:
        say("only the newest messages were looked through: there is no index")
    if as_json:
        return print_json(
            [{"thread_id": h.thread_id, "owner": h.owner, "score": h.score, **entry_facts(h.entry)} for h in hits]
        )
    from rich.text import Text

    out = console()
    for hit in hits:
        out.print(
            Text.assemble(
                (hit.thread_id, "bold"), f" {hit.entry.position} {hit.entry.role}: ", " ".join(hit.text.split())[:200]
            )
        )
    if not hits:
        say("nothing found")
        raise typer.Exit(1)


def context(
    thread_id: ThreadId,
    database: Database = None,
    owner: Owner = "",
    turn: Annotated[
        int | None, typer.Option("--turn", "-t", help="What the model saw at this turn, counted from 1.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="As if this were asked.")] = None,
    policy: Annotated[
        str | None, typer.Option("-p", "--policy", help="Under this policy; else that of the last turn.")
    ] = None,
    provider: Annotated[str, typer.Option(help="openai, anthropic, gemini, mistral, strict.")] = "openai",
    as_json: AsJson = False,
) -> None:
    """Show what the model saw, or would see next, and why.

    Examples: novelo context t1 --turn 41 · novelo context t1 --question "E com Pix?" -p budget:4000
    """
    from novelo.cli.grid import picture
    from novelo.context.manifest import explain

    with open_database(database, must_exist=True) as memory:
        thread = find_thread(memory, thread_id, owner)
        if turn is not None:
            manifest = thread.manifest(turn)
            if manifest is None:
                raise typer.BadParameter(
                    f"turn {turn} left no manifest: its context was not composed by novelo", param_hint="--turn"
                )
            kept = [e for a, b in manifest.kept for e in thread.messages(after=a - 1, limit=b - a)]
            if as_json:
                return print_json({"turn": turn, "manifest": manifest, "messages": [entry_facts(e) for e in kept]})
            console().print(explain(manifest), markup=False)
            return print_entries(kept)
        found = thread.context(question, policy=policy or _last_policy(thread), provider=provider)
    if as_json:
        return print_json({"manifest": found.manifest, "messages": found.messages("openai")})
    out = console()
    out.print(picture(found, out.width))
    out.print(found.explain(), markup=False)


def _last_policy(thread: Thread) -> str | None:
    """What the thread's last turn was composed by; None if there was none, or only its program knows the policy."""
    manifest = next((thread.memory.unpack_manifest(turn.manifest) for turn in thread.turns(1)), None)
    if manifest is None:
        return None
    try:
        parse(manifest.policy)
    except InvalidSpec:
        return None
    return manifest.policy


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
