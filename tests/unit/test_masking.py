"""Masks inside of data: every text is reached however deep it lies, and nothing else changes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo.masking import Unreadable, masked, masked_json, masked_msgpack, says

texts = st.text(max_size=8) | st.sampled_from(["canary", "a canary b", "cana", "ry"])
plain = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | texts
data = st.recursive(plain, lambda d: st.lists(d, max_size=3) | st.dictionaries(texts, d, max_size=3), max_leaves=12)


def mask(text):
    """Takes one word out."""
    return text.replace("canary", "*")


@given(data)
def test_no_word_is_left_and_nothing_else_changes(value):
    """In JSON and MessagePack; what holds no match comes back as the same bytes."""
    for pack, unpack, change in (
        (msgspec.json.encode, msgspec.json.decode, masked_json),
        (msgspec.msgpack.encode, msgspec.msgpack.decode, masked_msgpack),
    ):
        packed = pack(value)
        made = change(packed, mask)
        assert b"canary" not in made and unpack(made) == masked(unpack(packed), mask)
        assert (made is packed) == (b"canary" not in packed)
        assert change(made, mask) is made


def test_objects_of_graphs_are_looked_into():
    """MessagePack inside of MessagePack: fields are masked, the names of modules and classes stay."""
    inner = msgspec.msgpack.encode(["canary.module", "canary", {"content": "a canary", "n": [b"canary", 7]}, "kwargs"])
    packed = msgspec.msgpack.encode({"messages": [msgspec.msgpack.Ext(5, inner)]})
    (found,) = msgspec.msgpack.decode(masked_msgpack(packed, mask))["messages"]
    assert msgspec.msgpack.decode(found.data) == [
        "canary.module", "canary", {"content": "a *", "n": [b"*", 7]}, "kwargs",
    ]  # fmt: skip


def test_numbers_and_keys():
    """A number may be what is looked for; keys are masked too, but where they are names."""
    digits = lambda text: text.replace("4111", "*")  # noqa: E731
    assert masked({"4111": 41112, "x": True}, digits) == {"*": "*2", "x": True}
    assert masked({"4111": "4111"}, digits, keys=False) == {"4111": "*"}
    assert (
        masked_json(b'{"source":"4111","x":"4111"}', digits, but=frozenset(["source"])) == b'{"source":"4111","x":"*"}'
    )


def test_what_cannot_be_read():
    """Broken bytes and endless nesting are told; whether bytes say something can be asked of all."""
    for change in (masked_json, masked_msgpack):
        with pytest.raises(Unreadable):
            change(b"\xc1", mask)
    deep = b"[" * 300 + b"]" * 300
    with pytest.raises(Unreadable):
        masked_json(deep, mask)
    assert says(b"\xff a canary \xfe", mask) and not says(b"\xff", mask)
    assert says(b'{"x": "c\\u0061nary"}', mask)
