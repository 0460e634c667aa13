"""The same names, awaited: equal to the plain ones, and never torn by a cancellation."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time

import anyio
import pytest

import novelo
from builders import calls, texts
from novelo.aio import AsyncMemory, AsyncThread, AsyncTurn
from novelo.documents import Documents
from novelo.errors import LeaseLost, ThreadBusy
from novelo.memory import Memory
from novelo.thread import Thread
from novelo.turn import LiveTurn


def run(url, work):
    """Run a coroutine function of a memory."""

    async def main():
        async with novelo.open_async(url, queue_s=5.0) as memory:
            await work(memory)

    anyio.run(main)


def test_the_names_are_the_same(url):
    """Every public name of the plain classes is there, awaited."""

    async def work(memory):
        thread = memory.thread("t")
        turn = thread.turn("q")
        documents = memory.documents("faq")
        for made, plain in ((memory, Memory), (thread, Thread), (turn, LiveTurn), (documents, Documents)):
            for name, value in inspect.getmembers(plain, inspect.isfunction):
                if not name.startswith("_") and name not in ("thread", "turn", "stream", "documents", "for_owner"):
                    assert inspect.iscoroutinefunction(getattr(made, name)), name
                    assert value.__doc__
        assert isinstance(memory, AsyncMemory) and isinstance(thread, AsyncThread) and isinstance(turn, AsyncTurn)

    run(url, work)


def test_a_turn_awaited(url):
    """A whole talk with awaits leaves what the plain calls leave."""

    async def words():
        yield "um "
        await anyio.sleep(0)
        yield "dois"

    async def work(memory):
        thread = memory.thread("t", owner="ana", policy="window:2turns")
        await thread.append("Olá!")
        async with thread.turn("q1", key="k") as turn:
            turn.state["n"] = 1
            assert texts(await turn.messages())[-1] == "q1"
            await turn.add(calls("c1"))
            await turn.add_tool_result("c1", "r")
            await turn.reply("a1")
        assert turn.status == "done"
        async with thread.turn("q2") as turn:
            assert "".join([piece async for piece in turn.stream(words())]) == "um dois"
        async with thread.turn("q1", key="k") as turn:
            assert turn.replayed and turn.stored_reply == "a1"
        assert await thread.get_state() == {"n": 1} and await thread.count() == 7
        await thread.set_state(m=2)
        fork = await thread.fork(at=5)
        assert isinstance(fork, AsyncThread) and await fork.count() == 5
        async with await fork.retry() as turn:
            await turn.wait()
        async with await fork.resume() as turn:
            await turn.reply("again")
        assert [h.text for h in await thread.search("dois")] == ["um dois"]
        assert len(await memory.threads(owner="ana")) == 2
        assert (await thread.context("next")).tokens > 0
        assert (await thread.erase()).rows["entries"] == 7

    run(url, work)


def test_queue_and_reject_awaited(url):
    """A queued turn waits without blocking the loop; a rejected one fails at once."""

    async def work(memory):
        thread, order = memory.thread("t"), []

        async def second():
            async with thread.turn("b") as turn:
                order.append("b")
                await turn.reply("to b")

        async with anyio.create_task_group() as group, thread.turn("a") as turn:
            group.start_soon(second)
            await anyio.sleep(0.05)
            with pytest.raises(ThreadBusy):
                async with thread.turn("c", on_busy="reject"):
                    pass
            order.append("a")
            await turn.reply("to a")
        assert order == ["a", "b"]
        assert [e.text for e in await thread.messages()] == ["a", "to a", "b", "to b"]

    run(url, work)


class Slow:
    """Makes one method of a store slow, and tells when it has begun and ended."""

    def __init__(self, store, name):
        self.begun, self.ended = threading.Event(), threading.Event()
        plain = getattr(store, name)

        def slowed(*args, **named):
            self.begun.set()
            time.sleep(0.05)
            try:
                return plain(*args, **named)
            finally:
                self.ended.set()

        setattr(store, name, slowed)


@pytest.mark.parametrize("by", ["scope", "task"])
@pytest.mark.parametrize("what", ["begin", "append"])
def test_a_cancelled_request_never_tears_a_write(url, what, by):
    """A request that is cancelled in the middle of a write leaves it whole, its turn closed, and the thread free."""

    async def work(memory):
        thread = memory.thread("t")
        slow = Slow(memory._inner.store, what)

        async def request():
            async with thread.turn("q", key="k") as turn:
                await turn.reply("a")

        async def cancelled():
            if by == "task":
                task = asyncio.get_running_loop().create_task(request())
                while not slow.begun.is_set():
                    await asyncio.sleep(0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return
            async with anyio.create_task_group() as group:
                group.start_soon(request)
                while not slow.begun.is_set():
                    await anyio.sleep(0.001)
                group.cancel_scope.cancel()

        await cancelled()
        assert slow.ended.is_set()
        found = [(e.role, e.text) for e in await thread.messages()]
        (row,) = await thread.turns()
        if what == "append" or len(found) == 2:
            assert found == [("user", "q"), ("assistant", "a")] and row.status == "done"
        else:
            assert found == [("user", "q")] and row.status == "failed"
        async with thread.turn("next", on_busy="reject") as turn:
            await turn.reply("b")
        assert [e.text for e in await thread.messages()][-2:] == ["next", "b"]

    run(url, work)


@pytest.mark.parametrize("by", ["scope", "task"])
def test_a_cancelled_stream_keeps_what_came(url, by):
    """A stream whose client goes away leaves a partial answer, marked, and a turn that failed."""

    async def words(started):
        yield "A fotossíntese "
        yield "é o processo "
        started.set()
        await anyio.sleep_forever()

    async def work(memory):
        thread, started = memory.thread("t"), anyio.Event()

        async def request():
            async with thread.turn("q") as turn:
                async for _ in turn.stream(words(started)):
                    pass

        if by == "task":
            task = asyncio.get_running_loop().create_task(request())
            await started.wait()
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(request)
                await started.wait()
                group.cancel_scope.cancel()
        found = await thread.messages()
        assert [(e.text, e.partial) for e in found] == [("q", False), ("A fotossíntese é o processo ", True)]
        assert [t.status for t in await thread.turns()] == ["failed"]

    run(url, work)


def test_an_interrupted_writer_is_told(url):
    """A turn that was taken over cannot write, awaited too."""

    async def work(memory):
        thread = memory.thread("t")
        with pytest.raises(LeaseLost):
            async with thread.turn("a") as turn:
                async with thread.turn("b", on_busy="interrupt") as other:
                    await other.reply("to b")
                await turn.reply("late")

    run(url, work)
