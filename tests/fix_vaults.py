"""Encrypted memories on both engines with every kind of content, and their rows as they are seen without a key."""

from __future__ import annotations

import apsw
import numpy as np
import pytest

import novelo
from novelo.stores.base import NewEntry, Work
from novelo.stores.sqlite.session import PLACES
from novelo.usage import Call

KEY = b"the first key of 32 bytes, right"
CANARY = "CANARIO"


class Letters:
    """An embedder that knows letters."""

    name, size = "letters", 8

    def passages(self, texts):
        """Any vector will do."""
        made = np.array([[len(text) % (n + 3) + 1 for n in range(8)] for text in texts], np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    queries = passages


class Place:
    """Where an encrypted memory lies, and what somebody sees there who has no key."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        self.vault = f"sqlite:///{folder}/vault.db"
        self.file = folder / "chat.db" if url.startswith("sqlite") else None

    def open(self, key=KEY, **more):
        """The memory, opened with a key."""
        return novelo.open(self.url, vault=self.vault, key=key, worker="off", **more)

    def ask(self, text, *values):
        """A statement beside the program; tables without a schema."""
        if self.file is not None:
            connection = apsw.Connection(str(self.file))
            try:
                return list(connection.execute(text, values))
            finally:
                connection.close()
        import psycopg

        from novelo.stores.postgres.database import Settings
        from novelo.stores.postgres.texts import in_schema

        settings = Settings(self.url)
        with psycopg.connect(**settings.options, autocommit=True) as connection:
            cursor = connection.execute(in_schema(text.replace("?", "%s"), settings.schema), values)
            return cursor.fetchall() if cursor.description else []

    def rows(self, table, column):
        """Thread, place and value of every row that has something in a column."""
        places = [name.strip() for name in PLACES.get(table, "").split(",") if name.strip()]
        names = ", ".join(["thread", *places, column])
        found = self.ask(f"SELECT {names} FROM {table} WHERE {column} IS NOT NULL ORDER BY {names.rsplit(',', 1)[0]}")
        return [(dict(zip(["thread", *places], row, strict=False)), row[-1]) for row in found if row[-1]]

    def put(self, table, column, where, value):
        """Another value into one row."""
        names = " AND ".join(f"{name} = ?" for name in where)
        self.ask(f"UPDATE {table} SET {column} = ? WHERE {names}", value, *where.values())

    def bytes(self):
        """All that is stored: files, and tables of a server."""
        files = b"\0".join(path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file())
        if self.file is not None:
            return files
        from novelo.stores.postgres.texts import TABLES

        out = [files]
        for table in TABLES:
            for row in self.ask(f"SELECT * FROM {table}"):
                out += [bytes(v) if isinstance(v, (bytes, memoryview)) else str(v).encode() for v in row]
        return b"\0".join(out)


def fill(memory, name):
    """A thread with something in every column that is encrypted."""
    thread = memory.thread(f"{CANARY}-{name}", owner=f"{CANARY}@{name}")
    for n in range(3):
        with thread.turn(f"{CANARY} pergunta {n} sobre a nota fiscal", key=f"{CANARY}-key-{n}") as turn:
            turn.messages()
            turn.state["said"] = f"{CANARY} {n}"
            turn.reply({"role": "assistant", "content": f"{CANARY} resposta {n}", "id": f"{CANARY}-id-{n}"})
    thread.title, thread.tags = f"{CANARY} title", (CANARY,)
    thread.metadata = {"about": CANARY}
    thread.compact(focus=CANARY)
    store, now = memory.store, 1e9
    for kind in ("a", "b"):
        store.ask(thread.key, Work(kind, now, f"summarize:{CANARY}"), now)
    return thread


def finish(memory, thread):
    """What another one leaves open: a job that failed, a turn that streams, a call's raw usage."""
    from novelo.messages import Message
    from novelo.stores.base import Lease

    store = memory.store
    for job in store.claim(Lease("me", 30.0, 2e9), 9, key=thread.key):
        store.put_off(job, 3e9, f"{CANARY}Error")
    store.note_calls(thread.key, [Call("reply", "m", 1, 2, raw={"said": f"{CANARY} {n}"}) for n in range(2)], 2e9)
    for text in (f"{CANARY} offen", f"{CANARY} noch offen"):
        names = (thread.owner, thread.thread_id)
        made = NewEntry(Message("user", text), 3)
        begun = store.begin(thread.key, names, made, Lease("me", 30.0, 2e9), idempotency=None, mode="interrupt")
        draft = NewEntry(Message("assistant", f"{CANARY} draft"), 3)
        store.keep_draft(thread.key, begun.turn.epoch, begun.turn.first, draft, 2e9)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where an encrypted memory will lie, on each engine."""
    url = f"sqlite:///{tmp_path}/chat.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    return Place(url, tmp_path)


def summarizer(request):
    """A summary that repeats what it should not."""
    return f"{CANARY}: o cliente pergunta pela nota fiscal."


@pytest.fixture
def filled(place):
    """Two threads with everything that can be in one, a graph's states included; the memory is open."""
    pytest.importorskip("langgraph")
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage

    from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver
    from scripted_chat import chat

    policy = "summarize:4messages,keep=1 + budget:8000"
    with place.open(summarizer=summarizer, embedder=Letters(), policy=policy) as memory:
        threads = [fill(memory, name) for name in ("a", "b")]
        saver = NoveloSaver(memory)
        agent = create_agent(chat(), middleware=[MemoryMiddleware(policy, memory=saver)], checkpointer=saver)
        for thread in threads:
            where = {"configurable": {"thread_id": thread.thread_id, "owner": thread.owner, "about": CANARY}}
            for n in range(3):
                said = [HumanMessage(f"{CANARY} im Graphen {n} " + "x" * 2000, id=f"{CANARY}-h{n}")]
                agent.invoke({"messages": said}, {**where, "metadata": {"meta": CANARY}})
            newest = saver.get_tuple(where).config
            for task in ("one", "other"):
                saver.put_writes(newest, [("__error__", f"{CANARY} falhou: {task}")], task)
        memory.work()
        for thread in threads:
            finish(memory, thread)
        yield memory, threads
