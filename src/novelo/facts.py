"""The ledger of exact facts beside a summary: what must not be paraphrased, word for word, and where it was said.

A summary retells; an order number retold is an order number lost. So the messages that a summary covers are read by a
table of rules (`RULES`), and what those find is kept verbatim: `facts_of` one message, `merge` with what the ledger
had, `fit` into the tokens that are left beside the prose. What is verbatim in the prose needs no line of its own;
what fits nowhere is the *loss report*. Nothing goes without being named or counted.

    "Meu nome é Lívia e o pedido é PX-48213-7."  at position 4  ->  name Lívia, id PX-48213-7, both at 4

Each rule runs in linear time: it starts only at the border of a word or a number, repeats over characters that what
follows cannot begin with (or a bounded number of times), and is skipped where the text lacks what it needs. Of one
message at most 200,000 characters are read, its two ends (`MAX_READ`); what stands between is told as `unread`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from novelo.messages import Message, Role

KINDS = ("name", "constraint", "id", "money", "date", "address", "email", "phone", "url", "path", "number")
NAMES = {  # of the kinds, in the order above
    language: dict(zip(KINDS, names.split("|"), strict=True))
    for language, names in {
        "pt": "nome|condição|código|valor|data|endereço|e-mail|telefone|link|arquivo|número",
        "es": "nombre|condición|código|importe|fecha|dirección|correo|teléfono|enlace|archivo|número",
        "zh": "姓名|要求|编号|金额|日期|地址|邮箱|电话|链接|文件|数字",
        "fr": "nom|condition|code|montant|date|adresse|e-mail|téléphone|lien|fichier|nombre",
        "de": "Name|Bedingung|Kennung|Betrag|Datum|Adresse|E-Mail|Telefon|Link|Datei|Zahl",
        "it": "nome|condizione|codice|importo|data|indirizzo|e-mail|telefono|link|file|numero",
        "ja": "名前|条件|番号|金額|日付|住所|メール|電話|リンク|ファイル|数",
    }.items()
}
MAX_READ = 200_000  # characters of one message; more is a document, and its two ends are read
MAX_FACT = 300  # characters of one fact; a longer run (base64, a signed URL) is counted as passed over
MAX_CLAUSE = 120  # characters of a stated constraint
MAX_FACTS: dict[str, int] = {"user": 500, "assistant": 100, "tool": 40}  # of one message, by its role; system: none
MAX_REACH = 40  # characters that a constraint reaches back, to the beginning of its clause


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """One exact fact: a piece of a message's text, the position of that message, and who wrote it."""

    kind: str
    text: str
    position: int
    role: Role = "user"


@dataclass(frozen=True)
class Found:
    """What one message holds: its facts, how many more were seen but not taken, and the characters never read."""

    facts: list[Fact]
    passed_over: int = 0
    unread: int = 0


@dataclass(frozen=True)
class Fitted:
    """What became of the facts: a line in the ledger, no line because the prose says it, or lost. Together, all."""

    kept: list[Fact]
    lost: list[Fact]
    verbatim: list[Fact]


# ---- the pieces that rules are made of ----

