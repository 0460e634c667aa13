"""Whatever was said, and wherever a summary was made of it: contexts stay valid, and nothing goes unread or unnamed."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import novelo
from builders import says, system, user
from novelo.asking import ModelReply
from novelo.compaction import Contract, flow
from novelo.context.listing import ListSource
from novelo.context.spec import parse
from novelo.covering import HELD_CALLS, masks_of, plan, stage_of
from novelo.errors import ContextTooSmall
from novelo.messages import Message
from novelo.testing import ScriptedModel
from novelo.testing import strategies as some
from novelo.tokens import count_message, counter

PROVIDERS = ("openai", "anthropic", "gemini", "mistral", "strict")
COUNT = counter("estimate")
WEIGH = partial(count_message, count=COUNT)
talks = some.conversations() | some.broken_conversations()
forms = st.sampled_from(("pair", "single"))
keeps = st.sampled_from(("1messages", "2messages", "5messages", "1turns", "2turns", "10tokens", "60tokens"))
stages = st.builds("summarize:9999messages,keep={},form={},size=60".format, keeps, forms)
around = st.sampled_from(
    (
        "{}",
        "redact:secrets,cards,emails + {}",
        "{} + clear_tools:keep=1",
        "strip_media:keep=1turns + {}",
        "window:3turns + {}",
        "{} + window:2turns",
        "{} + window:3messages",
        "{} + window:3turns,slack=2",
        "{} + ends:first=1,last=2",
        "{} + drop_oldest:2messages",
        "{} + clear_tools:keep=0 + window:4turns",
    )
)


class Summarizer:
    """Answers every request with a line that no language can be read from, and keeps what it was asked."""

    def __init__(self):
        self.requests = []

    def run(self, planned, contract):
        """The summary of a plan."""
        asking = flow(planned, contract)
        try:
            request = next(asking)
            while True:
                self.requests.append(request)
                request = asking.send(ModelReply(Message("assistant", f"Nota {len(self.requests)}: A-4471.")))
        except StopIteration as end:
            return end.value

    @property
    def read(self):
        """All words that it was given to read."""
        return " ".join(r.messages[1]["content"] for r in self.requests)

    def sizes(self):
        """The tokens of each request."""
        return [sum(COUNT(m["content"]) for m in r.messages) for r in self.requests]


def summarized(messages, policy, base=None, limit=8000, asked=None, force=True):
    """The next version of a list's summary, or the base where there is nothing to cover; and the plan."""
    policy = parse(policy)
    source = ListSource(messages, WEIGH)
    planned = plan(source, stage_of(policy), base, WEIGH, force=force, masks=masks_of(policy))
    if planned is None:
        return base, None
    made = (asked or Summarizer()).run(planned, Contract(stage_of(policy), COUNT, limit))
    return msgspec.structs.replace(made, version=made.base + 1, active=True), planned


@st.composite
def compacted(draw, policies=stages):
    """A conversation, a policy that summarizes, and the summary that was made of its beginning, once or twice."""
    messages, policy = draw(talks), draw(policies)
    summary = None
    for end in sorted(draw(st.lists(st.integers(1, len(messages)), min_size=1, max_size=2))):
        summary, _ = summarized(messages[:end], policy, summary)
    return messages, policy, summary


def outside(messages):
    """Positions of the newest question, and of all that stand before any turn."""
    asked = [i for i, m in enumerate(messages) if m["role"] == "user"]
    return asked[-1] if asked else None


def kept(context):
    """The positions that a context holds."""
    return {p for start, stop in context.manifest.kept for p in range(start, stop)}


def stands(context, messages, summary, *, first=0):
    """Assert what holds of every context with a summary."""
    inside, manifest = kept(context), context.manifest
    newest = outside(messages)
    if newest is not None:
        assert newest in inside
    reasons = {p: why for start, stop, why in manifest.left_out for p in range(start, stop)}
    assert inside | set(reasons) == set(range(len(messages)))
    assert "hidden" not in reasons.values()
    said = [
        e.position
        for e in context.entries
        if e.position >= 0 and not e.made and e.message.role in ("user", "assistant") and "written" not in e.changed
    ]
    assert said == sorted(said)
    begin = ListSource(messages, WEIGH).begin
    if begin and (messages[0]["content"] or "").strip():
        assert context.entries[0].message.role == "system"
        assert context.entries[0].message.text.startswith(messages[0]["content"])
        assert sum(e.message.text.startswith(messages[0]["content"]) for e in context.entries if e.position == 0) == 1
    if summary is not None and summary.text:
        covered = {p for start, stop in summary.covered for p in range(start, stop)}
        if novelo.check(messages):  # a damaged list may pair a result anew when more is said
            covered = {p for p in covered if messages[p]["role"] != "tool"}
        assert not [p for p in covered & inside if p >= first and p not in summary.held]


