"""An encrypted database saved and moved: rows go over as they are, and the same vault and key open the copy."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

import novelo
from novelo.cli import app
from novelo.errors import InvalidSpec, NoveloError

pytest.importorskip("cryptography")
WORD = "segredo4711"


def talk(url, vault, key):
    """A few turns, one of them deleted, in two threads, one of them erased."""
    with novelo.open(url, vault=vault, key=key, worker="off") as memory:
        for name in ("a", "b"):
            thread = memory.thread(name, owner="ana")
            for n in range(3):
                with thread.turn(f"{WORD} {n}", key=f"k{n}") as turn:
                    turn.messages()
                    turn.reply("resposta")
            thread.title, thread.tags, thread.metadata = f"{WORD} {name}", ["t"], {"m": WORD}
            thread.pin([0])
        memory.thread("a", owner="ana").delete([2])
        memory.thread("b", owner="ana").erase()
        return seen(memory)


def seen(memory):
    """What there is."""
    rows = memory.threads(limit=100)
    threads = [memory.thread(row.thread_id, row.owner) for row in rows]
    return [(row, [e.message for e in t.messages()], t.turns()) for row, t in zip(rows, threads, strict=True)]


def test_an_encrypted_database_is_moved(tmp_path, postgres_url):
    """To a server, back, and to a backup: nothing is readable on the way, and all is there with the vault."""
    vault, key = f"sqlite:///{tmp_path}/vault.db", os.urandom(32)
    url = f"sqlite:///{tmp_path}/a.db"
    before = talk(url, vault, key)
    assert len(before) == 1
    back = f"sqlite:///{tmp_path}/back.db"
    digests = {novelo.copy(url, postgres_url).digest, novelo.copy(postgres_url, back).digest}
    digests.add(novelo.backup(url, tmp_path / "b.db").digest)
    assert len(digests) == 1
    for name in ("b.db", "back.db"):
        assert WORD.encode() not in (tmp_path / name).read_bytes()
    for copied in (postgres_url, back, f"sqlite:///{tmp_path}/b.db"):
        with pytest.raises(InvalidSpec, match="vault"):
            novelo.open(copied, worker="off")
        with novelo.open(copied, vault=vault, key=key, worker="off") as memory:
            assert seen(memory) == before
            assert memory.backup(tmp_path / "again.db", force=True).rows["entries"] == 6


def test_what_was_erased_after_a_backup(tmp_path):
    """A restored backup erases again what the ledger of its vault says, and a look at it tells what would be."""
    vault, key, url = f"sqlite:///{tmp_path}/vault.db", os.urandom(32), f"sqlite:///{tmp_path}/a.db"
    talk(url, vault, key)
    assert novelo.backup(url, tmp_path / "b.db").vault
    told = CliRunner().invoke(app, ["backup", url, str(tmp_path / "c.db")])
    assert told.exit_code == 0 and "vault is apart" in told.output
    with novelo.open(url, vault=vault, key=key, worker="off") as memory:
        memory.thread("a", owner="ana").erase()
    restored = f"sqlite:///{tmp_path}/b.db"
    with pytest.raises(NoveloError):
        novelo.open(restored, vault=vault, key=key, read_only=True)
    with novelo.open(restored, vault=vault, key=key, worker="off") as memory:
        assert seen(memory) == []


def test_the_doctor_of_an_encrypted_database(tmp_path):
    """It is looked at with its vault and key, and nothing is written to it."""
    vault, key, url = f"sqlite:///{tmp_path}/vault.db", os.urandom(32), f"sqlite:///{tmp_path}/a.db"
    talk(url, vault, key)
    before = (tmp_path / "a.db").read_bytes()
    with novelo.open(url, vault=vault, key=key, read_only=True, worker="off") as memory:
        found = memory.doctor(deep=True)
    assert found.findings == []
    assert found.looked_at == 1
    assert (tmp_path / "a.db").read_bytes() == before
