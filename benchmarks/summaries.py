"""Summaries after the reply: how few calls, whether anybody waits for them, what they lose, what a bad summarizer does.

    calls     200 turns under `summarize:20messages,keep=6`: a summary takes away all but 6 of 20 messages, so the next
              is due 14 messages later; (400 - 20) // 14 + 1 = 28 calls are the least that keeps to the trigger
    latency   turns on a file with a reply model of 50 ms, beside a summarizer of 2 s and beside one that answers at
              once, in blocks by turns; the medians of a pair of blocks differ by at most 5 per cent in the middle
    facts     real long conversations (--data, else left out) with the offline summarizer and a ledger of 400 tokens:
              every exact fact of what was covered is verbatim in the context, or named in a loss report; so are, by a
              finder that shares no code with the ledger, the users' words that hold a digit
    failing   500 turns on a file beside a summarizer of which three in ten answers, at random, are no summary: no turn
              fails, no entry is lost, no context is over the ceiling

--data is a folder with `long_conversation*.jsonl.gz` and others, one {"messages": [...]} a line. Exit status 1 when a
demand is not met.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import novelo
from novelo.connect import as_model
from novelo.context import compose_source, parse
from novelo.context.listing import ListSource
from novelo.facts import read, says
from novelo.folding import Summaries
from novelo.tokens import count_message, counter

NOTES = "The customer asked for the parcels of several orders, and the shop said where each of them is."
LIVELY, REPLY_S, SLOW_S = "summarize:6messages,keep=2", 0.05, 2.0
LONG = ("long_conversation", "long_conversation_nc", "tools_agent")
DIGITS = re.compile(r"\b(?=\w*\d)[A-Za-z0-9_-]{5,}\b")
FAILURES = ("", "Error: 429 Too Many Requests", "I'm sorry, but I can't help with that.", "word " * 3000, "raise")


class Figure(NamedTuple):
    """A line: what, how much, what is demanded, and whether it is met."""

    what: str
    value: float
    demand: str
    met: bool


def turn(thread: novelo.Thread, k: int, wait_s: float = 0.0) -> novelo.Context:
    """A plain turn; its context."""
    with thread.turn(f"Question {k}: where is the parcel of my order?") as live:
        live.messages()
        time.sleep(wait_s)
        live.reply(f"Answer {k}: the parcel left the warehouse yesterday and is on its way to you.")
    assert live.context is not None
    return live.context


# ------------------------------------------------------------------------------------------------ calls
def calls(turns: int) -> Iterator[Figure]:
    """Calls of a thread whose jobs are done after each turn."""
    asked = []
    policy = "summarize:20messages,keep=6"
    with novelo.open("memory://", policy=policy, summarizer=lambda r: asked.append(r) or NOTES, worker="off") as memory:
        thread = memory.thread("t")
        most = 0
        for k in range(turns):
            most = max(most, len(turn(thread, k)))
            memory.work()
    least = (2 * turns - 20) // 14 + 1
    yield Figure(f"summary calls over {turns} turns", len(asked), f"{least}", len(asked) == least)
    yield Figure("messages of the largest context", most, "at most 20 + 2", most <= 22)


# ------------------------------------------------------------------------------------------------ latency
class Lived:
    """A thread on a file whose jobs are done by threads of this process, beside a summarizer of so many seconds."""

    def __init__(self, path: Path, pause_s: float) -> None:
        self.pause_s, self.asked, self.turns = pause_s, 0, 0
        self.laps: list[float] = []
        self.memory = novelo.open(f"sqlite:///{path}", policy=LIVELY, summarizer=self._summary)
        self.thread = self.memory.thread("t")

    def _summary(self, request: Any) -> str:
        self.asked += 1
        time.sleep(self.pause_s)
        return NOTES

    def block(self, turns: int) -> float:
        """The median of some more turns, in seconds."""
        for _ in range(turns):
            started = time.perf_counter()
            turn(self.thread, self.turns, REPLY_S)
            self.laps.append(time.perf_counter() - started)
            self.turns += 1
        return statistics.median(self.laps[-turns:])


def latency(blocks: int, turns: int) -> Iterator[Figure]:
    """Turns beside a slow summarizer over those beside an instant one, in blocks by turns; the first pair warms up."""
    with tempfile.TemporaryDirectory() as folder:
        instant, slow = Lived(Path(folder) / "instant.db", 0.0), Lived(Path(folder) / "slow.db", SLOW_S)
        pairs = [(instant.block(turns), slow.block(turns)) for _ in range(blocks + 1)][1:]
        instant.memory.close()
        slow.memory.close()
    ratio = statistics.median(b / a for a, b in pairs)
    yield Figure(
        "turn beside a 2 s summarizer over one beside an instant one", ratio, "0.95 to 1.05", 0.95 <= ratio <= 1.05
    )
    yield Figure("median turn of either, ms", 1000 * statistics.median(slow.laps), "shown only", True)
    slowest = max(slow.laps)
    yield Figure("slowest turn beside a 2 s summarizer, s", slowest, "at most 0.5", slowest <= 0.5)
    yield Figure("summaries asked for, slow", slow.asked, f"{instant.asked} of the instant one", slow.asked > 0)


# ------------------------------------------------------------------------------------------------ facts
class Kept(NamedTuple):
    """What became of the facts of one conversation: in the context, named in a loss report, neither."""

    verbatim: int
    named: int
    silent: list[str]
    passed_over: int
    words: int
    silent_words: list[str]
    versions: int
    largest_ledger: int


def conversations(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Those that are long enough to be summarized."""
    for name in LONG:
        path = folder / f"{name}.jsonl.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    messages = json.loads(line)["messages"]
                    if len(messages) > 24:
                        fields = ("role", "content", "tool_calls", "tool_call_id")
                        yield [{k: m[k] for k in fields if m.get(k) is not None or k == "content"} for m in messages]


