"""Conversation memory for agents made by `create_agent`.

    create_agent(model, tools, middleware=[MemoryMiddleware("window:10turns")], checkpointer=saver)

The model is sent the context that the policy composes from the state's messages; state and checkpoints stay as they
are. A context is valid for the model's provider: a call whose result was lost gets one, a cut never parts a result from
its call. Refused as too long it is shortened once. Every call is in the ledger.

Summaries are made after the reply by a thread of their own, which nobody waits for: a summarizer that fails, hangs or
is slow changes nothing but the next context's length. With a memory the agent's messages are also a transcript there,
beside the checkpoints, and the summary outlives the process.

A call goes through the files in this order: `_talk` and `_kept` (what is known of its thread), `_composing` (the
context), `_call` (the request), and behind the reply `_summaries`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired

import msgspec
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, PrivateStateAttr
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage

from novelo.accounts import Accounts
from novelo.aio import threaded
from novelo.compaction import INPUT_TOKENS
from novelo.context import parse
from novelo.context.manifest import Manifest
from novelo.context.redact import Redact
from novelo.context.spec import Pipeline, stages_of
from novelo.covering import stage_of
from novelo.errors import InvalidSpec, NoveloError
from novelo.events import OnCompaction
from novelo.formats.langchain import from_langchain
from novelo.integrations.langgraph._call import (
    Books,
    ModelCall,
    answers_of,
    flush,
    kept_of,
    names_of,
    same_database,
    writer_of,
    writes_at_exit,
)
from novelo.integrations.langgraph._chat import model_name
from novelo.integrations.langgraph._composing import Composer
from novelo.integrations.langgraph._kept import Kept
from novelo.integrations.langgraph._summaries import Summaries
from novelo.integrations.langgraph._talk import (
    STATE,
    Carried,
    Talk,
    Talks,
    carried,
    shifted,
    worded,
    wordless,
)
from novelo.memory import Memory
from novelo.protocol import dialect
from novelo.summaries import Summary
from novelo.tokens import counter as counter_of
from novelo.usage import ThreadUsage

log = logging.getLogger("novelo")


class PrunedState(AgentState[Any]):
    """The state of an agent whose messages are pruned: what stands for those that are gone."""

    novelo_memory: NotRequired[Annotated[str, PrivateStateAttr]]


class MemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Contexts by a policy, summaries in the background, and a ledger; see the top of the file."""

    def __new__(cls, *_: Any, memory: Any = None, prune_state: bool = False, **__: Any) -> MemoryMiddleware:
        """Take the class with the further hooks only where they have something to do: each is a node of the graph."""
        if cls is MemoryMiddleware and prune_state:
            cls = _Pruning
        elif cls is MemoryMiddleware and memory is not None:
            cls = _Keeping
        return super().__new__(cls)

    def __init__(
        self,
        policy: Any = None,
        *,
        summarizer: Any = None,
        memory: Any = None,
        prune_state: bool = False,
        redact: str | Sequence[str] = (),
        counter: Any = "estimate",
        provider: str | None = None,
        window: int | None = None,
        summary_s: float = 60.0,
        summary_input: int = INPUT_TOKENS,
        summary_prompt: str = "",
        on_compaction: OnCompaction | Sequence[OnCompaction] = (),
    ) -> None:
        """Ask and read nothing yet.

        Args:
            policy: a spec such as "window:10turns" or "summarize:20messages,keep=6 + budget:8000", or a policy; None is
                the memory's, or "buffer".
            summarizer: who writes summaries: a chat model of LangChain, a model of ours or its name, or a function from
                a request to a text; None is the memory's.
            memory: where the agent's messages are kept as a transcript, with ledger and summary: of `novelo.open`, or
                a `NoveloSaver`, whose transcript it then is; None keeps ledger and summary in this process.
            prune_state: whether messages that contexts do not hold any more are removed from the state too, so that
                checkpoints stay small. What is gone from the state is only in the transcript.
            redact: kinds of things to mask on the way out: "secrets", "cards", "emails", "cpf".
            counter: as for `novelo.open`.
            provider: whose rules hold; None tells it from the model.
            window: tokens of the model's window; None asks the model's profile.
            summary_s: seconds for one answer of the summarizer.
            summary_input: tokens of one request to it.
            summary_prompt: instructions instead of ours.
            on_compaction: told of summaries: started, done, failed.
        """
        super().__init__()
        memory = getattr(memory, "memory", memory)
        if memory is not None and not isinstance(memory, Memory):
            raise InvalidSpec(f"memory {type(memory).__name__}: expected one of novelo.open, or a NoveloSaver")
        chosen = parse(("buffer" if memory is None else memory.policy) if policy is None else policy)
        kinds = tuple(k.strip() for k in redact.split(",")) if isinstance(redact, str) else tuple(redact)
        if kinds:
            stages = stages_of(chosen)
            chosen = Pipeline((*stages, Redact(kinds)))
        if provider is not None:
            dialect(provider)
        if summary_s <= 0:
            raise InvalidSpec(f"summary_s={summary_s}: expected seconds")
        self.policy, self.prune_state = chosen, prune_state
        self.memory: Memory | None = memory
        self.summarizer: Any = writer_of(summarizer) if summarizer is not None or memory is None else memory.summarizer
        self.books: Accounts = memory if memory is not None else Books(counter_of(counter), window)
        self.on_compaction = [on_compaction] if callable(on_compaction) else list(on_compaction)
        self._stage = stage_of(chosen)
        self._composer = Composer(self.books, self._stage, provider, window)
        self._summaries = Summaries(
            chosen,
            self._stage,
            self.books,
            self.memory,
            seconds=summary_s,
            input_tokens=summary_input,
            prompt=summary_prompt,
            listeners=self.on_compaction,
        )
        self._talks = Talks()
        if prune_state:
            self.state_schema = PrunedState

    @property
    def name(self) -> str:
        """The name in graphs and traces."""
        return "MemoryMiddleware"

    # ------------------------------------------------------------------------------------------ what can be asked
    def usage(self, thread_id: str | None, owner: str = "") -> ThreadUsage:
        """The ledger of a thread: one row for each model call, those of agents inside of it and summaries too."""
        if self.memory is not None and thread_id is not None:
            written = self.memory.thread(thread_id, owner).usage()
            written += [call for talk in self._talks.of(thread_id, owner) for call in talk.calls]
            return written
        calls = [call for talk in self._talks.of(thread_id, owner) for call in talk.calls]
        return ThreadUsage(sorted(calls, key=lambda call: call.created), owner, thread_id or "")

    def summary(self, thread_id: str, owner: str = "") -> Summary | None:
        """The summary that this process has of a thread; None if it has none."""
        made = self._talks.get(thread_id, owner).made
        return None if made is None else made.summary

    def manifest(self, thread_id: str | None, owner: str = "") -> Manifest | None:
        """What the newest context of a thread was made of, in this process."""
        return self._talks.get(thread_id, owner).manifest

    def forget(self, thread_id: str, owner: str = "") -> None:
        """Drop what this process knows of a thread, as after deleting it; a memory is not touched."""
        self._talks.forget(thread_id, owner)

    def wait(self, timeout_s: float = 5.0) -> bool:
        """Wait for summaries that are being made; whether all are done."""
        return self._summaries.wait(timeout_s)

    # ------------------------------------------------------------------------------------------ around a model call
    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Send the composed context; once more and shorter if it was refused as too long."""
        call = self._begun(request)
        try:
            response = handler(call.request)
        except Exception as error:
            response = handler(self._composer.shortened(call, error, self.policy))
        self._ended(call, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[Any]]
    ) -> Any:
        """The same, awaited; the memory is asked on a worker thread."""
        aside = self.memory is not None
        call = await threaded(self._begun, request) if aside else self._begun(request)
        try:
            response = await handler(call.request)
        except Exception as error:
            response = await handler(self._composer.shortened(call, error, self.policy))
        if aside:
            await threaded(self._ended, call, response)
        else:
            self._ended(call, response)
        return response

    def _begun(self, request: ModelRequest[Any]) -> ModelCall:
        talk = self._talk(request.runtime)
        self._synced(talk, request.state)
        if talk.kept is not None and request.messages and isinstance(request.messages[-1], HumanMessage):
            talk.kept.memory.within_limits(talk.kept.thread)  # a turn that has begun is brought to its end
        call = ModelCall(talk, request, self._carried(talk, request.state), time.monotonic())
        self._composer.compose(call, self.policy)
        return call

    def _ended(self, call: ModelCall, response: Any) -> None:
        """Note the call, and have a summary made where one is due; nothing here can fail the turn."""
        try:
            answers = answers_of(response)
            if call.talk.kept is not None:
                call.talk.kept.said(answers)
            spoken = next((m for m in reversed(answers) if isinstance(m, AIMessage)), None)
            if spoken is not None:
                self._note(call, spoken)
            open_calls = bool(spoken is not None and spoken.tool_calls and spoken is answers[-1])
            if answers and not open_calls and not call.talk.busy:
                self._summaries.begin(call, answers, self.summarizer, self._composer.window_of(call.given))
        except Exception as error:
            log.warning("the memory of a model call failed with %s", type(error).__name__)

    def _note(self, call: ModelCall, spoken: AIMessage) -> None:
        message = from_langchain(spoken)
        told = spoken.response_metadata
        model = told.get("model_name") or told.get("model") or model_name(call.given.model)
        seconds = time.monotonic() - call.started
        context = call.context
        if message.usage is not None:
            self.books.learn(model_name(call.given.model), context.tokens, message.usage)
        row = self.books.call(call.purpose, model, message.usage, context.tokens, message, seconds)
        talk = call.talk
        if talk.kept is None:
            talk.calls.append(row)
            return
        kept: Kept = talk.kept
        talk.calls.append(row)
        flush(talk)
        if kept.memory.on_usage:
            sent = [*context.messages("message"), message]
            kept.memory.tell_usage(kept.thread, row, context.manifest, sent)

    # ------------------------------------------------------------------------------------------ threads
    def _talk(self, runtime: Any) -> Talk:
        thread_id, owner, inside, saver = names_of(runtime)
        talk = self._talks.get(thread_id, owner, inside)
        if self.memory is not None and thread_id is not None and talk.kept is None:
            with talk.lock:
                follows = same_database(saver, self.memory)
                talk.kept = talk.kept or Kept(
                    self.memory, thread_id, owner, follows=follows, encrypted=follows and saver.encrypted
                )
                try:
                    talk.made = None if talk.inner else talk.kept.load()
                except NoveloError as error:
                    log.warning("a thread's summary cannot be read: %s", type(error).__name__)
        return talk

    def _carried(self, talk: Talk, state: Any) -> Carried:
        """What the state carries; a summary whose messages were deleted or masked since is not used any more."""
        told, kept = carried(state), kept_of(talk)
        if not told.pruned or kept is None:
            return told
        try:
            with talk.lock:
                if talk.made is not None and kept.words(talk.made.summary.source) is None:
                    talk.made = None
                if told.summary is not None:
                    told = Carried(told.pruned, worded(told.summary, kept.words(told.summary.source)))
        except NoveloError as error:
            log.warning("a thread's summary cannot be read: %s", type(error).__name__)
            return Carried(told.pruned)
        return told

    def _synced(self, talk: Talk, state: Any, *, last: bool = False) -> bool:
        """Bring the transcript after the state; whether it is."""
        if talk.kept is None or talk.inner:
            return talk.kept is None
        with talk.lock:
            try:
                talk.kept.sync(state["messages"], last=last and not writes_at_exit())
                return True
            except NoveloError as error:
                log.warning("a transcript is behind its state, and is brought up later: %s", type(error).__name__)
                return False


class _Keeping(MemoryMiddleware):
    """With a memory: the answer is in the transcript when the agent returns, as the hooks after the model left it."""

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Bring the transcript after the state."""
        talk = self._talk(runtime)
        self._synced(talk, state, last=True)
        try:
            flush(talk)
        except NoveloError as error:
            log.warning("rows of a ledger wait for the next turn: %s", type(error).__name__)
        return None

    async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The same, awaited."""
        return await threaded(self.after_agent, state, runtime)


class _Pruning(_Keeping):
    """With `prune_state`: what contexts do not hold any more is removed from the state before the model is called."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Remove what the summary stands for; without a summarizing policy what the policy leaves out."""
        talk, messages = self._talk(runtime), state["messages"]
        if not self._synced(talk, state):
            return None
        told = self._carried(talk, state)
        if self._stage is None:
            gone = self._composer.left_out(messages, self.policy)
            return {"messages": [RemoveMessage(id=messages[at].id) for at in gone]} if gone else None
        begin = next((i for i, m in enumerate(messages) if not isinstance(m, SystemMessage)), len(messages))
        with talk.lock:
            summary = talk.summary_for(messages, begin, told)
        if summary is None:
            return None
        end = min([summary.upto, *summary.held])  # what is held stays, and all behind it
        gone = [i for i in range(begin, min(end, len(messages) - 1)) if messages[i].id]
        if not gone or len(gone) != end - begin:
            return None
        whole = shifted(summary, told.pruned)
        if kept_of(talk) is not None:
            if talk.kept.words(summary.source) is None:
                return None  # another process would not find them
            whole = wordless(whole)
        kept = Carried(told.pruned + len(gone), whole)
        removed = [RemoveMessage(id=messages[at].id) for at in gone]
        return {"messages": removed, STATE: msgspec.json.encode(kept).decode()}

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """The same, awaited."""
        return await threaded(self.before_model, state, runtime)
