"""What stands around every removal: holds that forbid it, the audit that tells of it, and an owner's kept spending."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, StorageCorrupt, ThreadHeld, UnknownEntry
from novelo.pattern import Piece
from novelo.stores.base import AuditRow, Hold, Note, ThreadRow
from novelo.stores.privacy import NOBODY, Gone, Hook
from novelo.stores.rules import audit_key, by_hours, chained, checked_reason, dollars, owner_key, plain, storable
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.recall import Recalled
from novelo.stores.tables.rows import verify
from novelo.usage import Spent

PAGE = 1000


def act(
    db: Connection, secret: bytes, now: float, note: Note, action: str, scope: bytes, counts: Mapping[str, int]
) -> int:
    """One more row of the audit, the last thing of a transaction: all who write one wait for each other.

    Raises:
        InvalidSpec: the database got a vault since it was opened without one, which must know of what is removed.
    """
    unguarded(db, "vault")
    number = int(next(iter(db.run("next_act")))[0])
    last = next(iter(db.run("last_chain", (number - 1,))), (b"",))[0]
    told = msgspec.json.encode({name: n for name, n in sorted(counts.items()) if n}).decode()
    row = (number, float(now), plain(note.who), action, scope, told, plain(note.why))
    db.run("act", (*row, chained(audit_key(secret), last, row)))
    return number


def guarded(db: Connection) -> bool:
    """Whether a connection is one of a database that was opened with its vault."""
    return bool(getattr(db, "guarded", False))


def unguarded(db: Connection, fact: str, rows: Iterable[Any] | None = None) -> None:
    """See that what goes past a vault may do so: a database that has one is opened with it ever after.

    A process that had opened the database before it got one is told here.

    Args:
        fact: "vault" where something is removed, "encrypted" where something new is stored in clear.
        rows: of the statement `vault_facts`, if it was run already.
    Raises:
        InvalidSpec: it has one.
    """
    if guarded(db):
        return
    if any(name == fact for name, _ in (db.run("vault_facts") if rows is None else rows)):
        raise InvalidSpec(f"the database is {GOT[fact]} since this program opened it: nothing was done; open it anew")


def masked_in(db: Connection, keys: Iterable[bytes], found: Collection[Piece]) -> None:
    """What a pattern took out of threads, for a ledger that must find it again; told before the act of it."""
    if found and guarded(db):
        db.masked(keys, found)  # type: ignore[attr-defined]


GOT = {"vault": "kept with a vault", "encrypted": "encrypted"}


class Audited(Recalled):
    """Holds, the audit and kept spending, in a store over tables."""

    on_erased: Hook | None = None

    def owner_key(self, owner: str) -> bytes:
        """What holds, sums and the audit name an owner by.

        Raises:
            InvalidSpec: no text that an owner can be named by.
        """
        self.key_of(owner, "-")
        return owner_key(self._secret, owner)

    # ------------------------------------------------------------------------------------------ holds
    def hold(self, scope: bytes, now: float, reason: str, note: Note = NOBODY, *, owner: str | None = None) -> None:
        """Forbid all removals from a thread, or from all threads of an owner."""
        reason = checked_reason(reason)
        with self.database.writing() as db:
            if owner is None:
                found = thread_row(db, scope)
                if found is None or found[0].status == "erased":
                    raise UnknownEntry("there is no such thread")
            db.run("hold", (scope, float(now), reason, int(owner is not None)))
            act(db, self._secret, now, note, "hold" if owner is None else "hold owner", scope, {})
        if owner is not None:
            self._wait_for(owner)

    def _wait_for(self, owner: str) -> None:
        """What was being removed when the hold was stored is over now: each of its threads was ours for a moment."""
        after = b""
        while True:
            with self.database.writing() as db:
                keys = [row[0] for row in db.run("keys_of_owner", (owner, after, PAGE))]
                for key in keys:
                    db.lock(key)
            if len(keys) < PAGE:
                return
            after = keys[-1]

    def release(self, scope: bytes, now: float, note: Note = NOBODY, *, owner: str | None = None) -> bool:
        """Allow removals again; False: there was no hold."""
        with self.database.writing() as db:
            db.run("release", (scope,))
            found = bool(db.changes())
            if found:
                act(db, self._secret, now, note, "release" if owner is None else "release owner", scope, {})
            return found

    def holds(self, scopes: Sequence[bytes] | None = None) -> list[Hold]:
        """Holds of some scopes, or all, the oldest first."""
        with self.database.reading() as db:
            if scopes is None:
                return [_hold(row) for row in db.run("all_held")]
            found = [_hold(row) for scope in scopes for row in db.run("held", (scope,))]
        return sorted(found, key=lambda one: (one.since, one.scope))

    def _free(self, db: Connection, threads: Iterable[ThreadRow]) -> None:
        """See that nothing forbids to remove from threads.

        Raises:
            ThreadHeld: a hold does.
        """
        if getattr(self.database, "replaying", False):  # what is erased again was free to go when it went
            return
        for thread in threads:
            for scope in (thread.key, self.owner_key(thread.owner)):
                row = next(iter(db.run("held", (scope,))), None)
                if row is not None:
                    raise held_error(_hold(row), thread)

    # ------------------------------------------------------------------------------------------ the audit
    def audit(self, limit: int = 100, before: int | None = None, scope: bytes | None = None) -> list[AuditRow]:
        """Acts, the newest first."""
        with self.database.reading() as db:
            return [_audit(row) for row in db.run("audit", (1 << 60 if before is None else before, scope, limit))]

    def audit_check(self) -> tuple[int, list[int]]:
        """How many acts there are, and the numbers of those where the chain is broken."""
        key, last, at = audit_key(self._secret), b"", 0
        broken: list[int] = []
        with self.snapshot(), self.database.reading() as db:
            known = int(next(iter(db.run("acts")), (0,))[0])
            while rows := list(db.run("audit_from", (at + 1, PAGE))):
                for row in rows:
                    broken += range(at + 1, row[0])
                    if row[7] != chained(key, last, row[:7]):
                        broken.append(row[0])
                    at, last = row[0], row[7]
            broken += range(at + 1, known + 1)
        return known, broken

    # ------------------------------------------------------------------------------------------ spending
    def _keep_spent(self, db: Connection, key: bytes, owner: str, now: float) -> None:
        """What a thread that goes has spent stays in its owner's limits."""
        sums = by_hours(db.run("spending", (key,)), now)
        for hour, (last, tokens, cost) in sorted(sums.items()):
            db.run("keep_spent", (self.owner_key(owner), hour, last, tokens, cost))

    def spent(self, key: bytes | None, owner: str, since: float) -> Spent:
        """What a thread, or an owner, has spent since a moment; of an owner with what erased threads had spent."""
        total = super().spent(key, owner, since)
        if key is None and storable(owner):
            with self.database.reading() as db:
                row = next(iter(db.run("kept_spent", (self.owner_key(owner), int(since * 1000)))))
            total = total.add(Spent(int(row[0]), dollars(int(row[1]))))
        return total

    def _told(self, gone: Gone) -> None:
        """Tell the ledger outside of the database, before the removal is stored: it may be told twice, never not."""
        if self.on_erased is not None:
            self.on_erased(gone)


def held_error(hold: Hold, thread: ThreadRow) -> ThreadHeld:
    """The error for a removal that a hold forbids."""
    whose = "its owner's hold" if hold.owner else "a hold"
    return ThreadHeld(
        f"thread {thread.thread_id[:60]!r} must be kept ({whose}): nothing was removed; release the hold first",
        reason=hold.reason, since=hold.since,
    )  # fmt: skip


def _hold(row: tuple[Any, ...]) -> Hold:
    scope, since, reason, owner, found = row
    verify(found, "hold", scope, since, reason, owner)
    return Hold(scope, since, reason, bool(owner))


def _audit(row: tuple[Any, ...]) -> AuditRow:
    try:
        counts = msgspec.json.decode(row[5], type=dict[str, int])
    except msgspec.MsgspecError as error:
        raise StorageCorrupt(f"act {row[0]} of the audit was altered outside of novelo") from error
    return AuditRow(row[0], row[1], row[2], row[3], bytes(row[4]), counts, row[6])
