"""Memory and context for chatbots: buffer, window, summary, saving as JSON, and what each costs.

The three memories are three policies over one transcript; changing one's mind loses nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

from _scripted import asked, chat_model, found

import novelo
from novelo.models.langchain import LangChainModel


def rule(messages):
    """Summarizes by naming the name, and knows it while it is among what it was sent."""
    if messages[-1].text.startswith(("This is the conversation:", "These are the former notes")):
        name = found(messages, r"[Mm]eu nome é (\w+)") or found(messages, r"chama-se (\w+)")
        return f"O usuário chama-se {name} e fez várias perguntas ao assistente."
    if "meu nome" in asked(messages) and "?" in asked(messages):
        name = found(messages, r"[Mm]eu nome é (\w+)") or found(messages, r"chama-se (\w+)")
        return f"Seu nome é {name}." if name else "Não sei o seu nome."
    return f"Resposta para: {asked(messages)}"


def talk(policy: str, rounds: int = 12) -> tuple[int, str]:
    """A chat under a policy: the input tokens of all calls, and whether the name is known at the end."""
    model = LangChainModel(chat_model(rule))
    with novelo.open("sqlite://", policy=policy, summarizer=model, worker="off") as memory:
        thread = memory.thread("chat")
        questions = ["Meu nome é Bia.", *(f"Conte algo sobre o tema {n}" for n in range(rounds)), "Qual é o meu nome?"]
        for question in questions:
            with thread.turn(question) as turn:
                answer = turn.ask(model)
            memory.work()  # what a worker does after the reply
        return thread.usage().total.input, answer.text


def load(memory, path: str, thread_id: str):
    """A thread from a file as the tutorials save it; a file that is not there is an empty memory."""
    if Path(path).exists():
        memory.import_file(path, thread_id=thread_id)
    return memory.thread(thread_id)


def main() -> None:
    for policy in ["buffer", "window:5turns", "summarize:12messages,keep=4"]:
        tokens, answer = talk(policy)
        print(f"{policy}: {tokens} input tokens, {answer}")

    model = LangChainModel(chat_model(rule))
    with novelo.open("sqlite://") as memory:
        with memory.thread("um").turn("Meu nome é Bia.") as turn:
            turn.ask(model)
        memory.thread("um").export_file("chat.json", kind="simple")
        print("saved:", sorted(json.loads(Path("chat.json").read_text("utf-8"))))
        thread = load(memory, "chat.json", "dois")
        with thread.turn("Qual é o meu nome?") as turn:
            print("loaded from JSON:", turn.ask(model).text)
        print("a missing file:", len(load(memory, "missing.json", "tres")), "messages")


if __name__ == "__main__":
    main()
