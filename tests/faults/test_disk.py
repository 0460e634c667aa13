"""T8 and T9: disks that are full, cannot be written, or flip bits."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from contextlib import suppress

import apsw
import msgspec
import pytest

import novelo
from novelo import StorageCorrupt, StorageFull, StorageReadOnly, StorageUnavailable, StoreError
from novelo.stores.sqlite import Database, SQLiteStore

LONG = bool(os.environ.get("NOVELO_TEST_LONG"))


def talk(memory, name, turns, start=0):
    """Plain turns in a thread."""
    for k in range(start, start + turns):
        with memory.thread(name).turn(f"{name} question {k}", key=f"{name}{k}") as turn:
            turn.messages()
            turn.reply(f"{name} answer {k} " + "x" * 200)


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


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="a small disk needs root and mount")
def test_full_disk(tmp_path):
    """T8: on a disk of 3 MB nothing acknowledged is lost when it is full, and it goes on when there is room again."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        filler = disk / "filler"
        filler.write_bytes(bytes(1_000_000))
        memory = novelo.open(f"sqlite:///{disk}/a.db")
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
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


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


def everything(memory):
    """All that a reader can see, by thread, or the error."""
    out = {}
    for name in ("a", "b", "c"):
        try:
            thread = memory.thread(name)
            seen = [(e.position, e.role, e.text) for e in thread.messages()]
            facts = (thread.title, thread.tags, dict(thread.state), thread.metadata)
            manifests = [msgspec.to_builtins(thread.manifest(k + 1)) for k in range(len(thread.turns()))]
            found = sorted(h.text for h in thread.search("question"))
            out[name] = json.dumps([seen, facts, manifests, found], default=str)
        except StoreError as error:
            out[name] = error
    return out


@pytest.mark.timeout(300)
def test_flipped_bits_are_errors_never_altered_text(tmp_path):
    """T9: of every flipped bit a reader gets the truth or an error, never another text; and flips are noticed."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        for name in ("a", "b", "c"):
            talk(memory, name, 12)
            thread = memory.thread(name)
            thread.title, thread.tags, thread.metadata = f"title {name}", ["x", name], {"n": name}
            thread.state["preference"] = f"state of {name}"
        truth = everything(memory)
    body = (tmp_path / "a.db").read_bytes()
    rng = random.Random(9)
    noticed = others = 0
    copy = tmp_path / "copy.db"
    for _ in range(2000 if LONG else 300):
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
