"""`novelo purge`, `erase`, `hold`, `release` and `audit`: what goes, what must stay, and who did it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Annotated, Any

import typer

import novelo
from novelo.cli.common import FAILED, counted, find_thread, open_database, print_json, rows_of, say
from novelo.cli.show import AsJson, Database, Owner
from novelo.receipts import Purged, Receipts
from novelo.retention import retention_of
from novelo.stores.base import Receipt

Actor = Annotated[
    str, typer.Option("--as", envvar="NOVELO_ACTOR", help="Who does it, for the audit: a role, not a person's name.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the audit: such as the number of a request.")]
Vacuum = Annotated[bool, typer.Option("--vacuum", help="Also rewrite the gaps: VACUUM.")]
Full = Annotated[bool, typer.Option("--full", help="More so: PostgreSQL's VACUUM FULL; others wait meanwhile.")]
BackupDays = Annotated[
    float | None, typer.Option("--backup-days", envvar="NOVELO_BACKUP_DAYS", help="How long backups are kept.", min=0)
]
# Such as --owner "$NAME" of a script in which NAME is not set.
_EMPTY_OWNER = "--owner is empty: threads without an owner are removed only when asked (no --yes)"
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def purge(
    rules: Annotated[list[str] | None, typer.Argument(help="Rules, such as idle:90d or age:2y,tag=x.")] = None,
    idle: Annotated[str | None, typer.Option("--idle", help="Threads that nobody used for so long: 90d, 12h.")] = None,
    age: Annotated[str | None, typer.Option("--age", help="Threads that were made so long ago.")] = None,
    closed: Annotated[
        str | None, typer.Option("--closed", help="Threads that were closed so long ago; 0d: all.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only threads with this tag.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only this owner's.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Only the thread of this id.")] = None,
    keep: Annotated[str, typer.Option("--keep", help="nothing, or summary: only texts that it covers go.")] = "nothing",
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only count what would go.")] = False,
    batch: Annotated[int, typer.Option("--batch", help="Threads of one transaction.", min=1, max=1000)] = 50,
    vacuum: Vacuum = False,
    full: Full = False,
    backup_days: BackupDays = None,
    actor: Actor = "",
    database: Database = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the conversations whose time is over; held ones stay.

    Examples: novelo purge --idle 90d --dry-run · novelo purge --age 2y --tag suporte --keep summary --yes
    """
    wanted = list(retention_of(rules or ()))
    if idle or age or closed:
        wanted.append(
            novelo.Retention(max_idle=idle, max_age=age, closed=closed, tag=tag, owner=owner, thread=thread, keep=keep)
        )
    if not wanted:
        raise typer.BadParameter("give a time: --idle 90d, --age 2y or --closed 0d, or a rule such as idle:90d")
    if owner == "" and yes and not dry_run:
        raise typer.BadParameter(_EMPTY_OWNER)
    with open_database(database, must_exist=True, worker="off", actor=actor, backup_days=backup_days) as memory:
        if not dry_run and not yes:
            found = memory.purge(dry_run=True, retention=wanted)
            _print_purged(found, say if as_json else print)
            if not found.threads and as_json:
                print_json(_purged(found))
            if not found.threads or not typer.confirm("Remove them for good?", err=True):
                raise typer.Exit(FAILED if found.threads else 0)
        said = _Progress(dry_run)
        found = memory.purge(dry_run, retention=wanted, vacuum="full" if full else vacuum, batch=batch, progress=said)
    if as_json:
        return print_json(_purged(found))
    _print_purged(found)


class _Progress:
    """A line on standard error now and then."""

    def __init__(self, dry_run: bool) -> None:
        self._word, self._next = "found" if dry_run else "removed", 1000

    def __call__(self, so_far: Purged) -> None:
        """Tell of each thousand threads."""
        if so_far.threads >= self._next:
            say(f"{self._word} {counted(so_far.threads, 'thread')}, {counted(so_far.messages, 'message')}")
            self._next = so_far.threads // 1000 * 1000 + 1000


def _purged(found: Purged) -> dict[str, Any]:
    import msgspec

    total = found.total
    return {
        **msgspec.to_builtins(found), "threads": total.threads, "messages": total.messages, "bytes": total.bytes,
    }  # fmt: skip


