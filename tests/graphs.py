"""Small graphs and savers for tests of the checkpointer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

import apsw
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from typing_extensions import TypedDict

from novelo.integrations.langgraph import NoveloSaver
from novelo.stores.tables.checkpoint_packing import unpacked


class DeltaState(TypedDict):
    """Messages in a channel that shows its value every third step."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]


def opened(path: Any, **options: Any) -> NoveloSaver:
    """A saver on a file."""
    return NoveloSaver.from_conn_string(f"sqlite:///{path}", **options)


def config(thread: str = "t", **more: Any) -> dict[str, Any]:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": thread, **more}}


def echo(saver: Any, schema: Any = MessagesState, **compiled: Any) -> Any:
    """A graph that answers every question with its number and the question."""

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        messages = state["messages"]
        return {"messages": [AIMessage(f"echo {len(messages)}: {messages[-1].text}")]}

    return line(saver, schema, {"answer": answer}, **compiled)


def line(saver: Any, schema: Any, nodes: dict[str, Any], **compiled: Any) -> Any:
    """A graph of some nodes, one after the other."""
    builder = StateGraph(schema)
    names = [START, *nodes, END]
    for name, node in nodes.items():
        builder.add_node(name, node)
    for first, second in pairwise(names):
        builder.add_edge(first, second)
    return builder.compile(checkpointer=saver, **compiled)


def held(path: Any) -> bytes:
    """All that the files of a database hold, and its checkpoints as they were before they were packed."""
    found = b"".join(file.read_bytes() for file in path.parent.iterdir())
    with apsw.Connection(str(path)) as db:
        return found + b"".join(unpacked(row[0][1:]) for row in db.execute("SELECT body FROM checkpoints"))


def say(graph: Any, text: str, where: dict[str, Any] | None = None, **more: Any) -> Any:
    """Ask something; the state afterwards."""
    return graph.invoke({"messages": [HumanMessage(text)]}, where or config(), **more)


def texts(messages: Sequence[Any]) -> list[str]:
    """What messages say."""
    return [message.text for message in messages]
