"""Addresses that lead nowhere: a clear error within the stated time, and no secret in anything that is said."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import traceback
from urllib.parse import quote

import pytest

import fix_postgres
import novelo
from fix_postgres import started
from novelo.errors import InvalidSpec, NoveloError, SchemaTooNew, StorageCorrupt, StorageReadOnly, StorageUnavailable

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("psycopg_pool")

SECRET = "s3gr/d@ %x&=é"
WRITTEN = quote(SECRET, safe="")
HIDDEN = {SECRET, WRITTEN, quote(SECRET), "s3gr"}
SPELLED = (
    f"postgresql://ana:{WRITTEN}@127.0.0.1:1/x",
    f"postgres://ana:{WRITTEN}@127.0.0.1:1/x?schema=other&timeout=2",
    f"postgresql://ana@127.0.0.1:1/x?password={WRITTEN}",
    f"postgresql://127.0.0.1:1/x?user=ana&password={WRITTEN}&sslpassword={WRITTEN}",
    f"postgresql://ana:{WRITTEN}@127.0.0.1:1/x?schema=No",
    f"postgresql://ana:{WRITTEN}@127.0.0.1:1/x?nonsense=1",
    f"postgresql://ana:{WRITTEN}%zz@127.0.0.1:1/x",
    f"postgresql://ana:{WRITTEN}@127.0.0.1:1/x?connect_timeout=x",
    f"postgresql://ana:{WRITTEN}@127.0.0.1:port/x",
    f"postgresql://ana:{WRITTEN}@[::1/x",
    f"postgresql:/ana:{WRITTEN}@127.0.0.1/x",
    f"postgresql:///ana:{WRITTEN}@127.0.0.1/x",
    f"postgresql//ana:{WRITTEN}@127.0.0.1/x",
    f"postgres:ana:{WRITTEN}@127.0.0.1/x",
    f"postgresq://ana:{WRITTEN}@127.0.0.1/x",
    f"sqlite:postgresql://ana:{WRITTEN}@127.0.0.1/x",
)


def silent(error):
    """All that can be seen of an error, which must not be the secret."""
    seen = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    lines = [line for line in seen.splitlines() if "SECRET" not in line]
    return not any(word in "\n".join(lines) for word in HIDDEN)


@pytest.mark.parametrize("url", SPELLED)
def test_no_error_repeats_a_secret(url, tmp_path):
    """However a password is written into an address, and whatever is wrong with it, it is not said again."""
    for ask in (
        lambda: novelo.open(url),
        lambda: novelo.open(url, read_only=True),
        lambda: novelo.copy(url, str(tmp_path / "c.db")),
        lambda: novelo.backup(url, tmp_path / "b.db"),
    ):
        with pytest.raises(NoveloError) as caught:
            ask()
        assert silent(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", [SPELLED[0], SPELLED[6]])
@pytest.mark.parametrize("command", ["threads -d", "doctor", "backup", "copy", "chat --no-stream -d", "mend --jobs -d"])
def test_no_command_repeats_a_secret(url, command, tmp_path):
    """The commands say what is wrong in one line, without the password, and without a traceback."""
    words = command.split()
    more = [str(tmp_path / "x.db")] if words[0] in ("backup", "copy") else []
    done = subprocess.run(
        [sys.executable, "-m", "novelo", *words, url, *more], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        input="olá\n", env={**os.environ, "MODEL_NAME": ""},
    )  # fmt: skip
    assert done.returncode in (1, 2)
    said = done.stdout + done.stderr
    assert "novelo: " in said and "Traceback" not in said
    assert not any(word in said for word in HIDDEN), said
    assert list(tmp_path.iterdir()) == []


def test_a_service_file(tmp_path, monkeypatch):
    """A password from a service file, or from one of passwords, is said no more than one of an address."""
    (tmp_path / "service").write_text(f"[shop]\nhost=127.0.0.1\nport=1\nuser=ana\npassword={SECRET}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "service"))
    for service, said in (("shop", "cannot be reached"), ("nothing", "definition of service")):
        url = f"postgresql:///x?service={service}"
        with pytest.raises(StorageUnavailable, match=said) as caught:
            novelo.open(url)
        assert silent(caught.value)


def test_what_is_shown_of_an_open_store(postgres_url):
    """Addresses in reports, in notes of a copy and in commands have a user, and no password."""
    from novelo.stores.postgres.database import Settings

    where = Settings(f"postgresql://ana:{WRITTEN}@127.0.0.1:5/x%20y?schema=other&sslmode=disable")
    shown = " ".join([where.address, where.server, where.place, repr(where)])
    assert not any(word in shown for word in HIDDEN)
    assert Settings(where.address).options["dbname"] == "x y"
    assert where.address == "postgresql://ana@127.0.0.1:5/x%20y?schema=other"
    socket_there = Settings("postgresql:///x?host=/tmp/s&port=6&schema=a")
    assert Settings(socket_there.address).options["host"] == "/tmp/s"
    assert SECRET in where.secrets
    assert WRITTEN in where.secrets


# ---------------------------------------------------------------------------------------------- time
@pytest.fixture
def deaf():
    """A port that takes connections, and never says anything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield listening.getsockname()[1]