def _print_purged(found: Purged, line: Callable[[str], object] = print) -> None:
    for rule, reasons in found.rules.items():
        for why, taken in reasons.items():
            line(f"{rule}  {why}: {_taken(taken)}")
    word = "would be removed" if found.dry_run else "removed"
    line(f"{counted(found.threads, 'thread')} {word}: {counted(found.messages, 'message')}, {_size(found.bytes)}")
    if found.held:
        say(f"due, but held, and kept: {counted(found.held, 'thread')}")
    if found.passed:
        say(f"used meanwhile, and kept: {counted(found.passed, 'thread')}")
    for text in found.damaged:
        say(f"left: {text}")
    _print_rest(found.waits, found.beyond)


def _taken(taken: Any) -> str:
    return f"{counted(taken.threads, 'thread')}, {counted(taken.messages, 'message')}, {_size(taken.bytes)}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# ---------------------------------------------------------------------------------------------- erasure
def erase(
    thread_id: Annotated[str | None, typer.Argument(help="A thread's id.")] = None,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="Only this message, by id or #n.")
    ] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="Only what this regular expression finds.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Whose thread; alone, all of this owner.")] = None,
    keep_forks: Annotated[bool, typer.Option("--keep-forks", help="What forks share moves to them.")] = False,
    reason: Reason = "",
    vacuum: Vacuum = False,
    full: Full = False,
    backup_days: BackupDays = None,
    actor: Actor = "",
    database: Database = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase a thread, a message, what a pattern finds, or all of an owner, for good; the receipt says what went.

    Exit status 1 if nothing was there to erase, or a hold kept some of it.

    Examples: novelo erase t1 · novelo erase t1 --pattern "[0-9]{3}-[0-9]{2}" · novelo erase --owner maria
    """
    if thread_id is None and owner is None:
        raise typer.BadParameter("name a thread, or an owner with --owner")
    if thread_id is None and not owner and yes:
        raise typer.BadParameter(_EMPTY_OWNER)
    if thread_id is None and (message or pattern is not None):
        raise typer.BadParameter("--message and --pattern are of one thread: name it")
    if message and pattern is not None:
        raise typer.BadParameter("give --message or --pattern, not both")
    how: dict[str, Any] = {"reason": reason, "vacuum": "full" if full else vacuum}
    with open_database(database, must_exist=True, worker="off", actor=actor, backup_days=backup_days) as memory:
        thread = None if thread_id is None else find_thread(memory, thread_id, owner or "")
        if not yes and not typer.confirm(_question(memory, thread, owner, message, pattern), err=True):
            raise typer.Exit(FAILED)
        if thread is None:
            receipt: Any = memory.erase_owner(owner or "", **how)
        elif message:
            receipt = thread.delete(message, **how).receipt
        elif pattern is not None:  # an empty one is refused: it is not the whole thread
            receipt = thread.redact(pattern, **how).receipt
        else:
            receipt = thread.erase(forks="keep" if keep_forks else "erase", **how)
    if as_json:
        print_json(receipt)
    else:
        print_receipt(receipt)
    if receipt.held or not any(receipt.rows.values()):
        raise typer.Exit(FAILED)


def _question(
    memory: novelo.Memory, thread: novelo.Thread | None, owner: str | None, message: Any, pattern: str | None
) -> str:
    if thread is None:
        count = len(memory.threads(owner=owner, limit=100_000))
        return f"Erase {counted(count, 'thread')} and all documents of owner {owner!r} for good?"
    what = f"{counted(len(message), 'message')} of " if message else ""
    if pattern is not None:
        what = "what the pattern finds in "
    return f"Erase {what}thread {thread.thread_id!r} with {counted(len(thread), 'message')} for good?"


def print_receipt(receipt: Receipt | Receipts) -> None:
    """A receipt for people: what went on stdout, what did not on stderr."""
    rows = rows_of({name: count for name, count in receipt.rows.items() if name != "unread"})
    number = "" if isinstance(receipt, Receipts) or not receipt.number else f" (act {receipt.number} of the audit)"
    threads = f"{counted(receipt.threads, 'thread')}: " if isinstance(receipt, Receipts) else ""
    print(f"{threads}{rows or 'nothing'} erased{number}")
    if not isinstance(receipt, Receipts) and receipt.forks:
        say(f"forks that shared it: {', '.join(receipt.forks)}")
    if receipt.rows.get("unread"):
        say(f"encrypted by LangGraph, and not looked into: {counted(receipt.rows['unread'], 'value')}")
    if receipt.held:
        say(f"held, and kept: {', '.join(receipt.held)}")
    _print_rest(receipt.waits, receipt.beyond)


def _print_rest(waits: tuple[str, ...], beyond: tuple[str, ...]) -> None:
    for text in waits:
        say(f"pending: {text}")
    for text in beyond:
        say(f"not reached: {text}")


# ---------------------------------------------------------------------------------------------- holds, the audit
def hold(
    thread_id: Annotated[str | None, typer.Argument(help="A thread's id; without one, all of --owner.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Whose thread; alone, all of this owner.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Such as the number of a case; it must name nobody.")] = "",
    listing: Annotated[bool, typer.Option("--list", help="Only show what is held.")] = False,
    actor: Actor = "",
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Keep a thread, or all of an owner, from every removal until it is released.

    Examples: novelo hold t1 --reason case-12 · novelo hold --owner maria · novelo hold --list
    """
    with open_database(database, must_exist=True, worker="off", actor=actor) as memory:
        if listing:
            return _show_holds(memory, as_json)
        if thread_id is not None:
            thread = find_thread(memory, thread_id, owner or "")
            thread.hold(reason)
            scope = thread.key
        elif owner is not None:
            memory.hold_owner(owner, reason)
            scope = memory.store.owner_key(owner)
        else:
            raise typer.BadParameter("name a thread, or an owner with --owner")
        if as_json:
            print_json(next((one for one in _holds(memory) if one["scope"] == scope.hex()), None))
    say("held until `novelo release`")


