"""Questions in words: what asks, what leans on something said before, and what a model may have made of one.

A rewriting model answers instead of asking, adds a preamble or a comment, changes the language, or brings in numbers
and names from elsewhere. `judged` takes the one question out of what it gave, and says what is wrong with it.
"""

from __future__ import annotations

import re

from novelo.answers import without_thoughts
from novelo.languages import language_of
from novelo.words import EMPTY, EMPTY_SIGNS, WORD, folded, is_cjk

LONGEST = 400  # characters of a rewritten question, more than those of the user's
LONGEST_READ = 2000  # characters of any question that is looked at


def judged(reply: str, question: str, history: str, language: str | None = None) -> tuple[str, str]:
    """What a model gave for a standalone question, cleaned, and why it is refused ("" if it is not).

    Args:
        reply: its whole answer.
        question, history: what it was made from.
        language: of the question; told from it if not given.
    Example: "Ele nasceu em 1839." -> refused, no question; "好的,独立的问题是:西湖的面积有多大?" -> "西湖的面积有多大?"
    """
    reply = without_thoughts(reply)
    if len(reply) > 2 * LONGEST_READ:
        return "", "too long"
    if _FRAME.search(reply):
        return "", "repeats the request"
    text = _cleaned(reply)
    if not text or text == question:
        return text, "" if text else "empty"
    if len(text) > min(LONGEST + len(question), LONGEST_READ):
        return text, "too long"
    if not asks(text):
        return text, "not a question"
    if _ANSWERS.search(text) and _tells(text, question):
        return text, "an answer in it"
    written, known = language_of(text), language or language_of(question) or language_of(history)
    if written is not None and known is not None and written != known:
        return text, "another language"
    invented = _invented(text, f"{question}\n{history}", known)
    if invented:
        return text, f"says what was not said: {len(invented)}"
    if not terms(text) & terms(f"{question}\n{history}"):
        return text, "about something else"
    return text, ""


# What the request is framed with (`retrieval.condense`): small models give it back instead of a question.
_FRAME = re.compile(r"^\W*(?:the conversation|user|assistant)\s*:", re.IGNORECASE | re.MULTILINE)
_LABEL = re.compile(
    r"^[^\n:：?？]{0,80}(?:question|pergunta|pregunta|domanda|frage|вопрос|问题|問題|質問|질문|السؤال|rewritten|reescrita)"
    r"[^\n:：?？]{0,40}[:：]\s*",
    re.IGNORECASE,
)
_MARKS = "?？؟"
_QUOTES = "\"'“”‘’«»「」『』*_` "
_ASKING = re.compile(
    r"^\W*(?:(?:e|y|and|mas|but|so|então|pero|et|und)\s+)?(?:"
    r"qual|quais|quem|quando|onde|aonde|como|quant[oa]s?|por ?qu[eê]|o que|posso|podes?|existe"
    r"|expli(?:que|ca)|me (?:diga|fale|conte|explique)|diga|fale|conte|resuma|liste|cite|mostre|compare"
    r"|cu[aá]l(?:es)?|qui[eé]n(?:es)?|cu[aá]ndo|d[oó]nde|c[oó]mo|cu[aá]nt[oa]s?|qu[eé]|dime|explícame"
    r"|what|which|who|whom|whose|where|when|why|how|do|does|did|is|are|can|could|would|should|will|tell|explain"
    r"|summari[sz]e|list|show|find|give me|describe|compare"
    r"|quel(?:le)?s?|qui|quand|où|comment|combien|pourquoi|est-ce|explique[rz]?"
    r"|was|wer|wann|wo|wie|warum|wieso|welche[rsmn]?|kann|gibt|erkläre?"
    r"|quale|quali|chi|dove|perché|quant[oaie]|cosa|spiega"
    r"|кто|что|где|когда|как|какой|какая|какие|сколько|почему|зачем|расскажи|объясни"
    r"|من|ما|ماذا|متى|أين|كيف|لماذا|كم|هل)\b",
    re.IGNORECASE,
)
_ASKING_SIGNS = re.compile(
    r"[吗呢么]$|什么|怎么|怎样|如何|哪|谁|几[个天点时月年]|多少|多久|多长|多大|为何|为什么|是否|能不能|可不可以"
    r"|^请(?:问|介绍|告诉|说明|解释)|ですか|ますか|でしょうか|何|いつ|どこ|誰|どう|いくら|なぜ"
    r"|무엇|언제|어디|누구|어떻게|얼마|왜|까요?$|나요$"
)
# A statement before the question: four words and more that end in a full stop, then a new sentence.
_ANSWERS = re.compile(r"(?:\S+\s+){3,}\S{3,}[.!]\s+\S|[^。！]{4,}[。！]\s*\S|[.!。！]\s*$")


