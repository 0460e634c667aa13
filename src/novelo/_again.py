"""Requests that ask about the former answer and name no subject of their own: "explique melhor", "e o segundo?".

Searching with such words finds whatever document says "melhor"; they ask about the passages of the turn before. A
request is taken for one of them only where every word of it is known here, so that "explique melhor o frete", which
names a subject, is searched.

    says_more("pode explicar melhor?") -> True          says_more("explique melhor o frete") -> False
    nth("e o segundo?") -> 2                            reminds("qual era o prazo que você falou?") -> True
    chats("muito obrigada!") -> True                    nothing is searched for
"""

from __future__ import annotations

import re

from novelo.words import CJK, folded

LONGEST = 120  # characters; a longer text tells something of its own
_WORD = re.compile(r"[^\W_]+")

# What asks for more, folded; one of these has to be there. Portuguese, Spanish, English.
_ASKING_WORDS = (
    "explique explica explicar explicaria expliquem explicacao esclareca esclarecer detalhe detalha detalhar "
    "detalhes detalhado detalhada detalhadamente aprofunde aprofundar desenvolva elabore continue continua "
    "continuar prossiga resuma resumir resumo repete repita repetir exemplo exemplos entendi entendo compreendi "
    "claro clara certeza fale fala conte conta diga assim explicame explicalo explicamelo explicacion aclara "
    "aclare aclaralo aclarar detalla detalle detallar detalles detallado profundiza sigue resume resumelo repite "
    "repitelo ejemplo ejemplos entiendo entendido comprendo seguro segura dime cuentame explain elaborate clarify "
    "detail details detailed expand summarize summarise summary repeat example examples understand sure certain "
    "mean means meant further more longer shorter simpler rephrase"
)
_ORDINALS = {
    1: "primeiro primeira primer primero primera first um 1",
    2: "segundo segunda second dois duas 2",
    3: "terceiro terceira tercer tercero tercera third tres 3",
    4: "quarto quarta cuarto cuarta fourth quatro 4",
    5: "quinto quinta fifth cinco 5",
    -1: "ultimo ultima last",
}
_NUMBER_WORDS = "um dois duas tres quatro cinco 1 2 3 4 5"
_OTHER_WORDS = "outro outra outros outras proximo proxima otro otra otros otras siguiente other others next"
_THINGS = (
    "opcao opcoes item itens ponto pontos passo passos caso casos parte partes resposta forma alternativa numero"
    " documento trecho fonte opcion opciones punto paso respuesta fuente option options point step case part answer"
    " one ones thing way passage source number document it that this those these them"
)
# What may stand around it.
_AROUND_WORDS = (
    "a o e as os um uma de da do das dos em no na nos nas por para pra com sobre que qual quais como se eu me "
    "isso isto esse essa este esta ai voce poderia poderias pode podes podia quer dizer significa ser favor "
    "gentileza mais melhor pouco pouquinho bem so mas ou nao sim ao ainda agora tambem entao ok obrigado obrigada "
    "novo outra vez vezes outras palavras tem dar mim nisso disso ajuda quero queria gostaria preciso mesmo mesma "
    "simples curta curto longo longa jeito el la los las del al y una unos lo le un en mi es son puedes puede "
    "podrias podria quiero quisiera mejor poco otra palabras esto eso ese esa pero muy si gracias tu te decir "
    "quiere estas the an and or but of to in on at by for with about is are was were does did can could would "
    "should will you i it that this those these please give tell show get have what how need want like some bit "
    "little again once better other words not don t dont didn doesn quite any okay thanks thank let know him them "
    "s re m"
)
# What is said for the sake of it.
_CHAT_WORDS = (
    "oi ola opa bom boa dia tarde noite tudo bem obrigado obrigada valeu agradeco muito muitissimo ok okay certo "
    "beleza perfeito otimo legal tchau ate logo mais pela por ajuda hola buenos buenas buen dias tardes noches "
    "gracias muchas vale perfecto adios hasta luego la hello hi hey there good morning afternoon evening night thanks "
    "thank you u so very much a lot for your the help great perfect bye goodbye see later cool fine alright nice"
)
_CHAT = frozenset(_CHAT_WORDS.split())
_CHAT_SIGNS = re.compile(
    "你好|您好|谢谢|多谢|感谢|好的|好|再见|拜拜|知道了|嗯|行|非常|太|你|您|了|啊|呀|哦|早上|晚上|下午|大家"
)
_ASKS = frozenset(_ASKING_WORDS.split())
_AROUND = frozenset(f"{_AROUND_WORDS} {_THINGS}".split())
_OTHER = frozenset(_OTHER_WORDS.split())
_PLAIN_NUMBERS = frozenset(_NUMBER_WORDS.split())
_COUNTED = frozenset(["numero", "number", "opcao", "opcion", "option", "item", "ponto", "punto", "point"])
_NTH = {word: n for n, words in _ORDINALS.items() for word in words.split()}
_MORE_OF_IT = re.compile(
    r"^\W*(?:e mais|mais|e ai|por ?que|como assim|y mas|mas|y por que|and|more|go on|and then|why|why is that|how so"
    r"|how come|say more|tell me more|come again|what else|e o que mais|o que mais|que mas|fale mais|conte mais"
    r"|conta mais|fala mais|dime mas|cuentame mas|me conte mais|me fale mais|me diga mais)\W*$"
)

