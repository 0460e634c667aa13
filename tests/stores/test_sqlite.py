"""What only a file can do wrong: rights, logs, leftovers, full and read-only disks, other processes, altered rows."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import threading
import time
from contextlib import contextmanager

import apsw
import pytest

import novelo
from fix_stores import Hand, new
from novelo.errors import StorageCorrupt, StorageFull, StorageReadOnly, StorageUnavailable, UnknownEntry
from novelo.stores.base import Begun, Busy, Close
from novelo.stores.search import query_words
from novelo.stores.sqlite import Database, SQLiteStore
from novelo.stores.sqlite.washing import File
from novelo.stores.tables import walk
from novelo.usage import Call

CANARY = "qz7kanarienvogel41x"
can_mount = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="needs root and mount")


def opened(path, *, search=True, **options):
    """A thread in a store over a file."""
    return Hand(SQLiteStore(Database(str(path), **options), search=search))


@pytest.fixture
def path(tmp_path):
    """Where a database may be made: in a folder that is not there yet."""
    return tmp_path / "data" / "a.db"


@pytest.fixture
def hand(path):
    """A thread in a fresh file."""
    made = opened(path)
    yield made
    made.store.close()


@contextmanager
def small_disk(folder, size):
    """A disk of its own of so many bytes."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def holding(path, text=CANARY):
    """Files beside the database that hold a text, from its second byte on."""
    return [f.name for f in path.parent.iterdir() if text.encode()[1:] in f.read_bytes()]


# ---------------------------------------------------------------------------------------------- files
def test_files_are_their_owners_and_no_log_stays(hand, path):
    """All files of a database are readable for their owner only; the last one to close leaves one file behind."""
    hand.turn("q", "a")
    other = opened(path, ballast_bytes=4096)
    modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in path.parent.iterdir()}
    assert modes == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm", "a.db-ballast"), 384)
    hand.store.close()
    assert other.texts() == ["q", "a"]
    other.store.close()
    assert sorted(f.name for f in path.parent.iterdir()) == ["a.db", "a.db-ballast"]


def test_a_ballast_is_really_there_and_only_when_wanted(tmp_path):
    """Unless asked for, a small database has no ballast; one that is made takes its space on the disk."""
    opened(tmp_path / "a.db").store.close()
    opened(tmp_path / "b.db", ballast_bytes=1 << 20).store.close()
    assert not (tmp_path / "a.db-ballast").exists()
    assert (tmp_path / "b.db-ballast").stat().st_blocks * 512 >= 1 << 20
    opened(tmp_path / "c.db", ballast_bytes=0).store.close()
    assert not (tmp_path / "c.db-ballast").exists()


def test_a_store_that_is_closed_in_mid_use(path):
    """A connection that is lent out while the store is closed is closed when it comes back."""
    hand = opened(path)
    hand.turn("q", "a")
    with hand.store.database.reading() as connection:
        hand.store.close()
        assert next(connection.execute("SELECT count(*) FROM entries"))[0] == 2
    assert [f.name for f in path.parent.iterdir()] == ["a.db"]
    with pytest.raises(StorageUnavailable):
        hand.texts()


def test_a_database_removed_under_us_is_told(hand, path):
    """Nothing is acknowledged that went into a file which is no longer there."""
    hand.turn("q", "a")
    path.rename(path.with_name("moved.db"))
    with pytest.raises(StorageUnavailable):
        hand.add("lost?")
    path.with_name("moved.db").rename(path)
    hand.add("kept")
    assert hand.texts() == ["q", "a", "kept"]


def test_a_store_does_not_cross_a_fork(hand):
    """A process that was forked while the store was open is refused; opening it again there works."""
    hand.add("a")
    pid = os.fork()
    if not pid:
        status = 1
        try:
            hand.add("torn")
        except StorageUnavailable:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert hand.texts() == ["a"]


def test_a_snapshot_holds_while_another_process_writes(hand, path):
    """What another connection commits stays unseen until the snapshot ends; it is for reading."""
    hand.add("a")
    other = opened(path)
    with hand.store.snapshot():
        before = hand.row
        other.add("b")
        assert hand.row == before and hand.texts() == ["a"]
        with pytest.raises(StorageUnavailable):
            hand.add("c")
    assert hand.texts() == ["a", "b"]
    other.store.close()