@pytest.mark.parametrize("provider", PROVIDERS)
@settings(max_examples=60)
@given(given=compacted(st.builds(lambda shape, stage: shape.format(stage), around, stages)))
def test_a_context_with_a_summary_is_valid(provider, given):
    """Alone and between other stages a summary gives a valid context; what is not in it is out for a reason."""
    messages, policy, summary = given
    context = novelo.compose(messages, policy, provider, summary=summary)
    if any(e.message.role != "system" for e in context.entries):
        assert novelo.check(context.messages("message"), provider) == []
    else:  # results without a call, answers that say nothing: nobody asked
        assert not any(m["role"] == "user" for m in messages)
    ends = sorted(i for i, m in enumerate(messages) if m["role"] == "user")
    first = (ends[1] if len(ends) > 1 else len(messages)) if "ends" in policy else 0
    stands(context, messages, summary, first=first)


@settings(max_examples=80)
@given(given=compacted(), provider=st.sampled_from(PROVIDERS))
def test_a_context_with_a_summary_holds_it_once(given, provider):
    """The summary stands once, behind the system prompt and before all that was said."""
    messages, policy, summary = given
    context = novelo.compose(messages, policy, provider, summary=summary)
    texts = [e.message.text for e in context.entries]
    if summary is not None:
        assert sum(summary.text in text for text in texts) == 1
        first = next(e for e in context.entries if e.message.role != "system")
        assert first.position == -2
        assert context.manifest.summary == summary.version
        assert context.manifest.tokens["summary"] == summary.tokens


@settings(max_examples=80)
@given(given=compacted(), provider=st.sampled_from(PROVIDERS))
def test_composing_again_changes_nothing(given, provider):
    """A context with a summary is an ordinary list: composed once more without the record it stays as it is."""
    messages, policy, summary = given
    once = novelo.compose(messages, policy, provider, summary=summary).messages("openai")
    assert novelo.compose(once, policy, provider).messages("openai") == once


@settings(max_examples=100)
@given(given=compacted(), provider=st.sampled_from(PROVIDERS), budget=st.integers(20, 600), low=st.booleans())
def test_the_budget_holds_the_ceiling(given, provider, budget, low):
    """With a summary too the budget is kept, or the error names the tokens with which it could be."""
    messages, policy, summary = given
    more = f",low={budget // 2}" if low else ""
    try:
        context = novelo.compose(messages, f"{policy} + budget:{budget}{more}", provider, summary=summary)
    except ContextTooSmall as error:
        assert error.budget == budget < error.needed
        again = novelo.compose(messages, f"{policy} + budget:{error.needed}", provider, summary=summary)
        assert again.tokens <= error.needed
    else:
        assert context.tokens <= budget
        stands(context, messages, summary)


@settings(max_examples=100)
@given(messages=talks, policy=stages, cut=st.integers(1, 30))
def test_a_plan_covers_neither_the_question_nor_what_waits(messages, policy, cut):
    """The newest question is never covered, nor is a call that waits for its result, with its own question."""
    messages = messages[:cut]
    _, planned = summarized(messages, policy)
    if planned is None:
        return
    covered = {e.position for e in planned.entries}
    assert covered and covered.isdisjoint(planned.held) and max(covered) < planned.upto
    assert outside(messages) not in covered
    if novelo.check(messages) and [v.rule for v in novelo.check(messages)] != ["unanswered-call"]:
        return
    answered = {(m["tool_call_id"]) for m in messages[-4:] if m["role"] == "tool"}
    last = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=None)
    if last is not None and any(c["id"] not in answered for c in messages[last].get("tool_calls") or ()):
        assert last not in covered


@settings(max_examples=100)
@given(
    talk=some.conversations(max_turns=3, tools=False, system=False),
    more=some.conversations(max_turns=4, tools=False, system=False, min_turns=3),
    waits=st.integers(1, HELD_CALLS),
    rounds=st.integers(1, 3),
)
def test_waiting_calls_stay_for_several_summaries(talk, more, waits, rounds):
    """However often a thread is summarized, the newest calls that wait stay in the context with their questions."""
    called = [{"id": f"wait_{k}", "type": "function", "function": {"name": "ask", "arguments": "{}"}} for k in range(3)]
    messages = [*talk]
    for k in range(waits):
        messages += [user(f"Ask {k}."), {"role": "assistant", "content": None, "tool_calls": [called[k]]}]
    summary = None
    for _ in range(rounds):
        messages += more
        summary, _ = summarized(messages, "summarize:99messages,keep=1", summary)
    context = novelo.compose(messages, "summarize:99messages,keep=1", summary=summary)
    found = {c.id for e in context.entries for c in e.message.tool_calls}
    assert {f"wait_{k}" for k in range(waits)} <= found
    messages += [{"role": "tool", "tool_call_id": "wait_0", "content": "the answer"}]
    context = novelo.compose(messages, "summarize:99messages,keep=1", summary=summary)
    assert sum(e.message.role == "tool" and e.message.text == "the answer" for e in context.entries) == 1