_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


def _tells(text: str, question: str) -> bool:
    """Whether what stands around a question is more than what the user put there ("I like lamb. Is it served?")."""
    said = terms(question)
    told = [terms(sentence) for sentence in _SENTENCE.split(text) if not asks(sentence)]
    if not any(told):
        return not question.rstrip().endswith((".", "!", "。", "！"))
    return any(2 * len(words & said) < len(words) for words in told)


def asks(text: str) -> bool:
    """Whether a text is a question, or asks for something."""
    bare = text.strip().rstrip(_QUOTES + ")）")
    if bare.endswith(tuple(_MARKS)) or bare.startswith("¿"):
        return True
    return bool(_ASKING.match(bare) or _ASKING_SIGNS.search(bare.rstrip("。.！!")))


_ASKED_IN = {  # words that ask and stand in one language alone, folded
    "pt": "quem qual quais onde quanto quantos quantas voces pode posso tem existe",
    "en": "who what where when why how which is are can do does",
    "es": "quien quienes cual cuales donde cuanto cuantos puedo puede hay",
    "fr": "qui quel quelle quels quelles ou combien pourquoi est",
    "de": "wer wo wann warum wie welche welcher kann gibt",
    "it": "chi quale quali dove perche quanto posso",
}
_FIRST_WORD = {word: lang for lang in reversed(_ASKED_IN) for word in _ASKED_IN[lang].split()}


def asked_in(question: str) -> str | None:
    """The language of the word that a short question begins with; None if it tells nothing.

    Example: "Quem escreveu Dom Casmurro?" -> "pt", where one telling word is too little for a text.
    """
    first = WORD.search(folded(question[:LONGEST]))
    return None if first is None else _FIRST_WORD.get(first[0])


def _cleaned(reply: str) -> str:
    """The one question of an answer: without labels, quotation marks, and comments on other lines."""
    lines = [re.sub(r"^\s*(?:>\s?|#+\s|[-*]\s)+", "", line).strip() for line in reply.strip().splitlines()]
    lines = [line for line in lines if line.strip(_QUOTES) and not line.startswith("```")]
    if len(lines) > 1:
        if _LABEL.fullmatch(lines[0] + " "):
            lines = lines[1:]
        asking = [line for line in lines if line.rstrip(_QUOTES + ")）").endswith(tuple(_MARKS))]
        comments = [line for line in lines if line not in asking]
        # A comment in brackets or behind the question is left; a statement before it would be an answer.
        if len(asking) == 1 and (lines[0] == asking[0] or all(_is_comment(line) for line in comments)):
            lines = asking
    text = " ".join(lines)
    return _LABEL.sub("", text, count=1).strip(_QUOTES)


def _is_comment(line: str) -> bool:
    return line[:1] in "([（【" or bool(_LABEL.fullmatch(line + " "))


_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NAME = re.compile(r"(?<![.!?…:\"'“«¿¡(\s])\s+[\"'“«(]?([A-ZÀ-ÖØ-ÞА-Я][\w'’-]+)")
_TITLE = re.compile(r"[《「『“]([^》」』”]{2,60})[》」』”]")


