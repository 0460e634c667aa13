"""Databases saved and moved: everything comes along, killed runs leave nothing half, and wrong targets are refused."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

import novelo
from fix_documents import Meaning
from novelo.errors import InvalidSpec, StorageCorrupt, StorageReadOnly, StorageUnavailable

pytest.importorskip("langgraph")
from moving import fill, seen


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The file of a store with something of everything, and what is seen of it."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "docs").mkdir()
    url = f"sqlite:///{folder}/chat.db"
    with novelo.open(url, worker="off", summarizer="offline", embedder=Meaning()) as memory:
        fill(memory, Meaning(), folder / "docs")
        memory.work()
        return url, seen(memory, Meaning())


def looked_at(url):
    """What is seen of a store."""
    with novelo.open(url, worker="off", embedder=Meaning()) as memory:
        return seen(memory, Meaning())


def test_there_and_back(full, postgres_url, tmp_path):
    """From a file to a server and back to a file, all that can be seen stays the same, ids and keys too."""
    url, before = full
    there = novelo.copy(url, postgres_url)
    assert there.rows["vectors"] > 0 and there.rows["checkpoints"] > 0 and there.rows["chunk_vectors"] > 0
    assert there.rows["audit"] == 4
    assert looked_at(postgres_url) == before
    back = novelo.copy(postgres_url, f"sqlite:///{tmp_path}/back.db")
    assert back.digest == there.digest
    assert looked_at(f"sqlite:///{tmp_path}/back.db") == before


def test_a_memory_copies_itself(full, tmp_path):
    """`memory.copy_to` does the same from an open memory, and refuses its own database."""
    url, before = full
    with novelo.open(url, worker="off", embedder=Meaning()) as memory:
        memory.copy_to(f"sqlite:///{tmp_path}/other.db")
        with pytest.raises(InvalidSpec, match="source and target"):
            memory.copy_to(url)
    assert looked_at(f"sqlite:///{tmp_path}/other.db") == before


def test_life_goes_on_after_a_move(full, postgres_url, tmp_path):
    """What is written after a move gets numbers of its own, on a server and in a file: turns, documents, summaries."""
    novelo.copy(full[0], postgres_url)
    back = f"sqlite:///{tmp_path}/back.db"
    (tmp_path / "mais.md").write_text("# Mais\n\nO frete é grátis, e o dinheiro volta.\n")
    for url, other in ((postgres_url, back), (back, f"sqlite:///{tmp_path}/again.db")):
        with novelo.open(url, worker="off") as memory:
            with memory.thread("t0").turn("mais uma", key="nova" + url[:4]) as turn:
                turn.reply("sim")
            with memory.thread("t0").turn("pergunta 0 sobre o pedido PX-0099, ação 退货", key="k0") as turn:
                assert turn.replayed
            documents = memory.documents(embedder=Meaning())
            documents.ingest(tmp_path / "mais.md", vectors="now")
            documents.remove("mais.md")
            documents.ingest(tmp_path / "mais.md", vectors="now")
            assert documents.search("frete")[0]["source"] == "mais.md"
            memory.documents("nova " + url[:4], embedder=Meaning()).ingest(tmp_path / "mais.md", vectors="now")
            before = seen(memory, Meaning())
        novelo.copy(url, other)
        assert looked_at(other) == before


def test_a_backup_while_turns_go_on(full, tmp_path):
    """A backup is one state of the file, whatever is written meanwhile, and its owner's alone."""
    url = f"sqlite:///{tmp_path}/live.db"
    others = novelo.copy(full[0], url).rows["entries"]
    with novelo.open(url, worker="off") as memory:
        stop, sizes = threading.Event(), []

        def write():
            n = 0
            while not stop.is_set():
                with memory.thread("viva").turn(f"pergunta {n}") as turn:
                    turn.reply("resposta")
                n += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for n in range(3):
                told = []
                report = memory.backup(tmp_path / f"b{n}.db", progress=lambda *said: told.append(said))  # noqa: B023
                assert {said[2] for said in told} == {"pages", "threads"}
                assert told[-1][0] == told[-1][1] == report.done
                sizes.append(report.rows["entries"])
        finally:
            stop.set()
            writer.join()
    assert sizes == sorted(sizes)
    for n, size in enumerate(sizes):
        path = tmp_path / f"b{n}.db"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        found = looked_at(f"sqlite:///{path}")
        exports = {name: value for name, value in full[1].items() if name[1] == "export"}
        assert {name: found[name] for name in exports} == exports
        assert found.get(("/viva", "export"), b"").count(b'"position"') == size - others
    assert not [path.name for path in tmp_path.iterdir() if "part" in path.name]


