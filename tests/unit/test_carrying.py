"""What a follow-up carries over without a model: which words, with which weight, and nothing that is masked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import novelo
from novelo.carrying import READ, REPLIES, WORDS, carried, found_nothing, rewritten_queries, telling, unread_first
from novelo.messages import Message
from novelo.models.base import drive
from novelo.models.offline import Offline
from novelo.retrieval import NOT_FOUND, condense
from novelo.testing import ScriptedModel
from novelo.words import stems

FIELD_CASES = Path(__file__).parents[3] / "shared" / "field-cases.jsonl"
TALKS = [
    ("pt", ["Como devolvo um tênis?", "Nos Correios, com o código."], "E se paguei com Pix?", "tênis"),
    ("en", ["Who built the Eiffel Tower?", "The engineer Gustave Eiffel did, in 1889."], "How tall is it?", "Eiffel"),
    ("es", ["¿Cómo llego al Museo del Prado?", "En metro hasta Banco de España."], "¿Y cuánto cuesta?", "Prado"),
    ("zh", ["请介绍一下故宫。", "故宫建于明朝永乐年间。"], "它的面积有多大?", "故宫"),
    ("ja", ["京都の金閣寺について教えて。", "金閣寺は1397年に建てられました。"], "そこはいくらですか？", "金閣寺"),
]  # fmt: skip


def talk(*texts: str) -> list[Message]:
    """A history: user and assistant by turns."""
    return [Message("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(texts)]


@pytest.mark.parametrize(("language", "history", "question", "subject"), TALKS)
def test_a_follow_up_carries_its_subject(language, history, question, subject):
    """In each language the question comes first with weight 1, and the subject is among the rest with less."""
    found = carried(talk(*history), question)
    assert found.queries[0] == (question, 1.0)
    assert any(subject in text and 0 < weight < 1 for text, weight in found.queries[1:])
    assert found.text.startswith(question) and subject in found.text


def test_nearer_turns_and_the_first_one_weigh_more():
    """A question far back weighs less than a near one; the first keeps its weight, for it names the subject."""
    said = ["um navio", "sim um", "dois trens", "sim dois", "três carros", "sim três", "quatro motos", "sim quatro"]
    weights = dict(carried(talk(*said), "e isso?").queries)
    assert weights["quatro motos"] > weights["três carros"] > weights["dois trens"]
    assert weights["um navio"] > weights["quatro motos"]
    assert weights["quatro"] > weights["três"] > weights["dois"] and "um" not in weights


def test_a_question_that_leans_carries_more():
    """Few words and a pronoun lean on the talk; a longer question without one brings its own subject."""
    history = talk("Quem pintou Abaporu?", "Tarsila do Amaral pintou Abaporu.")
    weights = [dict(carried(history, asked).queries)["Quem pintou Abaporu?"] for asked in (
        "Quando ela nasceu?", "Onde fica?", "Quais museus brasileiros guardam quadros modernistas famosos?"
    )]  # fmt: skip
    assert weights == [0.45, 0.3, 0.21]


def test_a_first_question_has_nothing_to_carry():
    """Without a history the question is alone, and so is the readable text."""
    found = carried([], "Qual é o prazo?")
    assert found.queries == (("Qual é o prazo?", 1.0),) and found.text == "Qual é o prazo?"


def test_names_of_the_answer_count_once_more():
    """Names within the newest answer are a query of their own."""
    found = carried(talk("Who wrote it?", "It was the poet Cecília Meireles."), "When?")
    assert ("Cecília Meireles", 0.1) in found.queries


def test_telling_words_are_those_said_often_and_names():
    """What is said twice comes first, then names; empty words are none."""
    text = "The old bridge was of wood. A bridge of stone was built by Marconi, and it still is there."
    assert telling(text)[:2] == ["bridge", "Marconi"]
    assert not {"the", "was", "and", "it"} & {word.lower() for word in telling(text)}
    assert telling("西湖在唐宋两代经过多次疏浚。")[0] == "西湖"


def test_beside_a_rewritten_question_the_rest_weighs_less():
    """A rewriting is searched first; the user's words and what they lean on stay with less weight."""
    kept = carried(talk("Um navio grande?", "Sim, um navio."), "E o outro?")
    found = rewritten_queries("E o outro navio?", kept)
    assert found[0] == ("E o outro navio?", 1.0) and dict(found)["E o outro?"] == 0.3
    assert dict(found)["Um navio grande?"] == dict(kept.queries)["Um navio grande?"] / 2