_SIGNS = (
    "请问?|麻烦|再|更|还|能不能|能否|能|可以|可不可以|帮我|给我|我|你|您|把|就|那么?|这个?|它|关于|对|的|地|得|话|一下|一点|一些|点|些"
    "|下|吗|呢|吧|啊|呀|嘛|么|了|好|谢谢|想|要|需要|知道|听|看|来|去|很|太|不太|又|是|都|也|一个|个|有|没有|清|为|跟|对|然后"
)
_SIGNS_ASK = (
    "详细|详情|细节|具体|展开|解释|说明|讲|说|继续|总结|概括|重复|举例|例子|举个?|清楚|明白|明确|懂|什么意思|意思|怎么说|为什么|为啥|确定"
    "|还有呢|接着|第[一二三四五1-5](?:[个点种条项步句]|部分)?|最后一?[个点种条项步]|另外?一?[个点种条项]|其他的?|别的|下一[个点种条项]"
    "|简单|深入|更多|多说|多讲|再说一遍|一遍|一次|没|不"
)
_KNOWN_SIGNS = re.compile(f"{_SIGNS_ASK}|{_SIGNS}")
_UNSPACED_ASKS = re.compile(
    r"详|细节|具体|展开|解释|说明|继续|总结|概括|重复|举|例子|清楚|明白|懂|意思|为什么|为啥|确定|还有呢|接着|第[一二三四五1-5]|最后一?[个点种条项步]"
    r"|另外?一?[个点种条项]|其他|别的|下一[个点种条项]|深入|更多|多说|多讲|一遍|[再多]说|怎么说"
)
_SIGN_NTH = {"一": 1, "二": 2, "三": 3, "四": 4, "五": 5} | {str(n): n for n in range(1, 6)}
# What points at something that was said, and names it besides.
_SAID = re.compile(
    r"\b(?:(?:voce|vc|tu|o senhor|a senhora) (?:ja |me |tinha |havia )?"
    r"(?:disse|falou|mencionou|citou|informou|explicou|respondeu|deu|passou)"
    r"|(?:disseste|falaste)|(?:que )?(?:me )?(?:dijiste|mencionaste|dijo usted|comentaste)"
    r"|you (?:just |have |had |already )?(?:said|told|mentioned|quoted|gave|explained|answered|named|stated)"
    r"|(?:foi|fui) (?:dito|falado|mencionado)|(?:was|were) (?:said|mentioned)|da sua resposta|in your answer)\b"
    r"|[你您](?:刚才|刚刚|之前|前面|上面)?(?:说|提到|提|讲|告诉|回答)(?:过|到)?(?:的|我|了)?|刚才(?:说|提)|上面(?:说|提)|前面(?:说|提)"
)


def says_more(question: str) -> bool:
    """Whether a request asks about the former answer and names no subject: its passages are used again."""
    text = folded(question.strip())
    if not text or len(text) > LONGEST:
        return False
    if re.search(f"[{CJK}]", text):
        bare = re.sub(r"[^\w]+", "", text)
        return bool(_UNSPACED_ASKS.search(bare)) and not _KNOWN_SIGNS.sub("", bare)
    if _MORE_OF_IT.match(text):
        return True
    found = _WORD.findall(text)
    asked = [w for w in found if w in _ASKS or w in _OTHER or (w in _NTH and _points(w, found))]
    return bool(asked) and all(w in _ASKS or w in _NTH or w in _OTHER or w in _AROUND for w in found)


def _points(word: str, words: list[str]) -> bool:
    """Whether a number is meant as one of several: "o segundo", "number 2", and not "uma" alone."""
    if word not in _PLAIN_NUMBERS:
        return True
    at = words.index(word)
    return at > 0 and words[at - 1] in _COUNTED


def chats(text: str) -> bool:
    """Whether a message greets, thanks or takes leave, or has no word at all: there is nothing to search for."""
    text = folded(text[: 2 * LONGEST])
    if re.search(f"[{CJK}]", text):
        return not _CHAT_SIGNS.sub("", re.sub(r"[^\w]+", "", text))
    return len(text) < LONGEST and all(w in _CHAT for w in _WORD.findall(text))


def nth(question: str) -> int | None:
    """Which of several things a request of `says_more` asks about: 2 for "e o segundo?", -1 for the last one."""
    text = folded(question.strip())
    if found := re.search(r"第([一二三四五1-5])", text):
        return _SIGN_NTH[found[1]]
    if re.search(r"最后一?[个点种条项步]", text):
        return -1
    words = _WORD.findall(text)
    return next((_NTH[w] for w in words if w in _NTH and _points(w, words)), None)


def reminds(question: str) -> bool:
    """Whether a question points at something that was said before: the former passages are looked at first."""
    return len(question) <= 4 * LONGEST and bool(_SAID.search(folded(question)))
