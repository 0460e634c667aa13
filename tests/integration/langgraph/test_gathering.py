"""What tasks wrote is stored with the checkpoint that takes it up, and is told like what was stored alone."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import apsw
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import MessagesState

from graphs import DeltaState, config, echo, line, opened, say, texts
from novelo.errors import ConcurrentTurnError, StorageFull, StorageUnavailable
from novelo.integrations.langgraph import gathering
from novelo.integrations.langgraph.gathering import PAUSES, Gathering, Inputs, Offer
from novelo.stores.checkpoints import StalePlaces
from novelo.stores.tables.rows import over


@pytest.fixture
def path(tmp_path):
    """Where the database is."""
    return tmp_path / "a.db"


def written(saver, where=None):
    """What tasks wrote at every checkpoint of a thread, oldest first, without ids of tasks."""
    found = [(one.metadata["step"], sorted((c, str(v)) for _, c, v in one.pending_writes)) for one in saver.list(where)]
    return sorted(found)


def rows(path, table):
    """How many rows a table has."""
    with apsw.Connection(str(path)) as db:
        return next(iter(db.execute(f"SELECT count(*) FROM {table}")))[0]


def pausing(saver, often):
    """A saver that waits for no checkpoint, if it should not."""
    if not often:
        saver._shared.gathering.stored = lambda at, offer: False
    return saver


def talk(saver, schema=MessagesState):
    """Two turns of a graph with two nodes."""
    nodes = {"answer": lambda s: {"messages": [AIMessage(f"echo {len(s['messages'])}", id=f"a{len(s['messages'])}")]}}
    graph = line(saver, schema, {**nodes, "more": lambda s: {"messages": []}})
    for k in range(2):
        graph.invoke({"messages": [HumanMessage(f"question {k}", id=f"q{k}")]}, config())
    return graph


@pytest.mark.parametrize("schema", [MessagesState, DeltaState])
def test_together_or_alone_it_is_the_same(tmp_path, schema):
    """Writes that came with a checkpoint read like those that were stored before it, also after a restart."""
    told = []
    for often in (True, False):
        path = tmp_path / f"{often}.db"
        with opened(path) as saver:
            talk(pausing(saver, often), schema)
            told.append([written(saver), texts(saver.transcript("t"))])
        with opened(path) as saver:
            told.append([written(saver), texts(saver.transcript("t"))])
    assert told[0] == told[1] == told[2] == told[3]
    assert sum(len(writes) for _, writes in told[0][0]) >= 8


def test_a_step_is_one_transaction(path, monkeypatch):
    """Writes that wait when their checkpoint comes go into its row, and their message is an entry alone."""
    monkeypatch.setattr(gathering, "WAIT_S", 20.0)
    with opened(path) as saver:
        said = AIMessage("more", id="m")
        say(echo(saver), "one")
        found = saver.get_tuple(config())
        args = (found.config, [("messages", [said])], "task", "~__pregel_pull, node")
        writing = threading.Thread(target=saver.put_writes, args=args)
        writing.start()
        while not saver._shared.gathering._offers:
            time.sleep(0.001)
        before = rows(path, "checkpoint_values")
        values = {"messages": [*found.checkpoint["channel_values"]["messages"], said]}
        newer = {**found.checkpoint, "id": str(uuid6()), "channel_values": values}
        saver.put(found.config, newer, {"source": "loop", "step": 9}, {"messages": 9})
        writing.join()
        assert rows(path, "checkpoint_writes") == 0 and rows(path, "checkpoint_values") == before
        told = saver.get_tuple(found.config).pending_writes
        assert [(task, channel, texts(value)) for task, channel, value in told] == [("task", "messages", ["more"])]
        assert texts(saver.transcript("t"))[-1] == "more"


def test_writes_outlive_the_checkpoint_they_came_with(path):
    """Where the next checkpoint goes and this one stays, what was written at it stays."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        history = list(saver.list(config()))
        newest, before = history[0], history[1]
        wanted = before.pending_writes
        assert wanted
        key = saver._shared.place(config()).key
        row = saver._shared.store.get(key, "", newest.checkpoint["id"])
        with apsw.Connection(str(path)) as db:  # the one run of the newest checkpoint alone
            db.create_scalar_function("seal", over)
            db.execute(
                "UPDATE checkpoints SET run = 'r', seal = seal('checkpoint', thread, ns, number, id, parent, start, "
                "stop, 'r', expires, body) WHERE number = ?",
                (row.number,),
            )
        saver.delete_for_runs(["r"])
        assert saver.get_tuple(config()).checkpoint["id"] == before.checkpoint["id"]
        assert saver.get_tuple(config()).pending_writes == wanted


