"""Memory and history with LangGraph: the assistant of the cloud service "Nuvem".

Two turns in one thread, two threads that never mix, and a window over the history. Only the new message is given; the
checkpointer knows the rest, in a file.
"""

from __future__ import annotations

from _scripted import asked, chat_model, found, seen
from langchain_core.messages import HumanMessage

from novelo.integrations.langgraph import NoveloSaver, create_chat_graph


def rule(messages):
    """Greets by name, and knows the name while it is among what it was sent."""
    if "qual é o meu nome" in asked(messages).lower():
        name = found(messages, r"[Mm]eu nome é (\w+)\.")
        return f"Seu nome é {name}." if name else "Não sei o seu nome."
    name = found(messages[-1:], r"[Mm]eu nome é (\w+)")
    return f"Olá, {name}! Como posso ajudar?" if name else "Entendi."


def thread(thread_id: str) -> dict:
    """The configuration of a thread."""
    return {"configurable": {"thread_id": thread_id}}


def say(graph, text: str, thread_id: str) -> dict:
    """One turn: the graph is given the new message only."""
    state = graph.invoke({"messages": [HumanMessage(text)]}, thread(thread_id))
    print(f"{thread_id} | {text} -> {state['messages'][-1].text}")
    return state


def main() -> None:
    model = chat_model(rule)
    with NoveloSaver.from_conn_string("sqlite:///nuvem.db") as saver:
        graph = create_chat_graph(model, 10, saver, system="Você é o assistente da Nuvem. Responda em português.")
        say(graph, "Meu nome é Ana.", "ana")
        state = say(graph, "Qual é o meu nome?", "ana")
        print("messages in the state:", len(state["messages"]))

        for number in range(5):
            first = say(graph, f"mensagem {number}", "a")
        second = say(graph, "Qual é o meu nome?", "b")
        print("messages in a and b:", len(first["messages"]), len(second["messages"]))

        short = create_chat_graph(model, 4, saver)
        say(short, "e agora?", "a")
        for sent in seen(model)[-1:]:
            print("sent with max_messages=4:", [m.type for m in sent])


if __name__ == "__main__":
    main()
