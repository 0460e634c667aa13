"""T23: filters, operators, ids and searches made of what breaks queries; only errors of ours, only the owner's rows.

5,000 calls over all kinds of stores. A call may find nothing, or be refused by an error of ours that says what was
expected. No engine's own error comes through, and none gives a row of another owner.
"""

from __future__ import annotations

import random
import re
import string
import traceback
from collections import Counter

import pytest

import novelo
from fix_stores import address
from novelo.errors import NoveloError

CASES = 5000
SHARES = {"reference": 0.2, "sqlite-file": 0.4, "postgres": 0.4}
SECRET = "wolverine"  # said by bob, and asked for
FOREIGN = "quokkaquokka"  # beside it in all that is bob's, and in no call
OPERATORS = [
    '"', "'", "' OR 1=1 --", '" OR "1"="1', "; DROP TABLE threads;", "NEAR(a b, 2)", "a NEAR b", "tid:alice",
    "owner:bob", "words:*", "*", "a*", "^a", "-a", "a AND b", "a OR b", "NOT a", "(", ")", "a:*", "!a", "a & b",
    "a | b", "a <-> b", "\\", "\\'", "%", "_", "%s", "$1", "?1", ":name", "{0}", "{}", "$(id)", "`id`", "\0", "a\0b",
    "\1", "\x010", "\n", "\r\n", "\t", "\ud800", "a\udfff", "\ufeff", "\u202e", "e\u0301", "ﬁ", "İ", "ß", "中文", "あ",
    "🙂", "../../x", "..", ".", "/", "C:\\x", "a.b.c", "a..b", ".a", "a.", '$."a"', "a[0]", "a->>b", "__class__",
    "{'a': 1}", "null", "nan", "-1", "1e309", "bob", SECRET, f"bob {SECRET}", f'{SECRET}"', f"{SECRET}*",
    f"{SECRET}:*", f"x OR {SECRET}", f"x | {SECRET}", "§obob", "§", "x" * 64, "x" * 65, "x" * 1000, "x" * 1001,
    "a " * 3000, "\u0000" * 5, "true", "false",
]  # fmt: skip
VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1 << 63,
    1 << 80,
    0.5,
    float("nan"),
    float("inf"),
    b"x",
    [],
    {},
    [1],
    {"a": 1},
    object(),
    (),
]


def text(rng):
    """A text that might mean something to an engine."""
    kind = rng.random()
    if kind < 0.55:
        return rng.choice(OPERATORS)
    if kind < 0.8:
        return rng.choice(OPERATORS) + rng.choice(("", " ", ".", ":")) + rng.choice(OPERATORS)
    if kind < 0.9:
        return "".join(
            chr(rng.choice((rng.randrange(0x80), rng.randrange(0x11_0000)))) for _ in range(rng.randrange(12))
        )
    return "".join(rng.choice(string.printable) for _ in range(rng.randrange(20)))


def anything(rng):
    """Mostly a text, now and then a value of another kind."""
    return text(rng) if rng.random() < 0.8 else rng.choice(VALUES)


