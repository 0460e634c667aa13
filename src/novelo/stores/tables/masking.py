"""A mask over all that is kept of a thread beside its entries: facts, drafts, manifests, summaries, states of graphs.

Entries say what the transcript says; these say it again, in other words, or say what no entry says: a version of a
message that a graph has replaced, an input that no state took up, a channel of notes. What cannot be looked into (a
value that is encrypted) stays, and is counted as `unread`; what can be read but not written again is emptied.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from novelo.masking import Mask, Unreadable, masked, masked_json, masked_msgpack, says
from novelo.stores.base import NewEntry
from novelo.stores.checkpoints import GONE, Cut, Inline, Ref, Written, hash_of
from novelo.stores.masks import masked_draft, masked_manifest, masked_summary
from novelo.stores.tables.checkpoint_packing import ENCODE, body_of, written_body
from novelo.stores.tables.checkpoint_rows import put_checkpoint, put_written, read_checkpoint, read_written
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.facts import thread_row
from novelo.stores.tables.rows import Facts, sealed, unsealed, verify
from novelo.summaries import Summary

if TYPE_CHECKING:
    from novelo.stores.tables.changes import Changes

OURS = ("entry", "list", GONE)  # values that hold no text of anybody's
CUT = "cut:"  # before the type of a value whose texts stand in the transcript
BONES = frozenset(["v", "ts", "id", "channel_versions", "versions_seen", "updated_channels"])
NAMES = frozenset(["source", "step", "parents", "run_id", "thread_id", "counters_since_delta_snapshot"])


def mask_thread(store: Changes, db: Connection, key: bytes, mask: Mask, counts: Counter[str]) -> None:
    """Put a mask over all of a thread but its entries, in a transaction; rows that changed, by kind."""
    before = counts.total() - counts["unread"]
    _mask_facts(db, key, mask, counts)
    _mask_turns(db, key, mask, counts)
    _mask_summaries(db, key, mask, counts)
    _mask_checkpoints(db, key, mask, counts)
    if counts.total() - counts["unread"] > before:
        db.run("content_changed", (key,))
        db.run("reseal", (key,))


def _mask_facts(db: Connection, key: bytes, mask: Mask, counts: Counter[str]) -> None:
    found = thread_row(db, key)
    assert found is not None
    thread, state, _ = found
    texts = Facts(
        thread.owner, thread.thread_id, masked(thread.title, mask), masked(thread.tags, mask),
        masked(thread.metadata, mask),
    )  # fmt: skip
    clean = masked(state, mask)
    same = (texts.title, texts.tags, texts.metadata) == (thread.title, thread.tags, thread.metadata)
    if same and clean == state:
        return
    packed = sealed(key, "state", msgspec.json.encode(clean)) if clean else None
    tags = msgspec.json.encode(texts.tags).decode()
    facts = sealed(key, "facts", msgspec.json.encode(texts))
    db.run("set_facts", (key, texts.title, tags, facts, packed, thread.status, thread.updated))
    db.run("reseal", (key,))
    counts["facts"] += not same
    counts["state"] += clean != state


def _mask_turns(db: Connection, key: bytes, mask: Mask, counts: Counter[str]) -> None:
    for first, manifest, draft in list(db.run("turns_kept", (key,))):
        told = manifest and unsealed(key, "manifest", manifest)
        said = draft and unsealed(key, "draft", draft)
        clean = told and masked_manifest(told, mask)
        streamed = said and _draft(said, mask)
        if (clean, streamed) == (told, said):
            continue
        counts["manifests"] += clean != told
        counts["drafts"] += streamed != said
        pair = (clean and sealed(key, "manifest", clean), streamed and sealed(key, "draft", streamed))
        db.run("mask_turn", (key, first, *pair))


def _draft(said: bytes, mask: Mask) -> bytes:
    found = msgspec.json.decode(said, type=NewEntry)
    made = masked_draft(found, mask)
    return said if made is found else msgspec.json.encode(made)


def _mask_summaries(db: Connection, key: bytes, mask: Mask, counts: Counter[str]) -> None:
    for version, body in list(db.run("summaries", (key,))):
        name = f"summary {version}"
        found = msgspec.json.decode(unsealed(key, name, body), type=Summary)
        clean = masked_summary(found, mask)
        if clean != found:
            db.run("set_summary", (key, version, sealed(key, name, msgspec.json.encode(clean))))
            counts["summaries"] += 1


# ---------------------------------------------------------------------------------------------- states of graphs
def _mask_checkpoints(db: Connection, key: bytes, mask: Mask, counts: Counter[str]) -> None:
    for row in list(db.run("all_values", (key,))):
        number, _, kind, body, _, found = row
        if body is None or kind in OURS:
            continue
        verify(found, "checkpoint value", key, *row[:5])
        made = _value(kind, body, mask, counts)
        if made == (kind, body):
            continue
        counts["checkpoint_values"] += 1
        if made[0] == GONE:
            db.run("gone", (key, number))
        else:
            db.run("masked_value", (key, number, hash_of(key, *made), *made))
    for row in list(db.run("all_of_thread", (key,))):
        at = read_checkpoint(key, row)
        refs = {channel: _ref(key, ref, mask, counts) for channel, ref in at.values.items()}
        metadata, skeleton = _metadata(at.metadata, mask), _skeleton(at.skeleton, mask)
        before = [
            Written(one.task, one.path, [(i, channel, _ref(key, ref, mask, counts)) for i, channel, ref in one.items])
            for one in at.before
        ]
        if (refs, metadata, skeleton, before) != (at.values, at.metadata, at.skeleton, list(at.before)):
            put_checkpoint(db, key, *row[:8], body_of(skeleton, metadata, refs, before))
            counts["checkpoints"] += 1
    for row in list(db.run("all_written", (key,))):
        wrote = read_written(key, row[0], row[1], row[2:])
        items = [(index, channel, _ref(key, ref, mask, counts)) for index, channel, ref in wrote.items]
        if items != list(wrote.items):
            put_written(db, key, *row[:4], written_body(items))
            counts["checkpoint_writes"] += 1


def _value(kind: str, body: bytes, mask: Mask, counts: Counter[str]) -> tuple[str, bytes]:
    """A value as it may stay: the same, masked, or gone."""
    if "+" in kind:
        counts["unread"] += 1
        return kind, body
    if kind.startswith(CUT):
        pieces = msgspec.msgpack.decode(body, type=list[bytes | int])
        return (GONE, b"") if any(says(one, mask) for one in pieces if isinstance(one, bytes)) else (kind, body)
    try:
        made = masked_msgpack(body, mask) if kind == "msgpack" else masked_json(body, mask)
    except Unreadable:
        return (GONE, b"") if says(body, mask) else (kind, body)
    return kind, made


def _ref(key: bytes, ref: Ref, mask: Mask, counts: Counter[str]) -> Ref:
    if isinstance(ref, Inline) and ref.type not in OURS:
        kind, body = _value(ref.type, ref.body, mask, counts)
        return ref if (kind, body) == (ref.type, ref.body) else Inline(kind, body)
    if isinstance(ref, Cut):
        kind, _ = _value(CUT + ref.type, ENCODE(list(ref.pieces)), mask, counts)
        return Inline(GONE, b"") if kind == GONE else ref
    return ref


def _metadata(text: str, mask: Mask) -> str:
    try:
        return masked_json(text.encode(), mask, but=NAMES).decode()
    except Unreadable:
        return "{}"


def _skeleton(skeleton: bytes, mask: Mask) -> bytes:
    """Versions and times; the few texts that may stand beside them."""
    try:
        found = msgspec.msgpack.decode(skeleton)
        if isinstance(found, list):  # as LangGraph's serializer wrote it
            inner = masked_msgpack(found[1], mask, but=BONES)
            return skeleton if inner is found[1] else ENCODE([found[0], inner])
        return masked_msgpack(skeleton, mask, but=BONES)
    except (msgspec.MsgspecError, ValueError, TypeError):
        return skeleton