def test_writers_in_several_processes(hand, path):
    """Turns of several processes on one thread follow each other without a gap, each whole."""
    hand.add("start")

    def write(name):
        mine = opened(path)
        for k in range(25):
            while isinstance(begun := mine.begin(f"{name} {k}", mode="queue"), Busy):
                time.sleep(0.002)
            mine.append(begun, f"to {name} {k}")
        mine.store.close()

    pids = []
    for name in ("ana", "bia", "caio"):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                write(name)
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]
    texts = hand.texts()[1:]
    assert len(texts) == 150 and [f"to {q}" for q in texts[::2]] == texts[1::2]
    assert [t.last - t.first for t in hand.store.turns(hand.key)] == [1] * 75


# ---------------------------------------------------------------------------------------------- erasure
def fill_with_canary(hand):
    """A canary in every place where a text can be."""
    say = f"{CANARY} said so"
    hand.add(new(say, "system"))
    for k in range(30):
        begun = hand.begin(f"{say} {k} " + "x" * 300, key=f"{CANARY} {k}")
        hand.append(begun, say, close=None, state={"note": say}, calls=[Call(raw={"note": say})])
        hand.store.append(
            hand.key, begun.turn.epoch, begun.turn.first, [new("", "assistant", calls=[CANARY])], 1.0,
            close=Close("done", f'{{"system": "{say}"}}'.encode()),
        )  # fmt: skip
    hand.store.set_facts(hand.key, hand.names, 1.0, title=say, tags=[CANARY], metadata={"note": say})
    begun = hand.begin("streaming")
    assert hand.store.keep_draft(hand.key, begun.turn.epoch, begun.turn.first, new(say), hand.now + 30)


@pytest.mark.parametrize("search", [True, False])
def test_no_byte_of_an_erased_thread_stays(path, search):
    """After the receipt no file of the folder holds the thread's text, its names, keys, state, ledger or draft."""
    hand = Hand(SQLiteStore(Database(str(path)), search=search), owner=CANARY, thread_id=CANARY)
    fill_with_canary(hand)
    other = hand.other("other")
    other.turn("keep me", "kept")
    hand.fork("fork of it", 20)
    assert holding(path)
    receipt = hand.store.erase(hand.key, 9.0)
    assert not receipt.pending and receipt.forks == ("fork of it",)
    assert receipt.rows["entries"] == 92 and receipt.rows["search"] == (62 if search else 0)
    # the fork is the owner's own still: its copies of title, state and name go with it
    hand.store.erase(hand.store.key_of(CANARY, "fork of it"), 9.0)
    assert holding(path) == []
    assert other.texts() == ["keep me", "kept"]
    hand.store.close()
    assert holding(path) == []


def test_no_byte_of_a_deleted_or_masked_message_stays(hand, path):
    """Deleted and redacted text is in no file after scrub, in the search index neither."""
    hand.add(f"one {CANARY}", f"two {CANARY}", "three")
    hand.store.rewrite(hand.row, {0: None, 1: new("two [masked]")}, 2.0)
    assert hand.store.scrub() and holding(path) == []
    assert hand.store.search(query_words(CANARY), hand.key, None, 9) == []


def test_a_reader_makes_an_erasure_pending(hand, path):
    """While a reader holds the log the receipt says so; scrub says when all is gone."""
    fill_with_canary(hand)
    reader = apsw.Connection(str(path))
    rows = iter(reader.execute("SELECT * FROM entries"))
    next(rows)
    assert hand.store.erase(hand.key, 9.0).pending
    assert hand.row is None and holding(path)
    reader.close(True)
    assert hand.store.scrub() and holding(path) == []


