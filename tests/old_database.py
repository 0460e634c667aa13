"""Write a database of this version as SQL text, for tests/stores/fixtures/schemaN.sql: `python tests/old_database.py`.

Run it once when a schema is released, before it is changed: the dump shows for ever that such a database can be read.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import apsw.shell

import novelo


def fill(memory):
    """A little of everything that is kept."""
    thread = memory.thread("viagem", owner="ana")
    thread.append([{"role": "system", "content": "Sê gentil."}, {"role": "assistant", "content": "Olá!"}])
    with thread.turn("可以退货吗?", key="k1") as turn:
        turn.state["lang"] = "zh"
        turn.messages()
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
        turn.add({"role": "assistant", "content": None, "tool_calls": [call]})
        turn.add_tool_result("c1", "sim")
        turn.reply("可以。")
    thread.title, thread.tags, thread.metadata = "Devolução", ["loja", "zh"], {"n": 1}
    thread.pin(2)
    fork = thread.fork(at=3, thread_id="outra")
    with fork.turn("e depois?") as turn:
        turn.reply("Já foi concluído.")
    fork.hide(1)
    fork.delete(4)
    memory.thread("gone", owner="ana").append("adeus")
    memory.thread("gone", owner="ana").erase()


def content(memory):
    """All of it as plain values."""
    out = []
    for row in sorted(memory.threads(), key=lambda row: row.thread_id):
        thread = memory.thread(row.thread_id, owner=row.owner)
        entries = [[e.position, e.role, e.text, [c.name for c in e.message.tool_calls], e.turn, e.tokens, e.hidden,
                    e.deleted] for e in thread]  # fmt: skip
        turns = [[t.first, t.last, t.status, t.key, t.manifest is not None] for t in thread.turns()]
        facts = [row.owner, row.thread_id, row.title, list(row.tags), row.metadata, row.opening, row.fork_at]
        found = [h.text for words in ("退货", "concluido", "ola") for h in thread.search(words)]
        out.append([facts, entries, turns, dict(thread.state), memory.store.pins(thread.key), found,
                    [[c.input, c.output, c.estimated] for c in thread.usage()]])  # fmt: skip
    return out


def main():
    """Print the dump."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with novelo.open(f"sqlite:///{path}") as memory:
            fill(memory)
        out = io.StringIO()
        apsw.shell.Shell(stdout=out, args=[str(path), ".dump"]).process_args([str(path), ".dump"])
        lines = out.getvalue().splitlines()
        sys.stdout.write("\n".join(line for line in lines if not line.startswith("--")) + "\n")


if __name__ == "__main__":
    main()