_L = "A-Za-z0-9_À-ÖØ-öø-ɏ"  # letters and digits that make one word; Chinese writes without borders
_S = r"[ \t\u00a0\u202f]"  # a blank inside a line: no fact runs over a line's end
_N = r"\d++(?:[.,]\d++)*+"  # 300, 1.347,90, 12.50
_B = rf"(?<![{_L}])(?<!\d[.,])"  # a number begins here, not the rest of one
_ZH = r"\u4e00-\u9fff"
_SIGN = rf"(?:(?<![{_ZH}])[-+−])?"  # 10月1日-31日 has no minus
_E = rf"(?![{_L}])"
_MONTHS = (
    "jan(?:eiro|uary)?|fev(?:ereiro)?|feb(?:ruary|rero)?|mar(?:ço|ch|zo)?|abr(?:il)?|apr(?:il)?|maio|may(?:o)?"
    "|jun(?:ho|e|io)?|jul(?:ho|y|io)?|ago(?:sto)?|aug(?:ust)?|set(?:embro)?|sep(?:t|tember|tiembre)?|septiembre"
    "|out(?:ubro)?|oct(?:ober|ubre)?|nov(?:embro|ember|iembre)?|dez(?:embro)?|dec(?:ember)?|dic(?:iembre)?|enero"
)
_CODES = "USD|BRL|EUR|GBP|CNY|RMB|JPY|MXN|ARS|CLP|COP|CAD|AUD|CHF|INR|KRW|HKD"
_COINS = (
    f"(?:{_CODES}|reais|real|centavos?|d[óo]lar(?:es)?|dollars?|bucks|cents?|euros?|pounds?|pesos?|yuans?|libras?"
    rf"|ienes?|yen)(?![{_L}])|(?:万|亿|千|百)?(?:元|块钱?|美元|欧元|日元|英镑|港币|人民币)"
)
_SCALE = (
    rf"(?:{_S}?(?:(?:mil|milh(?:ões|ão)|bilh(?:ões|ão)|mi|bi|thousand|million|billion|mill(?:ón|ones)|[kKM])(?![{_L}])"
    r"|[万亿]))"
)
_UNITS = (
    r"(?:°[CF]?|[%‰％]|个?[人天次岁年件箱盒台张份月周]|个|名|小时|分钟|公里|公斤|千克|克|米|厘米|升|斤|页|位"
    r"|(?:k[gmW]|kWh|kcal|mg|g|cm|mm|m²|m|ml|mL|[lL]|lbs?|oz|ft|[KMGT]B|MHz|GHz|mAh|W|V|h|hrs?|min|s|ms|x"
    r"|segundos?|minutos?|horas?|dias?|días?|noites?|noches?|semanas?|m[êe]s(?:es)?|anos?|años?|pessoas?|personas?"
    r"|adultos?|crianças?|niñ[oa]s|unidades?|caixas?|cajas?|itens|item|items|vezes|veces|quartos?|habitaciones"
    r"|seconds?|minutes?|hours?|days?|nights?|weeks?|months?|years?|people|persons?|guests?|adults?|children|kids"
    r"|units?|boxes|box|pieces?|times|rooms?|tickets?|stars?|miles?|pages?|metros?|meters?|litros?|quilos?|kilos?)"
    rf"(?![{_L}]))"
)
_CAPITAL = r"(?:[A-ZÀ-ÖØ-Þ]\.|(?:Dra?|Mrs?|Ms|Sra?|Jr)\.|[A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ɏ'’-]{0,30}+)"
_NAME = rf"{_CAPITAL}(?:{_S}(?:(?:d[aeo]s?|del|e|van|von|la|al|bin){_S})?{_CAPITAL}){{0,4}}"
_WORD = r"[A-Za-zÀ-ÖØ-öø-ɏ][A-Za-zÀ-ÖØ-öø-ɏ'’-]{1,30}+"
_NO_NAME = (  # what follows "my name is" and is no name
    r"(?!(?i:not|on|in|at|the|an?|no|n[ãa]o|um|uma|o|spelled|wrong|misspelled|correct|also|still|under|here|there"
    rf"|el|la|los|un|una|está|esta|como|so|too|and|but|listed|missing|different|importante?)(?![{_L}]))"
)
_NAME_ZH = rf"(?![一个两几下上外从这那车])(?:(?![我你他她它您是的在了什哪做不吧呀啊哦呢和])[{_ZH}·]){{1,4}}+|{_NAME}"
_STREET = (
    r"(?:Rue|Via|Viale|(?i:rua|r\.|avenida|av\.|av|alameda|travessa|praça|rodovia|estrada|largo|calle|carrera"
    r"|avda\.|paseo|plaza))"
)
_PLACE_ZH = rf"(?:(?![我你他她您们是在到住寄送的了请把给和于址])[{_ZH}])"
_MUST = {  # how a constraint begins; a blank stands for any blank inside a line
    "pt": r"n[ãa]o (?:pode(?:m|ria)?|posso|podemos|devem?|quero|queremos|como|bebo|gosto|aceito|use|usar|inclua"
    r"|coloque|mencione|envie)|nunca|jamais|sem|apenas|somente|só|no m[áa]ximo|no m[íi]nimo|pelo menos"
    r"|at[ée] (?:o dia|[àa]s?|dia|amanhã|\d{1,2}/\d{1,2})|preciso (?:que|de)|precisa (?:ser|estar|ter)|tem que"
    r"|tenho que|obrigat[óo]ri[oa]|sou al[ée]rgic[oa]|alergia|prefiro",
    "en": r"never|must(?: not|n['’]?t)?(?! have [a-z]{1,20}(?:ed|lt|en|wn))|only|no (?:more|later) than"
    r"|at (?:most|least)|(?:cannot|can not|can['’]?t)(?! (?:i|we|you|find|wait|remember|believe|see|seem) )"
    r"|should not|shouldn['’]?t|may not|(?:do not|don['’]?t|won['’]?t) (?:want|use|include|send|add|call|charge"
    r"|cancel|change|book|exceed|share|mention|eat|drink|put|write|accept|go over)|needs? (?:it|this|them|to be)"
    r"|ha(?:s|ve) to be|without|allergic|i prefer|avoid",
    "es": r"no (?:puede[ns]?|puedo|podemos|deben?|quiero|uses?|incluyas?)|sin|solo|sólo|solamente|[úu]nicamente"
    r"|como m[áa]ximo|como m[íi]nimo|al menos|a m[áa]s tardar|necesito que|tiene que|tengo que"
    r"|soy al[ée]rgic[oa]",
}
_MUST_ZH = (
    r"(?<!要)不要|必须(?!的)|(?<!能)不能|(?<!可)不可以|务必|一定要|只要|只能|仅限|(?<!怪)不得|禁止|最多|至少"
    r"|千万别|过敏|我不吃"
)
_STOP = r".!?;\n\r。！？；，"


