"""Why the model knows something, or does not: who said it, what took it out of the context, what still carries it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.context.manifest import Manifest
from novelo.errors import InvalidSpec
from novelo.facts import says
from novelo.stores.base import StoredEntry

if TYPE_CHECKING:
    from novelo.thread import Thread

MOST = 50  # messages that are named, the newest


class Said(msgspec.Struct, frozen=True):
    """One message that holds the text.

    `rule` is what keeps it out of the next context: a stage of the policy, "summary 3", "hidden"; "" if it is in.
    """

    position: int
    role: str
    turn: int
    created: float
    rule: str

    @property
    def in_context(self) -> bool:
        """Whether the next call is sent this message."""
        return not self.rule


class Carried(msgspec.Struct, frozen=True):
    """One version of the summary that says the text, or names it as lost: `how` is prose, ledger, or lost."""

    version: int
    how: str
    active: bool


class Why(msgspec.Struct, frozen=True):
    """The answer for one text; `reaches` tells whether the next call is sent it in any form."""

    text: str
    said: list[Said]
    carried: list[Carried]
    policy: str
    reaches: bool

    def explain(self) -> str:
        """In words, a line an idea."""
        if not self.said and not self.carried:
            return "nobody said it in this thread (deleted messages are not looked at)"
        lines = [
            f"message {s.position}, {s.role}, turn {s.turn}: {f'out, by {s.rule}' if s.rule else 'in the context'}"
            for s in self.said
        ]
        for one in self.carried:
            what = {"prose": "says it", "ledger": "has it among its exact facts", "lost": "names it as lost"}[one.how]
            lines.append(f"summary {one.version}{' (in use)' if one.active else ''} {what}")
        lines.append(f"the next call under {self.policy} {'has' if self.reaches else 'does not have'} it")
        return "\n".join(lines)


def why(thread: Thread, text: str, policy: Any = None) -> Why:
    """Look for a text, case and accents aside, in a thread's messages and summaries.

    The cost grows with the thread: every message is read.

    Raises:
        InvalidSpec: no text.
    """
    wanted = _plain(text) if isinstance(text, str) else ""
    if not wanted.strip():
        raise InvalidSpec("why: expected a text to look for")
    context = thread.context(policy=policy)
    found = [e for e in thread.messages() if wanted in _plain(_all_text(e))][-MOST:]
    said = [Said(e.position, e.role, e.turn, e.created, _rule(e, context.manifest)) for e in found]
    carried = []
    for summary in thread.compactions():
        in_ledger = any(wanted in _plain(fact.text) for fact in summary.facts if not says(summary.text, fact.text))
        for how, there in (
            ("prose", wanted in _plain(summary.text)),
            ("ledger", in_ledger),
            ("lost", any(wanted in _plain(fact.text) for fact in summary.lost)),
        ):
            if there:
                carried.append(Carried(summary.version, how, summary.active))
    sent = "\n".join(_plain(_message_text(m)) for m in context.messages("message"))
    return Why(text, said, carried, context.manifest.policy, wanted in sent)


def _rule(entry: StoredEntry, manifest: Manifest) -> str:
    if any(start <= entry.position < stop for start, stop in manifest.kept):
        return ""
    if entry.hidden:
        return "hidden"
    found = (rule for start, stop, rule in manifest.left_out if start <= entry.position < stop)
    return next(found, "the system prompt of the call")


def _all_text(entry: StoredEntry) -> str:
    return "" if entry.deleted else _message_text(entry.message)


def _message_text(message: Any) -> str:
    return "\n".join([message.text, *(call.arguments for call in message.tool_calls)])


def _plain(text: str) -> str:
    """Without case and accents; everything else stays, so that A-4471 is not found in A 4471."""
    split = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in split if not unicodedata.combining(c))
