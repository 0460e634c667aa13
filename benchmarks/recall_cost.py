"""What recall costs: appending with the search index against appending without, and a context with recall by length.

Whole turns (open, compose under `window:5turns`, reply, close) and single messages are written to two files, one with
the index and one without, in turns of a block each; medians over blocks are compared. Then contexts of
`window:10turns + recall:6` are composed in threads of 200 and 10,000 turns beside 100 other threads, by words and, with
vectors that are there already, by meaning (made of noise: what they cost is the same). CPU of this process; wall in
brackets. Exit status 1 when a demand is not met.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time

import numpy as np
from store_cost import sentences

import novelo
from novelo.retrievers.vectors import of_length_one, packed

MOST_APPEND = 1.3  # times, CPU and wall
MOST_RECALL_MS, MOST_BOTH_MS = 50.0, 90.0  # CPU of a context in a thread of 10,000 turns
POLICY = "window:10turns + recall:6"
SIZE = 384


class Noise:
    """An embedder that costs nothing."""

    name, size = "noise", SIZE

    def queries(self, texts):
        """One vector a question."""
        return of_length_one(np.random.default_rng(1).normal(size=(len(texts), SIZE)))

    passages = queries


def text(k: int) -> str:
    """A message of about 150 characters."""
    rng = random.Random(k)
    return f"{sentences(rng, 140)} {rng.randrange(1000, 9999)}"


def appended(folder: str, blocks: int, size: int) -> dict[str, tuple[float, float]]:
    """Ratios of CPU and wall, with the index against without: of a turn, and of a message."""
    memories = {on: novelo.open(f"sqlite:///{folder}/append{on}.db", search=on) for on in (True, False)}

    def turn(memory: novelo.Memory, k: int) -> None:
        with memory.thread("t").turn(text(2 * k)) as opened:
            opened.messages(policy="window:5turns")
            opened.reply(text(2 * k + 1))

    def message(memory: novelo.Memory, k: int) -> None:
        memory.thread("t").append({"role": "user", "content": text(k)})

    out = {}
    for name, act in (("turn", turn), ("message", message)):
        took: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for block in range(blocks):
            for on in (True, False) if block % 2 else (False, True):
                cpu, wall = time.process_time(), time.perf_counter()
                for k in range(block * size, (block + 1) * size):
                    act(memories[on], k)
                took[on].append((time.process_time() - cpu, time.perf_counter() - wall))
        out[name] = tuple(
            statistics.median(t[i] for t in took[True]) / statistics.median(t[i] for t in took[False]) for i in (0, 1)
        )
    for memory in memories.values():
        memory.close()
    return out


def filled(memory: novelo.Memory, thread_id: str, turns: int, seed: int) -> None:
    """A thread of so many turns."""
    roles = ("user", "assistant")
    memory.thread(thread_id).append([{"role": roles[n % 2], "content": text(seed + n)} for n in range(2 * turns)])


def composed(memory: novelo.Memory, thread_id: str, questions: int) -> tuple[float, float]:
    """Median CPU and wall of a context, in milliseconds."""
    cpu, wall = [], []
    for k in range(questions):
        began = time.process_time(), time.perf_counter()
        memory.thread(thread_id).context(text(10**6 + k), policy=POLICY)
        cpu.append(time.process_time() - began[0])
        wall.append(time.perf_counter() - began[1])
    return 1000 * statistics.median(cpu), 1000 * statistics.median(wall)


def main() -> int:
    """Measure, print a line a figure, and say whether each is within its demand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--size", type=int, default=40, help="turns or messages of a block (default 40)")
    parser.add_argument("--questions", type=int, default=60)
    given = parser.parse_args()
    well = True
    with tempfile.TemporaryDirectory() as folder:
        for name, (cpu, wall) in appended(folder, given.blocks, given.size).items():
            well &= cpu <= MOST_APPEND
            print(
                f"a {name} with the index against without: {cpu:.2f} times (wall {wall:.2f})  (at most {MOST_APPEND})"
            )
        url = f"sqlite:///{folder}/threads.db"
        with novelo.open(url, worker="off") as memory:
            for thread_id, turns in (("short", 200), ("long", 10_000)):
                filled(memory, thread_id, turns, seed=turns)
            for n in range(100):
                filled(memory, f"other {n}", 100, seed=10**5 * (n + 1))
            for thread_id, most in (("short", None), ("long", MOST_RECALL_MS)):
                cpu, wall = composed(memory, thread_id, given.questions)
                well &= most is None or cpu <= most
                asked = "shown only" if most is None else f"at most {most:g}"
                print(f"recall in the {thread_id} thread by words: {cpu:.1f} ms (wall {wall:.1f})  ({asked})")
        with novelo.open(url, worker="off", embedder=Noise()) as memory:
            thread = memory.thread("long")
            row = thread.row
            vectors = of_length_one(np.random.default_rng(2).normal(size=(row.head, SIZE)))
            base = memory.store.base_of(row, row.head)
            memory.store.put_vectors(thread.key, Noise.name, base, {n: packed(v) for n, v in enumerate(vectors)})
            cpu, wall = composed(memory, "long", given.questions)
            well &= cpu <= MOST_BOTH_MS
            print(f"the same with vectors: {cpu:.1f} ms (wall {wall:.1f})  (at most {MOST_BOTH_MS:g})")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
