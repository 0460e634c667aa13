"""Support: one scale for whether a passage can carry an answer, by words and by vectors, alone and as a follow-up."""

from __future__ import annotations

import pytest

import novelo
from novelo.retrievers.support import ENOUGH, Own, own_words
from novelo.words import query_stems

FAQ = [
    {
        "text": "O prazo do reembolso de uma cobrança em duplicidade é de 5 dias úteis.",
        "section": "Cobrança",
        "source": "a",
    },
    {"text": "Pague com Pix pelo aplicativo do banco.", "section": "Pix", "source": "b"},
    {"text": "A garantia dos móveis é de dois anos.", "section": "Garantia", "source": "c"},
    {"text": "密码忘了可以点击忘记密码。", "section": "密码", "source": "d"},
]


@pytest.fixture
def docs():
    """A small collection that is searched by words alone."""
    with novelo.open("memory://", worker="off") as memory:
        found = memory.documents(embedder=None)
        found.add(FAQ, vectors="later")
        yield found


def best(docs, queries):
    """The support of the best passage; 0 if none was found."""
    return max((p["support"] for p in docs.search(queries)), default=0.0)


@pytest.mark.parametrize(
    ("question", "enough"),
    [
        ("Qual é o prazo do reembolso?", True),
        ("qual e a garantia dos moveis", True),
        ("我忘记密码了", True),
        ("Quem escreveu Dom Casmurro?", False),
        ("Qual é a garantia de um foguete espacial soviético para crianças?", False),
        ("西湖有多大?", False),
        ("🙂", False),
    ],
)
def test_a_question_has_support_where_its_words_stand_in_a_passage(docs, question, enough):
    """Enough of what a question is about must stand in one passage, also without accents or without spaces."""
    assert (best(docs, question) >= ENOUGH) is enough


def test_a_follow_up_is_measured_by_its_own_words(docs):
    """Former turns find passages for any follow-up; one whose own words nobody wrote finds no support."""
    former = ("Qual é o prazo do reembolso da cobrança?", 0.3)
    assert best(docs, [("E se eu tiver pago com Pix?", 1.0), former]) >= ENOUGH
    assert best(docs, [("E então?", 1.0), former]) >= ENOUGH  # only leans
    assert docs.search([("E a distância até Saturno?", 1.0), former])
    assert best(docs, [("E a distância até Saturno?", 1.0), former]) < ENOUGH


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("Vocês vendem pneus?", "Eles não vendem dados."),
        ("Do you sell tyres?", "We sell no data."),
        ("付款 轮胎?", "付款的方式。"),
    ],
)
def test_half_of_a_follow_ups_words_is_not_enough(question, passage):
    """A word that the collection has somewhere carries no other subject; where it has them all the former turns do."""
    asked, former = [(question, 1.0), ("o prazo do reembolso", 0.4)], ["O prazo do reembolso é de 5 dias."]
    first, *others = map(tuple, query_stems(question))
    half = own_words(asked, {first: 1}, 50)
    assert half.known == 0.5 and half.support(former, None) < ENOUGH <= half.support([passage], None)
    assert own_words(asked, dict.fromkeys([first, *others], 1), 50).support(former, None) >= ENOUGH


def test_cosines_count_with_the_words():
    """The nearer the vectors, the fewer words must agree; support stays between 0 and 1."""
    own = own_words([("prazo do reembolso", 1.0)], {tuple(w): 1 for w in query_stems("prazo reembolso")}, 50)
    few = own.support(["o prazo"], 0.05)
    assert few < own.support(["o prazo"], 0.3) < own.support(["o prazo do reembolso"], 0.3) <= 1.0
    assert own.support(["nada"], -0.9) == 0.0 and own.support(["nada"], 0.5) >= ENOUGH
    assert Own(()).support(["nada"], None) == 0.0


def test_pairs_with_an_empty_sign_count_less():
    """要多 of 退款要多久 says little of the question, 退款 much."""
    own = own_words([("退款要多久", 1.0)], {}, 50)
    weights = {stems[0]: weight for stems, weight in own.words}
    assert weights["退款"] > 3 * weights["款要"] > 0 and own.known == 0.0 and not own.follows
