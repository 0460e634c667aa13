"""What a pattern had masked stays masked in a restored backup, wherever it stood; the vault tells nothing of it.

Each thread says its canary in one place alone, so that no other one's removal takes it along.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager

import msgspec
import pytest

pytest.importorskip("langgraph")

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, MessagesState, StateGraph

import novelo
from fix_vaults import KEY, Place
from novelo.errors import StorageReadOnly, StorageUnavailable, ThreadErased
from novelo.facts import Fact
from novelo.integrations.langgraph import NoveloSaver
from novelo.messages import Message
from novelo.portable import exported
from novelo.stores.base import Close, Lease, NewEntry
from novelo.stores.tables.checkpoint_rows import read_checkpoint, read_written
from novelo.summaries import Summary
from novelo.vault import PATTERN

STEM = "canaryqz"
FOUND = re.compile(STEM[1:].encode() + rb"\d+x")
LEASE = Lease("gone", 1.0, 1.0)


class State(MessagesState):
    """Messages, and a note beside them."""

    note: str


def graph(saver, word):
    """A graph whose message says a word in between, or whose note does; the last state says nothing."""
    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"messages": [AIMessage("plain", id="echo")]})
    builder.add_node("second", lambda state: {"messages": [AIMessage(f"between {word}", id="echo")], "note": "none"})
    builder.add_node("third", lambda state: {"messages": [AIMessage("plain again", id="echo")], "note": word * 20})
    builder.add_node("fourth", lambda state: {"note": "nothing"})
    for a, b in ((START, "first"), ("first", "second"), ("second", "third"), ("third", "fourth"), ("fourth", END)):
        builder.add_edge(a, b)
    return builder.compile(checkpointer=saver)


def turn(store, talk, said="answer", draft=None, **manifest):
    """A turn with a manifest, or one that streams when its process dies."""
    asked = NewEntry(Message("user", "a question"), 3)
    names = (talk.owner, talk.thread_id)
    begun = store.begin(talk.key, names, asked, LEASE, idempotency=None, mode="interrupt").turn
    if draft is not None:
        store.keep_draft(talk.key, begun.epoch, begun.first, NewEntry(Message("assistant", draft), 3), 1.0)
        return
    told = Close("done", msgspec.json.encode({"policy": "buffer", "end": 1, **manifest}))
    store.append(talk.key, begun.epoch, begun.first, [NewEntry(Message("assistant", said), 3)], 1.0, close=told)


def summary(store, talk, **fields):
    """A summary in use that says more than its messages."""
    turn(store, talk)
    turn(store, talk)
    made = Summary(**({"text": "they spoke"} | fields), upto=2, covered=((0, 2),), messages=2)
    assert store.swap_summary(talk.key, store.base_of(talk.row, 2), made, 1.0)


def run(memory, talk, word):
    """A graph's run on the thread."""
    at = {"configurable": {"thread_id": talk.thread_id, "owner": talk.owner}}
    saver = NoveloSaver(memory)
    graph(saver, word).invoke({"messages": [HumanMessage("go", id="h")]}, {**at, "metadata": {"ticket": word}})
    saver.close()


PLACES = {
    "title": lambda memory, talk, word: setattr(talk, "title", f"On {word}!"),
    "tags": lambda memory, talk, word: setattr(talk, "tags", ("all", word)),
    "metadata": lambda memory, talk, word: setattr(talk, "metadata", {word: [1, {"k": f"a {word}"}]}),
    "state": lambda memory, talk, word: talk.state.update({"code": word, "n": 5}),
    "message": lambda memory, talk, word: talk.append([{"role": "user", "content": f"my {word}, please"}]),
    "manifest": lambda memory, talk, word: turn(memory.store, talk, system=f"rules of {word}", question=word),
    "draft": lambda memory, talk, word: turn(memory.store, talk, draft=f"streaming {word}"),
    "summary": lambda memory, talk, word: summary(memory.store, talk, text=f"they spoke of {word}"),
    "facts": lambda memory, talk, word: summary(memory.store, talk, facts=(Fact("code", word, 0),)),
    "graph": run,
}
WORDS = {name: f"{STEM}{n}x" for n, name in enumerate(PLACES)}


