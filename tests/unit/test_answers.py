"""Answers that are no summary are known in several languages, and summaries that look alike are let through."""

from __future__ import annotations

import time

import pytest

from novelo.answers import no_summary, without_thoughts

BAD = {
    "empty": [""],
    "a tool call": [
        '<tool_call>{"name": "listar", "arguments": {}}</tool_call>',
        '{"name": "list_tickets", "arguments": {"open": true}}',
        '```json\n{"tool": "list", "args": {}}\n```',
        '[{"name": "f", "arguments": {}}]',
        '[TOOL_CALLS][{"name": "f"}]',
        "<function=f>{}</function>",
    ],
    "an error text": [
        "Error: connection refused",
        "Error code: 429 - {'error': {'message': 'slow down'}}",
        "An error occurred while processing your request.",
        "Error generating summary: timed out",
        "APIConnectionError: Connection error.",
        "openai.RateLimitError: Error code: 429",
        "Connection error.",
        "Request timed out.",
        "HTTP 502 Bad Gateway",
        "503 Service Unavailable",
        "Internal Server Error",
        '{"error": {"type": "overloaded_error"}}',
        "Traceback (most recent call last):\n  File x",
        "<html><head><title>504</title>",
        "upstream connect error or disconnect/reset before headers",
        "Erro: tempo esgotado",
        "Erro 500",
        "Ocorreu um erro ao processar o pedido.",
        "Erro interno do servidor.",
        "Se produjo un error inesperado.",
        "Ha ocurrido un error, inténtelo de nuevo.",
        "Error al procesar la solicitud",
        "错误：请求超时",
        "发生错误，请稍后再试。",
        "服务器内部错误",
        "请求失败，请重试。",
        "服务暂时不可用。",
    ],
    "a refusal": [
        "I'm sorry, but I can't help with that.",
        "I’m unable to summarize this.",
        "I cannot assist with this request.",
        "Sorry, I don't see any conversation.",
        "As an AI language model, I have no memory.",
        "Unfortunately, I am not able to do that.",
        "There is no conversation to summarize.",
        "No conversation was provided.",
        "It looks like you haven't shared anything yet.",
        "Desculpe, não posso ajudar com isso.",
        "Sinto muito, mas isso foge do que faço.",
        "Não consigo resumir esse conteúdo.",
        "Infelizmente, não posso continuar.",
        "Não há nenhuma conversa para resumir.",
        "Lo siento, no puedo ayudar con eso.",
        "No puedo resumir este contenido.",
        "Lamentablemente, no tengo acceso a eso.",
        "No se ha proporcionado ninguna conversación.",
        "抱歉，我无法总结这段内容。",
        "很抱歉，这个请求我不能处理。",
        "作为一个人工智能，我没有记忆。",
        "无法总结：没有内容。",
        "您还没有提供对话。",
    ],
    "a question back": [
        "Please provide the conversation you would like me to summarize.",
        "Sure! Please paste the text here.",
        "Could you share the messages?",
        "What would you like me to summarize?",
        "Hello! How can I help you today?",
        "Por favor, envie a conversa que devo resumir.",
        "Claro! Você pode compartilhar o texto?",
        "Olá! Como posso ajudar?",
        "Qual conversa devo resumir?",
        "Por favor, proporcione el texto de la conversación.",
        "¿Qué conversación debo resumir?",
        "¡Hola! ¿En qué puedo ayudar?",
        "请提供需要总结的对话内容。",
        "好的，请把聊天记录发给我。",
        "请问您想总结什么？",
        "您好！有什么可以帮您？",
    ],
}
FINE = [
    "The user sees error 502 when paying; two browsers were tried, cache cleared. Still open: a refund.",
    "Ana reported that the app says 'Internal Server Error'. Logs were sent.",
    "500 guests come to the fair; the hall takes 450.",
    "An error in invoice 12 was found: the total is 80, not 90.",
    "The user apologised for paying late and is sorry about it. A new date was set: 3 May.",
    "Ana wants blue curtains. Her last question is still open: can they be washed at 60 degrees?",
    "Ben compares two phones and asks: could you check the price of the second one?",
    "A assinatura da Lívia mostra o erro 403. Ela já trocou a senha. Em aberto: por que continua bloqueada?",
    "A cliente pediu desculpas pelo atraso e quer remarcar. Não pode às segundas.",
    "Infelizmente não há quarto com vista; Rui aceita o térreo.",
    "500 convites foram impressos e 450 enviados.",
    "El usuario no puede entrar a su cuenta; ya probó dos claves. ¿Cuándo se abre la oficina?",
    "Error tipográfico en el contrato: corregido por Marta, falta la firma.",
    "用户遇到登录错误，已重置密码。还想知道：发票什么时候寄出？",
    "用户很抱歉来晚了，改约周三下午三点。",
    "无法登录的问题已解决，用户还要退款。",
    "Please note: the user wants short answers, in Portuguese, and no lists.",
    "I keep: order A-4471 is late, refund asked, no answer yet.",
    "Namen: Ada. Termin: Montag.",
]


@pytest.mark.parametrize(("reason", "text"), [(reason, text) for reason, texts in BAD.items() for text in texts])
def test_what_is_no_summary(reason, text):
    """Errors, refusals, questions back, calls and nothing are told apart (FR-38, FR-39, FR-48)."""
    assert no_summary(text) == reason


@pytest.mark.parametrize("text", FINE)
def test_what_looks_alike_is_a_summary(text):
    """A summary may tell of an error or a refusal, and end with the user's open question."""
    assert no_summary(text) is None


def test_long_texts_are_not_judged_by_their_beginning():
    """Nobody excuses himself for 400 characters: a long text is taken at its word."""
    assert no_summary("Sorry, I was late, the user wrote. " + "He told of his day in great detail. " * 20) is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>What matters here?</think>\n\nAna wants blue.", "Ana wants blue."),
        ("  <thinking>\nhm\n</thinking><think>x</think>Azul.", "Azul."),
        ("<think>cut off in the middle", ""),
        ("Ana wrote <think> in her file.", "Ana wrote <think> in her file."),
        (" \n ", ""),
    ],
)
def test_thoughts_in_front_are_left_out(text, rest):
    """What a model thinks aloud in front of its answer is not part of the summary."""
    assert without_thoughts(text) == rest


@pytest.mark.parametrize("piece", ["a ", "error ", "1", "[", "<think>", "please ", "é", "请", '{"', "\n", "_.", "i "])
def test_judging_is_quick(piece):
    """A text made to be slow to read takes no time."""
    started = time.perf_counter()
    no_summary(without_thoughts(piece * (399 // len(piece))))
    no_summary(without_thoughts(piece * (200_000 // len(piece))))
    assert time.perf_counter() - started < 1
