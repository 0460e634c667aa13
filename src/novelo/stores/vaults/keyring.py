"""The data keys of a database's threads, as they lie wrapped in its vault and as they are used."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b

from novelo.errors import KeyRefused, NoveloError, Undecipherable
from novelo.stores.vaults.base import Vault, Wrapped
from novelo.stores.vaults.ciphers import KEY_BYTES, ThreadKey
from novelo.stores.vaults.wrapping import WrappingKey

DATABASE = b""  # in place of a thread: the key that ids and owners are hashed with
CACHED = 10_000  # data keys that are kept unwrapped


class Keyring:
    """The data keys of one vault. Safe to use from several threads."""

    def __init__(self, vault: Vault, wrapping: Sequence[WrappingKey]) -> None:
        """With the wrapping keys: the first one wraps, the others unwrap what is older.

        Raises:
            KeyRefused: none of them is this vault's.
        """
        self.vault = vault
        self._wrapping = {key.name: key for key in reversed(wrapping)}
        self._first = wrapping[0]
        self._keys: OrderedDict[tuple[bytes, int], ThreadKey] = OrderedDict()
        self._current: OrderedDict[bytes, tuple[int, int]] = OrderedDict()  # epoch, version
        self._lock = threading.Lock()
        found = vault.key(DATABASE, 1)
        if found is None:
            vault.new_key(DATABASE, time.time(), lambda _: self._wrapped(os.urandom(KEY_BYTES)))
            found = vault.key(DATABASE, 1)  # of two processes that come at once the first one's holds
            assert found is not None
        secret = self._unwrapped(found)
        self._ids = blake2b(b"ids", key=secret, digest_size=32, person=b"novelo").digest()

    def __repr__(self) -> str:
        return f"Keyring({self.vault!r}, wrapped by {self._first.name})"

    # ------------------------------------------------------------------------------------------ wrapping
    def _wrapped(self, key: bytes) -> tuple[str, bytes]:
        return self._first.name, self._first.wrap(key)

    def _unwrapped(self, found: Wrapped) -> bytes:
        key = self._wrapping.get(found.wrapper)
        if key is None:
            raise KeyRefused(
                f"the vault's keys are wrapped by key {found.wrapper}, and given was {', '.join(self._wrapping)}: give "
                "that one, or the new and the old one together while keys are rotated"
            )
        try:
            secret = key.unwrap(found.wrapped)
        except NoveloError:
            raise
        except Exception as error:  # of a hook, which may put anything into its text
            raise KeyRefused(f"key {found.wrapper} could not unwrap a data key ({type(error).__name__})") from None
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise KeyRefused(f"key {found.wrapper} gave something else than a data key")
        return secret

    def rotate(self, new: WrappingKey, progress: Callable[[int, int], None] | None = None) -> int:
        """Wrap all data keys by another key; bodies stay as they are. How many.

        A rotation that was cut off goes on where it stopped: what is wrapped by the new key already is left alone.

        Args:
            progress: told how many are done, and of how many.
        """
        total = sum(count for name, count in self.vault.keys().items() if name != new.name)
        self._wrapping.setdefault(new.name, new)
        done = 0
        while count := self.vault.rewrap(new.name, lambda found: new.wrap(self._unwrapped(found))):
            done += count
            if progress is not None:
                progress(done, max(total, done))
        self._first = new
        return done

    # ------------------------------------------------------------------------------------------ ids and owners
    def secret(self, inner: bytes) -> bytes:
        """What threads' keys are made with: the database's own secret alone says nothing about ids."""
        return blake2b(inner, key=self._ids, digest_size=32, person=b"secret").digest()

    def owner(self, owner: str) -> str:
        """What stands for an owner in the database."""
        data = owner.encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._ids, digest_size=16, person=b"owner").hexdigest()

    # ------------------------------------------------------------------------------------------ threads
    def begin(self, thread: bytes) -> ThreadKey:
        """A new key for a thread that begins, durable in the vault before anything is written with it."""
        secret = os.urandom(KEY_BYTES)
        version = self.vault.new_key(thread, time.time(), lambda _: self._wrapped(secret))
        made = ThreadKey(thread, version, secret)
        self._keep(made)
        return made

    def get(self, thread: bytes, version: int) -> ThreadKey:
        """A thread's key.

        Raises:
            Undecipherable: it was destroyed, or is not in the vault.
        """
        with self._lock:
            known = self._keys.get((thread, version))
            if known is not None:
                self._keys.move_to_end((thread, version))
                return known
        found = self.vault.key(thread, version)
        if found is None:
            raise Undecipherable(f"the vault has no key {version} of thread {thread.hex()}: it is that of another time")
        if not found.wrapped:
            raise Undecipherable(f"thread {thread.hex()} was erased: its key was destroyed", destroyed=True)
        made = ThreadKey(thread, version, self._unwrapped(found))
        self._keep(made)
        return made

    def _keep(self, key: ThreadKey) -> None:
        with self._lock:
            self._keys[key.thread, key.version] = key
            if len(self._keys) > CACHED:
                self._keys.popitem(last=False)

    def note(self, thread: bytes, epoch: int, version: int) -> None:
        """A thread's row was read and stands: this is the key it is written with. A higher epoch knows better."""
        with self._lock:
            if self._current.get(thread, (-1, 0))[0] <= epoch:
                self._current[thread] = (epoch, version)
            if len(self._current) > CACHED:
                self._current.popitem(last=False)

    def current(self, thread: bytes) -> int | None:
        """The version of the key of a thread as its row was last read in this process; None if it was not.

        Another process may have erased the thread since, and begun it anew. So this is for statements alone that the
        thread's epoch fences: whoever holds it has read the row of this life.
        """
        found = self._current.get(thread)
        return None if found is None else found[1]

    def destroy(self, thread: bytes, version: int) -> bool:
        """Destroy a key of a thread, for good; False if there was none any more."""
        with self._lock:
            self._keys.pop((thread, version), None)
            if self._current.get(thread, (0, 0))[1] == version:
                self._current.pop(thread, None)
        return self.vault.destroy(thread, version)
