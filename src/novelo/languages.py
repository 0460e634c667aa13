"""In which language a text is written, as far as one can tell without a model: by its script, then by small words.

A summary is written in the conversation's language and a rewritten question stays in the user's, so both must know it.
Chinese, Japanese, Korean, Arabic and Russian show in their letters. The languages of the Latin alphabet show in the
words that every sentence needs (`WORDS`), each weighted by how few of the languages share it, and in letters and
endings (`_LETTERS`). Where two are close, or there is too little text, the answer is None: the caller then says "the
language of the conversation" instead of a wrong name.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_READ = 20_000  # characters looked at; more tells nothing new
LEAST_LETTERS = {"zh": 2, "ja": 2, "ko": 2, "ar": 4, "ru": 4}  # of its script, to be named at all
LEAST_WEIGHT = 1.5  # of the small words and letters found, for a language of the Latin alphabet
LEAD = 1.2  # times the weight of the next language

# Patterns stand here as texts: `re` compiles each when it is first used, and keeps it; an import does not pay for them.
_SCRIPTS = {
    "kana": r"[\u3041-\u3096\u30a1-\u30fa\u31f0-\u31ff\uff66-\uff9d]",
    "han": r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]",
    "ko": r"[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]",
    "ar": r"[\u0620-\u064a\u0671-\u06d3\ufb50-\ufdff\ufe70-\ufefc]",
    "ru": r"[\u0400-\u04ff]",
    "latin": r"[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]",
}
_NOT_RUSSIAN = r"(?i)[іїєґўјљњћђџ]"  # Ukrainian, Belarusian, Serbian
_NOT_ARABIC = r"[\u067e\u0686\u0698\u06a9\u06af\u06cc\u0679\u0688\u0691\u06d2]"  # Persian, Urdu
_WORD = r"[a-z\u00df-\u00f6\u00f8-\u024f]+(?:'[a-z\u00df-\u00f6\u00f8-\u024f]+)?"
# Not prose, and mostly English whatever is spoken: code, addresses, tags, identifiers. All linear: each repeats over
# characters that cannot end it, and only from its own border.
_NO_PROSE = (
    r"```[^`]{1,20000}+```|`[^`\n]{1,200}+`|\b[a-z]{2,10}+://\S++|(?<![\w.+-])[\w.+-]++@[\w.-]++|</?[a-z][^<>\n]{0,200}+>"
    r"|(?<!\w)[A-Za-z]*+[\d_]\w*+"
)

WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "pt": "a o as os um uma uns umas de do da dos das em no na nos nas num numa por pelo pela pelos pelas para"
        " pra com sem sob sobre até entre e ou mas que se como quando onde porque porquê qual quais quem cujo"
        " não sim já ainda também só mais menos muito muita muitos bem mal aqui ali lá eu tu ele ela nós eles"
        " elas você vocês me te lhe meu minha meus minhas seu sua seus suas nosso nossa este esta isto esse"
        " essa isso aquele aquela aquilo é são foi era ser sou está estão estou estava ter tem têm tenho tinha"
        " há haver vai vou pode podem posso quero preciso fazer faz fiz ao à aos às olá oi obrigado obrigada"
        " bom boa dia hoje amanhã ontem depois antes agora então gostaria seria deve foram pois cada outro"
        " outra todos toda tudo nada qualquer dele dela deste desta paguei comprei recebi chegou ficou fez"
        " disse caso quantos quantas quanto mesmo sendo assim próprio serem será pedido",
        "es": "a el la los las un una unos unas de del en por para con sin sobre hasta entre y o u pero que se como"
        " cómo cuando cuándo donde dónde porque qué cuál cuáles quién cuyo no sí ya aún también solo sólo más"
        " menos muy mucho mucha muchos bien mal aquí allí yo tú él ella nosotros ellos ellas usted ustedes me"
        " te le les lo nos mi mis tu su sus nuestro nuestra este esta esto ese esa eso aquel aquella es son"
        " fue era ser soy está están estoy estaba tener tiene tienen tengo hay haber va voy puede pueden puedo"
        " quiero necesito hacer hace hice al hola gracias buenos buenas día hoy mañana ayer después antes"
        " ahora entonces gustaría sería debe fueron pues cada otro otra todos toda todo nada cualquier desde"
        " sido ha han he pagué compré llegó pedido cuánto cuántos cuántas mismo siendo así será dijo",
        "en": "the a an of to in on at by for from with without about into over until between and or but that which"
        " who whom whose what when where why how if then than as so not no yes already still also only more"
        " less most very much many well here there i you he she it we they me him her us them my your his its"
        " our their this these those is are was were be been being am do does did have has had will would can"
        " could should may might must shall want need make get go let please thanks thank hello hi good day"
        " today tomorrow yesterday after before now any some all each other another every because i'm it's"
        " don't i'd i've i'll you're that's can't didn't doesn't isn't let's we're they're what's there's just"
        " like know up out paid order said one two first such while during under upon",
        "fr": "le la les l un une des du de d à au aux en dans sur sous par pour avec sans chez entre vers et ou"
        " mais que qui quoi dont où quand comment pourquoi si ne pas non oui déjà encore aussi seulement plus"
        " moins très beaucoup bien mal ici là je tu il elle nous vous ils elles on me te se lui leur leurs mon"
        " ma mes ton ta tes son sa ses notre nos votre vos ce cet cette ces cela ça c'est est sont était être"
        " suis êtes sommes avoir ai a avez avons ont avait y fait faire va vais peut peux voudrais veux dois"
        " doit bonjour merci bon bonne jour aujourd'hui demain hier après avant maintenant alors chaque autre"
        " tous toute tout rien j'ai d'un d'une l'on qu'il n'est s'il même donc car depuis été commande combien"
        " quel quelle quelles",
        "de": "der die das den dem des ein eine einen einem einer eines von zu zum zur in im an am auf aus bei mit"
        " nach vor über unter durch für ohne um bis zwischen und oder aber dass ob wenn als wie wo wann warum"
        " was wer welche welcher welches nicht kein keine nein ja schon noch auch nur mehr weniger sehr viel"
        " viele gut hier da dort ich du er sie es wir ihr mich dich sich uns euch ihm ihn ihnen mir dir mein"
        " meine dein deine sein seine unser unsere dieser diese dieses ist sind war waren bin bist seid werden"
        " wird wurde haben hat habe hatte kann können könnte soll muss müssen möchte will bitte danke hallo"
        " guten tag heute morgen gestern jetzt dann jeder andere alle alles nichts weil sondern beim vom"
        " worden gibt wieviel bestellung",
        "it": "il lo la i gli le un uno una di del dello della dei degli delle da dal dalla in nel nella nei nelle"
        " a al alla ai alle con su sul sulla per senza tra fra e ed o ma che se come quando dove perché cosa"
        " quale quali chi cui non sì già ancora anche solo più meno molto molta molti bene male qui lì io tu"
        " lui lei noi voi loro mi ti ci vi si ne mio mia miei tuo tua suo sua nostro nostra questo questa"
        " questi quello quella è sono era essere sei siamo avere ha ho hanno abbiamo aveva c'è fa fare va vado"
        " può posso possono vorrei voglio devo deve ciao grazie buon buona buongiorno giorno oggi domani ieri"
        " dopo prima adesso ora allora ogni altro altra tutti tutta tutto niente dell dall nell all l'ho"
        " un'altra stato stata però quindi ordine quanto quanti dov'è cos'è com'è",
    }.items()
}
# A word that two languages share tells half of what a word of one language tells.
_SHARED = Counter(word for words in WORDS.values() for word in words)
_WEIGHTS = {word: 1 / count for word, count in _SHARED.items()}
# Letters and endings that hardly another of these languages writes.
_LETTERS = {
    "pt": r"[ãõ]|ções?\b|lh[aeo]|nh[aeo]|dades?\b",
    "es": r"[ñ¿¡]|ción\b|ciones\b|dad\b|ll[aeoóé]|ue[lnrs][aot]",
    "en": r"\bth|[a-z]ing\b|[a-z]ed\b|tion\b|['’]s\b|\bwh|ight|ly\b|ee|oo|\bsh",
    "fr": r"[èêëîïûœ]|eaux?\b|\b[ldjcnsmq]['’]|eur\b|tion\b",
    "de": r"[ßäöü]|sch|ung\b|ich|ei[nt]",
    "it": r"zion[ei]\b|\b(?:dell|all|nell|dall|sull|un|l)['’]|[ìò]|gli|tà\b|zz[aio]|cc[aehio]",
}
_LETTER_WEIGHT = 0.3


def language_of(text: str) -> str | None:
    """The language: pt, en, es, zh, ja, ko, ar, ru, fr, de or it; None for little text, another language, or in doubt.

    "Meu nome é Lívia e o pedido não chegou." -> "pt"; "OK, 300" -> None
    """
    text = re.sub(_NO_PROSE, " ", text[:MAX_READ])
    counts = {name: len(re.findall(script, text)) for name, script in _SCRIPTS.items()}
    latin = counts.pop("latin")
    kana, han = counts.pop("kana"), counts.pop("han")
    # Japanese is a mixture of both scripts; a Chinese text quotes a title in kana now and then.
    counts["ja" if kana * 8 >= han else "zh"] = kana + han
    name, most = max(counts.items(), key=lambda item: item[1])
    # A Latin word has some five letters for the one or two signs of a Chinese one.
    worth = 3 if name in ("zh", "ja", "ko") else 1
    if most * worth >= latin and most >= LEAST_LETTERS[name]:
        return None if _neighbour(name, text) else name
    return _latin(text) if latin else None


def same_language(a: str, b: str) -> bool:
    """Whether two texts may be in one language; where one cannot be told, they may."""
    first, second = language_of(a), language_of(b)
    return first is None or second is None or first == second


def _neighbour(name: str, text: str) -> bool:
    """Whether the letters are of a language that shares the script and is not ours to name."""
    other = {"ru": _NOT_RUSSIAN, "ar": _NOT_ARABIC}.get(name)
    return other is not None and len(re.findall(other, text)) * 50 >= len(re.findall(_SCRIPTS[name], text))


def _latin(text: str) -> str | None:
    low = text.lower()
    words = Counter(re.findall(_WORD, low.replace("’", "'")))
    scores = dict.fromkeys(WORDS, 0.0)
    for word, count in words.items():
        if weight := _WEIGHTS.get(word):
            for language, table in WORDS.items():
                if word in table:
                    scores[language] += count * weight
    for language, letters in _LETTERS.items():
        scores[language] += _LETTER_WEIGHT * len(re.findall(letters, low))
    (best, score), (_, second) = sorted(scores.items(), key=lambda item: -item[1])[:2]
    if sum(word in WORDS[best] or re.search(_LETTERS[best], word) is not None for word in words) < 2:
        return None  # one word, said often, tells no more than said once
    known = sum(count for word, count in words.items() if word in WORDS[best])
    # Of a sentence a third and more are such words; where hardly one is, it is another language, or a list of names.
    return best if score >= LEAST_WEIGHT and score >= LEAD * second and known * 16 >= words.total() else None
