"""The words that the offline model knows: how its languages are told apart, what carries a subject, what asks.

Data and the few functions that read it, for `offline.py`; rules that a reader can check, no statistics.
"""

from __future__ import annotations

import re
import unicodedata

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
UNSPACED = HAN + "\u3040-\u30ff\uac00-\ud7af"  # scripts cut into pairs of signs
_IS_HAN = re.compile(rf"[{HAN}]")
_IS_KANA = re.compile(r"[\u3040-\u30ff]")
_IS_UNSPACED = re.compile(rf"[{UNSPACED}]")
_WORD = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_TYPED = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
READ = 5000  # characters of a text that tell its language

# Words that stand in one of the languages and hardly in the others, as they are typed, with and without accents.
TELLING = {
    language: frozenset(words.split())
    for language, words in {
        "pt": "não nao você voce vocês é eu meu minha meus minhas seu sua uma um qual quais são foi tem tenho isso isto"
        " olá ola oi obrigado obrigada onde quando quem porque aonde do da dos das no na nos nas ao aos com em ou mas"
        " mais muito sobre quanto fazer faz pode posso quero gostaria preciso sou está estou fica ficou chamo nome bom"
        " boa dia tudo bem por favor como o os leva",
        "es": "el los las del al una unos cuál cual cuáles cuánto dónde cuándo quién qué cómo como mi mis tu tus yo"
        " usted ustedes es soy eres está estoy hola gracias con pero muy lo le llamo nombre y en hay puedo puede quiero"
        " necesito tiene tengo buenos buenas días sobre por favor",
        "en": "the is are was were what what's which who where when why how my your you i i'm it's it and of to in on"
        " do does did can could would should have has had this that these those hello hi hey please thanks thank for"
        " with name not be am about tell there if we they he she",
    }.items()
}

# Words that carry no subject: they are not searched for. Folded; first Portuguese, then Spanish, then English.
_STOP = (
    "a o e as os um uma umas uns de da do das dos em no na nos nas por pelo pela para pra com sem sob sobre que qual"
    " quais quem quando onde como quanto quantos quanta quantas se eu tu voce voces ele ela eles elas me te lhe meu"
    " minha meus minhas seu sua seus suas isso isto esse essa este esta aquele aquela ser sou era foi fui sao estar"
    " estou estava ter tem tenho tinha tiver ha fazer faz fez faco fiz pode posso poderia quero queria gostaria preciso"
    " vou vai ir ja ainda so tambem mas ou nao sim ao aos mais menos muito bem la ai aqui entao porque disse disseram"
    " falou falei diz dizer diga fale explique melhor sabe saber lembra favor obrigado obrigada ola oi bom boa dia"
    " tarde noite tudo qualquer algum alguma"
    " el los las del al y una unos unas lo le les su sus mi mis yo usted es soy eres son hay puedo puede cual cuales"
    " quien cuando donde cuanto cuanta esto eso ese pero muy hola gracias dijo dijiste tiene tengo dime explica"
    " the an and or but of to in on at by for with from about into is are was were be been am do does did can could"
    " would should will shall may might have has had i you he she it we they them us my your his her its our their this"
    " that these those there here what which who whom whose where when why how much many not yes if so than then too"
    " very just please thanks thank hello hi hey tell know said say s t m re ve ll don didn some any more explain"
    " again"
)
STOP = frozenset(_STOP.split())
STOP_SIGNS = frozenset(
    "的了是我你您他她它们吗呢吧啊么什怎哪谁几多少这那个有在和与或就都也还很请问能可以不没要会到为对把给说"
)

