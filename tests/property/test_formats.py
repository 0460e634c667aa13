"""What was read from a form and is written in it comes out equal, whatever further fields it has."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo import formats
from novelo.formats.anthropic import from_anthropic, legal_call_id, to_anthropic
from novelo.formats.openai import from_openai, to_openai
from novelo.messages import decode, encode

texts = st.text(st.characters(codec="utf-8"), max_size=12)
words = st.text("abcdefghijklmnopqrstuvwxyz_0123456789-", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=3,
)
# further fields never take a name that means something, and never the one name that is ours alone
unknown = st.dictionaries(st.text("xyz", min_size=1, max_size=3).map("x_".__add__), values, max_size=2)
arguments = st.dictionaries(texts, values, max_size=3)


def block(kind, required, optional=None):
    """A content block with some of its optional fields and some that nobody knows."""
    fixed = st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional or {})
    return st.builds(lambda own, more: {**more, **own}, fixed, unknown)


def nested(required, optional=None):
    """An object inside a block."""
    return st.builds(
        lambda own, more: {**more, **own}, st.fixed_dictionaries(required, optional=optional or {}), unknown
    )


def stored(messages):
    """Messages after a way through the store."""
    return [decode(encode(m)) for m in messages]


# ---------------------------------------------------------------------------------------------- OpenAI chat dicts
address = words.map("https://example.org/".__add__) | words.map("data:image/png;base64,".__add__)
chat_parts = st.one_of(
    block("text", {"text": texts}),
    block("refusal", {"refusal": texts}),
    block("image_url", {"image_url": nested({"url": address}, {"detail": st.sampled_from(["low", "high", "auto"])})}),
    block("input_audio", {"input_audio": nested({"data": words, "format": st.sampled_from(["wav", "mp3", "flac"])})}),
    block("file", {"file": nested({"file_id": words})}),
    block(
        "file", {"file": nested({"file_data": words.map("data:application/pdf;base64,".__add__), "filename": words})}
    ),
    block("thinking", {"thinking": texts, "signature": words}),
    block("redacted_thinking", {"data": words}),
    block("reasoning", {"text": texts}),
    block("tool_use", {"id": words, "name": words, "input": arguments}),
    block("never_heard_of", {"value": values}),
    texts,
)
chat_content = st.none() | texts | st.lists(chat_parts, max_size=4)
chat_calls = st.lists(
    block(
        "function",
        {"id": texts, "function": nested({"name": texts, "arguments": arguments.map(json.dumps) | texts})},
    )
    | block("custom", {"id": texts, "custom": nested({"name": words, "input": texts})}),
    max_size=3,
)
chat_dicts = st.builds(
    lambda own, more: {**more, **own},
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "system", "developer"]), "content": chat_content},
            optional={"name": texts, "id": texts},
        ),
        st.fixed_dictionaries(
            {"role": st.just("assistant")},
            optional={
                "content": chat_content,
                "tool_calls": st.none() | chat_calls,
                "name": texts,
                "refusal": st.none() | texts,
                "audio": st.none() | nested({"id": words}),
                "annotations": st.just([]),
                "reasoning_content": texts,
                "function_call": st.none() | nested({"name": words, "arguments": texts}),
            },
        ),
        st.fixed_dictionaries({"role": st.just("tool"), "content": chat_content, "tool_call_id": texts}),
        st.fixed_dictionaries({"role": st.just("function"), "content": chat_content, "name": words}),
    ),
    unknown,
)


@given(chat_dicts)
def test_a_chat_dict_comes_back_equal(given_dict):
    """Reading and writing a chat dict gives the same dict, also after a way through the store."""
    before = json.dumps(given_dict)
    message = from_openai(given_dict)
    assert to_openai(message) == given_dict
    assert to_openai(decode(encode(message))) == given_dict
    assert json.dumps(given_dict) == before


@given(chat_dicts)
def test_a_chat_dict_is_a_legal_anthropic_message(given_dict):
    """Written for Anthropic, any chat dict has only blocks and fields that Anthropic knows."""
    known = {"text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"}
    for message in to_anthropic([from_openai(given_dict)]).messages:
        assert message.keys() == {"role", "content"}
        assert message["role"] in ("user", "assistant")
        for part in message["content"] if isinstance(message["content"], list) else ():
            assert part["type"] in known
            assert not [name for name in part if name.startswith("x_")]
            if part["type"] == "tool_use":
                assert legal_call_id(part["id"]) == part["id"]
                assert isinstance(part["input"], dict)


# ---------------------------------------------------------------------------------------------- Anthropic messages
cached = {"cache_control": st.just({"type": "ephemeral"}) | st.just({"type": "ephemeral", "ttl": "1h"}) | st.none()}
visible = texts.filter(str.strip)
sources = st.one_of(
    st.fixed_dictionaries({"type": st.just("base64"), "media_type": st.just("image/png"), "data": words}),
    st.fixed_dictionaries({"type": st.just("url"), "url": words.map("https://example.org/".__add__)}),
    st.fixed_dictionaries({"type": st.just("file"), "file_id": words}),
    st.fixed_dictionaries({"type": st.just("content"), "content": visible}),
)
plain_source = st.fixed_dictionaries({"type": st.just("text"), "media_type": st.just("text/plain"), "data": visible})
said_blocks = st.one_of(
    block("text", {"text": visible}, {**cached, "citations": st.none() | st.lists(unknown, max_size=1)}),
    block("image", {"source": sources}, cached),
    block("document", {"source": sources | plain_source}, {**cached, "title": texts, "context": texts}),
    block("search_result", {"source": words, "title": texts, "content": st.lists(unknown, max_size=1)}),
)
result_blocks = block(
    "tool_result",
    {"tool_use_id": words},
    {**cached, "content": texts | st.lists(said_blocks, max_size=3), "is_error": st.booleans()},
)
answer_blocks = st.one_of(
    block("text", {"text": visible}, cached),
    block("thinking", {"thinking": texts, "signature": words}),
    block("redacted_thinking", {"data": words}),
    block("tool_use", {"id": words, "name": words, "input": arguments}, cached),
    block("server_tool_use", {"id": words, "name": words, "input": arguments}, cached),
    block("web_search_tool_result", {"tool_use_id": words, "content": st.lists(unknown, max_size=1)}),
)
anthropic_messages = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "role": st.just("user"),
                # results open a turn, or the provider refuses it
                "content": visible
                | st.lists(result_blocks, max_size=2)
                .flatmap(lambda results: st.lists(said_blocks, max_size=3).map(results.__add__))
                .filter(bool),
            }
        ),
        st.fixed_dictionaries(
            {"role": st.just("assistant"), "content": visible | st.lists(answer_blocks, min_size=1, max_size=5)}
        ),
    ),
    max_size=6,
)
systems = st.none() | visible | st.lists(block("text", {"text": visible}, cached), min_size=1, max_size=3)


@given(anthropic_messages, systems)
def test_anthropic_messages_come_back_equal(messages, system):
    """Reading and writing a list with its system prompt gives the same pair, also after a way through the store."""
    before = json.dumps([system, messages])
    read = from_anthropic(messages, system)
    assert to_anthropic(read) == (system, messages)
    assert to_anthropic(stored(read)) == (system, messages)
    assert json.dumps([system, messages]) == before


@given(anthropic_messages, systems)
def test_anthropic_messages_are_legal_chat_dicts(messages, system):
    """Written as chat dicts, nothing of Anthropic's own is left: no cache marks, no thoughts, no unknown blocks."""
    written = formats.write(from_anthropic(messages, system), "openai")
    legal = {"role", "content", "tool_calls", "tool_call_id", "name"}
    for message in written:
        assert message.keys() <= legal
        assert message["role"] in ("system", "user", "assistant", "tool")
        assert "tool_call_id" in message if message["role"] == "tool" else "tool_call_id" not in message
        for part in message["content"] if isinstance(message["content"], list) else ():
            assert part["type"] in ("text", "image_url", "file")
            assert part.keys() == {"type", part["type"]}
        for call in message.get("tool_calls", ()):
            assert call.keys() == {"id", "type", "function"}
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


