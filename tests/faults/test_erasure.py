"""T24: after a receipt says done, no byte of what was erased is anywhere, whatever repeated it; nor in a restored copy.

A hundred threads hold a canary each, in every place that a conversation reaches: messages, search index, vectors,
summaries and facts, manifests, drafts, jobs, titles, state, and the states of graphs, with versions of messages that
the transcript does not say. They are erased as threads, by owner, message by message, and by a pattern.
"""

from __future__ import annotations

import re
import shutil

import msgspec
import pytest

pytest.importorskip("langgraph")
pytest.importorskip("numpy")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

import novelo
from fix_vaults import Letters
from novelo.integrations.langgraph import NoveloSaver
from novelo.messages import Message
from novelo.stores.base import Close, Lease, NewEntry, Work

THREADS = 100
WAYS = ("thread", "owner", "messages", "pattern")
STEM = "canaryqz"
FOUND = re.compile(STEM[1:].encode() + rb"\d+x")  # an index may keep a word's first letter with another one's


class State(MessagesState):
    """Messages, and a note beside them."""

    note: str


def canary(n):
    """The word of a thread."""
    return f"{STEM}{n}x"


def way(n):
    """How a thread is erased."""
    return WAYS[n % 4]


def owner(n):
    """Ten threads an owner; an owner who goes is named by the canary."""
    return canary(n) if way(n) == "owner" else f"owner {n // 10}"


def name(n):
    """Its id; that of a thread that goes as a whole says the canary too."""
    return f"t {canary(n)}" if way(n) in ("thread", "owner") else f"t{n}"


def summarizer(request):
    """Repeats what it reads, as summaries do."""
    said = str(request.messages[-1]["content"])
    found = re.findall(rf"{STEM}\d+x", said)
    return f"The customer gave the code {found[0] if found else 'none'} and asks for the invoice again."


def opened(url, **more):
    """A memory with everything on; jobs are done when we say so."""
    return novelo.open(
        url, worker="off", summarizer=summarizer, embedder=Letters(), policy="summarize:5messages,keep=2", **more
    )


def graph(saver):
    """A graph that says a message anew, twice: only the version in between says the canary; and notes it beside."""

    def first(state):
        return {"messages": [AIMessage("plain", id="echo")], "note": state["messages"][-1].text}

    def second(state):
        return {"messages": [AIMessage(f"in between {state['messages'][0].text}", id="echo")]}

    def third(state):
        return {"messages": [AIMessage("plain again", id="echo")], "note": "nothing"}

    builder = StateGraph(State)
    steps = {"first": first, "second": second, "third": third}
    for node, function in steps.items():
        builder.add_node(node, function)
    for a, b in (("first", "second"), ("second", "third"), ("third", END)):
        builder.add_edge(a, b)
    builder.add_edge(START, "first")
    return builder.compile(checkpointer=saver)


def fill(memory, saver, n):
    """A thread with its canary everywhere; what only a pattern reaches is there for those that a pattern erases."""
    word, talk = canary(n), memory.thread(name(n), owner=owner(n))
    everywhere = way(n) != "messages"
    for k in range(3):
        with talk.turn(f"my code is {word}, question {k}", key=f"k{k}") as turn:
            turn.messages(passages=[{"text": f"a passage on {word}", "source": "faq"}], standalone=f"the code {word}?")
            turn.reply({"role": "assistant", "content": f"noted {word} {k}", "id": f"m{k}"})
    store = memory.store
    if everywhere:
        talk.title, talk.tags, talk.metadata = f"On {word}", (word, "all"), {"code": word}
        talk.state["code"] = word
    at = {"configurable": {"thread_id": talk.thread_id, "owner": talk.owner}}
    if n % 3 == 0:
        graph(saver).invoke({"messages": [HumanMessage(f"graph {word}", id=f"h{n}")]}, at)
    memory.work()
    store.ask(
        talk.key, Work("compact", 1e11, f'{{"policy": "{word if everywhere and way(n) != "pattern" else ""}"}}'), 1.0
    )
    if n % 2 == 0:  # a turn that streams when its process dies
        lease = Lease("gone", 1.0, 1.0)
        asked = NewEntry(Message("user", f"and {word}?"), 3)
        begun = store.begin(talk.key, (talk.owner, talk.thread_id), asked, lease, idempotency=None, mode="interrupt")
        said = NewEntry(Message("assistant", f"streaming {word}"), 3)
        if everywhere:
            store.keep_draft(talk.key, begun.turn.epoch, begun.turn.first, said, 1.0)
        else:
            manifest = msgspec.json.encode({"policy": "buffer", "question": word})
            store.append(talk.key, begun.turn.epoch, begun.turn.first, [said], 1.0, close=Close("failed", manifest))
    return talk


