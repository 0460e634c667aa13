"""A thread: one conversation, its complete transcript, and the contexts that are composed from it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from novelo import formats
from novelo.context import Context, Retrieved, compose_source
from novelo.context.budget import Budget
from novelo.context.spec import bounded, stages_of
from novelo.errors import ContextTooSmall, InvalidSpec, ThreadBusy, ThreadErased, TurnClosed, UnknownEntry
from novelo.meaning import source_of, work_for
from novelo.messages import Message
from novelo.opening import open_turn
from novelo.passages import Passage, passage_of, passages_text
from novelo.protocol import dialect
from novelo.record import Record
from novelo.retrieval import masked
from novelo.source import ThreadSource, entry
from novelo.stores.base import Begun, Busy, Close, NewEntry, StoredEntry, ThreadRow, Work
from novelo.transcript import Entry
from novelo.turn import LiveTurn
from novelo.usage import Call
from novelo.worker import due_work

if TYPE_CHECKING:
    from pathlib import Path

    from novelo.why import Why


POLL_S = (0.005, 0.25)  # how often a queued turn asks again: first and longest pause
ON_BUSY = ("queue", "reject", "interrupt", "rollback")


class Thread(Record):
    """The handle of a thread, which its first write makes. Cheap: nothing is read until it is needed."""

    # ------------------------------------------------------------------------------------------ turns
    def turn(self, question: Any, key: str | None = None, *, on_busy: str | None = None) -> LiveTurn:
        """A new turn; it begins where it is entered with `with`.

        Args:
            question: a text, content parts, a chat dict, or a Message of the user's.
            key: the idempotency key: the same key gives the same turn again, and never a second question.
            on_busy: what to do while another turn is open: "queue", "reject", "interrupt", or "rollback" (that is
                interrupt, and hide what the other one had); None is the memory's rule.
        """
        message = _question(question)
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= 1000):
            raise InvalidSpec("idempotency key: expected a text of 1 to 1000 characters")
        return LiveTurn(self, self.memory.sound(message), key, _busy_rule(on_busy))

    def resume(self, *, on_busy: str | None = None) -> LiveTurn:
        """The newest turn again, where it stopped: waiting, failed or interrupted, perhaps in another process.

        Raises:
            TurnClosed: there is none.
        """
        row = next(iter(self.memory.store.turns(self.key, 1)), None)
        if row is None or row.status == "done":
            raise TurnClosed(f"no turn waits in thread {self.thread_id!r}" + (": the newest is done" if row else ""))
        return LiveTurn(self, None, row.key, _busy_rule(on_busy), first=row.first)

    def retry(self, *, on_busy: str | None = None) -> LiveTurn:
        """The last question again: the former answer stays in the transcript, hidden once the turn begins.

        A question at the end that has no answer yet (after `edit`, or in a fork) is answered where it stands.

        Raises:
            UnknownEntry: nothing was asked yet, or what was asked is hidden.
        """
        thread = self._row()
        asked = self._last_question(thread)
        if asked.position == thread.head - 1 and thread.open_turn is None:
            return LiveTurn(self, None, None, _busy_rule(on_busy), first=asked.position)
        return LiveTurn(self, asked.message, None, _busy_rule(on_busy), hide_from=asked.position)

    def _last_question(self, thread: ThreadRow) -> StoredEntry:
        before = thread.head
        while before > 0:
            piece = self.memory.store.tail(thread, before, 50)
            for stored in piece:
                if stored.role == "user":
                    return stored
            if not piece:
                break
            before = piece[-1].position
        raise UnknownEntry("there is no question to ask again in this thread, or it is hidden")

    def begin(self, turn: LiveTurn) -> Begun:
        """Open the turn in the store, waiting for another one as its rule says."""
        mode = turn._on_busy or self.memory.on_busy
        for pause in self.pauses(mode):
            found = self.try_begin(turn, mode)
            if isinstance(found, Begun):
                return found
            time.sleep(pause)
        raise self.busy(mode)

    def pauses(self, mode: str) -> Iterator[float]:
        """How long to wait after each try that finds the thread busy; ends when it is time to give up."""
        deadline, pause = time.monotonic() + self.memory.queue_s, POLL_S[0]
        yield 0.0 if mode == "reject" else pause
        while mode != "reject" and time.monotonic() <= deadline:
            yield random.uniform(pause / 2, pause)  # noqa: S311  jitter
            pause = min(pause * 1.5, POLL_S[1])

    def try_begin(self, turn: LiveTurn, mode: str) -> Begun | Busy:
        """One try to open the turn."""
        self.memory.within_limits(self)
        return open_turn(self, turn, mode)

    def busy(self, mode: str) -> ThreadBusy:
        """The error for a thread whose turn is open."""
        waited = f" after {self.memory.queue_s:g} s" if mode == "queue" else ""
        return ThreadBusy(
            f"another turn of thread {self.thread_id[:60]!r} is open{waited}: try again, or use on_busy='interrupt'"
        )

    def append_step(
        self,
        begun: Begun,
        entries: Sequence[NewEntry],
        close: Close | None,
        state: dict[str, Any] | None,
        calls: Sequence[Call],
        context: Context | None = None,
    ) -> int:
        """Write a step of an open turn; the last one brings the work with it that the turn has made due."""
        lease = self.memory.lease()
        work = () if close is None or close.status == "waiting" else self._due(entries, context)
        position = self.memory.store.append(
            self.key, begun.turn.epoch, begun.turn.first, entries, lease.now, close=close, state=state, calls=calls,
            work=work, lease_until=lease.now + lease.ttl_s, holder=lease.holder,
        )  # fmt: skip
        if work:
            self.memory.wake()
        for call in calls:
            sent = None if context is None else [*context.messages("message"), *(e.message for e in entries)]
            self.memory.tell_usage(self, call, None if context is None else context.manifest, sent)
        return position

    def _due(self, entries: Sequence[NewEntry], context: Context | None) -> tuple[Work, ...]:
        policy = self.policy if context is None or context.policy is None else context.policy
        model = None if context is None else context.manifest.model
        window = self.memory.window_of(model) if model or self.memory.window else None
        summary = due_work(self, policy, window, [(e.message.role == "user", e.tokens) for e in entries])
        vectors = None if self.memory.meaning is None else work_for(time.time())
        return tuple(work for work in (summary, vectors) if work is not None)

    @property
    def policy(self) -> Any:
        """How contexts are composed, unless a call says otherwise."""
        return self.memory.policy if self._policy is None else self.memory.parsed(self._policy)

    def keep_draft(self, begun: Begun, draft: NewEntry | None) -> bool:
        """Renew the lease of an open turn, and keep what was streamed."""
        lease = self.memory.lease()
        return self.memory.store.keep_draft(
            self.key, begun.turn.epoch, begun.turn.first, draft, lease.now + lease.ttl_s
        )

    # ------------------------------------------------------------------------------------------ contexts
    def context(self, question: Any = None, policy: Any = None, **more: Any) -> Context:
        """The context of the next call, nothing written; with a question, as if it had been asked.

        Args:
            question: what would be asked.
            policy, provider, model, tools, system: for this context only.
        """
        return self.compose(policy=policy, question=None if question is None else _question(question), **more)

    def compose(
        self,
        *,
        policy: Any = None,
        provider: str = "openai",
        model: str | None = None,
        tools: Sequence[dict[str, Any]] | None = None,
        system: Any = None,
        state: dict[str, Any] | None = None,
        question: Message | None = None,
        passages: Sequence[Any] = (),
        standalone: str | None = None,
        retrieved: Retrieved | None = None,
        window: int | None = None,
    ) -> Context:
        """The context of the thread as it stands; see `context`. Passages are counted and noted, not put in."""
        memory = self.memory
        dialect(provider)
        prompt = self._prompt(system, state)
        parsed = self.policy if policy is None else memory.parsed(policy)
        found = (masked([passage_of(p) for p in passages], parsed), standalone, retrieved)
        ceilings = [memory.ceiling(model), memory.room(self, model) if memory.limits else None]
        least = min((c for c in ceilings if c), default=None)
        window = window or memory.window_of(model)
        try:
            return self._composed(bounded(parsed, least), provider, model, tools, prompt, question, found, window)
        except ContextTooSmall as error:
            if least is None or _too_small_anyway(parsed, error):
                raise
            return self._composed(  # the least that is valid, though it is more than we would have liked
                bounded(parsed, error.needed), provider, model, tools, prompt, question, found, window
            )

    def _composed(
        self,
        parsed: Any,
        provider: str,
        model: str | None,
        tools: Sequence[dict[str, Any]] | None,
        prompt: str,
        question: Message | None,
        found: tuple[list[Passage], str | None, Retrieved | None],
        window: int | None,
    ) -> Context:
        memory = self.memory
        passages, standalone, retrieved = found
        with memory.store.snapshot():  # a redaction between two reads would mix what was with what is
            thread = memory.store.thread(self.key) or ThreadRow(self.key, self.owner, self.thread_id)
            opening = memory.store.range(thread, 0, thread.opening, hidden=True) if thread.opening else []
            source: Any = source_of(memory, thread, opening)
            head = [entry(stored) for stored in opening if not (stored.hidden or stored.deleted)]
            if prompt:
                head = [Entry(-1, Message("system", prompt))]
            if question is not None:
                source = _Asked(source, Entry(thread.head, question, memory.count(question)))
            return compose_source(
                source,
                head,
                parsed,
                counter=memory.counter,
                provider=provider,
                model=model,
                pins=memory.store.pins(self.key) if thread.pinned else (),
                tools=tools,
                fixed_tokens=memory.counter(passages_text(passages)) if passages else 0,
                correction=memory.correction(model),
                window=window,
                form="openai",
                system=prompt or None,
                question=standalone,
                passages=passages,
                retrieved=retrieved,
                summary=memory.store.summary(thread) if thread.summary else None,
            )

    def _prompt(self, system: Any, state: dict[str, Any] | None) -> str:
        given = system if system is not None else self._system if self._system is not None else self.memory.system
        if callable(given):
            given = given(dict(self.state) if state is None else state)
        return given or ""

    # ------------------------------------------------------------------------------------------ the transcript
    def append(self, messages: Any) -> list[StoredEntry]:
        """Messages from elsewhere: an existing history, a greeting. Not a turn: no model is asked.

        Args:
            messages: one message or a list of them, in any form.
        Raises:
            ThreadBusy: a turn is open.
        """
        if isinstance(messages, (str, dict, Message)):
            messages = [messages if not isinstance(messages, str) else {"role": "assistant", "content": messages}]
        return self.store_messages(formats.read(messages))

    def store_messages(
        self, messages: Sequence[Message], times: Sequence[float] = (), hide_from: int | None = None
    ) -> list[StoredEntry]:
        """Append our own messages, with the times they had; returns the new entries.

        Args:
            hide_from: a position from which on everything is hidden in the same transaction.
        """
        new = [self.memory.new_entry(self.memory.sound(m)) for m in messages]
        if not new:
            return []
        for pause in self.pauses(self.memory.on_busy):
            first = self.memory.store.add(
                self.key, (self.owner, self.thread_id), new, self.memory.lease(), created=times, hide_from=hide_from
            )
            if not isinstance(first, Busy):
                if self.memory.meaning is not None:
                    self.memory.store.ask(self.key, work_for(time.time()), time.time())
                    self.memory.wake()
                return self.messages(after=first - 1, limit=len(new))
            time.sleep(pause)
        raise self.busy(self.memory.on_busy)

    def reconcile(self, messages: Any) -> list[StoredEntry]:
        """Append of a client's whole list only what is new: what the thread has already is recognised and left alone.

        Args:
            messages: the client's history, oldest first, without our ids.
        Raises:
            InvalidSpec: the list is not a continuation of the thread.
        """
        given = formats.read(messages)
        known = [s.message for s in self.messages() if not s.hidden]
        same = 0
        while same < min(len(given), len(known)) and _alike(given[same], known[same]):
            same += 1
        if same < len(known):
            raise InvalidSpec(
                f"the list parts from the thread at message {same}: append what is new, or edit the thread"
            )
        return self.store_messages(given[same:])

    def fork(self, at: Any = None, thread_id: str | None = None) -> Thread:
        """A new thread that shares the past up to `at` and nothing after it; nothing is copied.

        Args:
            at: how many messages to share (a position: those below it), or the id of the last one to share; None for
                all.
            thread_id: the new thread's id; made up if not given.
        """
        thread = self._row()
        if at is None:
            at = thread.head
        elif not isinstance(at, int):
            at = self.positions(at)[0] + 1
        if not 0 <= at <= thread.head:
            raise UnknownEntry(f"cannot fork at {at}: the thread has {thread.head} messages")
        made = self.memory.thread(
            thread_id or self.memory.new_id(), owner=self.owner, policy=self._policy, system=self._system
        )
        self.memory.store.fork(thread, made.key, (made.owner, made.thread_id), at, time.time())
        return made

    def edit(self, message_id: Any, content: Any) -> Thread:
        """Another wording of a message: it and all that came after are hidden, the new one stands at the end.

        `thread.retry()` then has the model answer it.

        Raises:
            ThreadBusy: a turn is open; nothing was hidden.
        """
        position = self.positions(message_id)[0]
        old = self._at(position)
        edited = (
            _question(content) if old.role == "user" else msgspec.structs.replace(old.message, content=content, id=None)
        )
        self.store_messages([edited], hide_from=position)
        return self

    def why(self, text: str, policy: Any = None) -> Why:
        """Who said something, what took it out of the context, and whether a summary still carries it."""
        from novelo.why import why

        return why(self, text, policy)

    def export_file(self, path: str | Path, kind: str = "novelo") -> int:
        """Write the thread to a file; see `novelo.portable`. Returns the number of messages."""
        from novelo.portable import export_file

        return export_file([self], path, kind)


def _too_small_anyway(policy: Any, error: ContextTooSmall) -> bool:
    """Whether the policy's own budget is what cannot be kept."""
    budgets = [stage for stage in stages_of(policy) if isinstance(stage, Budget)]
    return any((budget.high_tokens(None) or error.needed) < error.needed for budget in budgets)


