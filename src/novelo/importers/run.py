"""An import, run: what is new at a source goes into threads, and a second run adds only what is new since.

A thread notes in `metadata["imported"]` where it came from, how many messages were taken, and a hash of their keys; a
message notes its key in `meta["imported"]`. If the first keys at the source are those that were taken, the rest is new:
that is the usual case, and holds too where messages were deleted here since. Else (messages were taken back at the
source, another branch was chosen) they are compared one by one: what the source has no more is hidden here, and what is
new is appended. What was said in the thread after the import is left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from novelo.errors import InvalidMessage, NoveloError
from novelo.importers.base import Conversation, Loss, Source
from novelo.memory import Memory
from novelo.messages import Message, encode
from novelo.thread import Thread

NOTE = "imported"

Progress = Callable[[int, int, str], None]


class Taken(msgspec.Struct, frozen=True):
    """What became of one conversation.

    Attributes:
        thread_id: of the thread that it is.
        was: new, grown, same, or refused (another thread of that id is there already).
        messages, states: how many messages and graph states were added, or would be.
        title: of the thread.
    """

    thread_id: str
    was: str
    messages: int = 0
    states: int = 0
    title: str = ""


class Report(msgspec.Struct):
    """What an import did, or would do."""

    source: str
    dry_run: bool
    threads: list[Taken] = []
    losses: list[Loss] = []

    @property
    def messages(self) -> int:
        """Messages added."""
        return sum(one.messages for one in self.threads)

    def count(self, was: str) -> int:
        """How many conversations were such."""
        return sum(one.was == was for one in self.threads)


def run_import(
    memory: Memory,
    source: Source,
    *,
    owner: str = "",
    only: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Import what is new at a source.

    Args:
        owner: whose the threads become.
        only: the id of one conversation, instead of all.
        dry_run: read and count all, write nothing.
        progress: called before each conversation with how many are done, how many there are, and its id.
    """
    report = Report(source.kind, dry_run)
    total = 1 if only is not None else len(source.ids())
    for done, found in enumerate(source.conversations(only)):
        if progress is not None:
            progress(done, total, found.id)
        try:
            report.threads.append(_take(memory, source, found, memory.thread(found.id, owner=owner), dry_run))
        except NoveloError as error:
            source.lose(found.id, f"could not be stored: {error}")
            report.threads.append(Taken(found.id, "refused", title=found.title))
    report.losses = source.losses
    return report


def _take(memory: Memory, source: Source, found: Conversation, thread: Thread, dry_run: bool) -> Taken:
    row = thread.row
    known = _note(thread)
    if row is not None and (known.get("from"), known.get("id")) != (source.kind, found.id):
        source.lose(found.id, "a thread of this id is there already, and did not come from here: give another owner")
        return Taken(found.id, "refused", title=found.title)
    if row is None and not dry_run:  # first of all: a run that is cut off must find its threads again
        thread.metadata = {**found.metadata, NOTE: {"from": source.kind, "id": found.id, "taken": 0}}
    brought = source.bring(memory, found, thread, dry_run=dry_run)
    added, states = (_append(source, found, thread, known, dry_run), 0) if brought is None else brought
    if not dry_run:
        _facts(thread, found, new=row is None)
    was = "new" if row is None else "grown" if added or states else "same"
    return Taken(found.id, was, added, states, found.title)


def _note(thread: Thread) -> dict[str, Any]:
    found = thread.metadata.get(NOTE)
    return found if isinstance(found, dict) else {}


def note(thread: Thread, **facts: Any) -> None:
    """Note what was taken."""
    thread.metadata = {**thread.metadata, NOTE: {**_note(thread), **facts}}


def _facts(thread: Thread, found: Conversation, new: bool) -> None:
    """Title and state: of the first run; later they are the thread's own."""
    if new or not (thread.title or len(thread.state)):
        kept = {name: value for name, value in (("title", found.title), ("state", found.state)) if value}
        if kept:
            thread._set(**kept)


def _append(source: Source, found: Conversation, thread: Thread, known: dict[str, Any], dry_run: bool) -> int:
    """Bring the messages of a thread up to those at the source; how many are new."""
    before = known.get("taken") or 0
    taken = before if before <= len(found.keys) and known.get("seal") == _seal(found.keys[:before]) else 0
    if taken == len(found.keys):
        return 0
    entries = thread.messages()
    there = {key: e for e in entries if not e.deleted and isinstance(key := e.message.meta.get(NOTE), str)}
    rewritten = before > 0 and taken == 0
    if rewritten and any(e.deleted for e in entries):
        source.lose(found.id, "was rewritten at the source, and messages were deleted here: not brought up to date")
        return 0
    new = [i for i in range(taken, len(found.keys)) if found.keys[i] not in there]
    sound = [i for i in new if _sound(source, found, i, thread)]
    if dry_run:
        return len(sound)
    if sound:
        now = time.time()
        messages = [msgspec.structs.replace(m, meta={**m.meta, NOTE: found.keys[i]}) for i, m in _of(found, sound)]
        thread.store_messages(messages, [now if (at := found.times[i]) is None else at for i in sound])
    if rewritten and (gone := [there[key].position for key in there.keys() - set(found.keys)]):
        thread.hide(gone)
    note(thread, taken=len(found.keys), seal=_seal(found.keys))
    return len(sound)


def _of(found: Conversation, places: Sequence[int]) -> list[tuple[int, Message]]:
    return [(i, found.messages[i]) for i in places]


def _sound(source: Source, found: Conversation, place: int, thread: Thread) -> bool:
    """Whether a message can be stored; one that cannot is a loss of its own."""
    try:
        encode(thread.memory.sound(found.messages[place]))
    except InvalidMessage as error:
        source.lose(found.id, f"message {found.keys[place]} cannot be stored: {error}")
        return False
    return True


def _seal(keys: Sequence[str]) -> str:
    return blake2b("\n".join(keys).encode(), digest_size=12).hexdigest()
