"""What graphs do with a checkpointer: restarts, branches, interrupts, inner graphs, durability, delta channels."""

from __future__ import annotations

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from graphs import DeltaState, config, echo, line, opened, say, texts
from novelo.errors import ThreadHeld
from novelo.integrations.langgraph import NoveloSaver


@pytest.fixture
def path(tmp_path):
    """Where the database is."""
    return tmp_path / "a.db"


@pytest.mark.parametrize("schema", [MessagesState, DeltaState])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_restart(path, schema, durability):
    """A thread goes on after a restart, in every mode of durability, with both kinds of channels."""
    for k in range(8):
        with opened(path) as saver:
            state = say(echo(saver, schema), f"question {k}", durability=durability)
            assert len(state["messages"]) == 2 * (k + 1)
            assert texts(saver.transcript("t")) == texts(state["messages"])
            assert texts(echo(saver, schema).get_state(config()).values["messages"]) == texts(state["messages"])


@pytest.mark.parametrize("schema", [MessagesState, DeltaState])
def test_history_equals_the_peers(path, schema):
    """Every state of the history is the one that LangGraph's own saver gives."""
    histories = []
    with opened(path) as ours:
        for saver in (ours, InMemorySaver()):
            graph = echo(saver, schema)
            for k in range(7):
                graph.invoke({"messages": [HumanMessage(f"q{k}", id=f"q{k}")]}, config())
            graph.update_state(config(), {"messages": [AIMessage("edited", id="e")]})
            say(graph, "and now?")
            rows = list(graph.get_state_history(config()))
            histories.append([(r.metadata["step"], r.metadata["source"], r.next, texts(r.values.get("messages", ())))
                              for r in rows])  # fmt: skip
    assert histories[0] == histories[1]


def test_async_and_sync_in_one_object(path):
    """The same saver serves `ainvoke` and `invoke`."""

    async def main():
        async with opened(path) as saver:
            graph = echo(saver)
            await graph.ainvoke({"messages": [HumanMessage("one")]}, config())
            await asyncio.to_thread(say, graph, "two")
            state = await graph.aget_state(config())
            listed = [found async for found in saver.alist(config())]
            return texts(state.values["messages"]), len(listed), texts(await saver.atranscript("t"))

    said, listed, kept = asyncio.run(main())
    assert said == kept == ["one", "echo 1: one", "two", "echo 3: two"]
    assert listed == 6


def test_in_memory():
    """A database in memory serves a graph too."""
    with NoveloSaver.from_conn_string("sqlite://") as saver:
        for k in range(3):
            say(echo(saver), f"q{k}")
        assert len(saver.transcript("t")) == 6


def test_setup_is_safe_twice(path):
    """`setup` can be called as often as one likes, also awaited."""
    with opened(path) as saver:
        saver.setup()
        saver.setup()
        asyncio.run(saver.asetup())


def test_time_travel_hides_the_branch_that_was_left(path):
    """A run from an earlier checkpoint begins a branch: the transcript follows it, and keeps the other one hidden."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        early = graph.get_state(config()).config
        say(graph, "two")
        graph.invoke({"messages": [HumanMessage("other")]}, early)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "other", "echo 3: other"]
        assert len(saver.transcript("t", hidden=True)) == 6
        assert texts(graph.get_state(config()).values["messages"]) == texts(saver.transcript("t"))
        assert [e.text for e in saver.memory.thread("t").messages(hidden=False)] == texts(saver.transcript("t"))


def test_back_to_the_branch_that_was_left(path):
    """A run from the branch that was left first makes it the main line again."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        early = graph.get_state(config()).config
        say(graph, "two")
        late = graph.get_state(config()).config
        graph.invoke({"messages": [HumanMessage("other")]}, early)
        graph.invoke({"messages": [HumanMessage("three")]}, late)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "two", "echo 3: two", "three", "echo 5: three"]


def test_back_to_a_branch_that_took_a_message_up(path):
    """A run that says its input again keeps the message that another branch said first, also when it is gone back to.

    And a third branch that never had it does not show it.
    """
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        graph.invoke({"messages": [HumanMessage("two", id="2")]}, config())
        asked = next(s for s in graph.get_state_history(config()) if s.metadata["source"] == "input")
        after_one = next(s for s in graph.get_state_history(config()) if len(s.values["messages"]) == 2 and not s.next)
        graph.invoke(None, asked.config)  # says "two" again
        again = graph.get_state(config()).config
        expected = ["one", "echo 1: one", "two", "echo 3: two"]
        assert texts(saver.transcript("t")) == expected
        graph.invoke({"messages": [HumanMessage("other")]}, after_one.config)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "other", "echo 3: other"]
        say(graph, "three", again)
        assert texts(saver.transcript("t")) == [*expected, "three", "echo 5: three"]


