"""Embedders that fail, or give something else than vectors: words still find what they find."""

from __future__ import annotations

import logging

import pytest

import novelo
from fix_documents import Meaning
from novelo.errors import ModelFailed
from novelo.retrievers.vectors import checked

numpy = pytest.importorskip("numpy")

BROKEN = {
    "raises": lambda texts: 1 / 0,
    "not a number": lambda texts: numpy.full((len(texts), 8), numpy.nan),
    "infinite": lambda texts: [[float("inf")] * 8] * len(texts),
    "one too few": lambda texts: numpy.ones((len(texts) - 1, 8)),
    "a single vector": lambda texts: numpy.ones(8),
    "vectors of nothing": lambda texts: numpy.ones((len(texts), 0)),
    "nothing": lambda texts: None,
    "texts": lambda texts: "abcd",
}
PASSAGES = ["Aceitamos pix.", "Troca em sete dias.", "O frete é grátis."]


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_a_search_goes_on_by_words(memory, meaning, broken, caplog):
    """A question whose vector nobody can make is searched by its words, as well as ever; that is told once."""
    by_words = memory.documents("faq", embedder=meaning)
    by_words.add(PASSAGES, vectors="now")
    found = by_words.search("aceitam pix?", keyword_only=True)
    meaning.queries = broken
    with caplog.at_level(logging.WARNING):
        assert [by_words.search("aceitam pix?") for _ in range(2)] == [found, found]
    assert [r.message for r in caplog.records if "the embedder failed" in r.message][1:] == []
    assert "collection 'faq' is searched by its words alone" in caplog.text


@pytest.mark.parametrize("broken", list(BROKEN.values())[1:], ids=list(BROKEN)[1:])
def test_nothing_broken_is_kept(memory, broken):
    """A batch with a vector that is none is refused whole, by the index and by a thread's job; a later one makes it."""
    meaning = Meaning()
    meaning.passages = broken
    docs = memory.documents("faq", embedder=meaning)
    with pytest.raises(ModelFailed, match="the embedder gave"):
        docs.add(PASSAGES, vectors="now")
    assert docs.row.vectors == 0 and docs.search("pix")
    assert memory.documents("faq", embedder=Meaning()).embed() == 3
    with novelo.open("memory://", embedder=meaning, worker="off") as opened:
        thread = opened.thread("t")
        thread.append([{"role": "user", "content": "Aceitam pix?"}])
        assert opened.work() == (0, 1)
        assert opened.store.vectors(thread.row, "meaning", 9) == []


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_recall_goes_on_by_words(broken):
    """A context with recall is composed whatever an embedder does with the question."""
    meaning = Meaning()
    with novelo.open("memory://", embedder=meaning, worker="off", policy="window:1turn + recall:1") as opened:
        thread = opened.thread("t")
        for n in range(12):
            about = "A gata é Filomena." if n == 3 else f"Fale do trem {n}."
            thread.append([{"role": "user", "content": about}, {"role": "assistant", "content": "Certo."}])
        opened.work()
        meaning.queries = broken
        assert "A gata é Filomena." in [m["content"] for m in thread.context("E Filomena?").messages()]


def test_vectors_of_any_length_become_one():
    """Lists and doubles are taken, lengths become 1, far beyond what 16 bits hold; a vector of zeros stays one."""
    found = checked([[3e30, 4e30], [0.0, 0.0], [1.0, 0.0]], 3)
    assert found.dtype == numpy.float32 and found.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [1, 0]]
