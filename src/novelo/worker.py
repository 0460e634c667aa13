"""Compaction after the reply: a job is claimed, its entries are read, the model is asked, and the result swapped in.

Whether a summary is due follows from what stands in the thread, so a lost signal loses nothing. Jobs are rows of the
store (`work`): the turn that makes one due writes it in its own transaction, any process may do it, and a process that
dies leaves it to the next. While the model works nothing is locked; the result counts only if its base still stands.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from novelo.asking import ModelReply, ModelRequest
from novelo.compaction import Contract, Progress, flow
from novelo.context.budget import Budget
from novelo.context.redact import Redact
from novelo.context.spec import Pipeline, Policy, parse, stages_of
from novelo.context.summary import Summarize
from novelo.covering import Plan, masks_of, plan, stage_of
from novelo.errors import InvalidSpec, ModelFailed, NoveloError, StoreError
from novelo.events import CompactionEvent
from novelo.meaning import KIND as EMBED
from novelo.meaning import embed
from novelo.messages import Message
from novelo.source import ThreadSource
from novelo.stores.base import PARKED, Base, Job, Lease, Work
from novelo.summaries import Summary
from novelo.tokens import count_message
from novelo.usage import Call

if TYPE_CHECKING:
    from novelo.memory import Memory
    from novelo.record import Record

KIND = "compact"
MAX_TRIES = 5  # of one job, then it waits until it is asked for again
RETRY_S = (5.0, 900.0)  # the first pause after a failure, fourfold with each, and the longest
CIRCUIT = (3, 60.0)  # after so many failures in a row no thread is tried for so many seconds
CLOSE_S = 5.0  # how long closing waits for a running job
POLL_S = 30.0  # how often jobs of other processes are looked for
log = logging.getLogger("novelo")
_CLAIMS = itertools.count(1)


class Spec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job needs to know of the policy that asked for it.

    Masks stand apart, as kinds and patterns: a pattern may hold the signs that a policy's text is cut at.
    """

    policy: str
    window: int | None = None
    masks: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()

    def read(self) -> Policy:
        """The policy."""
        return Pipeline((parse(self.policy), *(Redact(kinds, patterns) for kinds, patterns in self.masks)))