def test_a_message_of_another_branch_in_other_words(path):
    """A message with the id of one that only a branch that was left had said is one of its own in the transcript."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        early = graph.get_state(config()).config
        graph.invoke({"messages": [HumanMessage("two", id="2")]}, config())
        late = graph.get_state(config()).config
        graph.invoke({"messages": [HumanMessage("two, please", id="2")]}, early)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "two, please", "echo 3: two, please"]
        say(graph, "three", late)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "two", "echo 3: two", "three", "echo 5: three"]
        assert len(saver.transcript("t", hidden=True)) == 8


def test_replay_of_a_step(path):
    """Replaying from a checkpoint without input runs the rest of it again, in a branch."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        before = next(s for s in graph.get_state_history(config()) if s.next == ("answer",))
        graph.invoke(None, before.config)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one"]
        assert len(saver.transcript("t", hidden=True)) == 3


def test_update_of_an_early_state(path):
    """`update_state` at an early checkpoint begins a branch without being asked for one."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        early = graph.get_state(config()).config
        say(graph, "two")
        graph.update_state(early, {"messages": [HumanMessage("changed")]}, as_node="answer")
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "changed"]


def test_the_transcript_outlives_removals(path):
    """Single messages and all of them can be removed from a state; the transcript keeps what was said, once."""

    def cut(state):
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), state["messages"][0], *state["messages"][-2:]]}

    def drop(state):
        return {"messages": [RemoveMessage(state["messages"][1].id)]}

    with opened(path) as saver:
        for k in range(6):
            say(echo(saver), f"q{k}")
            line(saver, MessagesState, {"cut": cut} if k % 2 else {"drop": drop}).invoke(Command(goto="cut" if k % 2
                 else "drop", update={}), config())  # fmt: skip
        kept = texts(saver.transcript("t"))
        assert [text for text in kept if text.startswith("q")] == [f"q{k}" for k in range(6)]
        assert len(kept) == 12
        assert len(echo(saver).get_state(config()).values["messages"]) == 3


def test_interrupt_and_resume_in_another_process(path):
    """A graph that waits for an answer goes on where it stopped, after a restart."""

    def ask(state):
        return {"messages": [AIMessage(f"you said {interrupt('sure?')}")]}

    with opened(path) as saver:
        state = say(line(saver, MessagesState, {"ask": ask}), "delete it")
        assert state["__interrupt__"][0].value == "sure?"
    with opened(path) as saver:
        graph = line(saver, MessagesState, {"ask": ask})
        assert graph.get_state(config()).tasks[0].interrupts[0].value == "sure?"
        graph.invoke(Command(resume="yes"), config())
        assert texts(saver.transcript("t")) == ["delete it", "you said yes"]


def test_a_crash_keeps_what_other_tasks_wrote(path):
    """Of two tasks that run side by side one fails: what the other one wrote is there afterwards and not made again."""
    ran = []

    class State(MessagesState):
        done: Annotated[list[str], operator.add]

    def good(state):
        ran.append("good")
        return {"done": ["good"], "messages": [AIMessage("from good", id="g")]}

    def bad(state):
        if len(ran) < 2:
            ran.append("bad")
            raise RuntimeError("a crash")
        return {"done": ["bad"]}

    def build(saver):
        builder = StateGraph(State)
        for name, node in (("good", good), ("bad", bad)):
            builder.add_node(name, node)
            builder.add_edge(START, name)
            builder.add_edge(name, END)
        return builder.compile(checkpointer=saver)

    with opened(path) as saver, pytest.raises(RuntimeError, match="a crash"):
        say(build(saver), "go")
    with opened(path) as saver:
        assert ("messages", "from good") in {
            (channel, value[0].text) for _, channel, value in saver.get_tuple(config()).pending_writes
            if channel == "messages"
        }  # fmt: skip
        state = build(saver).invoke(None, config())
        assert sorted(state["done"]) == ["bad", "good"]
        assert ran.count("good") == 1
        assert texts(saver.transcript("t")) == ["go", "from good"]


def test_inner_graphs(path):
    """An inner graph has a namespace of its own; its messages reach the transcript when the outer state has them."""
    with opened(path) as saver:
        inner = echo(True)
        graph = line(saver, MessagesState, {"inner": inner, "last": lambda s: {"messages": [AIMessage("done")]}})
        say(graph, "one")
        say(graph, "two")
        spaces = {found.config["configurable"]["checkpoint_ns"] for found in saver.list(config())}
        assert "" in spaces
        assert any(ns.startswith("inner") for ns in spaces)
        assert texts(saver.transcript("t")) == ["one", "echo 1: one", "done", "two", "echo 4: two", "done"]


def test_interrupt_inside_of_an_inner_graph(path):
    """An inner graph that waits goes on after a restart."""

    def ask(state):
        return {"messages": [AIMessage(f"heard {interrupt('?')}")]}

    def build(saver):
        return line(saver, MessagesState, {"inner": line(None, MessagesState, {"ask": ask})})

    with opened(path) as saver:
        say(build(saver), "go")
    with opened(path) as saver:
        graph = build(saver)
        inner = graph.get_state(config(), subgraphs=True).tasks[0].state
        assert texts(inner.values["messages"]) == ["go"]
        state = graph.invoke(Command(resume="yes"), config())
        assert texts(state["messages"]) == ["go", "heard yes"]


def test_parallel_writes_and_sends(path):
    """Many tasks that write the same channel at once give the same state as in memory, after a restart too."""

    class State(TypedDict):
        found: Annotated[list[Any], operator.add]

    def fan(state):
        return [Send("work", {"n": n}) for n in range(12)]

    def build(saver):
        builder = StateGraph(State)
        builder.add_node("work", lambda s: {"found": [s["n"], AIMessage(f"m{s['n']}", id=f"m{s['n']}")]})
        builder.add_conditional_edges(START, fan, ["work"])
        builder.add_edge("work", END)
        return builder.compile(checkpointer=saver)

    wanted = build(InMemorySaver()).invoke({"found": []}, config())
    with opened(path) as saver:
        assert build(saver).invoke({"found": []}, config()) == wanted
    with opened(path) as saver:
        assert build(saver).get_state(config()).values == wanted


class Profile(BaseModel):
    """A type of the application's."""

    name: str
    level: int = 1


