"""Row-level security on PostgreSQL: a user under it sees rows of one owner alone, also by SQL of its own."""

from __future__ import annotations

import shutil

import pytest

import novelo
from fix_postgres import Pooler, started
from novelo.errors import InvalidSpec, StorageUnavailable

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")

from novelo.stores.postgres import administering  # noqa: E402

SCHEMA = "guarded"


@pytest.fixture(scope="module")
def server():
    """A server whose user `app` is under the policies, with threads of ana's and bob's."""
    made = started()
    url = f"{made.address()}?schema={SCHEMA}"
    novelo.open(url).close()
    with psycopg.connect(made.address(), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN")
    administering.run(url, [*administering.grants(SCHEMA, "app"), *administering.row_security(SCHEMA, "app")])
    for owner in ("ana", "bob"):
        with novelo.open(f"{made.address('app')}?schema={SCHEMA}", owner=owner) as memory:
            fill(memory)
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


def fill(memory):
    """Something in every table."""
    from novelo.stores.base import Close, Lease, Work
    from novelo.stores.documents import NewChunk, NewSource, Source

    for k in range(3):
        with memory.thread(f"t{k}").turn(f"question {memory.owner} {k}", key=f"key{k}") as turn:
            turn.messages()
            turn.reply(f"answer {memory.owner} {k}")
    thread = memory.thread("t0")
    thread.title, thread.tags = "title", ["x"]
    thread.state["color"] = memory.owner
    thread.pin("#0")
    thread.hide("#1")
    thread.fork(2, "f0")
    memory.store.ask(thread.key, Work("compact", 1.0, "x"), 1.0)
    memory.store.put_vectors(thread.key, "m", memory.store.base_of(thread.row, 2), {0: b"1234"})
    docs = memory.store.documents
    key = docs.key_of(memory.owner, "docs")
    chunk = NewChunk(b"{}", "head", f"words {memory.owner}")
    docs.put(key, (memory.owner, "docs"), [NewSource(Source("a.md", "a.md", b"h" * 16, "a", 1, 1, 1), [chunk])], 1.0)
    gone = memory.thread("gone")
    gone.append("to be erased")
    gone.erase()
    gone.append("begun anew")
    assert isinstance(Close("done"), Close) and isinstance(memory.lease(), Lease)


def rows(server, owner, table, word=""):
    """What raw SQL of the user under the policies sees of a table."""
    with psycopg.connect(server.address("app")) as connection:
        connection.execute("SELECT set_config('novelo.owner', %s, true), set_config('novelo.owner_word', %s, true)",
                           (owner, word))  # fmt: skip
        return connection.execute(f"SELECT * FROM {SCHEMA}.{table}").fetchall()


GUARDED = [name for name, _ in administering.row_security(SCHEMA, "app")]


def test_every_table_with_content_is_guarded(server):
    """Policies are on every table but the one of receipts, which are counts, and the schema's own."""
    assert set(administering.columns()) - set(GUARDED) == {"meta", "audit", "holds", "marks", "spent"}


@pytest.mark.parametrize("table", [name for name in GUARDED if name != "search"])
def test_foreign_rows_are_invisible_to_raw_sql(server, table):
    """Of each table a transaction sees its owner's rows; without an owner, or as another one, none of a thread."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        everything = connection.execute(f"SELECT * FROM {SCHEMA}.{table}").fetchall()
    ana, bob = rows(server, "ana", table), rows(server, "bob", table)
    fences = [row for row in everything if table == "threads" and "erased" in row]
    assert len(ana) + len(bob) - len(fences) == len(everything)
    assert not set(map(repr, ana)) & set(map(repr, bob)) - set(map(repr, fences))
    assert rows(server, "", table) == rows(server, "carl", table) == fences
    if everything and table not in (
        "checkpoints",
        "checkpoint_writes",
        "checkpoint_values",
        "summaries",
        "chunk_vectors",
    ):
        assert ana and bob


def test_the_search_index_is_guarded_by_the_owners_word(server):
    """Words of messages are seen by whoever names the owner's word; it is made with the database's secret."""
    with novelo.open(f"{server.address('app')}?schema={SCHEMA}", owner="ana") as memory:
        word = memory.store.inner.index.owner_word("ana")
        assert len(memory.search("answer")) == 3 and memory.search("bob") == []
    assert rows(server, "ana", "search") == []
    found = rows(server, "ana", "search", word)
    assert found and not any("bob" in row[2] for row in found)


def test_foreign_rows_are_not_written(server):
    """Raw SQL under one owner changes, removes and adds nothing of another's."""
    with psycopg.connect(server.address(), autocommit=True) as connection:
        (key,) = connection.execute(f"SELECT thread FROM {SCHEMA}.threads WHERE owner = 'bob' LIMIT 1").fetchone()
    with psycopg.connect(server.address("app")) as connection:
        connection.execute("SELECT set_config('novelo.owner', 'ana', true)")
        for text in (f"UPDATE {SCHEMA}.threads SET title = 'x'", f"DELETE FROM {SCHEMA}.entries"):
            assert connection.execute(f"{text} WHERE thread = %s", (key,)).rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"INSERT INTO {SCHEMA}.pins VALUES (%s, 1)", (key,))


