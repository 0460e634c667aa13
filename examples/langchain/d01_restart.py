"""01: remember across a restart, from a file; another thread knows nothing."""

from __future__ import annotations

from _scripted import asked, chat_model, found
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from novelo.integrations.langgraph import NoveloSaver


def rule(messages):
    """Knows the name while it is among what it was sent."""
    if "叫什么" in asked(messages):
        name = found(messages, r"我叫(?!什么)(\w+)")
        return f"你叫{name}。" if name else "我不知道你的名字。"
    return "你好！"


def say(text: str, thread_id: str) -> str:
    """One turn in a program of its own: the saver is opened and closed."""
    with NoveloSaver.from_conn_string("sqlite:///restart.db") as saver:
        agent = create_agent(chat_model(rule), [], checkpointer=saver)
        state = agent.invoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread_id}})
        return state["messages"][-1].text


def main() -> None:
    print("first session: ", say("我叫李雷", "one"))
    print("after a restart:", say("我叫什么？", "one"))
    print("another thread: ", say("我叫什么？", "two"))


if __name__ == "__main__":
    main()
