"""06: summarise at 500 tokens and keep 6 messages; "what is my name" still works, and nobody waits for the summary.

The tutorials' `SummarizationMiddleware(trigger=("tokens", 500), keep=("messages", 6))` replaces messages in the state
before the model is called. Here the state keeps all, and the summary is made after the reply.
"""

from __future__ import annotations

from _scripted import asked, chat_model, found, seen
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from novelo.context.summary import summarize
from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver


def rule(messages):
    """Summarizes by naming the name, answers by it, and else talks a lot."""
    if messages[-1].text.startswith(("This is the conversation:", "These are the former notes")):
        name = found(messages, r"我叫(?!什么)(\w+)") or found(messages, r"用户名叫(\w+)")
        return f"用户名叫{name}，喜欢诗歌，并请助手写了几首关于四季的诗。"
    if "叫什么" in asked(messages):
        name = found(messages, r"我叫(?!什么)(\w+)") or found(messages, r"用户名叫(\w+)")
        return f"你叫{name}。" if name else "我不知道。"
    return "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。" * 8


def main() -> None:
    model, writer = chat_model(rule), chat_model(rule)
    memory = MemoryMiddleware(summarize(("tokens", 500), ("messages", 6)), summarizer=writer)
    with NoveloSaver.from_conn_string("sqlite:///summary.db") as saver:
        agent = create_agent(model, [], middleware=[memory], checkpointer=saver)
        config = {"configurable": {"thread_id": "one"}}
        questions = [
            "你好，我叫小刚",
            "写一首春天的诗",
            "写一首夏天的诗",
            "写一首秋天的诗",
            "写一首冬天的诗",
            "谢谢",
            "我叫什么？",
        ]
        for text in questions:
            state = agent.invoke({"messages": [HumanMessage(text)]}, config)
            memory.wait()  # only so that this program prints the same each time
        print("answer:", state["messages"][-1].text)
        print("messages in the state:", len(state["messages"]))
        print("summary:", memory.summary("one").text)
        for sent in seen(model)[-1:]:
            print("messages sent:", len(sent))
        print("calls:", {purpose: total.calls for purpose, total in memory.usage("one").by("purpose").items()})


if __name__ == "__main__":
    main()