# ------------------------------------------------------------------------------------------------ one compaction
class Compaction:
    """One summary of one thread: planned, asked for, swapped in. Its calls are in the ledger whatever happens."""

    def __init__(
        self,
        thread: Record,
        policy: Policy,
        *,
        window: int | None = None,
        force: bool = False,
        redo: bool = False,
        focus: str = "",
        prompt: str = "",
        model: Any = None,
        progress: Progress | None = None,
        still_ours: Callable[[], bool] = lambda: True,
    ) -> None:
        self.thread, self.policy = thread, policy
        self.memory = thread.memory
        self.stage = stage_of(policy) or Summarize()
        self.window, self.force, self.redo = window, force, redo
        self.focus, self.prompt, self.progress = focus, prompt, progress
        self.model = self.memory.summarizer if model is None else self.memory.as_model(model)
        self.still_ours = still_ours
        self.calls: list[Call] = []

    def run(self) -> Summary | None:
        """The new version in use; None if nothing was due, or its base changed meanwhile.

        Raises:
            InvalidSpec: there is no summarizer. SummaryFailed, ModelFailed: it gave no summary; nothing has changed.
        """
        if self.model is None:
            raise InvalidSpec("no summarizer: give one as novelo.open(..., summarizer=model)")
        planned = self._planned()
        if planned is None:
            return None
        made, base = planned
        started = time.time()
        tokens = sum(max(0, e.tokens) for e in made.entries)
        before = {"messages_before": len(made.entries), "tokens_before": tokens}
        self._tell("started", **before)
        try:
            summary = self._asked(made)
            store = self.memory.store
            done = store.swap_summary(self.thread.key, base, summary, time.time(), self.calls)
            self._told()
        except Exception as error:
            self._spent()
            self._tell("failed", seconds=time.time() - started, error=type(error).__name__, **before)
            raise
        if done is None:
            self._tell("failed", seconds=time.time() - started, error="Superseded", **before)
            return None
        after = {"messages_after": 2 if self.stage.form == "pair" else 1, "tokens_after": done.tokens}
        self._tell("done", version=done.version, seconds=time.time() - started, **before, **after)
        return done

    def _planned(self) -> tuple[Plan, Base] | None:
        store, memory = self.memory.store, self.memory
        with store.snapshot():
            row = store.thread(self.thread.key)
            if row is None:
                return None
            opening = store.range(row, 0, row.opening, hidden=True) if row.opening else []
            base, upto = store.summary(row), None
            if self.redo:
                base, upto = self.thread.compaction_before(base)
                if upto is None:
                    return None
            made = plan(
                ThreadSource(store, row, opening),
                self.stage,
                base,
                lambda message: count_message(message, memory.counter),
                window=self.window,
                force=self.force or self.redo,
                upto=upto,
                masks=masks_of(self.policy),
                crowded=lambda: memory.say_once(
                    f"{self.stage}: what is kept reaches the trigger alone, so no summary gets below it; "
                    "keep less, raise the trigger, or put a budget behind"
                ),
            )
            return None if made is None else (made, store.base_of(row, made.upto))

    def _asked(self, made: Plan) -> Summary:
        contract = Contract(
            self.stage,
            self.memory.counter,
            self.memory.summary_input,
            self.prompt or self.memory.summary_prompt,
            self.focus,
            progress=self.progress or (lambda done, of: None),
        )
        asking: Generator[ModelRequest, ModelReply, Summary] = flow(made, contract)
        names: set[str] = set()
        try:
            request = next(asking)
            while True:
                reply = self._reply(request)
                names |= {reply.model} if reply.model else set()
                request = asking.send(reply)
        except StopIteration as end:
            summary: Summary = end.value
            return msgspec.structs.replace(summary, model=", ".join(sorted(names)) or None)
        finally:
            asking.close()

    def _reply(self, request: ModelRequest) -> ModelReply:
        """One answer, within the time limit, and its row for the ledger."""
        started, model = time.monotonic(), cast(Any, self.model)
        found = in_time(
            lambda: model.complete(request), self.memory.summary_s, min(self.memory.lease_s / 3, 10.0), self.still_ours
        )
        reply = found if isinstance(found, ModelReply) else ModelReply(Message("assistant", str(found)))
        counted = sum(self.memory.counter(str(m.get("content", ""))) for m in request.messages)
        self.calls.append(
            self.memory.call("summary", reply.model, reply.usage, counted, reply.message, time.monotonic() - started)
        )
        return reply

    def _spent(self) -> None:
        if self.calls:
            try:
                self.memory.store.note_calls(self.thread.key, self.calls, time.time())
            except StoreError:
                return  # the store is what failed
            self._told()

    def _told(self) -> None:
        for call in self.calls:
            self.memory.tell_usage(self.thread, call)
        self.calls = []

    def _tell(self, status: Any, **facts: Any) -> None:
        event = CompactionEvent(
            self.thread.thread_id, self.thread.owner, facts.pop("version", 0), status, strategy=str(self.stage), **facts
        )
        self.memory.tell(self.memory.on_compaction, event)


