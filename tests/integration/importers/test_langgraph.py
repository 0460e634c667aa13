"""Graphs that move: their states before and after are equal, and they go on as if nothing had happened."""

from __future__ import annotations

import operator
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite")

from langchain.agents import AgentState, create_agent
from langchain.tools import tool
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

import novelo
from novelo.errors import ImportFailed
from novelo.importers import open_source, run_import
from novelo.integrations.langgraph import NoveloSaver
from scripted_chat import calling, chat, thread


class Taste(BaseModel):
    """A class of the application's own in a state."""

    lang: str


class State(MessagesState):
    """Messages, and more."""

    taste: Taste
    notes: Annotated[list[dict[str, Any]], operator.add]


def graph(saver: Any) -> Any:
    """Answers, runs an inner graph that talks too, trims what was said, and asks a human."""

    def answer(state: Any) -> Any:
        n = len(state.get("notes", []))
        return {"messages": [AIMessage(f"answer {n}")], "taste": Taste(lang="pt"), "notes": [{"n": n}]}

    def inner_talk(state: Any) -> Any:
        return {"messages": [AIMessage(f"inner {len(state['messages'])}")]}

    def trim(state: Any) -> Any:
        return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][:-3]]}

    def ask(state: Any) -> Any:
        return {"messages": [AIMessage("you said " + interrupt({"question": "ok?"}))]}

    inner = StateGraph(MessagesState)
    inner.add_node("talk", inner_talk)
    inner.add_edge(START, "talk")
    outer = StateGraph(State)
    for name, node in (("answer", answer), ("inner", inner.compile(checkpointer=True)), ("trim", trim), ("ask", ask)):
        outer.add_node(name, node)
    for a, b in ((START, "answer"), ("answer", "inner"), ("inner", "trim"), ("trim", "ask")):
        outer.add_edge(a, b)
    return outer.compile(checkpointer=saver)


def ask(built: Any, question: str, to: str = "t", **more: Any) -> Any:
    """One question."""
    return built.invoke({"messages": [HumanMessage(question)]}, thread(to, **more))


def seen(built: Any, to: str = "t", **more: Any) -> tuple[Any, list[Any]]:
    """The state with those of inner graphs, and the whole history."""
    at = thread(to, **more)
    return built.get_state(at, subgraphs=True), list(built.get_state_history(at))


def brought(path: Path, memory: Any, kind: str = "langgraph-sqlite", **more: Any) -> Any:
    """An import, run."""
    with open_source(kind, str(path)) as source:
        return run_import(memory, source, **more)


def moved(memory: Any, build: Any = graph) -> Any:
    """The same graph on our saver."""
    return build(NoveloSaver(memory, allow=[Taste]))


def said(memory: Any, to: str = "t") -> list[str]:
    """What the transcript has."""
    return [entry.message.text for entry in memory.thread(to).messages()]


@pytest.fixture
def memory(tmp_path):
    """Where it all goes."""
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", worker="off") as opened:
        yield opened


@pytest.fixture
def file(tmp_path):
    """Three questions; the third waits for a human."""
    path = tmp_path / "graph.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        built = graph(saver)
        for i in range(3):
            ask(built, f"q{i}")
            if i < 2:
                built.invoke(Command(resume=f"yes {i}"), thread("t"))
    return path


def test_state_and_history_are_equal_and_the_interrupt_is_still_open(file, memory):
    """States, inner ones too, history, tasks and interrupts of a file of LangGraph's own are the same after it."""
    with SqliteSaver.from_conn_string(str(file)) as saver:
        before, history = seen(graph(saver))
    report = brought(file, memory)
    assert report.losses == []
    assert [(one.was, one.messages) for one in report.threads] == [("new", 11)]
    built = moved(memory)
    after, now = seen(built)
    assert after == before
    assert now == history
    assert len(history) > 15
    assert after.tasks[0].interrupts[0].value == {"question": "ok?"}
    assert built.invoke(Command(resume="fine"), thread("t"))["messages"][-1].text == "you said fine"
    assert ask(built, "more")["messages"][-1].text.startswith("inner")


