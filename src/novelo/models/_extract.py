"""A summary without a language model: the sentences that tell most, word for word and in order, with who said them.

It reads a request for a summary as `quoting.py` writes it: quoted lines under heads such as "[12] user:", and former
notes quoted without a head. A sentence tells more the more rare words it has, with figures in it, and by the user.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from novelo.languages import language_of
from novelo.models import _words as words
from novelo.tokens import counter

_HEAD = re.compile(r"^\[\d+\] (user|assistant|tool result|system)(?: \(\d+\))?:$")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”»)]*\s+|(?<=[。！？])|\n+")
SIZE = 400  # tokens, unless the request says otherwise
FILL = 0.75  # of what is allowed: a summary is to be shorter than its cap
SHARE = 0.6  # of what is quoted: of a short talk too a summary is shorter than itself
MOST = 240  # characters of one quotation
SENTENCES = 3000  # newest ones that are weighed
WEIGHT = {"notes": 1.6, "user": 1.3, "assistant": 1.0, "tool result": 0.7, "system": 0.6}
SAID = {
    "pt": {"user": "O usuário disse", "assistant": "O assistente respondeu", "tool result": "Uma ferramenta deu"},
    "en": {"user": "The user said", "assistant": "The assistant answered", "tool result": "A tool gave"},
    "es": {"user": "El usuario dijo", "assistant": "El asistente respondió", "tool result": "Una herramienta dio"},
    "zh": {"user": "用户说", "assistant": "助手回答", "tool result": "工具返回"},
}


@dataclass
class _Piece:
    text: str
    who: str
    place: int
    terms: frozenset[str]
    score: float = 0.0


def extract(request: str, limit_tokens: int | None) -> str:
    """The most telling sentences of what a request quotes, within a number of tokens.

    Args:
        request: the user message of a request for a summary.
        limit_tokens: what the request allows for the answer; None is `SIZE`.
    """
    pieces = _pieces(request)
    if not pieces:
        return ""
    known = Counter(term for piece in pieces for term in piece.terms)
    for piece in pieces:
        rare = sum(math.log(1 + len(pieces) / known[term]) for term in sorted(piece.terms))
        figures = 1.5 if re.search(r"\d", piece.text) else 1.0
        asks = 0.5 if piece.who == "user" and piece.text[-1] in "?？" else 1.0
        piece.score = rare / math.sqrt(4 + len(piece.terms)) * figures * asks * WEIGHT[piece.who]
    count = counter("estimate")
    room = int((SIZE if limit_tokens is None else max(20, (limit_tokens - 50) // 2)) * FILL)
    room = min(room, max(40, int(sum(count(p.text) for p in pieces) * SHARE)))
    chosen: list[_Piece] = []
    for piece in sorted(pieces, key=lambda p: (-p.score, -p.place)):
        cost = count(piece.text) + 6
        if cost <= room:
            chosen.append(piece)
            room -= cost
    return _told(sorted(chosen or pieces[-1:], key=lambda p: p.place))


def _pieces(request: str) -> list[_Piece]:
    out: list[_Piece] = []
    seen: set[str] = set()
    who = "notes"
    for line in request.splitlines():
        head = _HEAD.match(line)
        if head is not None:
            who = head[1]
        elif line.startswith("> "):
            for sentence in _SENTENCE.split(line[2:]):
                text = sentence.strip()
                if len(text) > 1 and text not in seen:
                    seen.add(text)
                    cut = text if len(text) <= MOST else text[:MOST].rsplit(" ", 1)[0] + "…"
                    out.append(_Piece(cut, who, len(out), frozenset(words.terms(cut))))
        elif line.strip():
            who = "notes"
    notes = [p for p in out if p.who == "notes"]
    return notes + [p for p in out if p.who != "notes"][-SENTENCES:]


def _told(pieces: list[_Piece]) -> str:
    """Quotations with who said them, one line a speaker; former notes as they stand."""
    language = language_of(" ".join(p.text for p in pieces)) or "en"
    said = SAID.get(language, SAID["en"])
    lines: list[str] = []
    before = ""
    for piece in pieces:
        if piece.who == before:
            lines[-1] += f" {piece.text}" if before == "notes" else f" «{piece.text}»"
        elif piece.who == "notes":
            lines.append(piece.text)
        else:
            lines.append(f"{said.get(piece.who, said['tool result'])}: «{piece.text}»")
        before = piece.who
    return "\n".join(lines)
