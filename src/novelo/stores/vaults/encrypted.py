"""A database whose content is encrypted, with its vault; `cipher.py` is what its connections do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from novelo.stores.tables.rows import Facts
from novelo.stores.vaults.base import KEPT, THREAD, Erased, Vault
from novelo.stores.vaults.cipher import Cipher
from novelo.stores.vaults.guard import GuardedDatabase
from novelo.stores.vaults.keyring import Keyring


class EncryptedDatabase(GuardedDatabase):
    """A database whose content is encrypted, with its vault."""

    connection = Cipher

    def __init__(
        self, inner: Any, vault: Vault, keyring: Keyring, *, strict: bool = True, documents: bool = False
    ) -> None:
        """Before a database.

        Args:
            strict: what is not encrypted is refused; otherwise it is read as it is.
            documents: collections of documents may be kept, unencrypted.
        """
        super().__init__(inner, vault)
        self.keyring, self.strict, self.documents = keyring, strict, documents
        self.names: dict[bytes, Facts] = {}
        self.shredded: set[bytes] = set()  # whose key was destroyed, until a receipt tells of it
        self._secret = keyring.secret(inner.secret)

    def of(self, owner: str, word: str) -> GuardedDatabase:
        """The same for one owner, who stands in the tables under a hash."""
        return super().of(self.keyring.owner(owner), word)

    def seen(self, connection: Cipher) -> None:
        """Which key a thread is written with."""
        for thread, (epoch, version) in connection.known.items():
            if epoch >= 0:
                self.keyring.note(thread, epoch, version)

    def committed(self, notes: Sequence[Erased]) -> None:
        """The keys of threads that were erased go: no copy of the database tells any more what they said."""
        for note in notes:
            if note.kind in (THREAD, KEPT) and self.keyring.destroy(note.key, note.version):
                self.shredded.add(note.key)
