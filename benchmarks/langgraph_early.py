"""CPU of an early turn of a LangGraph graph with NoveloSaver against LangGraph's SqliteSaver, in pairs.

    taskset -c 1 python benchmarks/langgraph_early.py [--pairs 40] [--told messages|dicts] [--json]

A pair is two fresh databases, one after the other, ours first in every second pair: each takes 18 turns of a graph
with one node, and counts as the median of turns 4 to 18, CPU of all threads. The ratio is the median over the pairs;
shown with its quartiles and with what chance alone makes of it: the 95 % interval of the median by resampling. Demand:
at most 1.1. Exit status 1 when it is not met. A node gives messages, or dicts in OpenAI's form.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _lookup_talk import Turn
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from novelo.integrations.langgraph import NoveloSaver

TURNS, FROM, DEMAND = 18, 3, 1.1


def graph(saver: Any, told: str) -> Any:
    """A graph whose node answers what the newest question's number says."""

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        k = int(state["messages"][-1].id[1:])
        turn = Turn(k)
        if told == "dicts":
            call = {"id": turn.call, "type": "function",
                    "function": {"name": "lookup_order", "arguments": json.dumps(turn.arguments)}}  # fmt: skip
            looked = [{"role": "assistant", "content": "", "tool_calls": [call]},
                      {"role": "tool", "tool_call_id": turn.call, "content": turn.result}]  # fmt: skip
            return {"messages": [*(looked if turn.call else []), {"role": "assistant", "content": turn.answer}]}
        calls = [{"name": "lookup_order", "args": turn.arguments, "id": turn.call}]
        found = [AIMessage("", tool_calls=calls), ToolMessage(turn.result, tool_call_id=turn.call)] if turn.call else []
        return {"messages": [*found, AIMessage(turn.answer)]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def one(ours: bool, told: str) -> float:
    """Milliseconds of CPU of an early turn in a fresh database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        kind, address = (NoveloSaver, f"sqlite:///{path}") if ours else (SqliteSaver, str(path))
        laps = []
        with kind.from_conn_string(address) as saver:
            made = graph(saver, told)
            gc.collect()
            for k in range(TURNS):
                question = {"role": "user", "content": Turn(k).question, "id": f"u{k}"}
                began = time.process_time()
                made.invoke({"messages": [question]}, {"configurable": {"thread_id": "w"}})
                laps.append(1e3 * (time.process_time() - began))
    return statistics.median(laps[FROM:])


def main() -> int:
    """Measure, print, and say whether the demand is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--told", choices=("messages", "dicts"), default="messages")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    one(True, given.told), one(False, given.told)  # what is imported and made once
    ours, theirs = [], []
    for k in range(given.pairs):
        for mine in (True, False) if k % 2 else (False, True):
            (ours if mine else theirs).append(one(mine, given.told))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    chance = random.Random(1)
    again = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2000))
    low, middle, high = statistics.quantiles(ratios, n=4)
    found = {
        "pairs": given.pairs, "told": given.told, "ratio": middle, "quartiles": [low, high],
        "interval": [again[50], again[1949]], "range": [min(ratios), max(ratios)],
        "ours ms": statistics.median(ours), "theirs ms": statistics.median(theirs),
    }  # fmt: skip
    if given.json:
        print(json.dumps(found))
    else:
        print(f"an early turn: {found['ours ms']:.2f} ms with NoveloSaver, {found['theirs ms']:.2f} with SqliteSaver")
        print(
            f"ratio {middle:.3f} (at most {DEMAND}); median of {given.pairs} pairs, quartiles {low:.3f} to {high:.3f}"
        )
        print(f"95 % of such medians are between {again[50]:.3f} and {again[1949]:.3f}")
    return int(middle > DEMAND)


if __name__ == "__main__":
    sys.exit(main())
