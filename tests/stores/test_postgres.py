"""What is PostgreSQL's own: statements, texts, errors with what to do, and no secret in any of them."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

import fix_postgres
import novelo
from fix_postgres import started
from novelo.errors import InvalidSpec, SchemaTooNew, StorageCorrupt, StorageUnavailable
from novelo.stores.sql import statements

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")

from novelo.stores.postgres import administering, migrations  # noqa: E402
from novelo.stores.postgres import texts as of_postgres  # noqa: E402
from novelo.stores.postgres.database import Settings  # noqa: E402
from novelo.stores.postgres.texts import FILES, NOTHING, PACKAGE, escaped, in_schema, texts, unescaped  # noqa: E402
from novelo.stores.sqlite.session import STATEMENTS as SQLITE  # noqa: E402

OURS = {name: text for file in FILES for name, text in statements(PACKAGE, file).items()}
SECRET = "s3cr3t-kanarie"
# What other engines that speak PostgreSQL's language lack or have otherwise, and what a pooler does not carry over.
AVOIDED = (
    r"advisory|LISTEN|NOTIFY|SERIAL|nextval|TRIGGER|DEFERRABLE|\bEXCLUDE\b|LOCK TABLE|\bctid\b|\bxmin\b|\bTEMP\b"
    r"|\bSET\s+LOCAL\b|\bjsonb\b|\bnow\(\)|\bPREPARE\b|\bSKIP LOCKED\b|\bCURSOR\b|FOREIGN KEY|REFERENCES"
)
# Lists over many threads, sums, and the claim of work: all else names the thread, or the collection, it is about.
ACROSS = {
    "threads", "threads_of_owner", "spenders", "calls_of_owner", "calls_of_all", "find_words", "due_work", "next_work",
    "of_owner", "of_runs", "lapsed", "collections", "children", "forks", "all_work", "keys_of_owner", "standing",
    "weights", "all_held", "next_act", "acts", "last_chain", "audit", "audit_from", "vault_facts", "any_thread",
    "keep_vault_fact", "vault_seen", "see_vault",
}  # fmt: skip


def raw(url):
    """A plain connection to the server of an address, and the schema's name."""
    settings = Settings(url)
    options = settings.options | {"application_name": "test"}
    return psycopg.connect(**options, autocommit=True), settings.schema


# ---------------------------------------------------------------------------------------------- statements
def test_every_statement_is_understood(postgres_url):
    """The server takes every statement as it stands in the files."""
    novelo.open(postgres_url).close()
    connection, schema = raw(postgres_url)
    with connection:
        for at, (name, statement) in enumerate(texts(schema)[1].items()):
            connection.execute(f"PREPARE p{at} AS {statement.text}")
            assert statement.text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")), name


def test_both_engines_have_all_statements():
    """What the shared code asks for is there on both sides, but for what one index does in its own way."""
    own = {"find_words", "find_words_of", "rows_of_words", "words_between", "index_entry", "unindex_entry"}
    own |= {"threads", "threads_of_owner", "lock", "thread_locked", "collection_locked"}
    own |= {
        "sharing",
        "heirs",
        "move_vectors",
        "forks",
        "vectors_between",
        "next_receipt",
        "next_chunk",
        "next_vector",
        "work_of",
    }
    waiting = {"waiting", "take_in", "none_waits", "waiting_between", "unindex_waiting", "number_thread", "next_number",
               "thread_number", "indexed", "unindex", "index_words", "next_wash"}  # fmt: skip
    assert set(SQLITE) - waiting - own == (set(OURS) | NOTHING) - own


