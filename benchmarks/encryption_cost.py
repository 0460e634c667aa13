"""What encryption costs: a turn, a new thread, an erasure and a reading with it against without, and the bytes.

Both memories run in one process, in turns of a block each, without a search index (an encrypted memory has none);
medians of CPU and of time are compared. `--postgres URL` measures a server instead of files: the vault is a file in
both cases. Demand: at most 1.5 times the CPU of a turn, and of a reading at most 2 times. Exit status 1 when one is not
met.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from store_cost import turn_messages
from turn_cost import measured, one_turn

import novelo

LAPS, BLOCKS, MESSAGES, THREADS = 30, 11, 2000, 60
OLD, NEW = os.urandom(32), os.urandom(32)


class Pair:
    """A plain memory and an encrypted one, measured in turns."""

    def __init__(self, folder: Path, server: str | None) -> None:
        schema = f"{'&' if server and '?' in server else '?'}schema=cost{os.getpid()}"
        urls = [
            f"{server}{schema}{name}" if server else f"sqlite:///{folder}/{name}.db" for name in ("plain", "cipher")
        ]
        self.plain = novelo.open(urls[0], policy="window:10turns", search=False)
        self.cipher = novelo.open(urls[1], policy="window:10turns", vault=f"sqlite:///{folder}/vault.db", key=OLD)
        self.both = (self.plain, self.cipher)

    def close(self) -> None:
        """Close both."""
        for memory in self.both:
            memory.close()

    def times(self, action, blocks: int = BLOCKS) -> tuple[float, float, float]:
        """CPU with encryption over CPU without, the same of the clock, and milliseconds with encryption."""
        found: tuple[list, list] = ([], [])
        for block in range(blocks):
            for memory, into in zip(self.both, found, strict=True):
                into.append(measured(lambda memory=memory, block=block: action(memory, block)))
        cpu, wall = (
            statistics.median(x[n] for x in found[1]) / statistics.median(x[n] for x in found[0]) for n in (0, 1)
        )
        return cpu, wall, statistics.median(x[1] for x in found[1]) * 1000


def turns(memory: novelo.Memory, block: int) -> None:
    """A block of plain turns."""
    thread = memory.thread("t")
    for k in range(block * LAPS, (block + 1) * LAPS):
        one_turn(thread, k)


def begin(memory: novelo.Memory, block: int) -> None:
    """A thread's first message."""
    for k in range(THREADS // BLOCKS):
        memory.thread(f"new{block}.{k}").append([turn_messages(1)[0]])


def erase(memory: novelo.Memory, block: int) -> None:
    """The same threads go."""
    for k in range(THREADS // BLOCKS):
        memory.thread(f"new{block}.{k}").erase()


def read(memory: novelo.Memory, block: int) -> None:
    """The newest 200 messages of a long thread."""
    memory.thread("long").messages(limit=200, newest_first=True)


def search(memory: novelo.Memory, block: int) -> None:
    """A word that nobody said, in a thread as long as a search looks through."""
    memory.thread("long").search("hipopotomonstrosesquipedaliofobia")


def size(folder: Path, name: str) -> int:
    """Bytes of a file when all is in it."""
    return (folder / f"{name}.db").stat().st_size


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pair = Pair(folder, given.postgres)
        for memory in pair.both:
            messages = [m for k in range(MESSAGES // 2) for m in turn_messages(3 * k + 1)[:2]]
            memory.thread("long").append(messages)
        text = sum(len(m.text.encode()) for m in messages) / len(messages)
        for what, action in {
            "turn": turns, "new thread": begin, "erase": erase, "read 200": read, "search 2000": search,
        }.items():  # fmt: skip
            cpu, wall, took = pair.times(action)
            each = {"turn": LAPS, "new thread": THREADS // BLOCKS, "erase": THREADS // BLOCKS}.get(what, 1)
            figures |= {f"{what}, CPU": cpu, f"{what}, time": wall, f"{what}, ms": took / each}
        start = time.perf_counter()
        done = pair.cipher.rotate_keys(NEW)
        figures["rotated keys a second"] = done / (time.perf_counter() - start)
        pair.close()
        if not given.postgres:
            figures["text, bytes a message"] = text
            figures["file, times"] = size(folder, "cipher") / size(folder, "plain")
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:24} {value:8.2f}")
    return int(figures["turn, CPU"] > 1.5 or figures["read 200, CPU"] > 2.0)


if __name__ == "__main__":
    sys.exit(main())
