"""The words that a person in a chat sees, in Portuguese, Chinese and English."""

from __future__ import annotations

import locale
import os

LANGUAGES = ("pt", "zh", "en")

WORDS: dict[str, dict[str, str]] = {
    "hello": {
        "en": "Thread {thread}, model {model}. /help shows the commands, exit ends.",
        "pt": "Conversa {thread}, modelo {model}. /help mostra os comandos, sair encerra.",
        "zh": "会话 {thread},模型 {model}。/help 显示命令,退出 结束。",
    },
    "goodbye": {
        "en": "Saved as {thread}. To go on: {command}",
        "pt": "Salvo como {thread}. Para continuar: {command}",
        "zh": "已保存为 {thread}。继续:{command}",
    },
    "stopped": {
        "en": "[stopped; what came is kept]",
        "pt": "[interrompido; o que chegou foi guardado]",
        "zh": "[已停止;已收到的内容已保存]",
    },
    "leave": {
        "en": "Type exit, or press Ctrl-D, to end.",
        "pt": "Digite sair, ou tecle Ctrl-D, para encerrar.",
        "zh": "输入 退出 或按 Ctrl-D 结束。",
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
    "read": {
        "en": "Documents: {added} new, {changed} changed, {same} unchanged, {removed} gone ({seconds} s).",
        "pt": "Documentos: {added} novos, {changed} alterados, {same} iguais, {removed} retirados ({seconds} s).",
        "zh": "文档:新增 {added},更改 {changed},未变 {same},移除 {removed}({seconds} 秒)。",
    },
    "not_read": {"en": "Not read: {path}: {what}", "pt": "Não lido: {path}: {what}", "zh": "未能读取:{path}:{what}"},
    "documents": {
        "en": "Answers come from {sources} sources, {passages} passages.",
        "pt": "As respostas vêm de {sources} fontes, {passages} passagens.",
        "zh": "回答来自 {sources} 个来源、{passages} 个段落。",
    },
    "by_words": {
        "en": "Passages still without a vector: {count}. Until they have one, their words alone find them.",
        "pt": "Passagens ainda sem vetor: {count}. Até lá, são achadas só pelas palavras.",
        "zh": "尚无向量的段落:{count}。完成之前只按词语检索。",
    },
    "question": {"en": "[question: {decision}]", "pt": "[pergunta: {decision}]", "zh": "[问题:{decision}]"},
    "searched": {"en": "[searched] {query}", "pt": "[buscado] {query}", "zh": "[检索] {query}"},
    "sources": {"en": "Sources:", "pt": "Fontes:", "zh": "来源:"},
    "untitled": {"en": "without a title", "pt": "sem título", "zh": "无标题"},
    "no_documents": {
        "en": "There are no documents in this chat: start it with --docs FOLDER, or -C COLLECTION if they were read.",
        "pt": "Não há documentos nesta conversa: comece com --docs PASTA, ou -C COLEÇÃO para uma já lida.",
        "zh": "这个会话没有文档:请用 --docs 文件夹 启动,已读取的集合用 -C 集合名。",
    },
    "blank": {
        "en": "[the model answered nothing]",
        "pt": "[o modelo não respondeu nada]",
        "zh": "[模型没有回答]",
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
        "/export FILE · /docs [WORDS] the documents · /new [ID] · /resume [ID] · /policy [SPEC] · /exit\n"
        "A line that ends with \\ goes on in the next one.",
        "pt": "/context o que a próxima chamada enviaria · /tokens quantos tokens · /usage o que foi gasto · "
        "/compact [FOCO] resume a parte antiga · /why TEXTO quem disse, onde ainda está · "
        "/state [chave=valor] · /search PALAVRAS · /show a transcrição · /undo desfaz · /retry pergunta de novo · "
        "/fork bifurca · /export ARQUIVO · /docs [PALAVRAS] os documentos · "
        "/new [ID] · /resume [ID] · /policy [POLÍTICA] · /exit\n"
        "Uma linha que termina com \\ continua na seguinte.",
        "zh": "/context 下一次调用会发送什么 · /tokens 令牌数 · /usage 用量 · /compact [重点] 总结较早部分 · "
        "/why 文本 谁说的、是否还在 · /state [键=值] · /search 词语 · /show 完整记录 · /undo 撤销 · /retry 重试 · "
        "/fork 分支 · /export 文件 · /docs [词语] 文档 · "
        "/new [ID] · /resume [ID] · /policy [策略] · /exit\n以 \\ 结尾的一行接着下一行。",
    },
}


# How a question came to be searched as it was, where a person reads it: the words of `Retrieved.decision`.
DECISIONS = {
    "first message": {"pt": "a primeira da conversa", "zh": "会话的第一个问题"},
    "stands alone": {"pt": "já se entende sozinha", "zh": "本身就能理解"},
    "rewritten": {"pt": "reescrita", "zh": "已改写"},
    "unchanged": {"pt": "o modelo não mudou nada", "zh": "模型没有改动"},
    "carried": {"pt": "buscada com o assunto das anteriores", "zh": "连同前文的主题一起检索"},
    "small talk": {"pt": "não é uma pergunta", "zh": "不是问题"},
    "the passages of the turn before": {"pt": "as passagens da resposta anterior", "zh": "沿用上一个回答的段落"},
    "nothing was found before": {"pt": "a resposta anterior não achou nada", "zh": "上一个回答没有找到内容"},
    "too long to be rewritten": {"pt": "longa demais para ser reescrita", "zh": "太长,未改写"},
    "refused": {"pt": "reescrita recusada", "zh": "改写被拒绝"},
}


def decided(decision: str, lang: str) -> str:
    """A decision in a language; what is said behind a colon stays as it is."""
    head, colon, rest = decision.partition(":")
    return DECISIONS.get(head, {}).get(lang, head) + colon + rest


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
