"""Hypothesis strategies: conversations as they are, as they come out of crashes and careless cuts, and policies.

    from hypothesis import given
    from novelo.testing import strategies as some

    @given(some.conversations(), some.policies())
    def test_something(messages, policy): ...

Conversations are lists of OpenAI Chat dicts: plain data, made anew for each draw.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

Chat = dict[str, Any]
Draw = Callable[..., Any]

# Said in several languages and scripts, on purpose with what breaks careless code: accents, signs without spaces, right
# to left, emoji of several code points, line breaks, numbers that matter, and text that looks like markup.
SAYINGS = (
    "Oi! Meu nome é Ana.",
    "E se eu tiver pago com Pix?",
    "O pedido A-4471 chegou com defeito; já enviei 2 fotos.",
    "Não encontrei.",
    "我是工程师张三。",
    "可以退货吗？订单号是 20261130。",
    "请稍等，我查一下。",
    "What is the refund policy?",
    "It takes up to 5 business days.\n\n1. Open the app\n2. Tap *Refund*",
    "¿Cuánto tarda el reembolso?",
    "أين طلبي؟",
    "返品できますか？",
    "👩‍👩‍👧 ok 👍🏽",
    '{"status": "paid", "total": 129.9}',
    "<b>not markup</b> & \\ \" '",
    "x",
)
NAMES = ("find_order", "refund", "get_weather", "write_file")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


# ------------------------------------------------------------------------------------------------ values
@functools.cache
def texts(blank: bool = False) -> st.SearchStrategy[str]:
    """Texts as people and models write them; with `blank` also such that say nothing."""
    written = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
        lambda t: bool(t.strip())
    )
    said = st.sampled_from(SAYINGS) | written
    return said | st.sampled_from(("", " ", "\n\t", "\u3000")) if blank else said


@functools.cache
def arguments() -> st.SearchStrategy[str]:
    """Arguments of a tool call: the text of a JSON object, spaced and escaped in different ways."""
    values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.sampled_from(SAYINGS)
    objects = st.dictionaries(
        st.sampled_from(("id", "city", "número", "n")), values | st.lists(values, max_size=2), max_size=3
    )
    return st.builds(lambda o, plain: json.dumps(o, ensure_ascii=plain), objects, st.booleans())


@functools.cache
def call_ids(reused: bool = True) -> st.SearchStrategy[str]:
    """Ids of tool calls, in characters that every provider takes; few of them if they shall recur in later turns."""
    if reused:
        return st.sampled_from(("call_0", "call_1", "call_2", "call_3"))
    return st.text("abcdefghijkmnpqrstuvwxyz0123456789", min_size=9, max_size=9)


@functools.cache
def contents(media: bool = True) -> st.SearchStrategy[Any]:
    """The content of a user message: a text, or parts with text, pictures, sound and files."""
    if not media:
        return texts()
    part = st.one_of(
        st.builds(lambda t: {"type": "text", "text": t}, texts()),
        st.sampled_from(
            (
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}},
                {"type": "file", "file": {"filename": "nota.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
            )
        ).map(lambda p: json.loads(json.dumps(p))),
    )
    opened = st.builds(lambda t, more: [{"type": "text", "text": t}, *more], texts(), st.lists(part, max_size=3))
    return texts() | opened


# Made once: making a strategy costs more than drawing from it.
_TEXT_OR_NONE = st.none() | texts()
_NAME = st.sampled_from(NAMES)
_EITHER = st.booleans()
_FEW = st.integers(0, 3)


# ------------------------------------------------------------------------------------------------ sound conversations
@st.composite
def steps(draw: Draw, ids: st.SearchStrategy[str], most_calls: int = 3) -> list[Chat]:
    """An assistant message that calls 1 to `most_calls` tools, and their results behind it, in any order."""
    chosen = draw(st.lists(ids, min_size=1, max_size=most_calls, unique=True))
    calls = [
        {
            "id": i,
            "type": "function",
            "function": {"name": draw(_NAME), "arguments": draw(arguments())},
        }
        for i in chosen
    ]
    head = {"role": "assistant", "content": draw(_TEXT_OR_NONE), "tool_calls": calls}
    results = [{"role": "tool", "tool_call_id": i, "content": draw(texts())} for i in draw(st.permutations(chosen))]
    return [head, *results]


@st.composite
def conversations(
    draw: Draw,
    valid: bool = True,
    *,
    system: bool | None = None,
    tools: bool = True,
    media: bool = True,
    reused_ids: bool = True,
    min_turns: int = 1,
    max_turns: int = 6,
    ends_with_user: bool | None = None,
) -> list[Chat]:
    """A conversation: perhaps a system message, then turns of a question, 0 to 3 tool steps, and an answer.

    Args:
        valid: sendable to OpenAI, Anthropic, Gemini and Mistral as it stands (to strict templates too without `tools`);
            False damages it, as `broken_conversations` does.
        system: whether it opens with a system message; None leaves it to chance.
        tools: whether there are tool calls, parallel ones too.
        media: whether user messages may hold pictures, sound and files.
        reused_ids: whether ids of calls recur in later turns, as they do in real threads; never within a message.
        min_turns: the least number of turns.
        max_turns: the most.
        ends_with_user: whether the last turn is still without an answer; None leaves it to chance.
    """
    messages: list[Chat] = []
    if draw(_EITHER) if system is None else system:
        messages.append({"role": "system", "content": draw(texts())})
    ids = call_ids(reused_ids)
    count = draw(st.integers(min_turns, max_turns))
    for turn in range(count):
        messages.append({"role": "user", "content": draw(contents(media))})
        open_end = turn == count - 1 and (draw(_EITHER) if ends_with_user is None else ends_with_user)
        if open_end:
            break
        for _ in range(draw(_FEW) if tools else 0):
            messages.extend(draw(steps(ids)))
        messages.append({"role": "assistant", "content": draw(texts())})
    if valid:
        return messages
    return _damaged(draw, messages, tuple(DAMAGES), 3)


# ------------------------------------------------------------------------------------------------ damages
def _drop(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """A message is lost: a crash between two writes, a filter, a deletion by id."""
    at = _any(draw, messages)
    return messages[:at] + messages[at + 1 :]


def _duplicate(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """A message stands twice, later too: a retried write, two workers."""
    at = _any(draw, messages)
    to = draw(st.integers(at, len(messages)))
    return _put(messages, to, messages[at])


def _reorder(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """A message stands elsewhere: clocks that disagree, results that came late."""
    at = _any(draw, messages)
    rest = messages[:at] + messages[at + 1 :]
    to = _any(draw, messages)
    return _put(rest, to, messages[at])


def _truncate(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """Only a stretch is left: "the last n messages", or a process that was killed."""
    first = draw(st.integers(0, len(messages) - 1))
    return messages[first : draw(st.integers(first + 1, len(messages)))]


def _blank(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """A message says nothing: an empty answer of a model, a message stripped of its content."""
    at = _any(draw, messages)
    return _with(messages, at, content=draw(st.sampled_from((None, "", " \n", []))))


def _broken_arguments(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """The arguments of a call are no JSON object: a model that was cut off, or wrote Python."""
    at = _one_of(draw, messages, lambda m: bool(m.get("tool_calls")))
    if at is None:
        return messages
    written = draw(st.sampled_from(('{"id": 4', "", "null", "[1]", "{'id': 1}", "not json", '{"a": NaN}', '"text"')))
    calls = [{**c, "function": {**c["function"], "arguments": written}} for c in messages[at]["tool_calls"]]
    return _with(messages, at, tool_calls=calls)


def _reused_ids(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """All ids of calls and results are one: servers that number by name, or not at all."""
    one = draw(st.sampled_from(("call_0", "", "functions.find:0")))
    out: list[Chat] = []
    for message in messages:
        changed = dict(message)
        if message.get("tool_calls"):
            changed["tool_calls"] = [{**call, "id": one} for call in message["tool_calls"]]
        if "tool_call_id" in message:
            changed["tool_call_id"] = one
        out.append(changed)
    return out


def _system_inside(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """A system message stands inside: instructions added on the way, two histories glued together."""
    at = draw(st.integers(0, len(messages)))
    return _put(messages, at, {"role": "system", "content": draw(texts())})


def _assistant_first(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """The assistant opens: a greeting, or a cut between question and answer."""
    at = next((i for i, m in enumerate(messages) if m["role"] != "system"), len(messages))
    return _put(messages, at, {"role": "assistant", "content": draw(texts())})


def _interleave(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """Something stands between a call and its result: the user typed while the tool ran."""
    at = _one_of(draw, messages, lambda m: m["role"] == "tool")
    if at is None:
        return messages
    return _put(messages, at, {"role": draw(st.sampled_from(("user", "assistant"))), "content": draw(texts())})


def _hide_calls(draw: Draw, messages: list[Chat]) -> list[Chat]:
    """Calls stand in content blocks, in another provider's form, where nobody looks for them."""
    at = _one_of(draw, messages, lambda m: bool(m.get("tool_calls")))
    if at is None:
        return messages
    blocks = [_block(call) for call in messages[at]["tool_calls"]]
    said = messages[at].get("content")
    told = [{"type": "text", "text": said}] if isinstance(said, str) and said else []
    hidden = {k: v for k, v in messages[at].items() if k != "tool_calls"} | {"content": told + blocks}
    return [*messages[:at], hidden, *messages[at + 1 :]]


