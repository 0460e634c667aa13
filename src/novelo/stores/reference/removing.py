"""Threads that go, in the reference store; holds, the audit, and what an owner's erased threads had spent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import msgspec

from novelo.errors import ThreadHeld, UnknownEntry
from novelo.stores.base import AuditRow, Cut, Found, Hold, Note, Receipt, Standing, ThreadRow
from novelo.stores.bodies import body_of
from novelo.stores.privacy import NOBODY, Gone, Hook, Traces
from novelo.stores.reference.background import KeptBackground, version_of
from novelo.stores.reference.kept import Kept
from novelo.stores.rules import by_hours, checked_reason, dollars, forks_first, owner_key, plain
from novelo.usage import Spent

replace = msgspec.structs.replace


@dataclass
class Privacy:
    """What is kept beside threads."""

    holds: dict[bytes, Hold] = field(default_factory=dict)
    audit: list[AuditRow] = field(default_factory=list)
    spent: dict[bytes, dict[int, tuple[int, int, int]]] = field(default_factory=dict)
    dropped: dict[bytes, int] = field(default_factory=dict)
    terms: dict[bytes, float | None] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)


class KeptAudited(KeptBackground):
    """Holds, the audit and kept spending."""

    on_erased: Hook | None = None

    def __init__(self) -> None:
        super().__init__()
        self._privacy = Privacy()

    def owner_key(self, owner: str) -> bytes:
        """What holds, sums and the audit name an owner by.

        Raises:
            InvalidSpec: no text that an owner can be named by.
        """
        self.key_of(owner, "-")
        return owner_key(self._secret, owner)

    def hold(self, scope: bytes, now: float, reason: str, note: Note = NOBODY, *, owner: str | None = None) -> None:
        """Forbid all removals from a thread, or from all threads of an owner."""
        reason = checked_reason(reason)
        with self._lock:
            if owner is None and self._living(scope) is None:
                raise UnknownEntry("there is no such thread")
            old = self._privacy.holds.get(scope)
            since = now if old is None else old.since
            self._privacy.holds[scope] = Hold(scope, since, reason, owner is not None)
            self._act(now, note, "hold" if owner is None else "hold owner", scope, {})

    def release(self, scope: bytes, now: float, note: Note = NOBODY, *, owner: str | None = None) -> bool:
        """Allow removals again; False: there was no hold."""
        with self._lock:
            found = self._privacy.holds.pop(scope, None)
            if found is not None:
                self._act(now, note, "release" if owner is None else "release owner", scope, {})
            return found is not None

    def holds(self, scopes: Sequence[bytes] | None = None) -> list[Hold]:
        """Holds of some scopes, or all, the oldest first."""
        with self._lock:
            found = [hold for hold in self._privacy.holds.values() if scopes is None or hold.scope in scopes]
            return sorted(found, key=lambda one: (one.since, one.scope))

    def _free(self, *threads: ThreadRow) -> None:
        for thread in threads:
            for scope in (thread.key, self.owner_key(thread.owner)):
                hold = self._privacy.holds.get(scope)
                if hold is not None:
                    raise ThreadHeld(
                        f"thread {thread.thread_id[:60]!r} must be kept: nothing was removed; release the hold first",
                        reason=hold.reason, since=hold.since,
                    )  # fmt: skip

    def _act(self, now: float, note: Note, action: str, scope: bytes, counts: dict[str, int]) -> int:
        number = len(self._privacy.audit) + 1
        told = {name: n for name, n in sorted(counts.items()) if n}
        self._privacy.audit.append(AuditRow(number, now, plain(note.who), action, scope, told, plain(note.why)))
        return number

    def audit(self, limit: int = 100, before: int | None = None, scope: bytes | None = None) -> list[AuditRow]:
        """Acts, the newest first."""
        with self._lock:
            rows = [row for row in self._privacy.audit if scope is None or row.scope == scope]
            return [row for row in reversed(rows) if before is None or row.number < before][:limit]

    def audit_check(self) -> tuple[int, list[int]]:
        """How many acts there are; nobody else can alter them."""
        return len(self._privacy.audit), []

    def spent(self, key: bytes | None, owner: str, since: float) -> Spent:
        """What a thread, or an owner, has spent since a moment; of an owner with what erased threads had spent."""
        total = super().spent(key, owner, since)
        with self._lock:
            kept = self._privacy.spent.get(self.owner_key(owner), {})
            for last, tokens, cost in kept.values() if key is None else ():
                total = total.add(Spent(tokens, dollars(cost))) if last >= int(since * 1000) else total
        return total

    def _keep_spent(self, kept: Kept, now: float) -> None:
        calls = [(int(call.created * 1000), call.input + call.output, call.cost) for call in kept.calls]
        for hour, (last, tokens, cost) in by_hours(calls, now).items():
            sums = self._privacy.spent.setdefault(self.owner_key(kept.row.owner), {})
            old = sums.get(hour, (0, 0, 0))
            sums[hour] = (max(last, old[0]), tokens + old[1], cost + old[2])

    def _told(self, gone: Gone) -> None:
        if self.on_erased is not None:
            self.on_erased(gone)


class KeptRemoving(KeptAudited):
    """Erasure and retention."""

    def _part(self, parent: Kept, *, keep: bool) -> list[ThreadRow]:
        raise NotImplementedError  # in changes.py

    def scrub(self) -> bool:
        """Nothing that was removed is anywhere."""
        return True

    def vacuum(self, full: bool = False) -> bool:
        """There are no gaps."""
        return True

    def traces(self, clean: bool, vacuumed: str) -> Traces:
        """Nothing is left, and there are no files."""
        return Traces((), (), ())

    def key_destroyed(self, key: bytes) -> bool:
        """Nothing is encrypted."""
        return False

    def erase(self, key: bytes, now: float, *, forks: str = "erase", note: Note = NOBODY) -> Receipt:
        """Remove a thread for good; a late writer cannot revive it."""
        with self._lock:
            kept = self._living(key)
            if kept is None:
                return Receipt({})
            self._free(kept.row)
            return self._gone(kept, now, forks == "keep", note)

    def _gone(self, kept: Kept, now: float, keep: bool, note: Note, going: Collection[bytes] = ()) -> Receipt:
        key, version = kept.row.key, kept.row.content_version + 1
        named = tuple(fork.thread_id for fork in self._part(kept, keep=keep) if fork.key not in going)
        self._keep_spent(kept, now)
        row = ThreadRow(
            key, "", "", epoch=kept.row.epoch + 1, status="erased", created=kept.row.created, updated=now,
            content_version=version,
        )  # fmt: skip
        self._kept[key] = Kept(row)
        known = self._privacy.dropped.pop(key, None) is not None
        known = self._privacy.terms.pop(key, None) is not None or known
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
            "retention": int(known),
        }
        self._told(Gone(key, "thread", now, kept.row.created))
        return Receipt(rows, named, scope=key.hex(), at=now, number=self._act(now, note, "erase", key, rows))

    def forget_owner(self, owner: str, now: float, counts: dict[str, int], note: Note = NOBODY) -> Receipt:
        """Remove an owner's kept spending, and note that all is gone."""
        scope = self.owner_key(owner)
        with self._lock:
            rows = {"spent": len(self._privacy.spent.pop(scope, ()))}
            number = 0
            if any(counts.values()) or any(rows.values()):
                number = self._act(now, note, "owner", scope, counts | rows)
            return Receipt(rows, kind="owner", scope=scope.hex(), at=now, number=number)

    # ------------------------------------------------------------------------------------------ retention
    def standing(self, cut: Cut, after: bytes, limit: int) -> Found[Standing]:
        """Threads that rules may take, by key from behind one on."""
        out: Found[Standing] = Found()
        with self._lock:
            for key, kept in sorted(self._all().items()):
                row, expires = kept.row, self._privacy.terms.get(key)
                if key <= after or row.status == "erased":
                    continue
                taken = row.updated <= cut.idle or row.created <= cut.age or (cut.closed and row.status == "closed")
                if taken or (expires is not None and expires <= cut.now):
                    out.append(Standing(row, self._privacy.dropped.get(key, 0), expires))
        out[limit:] = []
        return out

    def weights(self, pieces: Sequence[tuple[bytes, int, int]]) -> dict[bytes, tuple[int, int]]:
        """Messages that have content, and the bytes of them, by thread; of own entries in a range of positions each."""
        out = {}
        with self._lock:
            for key, start, stop in pieces:
                kept = self._living(key)
                own = {} if kept is None else kept.entries
                found = [e.message for p, e in own.items() if start <= p < stop and not e.deleted]
                if found:
                    size = sum(len(body_of(message)) for message in found)
                    out[key] = (len(found), size)
        return out

    def erase_due(self, due: Sequence[tuple[ThreadRow, Note]], now: float) -> list[tuple[ThreadRow, Receipt]]:
        """Remove threads that nobody has used since they were read; forks keep what they share."""
        with self._lock:
            read = [(self._unused(row), note) for row, note in sorted(due, key=lambda one: one[0].key)]
            going = {kept.row.key: (kept, note) for kept, note in read if kept is not None}
            rows = forks_first([kept.row for kept, _ in going.values()])
            return [(row, self._gone(going[row.key][0], now, True, going[row.key][1], going)) for row in rows]

    def _unused(self, read: ThreadRow) -> Kept | None:
        kept = self._living(read.key)
        if kept is None or (kept.row.epoch, kept.row.updated, kept.row.status) != (
            read.epoch,
            read.updated,
            read.status,
        ):
            return None
        try:
            self._free(kept.row)
        except ThreadHeld:
            return None
        return kept

    def drop_texts(self, row: ThreadRow, now: float, note: Note = NOBODY) -> Receipt | None:
        """Remove the texts that the summary in use covers, and keep it."""
        with self._lock:
            kept = self._unused(row)
            made = None if kept is None else version_of(kept, kept.row.summary)
            if kept is None or made is None or not made.text:
                return None
            shared = max((c.row.fork_at for c in self._all().values() if c.row.parent == row.key), default=0)
            start = max(kept.row.opening, kept.row.fork_at, shared)
            counts = {"entries": 0, "search": 0, "vectors": len(kept.vectors)}
            for position in range(start, made.upto):
                entry = kept.entries.get(position)
                if entry is None or entry.deleted or position in made.held:
                    continue
                empty = type(entry.message)(entry.message.role)
                kept.entries[position] = replace(entry, message=empty, deleted=True)
                counts["entries"] += 1
                counts["search"] += kept.words.pop(position, None) is not None
                self._drop_vectors(kept, position, position + 1)
            counts["vectors"] -= len(kept.vectors)
            counts["summaries"] = len(kept.summaries) - 1
            kept.summaries = [made]
            if counts["entries"]:
                kept.row = replace(kept.row, content_version=kept.row.content_version + 1)
            self._privacy.dropped[row.key] = made.version
            number = self._act(now, note, "text", row.key, counts) if any(counts.values()) else 0
            rows = {name: n for name, n in counts.items() if n}
            return Receipt(rows, kind="text", scope=row.key.hex(), at=now, number=number)

    def set_term(self, key: bytes, expires: float | None) -> None:
        """When retention takes the thread, whatever the rules say."""
        with self._lock:
            if self._living(key) is not None:
                self._privacy.terms[key] = expires

    def once_in(self, name: str, now: float, pause_s: float) -> bool:
        """Whether this is the first to ask in such a time."""
        with self._lock:
            last = self._privacy.done.get(name, -1e18)
            if last <= int(now - pause_s) or last > int(now + pause_s):
                self._privacy.done[name] = int(now)
                return True
            return False