@dataclass
class Point:
    """Another one."""

    x: int
    y: int


class Typed(TypedDict):
    """A state with the application's own types in it."""

    profile: Profile
    point: Point
    seen: set[str]
    raw: bytes


def test_own_types_come_back_if_they_are_allowed(path):
    """Classes that `allow` names come back as objects; others as plain data, and never by running their code."""
    given = {"profile": Profile(name="Ana", level=3), "point": Point(1, 2), "seen": {"a"}, "raw": b"\x00\xff"}
    with opened(path) as saver:
        line(saver, Typed, {"keep": lambda s: {"raw": s["raw"]}}).invoke(given, config())
    with opened(path, allow=[Profile, Point]) as saver:
        assert line(saver, Typed, {"keep": lambda s: {}}).get_state(config()).values == given
    with opened(path) as saver:
        values = saver.get_tuple(config()).checkpoint["channel_values"]
        assert values["profile"] == {"name": "Ana", "level": 3}
        assert values["point"] == {"x": 1, "y": 2}
        assert values["seen"] == {"a"}


def test_allow_list_of_langgraph(path):
    """`with_allowlist`, by which LangGraph names the types of a graph, gives a saver that may build them."""
    with opened(path) as saver:
        wider = saver.with_allowlist({("graphs", "Nothing")})
        assert wider is not saver
        say(echo(wider), "one")
        assert texts(saver.transcript("t")) == ["one", "echo 1: one"]


def test_two_owners_with_one_thread_id(path):
    """Threads of the same id that belong to others are other threads."""
    with opened(path) as saver:
        graph = echo(saver)
        for owner in ("ana", "bob"):
            say(graph, f"I am {owner}", config(owner=owner))
        say(graph, "I am nobody")
        assert texts(saver.transcript("t", owner="ana"))[0] == "I am ana"
        assert len(graph.get_state(config(owner="bob")).values["messages"]) == 2
        assert {found.config["configurable"].get("owner", "") for found in saver.list(None)} == {""}
        assert len(list(saver.list({"configurable": {"owner": "ana"}}))) == 3
        assert len(list(graph.get_state_history(config(owner="ana")))) == 3
        saver.delete_thread("t", owner="ana")
        assert saver.get_tuple(config(owner="ana")) is None
        assert saver.get_tuple(config(owner="bob")) is not None


def test_copies_of_a_thread_are_independent(path):
    """A copy has all checkpoints; each of the two goes on by itself, and one outlives the other."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        saver.copy_thread("t", "copy")
        say(graph, "two")
        say(graph, "other", config("copy"))
        assert texts(saver.transcript("copy")) == ["one", "echo 1: one", "other", "echo 3: other"]
        saver.delete_thread("t")
        assert texts(saver.transcript("copy")) == ["one", "echo 1: one", "other", "echo 3: other"]
        assert texts(graph.get_state(config("copy")).values["messages"]) == texts(saver.transcript("copy"))


@pytest.mark.parametrize("schema", [MessagesState, DeltaState])
def test_pruned_threads_keep_their_state(path, schema):
    """After `prune` the newest state is whole, a delta channel's too, and the thread goes on."""
    with opened(path) as saver:
        graph = echo(saver, schema)
        for k in range(7):
            before = say(graph, f"q{k}")
        saver.prune(["t"])
    with opened(path) as saver:
        graph = echo(saver, schema)
        assert texts(graph.get_state(config()).values["messages"]) == texts(before["messages"])
        assert len(say(graph, "on")["messages"]) == 16
        assert len(saver.transcript("t")) == 16


