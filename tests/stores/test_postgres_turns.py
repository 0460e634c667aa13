"""A turn on PostgreSQL: how often it waits for the server, and that nothing is open while a model thinks."""

from __future__ import annotations

import select
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

import pytest

import fix_postgres
import novelo

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")

STATEMENTS, WAITS = 13, 9  # of a plain turn, in two transactions that write and one that reads


class Wire:
    """What stands between a client and its server, and counts how often the client waited for an answer."""

    def __init__(self, host, port):
        self.waits, self._asked = 0, False
        self._to = (host, port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client = self._door.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        with client, socket.create_connection(self._to) as server:
            while True:
                for one in select.select([client, server], [], [])[0]:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    if one is server:
                        self.waits += self._asked
                    self._asked = one is client
                    (server if one is client else client).sendall(data)

    def close(self):
        """Take no more clients."""
        self._door.close()


@pytest.fixture
def wire(postgres_url):
    """A wire to the server, and the address of an empty store behind it."""
    if fix_postgres.NAMED or fix_postgres.SHARDS:
        pytest.skip("the tests' own server is needed")
    parts = urlsplit(postgres_url)
    made = Wire(parts.hostname, parts.port)
    yield made, urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{made.port}"))
    made.close()


def test_how_often_a_plain_turn_waits(wire, monkeypatch):
    """Nine times for thirteen statements in three short transactions; a thread's first turn a little more."""
    between, url = wire
    sent = []
    execute = psycopg.RawCursor.execute
    monkeypatch.setattr(
        psycopg.RawCursor, "execute", lambda self, text, *a, **k: sent.append(text) or execute(self, text, *a, **k)
    )
    counts = []
    with novelo.open(url) as memory:
        for k in range(6):
            sent.clear()
            between.waits = 0
            with memory.thread("t").turn(f"question {k}") as turn:
                turn.messages()
                turn.reply(f"answer {k}")
            own = [text for text in sent if not text.startswith(("BEGIN", "COMMIT"))]
            counts.append((len(own), between.waits))
            assert sum(text == "COMMIT" for text in sent) == 3
    assert max(statements for statements, _ in counts[1:]) <= STATEMENTS, counts
    assert max(waits for _, waits in counts[1:]) <= WAITS, counts
    assert counts[0][1] <= WAITS + 2


def test_more_entries_do_not_wait_longer(wire):
    """A step of twenty tool results is written in as many round trips as one of two."""
    between, url = wire
    waits = []
    with novelo.open(url) as memory:
        for size in (2, 20):
            with memory.thread(f"t{size}").turn("go", key="once") as turn:
                calls = [
                    {"id": f"c{k}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                    for k in range(size)
                ]
                turn.add({"role": "assistant", "content": None, "tool_calls": calls})
                for k in range(size):
                    turn.add_tool_result(f"c{k}", "done")
                turn.reply("fine")
            other = memory.thread(f"o{size}")
            other.append({"role": "assistant", "content": "hello"})
            between.waits = 0
            other.append([{"role": "user", "content": f"line {k}"} for k in range(size)])
            waits.append(between.waits)
    assert waits[0] == waits[1]


def test_nothing_is_open_while_a_model_streams(postgres_url):
    """Between two pieces of an answer no transaction of ours is open, and none was for longer than a moment."""
    named = f"{postgres_url}&application_name=streams"
    states = []
    parts = urlsplit(postgres_url)
    with (
        psycopg.connect(urlunsplit(parts._replace(query="")), autocommit=True) as look,
        novelo.open(named) as memory,
    ):

        def answer():
            for k in range(5):
                states.extend(
                    look.execute(
                        "SELECT state, xact_start IS NOT NULL, backend_xmin IS NOT NULL FROM pg_stat_activity"
                        " WHERE application_name = 'streams'"
                    ).fetchall()
                )
                yield f"piece {k} "

        for n in range(2):
            with memory.thread("t").turn(f"question {n}") as turn:
                turn.messages()
                assert len(list(turn.stream(answer()))) == 5
        assert memory.thread("t").messages()[-1].text.startswith("piece 0")
    assert states and set(states) == {("idle", False, False)}


def test_no_more_rows_than_somebody_looks_at(postgres_url, monkeypatch):
    """One of many due jobs, or a state a few checkpoints back, is found without reading all of them."""
    from novelo.stores.base import Lease, Work
    from novelo.stores.postgres.session import FIRST_PAGE, Session

    read = []
    one = Session.one

    def counted(self, name, args):
        rows = list(one(self, name, args))
        read.append((name, len(rows)))
        return iter(rows)

    with novelo.open(postgres_url, worker="off") as memory:
        for k in range(60):
            memory.thread(f"t{k}").append("x")
            memory.store.ask(memory.thread(f"t{k}").key, Work("compact", float(k), "x"), 1.0)
        monkeypatch.setattr(Session, "one", counted)
        lease = Lease("me", 30.0, 1e9)
        assert [job.thread_id for job in memory.store.claim(lease, 2)] == ["t0", "t1"]
        assert [n for name, n in read if name == "due_work"] == [FIRST_PAGE]
        read.clear()
        assert len(memory.store.claim(lease, 100)) == 58  # held ones are passed over, page by page, and none is missed
        assert sum(n for name, n in read if name == "due_work") == 60
        read.clear()
        assert memory.store.claim(lease, 1, key=memory.thread("t9").key) == []
        assert [(name, n) for name, n in read if name.endswith("work_of")] == [("work_of", 1)]


def test_checkpoints_are_read_in_pages(postgres_url):
    """A filter over many checkpoints gives each match once, in order, whatever the pages' borders; a limit ends it."""
    from langgraph.checkpoint.base import empty_checkpoint

    from novelo.integrations.langgraph.saver import NoveloSaver

    with novelo.open(postgres_url, worker="off") as memory:
        saver = NoveloSaver(memory)
        config = {"configurable": {"thread_id": "g", "checkpoint_ns": ""}}
        for k in range(70):
            place = {"configurable": {"thread_id": "g", "checkpoint_ns": "" if k % 3 else "inner"}}
            saver.put(
                place, {**empty_checkpoint(), "id": f"{k:04d}"}, {"source": "loop", "step": k, "even": k % 2 == 0}, {}
            )

        def steps(given, **more):
            return [found.metadata["step"] for found in saver.list(given, **more)]

        whole = {"configurable": {"thread_id": "g"}}
        every = list(range(69, -1, -1))
        assert steps(whole) == steps({"configurable": {}}) == every
        assert steps(config) == [k for k in every if k % 3]
        assert steps(whole, filter={"even": True}) == [k for k in every if k % 2 == 0]
        assert steps(config, filter={"even": True}, limit=20) == [k for k in every if k % 3 and k % 2 == 0][:20]
        assert steps(whole, limit=17) == every[:17]
        before = {"configurable": {"thread_id": "g", "checkpoint_id": "0033"}}
        assert steps(whole, before=before) == every[37:]