@dataclass(frozen=True)
class Rule:
    """One way to see one kind of fact: the pattern (its group 1, if it has one, is the fact) and who may say it.

    `needs` is a piece of text without which the pattern cannot match, so that it need not run: "0" is any digit.
    """

    kind: str
    source: str
    needs: str = ""
    roles: tuple[Role, ...] = ("user", "assistant", "tool")
    flags: int = 0

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first used: all of them would take most of the time of an import."""
        return re.compile(self.source, self.flags)


def _rule(kind: str, source: str, needs: str = "", *, flags: int = 0) -> Rule:
    only_user = kind in ("name", "constraint")
    return Rule(kind, source, needs, ("user",) if only_user else ("user", "assistant", "tool"), flags)


# Where two rules see the same span, the first one here names its kind.
RULES: tuple[Rule, ...] = (
    # -- addresses of machines: https://…, www.…, with the sentence's own full stop left out
    _rule("url", rf"(?<![{_L}])[A-Za-z][A-Za-z0-9+.-]{{1,15}}+://[^\s<>\"'`，。；、（）【】「」]++", "://"),
    _rule("url", rf"(?<![{_L}./@-])www\.[^\s<>\"'`，。；、（）【】「」]++", "www."),
    _rule("email", r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}+@[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+)++", "@"),
    # -- moments: 2026-03-14T14:30:00Z, 14/03, 14/03/2026, 14.03.2026, March 14, 14 de março, 3月14日, 14:30, 14h30
    _rule(
        "date",
        rf"{_B}\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}"
        rf"(?:[T ]\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:\.\d{{1,9}})?)?(?:Z|{_S}?[+-]\d{{2}}:?\d{{2}})?)?(?![{_L}/-])",
        "0",
    ),
    _rule("date", rf"{_B}(?<!/)\d{{1,2}}/\d{{1,2}}(?:/\d{{2,4}})?(?![{_L}/])", "/"),
    _rule("date", rf"{_B}(?<![/-])\d{{1,2}}(?:\.\d{{1,2}}\.|-\d{{1,2}}-)(?:\d{{4}}|\d{{2}})(?![{_L}-])(?!\.\d)", "0"),
    _rule(
        "date",
        rf"{_B}\d{{1,2}}(?:º|ª|st|nd|rd|th)?{_S}(?:(?:de|of|del){_S})?(?:the{_S})?(?:{_MONTHS}){_E}"
        rf"(?:[.,]?{_S}(?:(?:de|del|of){_S})?\d{{4}}{_E})?",
        "0",
        flags=re.I,
    ),
    _rule(
        "date",
        rf"(?<![{_L}])(?:{_MONTHS})\.?{_S}(?:(?:de|del|of|the){_S})?"
        rf"(?:\d{{4}}|\d{{1,2}}(?:st|nd|rd|th)?(?:,?{_S}\d{{4}})?){_E}",
        "0",
        flags=re.I,
    ),
    _rule("date", r"(?<!\d)\d{2,4}年(?:\d{1,2}月(?:\d{1,2}[日号]?)?)?|(?<!\d)\d{1,2}月\d{1,2}[日号]?(?!\d)", "0"),
    _rule(
        "date",
        rf"{_B}(?<![:])\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:[-–~]\d{{1,2}}:\d{{2}})?(?:{_S}?[aApP](?:\.[mM]\.|[mM](?![{_L}])))?(?![{_L}:])"
        rf"|{_B}\d{{1,2}}{_S}?[aApP](?:\.[mM]\.|[mM]{_E})|{_B}\d{{1,2}}h(?:\d{{2}})?{_E}"
        r"|(?<!\d)\d{1,2}[点时](?:\d{1,2}分?|半)?",
        "0",
    ),
    # -- money: R$ 1.347,90, $12.50, ¥300, USD 15, 15 USD, 20 reais, 300元, 三百元
    _rule(
        "money",
        rf"(?<![{_L}])(?:(?:R|US|A|C|HK|NT|MX|S)?\$|[€£¥￥₩₹]|(?:{_CODES})(?![{_L}])){_S}?{_N}(?:[-–~]{_N})?{_SCALE}?",
        "0",
    ),
    _rule("money", rf"{_B}{_N}(?:[-–~]{_N})?(?:{_SCALE}(?:{_S}de)?)?{_S}?(?:{_COINS}|[€£¥])", "0", flags=re.I),
    _rule("money", r"[一二三四五六七八九十百千万两零]{1,10}+(?:元|块钱)", "元"),
    # -- where people are: Rua das Acácias, 77; 12 Main Street; 北京市朝阳区建国路8号
    _rule(
        "address",
        rf"(?<![{_L}]){_STREET}(?:{_S}[{_L}.'’-]{{1,30}}+){{1,7}}?"
        rf"(?:,{_S}?(?:n[º°.o]{{0,2}}{_S}?)?|{_S}(?:n[º°.o]{{1,2}}{_S}?|\#{_S}?)?)\d{{1,6}}(?:-\d{{1,4}})?[A-Za-z]?{_E}"
        rf"(?:(?:,|{_S}-){_S}?(?i:apto?|apartamento|ap|bloco|casa|sala|andar|piso|depto|cj)\.?{_S}?[{_L}]{{1,6}})?",
        "0",
    ),
    _rule(
        "address",
        rf"{_B}\d{{1,5}}[A-Za-z]?{_S}(?:[A-Z0-9][{_L}.'’-]{{0,20}}+{_S}){{1,4}}?(?i:street|st|avenue|ave|road|rd|boulevard"
        rf"|blvd|lane|ln|drive|dr|court|ct|square|sq|place|pl|way|parkway|pkwy|terrace|highway|hwy){_E}"
        rf"(?:,?{_S}(?i:apt|apartment|suite|unit|floor)\.?{_S}[{_L}]{{1,6}}|,?{_S}\#[{_L}]{{1,6}})?",
        "0",
    ),
    _rule(
        "address",
        rf"(?<!{_PLACE_ZH}){_PLACE_ZH}{{2,40}}?(?:路|街|道|巷|弄|胡同){_S}?\d{{1,5}}{_S}?[号弄]"
        rf"(?:{_S}?[{_ZH}A-Z]{{0,6}}?\d{{1,5}}{_S}?(?:号楼|号|栋|幢|座|单元|室|层|楼)){{0,4}}",
        "号",
    ),
    # -- tax numbers (CPF, CNPJ) and IP addresses
    _rule("id", rf"{_B}\d{{2,3}}\.\d{{3}}\.\d{{3}}(?:/\d{{4}})?-\d{{1,2}}{_E}", "."),
    _rule("id", rf"{_B}\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d{{1,5}})?(?![{_L}])(?!\.\d)", "."),
    # -- phones: +55 11 98765-4321, (11) 98765-4321, 555-0134-2222; eight digits at least, looked at below
    _rule(
        "phone",
        rf"(?<![{_L}+(./-])(?:\+\d{{1,3}}[ .-]?)?(?:\(\d{{1,4}}\)[ .-]?)?\d{{1,5}}(?:[ .-]\d{{2,5}}){{1,4}}"
        rf"(?![{_L}/-])(?![.,]\d)"
        rf"|(?<![{_L}])\+\d{{8,15}}{_E}|(?<![{_L}-])0\d{{2,3}}-\d{{7,8}}(?![{_L}-])",
        "0",
    ),
    # -- numbers with a unit: 2 kg, 3 noites, 40%, 24-hour, 5-7 dias, 2个
    _rule("number", rf"{_B}{_SIGN}{_N}(?:[-–~]{_N})?{_SCALE}?(?:{_S}|-)?{_UNITS}", "0"),
    # -- ids: any token with a digit and five characters (PX-48213-7, order_8812, uuids), #77, A12
    _rule("id", r"(?<![A-Za-z0-9_-])(?=[A-Za-z_-]*+\d)[A-Za-z0-9_-]{5,}+"),
    _rule("id", rf"(?<![{_L}])\#(?=[A-Za-z_-]*+\d)[A-Za-z0-9_-]++", "#"),
    _rule("id", rf"(?<![{_L}-])[A-Z]{{1,4}}-?\d{{1,4}}[A-Z]?(?![{_L}-])", "0"),
    # -- files: /var/log/app.log, ~/notas/x, ../x.py, src/a.py, C:\dados\x.csv, relatorio.pdf
    _rule("path", rf"(?<![{_L}/.:~<-])(?:~|\.{{1,2}})?(?:/[{_L}.@+%~-]++){{2,}}+/?", "/"),
    _rule("path", rf"(?<![{_L}/.:~<-])(?:~|\.{{1,2}})?/[{_L}@+%-]++(?:\.[{_L}@+%-]++)++", "/"),
    _rule("path", rf"(?<![{_L}/.@:~-])(?:[{_L}.-]++/)++[{_L}-]++(?:\.[{_L}-]++)++", "/"),
    _rule("path", rf"(?<![{_L}])[A-Za-z]:\\[^\s<>\"|?*，。；]++", ":\\"),
    _rule(
        "path",
        rf"(?<![{_L}/.@\\-])[{_L}-]++(?:\.[{_L}-]++)*?\.(?i:py|js|ts|tsx|jsx|json|jsonl|ya?ml|toml|md|txt|csv|tsv|xlsx?|docx?"
        r"|pptx?|pdf|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|gz|tar|html?|css|sql|sh|go|rs|java|cpp|hpp|ipynb|log|ini|cfg"
        rf"|conf|env|xml|db|sqlite|parquet){_E}(?!\.[{_L}])",
        ".",
    ),
    # -- numbers of two digits and more: 77, 2,5, 1.2.3
    _rule("number", rf"{_B}{_SIGN}(?=\d\d|\d[.,]\d){_N}{_SCALE}?", "0"),
    # -- names, where the user gives one
    _rule(
        "name",
        rf"(?i:nome(?:{_S}(?:completo|dela?|d[aeo]s?{_S}{_WORD}))?{_S}(?:é|e|eh|:)|me{_S}chamo|chamo-me|se{_S}chama"
        rf"|nombre(?:{_S}(?:completo|del?{_S}{_WORD}))?{_S}es|me{_S}llamo|se{_S}llama"
        rf"|name(?:['’]s|{_S}is|:)|nome:|nombre:|je{_S}m['’]appelle|ich{_S}hei(?:ß|ss)e|mi{_S}chiamo|mein{_S}name{_S}ist)"
        rf"{_S}{_NO_NAME}({_NAME}|{_WORD})",
    ),
    _rule(
        "name",
        rf"(?i:pode(?:m)?{_S}me{_S}chamar{_S}de|me{_S}chame{_S}de|sou{_S}[oa]|aqui{_S}(?:é|fala){_S}[oa]"
        rf"|i{_S}am{_S}called|i['’]m{_S}called|call{_S}me|am{_S}known{_S}as|ll[áa]mame|puedes{_S}llamarme|soy){_S}({_NAME})",
    ),
    _rule("name", rf"(?:我叫|我的名字(?:是|叫)|我名叫|名字(?:是|叫)|叫我|我姓){_S}?({_NAME_ZH})"),
    # -- what must be and what must not, as the user states it; the clause is measured in `_clause`
    _rule("constraint", rf"(?<![{_L}-])(?:{'|'.join(_MUST.values()).replace(' ', _S)}){_E}|{_MUST_ZH}", flags=re.I),
)

_OPENERS = {")": "(", "）": "（", "]": "[", "”": "“", "»": "«", "」": "「", "》": "《"}
_TRAILING = ".,;:!?'\"’”)]}>…，。；：！？、）】」』*_~-"
_CLAUSE = re.compile(rf"(?:[^{_STOP}]|[.!?;](?=[^\s{_STOP}\"'”’)]))*+")
_HEAD = re.compile(
    rf"(?:[.,:](?!\w)|[!?;\n\r。！？；，：(（])|{_S}(?:e|y|and|mas|but|pero|so|então|que|porque|because|that){_S}", re.I
)
# No telephones: 2003-2013, a Brazilian postal code, 1.234.567.
_NO_PHONE = re.compile(r"(?:19|20)\d\d[ -](?:19|20)\d\d|\d{5}-\d{3}|\d{1,3}(?:\.\d{3})+")


# ---- one message ----


def read(message: Message, position: int) -> Found:
    """The facts in a message's text, in the order they stand there, and what was not taken.

    No fact stands inside another (the longest wins) and none comes twice. Of a message at most `MAX_FACTS` are taken,
    by the order of `KINDS`, so that a huge tool result gives its ids before its plain numbers.

    Args:
        message: of any role; a system message has no facts, and names and constraints are only the user's to give.
        position: of the message in its thread.
    """
    limit = MAX_FACTS.get(message.role, 0)
    text = message.text
    if not limit or not text:
        return Found([])
    seen: set[str] = set()
    too_long = 0
    pieces = _pieces(text)
    found: list[tuple[str, str]] = []
    for piece in pieces:
        spans, long = _spans(piece, message.role)
        too_long += long
        for start, end, kind in spans:
            if (fact := piece[start:end]) not in seen:
                seen.add(fact)
                found.append((kind, fact))
    taken = sorted(sorted(range(len(found)), key=lambda i: KINDS.index(found[i][0]))[:limit])
    facts = [Fact(found[i][0], found[i][1], position, message.role) for i in taken]
    return Found(facts, len(found) - len(taken) + too_long, len(text) - sum(map(len, pieces)))


def facts_of(message: Message, position: int) -> list[Fact]:
    """The facts in a message's text (see `read`, which also counts what was passed over)."""
    return read(message, position).facts


