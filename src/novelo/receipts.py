"""What was removed, added up: of an owner, and of a run of retention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from novelo.stores.base import Receipt


class Receipts(list[Receipt]):
    """The receipts of several removals, and all of them as one."""

    @property
    def rows(self) -> dict[str, int]:
        """Rows by kind, over all."""
        total: Counter[str] = Counter()
        for one in self:
            total.update(one.rows)
        return dict(total)

    @property
    def threads(self) -> int:
        """How many threads went."""
        return sum(one.kind == "thread" and one.number > 0 for one in self)

    @property
    def pending(self) -> bool:
        """Whether traces are still in the files."""
        return any(one.pending for one in self)

    @property
    def waits(self) -> tuple[str, ...]:
        """Which, and when they go."""
        return _once(text for one in self for text in one.waits)

    @property
    def beyond(self) -> tuple[str, ...]:
        """What no program here can reach."""
        return _once(text for one in self for text in one.beyond)

    @property
    def held(self) -> tuple[str, ...]:
        """Ids of threads that a hold has kept."""
        return _once(name for one in self for name in one.held)


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


class Taken(msgspec.Struct):
    """What one rule took: threads, their messages, and the bytes of these."""

    threads: int = 0
    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, size: int) -> None:
        """One thread more."""
        self.threads += 1
        self.messages += messages
        self.bytes += size


class Purged(msgspec.Struct):
    """What retention took, or with `dry_run` would take.

    Attributes:
        rules: by rule, and by what was over: idle, age, closed, expires.
        held: threads that are due and held; they stay.
        passed: threads that were used, or taken by another, while this ran; they stay, or are looked at again.
        damaged: threads that cannot be read, a sentence each; they stay.
        pending, waits, beyond: as in `Receipt`.
    """

    dry_run: bool
    rules: dict[str, dict[str, Taken]] = {}
    held: int = 0
    passed: int = 0
    damaged: list[str] = []
    pending: bool = False
    waits: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def total(self) -> Taken:
        """All rules together."""
        out = Taken()
        for reasons in self.rules.values():
            for one in reasons.values():
                out.threads += one.threads
                out.messages += one.messages
                out.bytes += one.bytes
        return out

    @property
    def threads(self) -> int:
        """Threads of all rules."""
        return self.total.threads

    @property
    def messages(self) -> int:
        """Messages of all rules."""
        return self.total.messages

    @property
    def bytes(self) -> int:
        """Bytes of these messages, as they are stored."""
        return self.total.bytes

    def count(self, rule: str, why: str, messages: int, size: int) -> None:
        """A thread was taken."""
        self.rules.setdefault(rule, {}).setdefault(why, Taken()).add(messages, size)
