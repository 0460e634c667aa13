"""What a thread keeps: its transcript, its facts, and what may be changed about them after the fact."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from novelo.compaction import Progress, undone
from novelo.context.manifest import Manifest
from novelo.errors import UnknownEntry
from novelo.meaning import recall
from novelo.removal import Removal
from novelo.stores.base import Found, Hit, StoredEntry, ThreadRow, TurnRow
from novelo.summaries import Summary
from novelo.usage import ThreadUsage
from novelo.worker import Compaction

if TYPE_CHECKING:
    from novelo.memory import Memory

PAGE = 1000


class Record(Removal):
    """The keeping half of a thread's handle; `Thread` adds turns and contexts."""

    def __init__(self, memory: Memory, owner: str, thread_id: str, policy: Any = None, system: Any = None) -> None:
        self.memory = memory
        self.owner, self.thread_id = owner, thread_id
        self.key = memory.store.key_of(owner, thread_id)
        self._policy = policy
        self._system = system

    def __repr__(self) -> str:
        return f"Thread({self.thread_id[:60]!r})"

    # ------------------------------------------------------------------------------------------ the transcript
    def messages(
        self, after: int | None = None, limit: int | None = None, newest_first: bool = False, *, hidden: bool = True
    ) -> list[StoredEntry]:
        """The transcript, complete: hidden entries too, deleted ones without their content.

        Args:
            after: only what stands behind this position (with `newest_first`: before it).
            limit: at most so many.
            newest_first: from the end.
            hidden: False leaves hidden and deleted entries out.
        """
        thread = self.memory.store.thread(self.key)
        if thread is None:
            return []
        out: list[StoredEntry] = []
        wanted = thread.head if limit is None else max(0, limit)
        if newest_first:
            at = thread.head if after is None else min(after, thread.head)
            while len(out) < wanted and (
                piece := self.memory.store.tail(thread, at, min(PAGE, wanted - len(out)), hidden=hidden)
            ):
                out += piece
                at = piece[-1].position
        else:
            at = 0 if after is None else after + 1
            while len(out) < wanted and (
                piece := self.memory.store.range(thread, at, min(PAGE, wanted - len(out)), hidden=hidden)
            ):
                out += piece
                at = piece[-1].position + 1
        return out

    def __len__(self) -> int:
        thread = self.memory.store.thread(self.key)
        return 0 if thread is None else thread.head

    def __iter__(self) -> Iterator[StoredEntry]:
        return iter(self.messages())

    def __bool__(self) -> bool:
        return True

    def search(self, words: str, limit: int = 20) -> Found[Hit]:
        """Messages of this thread that hold all the words; accents and case do not matter, Chinese is found too.

        In a fork what it shares with its parent is searched too.
        """
        return self.memory.search(words, owner=self.owner, thread=self, limit=limit)

    def recall(self, question: str, limit: int = 10) -> list[Hit]:
        """Messages of this thread that a question is about, the best first, with scores; hidden ones are not looked at.

        Other than `search` it wants no word to be there: words with other endings, what stands beside a message and who
        said it count too, and its meaning where the memory was opened with an embedder. The policy `recall:6` brings
        whole turns back into the context by the same ranking.
        """
        return recall(self.memory, self.key, question, limit)

    def turns(self, limit: int = 200) -> list[TurnRow]:
        """Turns, oldest first, with their status and manifests."""
        return list(reversed(self.memory.store.turns(self.key, limit)))

    def manifest(self, number: int) -> Manifest | None:
        """What the model saw at the k-th turn, counted from 1; None if the turn left no manifest.

        Raises:
            UnknownEntry: no such turn.
        """
        rows = self.turns(10**9)
        if not 1 <= number <= len(rows):
            raise UnknownEntry(f"turn {number}: the thread has turns 1 to {len(rows)}")
        return self.memory.unpack_manifest(rows[number - 1].manifest)

    def usage(self) -> ThreadUsage:
        """The ledger: one row for each model call, with `total` and sums `by("purpose")` and so on."""
        return ThreadUsage((call for _, _, call in self.memory.store.calls(self.key)), self.owner, self.thread_id)

    # ------------------------------------------------------------------------------------------ summaries
    def compactions(self) -> list[Summary]:
        """All versions of the thread's summary, oldest first: texts, facts, loss reports; one is `active`, or none."""
        return self.memory.store.summaries(self.key)

    @property
    def summary(self) -> Summary | None:
        """The summary that contexts use; None if they use none."""
        row = self.row
        found = None if row is None else self.memory.store.summary(row)
        return found if found is not None and found.text else None

    def compact(
        self,
        focus: str | None = None,
        *,
        redo: bool = False,
        policy: Any = None,
        prompt: str = "",
        model: Any = None,
        progress: Progress | None = None,
    ) -> Summary | None:
        """Summarize the older part now, whether it is due or not; the transcript stays as it is.

        Args:
            focus: what the summary should look at above all.
            redo: make the newest summary again, from the same entries, as a new version.
            policy: whose `summarize` stage says what is kept; None is the memory's.
            prompt: instructions instead of ours.
            model: who writes it, instead of the memory's summarizer.
            progress: called with the number of requests done, and of all.
        Returns:
            The version that contexts use from now on; None if there is nothing to cover.
        Raises:
            InvalidSpec: there is no summarizer. SummaryFailed, ModelFailed: it gave no summary; nothing has changed.
        """
        chosen = policy if policy is not None else self._policy
        parsed = self.memory.policy if chosen is None else self.memory.parsed(chosen)
        return Compaction(
            self, parsed, window=self.memory.window, force=True, redo=redo, focus=focus or "", prompt=prompt,
            model=model, progress=progress,
        ).run()  # fmt: skip

    def undo_compaction(self) -> Summary | None:
        """Take the newest summary back: contexts use what stood before it, and none is due before more has been said.

        The text that it covered is in contexts again. Called again it goes one more step back.

        Returns:
            The version that contexts use now; None if there was nothing to take back.
        """
        row = self.row
        active = None if row is None else self.memory.store.summary(row)
        before, upto = self.compaction_before(active)
        if row is None or active is None or upto is None:
            return None
        made = undone(active, before, row.head, row.turns, row.running)
        base = self.memory.store.base_of(row, made.upto)
        return self.memory.store.swap_summary(self.key, base, made, time.time())

    def compaction_before(self, active: Summary | None) -> tuple[Summary | None, int | None]:
        """What stood before a summary, and where that one ends; (None, None) if there is nothing to go back from."""
        versions = {s.version: s for s in self.compactions()}
        while active is not None and active.undone:  # it says what its base says
            active = versions.get(active.base)
        if active is None or not active.text:
            return None, None
        if self._texts_gone(active):
            return None, None
        before = versions.get(active.base)
        while before is not None and before.undone:
            before = versions.get(before.base)
        return before, active.upto

    def _texts_gone(self, summary: Summary) -> bool:
        """Whether retention took the texts that a summary stands for, so that it is all that says them."""
        found = self.memory.store.range(self._row(), summary.start, len(summary.held) + 1)
        said = [entry.position for entry in found if entry.position not in summary.held]
        return summary.messages > 0 and (not said or said[0] >= summary.upto)

    # ------------------------------------------------------------------------------------------ facts
    @property
    def row(self) -> ThreadRow | None:
        """The thread's facts: counts, times, status, tags; None before the first write."""
        return self.memory.store.thread(self.key)

    def _row(self) -> ThreadRow:
        found = self.memory.store.thread(self.key)
        if found is None:
            raise UnknownEntry(f"there is no thread {self.thread_id[:60]!r}")
        return found

    @property
    def state(self) -> MutableMapping[str, Any]:
        """The thread's custom state; written at once."""
        return _State(self)

    @state.setter
    def state(self, value: dict[str, Any]) -> None:
        self._set(state=dict(value))

    def _set(self, **facts: Any) -> None:
        self.memory.store.set_facts(self.key, (self.owner, self.thread_id), time.time(), **facts)

    @property
    def title(self) -> str:
        """A title for lists."""
        row = self.row
        return "" if row is None else row.title

    @title.setter
    def title(self, value: str) -> None:
        self._set(title=value)

    @property
    def tags(self) -> tuple[str, ...]:
        """Words to list threads by."""
        row = self.row
        return () if row is None else row.tags

    @tags.setter
    def tags(self, value: Sequence[str]) -> None:
        self._set(tags=list(value))

    @property
    def metadata(self) -> dict[str, Any]:
        """Data of the application's own; set it as a whole."""
        row = self.row
        return {} if row is None else dict(row.metadata)

    @metadata.setter
    def metadata(self, value: dict[str, Any]) -> None:
        self._set(metadata=dict(value))

    # ------------------------------------------------------------------------------------------ changing what is there
    def positions(self, ids: Any) -> list[int]:
        """The positions of entries, named by position, id, or the entry itself; one or several.

        Raises:
            UnknownEntry: one of them is not there.
        """
        thread = self._row()
        many = isinstance(ids, Iterable) and not isinstance(ids, (str, bytes))
        given = list(ids) if many else [ids]
        named = [i for i in given if isinstance(i, str) and not re.fullmatch(r"#\d{1,12}", i)]
        found = self.memory.store.find(thread, named) if named else {}
        out = []
        for one in given:
            if isinstance(one, StoredEntry):
                position: int | None = one.position
            elif isinstance(one, str):
                position = (
                    found.get(one)
                    if one in found
                    else int(one[1:])
                    if one.startswith("#") and one[1:].isdigit()
                    else None
                )
            else:
                position = one
            if not isinstance(position, int) or not 0 <= position < thread.head:
                raise UnknownEntry(f"no entry {one!r} in a thread of {thread.head}", id=one)
            out.append(position)
        return out

    def pin(self, ids: Any) -> None:
        """Keep entries in every context."""
        self.memory.store.pin(self.key, self.positions(ids), True)

    def unpin(self, ids: Any) -> None:
        """Let policies decide again."""
        self.memory.store.pin(self.key, self.positions(ids), False)

    def hide(self, ids: Any) -> None:
        """Out of contexts; the transcript keeps them."""
        self.memory.store.hide(self.key, [(p, p + 1) for p in self.positions(ids)], True, time.time())

    def unhide(self, ids: Any) -> None:
        """Back into contexts."""
        self.memory.store.hide(self.key, [(p, p + 1) for p in self.positions(ids)], False, time.time())


class _State(MutableMapping[str, Any]):
    """The custom state of a thread as a dict that is written at once; values are JSON data."""

    def __init__(self, thread: Record) -> None:
        self._thread = thread

    def _read(self) -> dict[str, Any]:
        return self._thread.memory.store.state(self._thread.key)

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._thread._set(patch={name: value})

    def __delitem__(self, name: str) -> None:
        if name not in self._read():
            raise KeyError(name)
        self._thread._set(without=name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"State({', '.join(self._read())})"
