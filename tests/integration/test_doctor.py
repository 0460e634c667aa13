"""Every finding of the doctor, and that the command which it names runs and mends it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import time

import apsw
import pytest

import novelo
from fix_postgres import programs, started
from fix_stores import new
from novelo import doctor
from novelo.messages import Message
from novelo.stores.base import PARKED, Lease, Work
from novelo.stores.sqlite import files, health
from novelo.summaries import Summary


@pytest.fixture
def path(tmp_path):
    """A file with a thread."""
    made = tmp_path / "a folder" / "100% chat.db"
    with novelo.open(f"sqlite:///{str(made).replace('%', '%25')}", worker="off") as memory:
        talk(memory)
    return made


@pytest.fixture
def url(path):
    """Its address."""
    return files.address(str(path))


def talk(memory, turns=3, name="t", policy=None):
    """A few turns; the context of each is composed, so that a manifest tells of it."""
    thread = memory.thread(name, owner="ana", policy=policy)
    for n in range(turns):
        with thread.turn(f"pergunta {n}") as turn:
            turn.messages()
            turn.reply("resposta")
    return thread


def look(url, **options):
    """What the doctor finds, by kind."""
    with novelo.open(url, read_only=True, worker="off") as memory:
        found = memory.doctor(**options)
    return found, {one.check: one for one in found.findings}


def run(command, folder, rc=(0,), **env):
    """A command as it was printed, typed into a shell."""
    bin_dir = folder / "bin"
    bin_dir.mkdir(exist_ok=True)
    (bin_dir / "novelo").write_text(f'#!/bin/sh\nexec {sys.executable} -m novelo "$@"\n')
    (bin_dir / "novelo").chmod(0o755)
    more = {**os.environ, "PATH": f"{bin_dir}:{env.pop('PATH', '')}:{os.environ['PATH']}", "MODEL_NAME": "", **env}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=folder, env=more, timeout=120
    )
    assert done.returncode in rc, (command, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def test_a_sound_database(url, path):
    """Nothing is found, nothing is written, and the tables are measured."""
    before = path.read_bytes()
    found, by = look(url, deep=True)
    assert (found.sound, by, found.threads, found.looked_at) == (True, {}, 1, 1)
    sizes = {one.table: one for one in found.database.tables}
    assert sizes["entries"].rows == 6
    assert sum(one.bytes for one in sizes.values()) <= found.database.bytes
    assert path.read_bytes() == before
    with novelo.open(url, worker="off") as memory:
        memory.thread("gone").append("Olá")
        memory.thread("gone").erase()
    assert look(url)[0].threads == 1  # what is left of an erased thread is none


def begun(memory, name="aberta"):
    """A turn whose writer has gone."""
    key = memory.store.key_of("ana", name)
    memory.store.begin(
        key, ("ana", name), new("q"), Lease("x", 0.001, time.time() - 60), idempotency=None, mode="queue"
    )  # fmt: skip


def asked(memory, how):
    """A job that is parked, held by somebody who is gone, or late."""
    key = memory.store.key_of("ana", "t")
    memory.store.ask(key, Work("compact", time.time() - 4000, '{"policy":"summarize:20messages,keep=6"}'), 0.0)
    if how == "late":
        return
    (job,) = memory.store.claim(Lease("x", 0.001, time.time() - 60), 1, key)
    if how == "parked":
        memory.store.put_off(job, PARKED, "ModelFailed")


def summarized(memory):
    """A summary that has lost most of what the user said."""
    from novelo.facts import Fact

    talk(memory, 14)
    row = memory.thread("t", "ana").row
    facts = tuple(Fact(text=f"PX-{n}", kind="id", position=0, role="user") for n in range(4))
    made = Summary(upto=20, text="resumo", facts=facts[:1], lost=facts[1:])
    assert memory.store.swap_summary(row.key, memory.store.base_of(row, 20), made, time.time(), []) is not None


def sql(path, text):
    """A statement behind our back."""
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("seal", lambda *values: b"")
    connection.execute(text)
    connection.close()


CASES = {
    "turns": lambda memory, path: begun(memory),
    "parked": lambda memory, path: asked(memory, "parked"),
    "jobs": lambda memory, path: asked(memory, "held"),
    "jobs ": lambda memory, path: asked(memory, "late"),
    "history": lambda memory, path: memory.thread("t", "ana").append([Message("tool", "x", tool_call_id="c9")]),
    "cache": lambda memory, path: talk(memory, 6, "janela", "window:2turns"),
    "cache ": lambda memory, path: talk(memory, 9, "orçamento", "strip_media + budget:60"),
    "summary": lambda memory, path: summarized(memory),
    "rights": lambda memory, path: path.chmod(0o644),
    "indexes": lambda memory, path: sql(path, "DROP INDEX entries_by_id"),
    "copy": lambda memory, path: sql(path, f"INSERT INTO meta VALUES ('copy from', '{source_for(path)}')"),
    "erasures": lambda memory, path: sql(path, f"INSERT INTO meta VALUES ('left over {'00' * 16}', 1)"),
    "damage": lambda memory, path: sql(path, "UPDATE turns SET status = 'failed' WHERE first = 4"),
}
SHOWS = {"history", "cache", "damage"}  # their commands show what to do: the transcript and the policy are the user's


def source_for(path):
    """A copy of a file, that a copy may have come from."""
    from_there = path.with_name("source.db")
    novelo.backup(files.address(str(path)), from_there)
    return files.address(str(from_there))


@pytest.mark.parametrize("case", list(CASES))
def test_each_finding_and_its_command(case, url, path, tmp_path):
    """What is wrong is found, at its place; its command runs as it stands there, and then it is found no more."""
    with novelo.open(url, worker="off") as memory:
        CASES[case](memory, path)
    kind = case.strip()
    found, by = look(url)
    assert set(by) == {kind}, by
    assert found.sound == (by[kind].severity == "note")
    done = run(by[kind].command, tmp_path, rc=(0, 1) if kind == "damage" else (0,))
    assert done.stdout or done.stderr or kind == "rights"
    if kind not in SHOWS:
        assert look(url)[1] == {}


def test_the_ballast(url, path, tmp_path):
    """A large file without a ballast is told of, and gets one."""
    sql(path, "INSERT INTO meta VALUES ('much', zeroblob(68000000))")
    (found,) = look(url)[0].findings
    assert (found.check, found.severity) == ("ballast", "note")
    run(found.command, tmp_path)
    assert look(url)[1] == {}


def test_a_context_that_is_about_to_overflow(url, tmp_path):
    """Tokens are told against the window of the model that was asked, or against the one that is given."""
    with novelo.open(url, worker="off") as memory:
        talk(memory, 14)
    assert look(url, window=100_000)[1] == {}
    found = look(url, window=60)[1]["overflow"]
    assert "of a window of 60" in found.text
    run(found.command, tmp_path)
    assert look(url, window=60, policy="summarize:20messages,keep=6 + budget:50")[1].keys() <= {"cache"}


def test_limits_of_the_machine(url, path, monkeypatch, tmp_path):
    """A disk without room, a log that grows, pages that hold nothing, an old SQLite."""
    monkeypatch.setattr(health, "ROOM", 1 << 60)
    run(look(url)[1]["disk"].command, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(health, "SOUND", (99, 0, 0))
    assert look(url)[1]["version"].command == "pip install --upgrade apsw"
    monkeypatch.undo()
    sql(path, "CREATE TABLE much (a); INSERT INTO much VALUES (zeroblob(1000000)); DROP TABLE much")
    monkeypatch.setattr(health, "FREE_BYTES", 1 << 19)
    run(look(url)[1]["size"].command, tmp_path)
    assert look(url)[1] == {}
    monkeypatch.setattr(health, "LOG_BYTES", 0)
    with novelo.open(url, worker="off") as memory:
        talk(memory)
        run(memory.doctor().findings[0].command, tmp_path)
        assert memory.doctor().findings == []


def test_a_file_whose_bytes_were_altered(url, path, tmp_path):
    """Wherever a page is overwritten, it is told as damage, and what can be read can be copied."""
    with novelo.open(url, worker="off") as memory:
        talk(memory, 40)
    connection = apsw.Connection(str(path))
    query = "SELECT pageno FROM dbstat WHERE name IN ('entries', 'turns', 'calls', 'threads') AND pagetype = 'leaf'"
    pages = [row[0] for row in connection.execute(query)]
    connection.close()
    assert len(pages) > 5
    whole = path.read_bytes()
    for page in pages:
        end = page * 4096
        path.write_bytes(whole[: end - 300] + b"\xa5" * 200 + whole[end - 100 :])
        try:
            assert not look(url, deep=True)[0].sound, page
        except novelo.StorageCorrupt as error:
            assert "damaged" in str(error) or "altered" in str(error)
    done = run(f"novelo doctor '{path}' --deep", tmp_path, rc=(1,))
    assert "error " in done.stdout or done.stderr.startswith("novelo: ")


def test_many_findings_are_counted(url):
    """Of one kind the first are told, and the others counted; a sample looks at the last used."""
    with novelo.open(url, worker="off") as memory:
        for n in range(doctor.KEPT + 5):
            begun(memory, f"aberta{n}")
    found, _ = look(url)
    assert len(found.findings) == doctor.KEPT
    assert found.more == {"turns": 5}
    assert look(url, most=3)[0].looked_at == 3


def test_the_command(url, path, tmp_path):
    """`novelo doctor` prints what it found with the commands, and says by its status whether all is well."""
    assert run(f"novelo doctor '{path}'", tmp_path).stderr.endswith("nothing is wrong\n")
    path.chmod(0o640)
    done = run(f"novelo doctor -d '{url}'", tmp_path, rc=(1,))
    assert "warning rights" in done.stdout
    assert f"\n    chmod 600 '{path}'" in done.stdout
    assert json.loads(run(f"novelo doctor '{path}' --json", tmp_path, rc=(1,)).stdout)["sound"] is False
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert run("novelo doctor nothing.db", tmp_path, rc=(1,)).stderr.startswith("novelo: there is no database")
    assert "model's window" in run(f"novelo doctor '{path}' --window -5", tmp_path, rc=(2,)).stderr
    assert run("novelo mend -d nothing.db", tmp_path, rc=(2,)).stderr.startswith("novelo: mend: expected")


# ---------------------------------------------------------------------------------------------- PostgreSQL
@pytest.mark.parametrize("case", ["turns", "parked", "jobs", "history", "cache", "summary"])
def test_threads_of_a_server(case, postgres_url, tmp_path):
    """Threads and jobs of a server are looked at likewise."""
    with novelo.open(postgres_url, worker="off") as memory:
        talk(memory)
        CASES[case](memory, None)
    found = look(postgres_url)[1]
    assert case in found
    run(found[case].command, tmp_path)
    if case not in SHOWS:
        assert case not in look(postgres_url)[1]


@pytest.fixture(scope="module")
def sturdy():
    """A server of its own, with all that keeps data safe but checksums."""
    server = started("-c shared_buffers=64MB")
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


def test_settings_of_a_server(sturdy, tmp_path, monkeypatch):
    """What a server risks is told, with the command that ends it; a role that may only read can ask for it."""
    import psycopg

    from novelo.stores.postgres import health as of_server

    url = sturdy.address()
    with novelo.open(url, worker="off") as memory:
        talk(memory)
        talk(memory).delete([0, 1, 2])
    with psycopg.connect(url, autocommit=True) as connection:
        for name in of_server.SETTINGS:
            connection.execute(f"ALTER SYSTEM SET {name} = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("DROP INDEX novelo.entries_by_id")
        connection.execute("CREATE ROLE looker LOGIN; GRANT USAGE ON SCHEMA novelo TO looker")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA novelo TO looker")
    time.sleep(0.5)
    found = look(sturdy.address("looker"))[0].findings
    assert {one.place for one in found} == {*of_server.SETTINGS, "novelo", "data_checksums"}
    found = look(url)[0].findings
    bins = str(programs())
    for one in found:
        if one.check == "checksums":
            continue
        run(one.command, tmp_path, PATH=bins)
    time.sleep(0.5)
    (last,) = look(url)[0].findings
    assert last.check == "checksums"
    sturdy.stop("fast")
    program, *arguments = last.command.split()
    sturdy._run(program, *arguments)
    sturdy.start()
    found, by = look(url)
    assert by == {}
    assert {one.table: one.rows for one in found.database.tables}["entries"] == 12
    monkeypatch.setattr(of_server, "DEAD", -1)
    monkeypatch.setattr(of_server, "DEAD_SHARE", -1)
    run(look(url)[1]["vacuum"].command, tmp_path)
    with pytest.raises(novelo.StorageUnavailable, match="nothing of ours in the schema 'other'"):
        novelo.open(url + "?schema=other", read_only=True)
    with novelo.open(url, read_only=True, worker="off") as memory, pytest.raises(novelo.StorageReadOnly):
        memory.thread("t").append("olá")