def test_both_go_on_alike(file, memory):
    """The same next steps lead to the same values on either side."""
    brought(file, memory)
    ends = []
    with SqliteSaver.from_conn_string(str(file)) as saver:
        for built in (graph(saver), moved(memory)):
            built.invoke(Command(resume="x"), thread("t"))
            found = ask(built, "next")
            ends.append(([m.text for m in found["messages"]], found["taste"], found["notes"]))
    assert ends[0] == ends[1]


def test_the_transcript_has_what_the_state_has_dropped(file, memory):
    """All that was ever said is in the thread, in order, with the times it was said at."""
    brought(file, memory)
    found = said(memory)
    assert [t for t in found if not t.startswith("inner")] == [
        *("q0", "answer 0", "you said yes 0", "q1", "answer 1", "you said yes 1", "q2", "answer 2")
    ]
    assert sum(t.startswith("inner") for t in found) == 3
    assert len(moved(memory).get_state(thread("t")).values["messages"]) < len(found)
    times = [entry.created for entry in memory.thread("t").messages()]
    assert times == sorted(times)
    assert max(times) <= file.stat().st_mtime + 1
    assert memory.thread("t").metadata["imported"]["from"] == "langgraph-sqlite"


def test_a_dry_run_counts_and_writes_nothing(file, memory):
    """The numbers are those of the run that follows."""
    would = brought(file, memory, dry_run=True)
    assert memory.thread("t").row is None
    did = brought(file, memory)
    assert would.threads == did.threads
    assert [one.was for one in brought(file, memory, dry_run=True).threads] == ["same"]


def test_a_second_run_adds_only_what_is_new(file, memory):
    """The graph goes on where it was, an answered interrupt included, and the second import brings that and no more."""
    brought(file, memory)
    with SqliteSaver.from_conn_string(str(file)) as saver:
        built = graph(saver)
        built.invoke(Command(resume="later"), thread("t"))
        before = seen(built)
    report = brought(file, memory)
    assert [(one.was, one.messages) for one in report.threads] == [("grown", 1)]
    assert seen(moved(memory)) == before
    assert said(memory)[-1] == "you said later"
    assert [one.was for one in brought(file, memory).threads] == ["same"]


def test_a_graph_that_went_on_here_is_not_written_over(file, memory):
    """If it went on in both places the import says so and adds nothing."""
    brought(file, memory)
    ours = moved(memory)
    ours.invoke(Command(resume="here"), thread("t"))
    before = seen(ours)
    assert [one.was for one in brought(file, memory).threads] == ["same"]
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph(saver).invoke(Command(resume="there"), thread("t"))
    report = brought(file, memory)
    assert "not merged" in str(report.losses[0])
    assert seen(ours) == before


def test_an_import_that_was_cut_off_is_finished_by_the_next(file, memory):
    """Nothing is doubled and nothing is missing."""
    with SqliteSaver.from_conn_string(str(file)) as saver:
        before = seen(graph(saver))
    with open_source("langgraph-sqlite", str(file)) as source:
        whole, left = source.state, [9]

        def state(*given):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return whole(*given)

        source.state = state
        with pytest.raises(KeyboardInterrupt):
            run_import(memory, source)
    assert 0 < len(memory.thread("t")) < 11
    assert brought(file, memory).losses == []
    assert seen(moved(memory)) == before
    assert len(said(memory)) == 11


def test_branches_come_with_the_line_that_was_left_hidden(tmp_path, memory):
    """After a fork in the past the newest state is the same, and what was left stands in the transcript, hidden."""
    path = tmp_path / "fork.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        built = plain(saver)
        for i in range(3):
            ask(built, f"q{i}")
        past = next(s for s in built.get_state_history(thread("t")) if len(s.values["messages"]) == 2 and not s.next)
        built.update_state(past.config, {"messages": [HumanMessage("other", id="o")]}, as_node="answer")
        ask(built, "from there")
        before = seen(built)
    assert brought(path, memory).losses == []
    assert seen(moved(memory, plain)) == before
    visible = [e.message.text for e in memory.thread("t").messages(hidden=False)]
    assert visible == [m.text for m in before[0].values["messages"]]
    assert "q2" in said(memory)
    assert "q2" not in visible


