"""What a process knows of one thread of an agent: its ledger, its summary, and whether one is being made.

A summary is of the messages of one list. A graph's list may change under it: by going back to an earlier checkpoint, by
messages that are removed or rewritten. So a summary holds the prints of what it covers, and is used only where the list
still begins with just these messages; else one is made again.

Positions are counted from the thread's first message, pruned ones included: index + `offset`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from novelo.context.manifest import Manifest
from novelo.messages import Message
from novelo.summaries import Summary
from novelo.usage import Call

Print = tuple[str | None, int, int | None]
CALLS = 10_000  # rows of the ledger that a process keeps of one thread, without a memory
TALKS = 1000  # threads that a process keeps something of
STATE = "novelo_memory"  # the field of the state in which a pruned thread carries its summary


def print_of(message: Any) -> Print:
    """By what a message, LangChain's or ours, is recognised: its id, its text, and its parts and calls.

    Parts and calls are told of LangChain's only: ours spell them in another way.
    """
    content, calls = message.content, message.tool_calls if hasattr(message, "tool_calls") else ()
    plain = content is None or isinstance(content, str)
    text = hash(_sound(content or "")) if plain else 0
    if isinstance(message, Message):
        return message.id, text, None if calls or not plain else 0
    return message.id, text, _hash([() if plain else content, calls]) if calls or not plain else 0


def agree(one: Print | None, other: Print) -> bool:
    """Whether two prints are of the same message, as far as both tell."""
    return one is not None and one[:2] == other[:2] and (one[2] == other[2] or None in (one[2], other[2]))


def _sound(text: str) -> str:
    """A text as it is stored: halves of surrogate pairs are replaced."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _hash(value: Any) -> int:
    if isinstance(value, Mapping):
        return hash(frozenset((name, _hash(item)) for name, item in value.items()))
    if isinstance(value, (list, tuple)):
        return hash(tuple(map(_hash, value)))
    try:
        return hash(value)
    except TypeError:
        return hash(repr(value))


class Carried(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pruned state carries: how many messages are gone from it, and the summary that stands for them.

    With a memory the summary's words stand there only, where they go when what they tell of is deleted or masked.
    """

    pruned: int = 0
    summary: Summary | None = None


def carried(state: Any) -> Carried:
    """What the state of a graph carries; nothing where it was never pruned."""
    told = state.get(STATE) if isinstance(state, Mapping) else None
    return msgspec.json.decode(told, type=Carried) if isinstance(told, str) and told else Carried()


def wordless(summary: Summary) -> Summary:
    """A summary less all that it says."""
    blank = [tuple(msgspec.structs.replace(f, text="") for f in facts) for facts in (summary.facts, summary.lost)]
    return msgspec.structs.replace(summary, text="", focus="", facts=blank[0], lost=blank[1])


def worded(summary: Summary, words: Summary | None) -> Summary | None:
    """A summary with the words that stand in the memory; None if they do not stand there any more."""
    if words is None or (len(words.facts), len(words.lost)) != (len(summary.facts), len(summary.lost)):
        return None
    facts, lost = (
        tuple(msgspec.structs.replace(fact, text=said.text) for fact, said in zip(*both, strict=True))
        for both in ((summary.facts, words.facts), (summary.lost, words.lost))
    )
    return msgspec.structs.replace(summary, text=words.text, focus=words.focus, facts=facts, lost=lost)


class Made(NamedTuple):
    """A summary with the prints of what it covers, and the source of the one that it was made from."""

    summary: Summary
    prints: dict[int, Print]
    origin: str = ""


class Talk:
    """One thread in this process."""

    def __init__(self, thread_id: str | None, owner: str, inner: bool) -> None:
        """Know nothing yet.

        Args:
            thread_id: the thread; None where the graph keeps none.
            owner: whose it is.
            inner: whether it is an agent's that another one called as a tool: its messages are not the user's.
        """
        self.thread_id, self.owner, self.inner = thread_id, owner, inner
        self.lock = threading.RLock()
        self.calls: deque[Call] = deque(maxlen=CALLS)
        self.made: Made | None = None
        self.manifest: Manifest | None = None
        self.kept: Any = None
        self.busy = False
        self.failures = 0
        self.not_before = 0.0

    def summary_for(self, messages: Sequence[Any], begin: int, told: Carried) -> Summary | None:
        """The summary that a list of messages can be composed with, in positions of that list; None if there is none.

        Args:
            messages: the list.
            begin: the index of the first message behind the opening.
            told: what the state carries.
        """
        made = self.made
        if made is not None and self._fits(made, messages, begin, told):
            return shifted(made.summary, -told.pruned)
        return None if told.summary is None else shifted(told.summary, -told.pruned)

    def _fits(self, made: Made, messages: Sequence[Any], begin: int, told: Carried) -> bool:
        source = "" if told.summary is None else told.summary.source
        if told.pruned and source not in (made.origin, made.summary.source):
            return False
        upto = made.summary.upto - told.pruned
        return upto < len(messages) and all(
            agree(made.prints.get(at + told.pruned), print_of(messages[at])) for at in range(begin, upto)
        )


def shifted(summary: Summary, by: int) -> Summary:
    """A summary with all its positions moved."""
    if not by:
        return summary
    replace = msgspec.structs.replace
    return replace(
        summary,
        start=summary.start + by,
        upto=summary.upto + by,
        since=summary.since + by,
        covered=tuple((a + by, b + by) for a, b in summary.covered),
        held=tuple(p + by for p in summary.held),
        facts=tuple(replace(f, position=f.position + by) for f in summary.facts),
        lost=tuple(replace(f, position=f.position + by) for f in summary.lost),
    )


class Talks:
    """The threads that this process keeps something of; of very many the ones used last."""

    def __init__(self, most: int = TALKS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._talks: OrderedDict[tuple[str | None, str, str], Talk] = OrderedDict()

    def get(self, thread_id: str | None, owner: str, inside: str = "") -> Talk:
        """The talk of a thread; of another agent inside of it where `inside` names one."""
        key = (thread_id, owner, inside)
        with self._lock:
            found = self._talks.get(key)
            if found is None:
                found = self._talks[key] = Talk(thread_id, owner, bool(inside))
                for old in [k for k, t in self._talks.items() if not t.busy][: max(0, len(self._talks) - self._most)]:
                    del self._talks[old]
            else:
                self._talks.move_to_end(key)
            return found

    def of(self, thread_id: str | None, owner: str) -> list[Talk]:
        """All talks of a thread: its own, and those of agents inside of it."""
        with self._lock:
            return [t for (name, whose, _), t in self._talks.items() if (name, whose) == (thread_id, owner)]

    def forget(self, thread_id: str | None, owner: str) -> None:
        """Know nothing of a thread any more."""
        with self._lock:
            for key in [k for k in self._talks if k[:2] == (thread_id, owner)]:
                del self._talks[key]
