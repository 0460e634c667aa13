"""Commands that work on files, and those that remove: check, compose, import, export, delete."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import novelo
from novelo.cli.common import (
    FAILED,
    counted,
    find_thread,
    json_text,
    open_database,
    print_json,
    read_messages,
    say,
    tell_damaged,
)
from novelo.cli.show import AsJson, Database, Owner, ThreadId

Source = Annotated[str, typer.Argument(help="A JSON file with a list of messages; - is stdin.")]
Provider = Annotated[str, typer.Option(help="openai, anthropic, gemini, mistral, strict.")]
Output = Annotated[str, typer.Option("-o", "--output", help="Where to write; - is stdout.")]
EXPORTED = 10_000  # threads that are listed together


def check(
    file: Source,
    provider: Provider = "openai",
    fix: Annotated[bool, typer.Option("--fix", help="Mend the list and write it out.")] = False,
    output: Output = "-",
    as_json: AsJson = False,
) -> None:
    """Tell what a provider would refuse in a list of messages, or mend it. Exit status 1 if it would be refused.

    Examples: novelo check history.json --provider anthropic · novelo check - --fix < broken.json > mended.json
    """
    messages = read_messages(file)
    if fix:
        mended = novelo.repair(messages, provider)
        for change in mended.changes:
            say(str(change))
        write_text(output, json_text(mended.messages, output=output))
        return
    found = novelo.check(messages, provider)
    if as_json:
        print_json(found)
    else:
        for violation in found:
            print(violation)
        say(
            f"{counted(len(messages), 'message')}: "
            + (
                f"{counted(len(found), 'violation')} for {provider}; --fix mends what can be"
                if found
                else f"{provider} takes them"
            )
        )
    if found:
        raise typer.Exit(FAILED)


def compose(
    file: Source,
    policy: Annotated[str, typer.Option("-p", "--policy", help="Such as window:10turns or budget:8000.")] = "buffer",
    provider: Provider = "openai",
    form: Annotated[str, typer.Option(help="openai, anthropic, responses, gemini, mistral.")] = "openai",
    counter: Annotated[str, typer.Option(help="estimate, o200k, cl100k.")] = "estimate",
    explain: Annotated[bool, typer.Option("--explain", help="Only say what is in and out, and why.")] = False,
    output: Output = "-",
) -> None:
    """Compose a context from a list of messages.

    Example: novelo compose history.json -p "strip_media + budget:8000" --explain
    """
    found = novelo.compose(read_messages(file), policy, provider, counter=counter)
    if explain:
        print(found.explain())
        return
    sent = found.messages(form)
    body = sent.body() if hasattr(sent, "body") else sent
    write_text(output, json_text(body, output=output))
    say(found.explain().splitlines()[0])


def import_(
    files: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, or with --from one store.")],
    database: Database = None,
    owner: Owner = "",
    thread_id: Annotated[
        str | None, typer.Option("--thread", help="The new thread's id; with --from, the only one to import.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="langgraph-sqlite, langgraph-postgres, openai-agents, llm, claude-code."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --from: count what would come, write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Import conversations: own exports, OpenAI or Anthropic lists, ChatGPT exports, simple {"messages": [...]} files.

    Each file is imported whole or not at all. With --from they come from another program's store, which is only read;
    a second run adds what is new since.

    Examples: novelo import conversations.json · novelo import --from langgraph-sqlite checkpoints.sqlite --dry-run
    """
    if source is not None:
        from novelo.cli.importing import import_from

        if len(files) != 1:
            raise typer.BadParameter("--from takes one path")
        return import_from(source, files[0], database, owner, thread_id, dry_run, as_json)
    if dry_run:
        raise typer.BadParameter("--dry-run goes with --from: a file is imported whole or not at all")
    made = []
    with open_database(database) as memory:
        for file in files:
            for thread in memory.import_file(file, owner=owner, thread_id=thread_id):
                made.append({"thread_id": thread.thread_id, "messages": len(thread), "file": file})
                if not as_json:
                    print(f"{thread.thread_id}  {counted(len(thread), 'message')}  {thread.title}".rstrip())
    if as_json:
        print_json(made)


def _all_threads(memory: novelo.Memory, owner: str | None) -> list[novelo.Thread]:
    """Every thread, or an owner's, the last used first, however many there are."""
    named: list[novelo.Thread] = []
    cursor = None
    while True:
        rows = memory.threads(owner=owner, cursor=cursor, limit=EXPORTED)
        tell_damaged(rows)
        named += [memory.thread(row.thread_id, owner=row.owner) for row in rows]
        cursor = rows.cursor
        if cursor is None:
            return named


def export(
    thread_ids: Annotated[list[str] | None, typer.Argument(help="Threads by id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All threads, of --owner if it is given.")] = False,
    database: Database = None,
    owner: Owner = "",
    kind: Annotated[str, typer.Option(help="novelo (lossless), openai, simple.")] = "novelo",
    output: Output = "-",
) -> None:
    """Export threads to a file.

    Example: novelo export t1 t2 -o talks.jsonl
    """
    from novelo.portable import export_file, exported

    with open_database(database, must_exist=True) as memory:
        if everything:
            named = _all_threads(memory, owner or None)
            if not named:
                raise novelo.UnknownEntry(
                    f"there is no thread of owner {owner!r}" if owner else "there is no thread yet"
                )
        else:
            named = [find_thread(memory, one, owner) for one in thread_ids or ()]
        if not named:
            raise typer.BadParameter("name a thread, or give --all")
        if output == "-":
            for piece in exported(named, kind):
                sys.stdout.buffer.write(piece)
            return
        export_file(named, output, kind)
    say(f"{counted(len(named), 'thread')} in {output}")


def delete(
    thread_id: ThreadId,
    database: Database = None,
    owner: Owner = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase a thread for good, from every file of the database; the receipt says what went.

    Example: novelo delete t1 --yes
    """
    with open_database(database, must_exist=True) as memory:
        thread = find_thread(memory, thread_id, owner)
        if not yes and not typer.confirm(f"Erase thread {thread_id!r} with {len(thread)} messages for good?", err=True):
            raise typer.Exit(FAILED)
        receipt = thread.erase()
    if as_json:
        return print_json(receipt)
    from novelo.cli.purge import print_receipt

    print_receipt(receipt)


def write_text(output: str, text: str) -> None:
    """To a file, or stdout."""
    if output == "-":
        sys.stdout.write(text)
    else:
        Path(output).write_text(text, "utf-8")
