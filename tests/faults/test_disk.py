"""T8 and T9: disks that are full, cannot be written, or flip bits."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress

import apsw
import msgspec
import pytest

import novelo
from faults.sizes import size
from novelo import StorageCorrupt, StorageFull, StorageReadOnly, StorageUnavailable, StoreError
from novelo.stores.sqlite import Database, SQLiteStore, files


def talk(memory, name, turns, start=0, size=200):
    """Plain turns in a thread."""
    for k in range(start, start + turns):
        with memory.thread(name).turn(f"{name} question {k}", key=f"{name}{k}") as turn:
            turn.messages()
            turn.reply(f"{name} answer {k} " + "x" * size)


def test_full_database_recovers_without_restart(tmp_path):
    """T8: at a size limit writes fail with StorageFull, reads work, and the same memory goes on when there is room."""
    memory = novelo.open(f"sqlite:///{tmp_path}/a.db")
    talk(memory, "t", 5)
    with memory.store.database.reading() as connection:
        pages = next(iter(connection.execute("PRAGMA page_count")))[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    acknowledged = 5
    with pytest.raises(StorageFull):
        for k in range(5, 500):
            talk(memory, "t", 1, k)
            acknowledged = k + 1
    said = [e.text for e in memory.thread("t").messages() if e.role == "assistant"]
    assert len(said) == acknowledged
    with memory.store.database.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    talk(memory, "t", 1, acknowledged)
    assert memory.thread("t").messages()[-1].text.startswith(f"t answer {acknowledged}")
    memory.close()


@contextmanager
def disk(tmp_path, megabytes):
    """A small disk of its own, gone afterwards; skips where none can be mounted."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk needs root and mount")
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place], check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        yield place
    finally:
        if subprocess.run(["umount", place], check=False, capture_output=True).returncode:
            subprocess.run(["umount", "-l", place], check=False)


def fill(place):
    """Use all the room there is, to the last page."""
    with (place / "filler").open("ab", buffering=0) as filler:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    filler.write(bytes(size))


def with_ballast(path, size):
    """A memory over a file with a ballast of so many bytes."""
    return novelo.Memory(SQLiteStore(Database(str(path), ballast_bytes=size)), policy="window:2turns")


def holding(place, word):
    """The files of a folder that hold a word."""
    return [path.name for path in place.iterdir() if word.encode() in path.read_bytes()]


def test_full_disk(tmp_path):
    """T8: on a disk of 3 MB nothing acknowledged is lost when it is full, and it goes on when there is room again."""
    with disk(tmp_path, 3) as place:
        filler = place / "filler"
        filler.write_bytes(bytes(1_000_000))
        memory = novelo.open(f"sqlite:///{place}/a.db")
        done = 0
        with pytest.raises((StorageFull, StorageUnavailable)):
            for k in range(5000):
                talk(memory, "t", 1, k)
                done = k + 1
        assert done > 10
        assert sum(e.role == "assistant" for e in memory.thread("t").messages()) == done
        filler.unlink()
        talk(memory, "t", 1, done)
        assert memory.thread("t").erase().rows["entries"] >= 2 * done
        memory.close()


def test_a_full_disk_can_be_erased_from(tmp_path):
    """T8: with a ballast of 4 MiB messages are deleted and a thread is erased on a full disk, and no file holds it."""
    with disk(tmp_path, 12) as place:
        memory = with_ballast(place / "a.db", 4 << 20)
        talk(memory, "kept", 3)
        talk(memory, "canary", 100)
        talk(memory, "parakeet", 1)
        memory.store.scrub()
        fill(place)
        with pytest.raises(StorageFull):
            talk(memory, "kept", 1, 3)
        memory.thread("parakeet").delete([0, 1])
        assert holding(place, "parakeet question") == holding(place, "parakeet answer") == []
        assert holding(place, "canary question") == ["a.db"]
        receipt = memory.thread("canary").erase()
        assert (receipt.rows["entries"], receipt.pending) == (200, False)
        assert holding(place, "canary") == []
        assert memory.thread("canary").row is None
        assert [e.text.split()[0] for e in memory.thread("kept").messages()] == ["kept"] * 6
        (place / "filler").unlink()
        talk(memory, "kept", 1, 3)
        memory.store.scrub()
        assert (place / "a.db-ballast").stat().st_size == 4 << 20
        memory.close()


