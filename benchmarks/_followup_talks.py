"""Conversations whose follow-up questions have one right document, and how well a ranking finds it."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from novelo.messages import Message

CAST = ("trec-cast-2021", "trec-cast-2022", "trec-ikat-2023", "trec-ikat-2024", "trec-ikat-2025")
CANARD = ("canard-dev",)
MTRAG = "mtrag-un"
CUTOFF = 5  # of recall and of nDCG


class Asked(NamedTuple):
    """A question in a conversation: what people made of it, which documents are right, which replies came before."""

    source: str
    history: list[Message]
    raw: str
    human: str
    gold: frozenset[str]
    earlier: frozenset[str]


class Pool(NamedTuple):
    """Documents (`text`, `title`, `source` as the id) and the questions that are asked of them."""

    passages: list[dict[str, Any]]
    questions: list[Asked]


def rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The records of `name.jsonl.gz`."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def replies(folder: Path, sources: Sequence[str]) -> Pool:
    """All replies as documents (equal ones are one), and all rewritten questions that a reply follows.

    First questions are left out: they lean on nothing, so raw and rewritten are the same.
    """
    talks = [row for row in rows(folder, "query_rewriting") if row["source"] in sources]
    ids: dict[str, str] = {}
    for talk in talks:
        for message in talk["messages"]:
            if message["role"] == "assistant":
                ids.setdefault(message["content"].strip(), f"r{len(ids)}")
    questions = []
    for talk in talks:
        said = [Message(m["role"], m["content"].strip()) for m in talk["messages"]]
        for at, message in enumerate(said[:-1]):
            earlier = frozenset(ids[m.text] for m in said[:at] if m.role == "assistant")
            rewrite = talk["rewrites"].get(str(at), "").strip()
            if message.role == "user" and said[at + 1].role == "assistant" and earlier and rewrite:
                gold = frozenset([ids[said[at + 1].text]])
                questions.append(Asked(talk["source"], said[:at], message.text, rewrite, gold, earlier))
    return Pool([{"text": text, "source": name} for text, name in ids.items()], questions)


def grounded(folder: Path) -> Pool:
    """MT-RAG-UN: the passages behind the last answer of each conversation, in the pool of all of them."""
    known = {row["id"]: row for row in rows(folder, "documents") if row["source"] == f"{MTRAG}/contexts"}
    first: dict[str, str] = {}  # equal texts are one passage
    same = {name: first.setdefault(row["text"].strip(), name) for name, row in known.items()}
    questions = []
    for talk in rows(folder, "rag_conversation"):
        gold = frozenset(same[name] for name in talk.get("contexts", ()) if name in known)
        said = [
            Message(m["role"], m["content"].strip()) for m in talk["messages"] if m["role"] in ("user", "assistant")
        ]
        at = max((n for n, m in enumerate(said) if m.role == "user"), default=-1)
        if gold and at >= 0:
            questions.append(Asked(MTRAG, said[:at], said[at].text, "", gold, frozenset()))
    passages = [
        {"text": d["text"], "title": d.get("title") or "", "source": name}
        for name, d in known.items()
        if same[name] == name
    ]
    return Pool(passages, questions)


def measured(ranking: Sequence[str], gold: frozenset[str]) -> tuple[float, float]:
    """Recall and nDCG of the first five of a ranking of ids."""
    hits = [name in gold for name in ranking[:CUTOFF]]
    best = sum(1 / math.log2(n + 2) for n in range(min(len(gold), CUTOFF)))
    return sum(hits) / len(gold), sum(1 / math.log2(n + 2) for n, hit in enumerate(hits) if hit) / best
