"""What went wrong with a model: one error for all providers, and which errors mean that the context was too long.

A provider's text may quote what the user said, or half of a key. So `ModelFailed` names the backend, the status and the
provider's code, and the original stands behind it as `__cause__`.
"""

from __future__ import annotations

import re
from typing import Any

from novelo.errors import ModelFailed

RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # 529: Anthropic is overloaded
_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

# How a context that is too long is refused; each wording was seen from the provider named behind it.
_OVERFLOW = re.compile(
    "|".join(
        (
            r"context[_ ]length[_ ]exceeded",  # OpenAI, and those who speak its API: the error's code
            r"maximum context length",  # OpenAI, OpenRouter, vLLM, Mistral: "... is 8192 tokens. However, ..."
            r"exceeds? (?:the|this model's) (?:model's )?context (?:window|limit|length)",  # OpenAI Responses
            r"prompt is too long",  # Anthropic: "prompt is too long: 213462 tokens > 200000 maximum"
            r"exceed context limit",  # Anthropic: "input length and `max_tokens` exceed context limit"
            r"input token count.{0,40}exceeds the maximum",  # Gemini
            r"exceed_context_size_error|exceeds? the available context size",  # llama.cpp's server
            r"tokens \(?\d*\)? ?exceed context window",  # llama-cpp-python
            r"maximum prompt length is \d+",  # xAI
            r"reduce the length of the messages",  # Groq
            r"input is too long for requested model",  # Bedrock
            r"greater than the context length",  # LM Studio
            r"context window exceeds limit",  # MiniMax
            r"exceeded model token limit",  # Moonshot
        )
    ),
    re.IGNORECASE,
)
# "Request too large ... on tokens per min (TPM)", "Too many tokens, please wait": limits of rate, where waiting helps.
_RATE = re.compile(r"rate[_ ]limit|tokens per (?:min|day)|\bTPM\b|please wait", re.IGNORECASE)


def is_overflow(error: BaseException | None) -> bool:
    """Whether an error says that the context is longer than the model can take, so that a shorter one may pass.

    Args:
        error: ours or a provider's; what it was raised from is looked at too.
    Example: "prompt is too long: 213462 tokens > 200000 maximum" -> True; "Rate limit reached ... TPM" -> False.
    """
    for link in _chain(error):
        if getattr(link, "overflow", False) is True:
            return True
        said = " ".join(str(x) for x in (link, getattr(link, "code", None), getattr(link, "body", None)) if x)
        if _status(link) != 429 and not _RATE.search(said) and _OVERFLOW.search(said):
            return True
    return False


# Where a refusal says what was sent and what is allowed: the two numbers, in either order of the words.
_SIZES = (
    re.compile(r"(\d{3,9}) tokens? > (\d{3,9})"),  # Anthropic
    re.compile(  # OpenAI, vLLM
        r"maximum context length is (?P<most>\d{3,9}).{0,120}?(?P<sent>\d{3,9}) tokens", re.DOTALL
    ),
    re.compile(r"input token count \(?(\d{3,9})\)?.{0,60}?\(?(\d{3,9})\)?", re.DOTALL),  # Gemini
    re.compile(r"contains (\d{3,9}) tokens.{0,80}?(\d{3,9}) maximum context length", re.DOTALL),  # Mistral
    re.compile(r"\((\d{2,9}) tokens\) exceeds the available context size \((\d{2,9})"),  # llama.cpp's server
    re.compile(r"n_prompt_tokens\W{1,4}(\d{2,9}).{0,40}?n_ctx\W{1,4}(\d{2,9})", re.DOTALL),  # its fields
)
CUT = 0.6  # of the context that was refused, where the refusal gives no numbers
SPARE = 0.9  # of what is allowed: the counts differ a little


def shorter(error: BaseException, tokens: int) -> int:
    """Tokens, as we count them, that a context may have after one was refused as too long.

    Args:
        error: the refusal.
        tokens: what the refused context had by our count.
    Example: "prompt is too long: 213462 tokens > 200000 maximum" and 210000 by our count -> 177080.
    """
    for link in _chain(error):
        said = " ".join(str(x) for x in (link, getattr(link, "body", None)) if x)
        for pattern in _SIZES:
            match = pattern.search(said)
            if match is not None:
                named = match.groupdict()
                sent, most = (int(named[n]) for n in ("sent", "most")) if named else map(int, match.groups())
                if 0 < most < sent:
                    return int(tokens * most / sent * SPARE)
    return int(tokens * CUT)


def failure(error: BaseException, who: str) -> ModelFailed:
    """A provider's error as ours; raise it `from` the original.

    Args:
        error: what the SDK raised.
        who: which backend and model, "openai:gpt-4o".
    Returns:
        `ModelFailed` with `status` (HTTP, or None), `code` (the provider's word, or None), `retryable` and `overflow`.
    """
    status, code, overflow = _status(error), _code(error), is_overflow(error)
    kind = type(error).__name__
    facts = [f"status {status}" if status else kind, code, "context too long" if overflow else None]
    passing = status in RETRYABLE if status else re.search("timeout|connection|decode", kind, re.IGNORECASE) is not None
    return ModelFailed(
        f"{who}: {', '.join(filter(None, facts))}",
        status=status,
        code=code,
        retryable=passing and not overflow and code != "insufficient_quota",  # no money comes by waiting
        overflow=overflow,
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    """An error and what it was raised from, at most ten deep."""
    links: list[BaseException] = []
    while error is not None and error not in links and len(links) < 10:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links


def _status(error: BaseException) -> int | None:
    found: Any = getattr(error, "status_code", None) or getattr(error, "status", None)
    if found is None:
        found = getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def _code(error: BaseException) -> str | None:
    """The provider's code or type of error, if it looks like one."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    candidates = [getattr(error, "code", None), getattr(error, "type", None)]
    if isinstance(inner, dict):
        candidates += [inner.get("code"), inner.get("type")]
    return next((c for c in candidates if isinstance(c, str) and _CODE.fullmatch(c)), None)
