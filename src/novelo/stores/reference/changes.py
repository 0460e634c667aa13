"""What changes a thread outside of turns: facts, pins, hiding, deletion, forks, erasure."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, ThreadErased, UnknownEntry
from novelo.masking import Mask
from novelo.messages import Message, decode, encode
from novelo.stores.base import Changed, NewEntry, Note, Receipt, StoredEntry, ThreadRow
from novelo.stores.privacy import NOBODY, Gone
from novelo.stores.reference.kept import Kept
from novelo.stores.reference.masking import mask_kept
from novelo.stores.reference.removing import KeptRemoving
from novelo.stores.rules import checked_facts, checked_positions, clamped, merged, without, without_quotes

replace = msgspec.structs.replace


class KeptChanges(KeptRemoving):
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

    def rewrite(
        self,
        thread: ThreadRow,
        bodies: dict[int, NewEntry | None],
        now: float,
        *,
        note: Note = NOBODY,
        mask: Mask | None = None,
    ) -> Changed:
        """Replace entries' bodies, or remove them; an entry shared with a fork changes for both."""
        counts: Counter[str] = Counter()
        kind = "messages" if mask is None else "pattern"
        with self._lock:
            inside = {p: new for p, new in bodies.items() if 0 <= p < thread.head}
            holders = {p: self._holder(thread, p) for p in inside}
            sharing = [one for p, kept in holders.items() for one in (kept, *self._sharing(kept.row.key, p))]
            family = {kept.row.key: kept for kept in (self._known(thread.key), *sharing)}
            self._free(*(kept.row for kept in family.values()))
            changed = self._set_bodies(holders, inside, counts)
            for key, position in changed.items():
                for one in [self._kept[key], *self._sharing(key, position)]:
                    self._note_change(one, position, counts)
            if mask is not None:
                for one in family.values():
                    mask_kept(one, mask, counts)
            number = 0
            if counts.total():
                kept = self._kept[thread.key]
                kept.row = replace(kept.row, updated=now)
                self._tell_changed(holders, family, kind, now)
                number = self._act(now, note, kind, thread.key, dict(counts))
        receipt = Receipt(dict(+counts), kind=kind, scope=thread.key.hex(), at=now, number=number)
        return Changed(counts["entries"], receipt)

    def _tell_changed(self, holders: dict[int, Kept], family: dict[bytes, Kept], kind: str, now: float) -> None:
        for key, kept in sorted(family.items()):
            places = tuple(sorted(p for p, holder in holders.items() if holder.row.key == key))
            if places or kind == "pattern":
                self._told(Gone(key, kind, now, kept.row.created, places))

    def _set_bodies(
        self, holders: dict[int, Kept], bodies: dict[int, NewEntry | None], counts: Counter[str]
    ) -> dict[bytes, int]:
        changed: dict[bytes, int] = {}
        for position, new in bodies.items():
            kept = holders[position]
            old = kept.entries[position]
            if old.deleted:
                continue
            counts["entries"] += 1
            message = Message(old.role) if new is None else decode(encode(new.message))  # type: ignore[arg-type]
            message = replace(message, role=old.role)
            kept.entries[position] = replace(old, message=message, deleted=new is None)
            counts["search"] += kept.words.pop(position, None) is not None
            if new is not None and new.words:
                kept.words[position] = new.words
            changed[kept.row.key] = min(position, changed.get(kept.row.key, position))
            for one in [kept, *self._sharing(kept.row.key, position)]:
                counts["vectors"] += len(one.vectors)
                self._drop_vectors(one, position, position + 1)
                counts["vectors"] -= len(one.vectors)
        return changed

    def _sharing(self, key: bytes, position: int) -> list[Kept]:
        """All forks, and forks of forks, that have the entry at a position from a thread."""
        out = []
        for child in self._kept.values():
            if child.row.parent == key and position < child.row.fork_at:
                out += [child, *self._sharing(child.row.key, position)]
        return out

    def _note_change(self, kept: Kept, position: int, counts: Counter[str]) -> None:
        """Raise the content version of a thread that has the entry, and take what its manifests quote out of them."""
        kept.row = replace(kept.row, content_version=kept.row.content_version + 1)
        counts["summaries"] += len(kept.summaries)
        self._changed_below(kept, position, drop=True)
        counts["summaries"] -= len(kept.summaries)
        for first, turn in kept.turns.items():
            if turn.manifest is not None and turn.last >= position:
                kept.turns[first] = replace(turn, manifest=without_quotes(turn.manifest))
                counts["manifests"] += kept.turns[first] != turn

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

    def _part(self, parent: Kept, *, keep: bool) -> list[ThreadRow]:
        """Forks part from a thread that goes: what it kept itself moves, or is gone; all that shared it."""
        row = parent.row
        start = row.fork_at if row.parent is not None else 0
        named = sorted(self._sharing(row.key, start), key=_age)
        self._free(*(one.row for one in ([] if keep else named)))
        for one in [] if keep else [parent, *named]:
            self._note_change(one, start, Counter())
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
        return [one.row for one in named]


def _emptied(entry: StoredEntry) -> StoredEntry:
    return replace(entry, message=Message(entry.role), deleted=True)  # type: ignore[arg-type]


def _age(kept: Kept) -> tuple[float, str, str]:
    return kept.row.created, kept.row.owner, kept.row.thread_id