def test_a_server_that_says_nothing(deaf):
    """A port that takes connections and stays silent is given up after the time that the address gives."""
    at = time.monotonic()
    with pytest.raises(StorageUnavailable, match=rf"127\.0\.0\.1:{deaf}/x cannot be reached.*timeout"):
        novelo.open(f"postgresql://127.0.0.1:{deaf}/x?timeout=2")
    assert 1 < time.monotonic() - at < 10


def test_a_server_that_falls_silent(deaf):
    """A server that answered once and is silent now is given up too, though connections were made before."""
    server = started()
    try:
        with novelo.open(server.address() + "?timeout=2", worker="off") as memory:
            thread = memory.thread("t")
            thread.append("olá")
            server.stop()
            with socket.socket() as listening:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(("127.0.0.1", server.port))
                listening.listen(64)
                at = time.monotonic()
                with pytest.raises(StorageUnavailable):
                    thread.messages()
                assert time.monotonic() - at < 30
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


def test_a_schema_that_somebody_else_is_making(postgres_url):
    """Who holds the lock of migrations too long keeps nobody for ever."""
    from novelo.stores.postgres.migrations import LOCK

    with psycopg.connect(postgres_url.split("?")[0]) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        at = time.monotonic()
        with pytest.raises(StorageUnavailable, match=r"kept a lock for more than 0\.5 s: try again"):
            novelo.open(postgres_url + "&lock_timeout=0.5")
        assert time.monotonic() - at < 10


def test_a_file_that_is_locked(tmp_path, monkeypatch):
    """A file that another program keeps locked is given up after the stated time, for turns, copies and looks."""
    import apsw

    from novelo.stores.sqlite import database, reading

    monkeypatch.setattr(database, "BUSY_S", 0.5)
    monkeypatch.setattr(reading, "BUSY_MS", 500)
    path = tmp_path / "a.db"
    novelo.open(f"sqlite:///{path}", worker="off").close()
    other = apsw.Connection(str(path))
    list(other.execute("PRAGMA locking_mode = EXCLUSIVE"))
    other.execute("BEGIN EXCLUSIVE; CREATE TABLE x (y)")
    for ask in (
        lambda: novelo.open(f"sqlite:///{path}", worker="off"),
        lambda: novelo.open(f"sqlite:///{path}", read_only=True),
        lambda: novelo.backup(str(path), tmp_path / "b.db"),
        lambda: novelo.copy(str(path), str(tmp_path / "c.db")),
    ):
        at = time.monotonic()
        with pytest.raises(StorageUnavailable, match="locked"):
            ask()
        assert time.monotonic() - at < 10
    other.close()


