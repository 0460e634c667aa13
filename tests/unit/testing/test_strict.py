"""The strict provider: a model and a server that judges, counts, caches, and fails on command."""

from __future__ import annotations

import time

import anthropic
import anyio
import openai
import pytest

from builders import says, system, user
from novelo.errors import InvalidSpec, ModelFailed
from novelo.models import ModelRequest, acomplete, collect, is_overflow
from novelo.testing import ScriptedModel, StrictProvider
from novelo.testing._refusals import DIALECTS

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"n": 1}'}}


def ask(*messages, **more):
    """A request with these messages, or with one greeting."""
    return ModelRequest(list(messages) or [user("Oi!")], **more)


# ------------------------------------------------------------------------------------------------ as a model
def test_it_answers_counts_and_records() -> None:
    """A sound request is answered, recorded, and its tokens are counted: more for more messages, tools and answers."""
    provider = StrictProvider(answers=["um", "dois três quatro"])
    one = provider.complete(ask())
    tools = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
    two = provider.complete(ask(system("Seja breve."), user("Oi!"), tools=tools))
    assert (one.text, two.text) == ("um", "dois três quatro")
    assert two.usage.input > one.usage.input + 10 and two.usage.output > one.usage.output
    assert provider.usages == [one.usage, two.usage]
    assert [len(r.messages) for r in provider.requests] == [1, 2]


def test_a_refusal_is_a_model_failure_with_the_provider_s_words_behind_it() -> None:
    """A bad request fails with status 400, is not worth another try, is noted, and keeps the wording as its cause."""
    provider = StrictProvider("anthropic")
    with pytest.raises(ModelFailed) as caught:
        provider.complete(ask(says("oi"), user("a")))
    assert (caught.value.status, caught.value.retryable) == (400, False)
    assert "first message must use" in str(caught.value.__cause__)
    assert provider.refusals == [(1, 'messages: first message must use the "user" role')]
    assert provider.complete(ask()).text == "answer 2"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_longer_than_the_window_overflows(dialect: str) -> None:
    """One token more than the window is refused as an overflow in every provider's words; what fits is answered."""
    size = StrictProvider(dialect).complete(ask(user("palavra " * 50))).usage.input
    assert StrictProvider(dialect, window_tokens=size).complete(ask(user("palavra " * 50))).text == "answer 1"
    with pytest.raises(ModelFailed) as caught:
        StrictProvider(dialect, window_tokens=size - 1).complete(ask(user("palavra " * 50)))
    assert caught.value.overflow and is_overflow(caught.value.__cause__)


@pytest.mark.parametrize(
    ("fault", "status", "retryable"),
    [(429, 429, True), (500, 500, True), (401, 401, False), ("timeout", None, True), ("disconnect", None, True)],
)
def test_it_fails_at_the_call_it_is_told_to(fault, status, retryable) -> None:
    """The second call fails as asked; the calls before and after it are answered."""
    provider = StrictProvider(fail={2: fault})
    assert provider.complete(ask()).text == "answer 1"
    with pytest.raises(ModelFailed) as caught:
        provider.complete(ask())
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert provider.complete(ask()).text == "answer 3"


def test_a_stream_is_cut_after_as_many_pieces_as_asked() -> None:
    """With "cut:2" two pieces come, then the connection breaks; without a fault the pieces make the whole answer."""
    provider = StrictProvider(answers=lambda request: "um dois três quatro", fail={2: "cut:2"})
    assert collect(provider.stream(ask())).text == "um dois três quatro"
    seen = []
    with pytest.raises(ModelFailed):
        for piece in provider.stream(ask()):
            seen.append(piece.text)
    assert seen == ["um ", "dois "]


def test_odd_answers_come_as_asked() -> None:
    """An answer may be empty, 10 MB, no text, or no answer at all."""
    provider = StrictProvider(fail={1: "empty", 2: "huge", 3: "bad utf-8", 4: "bad json", 5: "wrong json"})
    assert provider.complete(ask()).text == ""
    assert len(provider.complete(ask()).text) == 10_000_000
    assert "\udcff" in provider.complete(ask()).text
    for _ in range(2):
        with pytest.raises(ModelFailed):
            provider.complete(ask())


