"""A mask over what is kept of a turn or a summary, the same for every store."""

from __future__ import annotations

from typing import Any

import msgspec

from novelo.masking import Mask, Unreadable, masked, says
from novelo.messages import Message
from novelo.stores.rules import QUOTING, without_quotes
from novelo.stores.values import NewEntry
from novelo.summaries import Summary


def masked_manifest(told: bytes, mask: Mask) -> bytes:
    """A manifest less what it quotes, if the mask finds anything there; its system prompt masked."""
    try:
        fields = msgspec.json.decode(told, type=dict[str, Any])
        quotes = {name: fields[name] for name in QUOTING if name in fields}
        if masked(quotes, mask) is not quotes:
            told = without_quotes(told)
            fields = msgspec.json.decode(told, type=dict[str, Any])
        system = fields.get("system")
        if isinstance(system, str) and mask(system) != system:
            told = msgspec.json.encode(fields | {"system": mask(system)})
    except (msgspec.MsgspecError, Unreadable):
        return b"{}" if says(told, mask) else told
    return told


def masked_draft(draft: NewEntry, mask: Mask) -> NewEntry:
    """What was streamed of an answer, masked; without its words, which the index has not seen yet."""
    kept = msgspec.to_builtins(draft.message)
    loose = {name: value for name, value in kept.items() if name not in ("role", "id")}
    clean = masked(loose, mask, keys=False)
    if clean is loose:
        return draft
    try:
        made = msgspec.convert(kept | clean, Message)
    except msgspec.ValidationError:  # the mask broke its form
        made = Message(draft.message.role, "")
    return NewEntry(made, draft.tokens, "")


def masked_summary(found: Summary, mask: Mask) -> Summary:
    """A summary whose prose is masked; a fact that the mask finds goes, for it would not be exact any more."""
    return msgspec.structs.replace(
        found,
        text=mask(found.text),
        focus=mask(found.focus),
        facts=tuple(fact for fact in found.facts if mask(fact.text) == fact.text),
        lost=tuple(fact for fact in found.lost if mask(fact.text) == fact.text),
    )