def novelo_says(*arguments, **more):
    """The program, in a process of its own."""
    command = [sys.executable, "-m", "novelo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def test_a_backup_takes_no_name_that_is_taken(full, tmp_path):
    """A file that is there stays, unless it is to be replaced; the database itself is never replaced."""
    path = tmp_path / "b.db"
    path.write_text("mine")
    with pytest.raises(InvalidSpec, match="--force"):
        novelo.backup(full[0], path)
    assert path.read_text() == "mine"
    with pytest.raises(InvalidSpec, match="database itself"):
        novelo.backup(full[0], full[0].removeprefix("sqlite:///"), force=True)
    log = tmp_path / "b.db-wal"
    log.write_text("its turns")
    with pytest.raises(InvalidSpec, match="log"):
        novelo.backup(full[0], path, force=True)
    log.unlink()
    novelo.backup(full[0], path, force=True)
    assert looked_at(f"sqlite:///{path}") == full[1]


def test_a_backup_is_a_file(full, tmp_path, monkeypatch):
    """An address of a server is refused and not repeated, and no folder is made of it; that of a file is a file."""
    monkeypatch.chdir(tmp_path)
    for wrong in ("postgresql://app:s3cret@db/chat", "sqlite://", ""):
        with pytest.raises(InvalidSpec, match="a backup is a SQLite file") as caught:
            novelo.backup(full[0], wrong)
        assert "s3cret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    novelo.backup(full[0], f"sqlite:///{tmp_path}/b.db")
    assert [path.name for path in tmp_path.iterdir()] == ["b.db"]


def test_a_backup_of_memory_and_of_a_server(full, postgres_url, tmp_path):
    """A store in memory, and one of a server, are saved to a file likewise."""
    with novelo.open("sqlite://", worker="off") as memory:
        with memory.thread("t").turn("olá") as turn:
            turn.reply("oi")
        assert memory.backup(tmp_path / "m.db").rows["entries"] == 2
    novelo.copy(full[0], postgres_url)
    report = novelo.backup(postgres_url, tmp_path / "s.db")
    assert looked_at(f"sqlite:///{tmp_path}/s.db") == full[1]
    assert report.digest == novelo.backup(full[0], tmp_path / "f.db").digest
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(("-wal", "-shm"))) == [
        "f.db", "m.db", "s.db",
    ]  # fmt: skip


