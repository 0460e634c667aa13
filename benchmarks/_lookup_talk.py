"""A support conversation that an agent answers, looking the order up in every third turn; the same on every run.

A question of some 117 characters, an answer of some 400, and in every third turn a call of `lookup_order` and its
result of some 616: 2.67 messages and 752 bytes a turn. zlib finds 3.8 to 1, as in talk of this kind; therefore some
words are made up.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

NAMES = ("Lívia", "Bruno", "Tânia", "César", "Inês", "Rui", "Sônia", "Júlio", "Elisa", "Nélson")
WORDS = (  # noqa: SIM905
    "order parcel delivery delay customer payment card refund discount coupon freight route stock store seller "
    "manager system password account message answer street door number neighbour region week yesterday tomorrow "
    "morning night before after during always never maybe almost nothing another first last new open closed broken "
    "wrong late urgent possible confirmed cancelled waiting sent returned arrived left said asked explained promised "
    "solved forgot cover fault repair piece battery packing label code bill receipt paper value price total rate "
    "limit balance lock"
).split()
OFTEN = 0.22  # that a sentence is one that support says again and again
MADE_UP = random.Random("words")
SYLLABLES = (
    "bra", "den", "fi", "gol", "lu", "mas", "ne", "pir", "ro", "sut", "ta", "vel", "con", "dis", "er", "ing", "kal",
    "om", "pul", "reg", "sten", "tur", "un", "wod",
)  # fmt: skip
WORDS += ["".join(MADE_UP.choices(SYLLABLES, k=MADE_UP.choice((2, 2, 3)))) for _ in range(900)]


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randrange(5, 12))).capitalize() + ". "


CANNED = [_sentence(MADE_UP) for _ in range(120)]


def _text(chance: random.Random, size: int) -> str:
    out = ""
    while len(out) < size:
        out += chance.choice(CANNED) if chance.random() < OFTEN else _sentence(chance)
    return out.strip()


class Turn:
    """One turn by its number: what is asked, answered, and looked up before."""

    def __init__(self, k: int) -> None:
        chance = random.Random(f"turn {k}")
        name, order = chance.choice(NAMES), chance.randrange(10**7, 10**8)
        self.question = f"This is {name}, about order {order}: {_text(chance, 53)}"
        self.answer = f"{name}, {_text(chance, 349)} Protocol {chance.randrange(1000, 9999)}."
        self.call = f"call_{chance.getrandbits(96):024x}" if k % 3 == 0 else None
        self.arguments = {"order_id": str(order), "include_events": True}
        events = [
            {"day": f"2026-05-{chance.randrange(1, 29):02}", "status": chance.choice(WORDS),
             "document": chance.randrange(10**4)}
            for _ in range(9)
        ]  # fmt: skip
        self.result = json.dumps({"order": order, "customer": name, "events": events}, ensure_ascii=False)

    def size(self) -> int:
        """Bytes of its texts and arguments: the least that anybody must keep."""
        texts = [self.question, self.answer, *([json.dumps(self.arguments), self.result] if self.call else [])]
        return sum(len(text.encode()) for text in texts)


@tool
def lookup_order(order_id: str, include_events: bool) -> str:
    """Look an order up."""
    return Answering.turn.result


class Answering(BaseChatModel):
    """A chat model that says what the turn says."""

    turn: Any = None

    @property
    def _llm_type(self) -> str:
        return "answering"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Answering:
        """Tools change nothing here."""
        return self

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        turn = Answering.turn
        if turn.call and messages[-1].type == "human":
            call = {"name": "lookup_order", "args": turn.arguments, "id": turn.call}
            message = AIMessage("", tool_calls=[call])
        else:
            message = AIMessage(turn.answer)
        return ChatResult(generations=[ChatGeneration(message=message)])


def agent(checkpointer: Any, state: Any = None) -> Any:
    """The agent, whose state may be of another class."""
    return create_agent(Answering(), [lookup_order], checkpointer=checkpointer, state_schema=state)


def say(graph: Any, turn: Turn, thread_id: str = "w") -> None:
    """Run an agent for one turn."""
    Answering.turn = turn
    graph.invoke({"messages": [HumanMessage(turn.question)]}, {"configurable": {"thread_id": thread_id}})
