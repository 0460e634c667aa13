"""Passages: rankings put together, how they stand in a request, and which of them an answer names.

A passage is a dict: `text`, and where known `source`, `title`, `section` and `score` (the higher, the better).

Documents are written by anybody, so what they say must not pass for the request that quotes them:

    [1]
    > Cobranças e reembolsos › Fui cobrado duas vezes (cobrancas.md)
    > O prazo do reembolso é de 5 dias úteis.

Outside of the quotation stand numbers of ours and nothing else; titles and addresses are quoted like texts. Every sign
that some program takes for the end of a line begins a quoted line. Invisible signs are left out, and the marks by which
chat templates tell roles apart are written with a space, since servers read them in contents too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from novelo.errors import InvalidSpec
from novelo.messages import Message, Text

Passage = dict[str, Any]
_FIELDS = {  # of a passage -> what others call it, in their metadata; and its type here
    "source": (("source", "file_path", "url", "path"), str),
    "title": (("title", "document_title"), str),
    "section": (("section", "heading"), str),
    "page": (("page_label", "page"), int),  # LangChain's reader of PDF counts pages from 0, and has the label beside
    "score": (("score", "relevance_score", "similarity"), float),
    "support": (("support",), float),
    "id": (("id", "_id"), str),
}
_TEXTS = ("text", "page_content", "content")
PASSAGE_LONGEST = 8000  # characters of one passage that go along
NAME_LONGEST = 200  # characters of a title, a section or an address
RANK_CONSTANT = 60  # of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)

NOT_FOUND = {  # what is told where no passage supports an answer
    "pt": "Não encontrei isso nos documentos.",
    "en": "I did not find this in the documents.",
    "es": "No encontré eso en los documentos.",
    "fr": "Je n'ai pas trouvé cela dans les documents.",
    "de": "Das habe ich in den Dokumenten nicht gefunden.",
    "it": "Non ho trovato questa informazione nei documenti.",
    "zh": "在文档中没有找到相关内容。",
    "ja": "文書の中には見つかりませんでした。",
    "ko": "문서에서 찾지 못했습니다.",
    "ru": "Я не нашёл этого в документах.",
    "ar": "لم أجد ذلك في المستندات.",
}


_ENDS = ".!。！ \n"  # of a sentence


def says_nothing(text: str) -> bool:
    """Whether a text says no more than that nothing was found, in a language of ours."""
    return text.strip(_ENDS) in _NOTHING


_NOTHING = frozenset(text.strip(_ENDS) for text in NOT_FOUND.values())


def passage_of(found: Any) -> Passage:
    """What a retriever found, as data that any store can keep.

    Args:
        found: a text, a passage, or a dict or an object such as LangChain's Document with its text in `page_content` or
            `content` and the rest in `metadata`. Headers that a splitter of LangChain notes there become the section.
    Raises:
        InvalidSpec: it has no text.
    """
    if isinstance(found, str):
        return {"text": found}
    own = found if isinstance(found, Mapping) else {n: getattr(found, n, None) for n in (*_TEXTS, "metadata", "id")}
    text = next((own[name] for name in _TEXTS if isinstance(own.get(name), str)), None)
    if text is None:
        raise InvalidSpec(f"passage of {type(found).__name__}: expected a text, or something with one")
    kept = isinstance(own.get("text"), str)  # a passage already: what its retriever says besides stays
    out: Passage = {k: v for k, v in own.items() if isinstance(v, str | int | float)} if kept else {"text": text}
    told = {**(own.get("metadata") or {}), **{k: v for k, v in own.items() if v is not None}}
    if headers := [str(told[k]) for k in sorted(told, key=str) if re.fullmatch(r"(?i)h(?:eader)? ?[1-6]", str(k))]:
        told.setdefault("section", " › ".join(headers))
    for name, (also, kind) in _FIELDS.items():
        value = next((told[k] for k in also if told.get(k) is not None), None)
        try:
            if value is not None and value != "":
                out[name] = kind(value)
        except (TypeError, ValueError):
            out.pop(name, None)
    return out


def fuse(rankings: Iterable[Sequence[Passage]], limit: int | None = None) -> list[Passage]:
    """Several rankings as one, by reciprocal ranks; where two passages draw, the one of the earlier ranking is first.

    Args:
        rankings: passages, the best first; equal texts of one source are one passage.
        limit: how many to give; None is half as many again as the longest ranking has, so that the best of each stay.
    Example: [[A, B, C], [D, A]] -> [A, D, B, C]
    """
    given = [list(ranking) for ranking in rankings]
    weights: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], Passage] = {}
    for ranking in given:
        for rank, passage in enumerate(ranking, 1):
            key = (str(passage.get("source") or ""), str(passage.get("text") or ""))
            weights[key] = weights.get(key, 0.0) + 1 / (RANK_CONSTANT + rank)
            first.setdefault(key, passage)
    most = max(map(len, given), default=0)
    order = sorted(first, key=lambda key: -weights[key])
    return [first[key] for key in order[: (most * 3 + 1) // 2 if limit is None else limit]]


def passages_text(passages: Sequence[Passage], start: int = 1) -> str:
    r"""Passages as they stand in a request: numbered, with title, section and source, every line quoted.

    Example: [{"text": "a\nb", "title": "T", "section": "S", "source": "t.md"}] -> "[1]\n> T › S (t.md)\n> a\n> b"
    """
    out = []
    for number, passage in enumerate(passages, start):
        named = place_of(passage)
        lines = [f"[{number}]", *([f"> {named}"] if named else [])]
        out.append("\n".join([*lines, quote(plain(str(passage.get("text") or "")[:PASSAGE_LONGEST]))]))
    return "\n\n".join(out)


def place_of(passage: Passage) -> str:
    """Where a passage stands, in one line: "Title › Section (source, p. 3)", as far as it is known."""
    title, section, source = (_line(passage.get(name)) for name in ("title", "section", "source"))
    said = " › ".join(dict.fromkeys(part for part in (title, section) if part))
    paged = source_of(passage)
    return f"{said} ({paged})" if said and source and source != said else paged or said


def source_of(passage: Passage) -> str:
    """The source of a passage, with its page: "manual.pdf, p. 3"; nothing without a source."""
    source, page = _line(passage.get("source")), passage.get("page")
    return f"{source}, p. {page}" if source and isinstance(page, int) else source


def cited(text: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """The passages that a text names by their numbers, in order; all where it names none of them."""
    groups = re.findall(r"[\[【]([\d\s,;]{1,40})[\]】]", text)
    numbers = {int(n) for group in groups for n in re.findall(r"\d+", group)}
    named = tuple(p for n, p in enumerate(passages, 1) if n in numbers)
    return named or tuple(passages)


def with_passages(messages: Sequence[dict[str, Any]], passages: Sequence[Passage]) -> list[dict[str, Any]]:
    """Chat messages with the passages put before the newest question, in its message.

    They stand there and not in the system prompt: what they quote has no authority, and all before them stays the same
    from turn to turn, as prompt caches want it.
    """
    if not passages:
        return list(messages)
    block = passages_text(passages)
    at = max(i for i, m in enumerate(messages) if m["role"] == "user")
    content = messages[at]["content"]
    whole = isinstance(content, str)
    content = f"{block}\n\n{content}" if whole else [{"type": "text", "text": block}, *content]
    return [*messages[:at], {**messages[at], "content": content}, *messages[at + 1 :]]


def before_question(message: Message, passages: Sequence[Passage]) -> Message:
    """The question's message with the passages before it, as `with_passages` puts them."""
    block = passages_text(passages)
    content = message.content
    told: Any = f"{block}\n\n{content}" if isinstance(content, str) else (Text(text=block), *(content or ()))
    return msgspec.structs.replace(message, content=told)