def words(message):
    """The words of a message's text, results and calls."""
    called = (f"{c.name}: {c.arguments}" for c in message.tool_calls)
    return " ".join([message.text, *called]).split()


@settings(max_examples=80)
@given(
    messages=talks,
    policy=stages,
    limit=st.sampled_from((700, 1200, 8000)),
    long=st.none() | st.integers(200, 3000),
)
def test_all_that_is_covered_was_read(messages, policy, limit, long):
    """Every word of the covered messages stands in a request, and no request is longer than the summarizer's input."""
    if long is not None:
        messages = [user(" ".join(f"w{k}" for k in range(long))), says("x"), *messages[-6:], user("last")]
    asked = Summarizer()
    _, planned = summarized(messages, policy, limit=limit, asked=asked)
    if planned is None:
        assert asked.requests == []
        return
    read = set(asked.read.split())
    missing = [w for e in planned.entries for w in words(e.message) if w not in read]
    assert [w for w in missing if len(w) < 20] == []
    assert max(asked.sizes()) <= limit


@settings(max_examples=80)
@given(messages=some.conversations(), policy=some.summaries())
def test_below_the_trigger_nothing_happens(messages, policy):
    """What is not due is not planned, and without a summary the context is the list that came in."""
    stage = stage_of(parse(policy))
    source = ListSource(messages, WEIGH)
    sizes = len(messages) - source.begin, source.turn_count, source.tokens_total
    if not stage.due(*sizes, None):
        assert plan(source, stage, None, WEIGH) is None
    assert novelo.compose(messages, policy).messages() == messages


def test_what_was_held_is_not_read_again_alone():
    """A call named twice whose one result came behind another question is held, and is no news the next time."""
    call = {"id": "c0", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}
    said = [
        {"role": role, "content": "Oi!"} for role in ("assistant", "user", "user", "assistant", "user", "assistant")
    ]
    asked = {"role": "assistant", "content": None, "tool_calls": [call, call]}
    talk = [*said[:2], asked, said[2], {"role": "tool", "tool_call_id": "c0", "content": "Oi!"}, *said[3:]]
    policy = "summarize:9999messages,keep=1messages,form=pair,size=60"
    summary, _ = summarized(talk, policy)
    assert summary is not None and summary.held
    assert summarized(talk, policy, summary)[1] is None


@settings(max_examples=60)
@given(messages=talks, policy=stages, later=some.conversations(system=False, max_turns=3))
def test_planning_again_covers_only_what_is_new(messages, policy, later):
    """Without new messages there is nothing to cover; with new ones only these and what was held before are read."""
    summary, _ = summarized(messages, policy)
    assert summarized(messages, policy, summary)[1] is None
    _, planned = summarized([*messages, *later], policy, summary)
    if summary is not None and planned is not None:
        assert all(e.position >= summary.upto or e.position in summary.held for e in planned.entries)
        assert planned.upto >= summary.upto


@pytest.fixture(scope="module", params=["memory://", "sqlite://"])
def memory(request):
    """One memory for all examples, whose summarizer never tires."""
    model = ScriptedModel([lambda asked: "Nota: A-4471."] * 100_000)
    with novelo.open(request.param, summarizer=model, worker="off") as opened:
        yield opened


@settings(max_examples=50)
@given(
    messages=talks,
    policy=st.builds(lambda shape, stage: shape.format(stage), around, stages),
    cut=st.integers(0, 12),
    provider=st.sampled_from(PROVIDERS),
)
def test_a_stored_summary_composes_like_a_list_with_it(memory, messages, policy, cut, provider):
    """A thread that was summarized gives the context of its plain list with the same record, and loses no message."""
    thread = memory.thread(memory.new_id())
    thread.append(messages[: cut + 1])
    thread.compact(policy=policy)
    thread.append(messages[cut + 1 :])
    thread.compact(policy=policy)
    plain = [e.message for e in thread]
    assert len(plain) == len(messages)
    expected = novelo.compose(plain, policy, provider, summary=thread.summary)
    found = thread.context(policy=policy, provider=provider)
    assert found.messages("openai") == expected.messages("openai") and found.tokens == expected.tokens


@settings(max_examples=60)
@given(messages=talks, cut=st.integers(1, 12))
def test_undone_is_as_if_it_had_not_been(memory, messages, cut):
    """Taken back, a summary leaves the contexts that were there before it, step by step."""
    policy = "summarize:99messages,keep=1"
    thread = memory.thread(memory.new_id())
    thread.append([system("s"), *messages[:cut]])
    seen = [thread.context(policy=policy).messages()]
    if thread.compact(policy=policy) is None:
        return
    assert thread.undo_compaction() is not None and thread.summary is None
    assert thread.context(policy=policy).messages() == seen[0]
    assert thread.undo_compaction() is None
