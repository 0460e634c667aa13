"""The built-in model: no network, no key, no weights. It quotes, and says so.

    Offline().complete(ModelRequest([{"role": "user", "content": "Meu nome é Ana."}, ...]))

Asked something, it quotes the sentence of the conversation (or of the request's passages) that shares the most telling
words with the question, in the question's language, and says who said it; or it says that it found nothing. Told
something, it acknowledges it. Asked for a summary, it quotes what tells most (`_extract.py`). It never makes anything
up, and the same request has always the same answer.

It sees what stands in the request and keeps nothing: what a policy leaves out, it has forgotten. That makes it a model
to show and test memory with. System messages are instructions, so they are not quoted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from novelo._again import says_more
from novelo.asking import ModelReply, ModelRequest
from novelo.messages import Message
from novelo.models import _names as names
from novelo.models import _words as words
from novelo.models._extract import extract
from novelo.models._phrases import is_own, uttered
from novelo.models._quoting import quoted, without_block
from novelo.models.base import ModelDelta
from novelo.models.chat import estimated_usage

_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”»)]*\s+|(?<=[。！？])|\n+")
_PIECE = re.compile(rf"[{words.HAN}]{{1,2}}[。，！？、；：”）]*|(?:(?![{words.HAN}])\S)+\s*|\s+")
READ = 20_000  # characters of one text that are searched
SENTENCES = 5_000  # newest ones that are searched
QUOTED = 300  # characters of a quotation
LEAST = 0.3  # of the question's weight that a sentence must share
AHEAD = 0.1  # what a document has ahead of the talk, in the same unit


class Offline:
    """The built-in responder; see the head of this file."""

    name = "offline"
    rewrites = False  # questions: a follow-up is searched with what it leans on, by rules

    def complete(self, request: ModelRequest) -> ModelReply:
        """The answer to the newest message.

        Args:
            request: `messages` and `passages` are read, all else is ignored; tools are never called.
        """
        text = _summary(request) if request.purpose == "summary" else _answer(request)
        message = Message("assistant", text, meta={"model": self.name})
        usage = estimated_usage(request.messages, request.tools, message)
        return ModelReply(msgspec.structs.replace(message, usage=usage), usage, "stop", self.name)

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """The answer word by word, Chinese by two signs; usage and finish reason stand in the last piece."""
        reply = self.complete(request)
        for piece in _PIECE.findall(reply.text):
            yield ModelDelta(piece)
        yield ModelDelta(usage=reply.usage, finish_reason=reply.finish_reason, model=reply.model)


@dataclass(frozen=True)
class _Sentence:
    """Something that can be quoted: its text, where it stands ("user", "assistant", "tool"), its terms."""

    text: str
    where: str
    terms: frozenset[str] = field(default=frozenset())


def _summary(request: ModelRequest) -> str:
    """Notes of a conversation that a request quotes: its most telling sentences."""
    asked = [m for m in request.messages if m.get("role") == "user"]
    return extract(_text(asked[-1]), request.max_output_tokens) if asked else ""


# ------------------------------------------------------------------------------------------------ the answer
def _answer(request: ModelRequest) -> str:
    """What to say to the newest message."""
    messages = [m for m in request.messages if m.get("role") in ("user", "assistant", "tool")]
    asked_at = max((at for at, m in enumerate(messages) if m["role"] == "user"), default=-1)
    asked = without_block(_text(messages[asked_at]), request.passages)[:READ] if asked_at >= 0 else ""
    if asked_at >= 0:
        messages[asked_at] = {"role": "user", "content": asked}
    language = _language(messages, asked_at)
    intro = uttered(language, "intro")
    if asked_at >= 0 and not asked.strip() and messages[-1]["role"] != "tool":
        return uttered(language, "no_text")
    if words.ASKS_WHO_ANSWERS.search(asked):
        return intro
    sentences = _sentences(asked)
    questions = [sentence for sentence in sentences if words.asks(sentence)]
    result = messages[-1] if messages and messages[-1]["role"] == "tool" else None
    searched = request.passages and not words.GREETING.fullmatch(asked) and not words.THANKS.fullmatch(asked)
    if not questions and result is None and not searched:
        said = _acknowledged(language, messages, asked)
        if any(m["role"] == "assistant" for m in messages):
            return said
        return f"{said}{'' if language == 'zh' else ' '}{intro}"  # who it is, where it speaks for the first time
    told = [*messages[:asked_at], {"role": "user", "content": "\n".join(s for s in sentences if s not in questions)}]
    results = messages[asked_at + 1 :]
    if searched and result is None:
        return _in_passages(language, asked, messages[:asked_at], request)
    return _found(language, " ".join(questions) or asked, told, results)


def _acknowledged(language: str, messages: Sequence[Mapping[str, Any]], said: str) -> str:
    """What to say where nothing was asked: a greeting, thanks, or that it is noted."""
    name, _ = _name_in([{"role": "user", "content": said}])
    if name:
        return uttered(language, "hello_name", name=name)
    name, _ = _name_in(messages)
    if words.GREETING.fullmatch(said):
        return uttered(language, "hello_name", name=name) if name else uttered(language, "hello")
    if words.THANKS.fullmatch(said):
        return uttered(language, "welcome")
    return uttered(language, "noted_name", name=name) if name else uttered(language, "noted")


def _in_passages(language: str, asked: str, told: Sequence[Mapping[str, Any]], request: ModelRequest) -> str:
    """What the passages say, with where it stands and the passage's number; what was said here, where that fits better.

    Args:
        asked: the user's own words.
        told: messages before them.
    """
    if names.ASKS_NAME.search(asked) and _name_in(told)[0]:
        return _found(language, asked, told, ())
    bare = not words.terms(asked) or says_more(asked)
    leans_on = request.question or (" ".join(_earlier_terms(told)) if bare else "")
    quote = quoted(asked, leans_on, request.passages)
    said, share = _best(words.terms(asked), _quotable(told)[-SENTENCES:])
    if said is not None and (quote is None or share > quote.share + AHEAD):
        return uttered(language, said.where, quote=_short(said.text))
    if quote is None:
        return uttered(language, "nothing_in")
    place = uttered(language, "source", source=quote.place) if quote.place else ""
    return f"{uttered(language, 'passage', quote=quote.text)}{place} [{quote.number}]"


def _found(
    language: str, question: str, told: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]
) -> str:
    """What was found for a question: the name, a tool's result, the best sentence, or nothing.

    Args:
        language: of the answer.
        question: what is asked.
        told: messages before the question, and what was told with it.
        results: messages behind the question; results of tools among them were fetched for it.
    """
    if names.ASKS_NAME.search(question):
        name, quote = _name_in(told)
        if name:
            return uttered(language, "name", name=name, quote=_short(quote))
    of_tools = _quotable([m for m in results if m["role"] == "tool"])
    if of_tools:
        fetched = _best(words.terms(question), of_tools)[0] or of_tools[0]
        return uttered(language, "tool", quote=_short(fetched.text))
    wanted = words.terms(question) or _earlier_terms(told)
    best, _ = _best(wanted, _quotable(told)[-SENTENCES:])
    return uttered(language, "nothing") if best is None else uttered(language, best.where, quote=_short(best.text))


def _language(messages: Sequence[Mapping[str, Any]], asked_at: int) -> str:
    """The language of the newest user message, else of the newest message before it that tells; else English."""
    for message in reversed(messages[: asked_at + 1]):
        if message["role"] == "user" and (language := words.language_of(_text(message))):
            return language
    return next((found for m in messages if (found := words.language_of(_text(m)))), "en")


def _name_in(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The newest name that the user gave, and the sentence in which they did; two empty texts if none."""
    for message in reversed(messages):
        if message["role"] == "user":
            for sentence in reversed(_sentences(_text(message)[:READ])):
                if name := names.given_name(sentence):
                    return name, sentence
    return "", ""