def in_time(
    ask: Callable[[], Any], seconds: float, pause_s: float = 10.0, still_ours: Callable[[], bool] = lambda: True
) -> Any:
    """What a summarizer gives within a time; one that takes longer is left alone, in a thread that ends with it.

    Args:
        ask: asks it.
        seconds: at most.
        pause_s: how often `still_ours` is asked meanwhile.
        still_ours: whether anybody still wants the answer.
    Raises:
        ModelFailed: it took too long, or nobody does. What it raised itself is raised here.
    """
    box: list[Any] = []

    def run() -> None:
        try:
            box.append(ask())
        except BaseException as error:
            box.append(error)

    asking = threading.Thread(target=run, name="novelo-summary", daemon=True)
    asking.start()
    deadline = time.monotonic() + seconds
    while asking.is_alive():
        left = deadline - time.monotonic()
        if left <= 0:
            raise ModelFailed(f"the summarizer gave no answer within {seconds:g} s", retryable=True)
        if not still_ours():
            raise ModelFailed("another worker took the job over", retryable=True)
        asking.join(min(pause_s, left))
    found = box[0]
    if isinstance(found, Exception):
        raise found
    if isinstance(found, BaseException):
        raise ModelFailed(f"the summarizer ended with {type(found).__name__}") from found
    return found


# ------------------------------------------------------------------------------------------------ when one is due
def due_work(thread: Record, policy: Policy, window: int | None, messages: list[tuple[bool, int]]) -> Work | None:
    """The job that a turn makes due, by stored sums; the job itself looks again, so that hidden entries do no harm.

    Args:
        messages: what the turn is about to append: whether it is the user's, and its tokens.
    """
    stage = stage_of(policy)
    memory = thread.memory
    if stage is None:
        return None
    if memory.summarizer is None and memory.worker_here:
        memory.say_once("the policy summarizes, but there is no summarizer: give one as novelo.open(..., summarizer=)")
        return None
    row = memory.store.thread(thread.key)
    if row is None:
        return None
    record = memory.store.summary(row) or Summary(since=row.opening)
    said = sum(asks for asks, _ in messages)
    tokens = row.running + sum(n for _, n in messages) - record.since_running + (record.tokens if record.text else 0)
    try:
        due = stage.due(row.head + len(messages) - record.since, row.turns + said - record.since_turns, tokens, window)
    except InvalidSpec:  # the model's window is not known here; composing the context says so
        return None
    if not due:
        return None
    masks = tuple((mask.kinds, mask.patterns) for mask in masks_of(policy))
    spec = msgspec.json.encode(Spec(str(stage), window, masks)).decode()
    now = time.time()
    wait = 0.0 if memory.idle_s and _presses(policy, tokens, window) else memory.idle_s
    return Work(KIND, now + wait, spec)


def _presses(policy: Policy, tokens: int, window: int | None) -> bool:
    """Whether the next context would not fit, so that a summary cannot wait for the thread to be idle."""
    highs = [s.high_tokens(window) for s in stages_of(policy) if isinstance(s, Budget)]
    return any(high is not None and tokens > high for high in highs)


