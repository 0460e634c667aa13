"""Threads in files: export, and import of our own files and of what other programs write.

`formats/files.py` reads and writes the bytes; here threads are made of them. An import is all or nothing: every message
is read and checked before the first is stored, and what fails half-way is taken back.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.errors import ImportFailed, InvalidSpec, NoveloError
from novelo.formats import files

if TYPE_CHECKING:
    from novelo.memory import Memory
    from novelo.thread import Thread

KINDS = ("novelo", "openai", "simple")


def import_file(memory: Memory, path: str | Path, *, owner: str = "", thread_id: str | None = None) -> list[Thread]:
    """Threads from a file of any kind that we know.

    That is our own export, a list of OpenAI or Anthropic messages, a ChatGPT export, or a simple
    {"timestamp", "messages": [{"role": "human", "content": …}]}.

    Args:
        owner: whose they become; our own files name an owner only to be overruled by this one, where it is given.
        thread_id: the id, for a file with one thread; else the file's, or a new one.
    Raises:
        ImportFailed: the file, the line, the field, and what was expected. Nothing was imported.
    """
    found = files.parse(_bytes_of(Path(path)), str(path))
    if thread_id is not None and len(found) != 1:
        raise ImportFailed(f"{path}: holds {len(found)} threads, and one id was given: import without an id")
    made: list[Thread] = []
    try:
        for one in found:
            made.append(_imported(memory, one, owner or one.owner or "", thread_id or one.thread_id))
    except BaseException as error:
        for thread in made:
            thread.erase()
        if isinstance(error, ImportFailed) or not isinstance(error, NoveloError):
            raise
        raise ImportFailed(f"{path}: {error}; nothing was imported") from error
    return made


def _bytes_of(path: Path) -> bytes:
    """A file's bytes; one that is larger than an import may be is not read at all."""
    try:
        size = path.stat().st_size
        if size > files.MAX_BYTES:
            raise ImportFailed(f"{path}: is {size} bytes large, expected at most {files.MAX_BYTES}", file=str(path))
        return path.read_bytes()
    except OSError as error:
        raise ImportFailed(f"{path}: cannot be read: {error.strerror}", file=str(path)) from error


def _imported(memory: Memory, found: Any, owner: str, thread_id: str | None) -> Thread:
    wanted = thread_id or memory.new_id()
    thread = memory.thread(wanted, owner=owner)
    if thread.row is not None:
        raise ImportFailed(f"a thread {wanted!r} exists already: give another id, or delete it first")
    now = time.time()
    facts: dict[str, Any] = found.facts or {}
    try:
        thread.store_messages(found.messages, [now if t is None else t for t in found.times])
        if hidden := facts.get("hidden"):
            thread.hide(hidden)
        if deleted := facts.get("deleted"):
            thread.delete(deleted)
        if pins := facts.get("pins"):
            thread.pin(pins)
        kept = {k: facts[k] for k in ("tags", "metadata", "state") if facts.get(k)}
        if found.title:
            kept["title"] = found.title
        if kept:
            thread._set(**kept)
    except BaseException:
        thread.erase()
        raise
    return thread


def exported(threads: Sequence[Thread], kind: str = "novelo") -> Iterator[bytes]:
    """The bytes of an export, piece by piece.

    Args:
        kind: "novelo" (lossless JSON Lines; many threads), "openai" (a list of chat dicts), or "simple".
    Raises:
        InvalidSpec: no such kind, or several threads in a kind that holds one.
    """
    if kind not in KINDS:
        raise InvalidSpec(f"export kind {kind!r}: expected one of {', '.join(KINDS)}")
    if kind != "novelo" and len(threads) != 1:
        raise InvalidSpec(f"an export of kind {kind} holds one thread, {len(threads)} were given: use kind novelo")
    for thread in threads:
        entries = thread.messages()
        visible = [e.message for e in entries if not (e.hidden or e.deleted)]
        if kind == "openai":
            yield files.write_openai(visible)
        elif kind == "simple":
            yield files.write_simple(visible, datetime.datetime.now().astimezone().isoformat(timespec="seconds"))
        else:
            yield from files.write_own(_header(thread), map(_line, entries))


def export_file(threads: Sequence[Thread], path: str | Path, kind: str = "novelo") -> int:
    """Write threads to a file; returns the number of messages in it. The file appears whole or not at all.

    Raises:
        InvalidSpec: it cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        raise InvalidSpec(f"cannot write {target}: it is a folder; give a file in it")
    whole = not target.exists() or target.is_file()  # a device or a pipe is written into, and stays what it is
    beside = target.with_name(target.name + ".part") if whole else target
    count = 0
    try:
        with beside.open("wb") as out:
            for piece in exported(threads, kind):
                out.write(piece)
                if kind != "novelo":  # all of it in one piece, and without what is hidden
                    value = json.loads(piece)
                    count = len(value["messages"] if kind == "simple" else value)
        if whole:
            beside.replace(target)
    except OSError as error:
        raise InvalidSpec(f"cannot write {target}: {error.strerror}") from error
    finally:
        if whole:
            beside.unlink(missing_ok=True)
    return sum(map(len, threads)) if kind == "novelo" else count


def _header(thread: Thread) -> dict[str, Any]:
    row = thread.row
    facts: dict[str, Any] = {
        "thread_id": thread.thread_id,
        "owner": thread.owner,
        "title": thread.title,
        "tags": list(thread.tags),
    }
    facts |= {"metadata": thread.metadata, "state": dict(thread.state), "pins": thread.memory.store.pins(thread.key)}
    return facts | ({"created": row.created, "updated": row.updated} if row is not None else {})


def _line(entry: Any) -> dict[str, Any]:
    line = {
        "position": entry.position,
        "turn": entry.turn,
        "created": entry.created,
        "message": msgspec.to_builtins(entry.message),
    }
    return line | {name: True for name in ("hidden", "deleted") if getattr(entry, name)}


def read_list(source: Path | bytes, name: str) -> list[Any]:
    """The messages of a file as its own dicts, in its own form: for check, repair and compose on plain lists.

    Raises:
        ImportFailed: it is no list of messages.
    """
    try:
        body = source if isinstance(source, bytes) else source.read_bytes()
    except OSError as error:
        raise ImportFailed(f"{name}: cannot be read: {error.strerror}") from error
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        try:
            value = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()]
        except (msgspec.MsgspecError, ValueError, RecursionError):
            where = re.search(r"byte (\d+)", str(error))
            at = f" at line {body[: int(where[1])].count(10) + 1}" if where else ""
            raise ImportFailed(f"{name}: is no JSON{at}: expected a list of messages") from error
    if isinstance(value, dict):
        system, messages = value.get("system"), value.get("messages", value.get("input"))
        if isinstance(messages, list) and system:
            return [{"role": "system", "content": system}, *messages]
        value = messages
    if not isinstance(value, list):
        raise ImportFailed(
            f"{name}: expected a list of messages, or an object with a field 'messages', got {type(value).__name__}"
        )
    return value