def _holds(memory: novelo.Memory) -> list[dict[str, Any]]:
    held = memory.holds()
    names = {row.key: row.thread_id for one in held if not one.owner and (row := memory.store.thread(one.scope))}
    return [
        {"scope": one.scope.hex(), "what": "owner" if one.owner else "thread", "thread_id": names.get(one.scope),
         "since": one.since, "reason": one.reason}
        for one in held
    ]  # fmt: skip


def _show_holds(memory: novelo.Memory, as_json: bool) -> None:
    facts = _holds(memory)
    if as_json:
        return print_json(facts)
    for one in facts:
        print(f"{_when(one['since'])}  {one['what']}  {one['thread_id'] or one['scope']}  {one['reason']}".rstrip())
    say(counted(len(facts), "hold"))


def release(
    thread_id: Annotated[str | None, typer.Argument(help="A thread's id; without one, the hold on --owner.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Whose thread; alone, the hold on this owner.")] = None,
    actor: Actor = "",
    database: Database = None,
) -> None:
    """Release a hold.

    Example: novelo release t1
    """
    with open_database(database, must_exist=True, worker="off", actor=actor) as memory:
        if thread_id is not None:
            found = find_thread(memory, thread_id, owner or "").release()
        elif owner is not None:
            found = memory.release_owner(owner)
        else:
            raise typer.BadParameter("name a thread, or an owner with --owner")
    say("released" if found else "there was no hold")
    if not found:
        raise typer.Exit(FAILED)


def audit(
    thread_id: Annotated[
        str | None, typer.Argument(help="Only acts on the thread of this id, also an erased one.")
    ] = None,
    owner: Owner = "",
    limit: Annotated[int, typer.Option("--limit", help="The newest so many.", min=1, max=100_000)] = 50,
    check: Annotated[
        bool, typer.Option("--check", help="Only see whether the chain is whole; exit status 1 if not.")
    ] = False,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show what was removed, held and released: who, when, what, on which key, how many rows, why; no name, no text.

    Example: novelo audit --check
    """
    with open_database(database, must_exist=True, worker="off") as memory:
        if check:
            count, broken = memory.audit_check()
            if as_json:
                print_json({"acts": count, "broken": broken})
            say(
                f"{counted(count, 'act')}, "
                + (f"altered: {', '.join(map(str, broken[:20]))}" if broken else "the chain is whole")
            )
            if broken:
                raise typer.Exit(FAILED)
            return
        scope = None if thread_id is None else memory.store.key_of(owner, thread_id)
        rows = memory.audit(limit, scope=scope)
    if as_json:
        return print_json([{**_act(row), "scope": row.scope.hex()} for row in rows])
    for row in rows:
        counts = rows_of(row.counts)
        who = f" by {row.who}" if row.who else ""
        why = f" ({row.why})" if row.why else ""
        print(f"{row.number:>6}  {_when(row.at)}  {row.action}{who}  {row.scope.hex()[:12]}  {counts}{why}".rstrip())
    if not rows:
        say("no act on it" if thread_id is not None else "no act yet")


def _act(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


def _when(moment: Any) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