def test_a_hanging_call_can_be_released() -> None:
    """A call that hangs holds its caller for `hang_s`, or until it is released; a cancelled caller is free at once."""
    provider = StrictProvider(fail=lambda number, request: "timeout", hang_s=30)

    async def main():
        with anyio.move_on_after(0.05) as scope:
            await acomplete(provider, ask())
        provider.release()
        return scope.cancelled_caught

    begin = time.monotonic()
    assert anyio.run(main)
    with pytest.raises(ModelFailed):
        provider.complete(ask())
    assert time.monotonic() - begin < 10


def test_faults_and_dialects_are_checked() -> None:
    """A fault or dialect that does not exist is an error at once, not at the call that would have failed."""
    with pytest.raises(InvalidSpec, match="unknown fault"):
        StrictProvider(fail={1: "explode"})
    with pytest.raises(InvalidSpec, match="unknown dialect"):
        StrictProvider("cohere")


def test_any_model_may_answer() -> None:
    """Answers come from a model, a list in any scripted form, or a function, tool calls included."""
    assert StrictProvider(answers=ScriptedModel(["a"])).complete(ask()).text == "a"
    reply = StrictProvider(answers=[{"content": None, "tool_calls": [CALL]}]).complete(ask())
    assert reply.message.tool_calls[0].name == "find" and reply.finish_reason == "tool_calls"
    assert StrictProvider(answers=lambda r: r.messages[-1]["content"]).complete(ask(user("eco"))).text == "eco"


# ------------------------------------------------------------------------------------------------ prompt caching
LONG = "palavra " * 2000


def test_a_shared_beginning_is_read_from_the_cache_while_it_lives() -> None:
    """A request that begins like an earlier one reads its prefix from the cache, until its head or the time changes."""
    now = [0.0]
    provider = StrictProvider(cache_s=300, clock=lambda: now[0])
    first = [system(LONG), user("a")]
    assert provider.complete(ask(*first)).usage.cache_read == 0
    grown = provider.complete(ask(*first, says("b"), user("c"))).usage
    assert 1024 <= grown.cache_read <= grown.input and grown.cache_read % 128 == 0
    assert provider.complete(ask(system("x" + LONG), user("a"))).usage.cache_read == 0
    now[0] = 299.0
    assert provider.complete(ask(*first)).usage.cache_read > 0
    now[0] = 598.0
    assert provider.complete(ask(*first)).usage.cache_read > 0  # each use begins the lifetime anew
    now[0] = 899.0
    assert provider.complete(ask(*first)).usage.cache_read == 0


def test_short_prefixes_are_not_cached() -> None:
    """Below the least number of tokens nothing is read from the cache."""
    provider = StrictProvider()
    provider.complete(ask(user("curto")))
    assert provider.complete(ask(user("curto"))).usage.cache_read == 0


def test_anthropic_caches_what_is_marked() -> None:
    """Without a mark nothing is cached; with one the marked prefix is written once and read afterwards."""
    provider = StrictProvider("anthropic")
    plain = ask(system(LONG), user("a"))
    marked = ask(system([{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]), user("a"))
    assert [provider.complete(plain).usage.cache_read for _ in range(2)] == [0, 0]
    first, second = provider.complete(marked).usage, provider.complete(marked).usage
    assert first.cache_write > 1024 and first.cache_read == 0
    assert second.cache_read == first.cache_write and second.cache_write == 0


# ------------------------------------------------------------------------------------------------ over HTTP
def openai_client(url):
    """The real client."""
    return openai.OpenAI(base_url=url, api_key="x", max_retries=0)


def anthropic_client(url):
    """The real client."""
    return anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)


def test_the_openai_client_is_answered() -> None:
    """Answers, streams with usage, tool calls, models and both spellings of the address work with the real client."""
    provider = StrictProvider(answers=lambda r: {"content": "vou ver", "tool_calls": [CALL]} if r.tools else "um dois")
    with provider.serve() as url, openai_client(f"{url}/v1") as client:
        whole = client.chat.completions.create(model="m", messages=[user("Oi!")])
        assert (whole.choices[0].message.content, whole.usage.prompt_tokens) == ("um dois", provider.usages[0].input)
        chunks = list(
            client.chat.completions.create(
                model="m", messages=[user("Oi!")], stream=True, stream_options={"include_usage": True}
            )
        )
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "um dois"
        assert chunks[-1].usage.completion_tokens > 0
        tools = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
        called = client.chat.completions.create(model="m", messages=[user("Oi!")], tools=tools).choices[0]
        assert called.finish_reason == "tool_calls" and called.message.tool_calls[0].function.arguments == '{"n": 1}'
        assert client.models.list().data[0].id == "strict-1"
        with openai_client(url) as bare:
            assert bare.chat.completions.create(model="m", messages=[user("Oi!")]).choices


