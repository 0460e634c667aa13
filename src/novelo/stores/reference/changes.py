"""What changes a thread outside of turns: facts, pins, hiding, deletion, forks, erasure."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, ThreadErased, UnknownEntry
from novelo.messages import Message, decode, encode
from novelo.stores.base import NewEntry, Receipt, StoredEntry, ThreadRow
from novelo.stores.reference.background import KeptBackground
from novelo.stores.reference.kept import Kept
from novelo.stores.rules import checked_facts, checked_positions, clamped, merged, without, without_quotes

replace = msgspec.structs.replace


class KeptChanges(KeptBackground):
    """The changing half of the reference store."""

    def _ensure(self, key: bytes, names: tuple[str, str], now: float) -> Kept:
        kept = self._all().get(key)
        if kept is None:
            kept = self._kept[key] = Kept(ThreadRow(key, *names, created=now, updated=now))
        elif kept.row.status == "erased":
            kept.row = replace(kept.row, owner=names[0], thread_id=names[1], status="active", created=now, updated=now)
        return kept

    def set_facts(self, key: bytes, names: tuple[str, str], now: float, **facts: Any) -> None:
        """Set title, tags, metadata, state or status; `patch` sets single keys of the state, `without` removes one."""
        facts = checked_facts(facts)
        with self._lock:
            kept = self._ensure(key, names, now)
            gone, patch = facts.pop("without", None), facts.pop("patch", {})
            state = facts.pop("state", kept.state)
            kept.state = {k: v for k, v in state.items() if k != gone} | patch
            kept.row = replace(kept.row, updated=now, **facts)

    def pin(self, key: bytes, positions: Sequence[int], on: bool) -> None:
        """Pin or unpin positions."""
        with self._lock:
            kept = self._known(key)
            positions = checked_positions(positions, kept.row.head)
            kept.pins = kept.pins | set(positions) if on else kept.pins - set(positions)
            kept.row = replace(kept.row, pinned=bool(kept.pins))

    def _known(self, key: bytes) -> Kept:
        kept = self._living(key)
        if kept is None:
            raise UnknownEntry("there is no such thread")
        return kept

    def hide(self, key: bytes, ranges: Sequence[tuple[int, int]], on: bool, now: float) -> None:
        """Take half-open ranges out of contexts, or back in."""
        with self._lock:
            kept = self._known(key)
            ranges = clamped(ranges, kept.row.head)
            kept.hidden = kept.hidden if on else without(kept.hidden, ranges)
            for start, stop in [] if on else ranges:
                self._drop_vectors(kept, start, stop)
            self._hide(kept, ranges if on else [], now)
            if ranges:
                self._changed_below(kept, min(start for start, _ in ranges), drop=False)

    def _hide(self, kept: Kept, ranges: Sequence[tuple[int, int]], now: float) -> None:
        kept.hidden = merged([*kept.hidden, *clamped(ranges, kept.row.head)])
        for start, stop in clamped(ranges, kept.row.head):
            self._drop_vectors(kept, start, stop)
        kept.row = replace(kept.row, hidden=bool(kept.hidden), updated=now)
        if ranges:
            self._changed_below(kept, min(start for start, _ in ranges), drop=False)

    def rewrite(self, thread: ThreadRow, bodies: dict[int, NewEntry | None], now: float) -> int:
        """Replace entries' bodies, or remove them; an entry shared with a fork changes for both."""
        done = 0
        changed: dict[bytes, int] = {}
        with self._lock:
            for position, new in bodies.items():
                if not 0 <= position < thread.head:
                    continue
                kept = self._holder(thread, position)
                old = kept.entries[position]
                if old.deleted:
                    continue
                done += 1
                message = Message(old.role) if new is None else decode(encode(new.message))  # type: ignore[arg-type]
                message = replace(message, role=old.role)
                kept.entries[position] = replace(old, message=message, deleted=new is None)
                kept.words.pop(position, None)
                if new is not None and new.words:
                    kept.words[position] = new.words
                changed[kept.row.key] = min(position, changed.get(kept.row.key, position))
                for one in [kept, *self._sharing(kept.row.key, position)]:
                    self._drop_vectors(one, position, position + 1)
            for key, position in changed.items():
                for one in [self._kept[key], *self._sharing(key, position)]:
                    self._note_change(one, position)
            if done:
                kept = self._kept[thread.key]
                kept.row = replace(kept.row, updated=now)
        return done

    def _sharing(self, key: bytes, position: int) -> list[Kept]:
        """All forks, and forks of forks, that have the entry at a position from a thread."""
        out = []
        for child in self._kept.values():
            if child.row.parent == key and position < child.row.fork_at:
                out += [child, *self._sharing(child.row.key, position)]
        return out

    def _note_change(self, kept: Kept, position: int) -> None:
        """Raise the content version of a thread that has the entry, and take what its manifests quote out of them."""
        kept.row = replace(kept.row, content_version=kept.row.content_version + 1)
        self._changed_below(kept, position, drop=True)
        for first, turn in kept.turns.items():
            if turn.manifest is not None and turn.last >= position:
                kept.turns[first] = replace(turn, manifest=without_quotes(turn.manifest))

    # ------------------------------------------------------------------------------------------ forks and erasure
    def fork(self, parent: ThreadRow, key: bytes, names: tuple[str, str], at: int, now: float) -> ThreadRow:
        """A new thread that shares the entries below a position."""
        with self._lock:
            source, old = self._living(parent.key), self._all().get(key)
            if old is not None and old.row.status != "erased":
                raise InvalidSpec("a thread of that id exists already: choose another id for the fork")
            if source is None:
                raise ThreadErased("the thread was erased")
            if not 0 <= at <= source.row.head:
                raise UnknownEntry(f"cannot fork at {at}: the thread has {source.row.head} messages")
            last = self._entry(source.row, at - 1) if at else StoredEntry(-1, Message("system"))
            row = source.row
            made = self._kept[key] = Kept(
                ThreadRow(
                    key, *names, at, last.turn, min(row.opening, at), last.running,
                    epoch=0 if old is None else old.row.epoch + 1,
                    title=row.title, tags=row.tags, metadata=row.metadata,
                    content_version=0 if old is None else old.row.content_version,
                    parent=parent.key, fork_at=at, created=now, updated=now,
                ),
                copy.deepcopy(source.state),
                pins={p for p in source.pins if p < at},
            )  # fmt: skip
            self._hide(made, [(a, min(b, at)) for a, b in source.hidden if a < at], now)
            made.row = replace(made.row, pinned=bool(made.pins))
            self._share_summary(source, made, at)
            return made.row

    def erase(self, key: bytes, now: float, *, forks: str = "erase") -> Receipt:
        """Remove a thread for good; a late writer cannot revive it."""
        with self._lock:
            kept = self._living(key)
            if kept is None:
                return Receipt({})
            named = self._part(kept, keep=forks == "keep")
            row = ThreadRow(
                key, "", "", epoch=kept.row.epoch + 1, status="erased", created=kept.row.created, updated=now,
                content_version=kept.row.content_version + 1,
            )  # fmt: skip
            self._kept[key] = Kept(row)
            rows = {
                "search": len(kept.words),
                "entries": len(kept.entries),
                "turns": len(kept.turns),
                "calls": len(kept.calls),
                "pins": len(kept.pins),
                "hidden": len(kept.hidden),
                "summaries": kept.newest_summary,
                "work": len(kept.work),
                "checkpoints": 0,  # of graphs: this store keeps none
                "checkpoint_writes": 0,
                "checkpoint_values": 0,
                "vectors": len(kept.vectors),
            }
            return Receipt(rows, named)

    def _part(self, parent: Kept, *, keep: bool) -> tuple[str, ...]:
        """Forks part from a thread that goes: what it kept itself moves, or is gone; the ids of all that shared it."""
        row = parent.row
        start = row.fork_at if row.parent is not None else 0
        named = sorted(self._sharing(row.key, start), key=_age)
        for one in [] if keep else [parent, *named]:
            self._note_change(one, start)
        for one in [] if keep else named:
            self._drop_vectors(one, 0, row.head)
        children = sorted((k for k in self._kept.values() if k.row.parent == row.key), key=_age)
        heir = max(children, key=lambda child: child.row.fork_at, default=None)
        for child in children:
            at = child.row.fork_at
            if heir is None or at <= start:
                child.row = replace(child.row, parent=row.parent)
            elif child is not heir:
                child.row = replace(child.row, parent=heir.row.key)
            else:
                for position in range(start, at):
                    entry = parent.entries[position]
                    child.entries[position] = entry if keep else _emptied(entry)
                    if keep and position in parent.words:
                        child.words[position] = parent.words[position]
                if keep:
                    moved = {name: v for name, v in parent.vectors.items() if start <= name[1] < at}
                    child.vectors |= moved
                    parent.vectors = {name: v for name, v in parent.vectors.items() if name not in moved}
                child.row = replace(child.row, parent=row.parent, fork_at=start)
        return tuple(one.row.thread_id for one in named)


def _emptied(entry: StoredEntry) -> StoredEntry:
    return replace(entry, message=Message(entry.role), deleted=True)  # type: ignore[arg-type]


def _age(kept: Kept) -> tuple[float, str, str]:
    return kept.row.created, kept.row.owner, kept.row.thread_id
