"""What all commands share: which database, how to print, and how errors are told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import novelo
from novelo.cli.lines import put
from novelo.keeping import is_address
from novelo.stores.base import Found, StoredEntry, ThreadRow

if TYPE_CHECKING:
    from rich.console import Console

MISUSED = 2
FAILED = 1
NO_BREAKS = 100_000  # places in a line of a pipe or a file


def database_path() -> Path:
    """Where threads are kept unless -d says otherwise: NOVELO_DATABASE, or chat.db in the user's data folder.

    The data folder is NOVELO_HOME, or novelo under XDG_DATA_HOME, or ~/.local/share/novelo.
    """
    named = os.environ.get("NOVELO_DATABASE")
    if named:
        return Path(named.removeprefix("sqlite:///"))
    home = os.environ.get("NOVELO_HOME")
    base = Path(home) if home else Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "novelo"
    return base / "chat.db"


def default_database() -> str:
    """The database without -d: DATABASE_URL, NOVELO_DATABASE if it is an address, else the file of `database_path`."""
    named = os.environ.get("NOVELO_DATABASE", "")
    return os.environ.get("DATABASE_URL") or (named if "://" in named else str(database_path()))


def default_model() -> str:
    """The model of the environment, as the tutorials set it; the offline one without a key."""
    if os.environ.get("OPENAI_API_KEY") and os.environ.get("MODEL_NAME"):
        return f"openai:{os.environ['MODEL_NAME']}"
    return "offline"


def open_database(given: str | None, *, must_exist: bool = False, **options: Any) -> novelo.Memory:
    """The memory of a path or address; None is the user's own.

    Raises:
        StorageUnavailable: it must exist, and does not.
    """
    url = given or default_database()
    if not is_address(url):
        path = Path(url)
        if must_exist and not path.exists():
            raise novelo.StorageUnavailable(
                f"there is no database {path}: start one with `novelo chat`, or name one with -d"
            )
        url = f"sqlite:///{path}"
    return novelo.open(url, **options)


def console(*, stderr: bool = False) -> Console:
    """A console, plain where NO_COLOR is set; where the output is no terminal it is plain, and breaks no line."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:  # a pipe or a file: whoever reads it looks for whole lines
        out.width = NO_BREAKS
    return out


def counted(count: int, one: str) -> str:
    """A number and its word: "1 entry", "2 entries", "3 threads"."""
    return f"{count:,} {one if count == 1 else f'{one[:-1]}ies' if one.endswith('y') else f'{one}s'}"


def rows_of(counts: Mapping[str, int]) -> str:
    """Rows by table, for people: "4 entries, 1 turn, 4 search rows"; empty if there are none."""
    told = []
    for name, count in counts.items():
        one = name.replace("_", " ")
        one = f"{one[:-3]}y" if one.endswith("ies") else one[:-1] if one.endswith("s") else f"{one} row"
        told += [counted(count, one)] if count else []
    return ", ".join(told)


def say(text: str) -> None:
    """A line of talk, on stderr: data alone goes to stdout."""
    put(text, sys.stderr)


def json_text(value: Any, indent: int | None = 2, *, output: str = "-") -> str:
    """A value as JSON: escaped where it goes to an stdout that is no UTF-8."""
    plain = output == "-" and not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")
    return json.dumps(msgspec.to_builtins(value, enc_hook=str), ensure_ascii=plain, indent=indent) + "\n"


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json_text(value))


def print_lines(values: Iterable[Any]) -> None:
    """JSON, a line each, on stdout."""
    for value in values:
        sys.stdout.write(json_text(value, None))


def thread_facts(row: ThreadRow) -> dict[str, Any]:
    """A thread as the JSON of `novelo threads`."""
    return {
        "thread_id": row.thread_id,
        "owner": row.owner,
        "title": row.title,
        "tags": list(row.tags),
        "messages": row.head,
        "turns": row.turns,
        "tokens": row.running,
        "created": row.created,
        "updated": row.updated,
        "metadata": row.metadata,
    }


def entry_facts(entry: StoredEntry) -> dict[str, Any]:
    """A message as the JSON of `novelo show`."""
    facts: dict[str, Any] = {"position": entry.position, "id": entry.id, "role": entry.role, "created": entry.created}
    facts |= {name: True for name in ("hidden", "deleted", "partial") if getattr(entry, name)}
    return facts | {"turn": entry.turn, "tokens": entry.tokens, "message": entry.message}


def tell_damaged(found: Found[Any]) -> None:
    """Say what a list had to leave out."""
    for text in found.damaged:
        say(f"left out: {text}")


def find_thread(memory: novelo.Memory, thread_id: str, owner: str) -> novelo.Thread:
    """A thread that is there.

    Raises:
        UnknownEntry: it is not.
    """
    thread = memory.thread(thread_id, owner=owner)
    if thread.row is None:
        near = [row.thread_id for row in memory.threads(owner=owner, limit=5)]
        others = {row.owner for row in memory.threads(limit=1000) if row.thread_id == thread_id}
        hint = "; there is none yet"
        if near:
            hint = f"; the last used are {', '.join(near)}"
        elif memory.threads(limit=1):
            hint = (
                f"; owner {owner!r} has none, others have: add --owner" if not owner else f"; owner {owner!r} has none"
            )
        if others:
            hint = f" of owner {owner!r}; it is one of {', '.join(map(repr, sorted(others)))}: add --owner"
        raise novelo.UnknownEntry(f"no thread {thread_id!r}{hint}")
    return thread


def read_messages(path: str) -> Any:
    """The messages of a JSON file, or of stdin for "-".

    Raises:
        ImportFailed: it is no list of messages.
    """
    from novelo.portable import read_list

    return read_list(sys.stdin.buffer.read() if path == "-" else Path(path), "stdin" if path == "-" else path)
