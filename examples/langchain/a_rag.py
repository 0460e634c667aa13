"""Conversational RAG: condense, retrieve, answer. Print the rewritten question first when an answer is wrong."""

from __future__ import annotations

from _scripted import asked, chat_model
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever

from novelo.integrations.langgraph import NoveloSaver, create_conversational_rag_graph

DOCUMENTS = [
    Document("Cobrança em duplicidade: o reembolso é feito em até 5 dias úteis.", metadata={"source": "cobranca.md"}),
    Document("Reembolso de cobrança paga com Pix: o valor volta à conta de origem.", metadata={"source": "pix.md"}),
    Document("Se eu tiver de pausar a conta: abra o perfil e escolha Pausar.", metadata={"source": "conta.md"}),
]
EMPTY_WORDS = "a o e é em de da do que com por um uma à ao qual foi mesmo"
EMPTY = frozenset(EMPTY_WORDS.split())


class Shelf(BaseRetriever):
    """The documents with the most words in common; any retriever of LangChain can stand here."""

    def _get_relevant_documents(self, query: str, *, run_manager) -> list[Document]:
        words = {w.strip(".,:?") for w in query.lower().split()} - EMPTY
        scored = [(len(words & {w.strip(".,:") for w in d.page_content.lower().split()}), d) for d in DOCUMENTS]
        return [d for score, d in sorted(scored, key=lambda pair: -pair[0]) if score][:1]


REWRITTEN = {
    "E se eu tiver pago com Pix?": "Como é o reembolso da cobrança paga com Pix?",
    "Qual foi mesmo o prazo?": "Qual é o prazo do reembolso da cobrança em duplicidade?",
}


def rule(messages):
    """Rewrites two questions, and else quotes the first passage that it was given, behind its source."""
    text = asked(messages)
    if text.startswith("The conversation:"):
        question = text.rpartition("> ")[2]
        return REWRITTEN.get(question, question)
    quoted = [line[2:] for line in text.splitlines() if line.startswith("> ")]
    return f"{quoted[1]} [1]" if quoted else "Não encontrei isso nos documentos."


def main() -> None:
    model = chat_model(rule)
    with NoveloSaver.from_conn_string("sqlite:///nuvem.db") as saver:
        graph = create_conversational_rag_graph(model, Shelf(), 10, saver)
        for thread_id, question in [
            ("caso-1", "Fui cobrado em duplicidade. E o reembolso?"),
            ("caso-1", "E se eu tiver pago com Pix?"),
            ("caso-1", "Qual foi mesmo o prazo?"),
            ("caso-2", "E se eu tiver pago com Pix?"),
            ("caso-3", "Como funciona em Marte?"),
        ]:
            config = {"configurable": {"thread_id": thread_id}}
            state = graph.invoke({"messages": [HumanMessage(question)]}, config)
            answer = state["messages"][-1]
            print(f"{thread_id} | {question}")
            print("  searched:", state["standalone_question"])
            print("  answer:  ", answer.text)
            print("  sources: ", [p.get("source") for p in answer.response_metadata["sources"]])
        talk = graph.get_state({"configurable": {"thread_id": "caso-1"}}).values["messages"]
        print("messages:", len(talk), "| passages among them:", sum("> " in m.text for m in talk))


if __name__ == "__main__":
    main()
