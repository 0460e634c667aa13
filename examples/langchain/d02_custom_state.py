"""02: fields of your own in the state: given in the first turn, read by a tool in later ones without passing them."""

from __future__ import annotations

from typing import Any

from _scripted import asked, calls, chat_model, result
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage

from novelo.integrations.langgraph import NoveloSaver


class State(AgentState):
    """The talk, whose it is, and what they like."""

    user_id: str
    preference: dict[str, Any]


@tool
def read_preference(runtime: ToolRuntime) -> str:
    """Read how the user wants to be addressed."""
    preference = runtime.state["preference"]
    return f"{runtime.state['user_id']}: {preference['language']}, {preference['address']}"


def rule(messages):
    """Looks the preference up when asked for it."""
    return result(messages) or (calls("read_preference") if "偏好" in asked(messages) else "好的。")


def main() -> None:
    config = {"configurable": {"thread_id": "one"}}
    with NoveloSaver.from_conn_string("sqlite:///state.db") as saver:
        agent = create_agent(chat_model(rule), [read_preference], state_schema=State, checkpointer=saver)
        given = {"user_id": "u-7", "preference": {"language": "zh", "address": "您"}}
        agent.invoke({"messages": [HumanMessage("你好")], **given}, config)
        for text in ["今天几号？", "我的偏好是什么？"]:
            state = agent.invoke({"messages": [HumanMessage(text)]}, config)
        print("read by the tool in turn 3:", state["messages"][-1].text)
        print("kept in the state:", state["user_id"], state["preference"])


if __name__ == "__main__":
    main()
