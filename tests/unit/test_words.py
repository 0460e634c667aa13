"""How texts are cut into words and stems, for every index alike."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo.words import EMPTY, folded, query_stems, stems, words


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("O reembolso já foi concluído?", "pt", ["reembols", "conclu"]),
        ("As devoluções e a devolução", "pt", ["devolu", "devolu"]),
        ("Las reservaciones, la reservación", "es", ["reserv", "reserv"]),
        ("The refunds were refunded", "en", ["refund", "refund"]),
        ("可以退货", "zh", ["退", "货", "以退", "退货"]),
        ("Rückerstattung in 14 Tagen", "de", ["ruckerstattung", "14", "tagen"]),
    ],
)
def test_stems_are_what_a_text_is_about(text, language, expected):
    """Endings go by the language's rules, empty words go whatever the language."""
    assert stems(text, language) == expected


@given(st.text(max_size=60), st.sampled_from(["pt", "en", "es", "zh", "fr", None]))
def test_accents_and_case_make_no_difference(text, language):
    """What is typed without accents has the stems of what is typed with them."""
    bare = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    assert stems(folded(text), language or "en") == stems(text, language or "en")
    assert words(folded(bare)) == words(bare)


@pytest.mark.parametrize("word", ["informações", "reembolsos", "devolução", "prazos", "cartões", "pagamento"])
def test_a_portuguese_question_meets_its_text(word):
    """A word of a question, with or without its accents, has the stem of a text's word among its alternatives."""
    known = stems(word, "pt")[0]
    assert known in query_stems(word)[0]
    assert known in query_stems(folded(word))[0]


@given(st.text(max_size=80))
def test_a_question_in_the_words_of_a_text_finds_them_all(text):
    """Each word of a question has one of its alternatives among the stems of the same text, in whatever language."""
    for language in ("pt", "en", "es", "zh"):
        known = set(stems(text, language))
        assert all(known & set(alternatives) for alternatives in query_stems(text))


def test_empty_words_are_folded():
    """The list is compared with folded words, so it must hold folded ones."""
    assert all(folded(word) == word for word in EMPTY)