@pytest.mark.parametrize("file", ["schema.sql", *FILES])
def test_statements_are_portable(file):
    """Nothing that engines which speak PostgreSQL's language lack, and no state of a session."""
    from importlib import resources

    text = resources.files(PACKAGE).joinpath(file).read_text("utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    assert re.findall(AVOIDED, code, re.IGNORECASE) == []


def test_statements_name_their_thread():
    """Every statement but the lists begins with a thread's or a collection's key, so that tables can be spread."""
    for name, text in OURS.items():
        if name not in ACROSS:
            assert re.search(r"(thread|collection|parent|scope|owner) = \$\d|VALUES \(\$1|SELECT \$1", text), name


def test_columns_are_plain():
    """Only numbers, texts, bytes and words of the index."""
    from importlib import resources

    text = resources.files(PACKAGE).joinpath("schema.sql").read_text("utf-8")
    kinds = set(re.findall(r"^  \w+ (\w+)", text, re.MULTILINE)) - {"KEY", "bytea"}
    assert kinds <= {"bigint", "text", "double", "tsvector"}


# ---------------------------------------------------------------------------------------------- texts
@pytest.mark.parametrize("text", ["", "a", "\0", "\1", "a\0b\1c", "\0001", "\x010", "\x011\0"])
def test_signs_come_back(text):
    """A text with any sign is stored without NUL and comes back as it was."""
    assert "\0" not in escaped(text)
    assert unescaped(escaped(text)) == text


def test_order_stays():
    """What is stored compares as what it stands for."""
    made = ["", "\0", "\0\0", "\0a", "\1", "\1\0", "\x010", "\2", "a", "a\0", "a\1"]
    assert sorted(made) == sorted(made, key=escaped)


def test_odd_texts_everywhere(postgres_url):
    """NUL in names, ids, titles, tags and state; a word that no tsvector could hold."""
    long = "a" * 900
    with novelo.open(postgres_url) as memory:
        thread = memory.thread("t\0\1", owner="ana\0")
        with thread.turn(f"olá \0 {long}", key="k\0") as turn:
            turn.reply("\1\0")
        thread.title = "\0title\1"
        assert [m.text for m in thread.messages()] == [f"olá \0 {long}", "\1\0"]
        assert [row.thread_id for row in memory.threads(owner="ana\0")] == ["t\0\1"]
        assert memory.threads()[0].title == "\0title\1"
        assert len(memory.search(long, owner="ana\0")) == len(memory.search("ola")) == 1
    assert len(of_postgres.lexeme(long).encode()) < 2000


# ---------------------------------------------------------------------------------------------- schema
def test_two_schemas_are_two_stores(postgres_url):
    """Stores in two schemas of a database share nothing, not even their secret."""
    other = postgres_url + "b"
    with novelo.open(postgres_url) as one, novelo.open(other) as two:
        one.thread("t").append({"role": "user", "content": "x"})
        assert len(two.threads()) == 0
        assert one.store.key_of("", "t") != two.store.key_of("", "t")
    connection, schema = raw(other)
    with connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def test_many_open_a_fresh_database_at_once(postgres_url):
    """The tables are made once, whoever comes first."""
    failed = []

    def opened():
        try:
            novelo.open(postgres_url).close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=opened) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []


def test_migrations(postgres_url):
    """Numbered steps lead an older schema on, in one transaction; a step that fails changes nothing."""
    novelo.open(postgres_url).close()
    connection, schema = raw(postgres_url)
    with connection:
        steps = {2: "ALTER TABLE pins ADD COLUMN note text", 3: "ALTER TABLE pins ADD COLUMN more text"}
        with pytest.raises(psycopg.Error):
            migrations.bring_up(connection, schema, wanted=3, known={2: steps[2], 3: "SELECT nonsense"})
        assert migrations.schema_version(connection, schema) == 1
        migrations.bring_up(connection, schema, wanted=3, known=steps)
        assert migrations.schema_version(connection, schema) == 3
        connection.execute(in_schema("SELECT note, more FROM pins", schema))
        with pytest.raises(StorageCorrupt, match="no migration leads to schema 4"):
            migrations.bring_up(connection, schema, wanted=4, known=steps)
    with pytest.raises(SchemaTooNew, match="schema 3, this version knows up to 1: upgrade"):
        novelo.open(postgres_url)


def test_a_schema_of_another_program(postgres_url):
    """Tables of another program in the schema are left alone."""
    connection, schema = raw(postgres_url)
    with connection:
        connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.threads (id text)")
    with pytest.raises(StorageCorrupt, match="another program"):
        novelo.open(postgres_url)


# ---------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    "query",
    [
        "schema=No",
        "schema=a;drop",
        "pool=0",
        "pool=2.5",
        "pool=x",
        "timeout=-1",
        "timeout=nan",
        "nonsense=1",
        "schema=" + "a" * 64,
    ],
)
def test_addresses_that_are_none(query):
    """A wrong address says what was expected, and repeats nothing of it that may be secret."""
    with pytest.raises(InvalidSpec, match="expected") as caught:
        novelo.open(f"postgresql://ana:{SECRET}@127.0.0.1/x?{query}")
    assert SECRET not in _all_of(caught.value)


