"""What a LangGraph turn costs with NoveloSaver and with LangGraph's SqliteSaver: bytes, CPU time and memory.

    python benchmarks/langgraph_cost.py [turns=1000]        a line a figure; pip install 'novelo[dev]'

Three threads grow side by side, a turn each in turn, so that a busy machine slows all of them alike: NoveloSaver and
SqliteSaver with `add_messages`, SqliteSaver with a `DeltaChannel` that is snapshotted every 50 steps. A turn is a
question and an answer of service talk, and every third one a tool call with its result besides. Message ids are fixed.
The growth exponent is log2 of the bytes at all turns over those at half of them. Peak memory is that of a process of
its own.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import apsw
from _service_talk import service_talk
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from typing_extensions import TypedDict

from novelo.integrations.langgraph import NoveloSaver

Delta: Any = TypedDict(
    "Delta", {"messages": Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=50)]}
)
KINDS = {"novelo": (NoveloSaver, MessagesState), "novelo delta": (NoveloSaver, Delta),
         "add_messages": (SqliteSaver, MessagesState), "DeltaChannel": (SqliteSaver, Delta)}  # fmt: skip


class Talk:
    """The questions and answers by the number of the turn."""

    def __init__(self, turns: int) -> None:
        lines = [message for message, _ in service_talk(turns) if message["role"] != "system"]
        self.pairs = list(zip(lines[::2], lines[1::2], strict=False))

    def answer(self, state: dict[str, Any]) -> dict[str, Any]:
        """What a node gives for the newest question."""
        k = int(state["messages"][-1].id[1:])
        text = self.pairs[k][1]["content"]
        if k % 3:
            return {"messages": [AIMessage(text, id=f"a{k}")]}
        call = {"name": "look_up", "args": {"order": k}, "id": f"c{k}"}
        result = ToolMessage(f"order {k}: on its way", tool_call_id=f"c{k}", id=f"t{k}")
        return {"messages": [AIMessage("", tool_calls=[call], id=f"b{k}"), result, AIMessage(text, id=f"a{k}")]}

    def say(self, graph: Any, k: int) -> float:
        """One turn; its CPU time in milliseconds."""
        question = {"role": "user", "content": self.pairs[k][0]["content"], "id": f"u{k}"}
        began = time.process_time()
        graph.invoke({"messages": [question]}, {"configurable": {"thread_id": "w"}})
        return 1e3 * (time.process_time() - began)


def opened(kind: str, path: Path, lines: Talk, stack: ExitStack) -> Any:
    """A graph on a saver of a kind."""
    saver, schema = KINDS[kind]
    address = f"sqlite:///{path}" if saver is NoveloSaver else str(path)
    builder = StateGraph(schema)
    builder.add_node("answer", lines.answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=stack.enter_context(saver.from_conn_string(address)))


def size(path: Path) -> int:
    """Bytes of a database, what still stands in its log counted as if it were in the file."""
    with apsw.Connection(str(path)) as connection:
        return math.prod(next(iter(connection.execute(f"PRAGMA {name}")))[0] for name in ("page_count", "page_size"))


def median(laps: list[float]) -> float:
    """The middle one."""
    return sorted(laps)[len(laps) // 2]


def high_water() -> float:
    """The most memory that this process had so far, in MB; what `getrusage` says a child has from its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def peak(kind: str, turns: int, out: Any) -> None:
    """The most memory that a process needed for a thread, less what it had with the libraries loaded; in MB."""
    lines = Talk(turns)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        graph = opened(kind, Path(folder) / "a.db", lines, stack)
        lines.say(graph, 0)
        before = high_water()
        for k in range(1, turns):
            lines.say(graph, k)
        out.put(high_water() - before)


def main(turns: int) -> None:
    """Print the figures."""
    lines, found = Talk(turns), {}
    laps: dict[str, list[float]] = {kind: [] for kind in KINDS}
    halves: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: Path(folder) / kind.replace(" ", "") / "a.db" for kind in KINDS}
        with ExitStack() as stack:
            graphs = {}
            for kind, path in paths.items():
                path.parent.mkdir()
                graphs[kind] = opened(kind, path, lines, stack)
            for k in range(turns):
                for kind, graph in graphs.items():
                    laps[kind].append(lines.say(graph, k))
                if k + 1 == turns // 2:
                    halves = {kind: size(path) for kind, path in paths.items()}
        sizes = {kind: size(path) for kind, path in paths.items()}
    text = sum(len(m["content"].encode()) for pair in lines.pairs[:turns] for m in pair)
    for kind in KINDS:
        found[kind] = {
            "MB": round(sizes[kind] / 1e6, 2),
            "exponent": round(math.log2(sizes[kind] / halves[kind]), 3),
            "early ms": round(median(laps[kind][5:30]), 2),
            "late ms": round(median(laps[kind][-25:]), 2),
        }
    context = multiprocessing.get_context("spawn")
    for kind in KINDS:
        queue = context.Queue()
        process = context.Process(target=peak, args=(kind, turns, queue))
        process.start()
        found[kind]["peak MB"] = round(queue.get(), 1)
        process.join()
    print(f"{turns} turns, {text / 1e6:.2f} MB of text")
    for kind, figures in found.items():
        print(f"{kind:>13}: {json.dumps(figures)}")
    ours, plain, delta = found["novelo"], found["add_messages"], found["DeltaChannel"]
    print(f"bytes: 1/{plain['MB'] / ours['MB']:.0f} of add_messages, 1/{delta['MB'] / ours['MB']:.1f} of DeltaChannel")
    print(f"CPU of a late turn: {ours['late ms'] / plain['late ms']:.2f} of add_messages, "
          f"{ours['late ms'] / delta['late ms']:.2f} of DeltaChannel")  # fmt: skip
    print(f"CPU of an early turn: {ours['early ms'] / plain['early ms']:.2f} of add_messages")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
