"""Requests that ask about the former answer, told from questions that name a subject."""

from __future__ import annotations

import pytest

from novelo._again import chats, nth, reminds, says_more

MORE = """explique melhor
Explique melhor, por favor.
Pode explicar melhor?
Você poderia me explicar isso melhor?
mais detalhes
Pode detalhar um pouco mais?
Fale mais sobre isso
me conte mais
Não entendi.
Como assim?
Por quê?
E o segundo?
e a segunda opção?
Qual é o terceiro?
e o último?
E os outros?
Pode dar um exemplo?
Resuma, por favor
continue
Tem certeza?
em outras palavras?
more details
More details please!
Could you elaborate on that?
Can you explain it in more detail?
tell me more
What do you mean?
I don't understand
And the second one?
What about the last option?
Are you sure?
Go on
Why?
Give me an example
explícalo mejor
¿Puedes explicar mejor?
más detalles, por favor
¿Y el segundo?
¿Y la segunda opción?
No entiendo
dime más
¿Puedes dar un ejemplo?
说详细一点
请再详细一点
能说得更详细一些吗?
详细说说
再解释一下
我没听懂
什么意思?
那第二个呢?
第二种呢
继续
举个例子
还有呢?
展开说说
可以讲得更清楚一点吗"""
SUBJECT = """Explique melhor o frete
Mais detalhes sobre o Pix
Fale mais sobre a garantia
E se eu tiver pago com Pix?
E a segunda cobrança?
Qual é o segundo prazo de entrega?
Como funciona?
E no cartão?
Quanto custa?
Quero cancelar
obrigado
oi
sim
Não
2
Tenho duas cobranças
Explain the second charge
More details about shipping
What about boleto?
How much is it?
And by card?
thanks
The second refund never came
Explica mejor el envío
¿Y con tarjeta?
gracias
运费是多少?
详细说说退款
那用 Pix 付款呢?
第二次扣款什么时候退?
谢谢
怎么付款
好的
🙂"""


@pytest.mark.parametrize("request_", MORE.splitlines())
def test_a_request_for_more_names_no_subject(request_):
    """What asks for more of the same, or for another one of what was named, is known in four languages."""
    assert says_more(request_)


@pytest.mark.parametrize("question", SUBJECT.splitlines())
def test_a_question_with_a_subject_is_searched(question):
    """One word of its own, a number, thanks or signs make no request for more."""
    assert not says_more(question)


def test_long_texts_and_empty_ones_are_no_requests():
    """A text of any size is looked at in no time, and an empty one asks nothing."""
    assert not any(map(says_more, ["", "  ", "?", "explique melhor " * 10_000, "再说" * 50_000]))
    assert not reminds("você falou " * 10_000)


@pytest.mark.parametrize(
    ("question", "number"),
    [
        ("e o segundo?", 2),
        ("And the third one?", 3),
        ("¿y la primera opción?", 1),
        ("第二个呢?", 2),
        ("e o último?", -1),
        ("最后一个呢", -1),
        ("explique melhor", None),
        ("opção 2?", 2),
        ("give me one example", None),
    ],
)
def test_ordinals_are_read(question, number):
    """A request may ask for one of several."""
    assert nth(question) == number


@pytest.mark.parametrize(
    ("question", "points"),
    [
        ("qual era o prazo que você falou?", True),
        ("What was the term you mentioned?", True),
        ("你刚才说的期限是多久?", True),
        ("¿cuál era el plazo que dijiste?", True),
        ("Qual é o prazo?", False),
        ("期限是多久?", False),
        ("Who said so?", False),
    ],
)
def test_what_was_said_is_pointed_at(question, points):
    """A question that names what was said before has a subject, and points back all the same."""
    assert reminds(question) is points


@pytest.mark.parametrize(
    "text",
    [
        "Oi!",
        "Bom dia",
        "Muito obrigada!",
        "valeu",
        "Thanks a lot!",
        "hello there",
        "¡Muchas gracias!",
        "你好",
        "谢谢您!",
        "🙂",
        "👍👍",
        "...",
        "?",
    ],
)
def test_what_is_said_for_the_sake_of_it_is_not_searched(text):
    """Greetings, thanks and signs without a word."""
    assert chats(text)


@pytest.mark.parametrize(
    "text", ["Oi, meu pedido atrasou", "sim", "não", "reembolso", "退款", "你好,退款多久?", "5", "E agora?", "help me"]
)
def test_what_holds_a_word_of_its_own_is_searched(text):
    """A greeting with a matter behind it, a yes, a number."""
    assert not chats(text)