def plain(saver: Any) -> Any:
    """A graph that answers."""
    built = StateGraph(MessagesState)
    built.add_node("answer", lambda state: {"messages": [AIMessage(f"a{len(state['messages'])}")]})
    built.add_edge(START, "answer")
    return built.compile(checkpointer=saver)


def agent(saver: Any) -> Any:
    """An agent with a tool and a state of its own."""

    class Ours(AgentState):
        case: str

    @tool
    def lookup(order: str) -> str:
        """Look an order up."""
        return f"order {order} is on its way"

    model = chat(calling("lookup", "c1", order="A-4471"), "It is on its way.")
    return create_agent(model, [lookup], state_schema=Ours, checkpointer=saver)


def test_an_agent_with_a_tool(tmp_path, memory):
    """Calls, results and a custom state of `create_agent` come along; a provider takes the thread's context."""
    path = tmp_path / "agent.sqlite"
    at = thread("t")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        built = agent(saver)
        built.invoke({"messages": [HumanMessage("Where is A-4471?")], "case": "k1"}, at)
        before = seen(built)
    assert brought(path, memory).losses == []
    assert seen(agent(NoveloSaver(memory))) == before
    context = memory.thread("t").context().messages("openai")
    assert [m["role"] for m in context] == ["user", "assistant", "tool", "assistant"]
    assert novelo.check(context) == []


def fan(saver: Any) -> Any:
    """Sends of work, and lists that are stored as what was added to them."""

    class Wide(TypedDict):
        messages: Annotated[list[AnyMessage], DeltaChannel(lambda old, new: [*old, *(x for w in new for x in w)])]
        done: Annotated[list[int], operator.add]

    built = StateGraph(Wide)
    built.add_node("split", lambda state: {"messages": [AIMessage("split")]})
    built.add_node("one", lambda given: {"done": [given["n"]], "messages": [AIMessage(f"did {given['n']}")]})
    built.add_edge(START, "split")
    built.add_conditional_edges("split", lambda state: [Send("one", {"n": n}) for n in range(3)], ["one"])
    return built.compile(checkpointer=saver)


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_sends_and_delta_channels(tmp_path, memory):
    """States that are rebuilt from what tasks wrote come back the same, and so does the transcript."""
    path = tmp_path / "fan.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        built = fan(saver)
        for question in ("q0", "q1"):
            ask(built, question)
        before = seen(built)
    assert brought(path, memory).losses == []
    after = moved(memory, fan)
    assert seen(after) == before
    assert said(memory) == [m.text for m in before[0].values["messages"]]
    assert len(ask(after, "q2")["done"]) == 9


def test_broken_checkpoints_are_named_and_the_rest_comes(file, memory):
    """A cut blob, a pickle and broken metadata cost their own checkpoints; who followed them follows others."""
    with sqlite3.connect(file) as db:
        ids = [r[0] for r in db.execute("SELECT checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' ORDER BY 1")]
        db.execute("UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 40) WHERE checkpoint_id = ?", (ids[2],))
        db.execute("UPDATE checkpoints SET type = 'pickle' WHERE checkpoint_id = ?", (ids[4],))
        db.execute("UPDATE checkpoints SET metadata = '{' WHERE checkpoint_id = ?", (ids[6],))
        db.execute("UPDATE writes SET type = 'pickle' WHERE checkpoint_id = ? AND idx = 0", (ids[8],))
    db.close()
    with SqliteSaver.from_conn_string(str(file)) as saver:
        before = graph(saver).get_state(thread("t"))
    report = brought(file, memory)
    told = "\n".join(map(str, report.losses))
    for name in (ids[2], ids[4], ids[6]):
        assert f"checkpoint {name} of namespace ''" in told
    assert f"checkpoint {ids[8]}: a value of type 'pickle' is pickled" in told
    after = moved(memory).get_state(thread("t"))
    assert after.values == before.values
    assert after.tasks == before.tasks
    assert len(list(moved(memory).get_state_history(thread("t")))) == len(ids) - 3


