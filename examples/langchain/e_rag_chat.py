"""RAG with memory in the terminal: questions about a document, follow-ups such as "explique melhor", saved and resumed.

"sair" or "exit" ends; an empty line is ignored; what the document does not say is not made up. With langchain-chroma
and an embedding, `Chroma.from_documents(...).as_retriever(search_kwargs={"k": 3})` stands in the place of `Shelf`.
"""

from __future__ import annotations

import sys

from _scripted import asked, chat_model
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever

from novelo.integrations.langgraph import NoveloSaver, create_conversational_rag_graph

DOCUMENT = """A bateria do robô dura oito horas e recarrega em duas.
O robô limpa pisos frios e tapetes baixos.
A garantia do robô é de dois anos, contados da compra."""


class Shelf(BaseRetriever):
    """Lines of the document with a word of the question in them."""

    k: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager) -> list[Document]:
        words = {w.strip("?.,").lower() for w in query.split() if len(w) > 4}
        lines = DOCUMENT.splitlines()
        hits = [n for n, line in enumerate(lines) if words & {w.strip(".,").lower() for w in line.split()}]
        return [Document(lines[n], metadata={"source": f"robo.txt:{n + 1}"}) for n in hits[: self.k]]


def rule(messages):
    """Rewrites "explique melhor" by the question before it, and quotes passages."""
    text = asked(messages)
    if text.startswith("The conversation:"):
        questions = [line[2:] for line in text.splitlines() if line.startswith("> ") and line.endswith("?")]
        return questions[-1] if questions else text.rpartition("> ")[2]
    quoted = [line[2:] for line in text.splitlines() if line.startswith("> ")]
    return f"{quoted[1]} [1]" if quoted else "Não encontrei isso nos documentos."


def main(lines=sys.stdin) -> None:
    with NoveloSaver.from_conn_string("sqlite:///robo.db") as saver:
        graph = create_conversational_rag_graph(chat_model(rule), Shelf(), 10, saver)
        config = {"configurable": {"thread_id": "terminal"}}
        kept = graph.get_state(config).values.get("messages", [])
        print(f"{len(kept)} messages from before. Type a question, or sair.")
        for line in lines:
            question = line.strip()
            if question.lower() in ("sair", "exit"):
                break
            if not question:
                continue
            state = graph.invoke({"messages": [HumanMessage(question)]}, config)
            print(f"> {question}\n{state['messages'][-1].text}")


if __name__ == "__main__":
    main()