def _pieces(text: str) -> tuple[str, ...]:
    """What is read of a text: all, or its two ends, cut where no word is."""
    if len(text) <= MAX_READ:
        return (text,)
    half = MAX_READ // 2
    head, tail = text[:half], text[-half:]
    first = next((m.end() for m in re.finditer(r"\s", tail[:MAX_FACT])), 0)
    last = next((i for i in range(half - 1, half - MAX_FACT, -1) if head[i].isspace()), half)
    return head[:last], tail[first:]


def _spans(text: str, role: Role) -> tuple[list[tuple[int, int, str]], int]:
    """Where facts stand in a text, none within another, and how many were too long to take."""
    digits = any(map(str.isdigit, text))
    seen: dict[tuple[int, int], str] = {}
    too_long: set[tuple[int, int]] = set()
    for rule in RULES:
        if role not in rule.roles or not (digits if rule.needs == "0" else rule.needs in text):
            continue
        for match in rule.pattern.finditer(text):
            start, end = _trimmed(text, rule, match)
            if start < end <= start + MAX_FACT:
                seen.setdefault((start, end), rule.kind)
            elif start < end:
                too_long.add((start, end))
    outer: list[tuple[int, int, str]] = []
    reach = -1
    for (start, end), kind in sorted(_reaching(text, seen), key=lambda item: (item[0][0], -item[0][1])):
        if end > reach:  # else it stands inside one that begins no later
            outer.append((start, end, kind))
            reach = end
    return outer, len(too_long)


