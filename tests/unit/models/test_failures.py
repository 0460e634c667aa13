"""Provider errors as ours."""

from __future__ import annotations

import pytest

from novelo.errors import ModelFailed
from novelo.models import failure, is_overflow


class Refused(Exception):
    """What an SDK raises: a status and a body."""

    def __init__(self, text, status=400, code=None, body=None):
        super().__init__(text)
        self.status_code = status
        self.code = code
        self.body = body


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "Requested tokens (2285) exceed context window of 2048",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    ],
)
def test_overflow_is_known_in_each_wording(text: str) -> None:
    """A context that is too long is recognised in every provider's words, and is not worth the same request again."""
    assert is_overflow(Refused(text))
    ours = failure(Refused(text), "m")
    assert ours.overflow and not ours.retryable
    ours.__cause__ = Refused(text)
    assert is_overflow(ours)


@pytest.mark.parametrize(
    "error",
    [
        Refused("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 31000", 429),
        Refused("Too many tokens, please wait before trying again.", 429),
        Refused("An assistant message with 'tool_calls' must be followed by tool messages"),
        ValueError("too long"),
        None,
    ],
)
def test_other_errors_are_no_overflow(error) -> None:
    """Limits of rate and errors of form are not mistaken for a long context."""
    assert not is_overflow(error)


def test_overflow_is_known_by_its_code() -> None:
    """The code in the error's body is enough."""
    assert is_overflow(Refused("no", body={"error": {"code": "context_length_exceeded"}}))
    assert is_overflow(Refused("no", body={"type": "exceed_context_size_error"}))


@pytest.mark.parametrize(
    ("error", "status", "code", "retryable"),
    [
        (Refused("slow down", 429, "rate_limit_exceeded"), 429, "rate_limit_exceeded", True),
        (Refused("pay", 429, "insufficient_quota"), 429, "insufficient_quota", False),
        (Refused("oops", 500), 500, None, True),
        (Refused("busy", 529, body={"error": {"type": "overloaded_error"}}), 529, "overloaded_error", True),
        (Refused("who?", 401, "invalid_api_key"), 401, "invalid_api_key", False),
        (TimeoutError(), None, None, True),
        (ConnectionResetError(), None, None, True),
        (KeyError("x"), None, None, False),
    ],
)
def test_failure_tells_what_can_be_done(error, status, code, retryable) -> None:
    """Status, code and whether asking again may help are facts of the error."""
    ours = failure(error, "openai:gpt")
    assert isinstance(ours, ModelFailed)
    assert (ours.status, ours.code, ours.retryable) == (status, code, retryable)


def test_a_failure_does_not_repeat_what_was_said() -> None:
    """The provider's text, which may quote a message or a key, is not in ours."""
    text = str(failure(Refused("bad content: meu CPF é 123", 400, "invalid_request_error"), "openai:gpt"))
    assert text == "openai:gpt: status 400, invalid_request_error"
