"""Opening a database with its vault: they are matched, the ledger is replayed, and only then the database serves.

A database that has a vault knows it (`meta`), and so does every backup of it: without the vault nothing is opened. The
vault knows the database, so that the vault of another one is refused, and how far the database had got in the ledger,
so that an older copy of the vault is refused too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from novelo.errors import InvalidSpec, KeyRefused, StorageCorrupt, StorageReadOnly, StorageUnavailable
from novelo.stores.vaults.base import COLLECTION, ENTRY, KEPT, THREAD, Erased, Vault
from novelo.stores.vaults.guard import CREATED, GuardedDatabase

STATUS = 12  # where a thread's row says whether it was erased
MADE = 11  # where a collection's says when it was made
log = logging.getLogger("novelo")


class Facts:
    """What a database knows of its vault."""

    def __init__(self, database: Any) -> None:
        """As the database says."""
        with database.reading() as db:
            found = {name: bytes(value) for name, value in db.run("vault_facts")}
            self.seen = int(next(iter(db.run("vault_seen")), (0,))[0]) if found else 0
        self.vault = found.get("vault")
        self.encrypted = "encrypted" in found


def matched(database: Any, facts: Facts, vault: Vault, encrypt: bool) -> None:
    """The vault is that of the database, and no older than it; both are marked where this is the first time.

    Raises:
        InvalidSpec: the vault is another database's, or the database holds plain threads and should be encrypted.
        KeyRefused: the database is encrypted, and no key was given.
        StorageCorrupt: one of the two was altered, or is too old.
    """
    if facts.encrypted and not encrypt:
        raise KeyRefused("the database is encrypted: open it with key=, or set NOVELO_KEY")
    own = blake2b(b"vault", key=database.secret, digest_size=16).digest()
    if encrypt and not facts.encrypted and not _fresh(database):
        if vault.fact("encrypted") is not None and vault.fact("database") == own:
            raise StorageCorrupt("the mark that the database is encrypted was taken out: restore a backup")
        raise InvalidSpec(
            "the database holds threads in plain text: export them into a new, encrypted one (docs/encryption.md)"
        )
    if facts.vault is not None and facts.vault != vault.id:
        raise InvalidSpec(f"{vault.name} is not the vault of this database: name the one it was opened with before")
    if vault.settle("database", own) != own:
        raise InvalidSpec(f"{vault.name} is the vault of another database: give each database one of its own")
    if vault.last() < facts.seen:
        raise StorageCorrupt(
            f"the vault {vault.name} is older than the database (note {vault.last()} of {facts.seen}): "
            "restore its newest copy, or erasures would come back"
        )
    if facts.encrypted:
        vault.settle("encrypted", b"1")
    if facts.vault is None or (encrypt and not facts.encrypted):
        if database.read_only:
            raise StorageReadOnly("the database has no vault yet, and cannot be written: its folder is read-only")
        with database.writing() as db:
            if encrypt and not facts.encrypted and next(iter(db.run("any_thread")), None) is not None:
                raise InvalidSpec("a program stored a thread in plain text meanwhile: end it, and begin anew")
            db.run("keep_vault_fact", ("vault", vault.id))
            if encrypt:
                vault.settle("encrypted", b"1")
                db.run("keep_vault_fact", ("encrypted", b"1"))


def _fresh(database: Any) -> bool:
    with database.reading() as db:
        return next(iter(db.run("any_thread")), None) is None


def replay(store: Any, database: GuardedDatabase, seen: int, destroy: Callable[[bytes, int], Any] | None) -> int:
    """Erase again what the ledger says, behind the note that the database has seen; how many came back.

    Args:
        store: over the database, which nobody else uses yet.
        destroy: destroys the data keys of a thread up to a version.
    Raises:
        StorageReadOnly: something must be erased, and the database cannot be written.
    """
    notes = database.vault.erased(seen)
    if not notes:
        return 0
    back: list[Erased] = []
    with database.inner.reading() as db:
        back = [note for note in _last_of_each(notes) if _is_back(db, note, database)]
    if back and database.read_only:
        raise StorageReadOnly(
            f"{len(back)} of the things that the vault says were erased are in this database, as in a restored backup: "
            "open it once so that it can be written (`novelo threads -d …` does), and they are erased again"
        )
    database.replaying = True
    try:
        for note in back:
            if note.kind == ENTRY:
                _delete(store, database, note)
            elif note.kind == COLLECTION:
                store.documents.erase(note.key, note.moment)
            else:
                store.erase(note.key, note.moment, forks="keep" if note.kind == KEPT else "erase")
    finally:
        database.replaying = False
    for note in notes:
        if destroy is not None and note.kind in (THREAD, KEPT) and note.version:
            destroy(note.key, note.version)
    if not database.read_only:
        with database.inner.writing() as db:
            db.run("see_vault", (notes[-1].number,))
    if back:
        log.warning(
            "%d of the vault's erasures made again: a backup was restored, or a process died while it erased", len(back)
        )
        if not store.scrub():
            log.warning("traces of them are still in the files: a reader holds the log")
    return len(back)


def _last_of_each(notes: list[Erased]) -> list[Erased]:
    """Of several notes on one entry the last one counts."""
    last = {(note.key, note.born, note.place): note for note in notes}
    return [note for note in notes if note.place < 0 or last[note.key, note.born, note.place] is note]


def _is_back(db: Any, note: Erased, database: GuardedDatabase) -> bool:
    """Whether what was erased is there, as the engine sees it."""
    if note.kind == COLLECTION:
        found = next(iter(db.run("collection", (note.key,))), None)
        return found is not None and note.means(found[MADE])
    row = next(iter(db.run("ancestor", (note.key,))), None)
    if row is None or row[STATUS] == "erased" or not note.means(row[CREATED]):
        return False
    if note.kind != ENTRY:
        return True
    entry = next(iter(db.run("entry_at", (note.key, note.place))), None)
    return entry is not None and entry[7] is not None and database.mark(entry[8]) != note.mark


def _delete(store: Any, database: GuardedDatabase, note: Erased) -> None:
    """An entry that was deleted or masked goes; what it was masked with nobody knows any more."""
    thread = store.thread(note.key)
    if thread is None:
        raise StorageUnavailable(f"thread {note.key.hex()} went while the ledger was replayed: open the memory again")
    store.rewrite(thread, {note.place: None}, note.moment)