def kept(messages: list[dict[str, Any]]) -> Kept:
    """Fold a conversation as a thread would, and look for what was said in it."""
    policy, count = parse("summarize:20messages,keep=6"), counter("estimate")
    folding = Summaries(policy, as_model("offline"), count)
    source = ListSource(messages, partial(count_message, count=count))
    versions: dict[int, Any] = {}
    for end in range(source.begin + 1, source.end + 1):
        if source.entry(end - 1).message.role in ("user", "assistant"):
            made = folding.fold(source.upto(end)).summary
            if made is not None:
                versions[made.version] = made
    used = versions[max(versions)] if versions else None
    context = compose_source(source, source.opening(), policy, counter=count, summary=used)
    reach = "\n".join(entry.message.text for entry in context.entries)
    lost = {fact.text for version in versions.values() for fact in version.lost}
    present = {entry.position for entry in context.entries}
    facts: dict[str, bool] = {}  # each with whether a message that says it is in the context
    words: dict[str, None] = {}
    for entry in source.oldest_first():
        for fact in read(entry.message, entry.position).facts:
            facts[fact.text] = facts.get(fact.text, False) or entry.position in present
        if entry.message.role == "user":
            words.update((word, None) for word in DIGITS.findall(entry.message.text))
    here = {fact for fact, said in facts.items() if said or says(reach, fact)}
    told = reach + "\n" + "\n".join(lost)
    return Kept(
        len(here),
        len((facts.keys() - here) & lost),
        [fact for fact in facts if fact not in here and fact not in lost],
        sum(version.passed_over for version in versions.values()),
        len(words),
        [word for word in words if word not in told],
        len(versions),
        max((ledger(version, count) for version in versions.values()), default=0),
    )


def ledger(version: Any, count: Callable[[str], int]) -> int:
    """Tokens of what stands below the prose of a version."""
    from novelo.facts import ledger_text

    return count(ledger_text([f for f in version.facts if not says(version.text, f.text)], version.language))