@given(st.lists(st.text(max_size=10), max_size=8))
def test_call_ids_become_legal_and_stay_apart(ids):
    """Every id is legal afterwards, a legal one is unchanged, and two that were apart stay apart."""
    legal = {i: legal_call_id(i) for i in ids}
    assert len(set(legal.values())) == len(set(ids))
    assert all(legal_call_id(i) == i and i and i.isascii() for i in legal.values())


@given(st.lists(chat_dicts, max_size=5))
def test_normalizing_twice_changes_nothing(dicts):
    """A message that can be stored is given back as it is."""
    for given_dict in dicts:
        message = from_openai(given_dict)
        assert formats.normalize(message) is message


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=5))
def test_any_text_can_be_stored(text, name):
    """Whatever a text holds, what is stored is UTF-8, and only halves of pairs were replaced."""
    given_dict = {"role": "user", "content": [{"type": "text", "text": text, "x_more": {text: [text]}}], "name": name}
    kept = formats.normalize(from_openai(given_dict))
    assert decode(encode(kept)) == kept
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert kept.text == whole
    assert ("normalized" in kept.meta) == any("\ud800" <= c <= "\udfff" for c in text + name)


# ---------------------------------------------------------------------------------------------- recorded requests
def recorded(shared, dialect):
    """Bodies that real servers answered."""
    path = shared / "data" / "wire_requests.jsonl.gz"
    if not path.is_file():
        pytest.skip("needs ../shared/data/wire_requests.jsonl.gz, which is not here")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [r["body"] for r in records if r["dialect"] == dialect]


@pytest.mark.shared
def test_recorded_chat_requests_come_back_equal(shared):
    """Every recorded list of chat dicts is recognised, and comes back equal."""
    bodies = recorded(shared, "openai-chat")
    assert len(bodies) > 50
    for body in bodies:
        assert formats.detect(body["messages"]) == "openai"
        assert formats.write(stored(formats.read(body["messages"])), "openai") == body["messages"]


@pytest.mark.shared
def test_recorded_anthropic_requests_come_back_equal(shared):
    """Every recorded Anthropic body comes back equal, with its system prompt."""
    bodies = recorded(shared, "anthropic")
    assert len(bodies) > 50
    for body in bodies:
        wanted = (body.get("system"), body["messages"])
        assert to_anthropic(stored(from_anthropic(body["messages"], body.get("system")))) == wanted
