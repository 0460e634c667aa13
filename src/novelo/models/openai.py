"""OpenAI, and every server that speaks its Chat API: `openai:gpt-4o-mini`, or a llama.cpp at `OPENAI_BASE_URL`.

    OPENAI_API_KEY                     the key; a server of your own needs none
    OPENAI_BASE_URL, OPENAI_API_BASE   the address, for example http://localhost:8080/v1; the first one wins
    MODEL_NAME                         the model, where the name behind `openai:` is left out

Requests go out as they stand. Reasoning that a server sends beside the answer (`reasoning_content`) is kept as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from novelo.asking import ModelReply, ModelRequest
from novelo.errors import InvalidSpec, MissingExtra, ModelFailed
from novelo.models.base import ModelDelta, ToolCallDelta
from novelo.models.chat import message_of, usage_of
from novelo.models.env import setting
from novelo.models.failures import failure

try:
    import openai
except ImportError as _error:
    raise MissingExtra("this model needs the OpenAI SDK: pip install 'novelo[openai]'", extra="openai") from _error

HOME = "api.openai.com"


class OpenAIModel:
    """One model behind an OpenAI client."""

    def __init__(self, model: str, client: openai.OpenAI | None = None) -> None:
        """Take the model's name, and a client of yours; None makes one from the environment."""
        self.model = model
        self.name = f"openai:{model}"
        self._client = client if client is not None else _client()

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole answer.

        Raises:
            ModelFailed: the provider refused or failed, or what it sent is no answer.
        """
        try:
            answer = self._client.chat.completions.create(**self._call(request))
        except Exception as error:  # the SDK lets errors of its HTTP library and of JSON through, too
            raise failure(error, self.name) from error
        choice = _first_choice(answer)
        message = getattr(choice, "message", None)
        if message is None:
            raise ModelFailed(f"{self.name}: the answer holds no message", retryable=True)
        usage = usage_of(_dumped(getattr(answer, "usage", None)))
        return ModelReply(
            message_of(_dumped(message) or {}, usage=usage, model=answer.model),
            usage,
            choice.finish_reason,
            answer.model,
            answer,
        )

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """The answer piece by piece; usage comes in the last one. Leaving early closes the connection.

        Raises:
            ModelFailed: as `complete`, or the stream ended before the answer did; pieces may have come by then.
        """
        finished = False
        try:
            asked = {**self._call(request), "stream": True, "stream_options": {"include_usage": True}}
            with closing(self._client.chat.completions.create(**asked)) as chunks:
                for chunk in chunks:
                    delta = _delta(chunk)
                    finished = finished or delta.finish_reason is not None
                    yield delta
        except Exception as error:
            raise failure(error, self.name) from error
        if not finished:
            raise ModelFailed(f"{self.name}: the stream ended before the answer did", retryable=True)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def _call(self, request: ModelRequest) -> dict[str, Any]:
        """The arguments of the API call; what was not asked for is left to the provider."""
        home = HOME in str(self._client.base_url)
        limit = "max_completion_tokens" if home else "max_tokens"  # other servers know the old name
        options = {
            "tools": list(request.tools) or None,
            "temperature": request.temperature,
            limit: request.max_output_tokens,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return {"model": request.model or self.model, "messages": list(request.messages), **given, **request.extra}


def load(name: str = "") -> OpenAIModel:
    """The model of a name; of `MODEL_NAME` if it is empty.

    Raises:
        InvalidSpec: neither says a model, or there is no key.
        MissingExtra: the OpenAI SDK is not installed (raised on import).
    """
    model = name.strip() or setting("MODEL_NAME")
    if not model:
        raise InvalidSpec("model 'openai:': which one? Say openai:<model>, or set MODEL_NAME")
    return OpenAIModel(model)


def local(name: str, base_url: str) -> OpenAIModel:
    """A model behind a server of our own, which needs no key."""
    found = OpenAIModel("local", openai.OpenAI(base_url=base_url, api_key="none"))
    found.name = name
    return found


def _client() -> openai.OpenAI:
    """A client as the environment says."""
    address, key = setting("OPENAI_BASE_URL", "OPENAI_API_BASE"), setting("OPENAI_API_KEY")
    if key is None and address is None:
        raise InvalidSpec("OPENAI_API_KEY is not set; for a server without keys set OPENAI_BASE_URL")
    return openai.OpenAI(base_url=address, api_key=key or "none")  # the SDK insists on some key


def _first_choice(answer: Any) -> Any:
    """The first choice of an answer or chunk; None if there is none, or it is none of the provider's objects."""
    choices = getattr(answer, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _delta(chunk: Any) -> ModelDelta:
    """One chunk of a stream."""
    choice = _first_choice(chunk)
    usage = usage_of(_dumped(getattr(chunk, "usage", None)))
    model = getattr(chunk, "model", None) or None
    said = _dumped(getattr(choice, "delta", None)) or {}
    return ModelDelta(
        text=_text(said, "content"),
        reasoning=_text(said, "reasoning_content") or _text(said, "reasoning"),
        tool_calls=tuple(_piece(call, at) for at, call in enumerate(said.get("tool_calls") or ())),
        usage=usage,
        finish_reason=getattr(choice, "finish_reason", None),
        model=model,
    )


def _piece(call: Mapping[str, Any], at: int) -> ToolCallDelta:
    """A piece of a tool call; some servers leave its index out and send each call whole."""
    function = call.get("function") or {}
    index = call.get("index")
    return ToolCallDelta(
        index=index if isinstance(index, int) else at,
        id=call.get("id") or None,
        name=function.get("name") or None,
        arguments=_text(function, "arguments"),
    )


def _dumped(value: Any) -> dict[str, Any] | None:
    """An object of the SDK as a dict without its empty fields; None if it is none."""
    return value.model_dump(exclude_none=True, warnings=False) if isinstance(value, openai.BaseModel) else None


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