@can_mount
def test_an_erasure_on_a_full_disk_uses_the_ballast(tmp_path):
    """Where nothing can be written any more a thread can still be erased, and the ballast comes back with the space."""
    with small_disk(tmp_path / "disk", "6m") as disk:
        path = disk / "a.db"
        hand = opened(path, ballast_bytes=2 << 20)
        with (disk / "filler").open("wb") as filler:
            filler.write(bytes(2_500_000))
        done = 0
        with pytest.raises(StorageFull):
            for done in range(3000):
                hand.turn(f"{CANARY} {done}", "x" * 300)
        with pytest.raises(StorageFull):
            hand.store.set_facts(hand.key, hand.names, 1.0, metadata={"more": "x" * 60_000})
        assert len(hand.texts()) >= 2 * done
        receipt = hand.store.erase(hand.key, 9.0)
        assert receipt.rows["entries"] >= 2 * done and not receipt.pending
        assert [f for f in holding(path) if f != "filler"] == []
        assert (disk / "a.db-ballast").stat().st_size == 2 << 20
        hand.turn("again", "yes")
        hand.store.close()


@can_mount
def test_a_read_only_disk_can_be_read(tmp_path):
    """A closed database on a read-only disk is read and not written; one whose newest turns are in a log says so."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        hand = opened(disk / "a.db")
        hand.turn("q", "a")
        hand.store.close()
        open_still = opened(disk / "b.db")
        open_still.turn("q", "a")
        shutil.copy(disk / "b.db-wal", disk / "wal")
        open_still.store.close()
        (disk / "wal").rename(disk / "b.db-wal")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        again = opened(disk / "a.db")
        assert again.texts() == ["q", "a"] and again.store.scrub()
        with pytest.raises(StorageReadOnly):
            again.turn("more", "no")
        with again.store.snapshot():
            assert again.row.head == 2
        again.store.close()
        with pytest.raises(StorageReadOnly, match="log"):
            opened(disk / "b.db")
        with pytest.raises(StorageReadOnly):
            opened(disk / "new.db")


# ---------------------------------------------------------------------------------------------- altered rows
ALTERED = {
    "UPDATE entries SET body = CAST('{' AS BLOB) WHERE position = 1": lambda h: h.texts(),
    "UPDATE entries SET tokens = tokens + 1 WHERE position = 1": lambda h: h.texts(),
    "UPDATE entries SET turn = 'x' WHERE position = 0": lambda h: h.texts(),
    "UPDATE entries SET position = 17 WHERE position = 3": lambda h: h.texts(True),
    "UPDATE threads SET head = 2": lambda h: h.texts(),
    "UPDATE threads SET opening = 2": lambda h: h.row,
    "UPDATE threads SET hidden = 0": lambda h: h.row,
    "UPDATE threads SET epoch = 0": lambda h: h.begin("q"),
    "UPDATE threads SET status = 'erased'": lambda h: h.row,
    "UPDATE threads SET title = 'lie'": lambda h: h.row,
    "UPDATE threads SET thread = CAST(substr(hex(thread), 1, 16) AS BLOB)": lambda h: h.row,
    "DELETE FROM threads": lambda h: h.add("as if it were new"),
    "UPDATE turns SET last = 3 WHERE first = 0": lambda h: h.begin("a", key="k"),
    "UPDATE turns SET status = 'failed'": lambda h: h.store.turns(h.key),
    "UPDATE turns SET request = CAST('s' AS BLOB)": lambda h: h.begin("a", key="k", request=b"s"),
    "UPDATE calls SET input = 9": lambda h: h.store.calls(None),
    "UPDATE calls SET model = 'lie'": lambda h: h.store.calls(h.key),
    "UPDATE hidden SET stop = 3": lambda h: h.texts(),
    "UPDATE pins SET position = 3": lambda h: h.store.pins(h.key),
    "UPDATE meta SET value = CAST('short' AS BLOB) WHERE name = 'secret'": lambda h: h.row,
    "UPDATE meta SET value = 'one' WHERE name = 'schema'": lambda h: h.row,
}


@pytest.mark.parametrize("statement", ALTERED, ids=lambda s: s.replace("UPDATE ", "").partition(" WHERE")[0][:40])
def test_an_altered_row_is_an_error_and_others_stay_readable(path, statement):
    """Whatever is altered in the file, its reader gets StorageCorrupt and never another answer."""
    hand = opened(path)
    begun = hand.begin("a", key="k")
    hand.append(begun, "b", calls=[Call(model="m", input=1)])
    hand.turn("c", "d")
    hand.store.hide(hand.key, [(2, 4)], True, 1.0)
    hand.store.pin(hand.key, [0], True)
    hand.store.set_facts(hand.key, hand.names, 1.0, title="true")
    hand.store.close()
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
    with pytest.raises(StorageCorrupt):
        damaged = opened(path)
        if "WHERE" in statement or "meta" in statement or "pins" in statement:
            other = damaged.other("other")
            other.turn("x", "y")
            assert other.texts() == ["x", "y"]
        ALTERED[statement](damaged)


# ---------------------------------------------------------------------------------------------- costs and options
def test_reading_steps_over_what_is_hidden(hand, monkeypatch):
    """A context behind a long hidden stretch reads the rows that it gets, and few more."""
    hand.add(*(str(k) for k in range(3000)))
    hand.store.hide(hand.key, [(5, 2990)], True, 1.0)
    read = []
    monkeypatch.setattr(walk, "from_row", lambda key, row, real=walk.from_row: read.append(row[0]) or real(key, row))
    assert [e.text for e in hand.store.tail(hand.row, 3000, 12)] == [str(k) for k in (*range(2999, 2989, -1), 4, 3)]
    assert [e.text for e in hand.store.range(hand.row, 3, 4)] == ["3", "4", "2990", "2991"]
    assert len(read) <= 20


def test_without_an_index_the_newest_messages_are_looked_through(path):
    """Opened without search nothing is indexed, and words are found in the newest messages all the same."""
    hand = opened(path, search=False)
    hand.add("O reembolso já foi concluído", "可以退货吗", "outra coisa")
    other = hand.other("t", owner="ana")
    other.add("reembolso de Ana")
    fork = hand.fork("f", 2)
    fork.add("reembolso no ramo")

    def found(words, key=None, owner=None):
        return sorted(h.text for h in hand.store.search(query_words(words), key, owner, 9))

    assert found("CONCLUIDO", hand.key) == ["O reembolso já foi concluído"]
    assert found("退货") == ["可以退货吗"]
    assert found("reembolso", owner="ana") == ["reembolso de Ana"] and found("reembolso", fork.key) == [
        "reembolso no ramo"
    ]
    assert len(found("reembolso")) == 3 and found("bicicleta") == []
    with hand.store.database.reading() as connection:
        assert next(connection.execute("SELECT count(*) FROM search"))[0] == 0
    hand.store.close()


def test_a_failed_write_changes_nothing_and_the_next_one_works(hand):
    """After an error of the disk in the middle of a transaction the same connections go on."""
    hand.turn("q", "a")
    with hand.store.database.reading() as connection:
        pages = next(connection.execute("PRAGMA page_count"))[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageFull):
        hand.add("x" * 100_000)
    assert hand.texts() == ["q", "a"] and hand.row.head == 2
    with hand.store.database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    hand.add("y" * 100_000)
    assert hand.row.head == 3


def test_threads_of_execution_write_while_others_read_and_one_closes(path):
    """Readers and writers of many threads get whole answers, or are told that the store is closed."""
    hand = opened(path)
    hand.add("start")
    wrong, stop = [], threading.Event()

    def work(number):
        mine = hand.other(f"t{number}")
        while not stop.is_set():
            try:
                begun = mine.begin("q")
                assert isinstance(begun, Begun)
                mine.append(begun, "a")
                assert mine.texts()[-2:] == ["q", "a"]
            except StorageUnavailable:
                return
            except Exception as error:
                wrong.append(error)
                return

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    time.sleep(0.3)
    hand.store.close()
    for worker in workers:
        worker.join(10)
    stop.set()
    assert wrong == [] and [f.name for f in path.parent.iterdir()] == ["a.db"]
    again = opened(path)
    for n in range(6):
        texts = again.other(f"t{n}").texts()
        assert texts[: len(texts) // 2 * 2] == ["q", "a"] * (len(texts) // 2)
    with pytest.raises(UnknownEntry):
        again.store.entries(again.row, [99])
    again.store.close()


# ---------------------------------------------------------------------------------------------- gaps of pages
def test_no_old_copy_of_a_row_stays_in_a_gap(hand, path):
    """Rows that SQLite moved to another page leave copies behind; after a removal no gap of a page holds anything."""
    rng = random.Random(7)
    crew = [hand.other(f"t{n}") for n in range(40)]
    for _ in range(12):
        for one in crew:
            one.turn(f"q {CANARY} " + "x" * rng.randrange(300), "a" * rng.randrange(500))
    file = File(str(path))
    found = 0
    for one in rng.sample(crew, len(crew)):
        hand.store.database._emptied(2.0)
        found += len(file.gaps())
        assert not hand.store.erase(one.key, 9.0).pending
        assert file.gaps() == [] and not hand.store.database._unclean
    file.close()
    assert found > 0  # else there was nothing to see
    assert holding(path) == []


def test_washing_beside_writers_changes_nothing(path):
    """While others write, gaps are written over again and again: the file stays whole, and every text is there."""
    crew = [opened(path) for _ in range(3)]
    stop = threading.Event()
    washed = []

    def wash():
        while not stop.is_set():
            washed.append(crew[0].store.scrub())

    def talk(one, name):
        mine = one.other(name)
        for n in range(60):
            mine.turn(f"{name} {n} " + "x" * (37 * n % 700), "y" * (91 * n % 900))
            if n % 7 == 6:
                other = one.other(f"{name} {n}")
                other.add("z" * 400)
                one.store.erase(other.key, 9.0)

    threads = [threading.Thread(target=talk, args=(one, f"n{k}")) for k, one in enumerate(crew[1:])]
    washer = threading.Thread(target=wash)
    for thread in (washer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    washer.join()
    assert any(washed)
    for k, one in enumerate(crew[1:]):
        texts = one.other(f"n{k}").texts()
        assert [t.split()[:2] for t in texts[::2]] == [[f"n{k}", str(n)] for n in range(60)]
    for one in crew:
        one.store.close()
    assert list(apsw.Connection(str(path)).execute("PRAGMA integrity_check")) == [("ok",)]


def test_no_gap_is_seen_where_no_tree_is(path):
    """Pages of chains and of the list of free ones are no trees: nothing of a long row is taken for a gap."""
    made = opened(path)
    made.add("long " + "\x02\x05\x0a\x0d" * 20_000, *("x" * 30_000 for _ in range(5)))
    made.store.rewrite(made.row, {1: None, 3: None}, 2.0)
    assert made.store.scrub() and len(made.texts()[0]) == 80_005
    made.store.close()
    assert list(apsw.Connection(str(path)).execute("PRAGMA integrity_check")) == [("ok",)]


def test_a_reader_that_stays_holds_no_writer_up(tmp_path, monkeypatch):
    """While a removal waits for another program's reader, turns are taken; it is pending if the reader stays."""
    monkeypatch.setattr("novelo.stores.sqlite.database.SCRUB_S", 20.0)
    with novelo.open(f"sqlite:///{tmp_path}/a.db", worker="off") as memory:
        thread = memory.thread("t")
        thread.append([{"role": "user", "content": "olá"}])
        reader = apsw.Connection(f"{tmp_path}/a.db")
        reader.execute("BEGIN")
        list(reader.execute("SELECT count(*) FROM entries"))
        deleting = threading.Thread(target=thread.delete, args=([0],))
        deleting.start()
        while not thread.messages()[0].deleted:
            time.sleep(0.01)
        memory.thread("other").append([{"role": "user", "content": "olá"}])
        still = deleting.is_alive()
        reader.close()
        deleting.join(30)
        assert still and not deleting.is_alive()


def test_rows_that_somebody_holds_stop_no_writer(tmp_path):
    """A statement left half read ends when its connection comes back: no snapshot of it stops writers or logs."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db", worker="off") as memory:
        for k in range(5):
            memory.thread(f"t{k}").append([{"role": "user", "content": "olá"}])
        assert isinstance(memory.store, SQLiteStore) and isinstance(memory.store.database, Database)
        with memory.store.database.reading() as connection:
            held = connection.threads(None, None)
            assert next(held)
        assert memory.store.scrub()  # at once: nobody needed the connection meanwhile
        with pytest.raises(apsw.CursorClosedError):
            next(held)
        memory.thread("t0").append([{"role": "user", "content": "olá"}])
        assert len(memory.thread("t0")) == 2
