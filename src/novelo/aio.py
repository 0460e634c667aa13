"""The same names, awaited.

Every database call runs on a worker thread, shielded, so that a cancelled request never tears a write.

    memory = novelo.open_async("sqlite:///chat.db")
    async with memory.thread("t").turn("question") as turn:
        reply = await client.chat.completions.create(model=…, messages=await turn.messages())
        await turn.reply(reply)
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from novelo.answering import Search, advanced, answering, chosen, ranked, rewriter, searched, texts
from novelo.asking import ModelRequest
from novelo.context import Retrieved
from novelo.ingesting import Ingested
from novelo.memory import Memory
from novelo.messages import Message
from novelo.models.base import acomplete, astream
from novelo.passages import Passage
from novelo.retrieval import Answered
from novelo.stores.base import Begun
from novelo.thread import Thread
from novelo.turn import DRAFT_S, LiveTurn

T = TypeVar("T")


async def threaded(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """Run a short call on a worker thread; a cancellation waits until it is done.

    The shield holds against anyio's cancel scopes; `task.cancel()` of asyncio goes through it, and is held back here.
    """
    call = _Call(function, args, named)
    try:
        with anyio.CancelScope(shield=True):
            result: T = await anyio.to_thread.run_sync(call.run)
    except anyio.get_cancelled_exc_class():
        await call.end()
        raise
    return result


class _Call:
    """A call that either runs to its end, or, cancelled before it began, never."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._function, self._args, self._named = function, args, named
        self._free = threading.Lock()  # taken by whoever comes first: the worker, or the cancellation
        self._ended = threading.Event()

    def run(self) -> Any:
        """Make the call, unless it was cancelled."""
        if not self._free.acquire(blocking=False):
            return None
        try:
            return self._function(*self._args, **self._named)
        finally:
            self._ended.set()

    async def end(self) -> None:
        """Wait for the end of a call that has begun, whatever is cancelled meanwhile."""
        while self.is_running():
            with anyio.CancelScope(shield=True), suppress(anyio.get_cancelled_exc_class()):
                await anyio.sleep(0.002)

    def is_running(self) -> bool:
        """Whether the call has begun and not ended; one that has not begun never will."""
        return not self._ended.is_set() and not self._free.acquire(blocking=False)


class _Awaited:
    """Passes every method on to the object behind it, on a worker thread."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        async def awaited(*args: Any, **named: Any) -> Any:
            return _wrapped(await threaded(found, *args, **named))

        awaited.__name__, awaited.__doc__ = name, found.__doc__
        return awaited

    def __repr__(self) -> str:
        return f"Async{self._inner!r}"


class AsyncMemory(_Awaited):
    """`Memory`, awaited; usable at once, or with `async with`."""

    def __await__(self) -> Generator[Any, None, AsyncMemory]:
        async def itself() -> AsyncMemory:
            return self

        return itself().__await__()

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await threaded(self._inner.close)

    def for_owner(self, owner: str) -> AsyncMemory:
        """A memory of one owner's threads alone."""
        return AsyncMemory(self._inner.for_owner(owner))

    def thread(self, thread_id: str, owner: str | None = None, **more: Any) -> AsyncThread:
        """The handle of a thread; nothing is read or written yet."""
        named = more if owner is None else {**more, "owner": owner}
        return AsyncThread(self._inner.thread(thread_id, **named))

    def documents(self, name: str = "default", owner: str | None = None, **more: Any) -> AsyncDocuments:
        """The handle of a collection of documents; nothing is read or written yet."""
        named = more if owner is None else {**more, "owner": owner}
        return AsyncDocuments(self._inner.documents(name, **named))


class AsyncDocuments(_Awaited):
    """`Documents`, awaited; files are read and passages embedded on a worker thread."""

    async def ingest(self, paths: Any, progress: Any = None, **more: Any) -> Ingested:
        """Read files and folders in; a cancellation ends it behind the file at hand."""
        done: Ingested = await _until_cancelled(self._inner.ingest, paths, progress, **more)
        return done

    async def embed(self, progress: Any = None, *, rebuild: bool = False) -> int:
        """Make the vectors that are missing; a cancellation ends it after the few passages at hand."""
        made: int = await _until_cancelled(self._inner.embed, progress, rebuild=rebuild)
        return made


