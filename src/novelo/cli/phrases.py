"""What the library says in English, for a person in a chat: readers' errors, and the lines that explain a context.

The library speaks one language, so that logs and exceptions can be searched for; a chat speaks the person's. A line
that is not known here stays as it is.

    said("line 3: no JSON object", "pt") -> "linha 3: não é um objeto JSON"
    said("out: messages 0 to 3, by window:1turn", "zh") -> "未发送:第 0 至 3 条消息(window:1turn)"
"""

from __future__ import annotations

import re

from novelo.cli.words import decided

# A whole line, with what changes in it -> Portuguese, Chinese. `{0}` is the first group; groups named in NESTED are
# said in the language too.
_PHRASES: list[tuple[str, str, str]] = [
    # ---------------------------------------------------------------- readers
    (r"(.+); what the index has of it stays", "{0}; o que o índice tem dele fica", "{0};索引中已有的内容保留"),
    (r"line (\d+): (.+)", "linha {0}: {1}", "第 {0} 行:{1}"),
    (r"an empty file", "arquivo vazio", "空文件"),
    (r"no text in it", "não tem texto", "没有文字"),
    (r"a binary file, not text", "arquivo binário, não texto", "二进制文件,不是文本"),
    (r"no JSON object", "não é um objeto JSON", "不是 JSON 对象"),
    (
        r"expected an object with a text, or a question and an answer",
        "esperava-se um objeto com um texto, ou com pergunta e resposta",
        "应为带有文本、或带有问题和答案的对象",
    ),
    (
        r"an encrypted document, or one of old Word \(\.doc\): save it as \.docx without a password",
        "documento cifrado, ou do Word antigo (.doc): salve como .docx sem senha",
        "加密的文档,或旧版 Word 文件(.doc):请另存为不带密码的 .docx",
    ),
    (
        r"an encrypted PDF: save it without its password",
        "PDF cifrado: salve sem a senha",
        "加密的 PDF:请去掉密码后另存",
    ),
    (r"a damaged (PDF|DOCX) \((\w+)\)", "{0} danificado ({1})", "{0} 已损坏({1})"),
    (
        r"a PDF without text: pictures of pages, which must go through text recognition first",
        "PDF sem texto: imagens de páginas, que precisam antes de reconhecimento de texto",
        "没有文字的 PDF:只有页面图像,需要先做文字识别",
    ),
    (
        r"it unpacks to far more than a document holds: not read",
        "descompactado, tem muito mais do que um documento: não lido",
        "解压后远大于正常文档:未读取",
    ),
    (
        r"it unpacks to more than (\d+) million characters: split it",
        "descompactado, tem mais de {0} milhões de caracteres: divida-o",
        "解压后超过 {0} 百万个字符:请拆分",
    ),
    (
        r"(\d+) MB of HTML, at most (\d+) MB are read: split it",
        "{0} MB de HTML, são lidos até {1} MB: divida-o",
        "HTML 有 {0} MB,最多读取 {1} MB:请拆分",
    ),
    (
        r"(\d+) MB, at most (\d+) MB are read: split it, or raise the limit",
        "{0} MB, são lidos até {1} MB: divida-o, ou aumente o limite",
        "{0} MB,最多读取 {1} MB:请拆分或提高上限",
    ),
    (r"reading (\w+) needs (\S+): (.+)", "para ler {0} é preciso {1}: {2}", "读取 {0} 需要 {1}:{2}"),
    (r"there is no such file", "não existe", "没有这个文件"),
    (r"no regular file", "não é um arquivo comum", "不是普通文件"),
    (r"no right to read it", "sem permissão de leitura", "没有读取权限"),
    (r"its name is too long", "nome longo demais", "文件名太长"),
    (r"it cannot be read", "não pode ser lido", "无法读取"),
    (r"a link that leads in a circle", "link que dá voltas", "循环链接"),
    (r"a link that leads back: not followed", "link que leva para trás: não seguido", "指回上级的链接:未跟随"),
    (
        r"a link that leads out of the folder: name what it leads to itself",
        "link que sai da pasta: indique você o destino",
        "指向文件夹之外的链接:请直接给出目标",
    ),
    # ---------------------------------------------------------------- a context explained
    (
        r"(\d+) of (\d+) messages under (.+) for (\w+)",
        "{0} de {1} mensagens sob {2} para {3}",
        "{1} 条消息中的 {0} 条,策略 {2},提供方 {3}",
    ),
    (r"(\d+) tokens by (\S+) of (\d+)(?: \((.+)\))?", "{0} tokens por {1}, de {2}{3}", "{0} 个令牌({1}),上限 {2}{3}"),
    (r"(\d+) tokens by (\S+)(?: \((.+)\))?", "{0} tokens por {1}{2}", "{0} 个令牌({1}){2}"),
    (r"in: summary (\d+)", "vai: resumo {0}", "发送:摘要 {0}"),
    (r"in: (.+)", "vai: {0}", "发送:{0}"),
    (r"recalled: (.+)", "lembrado: {0}", "召回:{0}"),
    (r"out: (.+?), by (.+)", "fora: {0}, por {1}", "未发送:{0}({1})"),
    (r"changed: (.+?), by (.+)", "alterado: {0}, por {1}", "已更改:{0}({1})"),
    (
        r"made up to keep the list valid: (\d+)",
        "acrescentadas para a lista ser válida: {0}",
        "为保证列表有效而补充:{0}",
    ),
    (r"question: (.+)", "pergunta: {0}", "问题:{0}"),
    (r"standalone: (.+)", "reescrita: {0}", "改写:{0}"),
    (r"searched: (.+)", "buscado: {0}", "检索:{0}"),
    (r"(\[\d+\] )(.+)", "{0}{1}", "{0}{1}"),
    (r"too weak( \(least [\d.]+\))?: (.+)", "fraco demais{0}: {1}", "支持不足{0}:{1}"),
    (
        r"nothing supported an answer: no model was asked",
        "nada sustentava uma resposta: nenhum modelo foi consultado",
        "没有内容支持回答:未调用模型",
    ),
]
_COMPILED = [(re.compile(pattern, re.DOTALL), {"pt": pt, "zh": zh}) for pattern, pt, zh in _PHRASES]
# Pieces within such lines.
_PIECES = {
    "pt": [
        (r"\bmessages (\d+) to (\d+)", r"mensagens \1 a \2"),
        (r"\bmessage (\d+)", r"mensagem \1"),
        (r"\bthe turn at (\d+) \(score ([\d.]+)\)", r"a rodada em \1 (pontos \2)"),
        (r"\(least ([\d.]+)\)", r"(mínimo \1)"),
    ],
    "zh": [
        (r"\bmessages (\d+) to (\d+)", r"第 \1 至 \2 条消息"),
        (r"\bmessage (\d+)", r"第 \1 条消息"),
        (r"\bthe turn at (\d+) \(score ([\d.]+)\)", r"位置 \1 的一轮(得分 \2)"),
        (r"\(least ([\d.]+)\)", r"(最低 \1)"),
    ],
}
_SPANS = ("in: ", "out: ", "changed: ", "recalled: ", "too weak")
_PASSAGE = {  # behind the place of a passage
    "pt": [(r", score (-?[\d.]+)", r", pontos \1"), (r", support ([\d.]+)$", r", apoio \1")],
    "zh": [(r", score (-?[\d.]+)", r",得分 \1"), (r", support ([\d.]+)$", r",支持度 \1")],
}
PARTS = {  # of a context, in its table and behind its tokens
    "system": ("sistema", "系统"), "tools": ("ferramentas", "工具"), "passages": ("passagens", "段落"),
    "summary": ("resumo", "摘要"), "user": ("usuário", "用户"), "assistant": ("assistente", "助手"),
    "tool": ("ferramenta", "工具结果"), "free": ("livre", "空余"), "sent": ("enviado", "发送"),
    "messages": ("mensagens", "消息"), "part": ("parte", "部分"), "tokens": ("tokens", "令牌"),
}  # fmt: skip