DAMAGES: dict[str, Callable[[Draw, list[Chat]], list[Chat]]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "reorder": _reorder,
    "truncate": _truncate,
    "blank": _blank,
    "broken arguments": _broken_arguments,
    "reused ids": _reused_ids,
    "system inside": _system_inside,
    "assistant first": _assistant_first,
    "interleave": _interleave,
    "hidden calls": _hide_calls,
}


@st.composite
def broken_conversations(
    draw: Draw,
    damages: Sequence[str] = tuple(DAMAGES),
    most: int = 3,
    base: st.SearchStrategy[list[Chat]] | None = None,
) -> list[Chat]:
    """A conversation after 1 to `most` damages. By chance it may still be valid; it is never empty.

    Args:
        damages: which ones, keys of `DAMAGES`; each says in its docstring where it comes from.
        most: how many at most.
        base: what is damaged; `conversations()` if None.
    """
    messages = draw(conversations() if base is None else base)
    return _damaged(draw, messages, damages, most)


def _damaged(draw: Draw, messages: list[Chat], damages: Sequence[str], most: int) -> list[Chat]:
    for name in draw(st.lists(st.sampled_from(tuple(damages)), min_size=1, max_size=most)):
        messages = DAMAGES[name](draw, messages) or messages
    return messages


def _any(draw: Draw, messages: list[Chat]) -> int:
    place: int = draw(st.integers(0, len(messages) - 1))
    return place


