"""Lists and searches over many threads when a row of one is damaged, for every store."""

from __future__ import annotations

import subprocess
import sys

import pytest

import novelo
from novelo.errors import StorageCorrupt

DAMAGE = {
    "counts": "UPDATE threads SET head = head + 1 WHERE thread = ?",
    "facts": "UPDATE threads SET title = 'lie' WHERE thread = ?",
    "text that is none": "UPDATE threads SET title = CAST(x'ff' AS TEXT) WHERE thread = ?",
    "entry": "UPDATE entries SET running = running + 1 WHERE thread = ? AND position = 0",
    "entry that is no text": "UPDATE entries SET id = CAST(x'ff' AS TEXT) WHERE thread = ? AND position = 0",
}


def filled(memory):
    """Three threads of two owners that all speak of a parcel."""
    for name, owner in (("a", ""), ("b", ""), ("c", "other")):
        with memory.thread(name, owner=owner).turn(f"where is parcel {name}") as turn:
            turn.reply("on its way")


def damage(memory, name, statement):
    """Alter a row of a thread in the file; False where nothing can be altered, since nothing is kept as bytes."""
    database = getattr(memory.store, "database", None)
    if database is None:
        return False
    key = memory.store.key_of("", name)
    with database.reading() as connection:
        if not hasattr(connection, "execute"):  # a server's rows have no seal over counts, and no text that is none
            if statement not in (DAMAGE["facts"], DAMAGE["entry"]):
                return False
            from novelo.stores.postgres.texts import in_schema

            connection.connection.execute(in_schema(statement.replace("?", "$1"), connection.schema), (key,))
        else:
            connection.execute(statement, (key,))
    return True


def ids(found):
    """Thread ids in order of names."""
    return sorted(row.thread_id for row in found)


def test_nothing_is_left_out_of_whole_threads(memory):
    """Lists and searches, also empty ones, say that nothing was left out."""
    filled(memory)
    for found in (memory.threads(), memory.threads(search="parcel"), memory.search("parcel"), memory.search("?")):
        assert found.damaged == []
    assert ids(memory.threads(search="parcel")) == ids(memory.search("parcel")) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("indexed", [True, False])
def test_lists_and_searches_go_on_without_a_damaged_row(url, kind, indexed):
    """What was altered is left out of lists and searches and told of; that thread's own reader gets StorageCorrupt."""
    with novelo.open(url, search=indexed) as memory:
        filled(memory)
        if not damage(memory, "b", DAMAGE[kind]):
            pytest.skip("this store keeps no bytes")
        rows, hits = memory.threads(), memory.search("parcel")
        in_row = kind in ("counts", "facts", "text that is none")
        assert ids(rows) == (["a", "c"] if in_row else ["a", "b", "c"])
        assert len(rows.damaged) == in_row
        assert ids(hits) == ["a", "c"]
        assert len(hits.damaged) == 1
        assert ids(memory.threads(search="parcel")) == ["a", "c"]
        assert len(memory.threads(search="parcel").damaged) == 1
        assert ids(memory.search("parcel", owner="other")) == ["c"]
        assert memory.search("parcel", owner="other").damaged == []
        for read in (memory.thread("b").messages, lambda: memory.thread("b").search("parcel")):
            with pytest.raises(StorageCorrupt):
                read()


def test_pages_go_past_a_damaged_row(memory):
    """Page after page, each whole thread comes once, and the damaged one is told of."""
    for k in range(7):
        with memory.thread(f"t{k}").turn("x") as turn:
            turn.reply("y")
    if not damage(memory, "t3", DAMAGE["facts"]):
        pytest.skip("this store keeps no bytes")
    seen, damaged, cursor = [], set(), None
    while True:
        page = memory.threads(limit=2, cursor=cursor)
        seen += ids(page)
        damaged |= set(page.damaged)
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(seen) == ["t0", "t1", "t2", "t4", "t5", "t6"]
    assert len(damaged) == 1


def test_erasing_an_owner_says_what_it_could_not(memory):
    """All threads of an owner that can be read are erased, and the error names the one that cannot."""
    filled(memory)
    if not damage(memory, "b", DAMAGE["facts"]):
        pytest.skip("this store keeps no bytes")
    with pytest.raises(StorageCorrupt, match="1 threads erased, 1 not") as caught:
        memory.erase_owner("")
    assert caught.value.receipts.threads == 1
    assert memory.thread("a").row is None
    assert ids(memory.threads()) == ["c"]


def test_the_command_line_tells_on_stderr(file_memory, tmp_path):
    """`novelo threads` and `novelo search` print what is whole, and say on stderr what was left out."""
    filled(file_memory)
    damage(file_memory, "b", DAMAGE["facts"])
    for words in (["threads"], ["search", "parcel"]):
        ran = subprocess.run(
            [sys.executable, "-m", "novelo", *words, "-d", str(tmp_path / "chat.db"), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert '"a"' in ran.stdout and '"b"' not in ran.stdout
        assert "left out: " in ran.stderr and "restore a backup" in ran.stderr
