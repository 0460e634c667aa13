"""Any provider that LangChain knows: `langchain:openai:gpt-…`, `langchain:anthropic:…`, through `init_chat_model`.

Keys and addresses are those of the provider's LangChain package. `MODEL_NAME` is the model where the name behind
`langchain:` is left out. A chat model that exists already is taken too: `LangChainModel(chat)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from novelo.asking import ModelReply, ModelRequest
from novelo.errors import InvalidSpec, MissingExtra, ModelFailed
from novelo.messages import Usage
from novelo.models.base import ModelDelta, ToolCallDelta
from novelo.models.chat import message_of
from novelo.models.env import setting
from novelo.models.failures import failure

try:
    from langchain.chat_models import init_chat_model
    from langchain_core.messages import AIMessage, AIMessageChunk, convert_to_messages, convert_to_openai_messages
    from langchain_core.messages.ai import UsageMetadata, add_usage
except ImportError as _error:
    raise MissingExtra("this model needs LangChain: pip install 'novelo[langchain]'", extra="langchain") from _error

_FINISHED = ("finish_reason", "stop_reason", "done_reason")


class LangChainModel:
    """One chat model of LangChain."""

    def __init__(self, chat: Any, name: str = "") -> None:
        """Take a chat model, and the name it goes by."""
        self.chat = chat
        self.name = f"langchain:{name or type(chat).__name__}"
        if "stream_usage" in getattr(type(chat), "model_fields", {}):
            chat.stream_usage = True  # else a server at an address of its own reports no usage for streams

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole answer.

        Raises:
            ModelFailed: the provider refused or failed, or what it sent is no answer.
        """
        answer = self._asked(request, lambda chat, messages: chat.invoke(messages))
        if not isinstance(answer, AIMessage):
            raise ModelFailed(f"{self.name}: the answer is a {type(answer).__name__}, expected an AIMessage")
        told, usage = answer.response_metadata, usage_from(answer.usage_metadata)
        model = _first(told, ("model_name", "model"))
        message = message_of(_chat_dict(answer), usage=usage, model=model)
        return ModelReply(message, usage, _first(told, _FINISHED), model, answer)

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """The answer piece by piece; usage, summed up, in the last one. Leaving early closes the stream.

        Raises:
            ModelFailed: as `complete`; pieces may have come by then.
        """
        usage: UsageMetadata | None = None
        begun = False
        with closing(self._asked(request, lambda chat, messages: chat.stream(messages))) as chunks:
            while (chunk := self._next(chunks)) is not None:
                begun = True
                usage = add_usage(usage, chunk.usage_metadata) if chunk.usage_metadata else usage
                yield _delta(chunk)
        if not begun:
            raise ModelFailed(f"{self.name}: the stream was empty", retryable=True)
        yield ModelDelta(usage=usage_from(usage))

    def _asked(self, request: ModelRequest, ask: Callable[[Any, Any], Any]) -> Any:
        """The model, bound to tools and options, asked with the messages."""
        options = {
            "max_tokens": request.max_output_tokens,
            "temperature": request.temperature,
            "model": request.model,
            **request.extra,
        }
        given = {name: value for name, value in options.items() if value is not None}
        try:
            chat = self.chat.bind_tools(list(request.tools)) if request.tools else self.chat
            return ask(chat.bind(**given) if given else chat, convert_to_messages(list(request.messages)))
        except Exception as error:  # each provider's package raises errors of its own
            raise failure(error, self.name) from error

    def _next(self, chunks: Iterator[AIMessageChunk]) -> AIMessageChunk | None:
        try:
            return next(chunks, None)
        except Exception as error:
            raise failure(error, self.name) from error


def load(name: str = "") -> LangChainModel:
    """The model of a name such as "openai:gpt-4o-mini"; of `MODEL_NAME` if it is empty.

    Raises:
        InvalidSpec: neither says a model, or LangChain does not know it.
        MissingExtra: LangChain or the provider's package for it is not installed.
    """
    model = name.strip() or setting("MODEL_NAME")
    if not model:
        raise InvalidSpec("model 'langchain:': which one? Say langchain:<provider:model>, or set MODEL_NAME")
    try:
        return LangChainModel(init_chat_model(model), model)
    except ImportError as error:
        raise MissingExtra(f"model 'langchain:{model}': {error}", extra="langchain") from error
    except Exception as error:  # a missing key is an error of the provider's own kind
        raise InvalidSpec(f"model 'langchain:{model}': LangChain could not make it ({type(error).__name__})") from error


def usage_from(told: Any) -> Usage | None:
    """LangChain's `usage_metadata` as ours; None if it is none. `input_tokens` counts cached tokens too."""
    if not isinstance(told, Mapping):
        return None
    read, wrote = told.get("input_token_details") or {}, told.get("output_token_details") or {}
    return Usage(
        input=told.get("input_tokens") or 0,
        output=told.get("output_tokens") or 0,
        cache_read=read.get("cache_read") or 0,
        cache_write=read.get("cache_creation") or 0,
        reasoning=wrote.get("reasoning") or 0,
        raw=dict(told),
    )


def _chat_dict(answer: AIMessage) -> dict[str, Any]:
    """An answer in the OpenAI Chat form, with calls whose arguments are no JSON, and with what it thought."""
    chat: Any = convert_to_openai_messages(answer)
    broken = [
        {"id": c["id"] or "", "type": "function", "function": {"name": c["name"] or "", "arguments": c["args"] or ""}}
        for c in answer.invalid_tool_calls
    ]
    if broken:
        chat["tool_calls"] = [*(chat.get("tool_calls") or ()), *broken]
    if isinstance(chat.get("content"), list):  # calls stand in `tool_calls`; some providers list them here as well
        chat["content"] = [b for b in chat["content"] if not _is_call(b)]
    if thoughts := answer.additional_kwargs.get("reasoning_content"):
        chat["reasoning_content"] = thoughts
    if answer.id:
        chat["id"] = answer.id
    return dict(chat)


def _is_call(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in ("tool_use", "tool_call", "function_call")


def _delta(chunk: AIMessageChunk) -> ModelDelta:
    """One chunk; its usage is summed up by the caller."""
    calls = tuple(
        ToolCallDelta(_place(call.get("index"), at), call["id"], call["name"], call["args"] or "")
        for at, call in enumerate(chunk.tool_call_chunks)
    )
    told = chunk.response_metadata
    return ModelDelta(
        str(chunk.text), _thoughts(chunk), calls, None, _first(told, _FINISHED), _first(told, ("model_name", "model"))
    )


def _place(index: Any, at: int) -> int:
    return index if isinstance(index, int) else at


def _thoughts(chunk: AIMessageChunk) -> str:
    """What a chunk says of the model's thoughts, in the forms that providers' packages use."""
    told = chunk.additional_kwargs.get("reasoning_content")
    if isinstance(told, str):
        return told
    blocks = [b for b in chunk.content if isinstance(b, Mapping)] if isinstance(chunk.content, list) else []
    return "".join(str(b.get("thinking") or b.get("reasoning") or "") for b in blocks)


def _first(told: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The first of these that says something."""
    return next((str(told[key]) for key in keys if told.get(key)), None)
