"""The built-in model: it quotes what it can see, in the user's language, and makes nothing up."""

import pytest

from novelo.models import ModelRequest
from novelo.models._names import given_name
from novelo.models._words import asks, language_of
from novelo.models.offline import Offline


def answer(*said, passages=(), history=()):
    """The last answer of a talk in which the user says these things."""
    messages = list(history)
    for text in said:
        messages.append({"role": "user", "content": text})
        reply = Offline().complete(ModelRequest(messages, passages=passages))
        messages.append({"role": "assistant", "content": reply.text})
    return messages[-1]["content"]


@pytest.mark.parametrize(
    ("told", "asked", "name"),
    [
        ("Meu nome é Ana.", "Qual é o meu nome?", "Ana"),
        ("oi, meu nome é ana e moro em Recife", "você sabe o meu nome?", "ana"),
        ("Eu me chamo João da Silva", "Quem sou eu?", "João da Silva"),
        ("我是工程师张三。", "我叫什么名字？", "张三"),
        ("我叫小明，今年三十岁", "我是谁？", "小明"),
        ("我的名字是李华", "你知道我的名字吗？", "李华"),
        ("My name is Robin.", "What is my name?", "Robin"),
        ("Hi, I am Robin and I need help.", "Do you remember my name?", "Robin"),
        ("Hola, me llamo José.", "¿Cuál es mi nombre?", "José"),
    ],
)
def test_a_name_is_remembered_and_quoted(told, asked, name):
    """Asked for the user's name, the answer must say it and quote the sentence in which it was given."""
    said = answer(told, "Oi" if language_of(told) == "pt" else "ok", asked)
    assert name in said.replace(told.rstrip(), "")
    assert told.rstrip() in said


def test_what_is_left_out_of_the_request_is_forgotten():
    """Only the messages of the request count: without the one that gave the name nothing is found."""
    assert answer("Oi!", "Qual é o meu nome?").startswith("Não encontrei")
    model = Offline()
    model.complete(ModelRequest([{"role": "user", "content": "Meu nome é Ana."}]))
    forgot = model.complete(ModelRequest([{"role": "user", "content": "Qual é o meu nome?"}]))
    assert "Ana" not in forgot.text


def test_the_newest_name_counts():
    """A name that was corrected must be answered with the correction."""
    assert "Beatriz" in answer("Meu nome é Ana.", "Desculpe, meu nome é Beatriz.", "Qual é o meu nome?")


@pytest.mark.parametrize(
    ("told", "asked", "found"),
    [
        (("Meu pedido é A-4471.", "Moro em Recife."), "Qual é o número do meu pedido?", "«Meu pedido é A-4471.»"),
        (("我的订单号是 A-4471。", "我住在北京。"), "订单号是多少？", "我的订单号是 A-4471。"),
        (
            ("The refund takes 5 business days.", "I live in Leeds."),
            "How long does the refund take?",
            "5 business days",
        ),
        (("El reembolso tarda 5 días.", "Vivo en Lima."), "¿Cuánto tarda el reembolso?", "El reembolso tarda 5 días."),
    ],
)
def test_the_sentence_that_shares_most_with_the_question_is_quoted(told, asked, found):
    """A question about something said before must be answered by that sentence, whole."""
    assert found in answer(*told, asked)


@pytest.mark.parametrize(
    ("asked", "opening"),
    [
        ("Qual é a capital da França?", "Não encontrei"),
        ("What is the capital of France?", "I found nothing"),
        ("¿Cuál es la capital de Francia?", "No encontré"),
        ("法国的首都是哪里？", "在这里说过的话中没有找到"),
    ],
)
def test_nothing_is_made_up(asked, opening):
    """A question that nothing answers must be told so, in its language."""
    assert answer(asked).startswith(opening)


def test_questions_and_own_quotations_are_no_answers():
    """Neither an earlier question nor an earlier answer of the model itself may be quoted as one."""
    twice = answer("Quanto tempo leva o reembolso?", "Quanto tempo leva o reembolso?")
    assert twice.startswith("Não encontrei")
    again = answer("O reembolso leva 5 dias.", "Quanto leva o reembolso?", "Quanto leva o reembolso?")
    assert again == "Você disse: «O reembolso leva 5 dias.»"


PASSAGES = [
    {"title": "Pausar a conta", "text": "Para pausar a conta, abra Configurações. A pausa dura até 90 dias."},
    {
        "source": "cobranca.md",
        "text": "Com Pix, o dinheiro volta para a conta de onde veio. Cartões levam duas faturas.",
    },
]


def test_documents_are_quoted_with_their_source():
    """A question that a passage answers must be answered by its sentence, with the passage's title or source."""
    said = answer("E se eu tiver pago com Pix?", passages=PASSAGES)
    assert said == "Nos documentos: «Com Pix, o dinheiro volta para a conta de onde veio.» (cobranca.md) [2]"
    assert answer("Qual é a capital da França?", passages=PASSAGES).startswith("Não encontrei nada sobre isso nos doc")


