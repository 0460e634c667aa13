"""The invariants of a store that holds conversations, in one checker.

    I1  every acknowledged turn is there, once, at the acknowledged positions
    I2  positions of a thread are 0, 1, 2, ... without a gap, and `head` is one past the last
    I3  a turn begins with its question and is contiguous; only unfinished turns lack an answer
    I4  an answer was computed from exactly the history that precedes it
    I5  a summary equals a fold of exactly the entries that it claims, and those it claims are all that were to be seen
    I6  an erased thread has no row left, in no table
    I7  the same key gives the same positions and the same text
    I8  positions and epochs of acknowledged turns never go back

All tables are read in one snapshot: three reads in three snapshots once showed a violation that was none. A run must
also have acknowledged a least number of turns: a system that has stopped loses nothing.

Answers in these tests say what they were computed from, `seen=<digest of the last answer in the context>`, and so do
summaries, `fold=<digest of the former one>.<digest of what was read, with its positions>`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import apsw
import msgspec

from novelo.stores.bodies import message_of
from novelo.stores.tables.rows import from_row, unsealed
from novelo.summaries import Summary, source_hash

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
    summaries: int = 0
    folds: int = 0  # summaries whose text tells what they were made from

    @property
    def folded(self):
        """What was done and summarized, in words."""
        return (
            f"{self.acknowledged} turns, {self.summaries} summaries, {self.folds} of them folds, {self.threads} threads"
        )

    @property
    def lost(self):
        """How many acknowledged turns are not there as they were acknowledged."""
        return sum(violation.startswith("I1") for violation in self.violations)

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


def read_touched(path: Path):
    """The keys of turns that workers were about to delete or mask: their texts may be gone."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.startswith(b'{"touched"')]
    return {key for line in lines for key in line["touched"]}


