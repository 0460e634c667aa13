"""05: delete the two oldest messages by their ids after each answer; the transcript keeps them."""

from __future__ import annotations

from _scripted import chat_model
from langchain.agents import create_agent
from langchain.agents.middleware import after_model
from langchain_core.messages import HumanMessage, RemoveMessage

from novelo.integrations.langgraph import NoveloSaver


@after_model
def delete_oldest(state, runtime):
    """Remove the oldest two where there are more."""
    messages = state["messages"]
    return {"messages": [RemoveMessage(id=m.id) for m in messages[:2]]} if len(messages) > 2 else None


def main() -> None:
    with NoveloSaver.from_conn_string("sqlite:///delete.db") as saver:
        agent = create_agent(
            chat_model(lambda messages: f"{len(messages)} messages seen"),
            [],
            system_prompt="请简短回答。",
            middleware=[delete_oldest],
            checkpointer=saver,
        )
        config = {"configurable": {"thread_id": "one"}}
        for text in ["你好，我叫小红", "我喜欢猫", "我叫什么？"]:
            state = agent.invoke({"messages": [HumanMessage(text)]}, config)
            print("state:", [m.text for m in state["messages"]])
        print("transcript:", len(saver.transcript("one")), "messages")


if __name__ == "__main__":
    main()