def facts(folder: Path | None) -> Iterator[Figure]:
    """All conversations of the folder."""
    if folder is None:
        print("facts: left out, no --data", file=sys.stderr)
        return
    found = [kept(messages) for messages in conversations(folder)]
    if not found:
        print(f"facts: left out, no long conversations in {folder}", file=sys.stderr)
        return
    silent = [fact for one in found for fact in one.silent]
    words = [word for one in found for word in one.silent_words]
    yield Figure("conversations, with summaries", len(found), f"{sum(one.versions for one in found)} versions", True)
    yield Figure("exact facts verbatim in the context", sum(one.verbatim for one in found), "shown only", True)
    yield Figure("exact facts named in a loss report", sum(one.named for one in found), "shown only", True)
    yield Figure("exact facts lost silently", len(silent), "0", not silent)
    yield Figure("tokens of the largest ledger", top := max(one.largest_ledger for one in found), "400", top <= 400)
    yield Figure("seen but not taken, counted", sum(one.passed_over for one in found), "shown only", True)
    yield Figure(
        f"users' words with a digit lost silently, of {sum(one.words for one in found)}", len(words), "0", not words
    )
    for name, lost in (("facts", silent), ("words", words)):
        if lost:
            print(f"silent {name}: {', '.join(map(repr, lost[:8]))}", file=sys.stderr)


# ------------------------------------------------------------------------------------------------ failing
def failing(turns: int) -> Iterator[Figure]:
    """Turns beside a summarizer that fails at random, in each of the ways that summarizers fail."""
    chance = random.Random(11)
    bad = good = 0

    def summarizer(request: Any) -> str:
        nonlocal bad, good
        if chance.random() >= 0.3:
            good += 1
            return NOTES
        bad += 1
        answer = chance.choice(FAILURES)
        if answer == "raise":
            raise ConnectionError("connection reset")
        return answer

    ceiling, failed, over, refused = 1200, 0, 0, 0
    policy = f"summarize:20messages,keep=6 + budget:{ceiling}"
    with tempfile.TemporaryDirectory() as folder:
        memory = novelo.open(f"sqlite:///{folder}/a.db", policy=policy, summarizer=summarizer)
        memory.retry_s = (0.01, 0.1)  # so that a run of seconds has as many tries as a day
        thread = memory.thread("t")
        for k in range(turns):
            try:
                context = turn(thread, k)
            except novelo.NoveloError:
                failed += 1
                continue
            over += context.tokens > ceiling
            refused += bool(novelo.check(context.messages("openai"), "openai"))
            time.sleep(0.005)
        said = [entry.text.split(":")[0] for entry in thread.messages()]
        versions = len(thread.compactions())
        memory.close()
    wanted = [f"{word} {k}" for k in range(turns) for word in ("Question", "Answer")]
    yield Figure(f"turns of {turns} that failed", failed, "0", not failed)
    yield Figure(f"entries lost, of {2 * turns}", sum(a not in set(said) for a in wanted), "0", said == wanted)
    yield Figure("contexts over the ceiling", over, "0", not over)
    yield Figure("contexts that a provider would refuse", refused, "0", not refused)
    yield Figure("answers of the summarizer that were none", bad, f"{good} good, {versions} versions", bad > 0)


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of conversations")
    parser.add_argument("--only", choices=["calls", "latency", "facts", "failing"])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[Figure]]] = {
        "calls": partial(calls, 200),
        "latency": partial(latency, 14, 20),
        "facts": partial(facts, given.data),
        "failing": partial(failing, 500),
    }
    figures = {name: list(part()) for name, part in parts.items() if given.only in (None, name)}
    if given.json:
        print(json.dumps({f"{part}: {f.what}": f.value for part, found in figures.items() for f in found}))
    else:
        for part, found in figures.items():
            for figure in found:
                told = f"{figure.value:10.3f}" if figure.value % 1 else f"{figure.value:10,.0f}"
                print(f"{part:8} {figure.what:62} {told}  ({figure.demand}){'' if figure.met else '  NOT MET'}")
    return int(any(not figure.met for found in figures.values() for figure in found))


if __name__ == "__main__":
    sys.exit(main())
