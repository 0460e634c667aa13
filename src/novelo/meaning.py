"""Vectors of a thread's messages: made after the reply by a job, and asked when a question comes back to them.

A message of a chat says little without the one before it ("Yes, both!"), so its vector is made from the two. Only what
users and assistants say has one: results of tools are found by their words. The job is level-triggered: it makes what
is missing, whoever asked for it, and what changed while the embedder worked is left to its next round.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from novelo.messages import Message
from novelo.retrievers.base import Embedder
from novelo.source import ThreadSource
from novelo.stores.base import VECTOR_REACH, Hit, Store, StoredEntry, ThreadRow, Work
from novelo.stores.search import query_words, spans

if TYPE_CHECKING:
    from novelo.memory import Memory

KIND = "embed"
MISSES = 5  # batches in a row that were out of date when they were made: the next turn asks again
BATCH = 32  # messages embedded between two looks at the lease
NEWEST = 8000  # messages whose vectors a question is compared with: 6 MB of a thread of ten thousand turns
OWN, BEFORE = 1500, 500  # characters of a message that its vector is made from, and of the message before
SPARE = 20  # messages beyond those wanted: a neighbour that says nothing may be among the best
ASKED = 64  # questions whose vectors are kept: an agent composes a context at each step of a turn
log = logging.getLogger("novelo")


# ------------------------------------------------------------------------------------------------ making them
def work_for(now: float) -> Work:
    """The job that new messages make due."""
    return Work(KIND, now)


def embed(memory: Memory, key: bytes, now: Callable[[], float], still_ours: Callable[[], bool] = lambda: True) -> int:
    """Make the vectors that are missing of a thread's own messages; how many rows were written.

    Args:
        key: the thread's.
        now: the clock.
        still_ours: asked after each batch; where it says no, the rest is left to others.
    """
    embedder, store = memory.embedder, memory.store
    done = missed = 0
    while embedder is not None:
        with store.snapshot():
            row = store.thread(key)
            positions = [] if row is None else store.unembedded(row, embedder.name, BATCH)
            if row is None or not positions:
                break
            base = store.base_of(row, row.head)
            texts = _texts(store, row, positions)
        said = [p for p in positions if texts[p]]
        made = dict(zip(said, embedder.passages([texts[p] for p in said]), strict=True)) if said else {}
        rows = {p: _packed(made[p]) if p in made else b"" for p in positions}
        kept = store.put_vectors(key, embedder.name, base, rows)
        done, missed = (done + len(rows), 0) if kept else (done, missed + 1)
        if not still_ours() or missed == MISSES:
            return done
    if embedder is not None and row is not None and row.parent is not None:
        parent = store.thread(row.parent)
        if parent is not None and store.unembedded(parent, embedder.name, 1):
            store.ask(parent.key, work_for(now()), now())  # what the fork shares
    return done


def _packed(vector: Any) -> bytes:
    from novelo.retrievers.nearness import packed

    return packed(vector)


def _texts(store: Store, row: ThreadRow, positions: Sequence[int]) -> dict[int, str]:
    """What each vector is made from: the message before, if it is near, and the message; "" where there is none."""
    low, high = max(0, min(positions) - VECTOR_REACH), max(positions)
    entries = {e.position: e for e in store.range(row, low, high - low + 1, hidden=True)}
    return {p: _text(entries, p) for p in positions}


def _text(entries: Mapping[int, StoredEntry], position: int) -> str:
    own = _said(entries.get(position), OWN)
    if not own:
        return ""
    near = range(position - 1, position - 1 - VECTOR_REACH, -1)
    before = next((text for p in near if (text := _said(entries.get(p), BEFORE))), "")
    return f"{before}\n{own}" if before else own


def _said(entry: StoredEntry | None, most: int) -> str:
    if entry is None or entry.hidden or entry.deleted or entry.role not in ("user", "assistant"):
        return ""
    text = entry.text.strip()[:most]
    return f"{_name(entry.message)}{text}" if text else ""


def _name(message: Message) -> str:
    return f"{message.name}: " if message.name else ""


# ------------------------------------------------------------------------------------------------ asking them
def source_of(memory: Memory, thread: ThreadRow, opening: Sequence[StoredEntry] = ()) -> ThreadSource:
    """A thread as a source of entries, which knows what the memory's embedder knows of it."""
    meaning = memory.meaning
    near = None if meaning is None else partial(meaning.near, memory.store, thread)
    return ThreadSource(memory.store, thread, opening, near)


def recall(memory: Memory, key: bytes, question: str, limit: int) -> list[Hit]:
    """Messages of a thread that a question is about, the best first."""
    store = memory.store
    with store.snapshot():
        row = store.thread(key)
        if row is None or limit < 1:
            return []
        found = source_of(memory, row).matches([question], row.head, row.head, 2 * limit + SPARE)
        scores = {match.position: match.score for match in found if 0 <= match.position < row.head}
        entries = [e for e in store.entries(row, list(scores)) if e.text.strip() and not (e.hidden or e.deleted)]
    words = query_words(question)
    return [
        Hit(entry, scores[entry.position], row.thread_id, row.owner, spans(entry.text, words))
        for entry in entries[:limit]
    ]


class Meaning:
    """An embedder, asked about threads; where it fails, words alone are asked."""

    def __init__(self, embedder: Embedder, told: Callable[[str], None]) -> None:
        self.embedder = embedder
        self._told = told
        self._asked: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def near(self, store: Store, thread: ThreadRow, questions: Sequence[str]) -> dict[int, float]:
        """Standardised nearness of a thread's messages to a question in some wordings; empty where nobody knows it."""
        rows = store.vectors(thread, self.embedder.name, NEWEST)
        if not rows:
            return {}
        try:
            vectors = self._vectors(tuple(q[:OWN] for q in questions))
        except Exception as error:  # a model that cannot be reached; words still find what they find
            self._told(f"the embedder failed ({type(error).__name__}): older turns are recalled by their words alone")
            return {}
        from novelo.retrievers.nearness import nearness

        return nearness(rows, vectors)

    def _vectors(self, questions: tuple[str, ...]) -> Any:
        with self._lock:
            if questions in self._asked:
                self._asked.move_to_end(questions)
                return self._asked[questions]
        made = self.embedder.queries(questions)
        with self._lock:
            self._asked[questions] = made
            while len(self._asked) > ASKED:
                self._asked.popitem(last=False)
        return made