GREETING = re.compile(
    r"\s*(?:ol[áa]|oi+|opa|bom dia|boa (?:tarde|noite)|hola|buen[oa]s (?:d[íi]as|tardes|noches)"
    r"|(?:hello|hi|hey)(?: there)?|good (?:morning|afternoon|evening)|你好|您好|嗨|早上好|晚上好)[\s!.,！。，]*",
    re.IGNORECASE,
)
THANKS = re.compile(
    r"\s*(?:muito |muchas |many |非常)?(?:obrigad[oa]|valeu|gracias|thanks|thank you|谢谢|多谢|感谢)"
    r"(?: very much|你|您|了)?[\s!.,！。，]*",
    re.IGNORECASE,
)
ASKS_WHO_ANSWERS = re.compile(
    r"\b(?:quem (?:[ée]|s[ãa]o) voc[êe]s?|o que (?:[ée]|voc[êe] [ée]) voc[êe]|qui[eé]n eres|qu[eé] eres"
    r"|(?:who|what) are you)\b|[你您](?:是谁|是什么|叫什么)",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"\s*(?:(?:e|y|and|mas|but|so|então|pero)\s+)?(?:"
    r"qual|quais|quem|quando|onde|aonde|como|quant[oa]s?|por ?qu[eê]|o que|existe|(?:você )?sabe|(?:você )?lembra|posso"
    r"|expli(?:que|ca)|me (?:diga|fale|conte|explique)|diga|fale|conte|resuma|liste|cite|mostre|procure|busque"
    r"|(?:quero|gostaria de) saber"
    r"|cu[aá]l(?:es)?|qui[eé]n(?:es)?|cu[aá]ndo|d[oó]nde|c[oó]mo|cu[aá]nt[oa]s?|qué|expl[ií]que|dime|cu[eé]nta(?:me)?"
    r"|quiero saber|what|which|who|whom|whose|where|when|why|how|do you|does|did|is|are|can|could|would|tell|explain"
    r"|summari[sz]e|list|show|find|give me|remind|i(?:'d like| want) to know)\b",
    re.IGNORECASE,
)
_ASKING_HAN = re.compile(
    r"[吗呢么]$|什么|怎么|怎样|如何|哪|谁|几[个天点时月]|多少|多久|多长|为何|是否|能不能|可不可以|我想知道"
    r"|请(?:问|介绍|告诉|说明|解释)"
)


def language_of(text: str) -> str | None:
    """The language of a text: "pt", "es", "en", "zh"; None if nothing tells.

    Chinese signs decide if they are a fifth of the letters and no kana stands among them; else the telling words are
    counted, and the letters that only one language has. Portuguese wins a draw.
    """
    text = text[:READ].lower()
    signs = len(_IS_HAN.findall(text))
    if signs and not _IS_KANA.search(text) and signs * 5 >= sum(map(str.isalpha, text)):
        return "zh"
    words = _TYPED.findall(text)
    scores = {language: sum(word in known for word in words) for language, known in TELLING.items()}
    scores["pt"] += 2 * len(re.findall(r"[ãõçêôà]", text))
    scores["es"] += 2 * len(re.findall(r"[ñ¿¡]|ción\b", text))
    best = max(scores, key=lambda language: scores[language])
    return best if scores[best] > 0 else None


def folded(text: str) -> list[str]:
    """The words of a text without case and accents; of scripts without spaces the pairs of signs."""
    if text.isascii():
        return _WORD.findall(text.lower())
    text = unicodedata.normalize("NFKD", text).casefold()
    text = unicodedata.normalize("NFC", "".join(c for c in text if not unicodedata.combining(c)))
    found: list[str] = []
    for word in _WORD.findall(text):
        if len(word) == 1 or not _IS_UNSPACED.match(word):
            found.append(word)
        else:
            found.extend(word[at : at + 2] for at in range(len(word) - 1))
    return found


def terms(text: str) -> list[str]:
    """What a text is about: its folded words without the empty ones, cut so that `reembolso` and `reembolsos` agree."""
    found: list[str] = []
    for word in folded(text):
        if _IS_UNSPACED.match(word):
            if not all(sign in STOP_SIGNS for sign in word):
                found.append(word)
        elif any(map(str.isdigit, word)):
            found.append(word)
        elif word not in STOP and len(word) > 1:
            found.append(word[:5] if len(word) > 5 else word.rstrip("s") or word)
    return found


def asks(sentence: str) -> bool:
    """Whether a sentence is a question or asks for something."""
    bare = sentence.strip().rstrip("\"'”»」)） ")
    if bare.endswith(("?", "？")) or bare.startswith("¿"):
        return True
    return bool(_ASKING.match(bare) or _ASKING_HAN.search(bare.rstrip("。.！!")))
