"""Answers of every kind, whole and streamed, come to one message with its usage."""

from __future__ import annotations

import pytest

from novelo.asking import ModelReply
from novelo.errors import InvalidMessage, ModelFailed
from novelo.formats.openai import to_openai
from novelo.formats.reply import StreamReader, read_reply
from novelo.messages import Message, Reasoning, Text, ToolCall, Usage
from novelo.models.base import ModelDelta, ToolCallDelta

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    },
}
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
    ],
    "usage": {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 30,
    },
}
CALL = ToolCall("c1", "f", '{"a": 1}')


def openai_object():
    """The completion as the SDK's object."""
    return pytest.importorskip("openai.types.chat").ChatCompletion.model_validate(COMPLETION)


def anthropic_object():
    """The answer as the SDK's object."""
    return pytest.importorskip("anthropic.types").Message.model_validate(ANSWER)


@pytest.mark.parametrize("made", [lambda: COMPLETION, openai_object], ids=["dict", "object"])
def test_chat_completion(made):
    """A chat completion gives its message without the SDK's nulls, its usage with cached and reasoning tokens."""
    reply = read_reply(made())
    assert reply.message == Message("assistant", None, (CALL,))
    assert (reply.finish_reason, reply.model) == ("tool_calls", "gpt-x")
    usage = reply.usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (100, 20, 64, 8)
    assert usage.raw["prompt_tokens_details"]["cached_tokens"] == 64


@pytest.mark.parametrize("made", [lambda: ANSWER, anthropic_object], ids=["dict", "object"])
def test_anthropic_message(made):
    """An Anthropic answer keeps its signed thoughts; input counts what the cache gave and took."""
    reply = read_reply(made())
    assert reply.message.content == (Reasoning(text="hm", signature="sig"), Text(text="Let me see."))
    assert reply.message.tool_calls == (ToolCall("t1", "f", '{"a": 1}'),)
    assert (reply.finish_reason, reply.model) == ("tool_use", "claude-x")
    usage = reply.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (140, 5, 100, 30)


def test_response():
    """A Responses answer is one message with the text and calls of all its items."""
    pytest.importorskip("novelo.formats.responses")
    given = {
        "id": "resp_1",
        "object": "response",
        "model": "gpt-x",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        ],
        "usage": {
            "input_tokens": 9,
            "output_tokens": 3,
            "total_tokens": 12,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
    }
    reply = read_reply(given)
    assert reply.message.text == "Hi."
    assert [(c.id, c.name, c.arguments) for c in reply.message.tool_calls] == [("c1", "f", '{"a": 1}')]
    usage = reply.usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (9, 3, 4, 2)
    reader = StreamReader()
    events = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": "Hi."},
        {"type": "response.completed", "response": given},
    ]
    assert [reader.read(e) for e in events] == ["", "Hi.", ""]
    assert reader.message() == reply.message
    assert (reader.usage, reader.finish_reason, reader.model) == (usage, "completed", "gpt-x")


def test_langchain_message():
    """A LangChain answer gives text, calls, usage, and why it ended."""
    messages = pytest.importorskip("langchain_core.messages")
    given = messages.AIMessage(
        content="Hi.",
        tool_calls=[{"name": "f", "args": {"a": 1}, "id": "c1"}],
        usage_metadata={
            "input_tokens": 9,
            "output_tokens": 3,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 4, "cache_creation": 1},
            "output_token_details": {"reasoning": 2},
        },
        response_metadata={"model_name": "gpt-x", "finish_reason": "stop"},
    )
    reply = read_reply(given)
    assert (reply.message.text, reply.message.tool_calls[0].arguments) == ("Hi.", '{"a": 1}')
    assert (reply.finish_reason, reply.model) == ("stop", "gpt-x")
    usage = reply.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning) == (9, 3, 4, 1, 2)


def test_plain_answers():
    """A text, a chat dict, a message of ours and a reply of our models are taken as they are."""
    own = Message("assistant", "Hi.", usage=Usage(3, 1), meta={"model": "m"})
    assert read_reply("Hi.").message == Message("assistant", "Hi.")
    assert read_reply({"role": "assistant", "content": "Hi."}).message == Message("assistant", "Hi.")
    assert read_reply(own).message is own
    assert (read_reply(own).usage, read_reply(own).model) == (Usage(3, 1), "m")
    reply = read_reply(ModelReply(own, None, "stop", "m2"))
    assert (reply.message, reply.usage, reply.finish_reason, reply.model) == (own, Usage(3, 1), "stop", "m2")


