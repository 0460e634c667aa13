"""The summaries of a back-test, made as a worker makes those of a thread: planned, asked for, put in place.

After each closed turn the same rule says whether a summary is due, the same flow asks for it, and the next request
finds it in place. What the calls take is counted by the counter of the back-test, so that all its figures compare.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from novelo.asking import ModelRequest
from novelo.compaction import Contract, flow
from novelo.context.draft import Source
from novelo.context.spec import Policy
from novelo.covering import masks_of, plan, stage_of
from novelo.errors import SummaryFailed
from novelo.messages import Message
from novelo.replay import Folded
from novelo.summaries import Summary
from novelo.tokens import TextCounter, count_message


class Summaries:
    """The summaries of one policy over one conversation.

    An answer that is no summary changes nothing: its calls are on the bill, and after the next turn it is tried again.
    """

    def __init__(self, policy: Policy, model: Any, counter: TextCounter, window: int | None = None) -> None:
        """See `novelo.compare.backtest`.

        Args:
            policy: whose summarizing stage says when, and what is kept; its masks hold for the summarizer, too.
            model: who writes, `complete(request) -> reply`.
            window: tokens of the model's window, for triggers in per cent.
        """
        self._stage = stage_of(policy)
        self._masks = masks_of(policy)
        self._model, self._counter, self._window = model, counter, window
        self._count = partial(count_message, count=counter)
        self._summary: Summary | None = None

    def fold(self, source: Source) -> Folded:
        """The summary that holds from now on, and what it took.

        Raises:
            ModelFailed: the model gave no answer.
        """
        if self._stage is None or next(source.newest_first()).message.tool_calls:  # the turn is still open
            return Folded(self._summary)
        made = plan(source, self._stage, self._summary, self._count, window=self._window, masks=self._masks)
        if made is None:
            return Folded(self._summary)
        asking = flow(made, Contract(self._stage, self._counter))
        calls = read = written = 0
        try:
            request = next(asking)
            while True:
                reply = self._model.complete(request)
                calls, read, written = calls + 1, read + self._sent(request), written + self._count(reply.message)
                request = asking.send(reply)
        except StopIteration as end:
            version = 1 if self._summary is None else self._summary.version + 1
            self._summary = msgspec.structs.replace(end.value, version=version)
        except SummaryFailed:
            pass
        return Folded(self._summary, calls, read, written)

    def _sent(self, request: ModelRequest) -> int:
        return sum(self._count(Message(m["role"], str(m["content"]))) for m in request.messages)