@given(st.lists(st.text(max_size=200), max_size=12), st.text(min_size=1, max_size=80))
def test_any_history_gives_a_bounded_search(texts, question):
    """Whatever was said: the question first, weights in (0, 1], no empty text, and not too many."""
    found = carried(talk(*texts), question)
    assert found.queries[0] == (question, 1.0)
    assert all(text and 0 < weight <= 1 for text, weight in found.queries)
    assert len(found.queries) <= 1 + 5 + 2 * REPLIES and found.text.startswith(question)


@given(st.text(max_size=400))
def test_telling_words_stand_in_the_text(text):
    """No word is made up, none comes twice by its stem, and there are at most so many."""
    words = telling(text)
    assert all(word in text for word in words) and len(words) == len(set(words)) <= WORDS


def test_a_huge_message_is_read_in_part():
    """Of a message of a megabyte only the head is looked at."""
    found = carried(talk("pedido " * 200_000, "resposta " * 200_000), "e isso?")
    assert max(len(text) for text, _ in found.queries) <= READ


# ------------------------------------------------------------------------------------------------ what was read
def test_what_was_just_read_goes_behind():
    """A passage that an answer of the thread holds word for word comes last; of a paraphrase that is not said."""
    read, other = {"text": "O prazo é de cinco dias úteis."}, {"text": "Com Pix o prazo é de um dia."}
    history = talk("Qual é o prazo?", "Olá! O prazo é de cinco dias úteis.")
    assert unread_first([read, other], history) == [other, read]
    assert unread_first([read, other], talk("Qual é o prazo?", "São cinco dias.")) == [read, other]
    assert unread_first([read], history, 1) == [read] and unread_first([read, other], [], 1) == [read]


def test_the_best_of_what_was_read_keeps_the_last_place():
    """Of passages among the best that were read one stays, even if enough others were found."""
    read = [{"text": f"A garantia número {n} cobre defeitos."} for n in (1, 2)]
    others = [{"text": f"Nota {n} sobre trocas."} for n in range(9)]
    history = talk("E a garantia?", " ".join(p["text"] for p in read))
    assert unread_first([*read, *others], history, 5) == [*others[:4], read[0]]


@given(st.lists(st.text(max_size=30), max_size=8), st.lists(st.text(max_size=60), max_size=6))
def test_without_a_limit_no_passage_is_lost(texts, said):
    """The passages that come out are those that went in."""
    passages = [{"text": text, "source": str(n)} for n, text in enumerate(texts)]
    found = unread_first(passages, talk(*said))
    assert sorted(p["source"] for p in found) == [str(n) for n in range(len(texts))]


# ------------------------------------------------------------------------------------------------ the decision
@pytest.mark.parametrize(
    ("history", "question", "replies", "decision", "first"),
    [
        ([], "E com Pix?", [], "first message", "E com Pix?"),
        (["My bike is blue.", "Nice."], "Where is the port of Lima?", [], "stands alone", "Where is the port of Lima?"),
        (["Há juros?", "Sim."], "E com Pix?", ["Há juros com Pix?"], "rewritten", "Há juros com Pix?"),
        (["Há juros?", "Sim."], "E com Pix?", ["E com Pix?"], "unchanged", "E com Pix?"),
        (["Há juros?", "Sim."], "E com Pix?", ["Com Pix não há."], "refused: not a question", "E com Pix?"),
        (["Há juros?", "Sim."], "E com Pix?", [OSError()], "refused: the model failed: OSError", "E com Pix?"),
    ],
)  # fmt: skip
def test_what_was_decided_can_be_read(history, question, replies, decision, first):
    """Each way to a query says how it came about, and the effective query is the first."""
    model = ScriptedModel(replies)
    found = drive(condense(talk(*history), question), model)
    assert (found.decision, found.weighted[0], found.calls) == (decision, (first, 1.0), len(replies))
    assert len(found.weighted) > 1 or decision in ("first message", "stands alone")


def test_without_asking_the_topic_is_carried():
    """Where no model is to be asked none is, and the former turns are among the queries."""
    found = drive(condense(talk("Como devolvo um tênis?", "Nos Correios."), "E se for presente?", ask=False), None)
    assert (found.decision, found.calls, found.rewritten, found.standalone) == (
        "carried",
        0,
        False,
        "E se for presente?",
    )
    assert "Como devolvo um tênis?" in dict(found.weighted) and "tênis" in found.queries[0]


