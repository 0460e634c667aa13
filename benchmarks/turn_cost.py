"""What a whole turn costs: against a raw apsw program, and in a long thread against a short one.

A turn is: open it with its question, compose under `window:10turns`, store the reply, close; no model. The raw program
does the same two durable transactions (one INSERT each) and reads 27 rows back. All run in one process, in turns of a
block each; medians are compared. Demands: at most 4 times the raw CPU with the search index off,
6 times with it on; in a thread of `--turns` turns at most 1.15 times the cost in one of 10. Exit
status 1 when one is not met.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import apsw
from store_cost import turn_messages

import novelo

LAPS, BLOCKS, TAIL = 40, 9, 27


def measured(action) -> tuple[float, float]:
    """CPU and wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.process_time() - cpu, time.perf_counter() - wall


def one_turn(thread: novelo.Thread, k: int) -> None:
    """A plain text turn."""
    question, answer = turn_messages(3 * k + 1)
    with thread.turn(question) as turn:
        turn.messages()
        turn.reply(answer)


class Raw:
    """The least that a program can do for the same durability."""

    def __init__(self, path: Path) -> None:
        self.db = apsw.Connection(str(path))
        self.db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self.db.execute("CREATE TABLE m (thread TEXT, position INTEGER, body TEXT, PRIMARY KEY (thread, position))")
        self.head = 0

    def turn(self, k: int) -> None:
        """Question, tail, answer."""
        question, answer = turn_messages(3 * k + 1)
        self._add(question.text)
        list(self.db.execute("SELECT body FROM m WHERE thread = 't' ORDER BY position DESC LIMIT ?", (TAIL,)))
        self._add(answer.text)

    def _add(self, text: str) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO m VALUES ('t', ?, ?)", (self.head, text))
        self.db.execute("COMMIT")
        self.head += 1


def against_raw(folder: Path, search: bool) -> float:
    """CPU of a turn over that of the raw program."""
    memory = novelo.open(f"sqlite:///{folder}/ours{search}.db", policy="window:10turns", search=search)
    thread, raw = memory.thread("t"), Raw(folder / f"raw{search}.db")
    ours, theirs = [], []
    for block in range(BLOCKS):
        ks = range(block * LAPS, (block + 1) * LAPS)
        ours.append(measured(lambda ks=ks: [one_turn(thread, k) for k in ks])[0])
        theirs.append(measured(lambda ks=ks: [raw.turn(k) for k in ks])[0])
    memory.close()
    return statistics.median(ours) / statistics.median(theirs)


def long_against_short(folder: Path, turns: int) -> tuple[float, float]:
    """CPU and wall of a turn in a long thread over that in threads of 10 turns."""
    near, far = [], []
    with (
        novelo.open(f"sqlite:///{folder}/small.db", policy="window:10turns") as small,
        novelo.open(f"sqlite:///{folder}/large.db", policy="window:10turns") as large,
    ):
        big = large.thread("big")
        for k in range(turns):
            one_turn(big, k)
        short = [small.thread(f"t{i}") for i in range(120)]
        for thread in short:
            for k in range(10):
                one_turn(thread, k)
        for i, thread in enumerate(short):  # in turn, so that neither finds its pages warmer
            near.append(measured(lambda t=thread: one_turn(t, 10)))
            far.append(measured(lambda i=i: one_turn(big, turns + i)))
    cpu, wall = (statistics.median(x[n] for x in far) / statistics.median(x[n] for x in near) for n in (0, 1))
    return cpu, wall


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = {"raw, search off": (against_raw(folder, False), 4.0)}
        figures["raw, search on"] = (against_raw(folder, True), 6.0)
        cpu, wall = long_against_short(folder, given.turns)
        figures |= {f"CPU at {given.turns} turns": (cpu, 1.15), f"wall at {given.turns} turns": (wall, 1.15)}
    if given.json:
        print(json.dumps({name: value for name, (value, _) in figures.items()}))
    else:
        for name, (value, most) in figures.items():
            print(f"{name:24} {value:5.2f} times  (at most {most})")
    return int(any(value > most for value, most in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
