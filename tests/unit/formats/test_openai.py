"""Chat dicts: nothing lost on the way in and out, clear errors for what is no message."""

from __future__ import annotations

import gzip
import json
import time
from types import SimpleNamespace

import pytest

from novelo.errors import InvalidMessage
from novelo.formats import detect, normalize, read, write, writer
from novelo.formats.openai import from_openai, hidden_calls, to_openai
from novelo.messages import Audio, File, Image, Message, Other, Reasoning, Text, ToolCall, decode, encode

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":  1}'}}
PDF = "data:application/pdf;base64,JVBERi0="


def with_parts(*parts, role="user"):
    """A message of content blocks."""
    return {"role": role, "content": list(parts)}


LEGAL = [
    {"role": "system", "content": "s"},
    {"role": "developer", "content": "d"},
    {"role": "user", "content": "u", "name": "ana"},
    {"role": "user", "content": ""},
    {"role": "assistant", "content": None},
    {"role": "assistant"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
    {"role": "assistant", "content": "x", "tool_calls": []},
    {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None, "refusal": None, "audio": None},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{**CALL, "index": 0, "function": {**CALL["function"], "x": 1}}],
    },
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}, "id": "a"}]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}],
    },
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "r"},
    {"role": "assistant", "content": None, "refusal": "I cannot.", "annotations": []},
    {"role": "assistant", "content": "x", "reasoning_content": "hm", "audio": {"id": "a"}, "id": "m1"},
    {"role": "tool", "tool_call_id": "c1", "content": "r"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}], "name": "f"},
    with_parts(),
    with_parts({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": " "}),
    with_parts({"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low", "z": 1}, "w": 2}),
    with_parts({"type": "image_url", "image_url": "https://x/y.png"}),
    with_parts({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}),
    with_parts({"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}),
    with_parts({"type": "file", "file": {"file_id": "file-1"}}),
    with_parts({"type": "refusal", "refusal": "no"}, role="assistant"),
    with_parts({"type": "thinking", "thinking": "hm", "signature": "s", "z": 1}, role="assistant"),
    with_parts({"type": "redacted_thinking", "data": "opaque"}, role="assistant"),
    with_parts({"type": "reasoning", "text": "hm"}, {"type": "reasoning", "summary": []}, role="assistant"),
    with_parts({"type": "tool_use", "id": "t", "name": "f", "input": {}}, role="assistant"),
    with_parts({"type": "new kind", "deep": [{"a": [1, None]}]}, {"type": ["odd"]}, {}),
]


@pytest.mark.parametrize("given", LEGAL, ids=lambda d: json.dumps(d)[:70])
def test_comes_back_equal(given):
    """A chat dict comes back equal, also when it was stored in between; the caller's own is untouched."""
    before = json.dumps(given)
    message = from_openai(given)
    assert to_openai(message) == given
    assert to_openai(decode(encode(message))) == given
    assert json.dumps(given) == before


def recorded(shared):
    """Requests that real servers took."""
    with gzip.open(shared / "data" / "wire_requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_recorded_requests_come_back_equal(shared):
    """Every recorded request of this form, and Mistral's, comes back equal."""
    number = 0
    for record in recorded(shared):
        if record["dialect"] in ("openai-chat", "mistral"):
            messages = record["body"]["messages"]
            number += len(messages)
            assert write(read(messages), "openai") == messages
    assert number > 300


def test_what_stands_where():
    """Fields with a name of ours are found under it."""
    assert from_openai(LEGAL[1]).role == "system"
    assert from_openai(LEGAL[6]).tool_calls == (ToolCall("c1", "f", '{"a":  1}'),)
    image = from_openai(with_parts({"type": "image_url", "image_url": {"url": "u", "detail": "low"}})).content[0]
    sound = from_openai(with_parts({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}})).content[0]
    file = from_openai(with_parts({"type": "file", "file": {"file_data": PDF, "filename": "a"}})).content[0]
    assert image == Image(url="u", detail="low")
    assert sound == Audio(data="AA", media_type="audio/wav")
    assert file == File(data="JVBERi0=", media_type="application/pdf", name="a")


def test_refusal_is_what_the_message_says():
    """A refusal beside no content is visible text, so that the message is not taken for blank."""
    assert from_openai({"role": "assistant", "content": None, "refusal": "I cannot."}).text == "I cannot."


def test_older_functions_pair_by_their_name():
    """The older function call and its result share an id, and go back out as they were."""
    call = from_openai({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}})
    result = from_openai({"role": "function", "name": "f", "content": "r"})
    assert (result.role, result.tool_call_id) == ("tool", call.tool_calls[0].id)


def test_gaps_in_calls_are_left_to_the_mending():
    """A call without id, name or text arguments is read as far as it goes."""
    given = {
        "role": "assistant",
        "tool_calls": [{"function": {"arguments": {"a": "ç"}}}, {"id": 5, "function": {"name": 7}}],
    }
    assert from_openai(given).tool_calls[0].arguments == '{"a": "ç"}'
    assert [(c.id, c.name) for c in from_openai(given).tool_calls] == [("", ""), ("", "")]


def test_other_forms_send_nothing_of_their_own():
    """A message of another form goes without thoughts, notes and that form's extras; media are translated."""
    parts = (
        Reasoning(text="hm", signature="s"),
        Text(text="a", extra={"cache_control": {}}),
        Image(data="AA", media_type="image/png"),
        File(file_id="file_1"),
        File(url="https://x/a.pdf"),
        Other(value={"type": "server_tool_use"}),
    )
    message = Message("user", parts, extra={"z": 1}, meta={"form": "anthropic", "status": "error"})
    assert to_openai(message) == {
        "role": "user",
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "text", "text": "[file]"},
            {"type": "text", "text": "[file: https://x/a.pdf]"},
        ],
    }
    picture = Message("tool", (Image(data="AA"),), tool_call_id="c", meta={"form": "anthropic"})
    assert to_openai(picture)["content"] == [{"type": "text", "text": "[image]"}]
    alone = Message("assistant", (Reasoning(text="hm"),), (ToolCall("c", "f"),), meta={"form": "anthropic"})
    assert to_openai(alone)["content"] is None


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "function_call", "call_id": "c", "id": "fc", "name": "f", "arguments": '{"a": 1}'},
        {"type": "tool-call", "toolCallId": "c", "toolName": "f", "args": {"a": 1}},
        {"type": "tool_call", "id": "c", "name": "f", "args": {"a": 1}},
        {"type": "functionCall", "id": "c", "name": "f", "args": {"a": 1}},
        {"type": "tool_call", "id": "c", "function": {"name": "f", "arguments": '{"a": 1}'}},
    ],
    ids=lambda b: b["type"],
)
def test_hidden_calls(block):
    """A call inside a content block is found in every spelling."""
    found = hidden_calls(from_openai(with_parts({"type": "text", "text": "t"}, block, role="assistant")))
    assert found == (ToolCall("c", "f", '{"a": 1}'),)
    assert hidden_calls(from_openai(with_parts({"type": "text", "text": "t"}))) == ()