def test_prune_and_delete_runs_leave_the_transcript(path):
    """Checkpoints go one by one or all; what was said stays until the thread is deleted."""
    with opened(path) as saver:
        graph = echo(saver)
        graph.invoke({"messages": [HumanMessage("one")]}, {**config(), "metadata": {"run_id": "r1"}})
        graph.invoke({"messages": [HumanMessage("two")]}, {**config(), "metadata": {"run_id": "r2"}})
        saver.delete_for_runs(["r2"])
        assert {found.metadata["run_id"] for found in saver.list(config())} == {"r1"}
        saver.prune(["t"], strategy="delete")
        assert saver.get_tuple(config()) is None
        assert texts(saver.transcript("t"))[:3] == ["one", "echo 1: one", "two"]
        saver.delete_thread("t")
        assert saver.transcript("t") == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_hold_keeps_checkpoints(path, whole):
    """Of a thread that is held, or whose owner is, no checkpoint is pruned or deleted; others are."""
    with opened(path) as saver:
        graph = echo(saver)
        for thread in ("held", "free"):
            for run in ("r1", "r2"):
                graph.invoke(
                    {"messages": [HumanMessage(run)]}, {**config(thread, owner=thread), "metadata": {"run_id": run}}
                )
        held = config("held", owner="held")
        thread = saver.memory.thread("held", owner="held")
        _ = saver.memory.hold_owner("held", "case 1") if whole else thread.hold("case 1")
        before = [found.config for found in saver.list(held)]
        for strategy in ("keep_latest", "delete"):
            with pytest.raises(ThreadHeld):
                saver.prune(["held"], strategy=strategy, owner="held")
        with pytest.raises(ThreadHeld):
            saver.delete_for_runs(["r1"])
        assert [found.config for found in saver.list(held)] == before
        assert len(list(saver.list(config("free", owner="free")))) == len(before)
        saver.prune(["free"], owner="free")
        assert len(list(saver.list(config("free", owner="free")))) == 1
        _ = saver.memory.release_owner("held") if whole else thread.release()
        saver.prune(["held"], owner="held")
        assert len(list(saver.list(held))) == 1


def test_time_to_live(path, monkeypatch):
    """A thread is gone its time to live after its last checkpoint, and swept away with all it said."""
    clock = [1e9]
    monkeypatch.setattr("novelo.integrations.langgraph.saver.time.time", lambda: clock[0])
    with opened(path, ttl=10) as saver:
        say(echo(saver), "one")
        clock[0] += 599
        assert saver.get_tuple(config()) is not None
        clock[0] += 2
        assert saver.get_tuple(config()) is None
        assert list(saver.list(config())) == []
        assert len(say(echo(saver), "anew")["messages"]) == 2
        assert texts(saver.transcript("t")) == ["anew", "echo 1: anew"]
        clock[0] += 601
        assert saver.sweep() == 1
        assert saver.transcript("t") == []


def test_interrupt_before_a_node(path):
    """A graph that stops before a node goes on with None."""
    with opened(path) as saver:
        graph = echo(saver, interrupt_before=["answer"])
        assert len(say(graph, "one")["messages"]) == 1
        assert len(graph.invoke(None, config())["messages"]) == 2
        assert issubclass(GraphInterrupt, Exception)


@pytest.mark.parametrize("removal", ["prune", "all", "thread", "anew", "masked"])
def test_a_list_is_read_on_while_checkpoints_go(path, removal):
    """Whoever reads a list slowly gets what is there by then: nothing of what went, and no error."""

    class State(MessagesState):
        found: Any

    def answer(state):
        number = len(state["messages"])
        return {"messages": [AIMessage(f"answer {number}")], "found": {"long": [str(number) * 500]}}

    with opened(path) as saver:
        graph = line(saver, State, {"answer": answer})
        for k in range(4):
            say(graph, f"question {k}")
        lists = [saver.list(config()), saver.list(None), saver.list(config(), filter={"source": "loop"})]
        for one in lists:
            next(one)
        if removal in ("prune", "all"):
            saver.prune(["t"], strategy="keep_latest" if removal == "prune" else "delete")
        elif removal == "masked":
            saver.memory.thread("t").redact("question 0")
        else:
            saver.delete_thread("t")
        if removal == "anew":
            say(graph, "another")
        said = [texts(at.checkpoint["channel_values"].get("messages", [])) for one in lists for at in one]
        assert (said != []) == (removal == "masked")
        assert not any("question 0" in of for of in said)
