"""A collection of documents as LangChain's retriever, alone and in the RAG graph."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("langgraph")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver

import novelo
from novelo.integrations.langchain import NoveloRetriever
from novelo.integrations.langgraph import create_conversational_rag_graph
from scripted_chat import chat, thread

PASSAGES = [
    {"text": "Cobrança em duplicidade: o valor é devolvido em até 5 dias.", "source": "cobranca.md", "title": "Contas"},
    {"text": "Com Pix, o dinheiro volta à conta de onde saiu.", "source": "pix.md", "section": "Reembolso"},
    {"text": "Pausar a conta: menu Perfil, opção Pausar.", "source": "conta.md"},
]


@pytest.fixture
def docs(memory):
    """A collection of three passages."""
    handle = memory.documents("faq", owner="loja", embedder=None)
    handle.add(PASSAGES)
    return handle


def test_a_collection_is_a_retriever(docs):
    """It gives LangChain's documents with their source, headings and scores, and no more than k."""
    retriever = NoveloRetriever(documents=docs, k=1)
    assert isinstance(retriever, BaseRetriever)
    (found,) = retriever.invoke("cobranças duplicadas")
    assert isinstance(found, Document) and found.page_content == PASSAGES[0]["text"]
    assert found.metadata["source"] == "cobranca.md" and found.metadata["title"] == "Contas"
    assert found.metadata["score"] > 0
    assert retriever.invoke("girafa") == []
    assert asyncio.run(retriever.ainvoke("cobranças duplicadas")) == [found]


def test_the_awaited_handle_serves_too(url):
    """A retriever over `AsyncMemory`'s handle answers both ways."""

    async def work():
        async with novelo.open_async(url, clear_documents=True) as memory:
            handle = memory.documents(embedder=None)
            await handle.add(PASSAGES)
            retriever = NoveloRetriever(documents=handle)
            return [d.metadata["source"] for d in await retriever.ainvoke("pausar")]

    assert asyncio.run(work()) == ["conta.md"]


def test_langchain_embeddings_make_the_vectors(memory):
    """Any `Embeddings` of LangChain are accepted; the model's name is kept, and another one is an error."""
    handle = memory.documents(embedder=DeterministicFakeEmbedding(size=16))
    handle.add(PASSAGES, vectors="now")
    assert handle.row.vectors == 3 and (handle.row.model, handle.row.size) == ("DeterministicFakeEmbedding", 16)
    assert len(NoveloRetriever(documents=handle).invoke("girafa")) == 3
    fresh = memory.documents(embedder=DeterministicFakeEmbedding(size=8))
    with pytest.raises(novelo.IndexMismatch):
        fresh.search("pix")


def test_the_rag_graph_answers_from_a_collection(docs):
    """A follow-up is rewritten, finds its passage in the collection, and the answer names its source; both ways."""
    retriever = NoveloRetriever(documents=docs, k=2)
    better = "Como é devolvida a cobrança paga com Pix?"
    for asynchronous in (False, True):
        model = chat("Em até 5 dias [1].", better, "Volta à conta de onde saiu [1].")
        graph = create_conversational_rag_graph(model, retriever, 4, InMemorySaver())
        for question in ("Fui cobrado em duplicidade, e a cobrança?", "E se eu tiver pago com Pix?"):
            given = {"messages": [HumanMessage(question)]}
            state = asyncio.run(graph.ainvoke(given, thread("a"))) if asynchronous else graph.invoke(given, thread("a"))
        assert state["standalone_question"] == better
        assert state["messages"][-1].response_metadata["sources"][0]["source"] == "pix.md"
        assert "> Com Pix" in model.seen[-1][-1].text


def test_what_no_document_supports_is_asked_of_no_model(docs):
    """The support that a collection tells decides in the graph; with `enough=None` the model is asked."""
    docs.add([{"text": "A loja fica no Brasil e vende livros.", "source": "loja.md"}])
    question = "Quem descobriu o caminho do Brasil às ilhas vulcânicas?"
    retriever = NoveloRetriever(documents=docs)
    assert retriever.invoke(question)
    state = create_conversational_rag_graph(chat(), retriever).invoke({"messages": [HumanMessage(question)]})
    assert state["messages"][-1].text == "Não encontrei isso nos documentos."
    lenient = NoveloRetriever(documents=docs, enough=None)
    state = create_conversational_rag_graph(chat("Não sei."), lenient).invoke({"messages": [HumanMessage(question)]})
    assert state["messages"][-1].text == "Não sei."
