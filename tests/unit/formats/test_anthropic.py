"""Anthropic's messages: lists come back equal, and what came from elsewhere is written as the API takes it."""

from __future__ import annotations

import gzip
import json
import pickle

import pytest

from novelo.errors import InvalidMessage
from novelo.formats import read, write
from novelo.formats.anthropic import AnthropicForm, from_anthropic, legal_call_id, to_anthropic
from novelo.messages import Audio, File, Image, Message, Other, Reasoning, Text, ToolCall, decode, encode


def user(*blocks, **more):
    """A user message of blocks."""
    return {"role": "user", "content": list(blocks), **more}


def assistant(*blocks, **more):
    """An assistant message of blocks."""
    return {"role": "assistant", "content": list(blocks), **more}


def text(words, **more):
    """A text block."""
    return {"type": "text", "text": words, **more}


def use(name="t1", **more):
    """A call."""
    return {"type": "tool_use", "id": name, "name": "f", "input": {"a": [1, 2.5, None, "ç"]}, **more}


def result(name="t1", content="r", **more):
    """A result."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


EPHEMERAL = {"type": "ephemeral"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
SECRET = {"type": "redacted_thinking", "data": "opaque"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
LEGAL = {
    "texts": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
    "blocks": [user(text("q")), assistant(text("a"), text("b"))],
    "two of a side": [{"role": "user", "content": "a"}, user(text("b")), assistant(text("c")), assistant(text("d"))],
    "loop": [{"role": "user", "content": "q"}, assistant(text("t"), use()), user(result()), assistant(text("a"))],
    "several results": [
        {"role": "user", "content": "q"},
        assistant(use("t1"), use("t2")),
        user(result("t1"), result("t2", is_error=True), text("and?")),
    ],
    "results apart": [
        user(text("q")),
        assistant(use("t1"), use("t2")),
        user(result("t1")),
        user(result("t2"), text("x")),
    ],
    "result content": [
        user(text("q")),
        assistant(use("t1"), use("t2"), use("t3"), use("t4")),
        user(
            result("t1", [text("r"), PICTURE], cache_control=EPHEMERAL),
            {"type": "tool_result", "tool_use_id": "t2"},
            result("t3", [], is_error=False),
            result("t4", [{"type": "search_result", "source": "s", "title": "t", "content": [text("c")]}]),
        ),
    ],
    "thoughts": [user(text("q")), assistant(THOUGHT, SECRET, text("t"), use()), user(result())],
    "blocks behind calls": [user(text("q")), assistant(use("t1"), text("t"), use("t2"), THOUGHT), user(result())],
    "server tools": [
        user(text("q")),
        assistant(
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s",
                "content": [{"type": "web_search_result", "url": "u"}],
            },
            text("a", citations=[{"type": "web_search_result_location", "url": "u"}]),
        ),
    ],
    "media": [
        user(
            PICTURE,
            {**PICTURE, "cache_control": EPHEMERAL},
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {"type": "image", "source": {"type": "new", "x": 1}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
                "title": "t",
            },
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "t"},
            {"type": "document", "source": {"type": "content", "content": [text("c")]}, "context": "c", "title": None},
            {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}, "citations": {"enabled": True}},
            {"type": "document", "source": {"type": "file", "file_id": "file_2"}},
        )
    ],
    "cache marks": [
        user(text("q", cache_control=EPHEMERAL)),
        assistant(use(cache_control=EPHEMERAL)),
        user(result(), text("x", cache_control=EPHEMERAL)),
    ],
    "unknown": [
        user({"type": "new", "x": [{}]}, id="m1", more=1),
        assistant(text("a"), stop_reason="end_turn", id="m2"),
    ],
    "system inside": [{"role": "user", "content": "q"}, {"role": "system", "content": "s"}, user(text("r"))],
    "prefill": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ""}],
    "empty prefill": [{"role": "user", "content": "q"}, assistant()],
}


@pytest.mark.parametrize(
    "system", [None, "s", [text("s", cache_control=EPHEMERAL), text("t")]], ids=["none", "text", "blocks"]
)
@pytest.mark.parametrize("given", LEGAL.values(), ids=LEGAL.keys())
def test_comes_back_equal(given, system):
    """A list comes back equal, with its system prompt, also when it was stored in between."""
    before = json.dumps(given)
    messages = from_anthropic(given, system)
    assert to_anthropic(messages) == (system, given)
    assert to_anthropic([decode(encode(m)) for m in messages]) == (system, given)
    assert json.dumps(given) == before


def test_recorded_requests_come_back_equal(shared):
    """Every recorded request of this form comes back equal."""
    number = 0
    with gzip.open(shared / "data" / "wire_requests.jsonl.gz", "rt", encoding="utf-8") as lines:
        bodies = [r["body"] for r in map(json.loads, lines) if r["dialect"] == "anthropic"]
    for body in bodies:
        number += 1
        assert to_anthropic(from_anthropic(body["messages"], body.get("system"))) == (
            body.get("system"),
            body["messages"],
        )
    assert number > 80


def test_what_stands_where():
    """Results are messages of their own; calls, thoughts and media are found under our names."""
    q, said, one, two, more = from_anthropic(LEGAL["several results"])
    assert (q, said.content) == (Message("user", "q"), None)
    assert [c.id for c in said.tool_calls] == ["t1", "t2"]
    assert json.loads(said.tool_calls[0].arguments) == use()["input"]
    assert (one, two) == (
        Message("tool", "r", tool_call_id="t1"),
        Message("tool", "r", tool_call_id="t2", meta={"status": "error"}),
    )
    assert more == Message("user", (Text(text="and?"),))
    thoughts = from_anthropic(LEGAL["thoughts"])[1].content
    assert thoughts == (Reasoning(text="hm", signature="sig"), Reasoning(data="opaque"), Text(text="t"))
    media = from_anthropic(LEGAL["media"])[0].content
    assert (media[0], media[2].url, media[3].file_id) == (
        Image(data="AA", media_type="image/png"),
        "https://x/y.png",
        "file_1",
    )
    assert media[5] == File(data="AA", media_type="application/pdf", name="t")
    assert media[6].text == "words"
    assert isinstance(media[7], Other)


def test_pair_of_system_and_messages():
    """The form is a pair, knows its parts by name, gives the body of a request, and is read again."""
    form = to_anthropic([Message("system", "s"), Message("user", "q")])
    system, messages = form
    assert (system, messages) == (form.system, form.messages) == ("s", [{"role": "user", "content": "q"}])
    assert form.body() == {"system": "s", "messages": messages}
    assert to_anthropic([Message("user", "q")]).body() == {"messages": messages}
    assert len(form) == 2
    assert pickle.loads(pickle.dumps(form)) == form
    assert read(form) == read(form.body()) == [Message("system", "s"), Message("user", "q")]


def test_other_forms_are_joined_by_side():
    """Neighbours of one side become one message, results first; blank texts and foreign extras are left out."""
    given = read(
        [
            {"role": "system", "content": "a"},
            {"role": "developer", "content": "b"},
            {"role": "user", "content": "q"},
            {
                "role": "user",
                "content": [{"type": "text", "text": " "}, {"type": "text", "text": "r", "x": 1}],
                "name": "n",
            },
            {"role": "assistant", "content": "", "tool_calls": [call("c|1", '{"a": 1}'), call("c2", "")]},
            {"role": "tool", "tool_call_id": "c|1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
            {"role": "user", "content": "s"},
        ]
    )
    name = legal_call_id("c|1")
    assert to_anthropic(given) == (
        "a\n\nb",
        [
            user(text("q"), text("r")),
            assistant(
                {"type": "tool_use", "id": name, "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
            ),
            user(result(name, "one"), result("c2", [text("two")]), text("s")),
        ],
    )


def call(name, arguments):
    """A call as chat dicts have it."""
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


def test_results_come_first():
    """A text between a call and its result goes behind the result, where the API wants it."""
    given = [Message("user", "x"), Message("tool", "r", tool_call_id="t1")]
    assert to_anthropic(given).messages == [user(result(), text("x"))]


def test_order_inside_a_message_is_read_as_it_stands():
    """A text before a result is read before it, so that the check can see it."""
    assert [m.role for m in from_anthropic([user(text("x"), result(), text("y"))])] == ["user", "tool", "user"]


def test_made_results_are_errors():
    """A result that we made is marked as an error."""
    given = [Message("tool", "[none]", tool_call_id="t", meta={"made": "no result", "status": "error"})]
    assert to_anthropic(given).messages == [user(result("t", "[none]", is_error=True))]


def test_blank_messages_are_not_written():
    """A message that says nothing is left out, and so is what only another provider understands."""
    given = [
        Message("user", "q"),
        Message("assistant", " "),
        Message("assistant", None),
        Message("assistant", (Reasoning(text="unsigned"),), meta={"form": "langchain"}),
        Message("assistant", (Reasoning(data="encrypted", id="rs"),), meta={"form": "responses"}),
        Message("assistant", (Other(value={"type": "odd"}),), meta={"form": "openai"}),
    ]
    assert to_anthropic(given) == (None, [{"role": "user", "content": "q"}])
    given += [Message("user", "r")]
    assert to_anthropic(given) == (None, [user(text("q"), text("r"))])


def test_media_of_other_forms():
    """Media become sources; what the API has no place for leaves a word."""
    parts = (
        Image(url="data:image/gif;base64,AA"),
        Image(url="https://x/y.png", detail="low"),
        File(data="AA", name="a.pdf"),
        File(file_id="file-1", name="b.pdf"),
        Audio(data="AA", media_type="audio/wav"),
    )
    assert to_anthropic([Message("user", parts, meta={"form": "openai"})]).messages[0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "AA"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {
            "type": "document",
            "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
        },
        text("[file: b.pdf]"),
        text("[audio]"),
    ]


def test_broken_arguments_are_quoted():
    """Arguments that are no JSON object are quoted in one."""
    written = to_anthropic([Message("assistant", None, (ToolCall("c", "f", "[1"), ToolCall("d", "f", "[" * 10_000)))])
    assert written.messages[0]["content"][0]["input"] == {"_incomplete_arguments": "[1"}
    assert isinstance(written.messages[0]["content"][1]["input"], dict)


@pytest.mark.parametrize("given", ["call_ab1|fc_99", "a b", "ção", "", ".", "\ud800"])
def test_legal_ids(given):
    """An illegal id becomes legal, the same way each time, and stays legal; unlike ids stay unlike."""
    made = legal_call_id(given)
    assert made.replace("_", "").replace("-", "").isalnum()
    assert made.isascii()
    assert legal_call_id(given) == made == legal_call_id(made)
    assert legal_call_id(given + "!") != legal_call_id(given + "?")
    assert legal_call_id("toolu_01-A") == "toolu_01-A"


class _Block:
    """What an SDK gives: an object that dumps itself."""

    role = "assistant"

    def __init__(self, **fields):
        self.__dict__.update(fields)
        self.fields = fields

    def model_dump(self, **_):
        """The fields."""
        return self.fields


def test_objects_of_the_sdk():
    """Content and answers of the SDK may stand in the list as they came."""
    answer = _Block(content=[_Block(**text("a")), _Block(**use())], stop_reason="tool_use")
    mixed = [{"role": "user", "content": "q"}, answer, {"role": "assistant", "content": answer.content}]
    expected = [assistant(text("a"), use())] * 2
    assert write(read(mixed, "anthropic"), "anthropic").messages[1:] == expected


CYCLE: dict = {}
CYCLE["x"] = CYCLE


@pytest.mark.parametrize(
    "given",
    [
        None,
        "x",
        [None],
        [3],
        [{"content": "x"}],
        [{"role": "tool", "content": "x"}],
        [{"role": ["user"], "content": "x"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": {}}],
        [user(3)],
        [user(result(content=3))],
        [user(result(content=[3]))],
        [user({"type": "odd", "x": CYCLE})],
        [user(text("x", more=CYCLE))],
        [user(text("x"), more=CYCLE)],
        [assistant(use(more=CYCLE))],
        [assistant({"type": "tool_use", "id": "c", "name": "f", "input": CYCLE})],
        [assistant({"type": "tool_use", "id": "c", "name": "f", "input": {1, 2}})],
    ],
    ids=range(18),
)
def test_no_messages(given):
    """What is no list of messages is refused in words."""
    with pytest.raises(InvalidMessage) as caught:
        from_anthropic(given)
    assert len(str(caught.value)) < 200
    assert not isinstance(given, list) or caught.value.position == 0


def test_a_call_without_an_id_is_kept_whole():
    """A block that is no proper call stays as it is, and is found as a hidden call."""
    odd = assistant({"type": "tool_use", "name": "f", "input": {}})
    assert write(read([odd], "anthropic"), "anthropic").messages == [odd]


def test_form_type():
    """Writing gives the pair type also for an empty list."""
    assert isinstance(to_anthropic([]), AnthropicForm)
    assert to_anthropic([]) == (None, [])
