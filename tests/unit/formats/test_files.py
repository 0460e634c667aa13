"""Conversation files: every kind is read, and a fault is told by file, line and field."""

import json
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo.errors import ImportFailed
from novelo.formats import files
from novelo.formats._scan import is_deep
from novelo.formats.openai import from_openai, to_openai
from novelo.messages import Audio, File, Image, Message, Other, Reasoning, Text, ToolCall, Usage
from novelo.testing import strategies

TALK = [{"role": "user", "content": "oi"}, {"role": "assistant", "content": "olá"}]


def body(value):
    """A value as the bytes of a file."""
    return json.dumps(value).encode()


def said(thread):
    """Roles and texts of an imported thread."""
    return [(m.role, m.text) for m in thread.messages]


@pytest.mark.parametrize(
    "data",
    [
        body(TALK),
        body({"messages": TALK}),
        body(
            {
                "timestamp": "2026-01-02T03:04:05",
                "messages": [{"role": "human", "content": "oi"}, {"role": "ai", "content": "olá"}],
            }
        ),
        b"\n".join(map(body, TALK)),
        b"\r\n".join(map(body, TALK)) + b"\r\n\r\n",
        b"\xef\xbb\xbf" + body(TALK),
        json.dumps(TALK, indent=2).encode(),
    ],
    ids=["list", "object", "simple", "lines", "windows lines", "byte order mark", "indented"],
)
def test_a_talk_is_read_from_each_kind(data):
    """The same two messages come out of every kind of file that can hold them."""
    (thread,) = files.parse(data)
    assert said(thread) == [("user", "oi"), ("assistant", "olá")]
    assert len(thread.times) == 2


def test_the_tutorials_file_goes_out_and_in():
    """A simple file that we wrote gives back what was said, at the moment it was saved, and only that."""
    call = Message("assistant", None, (ToolCall("c", "f"),))
    told = [
        Message("system", "s"),
        Message("user", "oi"),
        call,
        Message("tool", "r", tool_call_id="c"),
        Message("assistant", "olá"),
    ]
    data = files.write_simple(told, "2026-01-02T03:04:05+00:00")
    assert json.loads(data) == {
        "timestamp": "2026-01-02T03:04:05+00:00",
        "messages": [{"role": "human", "content": "oi"}, {"role": "ai", "content": "olá"}],
    }
    (thread,) = files.parse(data)
    assert said(thread) == [("user", "oi"), ("assistant", "olá")]
    assert thread.times == [1767323045.0] * 2
    assert thread.source == "simple"


def test_an_anthropic_body_is_read():
    """A body with system and blocks becomes messages with the call and its result apart."""
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    (thread,) = files.parse(body({"system": "s", "messages": messages}))
    assert [m.role for m in thread.messages] == ["system", "user", "assistant", "tool"]
    assert thread.messages[2].tool_calls[0].arguments == '{"x": 1}'


def test_several_conversations_in_one_file():
    """Lines or items that each hold messages are a thread each, as fine-tuning files are."""
    two = [{"messages": TALK}, {"messages": TALK[:1]}]
    for data in (body(two), b"\n".join(map(body, two))):
        assert [len(t.messages) for t in files.parse(data)] == [2, 1]


