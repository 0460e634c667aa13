"""What the offline model says itself, beside its quotations; one table a language."""

from __future__ import annotations

import re

PHRASES: dict[str, dict[str, str]] = {
    "pt": {
        "intro": "Sou o respondedor offline do Novelo: não sou um modelo de linguagem, apenas cito o que foi dito aqui"
        " ou está nos documentos.",
        "hello": "Olá!",
        "hello_name": "Olá, {name}!",
        "welcome": "De nada!",
        "noted": "Anotado.",
        "noted_name": "Anotado, {name}.",
        "name": "Seu nome é {name}. Você disse: «{quote}»",
        "user": "Você disse: «{quote}»",
        "assistant": "Foi respondido antes: «{quote}»",
        "tool": "Um resultado de ferramenta diz: «{quote}»",
        "passage": "Nos documentos: «{quote}»",
        "source": " ({source})",
        "nothing": "Não encontrei nada sobre isso no que foi dito aqui.",
        "nothing_in": "Não encontrei nada sobre isso nos documentos nem no que foi dito aqui.",
        "no_text": "Só leio textos, e nesta mensagem não há nenhum.",
    },
    "es": {
        "intro": "Soy el respondedor sin conexión de Novelo: no soy un modelo de lenguaje, solo cito lo que se dijo"
        " aquí o está en los documentos.",
        "hello": "¡Hola!",
        "hello_name": "¡Hola, {name}!",
        "welcome": "¡De nada!",
        "noted": "Tomo nota.",
        "noted_name": "Tomo nota, {name}.",
        "name": "Tu nombre es {name}. Dijiste: «{quote}»",
        "user": "Dijiste: «{quote}»",
        "assistant": "Se respondió antes: «{quote}»",
        "tool": "Un resultado de herramienta dice: «{quote}»",
        "passage": "En los documentos: «{quote}»",
        "source": " ({source})",
        "nothing": "No encontré nada sobre eso en lo que se dijo aquí.",
        "nothing_in": "No encontré nada sobre eso en los documentos ni en lo que se dijo aquí.",
        "no_text": "Solo leo textos, y en este mensaje no hay ninguno.",
    },
    "en": {
        "intro": "I am Novelo's built-in offline responder: not a language model, I only quote what was said here or"
        " stands in the documents.",
        "hello": "Hello!",
        "hello_name": "Hello, {name}!",
        "welcome": "You're welcome!",
        "noted": "Noted.",
        "noted_name": "Noted, {name}.",
        "name": "Your name is {name}. You said: “{quote}”",
        "user": "You said: “{quote}”",
        "assistant": "It was answered before: “{quote}”",
        "tool": "A tool result says: “{quote}”",
        "passage": "In the documents: “{quote}”",
        "source": " ({source})",
        "nothing": "I found nothing about that in what was said here.",
        "nothing_in": "I found nothing about that in the documents or in what was said here.",
        "no_text": "I read text only, and there is none in this message.",
    },
    "zh": {
        "intro": "我是 Novelo 内置的离线应答器，不是语言模型，只引用这里说过的话或文档中的内容。",
        "hello": "你好！",
        "hello_name": "你好，{name}！",
        "welcome": "不客气！",
        "noted": "记下了。",
        "noted_name": "记下了，{name}。",
        "name": "你的名字是{name}。你说过：“{quote}”",
        "user": "你说过：“{quote}”",
        "assistant": "之前回答过：“{quote}”",
        "tool": "工具结果显示：“{quote}”",
        "passage": "文档中写道：“{quote}”",
        "source": "（{source}）",
        "nothing": "在这里说过的话中没有找到相关内容。",
        "nothing_in": "在文档和这里说过的话中都没有找到相关内容。",
        "no_text": "我只读文字，而这条消息里没有文字。",
    },
}
_OWN = re.compile(
    "|".join(
        re.escape(phrase).replace(r"\{name\}", r"[^\n]{1,80}?").replace(r"\{quote\}", r".*")
        for phrases in PHRASES.values()
        for key, phrase in phrases.items()
        if key != "source"
    ),
    re.DOTALL,
)


def uttered(language: str, phrase: str, **facts: str) -> str:
    """One of our own phrases with its facts put in."""
    return PHRASES[language][phrase].format(**facts)


def is_own(text: str) -> bool:
    """Whether an answer is one that the offline model gave: what it quoted stands elsewhere, better."""
    return _OWN.match(text) is not None