def _earlier_terms(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the last question was about, for one such as "explique melhor" that names no subject."""
    asked = (words.terms(_text(m)[:READ]) for m in reversed(told) if m["role"] == "user")
    return next(filter(None, asked), [])


# ------------------------------------------------------------------------------------------------ searching
def _text(message: Mapping[str, Any]) -> str:
    """The text of a chat dict: its content, or the text blocks of it."""
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        content = "\n".join(b["text"] for b in content if isinstance(b, Mapping) and isinstance(b.get("text"), str))
    return content if isinstance(content, str) else ""


def _sentences(text: str) -> list[str]:
    """The sentences of a text, without blank ones."""
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]


def _quotable(messages: Sequence[Mapping[str, Any]]) -> list[_Sentence]:
    """What may be quoted of messages, oldest first: no questions, and no answers that were quotations themselves."""
    found: list[_Sentence] = []
    for message in messages:
        text, where = _text(message)[:READ], message["role"]
        if where == "assistant" and is_own(text):
            continue
        for sentence in _sentences(text):
            if where == "tool" or not words.asks(sentence):
                found.append(_Sentence(sentence, where, frozenset(words.terms(sentence))))
    return found


def _best(wanted: Sequence[str], sentences: Sequence[_Sentence]) -> tuple[_Sentence | None, float]:
    """The sentence that shares most with the question, and how much; None if none shares enough.

    A term weighs by how rare it is among the sentences: log(1 + n / (1 + k)) where k of n have it. A sentence's score
    is the part of the question's weight that it shares. The newest of equals wins.

    Example: "número do pedido" over two sentences, one with "pedido" -> log 2 of log 2 + log 3, a share of 0.39.
    """
    asked = set(wanted)
    held = Counter(term for sentence in sentences for term in sentence.terms & asked)
    count = len(sentences)
    weights = {t: math.log(1 + count / (1 + held[t])) for t in sorted(asked)}
    total = sum(weights.values())
    best: _Sentence | None = None
    most = 0.0
    for sentence in sentences:
        # In the order of the weights, since a sum of floats in another order may differ in its last digit.
        shared = sum(weight for term, weight in weights.items() if term in sentence.terms) / total if total else 0.0
        if shared >= max(LEAST, most):
            best, most = sentence, shared
    return best, most


def _short(text: str) -> str:
    """A quotation, cut at a word if it is long."""
    if len(text) <= QUOTED:
        return text
    cut = text[:QUOTED]
    return (cut[: cut.rfind(" ")] if " " in cut[QUOTED // 2 :] else cut) + "…"
