"""What the reference store keeps, and how it is read: dicts behind one lock."""

from __future__ import annotations

import copy
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from novelo.errors import StorageUnavailable, ThreadErased, UnknownEntry
from novelo.stores.base import Found, Hit, Job, NewEntry, StoredEntry, ThreadRow, TurnRow
from novelo.stores.rules import Ranges, thread_key
from novelo.stores.search import fold, query_words, spans
from novelo.summaries import Summary
from novelo.usage import Call, Spent

replace = msgspec.structs.replace


@dataclass
class Kept:
    """All that is kept of one thread; of a fork only what is its own."""

    row: ThreadRow
    state: dict[str, Any] = field(default_factory=dict)
    lease_s: float = 0.0
    entries: dict[int, StoredEntry] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)
    turns: dict[int, TurnRow] = field(default_factory=dict)
    requests: dict[str, bytes] = field(default_factory=dict)
    drafts: dict[int, NewEntry] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    newest_summary: int = 0
    work: dict[str, Job] = field(default_factory=dict)
    pins: set[int] = field(default_factory=set)
    hidden: Ranges = field(default_factory=list)
    vectors: dict[tuple[str, int], bytes] = field(default_factory=dict)


class KeptThreads:
    """The reading half of the reference store."""

    indexed = True

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._lock = threading.RLock()
        self._kept: dict[bytes, Kept] = {}
        self._closed = False

    def key_of(self, owner: str, thread_id: str) -> bytes:
        """The thread's key: 16 bytes of a keyed hash."""
        return thread_key(self._secret, owner, thread_id)

    def close(self) -> None:
        """Everything is gone."""
        with self._lock:
            self._closed = True
            self._kept.clear()

    def _all(self) -> dict[bytes, Kept]:
        if self._closed:
            raise StorageUnavailable("the memory is closed: open it again")
        return self._kept

    def _living(self, key: bytes) -> Kept | None:
        kept = self._all().get(key)
        return None if kept is None or kept.row.status == "erased" else kept

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Nothing changes inside the block."""
        with self._lock:
            yield

    # ------------------------------------------------------------------------------------------ reading
    def thread(self, key: bytes) -> ThreadRow | None:
        """The thread's facts; None if there is no such thread."""
        with self._lock:
            kept = self._living(key)
            return None if kept is None else kept.row

    def state(self, key: bytes) -> dict[str, Any]:
        """The thread's custom state."""
        with self._lock:
            kept = self._living(key)
            return {} if kept is None else copy.deepcopy(kept.state)

    def _holder(self, row: ThreadRow, position: int) -> Kept:
        """Who keeps the entry at a position: the thread, or one it was forked from."""
        kept = self._living(row.key)
        while kept is not None:
            if position in kept.entries:
                return kept
            kept = None if kept.row.parent is None else self._living(kept.row.parent)
        raise ThreadErased("the thread was erased")

    def _entry(self, row: ThreadRow, position: int) -> StoredEntry:
        entry = self._holder(row, position).entries[position]
        ranges = self._kept[row.key].hidden
        return replace(entry, hidden=any(a <= position < b for a, b in ranges))

    def tail(self, thread: ThreadRow, before: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries below a position, newest first."""
        return self._read(thread, range(min(before, thread.head) - 1, -1, -1), limit, hidden)

    def range(self, thread: ThreadRow, start: int, limit: int, *, hidden: bool = False) -> list[StoredEntry]:
        """Entries from a position on, oldest first."""
        return self._read(thread, range(max(start, 0), thread.head), limit, hidden)

    def _read(self, thread: ThreadRow, places: Sequence[int], limit: int, hidden: bool) -> list[StoredEntry]:
        with self._lock:
            out: list[StoredEntry] = []
            for position in places:
                if len(out) >= limit:
                    break
                entry = self._entry(thread, position)
                if hidden or not (entry.hidden or entry.deleted):
                    out.append(entry)
            return out

    def entries(self, thread: ThreadRow, positions: Sequence[int]) -> list[StoredEntry]:
        """The entries at some positions, in the order asked for."""
        with self._lock:
            for position in positions:
                if not 0 <= position < thread.head:
                    raise UnknownEntry(f"no entry {position} in a thread of {thread.head}", id=position)
            return [self._entry(thread, position) for position in positions]

    def find(self, thread: ThreadRow, ids: Sequence[str]) -> dict[str, int]:
        """Positions of entries by their message's id, the newest if an id stands twice."""
        with self._lock:
            found = {self._entry(thread, at).message.id: at for at in range(thread.head)}
            return {name: found[name] for name in ids if name in found}

    def turns(self, key: bytes, limit: int = 200, before: int | None = None) -> list[TurnRow]:
        """Turns, newest first."""
        with self._lock:
            kept = self._living(key)
            rows = [] if kept is None else sorted(kept.turns.values(), key=lambda turn: turn.first)
            rows = [replace(turn, number=number) for number, turn in enumerate(rows, 1)][::-1]
            return [turn for turn in rows if before is None or turn.first < before][:limit]

    def calls(self, key: bytes | None, owner: str | None = None) -> list[tuple[str, str, Call]]:
        """The ledger of a thread, an owner or all: owner, thread id, call."""
        with self._lock:
            chosen = [
                kept
                for name, kept in sorted(self._all().items())
                if (key is None or name == key) and (key is not None or owner is None or kept.row.owner == owner)
            ]
            return [(kept.row.owner, kept.row.thread_id, call) for kept in chosen for call in kept.calls]

    def spent(self, key: bytes | None, owner: str, since: float) -> Spent:
        """What a thread, or all threads of an owner have spent since a moment."""
        total = Spent()
        for _, _, call in self.calls(key, owner if key is None else None):
            total = total.plus(call) if call.created >= since else total
        return total

    def pins(self, key: bytes) -> list[int]:
        """Pinned positions."""
        with self._lock:
            kept = self._living(key)
            return [] if kept is None else sorted(kept.pins)

    def threads(
        self,
        *,
        owner: str | None = None,
        search: str | None = None,
        tag: str | None = None,
        limit: int = 50,
        cursor: tuple[float, bytes] | None = None,
    ) -> Found[ThreadRow]:
        """Threads, the last used first; `search` is looked for in titles and thread ids, folded."""
        wanted = set(query_words(search)) if search else set()
        with self._lock:
            rows = [
                kept.row
                for kept in self._all().values()
                if kept.row.status != "erased"
                and (owner is None or kept.row.owner == owner)
                and (tag is None or tag in kept.row.tags)
                and (cursor is None or (kept.row.updated, kept.row.key) < cursor)
                and wanted <= set(fold(f"{kept.row.title} {kept.row.thread_id}").split())
            ]
        return Found(sorted(rows, key=lambda row: (row.updated, row.key), reverse=True)[:limit])

    def holding(self, thread: ThreadRow, start: str, same: Callable[[str], bool], before: int, limit: int) -> list[int]:
        """Positions of visible messages below one that hold a word, or a kin of it."""
        with self._lock:
            found = [
                position
                for position in range(min(before, thread.head) - 1, -1, -1)
                if any(w.startswith(start) and same(w) for w in self._words(thread, position))
                and not self._entry(thread, position).hidden
            ]
            return found[:limit]

    def _words(self, thread: ThreadRow, position: int) -> set[str]:
        return set(self._holder(thread, position).words.get(position, "").split())

    def search(self, words: Sequence[str], key: bytes | None, owner: str | None, limit: int) -> Found[Hit]:
        """Messages that hold all the folded words, those first that say little else."""
        hits = []
        with self._lock:
            for name, kept in self._all().items() if words else ():
                if (key is not None and name != key) or (owner is not None and kept.row.owner != owner):
                    continue
                for position, text in kept.words.items():
                    held_words = text.split()
                    if set(words) <= set(held_words):
                        score = sum(map(held_words.count, words)) / len(held_words)
                        entry = kept.entries[position]
                        found = spans(entry.text, words)
                        hits.append(Hit(entry, score, kept.row.thread_id, kept.row.owner, found))
        return Found(sorted(hits, key=lambda hit: -hit.score)[:limit])