# ------------------------------------------------------------------------------------------------ jobs
class Worker:
    """Does a memory's jobs in threads of this process: one job a thread of conversation, several side by side."""

    def __init__(self, memory: Memory, threads: int = 2, poll_s: float = POLL_S) -> None:
        self._memory = weakref.ref(memory)
        self._changed = threading.Condition()
        self._threads, self._poll_s = threads, poll_s
        self._running = 0
        self._stopping = False
        self._woken = True
        self._failures = 0
        self._paused_until = 0.0
        self.done = self.failed = 0
        self._loop = threading.Thread(target=self._run, name="novelo-worker", daemon=True)
        weakref.finalize(memory, self._stop)

    def start(self) -> None:
        """Begin to look for jobs; those that another process left are done too."""
        with self._changed:  # two turns may end at once
            if not self._loop.is_alive() and not self._stopping:
                self._loop.start()

    def wake(self) -> None:
        """There is something to do."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def close(self, wait_s: float = CLOSE_S) -> bool:
        """Take no more jobs, and wait a little for those that run; what is left stays for the next worker."""
        self._stop()
        deadline = time.monotonic() + wait_s
        with self._changed:
            while self._running and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._running

    def _stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    @property
    def paused(self) -> bool:
        """Whether the summarizer failed so often in a row that nothing is tried for a while."""
        return time.monotonic() < self._paused_until

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._woken and not self._stopping:
                    self._changed.wait(self._pause())
                if self._stopping:
                    return
                self._woken = False
                free = self._threads - self._running
            memory = self._memory()
            if memory is None:
                return
            if free > 0 and not self.paused:
                try:
                    for job in self._claim(memory, free):
                        self._start(memory, job)
                except NoveloError as error:
                    if not self._stopping:  # else the store was closed in the meantime
                        log.warning("jobs cannot be read: %s", type(error).__name__)
            del memory

    def _pause(self) -> float:
        """Seconds until the next job is due, or until others are looked for."""
        memory = self._memory()
        if memory is None:
            return 0.0
        try:
            due = memory.store.next_due(memory.kinds)
        except NoveloError:
            due = None
        wait = self._poll_s if due is None else min(self._poll_s, max(0.0, due - time.time()))
        pause = self._paused_until - time.monotonic()
        return max(wait, pause, 0.01) if pause > 0 else max(wait, 0.01 if self._running < self._threads else 0.2)

    def _claim(self, memory: Memory, limit: int) -> list[Job]:
        out = []
        for _ in range(limit):
            found = memory.store.claim(_lease(memory), 1, kinds=memory.kinds)
            if not found:
                break
            out += found
        return out

    def _start(self, memory: Memory, job: Job) -> None:
        with self._changed:
            self._running += 1
        threading.Thread(target=self._do, args=(memory, job), name="novelo-job", daemon=True).start()

    def _do(self, memory: Memory, job: Job) -> None:
        try:
            failed = do_job(memory, job)
        except Exception as error:
            log.warning("a job ended with %s", type(error).__name__)
            failed = True
        with self._changed:
            self._running -= 1
            self.done += not failed
            self.failed += failed
            self._failures = self._failures + 1 if failed else 0
            if self._failures >= CIRCUIT[0]:
                self._paused_until = time.monotonic() + CIRCUIT[1]
            self._woken = True
            self._changed.notify_all()


def _lease(memory: Memory) -> Lease:
    """A lease for one job: each claim has a holder of its own, so that no claim is taken for another."""
    lease = memory.lease()
    return msgspec.structs.replace(lease, holder=f"{lease.holder}|{next(_CLAIMS)}")


def do_job(memory: Memory, job: Job) -> bool:
    """Do a claimed job to its end; True if it failed, and is put off."""
    thread = memory.thread(job.thread_id, job.owner)
    renewed = [time.monotonic()]

    def still_ours() -> bool:
        if time.monotonic() - renewed[0] > memory.lease_s / 3:
            renewed[0] = time.monotonic()
            return memory.store.renew(job, time.time() + memory.lease_s)
        return True

    try:
        if job.kind == EMBED:
            embed(memory, thread.key, time.time, still_ours)
        else:
            spec = msgspec.json.decode(job.spec, type=Spec)
            Compaction(thread, spec.read(), window=spec.window, still_ours=still_ours).run()
    except Exception as error:
        first, longest = memory.retry_s
        pause = min(longest, first * 4 ** (job.tries - 1)) * random.uniform(0.8, 1.2)  # noqa: S311  jitter
        parked = job.tries >= MAX_TRIES
        memory.store.put_off(job, PARKED if parked else time.time() + pause, type(error).__name__)
        return True
    memory.store.finish(job, time.time())
    return False


def work_off(memory: Memory, *, limit: int | None = None) -> tuple[int, int]:
    """Do all jobs that are due now, one after the other; how many were done, and how many failed."""
    done = failed = 0
    while limit is None or done + failed < limit:
        jobs = memory.store.claim(_lease(memory), 1, kinds=memory.kinds)
        if not jobs:
            break
        bad = do_job(memory, jobs[0])
        failed, done = failed + bad, done + (not bad)
    return done, failed