def test_another_run_that_wrote_something_else_is_told(path):
    """A task's second version of what came with a checkpoint is refused, and the first one stays."""
    with opened(path) as saver:
        say(echo(saver), "one")
        before = list(saver.list(config()))[1]
    task, channel, _ = before.pending_writes[0]
    with opened(path) as other:
        with pytest.raises(ConcurrentTurnError):
            other.put_writes(before.config, [(channel, "something else")], task)
        assert list(other.list(config()))[1].pending_writes == before.pending_writes


def test_what_was_said_stored_is_there_after_a_crash(path):
    """A write that no checkpoint took up is stored when its call returns: a killed process has lost nothing of it."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from graphs import config, echo, opened, say\n"
        "saver = opened(sys.argv[1]); say(echo(saver), 'one'); at = saver.get_tuple(config()).config\n"
        "saver.put_writes(at, [('note', 'kept')], 'task', '~__pregel_pull, node'); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path), str(__import__("graphs").__file__[:-10])], timeout=60)
    assert done.returncode == 9
    with opened(path) as saver:
        assert [(c, v) for _, c, v in saver.get_tuple(config()).pending_writes] == [("note", "kept")]


def test_an_input_does_not_wait_for_a_put_that_is_at_work(path):
    """What an input became comes in while a put is at work, in time for the next one, and costs no transaction."""
    with opened(path) as saver:
        graph = echo(saver)
        for k in range(3):
            say(graph, f"question {k}")
        history = list(saver.list(config()))
        step = next(one for one in history if one.metadata["source"] == "input")
        args = (step.config, [("messages", [HumanMessage("late", id="late")])], "task", "~__pregel_pull, __start__")
        held, let_go = threading.Event(), threading.Event()

        def hold():
            with saver._shared.ordered:
                held.set()
                let_go.wait(20)

        putting = threading.Thread(target=hold)
        putting.start()
        assert held.wait(20)
        writing = threading.Thread(target=saver.put_writes, args=args)
        writing.start()
        writing.join(20)
        in_time = not writing.is_alive()
        before = rows(path, "checkpoint_writes")
        let_go.set()
        putting.join()
        writing.join()
        assert in_time and rows(path, "checkpoint_writes") == before
        assert "task" in [task for task, _, _ in saver.get_tuple(step.config).pending_writes]
    with opened(path) as saver:
        assert "task" in [task for task, _, _ in saver.get_tuple(step.config).pending_writes]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_input_that_nobody_can_store_fails_its_own_run_alone(path, durability):
    """What cannot be serialized fails the run it is given to; other threads, its own and the closing go on."""

    class State(MessagesState):
        extra: Any

    with opened(path) as saver:
        graph = echo(saver, State)
        say(graph, "first")
        for _ in range(2):
            with pytest.raises(TypeError, match="lock"):
                graph.invoke(
                    {"messages": [HumanMessage("bad")], "extra": threading.Lock()}, config("bad"), durability=durability
                )
            say(graph, "second")
            assert list(saver.list(None)) and graph.get_state(config("bad")).values.get("extra") is None
            say(graph, "third", config("bad"))
        with pytest.raises(TypeError, match="lock"):
            graph.invoke(
                {"messages": [HumanMessage("bad")], "extra": threading.Lock()}, config("bad"), durability=durability
            )
    with opened(path) as saver:
        assert texts(echo(saver).get_state(config()).values["messages"])[::2] == ["first", "second", "second"]


def test_who_reads_is_not_told_what_cannot_be_written(path, monkeypatch):
    """While the store takes nothing, what an input became waits on, and states are read; then it is stored."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "question")
        step = next(one for one in saver.list(config()) if one.metadata["source"] == "input")
        saver.put_writes(step.config, [("messages", [HumanMessage("late")])], "task", "~__pregel_pull, __start__")

        def full(*_):
            raise StorageFull("no room")

        with monkeypatch.context() as patched:
            patched.setattr(saver._shared.store, "put_writes", full)
            assert texts(graph.get_state(config()).values["messages"])[0] == "question"
            assert [one.metadata["step"] for one in saver.list(None)] == [1, 0, -1]
        assert "task" in [task for task, _, _ in saver.get_tuple(step.config).pending_writes]