def test_in_a_shared_room_nothing_of_others_is_carried():
    """What others said, and what they were told, is in no query."""
    history = [
        Message("user", "How do I rotate the keys?", name="lea"), Message("assistant", "In the console."),
        Message("user", "Is my diagnosis common?", name="max"), Message("assistant", "The diagnosis is rare."),
    ]  # fmt: skip
    found = drive(condense(history, Message("user", "And how often?", name="lea"), may_see=["lea"], ask=False), None)
    told = " ".join([found.readable, *(text for text, _ in found.weighted)])
    assert "diagnosis" not in told and "keys" in told


def test_what_a_policy_masks_is_not_carried():
    """A masked word reaches no search either."""
    history = talk("minha senha: abacaxi99, e o pedido de tênis?", "Anotado o pedido de tênis.")
    found = drive(condense(history, "E agora?", policy="window:6turns + redact:secrets", ask=False), None)
    assert "abacaxi99" not in str(found.weighted) + found.readable and "tênis" in found.readable


# ------------------------------------------------------------------------------------------------ from the field
WALL = ["介绍一下长城的历史。", "长城在明代大规模修建。"]
FIELD = [
    ("an answer", ["Quem compôs Garota de Ipanema?", "Tom Jobim."], "E quando nasceu?", "Ele nasceu em 1927.", "Jobim"),
    ("talk around", WALL, "它有多长?", "好的,独立的问题是:长城有多长?\n(我认为是总长度)", "长城"),
    ("another language", WALL, "它有多长?", "How long is the Great Wall?", "长城"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "history", "question", "reply", "subject"), FIELD)
def test_bad_rewritings_never_become_the_query(what, history, question, reply, subject):
    """An answer, talk and another language: what is searched is a question of the user's, with its subject."""
    found = drive(condense(talk(*history), question), ScriptedModel([reply]))
    best = found.weighted[0][0]
    assert best.rstrip().endswith(("?", "？")) and "\n" not in best and reply != best
    assert any(subject in text for text, _ in found.weighted) and question in dict(found.weighted)


@pytest.mark.skipif(not FIELD_CASES.exists(), reason="the collection of field cases is not here")
def test_all_cases_from_the_field():
    """Every case of a condensed question: nothing refused, of nobody else, and no needless call."""
    cases = [json.loads(line) for line in FIELD_CASES.read_text(encoding="utf-8").splitlines()]
    cases = [case for case in cases if case["kind"] == "condense"]
    assert cases
    for case in cases:
        *history, question = case["messages"]
        how = case["operation"]
        replies = [how["reply_of_model"]] if "reply_of_model" in how else []
        model = ScriptedModel(replies or [RuntimeError("none")])
        found = drive(condense(history, question, may_see=how.get("may_see")), model)
        best, told = found.weighted[0][0], " ".join(text for text, _ in found.weighted)
        assert not any(reply.strip() in told for reply in replies)
        assert question["content"] in told and best.rstrip().endswith(("?", "？"))
        if found.decision == "stands alone":
            assert model.requests == [] and found.weighted == ((question["content"], 1.0),)
        else:
            assert set(stems(history[0]["content"])) & set(stems(told))
        for other in history:
            if other.get("name") not in (None, *how.get("may_see", [other.get("name")])):
                assert not set(stems(other["content"])) & set(stems(told))
    assert "stands alone" in {
        drive(condense(c["messages"][:-1], c["messages"][-1], ask=False), None).decision for c in cases
    }


# ------------------------------------------------------------------------------------------------ with a search
SHELF = [
    "Devolução de tênis: o que foi pago com Pix volta à conta em um dia.",
    "Assinatura de revista: pagamento com Pix todo mês.",
    "Estacionamento: aceita Pix na saída.",
    "故宫的面积约七十二万平方米。", "西湖的面积约六平方公里。", "颐和园的面积约三平方公里。",
    "La entrada al Museo del Prado cuesta quince euros.", "La entrada al acuario cuesta veinte euros.",
    "La entrada al parque cuesta dos euros.",
    "金閣寺の拝観料は五百円です。", "水族館の料金は二千円です。", "動物園の料金は六百円です。",
]  # fmt: skip