def _invented(text: str, source: str, language: str | None) -> list[str]:
    """Numbers, names and titles of a question that were not said."""
    low = folded(source)
    digits = {re.sub(r"\D", "", n) for n in _NUMBER.findall(source)}
    pieces = {d for n in _NUMBER.findall(source) for d in re.findall(r"\d+", n)}
    out = [n for n in _NUMBER.findall(text) if re.sub(r"\D", "", n) not in digits | pieces]
    if language != "de":  # there every noun has a capital
        out += [n for n in _NAME.findall(text) if not _said(folded(n), low)]
    return out + [n for n in _TITLE.findall(text) if folded(n) not in low]


def names(text: str) -> list[str]:
    """Words with a capital within a sentence, once each: where nouns have none, they are names.

    Example: "The novel is by Machado de Assis." -> ["Machado", "Assis"]
    """
    return list(dict.fromkeys(_NAME.findall(text)))


def _said(name: str, source: str) -> bool:
    """Whether a name was said, perhaps with another ending."""
    bare = re.sub(r"['’]s$", "", name)
    return bare in source or (len(bare) > 5 and bare[: len(bare) - 2] in source)


# What a question leans on that does not stand in it: pronouns, pointers, and small beginnings.
_LEANS = re.compile(
    r"^\W*(?:and|but|so|or|then|what about|how about|e|mas|então|ou|y|pero|o|et|mais|und|aber|ed?|ma)\b"
    r"|\b(?:it|its|this|that|these|those|they|them|their|he|she|him|her|his|there|then|one|ones|same|other|such|again|you"
    r"|your|said|above|former|latter|first|second|last|previous"
    r"|el[ea]s?|dele|dela|deles|delas|iss[oe]|ist[oa]|ess[ea]s?|est[ea]s?|aquel[ea]s?|aquilo|nisso|disso|nele|nela|lá|ali"
    r"|mesm[oa]s?|outr[oa]s?|você|disse|falou|seu|sua|seus|suas|lhe"
    r"|ell[oa]s?|es[oae]|est[oa]s?|allí|mism[oa]s?|otr[oa]s?|dijo|dijiste|su|sus)\b"
    r"|[它他她这那該该]|其[中他它]|上述|刚才|[こそあ][れのこ]|彼|同じ|그것|그[는가의]|이것|저것",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"^\W*(?i:what|who|where|when|which|how (?:many|much|old|far|tall))\b.*\b(?:is|are|was|were|did|does)\b.*?"
    r"\b(?:of|in)\s+(?:the\s+)?[A-Z]\w+"
    r"|^\W*(?i:qual|quais|quem|onde|quando|cuál|quién|dónde|cuándo)\s+(?:é|são|foi|era|fica|es|son|fue|está|queda)"
    r"\b.*?\b(?:d[aoe]s?|del)\s+[A-ZÀ-Þ]\w+"
)


def leans(question: str) -> bool:
    """Whether a question has a word that points back, or a small beginning: "it", "ela", "那", "E se ..."."""
    return bool(_LEANS.search(question.strip()[:LONGEST_READ]))


def stands_alone(question: str) -> bool:
    """Whether a question plainly makes sense without what came before; False wherever that is in doubt.

    It has a verb and a named subject, and no word that points back. In languages that leave the subject out, and in
    short questions, that is rarely sure.

    Example: "What is the capital of Australia?" -> True; "E se eu tiver pago com Pix?" -> False
    """
    text = question.strip()
    return (
        len(text) <= LONGEST and text.endswith(tuple(_MARKS)) and bool(_WHOLE.match(text)) and not _LEANS.search(text)
    )


# ------------------------------------------------------------------------------------------------ words


def terms(text: str) -> set[str]:
    """What a text is about: its words without the empty ones, cut so that endings agree; pairs of signs."""
    out: set[str] = set()
    for word in WORD.findall(folded(text)):
        if is_cjk(word):
            pairs = [word[i : i + 2] for i in range(max(1, len(word) - 1))]
            out |= {p for p in pairs if not all(sign in EMPTY_SIGNS for sign in p)}
        elif word not in EMPTY and (len(word) > 1 or word.isdigit()):
            out.add(word[:5] if len(word) > 5 else word.rstrip("s") or word)
    return out
