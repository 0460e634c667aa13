"""Opening a vault: what lies apart from the database, the ledger of erasures and the threads' keys.

What a vault is, and in which order it and the database are written, is told in `novelo.stores.vaults.base`.
"""

from __future__ import annotations

from urllib.parse import unquote

from novelo.errors import InvalidSpec
from novelo.stores.vaults.base import ENTRY, THREAD, Erased, Vault, Wrapped

__all__ = ["ENTRY", "THREAD", "Erased", "Vault", "Wrapped", "open_vault"]


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