@pytest.mark.parametrize(
    "hosts", ["db.example:5432", "a:1,b:2", "a:5433,b:5433", "[::1]:5432"], ids=["one", "two", "alike", "six"]
)
def test_the_address_for_commands_is_read_as_it_was(hosts):
    """What a finding's command names is the same server, or the same servers in their order."""
    first = Settings(f"postgresql://ana:{SECRET}@{hosts}/x?schema=s")
    again = Settings(first.address)
    assert SECRET not in first.address
    assert {**first.options, "password": None} == {**again.options, "password": None}


def _all_of(error):
    """An error with all that stands behind it, as a traceback shows it."""
    import traceback

    return "".join(traceback.format_exception(error))


def test_an_unreachable_server():
    """Nobody listens: told within the time that the address gives."""
    at = time.monotonic()
    with pytest.raises(StorageUnavailable, match=r"127\.0\.0\.1:1/x cannot be reached") as caught:
        novelo.open(f"postgresql://ana:{SECRET}@127.0.0.1:1/x?timeout=2")
    assert time.monotonic() - at < 5
    assert SECRET not in _all_of(caught.value)


def test_no_such_database(postgres_url):
    """The error names the database, and how it is made."""
    with pytest.raises(StorageUnavailable, match=r"no such database.*createdb"):
        novelo.open(urlunsplit(urlsplit(postgres_url)._replace(path="/nowhere")))


def test_no_such_user(postgres):
    """A user whom the server does not know is no missing database."""
    if fix_postgres.NAMED:
        pytest.skip("another server may ask for a password first")
    server = urlsplit(postgres)
    with pytest.raises(StorageUnavailable, match=r"refused the name or the password"):
        novelo.open(urlunsplit(server._replace(netloc=f"nobody_here@{server.hostname}:{server.port}")))


@pytest.fixture(scope="module")
def guarded():
    """A server that asks one user for a password, lets another have one connection, and a third one only read."""
    server = started()
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE ana LOGIN PASSWORD '{SECRET}'; CREATE ROLE few LOGIN CONNECTION LIMIT 1")
        connection.execute("CREATE ROLE poor LOGIN; GRANT CREATE ON DATABASE postgres TO ana, few")
        (path,) = connection.execute("SHOW hba_file").fetchone()
        with open(path, encoding="utf-8") as file:
            lines = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"host all ana 127.0.0.1/32 scram-sha-256\n{lines}")
        connection.execute("SELECT pg_reload_conf()")
    time.sleep(0.3)
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


def test_a_wrong_password(guarded, caplog):
    """The server's refusal is told as such; no password is in the error, the log or what is shown of a store."""
    caplog.set_level(logging.DEBUG)
    good = guarded.address("ana").replace("ana@", f"ana:{SECRET}@") + "?schema=ana&timeout=3"
    with novelo.open(good) as memory:
        assert SECRET not in repr(memory.store.database) + repr(memory.store.database.settings)
    for bad in (good.replace(SECRET, f"{SECRET}x"), good.replace(f":{SECRET}", "")):
        with pytest.raises(StorageUnavailable, match=r"refused the name or the password.*pg_hba") as caught:
            novelo.open(bad)
        assert SECRET not in _all_of(caught.value)
    assert SECRET not in caplog.text


def test_no_free_connection_of_the_server(guarded):
    """A role that has all its connections in use is told so."""
    url = guarded.address("few") + "?schema=few&timeout=2"
    with psycopg.connect(guarded.address("few")), pytest.raises(StorageUnavailable, match="no free connection"):
        novelo.open(url)


def test_a_user_without_grants(guarded):
    """A user who may not make or read the tables is pointed to the grants."""
    with pytest.raises(StorageUnavailable, match=r"may not do that.*docs/postgres\.md"):
        novelo.open(guarded.address("poor") + "?schema=poor")