def kept(memory, talk):
    """All that is kept of a thread, revealed and unpacked, as one text."""
    store, out = memory.store, []
    row = store.thread(talk.key)
    out += [msgspec.json.encode((row.title, row.tags, row.metadata, store.state(talk.key))).decode()]
    out += [str(msgspec.to_builtins(entry.message)) for entry in talk.messages()]
    out += [str(msgspec.to_builtins(one)) for one in store.summaries(talk.key)]
    with store.database.reading() as db:
        out += [repr(row) for row in db.run("turns_kept", (talk.key,))]
        out += [repr(row[2:4]) for row in db.run("all_values", (talk.key,))]
        for row in list(db.run("all_of_thread", (talk.key,))):
            at = read_checkpoint(talk.key, row)
            out.append(repr((at.metadata, at.skeleton, at.values, at.before)))
        for row in list(db.run("all_written", (talk.key,))):
            out.append(repr(read_written(talk.key, row[0], row[1], row[2:]).items))
    return "\n".join(out)


def answers(memory, talk):
    """What the API says of a thread."""
    at = {"configurable": {"thread_id": talk.thread_id, "owner": talk.owner}}
    states = list(graph(NoveloSaver(memory), "").get_state_history(at))
    return str((
        talk.title, talk.tags, talk.metadata, dict(talk.state), talk.context("and now?").messages(), states,
        [msgspec.to_builtins(one) for one in talk.compactions()], memory.search(STEM), list(exported([talk])),
    ))  # fmt: skip


class Backup:
    """A copy of a place's database without its vault."""

    def __init__(self, place, folder, name="backup"):
        self.place, self.file = place, folder / f"{name}.db"
        if place.file is not None:
            shutil.copy(place.file, self.file)
            return
        from novelo.stores.postgres.database import Settings
        from novelo.stores.postgres.texts import TABLES

        self.tables = {table: f"{Settings(place.url).schema}.{name}_of_{table}" for table in TABLES}
        for table, copy in self.tables.items():
            place.ask(f"CREATE TABLE {copy} AS SELECT * FROM {table}")

    def restore(self):
        """Put it back, as it was."""
        if self.place.file is not None:
            shutil.copy(self.file, self.place.file)
            return
        for table, copy in self.tables.items():
            self.place.ask(f"DELETE FROM {table}")
            self.place.ask(f"INSERT INTO {table} SELECT * FROM {copy}")


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def key(request):
    """With and without encryption."""
    return request.param


@pytest.fixture
def apart(tmp_path_factory):
    """A folder for backups."""
    return tmp_path_factory.mktemp("backup")


@pytest.mark.timeout(300)
def test_what_a_pattern_masked_stays_masked_in_a_restored_backup(place, key, apart):
    """T24: title, tags, metadata, state, manifest, draft, summary, facts, versions and notes in a graph's states."""
    with place.open(key) as memory:
        for name, fill in PLACES.items():
            fill(memory, memory.thread(name), WORDS[name])
            assert WORDS[name] in kept(memory, memory.thread(name))
    backup = Backup(place, apart)
    with place.open(key) as memory:
        for name, word in WORDS.items():
            receipt = memory.thread(name).redact(rf"{word[:-2]}\dx").receipt
            assert receipt.rows and not receipt.rows.get("unread")
        masked_first = {name: kept(memory, memory.thread(name)) for name in PLACES}
        assert all(word not in masked_first[name] for name, word in WORDS.items())
    told = (place.folder / "vault.db").read_bytes()
    assert FOUND.search(told) is None and STEM.encode() not in told
    backup.restore()
    assert key or FOUND.search(place.bytes())
    with place.open(key) as memory:
        assert FOUND.search(place.bytes()) is None
        for name, word in WORDS.items():
            talk = memory.thread(name)
            assert kept(memory, talk) == masked_first[name], name
            assert word not in answers(memory, talk)
        assert [hit.text for hit in memory.search("please")] == ["my [redacted], please"]
        assert memory.audit_check()[1] == [] and STEM not in str(memory.audit(1000))
        assert STEM not in str(memory.doctor())
    assert FOUND.search(place.bytes()) is None


