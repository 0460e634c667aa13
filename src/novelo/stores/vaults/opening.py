"""Opening a database with its vault: they are matched, the ledger is replayed (`replay.py`), and only then it serves.

A database that has a vault knows it (`meta`), and so does every backup of it: without the vault nothing is opened. The
vault knows the database, so that the vault of another one is refused, and how far the database had got in the ledger,
so that an older copy of the vault is refused too.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from novelo.errors import InvalidSpec, KeyRefused, StorageCorrupt, StorageReadOnly
from novelo.stores.vaults.base import Vault


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
    if encrypt and not facts.encrypted and not _fresh(database):
        if vault.fact("encrypted") is not None:
            raise StorageCorrupt("the mark that the database is encrypted was taken out: restore a backup")
        raise InvalidSpec(
            "the database holds threads in plain text: export them into a new, encrypted one (docs/encryption.md)"
        )
    if facts.vault is not None and facts.vault != vault.id:
        raise InvalidSpec(f"{vault.name} is not the vault of this database: name the one it was opened with before")
    own = blake2b(b"vault", key=database.secret, digest_size=16).digest()
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