def test_a_user_without_grants_in_the_vault(guarded):
    """What is missing in the vault is told of the vault, and the grants of docs/encryption.md are enough."""
    pytest.importorskip("cryptography")
    with psycopg.connect(guarded.address(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE safe")
        connection.execute("CREATE ROLE program LOGIN")
    url, vault, key = f"{guarded.address()}?schema=hidden", guarded.address(database="safe"), bytes(range(32))
    novelo.open(url, vault=vault, key=key, worker="off").close()
    theirs, their_vault = f"{guarded.address('program')}?schema=hidden", guarded.address("program", "safe")
    administering.run(url, administering.grants("hidden", "program"))
    with pytest.raises(StorageUnavailable, match=r"in the vault .*/safe \(schema vault\): see docs/encryption\.md"):
        novelo.open(theirs, vault=their_vault, key=key, worker="off")
    page = (Path(__file__).parents[2] / "docs" / "encryption.md").read_text("utf-8")
    (block,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    with psycopg.connect(vault, autocommit=True) as connection:
        connection.execute(block.replace("app;", "program;"))
    with novelo.open(theirs, vault=their_vault, key=key, worker="off") as memory:
        memory.thread("t").append("olá")
        assert memory.thread("t").erase().shredded


def test_a_full_pool(postgres_url):
    """All connections lent out: told after the time that the address gives, and over when one comes back."""
    with novelo.open(postgres_url + "&pool=1&timeout=1") as memory:
        memory.thread("t").append({"role": "user", "content": "x"})
        ready, over = threading.Event(), threading.Event()

        def hold():
            with memory.store.snapshot():
                ready.set()
                over.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        ready.wait(10)
        at = time.monotonic()
        with pytest.raises(StorageUnavailable, match=r"all 1 connections of the pool were busy for 1 s.*\?pool="):
            memory.thread("t").messages()
        assert time.monotonic() - at < 5
        over.set()
        holder.join()
        assert len(memory.thread("t")) == 1


@pytest.mark.skipif(bool(fix_postgres.SHARDS), reason="the row lies in a shard")
def test_a_lock_held_by_another(postgres_url):
    """A thread's row locked by somebody else: told after the time that the address gives, and nothing was stored."""
    with novelo.open(postgres_url + "&lock_timeout=0.5") as memory:
        thread = memory.thread("t")
        thread.append({"role": "user", "content": "x"})
        connection, schema = raw(postgres_url)
        with connection, connection.transaction():
            connection.execute(f"SELECT 1 FROM {schema}.threads WHERE thread = %s FOR UPDATE", (thread.key,))
            at = time.monotonic()
            with pytest.raises(StorageUnavailable, match=r"kept a lock for more than 0\.5 s"):
                thread.append({"role": "user", "content": "y"})
            assert time.monotonic() - at < 5
        assert len(memory.thread("t")) == 1


def test_a_connection_that_broke_in_the_pool(postgres_url):
    """Connections that the server ended while they lay idle are noticed before they are lent, and replaced."""
    with novelo.open(postgres_url) as memory:
        thread = memory.thread("t")
        thread.append({"role": "user", "content": "x"})
        connection, _ = raw(postgres_url)
        with connection:
            for k in range(5):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'novelo'"
                )
                time.sleep(0.05)
                thread.append({"role": "user", "content": f"y{k}"})
        assert len(thread) == 6


def test_behind_a_transaction_pooler(postgres, postgres_url):
    """Behind pgbouncer, whose connections change with every transaction, all goes as without it."""
    from concurrent.futures import ThreadPoolExecutor
    from types import SimpleNamespace

    if fix_postgres.NAMED:
        pytest.skip("the tests' own server is needed")
    folder = Path(tempfile.mkdtemp(prefix="novelo-pooler-"))
    folder.chmod(0o755)
    pooler = fix_postgres.Pooler(SimpleNamespace(folder=folder, port=urlsplit(postgres).port))
    try:
        url = pooler.address() + "?" + urlsplit(postgres_url).query

        def talk(k):
            with novelo.open(url) as memory:
                for n in range(10):
                    with memory.thread(f"t{k % 3}").turn(f"question k{k} n{n}") as turn:
                        turn.messages()
                        turn.reply(f"answer k{k} n{n}")
                assert len(memory.search(f"answer k{k}")) == 10

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(talk, range(8)))
        with novelo.open(url) as memory:
            assert sum(len(memory.thread(f"t{k}")) for k in range(3)) == 160
    finally:
        pooler.stop()
        shutil.rmtree(folder)


# ---------------------------------------------------------------------------------------------- what the docs say
def _from_docs(start):
    """The SQL block of docs/postgres.md that begins so."""
    text = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text("utf-8")
    return next(block for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL) if block.startswith(start))