def own(messages, **facts):
    """An export of ours."""
    entries = [
        {"position": i, "turn": i // 2, "created": 1.5 + i, "message": msgspec.to_builtins(m)}
        for i, m in enumerate(messages)
    ]
    if len(entries) > 1:
        entries[1]["hidden"] = True
    return b"".join(files.write_own(facts, entries))


def test_our_own_format_loses_nothing():
    """Messages, moments, turns, marks and facts of two threads come back equal from one file."""
    messages = [
        Message("user", "oi\u2028\n"),
        Message(
            "assistant",
            None,
            (ToolCall("c", "f", '{"a":1}', {"x": [1]}),),
            extra={"refusal": None},
            meta={"form": "openai"},
        ),
        Message("tool", "r", tool_call_id="c"),
    ]
    facts = {
        "thread_id": "t",
        "owner": "o",
        "title": "T",
        "tags": ["a"],
        "pins": [0],
        "state": {"k": 1},
        "created": 1.0,
    }
    first, second = files.parse(own(messages, **facts) + own([]))
    assert first.messages == messages
    assert (first.times, first.turns) == ([1.5, 2.5, 3.5], [0, 0, 1])
    assert (first.thread_id, first.owner, first.title, first.created) == ("t", "o", "T", 1.0)
    assert first.facts == {**facts, "hidden": [1], "deleted": []}
    assert second.messages == []


BAD_OWN = {
    "newer version": (lambda d: d.replace(b'"version":1', b'"version":2'), 1, "version"),
    "cut short": (lambda d: d[: d.rstrip().rfind(b"\n") + 1], 1, "entries"),
    "cut inside a line": (lambda d: d[:-20], 3, None),
    "position": (lambda d: d.replace(b'"position":1', b'"position":7'), 3, "position"),
    "moment": (lambda d: d.replace(b'"created":2.5', b'"created":"x"'), 3, "created"),
    "moment of no year": (lambda d: d.replace(b'"created":2.5', b'"created":1e300'), 3, "created"),
    "turn": (lambda d: d.replace(b'"turn":0', b'"turn":true', 1), 2, "turn"),
    "role": (lambda d: d.replace(b'"role":"user"', b'"role":"secret words"'), 2, "message"),
    "thread": (lambda d: d.replace(b'"tags":[]', b'"tags":7'), 1, "thread.tags"),
    "what follows": (lambda d: d + b'{"a":1}\n', 4, "format"),
}


@pytest.mark.parametrize("damage", BAD_OWN)
def test_a_damaged_export_is_refused_by_line(damage):
    """The error names file, line and field, and quotes nothing that was said."""
    change, line, field = BAD_OWN[damage]
    with pytest.raises(ImportFailed) as found:
        files.parse(change(own([Message("user", "oi"), Message("assistant", "x")], tags=[])), "a.jsonl")
    assert str(found.value).startswith("a.jsonl")
    assert (found.value.file, found.value.line, getattr(found.value, "field", None)) == ("a.jsonl", line, field)
    assert "secret" not in str(found.value)


HUMAN = {"role": "human", "content": "a"}
BAD = {
    "nothing": (b"", {"line": 1}),
    "a number": (b"7", {}),
    "an object of another kind": (b'{"a": 1}', {"field": "messages"}),
    "messages of another type": (b'{"messages": 3}', {"field": "messages"}),
    "not UTF-8": (b'[{"role": "user",\n "content": "\xff"}]', {"line": 2}),
    "broken JSON": (b'[\n{"role": "user",\n]', {"line": 3}),
    "broken line": (b'{"role": "user", "content": "a"}\n{"role":\n', {"line": 2}),
    "a bad message in a list": (body([TALK[0], {"role": "wizard", "content": "x"}]), {"position": 1}),
    "a bad message in a line": (body(TALK[0]) + b"\n\n" + body({"role": "user", "content": 7}), {"line": 3}),
    "a line that is a list": (body(TALK[0]) + b"\n[]", {"line": 2}),
    "an unknown role in it": (body({"messages": [HUMAN, {**HUMAN, "role": "x"}]}), {"position": 1, "field": "role"}),
    "no text in a simple file": (body({"messages": [{**HUMAN, "content": None}]}), {"position": 0, "field": "content"}),
    "a moment that is none": (body({"timestamp": "soon", "messages": []}), {"field": "timestamp"}),
    "not a number": (b'[{"role": "user", "content": NaN}]', {}),
    "blank": (b"\xef\xbb\xbf \n", {"line": 1}),
    "a number without end": (b'{"role": "user", "content": "a"}\n{"role": "user", "x": 1e999}', {"line": 2}),
    "a number of too many digits": (b'[{"role": "user", "x": ' + b"9" * 5000 + b"}]", {}),
    "a moment that no date tells": (body({"timestamp": 1e300, "messages": []}), {"field": "timestamp"}),
    "instructions of another type": (body({"input": "a", "instructions": [1]}), {"field": "instructions"}),
    "an item that is none": (body([TALK[0], {"type": "function_call", "call_id": 5}]), {"position": 1}),
    "a raw zero byte": (b'[{"role": "user", "content": "a\0b"}]', {"line": 1}),
    "a database": (b"SQLite format 3\0" + b"\0" * 100, {}),
    "zero bytes": (b"\0" * 100, {"line": 1}),
    "the wrong encoding": (json.dumps(TALK).encode("utf-16"), {"line": 1}),
    "deep": (b"[" * 100 + b"]" * 100, {}),
    "very deep and open": (b'{"a":' * 1_000_000, {}),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused_in_words(kind):
    """Whatever is wrong with a file, the error is ours and says where."""
    data, facts = BAD[kind]
    with pytest.raises(ImportFailed) as found:
        files.parse(data, "x.json")
    assert str(found.value).startswith("x.json")
    assert {name: getattr(found.value, name, None) for name in facts} == facts


def test_a_large_file_is_refused_before_it_is_read():
    """Over the limit nothing is parsed."""
    with pytest.raises(ImportFailed, match="at most 10"):
        files.parse(b"[" + b" " * 10 + b"]", max_bytes=10)


@pytest.mark.parametrize("depth", [1, 63, 64, 65, 200])
def test_depth_is_counted_in_brackets_outside_texts(depth):
    """64 levels pass and 65 do not, whatever brackets stand inside texts and whether lists or objects nest."""
    text = body("[[{{" + "[" * 100 + '\\"' + "]")
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        assert is_deep(opening * depth + text + closing * depth) == (depth > 64)
    assert is_deep(b"[" + b'[{"a":[]}],' * 1000 + b"1]") is False


def test_the_look_at_depth_takes_linear_time():
    """A text of a million escaped quotes that never ends is looked through once."""
    begun = time.perf_counter()
    assert not is_deep(b'"' + b'\\"' * 1_000_000)
    assert time.perf_counter() - begun < 5


def test_half_a_surrogate_pair_is_replaced():
    """An escape that is no character is read as the replacement character, and noted."""
    (thread,) = files.parse(b'[{"role": "user", "content": "a\\ud83db"}]')
    assert thread.messages[0].content == "a\ufffdb"
    assert thread.messages[0].meta == {"normalized": True}


def node(key, parent, children, role=None, parts=None, **more):
    """A node of a ChatGPT export."""
    message = None
    if role is not None:
        kind = more.pop("kind", "text")
        content = {"content_type": kind, **({"parts": parts} if isinstance(parts, list) else {"text": parts})}
        author = {"role": role, "name": more.pop("name", None), "metadata": {}}
        message = {
            "id": key,
            "author": author,
            "content": content,
            "create_time": 5.0,
            "metadata": {},
            "recipient": "all",
            **more,
        }
    return {"id": key, "parent": parent, "children": children, "message": message}


def export():
    """A conversation with a hidden node, a branch that was left, a picture, thoughts, and a tool."""
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://f"}
    nodes = [
        node("root", None, ["sys"]),
        node("sys", "root", ["u"], "system", ["be nice"], metadata={"is_visually_hidden_from_conversation": True}),
        node("u", "sys", ["old", "think"], "user", [picture, "what is it?"], kind="multimodal_text"),
        node("old", "u", [], "assistant", ["a former answer"]),
        node("think", "u", ["call"], "assistant", ["let me look"], metadata={"model_slug": "gpt-x"}),
        node("call", "think", ["out"], "assistant", "print(1)", kind="code", recipient="python"),
        node("out", "call", ["end"], "tool", "1", kind="execution_output", name="python"),
        node("end", "out", [], "assistant", ["it is 1"]),
    ]
    mapping = {n["id"]: n for n in nodes}
    return {"title": "T", "create_time": 1.0, "mapping": mapping, "current_node": "end", "conversation_id": "id-1"}


@pytest.mark.parametrize("many", [True, False])
def test_a_chatgpt_export_is_read_along_its_current_branch(many):
    """The visible branch is read with its tool calls paired; hidden nodes are dropped, other branches counted."""
    data = body([export()] if many else export())
    (thread,) = files.parse(data)
    assert said(thread) == [
        ("user", "[image]\nwhat is it?"),
        ("assistant", "let me look"),
        ("assistant", ""),
        ("tool", "1"),
        ("assistant", "it is 1"),
    ]
    assert thread.messages[2].tool_calls == (ToolCall("call", "python", '{"input": "print(1)"}'),)
    assert thread.messages[3].tool_call_id == "call"
    assert thread.messages[1].meta == {"model": "gpt-x"}
    assert (thread.title, thread.thread_id, thread.created, thread.left_out) == ("T", "id-1", 1.0, 1)
    assert thread.times == [5.0] * 5


def test_a_chatgpt_picture_is_sent_to_nobody():
    """The pointer of a picture stays with us; written as chat dicts it is a word."""
    (thread,) = files.parse(body(export()))
    assert json.loads(files.write_openai(thread.messages[:1])) == [
        {"role": "user", "content": [{"type": "text", "text": "[image]"}, {"type": "text", "text": "what is it?"}]}
    ]
    assert thread.messages[0].parts[0].extra["chatgpt"]["asset_pointer"] == "sediment://f"


def test_without_a_current_node_the_newest_leaf_is_taken():
    """Older exports that do not say where the reader stood are read to the last leaf."""
    given = export()
    del given["current_node"]
    assert said(files.parse(body(given))[0])[-1] == ("assistant", "it is 1")


TREES = {
    "a circle": (lambda m: m["sys"].update(parent="end"), "ancestor"),
    "a circle beside the branch": (lambda m: m["old"].update(parent="old"), "ancestor"),
    "two parents": (lambda m: m["old"].update(children=["end"]), "one parent"),
    "a parent that is missing": (lambda m: m["old"].update(parent="nowhere"), "not in the mapping"),
    "a message of another type": (lambda m: m["end"].update(message=7), "expected an object"),
    "a role of another kind": (lambda m: m["end"]["message"].update(author={"role": "wizard"}), "author.role"),
    "no content": (lambda m: m["end"]["message"].update(content=None), "content is missing"),
}


@pytest.mark.parametrize("kind", TREES)
def test_a_tree_that_is_none_is_refused(kind):
    """A mapping that is no tree, or a node that is no message, is told with the conversation's number."""
    change, words = TREES[kind]
    given = export()
    change(given["mapping"])
    with pytest.raises(ImportFailed, match=words) as found:
        files.parse(body([export(), given]), "c.json")
    assert "conversation 1" in str(found.value)
    assert found.value.file == "c.json"


ITEMS = [
    {"role": "user", "content": "oi"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "r"},
    {"role": "assistant", "content": "olá"},
]


def test_responses_items_are_read_with_their_instructions():
    """A list of items and the body of a request are read; a text as input is the user's."""
    (plain,) = files.parse(body(ITEMS))
    assert [m.role for m in plain.messages] == ["user", "assistant", "tool", "assistant"]
    (whole,) = files.parse(body({"model": "m", "instructions": "Be kind.", "input": ITEMS}))
    assert whole.messages == [Message("system", "Be kind."), *plain.messages]
    assert len(whole.times) == 5
    (short,) = files.parse(body({"input": "oi"}))
    assert said(short) == [("user", "oi")]


def test_the_tutorials_messages_may_stand_alone():
    """A list of human and ai is read without the object around it."""
    (thread,) = files.parse(body([{"role": "human", "content": "oi"}, {"role": "ai", "content": "olá"}]))
    assert (thread.source, said(thread)) == ("simple", [("user", "oi"), ("assistant", "olá")])


def test_a_message_of_fifty_megabytes_is_read():
    """Size is no fault below the limit: a text of 50 MB, line breaks and quotes in it, comes back whole."""
    text = 'a "b" [{\n' * 5_000_000
    (thread,) = files.parse(body([{"role": "user", "content": text}]))
    assert thread.messages[0].content == text


def test_the_deepest_message_that_is_stored_can_be_exported():
    """What the store takes, 64 levels, comes back from our own file, which has levels of its own around it."""
    deep: list = []
    for _ in range(61):
        deep = [deep]
    message = from_openai({"role": "user", "content": "x", "deep": deep})
    assert files.parse(own([message]))[0].messages == [message]


text = strategies.texts(blank=True) | st.text(max_size=5)
word = st.none() | st.text(max_size=5)
value = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=3), v, max_size=2),
    max_leaves=4,
)
further = st.dictionaries(st.text(max_size=3), value, max_size=2)
parts = st.one_of(
    st.builds(Text, text=text, extra=further),
    st.builds(Image, url=word, data=word, detail=word, extra=further),
    st.builds(Audio, data=word, media_type=word),
    st.builds(File, data=word, name=word, file_id=word),
    st.builds(Reasoning, text=word, signature=word, data=word, id=word),
    st.builds(Other, value=value),
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=st.none() | text | st.lists(parts, max_size=3).map(tuple),
    tool_calls=st.lists(st.builds(ToolCall, id=text, name=text, arguments=text, extra=further), max_size=2).map(tuple),
    tool_call_id=word,
    name=word,
    id=word,
    usage=st.none() | st.builds(Usage, input=st.integers(0, 9), raw=further),
    extra=further,
    meta=further,
)