@pytest.mark.parametrize(
    "given",
    [
        None,
        3,
        [],
        {},
        {"choices": []},
        {"choices": [{"delta": {}}]},
        {"role": "user", "content": "x"},
        Message("user", "x"),
        {**ANSWER, "role": "user"},
    ],
    ids=range(9),
)
def test_no_reply(given):
    """What is no assistant's answer is refused."""
    with pytest.raises(InvalidMessage):
        read_reply(given)


def test_unreported_usage_is_unknown():
    """A call that reports nothing has no usage, not one of zeros."""
    assert read_reply("x").usage is None
    assert read_reply({**COMPLETION, "usage": None}).usage is None
    assert read_reply({**ANSWER, "usage": {"odd": 1}}).usage is None


# -------------------------------------------------------------------------------------------------- streams
def chat_chunks():
    """A streamed chat completion: two calls, their pieces mixed, usage at the end."""

    def chunk(delta, reason=None):
        return {"model": "gpt-x", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None}

    def call(index, name=None, call_id=None, arguments=""):
        function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
        return {"tool_calls": [{"index": index, "id": call_id, "function": function, "type": "function"}]}

    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk(call(0, "f", "c1")),
        chunk(call(1, "g", "c2")),
        chunk(call(0, arguments='{"a"')),
        chunk(call(1, arguments="{}")),
        chunk(call(0, arguments=": 1}")),
        chunk({}, "tool_calls"),
        {"model": "gpt-x", "choices": [], "usage": COMPLETION["usage"]},
    ]


def anthropic_events():
    """A streamed Anthropic answer."""

    def delta(index, kind, **more):
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}

    def start(index, block):
        return {"type": "content_block_start", "index": index, "content_block": block}

    usage = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 30, "output_tokens": 1}
    message = {**ANSWER, "content": [], "stop_reason": None, "usage": usage}
    return [
        {"type": "message_start", "message": message},
        {"type": "ping"},
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "thinking_delta", thinking="h"),
        delta(0, "thinking_delta", thinking="m"),
        delta(0, "signature_delta", signature="sig"),
        {"type": "content_block_stop", "index": 0},
        start(1, {"type": "text", "text": ""}),
        delta(1, "text_delta", text="Let me "),
        delta(1, "text_delta", text="see."),
        {"type": "content_block_stop", "index": 1},
        start(2, {"type": "tool_use", "id": "t1", "name": "f", "input": {}}),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"a":'),
        delta(2, "input_json_delta", partial_json=" 1}"),
        {"type": "content_block_stop", "index": 2},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]


def as_objects(chunks, module, name):
    """Chunks as the SDK's objects."""
    adapter = pytest.importorskip("pydantic").TypeAdapter(getattr(pytest.importorskip(module), name))
    return [adapter.validate_python(_whole(chunk)) for chunk in chunks if chunk.get("type") != "ping"]


def _whole(chunk):
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, **chunk} if "choices" in chunk else chunk


def openai_objects():
    """Chat chunks as objects."""
    return as_objects(chat_chunks(), "openai.types.chat", "ChatCompletionChunk")


def anthropic_objects():
    """Anthropic's events as objects."""
    return as_objects(anthropic_events(), "anthropic.types", "RawMessageStreamEvent")


@pytest.mark.parametrize("made", [chat_chunks, openai_objects], ids=["dicts", "objects"])
def test_chat_stream(made):
    """Chat chunks amount to the text, the calls by their index, and the usage of the last chunk."""
    reader = StreamReader()
    assert [reader.read(chunk) for chunk in made()] == ["", "Hel", "lo", *[""] * 7]
    assert reader.message() == Message("assistant", "Hello", (CALL, ToolCall("c2", "g", "{}")))
    assert (reader.finish_reason, reader.model) == ("tool_calls", "gpt-x")
    assert (reader.usage.input, reader.usage.cache_read, reader.usage.reasoning) == (100, 64, 8)


@pytest.mark.parametrize("made", [anthropic_events, anthropic_objects], ids=["dicts", "objects"])
def test_anthropic_stream(made):
    """Anthropic's events amount to the same as the whole answer; arguments are the text that was streamed."""
    reader = StreamReader()
    assert "".join(map(reader.read, made())) == "Let me see."
    assert reader.message() == read_reply(ANSWER).message
    assert (reader.finish_reason, reader.model) == ("tool_use", "claude-x")
    assert (reader.usage.input, reader.usage.output, reader.usage.cache_write) == (140, 5, 30)


