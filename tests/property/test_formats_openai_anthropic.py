"""Whatever fields a chat dict or an Anthropic list has, it comes back equal; anything else is read or refused."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from novelo.errors import InvalidMessage
from novelo.formats import detect, normalize, read, write
from novelo.formats.anthropic import from_anthropic, to_anthropic
from novelo.formats.openai import from_openai, to_openai
from novelo.messages import decode, encode

SETTLED = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SAID = SETTLED.filter(str.strip)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | SETTLED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SETTLED, inner, max_size=3),
    max_leaves=6,
)
MORE = st.dictionaries(
    st.sampled_from(["cache_control", "annotations", "x", "index", "audio", "kind", "extra"]), VALUES, max_size=2
)


def record(more=MORE, **fields):
    """A dict of fields, with some that nobody knows."""
    return st.builds(lambda extra, known: {**extra, **known}, more, st.fixed_dictionaries(fields))


def either(*choices):
    """One of several strategies, each as likely."""
    return st.one_of(*choices)


# ------------------------------------------------------------------------------------------------ chat dicts
ARGUMENTS = st.dictionaries(SETTLED, VALUES, max_size=2).map(json.dumps) | SETTLED
CHAT_CALL = either(
    record(id=SAID, type=st.just("function"), function=record(name=SAID, arguments=ARGUMENTS)),
    record(id=SAID, type=st.just("custom"), custom=record(name=SAID, input=SETTLED)),
)
DATA_URL = st.sampled_from(["data:application/pdf;base64,AA==", "data:;base64,AA", "data:text/plain,x", "AA=="])
CHAT_PART = either(
    record(type=st.just("text"), text=SETTLED),
    record(type=st.just("refusal"), refusal=SETTLED),
    record(type=st.just("image_url"), image_url=record(url=SETTLED | DATA_URL)),
    record(type=st.just("image_url"), image_url=record(url=SETTLED, detail=st.sampled_from(["low", "high", "auto"]))),
    record(
        type=st.just("input_audio"), input_audio=record(data=SETTLED, format=st.sampled_from(["wav", "mp3", "flac"]))
    ),
    record(type=st.just("file"), file=record(file_data=DATA_URL, filename=SETTLED)),
    record(type=st.just("file"), file=record(file_id=SETTLED)),
    record(type=st.just("thinking"), thinking=SETTLED, signature=SETTLED),
    record(type=st.just("redacted_thinking"), data=SETTLED),
    record(type=st.just("reasoning"), text=SETTLED),
    record(type=st.just("tool_use"), id=SAID, name=SAID, input=st.dictionaries(SETTLED, VALUES, max_size=2)),
    record(type=VALUES),
)
CONTENT = SETTLED | st.lists(CHAT_PART, max_size=3)
CHAT = either(
    record(role=st.sampled_from(["system", "developer", "user"]), content=CONTENT),
    record(role=st.just("user"), content=CONTENT, name=SETTLED),
    record(role=st.just("assistant"), content=CONTENT | st.none()),
    record(
        role=st.just("assistant"), content=CONTENT | st.none(), tool_calls=st.lists(CHAT_CALL, max_size=2) | st.none()
    ),
    record(role=st.just("assistant"), tool_calls=st.lists(CHAT_CALL, min_size=1, max_size=2)),
    record(role=st.just("assistant"), content=st.none(), refusal=SETTLED | st.none()),
    record(role=st.just("assistant"), content=st.none(), function_call=record(name=SAID, arguments=ARGUMENTS)),
    record(role=st.just("tool"), content=CONTENT, tool_call_id=SAID),
    record(role=st.just("function"), content=SETTLED, name=SAID),
)


@given(CHAT)
def test_chat_dicts_come_back_equal(message):
    """A chat dict with unknown fields at any level comes back equal, stored or not."""
    copy = json.loads(json.dumps(message))
    read_in = from_openai(message)
    assert to_openai(read_in) == copy
    assert to_openai(decode(encode(read_in))) == copy
    assert message == copy
    assert normalize(read_in) is read_in


# ------------------------------------------------------------------------------------------------ Anthropic
SOURCE = either(
    record(type=st.just("base64"), media_type=st.sampled_from(["image/png", "application/pdf"]), data=SETTLED),
    record(type=st.just("url"), url=st.just("https://example.org/a")),
    record(type=st.just("file"), file_id=SAID),
    record(type=st.just("text"), media_type=st.just("text/plain"), data=SETTLED),
    record(type=st.just("content"), content=VALUES),
)
BLOCK = either(
    record(type=st.just("text"), text=SAID),
    record(type=st.just("image"), source=SOURCE),
    record(type=st.just("document"), source=SOURCE),
    record(type=st.just("document"), source=SOURCE, title=SETTLED | st.none()),
    record(type=st.just("search_result"), source=SETTLED, title=SETTLED, content=VALUES),
)
LEGAL_ID = st.text("abcXYZ019_-", min_size=1, max_size=8)
RESULT = either(
    record(type=st.just("tool_result"), tool_use_id=LEGAL_ID),
    record(type=st.just("tool_result"), tool_use_id=LEGAL_ID, content=SETTLED | st.lists(BLOCK, max_size=2)),
    record(type=st.just("tool_result"), tool_use_id=LEGAL_ID, content=SETTLED, is_error=st.booleans()),
)
SAYING = either(
    record(type=st.just("text"), text=SAID, citations=VALUES),
    record(type=st.just("thinking"), thinking=SETTLED, signature=SETTLED),
    record(type=st.just("redacted_thinking"), data=SETTLED),
    record(type=st.just("tool_use"), id=LEGAL_ID, name=SAID, input=st.dictionaries(SETTLED, VALUES, max_size=3)),
    record(type=st.just("server_tool_use"), id=LEGAL_ID, name=SAID, input=VALUES),
)
ASKING = st.builds(lambda results, blocks: results + blocks, st.lists(RESULT, max_size=2), st.lists(BLOCK, max_size=2))
ANTHROPIC = st.lists(
    either(
        record(role=st.sampled_from(["user", "assistant"]), content=SAID),
        record(role=st.just("user"), content=ASKING),
        record(role=st.just("assistant"), content=st.lists(SAYING, min_size=1, max_size=4)),
    ),
    max_size=5,
)
SYSTEM = st.none() | SETTLED | st.lists(record(type=st.just("text"), text=SAID), min_size=1, max_size=2)


@given(ANTHROPIC, SYSTEM)
def test_anthropic_lists_come_back_equal(messages, system):
    """A list with blocks in any order, unknown fields and neighbours of one side comes back equal, stored or not."""
    copy = json.loads(json.dumps([system, messages]))
    read_in = from_anthropic(messages, system)
    assert list(to_anthropic(read_in)) == copy
    assert list(to_anthropic([decode(encode(m)) for m in read_in])) == copy
    assert [system, messages] == copy


@given(st.lists(CHAT, max_size=5))
def test_chat_dicts_become_what_anthropic_takes(messages):
    """Whatever chat dicts say, the Anthropic list has no blank text, no neighbours of one side, only legal blocks."""
    written = to_anthropic(read(messages, "openai"))
    roles = [m["role"] for m in written.messages]
    assert all(a != b for a, b in pairwise(roles))
    for message in written.messages:
        content = message["content"]
        assert content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        assert set(kinds) <= {"text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"}
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        assert message.keys() == {"role", "content"}
    json.dumps(written)
    for form in ("gemini", "mistral"):
        json.dumps(write(read(messages, "openai"), form))


@given(ANTHROPIC, SYSTEM)
def test_anthropic_lists_become_chat_dicts(messages, system):
    """Whatever an Anthropic list says, chat dicts show nothing of its own: no notes, no extras, no unknown blocks."""
    for chat in write(from_anthropic(messages, system), "openai"):
        assert chat.keys() <= {"role", "content", "tool_calls", "tool_call_id"}
        if isinstance(chat["content"], list):
            assert {block["type"] for block in chat["content"]} <= {"text", "image_url", "file"}
            assert all(len(block) == 2 for block in chat["content"])
        for call in chat.get("tool_calls", ()):
            assert call.keys() == {"id", "type", "function"}


ANY = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3) | st.just(object()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["role", "content", "type", "tool_calls", "name", "id", "text", "function", "source", "input"])
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "function", "developer"])
MESSY = st.dictionaries(KEYS, ANY | st.lists(st.dictionaries(KEYS, ANY, max_size=4), max_size=2), max_size=4)
MESSAGE = st.builds(lambda role, rest: {"role": role, **rest}, ROLES, MESSY)


@given(st.lists(ANY | MESSY | MESSAGE, max_size=3))
def test_anything_is_read_or_refused(messages):
    """Anything at all is read, or refused by our own error; never another one."""
    detect(messages)
    for form in ("openai", "anthropic"):
        try:
            read_in = [normalize(m) for m in read(messages, form)]
        except InvalidMessage:
            continue
        for wanted in ("openai", "anthropic", "gemini", "mistral"):
            write(read_in, wanted)