def test_a_follow_up_without_a_subject_takes_that_of_the_question_before():
    """A bare "explique melhor" must be answered about what the last question was about."""
    assert "90 dias" in answer("A pausa dura quanto?", "Explique melhor", passages=PASSAGES)


def test_the_result_of_a_tool_is_quoted():
    """After a tool has answered, its result must be quoted, also if it shares no word with the question."""
    call = {"id": "c1", "type": "function", "function": {"name": "clima", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Como está o tempo?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Ensolarado, 25 graus."},
    ]
    said = Offline().complete(ModelRequest(messages)).text
    assert said == "Um resultado de ferramenta diz: «Ensolarado, 25 graus.»"


def test_statements_are_acknowledged_and_the_first_answer_says_who_it_is():
    """A statement must be acknowledged in a word; the first answer and "who are you" must say what answers here."""
    assert "não sou um modelo de linguagem" in answer("Meu nome é Ana.")
    assert answer("Meu nome é Ana.", "Moro em Recife.") == "Anotado, Ana."
    assert answer("Hello there!").startswith("Hello!")
    assert answer("Moro em Recife.", "Obrigado!") == "De nada!"
    assert "not a language model" in answer("Who are you?")
    assert "不是语言模型" in answer("你是谁？")


def test_the_stream_is_the_answer_in_words_with_usage_at_its_end():
    """The pieces must add up to the answer, be words (or two Chinese signs), and end with usage and finish reason."""
    for text in ("Meu nome é Ana.", "我是工程师张三。"):
        request = ModelRequest([{"role": "user", "content": text}])
        pieces = list(Offline().stream(request))
        whole = Offline().complete(request)
        assert "".join(piece.text for piece in pieces) == whole.text
        assert max(len(piece.text.split()) for piece in pieces) == 1
        assert len(pieces) > 8
        assert (pieces[-1].usage, pieces[-1].finish_reason) == (whole.usage, "stop")


def test_usage_grows_with_what_is_sent():
    """Usage must be counted from all the messages of the request and from the answer."""
    short = Offline().complete(ModelRequest([{"role": "user", "content": "Oi"}])).usage
    history = [{"role": "user", "content": "palavra " * 200}, {"role": "assistant", "content": "ok"}]
    long = Offline().complete(ModelRequest([*history, {"role": "user", "content": "Oi"}])).usage
    assert long.input > short.input + 200
    assert short.output > 0


def test_odd_requests_are_answered():
    """No message, blank messages, media only, null contents and odd signs must give an answer, not an error."""
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    for messages in (
        [],
        [{"role": "system", "content": "x"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": picture}],
        [{"role": "assistant", "content": None}, {"role": "user", "content": [{"type": "text", "text": "Oi?"}]}],
        [{"role": "user", "content": "\x00 {name} {quote} %s \u202e?"}],
        [{"role": "user", "content": "Meu {nome} é? " * 5000}, {"role": "user", "content": "{nome}?"}],
    ):
        reply = Offline().complete(ModelRequest(messages))
        assert reply.text.strip()
        assert len(reply.text) < 1000


def test_a_long_talk_is_answered_in_time():
    """Over 10,000 messages an answer must take less than two seconds of the processor."""
    import time

    history = [{"role": "user", "content": f"O item {k} custa {k} reais e chega amanhã."} for k in range(10_000)]
    begin = time.process_time()
    said = answer("Quanto custa o item 9137?", history=history)
    assert "9137" in said
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Qual é o meu nome?", None),
        ("I'm late", None),
        ("I'm Brazilian.", None),
        ("我是高中生", None),
        ("我叫了外卖", None),
        ("我叫张三今年二十岁", "张三"),
        ("Pode me chamar de Zé", "Zé"),
        ("Sou a Ana Maria", "Ana Maria"),
        ("My name’s O'Neil", "O'Neil"),
    ],
)
def test_names_are_told_from_other_words(sentence, name):
    """A name must be found where one is given, and nowhere else."""
    assert given_name(sentence) == name


def test_languages_and_questions_are_told_apart():
    """The language of a sentence, and whether it asks, must be told by its words."""
    texts = ("Qual é o prazo?", "¿Cuál es el plazo?", "What is the term?", "期限是多久", "1234")
    assert [language_of(text) for text in texts] == ["pt", "es", "en", "zh", None]
    assert all(map(asks, ("Qual é o prazo", "Tell me the term", "¿Qué hora es", "期限是多久", "你好吗", "Sabe? ")))
    assert not any(map(asks, ("Comprei ontem.", "This is fine.", "我住在北京。", "Isso é tudo!")))
