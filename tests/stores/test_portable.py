"""Statements that a cluster or another engine would refuse: none is in the files, and the rules are tried themselves.

The rules are those of docs/scale.md: what Citus, YugabyteDB and CockroachDB lack or do otherwise, and what a pooler
does not carry over from one transaction to the next.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from novelo.stores.sql import statements

pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")

from novelo.stores.postgres import administering
from novelo.stores.postgres.texts import FILES, PACKAGE, TABLES
from shards import NoShard, argument, sharded

OURS = {name: text for file in FILES for name, text in statements(PACKAGE, file).items()}
SCHEMA = resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8")
# Reads over all threads: lists, sums, the claim of work, what is looked for by a run or an age, and forks.
ACROSS = {
    "threads", "threads_of_owner", "spenders", "calls_of_owner", "calls_of_all", "find_words", "due_work", "all_work",
    "next_work", "of_owner", "of_runs", "lapsed", "collections", "children", "forks", "keys_of_owner", "any_thread",
    "weights",
} & set(OURS)  # fmt: skip
SMALL = {name for name in TABLES if administering.key_of(name) is None}  # everywhere, or of one machine: no key needed
KEYS = r"(?:thread|collection)"
_TABLE = rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+({'|'.join(TABLES)})\b"
_ALIAS = r"(?:\s+(?:AS\s+)?(?!WHERE|JOIN|ON|SET|ORDER|LIMIT|GROUP)([a-z]\w*))?"
_REFERENCE = re.compile(_TABLE + _ALIAS)
# What stands in no statement, and why.
AVOIDED = {
    r"advisory|LISTEN|NOTIFY|LOCK TABLE|SKIP LOCKED|NOWAIT": "locks and signals that engines lack, or keep by session",
    r"SERIAL\b|nextval|currval|lastval": "sequences: their order is none, and each node has its own",
    r"\bCREATE TRIGGER|DEFERRABLE|\bEXCLUDE\b|REFERENCES|FOREIGN KEY": "what checks across rows, or shards",
    r"\bctid\b|\bxmin\b|tableoid": "places of rows: they are others on each shard",
    r"\bTEMP\b|TEMPORARY|\bPREPARE\b|DECLARE \w+ CURSOR|\bSET\s+(SESSION|LOCAL)\b": "state of a session",
    r"\bnow\(\)|clock_timestamp|CURRENT_TIMESTAMP|random\(|gen_random_uuid|\bset_config\b": "volatile functions",
    r"\bjsonb?\b|->>|\bMERGE\b|\bTABLESAMPLE\b|GROUPING SETS|\bOVER \(": "what not all engines have",
    r"DELETE FROM \w+ USING|UPDATE \w+ SET[^;(]* FROM ": "changes by a join",
    r"\bLIKE\b|SIMILAR TO|~": "patterns made from what a user wrote",
}


def faults(name, text):
    """Why a cluster would refuse a statement; nothing if it would not."""
    out = [why for pattern, why in AVOIDED.items() if re.search(pattern, text, re.IGNORECASE)]
    verb = text.split(None, 1)[0]
    changes = bool(re.search(r"\b(INSERT|UPDATE|DELETE)\b", re.sub(r"FOR UPDATE|DO UPDATE|DO NOTHING", "", text)))
    if verb == "WITH" and changes:
        out.append("a common table expression that writes")
    if re.match(r"INSERT\b.*\bSELECT\b", text, re.DOTALL):
        out.append("an insertion of what a query gives, or with one inside")
    if re.search(rf"\bSET\b[^;]*?\b{KEYS} = (?!.*WHERE.*\b{KEYS} = ).*WHERE", text, re.DOTALL) or re.search(
        rf"\bSET {KEYS} =", text
    ):
        out.append("a row moved to another shard")
    if re.search(r"RETURNING[^;]*\(\s*SELECT", text):
        out.append("a query in what is given back")
    if {table for table, _ in _REFERENCE.findall(text)} <= SMALL:
        return out
    if name in ACROSS:
        if changes or "FOR UPDATE" in text or "RECURSIVE" in text:
            out.append("a change, a lock or a walk over several shards")
        return out + joined(text, keyed=False)
    if verb == "INSERT":
        if not re.match(rf"INSERT INTO \w+ \({KEYS}, [^)]*\) VALUES \(\$1,", " ".join(text.split())):
            out.append("an insertion without a key")
        return out
    try:
        argument(text)
    except NoShard as none:
        out.append(str(none))
    return out + joined(text, keyed=True)


def levels(text):
    """A statement and the queries inside it, each without those inside of it."""
    out, stack = [], [""]
    for sign in text:
        if sign == "(":
            stack.append("")
        elif sign == ")" and len(stack) > 1:
            inner = stack.pop()
            query = re.search(r"\b(SELECT|UNION)\b", inner)
            out += [inner] if query else []
            stack[-1] += " " if query else f"({inner})"
        else:
            stack[-1] += sign
    pieces = [piece for one in [*out, stack[0]] for piece in re.split(r"\bUNION(?: ALL)?\b", one)]
    return [piece for piece in pieces if _REFERENCE.search(piece)]


def joined(text, keyed):
    """Tables whose rows are not held to the same shard as the others of the statement."""
    out = []
    outer = {alias or table for piece in levels(text) for table, alias in _REFERENCE.findall(piece)}
    for piece in levels(text):
        found = _REFERENCE.findall(piece)
        names = [alias or table for table, alias in found]
        bound = {name for name in names if re.search(rf"\b{name}\.{KEYS} = \$\d", piece)}
        if len(names) == 1 and re.search(rf"(?<![.\w]){KEYS} = \$\d", piece):
            bound = set(names)
        for left, right in re.findall(rf"\b(\w+)\.{KEYS} = (\w+)\.{KEYS}\b", piece):
            if not keyed or left in bound or right in bound or (left in outer and right in outer):
                bound |= {left, right}
        alone = not keyed and len(names) == 1
        inner = not keyed and re.match(rf"\s*SELECT {KEYS} FROM", piece)  # compared with the key by IN
        out += [f"{name} is of any shard" for name in names if name not in bound and not alone and not inner]
    return out


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_statement_is_of_one_thread(name):
    """Each statement names one thread, for every table in it, or only reads over all."""
    assert faults(name, OURS[name]) == []


REFUSED = {
    "no key": "UPDATE threads SET title = '' WHERE owner = $1",
    "two threads": "UPDATE pins SET position = 1 WHERE thread = $1 AND EXISTS (SELECT 1 FROM pins WHERE thread = $2)",
    "a free table": "SELECT e.body FROM entries e JOIN turns t ON t.first = e.position WHERE e.thread = $1",
    "a free query": "SELECT 1 FROM threads WHERE thread = $1 AND head > (SELECT max(first) FROM turns)",
    "writing cte": "WITH a AS (UPDATE threads SET head = 1 WHERE thread = $1 RETURNING head) SELECT head FROM a",
    "insert select": "INSERT INTO pins (thread, position) SELECT thread, position FROM pins WHERE thread = $1",
    "insert with a query": "INSERT INTO pins (thread, position) VALUES ($1, (SELECT 1 FROM pins WHERE thread = $1))",
    "insert without key": "INSERT INTO pins (position, thread) VALUES ($1, $2)",
    "moved": "UPDATE vectors SET thread = $2 WHERE thread = $1",
    "walk": "WITH RECURSIVE f (key) AS (SELECT $1::bytea UNION"
    " SELECT t.thread FROM threads t JOIN f ON t.parent = f.key) SELECT key FROM f",
    "clock": "UPDATE threads SET updated = now() WHERE thread = $1",
    "session": "SELECT set_config('a', $1, false)",
    "lock over all": "SELECT thread FROM threads WHERE owner = $1 FOR UPDATE",
    "returned query": "UPDATE threads SET head = 1 WHERE thread = $1 RETURNING (SELECT max(head) FROM threads)",
    "pattern": "SELECT thread FROM threads WHERE thread = $1 AND title LIKE $2",
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_avoided_is_noticed(case):
    """The rules find what a cluster would refuse: each example breaks one of them."""
    assert faults(case, REFUSED[case])


@pytest.mark.parametrize("name", sorted(ACROSS))
def test_reads_over_all_threads_join_by_the_key(name):
    """What reads over all threads joins rows of one thread alone, so that each shard answers by itself."""
    assert faults(name, OURS[name]) == []
    assert not re.search(r"\bJOIN\b", OURS[name]) or re.search(rf"\w+\.{KEYS} = \w+\.{KEYS}", OURS[name])


def test_an_owner_is_asked_for_wherever_owners_are_many():
    """Reads over all threads have a form for one owner, whose condition is on the owner; the others are for all."""
    of_one = {"threads_of_owner", "spenders", "calls_of_owner", "of_owner", "collections", "of_runs", "keys_of_owner"}
    of_one &= set(OURS)
    for name in of_one:
        assert re.search(r"owner = \$\d", OURS[name]), name
    assert ACROSS - of_one <= {
        "any_thread",
        "weights",
        "threads",
        "calls_of_all",
        "find_words",
        "due_work",
        "all_work",
        "next_work",
        "lapsed",
        "children",
        "forks",
    }  # fmt: skip  find_words has the owner's word among those looked for


def test_keys_of_tables():
    """Every table's unique keys begin with the column that it is spread by; nothing else ties rows together."""
    assert set(administering.columns()) == set(TABLES)
    for table, names in administering.columns().items():
        key = administering.key_of(table)
        if key is None:
            continue
        assert key in names
        body = re.search(rf"CREATE TABLE {table} \((.*?)\n?\);", SCHEMA, re.DOTALL).group(1)
        assert re.search(rf"PRIMARY KEY \({key}\b", body) or re.search(rf"{key} bytea PRIMARY KEY", body), table
    unique = re.findall(r"CREATE UNIQUE INDEX \w+ ON \w+ \((\w+),", SCHEMA)
    assert unique and set(unique) <= {"thread", "collection"}
    code = "\n".join(line for line in SCHEMA.splitlines() if not line.startswith("--"))
    for pattern in list(AVOIDED)[:5]:
        assert not re.findall(pattern, code, re.IGNORECASE), pattern