def test_the_ballast_is_made_of_itself_for_a_large_database(tmp_path, monkeypatch):
    """T8: from a certain size on a database that is opened gets a ballast of 4 MiB, a smaller one none."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        talk(memory, "t", 1)
    assert not (tmp_path / "a.db-ballast").exists()
    assert files.BALLAST_FROM == 64 << 20
    monkeypatch.setattr(files, "BALLAST_FROM", (tmp_path / "a.db").stat().st_size)
    novelo.open(f"sqlite:///{tmp_path}/a.db").close()
    assert (tmp_path / "a.db-ballast").stat().st_size == 4 << 20


@pytest.mark.parametrize("size", [300, 40_000])
def test_a_thread_larger_than_the_ballast_is_erased_in_pieces(tmp_path, size):
    """T8: on a full disk a thread of many times the ballast goes too, its forks part, and no file holds it."""
    with disk(tmp_path, 40) as place:
        memory = with_ballast(place / "a.db", 600_000)
        talk(memory, "kept", 3)
        talk(memory, "canary", 6_000_000 // (size + 3000), size=size)
        head = memory.thread("canary").row.head
        memory.thread("canary").fork(4, thread_id="branch")
        memory.store.scrub()
        fill(place)
        receipt = memory.thread("canary").erase()
        assert (receipt.rows["entries"], receipt.rows["search"]) == (head, head)
        assert receipt.pending is False
        assert holding(place, "canary") == []
        assert memory.thread("canary").row is None
        assert all(e.deleted for e in memory.store.range(memory.thread("branch").row, 0, 9, hidden=True))
        assert sorted(row.thread_id for row in memory.threads()) == ["branch", "kept"]
        assert [hit.thread_id for hit in memory.search("canary")] == []
        (place / "filler").unlink()
        talk(memory, "canary", 1)
        assert memory.thread("canary").row.head == 2
        memory.close()


def test_an_erasure_without_room_changes_nothing_and_passes_later(tmp_path):
    """T8: with no ballast at all it is StorageFull, the thread is whole, and the same call passes with room."""
    with disk(tmp_path, 12) as place:
        memory = with_ballast(place / "a.db", 0)
        talk(memory, "canary", 200, size=4000)
        before = everything_of(memory, "canary")  # a search may write: what is new goes into the index
        memory.store.scrub()
        fill(place)
        for _ in range(2):
            with pytest.raises(StorageFull):
                memory.thread("canary").erase()
            assert everything_of(memory, "canary") == before
        (place / "filler").unlink()
        assert memory.thread("canary").erase().rows["entries"] == 400
        assert holding(place, "canary") == []
        memory.close()


def test_pieces_that_a_reader_holds_up_go_later(tmp_path):
    """T8: an erasure in pieces that a reader stops is done for all who ask, and its traces go with the next scrub."""
    with disk(tmp_path, 20) as place:
        memory = with_ballast(place / "a.db", 600_000)
        talk(memory, "canary", 800, size=4000)
        memory.store.scrub()
        reader = apsw.Connection(str(place / "a.db"))
        reader.execute("BEGIN; SELECT count(*) FROM threads").fetchall()
        fill(place)
        receipt = memory.thread("canary").erase()
        assert receipt.pending
        assert memory.thread("canary").row is None
        assert memory.search("canary") == [] == memory.threads() == memory.thread("canary").turns()
        assert "a.db" in holding(place, "canary")
        reader.close()
        assert memory.store.scrub()
        assert holding(place, "canary") == []
        memory.close()


@pytest.mark.parametrize("then", ["scrub", "open", "begin", "fork"])
def test_what_a_killed_erasure_left_goes(tmp_path, then):
    """T8: an erasure whose process died between pieces is ended by whoever scrubs, opens, or takes the id again."""
    memory = novelo.open(f"sqlite:///{tmp_path}/a.db")
    talk(memory, "canary", 150)
    talk(memory, "other", 2)
    memory.store._erase(memory.store.key_of("", "canary"), 1.0, False, at_once=False)  # and no piece follows
    assert memory.thread("canary").row is None
    if then == "open":
        memory.close()
        memory = novelo.open(f"sqlite:///{tmp_path}/a.db")
    elif then == "begin":
        with memory.thread("canary").turn("a new one") as turn:
            assert [m["content"] for m in turn.messages()] == ["a new one"]
            turn.reply("yes")
    elif then == "fork":
        memory.thread("other").fork(2, thread_id="canary")
        assert len(memory.thread("canary").messages()) == 2
    assert memory.store.scrub()
    assert holding(tmp_path, "canary question") == holding(tmp_path, "canary answer") == []
    memory.close()


def test_a_note_of_left_rows_never_costs_a_living_thread(tmp_path):
    """T8: a note that names a thread which is not erased, or no thread at all, goes, and nothing with it."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        talk(memory, "t", 2)
        before, key = everything_of(memory, "t"), memory.store.key_of("", "t")
        with memory.store.database.reading() as connection:
            for name in (key.hex(), "00" * 16, "no key"):
                connection.execute("INSERT INTO meta VALUES (?, 1)", (f"left over {name}",))
        assert memory.store.scrub()
        assert everything_of(memory, "t") == before
        with memory.store.database.reading() as connection:
            assert [name for (name,) in connection.execute("SELECT name FROM meta WHERE name LIKE 'left%'")] == []