CYCLE: list = []
CYCLE.append(CYCLE)
TWICE: list = []
TWICE += [TWICE, TWICE]
DEEP: list = []
for _ in range(10_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        7,
        [],
        {},
        {"content": "x"},
        {"role": "narrator", "content": "x"},
        {"role": None, "content": "x"},
        {"role": ["user"], "content": "x"},
        {"role": "user", "content": 3},
        {"role": "user", "content": {"type": "text", "text": "x"}},
        {"role": "user", "content": [3]},
        {"role": "user", "content": [[]]},
        {"role": "assistant", "tool_calls": {"a": 1}},
        {"role": "assistant", "tool_calls": "x"},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": [{"id": "c"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": "f"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {1, 2}}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": CYCLE}}]},
        *({"role": "user", "content": "x", "more": value} for value in (CYCLE, TWICE, DEEP)),
        *({"role": "user", "content": value} for value in (CYCLE, TWICE, DEEP)),
        *({"role": "user", "content": [{"type": "odd", "v": value}]} for value in (CYCLE, TWICE, DEEP)),
        *({"role": "user", "content": [{"type": "text", "text": "", "v": value}]} for value in (CYCLE, TWICE, DEEP)),
    ],
    ids=range(32),
)
def test_no_message(given):
    """What is no message is refused in words, at once, without telling what it says."""
    begun = time.monotonic()
    with pytest.raises(InvalidMessage) as caught:
        from_openai(given)
    assert time.monotonic() - begun < 1
    assert len(str(caught.value)) < 200


def test_position_of_what_is_no_message():
    """In a list the error says which message is meant."""
    with pytest.raises(InvalidMessage, match="message 1: ") as caught:
        read([LEGAL[0], {"role": "narrator"}])
    assert caught.value.position == 1
    with pytest.raises(InvalidMessage):
        read("hello")


