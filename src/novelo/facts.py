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

import msgspec

from novelo._fact_rules import CLAUSE, HEAD, LEAD, NO_PHONE, OPENERS, RULES, TRAILING, Rule
from novelo.messages import Message, Role
from novelo.quiet import Quiet

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


class Fact(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """One exact fact: a piece of a message's text, the position of that message, and who wrote it."""

    SAID = frozenset(("text",))

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
            heads = [m.end() for m in HEAD.finditer(text, nearest, start)]
            first = heads[-1] if heads else start if nearest else 0
            lead = LEAD.match(text, first, start)
            first = lead.end() if lead else first
            if end - first > MAX_CLAUSE or bisect_left(begins, first) < bisect_left(begins, start):
                first = start
        yield (first, end), kind


def _trimmed(text: str, rule: Rule, match: re.Match[str]) -> tuple[int, int]:
    """The span of the fact in a match; an empty one if a second look says that it is none."""
    start, end = match.span(1 if rule.pattern.groups and match[1] else 0)
    if rule.kind == "constraint":
        return _clause(text, start, end)
    if rule.kind == "phone" and (not 8 <= sum(map(str.isdigit, match[0])) <= 15 or NO_PHONE.fullmatch(match[0])):
        return 0, 0
    piece = text[start:end]
    if rule.kind in ("url", "path", "name"):
        end -= len(piece) - len(piece.rstrip(TRAILING))
    if rule.kind == "id":
        start += len(piece) - len(piece.lstrip("-"))
        if not text[end : end + 1].isalnum():  # 2024-年 stays as it stands
            end -= len(piece) - len(piece.rstrip("-"))
    return start, end


def _clause(text: str, start: int, trigger_end: int) -> tuple[int, int]:
    """A constraint from its first word to the sentence's end, at most `MAX_CLAUSE` characters, cut between words."""
    match = CLAUSE.match(text, trigger_end, start + MAX_CLAUSE + 1)
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
    opener = OPENERS.get(piece[-1])
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
