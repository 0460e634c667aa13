"""LangChain's objects: equal after a way through our messages, and readable for every other provider."""

import json

import pytest

from novelo import formats
from novelo.errors import InvalidMessage
from novelo.formats.anthropic import from_anthropic, to_anthropic
from novelo.formats.openai import from_openai, hidden_calls, to_openai
from novelo.messages import Message, ToolCall, Usage, decode, encode

messages = pytest.importorskip("langchain_core.messages")
from novelo.formats.langchain import from_langchain, to_langchain  # noqa: E402

Human, AI, System, Tool = messages.HumanMessage, messages.AIMessage, messages.SystemMessage, messages.ToolMessage

USAGE = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_token_details": {"cache_read": 4, "cache_creation": 3, "audio": 1},
    "output_token_details": {"reasoning": 2},
}
CALL = {"name": "f", "args": {"a": [1, "é", None]}, "id": "c"}
V1_MEDIA = [
    {"type": "image", "url": "https://example.org/x"},
    {"type": "image", "base64": "AA==", "mime_type": "image/png", "id": "b1"},
    {"type": "audio", "base64": "AA==", "mime_type": "audio/wav"},
    {"type": "file", "base64": "AA==", "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
    {"type": "video", "url": "https://example.org/v"},
    {"type": "text-plain", "text": "x", "mime_type": "text/plain"},
]
OLD_MEDIA = [
    {"type": "image", "source_type": "base64", "data": "AA==", "mime_type": "image/png"},
    {"type": "image", "source_type": "url", "url": "https://example.org/x"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
    {"type": "image_url", "image_url": {"url": "https://example.org/x", "detail": "low"}},
    {"type": "image_url", "image_url": "https://example.org/x"},
    "a plain text",
]
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
    {"type": "text", "text": "a", "annotations": []},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": json.dumps(CALL["args"]), "id": "fc_1"},
]
BROKEN = {"name": "f", "args": "{x", "id": "c", "error": "bad"}
NOTHING = {"name": None, "args": None, "id": None, "error": None}
RAW = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": CALL["args"]}
SIGNED = {"type": "thinking", "thinking": "t", "signature": "s"}
TEXT = {"type": "text", "text": "a"}
V1 = [{"type": "reasoning", "reasoning": "r"}, TEXT, {"type": "tool_call", **CALL}]
CASES = {
    "human": Human("hi"),
    "human with id and name": Human("hi", id="1", name="Ana"),
    "human with further fields": Human("hi", additional_kwargs={"x": {"y": 1}}, example=True),
    "human with media of version 1": Human(V1_MEDIA),
    "human with older media": Human(OLD_MEDIA),
    "human without content": Human([]),
    "system": System("s"),
    "developer": System("s", additional_kwargs={"__openai_role__": "developer"}),
    "ai with usage": AI("x", usage_metadata=USAGE, response_metadata={"model_name": "m", "logprobs": None}),
    "ai with calls": AI("", tool_calls=[CALL, {"name": "g", "args": {}, "id": None}]),
    "ai with a call that is no JSON": AI("", invalid_tool_calls=[BROKEN]),
    "ai with an empty invalid call": AI("", invalid_tool_calls=[NOTHING]),
    "ai with both": AI("t", tool_calls=[CALL], invalid_tool_calls=[{**BROKEN, "id": "d", "args": ""}]),
    "ai of Anthropic": AI([TEXT, USE], tool_calls=[CALL]),
    "ai with thoughts": AI([SIGNED, {"type": "redacted_thinking", "data": "d"}]),
    "ai of Responses": AI(ITEMS, tool_calls=[CALL]),
    "ai of version 1": AI(content_blocks=V1, response_metadata={"output_version": "v1"}),
    "ai with raw calls": AI("", additional_kwargs=RAW),
    "ai with raw calls that are none": AI("", additional_kwargs={"tool_calls": "junk"}),
    "ai with nothing": AI([]),
    "tool": Tool("r", tool_call_id="c"),
    "tool that failed": Tool("r", tool_call_id="c", status="error", name="f"),
    "tool with blocks": Tool([TEXT, "b"], tool_call_id="c", artifact={"rows": [1]}),
    "function": messages.FunctionMessage("x", name="f"),
    "chat": messages.ChatMessage("x", role="user"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_message_comes_back_equal(name):
    """A LangChain message is equal after reading and writing, also with the store in between."""
    given_message = CASES[name]
    before = given_message.model_dump_json()
    message = from_langchain(given_message)
    assert to_langchain(message) == given_message
    assert to_langchain(decode(encode(message))) == given_message
    assert given_message.model_dump_json() == before


@pytest.mark.parametrize("name", CASES)
def test_a_message_can_be_sent_to_others(name):
    """Written as a chat dict or for Anthropic it has nothing of LangChain's, and no call is hidden in its content."""
    message = from_langchain(CASES[name])
    assert not hidden_calls(message)
    written = to_openai(message)
    assert written.keys() <= {"role", "content", "tool_calls", "tool_call_id", "name"}
    for part in written["content"] if isinstance(written["content"], list) else ():
        assert part["type"] in ("text", "image_url", "input_audio", "file")
        assert part.keys() == {"type", part["type"]}
    for turn in to_anthropic([message]).messages:
        assert turn.keys() == {"role", "content"}


def test_usage_is_read_with_its_details():
    """Cached and reasoning tokens of LangChain's usage are ours too."""
    usage = from_langchain(AI("x", usage_metadata=USAGE)).usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning) == (10, 5, 4, 3, 2)
    told = to_langchain(Message("assistant", "x", usage=Usage(10, 5, cache_read=4))).usage_metadata
    assert told == {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_token_details": {"cache_read": 4},
    }


def test_what_we_made_says_so():
    """A made result is told in LangChain's way: an error, and its source."""
    made = to_langchain(Message("tool", "[nothing]", tool_call_id="c", meta={"made": "no result", "status": "error"}))
    assert made == Tool("[nothing]", tool_call_id="c", status="error", additional_kwargs={"lc_source": "novelo"})


def test_an_object_as_artifact_lives_in_memory_only():
    """An artifact that is no data comes back as the same object, and leaves a note of its class when it is stored."""

    class Rows:
        """Something no JSON can hold."""

    rows = Rows()
    message = from_langchain(Tool("r", tool_call_id="c", artifact=rows))
    assert to_langchain(message).artifact is rows
    kept = decode(encode(formats.normalize(message)))
    assert to_langchain(kept) == Tool("r", tool_call_id="c", artifact={"not_stored": "Rows"})
    assert kept.meta["normalized"] is True


def test_a_call_that_is_gone_does_not_come_back():
    """Where a policy took the calls away, neither a content block nor LangChain's raw calls bring them back."""
    for name in ("ai of Anthropic", "ai of Responses", "ai of version 1", "ai with raw calls"):
        message = from_langchain(CASES[name])
        said = Message("assistant", message.content or "gone", (), extra=message.extra, meta=message.meta)
        written = to_langchain(said)
        assert written.tool_calls == []
        kinds = [b["type"] for b in written.content] if isinstance(written.content, list) else []
        assert not {"tool_use", "function_call", "tool_call"} & set(kinds)


def test_a_mended_call_is_a_call():
    """An invalid call whose arguments were mended is written as a call."""
    message = from_langchain(CASES["ai with a call that is no JSON"])
    (call,) = message.tool_calls
    mended = ToolCall(call.id, call.name, '{"q": "{x"}', call.extra)
    written = to_langchain(Message("assistant", None, (mended,), meta=message.meta))
    assert [(c["name"], c["args"], c["id"]) for c in written.tool_calls] == [("f", {"q": "{x"}, "c")]
    assert written.invalid_tool_calls == []


def test_broken_arguments_from_elsewhere_are_an_invalid_call():
    """Arguments that are no JSON object cannot be a LangChain call: they are an invalid one, as they are."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{x"}}
    written = to_langchain(from_openai({"role": "assistant", "content": None, "tool_calls": [call]}))
    assert [(c["id"], c["name"], c["args"]) for c in written.invalid_tool_calls] == [("c", "f", "{x")]


def test_media_and_thoughts_of_others_are_translated():
    """Pictures come as blocks that integrations read, signed thoughts as Anthropic's, unsigned ones not at all."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    asked = [picture, {**TEXT, "cache_control": {"type": "ephemeral"}}]
    given_messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": [SIGNED, TEXT]}]
    human, ai = map(to_langchain, from_anthropic(given_messages))
    assert human.content == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}, TEXT]
    assert ai.content == [SIGNED, TEXT]
    unsigned = from_openai({"role": "assistant", "content": [{"type": "reasoning", "text": "t"}, TEXT]})
    assert to_langchain(unsigned).content == [TEXT]