def test_a_disk_that_is_mounted_read_only(tmp_path):
    """T8: on a read-only file system a database can be listed, read and searched; every write is StorageReadOnly."""
    with disk(tmp_path, 8) as place:
        with novelo.open(f"sqlite:///{place}/a.db") as memory:
            talk(memory, "t", 3)
            before = everything_of(memory, "t")
        if subprocess.run(["mount", "-o", "remount,ro", place], check=False).returncode:
            pytest.skip("a disk cannot be made read-only here")
        with novelo.open(f"sqlite:///{place}/a.db") as memory:
            thread = memory.thread("t")
            assert everything_of(memory, "t") == before
            assert [row.thread_id for row in memory.threads()] == ["t"]
            for write in (
                lambda: talk(memory, "t", 1, 3),
                thread.erase,
                lambda: thread.delete([0]),
                lambda: thread.fork(2, thread_id="u"),
                lambda: setattr(thread, "title", "x"),
                lambda: memory.erase_owner(""),
            ):
                with pytest.raises(StorageReadOnly):
                    write()
            assert memory.store.scrub()
            assert everything_of(memory, "t") == before
        for name in ("new.db", "folder/new.db"):
            with pytest.raises(StorageReadOnly):
                novelo.open(f"sqlite:///{place}/{name}")
        ran = subprocess.run(
            [sys.executable, "-m", "novelo", "show", "t", "-d", place / "a.db"], capture_output=True, text=True
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "t answer 2" in ran.stdout


@pytest.mark.parametrize("shared", [True, False])
def test_a_read_only_disk_with_the_log_of_a_killed_process(tmp_path, shared):
    """T8: turns in the log beside a read-only database are read with it, or an error says where they are."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        talk(memory, "t", 3)
        with disk(tmp_path, 8) as place:
            for end in ("", "-wal", "-shm")[: 2 + shared]:
                shutil.copy(tmp_path / f"a.db{end}", place)
            if subprocess.run(["mount", "-o", "remount,ro", place], check=False).returncode:
                pytest.skip("a disk cannot be made read-only here")
            try:
                copy = novelo.open(f"sqlite:///{place}/a.db")
            except StorageReadOnly as error:
                assert "in the log beside it" in str(error)
                assert not shared
                return
            with copy:
                assert everything_of(copy, "t") == everything_of(memory, "t")
                with pytest.raises(StorageReadOnly):
                    talk(copy, "t", 1, 3)


def test_read_only_connection_is_told(tmp_path):
    """T8: a database that is opened read-only can be read; writing is StorageReadOnly."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        talk(memory, "t", 3)
    database = Database(str(tmp_path / "a.db"))
    database.close()
    database._closed, database.read_only = False, True
    memory = novelo.Memory(SQLiteStore(database))
    assert len(memory.thread("t").messages()) == 6
    with pytest.raises(StorageReadOnly):
        talk(memory, "t", 1, 3)
    memory.close()


def test_no_place_for_a_database(tmp_path):
    """T8: a folder in the file's place, or a file in the folder's, is a clear error."""
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "file").write_text("x")
    for bad in ("folder.db", "file/a.db"):
        with pytest.raises(StorageUnavailable):
            novelo.open(f"sqlite:///{tmp_path}/{bad}")
    (tmp_path / "other.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StorageCorrupt):
        novelo.open(f"sqlite:///{tmp_path}/other.db")


def everything_of(memory, name):
    """All that a reader can see of a thread."""
    thread = memory.thread(name)
    seen = [(e.position, e.role, e.text) for e in thread.messages()]
    facts = (thread.title, thread.tags, dict(thread.state), thread.metadata)
    manifests = [msgspec.to_builtins(thread.manifest(k + 1)) for k in range(len(thread.turns()))]
    found = sorted(h.text for h in thread.search("question", limit=99))
    return json.dumps([seen, facts, manifests, found], default=str)


def everything(memory):
    """The same of each thread, or the error."""
    out = {}
    for name in ("a", "b", "c"):
        try:
            out[name] = everything_of(memory, name)
        except StoreError as error:
            out[name] = error
    return out


@pytest.mark.timeout(300)
def test_flipped_bits_are_errors_never_altered_text(tmp_path):
    """T9: of every flipped bit a reader gets the truth or an error, never another text; and flips are noticed."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        for name in ("a", "b", "c"):
            talk(memory, name, 30)
            thread = memory.thread(name)
            thread.title, thread.tags, thread.metadata = f"title {name}", ["x", name], {"n": name}
            thread.state["preference"] = f"state of {name}"
        truth = everything(memory)
    body = (tmp_path / "a.db").read_bytes()
    rng = random.Random(9)
    noticed = others = 0
    copy = tmp_path / "copy.db"
    flips = size("T9.flips", 300, 2000)
    for _ in range(flips):
        place = rng.randrange(100, len(body))
        flipped = bytearray(body)
        flipped[place] ^= 1 << rng.randrange(8)
        copy.write_bytes(flipped)
        try:
            with novelo.open(f"sqlite:///{copy}") as memory:
                seen = everything(memory)
        except StoreError:
            noticed += 1
            continue
        for name, found in seen.items():
            if isinstance(found, StoreError):
                noticed += 1
            else:
                said, facts, manifests, hits = json.loads(found)
                wanted = json.loads(truth[name])
                assert [said, facts] == wanted[:2], place
                assert manifests == wanted[2], place
                # a word of the index whose key was hit is not found; what is found is unaltered
                assert set(hits) <= set(wanted[3]), place
        others += sum(not isinstance(f, StoreError) for f in seen.values())
    print(f"T9: {flips} flips, {noticed} reads refused, {others} reads unaltered, no other text")
    assert noticed >= 30
    assert others > noticed  # other threads stay readable


def test_altered_rows_of_every_table_are_errors(tmp_path):
    """T9: whatever text of a thread is altered in the file, its reader gets StorageCorrupt."""
    edits = {
        "UPDATE entries SET body = replace(body, 'answer', 'lie!!!') WHERE position = 1": lambda t: t.messages(),
        "UPDATE entries SET role = 0 WHERE position = 0": lambda t: t.messages(),
        "DELETE FROM entries WHERE position = 3": lambda t: t.messages(),
        "UPDATE threads SET title = 'lie'": lambda t: t.title,
        "UPDATE threads SET tags = '[\"lie\"]'": lambda t: t.tags,
        "UPDATE threads SET state = replace(state, 'kind', 'cruel')": lambda t: dict(t.state),
        "UPDATE threads SET owner = 'lie'": lambda t: t.messages(),
        "UPDATE turns SET manifest = replace(manifest, 'buffer', 'lie')": lambda t: t.turns(),
        "DELETE FROM turns WHERE first = 2": lambda t: t.turns(),
        "DELETE FROM turns WHERE first = 4": lambda t: t.turns(1),
        "DELETE FROM turns WHERE first = 0": lambda t: t.turns(),
        "UPDATE turns SET number = 7 WHERE first = 2": lambda t: t.turns(),
        "UPDATE calls SET spent_tokens = 0": lambda t: t.usage(),
    }
    print(f"T9: {len(edits)} kinds of altered rows")
    for n, (statement, read) in enumerate(edits.items()):
        path = tmp_path / f"{n}.db"
        with novelo.open(f"sqlite:///{path}") as memory:
            talk(memory, "t", 3)
            memory.thread("t").title = "true"
            memory.thread("t").state["mood"] = "kind"
        connection = apsw.Connection(str(path))
        # replace() on a blob gives text: cast it back, as an altered file would hold it
        column = statement.partition("SET ")[2].partition(" =")[0] if "replace(" in statement else ""
        if column:
            statement = statement.replace("replace(", "CAST(replace(CAST(", 1).replace(
                f"{column},", f"{column} AS TEXT),", 1
            )
            statement = statement.replace("')", "') AS BLOB)", 1)
        connection.execute(statement)
        assert connection.changes(), statement
        connection.close()
        with novelo.open(f"sqlite:///{path}") as memory, pytest.raises(StorageCorrupt):
            read(memory.thread("t"))
        with suppress(OSError):
            path.unlink()
