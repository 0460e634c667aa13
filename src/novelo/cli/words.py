"""The words that a person in a chat sees, in Portuguese, Chinese and English."""

from __future__ import annotations

import locale
import os

LANGUAGES = ("pt", "zh", "en")

WORDS: dict[str, dict[str, str]] = {
    "hello": {
        "en": "Thread {thread}, model {model}. /help shows the commands, exit ends.",
        "pt": "Conversa {thread}, modelo {model}. /help mostra os comandos, sair encerra.",
        "zh": "会话 {thread},模型 {model}。/help 显示命令,exit 结束。",
    },
    "goodbye": {"en": "Saved as {thread}.", "pt": "Salvo como {thread}.", "zh": "已保存为 {thread}。"},
    "stopped": {
        "en": "[stopped; what came is kept]",
        "pt": "[interrompido; o que chegou foi guardado]",
        "zh": "[已停止;已收到的内容已保存]",
    },
    "leave": {
        "en": "Type exit, or press Ctrl-D, to end.",
        "pt": "Digite sair, ou tecle Ctrl-D, para encerrar.",
        "zh": "输入 exit 或按 Ctrl-D 结束。",
    },
    "unknown": {
        "en": "No command {command}; /help shows them.",
        "pt": "Não há o comando {command}; /help mostra todos.",
        "zh": "没有命令 {command};/help 显示所有命令。",
    },
    "nothing_found": {"en": "Nothing found.", "pt": "Nada encontrado.", "zh": "没有找到。"},
    "nothing_to_compact": {
        "en": "There is nothing to summarize beyond the newest messages.",
        "pt": "Não há nada a resumir além das mensagens mais novas.",
        "zh": "除最新消息外没有可总结的内容。",
    },
    "limit": {
        "en": "The limit {limit} is used up: the question was not stored and nobody was asked.",
        "pt": "O limite {limit} foi atingido: a pergunta não foi guardada e nenhum modelo foi consultado.",
        "zh": "已达到上限 {limit}:问题未保存,也没有调用模型。",
    },
    "nothing_said": {"en": "Nothing was said yet.", "pt": "Nada foi dito ainda.", "zh": "还没有对话。"},
    "undone": {
        "en": "The last turn is out of the context; the transcript keeps it.",
        "pt": "A última rodada saiu do contexto; a transcrição a mantém.",
        "zh": "最后一轮已移出上下文;完整记录仍然保留。",
    },
    "forked": {
        "en": "Now in {thread}, a fork.",
        "pt": "Agora em {thread}, uma bifurcação.",
        "zh": "现在在分支 {thread}。",
    },
    "switched": {
        "en": "Now in {thread} ({count} messages).",
        "pt": "Agora em {thread} ({count} mensagens).",
        "zh": "现在在 {thread}({count} 条消息)。",
    },
    "exported": {
        "en": "{count} messages in {path}.",
        "pt": "{count} mensagens em {path}.",
        "zh": "{count} 条消息已写入 {path}。",
    },
    "policy": {"en": "Policy: {policy}", "pt": "Política: {policy}", "zh": "策略:{policy}"},
    "failed": {
        "en": "No answer: {error}. The question is kept; /retry asks again.",
        "pt": "Sem resposta: {error}. A pergunta foi guardada; /retry pergunta de novo.",
        "zh": "没有回答:{error}。问题已保存;/retry 重新提问。",
    },
    "help": {
        "en": "/context what the next call would send · /tokens how many tokens · /usage what was spent · "
        "/compact [FOCUS] summarize the older part · /why TEXT who said it, who still has it · "
        "/state [key=value] · /search WORDS · /show the transcript · /undo · /retry · /fork · "
        "/export FILE · /new [ID] · /resume [ID] · /policy [SPEC] · /exit\n"
        "A line that ends with \\ goes on in the next one.",
        "pt": "/context o que a próxima chamada enviaria · /tokens quantos tokens · /usage o que foi gasto · "
        "/compact [FOCO] resume a parte antiga · /why TEXTO quem disse, onde ainda está · "
        "/state [chave=valor] · /search PALAVRAS · /show a transcrição · /undo desfaz · /retry pergunta de novo · "
        "/fork bifurca · /export ARQUIVO · /new [ID] · /resume [ID] · /policy [POLÍTICA] · /exit\n"
        "Uma linha que termina com \\ continua na seguinte.",
        "zh": "/context 下一次调用会发送什么 · /tokens 令牌数 · /usage 用量 · /compact [重点] 总结较早部分 · "
        "/why 文本 谁说的、是否还在 · /state [键=值] · /search 词语 · /show 完整记录 · /undo 撤销 · /retry 重试 · "
        "/fork 分支 · /export 文件 · /new [ID] · /resume [ID] · /policy [策略] · /exit\n以 \\ 结尾的一行接着下一行。",
    },
}


def language(wanted: str | None) -> str:
    """The language of a chat: what was asked for, else the locale's, else English."""
    if wanted in LANGUAGES:
        return wanted
    named = (
        os.environ.get("LC_ALL")
        or os.environ.get("LC_MESSAGES")
        or os.environ.get("LANG")
        or locale.getlocale()[0]
        or ""
    )
    return next((code for code in LANGUAGES if named.lower().startswith(code)), "en")


def word(name: str, lang: str, **facts: object) -> str:
    """A text in a language, with its facts filled in."""
    return WORDS[name][lang].format(**facts)