def _reaching(text: str, seen: dict[tuple[int, int], str]) -> Iterator[tuple[tuple[int, int], str]]:
    """The spans, a constraint from the beginning of its clause where that is near and no other fact stands between.

    So it is "a entrega não pode atrasar", and not only what may not be.
    """
    begins = sorted(start for (start, _), kind in seen.items() if kind != "constraint")
    for (start, end), kind in seen.items():
        first = start
        if kind == "constraint":
            nearest = max(0, start - MAX_REACH)
            heads = [m.end() for m in _HEAD.finditer(text, nearest, start)]
            first = heads[-1] if heads else start if nearest else 0
            first += len(text[first:start]) - len(text[first:start].lstrip(" \t\u00a0\u202f\"'“«-*•"))
            if end - first > MAX_CLAUSE or bisect_left(begins, first) < bisect_left(begins, start):
                first = start
        yield (first, end), kind


def _trimmed(text: str, rule: Rule, match: re.Match[str]) -> tuple[int, int]:
    """The span of the fact in a match; an empty one if a second look says that it is none."""
    start, end = match.span(1 if rule.pattern.groups and match[1] else 0)
    if rule.kind == "constraint":
        return _clause(text, start, end)
    if rule.kind == "phone" and (not 8 <= sum(map(str.isdigit, match[0])) <= 15 or _NO_PHONE.fullmatch(match[0])):
        return 0, 0
    piece = text[start:end]
    if rule.kind in ("url", "path", "name"):
        end -= len(piece) - len(piece.rstrip(_TRAILING))
    if rule.kind == "id":
        start += len(piece) - len(piece.lstrip("-"))
        if not text[end : end + 1].isalnum():  # 2024-年 stays as it stands
            end -= len(piece) - len(piece.rstrip("-"))
    return start, end


