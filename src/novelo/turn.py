"""One turn while it lives: the question is durable, the model is asked, what comes back is appended step by step.

    with thread.turn("E se eu tiver pago com Pix?", key="req-81") as turn:  # 1 append: durable when it begins
        reply = ask_a_model(turn.messages())                                # 2 compose, 3 call
        turn.reply(reply)                                                   # 4 append, 5 usage; durable on return

Left by an exception the turn is closed as failed; the question, the finished steps and what was streamed stay, and the
next context is valid. Nothing is locked and no connection is held while the model works.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from novelo import formats
from novelo.asking import ModelReply, ModelRequest
from novelo.context import Context
from novelo.errors import InvalidMessage, LeaseLost, NoveloError, ThreadErased, TurnClosed
from novelo.formats.reply import StreamReader, read_reply
from novelo.messages import Message, Usage, is_blank
from novelo.stores.base import Begun, Close, NewEntry, TurnRow
from novelo.turn_asking import Asking
from novelo.usage import Call

if TYPE_CHECKING:
    from novelo.thread import Thread

DRAFT_S = 2.0  # how much of an answer that is being streamed a killed process may lose


class LiveTurn(Asking):
    """The handle of an open turn; `thread.turn()` gives it, and it is used as a context manager."""

    def __init__(
        self,
        thread: Thread,
        question: Message | None,
        key: str | None,
        on_busy: str | None,
        first: int | None = None,
        hide_from: int | None = None,
    ) -> None:
        self.thread = thread
        self.key = key
        self.replayed = False
        self.rejoined = False
        self.context: Context | None = None
        self._question, self._on_busy, self._resumed, self._hide_from = question, on_busy, first, hide_from
        self._begun: Begun | None = None
        self._row: TurnRow | None = None
        self._status = "new"
        self._state: dict[str, Any] | None = None
        self._given_state: dict[str, Any] = {}
        self._stream: StreamReader | None = None
        self._asked_at: float | None = None
        self._first_token_at: float | None = None
        self._open_calls: list[str] = []
        self._answered = False
        self._purpose = "reply"
        self._shrunk = False
        self._last: Message | None = None
        self._spent: list[Call] = []  # calls whose answer broke off, not in the ledger yet

    # ------------------------------------------------------------------------------------------ begin and end
    def __enter__(self) -> LiveTurn:
        """Begin: the question is on disk when this returns.

        Raises:
            ThreadBusy: another turn is open, and `on_busy` says not to wait, or waiting took too long.
            KeyConflict: the key belongs to another request.
        """
        if self._status == "new":
            self.begun(self.thread.begin(self))
        return self

    def begun(self, begun: Begun) -> None:
        """Take over what the store answered."""
        self._begun, self._row = begun, begun.turn
        self.replayed, self.rejoined = begun.replayed, begun.rejoined
        self._given_state = begun.state
        self._status = "done" if begun.replayed else "open"
        if begun.rejoined or self._resumed is not None:
            try:
                self._open_calls = self._unanswered()
            except BaseException:
                self.thread.memory.let_go(self)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End: an exception closes the turn as failed; one without an answer or with open calls is interrupted."""
        if self._status != "open":
            return
        try:
            self._end(
                "failed" if kind is not None else "done" if self._answered and not self._open_calls else "interrupted"
            )
        except (LeaseLost, ThreadErased):
            if kind is None:
                raise
        except NoveloError:
            if kind is None:
                raise  # else the error that ended the turn is told; the lease lapses, and the next turn marks this one
        finally:
            self._let_go()

    def _end(self, status: str) -> None:
        entries = []
        if self._stream is not None:
            partial = self._stream.message(partial=True)
            self._broke_off(self._stream, partial)
            self._stream = None
            if not is_blank(partial):
                entries.append(self._entry(partial))
                status = "interrupted" if status == "done" else status
        self._append(entries, Close(status, self._manifest()))
        self._status = status

    def _let_go(self) -> None:
        self.thread.memory.let_go(self)
        if self._status == "open":
            self._status = "lost"

    @property
    def status(self) -> str:
        """new, open, waiting, done, failed, interrupted, or lost (another turn took over)."""
        return self._status

    @property
    def position(self) -> int:
        """The position of the question."""
        return self._need().turn.first

    @property
    def begun_at(self) -> Begun:
        """What the store answered when the turn began."""
        return self._need()

    def _need(self) -> Begun:
        if self._begun is None:
            raise TurnClosed("the turn has not begun: use it as `with thread.turn(...) as turn:`")
        return self._begun

    def _open(self) -> Begun:
        begun = self._need()
        if self._status != "open":
            raise TurnClosed(f"the turn at position {begun.turn.first} is {self._status}: nothing can be added to it")
        return begun

    # ------------------------------------------------------------------------------------------ what comes back
    def reply(self, reply: Any) -> Message:
        """The model's answer: appended with its usage, and the turn is closed; durable on return.

        Args:
            reply: a text, a chat dict, an SDK's response, a LangChain message, or our own. One that calls tools is a
                step: it is added, and the turn stays open for the results.
        Raises:
            LeaseLost: another turn has taken over; nothing was stored.
        """
        if self.replayed:
            return self.stored_reply_message or Message("assistant", "")
        read = read_reply(reply)
        message = self._authored(read.message, read.model)
        if message.tool_calls:
            return self._step(message, read.usage, read.model)
        self._append(
            [self._entry(message)], Close("done", self._manifest()), [self._call(read.usage, read.model, message)]
        )
        self._stream = None
        self._status = "done"
        self._let_go()
        return message

    def say(self, text: str) -> Message:
        """An answer that no model made: appended, and the turn is closed; nothing comes into the ledger for it."""
        if self.replayed:
            return self.stored_reply_message or Message("assistant", "")
        message = Message("assistant", text)
        self._append([self._entry(message)], Close("done", self._manifest()))
        self._status = "done"
        self._let_go()
        return message

    def spent(self, request: ModelRequest, reply: ModelReply, seconds: float) -> None:
        """A further call for this turn, such as one that rewrote the question; in the ledger with the next step."""
        memory = self.thread.memory
        counted = memory.counter("\n".join(str(m.get("content") or "") for m in request.messages))
        self._spent.append(memory.call(request.purpose, reply.model, reply.usage, counted, reply.message, seconds))

    def add(self, *messages: Any) -> list[Message]:
        """A step, or a part of one: an assistant message with tool calls, tool results; durable on return."""
        if self.replayed:
            return []
        self._open()
        out = []
        for given in messages:
            if isinstance(given, Message) or _is_chat(given):
                message = given if isinstance(given, Message) else formats.read([given])[0]
                if message.role == "assistant":
                    out.append(self._step(self._authored(message, None), message.usage, None))
                else:
                    out.append(self._store(message))
            else:
                read = read_reply(given)
                out.append(self._step(self._authored(read.message, read.model), read.usage, read.model))
        return out

    def add_tool_result(self, call_id: str, content: Any, *, error: bool = False) -> Message:
        """The result of a tool call.

        Raises:
            InvalidMessage: the turn waits for no such call.
        """
        self._open()
        if call_id not in self._open_calls:
            raise InvalidMessage(
                f"no open call {call_id!r} in this turn: open are {', '.join(self._open_calls) or 'none'}"
            )
        message = formats.read([{"role": "tool", "tool_call_id": call_id, "content": content}])[0]
        return self._store(msgspec.structs.replace(message, meta={"status": "error"}) if error else message)

    def stream(self, chunks: Iterable[Any]) -> Iterator[str]:
        """Passes on the text of a streamed answer, and stores the answer when the stream ends.

        What had come is stored, marked partial, when the stream breaks or the caller goes away; a killed process loses
        at most the last two seconds.
        """
        reader = self.begin_stream()
        kept_at = time.monotonic()
        for chunk in chunks:
            text = reader.read(chunk)
            now = time.monotonic()
            if text and self._first_token_at is None:
                self._first_token_at = now
            if now - kept_at > DRAFT_S:
                self.keep_draft()
                kept_at = now
            if text:
                yield text
        self._finish(reader)

    def begin_stream(self) -> StreamReader:
        """Read an answer in chunks; one that was begun before and broke off is in the ledger."""
        self._open()
        if self._stream is not None:
            self._broke_off(self._stream, self._stream.message(partial=True))
        self._stream = StreamReader()
        return self._stream

    def _broke_off(self, reader: StreamReader, partial: Message) -> None:
        if not is_blank(partial) or reader.usage is not None:
            self._spent.append(self._call(reader.usage, reader.model, partial))

    def keep_draft(self) -> None:
        """Renew the lease, and keep what was streamed so far."""
        begun = self._need()
        partial = None if self._stream is None else self._stream.message(partial=True)
        draft = None if partial is None or is_blank(partial) else self._entry(partial)
        self.thread.keep_draft(begun, draft)

    def _finish(self, reader: StreamReader) -> None:
        message = self._last = self._authored(reader.message(), reader.model)
        self._stream = None
        if message.tool_calls:
            self._step(message, reader.usage, reader.model)
            return
        self._append(
            [self._entry(message)], Close("done", self._manifest()), [self._call(reader.usage, reader.model, message)]
        )
        self._status = "done"
        self._let_go()

    def wait(self) -> None:
        """Pause: a tool result or an approval comes later, perhaps in another process (`thread.resume()`)."""
        self._open()
        self._append([], Close("waiting", self._manifest()))
        self._status = "waiting"
        self._let_go()

    # ------------------------------------------------------------------------------------------ state and replay
    @property
    def state(self) -> dict[str, Any]:
        """The thread's custom state; changes are written together with the next step."""
        if self._state is None:
            self._state = dict(self._need().state)
        return self._state

    def now_state(self) -> dict[str, Any]:
        """The thread's custom state as it stands in this turn, for system prompts that are made from it."""
        return self._given_state if self._state is None else self._state

    @property
    def question(self) -> Message:
        """The question, as it was asked."""
        if self._question is not None:
            return self._question
        found = self.thread.messages(after=self.position - 1, limit=1)
        return found[0].message if found else Message("user", "")

    @property
    def stored_reply(self) -> str | None:
        """The answer that the same key got before; None if this turn is new."""
        message = self.stored_reply_message
        return None if message is None else message.text

    @property
    def stored_reply_message(self) -> Message | None:
        """The same as a message."""
        if not self.replayed or self._row is None:
            return None
        found = self.thread.messages(after=self._row.first, limit=self._row.last - self._row.first, hidden=True)
        return next((e.message for e in reversed(found) if e.role == "assistant" and not e.message.tool_calls), None)

    # ------------------------------------------------------------------------------------------ writing
    def _authored(self, message: Message, model: str | None) -> Message:
        if message.role != "assistant":
            raise InvalidMessage(f"a reply is the assistant's, this one is a {message.role} message")
        if model and message.content.__class__ is tuple:
            return msgspec.structs.replace(message, meta={**message.meta, "model": model})
        return message

    def _step(self, message: Message, usage: Usage | None, model: str | None) -> Message:
        self._append(
            [self._entry(message)],
            None,
            [self._call(usage, model, message)] if self._asked_at is not None or usage else [],
        )
        self._open_calls = [call.id for call in message.tool_calls]
        self._answered = not self._open_calls
        return message

    def _store(self, message: Message) -> Message:
        self._append([self._entry(message)], None)
        if message.role == "tool" and message.tool_call_id in self._open_calls:
            self._open_calls.remove(message.tool_call_id)
        return message

    def _entry(self, message: Message) -> NewEntry:
        return self.thread.memory.new_entry(message)

    def _append(self, entries: list[NewEntry], close: Close | None, calls: Sequence[Call] = ()) -> None:
        begun = self._open()
        state = self._state if self._state is not None and self._state != self._given_state else None
        try:
            self.thread.append_step(begun, entries, close, state, [*self._spent, *calls], self.context)
        except (LeaseLost, ThreadErased):
            self._let_go()
            raise
        self._spent = []
        if state is not None:
            self._given_state, self._state = state, dict(state)

    def _manifest(self) -> bytes | None:
        return None if self.context is None else self.thread.memory.pack_manifest(self.context.manifest)

    def _call(self, usage: Usage | None, model: str | None, message: Message) -> Call:
        now, asked = time.monotonic(), self._asked_at
        first = self._first_token_at
        self._asked_at = None
        counted = self.context.tokens if self.context is not None else 0
        if usage is not None:
            self.thread.memory.learn(model, counted, usage)
        purpose, self._purpose = self._purpose, "reply"
        made: Call = self.thread.memory.call(
            purpose, model, usage, counted, message,
            None if asked is None else now - asked, None if asked is None or first is None else first - asked,
        )  # fmt: skip
        return made

    def _unanswered(self) -> list[str]:
        """Calls of the turn's last step that have no result yet."""
        begun = self._need()
        found = self.thread.messages(after=begun.turn.first, limit=begun.turn.last - begun.turn.first)
        waiting: list[str] = []
        for stored in found:
            if stored.role == "assistant":
                waiting = [call.id for call in stored.message.tool_calls]
            elif stored.role == "tool" and stored.message.tool_call_id in waiting:
                waiting.remove(stored.message.tool_call_id)
        return waiting


def _is_chat(given: Any) -> bool:
    return isinstance(given, dict) and "role" in given and "choices" not in given