def _look(pooler):
    """A plain connection behind the pooler; a prepared statement would be on another connection of the server's."""
    return psycopg.connect(pooler.address(), autocommit=True, prepare_threshold=None)


def test_a_memory_of_one_owner_behind_a_pooler(server):
    """Settings end with their transaction: behind a transaction pooler no owner sees what the one before was."""
    pooler = Pooler(server)
    try:
        url = f"{pooler.address().replace('novelo@', 'app@')}?schema={SCHEMA}"
        # pgbouncer connects as the tests' own user, whom policies do not hold: what counts here is the setting
        with novelo.open(url) as whole, _look(pooler) as look:
            for k in range(20):
                mine = whole.for_owner(("ana", "bob")[k % 2])
                with mine.thread("pooled").turn(f"q{k}") as turn:
                    turn.messages()
                    turn.reply("a")
                left = look.execute("SELECT current_setting('novelo.owner', true)").fetchone()[0]
                assert left in (None, "")
            assert len(whole.for_owner("ana").thread("pooled").messages()) == 20
    finally:
        pooler.stop()


def test_a_whole_memory_under_the_policies_sees_nothing(server):
    """A memory for all owners under such a user finds no rows, and may make none: it is told to name an owner."""
    with novelo.open(f"{server.address('app')}?schema={SCHEMA}") as memory:
        assert memory.threads() == [] and memory.thread("t0", "ana").messages() == []
        with pytest.raises(StorageUnavailable, match="may not do that"):
            memory.thread("t0", "ana").append("x")


def test_retention_is_refused_where_rows_are_hidden(server):
    """A user who sees no rows is told that retention and erasure would take nothing."""
    for user in ("app",):
        with (
            novelo.open(f"{server.address(user)}?schema={SCHEMA}", worker="off") as memory,
            pytest.raises(StorageUnavailable, match=r"or none.*BYPASSRLS"),
        ):
            memory.purge(dry_run=True, retention="idle:0s")
        with (
            novelo.open(f"{server.address(user)}?schema={SCHEMA}", worker="off") as memory,
            pytest.raises(StorageUnavailable, match=r"or none.*BYPASSRLS"),
        ):
            memory.erase_owner("bob")


def test_only_the_owner_mends_the_tables(server):
    """A user who may not VACUUM is told so by `mend`, as by an erasure; the tables' owner may."""
    with (
        novelo.open(f"{server.address('app')}?schema={SCHEMA}", worker="off") as memory,
        pytest.raises(StorageUnavailable, match="may not VACUUM"),
    ):
        memory.mend("vacuum")
    with novelo.open(f"{server.address()}?schema={SCHEMA}", worker="off") as memory:
        assert memory.mend("vacuum") > 10


def test_what_cannot_be_run_says_what_to_do(server):
    """No such role, no Citus, a table with rows: each is told with what helps."""
    url = f"{server.address()}?schema={SCHEMA}"
    with pytest.raises(InvalidSpec, match=r"no such role.*CREATE ROLE"):
        administering.run(url, administering.grants(SCHEMA, "nobody_of_this_name"))
    with pytest.raises(InvalidSpec, match=r"no Citus.*novelo partition"):
        administering.run(url, administering.distribution(SCHEMA), spread=True)
    with pytest.raises(InvalidSpec, match=r"threads has rows.*before the first thread"):
        administering.run(url, administering.partitions(SCHEMA, 4))


def test_who_has_no_policies_sees_all_and_two_programs_have_one_each(server):
    """A worker, whose rights were given before or after, works for all owners; a second program narrows no first."""
    url = f"{server.address()}?schema={SCHEMA}"
    with psycopg.connect(server.address(), autocommit=True) as connection:
        for role in ("worker", "app2"):
            connection.execute(f"CREATE ROLE {role} LOGIN")
    administering.run(url, administering.grants(SCHEMA, "worker"))
    administering.run(url, [*administering.grants(SCHEMA, "app2"), *administering.row_security(SCHEMA, "app2")])
    with novelo.open(f"{server.address('worker')}?schema={SCHEMA}", worker="off") as memory:
        assert {row.owner for row in memory.threads()} == {"ana", "bob"}
        assert memory.purge(dry_run=True, retention="idle:0s").threads == len(memory.threads())
        assert memory.doctor().looked_at == len(memory.threads())
        memory.thread("w", "carl").append("x")
        assert memory.thread("w", "carl").erase().rows["entries"] == 1
    for role in ("app", "app2"):
        with novelo.open(f"{server.address(role)}?schema={SCHEMA}", owner="ana", worker="off") as memory:
            assert {row.owner for row in memory.threads()} == {"ana"} and memory.thread("t0").messages()
        with (
            novelo.open(f"{server.address(role)}?schema={SCHEMA}", worker="off") as memory,
            pytest.raises(StorageUnavailable, match="one owner alone"),
        ):
            memory.doctor()