def erase(memory, n, **how):
    """Erase a thread in its way; the receipt."""
    talk = memory.thread(name(n), owner=owner(n))
    if way(n) == "thread":
        return talk.erase(**how)
    if way(n) == "owner":
        return memory.erase_owner(owner(n), **how)
    if way(n) == "messages":
        said = [entry.position for entry in talk.messages() if canary(n) in entry.text]
        return talk.delete(said, **how).receipt
    return talk.redact(canary(n), **how).receipt


def filled(url, threads=THREADS):
    """All threads, in a memory that is open, with a saver that has all in its caches."""
    memory = opened(url)
    saver = NoveloSaver(memory)
    talks = [fill(memory, saver, n) for n in range(threads)]
    return memory, saver, talks


def traces(folder):
    """Canaries in the files of a folder, by file."""
    found = {path.name: set(FOUND.findall(path.read_bytes())) for path in folder.rglob("*") if path.is_file()}
    return {file: words for file, words in found.items() if words}


def in_tables(url):
    """Canaries in rows of a server, by table."""
    import psycopg

    from novelo.stores.postgres.database import Settings
    from novelo.stores.postgres.texts import TABLES, in_schema

    settings, out = Settings(url), {}
    with psycopg.connect(**settings.options) as connection:
        for table in TABLES:
            for row in connection.execute(in_schema(f"SELECT * FROM {table}", settings.schema)):
                said = b"\0".join(bytes(v) if isinstance(v, (bytes, memoryview)) else str(v).encode() for v in row)
                if FOUND.search(said):
                    out[table] = out.get(table, 0) + 1
    return out


def in_states(memory):
    """Canaries in what graphs keep, which is packed in its rows."""
    from novelo.stores.tables.checkpoint_rows import read_checkpoint

    found = set()
    with memory.store.database.reading() as db:
        for row in memory.threads(limit=1000):
            for one in db.run("all_of_thread", (row.key,)):
                at = read_checkpoint(row.key, one)
                said = msgspec.json.encode([at.metadata, at.skeleton.hex(), repr(at.values), repr(at.before)])
                found |= set(FOUND.findall(said))
    return found


def alive(memory, talks):
    """What was not erased goes on: threads can be read, composed, searched, and their graphs run."""
    saver = NoveloSaver(memory)
    for n, talk in enumerate(talks):
        if way(n) in ("thread", "owner"):
            assert talk.row is None
            continue
        assert len(talk) >= 6 and talk.context("and now?").messages()
        assert memory.search(canary(n)) == []
        if n % 3 == 0:
            at = {"configurable": {"thread_id": talk.thread_id, "owner": talk.owner}}
            states = list(graph(saver).get_state_history(at))
            assert canary(n) not in str(states)
            out = graph(saver).invoke({"messages": [HumanMessage("go on", id="next")]}, at)
            assert "plain again" in str(out["messages"])
    assert memory.audit_check()[1] == [] and in_states(memory) == set()


@pytest.mark.timeout(300)
def test_no_canary_in_any_file(tmp_path):
    """T24, SQLite: a hundred threads, four ways of erasing; with the last receipt no file holds a canary, nor later."""
    folder = tmp_path / "data"
    memory, saver, talks = filled(f"sqlite:///{folder}/chat.db")
    with memory:
        assert len(set.union(*traces(folder).values())) == THREADS
        receipts = [erase(memory, n) for n in range(THREADS)]
        assert not any(receipt.pending for receipt in receipts)
        assert all(receipt.rows for receipt in receipts)
        assert traces(folder) == {}
        alive(memory, talks)
        assert traces(folder) == {}
        assert STEM not in str(memory.audit(10_000))
        saver.close()
    assert traces(folder) == {}
    with opened(f"sqlite:///{folder}/chat.db") as again:
        assert again.store.database.vacuum(False) and traces(folder) == {}


