"""How somebody gives their name, and how they ask for it, in Portuguese, Spanish, English and Chinese."""

from __future__ import annotations

import re

from novelo.models._words import HAN, asks

ASKS_NAME = re.compile(
    r"\b(?:meu nome|(?:eu )?me chamo|quem (?:sou eu|eu sou)|mi nombre|me llamo|qui[eé]n soy|my name|who am i)\b"
    r"|我(?:的名字|的姓名|姓名|叫(?:什么|啥)|是谁|姓什么)",
    re.IGNORECASE,
)

_CAPITAL = r"(?-i:[A-ZÀ-ÖØ-Þ])[\w'’-]*"
_NAME = rf"({_CAPITAL}(?:\s+(?:d[aeo]s?\s+|de la\s+|von\s+|van\s+)?{_CAPITAL}){{0,3}})"
_SAID = (
    r"\b(?:meu nome (?:completo )?[ée]|(?:eu )?me chamo|pode me chamar de|mi nombre es|(?:yo )?me llamo"
    r"|my (?:full )?name(?:['’]s| is)|call me)\s+(?:[oa]\s+)?"
)
_OPENS = r"(?:^|[.!?,;]\s*|\b(?:hi|hello|hey|oi|ol[áa]|hola|bom dia|boa tarde|boa noite)[,!]?\s+)"
_GIVES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_SAID}{_NAME}",
        rf"{_SAID}([^\W\d_][\w'’-]*)(?=\s*(?:[.,!;]|$|\b(?:e|y|and)\b))",  # typed in a hurry: "meu nome é ana"
        rf"\b(?:(?:eu )?sou [oa]|aqui (?:é|quem fala é)(?: [oa])?)\s+{_NAME}",
        rf"{_OPENS}(?:i am|i['’]m|(?:yo )?soy|(?:eu )?sou)\s+{_NAME}(?=\s*(?:[.,!;]|$|\b(?:and|e|y)\b))",
    )
]
# "I'm Brazilian", "I'm OK": written with a capital, and no name.
_NO_NAME = (
    "ok okay sorry fine cliente novo brasileiro brasileira brazilian portuguese american english british"
    " spanish french german italian chinese japanese indian canadian mexican argentinian novelo o a the i"
)
_NO_NAMES = frozenset(_NO_NAME.split())

# The commonest Chinese family names: after 我是 only they tell a name from anything else.
_SURNAMES = (
    "王李张刘陈杨黄赵周吴徐孙马胡朱郭何罗高林郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪"
    "范金石廖贾夏韦方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤欧阳"
)
_GIVES_HAN = [
    re.compile(rf"我(?:的名字|的姓名|名字)?(?:就)?叫(?![了来过不他她你您什啥])(?:做|作)?\s*([{HAN}A-Za-z·]{{1,12}})"),
    re.compile(rf"我(?:的名字|的姓名|姓名)是(?![什啥])\s*([{HAN}A-Za-z·]{{1,12}})"),
    re.compile(rf"我是[{HAN}]{{0,8}}?([{_SURNAMES}][{HAN}]{{1,2}})(?=[，。！,.!\s、]|$)"),
]
_GOES_ON = re.compile(r"(?:今年|来自|住在|在|是|想|要|和|很|请).*$")
_NO_NAME_HAN = re.compile(r"(?:人|生|员|师|家|客户|者|们|先生|女士)$")


def given_name(sentence: str) -> str | None:
    """The name that a speaker gives in a sentence; None if it gives none, or asks for one.

    Example: "Meu nome é Ana." -> "Ana"; "我是工程师张三" -> "张三"; "I'm late" -> None.
    """
    if asks(sentence):
        return None
    for pattern in _GIVES:
        for found in pattern.finditer(sentence):
            name = found[1].strip(" .,'’-")
            if name and name.lower() not in _NO_NAMES:
                return name
    for at, pattern in enumerate(_GIVES_HAN):
        if match := pattern.search(sentence):
            name = _GOES_ON.sub("", match[1]) or match[1]
            if at < 2 or not _NO_NAME_HAN.search(name):  # 我是高中生 is no name, 我叫 always gives one
                return name
    return None
