"""Tokens as providers report them, whole, in passes and in streams, come to one meaning."""

from __future__ import annotations

import pytest

from novelo.formats.reply import StreamReader, context_tokens, long_writes, passes, read_usage
from novelo.messages import Usage


def counts(usage):
    """All but the raw report."""
    return (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3}, (9, 3, 0, 0, 0)),
        (
            {"prompt_tokens": 90, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 64}},
            (90, 3, 64, 0, 0),
        ),
        ({"prompt_tokens": 90, "completion_tokens": 3, "prompt_cache_hit_tokens": 64}, (90, 3, 64, 0, 0)),
        (
            {
                "input_tokens": 90,
                "output_tokens": 9,
                "total_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 5},
            },
            (90, 9, 0, 0, 5),
        ),
        ({"input_tokens": 90, "output_tokens": 9, "cached_input_tokens": 80}, (90, 9, 80, 0, 0)),
        (
            {"input_tokens": 90, "output_tokens": 9, "input_token_details": {"cache_read": 50, "cache_creation": 20}},
            (90, 9, 50, 20, 0),
        ),
        (
            {
                "input_tokens": 90,
                "output_tokens": 9,
                "input_token_details": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 5},
            },
            (90, 9, 0, 12, 0),
        ),
        (
            {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30},
            (100, 5, 60, 30, 0),
        ),
        (
            {"input_tokens": 10, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 40}},
            (10, 50, 0, 0, 40),
        ),
    ],
    ids=["chat", "chat-cached", "chat-hit", "responses", "flat", "langchain", "lifetimes", "anthropic", "thinking"],
)
def test_every_form_comes_to_one_meaning(given, expected):
    """Input counts all input, cached tokens too, whatever the provider calls its parts; the report itself is kept."""
    usage = read_usage(given)
    assert counts(usage) == expected
    assert usage.raw == given


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"input_tokens": 0, "output_tokens": 0},
        {"prompt_tokens": None, "completion_tokens": None},
        {"input_tokens": "many"},
    ],
    ids=range(6),
)
def test_nothing_reported_is_not_zero(given):
    """A server that fills the fields with zeros has reported nothing, so that our own count is used instead."""
    assert read_usage(given) is None


# -------------------------------------------------------------------------------------------------- passes
def a_pass(kind, read, wrote, **more):
    """One entry of `usage.iterations`."""
    return {
        "type": kind,
        "input_tokens": read,
        "output_tokens": wrote,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        **more,
    }


def test_a_compaction_pass_is_added():
    """The provider's own compaction is billed and missing in the call's figures: it is added, and told apart."""
    raw = {
        "input_tokens": 2300,
        "output_tokens": 100,
        "iterations": [a_pass("compaction", 18000, 350), a_pass("message", 2300, 100)],
    }
    usage = read_usage(raw)
    assert counts(usage) == (20300, 450, 0, 0, 0)
    assert [(p.kind, p.usage.input) for p in passes(raw)] == [("compaction", 18000), ("message", 2300)]
    assert usage.raw == raw


def test_messages_in_the_list_are_not_counted_twice():
    """A loop with the server's own tools is the sum of its message passes, whether the call's figures say so or not."""
    listed = [a_pass("message", 1000, 50), a_pass("message", 1600, 70, cache_read_input_tokens=900)]
    summed = {"input_tokens": 2600, "output_tokens": 120, "cache_read_input_tokens": 900, "iterations": listed}
    first_only = {"input_tokens": 1000, "output_tokens": 120, "iterations": listed}
    assert counts(read_usage(summed)) == counts(read_usage(first_only)) == (3500, 120, 900, 0, 0)


def test_the_advisor_is_a_pass_of_another_model():
    """An advisor's tokens are added, and named by its model, for they have its price."""
    raw = {
        "input_tokens": 400,
        "output_tokens": 90,
        "iterations": [
            a_pass("message", 400, 40),
            a_pass("advisor_message", 820, 530, model="claude-big"),
            a_pass("message", 0, 50),
        ],
    }
    assert counts(read_usage(raw)) == (1220, 620, 0, 0, 0)
    assert [p.model for p in passes(raw)] == [None, "claude-big", None]


def test_a_declined_pass_is_not_billed_by_us():
    """With a fallback the call's own figures are believed: a pass that was declined may be told but not billed."""
    raw = {
        "input_tokens": 500,
        "output_tokens": 60,
        "iterations": [a_pass("message", 480, 0), a_pass("fallback_message", 500, 60, model="claude-other")],
    }
    assert counts(read_usage(raw)) == (500, 60, 0, 0, 0)


def test_the_context_is_the_last_pass():
    """The size of a context is what the last message pass read, not the sum of the loop, nor a compaction's."""
    raw = {
        "input_tokens": 2600,
        "output_tokens": 120,
        "iterations": [a_pass("message", 1000, 50), a_pass("message", 1600, 70), a_pass("compaction", 5000, 300)],
    }
    assert context_tokens(read_usage(raw)) == 1600
    assert context_tokens(Usage(70, 3)) == 70


def test_cache_writes_by_lifetime_stay_known():
    """How much was written to the cache for an hour can be told from the report, in each form that tells it."""
    lifetimes = {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 400}
    raw = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 500, "cache_creation": lifetimes}
    usage = read_usage(raw)
    assert (usage.input, usage.cache_write, long_writes(usage.raw)) == (501, 500, 400)
    assert long_writes({"input_tokens": 600, "input_token_details": lifetimes}) == 400
    assert long_writes({"prompt_tokens": 5}) == 0