def test_what_is_said_again_later_stays(place, key, apart):
    """A redaction takes what was there. The database that had it is not masked again, nor a backup from after it."""
    with place.open(key) as memory:
        memory.thread("t").title = "of maria"
        memory.thread("t").redact("maria")
        memory.thread("t").append([{"role": "user", "content": "maria again"}])
    backup = Backup(place, apart)
    for restore in (False, True):
        if restore:
            backup.restore()
        with place.open(key) as memory:
            assert (
                memory.thread("t").messages()[0].text == "maria again" and memory.thread("t").title == "of [redacted]"
            )


def test_each_redaction_is_made_again_where_it_is_missing(place, key, apart):
    """A later pattern may match what an earlier one has left; a backup from between them lacks the later one alone."""
    with place.open(key) as memory:
        memory.thread("t").title, memory.thread("t").tags = "maria silva", ("joão",)
    oldest = Backup(place, apart, "oldest")
    with place.open(key) as memory:
        memory.thread("t").redact("maria")
        memory.thread("t").metadata = {"later": "maria, another one"}
    between = Backup(place, apart, "between")
    with place.open(key) as memory:
        memory.thread("t").redact(r"\[redacted\] silva|joão")
        last = kept(memory, memory.thread("t"))
        assert "maria, another one" in last
    between.restore()
    with place.open(key) as memory:
        assert kept(memory, memory.thread("t")) == last
    oldest.restore()
    for _ in range(2):
        with place.open(key) as memory:
            assert (memory.thread("t").title, memory.thread("t").tags) == ("[redacted]", ("[redacted]",))
            assert [row.action for row in memory.audit()] == ["pattern"]  # both in one pass, and once


def test_a_thread_that_began_anew_is_another_one(place, key, apart):
    """Notes are of the thread that was made then: one that begins under its id says what it likes."""
    with place.open(key) as memory:
        memory.thread("t").title = "of maria"
    backup = Backup(place, apart)
    with place.open(key) as memory:
        memory.thread("t").redact("maria")
        memory.thread("t").erase()
        memory.thread("t").title = "maria anew"
        place.ask("DELETE FROM audit")  # as a restored copy whose acts are others
        place.ask("DELETE FROM marks WHERE name = 'vault ledger'")
    with place.open(key) as memory:
        assert memory.thread("t").title == "maria anew"
    backup.restore()
    with place.open(key) as memory:
        assert memory.thread("t").row is None


def test_forks_are_masked_with_what_they_share(place, key, apart):
    """A fork that shares a masked message says nothing of it in its own title either, as the first time."""
    with place.open(key) as memory:
        talk = memory.thread("t")
        talk.append([{"role": "user", "content": "I am maria"}, {"role": "assistant", "content": "hi"}])
        talk.fork(1, "f").title = "maria's fork"
        memory.thread("f").append([{"role": "user", "content": "maria here"}])
        memory.thread("alone").title = "another maria"
    backup = Backup(place, apart)
    with place.open(key) as memory:
        memory.thread("t").redact("maria")
        first = {name: kept(memory, memory.thread(name)) for name in ("t", "f", "alone")}
        assert "maria" in first["alone"]
    backup.restore()
    with place.open(key) as memory:
        assert {name: kept(memory, memory.thread(name)) for name in ("t", "f", "alone")} == first


def test_what_a_fork_was_left_goes_from_it_again(place, key, apart):
    """A message that a fork inherited from an erased thread, and that was deleted there, is deleted again."""
    with place.open(key) as memory:
        memory.thread("t").append([{"role": "user", "content": "I am maria"}, {"role": "assistant", "content": "hi"}])
        memory.thread("t").fork(1, "f")
    backup = Backup(place, apart)
    with place.open(key) as memory:
        memory.thread("t").erase(forks="keep")
        memory.thread("f").delete([0])
    backup.restore()
    with place.open(key) as memory:
        assert memory.thread("f").messages()[0].deleted and "maria" not in kept(memory, memory.thread("f"))


