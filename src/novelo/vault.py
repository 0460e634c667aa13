"""Opening a vault: what lies apart from the database, the ledger of erasures and the threads' keys.

What a vault is, and in which order it and the database are written, is told in `novelo.stores.vaults.base`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from novelo.errors import InvalidSpec
from novelo.stores.vaults.base import COLLECTION, ENTRY, KEPT, PATTERN, THREAD, Erased, Vault, Wrapped
from novelo.stores.vaults.guard import GuardedDatabase
from novelo.stores.vaults.opening import Facts, matched
from novelo.stores.vaults.replay import replay

__all__ = [
    "COLLECTION",
    "ENTRY",
    "KEPT",
    "PATTERN",
    "THREAD",
    "Erased",
    "Vault",
    "Vaulted",
    "Wrapped",
    "open_vault",
    "rotate",
    "with_vault",
]
VAULT, KEY = "NOVELO_VAULT", "NOVELO_KEY"  # of the environment, for a database that has a vault, or is encrypted

S = TypeVar("S")


def with_vault(
    database: Any,
    make: Callable[[Any, bool], S],
    *,
    search: bool,
    vault: str | None,
    key: Any,
    strict: bool,
    documents: bool,
) -> S:
    """The store over a database, behind its vault if it has one; erasures that came back are made again first.

    Args:
        database: of an engine, open; it is closed if anything fails.
        make: from a database, and whether messages are indexed for search, to the store.
        vault, key, strict, documents: see `novelo.open`.
    Raises:
        StorageUnavailable: the vault cannot be opened. KeyRefused: the key is missing or another one.
        InvalidSpec, StorageCorrupt: see `matched`.
    """
    opened: Vault | None = None
    try:
        facts = Facts(database)
        if vault is None and facts.vault is not None:
            vault = os.environ.get(VAULT)
            if not vault:
                raise InvalidSpec(f"the database has a vault: open it with vault=, or set {VAULT} to its address")
        if key is None and facts.encrypted and os.environ.get(KEY):
            key = f"env:{KEY}"
        if vault is None:
            if key is not None:
                raise InvalidSpec("encryption needs a vault apart from the database: open it with vault= too")
            return make(database, search)
        if not isinstance(vault, str):
            raise InvalidSpec(f"vault: expected an address such as sqlite:///vault.db, not {type(vault).__name__}")
        wrapping = _wrapping(key)  # first of all: a key that is none marks no database, and makes no vault
        _apart(database, vault)
        opened = open_vault(vault, create=facts.vault is None)
        matched(database, facts, opened, key is not None)
        guard: Any
        destroy = None
        if key is None:
            guard = GuardedDatabase(database, opened)
        else:
            from novelo.stores.vaults.encrypted import EncryptedDatabase
            from novelo.stores.vaults.keyring import Keyring

            keyring = Keyring(opened, wrapping)
            guard = EncryptedDatabase(database, opened, keyring, strict=strict, documents=documents)
            destroy = keyring.destroy
        store = make(guard, search and key is None)
        replay(store, guard, facts.seen, destroy)
        store.documents.on_erased = _noting(opened)  # type: ignore[attr-defined]
        return store
    except BaseException:
        if opened is not None:
            opened.close()
        database.close()
        raise


def _wrapping(key: Any) -> Any:
    """The wrapping keys that a program gave; none where nothing is encrypted."""
    if key is None:
        return ()
    from novelo.stores.vaults.wrapping import wrapping_keys

    return wrapping_keys(key)


def _noting(vault: Vault) -> Callable[[Any], None]:
    """What notes that a collection of documents goes; threads and messages are noted by their statements."""

    def note(gone: Any) -> None:
        vault.note([Erased(0, gone.key, COLLECTION, gone.now, gone.born)])

    return note


class Vaulted:
    """What a memory has to do with its vault."""

    store: Any

    @property
    def vault(self) -> Vault | None:
        """The vault that the memory was opened with."""
        found: Vault | None = getattr(getattr(self.store, "database", None), "vault", None)
        return found

    @property
    def encrypted(self) -> bool:
        """Whether what is stored is encrypted."""
        return getattr(getattr(self.store, "database", None), "keyring", None) is not None

    def rotate_keys(self, new: Any, progress: Callable[[int, int], None] | None = None) -> int:
        """Wrap the threads' data keys by another key; what they encrypt stays as it is. How many were wrapped anew.

        While it runs, and as long as other processes run with the old key, open memories with both: `key=[new, old]`.
        A rotation that was cut off goes on where it stopped when it is asked for again.

        Args:
            new: as `key` of `novelo.open`.
            progress: told how many are done, and of how many.
        Raises:
            InvalidSpec: the memory is not encrypted.
        """
        if not self.encrypted:
            raise InvalidSpec("the memory is not encrypted: there are no keys to rotate")
        from novelo.stores.vaults.wrapping import wrapping_key

        return int(self.store.database.keyring.rotate(wrapping_key(new), progress))


def rotate(vault: str, old: Any, new: Any, progress: Callable[[int, int], None] | None = None) -> int:
    """The same of a vault alone, whose database need not be at hand.

    Raises:
        KeyRefused: the old key is not the vault's.
    """
    from novelo.stores.vaults.keyring import Keyring
    from novelo.stores.vaults.wrapping import wrapping_key, wrapping_keys

    opened = open_vault(vault, create=False)
    try:
        if opened.fact("encrypted") is None:
            raise InvalidSpec("the vault holds no keys: its database is not encrypted")
        first = wrapping_key(new)
        return Keyring(opened, [first, *wrapping_keys(old)]).rotate(first, progress)
    finally:
        opened.close()


def _apart(database: Any, vault: str) -> None:
    """A vault in the database itself would be restored with it."""
    settings = getattr(database, "settings", None)
    if settings is not None and vault.startswith("postgres"):
        from novelo.stores.postgres.database import Settings

        same = Settings(vault).place == settings.place
    else:
        path = getattr(database, "path", "")
        same = (
            bool(path)
            and vault.startswith("sqlite:///")
            and Path(unquote(vault[10:])).resolve() == Path(path).resolve()
        )
    if same:
        raise InvalidSpec("the vault lies in the database itself: a backup would bring both back; choose another place")


def open_vault(url: str, *, create: bool = True) -> Vault:
    """The vault at an address.

    Args:
        url: "sqlite:///vault.db" (a file, made for its owner alone), or "postgresql://user@host/database?schema=vault":
            another database than that of the threads, with backups of its own that are kept for a few days only.
        create: make it if it is not there. One that a database belongs to already must be there.
    Raises:
        InvalidSpec: no such kind of vault.
        StorageUnavailable, StorageReadOnly, StorageFull, StorageCorrupt: it cannot be opened.
    """
    if isinstance(url, str) and url.startswith("sqlite:///") and url[len("sqlite:///") :] not in ("", ":memory:"):
        from novelo.stores.vaults.sqlite import VaultFile

        return Vault(VaultFile(unquote(url[len("sqlite:///") :]), create))
    if isinstance(url, str) and url.startswith(("postgresql:", "postgres:")):
        from novelo.stores.vaults.postgres import VaultServer

        return Vault(VaultServer(url, create))
    raise InvalidSpec("vault: expected sqlite:///vault.db, or postgresql://user@host/database?schema=vault")