def test_writes_that_wait_for_a_checkpoint_outlive_stale_places(path, monkeypatch):
    """A checkpoint that is stored at the second try, since content went meanwhile, brings what waited for it."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "question")
        step = next(iter(saver.list(config())))
        following = {**step.checkpoint, "id": str(uuid6(clock_seq=-2))}
        to = config(checkpoint_id=following["id"], checkpoint_ns="")
        saver.put_writes(to, [("messages", [*step.checkpoint["channel_values"]["messages"]])], "task", "node")
        store, tries = saver._shared.store, []
        put = type(store).put

        def stale(*args):
            tries.append(args)
            if len(tries) == 1:
                raise StalePlaces(anew=False)
            return put(store, *args)

        monkeypatch.setattr(store, "put", stale)
        saver.put(step.config, following, {"source": "loop", "step": 2}, {})
        (found,) = saver.get_tuple(to).pending_writes
        assert len(tries) == 2 and found[0] == "task" and texts(found[2])[0] == "question"


def test_what_was_not_committed_shortens_nothing(path, monkeypatch):
    """A put that fails at its commit keeps what tasks wrote readable: it refers to no message that is not there."""

    class State(MessagesState):
        answer: str

    text = "the very same text in two of the channels"
    nodes = {"answer": lambda s: {"messages": [AIMessage(text)], "answer": text}, "more": lambda s: {}}
    with opened(path) as saver:
        graph = line(saver, State, nodes)
        database, puts = saver.memory.store.database, []
        check, put = database._check_file, saver._shared.store.put

        def failing():
            raise StorageUnavailable("gone for a moment")

        def third(*args):
            puts.append(args)
            database._check_file = failing if len(puts) == 3 else check
            try:
                return put(*args)
            finally:
                database._check_file = check

        monkeypatch.setattr(saver._shared.store, "put", third)
        with pytest.raises(StorageUnavailable, match="for a moment"):
            graph.invoke({"messages": [HumanMessage("question")]}, config(), durability="sync")
        assert ("answer", text) in [(c, v) for _, c, v in saver.get_tuple(config()).pending_writes]
    with opened(path) as saver:
        assert ("answer", text) in [(c, v) for _, c, v in saver.get_tuple(config()).pending_writes]
        found = line(saver, State, nodes).invoke(None, config())
        assert found["answer"] == text and texts(found["messages"]) == ["question", text]


def test_inputs_come_back_unless_they_were_dropped():
    """What could not be stored is there again, before what came later; of a thread that is forgotten nothing is."""
    inputs, at = Inputs(2), ("k", "", "c1")
    first, later = Offer([("c", 1)], "task", "node"), Offer([("c", 2)], "other", "node")
    inputs.add(at, first, (1.0, 3))
    with pytest.raises(ValueError, match="no"), inputs.taking(at) as offers:
        assert offers == [first] and inputs.waiting() == []
        inputs.add(at, later, (1.0, 4))
        raise ValueError("no")
    assert inputs.waiting() == inputs.waiting("k") == [(at, (1.0, 3))] and inputs.waiting("other") == []
    with pytest.raises(ValueError, match="no"), inputs.taking(at) as offers:
        assert offers == [first, later]
        inputs.drop(lambda one: one[0] == "k")
        raise ValueError("no")
    assert inputs.waiting() == []
    for k in range(3):
        inputs.add(("k", "", f"c{k}"), first, (None, 0))
    assert inputs.waiting()[0][0] == ("k", "", "c1")  # the oldest made room
    with inputs.taking(("k", "", "c0")) as offers:
        assert offers == []


# ---------------------------------------------------------------------------------------------- waiting
AT = (b"k", "", "c1")


def test_a_put_that_fails_gives_back(path):
    """What a put could not store is stored by its own call."""
    gathered, told = Gathering(), []
    offer = Offer([("c", 1)], "task", "node")
    waiting = threading.Thread(target=lambda: told.append(gathered.stored(AT, offer)))
    waiting.start()
    while not gathered._offers:
        time.sleep(0.001)
    with pytest.raises(ValueError, match="no"), gathered.taking(AT) as offered:
        assert offered() == [offer]
        raise ValueError("no")
    waiting.join()
    assert told == [False]


def test_nobody_waits_twice_in_vain():
    """After a wait in vain the next offers of the node are left out, then more of them, up to a number."""
    gathered = Gathering()
    waits = []
    for _ in range(4 * PAUSES):
        began = time.perf_counter()
        assert not gathered.stored(AT, Offer([], "task", "node"))
        waits.append(time.perf_counter() - began > 0.01)
    assert waits[:7] == [True, False, True, False, False, True, False]
    assert sum(waits) <= 10
    assert not gathered._offers


def test_a_checkpoint_in_time_ends_the_pauses():
    """Once a checkpoint came in time, the next offer is made again."""
    gathered = Gathering()
    gathered._pauses["", "node"] = [8, 0]
    for _ in range(3):
        offer = Offer([], "task", "node")
        told = []
        waiting = threading.Thread(target=lambda offer=offer, told=told: told.append(gathered.stored(AT, offer)))
        waiting.start()
        while not gathered._offers:
            time.sleep(0.0005)
        with gathered.taking(AT) as offered:
            offered()
        del gathered._passed[AT]
        waiting.join()
        assert told == [True]