def snapshot(connection):
    """All tables in one snapshot."""
    connection.execute("SAVEPOINT tables")
    try:
        threads = {
            r[0]: r[1:]
            for r in connection.execute("SELECT thread, head, epoch, status, thread_id, fork_at, parent FROM threads")
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
        connection.execute("RELEASE tables")
    return threads, entries, turns


def text_of(body):
    """The text of a stored message's body."""
    return "" if body is None else message_of(1, bytes(body)).text


def check(database, acknowledged, *, least=1, connection=None, touched=()):
    """All violations in a database, given what was acknowledged.

    Args:
        database: the file's path.
        acknowledged: dicts with thread (hex), key, first, last, text, epoch, in the order of their log.
        least: how many turns must have been acknowledged.
        touched: keys of turns whose texts may have been removed.
    """
    own = connection is None
    connection = connection or apsw.Connection(str(database))
    try:
        found = Found()
        verdict = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        if verdict != ["ok"]:
            found.broken("integrity", verdict[0])
        connection.execute("SAVEPOINT reading")
        threads, entries, turns = snapshot(connection)
        reborn = _check_erased(found, connection)
        _check_summaries(found, connection)
        connection.execute("RELEASE reading")
    finally:
        if own:
            connection.close()
    for key, (head, epoch, status, _, fork_at, parent) in threads.items():
        begin = fork_at if parent is not None else 0
        _check_thread(found, key, head, epoch, status, entries[key], turns[key], begin)
    _check_acknowledged(found, acknowledged, threads, entries, turns, touched, reborn)
    found.threads, found.entries, found.acknowledged = len(threads), sum(map(len, entries.values())), len(acknowledged)
    if len(acknowledged) < least:
        found.broken("progress", f"{len(acknowledged)} turns acknowledged, at least {least} wanted")
    return found


def _check_thread(found, key, head, epoch, status, rows, turns, begin):
    name = key.hex()[:6]
    if status == "erased":
        if rows or turns:
            found.broken("I6", f"{name}: {len(rows)} entries of an erased thread")
        return
    if [r[0] for r in rows] != list(range(begin, head)):
        found.broken("I2", f"{name}: {len(rows)} entries from {begin} on, head {head}")
        return
    rows = {row[0]: row for row in rows}
    last_answer = ""
    for position, role, body in rows.values():
        text = text_of(body)
        if ROLES[role] == "assistant" and "seen=" in text:
            if f"seen={digest(last_answer)} " not in text:
                found.broken("I4", f"{name}: the answer at {position} was computed from another history")
            asked = rows.get(position - 1, (0, 0, None))
            if ROLES[asked[1]] == "user" and not text.endswith(f"asked={digest(text_of(asked[2]))}"):
                found.broken("I4", f"{name}: the answer at {position} answers another question")
            last_answer = text
    for i, (first, last, state, turn_epoch, _) in enumerate(turns):
        if not (begin <= first <= last < head) or ROLES[rows[first][1]] != "user":
            found.broken("I3", f"{name}: turn at {first} to {last} of {head}")
        elif state == "done" and ROLES[rows[last][1]] != "assistant":
            found.broken("I3", f"{name}: the turn at {first} is done without an answer")
        if i + 1 < len(turns) and last >= turns[i + 1][0]:
            found.broken("I3", f"{name}: turns at {first} and {turns[i + 1][0]} overlap")
        if turn_epoch > epoch:
            found.broken("I8", f"{name}: a turn of epoch {turn_epoch}, the thread's is {epoch}")
    if Counter(t[2] for t in turns)["open"] > 1:
        found.broken("I3", f"{name}: two open turns")


def _check_acknowledged(found, acknowledged, threads, entries, turns, touched, reborn):
    seen = {}
    texts = {key: {row[0]: text_of(row[2]) for row in rows} for key, rows in entries.items()}
    texts = defaultdict(dict, texts)
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
        if key in reborn and ack["epoch"] < min((t[3] for t in turns[key]), default=1 << 60):
            continue  # the thread was erased since, and another one has its id
        row = next((t for t in turns[key] if t[4] == ack["key"]), None)
        if row is None or row[:3] != (ack["first"], ack["last"], "done"):
            found.broken("I1", f"key {ack['key']}: acknowledged at {numbers[:2]}, stored {row}")
        elif texts[key].get(ack["last"]) != ack["text"] and ack["key"] not in touched:
            found.broken("I1", f"key {ack['key']}: another text at {ack['last']}")
        if not ack.get("replayed"):
            before = newest[(ack["thread"], ack.get("worker"))]
            if (ack["first"], ack["epoch"]) <= before:
                found.broken("I8", f"key {ack['key']}: position and epoch went back")
            newest[(ack["thread"], ack.get("worker"))] = (ack["first"], ack["epoch"])


# ------------------------------------------------------------------------------------------------ what must be gone
TABLES = ("entries", "turns", "calls", "pins", "hidden", "summaries", "work", "search")


def _check_erased(found, connection):
    """No table has a row of a thread that is erased, or is not there; the threads that were ever erased."""
    for table in TABLES:
        rows = connection.execute(
            f"SELECT x.thread, count(*) FROM {table} x LEFT JOIN threads t ON t.thread = x.thread"
            " WHERE t.thread IS NULL OR t.status = 'erased' GROUP BY x.thread"
        )
        for key, count in rows:
            found.broken("I6", f"{key.hex()[:6]}: {count} rows of an erased thread in {table}")
    return {row[0] for row in connection.execute("SELECT scope FROM audit WHERE action = 'erase'")}


# ------------------------------------------------------------------------------------------------ summaries
def fold(former, entries):
    """What a summary of a former one and of entries says about what it was made from.

    Args:
        former: the former summary's text.
        entries: positions and texts, as the summarizer was shown them.
    """
    return f"fold={digest(former)}.{digest(json.dumps(entries))}"


def shown(message):
    """A message's text as a summarizer is shown it."""
    lines = message.text.splitlines() if message.text.strip() else []
    lines += [line for call in message.tool_calls for line in f"calls {call.name}: {call.arguments}".splitlines()]
    return "\n".join(lines) or "(nothing)"


def few(positions):
    """Positions for a message, the first of many."""
    found = sorted(positions)
    return f"{found[:12]}{'...' if len(found) > 12 else ''}"


def places(ranges):
    """The positions of half-open ranges."""
    return {p for start, stop in ranges for p in range(start, stop)}


class _Threads:
    """The tables that summaries are about, read in one snapshot."""

    def __init__(self, connection):
        columns = "thread, head, opening, parent, fork_at, summary, status"
        self.rows = {r[0]: r[1:] for r in connection.execute(f"SELECT {columns} FROM threads")}
        self.own = defaultdict(dict)
        columns = "thread, position, turn, role, tokens, running, created, id, body, seal"
        for row in connection.execute(f"SELECT {columns} FROM entries"):
            self.own[row[0]][row[1]] = from_row(row[0], row[1:])
        self.hidden = defaultdict(set)
        for key, start, stop in connection.execute("SELECT thread, start, stop FROM hidden"):
            self.hidden[key] |= set(range(start, stop))
        self.versions = defaultdict(dict)
        for key, version, body in connection.execute("SELECT thread, version, body FROM summaries WHERE body <> x''"):
            self.versions[key][version] = msgspec.json.decode(unsealed(key, f"summary {version}", body), type=Summary)

    def entries(self, key):
        """All entries of a thread, what it shares with others included."""
        out, below = {}, 1 << 60
        while key is not None and key in self.rows:
            out |= {p: e for p, e in self.own[key].items() if p < below}
            parent, fork_at = self.rows[key][2:4]
            below = min(below, fork_at)
            key = parent
        return out


def _check_summaries(found, connection):
    """I5, of every version that is kept, and of the one in use."""
    tables = _Threads(connection)
    for key, (head, opening, _, _, used, status) in tables.rows.items():
        versions, entries = tables.versions[key], tables.entries(key)
        name = key.hex()[:6]
        if used and (used not in versions or status == "erased"):
            found.broken("I5", f"{name}: version {used} is in use, and is not there")
        for made in versions.values():
            problem = _version(found, made, versions, entries, head)
            if problem:
                found.broken("I5", f"{name}: version {made.version}: {problem}")
        line = versions.get(used)
        if line is not None:
            _check_line(found, name, line, versions, entries, tables.hidden[key], opening)


def _version(found, made, versions, entries, head):
    """What is wrong with one version; it may have been made when other entries were hidden."""
    base = versions.get(made.base) or Summary(start=made.start, upto=made.start)
    found.summaries += 1
    if made.base >= made.version or (made.base and made.base not in versions):
        return f"its base {made.base} is not there"
    if made.undone:  # it says what its base says
        same = (made.text, made.upto, made.source, made.held) == (base.text, base.upto, base.source, base.held)
        return None if same else f"it is not what version {made.base} was"
    positions = places(made.covered)
    if sum(stop - start for start, stop in made.covered) != len(positions) or list(made.covered) != sorted(
        made.covered
    ):
        return f"covered {made.covered}: not in order, or twice"
    if not base.upto <= made.upto <= head:
        return f"it ends at {made.upto}, its base at {base.upto}, the thread at {head}"
    fresh = set(range(base.upto, made.upto)) | set(base.held)
    if not positions <= fresh or not set(made.held) <= fresh or positions & set(made.held):
        return f"covered {made.covered}, held {made.held} of {base.upto} to {made.upto} and {base.held}"
    gone = [p for p in sorted(positions) if p not in entries or entries[p].deleted]
    if gone:
        return f"it covers {few(gone)}, which are deleted"
    read = [(p, entries[p].message) for p in sorted(positions)]
    if made.source != source_hash(base.source, read):
        return f"its source is not what stands at {made.covered}"
    if "fold=" in made.text:
        found.folds += 1
        if fold(base.text, [(p, shown(message)) for p, message in read]) not in made.text:
            return "its text was made from something else"
    return None


def _check_line(found, name, line, versions, entries, hidden, opening):
    """The version in use and its bases cover all that is to be seen below its end, once, and nothing that is hidden."""
    if line.start != opening:
        found.broken("I5", f"{name}: the summary begins at {line.start}, the thread at {opening}")
    covered, upto, held = set(), line.upto, set(line.held)
    one = line
    while one is not None:
        if not one.undone:
            twice = covered & places(one.covered)
            if twice:
                found.broken("I5", f"{name}: {few(twice)} covered twice")
            covered |= places(one.covered)
        one = versions.get(one.base)
    seen = {p for p in range(line.start, upto) if p not in hidden and not entries[p].deleted}
    if covered & hidden:
        found.broken("I5", f"{name}: version {line.version} in use covers {few(covered & hidden)}, which are hidden")
    if seen - covered - held:
        found.broken("I5", f"{name}: version {line.version} in use leaves out {few(seen - covered - held)}")
