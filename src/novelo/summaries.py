"""A summary as a value: what stands in contexts for older entries, and where each of its facts comes from.

A summary is a version beside the transcript, never in its place. It updates an earlier one (`base`) with the entries
that it covers itself (`covered`); what is not in those ranges it never read: hidden entries, the open question, calls
that wait for their result (`held`). A context uses the version that the thread points at, and undoing one is one more
version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from novelo.facts import Fact
from novelo.messages import Message, encode
from novelo.quiet import Quiet


class Summary(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """One version.

    Attributes:
        version: 1, 2, 3, ... in each thread; never used twice.
        base: the version that this one updates; 0 for none.
        start, upto: it stands for the entries from `start` to below `upto`, but those in `held`.
        covered: ranges of positions that this version read itself, half-open.
        held: positions below `upto` that stay in contexts word for word.
        text: the prose; empty for none.
        facts: what must survive verbatim, as far as the ledger has room.
        lost: the loss report: facts of the base or of the covered entries that stand neither in the prose nor in the
            ledger.
        passed_over: facts of the covered entries that were seen but are too many to be named.
        language: of the conversation, such as "pt"; None if unsure.
        focus: what the summary was asked to look at.
        model: who wrote it.
        calls: model calls that it took.
        messages: how many messages it stands for, with its base.
        tokens, covered_tokens: what it takes in a context, and what the entries that it stands for would.
        since, since_turns, since_running: the position from which a trigger counts, with the turns and the token sum
            up to there; later than `upto` where a summary was undone.
        undone: the version that this one takes back.
        source: a hash over the base's source and all covered entries, hexadecimal.
        created: seconds since 1970.
        active: whether contexts use it.
    """

    SAID = frozenset(("text", "facts", "lost", "focus"))

    version: int = 0
    base: int = 0
    start: int = 0
    upto: int = 0
    covered: tuple[tuple[int, int], ...] = ()
    held: tuple[int, ...] = ()
    text: str = ""
    facts: tuple[Fact, ...] = ()
    lost: tuple[Fact, ...] = ()
    passed_over: int = 0
    language: str | None = None
    focus: str = ""
    model: str | None = None
    calls: int = 0
    messages: int = 0
    tokens: int = 0
    covered_tokens: int = 0
    since: int = 0
    since_turns: int = 0
    since_running: int = 0
    undone: int = 0
    source: str = ""
    created: float = 0.0
    active: bool = False

    @property
    def ratio(self) -> float:
        """Tokens of the summary for each token that it stands for; 0 if it stands for nothing."""
        return self.tokens / self.covered_tokens if self.covered_tokens else 0.0


def source_hash(base: str, entries: Iterable[tuple[int, Message]]) -> str:
    """The hash of what a summary was made from: its base's, and each covered entry with its position."""
    digest = blake2b(base.encode(), digest_size=16)
    for position, message in entries:
        body = encode(message)
        digest.update(b"%d %d\0" % (position, len(body)) + body)
    return digest.hexdigest()


def inherited(line: Sequence[Summary], at: int, turns: int, running: int) -> list[Summary]:
    """The versions that a fork begins with, oldest first: the parent's and all it stands on, numbered anew.

    The whole line goes along, so that a fork can step back and undo as its parent can, and tell what it covers.

    Args:
        line: the parent's version that ends at or before the fork, its base, the base's base, ...
        at, turns, running: where the fork begins, with the turns and the token sum up to there.
    """
    if not line or not line[0].text:
        return []
    replace = msgspec.structs.replace
    told = [one for one in reversed(line) if not one.undone]  # an undone one says what its base says
    out = [replace(one, version=n, base=n - 1, active=False) for n, one in enumerate(told, 1)]
    newest = line[0]
    since, since_turns, since_running = newest.since, newest.since_turns, newest.since_running
    if since > at:  # undone: what was said behind the fork does not count in it
        since, since_turns, since_running = at, turns, running
    out[-1] = replace(out[-1], since=since, since_turns=since_turns, since_running=since_running)
    return out
