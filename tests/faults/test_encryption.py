"""T26: what is encrypted is in no file, and what was swapped, stripped, cut, flipped or has another key is refused."""

from __future__ import annotations

import base64
import os
import random
import shutil

import pytest

pytest.importorskip("cryptography")

import novelo
from fix_vaults import CANARY, KEY, Letters, Place, summarizer
from novelo import InvalidSpec, LeaseLost, StorageCorrupt, StorageUnavailable, ThreadErased
from novelo.errors import KeyRefused, Undecipherable
from novelo.moving import copy
from novelo.stores.base import Lease, Work
from novelo.stores.sql import statements
from novelo.stores.vaults import columns
from novelo.stores.vaults.wrapping import LocalKey, new_key
from novelo.vault import open_vault

NEW = b"the second key of 32 bytes, yes."
# How each encrypted column is read: statement, arguments behind the thread's key.
READERS = {
    "entries.body": ("range", (0, 99, 99)),
    "threads.metadata": ("thread", ()),
    "threads.state": ("thread", ()),
    "turns.key": ("turns", (1 << 40, 99)),
    "turns.request": ("turns", (1 << 40, 99)),
    "turns.manifest": ("turns", (1 << 40, 99)),
    "turns.draft": ("draft", None),
    "calls.raw": ("calls_of_thread", ()),
    "summaries.body": ("summaries", ()),
    "work.spec": ("all_work", ()),
    "work.error": ("all_work", ()),
    "vectors.vector": ("vectors", ("letters", 0, 99)),
    "checkpoints.body": ("all_of_thread", ()),
    "checkpoint_writes.body": ("all_written", ()),
    "checkpoint_values.body": ("all_values", ()),
    "checkpoint_values.hash": ("all_values", ()),
}


def read(memory, column, where):
    """Read a column as the shared code does."""
    name, more = READERS[column]
    args = (where["thread"], where["first"]) if more is None else (where["thread"], *more)
    with memory.store.database.reading() as db:
        return list(db.run(name, args))