@pytest.mark.parametrize(
    ("short", "role"),
    [
        ("oi", "user"),
        (("human", "oi"), "user"),
        (("ai", "oi"), "assistant"),
        (("system", "oi"), "system"),
        ({"role": "human", "content": "oi"}, "user"),
        ({"type": "ai", "content": "oi"}, "assistant"),
        ({"role": "user", "content": "oi"}, "user"),
    ],
)
def test_shorthands_are_taken(short, role):
    """Texts, pairs and dicts that LangChain takes for messages are messages here too."""
    assert from_langchain(short) == Message(role, "oi")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (messages.RemoveMessage(id="x"), "apply it first"),
        (messages.ChatMessage("x", role="wizard"), "wizard"),
        (("wizard", "x"), "tuple"),
        (("a", "b", "c"), "tuple of 3"),
        (7, "int"),
        (Human([{"type": "x", "y": json.loads("[" * 100 + "]" * 100)}]), "deeper"),
    ],
)
def test_what_is_no_message_is_refused(bad, words):
    """An instruction, an unknown role, another type, or content too deep: refused in words."""
    with pytest.raises(InvalidMessage, match=words):
        from_langchain(bad)


def test_a_call_that_was_cut_off_is_not_guessed():
    """A stream that broke off inside a call's arguments leaves them as written, so that nobody runs a guess."""
    piece = {"name": "pay", "args": '{"to": "Ana", "amount": 10', "id": "c", "index": 0}
    chunk = messages.AIMessageChunk("", tool_call_chunks=[piece])
    assert chunk.tool_calls[0]["args"] == {"to": "Ana", "amount": 10}
    message = from_langchain(chunk)
    assert message.tool_calls == (ToolCall("c", "pay", piece["args"]),)
    assert to_langchain(message).invalid_tool_calls[0]["args"] == piece["args"]


def test_a_chunk_is_read_as_its_message():
    """What a stream added up to is the message that it amounts to."""
    chunk = messages.AIMessageChunk("a") + messages.AIMessageChunk(
        "b", tool_call_chunks=[{"name": "f", "args": '{"a": 1}', "id": "c", "index": 0}]
    )
    message = from_langchain(chunk)
    assert (message.role, message.text, message.tool_calls) == ("assistant", "ab", (ToolCall("c", "f", '{"a": 1}'),))
    assert isinstance(to_langchain(message), AI)
