"""One owner's memory reaches that owner's rows alone, in every store, by every call; ids do no harm."""

from __future__ import annotations

import inspect

import pytest

import novelo
from novelo.access import OwnersMemory
from novelo.errors import AccessDenied, NoveloError
from novelo.stores.base import Lease, Store, ThreadRow, Work
from novelo.stores.documents import DocumentStore, NewSource, Source
from novelo.stores.owned import NAMED, OF_COLLECTION, OF_THREAD, PLAIN, OwnedDocuments, OwnedStore

ALONE = "zebrafish"  # said by bob alone


@pytest.fixture
def filled(memory):
    """Threads of two owners under the same ids, and one of nobody's."""
    for owner, word in (("ana", "nightingale"), ("bob", ALONE), ("", "nobody")):
        for k in range(3):
            with memory.thread(f"t{k}", owner).turn(f"question {word} {k}") as turn:
                turn.reply(f"answer {word} {k}")
        memory.thread("t0", owner).fork(2, "f0")
        memory.thread("t1", owner).title = f"title {word}"
        key = memory.store.documents.key_of(owner, "docs")
        source = NewSource(Source(f"{word}.md", f"{word}.md", b"h" * 16, word, 0, 0, 0), [])
        memory.store.documents.put(key, (owner, "docs"), [source], 1.0)
        memory.store.ask(memory.thread("t2", owner).key, Work("compact", 1.0, "x"), 1.0)
    return memory


def said(value):
    """Whatever a call gave, as a text to look into."""
    if isinstance(value, (list, tuple, set)):
        return " ".join(said(one) for one in value)
    if isinstance(value, dict):
        return said(list(value.items()))
    return f"{value!r} {getattr(value, 'text', '')} {getattr(value, 'owner', '')}"


def test_lists_searches_and_sums_are_the_owners(filled):
    """What goes over many threads gives the owner's, with or without the owner named."""
    ana = filled.for_owner("ana")
    assert isinstance(ana, OwnersMemory)
    for owner in (None, "ana"):
        assert {row.thread_id for row in ana.threads(owner)} == {"t0", "t1", "t2", "f0"}
        assert {row.owner for row in ana.threads(owner, search="title")} == {"ana"}
        assert ana.search(ALONE, owner=owner) == [] and len(ana.search("answer", owner=owner)) == 3
        assert {row.owner for row in ana.usage(owner)} == {"ana"}
        assert [row.owner for row in ana.collections(owner)] == ["ana"]
    assert {job.owner for job in ana.jobs()} == {"ana"}
    assert ana.thread("t1").title == "title nightingale"
    assert [e.text for e in ana.thread("f0").messages()] == ["question nightingale 0", "answer nightingale 0"]
    assert ana.documents("docs").list()[0].title == "nightingale"


def test_another_owner_is_refused(filled):
    """Every call that names another owner, or none in particular where all are meant, is a typed error."""
    ana = filled.for_owner("ana")
    for call in (
        lambda: ana.thread("t0", "bob"),
        lambda: ana.thread("t0", ""),
        lambda: ana.threads("bob"),
        lambda: ana.search("answer", owner="bob"),
        lambda: ana.search("answer", thread=filled.thread("t0", "bob")),
        lambda: ana.usage("bob"),
        lambda: ana.collections("bob"),
        lambda: ana.documents("docs", "bob"),
        lambda: ana.erase_owner("bob"),
        lambda: ana.for_owner("bob"),
        lambda: ana.work(),
        lambda: ana.store.claim(Lease("x", 30.0, 1e9)),
        lambda: ana.store.next_due(),
        lambda: ana.store.database,
    ):
        with pytest.raises((AccessDenied, AttributeError)) as caught:
            call()
        assert "bob" not in str(caught.value)
    assert len(filled.thread("t0", "bob").messages()) == 2


def methods(kind):
    """The names of a protocol's methods."""
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_every_method_is_known_or_refused():
    """What a store can do is checked by its key, checked by its own code, or refused: nothing passes by accident."""
    own = {name for name in vars(OwnedStore) if not name.startswith("_")} | {"key_of", "same"}
    left = methods(Store) - OF_THREAD - set(NAMED) - own - PLAIN
    refused = {"next_due", "standing", "weights", "erase_due", "once_in", "audit_check"}  # of all owners
    assert left <= refused | {"hold", "release"}  # holds may be against the owner
    own = {name for name in vars(OwnedDocuments) if not name.startswith("_")} | {"key_of", "same"}
    assert methods(DocumentStore) - OF_COLLECTION - set(NAMED) - own == set()