def test_any_mask_of_a_program_is_noted(place, key, apart):
    """A function that a program gives to the store tells nothing of what it took: the whole text is masked again."""
    with place.open(key) as memory:
        memory.thread("t").title, memory.thread("t").state["n"] = "of maria", "nothing"
    backup = Backup(place, apart)
    with place.open(key) as memory:
        memory.store.rewrite(memory.thread("t").row, {}, 5.0, mask=lambda text: text.replace("maria", "M"))
    backup.restore()
    with place.open(key) as memory:
        assert (memory.thread("t").title, memory.thread("t").state["n"]) == ("[redacted]", "nothing")


def test_short_texts_tear_no_other_words(place, key, apart):
    """Two digits behind a word are masked there again, and neither in another number nor as a number of the state."""
    with place.open(key) as memory:
        talk = memory.thread("t")
        talk.title, talk.metadata = "my PIN 42", {"n": 42, "year": 1942, "said": "42"}
    backup = Backup(place, apart)
    with place.open(key) as memory:
        memory.thread("t").redact(r"(?<=PIN )\d\d")
        first = kept(memory, memory.thread("t"))
    backup.restore()
    with place.open(key) as memory:
        assert kept(memory, memory.thread("t")) == first and memory.thread("t").metadata["n"] == 42


@pytest.mark.parametrize("error", [StorageReadOnly, StorageUnavailable])
def test_a_redaction_whose_commit_fails(place, key, monkeypatch, error):
    """Rolled back, its note is withdrawn; where nobody knows it stays, and the opening does what was asked for."""
    with place.open(key) as memory:
        memory.thread("t").title = "of maria"
        database = memory.store.database.inner
        writing = database.writing

        @contextmanager
        def refused():
            with writing() as connection:
                yield connection
                raise error("while it was committed")

        monkeypatch.setattr(database, "writing", refused)
        with pytest.raises(error):
            memory.thread("t").redact("maria")
        monkeypatch.undo()
        noted = error is StorageUnavailable
        assert [note.kind for note in memory.vault.erased()] == [PATTERN] * noted
        assert memory.vault.last() == 2 - noted and memory.thread("t").title == "of maria"
    with place.open(key) as memory:
        assert memory.thread("t").title == ("of [redacted]" if noted else "of maria")


def test_a_backup_that_cannot_be_written_is_not_served(tmp_path, apart):
    """Opened read-only it would say what was masked: refused, until it was opened once to write."""
    place = Place(f"sqlite:///{tmp_path}/chat.db", tmp_path)
    with place.open(None) as memory:
        memory.thread("t").title = "of maria"
    backup = Backup(place, apart)
    with place.open(None) as memory:
        memory.thread("t").redact("maria")
    backup.restore()
    with pytest.raises(StorageReadOnly, match="in the database again"):
        novelo.open(place.url, vault=place.vault, read_only=True)
    place.open(None).close()
    with novelo.open(place.url, vault=place.vault, read_only=True) as memory:
        assert memory.thread("t").title == "of [redacted]"


def test_fingerprints_die_with_the_key_of_their_thread(place):
    """When an encrypted thread is erased nobody can make its hashes any more, whatever else he has."""
    with place.open() as memory:
        memory.thread("t").title = "of maria"
        memory.thread("t").redact("maria")
        row = memory.thread("t").row
        with memory.store.database.reading() as db:
            key = db.print_key(row.key)
            assert key == db.print_key(row.key) and b"maria" not in key
        memory.thread("t").erase()
        with memory.store.database.reading() as db, pytest.raises(ThreadErased):
            db.print_key(row.key)
        memory.thread("t").title = "anew"
        with memory.store.database.reading() as db:
            assert db.print_key(row.key) != key