def _clause(text: str, start: int, trigger_end: int) -> tuple[int, int]:
    """A constraint from its first word to the sentence's end, at most `MAX_CLAUSE` characters, cut between words."""
    match = _CLAUSE.match(text, trigger_end, start + MAX_CLAUSE + 1)
    end = match.end() if match else trigger_end
    if end - start > MAX_CLAUSE:
        end = start + MAX_CLAUSE
        blank = max(text.rfind(" ", trigger_end, end), text.rfind("\t", trigger_end, end))
        end = blank if blank > trigger_end else end
    while end > trigger_end and (text[end - 1].isspace() or _unopened(text[start:end])):
        end -= 1
    return (start, end) if end > trigger_end else (0, 0)  # "only." says nothing


def _unopened(piece: str) -> bool:
    """Whether a piece ends with a bracket or quote that was opened before it."""
    opener = _OPENERS.get(piece[-1])
    return opener is not None and piece.count(opener) < piece.count(piece[-1])


# ---- the ledger ----


def merge(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """Both lists as one, by position; what was said again keeps its first place, and is the user's if they said it."""
    facts: dict[str, Fact] = {}
    for fact in sorted((*old, *new), key=_position):
        first = facts.get(fact.text)
        if first is None:
            facts[fact.text] = fact
        elif fact.role == "user" != first.role:
            facts[fact.text] = msgspec.structs.replace(first, role="user", kind=fact.kind)
    return list(facts.values())


def fit(
    facts: Sequence[Fact], text: str, limit_tokens: int, count: Callable[[str], int], language: str | None = None
) -> Fitted:
    """Share out the facts: those the prose says verbatim, those that get a line in the ledger, and those that are lost.

    The user's come first, then the kinds in the order name, constraint, id, money, date, address, then the newest.

    Args:
        facts: n facts.
        text: the summary's prose.
        limit_tokens: for the ledger as `ledger_text` writes it, counted as a whole.
        count: text -> tokens; called at most once a fact, and a few times for the whole.
        language: of the ledger's words.
    Returns:
        kept (by position), lost (by position, the loss report) and verbatim; together n facts.
    """
    missing = lost_facts(facts, text)
    gone = set(map(id, missing))
    order = sorted(missing, key=_priority)
    chosen: list[Fact] = []
    sizes: list[int] = []
    left = limit_tokens
    for fact in order:
        size = count(fact.text) + 1
        if size <= left:
            chosen.append(fact)
            sizes.append(size)
            left -= size
        if left < 1:
            break
    while chosen and (over := count(ledger_text(chosen, language)) - limit_tokens) > 0:
        while chosen and over > 0:
            over -= sizes.pop()
            chosen.pop()
    lines = set(map(id, chosen))
    return Fitted(
        kept=sorted(chosen, key=_position),
        lost=sorted((f for f in missing if id(f) not in lines), key=_position),
        verbatim=[f for f in facts if id(f) not in gone],
    )


def ledger_text(facts: Iterable[Fact], language: str | None = None) -> str:
    """The ledger as the model reads it, one line a kind: `id: PX-48213-7; 2291-KT`; kinds in a language we know."""
    named = NAMES.get(language or "", {})
    lines: dict[str, list[str]] = {}
    for fact in facts:
        lines.setdefault(fact.kind, []).append(fact.text)
    return "\n".join(f"{named.get(kind, kind)}: {'; '.join(lines[kind])}" for kind in sorted(lines, key=_rank))


def lost_facts(before: Iterable[Fact], after_text: str) -> list[Fact]:
    """The facts that a text does not say verbatim, with the borders of words and numbers: 77 is not in 1772."""
    return [fact for fact in before if not says(after_text, fact.text)]


def says(text: str, fact: str) -> bool:
    """Whether a text holds a fact as a thing of its own: not as a part of a longer word, number, id, date or path."""
    at = text.find(fact)
    while fact and at >= 0:
        end = at + len(fact)
        if not (_joined(text[max(0, at - 2) : at][::-1], fact[0]) or _joined(text[end : end + 2], fact[-1])):
            return True
        at = text.find(fact, at + 1)
    return False


def _joined(outside: str, inside: str) -> bool:
    """Whether a fact's last character goes on outside of it; `outside` is read away from the fact."""
    if not outside or not _wordy(inside):
        return False
    return _wordy(outside[0]) or (len(outside) > 1 and outside[0] in "-/.,:@_" and _joins(outside, inside))


def _joins(outside: str, inside: str) -> bool:
    after = outside[1]
    if outside[0] in ",:":  # 12 goes on in 12,50 and 12:30, a word does not go on behind a comma
        return after.isdigit() and inside.isdigit()
    return _wordy(after)


def _wordy(char: str) -> bool:
    """Whether a character makes words that have borders; Chinese and Japanese ones do not."""
    return char == "_" or (char.isalnum() and not "\u2e80" <= char <= "\ud7ff")


def _position(fact: Fact) -> int:
    return fact.position


def _rank(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _priority(fact: Fact) -> tuple[bool, int, int]:
    return fact.role != "user", min(_rank(fact.kind), KINDS.index("email")), -fact.position