def test_langchain_stream():
    """LangChain's chunks amount to one message; their shares of usage are added up."""
    messages = pytest.importorskip("langchain_core.messages")
    piece = {"index": 0, "type": "tool_call_chunk"}
    chunks = [
        messages.AIMessageChunk("Hel", response_metadata={"model_name": "gpt-x"}),
        (messages.AIMessageChunk([{"type": "text", "text": "lo"}]), {"langgraph_node": "model"}),
        messages.AIMessageChunk("", tool_call_chunks=[{**piece, "name": "f", "args": '{"a"', "id": "c1"}]),
        messages.AIMessageChunk("", tool_call_chunks=[{**piece, "name": None, "args": ": 1}", "id": None}]),
        messages.AIMessageChunk("", usage_metadata={"input_tokens": 9, "output_tokens": 0, "total_tokens": 9}),
        messages.AIMessageChunk(
            "",
            usage_metadata={"input_tokens": 0, "output_tokens": 3, "total_tokens": 3},
            response_metadata={"finish_reason": "stop"},
        ),
    ]
    reader = StreamReader()
    assert [reader.read(chunk) for chunk in chunks] == ["Hel", "lo", *[""] * 4]
    message = reader.message()
    assert "".join(p.text for p in message.parts if isinstance(p, Text)) == "Hello"
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [("c1", "f", '{"a": 1}')]
    assert (reader.usage.input, reader.usage.output) == (9, 3)
    assert (reader.finish_reason, reader.model) == ("stop", "gpt-x")


def test_stream_of_our_models():
    """Pieces of our own models amount to their message."""
    pieces = [
        ModelDelta("Hel", reasoning="h"),
        ModelDelta("lo", reasoning="m"),
        ModelDelta(tool_calls=(ToolCallDelta(0, "c1", "f"),)),
        ModelDelta(tool_calls=(ToolCallDelta(0, arguments='{"a": 1}'),)),
        ModelDelta(usage=Usage(3, 1), finish_reason="stop", model="m"),
    ]
    reader = StreamReader()
    assert [reader.read(piece) for piece in pieces] == ["Hel", "lo", "", "", ""]
    assert to_openai(reader.message()) == {
        "role": "assistant",
        "content": "Hello",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
    }
    assert (reader.usage, reader.finish_reason, reader.model) == (Usage(3, 1), "stop", "m")


def test_text_stream_and_what_a_broken_one_leaves():
    """Texts are joined; a stream that broke off leaves a message that says so."""
    reader = StreamReader()
    assert reader.message() == Message("assistant", "")
    assert [reader.read(piece) for piece in ("a", "", "b", None)] == ["a", "", "b", ""]
    assert reader.message(partial=True) == Message("assistant", "ab", meta={"partial": True})
    assert reader.message() == Message("assistant", "ab")


@pytest.mark.parametrize("made", [chat_chunks, anthropic_events], ids=["chat", "anthropic"])
def test_every_prefix_of_a_stream_is_a_message(made):
    """Wherever a stream breaks, what has come is a message."""
    chunks = made()
    for end in range(len(chunks)):
        reader = StreamReader()
        text = "".join(map(reader.read, chunks[:end]))
        message = reader.message(partial=True)
        assert message.text == text
        assert message.meta["partial"]


@pytest.mark.parametrize("index", [0, None], ids=["all numbered 0", "not numbered"])
def test_servers_that_do_not_number_calls(index):
    """Calls are told apart by their ids where the numbers do not tell."""
    reader = StreamReader()
    for name in ("c1", "c2"):
        for call_id, arguments in ((name, '{"a"'), (None, ": 1}")):
            function = {"name": "f" if call_id else None, "arguments": arguments}
            calls = [{"index": index, "id": call_id, "function": function}]
            reader.read({"choices": [{"delta": {"tool_calls": calls}}]})
    assert reader.message().tool_calls == (CALL, ToolCall("c2", "f", '{"a": 1}'))


def test_refusals_are_said():
    """A streamed refusal is the answer's text."""
    reader = StreamReader()
    assert reader.read({"choices": [{"delta": {"refusal": "No."}}]}) == "No."
    assert reader.message().text == "No."


def test_failed_streams():
    """A stream that reports a failure fails; a chunk of no known kind is refused."""
    for chunk in (
        {"type": "error", "error": {"type": "overloaded_error"}},
        {"type": "response.failed", "response": {}},
    ):
        with pytest.raises(ModelFailed):
            StreamReader().read(chunk)
    for chunk in (3, {}, [], {"type": "content_block_delta", "index": 0, "delta": {}}, {"type": "content_block_start"}):
        with pytest.raises(InvalidMessage):
            StreamReader().read(chunk)
