"""The removing half of a memory: retention, erasure of an owner, holds, and the audit of it all."""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec

from novelo.accounts import Accounts
from novelo.errors import InvalidSpec, StorageCorrupt, StoreError, ThreadHeld
from novelo.indexes import Indexes
from novelo.purging import SWEEP_S, Progress, Sweeper, purge
from novelo.receipts import Purged, Receipts
from novelo.retention import Retention, retention_of
from novelo.stores.base import AuditRow, Hold, Note, Receipt, ThreadRow

if TYPE_CHECKING:
    from novelo.memory import Memory

VACUUM = (False, True, "full")
PAGE = 500
log = logging.getLogger("novelo")
Forget = Callable[[bytes], None]


class Privacy(Accounts):
    """What a memory removes, and how it tells of it."""

    retention: tuple[Retention, ...] = ()
    backup_days: float | None = None
    actor: str = ""
    indexes: Indexes
    sweeper: Sweeper | None = None
    _caches: list[weakref.WeakMethod[Forget]]

    def keep_by(self, retention: Any, backup_days: float | None, actor: str) -> None:
        """Take over what `novelo.open` was told."""
        if backup_days is not None and (not isinstance(backup_days, (int, float)) or not 0 <= backup_days < 100_000):
            raise InvalidSpec(f"backup_days={backup_days!r}: expected how many days backups are kept")
        if not isinstance(actor, str):
            raise InvalidSpec(f"actor: expected a text such as 'privacy-bot', not {type(actor).__name__}")
        self.retention, self.backup_days, self.actor = retention_of(retention), backup_days, actor
        self._caches = []

    # ------------------------------------------------------------------------------------------ retention
    def purge(
        self,
        dry_run: bool = False,
        *,
        retention: Any = None,
        vacuum: bool | str = False,
        batch: int = 50,
        progress: Progress | None = None,
    ) -> Purged:
        """Take the threads that are due by the rules of retention, in small transactions.

        A thread that is held, or whose turn is open, is never taken; forks keep what they share with one that goes.

        Args:
            dry_run: only count what would go.
            retention: other rules than those that the memory was opened with: `Retention`s, or texts ("idle:90d").
            vacuum: as in `Thread.erase`.
            batch: threads of one transaction, at most.
            progress: called now and then with what was taken so far.
        Raises:
            InvalidSpec: there is no rule.
        """
        rules = self.retention if retention is None else retention_of(retention)
        if retention is not None and not rules:
            raise InvalidSpec("purge: no rule of retention: give one, such as retention='idle:90d'")
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise InvalidSpec(f"batch={batch!r}: expected at least one thread")
        checked_vacuum(vacuum)
        started = time.monotonic()
        memory = cast("Memory", self)
        found = purge(memory, rules, time.time(), dry_run=dry_run, batch=batch, progress=progress)
        if found.threads and not dry_run:
            receipt = self.finished(Receipt({}, number=1), vacuum)
            found.pending, found.waits, found.beyond = receipt.pending, receipt.waits, receipt.beyond
        found.seconds = time.monotonic() - started
        return found

    def sweep(self, pause_s: float = SWEEP_S, progress: Progress | None = None) -> Purged | None:
        """`purge`, unless some process did so within a time; None: one did."""
        if not self.store.once_in("sweep", time.time(), pause_s):
            return None
        found = self.purge(progress=progress)
        if found.threads or found.damaged:
            log.info("retention took %d threads (%d could not be read)", found.threads, len(found.damaged))
        return found

    # ------------------------------------------------------------------------------------------ erasure
    def erase_owner(self, owner: str, *, reason: str = "", vacuum: bool | str = False) -> Receipts:
        """Erase all of an owner: threads, with all that was made of them, collections of documents, kept spending.

        Args:
            reason: for the audit, such as the number of a request; it must name nobody.
            vacuum: as in `Thread.erase`.
        Returns:
            A receipt for each thread and collection, and one for the rest; threads with a hold of their own stay, and
            are named in `held`.
        Raises:
            ThreadHeld: the owner is held; nothing was removed.
            StorageCorrupt: some cannot be read any more, and stay; all others are erased.
        """
        note, now = self.note(reason, vacuum), time.time()
        hold = next(iter(self.store.holds([self.store.owner_key(owner)])), None)
        if hold is not None:
            raise ThreadHeld(
                "this owner must be kept (a hold): nothing was removed; release the hold first",
                reason=hold.reason, since=hold.since,
            )  # fmt: skip
        out, damaged = Receipts(), list[str]()
        held: dict[bytes, str] = {}
        for row in self.store.documents.collections(owner):
            counts = self.store.documents.erase(row.key, now, note)
            out.append(Receipt(counts, kind="collection", scope=row.key.hex(), at=now))
            self.indexes.forget(row.key)
        while self._erase_some(owner, note, out, held, damaged):
            damaged.clear()
        counts = {name: n for name, n in out.rows.items() if n} | {"threads": out.threads}
        last = self.store.forget_owner(owner, now, counts if out else {}, note)
        last = msgspec.structs.replace(last, held=tuple(held.values()))
        out = Receipts(self.finished_all([*out, last] if last.number or held else out, vacuum))
        if damaged:
            raise StorageCorrupt(f"{out.threads} threads erased, {len(damaged)} not: {damaged[0]}", receipts=out)
        return out

    def _erase_some(self, owner: str, note: Note, out: Receipts, held: dict[bytes, str], damaged: list[str]) -> int:
        """Erase the threads of an owner that are there now; how many went."""
        gone, cursor = 0, None
        while rows := self.store.threads(owner=owner, search=None, tag=None, limit=PAGE, cursor=cursor):
            damaged += rows.damaged
            cursor = (rows[-1].updated, rows[-1].key)
            for row in rows:
                gone += self._erase_one(row, note, out, held)
        damaged += [text for text in rows.damaged if text not in damaged]
        return gone

    def _erase_one(self, row: ThreadRow, note: Note, out: Receipts, held: dict[bytes, str]) -> bool:
        try:
            receipt = self.store.erase(row.key, time.time(), note=note)
        except ThreadHeld:
            held[row.key] = row.thread_id
            return False
        self.forget(row.key)
        if receipt.number:
            out.append(receipt)
        return bool(receipt.number)

    def note(self, why: str = "", vacuum: bool | str = False) -> Note:
        """Who acts here, and why, for the audit; made before anything goes, so that a wrong option removes nothing.

        Raises:
            InvalidSpec: the reason is no text, or `vacuum` is none of its values.
        """
        if not isinstance(why, str):
            raise InvalidSpec(f"reason: expected a text, not {type(why).__name__}")
        checked_vacuum(vacuum)
        return Note(self.actor, why)

    def forget(self, key: bytes) -> None:
        """Content of a thread is gone: what this process remembers of it goes too."""
        for one in list(self._caches):
            forget = one()
            if forget is None:
                self._caches.remove(one)
            else:
                forget(key)

    def on_removed(self, forget: Forget) -> None:
        """A method that lets go of what somebody remembers of a thread; held weakly, called after each removal."""
        self._caches.append(weakref.WeakMethod(forget))

    def finished(self, receipt: Receipt, vacuum: bool | str = False, *, scrubbed: bool = False) -> Receipt:
        """A receipt with all that is still to be said: what waits, and what cannot be reached from here."""
        return self.finished_all([receipt], vacuum, scrubbed=scrubbed)[0]

    def finished_all(
        self, receipts: Sequence[Receipt], vacuum: bool | str = False, *, scrubbed: bool = False
    ) -> list[Receipt]:
        """The same of several.

        Args:
            scrubbed: the store has scrubbed already, with the outcome that stands in them.
        """
        gone = any(one.number or any(one.rows.values()) for one in receipts)
        if not gone and not any(one.pending for one in receipts) and not vacuum:
            return list(receipts)
        clean = not any(one.pending for one in receipts) if scrubbed else self.store.scrub()
        refused: tuple[str, ...] = ()
        if vacuum:
            try:
                clean = self.store.vacuum(vacuum == "full")
            except StoreError as error:  # what was removed is removed all the same
                vacuum, refused = False, (f"a vacuum that did not pass ({error})",)
        traces = self.store.traces(clean, "full" if vacuum == "full" else "plain" if vacuum else "")
        waits = (*traces.waits, *refused)
        beyond = (*traces.gaps, *(f"{text} ({self._until()})" for text in traces.copies))
        out = [msgspec.structs.replace(one, pending=bool(waits), waits=waits, beyond=beyond) for one in receipts]
        return [self._shredded(one) for one in out]

    def _shredded(self, receipt: Receipt) -> Receipt:
        """A receipt that says so, if the key of what it is about was destroyed."""
        if not self.store.key_destroyed(bytes.fromhex(receipt.scope)):
            return receipt
        return msgspec.structs.replace(
            receipt, shredded=True, beyond=tuple(f"{text}; unreadable, its key is destroyed" for text in receipt.beyond)
        )

    def _until(self) -> str:
        if self.backup_days is None:
            return "how long they are kept is not known here: backup_days"
        last = datetime.now(UTC) + timedelta(days=self.backup_days)
        return f"kept {self.backup_days:g} days, until {last:%Y-%m-%d}"

    # ------------------------------------------------------------------------------------------ holds, the audit
    def hold_owner(self, owner: str, reason: str | None = None) -> None:
        """A legal hold on all of an owner: no retention and no erasure takes anything until it is released.

        Args:
            reason: such as the number of a case; at most 200 characters, and it must name nobody.
        """
        scope = self.store.owner_key(owner)
        self.store.hold(scope, time.time(), reason or "", self.note(), owner=owner)

    def release_owner(self, owner: str) -> bool:
        """Release it; False: there was none. Holds of single threads stay."""
        return self.store.release(self.store.owner_key(owner), time.time(), self.note(), owner=owner)

    def holds(self) -> list[Hold]:
        """All holds, of threads and of owners, the oldest first."""
        return self.store.holds()

    def audit(self, limit: int = 100, before: int | None = None, scope: bytes | None = None) -> list[AuditRow]:
        """What was removed, held and released, the newest first; no row names a person or holds a text.

        Args:
            limit: how many at most; 0 is none.
            before: only acts below this number: the last one of the page before.
            scope: only of this key: `thread.key`, or `memory.store.owner_key(owner)`.
        Raises:
            InvalidSpec: the limit is no such number.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit < 1 << 31:
            raise InvalidSpec(f"limit={limit!r}: expected a number of acts")
        return self.store.audit(limit, before, scope)

    def audit_check(self) -> tuple[int, list[int]]:
        """How many acts there are, and the numbers of those that were altered, or taken out, since."""
        return self.store.audit_check()


def checked_vacuum(vacuum: bool | str) -> None:
    """Whether something says how to vacuum; asked before anything is removed.

    Raises:
        InvalidSpec: it does not.
    """
    if vacuum not in VACUUM:
        raise InvalidSpec(f"vacuum={vacuum!r}: expected False, True or 'full'")
