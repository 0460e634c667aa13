"""The context that is sent in place of a state's messages, and a shorter one where that was refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from langchain.agents.middleware.types import ModelRequest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.utils.function_calling import convert_to_openai_tool

from novelo.accounts import Accounts
from novelo.context import Context, compose_source
from novelo.context.listing import ListSource
from novelo.context.spec import bounded
from novelo.context.summary import Summarize
from novelo.errors import ContextTooSmall
from novelo.formats.langchain import from_langchain
from novelo.integrations.langgraph._call import ModelCall
from novelo.integrations.langgraph._chat import model_name, provider_of
from novelo.models.failures import is_overflow, shorter
from novelo.protocol import dialect
from novelo.tokens import count_message
from novelo.transcript import Entry
from novelo.wire import WRITTEN_RESULT


class Composer:
    """Composes contexts of model calls by a policy."""

    def __init__(self, books: Accounts, stage: Summarize | None, provider: str | None, window: int | None) -> None:
        self.books, self._stage = books, stage
        self._provider, self._window = provider, window
        self._tools: dict[tuple[int, ...], tuple[Any, list[dict[str, Any]]]] = {}

    def compose(self, call: ModelCall, policy: Any) -> None:
        """Compose the context of a call, below the ceiling that the model's refusals have taught."""
        model = model_name(call.given.model)
        ceiling = self.books.ceiling(model)
        kept = call.talk.kept
        if kept is not None and kept.memory.limits and (room := kept.memory.room(kept.thread, model)) is not None:
            ceiling = room if ceiling is None else min(ceiling, room)
        try:
            context = self._context(call, bounded(policy, ceiling), model)
        except ContextTooSmall as error:
            if ceiling is None or error.budget != ceiling:
                raise
            context = self._context(call, bounded(policy, error.needed), model)  # the least that is valid
        call.take(context)

    def _context(self, call: ModelCall, policy: Any, model: str | None) -> Context:
        given, told = call.given, call.told
        provider = self._provider or provider_of(given.model)
        written = "" if dialect(provider).tools else WRITTEN_RESULT
        source = ListSource(given.messages, partial(count_message, count=self.books.counter), written, "langchain")
        opening = source.opening()
        if given.system_message is not None:
            opening.insert(0, Entry(-1, from_langchain(given.system_message), source=given.system_message))
        if self._stage is not None:
            with call.talk.lock:
                call.summary = call.talk.summary_for(given.messages, source.begin, told)
        return compose_source(
            source, opening, policy, counter=self.books.counter, provider=provider, model=model,
            tools=self._counted(given.tools), correction=self.books.correction(model), window=self.window_of(given),
            form="langchain", summary=call.summary,
        )  # fmt: skip

    def _counted(self, tools: Sequence[Any]) -> list[dict[str, Any]] | None:
        """Definitions of the tools, to be counted; made once for each set of tools."""
        if not tools:
            return None
        key = tuple(map(id, tools))
        found = self._tools.get(key)
        if found is None:
            if len(self._tools) > 100:
                self._tools.clear()
            definitions = [t if isinstance(t, dict) else convert_to_openai_tool(t) for t in tools]
            found = self._tools[key] = (list(tools), definitions)  # the tools are held, so that no id is used again
        return found[1]

    def window_of(self, request: ModelRequest[Any]) -> int | None:
        """Tokens of the window of a request's model; None where nobody says."""
        told = getattr(request.model, "profile", None)
        profile = told.get("max_input_tokens") if isinstance(told, dict) else None
        return self._window or self.books.window or (profile if isinstance(profile, int) else None)

    def shortened(self, call: ModelCall, error: Exception, policy: Any) -> ModelRequest[Any]:
        """The request with a shorter context; the error again where that cannot help."""
        if not (is_overflow(error) or isinstance(error, ContextOverflowError)):
            raise error
        before = call.context.tokens
        self.books.learn_ceiling(model_name(call.given.model), shorter(error, before))
        self.compose(call, policy)
        if call.context.tokens >= before:
            raise error
        call.purpose = "retry"
        return call.request

    def left_out(self, messages: Sequence[Any], policy: Any) -> list[int]:
        """Indexes of the messages that a policy leaves out of contexts."""
        source = ListSource(messages, partial(count_message, count=self.books.counter), form="langchain")
        context = compose_source(
            source, source.opening(), policy, counter=self.books.counter, window=self._window or self.books.window
        )
        kept = {at for start, stop in context.manifest.kept for at in range(start, stop)}
        return [at for at, m in enumerate(messages) if at not in kept and m.id]
