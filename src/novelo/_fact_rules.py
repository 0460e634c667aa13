"""The table of rules by which exact facts are found in a message, and the pieces that they are made of.

Each rule runs in linear time: see the head of `facts.py`. A rule says from which roles it takes facts, and what the
text must hold for it to be tried at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from novelo.messages import Role

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

OPENERS = {")": "(", "）": "（", "]": "[", "”": "“", "»": "«", "」": "「", "》": "《"}
TRAILING = ".,;:!?'\"’”)]}>…，。；：！？、）】」』*_~-"
CLAUSE = re.compile(rf"(?:[^{_STOP}]|[.!?;](?=[^\s{_STOP}\"'”’)]))*+")
LEAD = re.compile(r"[\s\"'“«*•-]*")  # before the first word of a clause; also what counts as a blank, as U+001F does
HEAD = re.compile(
    rf"(?:[.,:](?!\w)|[!?;\n\r。！？；，：(（])|{_S}(?:e|y|and|mas|but|pero|so|então|que|porque|because|that){_S}", re.I
)
# No telephones: 2003-2013, a Brazilian postal code, 1.234.567.
NO_PHONE = re.compile(r"(?:19|20)\d\d[ -](?:19|20)\d\d|\d{5}-\d{3}|\d{1,3}(?:\.\d{3})+")