@pytest.mark.parametrize("odd", [7, "x", None, [], [None, 3], {"type": "message"}, [{}]], ids=range(7))
def test_odd_iterations_are_passed_over(odd):
    """Whatever stands in the place of the list, the call's own figures hold."""
    assert counts(read_usage({"input_tokens": 5, "output_tokens": 2, "iterations": odd}))[:2] == (5, 2)


# -------------------------------------------------------------------------------------------------- streams
def told(events):
    """The usage that a stream reports in the end."""
    reader = StreamReader()
    for event in events:
        reader.read(event)
    return reader.usage


def anthropic_stream(start, *deltas):
    """The events of a short Anthropic stream with these reports."""
    text = {"type": "text_delta", "text": "Oi."}
    return [
        {"type": "message_start", "message": {"model": "claude-x", "usage": start}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": text},
        {"type": "content_block_stop", "index": 0},
        *({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta} for delta in deltas),
        {"type": "message_stop"},
    ]


def test_anthropic_streams_report_sums_so_far():
    """The reports of the start and of each delta replace one another; none is added to the one before."""
    start = {
        "input_tokens": 20,
        "output_tokens": 1,
        "cache_read_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 30},
        "cache_creation_input_tokens": 30,
    }
    usage = told(anthropic_stream(start, {"output_tokens": 7}, {"input_tokens": 20, "output_tokens": 12}))
    assert counts(usage) == (150, 12, 100, 30, 0)
    assert long_writes(usage.raw) == 30


def test_cumulative_counts_are_not_summed_and_cached_input_is_kept():
    """Counts that grow from piece to piece end at the last one, with the cached part of the input told apart."""
    deltas = [{"output_tokens": 2}, {"output_tokens": 7}]
    last = {"output_tokens": 12, "input_tokens": 200, "cache_read_input_tokens": 1800}
    assert counts(told(anthropic_stream({}, *deltas, last))) == (2000, 12, 1800, 0, 0)


def test_a_later_zero_does_not_erase_the_input():
    """Servers that copy the form end with zeros for what they told at the start; the start still holds."""
    usage = told(anthropic_stream({"input_tokens": 90, "output_tokens": 0}, {"input_tokens": 0, "output_tokens": 12}))
    assert counts(usage)[:2] == (90, 12)


def test_a_streamed_compaction_is_added_once():
    """The list of passes comes with the last delta; its compaction is added to the figures of that delta."""
    listed = [a_pass("compaction", 18000, 350), a_pass("message", 2300, 100)]
    last = {"input_tokens": 2300, "output_tokens": 100, "iterations": listed}
    usage = told(anthropic_stream({"input_tokens": 18000, "output_tokens": 1}, {"output_tokens": 40}, last))
    assert counts(usage)[:2] == (20300, 450)


def chat_chunk(usage, text=None):
    """A chunk of a streamed chat completion."""
    choices = [] if text is None else [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    return {"model": "gpt-x", "choices": choices, "usage": usage}


def test_chat_usage_comes_in_the_last_chunk():
    """Asked for with include_usage, the report stands in a last chunk without choices; nulls before it are nothing."""
    report = {"prompt_tokens": 2000, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 1800}}
    assert counts(told([chat_chunk(None, "O"), chat_chunk(None, "i"), chat_chunk(report)])) == (2000, 12, 1800, 0, 0)


def test_chat_servers_that_report_in_every_chunk():
    """Where each chunk reports the sums so far, the last one counts; an empty report after it changes nothing."""
    reports = [{"prompt_tokens": 2000, "completion_tokens": n} for n in (2, 7, 12)]
    empty = {"prompt_tokens": 0, "completion_tokens": 0}
    usage = told([*(chat_chunk(report, "x") for report in reports), chat_chunk(empty)])
    assert counts(usage)[:2] == (2000, 12)


def test_a_stream_without_a_report_has_none():
    """A stream that reports nothing has no usage: it is unknown, and not zero."""
    assert told([chat_chunk(None, "O"), chat_chunk(None, "i")]) is None


def chunks(*reports):
    """LangChain chunks with these reports."""
    langchain = pytest.importorskip("langchain_core.messages")
    full = [{"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, **report} for report in reports]
    return [langchain.AIMessageChunk(content="x", usage_metadata=report) for report in full]


def test_langchain_shares_are_added():
    """LangChain's chunks report shares: input once, output bit by bit; their raw reports are added up likewise."""
    usage = told(
        chunks(
            {"input_tokens": 2000, "input_token_details": {"cache_read": 1800}},
            {"output_tokens": 5, "total_tokens": 5},
            {"output_tokens": 7, "total_tokens": 7},
        )
    )
    assert counts(usage) == (2000, 12, 1800, 0, 0)
    assert (usage.raw["input_tokens"], usage.raw["output_tokens"]) == (2000, 12)


def test_langchain_sums_are_not_added():
    """Chunks that repeat the whole input report sums so far: the last one counts, thoughts included."""
    usage = told(
        chunks(
            *(
                {"input_tokens": 2000, "output_tokens": n, "output_token_details": {"reasoning": n // 2}}
                for n in (200, 900, 3100)
            )
        )
    )
    assert counts(usage) == (2000, 3100, 0, 0, 1550)
