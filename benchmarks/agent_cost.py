"""What the middleware costs an agent: CPU of a turn while the state stays small, and CPU added to one model call.

An agent on `NoveloSaver` with a model that answers at once talks for `--turns` turns of two messages. With
`prune_state=True` and a window of ten turns the state stays small and the transcript whole, so that a late turn costs
what an early one costs. Then the middleware alone is timed around an empty call on a list of that length: demands are a
late turn of at most 1.3 times an early one, and at most 1 ms. Exit status 1 when one is not met. Needs the extra
`langgraph`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from types import SimpleNamespace
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver

QUESTION = "Pergunta {k}: onde está o pedido {k} que paguei com Pix, e até quando ele chega à minha casa?"
ANSWER = "O pedido saiu ontem do depósito e chega em dois dias úteis; o código de rastreio está na sua conta. " * 3
LATE, ADDED_MS = 1.3, 1.0


class Instant(BaseChatModel):
    """A chat model that has one answer."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(ANSWER))])


def turns(count: int) -> tuple[float, float, int, int]:
    """CPU of an early and of a late turn in ms, messages of the state and of the transcript in the end."""
    config: Any = {"configurable": {"thread_id": "t"}}
    with tempfile.TemporaryDirectory() as folder, NoveloSaver.from_conn_string(f"sqlite:///{folder}/a.db") as saver:
        layer = MemoryMiddleware("window:10turns", memory=saver, prune_state=True)
        agent = create_agent(Instant(), [], checkpointer=saver, middleware=[layer])
        laps = []
        for k in range(count):
            started = time.process_time()
            agent.invoke({"messages": [HumanMessage(QUESTION.format(k=k))]}, config)
            laps.append(1000 * (time.process_time() - started))
        state = len(agent.get_state(config).values["messages"])
        said = len(saver.transcript("t"))
    return statistics.median(laps[10:40]), statistics.median(laps[-30:]), state, said


def added(count: int) -> float:
    """CPU in ms that the middleware adds to a call on a state of so many turns."""
    messages: list[Any] = []
    for k in range(count):
        messages += [HumanMessage(QUESTION.format(k=k), id=f"h{k}"), AIMessage(ANSWER, id=f"a{k}")]
    messages.append(HumanMessage("E agora?", id="last"))
    layer = MemoryMiddleware("window:10turns")
    runtime = SimpleNamespace(context=None, store=None, stream_writer=None)
    request = ModelRequest(
        model=Instant(), messages=messages, system_message=None, tools=[], tool_choice=None, response_format=None,
        state={"messages": messages}, runtime=runtime, model_settings={},
    )  # fmt: skip
    answer = ModelResponse(result=[AIMessage("Sim.")])
    laps = []
    for _ in range(60):
        started = time.process_time()
        layer.wrap_model_call(request, lambda _: answer)
        laps.append(1000 * (time.process_time() - started))
    return statistics.median(laps[10:])


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    given = parser.parse_args()
    early, late, state, said = turns(given.turns)
    more = added(given.turns)
    print(f"a turn with prune_state: {early:.2f} ms early, {late:.2f} ms at {given.turns} turns")
    print(f"messages in the state {state}, in the transcript {said}")
    print(f"ratio {late / early:6.2f}  (at most {LATE})")
    print(f"added to a model call at {given.turns} turns {more:6.2f} ms  (at most {ADDED_MS})")
    return int(late / early > LATE or more > ADDED_MS)


if __name__ == "__main__":
    sys.exit(main())
