"""The memory of one owner: what a request of that owner is handed, so that no mistake of a program reaches another's.

memory = novelo.open(url)
mine = memory.for_owner("ana")  # or novelo.open(url, owner="ana")
mine.thread("t1")               # ana's; mine.thread("t1", owner="bob") is AccessDenied
"""

from __future__ import annotations

import weakref
from typing import Any

from novelo.documents import Documents
from novelo.errors import AccessDenied
from novelo.memory import Memory
from novelo.stores.owned import OwnedStore
from novelo.thread import Thread


class OwnersMemory(Memory):
    """A memory whose threads, lists, searches and sums are those of one owner; another one is `AccessDenied`.

    It shares connections, worker and settings with the memory that it was made from, and is cheap to make. Closing it
    closes that one only where nobody else has it (`novelo.open(url, owner=...)`).
    """

    whole: Memory
    owner: str

    def __init__(self, whole: Memory, owner: str, *, alone: bool = False) -> None:
        if isinstance(whole, OwnersMemory):
            if owner != whole.owner:
                raise AccessDenied("this memory was opened for another owner")
            whole = whole.whole
        self.__dict__.update(whole.__dict__)
        self.whole, self.owner, self._alone = whole, owner, alone
        whole.store.key_of(owner, "t")  # InvalidSpec: no text that an owner can be named by
        self.store = OwnedStore(whole.store, owner)
        self._live = weakref.WeakSet()
        self._heart = None  # of its own turns; it stops with the whole memory

    def __repr__(self) -> str:
        """Nothing of whose it is."""
        return f"OwnersMemory({self.whole!r})"

    def close(self) -> None:
        """Let go of the turns that are still open here."""
        self._live = weakref.WeakSet()
        if self._alone:
            self.whole.close()

    def for_owner(self, owner: str) -> OwnersMemory:
        """The same again.

        Raises:
            AccessDenied: another owner's.
        """
        return OwnersMemory(self, owner)

    def thread(self, thread_id: str, owner: str | None = None, *, policy: Any = None, system: Any = None) -> Thread:
        """The handle of a thread of the owner's; see `Memory.thread`."""
        return super().thread(thread_id, self.owner if owner is None else owner, policy=policy, system=system)

    def documents(self, name: str = "default", owner: str | None = None, *, embedder: Any = "auto") -> Documents:
        """The handle of a collection of the owner's; see `Memory.documents`."""
        return super().documents(name, self.owner if owner is None else owner, embedder=embedder)

    def import_file(self, path: Any, *, owner: str | None = None, thread_id: str | None = None) -> list[Thread]:
        """Threads of the owner's from a file; see `Memory.import_file`."""
        return super().import_file(path, owner=self.owner if owner is None else owner, thread_id=thread_id)

    import_ = import_file


Memory.restricted = OwnersMemory