def test_the_openai_client_raises_what_it_raises_for_the_real_one() -> None:
    """Refusals, overflow and limits arrive as the client's own errors, with status, code and wording."""
    provider = StrictProvider(window_tokens=100, fail={3: 429})
    with provider.serve() as url, openai_client(url) as client:
        with pytest.raises(openai.BadRequestError, match="must be a response to a preceeding message"):
            client.chat.completions.create(model="m", messages=[{"role": "tool", "tool_call_id": "x", "content": "1"}])
        with pytest.raises(openai.BadRequestError) as long:
            client.chat.completions.create(model="m", messages=[user(LONG)])
        assert long.value.code == "context_length_exceeded" and is_overflow(long.value)
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="m", messages=[user("Oi!")])


def test_the_anthropic_client_is_answered() -> None:
    """Answers, streams, tool calls and cached tokens work with the real client."""
    call = {"content": "vou ver", "tool_calls": [CALL]}
    provider = StrictProvider("anthropic", answers=["um", "dois três", call, "a", "b"])
    given = {"model": "m", "max_tokens": 100, "messages": [user("Oi!")]}
    with provider.serve() as url, anthropic_client(url) as client:
        assert client.messages.create(**given).content[0].text == "um"
        with client.messages.stream(**given) as stream:
            assert "".join(stream.text_stream) == "dois três"
            assert stream.get_final_message().usage.output_tokens == provider.usages[1].output
        with client.messages.stream(**given) as stream:
            told = stream.get_final_message()
        assert told.stop_reason == "tool_use" and told.content[1].input == {"n": 1}
        marked = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
        wrote, read = (client.messages.create(**given, system=marked).usage for _ in range(2))
        assert wrote.cache_creation_input_tokens == read.cache_read_input_tokens > 1024
        assert read.input_tokens < 20


def test_the_anthropic_client_raises_what_it_raises_for_the_real_one() -> None:
    """Refusals of native bodies, overflow and overload arrive as the client's own errors."""
    provider = StrictProvider("anthropic", window_tokens=100, fail={3: 529})
    with provider.serve() as url, anthropic_client(url) as client:
        given = {"model": "m", "max_tokens": 10}
        use = [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]
        with pytest.raises(anthropic.BadRequestError, match="without `tool_result` blocks immediately after"):
            client.messages.create(**given, messages=[user("a"), {"role": "assistant", "content": use}, user("b")])
        with pytest.raises(anthropic.BadRequestError) as long:
            client.messages.create(**given, messages=[user(LONG)])
        assert is_overflow(long.value)
        with pytest.raises(anthropic.APIStatusError) as busy:
            client.messages.create(**given, messages=[user("a")])
        assert busy.value.status_code == 529


def test_a_body_that_is_no_call_is_refused() -> None:
    """JSON of another shape is a bad request, and the server goes on."""
    provider = StrictProvider()
    with provider.serve() as url, openai_client(url) as client:
        for body in ({"no": "messages"}, {"messages": "text"}, []):
            with pytest.raises(openai.BadRequestError):
                client.post("/chat/completions", body=body, cast_to=object)
        assert client.chat.completions.create(model="m", messages=[user("Oi!")]).choices


def test_a_client_that_leaves_early_is_noticed() -> None:
    """Closing a stream in the middle ends it on the server, which counts it and serves the next call."""
    provider = StrictProvider(answers=lambda r: "palavra " * 300, piece_s=0.01)
    with provider.serve() as url, openai_client(url) as client:
        stream = client.chat.completions.create(model="m", messages=[user("Oi!")], stream=True)
        next(iter(stream))
        stream.close()
        deadline = time.monotonic() + 5
        while provider.left == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert provider.left == 1


def test_a_hanging_server_ends_with_its_block() -> None:
    """Leaving the block releases calls that hang and stops the server within a moment."""
    provider = StrictProvider(fail={1: "timeout"}, hang_s=60)
    begin = time.monotonic()
    with provider.serve() as url:
        client = openai.OpenAI(base_url=url, api_key="x", max_retries=0, timeout=0.2)
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="m", messages=[user("Oi!")])
        client.close()
    assert time.monotonic() - begin < 10
