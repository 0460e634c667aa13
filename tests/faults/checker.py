"""The invariants of a store that holds conversations, in one checker.

    I1  every acknowledged turn is there, once, at the acknowledged positions
    I2  positions of a thread are 0, 1, 2, ... without a gap, and `head` is one past the last
    I3  a turn begins with its question and is contiguous; only unfinished turns lack an answer
    I4  an answer was computed from exactly the history that precedes it
    I6  an erased thread has no row left
    I7  the same key gives the same positions and the same text
    I8  positions and epochs of acknowledged turns never go back

I5 (a summary equals a fold of its range) comes with summaries. All tables are read in one snapshot: three reads in
three snapshots once showed a violation that was none. A run must also have acknowledged a least number of turns: a
system that has stopped loses nothing.

Answers in these tests say what they were computed from: `seen=<digest of the last answer in the context>`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import apsw

ROLES = ("system", "user", "assistant", "tool")


def digest(text):
    """A short hash of a text."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def answer_to(messages, name):
    """The answer that a test's model gives: it names the last answer it saw, and the question."""
    seen = next((m["content"] for m in reversed(messages) if m["role"] == "assistant" and "seen=" in m["content"]), "")
    return f"{name} seen={digest(seen)} asked={digest(messages[-1]['content'])}"


@dataclass
class Found:
    """What a check found: violations by invariant, and counts."""

    violations: list[str] = field(default_factory=list)
    threads: int = 0
    entries: int = 0
    acknowledged: int = 0

    def broken(self, invariant, text):
        """Note a violation."""
        self.violations.append(f"{invariant}: {text}")


def read_log(path: Path):
    """Acknowledgements that workers wrote, a JSON line each; a line torn by a kill was not acknowledged."""
    out = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            out.append(json.loads(line))
        except ValueError:
            continue
    return [a for a in out if a.get("ack")]


def snapshot(connection):
    """All tables in one snapshot."""
    connection.execute("BEGIN")
    try:
        threads = {
            r[0]: r[1:] for r in connection.execute("SELECT thread, head, epoch, status, thread_id FROM threads")
        }
        entries = defaultdict(list)
        for row in connection.execute("SELECT thread, position, role, body FROM entries ORDER BY thread, position"):
            entries[row[0]].append(row[1:])
        turns = defaultdict(list)
        for row in connection.execute(
            "SELECT thread, first, last, status, epoch, key FROM turns ORDER BY thread, first"
        ):
            turns[row[0]].append(row[1:])
    finally:
        connection.execute("COMMIT")
    return threads, entries, turns


def text_of(body):
    """The text of a stored message's body."""
    return "" if body is None else json.loads(b"{" + bytes(body).lstrip(b",")).get("content", "") or ""


def check(database, acknowledged, *, least=1, connection=None):
    """All violations in a database, given what was acknowledged.

    Args:
        database: the file's path.
        acknowledged: dicts with thread (hex), key, first, last, text, epoch, in the order of their log.
        least: how many turns must have been acknowledged.
    """
    own = connection is None
    connection = connection or apsw.Connection(str(database))
    try:
        found = Found()
        verdict = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        if verdict != ["ok"]:
            found.broken("integrity", verdict[0])
        threads, entries, turns = snapshot(connection)
    finally:
        if own:
            connection.close()
    for key, (head, epoch, status, _) in threads.items():
        _check_thread(found, key, head, epoch, status, entries[key], turns[key])
    _check_acknowledged(found, acknowledged, threads, entries, turns)
    found.threads, found.entries, found.acknowledged = len(threads), sum(map(len, entries.values())), len(acknowledged)
    if len(acknowledged) < least:
        found.broken("progress", f"{len(acknowledged)} turns acknowledged, at least {least} wanted")
    return found


def _check_thread(found, key, head, epoch, status, rows, turns):
    name = key.hex()[:6]
    if status == "erased":
        if rows or turns:
            found.broken("I6", f"{name}: {len(rows)} entries of an erased thread")
        return
    if [r[0] for r in rows] != list(range(head)):
        found.broken("I2", f"{name}: {len(rows)} entries, head {head}")
        return
    last_answer = ""
    for position, role, body in rows:
        text = text_of(body)
        if ROLES[role] == "assistant" and "seen=" in text:
            if f"seen={digest(last_answer)} " not in text:
                found.broken("I4", f"{name}: the answer at {position} was computed from another history")
            if ROLES[rows[position - 1][1]] == "user" and not text.endswith(
                f"asked={digest(text_of(rows[position - 1][2]))}"
            ):
                found.broken("I4", f"{name}: the answer at {position} answers another question")
            last_answer = text
    for i, (first, last, state, turn_epoch, _) in enumerate(turns):
        if not (0 <= first <= last < head) or ROLES[rows[first][1]] != "user":
            found.broken("I3", f"{name}: turn at {first} to {last} of {head}")
        elif state == "done" and ROLES[rows[last][1]] != "assistant":
            found.broken("I3", f"{name}: the turn at {first} is done without an answer")
        if i + 1 < len(turns) and last >= turns[i + 1][0]:
            found.broken("I3", f"{name}: turns at {first} and {turns[i + 1][0]} overlap")
        if turn_epoch > epoch:
            found.broken("I8", f"{name}: a turn of epoch {turn_epoch}, the thread's is {epoch}")
    if Counter(t[2] for t in turns)["open"] > 1:
        found.broken("I3", f"{name}: two open turns")


def _check_acknowledged(found, acknowledged, threads, entries, turns):
    seen = {}
    newest = defaultdict(lambda: (-1, -1))
    for ack in acknowledged:
        key = bytes.fromhex(ack["thread"])
        place = (ack["thread"], ack["key"])
        numbers = (ack["first"], ack["last"], ack["text"])
        if place in seen:
            if seen[place] != numbers:
                found.broken("I7", f"key {ack['key']}: {seen[place][:2]} and then {numbers[:2]}")
            continue
        seen[place] = numbers
        if key in threads and threads[key][2] == "erased":
            continue
        row = next((t for t in turns[key] if t[4] == ack["key"]), None)
        if row is None or row[:3] != (ack["first"], ack["last"], "done"):
            found.broken("I1", f"key {ack['key']}: acknowledged at {numbers[:2]}, stored {row}")
        elif text_of(entries[key][ack["last"]][2]) != ack["text"]:
            found.broken("I1", f"key {ack['key']}: another text at {ack['last']}")
        if not ack.get("replayed"):
            before = newest[(ack["thread"], ack.get("worker"))]
            if (ack["first"], ack["epoch"]) <= before:
                found.broken("I8", f"key {ack['key']}: position and epoch went back")
            newest[(ack["thread"], ack.get("worker"))] = (ack["first"], ack["epoch"])
