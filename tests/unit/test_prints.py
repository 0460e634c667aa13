"""Fingerprints of what a pattern masked: they find it again wherever it stands, and only it, and tell nothing of it."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from novelo.errors import InvalidSpec, StorageCorrupt
from novelo.masking import masked_message
from novelo.messages import Message, Reasoning, Text, ToolCall
from novelo.pattern import MASK, SHORT, Pattern, Piece, remembering
from novelo.stores.vaults.prints import Prints, fingerprints

KEY = b"a key of 32 bytes, or thereabout"
letters = st.text("abß木\U0001f600\0 ", max_size=40)
words = st.text("abß木", min_size=SHORT, max_size=9)
anything = st.text(st.characters(), max_size=60)


def prints(found, key=KEY):
    """A mask over what was found."""
    return Prints(fingerprints(found, key), key)


@given(letters, words)
def test_a_text_is_masked_as_replace_does(text, word):
    """Of one text that does not reach into itself the mask is `str.replace`, to the character."""
    assume(not any(word.startswith(word[n:]) for n in range(1, len(word))))
    assert prints([Piece(word)])(text) == text.replace(word, MASK)


@given(letters, st.lists(words, min_size=1, max_size=4))
def test_nothing_of_several_texts_is_left(text, found):
    """Texts that overlap are masked together: what no window reaches stays, in its order, and all else is gone."""
    inside = [False] * len(text)
    for word in found:
        for at in range(len(text) - len(word) + 1):
            if text.startswith(word, at):
                inside[at : at + len(word)] = [True] * len(word)
    made = prints(map(Piece, found))(text)
    assert made.replace(MASK, "") == "".join(c for c, gone in zip(text, inside, strict=True) if not gone)
    assert (made is text) == (True not in inside)


@given(anything, st.sampled_from([r"a", r"\d\d", r"(?<=x)..", r"\w+", r"[a-z]{2,6}\b", r"(?s).{5}", r"^.", r".$"]))
def test_what_was_masked_in_a_text_is_masked_in_it_again(text, pattern):
    """Whatever a pattern looked at around a match: of the same text no more is left than the first time."""
    mask = Pattern(pattern)
    left = iter(mask(text).replace(MASK, ""))
    assert all(c in left for c in prints(mask.found)(text).replace(MASK, ""))


@pytest.mark.parametrize(
    ("pattern", "text", "other"),
    [
        (r"(?<=PIN )\d\d", "my PIN 42, not 42", "42 of 1942"),
        (r"\bAna\b", "Ana and Mariana", "Mariana"),
        (r"^\d$", "4", "14 or 4"),
        (r"x", "axb x", "taxbid"),
    ],
)
def test_short_texts_are_found_where_they_stood(pattern, text, other):
    """Below four characters the neighbourhood counts, and the ends of the text: no word is torn that only looks so."""
    mask = Pattern(pattern)
    first = mask(text)
    again = prints(mask.found)
    assert again(text) == first != text
    assert again(other) is other


def test_many_short_texts_beside_each_other():
    """Each digit by itself, as some patterns are written: masked as the first time."""
    mask = Pattern(r"\d")
    first = mask("CPF 123.456.789-00")
    assert prints(mask.found)("CPF 123.456.789-00") == first


def test_another_key_finds_nothing_and_bytes_tell_nothing():
    """Fingerprints of the same texts under two keys have nothing in common but lengths; the texts are not in them."""
    found = [Piece("maria silva"), Piece("123.456.789-00")]
    one, other = (msgspec.msgpack.decode(fingerprints(found, key)) for key in (KEY, KEY[::-1]))
    assert [p[:2] for p in one] == [p[:2] for p in other] == [[11, 0], [14, 0]]
    assert not {p[2] for p in one} & {p[2] for p in other} and {p[3] for p in one} != {p[3] for p in other}
    assert Prints(fingerprints(found, KEY), KEY[::-1])("it is maria silva") == "it is maria silva"
    assert b"maria" not in fingerprints(found, KEY) and fingerprints(found[::-1], KEY) == fingerprints(found, KEY)


def test_an_altered_note():
    """What is no list of fingerprints is told, and masks nothing silently."""
    for packed in (b"", b"\xc1", msgspec.msgpack.encode([[0, 0, b"", 1]]), fingerprints([Piece("maria")], KEY)[:-1]):
        with pytest.raises(StorageCorrupt, match="altered"):
            Prints(packed, KEY)


def test_a_mask_that_does_not_tell():
    """Of any other mask the whole text is remembered: the same text is masked, and no longer one that holds it."""
    mask = remembering(lambda text: text.replace("maria", "-"))
    assert mask("it is maria") == "it is -" and mask("nobody") == "nobody" and remembering(mask) is mask
    again = prints(mask.found)
    assert again("it is maria") == MASK and again("so it is maria") == "so it is maria"


def test_patterns():
    """A compiled pattern keeps its flags; the error of one that is none does not repeat it."""
    assert Pattern(re.compile("maria", re.IGNORECASE))("MARIA") == MASK
    with pytest.raises(InvalidSpec) as told:
        Pattern("(maria")
    assert "maria" not in str(told.value) and told.value.__cause__ is None
    with pytest.raises(InvalidSpec, match="bytes"):
        Pattern(re.compile(b"maria"))


def test_messages():
    """All texts of a message: parts, reasoning, names, arguments with JSON's escapes, and what a provider added."""
    mask = Pattern("não 4111")
    message = Message(
        "assistant", (Text(text="a não 4111"), Reasoning(text="não 4111?")), (
            ToolCall("c1", "pay", r'{"card": "n\u00e3o 4111", "n": 1}', extra={"raw": "não 4111"}),
            ToolCall("c2", "pay", "no JSON não 4111"), ToolCall("c3", "pay", '{"n": 2}'),
        ), name="não 4111", id="m1", extra={"não 4111": 1}, meta={"x": ["não 4111"]},
    )  # fmt: skip
    made = masked_message(message, mask)
    assert "4111" not in str(msgspec.to_builtins(made))
    assert made.id == "m1" and made.tool_calls[0].arguments == '{"card":"[redacted]","n":1}'
    assert made.tool_calls[1].arguments == "no JSON [redacted]" and made.tool_calls[2] is message.tool_calls[2]
    assert masked_message(made, mask) is made
    across = Message("assistant", None, (ToolCall("c", "pay", '{"card":"4111"}'),))
    assert masked_message(across, Pattern('"card":"4111"')).tool_calls[0].arguments == "{}"