# ---------------------------------------------------------------------------------------------- rights and versions
def test_a_role_that_only_reads(postgres_url, tmp_path):
    """It may look, back up and copy from there; a turn is refused with the way to the grants."""
    if fix_postgres.NAMED:
        pytest.skip("a second user is needed: the tests' own server has one")
    url, schema = postgres_url, postgres_url.rpartition("=")[2]
    with novelo.open(url, worker="off") as memory:
        memory.thread("t").append("olá")
    role = f"reader_{schema}"
    with psycopg.connect(url.split("?")[0], autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    theirs = url.replace("//novelo@", f"//{role}@")
    with novelo.open(theirs, worker="off") as memory:
        assert len(memory.thread("t")) == 1
        with pytest.raises(StorageUnavailable, match=r"may not do that: see the grants in docs/postgres\.md"):
            memory.thread("t").append("mais")
    assert novelo.backup(theirs, tmp_path / "b.db").rows["entries"] == 1
    assert novelo.copy(theirs, str(tmp_path / "c.db")).rows["entries"] == 1
    with novelo.open(theirs, read_only=True, worker="off") as memory:
        assert memory.doctor().threads == 1
    with pytest.raises(StorageUnavailable, match="may not do that"):
        novelo.copy(str(tmp_path / "c.db"), theirs)
    with psycopg.connect(url.split("?")[0], autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {schema}.threads ENABLE ROW LEVEL SECURITY")
    for ask in (
        lambda: novelo.backup(theirs, tmp_path / "less.db"),
        lambda: novelo.copy(theirs, str(tmp_path / "less.db")),
        lambda: novelo.open(theirs, read_only=True, worker="off").doctor(),
    ):
        with pytest.raises(StorageUnavailable, match=r"rows of one owner alone.*BYPASSRLS"):
            ask()
    assert not (tmp_path / "less.db").exists()
    with psycopg.connect(url.split("?")[0], autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_what_is_no_database_of_ours(tmp_path, postgres_url):
    """Text, nothing, another program's file, a folder, a newer schema, an empty schema: each says what it is."""
    import apsw

    (tmp_path / "text.db").write_text("não é um banco " * 100)
    (tmp_path / "empty.db").touch()
    (tmp_path / "folder.db").mkdir()
    theirs = {"other.db": "x (y)", "meta.db": "meta (key)", "both.db": "meta (name, value); CREATE TABLE threads (id)"}
    for name, table in theirs.items():
        other = apsw.Connection(str(tmp_path / name))
        other.execute(f"CREATE TABLE {table}")
        other.close()
    before = {name: (tmp_path / name).read_bytes() for name in theirs}
    novelo.open(f"sqlite:///{tmp_path}/newer.db", worker="off").close()
    newer = apsw.Connection(str(tmp_path / "newer.db"))
    newer.execute("UPDATE meta SET value = 99 WHERE name = 'schema'")
    newer.close()
    for name, kind, said in (
        ("text.db", StorageCorrupt, "no database"),
        ("empty.db", StorageCorrupt, "nothing of ours"),
        ("folder.db", StorageUnavailable, "is a folder"),
        *((name, StorageCorrupt, "another program") for name in theirs),
        ("newer.db", SchemaTooNew, "schema 99, this version knows up to 1: upgrade novelo"),
        ("none.db", StorageUnavailable, "there is no database"),
    ):
        path = str(tmp_path / name)
        for ask in (
            lambda path=path: novelo.open(f"sqlite:///{path}", read_only=True),
            lambda path=path: novelo.backup(path, tmp_path / "b.db"),
            lambda path=path: novelo.copy(path, str(tmp_path / "c.db")),
        ):
            with pytest.raises(kind, match=said):
                ask()
        if name not in ("none.db", "empty.db"):
            with pytest.raises(kind, match=said):
                novelo.open(f"sqlite:///{path}", worker="off")
            with pytest.raises(NoveloError):
                novelo.copy(f"sqlite:///{tmp_path}/good.db", path)
    assert before == {name: (tmp_path / name).read_bytes() for name in theirs}  # not one byte of them was changed
    assert not [*tmp_path.glob("*-wal"), *tmp_path.glob("*-shm")]
    with pytest.raises(StorageUnavailable, match="nothing of ours"):
        novelo.copy(postgres_url, str(tmp_path / "c.db"))
    assert not (tmp_path / "b.db").exists()
    assert not (tmp_path / "c.db").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read and write everything")
def test_a_file_without_rights(tmp_path):
    """A file that may not be read, or not be written."""
    path = tmp_path / "a.db"
    novelo.open(f"sqlite:///{path}", worker="off").close()
    path.chmod(0)
    with pytest.raises(StorageReadOnly, match="check the rights"):
        novelo.backup(str(path), tmp_path / "b.db")
    with pytest.raises(StorageReadOnly, match="check the rights"):
        novelo.open(f"sqlite:///{path}")


def test_threads_that_wait_for_one_connection(postgres_url):
    """More threads than connections wait for each other, and none longer than the address says."""
    with novelo.open(postgres_url + "&pool=2&timeout=5", worker="off") as memory:
        failed = []

        def ask(n):
            try:
                with memory.thread(f"t{n}").turn("olá") as turn:
                    turn.reply("oi")
            except NoveloError as error:
                failed.append(error)

        workers = [threading.Thread(target=ask, args=(n,)) for n in range(16)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert failed == []
        assert len(memory.threads()) == 16


def test_an_address_of_no_kind():
    """What is no address at all is a wrong use, and says what was expected."""
    for url in ("mysql://x/y", "x", "", "http://x"):
        with pytest.raises(InvalidSpec, match="expected"):
            novelo.open(url)
