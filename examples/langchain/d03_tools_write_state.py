"""03: a tool writes the state by `Command` with its message, another tool reads it; the user comes with the context."""

from __future__ import annotations

from dataclasses import dataclass

from _scripted import calls, chat_model, result
from langchain.agents import AgentState, create_agent
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.types import Command

from novelo.integrations.langgraph import NoveloSaver

USERS = {"user_123": "韩梅梅"}


@dataclass
class Context:
    """What a run is given beside the messages."""

    user_id: str


class State(AgentState):
    """The talk, and the user's name."""

    user_name: str


@tool
def look_up_user(runtime: ToolRuntime[Context, State]) -> Command:
    """Look the user up, and keep the name."""
    name = USERS.get(runtime.context.user_id, "unknown")
    noted = ToolMessage("user looked up", tool_call_id=runtime.tool_call_id)
    return Command(update={"user_name": name, "messages": [noted]})


@tool
def greet(runtime: ToolRuntime[Context, State]) -> str:
    """Greet the user by name."""
    return f"你好，{runtime.state['user_name']}！"


def rule(messages):
    """Looks the user up, then greets."""
    if result(messages) == "user looked up":
        return calls("greet")
    return result(messages) or calls("look_up_user")


def main() -> None:
    with NoveloSaver.from_conn_string("sqlite:///tools.db") as saver:
        agent = create_agent(
            chat_model(rule), [look_up_user, greet], state_schema=State, context_schema=Context, checkpointer=saver
        )
        config = {"configurable": {"thread_id": "one"}}
        state = agent.invoke({"messages": [HumanMessage("问候用户")]}, config, context=Context("user_123"))
        print("greeting:", state["messages"][-1].text)
        print("messages:", [m.type for m in state["messages"]])


if __name__ == "__main__":
    main()
