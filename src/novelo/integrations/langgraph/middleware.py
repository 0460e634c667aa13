"""Conversation memory for agents made by `create_agent`.

    create_agent(model, tools, middleware=[MemoryMiddleware("window:10turns")], checkpointer=saver)

The model is sent the context that the policy composes from the state's messages; state and checkpoints stay as they
are. A context is valid for the model's provider: a call whose result was lost gets one, a cut never parts a result from
its call. Refused as too long it is shortened once. Every call is in the ledger.

Summaries are made after the reply by a thread of their own, which nobody waits for: a summarizer that fails, hangs or
is slow changes nothing but the next context's length. With a memory the agent's messages are also a transcript there,
beside the checkpoints, and the summary outlives the process.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, NotRequired, cast

import msgspec
from langchain.agents.middleware.types import AgentMiddleware, AgentState, ModelRequest, PrivateStateAttr
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from novelo.accounts import Accounts
from novelo.aio import threaded
from novelo.compaction import INPUT_TOKENS, Contract, flow
from novelo.context import Context, compose_source, parse
from novelo.context.listing import ListSource
from novelo.context.manifest import Manifest
from novelo.context.redact import Redact
from novelo.context.spec import Pipeline, bounded, stages_of
from novelo.covering import Plan, masks_of, plan, stage_of
from novelo.errors import ContextTooSmall, InvalidSpec, ModelFailed, NoveloError
from novelo.events import CompactionEvent, OnCompaction
from novelo.formats.langchain import from_langchain
from novelo.integrations.langgraph._call import (
    Books,
    ModelCall,
    answers_of,
    kept_of,
    names_of,
    same_base,
    same_database,
    too_few,
    writer_of,
    writes_at_exit,
)
from novelo.integrations.langgraph._chat import model_name, provider_of
from novelo.integrations.langgraph._kept import Kept, end_of
from novelo.integrations.langgraph._talk import (
    STATE,
    Carried,
    Made,
    Talk,
    Talks,
    carried,
    print_of,
    shifted,
    worded,
    wordless,
)
from novelo.memory import Memory
from novelo.models.failures import is_overflow, shorter
from novelo.protocol import dialect
from novelo.summaries import Summary
from novelo.tokens import count_message
from novelo.tokens import counter as counter_of
from novelo.transcript import Entry
from novelo.usage import Call, ThreadUsage
from novelo.wire import WRITTEN_RESULT
from novelo.worker import CIRCUIT, RETRY_S, in_time

JOBS = 4  # summaries that are being made at a time
WRITTEN_S = (60, 0.05)  # how often, and after how many seconds, it is looked whether the saver has written a run
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
        self.summary_s, self.summary_input, self.summary_prompt = summary_s, summary_input, summary_prompt
        self.on_compaction = [on_compaction] if callable(on_compaction) else list(on_compaction)
        self._stage = stage_of(chosen)
        self._provider, self._window = provider, window
        self._talks = Talks()
        self._tools: dict[tuple[int, ...], tuple[Any, list[dict[str, Any]]]] = {}
        self._jobs: set[threading.Thread] = set()
        self._jobs_lock = threading.Lock()
        self._failures, self._paused_until = 0, 0.0
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
        deadline = time.monotonic() + timeout_s
        while jobs := self._running():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            jobs[0].join(left)
        return True

    def _running(self) -> list[threading.Thread]:
        with self._jobs_lock:
            return [job for job in self._jobs if job.is_alive()]

    # ------------------------------------------------------------------------------------------ around a model call
    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        """Send the composed context; once more and shorter if it was refused as too long."""
        call = self._begun(request)
        try:
            response = handler(call.request)
        except Exception as error:
            response = handler(self._shortened(call, error))
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
            response = await handler(self._shortened(call, error))
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
        self._compose(call, self.policy)
        return call

    def _compose(self, call: ModelCall, policy: Any) -> None:
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
            tools=self._counted(given.tools), correction=self.books.correction(model), window=self._window_of(given),
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

    def _window_of(self, request: ModelRequest[Any]) -> int | None:
        told = getattr(request.model, "profile", None)
        profile = told.get("max_input_tokens") if isinstance(told, dict) else None
        return self._window or self.books.window or (profile if isinstance(profile, int) else None)

    def _shortened(self, call: ModelCall, error: Exception) -> ModelRequest[Any]:
        """The request with a shorter context; the error again where that cannot help."""
        if not (is_overflow(error) or isinstance(error, ContextOverflowError)):
            raise error
        before = call.context.tokens
        self.books.learn_ceiling(model_name(call.given.model), shorter(error, before))
        self._compose(call, self.policy)
        if call.context.tokens >= before:
            raise error
        call.purpose = "retry"
        return call.request

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
                self._remember(call, answers)
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
        self._flush(talk)
        if kept.memory.on_usage:
            sent = [*context.messages("message"), message]
            kept.memory.tell_usage(kept.thread, row, context.manifest, sent)

    def _flush(self, talk: Talk) -> None:
        """Write rows of the ledger that wait for their thread to be there."""
        if talk.kept is not None and talk.calls:
            with talk.lock:
                waiting = list(talk.calls)
                if talk.kept.note(waiting):
                    for _ in waiting:
                        talk.calls.popleft()

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

    # ------------------------------------------------------------------------------------------ summaries
    def _remember(self, call: ModelCall, answers: list[Any]) -> None:
        """Begin a summary where one may be due: whether it is, is found out by its own thread."""
        talk, messages = call.talk, [*call.given.messages, *answers]
        if self._stage is None or self.summarizer is None:
            return
        if time.monotonic() < max(talk.not_before, self._paused_until):
            return
        covered = 0 if call.summary is None else max(0, call.summary.upto)
        if too_few(self._stage, len(messages) - covered):
            return
        window = self._window_of(call.given)
        with self._jobs_lock:
            self._jobs = {job for job in self._jobs if job.is_alive()}
            if talk.busy or len(self._jobs) >= JOBS:
                return
            talk.busy = True
            job = threading.Thread(
                target=self._job, args=(talk, messages, call.told, window), name="novelo-summary", daemon=True
            )
            self._jobs.add(job)
        job.start()

    def _job(self, talk: Talk, messages: list[Any], told: Carried, window: int | None) -> None:
        try:
            self._summarize(talk, messages, told, window)
            talk.failures = self._failures = 0
        except Exception as error:
            talk.failures, self._failures = talk.failures + 1, self._failures + 1
            first, longest = RETRY_S if self.memory is None else self.memory.retry_s
            pause = min(longest, first * 4 ** min(talk.failures - 1, 10)) * random.uniform(0.8, 1.2)  # noqa: S311  jitter
            talk.not_before = time.monotonic() + pause
            if self._failures >= CIRCUIT[0]:
                self._paused_until = time.monotonic() + CIRCUIT[1]
            log.warning("a summary was not made, the conversation goes on without it: %s", type(error).__name__)
        finally:
            talk.busy = False

    def _summarize(self, talk: Talk, messages: list[Any], told: Carried, window: int | None) -> None:
        assert self._stage is not None
        count = partial(count_message, count=self.books.counter)
        source = ListSource(messages, count, form="langchain")
        offset = told.pruned
        with talk.lock:
            base = talk.summary_for(messages, source.begin, told)
            made = plan(source, self._stage, base, count, window=window, masks=masks_of(self.policy))
            if made is None:
                return
            kept = kept_of(talk)
            stood_on = None if kept is None else kept.base(0)
        place = stands_on = None
        for _ in range(WRITTEN_S[0] if kept is not None and kept.follows else 1):  # the saver writes behind the run
            with talk.lock:
                place = None if kept is None else kept.place(messages, offset, made.upto)
                stands_on = None if kept is None or place is None else kept.base(end_of(place, made.upto + offset))
            if kept is None or place is not None:
                break
            time.sleep(WRITTEN_S[1])
        if stood_on is not None and stands_on is not None and not same_base(stood_on, stands_on):
            raise ModelFailed("another summary came first, or what it was to be made from was changed")
        calls: list[Call] = []
        started, before = time.time(), {"messages_before": len(made.entries)}
        before["tokens_before"] = sum(max(0, e.tokens) for e in made.entries)
        self._tell(talk, "started", **before)
        try:
            summary = self._written(made, calls)
            number = 1 + max(base.version if base is not None else 0, 0)
            summary = shifted(msgspec.structs.replace(summary, version=number, active=True), offset)
            prints = {} if talk.made is None or base is None else dict(talk.made.prints)
            prints |= {at + offset: print_of(messages[at]) for at in range(source.begin, summary.upto - offset)}
            if kept is not None and place is not None and stands_on is not None:
                done, calls = kept.save(summary, place, stands_on, calls), []
                if not done:
                    raise ModelFailed("another summary came first, or what it was made from was changed")
            origin = "" if told.summary is None else told.summary.source
            with talk.lock:
                talk.made = Made(summary, prints, origin)
        except Exception as error:
            self._tell(talk, "failed", seconds=time.time() - started, error=type(error).__name__, **before)
            raise
        finally:
            talk.calls.extend(calls)
            self._flush(talk)
        after = {"messages_after": 2 if self._stage.form == "pair" else 1, "tokens_after": summary.tokens}
        self._tell(talk, "done", version=number, seconds=time.time() - started, **before, **after)

    def _written(self, made: Plan, calls: list[Call]) -> Summary:
        assert self._stage is not None
        contract = Contract(self._stage, self.books.counter, self.summary_input, self.summary_prompt)
        asking = flow(made, contract, time.time())
        try:
            request = next(asking)
            while True:
                started = time.monotonic()
                reply = in_time(partial(self.summarizer.complete, request), self.summary_s)
                counted = sum(self.books.counter(str(m.get("content", ""))) for m in request.messages)
                seconds = time.monotonic() - started
                calls.append(self.books.call("summary", reply.model, reply.usage, counted, reply.message, seconds))
                request = asking.send(reply)
        except StopIteration as end:
            return cast(Summary, end.value)
        finally:
            asking.close()

    def _tell(self, talk: Talk, status: Any, *, version: int = 0, **facts: Any) -> None:
        listeners = [*self.on_compaction, *self.books.on_compaction]
        if listeners:
            event = CompactionEvent(
                talk.thread_id or "", talk.owner, version, status, strategy=str(self._stage), **facts
            )
            self.books.tell(listeners, event)


class _Keeping(MemoryMiddleware):
    """With a memory: the answer is in the transcript when the agent returns, as the hooks after the model left it."""

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Bring the transcript after the state."""
        talk = self._talk(runtime)
        self._synced(talk, state, last=True)
        try:
            self._flush(talk)
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
            gone = self._left_out(messages)
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

    def _left_out(self, messages: Sequence[Any]) -> list[int]:
        source = ListSource(messages, partial(count_message, count=self.books.counter), form="langchain")
        context = compose_source(
            source, source.opening(), self.policy, counter=self.books.counter, window=self._window or self.books.window
        )
        kept = {at for start, stop in context.manifest.kept for at in range(start, stop)}
        return [at for at, m in enumerate(messages) if at not in kept and m.id]