def _one_of(draw: Draw, messages: list[Chat], wanted: Callable[[Chat], bool]) -> int | None:
    places = [at for at, message in enumerate(messages) if wanted(message)]
    return draw(st.sampled_from(places)) if places else None


def _put(messages: list[Chat], at: int, message: Chat) -> list[Chat]:
    return [*messages[:at], message, *messages[at:]]


def _with(messages: list[Chat], at: int, **fields: Any) -> list[Chat]:
    return [*messages[:at], {**messages[at], **fields}, *messages[at + 1 :]]


def _block(call: Chat) -> Chat:
    """A call as a content block of the Messages API."""
    try:
        given = json.loads(call["function"]["arguments"])
    except ValueError:
        given = {}
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given}


# ------------------------------------------------------------------------------------------------ policies
def policies(most_stages: int = 3, budgets: bool = True) -> st.SearchStrategy[str]:
    """Spec strings of every policy, alone and in pipelines; none of them asks a model.

    Args:
        most_stages: how many stages a pipeline has at most.
        budgets: whether there are token budgets, which may be too small for any valid context (`ContextTooSmall`).
    """
    number = st.integers(1, 20)
    stages = [
        st.just("buffer"),
        st.builds("window:{}turns".format, number),
        st.builds("window:{}messages".format, number),
        number.flatmap(lambda n: st.builds(f"window:{n}turns,slack={{}}".format, st.integers(0, n - 1))),
        st.builds("ends:first={},last={}".format, st.integers(0, 3), number),
        st.builds("drop_oldest:{}messages".format, number),
        st.builds("clear_tools:keep={}".format, st.integers(0, 5)),
        st.builds("strip_media:keep={}turns".format, st.integers(0, 3)),
        st.builds("redact:{}".format, st.sampled_from(("secrets", "cards", "emails", "secrets,cards,emails"))),
        st.builds("recall:{},tokens={}".format, st.integers(1, 6), st.integers(1, 400)),
        st.builds("recall:{},share={}%".format, st.integers(1, 6), st.integers(1, 100)),
        summaries(),
    ]
    if budgets:
        high = st.integers(50, 8000)
        stages.append(st.builds("budget:{}".format, high))
        stages.append(high.flatmap(lambda n: st.builds(f"budget:{n},low={{}}".format, st.integers(1, n - 1))))
        stages.append(st.builds("budget:{}%,window={}".format, st.integers(10, 100), st.integers(500, 8000)))
    pipelines = st.lists(st.one_of(stages), min_size=1, max_size=most_stages)
    return pipelines.filter(lambda specs: sum(spec.startswith("recall") for spec in specs) < 2).map(" + ".join)


@functools.cache
def summaries() -> st.SearchStrategy[str]:
    """Spec strings of the stage that puts a summary in place; it changes nothing in a thread that has none."""
    number = st.integers(1, 12)
    more = st.sampled_from(("", ",form=single", ",facts=40", ",floor=0%"))
    same = {"messages": 3, "turns": 2, "tokens": 1}  # the least by which a trigger is above what is kept
    triggers = [
        st.builds(
            lambda keep, over, unit=unit, least=least: f"summarize:{keep + least + over}{unit},keep={keep}",
            number,
            st.integers(0, 12),
        )
        for unit, least in same.items()
    ]
    triggers.append(st.builds("summarize:{}tokens,keep={}messages".format, st.integers(1, 400), number))
    triggers.append(st.builds("summarize:{}messages/{}tokens,keep={}turns".format, number, st.integers(1, 400), number))
    return st.builds("{}{}".format, st.one_of(triggers), more)