def quote(text: str) -> str:
    """A text as quoted lines; an empty one is a line too."""
    return "\n".join(f"> {line}" for line in text.splitlines()) or "> "


# <|im_start|>, <｜User｜>, <|turn>, <turn|>, <start_of_turn>, <s>, [INST], <<SYS>>, …: the end of a message to a model.
_TEMPLATE = re.compile(
    r"<(?=[|｜][^<>\n]{1,60}>)|<(?=[^<>\s]{1,60}[|｜]>)"
    r"|<(?=/?(?:start|end)_of_(?:turn|image)>)|<(?=/?(?:s|bos|eos|pad|unk|unused\d+)>)|<(?=</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])"
    r"|<(?=/?(?:system|assistant|user|tool_call|tool_response|function_calls|think)>)",
    re.IGNORECASE,
)
_JOINS = "\u200c\u200d"  # invisible signs that scripts and emoji need
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn")  # Unicode categories: control, format, surrogate, private, unassigned
_LINES = "\n\r\t\v\f\x1c\x1d\x1e\x85"


def plain(text: str) -> str:
    r"""A text without signs that nobody sees, and without marks that a chat template would take for its own.

    Example: "a\u202eb<|im_start|>system" -> "ab< |im_start|>system"
    """
    if not text.isprintable():
        text = "".join(c for c in text if c in _LINES or c in _JOINS or unicodedata.category(c) not in _UNSEEN)
    return _TEMPLATE.sub(lambda mark: f"{mark[0]} ", text)


def _line(text: Any) -> str:
    """A title or an address in one line."""
    return " ".join(plain(str(text or "")[: 5 * NAME_LONGEST]).split())[:NAME_LONGEST]
