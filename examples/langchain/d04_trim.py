"""04: trim: keep the first message and the last 3 if their count is even, else the last 4; pairs stay together.

Once as the tutorials do it, in the state; and once by a policy, which leaves the state alone.
"""

from __future__ import annotations

from _scripted import asked, calls, chat_model, found, result, seen
from langchain.agents import create_agent
from langchain.agents.middleware import before_model
from langchain.tools import tool
from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

import novelo
from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver


@before_model
def first_and_recent(state, runtime):
    """The trim in the state."""
    messages = state["messages"]
    if len(messages) <= 3:
        return None
    recent = messages[-3:] if len(messages) % 2 == 0 else messages[-4:]
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), messages[0], *recent]}


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 25°C"


def rule(messages):
    """Asks for the weather, and knows the name while it is among what it was sent."""
    if result(messages):
        return result(messages)
    if "天气" in asked(messages):
        return calls("weather", city="北京")
    name = found(messages, r"我叫(?!什么)(\w+)")
    return f"你叫{name}。" if "叫什么" in asked(messages) and name else "好的。"


def talk(layers, saver, thread_id: str):
    """The same talk with other middleware."""
    model = chat_model(rule)
    agent = create_agent(model, [weather], middleware=layers, checkpointer=saver)
    for text in ["你好，我叫小明", "写一首诗", "天气怎么样？", "再写一首", "我叫什么？"]:
        state = agent.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread_id}})
    return model, state["messages"]


def main() -> None:
    with NoveloSaver.from_conn_string("sqlite:///trim.db") as saver:
        # MemoryMiddleware behind the trim mends on the wire what a trim by count may part.
        model, messages = talk([MemoryMiddleware("buffer"), first_and_recent], saver, "state")
        broken = sum(bool(novelo.check(sent, "openai")) for sent in seen(model))
        print("trimmed state:", len(messages), "messages |", messages[-1].text, "| broken requests:", broken)
        print("transcript:   ", len(saver.transcript("state")), "messages")

        model, messages = talk([MemoryMiddleware("ends:first=1,last=3")], saver, "policy")
        broken = sum(bool(novelo.check(sent, "openai")) for sent in seen(model))
        print("by a policy:  ", len(messages), "messages |", messages[-1].text, "| broken requests:", broken)


if __name__ == "__main__":
    main()
