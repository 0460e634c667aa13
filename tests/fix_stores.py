"""Every kind of store, empty, and a thread handle's worth of shortcuts for each."""

from __future__ import annotations

import base64

import pytest

import novelo
from novelo.messages import Message, ToolCall
from novelo.stores.base import Begun, Close, Lease, NewEntry
from novelo.stores.search import fold

URLS = {
    "reference": "memory://",
    "sqlite-memory": "sqlite://",
    "sqlite-file": "sqlite:///{}/chat.db",
    "postgres": "postgresql:",
    "encrypted": "sqlite:///{}/chat.db",
    "encrypted-postgres": "postgresql:",
}


@pytest.fixture(params=list(URLS))
def url(request, tmp_path):
    """The address of an empty store, one for each kind."""
    return address(request, tmp_path)


def address(request, tmp_path):
    """The address of an empty store of the kind that a parameter names."""
    kind = request.param
    named = request.getfixturevalue("postgres_url") if "postgres" in kind else URLS[kind].format(tmp_path)
    if kind.startswith("encrypted"):
        encrypt(named, tmp_path, request.getfixturevalue("monkeypatch"))
    return named


def encrypt(url, tmp_path, monkeypatch):
    """A store that is encrypted from now on, whoever opens it: its vault and key stand in the environment."""
    from novelo.connect import connect

    monkeypatch.setenv("NOVELO_VAULT", f"sqlite:///{tmp_path}/vault.db")
    monkeypatch.setenv("NOVELO_KEY", base64.b64encode(b"a key of thirty-two bytes, sure?").decode())
    connect(url, vault=f"sqlite:///{tmp_path}/vault.db", key="env:NOVELO_KEY").close()


@pytest.fixture
def memory(url):
    """A memory over an empty store of each kind."""
    with novelo.open(url, queue_s=5.0, clear_documents=True) as opened:
        yield opened


@pytest.fixture
def file_memory(tmp_path):
    """A memory over a file."""
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", queue_s=5.0) as opened:
        yield opened


@pytest.fixture
def hand(url):
    """An empty store with a clock that stands still, and one thread to work on."""
    from novelo.connect import connect

    store = connect(url)
    yield Hand(store)
    store.close()


class Hand:
    """A store, a thread's key, and a clock that only the test moves."""

    def __init__(self, store, owner="", thread_id="t"):
        self.store, self.names, self.now = store, (owner, thread_id), 1000.0
        self.key = store.key_of(owner, thread_id)

    def other(self, thread_id, owner=""):
        """The same store and time, another thread."""
        made = Hand(self.store, owner, thread_id)
        made.now = self.now
        return made

    def lease(self, holder="me", ttl_s=30.0, alive=None):
        """A lease as of now."""
        return Lease(holder, ttl_s, self.now, alive)

    def begin(self, text="q", key=None, mode="queue", holder="me", request=b"r", **more):
        """Begin a turn."""
        known = None if key is None else (key, request)
        return self.store.begin(
            self.key, self.names, new(text, "user"), self.lease(holder), idempotency=known, mode=mode, **more
        )

    def append(self, begun, *texts, close="done", role="assistant", **more):
        """Append answers to a turn, and close it."""
        return self.store.append(
            self.key,
            begun.turn.epoch,
            begun.turn.first,
            [new(text, role) for text in texts],
            self.now,
            close=None if close is None else Close(close),
            lease_until=self.now + 30,
            holder="me",
            **more,
        )

    def turn(self, question, answer):
        """A whole turn."""
        begun = self.begin(question)
        assert isinstance(begun, Begun)
        self.append(begun, answer)
        return begun

    def add(self, *messages, **more):
        """Messages outside of turns."""
        made = [new(m, "user") if isinstance(m, str) else m for m in messages]
        return self.store.add(self.key, self.names, made, self.lease(), **more)

    @property
    def row(self):
        """The thread's facts."""
        return self.store.thread(self.key)

    def texts(self, hidden=False):
        """The thread's texts in order; None where one was deleted."""
        row = self.row
        found = [] if row is None else self.store.range(row, 0, 10_000, hidden=hidden)
        return [None if e.deleted else e.text for e in found]

    def fork(self, thread_id, at):
        """A fork of the thread."""
        made = self.other(thread_id, self.names[0])
        self.store.fork(self.row, made.key, made.names, at, self.now)
        return made


def new(text, role="user", tokens=None, calls=(), **more):
    """An entry to be written; its tokens are its characters."""
    message = Message(role, text, tuple(ToolCall(c, "f") for c in calls), **more)
    return NewEntry(message, len(text or "") if tokens is None else tokens, fold(text or ""))