def calls(memory, saver, rng):
    """One call of each kind, as the owner ana or in a memory of hers alone."""
    mine = memory.for_owner("ana")
    one, two = text(rng), anything(rng)
    configurable = {"thread_id": rng.choice(("t0", "g", one)), "owner": "ana"}
    if rng.random() < 0.5:
        configurable["checkpoint_ns"] = rng.choice(("", one))
    if rng.random() < 0.3:
        configurable["checkpoint_id"] = one
    before = {"configurable": {"checkpoint_id": one}} if rng.random() < 0.3 else None
    wanted = {one: two} if rng.random() < 0.7 else {one: two, text(rng): anything(rng)}
    listed = [] if saver is None else [
        lambda: list(saver.list({"configurable": configurable}, filter=wanted, before=before, limit=5)),
        lambda: list(saver.list({"configurable": {"owner": "ana"}}, filter=wanted, before=before, limit=5)),
        lambda: saver.get_tuple({"configurable": configurable}),
        lambda: list(saver.list({"configurable": {**configurable, "thread_id": two}}, limit=rng.choice((1, 0, -1)))),
    ]  # fmt: skip
    cursor = f"{rng.choice(('1.0', 'nan', '1e400'))}:{one.encode('utf-8', 'ignore').hex()}"
    plain, closed = memory.thread("t0", "ana"), mine.thread("t1")
    return [
        lambda: memory.threads("ana", search=one),
        lambda: memory.threads("ana", tag=one),
        lambda: memory.threads("ana", cursor=one),
        lambda: memory.threads("ana", cursor=cursor),
        lambda: memory.threads("ana", limit=rng.choice((1, 0, -5, 10**6))),
        lambda: mine.threads(search=one),
        lambda: memory.search(one, owner="ana"),
        lambda: memory.search(one, thread=plain),
        lambda: memory.search(one, owner="ana", limit=rng.choice((1, 3, 200))),
        lambda: mine.search(one),
        lambda: mine.search(f"{one} answer"),
        lambda: memory.thread(one, "ana").messages(),
        lambda: mine.thread(one).row,
        lambda: mine.thread(one).context().messages(),
        lambda: mine.thread(one).turns(),
        lambda: mine.thread("t0").positions([one]),
        lambda: mine.thread("t0").positions(two),
        lambda: mine.thread("t0").usage().rows,
        lambda: memory.usage("ana" if rng.random() < 0.5 else f"{one}x"),
        lambda: mine.documents("docs").search(one),
        lambda: mine.documents(one).list(),
        lambda: mine.thread("t0").state.get(one),
        lambda: mine.thread(one).append(one),
        lambda: mine.thread("t0").fork(one),
        lambda: setattr(closed, "title", one),
        lambda: setattr(closed, "tags", [one]),
        lambda: closed.state.__setitem__(one, two),
        lambda: closed.redact(one[:40]),
        lambda: asked(mine.thread("t2"), one, rng), *listed,
    ]  # fmt: skip


def asked(thread, text, rng):
    """A turn whose question and key are a hard text."""
    with thread.turn(text, key=rng.choice((None, text))) as turn:
        turn.messages()
        turn.reply("fine")
    return thread.messages(limit=2)


def said(found):
    """What a call gave, as one text."""
    if isinstance(found, (list, tuple, set)):
        return " ".join(map(said, found))
    if isinstance(found, dict):
        return said(list(found.items()))
    parts = [
        repr(found),
        str(getattr(found, "owner", "")),
        str(getattr(found, "text", "")),
        str(getattr(found, "title", "")),
    ]
    return " ".join(parts)


@pytest.fixture(params=list(SHARES))
def filled(request, tmp_path):
    """A store of each kind, with ana's threads and bob's, checkpoints and documents; and how many calls it gets."""
    with novelo.open(address(request, tmp_path), queue_s=0.1, worker="off") as memory:
        for owner in ("ana", "bob"):
            for k in range(3):
                with memory.thread(f"t{k}", owner).turn(f"question {k}") as turn:
                    turn.reply(f"answer {SECRET} {FOREIGN}" if owner == "bob" else "answer fox")
            memory.thread("t0", owner).tags = [owner]
        saver = None
        if request.param != "reference":
            from novelo.integrations.langgraph.saver import NoveloSaver

            saver = NoveloSaver(memory)
            from langgraph.checkpoint.base import empty_checkpoint

            for owner in ("ana", "bob"):
                config = {"configurable": {"thread_id": "g", "owner": owner, "checkpoint_ns": ""}}
                metadata = {
                    "source": "input",
                    "step": 1,
                    "who": owner,
                    "nested": {"a": SECRET if owner == "bob" else 1},
                }
                saver.put(config, empty_checkpoint(), metadata, {})
        yield memory, saver, round(CASES * SHARES[request.param])


@pytest.mark.timeout(300)
def test_hard_texts_give_no_error_of_an_engine_and_no_foreign_row(filled):
    """T23: 5,000 calls with hard texts: an error is one of ours, and nothing that bob said or has comes to ana."""
    memory, saver, count = filled
    rng = random.Random(f"fuzz {count}")
    refused, done, leaked = 0, 0, Counter()
    while done < count:
        for call in calls(memory, saver, rng):
            done += 1
            try:
                found = call()
                assert FOREIGN not in said(found)
                rows = found if isinstance(found, list) else []
                assert {getattr(row, "owner", "ana") for row in rows} <= {"ana"}
            except NoveloError as error:
                refused += 1
                assert not re.search("psycopg|SQLSTATE|sqlite3|apsw|syntax", str(error))
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                leaked[f"{type(error).__name__}: {error} at {place.filename}:{place.lineno}"] += 1
    assert not leaked, leaked
    assert memory.thread("t0", "bob").messages()[1].text.endswith(FOREIGN)
    assert 0 < refused < done
    print(f"T23: {done} calls, {refused} refused")