def test_nesting_up_to_the_limit_is_taken():
    """Sixty levels are no fault."""
    value: list = []
    for _ in range(60):
        value = [value]
    given = {"role": "user", "content": "x", "more": value}
    assert to_openai(from_openai(given)) == given


def test_answers_of_the_sdk_in_a_list():
    """An SDK's message put into a list as it came is read."""
    answer = SimpleNamespace(role="assistant", model_dump=lambda **_: {"content": "hi", "tool_calls": None})
    assert from_openai(answer).content == "hi"


def test_forms_are_told_apart():
    """The form of a list is seen from what only one form has."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": ""}]}
    assert detect([]) == "openai"
    assert detect(LEGAL[:20]) == "openai"
    assert detect([LEGAL[0], use]) == "anthropic"
    assert detect([LEGAL[0], use, {"role": "tool", "tool_call_id": "t", "content": ""}]) == "openai"
    assert detect([thought]) == "anthropic"
    assert detect([thought, LEGAL[6]]) == "openai"
    assert detect([with_parts({"type": "image", "source": {}})]) == "anthropic"
    assert detect([LEGAL[2], {"type": "function_call", "name": "f", "call_id": "c", "arguments": ""}]) == "responses"
    assert detect([{"type": "message", "role": "user", "content": "x"}]) == "responses"
    assert detect([with_parts({"type": "input_text", "text": "x"})]) == "responses"
    assert detect([with_parts({"type": "function_call"}, {"type": "reasoning"})]) == "openai"
    assert detect([with_parts({"type": []}, 3, None)]) == "openai"
    assert detect([SimpleNamespace(type="human", content="x")]) == "langchain"
    assert detect([Message("user", "x")]) == "message"
    assert detect(["x", ("human", "x")]) == "langchain"
    assert detect([3]) == "openai"


def test_detection_is_fast():
    """Ten thousand dicts are looked through in the time of converting a few hundred."""
    given = LEGAL[:6] * 1700
    best = min(_seconds(lambda: detect(given)) for _ in range(7))
    assert best < 0.02  # measured below 0.0015 on a quiet machine


def _seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def test_own_messages_pass_through():
    """Messages of ours and chat dicts may stand mixed, and are the same objects."""
    own = Message("user", "x")
    assert read([own, LEGAL[0]])[0] is own
    assert writer("message")(own) is own


def test_mistral_ids():
    """Mistral's ids are nine letters and digits, the same each time, on call and result alike."""
    given = [
        Message("assistant", None, (ToolCall("call_abc-1", "f"),)),
        Message("tool", "r", tool_call_id="call_abc-1"),
    ]
    one, two = write(given, "mistral"), write(given, "mistral")
    assert one == two
    name = one[0]["tool_calls"][0]["id"]
    assert len(name) == 9
    assert name.isalnum()
    assert one[1]["tool_call_id"] == name
    assert write([Message("tool", "r", tool_call_id="aB3456789")], "mistral")[0]["tool_call_id"] == "aB3456789"


def test_lone_surrogates_are_replaced_everywhere():
    """What UTF-8 cannot write is replaced in texts, names, arguments and extras, and the message says so."""
    bad, good = "a\ud800b", "a\ufffdb"
    given = Message(
        "assistant",
        (Text(text=bad), Other(value={"type": "x", bad: [bad]})),
        (ToolCall(bad, bad, bad, {"k": bad}),),
        name=bad,
        id=bad,
        extra={"z": {"y": bad}},
    )
    clean = normalize(given)
    assert clean.content == (Text(text=good), Other(value={"type": "x", good: [good]}))
    assert clean.tool_calls == (ToolCall(good, good, good, {"k": good}),)
    assert (clean.name, clean.id, clean.extra, clean.meta["normalized"]) == (good, good, {"z": {"y": good}}, True)
    encode(clean)
    assert normalize(Message("user", bad)).content == good
    assert normalize(Message("user", "\ud83d\ude00")).content == "😀"


def test_sound_messages_stay_the_same_object():
    """A message without lone surrogates is not copied."""
    for given in (Message("user", "olá"), from_openai(LEGAL[8]), from_openai(LEGAL[20])):
        assert normalize(given) is given
    with pytest.raises(InvalidMessage):
        normalize(Message("user", "x", extra={"a": CYCLE}))