@given(st.lists(st.lists(messages, max_size=4), min_size=1, max_size=3), further)
def test_any_threads_come_back_from_our_own_file(threads, metadata):
    """Whatever messages threads hold, our own file gives them back equal, one after the other."""
    data = b"".join(own(thread, title=str(i), metadata=metadata) for i, thread in enumerate(threads))
    found = files.parse(data)
    assert [t.messages for t in found] == threads
    assert [t.facts["metadata"] for t in found] == [metadata] * len(threads)
    assert [t.title for t in found] == [str(i) for i in range(len(threads))]


@given(strategies.conversations(max_turns=2))
def test_any_conversation_comes_back_from_a_list_of_chat_dicts(chat):
    """What we write as chat dicts is read as the same messages."""
    read = [from_openai(m) for m in chat]
    (thread,) = files.parse(files.write_openai(read))
    assert thread.messages == read and [to_openai(m) for m in thread.messages] == chat


SEEDS = [
    body(TALK),
    body({"timestamp": "2026-01-02", "messages": [HUMAN]}),
    body({"system": "s", "messages": TALK}),
    body(ITEMS),
    own([Message("user", "oi"), Message("assistant", "x")], tags=["a"]),
    body([export()]),
]


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.binary(max_size=4)), max_size=4),
)
def test_a_damaged_file_is_read_or_refused_and_never_crashes(data, damages):
    """Bytes cut out and put in anywhere give conversations or our error that names the file, nothing else."""
    for at, gone, new in damages:
        data = data[:at] + new + data[at + gone :]
    try:
        assert files.parse(data, "x.json")
    except ImportFailed as error:
        assert str(error).startswith("x.json") and error.file == "x.json"


FIELDS = """role content type messages input text mapping current_node parent children message author id tool_calls
    function name arguments call_id output system timestamp entries thread position parts summary"""
names = st.sampled_from(FIELDS.split())
words = st.sampled_from(["user", "ai", "message", "text", "tool", "function_call", "a"])
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(names, v, max_size=5),
    max_leaves=30,
)


@given(junk)
def test_any_json_is_read_or_refused_and_never_crashes(value):
    """Fields of every kind of file with values of any type: conversations or our error."""
    try:
        assert files.parse(body(value), "x.json")
    except ImportFailed as error:
        assert error.file == "x.json"