def part(name: str, lang: str) -> str:
    """The name of a part of a context in a language."""
    pt, zh = PARTS.get(name, (name, name))
    return {"pt": pt, "zh": zh}.get(lang, name)


def said(line: str, lang: str) -> str:
    """A line of the library's in a language; as it is where it is not known, and in English."""
    if lang not in _PIECES:
        return line
    for pattern, into in _COMPILED:
        found = pattern.fullmatch(line)
        if found is not None:
            return into[lang].format(*_groups(line, found, lang))
    return line


def _groups(line: str, found: re.Match[str], lang: str) -> list[str]:
    """What changes in a line, in the language where it is words of ours; texts of documents and of users are not."""
    groups = [group or "" for group in found.groups()]
    if line.startswith("question: "):
        return [decided(groups[0], lang)]
    if re.match(r"\d+ tokens by ", line):
        counted = [" ".join([part(name, lang), n]) for name, n in re.findall(r"(\w+) (\d+)", groups[-1])]
        return [*groups[:-1], f" ({', '.join(counted)})" if counted else ""]
    if line.endswith("; what the index has of it stays"):
        return [said(groups[0], lang)]
    if re.match(r"line \d+: ", line):
        return [groups[0], said(groups[1], lang)]
    if line.startswith(_SPANS):
        groups[:1] = [_replaced(groups[0], _PIECES[lang])]
    if line.startswith(("[", "too weak")):
        groups[1:] = [_replaced(groups[1], _PASSAGE[lang])]
    return groups


def _replaced(text: str, pieces: list[tuple[str, str]]) -> str:
    for pattern, into in pieces:
        text = re.sub(pattern, into, text)
    return text
