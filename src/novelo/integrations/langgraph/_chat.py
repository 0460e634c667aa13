"""A chat model of LangChain as seen from here: whose rules hold for it, and how a flow asks it."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM

from novelo.asking import ModelReply, ModelRequest
from novelo.errors import ModelFailed
from novelo.formats.langchain import from_langchain
from novelo.messages import Message

ChatModel = Runnable[LanguageModelInput, BaseMessage]

# What stands in the names of LangChain's chat model classes, and whose rules hold then.
_PROVIDERS = {
    "anthropic": ("anthropic", "claude"),
    "gemini": ("google", "gemini", "vertexai"),
    "mistral": ("mistral",),
}


def inner(llm: Any) -> Any:
    """The chat model inside of what was bound, retried, or given fallbacks."""
    for _ in range(10):
        found = getattr(llm, "bound", None) or getattr(llm, "runnable", None)
        if found is None:
            break
        llm = found
    return llm


def provider_of(llm: Any) -> str:
    """Whose rules hold for a chat model, told from its class: anthropic, gemini, mistral, else openai.

    Example: ChatAnthropic, ChatAnthropicVertex -> "anthropic"; ChatOpenAI, and any that is not known -> "openai"
    """
    names = " ".join(c.__name__ for c in type(inner(llm)).__mro__ if c.__name__.lower() != "object").lower()
    return next((name for name, signs in _PROVIDERS.items() if any(sign in names for sign in signs)), "openai")


def model_name(llm: Any) -> str | None:
    """The name of the model that a chat model asks, if it tells."""
    found = inner(llm)
    name = getattr(found, "model_name", None) or getattr(found, "model", None)
    return name if isinstance(name, str) and name else None


def quiet(config: RunnableConfig | None, name: str) -> RunnableConfig:
    """A configuration for a call that is not for the user's eyes: traced by its name, and in no stream of tokens."""
    given: Any = dict(config or {})
    tags = [*(given.get("tags") or ()), TAG_NOSTREAM]
    return cast(RunnableConfig, {**given, "tags": tags, "run_name": name})


SILENT: RunnableConfig = {"callbacks": [], "tags": [TAG_NOSTREAM, TAG_HIDDEN]}


class Asked:
    """A chat model as a model of ours: what a flow asks is put to it in LangChain's messages."""

    def __init__(self, llm: Any, config: RunnableConfig | None = None) -> None:
        self._llm, self._config = llm, config

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole answer; `raw` is LangChain's message."""
        return read_answer(self._llm.invoke(convert_to_messages(list(request.messages)), self._how(request)))

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The same, awaited."""
        return read_answer(await self._llm.ainvoke(convert_to_messages(list(request.messages)), self._how(request)))

    def _how(self, request: ModelRequest) -> RunnableConfig | None:
        return self._config if request.purpose == "reply" else quiet(self._config, request.purpose)


def read_answer(answer: Any) -> ModelReply:
    """What a chat model gave, a message or a text, as a reply of ours.

    Raises:
        ModelFailed: it is neither.
    """
    if isinstance(answer, str):
        return ModelReply(Message("assistant", answer), raw=AIMessage(answer))
    if not isinstance(answer, AIMessage):
        raise ModelFailed(f"the answer is a {type(answer).__name__}, expected an AIMessage")
    message, told = from_langchain(answer), answer.response_metadata
    model = told.get("model_name") or told.get("model")
    return ModelReply(message, message.usage, model=model if isinstance(model, str) else None, raw=answer)