def test_what_runs_in_another_process_brings_nothing_back(tmp_path):
    """A saver whose caches know the text goes on after another memory has masked it: it stays masked, in every file."""
    folder = tmp_path / "data"
    memory, saver, talks = filled(f"sqlite:///{folder}/chat.db", 16)
    with memory, opened(f"sqlite:///{folder}/chat.db") as other:
        for n in range(16):
            erase(other, n)
        assert traces(folder) == {}
        for n in (3, 6, 15):  # the others are gone, and their ids say the word
            at = {"configurable": {"thread_id": talks[n].thread_id, "owner": talks[n].owner}}
            graph(saver).invoke({"messages": [HumanMessage("go on", id="next")]}, at)
        assert traces(folder) == {}


@pytest.mark.timeout(300)
def test_no_canary_in_any_row(postgres_url):
    """T24, PostgreSQL: the receipt says that dead rows wait for VACUUM; no row that is read holds a canary."""
    memory, _, talks = filled(postgres_url, 40)
    with memory:
        assert len(in_tables(postgres_url)) >= 7 and in_states(memory)
        receipts = [erase(memory, n, vacuum=n == 39) for n in range(40)]
        assert receipts[0].pending and "VACUUM" in receipts[0].waits[0] and not receipts[-1].pending
        assert in_tables(postgres_url) == {}
        alive(memory, talks)
        assert in_tables(postgres_url) == {}


@pytest.mark.timeout(300)
def test_no_canary_in_the_servers_tables_files():
    """With a full VACUUM the files of the tables are clean as well; the write-ahead log is named in the receipt."""
    import psycopg

    import fix_postgres

    server = fix_postgres.started()
    try:
        memory, _, _ = filled(server.address() + "?schema=novelo", 12)
        with memory:
            receipts = [erase(memory, n, vacuum="full" if n == 11 else False) for n in range(12)]
        assert not receipts[-1].pending and any("write-ahead log" in text for text in receipts[-1].beyond)
        with psycopg.connect(server.address(), autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        assert traces(server.folder / "data" / "base") == {}
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("key", [None, "file"], ids=["plain", "encrypted"])
def test_a_restored_backup_says_nothing(tmp_path, key):
    """T24: a backup from before the erasures, opened with the vault as it is now: no canary in any answer or file."""
    folder, keys = tmp_path / "data", tmp_path / "key"
    keys.write_bytes(b"the first key of 32 bytes, right")
    vault = {"vault": f"sqlite:///{tmp_path}/vault/vault.db"}
    if key is not None:
        vault["key"] = keys.read_bytes()
    url = f"sqlite:///{folder}/chat.db"
    with opened(url, **vault) as memory:
        saver = NoveloSaver(memory)
        talks = [fill(memory, saver, n) for n in range(20)]
    shutil.copytree(folder, tmp_path / "backup")
    with opened(url, **vault) as memory:
        for n in range(20):
            erase(memory, n)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    with opened(url, **vault) as memory:
        saver = NoveloSaver(memory)
        for n, talk in enumerate(talks):
            mine = memory.thread(talk.thread_id, owner=talk.owner)
            assert way(n) in ("messages", "pattern") or mine.row is None
            assert canary(n) not in str([entry.text for entry in mine.messages()])
            assert canary(n) not in str(msgspec.to_builtins(mine.compactions()))
            at = {"configurable": {"thread_id": talk.thread_id, "owner": talk.owner}}
            assert canary(n) not in str(list(graph(saver).get_state_history(at)))
            assert canary(n) not in str((mine.title, mine.tags, mine.metadata, dict(mine.state)))
            assert memory.search(canary(n)) == []
        assert traces(folder) == {} == traces(tmp_path / "vault")
    assert traces(folder) == {}