def test_the_grants_of_the_docs_suffice(guarded):
    """A user with the documented rights talks, searches, erases; it may not alter a table."""
    novelo.open(guarded.address() + "?schema=granted").close()
    with psycopg.connect(guarded.address(), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN")
        connection.execute(_from_docs("GRANT").replace("novelo", "granted"))
    with novelo.open(guarded.address("app") + "?schema=granted") as memory:
        with memory.thread("t").turn("hello") as turn:
            turn.reply("hi")
        assert len(memory.search("hello")) == 1
        memory.store.documents.put(memory.store.documents.key_of("", "d"), ("", "d"), [], 1.0)
        memory.thread("t").erase()
    with psycopg.connect(guarded.address("app")) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("ALTER TABLE granted.threads ADD COLUMN x text")


@pytest.mark.skipif(bool(fix_postgres.SHARDS or fix_postgres.DISTRIBUTE), reason="spread already")
def test_partitions(postgres_url):
    """Split by `novelo partition`, the store goes on as before."""
    novelo.open(postgres_url).close()
    connection, schema = raw(postgres_url)
    with connection:
        assert administering.run(postgres_url, administering.partitions(schema, 8))
        with novelo.open(postgres_url) as memory:
            for k in range(12):
                with memory.thread(f"t{k}").turn(f"hello k{k}", key="once") as turn:
                    turn.reply("hi")
            assert len(memory.search("hello")) == 12
            assert len(memory.threads()) == 12
            memory.thread("t3").erase()
            assert len(memory.search("k3")) == 0
            assert "indexes" not in {found.check for found in memory.doctor().findings}  # they keep their names
        rows = connection.execute(f"SELECT count(DISTINCT tableoid) FROM {schema}.entries").fetchone()
        assert rows[0] > 2


@pytest.mark.skipif(bool(fix_postgres.SHARDS or fix_postgres.DISTRIBUTE), reason="spread already")
def test_the_keepers_commands(postgres_url):
    """`novelo distribute`, `partition` and `grants` print what they would run; a file is refused."""

    def run(*words, database=postgres_url):
        return subprocess.run(
            [sys.executable, "-m", "novelo", *words, "-d", database], capture_output=True, text=True, timeout=60
        )

    schema = Settings(postgres_url).schema
    assert f"SELECT create_distributed_table('{schema}.threads', 'thread', " in run("distribute").stdout
    assert run("partition", "--parts", "4").stdout.count("PARTITION OF") == 4 * (len(administering.partitions("x")))
    assert "CREATE POLICY" in run("grants", "app", "--owners").stdout
    assert "GRANT SELECT" in run("grants", "app").stdout and "POLICY" not in run("grants", "app").stdout
    assert run("partition", "--parts", "2", "--run").returncode == 0
    assert "has rows" not in run("partition", "--parts", "1").stdout
    for words in (("distribute",), ("grants", "app")):
        assert run(*words, database="sqlite:///x.db").returncode == 2
    assert run("grants", "a;b").returncode == 2


def test_the_commands_take_an_address(postgres_url, tmp_path):
    """`novelo chat`, `threads`, `show`, `search` and `delete` work on a server as on a file."""

    def run(*words, given=None):
        env = {**os.environ, "NOVELO_HOME": str(tmp_path), "NOVELO_DATABASE": postgres_url}
        ran = subprocess.run(
            [sys.executable, "-m", "novelo", *words], input=given, capture_output=True, text=True, env=env, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    run("chat", "--thread", "t1", given="My name is Ana.\n")
    assert "t1" in run("threads")
    assert "Ana" in run("show", "t1") and "t1" in run("search", "ana")
    assert json.loads(run("usage", "--json"))
    run("delete", "t1", "--yes", "-d", postgres_url)
    assert "t1" not in run("threads", "--json")


def test_a_forked_process_closes_nothing_of_its_parent(postgres_url):
    """A child that closes the memory it inherited leaves the parent's connections to the parent."""
    with novelo.open(postgres_url, worker="off") as memory:
        memory.thread("t").append([{"role": "user", "content": "hi"}])
        pool = memory.store.database._pool
        with pool.connection() as connection:
            before = connection.info.backend_pid
        pid = os.fork()
        if not pid:
            try:
                memory.close()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        with pool.connection() as connection:
            assert connection.info.backend_pid == before
            assert connection.execute("SELECT 1").fetchone() == (1,)