@pytest.mark.parametrize(
    ("history", "question", "wanted"),
    [
        (["Como faço a devolução de um tênis?", "Leve aos Correios."], "E se eu tiver pago com Pix?", SHELF[0]),
        (["介绍一下西湖。", "西湖在杭州。"], "它的面积有多大?", SHELF[4]),
        (["¿Dónde está el acuario?", "Junto al puerto."], "¿Y cuánto cuesta la entrada?", SHELF[7]),
        (["動物園はどこですか？", "上野にあります。"], "料金はいくらですか？", SHELF[11]),
    ],
)
def test_the_follow_up_finds_its_document(history, question, wanted):
    """By words alone, in four languages: the document of the subject comes first."""
    with novelo.open("sqlite://", embedder=None, worker="off") as memory:
        shelf = memory.documents()
        shelf.add(SHELF)
        found = drive(condense(talk(*history), question, ask=False), None)
        assert shelf.search(list(found.weighted))[0]["text"] == wanted


def test_the_record_of_a_turn_tells_what_was_carried():
    """With the offline model no call rewrites; the decision and each query with its weight stand in the explanation."""
    with novelo.open("sqlite://", embedder=None, worker="off") as memory:
        shelf, model = memory.documents(), Offline()
        shelf.add(SHELF)
        thread = memory.thread("a")
        for question in ("Como faço a devolução de um tênis?", "E se eu tiver pago com Pix?"):
            with thread.turn(question) as turn:
                found = turn.answer(model, shelf)
        told = found.context.explain()
        assert "question: carried" in told and "searched: Como faço a devolução de um tênis? (× 0.45)" in told
        assert [call.purpose for call in thread.usage()] == ["reply", "reply"]
        assert "[1]" in told and ", score" in told


def test_what_names_nothing_is_not_carried():
    """A greeting is no first question; requests for more, thanks and "not found" are passed over, as if never said."""
    talk = [
        Message("user", "Como faço a devolução de um tênis?"), Message("assistant", "Leve o tênis aos Correios."),
    ]  # fmt: skip
    idle = [
        Message("user", "explique melhor"), Message("assistant", NOT_FOUND["pt"]), Message("user", "Muito obrigada!"),
    ]  # fmt: skip
    greeting = [Message("user", "Oi!"), Message("assistant", "")]
    found = [drive(condense(said, "E com Pix?", ask=False), None) for said in ([*greeting, *talk, *idle], talk)]
    assert found[0] == found[1] and found[0].weighted == carried(talk, "E com Pix?").queries
    assert drive(condense(greeting, "E com Pix?"), None).decision == "first message"
    model = ScriptedModel(["Como faço a devolução de um tênis com Pix?"])
    drive(condense([*greeting, *talk, *idle], "E com Pix?"), model)
    assert not any(word in str(model.requests[0].messages) for word in ("Oi!", "explique", "obrigada", "encontrei"))


@pytest.mark.parametrize(("nothing", "thanks"), [("pt", "Obrigada!"), ("zh", "谢谢"), ("en", "thank you")])
def test_the_newest_answer_may_be_that_nothing_was_found(nothing, thanks):
    """Thanks and what they were answered are passed over; an answer that tells something ends it."""
    lost = talk("Um navio?", "Sim.", "Uma baleia?", NOT_FOUND[nothing])
    assert found_nothing(lost) and found_nothing([*lost, *talk(thanks, "De nada!")])
    assert not found_nothing(lost[:2]) and not found_nothing([*lost, *talk("E um barco?", "Um.")])
    assert not found_nothing([])


@pytest.mark.parametrize(
    "reply",
    [
        "Nos documentos: «O valor da devolução volta em sete dias.» (Trocas, trocas.md) [1]",
        "In the documents: “O valor da devolução volta em sete dias.” (Trocas, trocas.md) [1]",
        "O valor da devolução volta em sete dias. [1, 2]",
    ],
)
def test_an_answer_speaks_of_what_it_quotes(reply):
    """The frame around a quotation, the place and the number of a passage are no topic."""
    history = talk("Como faço uma devolução?", reply)
    said = " ".join(text for text, _ in carried(history, "E com Pix?").queries[2:]).lower()
    assert "devolução" in said and "dias" in said
    assert not {"documentos", "documents", "trocas", "md", "1", "2"} & set(said.split())
