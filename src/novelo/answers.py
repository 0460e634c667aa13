"""What a model answers that is no summary: an error's text, a refusal, a question back, a tool call written as text.

Such an answer would stand for the history that it was to retell. Each kind is known by how it begins, in the languages
of most users; a summary that tells of an error, of a refusal or of the user's question begins with something else.
Where one cannot be sure the answer is refused: then nothing is lost but a call.

Only short texts are looked at but for calls (`SHORT`), and every pattern runs in linear time.
"""

from __future__ import annotations

import re

SHORT = 400  # characters: a longer text that begins like an excuse may still be a summary
EMPTY, CALL, ERROR, REFUSAL, QUESTION = "empty", "a tool call", "an error text", "a refusal", "a question back"


# Texts that `re` compiles when they are first used: an import does not pay for them.
def _begins(*forms: str) -> str:
    return rf"(?i)\W*(?:{'|'.join(forms)})"


_THOUGHTS = r"(?s)\s*<(think|thinking|reasoning)>.*?(?:</\1>|\Z)\s*"
_CALL = (
    r"\s*(?:```\w*\s*)?(?:<\|?/?(?:tool|function)|\[TOOL_CALLS\]"
    r"|[\[{]\s*\{?\s*\"(?:name|tool|function|tool_calls)\"\s*:)"
)
_ERROR = _begins(
    r"[\w.]{0,60}(?:error|exception|erro)\s*(?:[:(\[{]|-\s|code\b|\d|[.!]?\s*\Z)",  # APIError: …, Error code: 429
    r"(?:[a-z]{1,20} ){0,3}error (?:has )?(?:occurr|happen|generating|processing|communicat|calling|while)",
    r"(?:[a-z]{1,20} )?(?:connection|network|server|timeout|api) error\b",
    r"internal server error|bad gateway|service (?:is )?(?:temporarily )?unavailable|too many requests|rate limit",
    r"(?:gateway|read|request|connection) tim(?:e-?out|ed out)|connection (?:refused|reset|aborted|closed)",
    r"upstream connect|quota exceeded|traceback \(|failed to (?:generate|summari|connect|fetch)|<!doctype|<html",
    r"http(?:/\d\.\d)? (?:status |error )?[45]\d\d|[45]\d\d\s*(?:[:-]|\Z)",
    r"[45]\d\d (?:client|server|bad|internal|too|service|gateway|unauthori|forbidden|not found|error)",
    r"\{\s*\"(?:error|detail|message|status)\"\s*:",
    # Portuguese
    r"(?:ocorreu|houve|aconteceu) um erro",
    r"erro (?:interno|inesperado|de (?:conex|rede|servidor)|ao (?:gerar|processar|resumir))",
    # Spanish
    r"(?:se (?:ha )?produ\w{2,4}|(?:ha )?ocurri(?:ó|o|do)|hubo) un error",
    r"error (?:interno|inesperado|de (?:conexi|red\b|servidor)|al (?:generar|procesar|resumir))",
    # Chinese
    r"(?:发生|出现|遇到)了?(?:系统|内部|服务器|网络|未知)?错误|错误(?:[:：]|代码|。|\Z)|请求过于频繁",
    r"(?:系统|内部|服务器|网络|未知|请求|连接)(?:错误|异常|超时|失败|繁忙)|服务(?:暂时)?不可用|服务器(?:忙|内部错误)",
)
_REFUSAL = _begins(
    r"(?:i['’]?m |i am )(?:\w{2,10} ){0,2}sorry\b|sorry(?:[,.!]| i\b| but\b)|i apologi[sz]e|my apologies",
    r"(?:unfortunately,? )?i (?:can['’]?t|can ?not|won['’]?t|(?:do not|don['’]?t) (?:have|see))",
    r"(?:unfortunately,? )?i (?:(?:am|was) (?:not able|unable))|(?:unfortunately,? )?i['’]m (?:not able|unable|afraid)",
    r"as an? (?:ai\b|(?:large )?language model)",
    r"there (?:is|was) no(?:thing to summari| (?:conversation|text|content|transcript))",
    r"no (?:conversation|text|content|transcript|messages) (?:was|were|has|have|to|provided|given)",
    r"(?:it (?:looks|seems) like )?you (?:have|did)(?: not|n['’]?t) (?:provide|share|include|sen[dt])",
    # Portuguese
    r"(?:me )?desculpe|desculpa[,.!]|pe[çc]o desculpas|(?:eu )?sinto muito|(?:eu )?lamento\b",
    r"(?:infelizmente,? )?(?:eu )?n[ãa]o (?:posso|consigo|tenho (?:acesso|como)|me é poss|recebi|vejo)",
    r"n[ãa]o (?:há|existe|foi (?:fornecid|enviad)\w) (?:nenhum\w? )?(?:conversa|texto|conteúdo|mensagem)",
    r"como (?:um |uma )?(?:modelo de linguagem|intelig[êe]ncia artificial|ia\b)",
    # Spanish
    r"lo (?:siento|lamento)|perd[óo]n[,.]|(?:[tl]e pido )?disculp[ae]|mis disculpas|como (?:un )?modelo de lenguaje",
    r"(?:(?:lament|desafortun)adamente,? |lamentablemente,? )?(?:yo )?no (?:puedo|tengo (?:acceso|forma)|he recibido)",
    r"no (?:hay|existe|se (?:ha )?proporcion\w{2,4}) (?:ning[uú]na? )?(?:conversaci|texto|contenido|mensaje)",
    # Chinese
    r"(?:非常|很|十分|实在)?(?:抱歉|对不起)|我(?:无法|不能|没办法|没有(?:看到|收到))|作为(?:一个|一名)?(?:AI|人工智能|语言模型)",
    r"无法(?:总结|生成|提供|完成|访问|处理)|(?:您|你)?(?:没有|尚未|还没有)(?:提供|收到|看到)",
    # Japanese, French, German, Italian
    r"申し訳|je (?:suis )?d[ée]sol|je ne peux pas|es tut mir leid|ich kann (?:das |dies )?nicht|mi dispiace|non posso",
)
_HELPS = (
    r"(?i)\b(?:how|what) (?:can|may) i\b|como posso (?:te |lhe |o |a )?ajudar|(?:em|no) que posso"
    r"|(?:en qu[ée]|c[óo]mo) puedo|(?:我能|我可以|可以)(?:为您|为你|帮)"
)
# A request for the conversation at the beginning of one of the first sentences: please, and then send and the text.
_SENTENCE = r"[^.!?。！？\n]{0,100}?"
_WANTS = (
    r"(?i)(?:\A|[.!?。！？，,\n])\W*(?:please|kindly|could you|can you|would you|por favor|(?:você )?pod(?:e|eria)\b"
    r"|puedes?\b|podr[íi]as?\b|请|麻烦|能否|能不能|您能)"
    rf"(?={_SENTENCE}(?:provide|share|paste|send|forne|compartilh|envi|mand|col[ea]|proporcion|compart|peg[au]"
    r"|提供|发送|发给|粘贴|发来|给我))"
    rf"(?={_SENTENCE}(?:conversa|transcript|chat\b|dialog|messages?\b|mensage|mensaje|text[oe]?\b|content|conte[úu]do"
    r"|notes?\b|对话|聊天|内容|文本|记录|消息))"
)
_ASKS = _begins(
    r"(?:what|which|who|how|where|when|do you|did you|would you|could you|can you|are you|is there|shall i|should i)\b",
    r"(?:qual|quais|o que|quem|como|onde|quando|você|gostaria|deseja|quer|posso)\b",
    r"(?:qu[ée]|cu[áa]l|qui[ée]n|c[óo]mo|desea|quieres?)\b|什么|哪|谁|怎么|您|你|请问|需要|是否|能",
)
_END = r"[.!?](?=\s|\Z)|[。！？]"


def without_thoughts(text: str) -> str:
    """The text without the reasoning that some models write in front of it."""
    while (found := re.match(_THOUGHTS, text)) is not None:
        text = text[found.end() :]
    return text.strip()


def no_summary(text: str) -> str | None:
    """Why an answer is no summary, one of the words above; None if it may be one."""
    if not text:
        return EMPTY
    if re.match(_CALL, text):
        return CALL
    if len(text) >= SHORT:
        return None
    if re.match(_ERROR, text):
        return ERROR
    if re.match(_REFUSAL, text):
        return REFUSAL
    asks = re.search(_HELPS, text) or (re.match(_ASKS, text) and len(re.findall(_END, text)) == 1)
    return QUESTION if re.search(_WANTS, text[:200]) or (text[-1] in "?？" and asks) else None