def strings(path):
    """SQL in a file of Python: texts with a verb, joined as they stand there."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    pieces = {id(one) for node in nodes if isinstance(node, ast.JoinedStr) for one in node.values}
    for node in nodes:
        text = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "x" for one in node.values)
        if text and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|BEGIN|SET)\s+\S", text):
            yield " ".join(text.split())


def test_sql_in_python():
    """What little SQL stands in Python names one thread, or is of connections and of the making of the schema.

    A copy (raw.py) reads and writes whole ranges of keys, and the doctor (health.py) looks at all: they are left out.
    """
    folder = Path(str(resources.files(PACKAGE)))
    found = {
        text
        for path in [
            *(set(folder.glob("*.py")) - {folder / "raw.py", folder / "health.py"}),
            *(folder.parent / "tables").glob("*.py"),
        ]
        for text in strings(path)
    }
    found = {text for text in found if not text.startswith(("BEGIN", "SET LOCAL", "SELECT create_", "SELECT 1 FROM x"))}
    own = {
        text
        for text in found
        if re.search(r"pg_(catalog|class|stat|settings|index)|FROM meta|INTO meta|UPDATE meta", text)
    }
    for text in sorted(found - own):
        assert re.search(r"WHERE thread = \$1", text), text
    made = set(strings(folder / "migrations" / "__init__.py"))
    assert all(
        re.search(r"pg_catalog|meta|pg_advisory_xact_lock|pg_is_in_recovery|lock_timeout", text) for text in made
    )


def test_the_statements_that_spread_the_tables():
    """Each table is named once, those with a key beside the threads, the small one everywhere."""
    spread = dict(administering.distribution("x", 64))
    assert set(spread) == set(TABLES)
    assert spread["meta"] == "SELECT create_reference_table('x.meta')"
    assert spread["threads"].endswith("colocate_with => 'none', shard_count => 64)")
    assert list(spread)[:2] == ["meta", "threads"]
    for table, text in spread.items():
        if table not in ("meta", "threads"):
            key = administering.key_of(table)
            assert text == f"SELECT create_distributed_table('x.{table}', '{key}', colocate_with => 'x.threads')"


def test_a_talk_over_shards(postgres):
    """Turns, forks, redaction, erasure, documents and jobs: every statement finds all it needs on its own shard."""
    import psycopg

    import novelo
    from novelo.stores.base import Lease, Work

    name = f"s{os.getpid()}"
    with sharded(4) as router, novelo.open(f"{postgres}?schema={name}", worker="off") as memory:
        for k in range(12):
            thread = memory.thread(f"t{k}", "ana" if k % 2 else "bob")
            for n in range(2):
                with thread.turn(f"question {k} {n}", key=f"{n}") as turn:
                    turn.messages()
                    turn.reply(f"answer {k} {n}")
            fork = thread.fork(3, f"f{k}").fork(2, f"g{k}")
            with fork.turn("in the fork") as turn:
                turn.reply("yes")
            thread.redact(["#0"])
            assert fork.messages()[0].text == "[redacted]"
            memory.store.ask(thread.key, Work("compact", 1.0, "x"), 1.0)
        assert len(memory.threads()) == 36 and len(memory.threads("ana")) == 18
        assert len(memory.search("answer", owner="ana", limit=99)) == 12
        assert len(memory.store.claim(Lease("w", 30.0, 1e9), 20)) == 12
        assert len(memory.thread("t1", "ana").erase().forks) == 2
        assert len(memory.thread("t2", "bob").erase(forks="keep").forks) == 2
        assert [e.text for e in memory.thread("g2", "bob").messages()][1:] == ["answer 2 0", "in the fork", "yes"]
        assert memory.usage("ana").total.calls > 0 or memory.usage("ana")
        assert router.sent == {"all", 0, 1, 2, 3}
        with memory.store.database.writing() as db, pytest.raises(NoShard):
            db.connection.execute(f"UPDATE \"{name}\".threads SET title = ''")
    with psycopg.connect(postgres, autocommit=True) as connection:
        router.drop(connection, name)
        connection.execute(f"DROP SCHEMA {name} CASCADE")


def test_the_contract_over_shards():
    """The store's contract on turns and forks holds where each statement sees the rows of one shard alone."""
    if os.environ.get("NOVELO_TEST_SHARDS"):
        pytest.skip("this is that run")
    env = {**os.environ, "NOVELO_TEST_SHARDS": "3"}
    files = [str(Path(__file__).parent / name) for name in ("test_forks.py", "test_turns.py")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x", "-k", "postgres", *files]
    ran = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert ran.returncode == 0, ran.stdout[-3000:]
