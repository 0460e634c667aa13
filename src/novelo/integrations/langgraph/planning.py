"""From the values of a checkpoint to what the store is given: bytes, or where a list's messages stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from novelo.integrations.langgraph.copies import Line, Pristine, Talks
from novelo.integrations.langgraph.shared import Shared
from novelo.stores.checkpoints import LIST, SINGLE, SNAPSHOT, Blob, Said, Talk

Noted = tuple[Line | None, list[tuple[Any, Pristine | None]]]
Made = dict[int, tuple[BaseMessage, Said, Pristine]]  # messages by their identities


def planned(
    shared: Shared, key: bytes, value: Any, talks: Talks | None, main: bool, made: Made
) -> tuple[Blob | Talk, Noted]:
    """A value for the store, and of a list of messages what is known of it, and what the others say now.

    Args:
        main: of the transcript.
        made: messages that were planned for the same transaction: they are the same here.
    """
    kind = value.__class__
    wrap, items = LIST, value
    if kind is _DeltaSnapshot:
        wrap, items = SNAPSHOT, value.value
    elif isinstance(value, BaseMessage):
        wrap, items = SINGLE, [value]
    if items.__class__ is not list or not items or not isinstance(items[0], BaseMessage):
        return shared.codec.blob(value, key), (None, [])
    line = None if talks is None else talks.line_of(items, main)
    tail = items if line is None else items[len(line.places) :]
    out: list[int | Said] = []
    rest: list[tuple[Any, Pristine | None]] = []
    for item in tail:
        at = None if talks is None else talks.place_of(item, main)
        if at is not None:
            out.append(at)
            rest.append((item, None))
        elif isinstance(item, BaseMessage):
            said, pristine = _said_of(shared, item, key, made)
            rest.append((item, pristine))
            out.append(said)
        else:
            return shared.codec.blob(value, key), (None, [])
    if line is None:
        return Talk(out, wrap), (None, rest)
    return Talk(out, wrap, line.places, line.runs), (line, rest)


def _said_of(shared: Shared, message: BaseMessage, key: bytes, made: Made) -> tuple[Said, Pristine]:
    known = made.get(id(message))
    if known is not None and known[2].is_still(message):
        return known[1], known[2]
    pristine = Pristine(message)
    blob = shared.codec.blob(message, key)
    said: Said = shared.said.get((key, blob.hash), lambda: shared.codec.said(message, key, blob))
    made[id(message)] = (message, said, pristine)
    return said, pristine


def note(talks: Talks, value: Blob | Talk, noted: Noted, places: Sequence[int]) -> None:
    """What was stored is known from now on."""
    talks.stored(noted[0], noted[1], places)
    if isinstance(value, Talk):
        for item, place in zip(value.items, places, strict=True):
            if isinstance(item, Said):
                item.fresh = False
                if place < 0:
                    item.value = -place
