"""The asking half of an open turn: the context of a call, and a model's answer to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from novelo.asking import ModelRequest
from novelo.context import Context, Retrieved
from novelo.formats.reply import StreamReader
from novelo.messages import Message, is_blank
from novelo.models.base import stream
from novelo.models.failures import is_overflow, shorter
from novelo.passages import Passage, before_question
from novelo.retrieval import Answered
from novelo.stores.base import Begun

if TYPE_CHECKING:
    from novelo.thread import Thread


class Asking:
    """What `LiveTurn` inherits: messages for a call of yours, or the call itself. The turn writes what comes back."""

    thread: Thread
    context: Context | None
    replayed: bool
    _asked_at: float | None
    _first_token_at: float | None
    _last: Message | None
    _purpose: str
    _shrunk: bool
    _stream: StreamReader | None

    if TYPE_CHECKING:  # the writing half has them

        @property
        def position(self) -> int:
            """The position of the question."""

        @property
        def stored_reply_message(self) -> Message | None:
            """The answer that the same key got before."""

        def reply(self, reply: Any) -> Message:
            """Store the model's answer."""

        def stream(self, chunks: Iterable[Any]) -> Iterator[str]:
            """Pass on a streamed answer, and store it."""

        def now_state(self) -> dict[str, Any]:
            """The thread's custom state."""

        def _need(self) -> Begun: ...

    def messages(
        self, form: str = "openai", *, tools: Sequence[dict[str, Any]] | None = None, policy: Any = None, **more: Any
    ) -> Any:
        """The context of the next call, the question and the steps so far included, in a provider's form.

        Args:
            form: openai, anthropic, langchain, responses, gemini, mistral, message.
            tools: tool definitions, counted with the context.
            policy, provider, model, system, passages: for this call only. Passages stand quoted before the question,
                count for a budget, and are kept in the turn's manifest and in no message.
        """
        self._need()
        if form == "anthropic":
            more.setdefault("provider", "anthropic")
        self.context = self.thread.compose(policy=policy, tools=tools, state=self.now_state(), **more)
        self._asked_at = time.monotonic()
        self._first_token_at = None
        passages = self.context.manifest.passages
        return (_with_passages(self.context, passages) if passages else self.context).messages(form)

    def shrunk(self, error: BaseException, form: str = "openai", **more: Any) -> Any:
        """A shorter context, after a provider refused the last one as too long; once in a turn.

        What the refusal says of the model's window is kept in mind for the next turns.

        Args:
            error: what the provider's SDK raised; it is raised again if it says something else, or if nothing shorter
                is valid: the same request is never sent again.
            form, more: as for `messages`.
        """
        sent = self.context
        if sent is None or self._shrunk or not is_overflow(error):
            raise error
        self._shrunk = True
        memory, model = self.thread.memory, more.get("model")
        memory.learn_ceiling(model, shorter(error, sent.tokens))
        asked_at = self._asked_at
        messages = self.messages(form, **more)
        assert self.context is not None
        if self.context.tokens >= sent.tokens:
            raise error
        self._purpose, self._asked_at = "retry", asked_at or self._asked_at
        return messages

    def ask(self, model: Any, *, on_text: Callable[[str], None] | None = None, **more: Any) -> Message:
        """Compose, ask a model of ours (`novelo.model(...)`), store the answer; a refused context is shortened once.

        Args:
            model: anything with `complete(request)`, a function of a request, or a chat model of LangChain.
            on_text: called with each piece of a streamed answer.
            more: as for `messages`; `tools` reach the model too.
        Returns:
            The answer, which may call tools: add their results, and ask again. Where the same key was answered before,
            the stored answer; the model is not asked.
        """
        if self.replayed:
            stored = self.stored_reply_message or Message("assistant", "")
            if on_text is not None and stored.text:
                on_text(stored.text)
            return stored
        model = self.thread.memory.askable(model)
        messages = self.messages("openai", **more)
        try:
            return self._asked(model, messages, on_text, more)
        except Exception as error:
            if self.has_partial():
                raise
            messages = self.shrunk(error, "openai", **more)
        return self._asked(model, messages, on_text, more)

    def has_partial(self) -> bool:
        """Whether a part of an answer has come; a stream that brought nothing is forgotten."""
        if self._stream is not None and not is_blank(self._stream.message(partial=True)):
            return True
        self._stream = None
        return False

    def request(self, messages: Any, stream: bool, more: dict[str, Any]) -> ModelRequest:
        """What a model of ours is asked with the turn's messages.

        Args:
            more: as for `messages`.
        """
        passages = () if self.context is None else tuple(self.context.manifest.passages)
        return ModelRequest(
            messages, tools=tuple(more.get("tools") or ()), model=more.get("model"), purpose=self._purpose,
            stream=stream, passages=passages, question=more.get("standalone") or "",
        )  # fmt: skip

    def _asked(self, model: Any, messages: Any, on_text: Callable[[str], None] | None, more: dict[str, Any]) -> Message:
        request = self.request(messages, on_text is not None, more)
        if on_text is None:
            return self.reply(model.complete(request))
        for piece in self.stream(stream(model, request)):
            on_text(piece)
        assert self._last is not None
        return self._last

    def answer(
        self,
        model: Any,
        retriever: Any,
        *,
        on_text: Callable[[str], None] | None = None,
        on_query: Callable[[Retrieved], None] | None = None,
        condenser: Any = None,
        **options: Any,
    ) -> Answered:
        """Answer from documents: the question so that it makes sense alone, a search, the answer; durable on return.

        Asks the model once for a first question, twice for a follow-up that has to be rewritten, and not at all where
        nothing that was found or said supports an answer: then the user is told so. "explique melhor", "e o segundo?"
        are answered from the passages of the turn before, without a search.

        Args:
            model: anything with `complete(request)`, a function of a request, or a chat model of LangChain.
            retriever: `memory.documents(...)`, a retriever of LangChain, an object with `search(question, limit)`, or a
                function from a question to passages.
            on_text: called with each piece of a streamed answer.
            on_query: called with what is searched and what was too weak, before the model is asked for the answer.
            condenser: the model that rewrites questions, where it is another one; False for none: what a follow-up
                leans on is then carried over from the turns before by rules, as with the offline model.
            options: limit (passages, 5), min_score (passages below it support nothing), policy, system, language (to
                answer in), prompt (instructions for the answer; `{language}` and `{nothing}` are put in), alone (tells
                questions that need no rewriting), and provider, model as for `messages`.
        Raises:
            ModelFailed: the answering model failed; the question stays, and `thread.retry()` asks again.
            InvalidSpec: the model or the retriever cannot be asked.
        """
        from novelo.answering import answered, answering, chosen, rewriter

        condenser = rewriter(model, condenser, self.thread.memory.askable)
        chosen_ones = chosen(retriever, condenser, on_query, options)
        steps = answering(self, chosen_ones)  # type: ignore[arg-type]  # LiveTurn is all of us
        return answered(self, steps, model, condenser, retriever, on_text)  # type: ignore[arg-type]

    def history(self, form: str = "openai", **more: Any) -> Any:
        """The context without the newest question and without the system message, for prompts with a place for each."""
        context = self.thread.compose(state=self.now_state(), **more)
        self.context = context
        self._asked_at = time.monotonic()
        entries = [e for e in context.entries if e.position < self.position and e.message.role != "system"]
        return Context(entries, context.manifest, context.form).messages(form)


def _with_passages(context: Context, passages: Sequence[Passage]) -> Context:
    """The context with passages before its newest question, for this call only."""
    entries = list(context.entries)
    at = max((i for i, e in enumerate(entries) if e.message.role == "user"), default=None)
    if at is None:
        return context
    entries[at] = entries[at].altered(before_question(entries[at].message, passages), "passages")
    return Context(entries, context.manifest, context.form)