def altered(value, rng):
    """A value as somebody would put it in place of one: one bit other, a piece of it, in clear; each with its name."""
    if isinstance(value, str):
        at = rng.randrange(len(value) // 3, len(value) - 4)
        other = value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
        return {"flip": other, "cut": value[:-8], "head": value[:3], "clear": '{"lie": 1}'}
    at = rng.randrange(len(value))
    flipped = bytearray(value)
    flipped[at] ^= 1 << rng.randrange(8)
    return {"flip": bytes(flipped), "cut": value[:-1], "head": value[:6], "clear": b',"content":"lie"}'}


def test_every_statement_is_known():
    """Each statement of both engines is encrypted, free of content, or refused: a new one cannot be forgotten."""
    kinds = (
        set(columns.RULES), set(columns.QUOTING), columns.BY_HAND, columns.FREE, columns.REFUSED, columns.CLEAR,
        columns.DOCUMENTS,
    )  # fmt: skip
    known = [name for kind in kinds for name in kind]
    assert len(known) == len(set(known))
    there = set()
    for engine in ("sqlite", "postgres"):
        for file in ("queries.sql", "checkpoints.sql", "documents.sql", "privacy.sql"):
            there |= set(statements(f"novelo.stores.{engine}", file))
    assert there == set(known)


def test_every_encrypted_column_is_tampered_with_here():
    """The readers above are those of all encrypted columns."""
    used = {c.name for rule in columns.RULES.values() for c in (*rule.takes, *rule.gives)}
    assert used - {"entries.id"} == set(READERS) - {"entries.body", "threads.metadata"}


def test_what_was_altered_is_refused(place, filled):
    """Rows that were swapped, within a thread and across, cut, flipped, or put in in clear: all of them are refused."""
    memory, _ = filled
    rng, tried = random.Random(26), {}
    for column in READERS:
        table, name = column.split(".")
        rows = place.rows(table, name)
        if name == "hash":  # what became an entry has no body that the hash is bound to
            whole = [where for where, _ in place.rows(table, "body")]
            rows = [row for row in rows if row[0] in whole]
        assert rows, column
        for where, value in rows[:6]:
            assert read(memory, column, where)
            value = value if isinstance(value, str) else bytes(value)
            lies = altered(value, rng)
            others = {}
            for other, another in rows:
                if other != where and another != value:
                    what = "swapped" if other["thread"] == where["thread"] else "of another thread"
                    lies[what], others[what] = another, other
            for what, lie in lies.items():
                taken = others.get(what) if column == "turns.key" else None  # no two turns have the same one
                if taken:
                    place.put(table, name, taken, None)
                place.put(table, name, where, lie)
                try:
                    with pytest.raises(StorageCorrupt):
                        print(column, what, read(memory, column, where))
                finally:
                    place.put(table, name, where, value)
                    if taken:
                        place.put(table, name, taken, lie)
                tried[what] = tried.get(what, 0) + 1
            assert read(memory, column, where)
    assert sum(tried.values()) > 300, tried
    assert tried["swapped"] > 30 and tried["of another thread"] > 50, tried


def test_whole_rows_that_were_moved_are_refused(place, filled):
    """A row with all its columns in another's place, an entry that was emptied, an owner who was exchanged."""
    memory, (a, b) = filled
    first, second = (place.ask("SELECT * FROM entries WHERE thread = ? AND position = ?", a.key, n)[0] for n in (0, 2))
    for column, at in (("id", 7), ("body", 8), ("seal", 9)):
        place.ask(f"UPDATE entries SET {column} = ? WHERE thread = ? AND position = 0", second[at], a.key)
    with pytest.raises(StorageCorrupt):
        a.messages()
    place.ask("UPDATE entries SET id = NULL, body = NULL WHERE thread = ? AND position = 0", a.key)
    with pytest.raises(StorageCorrupt):
        a.messages()
    values = (first[7], first[8], first[9])
    place.ask("UPDATE entries SET id = ?, body = ?, seal = ? WHERE thread = ? AND position = 0", *values, a.key)
    assert a.messages()
    place.ask("UPDATE threads SET owner = ? WHERE thread = ?", memory.store.database.keyring.owner("x"), b.key)
    with pytest.raises(StorageCorrupt):
        b.messages()
    assert [row.thread_id for row in memory.threads()] == [a.thread_id] and memory.threads().damaged


def test_canaries_are_nowhere(place, filled):
    """With summaries, states of graphs, vectors, drafts, jobs and search: no word is in any file or table."""
    memory, (a, _) = filled
    assert memory.search(CANARY) and a.search("nota fiscal")
    a.redact("im Graphen 0")
    memory.work()
    for when in ("open", "closed"):
        stored = place.bytes()
        assert stored.count(CANARY.encode()) == 0, when
        for said in (b"nota fiscal", b"pergunta", b"Graphen", base64.b64encode(CANARY.encode())[:8]):
            assert said not in stored
        memory.close()
    with place.open(embedder=Letters(), summarizer=summarizer) as again:
        thread = again.thread(a.thread_id, owner=a.owner)
        assert thread.title == f"{CANARY} title" and len(again.threads(owner=a.owner)) == 1
        assert any(CANARY in e.text for e in thread.messages())


def test_keys(place, monkeypatch, tmp_path):
    """A wrong, missing, old or broken key, and what is no key, each give one clear error, which repeats no key."""
    for name in ("NOVELO_KEY", "NOVELO_VAULT"):
        monkeypatch.delenv(name, raising=False)
    with place.open() as memory, memory.thread("t").turn("q") as turn:
        turn.reply("a")
    cases = {
        KeyRefused: [NEW, "env:NOVELO_KEY", f"file:{tmp_path}/none", None],
        InvalidSpec: [b"short", base64.b64encode(b"short").decode(), 7, [], "no key at all"],
    }
    for error, keys in cases.items():
        for key in keys:
            with pytest.raises(error) as caught:
                place.open(key=key)
            assert "short" not in str(caught.value) and "no key at all" not in str(caught.value)
            assert base64.b64encode(NEW).decode()[:12] not in repr(caught.value)
    with pytest.raises(InvalidSpec, match="vault"):
        novelo.open(place.url)
    with pytest.raises(InvalidSpec, match="vault"):
        novelo.open(place.url, key=KEY)
    monkeypatch.setenv("NOVELO_KEY", base64.b64encode(KEY).decode())
    monkeypatch.setenv("NOVELO_VAULT", place.vault)
    with novelo.open(place.url) as memory:
        assert len(memory.thread("t")) == 2 and memory.encrypted


def test_what_a_hook_says_stays_in_it(place):
    """A key service that fails is told of by its kind of error alone."""

    class Service:
        name = "service"

        def __init__(self):
            self.inner, self.fails = LocalKey(KEY), False

        def wrap(self, key):
            return self.inner.wrap(key)

        def unwrap(self, wrapped):
            if self.fails:
                raise RuntimeError("token=hunter2")
            return self.inner.unwrap(wrapped)

    service = Service()
    with place.open(key=service) as memory:
        memory.thread("t").append([{"role": "user", "content": "q"}])
    service.fails = True
    with pytest.raises(KeyRefused) as caught:
        place.open(key=service)
    assert "hunter2" not in str(caught.value) and caught.value.__cause__ is None
    service.fails = False
    with place.open(key=service) as memory:
        assert memory.thread("t").messages()[0].text == "q"


def test_rotation(place):
    """Another key wraps; bodies stay as they are; it goes on where it stopped, and the old key opens nothing."""
    with place.open() as memory:
        for n in range(7):
            memory.thread(f"t{n}").append([{"role": "user", "content": f"q{n}"}])
        before = place.rows("entries", "body")
        told = []
        vault = memory.vault
        vault.rewrap, whole = _stops_after(vault, 3), vault.rewrap
        with pytest.raises(StorageUnavailable):
            memory.rotate_keys(NEW, lambda *numbers: told.append(numbers))
        vault.rewrap = whole
        assert sorted(vault.keys().values()) == [3, 5]
        assert memory.thread("t6").messages()[0].text == "q6"  # in the middle of it nothing stands still
    with place.open(key=[NEW, KEY]) as memory:
        assert [memory.thread(f"t{n}").messages()[0].text for n in range(7)] == [f"q{n}" for n in range(7)]
        memory.thread("t7").append([{"role": "user", "content": "q7"}])
        assert memory.rotate_keys(NEW, lambda *numbers: told.append(numbers)) == 5
        assert told[-1] == (5, 5) and memory.rotate_keys(NEW) == 0
        assert place.rows("entries", "body")[: len(before)] == before or len(before) == 7
        assert all(row in place.rows("entries", "body") for row in before)
    with pytest.raises(KeyRefused):
        place.open(key=KEY)
    with place.open(key=NEW) as memory:
        assert [memory.thread(f"t{n}").messages()[0].text for n in range(8)] == [f"q{n}" for n in range(8)]


def _stops_after(vault, count):
    """A rewrapping that wraps so many keys and is then cut off."""
    from novelo.stores.vaults import base

    done = []

    def rewrap(wrapper, again):
        if done:
            raise StorageUnavailable("cut off")
        done.append(base.PAGE)
        base.PAGE = count
        try:
            return type(vault).rewrap(vault, wrapper, again)
        finally:
            base.PAGE = done[0]

    return rewrap


def test_an_erased_thread_is_shredded(place):
    """The key goes with the thread: a copy of the database from before cannot be read, with the ledger or without."""
    with place.open() as memory:
        for name in ("gone", "stays"):
            memory.thread(name).append([{"role": "user", "content": f"{name} {CANARY}"}])
        key = memory.store.key_of("", "gone")
        wrapped = memory.vault.key(key, 1).wrapped
        backup = (
            place.ask("SELECT * FROM entries WHERE thread = ?", key),
            place.ask("SELECT * FROM threads WHERE thread = ?", key),
        )
        assert wrapped in place.bytes()
        receipt = memory.thread("gone").erase()
        assert receipt.shredded and any("unreadable" in text for text in receipt.beyond)
        assert memory.vault.key(key, 1).wrapped == b"" and wrapped not in place.bytes()
        with pytest.raises(Undecipherable, match="destroyed"):
            memory.store.database.keyring.get(key, 1)
        memory.thread("gone").append([{"role": "user", "content": "again"}])  # a new life has a key of its own
        assert memory.vault.key(key, 2).wrapped
        memory.thread("gone").erase()
        for table, rows in zip(("entries", "threads"), backup, strict=True):  # the restored backup, as far as it goes
            place.ask(f"DELETE FROM {table} WHERE thread = ?", key)
            for row in rows:
                place.ask(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)
        with pytest.raises(Undecipherable, match="destroyed"):
            memory.thread("gone").messages()
        place.ask("DELETE FROM marks WHERE name = 'vault ledger'")
    with place.open() as memory:
        assert [row.thread_id for row in memory.threads()] == ["stays"] and memory.thread("gone").row is None
        assert memory.thread("stays").messages()[0].text == f"stays {CANARY}"


def test_a_restored_file_serves_nothing_that_was_erased(tmp_path):
    """T24 for a ledger without encryption: threads, messages and masked ones go again before anything is served."""
    url, vault = f"sqlite:///{tmp_path}/chat.db", f"sqlite:///{tmp_path}/vault.db"
    with novelo.open(url, vault=vault) as memory:
        for name in ("gone", "stays", "edited", "reborn"):
            memory.thread(name).append([{"role": "user", "content": f"{name} {n} {CANARY}"} for n in range(3)])
    shutil.copy(tmp_path / "chat.db", tmp_path / "backup.db")
    with novelo.open(url, vault=vault) as memory:
        memory.thread("gone").erase()
        memory.thread("edited").delete([1])
        memory.thread("edited").redact("edited 2")
        memory.thread("reborn").erase()
        memory.thread("reborn").append([{"role": "user", "content": "new life"}])
        kept = [e.text for e in memory.thread("edited").messages()]
    with novelo.open(url, vault=vault) as memory:  # an ordinary start takes nothing
        assert [e.text for e in memory.thread("edited").messages()] == kept
        assert memory.thread("reborn").messages()[0].text == "new life"
    shutil.copy(tmp_path / "backup.db", tmp_path / "chat.db")
    with novelo.open(url, vault=vault) as memory:
        assert sorted(row.thread_id for row in memory.threads()) == ["edited", "stays"]
        texts = [None if e.deleted else e.text for e in memory.thread("edited").messages(hidden=True)]
        assert texts == [f"edited 0 {CANARY}", None, f"[redacted] {CANARY}"]  # masked as it was, not deleted
        assert len(memory.thread("stays")) == 3
    stored = (tmp_path / "chat.db").read_bytes()
    assert f"gone 1 {CANARY}".encode() not in stored and f"edited 2 {CANARY}".encode() not in stored
    assert f"stays 1 {CANARY}".encode() in stored


def test_the_vault_must_be_there_and_be_the_newest(place, tmp_path):
    """Without its vault a database is not opened, nor with another one, nor with one that is older than itself."""
    with place.open() as memory:
        memory.thread("t").append([{"role": "user", "content": "q"}])
        memory.thread("u").append([{"role": "user", "content": "q"}])
    shutil.copy(tmp_path / "vault.db", tmp_path / "old.db")
    with place.open() as memory:
        memory.thread("t").erase()
    with place.open() as memory:
        assert memory.thread("u").row is not None
    shutil.move(tmp_path / "vault.db", tmp_path / "right.db")
    with pytest.raises(StorageUnavailable, match="not there"):
        place.open()
    assert not (tmp_path / "vault.db").exists()
    shutil.copy(tmp_path / "old.db", tmp_path / "vault.db")
    with pytest.raises(StorageCorrupt, match="older"):
        place.open()
    os.remove(tmp_path / "vault.db")
    other = Place(f"sqlite:///{tmp_path}/other.db", tmp_path)
    other.open().close()
    with pytest.raises(InvalidSpec, match="not the vault"):
        place.open()
    shutil.copy(tmp_path / "right.db", tmp_path / "vault.db")
    with pytest.raises(InvalidSpec, match=r"another database|not the vault"):
        other.open()
    with place.open() as memory:
        assert memory.thread("u").messages()[0].text == "q"


def test_a_plain_database_does_not_become_encrypted(place):
    """Threads in clear and an encrypted memory do not mix; a vault alone may come at any time."""
    with novelo.open(place.url) as memory:
        memory.thread("t").append([{"role": "user", "content": "q"}])
    with pytest.raises(InvalidSpec, match="plain text"):
        place.open()
    with novelo.open(place.url, vault=place.vault) as memory:
        assert memory.thread("t").messages()[0].text == "q" and not memory.encrypted
    with pytest.raises(InvalidSpec, match="has a vault"):
        novelo.open(place.url)
    other = Place(f"sqlite:///{place.folder}/other.db", place.folder)
    other.vault = f"sqlite:///{place.folder}/other-vault.db"
    other.open().close()
    with pytest.raises(InvalidSpec, match="is encrypted"):
        copy(place.url, other.url)
    with pytest.raises(InvalidSpec, match="plain text"):
        place.open()


@pytest.mark.parametrize("key", ["env:NOWHERE", b"short", [], 5])
def test_a_key_that_is_none_leaves_the_database_as_it_was(place, key):
    """An attempt with a key that cannot be had marks nothing: the database may be opened in any way after it."""
    with pytest.raises((KeyRefused, InvalidSpec)):
        place.open(key)
    with novelo.open(place.url, worker="off") as memory:
        assert memory.threads() == []
    with place.open() as memory:
        assert memory.encrypted


def test_a_vault_is_named_by_a_text(place):
    """What is no address is told as such."""
    with pytest.raises(InvalidSpec, match="vault: expected"):
        novelo.open(place.url, vault=5)


def test_a_program_that_knew_no_vault_goes_past_none(place):
    """Who had opened the database before it got a vault removes nothing unnoted, and stores nothing in clear."""
    with (
        novelo.open(place.url, worker="off") as before,
        novelo.open(place.url, vault=place.vault, worker="off") as memory,
    ):
        memory.thread("t").append("said")
        for remove in (
            lambda: before.thread("t").erase(),
            lambda: before.thread("t").delete([0]),
            lambda: before.erase_owner(""),
            lambda: before.purge(retention="idle:0s"),
        ):
            with pytest.raises(InvalidSpec, match="with a vault since"):
                remove()
        assert memory.thread("t").messages()[0].text == "said" and not memory.store.database.vault.last()
        before.thread("u").append("nothing is encrypted here, so that this may be stored")
        memory.thread("t").erase()
        memory.thread("u").erase()


def test_a_program_that_knew_no_encryption_stores_nothing_in_clear(place):
    """Who had opened the empty database before it was encrypted makes no thread in it any more."""
    with novelo.open(place.url, worker="off") as before, place.open() as memory:
        memory.thread("t").append("hidden")
        for store in (
            lambda: before.thread("p").append("clear"),
            lambda: before.thread("p").turn("clear").__enter__(),
            lambda: setattr(before.thread("p"), "title", "clear"),
            lambda: before.documents("d", embedder=None).add(["clear"]),
        ):
            with pytest.raises(InvalidSpec, match="is encrypted since"):
                store()
        assert [row.thread_id for row in memory.threads()] == ["t"]
        assert place.ask("SELECT count(*) FROM threads")[0][0] == 1


def test_a_crash_between_note_and_commit_completes_the_erasure(place):
    """What somebody asked to be erased, and nobody was told the end of, is erased when the memory is opened again."""
    with place.open() as memory:
        memory.thread("t").append([{"role": "user", "content": "q"}])
        memory.thread("u").append([{"role": "user", "content": "q"}])
        row = memory.thread("t").row
        memory.vault.note_erased(row.key, "thread", 5.0, born=row.created, version=1)
        withdrawn = memory.thread("u").row
        number = memory.vault.note_erased(withdrawn.key, "thread", 5.0, born=withdrawn.created, version=1)
        memory.vault.withdraw([number], 6.0)
    with place.open() as memory:
        assert memory.thread("t").row is None and memory.thread("u").row is not None
        assert memory.vault.key(row.key, 1).wrapped == b"" and memory.vault.key(withdrawn.key, 1).wrapped


def test_a_thread_that_began_anew_elsewhere(place):
    """A process that knew a thread before another one erased it and began it anew writes and reads with the new key."""
    with place.open() as one, place.open() as other:
        late = one.thread("t").turn("late", key="k")
        late.__enter__()
        one.store.ask(one.thread("t").key, Work("compact", 1.0, "first life"), 1.0)
        other.thread("t").erase()
        other.thread("t").append([{"role": "user", "content": "anew", "id": "m1"}])
        with pytest.raises((LeaseLost, ThreadErased)):
            late.reply("too late")
        key = one.thread("t").key
        for memory in (one, other):
            memory.store.ask(key, Work("compact", 1.0, "second life"), 1.0)
            (job,) = memory.store.claim(Lease(f"h{id(memory)}", 30.0, 3e9), key=key)
            memory.store.put_off(job, 4e9, "Failed")
            assert [(found.spec, found.error) for found in one.jobs()] == [("second life", "Failed")]
        with one.thread("t").turn("q", key="k") as turn:
            turn.stream(["a"])
            turn.reply("a")
        for memory in (one, other):
            assert [e.text for e in memory.thread("t").messages()] == ["anew", "q", "a"]
            assert memory.thread("t").turns()[0].key == "k"
            with memory.thread("t").turn("q", key="k") as turn:
                assert turn.replayed
            assert memory.store.find(memory.thread("t").row, ["m1"]) == {"m1": 0}


def test_two_that_begin_a_thread_at_once(place):
    """Of two keys that were made for a new thread one is used, by whoever comes, and the other destroys nothing."""
    with place.open() as one, place.open() as other:
        key = one.store.key_of("", "t")
        slow = one.store.database.keyring.begin(key)  # made, and not used yet
        other.thread("t").append([{"role": "user", "content": "quick"}])
        other.thread("t").erase()
        assert one.vault.key(key, slow.version).wrapped
        assert not one.vault.key(key, slow.version + 1).wrapped
        one.thread("t").append([{"role": "user", "content": "next"}])
        assert other.thread("t").messages()[0].text == "next"


def test_documents_stay_out_unless_asked_for(place, tmp_path):
    """Collections of documents are refused in an encrypted memory, and kept in clear where that was said."""
    (tmp_path / "faq.md").write_text("# Pix\n\nPix é aceito.\n")
    with place.open() as memory, pytest.raises(InvalidSpec, match="clear_documents"):
        memory.documents("faq").ingest(tmp_path / "faq.md", vectors="later")
    with place.open(clear_documents=True) as memory:
        memory.documents("faq").ingest(tmp_path / "faq.md", vectors="later")
        assert memory.documents("faq").search("pix")


def test_an_erased_collection_does_not_come_back(tmp_path):
    """A collection of documents that was erased is erased again in a restored file; one made anew stays."""
    url, vault = f"sqlite:///{tmp_path}/chat.db", f"sqlite:///{tmp_path}/vault.db"
    (tmp_path / "faq.md").write_text("# Pix\n\nPix é aceito.\n")
    with novelo.open(url, vault=vault, worker="off") as memory:
        memory.documents("faq").ingest(tmp_path / "faq.md", vectors="later")
    shutil.copy(tmp_path / "chat.db", tmp_path / "backup.db")
    with novelo.open(url, vault=vault, worker="off") as memory:
        memory.documents("faq").erase()
        memory.documents("faq").ingest(tmp_path / "faq.md", vectors="later")
    with novelo.open(url, vault=vault, worker="off") as memory:
        assert memory.documents("faq").search("pix")
    shutil.copy(tmp_path / "backup.db", tmp_path / "chat.db")
    with novelo.open(url, vault=vault, worker="off") as memory:
        assert not memory.documents("faq").search("pix")


def test_strict(place):
    """In an encrypted memory a plain value is refused; `strict=False` reads it as it is."""
    from novelo.stores.tables.rows import sealed

    with place.open() as memory:
        memory.thread("t").append([{"role": "user", "content": "q"}])
        memory.thread("t").state["x"] = 1
        key = memory.store.key_of("", "t")
    place.put("threads", "state", {"thread": key}, sealed(key, "state", b'{"x":2}'))
    with place.open() as memory, pytest.raises(Undecipherable, match="not encrypted"):
        memory.thread("t").messages()
    with place.open(strict=False) as memory:
        assert memory.thread("t").state["x"] == 2 and memory.thread("t").messages()[0].text == "q"


def test_keys_are_made(tmp_path):
    """A fresh key is one, and the vault that it is used with is readable by its owner alone."""
    place = Place(f"sqlite:///{tmp_path}/chat.db", tmp_path)
    (tmp_path / "key").write_text(new_key() + "\n")
    with place.open(key=f"file:{tmp_path}/key") as memory:
        memory.thread("t").append([{"role": "user", "content": "q"}])
    assert (tmp_path / "vault.db").stat().st_mode & 0o777 == 0o600
    assert open_vault(place.vault).fact("encrypted") == b"1"
