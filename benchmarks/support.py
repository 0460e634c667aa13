"""Support: how often an answerable question finds support, and how often one about something else finds none.

    python benchmarks/support.py --data DIR [--json] [--cache DIR] [--sweep]

Collections: the FAQ of `examples/faq` in three languages, and FaQuAD (157 paragraphs about universities, Portuguese).
Questions: 50 a language that the FAQ answers, in other words than its own, and 40 about something else
(`support_questions.json`); FaQuAD's own questions; FaQuAD's on the FAQ, and the FAQ's on FaQuAD. Follow-ups: 17 a
language behind a first question and its answer, and the 40 others in their place. The constants of
`retrievers/support.py` were chosen on Portuguese and on every second question of FaQuAD; the rest was not looked at.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from documents import Cached, records

import novelo
from novelo.models.base import drive
from novelo.retrieval import condense
from novelo.retrievers import support

HERE = Path(__file__).resolve().parent
FAQ = HERE.parent / "examples" / "faq"
DEMANDS = {"answerable": 0.95, "other_none": 0.85, "follow_ups": 0.8, "other_follow_ups_none": 0.7}


def best(docs, queries, keyword_only):
    """The support of the best passage."""
    return max((p["support"] for p in docs.search(queries, 5, keyword_only)), default=0.0)


def cases(data, memory, embedder):
    """(set, kind, chosen on it, collection, queries) of all questions."""
    asked = json.loads((HERE / "support_questions.json").read_text("utf-8"))
    found = records(data, "documents", "faquad")
    faquad = memory.documents("faquad", embedder=embedder)
    faquad.add(
        [{"text": r["text"], "title": r["title"].replace("_", " "), "source": r["id"]} for r in found], vectors="later"
    )
    faquad.embed()
    own = [q["q"] for r in found for q in r["questions"]]
    out = [("faquad", "answerable", n % 2 == 0, faquad, q) for n, q in enumerate(own)]
    for language, sets in asked.items():
        docs = memory.documents(f"faq-{language}", embedder=embedder)
        docs.ingest([FAQ / language], vectors="later")
        docs.embed()
        seen = language == "pt"
        related = [q for q, _ in sets["related"]]
        out += [(language, "answerable", seen, docs, q) for q in related]
        out += [(language, "other", seen, docs, q) for q in sets["unrelated"]]
        if seen:
            others = [*related, *sets["unrelated"]]
            out += [("faquad", "other", n % 2 == 0, faquad, q) for n, q in enumerate(others)]
            out += [("pt, faquad's", "other", n % 2 == 0, docs, q) for n, q in enumerate(own)]
        for first, follow_ups in sets["follow_ups"]:
            answer = docs.search(first, 1)[0]["text"]
            talk = [{"role": "user", "content": first}, {"role": "assistant", "content": answer}]
            for kind, questions in (("follow-up", follow_ups), ("other follow-up", sets["unrelated"])):
                for question in questions:
                    queries = list(drive(condense(talk, question, ask=False), None).weighted)
                    out.append((language, kind, seen, docs, queries))
    return out


def shares(rows, keyword_only, enough=support.ENOUGH):
    """(set, kind, seen) -> share of questions that were told right."""
    right = {}
    for name, kind, seen, strength in rows:
        wanted = not kind.startswith("other")
        right.setdefault((name, kind, seen), []).append((strength >= enough) == wanted)
    return {key: sum(found) / len(found) for key, found in right.items()}


def mean(found, kind, seen):
    """The mean over sets."""
    values = [value for (_, k, s), value in found.items() if k == kind and s == seen]
    return sum(values) / len(values) if values else None


def main():
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--cache", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sweep", action="store_true", help="other thresholds, on what the constants were chosen on")
    given = parser.parse_args()
    embedder = Cached(given.cache)
    with tempfile.TemporaryDirectory() as folder, novelo.open(f"sqlite:///{folder}/s.db", worker="off") as memory:
        asked = cases(given.data, memory, embedder)
        rows = {
            mode: [(n, k, s, best(docs, q, mode == "keyword")) for n, k, s, docs, q in asked]
            for mode in ("keyword", "hybrid")
        }
        embedder.save()
    figures = {}
    for mode, found in rows.items():
        told = shares(found, mode == "keyword")
        for seen, part in ((True, "seen"), (False, "unseen")):
            for kind, name in (
                ("answerable", "answerable"), ("other", "other_none"), ("follow-up", "follow_ups"),
                ("other follow-up", "other_follow_ups_none"),
            ):  # fmt: skip
                figures[f"{mode}_{part}_{name}"] = mean(told, kind, seen)
        if not given.json:
            print(f"\n{mode}: told right")
            for (name, kind, seen), value in told.items():
                print(f"  {name:14} {kind:16} {'seen' if seen else 'unseen':7} {value:.3f}")
        if given.sweep:
            for enough in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7):
                told = shares(found, mode == "keyword", enough)
                kinds = ("answerable", "other", "follow-up", "other follow-up")
                print(f"  enough {enough:.2f}", *(f"{k} {mean(told, k, True):.3f}" for k in kinds), sep="  ")
    if given.json:
        return print(json.dumps(figures))
    missed = [n for n, least in DEMANDS.items() if (figures[f"hybrid_unseen_{n}"] or 0) < least]
    print("\n" + "\n".join(f"{name:40} {value:.3f}" for name, value in figures.items()))
    return sys.exit(f"below what is demanded: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