def test_a_stolen_key_opens_nothing(filled):
    """A key, a row or a job of another owner's, however it was come by, is refused by each method that takes one."""
    store = filled.for_owner("ana").store
    row = filled.thread("t2", "bob").row
    job = next(job for job in filled.jobs() if job.owner == "bob")
    for name in sorted(OF_THREAD | {"fork"} | set(NAMED)):
        method = getattr(store, name, None)
        if method is None or name == "put":
            continue
        for stolen in (row.key, row, job, b"x" * 16, None, "t2"):
            with pytest.raises(AccessDenied):
                method(stolen, row.key, ("ana", "t2"), 1, 1.0)
    mine = store.key_of("ana", "t2")
    with pytest.raises(AccessDenied):
        store.set_facts(mine, ("bob", "t2"), 1.0, title="x")
    with pytest.raises(AccessDenied):
        store.set_facts(mine, ("ana", "t1"), 1.0, title="x")
    key = filled.store.documents.key_of("bob", "docs")
    for name in sorted(OF_COLLECTION):
        with pytest.raises(AccessDenied):
            getattr(store.documents, name)(key, 1, 2)
    assert filled.thread("t2", "bob").row == row


def test_no_call_of_the_store_reaches_another_owner(filled):
    """Every reading method, called for each of one owner's threads, gives nothing that another one said."""
    store = filled.store
    for thread in (filled.thread(name, "ana") for name in ("t0", "t1", "t2", "f0")):
        row = thread.row
        found = [
            store.state(row.key), store.turns(row.key), store.pins(row.key), store.summaries(row.key),
            store.tail(row, row.head, 100, hidden=True), store.range(row, 0, 100, hidden=True),
            store.entries(row, range(row.head)), store.find(row, ["t0", ALONE]),
            store.holding(row, ALONE, bool, 100, 9),
            store.vectors(row, "m", 100), store.calls(row.key), store.calls(None, "ana"), store.jobs(row.key),
            store.search([ALONE], row.key, None, 100), store.search([ALONE], None, "ana", 100),
            store.threads(owner="ana", search=None, tag=None, limit=100, cursor=None),
            store.documents.collections("ana"),
        ]  # fmt: skip
        assert ALONE not in said(found) and "bob" not in said(found)
    assert ALONE in said(store.range(filled.thread("t0", "bob").row, 0, 100))


def test_erasing_an_owner_leaves_the_others(filled):
    """`erase_owner` of a restricted memory takes that owner's threads, and those alone."""
    others = len(filled.threads()) - 4
    assert len(filled.for_owner("ana").erase_owner("ana")) >= 4
    assert len(filled.threads()) == others and filled.threads("ana") == []
    assert len(filled.thread("t0", "bob").messages()) == 2


def test_turns_and_worker_of_a_restricted_memory(url):
    """A turn, its heartbeat and its summary's job work as in the whole memory; closing it leaves that one open."""
    with novelo.open(url, worker="off") as whole:
        with whole.for_owner("ana") as ana, ana.thread("t").turn("hello", key="k") as turn:
            turn.messages()
            ana.beat()
            turn.reply("hi")
        with whole.for_owner("ana").thread("t").turn("hello", key="k") as again:
            assert again.replayed and again.stored_reply == "hi"
        assert whole.thread("t", "ana").messages()[-1].text == "hi"


def test_opened_for_one_owner(tmp_path):
    """`novelo.open(url, owner=...)` gives that owner's memory, and closes the connections with it."""
    url = f"sqlite:///{tmp_path}/chat.db"
    with novelo.open(url, owner="ana") as ana:
        ana.thread("t").append("hello")
        with pytest.raises(AccessDenied):
            ana.thread("t", "bob")
    with novelo.open(url) as whole:
        assert [row.owner for row in whole.threads()] == ["ana"]
    with pytest.raises(NoveloError):
        ana.thread("t").messages()


async def _awaited(url):
    async with novelo.open_async(url) as memory:
        mine = memory.for_owner("ana")
        async with mine.thread("t").turn("hello") as turn:
            await turn.reply("hi")
        with pytest.raises(AccessDenied):
            mine.thread("t", "bob")
        return await mine.threads()


def test_awaited(tmp_path):
    """The awaited memory is restricted in the same way."""
    import anyio

    assert [row.owner for row in anyio.run(_awaited, f"sqlite:///{tmp_path}/chat.db")] == ["ana"]


PATHS = [
    "../../etc/passwd",
    "..",
    ".",
    "/abs/olute",
    "C:\\x",
    "a/b",
    "a\0b",
    "nul",
    "~root",
    "$(id)",
    "x" * 300,
    "%2e%2e%2f",
]


def test_path_like_ids(memory, tmp_path, monkeypatch):
    """An id that looks like a path is a name like any other: it is stored, found, exported, and never opened as one."""
    monkeypatch.chdir(tmp_path)
    before = {path.name for path in tmp_path.rglob("*")}
    for name in PATHS:
        memory.thread(name, name).append("hello")
        assert memory.thread(name, name).messages()[0].text == "hello"
        assert memory.thread(name, name).fork(1).owner == name
    assert {row.thread_id for row in memory.threads() if row.parent is None} == set(PATHS)
    assert {path.name for path in tmp_path.rglob("*")} - before <= {"chat.db", "chat.db-wal", "chat.db-shm"}


def test_ids_that_we_make_cannot_be_guessed(memory):
    """96 bits of the system's randomness, never twice."""
    made = {memory.new_id() for _ in range(2000)}
    assert len(made) == 2000 and min(len(name) for name in made) >= 16
    assert isinstance(memory.thread("x").row, ThreadRow | None)
