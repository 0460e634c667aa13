"""Items of the Responses API come back equal, and stand together as their provider wants them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo import formats, messages
from novelo.errors import InvalidMessage
from novelo.formats.anthropic import to_anthropic
from novelo.formats.openai import to_openai
from novelo.formats.responses import from_responses, read_items, to_responses
from novelo.messages import Audio, File, Image, Message, Other, Reasoning, Text, ToolCall

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"q": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}],
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}

word = st.text(max_size=6)
value = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | word, lambda v: st.lists(v, max_size=2), max_leaves=3
)
further = st.dictionaries(st.sampled_from(["zeta", "annotations", "caller", "note"]), value, max_size=2)
status = st.fixed_dictionaries({}, optional={"status": st.sampled_from(["completed", "incomplete", None])})
ident = st.fixed_dictionaries({}, optional={"id": word | st.none()})


def merged(*shapes):
    """A mapping strategy that joins several."""
    return st.tuples(*shapes).map(lambda found: {k: v for shape in found for k, v in shape.items()})


def shape(**fields):
    """A mapping strategy; a plain value stands for itself."""
    return st.fixed_dictionaries({k: v if isinstance(v, st.SearchStrategy) else st.just(v) for k, v in fields.items()})


text_part = merged(
    further, st.sampled_from(["input_text", "output_text", "text"]).flatmap(lambda t: shape(type=t, text=word))
)
address = st.sampled_from(["https://a.b/c.png", "data:image/png;base64,AAAA", "", None])
parts = st.one_of(
    text_part,
    merged(further, shape(type="refusal", refusal=word)),
    merged(
        shape(type="input_image"),
        st.fixed_dictionaries({}, optional={"image_url": address, "file_id": word | st.none(), "detail": word}),
    ),
    merged(
        shape(type="input_file"),
        st.fixed_dictionaries(
            {}, optional={"file_data": address, "filename": word, "file_id": word | st.none(), "file_url": address}
        ),
    ),
    shape(type="input_audio", input_audio=shape(data=word, format=st.sampled_from(["wav", "mp3"]))),
    merged(further, shape(type=st.sampled_from(["computer_screenshot", "what_is_this", "summary_text"]))),
)
contents = word | st.lists(parts, max_size=3)
typed = st.sampled_from([{}, {"type": "message"}])
said = merged(
    typed,
    ident,
    status,
    further,
    st.sampled_from(["user", "system", "developer", "assistant"]).flatmap(lambda r: shape(role=r, content=contents)),
)
summaries = st.lists(shape(type="summary_text", text=word), max_size=2)
reasoning = merged(
    ident,
    status,
    shape(type="reasoning"),
    st.fixed_dictionaries(
        {},
        optional={
            "summary": summaries,
            "encrypted_content": word | st.none(),
            "content": st.none() | st.lists(shape(type="reasoning_text", text=word), max_size=2),
        },
    ),
)
call_ids = st.sampled_from(["c1", "c2", "c3"])
calls = st.one_of(
    merged(ident, status, further, shape(type="function_call", call_id=call_ids, name=word, arguments=word)),
    merged(ident, further, shape(type="custom_tool_call", call_id=call_ids, name=word, input=word)),
    merged(ident, shape(type="local_shell_call", call_id=call_ids, action=shape(command=st.lists(word, max_size=2)))),
    merged(
        ident,
        shape(
            type="shell_call",
            call_id=call_ids,
            action=value,
            environment=st.sampled_from([None, {"type": "local"}, {"type": "container_reference"}]),
        ),
    ),
    merged(ident, shape(type="computer_call", call_id=call_ids, actions=value, pending_safety_checks=value)),
    merged(ident, shape(type="apply_patch_call", call_id=call_ids, operation=value)),
    merged(
        ident,
        shape(
            type="tool_search_call",
            call_id=call_ids | st.none(),
            arguments=value,
            execution=st.sampled_from(["server", "client"]),
        ),
    ),
)
outputs = st.one_of(
    merged(
        ident,
        status,
        further,
        shape(
            type=st.sampled_from(["function_call_output", "custom_tool_call_output"]), call_id=call_ids, output=contents
        ),
    ),
    merged(status, shape(type="local_shell_call_output", id=call_ids, output=word)),
    merged(
        ident,
        shape(type="shell_call_output", call_id=call_ids, output=st.lists(shape(stdout=word, stderr=word), max_size=2)),
    ),
    merged(
        ident,
        shape(
            type="computer_call_output",
            call_id=call_ids,
            output=merged(
                shape(type="computer_screenshot"),
                st.fixed_dictionaries({}, optional={"image_url": address, "file_id": word}),
            ),
        ),
    ),
    merged(
        ident,
        status,
        shape(type="apply_patch_call_output", call_id=call_ids),
        st.fixed_dictionaries({}, optional={"output": word | st.none()}),
    ),
    shape(type="tool_search_output", call_id=call_ids | st.none(), tools=value),
    shape(type="function_call_output", call_id=st.none(), output=word),
)
others = st.one_of(
    st.just(SEARCH),
    shape(type="item_reference", id=word),
    shape(id=word),
    merged(
        ident, further, shape(type=st.sampled_from(["mcp_call", "compaction", "mcp_approval_response", "unheard_of"]))
    ),
    shape(type="additional_tools", role="developer", tools=value),
)
items = st.lists(st.one_of(said, reasoning, calls, outputs, others), max_size=8)


@given(items)
def test_items_come_back_equal_and_in_order(found):
    """Whatever items a list holds, reading and writing it changes nothing, also through what is stored."""
    read = from_responses(found)
    assert to_responses(read) == found
    stored = [messages.decode(messages.encode(message)) for message in read]
    assert to_responses(stored) == found


@given(items)
def test_other_forms_are_given_nothing_of_this_one(found):
    """Chat dicts and Anthropic blocks made of items carry none of our notes and no encrypted thought."""
    read = from_responses(found)
    for written in ([to_openai(m) for m in read], to_anthropic(read)):
        text = msgspec.json.encode(written).decode()
        assert not any(f'"{note}":' in text for note in ("_item", "_spelled", "_bare", "encrypted_content"))


def test_a_thought_stays_with_what_it_led_to():
    """Reasoning, the message and the calls of one reply are one message, so no cut can part them."""
    found = [{"role": "user", "content": "Hi"}, REASONING, SEARCH, SAID, CALL, OUTPUT, SAID | {"id": "msg_2"}]
    read = from_responses(found)
    assert [m.role for m in read] == ["user", "assistant", "tool", "assistant"]
    assert [type(p) for p in read[1].parts] == [Reasoning, Other, Text]
    assert read[1].tool_calls[0].id == read[2].tool_call_id == "c1"
    assert read[1].text == "Hello" and read[1].id == "msg_1"
    assert formats.read(found) == read and formats.write(read, "responses") == found


def test_answers_written_by_hand_stay_apart():
    """Two messages of the assistant without ids are two answers, a plain list holds nothing of this form."""
    found = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}, CALL | {"arguments": "{"}]
    read = from_responses(found)
    assert [m.content for m in read] == ["a", "b"]
    assert read[0] == Message("assistant", "a")
    assert read[1].tool_calls[0].arguments == "{"
    assert to_responses(read) == found


def test_ids_go_when_their_thoughts_were_left_out():
    """The provider refuses the id of an item whose reasoning is missing, so it goes without (FR-72)."""
    [message] = from_responses([REASONING, SAID, CALL])
    kept = tuple(p for p in message.content if not isinstance(p, Reasoning))
    written = to_responses([msgspec.structs.replace(message, content=kept)])
    assert [i.get("type") for i in written] == ["message", "function_call"]
    assert not any("id" in item for item in written)


def test_thoughts_go_when_what_they_led_to_was_left_out():
    """A thought at the end of a message that once went on is not sent (FR-71); one that ended a reply comes back."""
    [message] = from_responses([SAID, REASONING, CALL])
    assert [i["type"] for i in to_responses([msgspec.structs.replace(message, tool_calls=())])] == ["message"]
    assert messages.is_blank(from_responses([REASONING])[0])


def test_calls_of_built_in_tools_are_paired():
    """What the client runs is a call with its result; what the service ran stays whole inside the answer."""
    shell = {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}, "id": "sh_1"}
    out = {"type": "shell_call_output", "call_id": "s1", "output": [{"stdout": "a", "stderr": ""}]}
    client = from_responses([shell, out])
    assert [m.role for m in client] == ["assistant", "tool"] and client[0].tool_calls[0].name == "shell"
    hosted = from_responses([shell | {"environment": {"type": "container_reference"}}, out])
    assert [m.role for m in hosted] == ["assistant"] and not hosted[0].tool_calls


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "shell_call", "apply_patch_call"])
def test_a_made_result_answers_in_the_kind_of_its_call(kind):
    """An output that we made has the type that the provider expects for the call."""
    call = {"type": kind, "call_id": "c9", "name": "n", "input": "i", "arguments": "{}", "operation": {}, "action": {}}
    made = Message("tool", "no result", (), "c9", meta={"made": "interrupted", "status": "error"})
    written = to_responses([*from_responses([call]), made])
    assert written[1]["type"] == f"{kind}_output" and written[1]["call_id"] == "c9"


def test_other_forms_are_translated():
    """Messages that came from elsewhere become items that the API takes: media, calls, results, the developer."""
    written = to_responses(
        [
            Message("system", "Be kind.", meta={"role": "developer"}),
            Message(
                "user",
                (
                    Text(text="see"),
                    Image(data="AA", media_type="image/jpeg"),
                    File(data="BB", name="a.pdf", media_type="application/pdf"),
                    Audio(url="u"),
                ),
            ),
            Message(
                "assistant",
                (Reasoning(text="hm", signature="s"), Text(text="ok"), Image(url="https://x/y")),
                (ToolCall("c1", "f", "{}", {"index": 0}),),
                id="run-1",
            ),
            Message("tool", (Text(text="r"),), (), "c1", name="f"),
            Message("assistant", None, (ToolCall("c2", "f"),)),
        ]
    )
    assert written == [
        {"role": "developer", "content": "Be kind."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/jpeg;base64,AA"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,BB", "filename": "a.pdf"},
                {"type": "input_text", "text": "[audio: u]"},
            ],
        },
        {"role": "assistant", "content": "ok\n[image: https://x/y]"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}]},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
    ]


def test_a_reply_of_the_sdk_is_read_like_its_mapping():
    """Objects of the OpenAI SDK, as `response.output` holds them, are items too."""
    sdk = pytest.importorskip("openai.types.responses")
    found = [
        sdk.ResponseReasoningItem(**REASONING),
        sdk.ResponseOutputMessage(**SAID),
        sdk.ResponseFunctionToolCall(**CALL),
    ]
    assert to_responses(from_responses(found)) == [REASONING, SAID, CALL]


def test_a_text_is_what_the_user_says():
    """The API takes a text as its whole input."""
    assert from_responses("Hi") == [Message("user", "Hi")]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (7, "int"),
        ({}, "neither a type nor a role"),
        ({"type": 3}, "int"),
        ({"role": "critic", "content": "x"}, "critic"),
        ({"role": "user", "content": 5}, "int"),
        ({"role": "user", "content": [5]}, "int"),
        ({"role": "user"}, "NoneType"),
        ({"type": "function_call", "call_id": 1, "name": "f", "arguments": ""}, "call_id"),
        ({"type": "function_call", "call_id": "c", "arguments": ""}, "name"),
    ],
)
def test_what_is_no_item_is_refused_by_its_place(bad, told):
    """A bad item is named by position, with what was found, never with what was said."""
    with pytest.raises(InvalidMessage, match=told) as caught:
        from_responses([{"role": "user", "content": "hello"}, bad])
    assert caught.value.position == 1 and "item 1" in str(caught.value)
    with pytest.raises(InvalidMessage, match="list of items"):
        from_responses(bad if not isinstance(bad, list) else 7)


def test_a_deep_item_is_refused():
    """An item nested 10,000 levels deep, or one that holds itself, is an error and no crash."""
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    endless: dict = {"type": "unheard_of"}
    endless["self"] = endless
    for bad in (
        {"type": "unheard_of", "x": deep},
        endless,
        CALL | {"x": deep},
        OUTPUT | {"output": [{"type": "x", "y": deep}]},
    ):
        with pytest.raises(InvalidMessage, match="deeper"):
            from_responses([bad])


def test_items_that_are_none_are_left_out():
    """An import goes on behind them, and is told which message each item went into."""
    asked = {"role": "user", "content": "x"}
    bad = {"type": "function_call", "name": "look"}
    found, places = read_items([asked, bad, 7, REASONING, CALL, OUTPUT, bad, SAID])
    assert to_responses(found) == [asked, REASONING, CALL, OUTPUT, SAID]
    assert [p if isinstance(p, int) else type(p) for p in places] == [
        *(0, InvalidMessage, InvalidMessage, 1, 1, 2, InvalidMessage, 3)
    ]
    assert [m.role for m in found] == ["user", "assistant", "tool", "assistant"]
