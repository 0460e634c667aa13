"""How a provider says no: status, wording, type and code of its errors, in its own JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DIALECTS = ("openai", "anthropic", "gemini", "mistral", "strict")


@dataclass(frozen=True)
class Refusal:
    """An answer that is an error.

    Attributes:
        text: the provider's wording.
        status: of HTTP.
        kind: the error's type, in the provider's word.
        code: the error's code, where the provider has one.
        param: which field, where the provider says it.
    """

    text: str
    status: int = 400
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None

    def body(self, dialect: str) -> dict[str, Any]:
        """The error as the provider's JSON."""
        if dialect == "anthropic":
            return {"type": "error", "error": {"type": self.kind, "message": self.text}}
        if dialect == "gemini":
            return {"error": {"code": self.status, "message": self.text, "status": self.kind}}
        if dialect == "mistral":
            return {"object": "error", "message": self.text, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": {"message": self.text, "type": self.kind, "param": self.param, "code": self.code}}


class Refused(Exception):
    """What a client library raises for a refusal: the status, the code and the body as it came."""

    def __init__(self, refusal: Refusal, dialect: str) -> None:
        super().__init__(f"Error code: {refusal.status} - {refusal.text}")
        self.status_code = refusal.status
        self.code = refusal.code
        self.body = refusal.body(dialect)


def too_long(dialect: str, tokens: int, window: int) -> Refusal:
    """A request of so many tokens does not fit the window."""
    if dialect == "anthropic":
        return Refusal(f"prompt is too long: {tokens} tokens > {window} maximum")
    if dialect == "gemini":
        text = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
        return Refusal(text, kind="INVALID_ARGUMENT")
    if dialect == "mistral":
        text = f"too large for model with {window} maximum context length"
        return Refusal(f"Prompt contains {tokens} tokens and 0 draft tokens, {text}", code="3051")
    if dialect == "strict":  # llama.cpp's server
        text = f"the request exceeds the available context size ({window} tokens), try increasing it"
        return Refusal(text, kind="exceed_context_size_error")
    text = f"However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
    text = f"This model's maximum context length is {window} tokens. {text}"
    return Refusal(text, code="context_length_exceeded", param="messages")


_FAILURES = {
    401: ("authentication_error", "Incorrect API key provided.", "invalid_api_key"),
    404: ("not_found_error", "The model does not exist or you do not have access to it.", "model_not_found"),
    408: ("timeout_error", "Request timed out.", None),
    413: ("request_too_large", "Request exceeds the maximum size", None),
    429: ("rate_limit_error", "Rate limit reached for requests. Please try again later.", "rate_limit_exceeded"),
    500: ("api_error", "The server had an error while processing your request. Sorry about that!", None),
    503: ("api_error", "The engine is currently overloaded, please try again later.", None),
    529: ("overloaded_error", "Overloaded", None),
}


def failed(dialect: str, status: int) -> Refusal:
    """A failure that is not the request's fault, by its status."""
    kind, text, code = _FAILURES.get(status, ("api_error", f"Failed with status {status}.", None))
    if dialect == "gemini":
        kind = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 401: "UNAUTHENTICATED"}.get(status, "INTERNAL")
    return Refusal(text, status, kind, code if dialect == "openai" else None)