class _Asked:
    """A source with one more entry at the end: a question that was not asked yet."""

    def __init__(self, source: ThreadSource, question: Entry) -> None:
        self._source, self._question = source, question
        self.begin, self.end = source.begin, source.end + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def newest_first(self) -> Iterator[Entry]:
        """The question, then the thread."""
        yield self._question
        yield from self._source.newest_first()

    @property
    def turn_count(self) -> int:
        """User messages, the question with them."""
        return self._source.turn_count + (self._question.message.role == "user")

    @property
    def message_count(self) -> int:
        """Messages behind the opening, the question with them."""
        return self.end - self.begin

    @property
    def tokens_total(self) -> int:
        """Tokens of all entries behind the opening, of the question too."""
        return self._source.tokens_total + self._question.tokens

    def messages_before(self, found: Entry) -> int:
        """Messages between the opening and this entry."""
        return found.position - self.begin

    def tokens_before(self, found: Entry) -> int:
        """Tokens of the entries between the opening and this entry."""
        return self._source.tokens_total if found is self._question else self._source.tokens_before(found)


def _question(given: Any) -> Message:
    if isinstance(given, str):
        return Message("user", given)
    if isinstance(given, Message):
        return given
    if isinstance(given, (list, tuple)):
        given = {"role": "user", "content": list(given)}
    return formats.read([given])[0]


def _alike(a: Message, b: Message) -> bool:
    return (
        a.role == b.role
        and a.content == b.content
        and [(c.name, c.arguments) for c in a.tool_calls] == [(c.name, c.arguments) for c in b.tool_calls]
    )


def _busy_rule(rule: str | None) -> str | None:
    if rule is not None and rule not in ON_BUSY:
        raise InvalidSpec(f"on_busy={rule!r}: expected one of {', '.join(ON_BUSY)}")
    return rule


__all__ = ["Thread", "ThreadErased"]