async def _until_cancelled(function: Callable[..., T], *args: Any, **named: Any) -> T:
    """A long call that can be told to stop, on a worker thread; a cancellation stops it, and waits until it has."""
    stop = threading.Event()
    call = _Call(function, args, {**named, "stop": stop})
    try:
        result: T = await anyio.to_thread.run_sync(call.run, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        stop.set()
        await call.end()
        raise
    return result


class AsyncThread(_Awaited):
    """`Thread`, awaited; `thread.state` is read with `await thread.get_state()`."""

    def turn(self, question: Any, key: str | None = None, *, on_busy: str | None = None) -> AsyncTurn:
        """A new turn; it begins where it is entered with `async with`."""
        return AsyncTurn(self._inner.turn(question, key, on_busy=on_busy))

    async def resume(self, *, on_busy: str | None = None) -> AsyncTurn:
        """The newest turn again, where it stopped."""
        return AsyncTurn(await threaded(self._inner.resume, on_busy=on_busy))

    async def retry(self, *, on_busy: str | None = None) -> AsyncTurn:
        """The last question again."""
        return AsyncTurn(await threaded(self._inner.retry, on_busy=on_busy))

    async def count(self) -> int:
        """How many messages the thread has."""
        return await threaded(len, self._inner)

    async def get_state(self) -> dict[str, Any]:
        """The thread's custom state."""
        return await threaded(dict, self._inner.state)

    async def set_state(self, **values: Any) -> None:
        """Set keys of the thread's custom state."""
        await threaded(self._inner._set, patch=values)


class AsyncTurn(_Awaited):
    """`LiveTurn`, awaited; `state` and `replayed` are plain attributes."""

    _inner: LiveTurn

    async def __aenter__(self) -> AsyncTurn:
        thread = self._inner.thread
        mode = self._inner._on_busy or thread.memory.on_busy
        for pause in thread.pauses(mode):
            try:
                found = await threaded(self._begin_once, mode)
            except anyio.get_cancelled_exc_class() as error:  # the question may be written: nobody else would close it
                if self._inner.status == "open":
                    await threaded(self._inner.__exit__, type(error), error, None)
                raise
            if found:
                return self
            await anyio.sleep(pause)
        raise thread.busy(mode)

    def _begin_once(self, mode: str) -> bool:
        found = self._inner.thread.try_begin(self._inner, mode)
        if isinstance(found, Begun):
            self._inner.begun(found)
            return True
        return False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await threaded(self._inner.__exit__, kind, error, trace)

    async def ask(self, model: Any, *, on_text: Callable[[str], Any] | None = None, **more: Any) -> Message:
        """Compose, ask a model, store the answer, as `LiveTurn.ask` does; the model is awaited.

        Args:
            on_text: called with each piece of a streamed answer; what it gives is awaited if it can be.
        """
        turn = self._inner
        if turn.replayed:
            return await self._stored(on_text)
        model = turn.thread.memory.askable(model)
        messages = await threaded(turn.messages, "openai", **more)
        try:
            return await self._asked(model, messages, on_text, more)
        except Exception as error:
            if turn.has_partial():
                raise
            messages = await threaded(turn.shrunk, error, "openai", **more)
        return await self._asked(model, messages, on_text, more)

    async def _stored(self, on_text: Callable[[str], Any] | None) -> Message:
        stored = await threaded(lambda: self._inner.stored_reply_message) or Message("assistant", "")
        if on_text is not None and stored.text:
            await _called(on_text, stored.text)
        return stored

    async def _asked(
        self, model: Any, messages: Any, on_text: Callable[[str], Any] | None, more: dict[str, Any]
    ) -> Message:
        turn = self._inner
        request = turn.request(messages, on_text is not None, more)
        if on_text is None:
            return await threaded(turn.reply, await acomplete(model, request))
        async for piece in self.stream(astream(model, request)):
            await _called(on_text, piece)
        assert turn._last is not None
        return turn._last

    async def answer(
        self,
        model: Any,
        retriever: Any,
        *,
        on_text: Callable[[str], Any] | None = None,
        on_query: Callable[[Retrieved], None] | None = None,
        condenser: Any = None,
        **options: Any,
    ) -> Answered:
        """Answer from documents, as `LiveTurn.answer` does; models and retrievers are awaited where they can be."""
        turn = self._inner
        retriever = retriever._inner if isinstance(retriever, AsyncDocuments) else retriever
        condenser = rewriter(model, condenser, turn.thread.memory.askable)
        steps = answering(turn, chosen(retriever, condenser, on_query, options))
        outcome: Any = None
        tell = on_text
        try:
            while not isinstance(step := await threaded(advanced, steps, outcome), Answered):
                try:
                    if isinstance(step, Search):
                        outcome = await _searched(retriever, step)
                    elif isinstance(step, ModelRequest):
                        outcome = await acomplete(condenser, step)
                    else:
                        tell = None
                        outcome = await self.ask(model, on_text=on_text, **step.options)
                except Exception as error:
                    outcome = error
            if tell is not None and step.text:
                await _called(tell, step.text)
            return step
        finally:
            steps.close()

    async def stream(self, chunks: AsyncIterable[Any]) -> AsyncIterator[str]:
        """Passes on the text of a streamed answer, and stores the answer when the stream ends."""
        turn = self._inner
        reader = turn.begin_stream()
        kept_at = time.monotonic()
        async for chunk in chunks:
            text = reader.read(chunk)
            now = time.monotonic()
            if text and turn._first_token_at is None:
                turn._first_token_at = now
            if now - kept_at > DRAFT_S:
                await threaded(turn.keep_draft)
                kept_at = now
            if text:
                yield text
        await threaded(turn._finish, reader)


async def _called(function: Callable[[str], Any], text: str) -> None:
    found = function(text)
    if inspect.isawaitable(found):
        await found


async def _searched(retriever: Any, step: Search) -> list[Passage]:
    """`searched`, awaited: by the retriever's own `asearch` or `ainvoke`, else on a worker thread."""
    ask = getattr(retriever, "asearch", None)
    if ask is None and not hasattr(retriever, "search"):
        ask = getattr(retriever, "ainvoke", None)
        ask = retriever if ask is None and inspect.iscoroutinefunction(retriever) else ask
    if ask is None:
        return await anyio.to_thread.run_sync(searched, retriever, step, abandon_on_cancel=True)
    limit = {"limit": step.limit} if hasattr(retriever, "asearch") else {}
    return ranked([await ask(query, **limit) for query in texts(step)], step.limit)


def _wrapped(value: Any) -> Any:
    if isinstance(value, Thread):
        return AsyncThread(value)
    if isinstance(value, list) and value and isinstance(value[0], Thread):
        return [AsyncThread(one) for one in value]
    return AsyncTurn(value) if isinstance(value, LiveTurn) else value


def open_async(url: str = "sqlite:///novelo.db", **options: Any) -> AsyncMemory:
    """`novelo.open`, with the same names awaited."""
    from novelo.connect import open_memory

    memory: Memory = open_memory(url, **options)
    return AsyncMemory(memory)
