"""From checkpointer to sliding window: state of your own, tools that write and read it, hooks around the model.

A tool writes the name by `Command`; two turns of small talk trigger the trim; the greeting tool still finds the name,
in the state. What the trim removes stays in the transcript, and a secret that is scrubbed from the state is in neither.
"""

from __future__ import annotations

import re

from _scripted import asked, calls, chat_model, result, seen
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import after_model, before_model, dynamic_prompt
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

import novelo
from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver


class State(AgentState):
    """The talk, and who is talking."""

    user_name: str


@tool
def remember_name(name: str, runtime: ToolRuntime) -> Command:
    """Remember the user's name (记住用户的名字)."""
    noted = ToolMessage(f"已记住：{name}", tool_call_id=runtime.tool_call_id)
    return Command(update={"user_name": name, "messages": [noted]})


@tool
def greet(runtime: ToolRuntime) -> str:
    """Greet the user by name (用名字问候用户)."""
    return f"你好，{runtime.state.get('user_name') or '朋友'}！"


@before_model
def trim(state, runtime):
    """Keep the first message and, from the end, at least three, the oldest of which is no tool result."""
    messages = state["messages"]
    if len(messages) <= 4:
        return None
    at = len(messages) - 3
    while at > 1 and messages[at].type == "tool":
        at -= 1
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), messages[0], *messages[max(1, at) :]]}


@after_model
def scrub(state, runtime):
    """Take keys out of what was said."""
    clean = [m.model_copy(update={"content": re.sub(r"sk-\w+", "[secret]", m.text)}) for m in state["messages"]]
    changed = [new for old, new in zip(state["messages"], clean, strict=True) if new.text != old.text]
    return {"messages": changed} if changed else None


@dynamic_prompt
def prompt(request) -> str:
    """The system prompt, by what the state knows."""
    name = request.state.get("user_name")
    return f"你是一个助手。用户叫{name}。" if name else "你是一个助手。"


def rule(messages):
    """Calls the two tools, and else makes small talk."""
    text = asked(messages)
    if result(messages):
        return result(messages)
    if match := re.search(r"我是(?:工程师)?(\w+)", text):
        return calls("remember_name", name=match[1])
    return calls("greet") if "打个招呼" in text else f"好的：{text}"


def main() -> None:
    model = chat_model(rule)
    with NoveloSaver.from_conn_string("sqlite:///window.db") as saver:
        layers = [MemoryMiddleware("buffer", memory=saver), prompt, trim, scrub]
        agent = create_agent(model, [remember_name, greet], state_schema=State, middleware=layers, checkpointer=saver)
        config = {"configurable": {"thread_id": "engineer"}}
        for text in ["我是工程师张三", "今天天气不错", "我的密钥是 sk-abc123", "给我打个招呼"]:
            state = agent.invoke({"messages": [HumanMessage(text)]}, config)
            print(f"{text} -> {state['messages'][-1].text}  ({len(state['messages'])} messages in the state)")
        for sent in seen(model)[-1:]:
            print("system prompt:", sent[0].text, "| violations:", len(novelo.check(sent, "openai")))
        said = saver.transcript("engineer")
        print("transcript:", len(said), "messages | secrets in it:", sum("sk-abc" in m.text for m in said))
        print("secrets in the state:", sum("sk-abc" in m.text for m in state["messages"]))


if __name__ == "__main__":
    main()
