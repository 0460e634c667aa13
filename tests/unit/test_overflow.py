"""A context that a provider refuses as too long is shortened and sent once more, never the same request again."""

from __future__ import annotations

import pytest

import novelo
from novelo.errors import ModelFailed
from novelo.models.failures import shorter
from novelo.testing import ScriptedModel, StrictProvider

DIALECTS = ("openai", "anthropic", "gemini", "mistral")


def filled(memory, turns=30):
    """A thread with much in it."""
    thread = memory.thread("t")
    for k in range(turns):
        question, answer = f"pergunta {k} " * 12, "sim " * 20
        thread.append([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])
    return thread


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("streams", [False, True])
def test_a_refused_context_is_shortened_once(dialect, streams):
    """The second request is shorter, valid, holds the question, and is in the ledger as a retry."""
    provider = StrictProvider(dialect, window_tokens=1000)
    with novelo.open("sqlite://") as memory:
        thread = filled(memory)
        pieces = []
        with thread.turn("E agora?") as turn:
            answer = turn.ask(provider, provider=dialect, on_text=pieces.append if streams else None)
        assert answer.text and (not streams or "".join(pieces) == answer.text)
        first, second = (request.messages for request in provider.requests)
        assert len(second) < len(first) and second[-1]["content"] == "E agora?"
        assert [call.purpose for call in thread.usage()] == ["retry"]
        assert thread.messages()[-1].text == answer.text and thread.turns()[-1].status == "done"
        with thread.turn("E depois?") as turn:  # what the refusal taught stays
            turn.ask(provider, provider=dialect)
        assert len(provider.requests) == 3
        assert thread.usage()[-1].purpose == "reply"


def test_the_same_request_is_never_sent_again():
    """Where nothing shorter is valid the provider's error is raised, after one request."""
    provider = StrictProvider("openai", window_tokens=20)
    with novelo.open("sqlite://") as memory:
        thread = memory.thread("t")
        with pytest.raises(ModelFailed) as failed, thread.turn("palavras " * 50) as turn:
            turn.ask(provider)
        assert failed.value.overflow and len(provider.requests) == 1
        assert thread.turns()[-1].status == "failed" and thread.messages()[0].text == "palavras " * 50


def test_a_second_refusal_is_raised():
    """A model that refuses the shorter context too is not asked a third time."""

    class Refusing:
        asked = 0

        def complete(self, request):
            self.asked += 1
            raise ModelFailed("too long", overflow=True)

    with novelo.open("sqlite://") as memory:
        thread, model = filled(memory), Refusing()
        with pytest.raises(ModelFailed), thread.turn("E agora?") as turn:
            turn.ask(model)
        assert model.asked == 2


def test_another_error_is_raised_as_it_is():
    """A rate limit or a broken connection shortens nothing."""
    model = ScriptedModel([ModelFailed("busy", status=429, retryable=True), "nunca"])
    with novelo.open("sqlite://") as memory:
        thread = filled(memory)
        with pytest.raises(ModelFailed, match="busy"), thread.turn("E agora?") as turn:
            turn.ask(model)
        assert len(model.requests) == 1


def test_a_stream_that_broke_behind_its_first_words_is_not_begun_again():
    """What the person has seen is kept, marked partial, and the error is raised."""

    class Breaking:
        def complete(self, request):
            raise AssertionError("it can stream")

        def stream(self, request):
            from novelo.models.base import ModelDelta

            yield ModelDelta("O prazo ")
            raise ModelFailed("prompt is too long: 9 tokens > 5 maximum", overflow=True)

    seen = []
    with novelo.open("sqlite://") as memory:
        thread = filled(memory)
        with pytest.raises(ModelFailed), thread.turn("E agora?") as turn:
            turn.ask(Breaking(), on_text=seen.append)
        assert seen == ["O prazo "] and thread.messages()[-1].partial


def test_an_sdk_of_ones_own_gets_the_shorter_context():
    """`shrunk` gives it in the form asked for; anything else that went wrong is raised again."""
    with novelo.open("sqlite://") as memory:
        thread = filled(memory)
        with thread.turn("E agora?") as turn:
            sent = turn.messages("anthropic")
            with pytest.raises(KeyError):
                turn.shrunk(KeyError("x"), "anthropic")
            less = turn.shrunk(RuntimeError("prompt is too long: 2000 tokens > 500 maximum"), "anthropic")
            assert len(less[1]) < len(sent[1])
            with pytest.raises(RuntimeError, match="again"):
                turn.shrunk(RuntimeError("again: prompt is too long: 2000 tokens > 500 maximum"), "anthropic")
            turn.reply("sim")
        assert thread.usage()[-1].purpose == "retry"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("prompt is too long: 213462 tokens > 200000 maximum", 177080),
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 16384 tokens.", 94500),
        ("The input token count (2000000) exceeds the maximum number of tokens allowed (1000000).", 94500),
        ("the request (4096 tokens) exceeds the available context size (2048 tokens), try increasing it", 94500),
        (
            "Prompt contains 64000 tokens and 0 draft tokens, too large for model with 32000 maximum context length",
            94500,
        ),
        ("{'code': 400, 'n_prompt_tokens': 4096, 'n_ctx': 2048}", 94500),
        ("context_length_exceeded", 126000),
    ],
)
def test_how_much_shorter_follows_from_the_wording(said, expected):
    """The two numbers of a refusal give the share that fits, a tenth to spare; without numbers it is three fifths."""
    assert shorter(RuntimeError(said), 210_000) == expected