def test_whose_threads_they_are(file, memory):
    """An owner is given once; another thread of the same id is left alone."""
    memory.thread("t").append([{"role": "user", "content": "mine"}])
    refused = brought(file, memory)
    assert [one.was for one in refused.threads] == ["refused"]
    assert said(memory) == ["mine"]
    brought(file, memory, owner="ana")
    with SqliteSaver.from_conn_string(str(file)) as saver:
        before = graph(saver).get_state(thread("t"))
    after = moved(memory).get_state(thread("t", owner="ana"))
    assert after.values == before.values
    assert after.tasks == before.tasks


def test_the_file_is_only_read(file, memory):
    """Not a byte of it changes, nor of a log that another program has not finished."""
    with SqliteSaver.from_conn_string(str(file)) as saver:
        ask(graph(saver), "in the log", to="u")
        log = Path(f"{file}-wal")
        held = file.read_bytes(), log.read_bytes()
        assert len(held[1]) > 0
        with open_source("langgraph-sqlite", str(file)) as source:
            assert run_import(memory, source).count("new") == 2
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                source.db.execute("DELETE FROM writes")
        assert (file.read_bytes(), log.read_bytes()) == held


def test_a_file_of_something_else(tmp_path, memory):
    """It is told in one line."""
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE checkpoints (thread_id)").connection.close()
    with pytest.raises(ImportFailed, match="table 'checkpoints' has no column 'checkpoint_ns'"):
        open_source("langgraph-sqlite", str(tmp_path / "other.db"))


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of an empty PostgreSQL of our own on loopback."""
    pytest.importorskip("psycopg")
    pytest.importorskip("langgraph.checkpoint.postgres")
    found = [shutil.which("initdb"), *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))]
    programs = next((Path(path).parent for path in reversed(found) if path), None)
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server")
    folder = Path(tempfile.mkdtemp(prefix="novelo-pg-"))  # an address of a socket may be short only
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(folder, "nobody")
        as_user = {"user": "nobody"}

    def call(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=60, **as_user)

    data = str(folder / "data")
    call(str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync")
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    call(str(programs / "pg_ctl"), "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql:///postgres?host={folder}&user=postgres"
    finally:
        call(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_a_database_of_postgres_saver(postgres, memory):
    """The same holds for PostgresSaver: equal states, the whole transcript, and only what is new in a second run."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(postgres) as saver:
        saver.setup()
        built = graph(saver)
        ask(built, "q0")
        built.invoke(Command(resume="yes"), thread("t"))
        ask(built, "q1")
        before = seen(built)
        assert brought(postgres, memory, "langgraph-postgres").losses == []
        assert seen(moved(memory)) == before
        assert len(said(memory)) == 7
        built.invoke(Command(resume="yes"), thread("t"))
        before = seen(built)
    assert [one.was for one in brought(postgres, memory, "langgraph-postgres").threads] == ["grown"]
    assert seen(moved(memory)) == before


def test_a_postgres_that_holds_both(postgres, tmp_path):
    """Our own schema in the same database, named like the user so that it comes first, is not taken for the saver's."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(postgres) as saver:
        saver.setup()
        ask(graph(saver), "q0", to="both")
    with novelo.open(f"{postgres}&schema=postgres", worker="off") as ours:
        assert "both" in {one.thread_id for one in brought(postgres, ours, "langgraph-postgres").threads}
        assert ours.thread("both").row is not None


def test_a_postgres_of_something_else(postgres):
    """An address that cannot be reached, or holds no checkpoints, is one clear line without a password in it."""
    with pytest.raises(ImportFailed, match="cannot be reached") as told:
        open_source("langgraph-postgres", "postgresql://ana:geheim@127.0.0.1:1/x?connect_timeout=1")
    assert "geheim" not in str(told.value)
    with pytest.raises(ImportFailed, match="has no table"):
        open_source("langgraph-postgres", postgres.replace("/postgres?", "/template1?"))
