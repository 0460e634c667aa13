"""Checkpoints come back from their packed form as they were, and ids keep their order."""

from __future__ import annotations

import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo.errors import StorageCorrupt
from novelo.stores.checkpoints import Cut, Inline, Kept, LongList, Places, Written
from novelo.stores.tables import checkpoint_packing as packing
from novelo.stores.tables.checkpoint_packing import body_of, coded, decoded, items_of, parts_of, written_body

NUMBERS = st.integers(0, 2**40)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
REFS = st.one_of(
    st.builds(Inline, st.sampled_from(["msgpack", "null", "bytes", "gone", "msgpack+aes"]), st.binary(max_size=60)),
    st.builds(Kept, NUMBERS),
    st.builds(Places, st.integers(0, 2), st.lists(NUMBERS, max_size=6).map(tuple)),
    st.builds(LongList, st.integers(0, 2), NUMBERS),
    st.builds(Cut, TEXTS, st.binary(max_size=16), st.lists(st.binary(max_size=9) | NUMBERS, max_size=4).map(tuple)),
)
ITEMS = st.lists(st.tuples(st.integers(-4, 9), TEXTS, REFS), max_size=3)
UUIDS = st.uuids().map(str)
ODD = st.text("ab\0\xff", min_size=14, max_size=18)  # as long as a UUID's bytes
IDS = st.one_of(UUIDS, UUIDS.map(str.upper), TEXTS, ODD)


@given(st.binary(max_size=200), TEXTS, st.dictionaries(TEXTS, REFS, max_size=4), st.lists(st.tuples(IDS, TEXTS, ITEMS)))
def test_a_checkpoint_comes_back(skeleton, metadata, refs, before):
    """All parts of a checkpoint come back equal, whatever they hold."""
    written = [Written(*one) for one in before]
    assert parts_of("one", b"k", body_of(skeleton, metadata, refs, written)) == (skeleton, metadata, refs, written)


@given(ITEMS)
def test_what_a_task_wrote_comes_back(items):
    """The row of a task likewise."""
    assert items_of("one", b"k", written_body(items)) == items


@given(IDS, IDS)
def test_ids_come_back_each_its_own(one, other):
    """An id comes back as it was, and no two become the same."""
    assert decoded(coded(one)) == one
    assert (coded(one) == coded(other)) == (one == other)


@given(UUIDS, UUIDS)
def test_ids_keep_their_order(one, other):
    """Ids as LangGraph makes them sort as bytes as they do as texts."""
    assert (coded(one) < coded(other)) == (one < other)
    assert len(coded(one)) == 16


@given(st.binary(max_size=80))
def test_what_is_none_of_ours_is_an_error(data):
    """Bytes that nobody packed are `StorageCorrupt`, never another checkpoint."""
    try:
        parts_of("one", b"k", b"\1" + data)
    except StorageCorrupt:
        return
    assert data  # by chance it is one


def test_a_usual_checkpoint_is_small():
    """Of a checkpoint as an agent makes them some 140 bytes are left."""
    channels = {"__start__": 1012, "messages": 1013, "branch:to:model": 1013, "__pregel_tasks": 1004}
    seen = {"__input__": {}, "__start__": {"__start__": 1012}, "model": {"branch:to:model": 1010}, "tools": {}}
    skeleton = msgspec.msgpack.encode(
        {"v": 4, "ts": "2026-05-04T12:33:08.123456+00:00", "channel_versions": channels, "versions_seen": seen,
         "updated_channels": ["branch:to:model", "messages"]}
    )  # fmt: skip
    refs = {"messages": Places(0, (0, 2000)), "branch:to:model": Inline("null", b"")}
    task = Written(str(uuid.UUID(int=2**127 + 12345)), "~__pregel_pull, model", [(0, "messages", Places(0, (1999, 1)))])
    metadata = '{"source":"loop","step":1011,"parents":{},"ls_integration":"langchain_create_agent"}'
    assert len(body_of(skeleton, metadata, refs, [task])) < 150


def test_a_bomb_is_refused(monkeypatch):
    """A body that would unpack to more than anything we write is an error."""
    monkeypatch.setattr(packing, "MOST_BYTES", 500)
    with pytest.raises(StorageCorrupt):
        parts_of("one", b"k", body_of(b"x" * 501, "", {}))