def test_a_backup_on_a_full_or_a_read_only_disk(full, tmp_path):
    """Nothing has the name of the backup then, and nothing half is left behind."""
    limited = "ulimit -f 64; exec " + sys.executable + " -m novelo backup "  # files of at most 32 or 64 KiB
    done = subprocess.run(
        ["bash", "-c", limited + f"{full[0]} {tmp_path}/b.db"], capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("novelo: ") and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
    if os.path.isdir("/proc"):
        with pytest.raises((StorageReadOnly, StorageUnavailable), match="cannot be made"):
            novelo.backup(full[0], "/proc/b.db")


KILLED = """
import os, sys, novelo
from novelo.stores.raw import copying
copying.BATCH_KEYS = 2
def told(done, total, what):
    print(done, flush=True)
    if what == "threads" and done >= int(sys.argv[4]):
        os.kill(os.getpid(), 9)
getattr(novelo, sys.argv[1])(sys.argv[2], sys.argv[3], progress=told)
"""


def killed(what, source, target, done):
    """A run that is killed when so many threads are done."""
    command = [sys.executable, "-c", KILLED, what, source, target, str(done)]
    ended = subprocess.run(command, capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_killed_backup_leaves_no_name(full, tmp_path):
    """Under the wanted name there is nothing, and the next run is not hindered by what lies beside it."""
    killed("backup", full[0], str(tmp_path / "b.db"), 4)
    assert not (tmp_path / "b.db").exists()
    novelo.backup(full[0], tmp_path / "b.db")
    assert looked_at(f"sqlite:///{tmp_path}/b.db") == full[1]
    assert not (tmp_path / "b.db.part").exists()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_killed_copy_goes_on(full, engine, request, tmp_path):
    """Copies that are killed again and again end as one that was not, and nothing is written twice."""
    target = f"sqlite:///{tmp_path}/c.db" if engine == "sqlite" else request.getfixturevalue("postgres_url")
    for done in (2, 6, 10):
        killed("copy", full[0], target, done)
    report = novelo.copy(full[0], target)
    assert report.same >= 8
    assert report.written < sum(report.rows.values())
    assert looked_at(target) == full[1]
    assert novelo.copy(full[0], target).written == 0


def test_what_has_changed_is_brought_over(full, postgres_url, tmp_path):
    """A second run brings changes alone: new turns, deletions, an erased thread, whose text is gone there too."""
    url = f"sqlite:///{tmp_path}/a.db"
    novelo.copy(full[0], url)
    for target in (postgres_url, f"sqlite:///{tmp_path}/c.db"):
        novelo.copy(url, target)
    with novelo.open(url, worker="off") as memory:
        with memory.thread("t3").turn("mais") as turn:
            turn.reply("sim")
        memory.thread("t6").delete([1])
        memory.thread("t9").erase()
        before = seen(memory, Meaning())
    for target in (postgres_url, f"sqlite:///{tmp_path}/c.db"):
        report = novelo.copy(url, target)
        assert 0 < report.written < 20
        assert report.same == report.done - 3
        assert looked_at(target) == before
    assert b"pedido9" not in (tmp_path / "c.db").read_bytes()


def test_other_data_is_refused(full, postgres_url, tmp_path):
    """A target with other threads, or newer ones, stays as it is, unless it is to be made equal."""
    other = f"sqlite:///{tmp_path}/other.db"
    for target in (other, postgres_url):
        with novelo.open(target, worker="off") as memory:
            memory.thread("meu").append("olá")
        with pytest.raises(InvalidSpec, match="holds a thread 'meu' that the source has not: nothing was copied"):
            novelo.copy(full[0], target)
        with pytest.raises(InvalidSpec, match="another secret"):
            novelo.copy(full[0], target, overwrite=True)
    copied = f"sqlite:///{tmp_path}/copied.db"
    novelo.copy(full[0], copied)
    with novelo.open(copied, worker="off") as memory:
        memory.thread("t0").append("escrito aqui")
    with pytest.raises(InvalidSpec, match="holds a newer thread 't0' than the source"):
        novelo.copy(full[0], copied)
    assert novelo.copy(full[0], copied, overwrite=True).removed > 0
    assert looked_at(copied) == full[1]
    with pytest.raises(InvalidSpec, match="source and target"):
        novelo.copy(copied, copied)


def test_a_row_that_reads_otherwise(full, tmp_path, monkeypatch):
    """A target that does not hold what was written to it is an error that names the thread."""
    from novelo.stores.sqlite.raw import SQLiteTarget

    insert = SQLiteTarget.insert

    def losing(self, table, rows):
        insert(self, table, rows[:-1] if table.name == "entries" else rows)

    monkeypatch.setattr(SQLiteTarget, "insert", losing)
    with pytest.raises(StorageCorrupt, match=r"thread '\w+'.*: the copy differs in entries, \d+ rows were read"):
        novelo.copy(full[0], f"sqlite:///{tmp_path}/c.db")


def test_a_damaged_thread_is_named_and_the_others_are_copied(full, tmp_path):
    """A row that was altered is not copied as if it were sound; all other threads are."""
    import apsw

    url, path = f"sqlite:///{tmp_path}/a.db", str(tmp_path / "a.db")
    novelo.copy(full[0], url)
    connection = apsw.Connection(path)
    of = "(SELECT thread FROM threads WHERE thread_id = 't3')"
    connection.execute(f"UPDATE turns SET status = 'failed' WHERE thread = {of}")
    connection.close()
    with pytest.raises(StorageCorrupt, match=r"1 at the source cannot be read.*'t3'") as caught:
        novelo.copy(url, f"sqlite:///{tmp_path}/c.db")
    assert caught.value.report.damaged[0].startswith("thread 't3': a turn was altered")
    found = looked_at(f"sqlite:///{tmp_path}/c.db")
    assert ("/t3", "export") not in found
    assert ("/t0", "export") in found
    done = novelo_says("copy", url, str(tmp_path / "d.db"))
    assert done.returncode == 1
    assert "not copied: thread 't3'" in done.stderr


def test_ten_thousand_messages_in_bounded_memory(tmp_path, postgres_url):
    """A thread of 10,000 long messages is copied in memory that does not grow with it."""
    import tracemalloc

    url = f"sqlite:///{tmp_path}/a.db"
    with novelo.open(url, worker="off") as memory:
        text = "9f8e7d6c" * 250
        memory.thread("longa").append([{"role": "user", "content": f"{n} {text}"} for n in range(10_000)])
    size = (tmp_path / "a.db").stat().st_size
    assert size > 20e6
    for source, target in ((url, postgres_url), (postgres_url, f"sqlite:///{tmp_path}/b.db")):
        tracemalloc.start()
        report = novelo.copy(source, target)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert report.rows["entries"] == 10_000
        assert most < size / 3, most


def test_commands(full, postgres_url, tmp_path):
    """The commands do the same, say what they did, and tell errors in one line."""
    done = novelo_says("backup", full[0], str(tmp_path / "b.db"))
    assert done.returncode == 0, done.stderr
    assert "every row compared" in done.stdout
    again = novelo_says("backup", full[0], str(tmp_path / "b.db"))
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    named = {**os.environ, "NOVELO_DATABASE": str(tmp_path / "b.db")}
    mine = novelo_says("backup", str(tmp_path / "mine.db"), env=named)
    assert mine.returncode == 0, mine.stderr
    copied = novelo_says("copy", full[0], postgres_url, "--json")
    assert copied.returncode == 0, copied.stderr
    report = json.loads(copied.stdout)
    assert report["done"] == report["total"] > 10
    assert report["rate"] > 0
