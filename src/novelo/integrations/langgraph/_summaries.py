"""Summaries of an agent's messages, made after the reply by threads of their own, which nobody waits for.

A job plans what is due, asks the writer, and puts the result in the place of the former summary if nothing came
between; after failures it waits longer and longer. With a memory the summary is a version of the thread there too.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec

from novelo.accounts import Accounts
from novelo.compaction import Contract, flow
from novelo.context.listing import ListSource
from novelo.context.spec import Policy
from novelo.context.summary import Summarize
from novelo.covering import Plan, masks_of, plan
from novelo.errors import ModelFailed
from novelo.events import CompactionEvent, OnCompaction
from novelo.integrations.langgraph._call import ModelCall, flush, kept_of, same_base, too_few
from novelo.integrations.langgraph._kept import end_of
from novelo.integrations.langgraph._talk import Carried, Made, Talk, print_of, shifted
from novelo.memory import Memory
from novelo.summaries import Summary
from novelo.tokens import count_message
from novelo.usage import Call
from novelo.worker import CIRCUIT, RETRY_S, in_time

JOBS = 4  # summaries that are being made at a time
WRITTEN_S = (60, 0.05)  # how often, and after how many seconds, it is looked whether the saver has written a run
log = logging.getLogger("novelo")


class Summaries:
    """Makes the summaries of one middleware's threads, a few at a time."""

    def __init__(
        self,
        policy: Policy,
        stage: Summarize | None,
        books: Accounts,
        memory: Memory | None,
        *,
        seconds: float,
        input_tokens: int,
        prompt: str,
        listeners: Sequence[OnCompaction],
    ) -> None:
        """Make none yet.

        Args:
            policy, stage: what contexts are composed by, and its stage that summarizes.
            books: where calls are counted.
            memory: the memory, if there is one.
            seconds: for one answer of the writer.
            input_tokens: of one request to it.
            prompt: instructions instead of ours.
            listeners: told of summaries, besides those of the books.
        """
        self._policy, self._stage, self.books, self.memory = policy, stage, books, memory
        self._seconds, self._input, self._prompt, self.on_compaction = seconds, input_tokens, prompt, listeners
        self._jobs: set[threading.Thread] = set()
        self._jobs_lock = threading.Lock()
        self._failures, self._paused_until = 0, 0.0

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

    def begin(self, call: ModelCall, answers: list[Any], writer: Any, window: int | None) -> None:
        """Begin a summary where one may be due: whether it is, is found out by its own thread."""
        talk, messages = call.talk, [*call.given.messages, *answers]
        if self._stage is None or writer is None:
            return
        if time.monotonic() < max(talk.not_before, self._paused_until):
            return
        covered = 0 if call.summary is None else max(0, call.summary.upto)
        if too_few(self._stage, len(messages) - covered):
            return
        with self._jobs_lock:
            self._jobs = {job for job in self._jobs if job.is_alive()}
            if talk.busy or len(self._jobs) >= JOBS:
                return
            talk.busy = True
            job = threading.Thread(
                target=self._job, args=(talk, messages, call.told, window, writer), name="novelo-summary", daemon=True
            )
            self._jobs.add(job)
        job.start()

    def _job(self, talk: Talk, messages: list[Any], told: Carried, window: int | None, writer: Any) -> None:
        try:
            self._summarize(talk, messages, told, window, writer)
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

    def _summarize(self, talk: Talk, messages: list[Any], told: Carried, window: int | None, writer: Any) -> None:
        assert self._stage is not None
        count = partial(count_message, count=self.books.counter)
        source = ListSource(messages, count, form="langchain")
        offset = told.pruned
        with talk.lock:
            base = talk.summary_for(messages, source.begin, told)
            made = plan(source, self._stage, base, count, window=window, masks=masks_of(self._policy))
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
            summary = self._written(made, calls, writer)
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
            flush(talk)
        after = {"messages_after": 2 if self._stage.form == "pair" else 1, "tokens_after": summary.tokens}
        self._tell(talk, "done", version=number, seconds=time.time() - started, **before, **after)

    def _written(self, made: Plan, calls: list[Call], writer: Any) -> Summary:
        assert self._stage is not None
        contract = Contract(self._stage, self.books.counter, self._input, self._prompt)
        asking = flow(made, contract, time.time())
        try:
            request = next(asking)
            while True:
                started = time.monotonic()
                reply = in_time(partial(writer.complete, request), self._seconds)
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
