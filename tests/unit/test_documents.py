"""Collections of documents: files in, passages out."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time

import anyio
import anyio.from_thread
import pytest

import novelo
import novelo.aio
from fix_documents import Meaning, docx, pdf
from novelo.documents import Progress
from novelo.errors import ImportFailed, IndexMismatch, InvalidSpec, MissingExtra, UnknownEntry

FAQ = (
    '{"question": "Como pagar?", "answer": "Com Pix ou cartão."}\n{"question": "E a troca?", "answer": "Sete dias."}\n'
)


@pytest.fixture
def folder(tmp_path):
    """A folder of documents of all kinds."""
    made = tmp_path / "docs"
    (made / "sub").mkdir(parents=True)
    (made / "guia.md").write_text("# Guia\n\n## Reembolsos\nO reembolso leva dez dias úteis.\n\n## Frete\nGrátis.\n")
    (made / "sub" / "nota.txt").write_text("A garantia vale um ano.")
    (made / "faq.jsonl").write_text(FAQ)
    (made / "pagina.html").write_text("<title>Loja</title><h1>Horário</h1><p>Das nove às seis.</p>")
    (made / "manual.pdf").write_bytes(pdf("O manual da balança."))
    (made / "carta.docx").write_bytes(docx(lambda d: d.add_paragraph("Prezada cliente, a fatura vence amanhã.")))
    (made / "foto.png").write_bytes(b"\x89PNG")
    (made / ".git").mkdir()
    (made / ".git" / "x.md").write_text("segredo")
    return made


def texts(found):
    """Texts of passages."""
    return [one["text"] for one in found]


def test_a_folder_goes_in_and_is_found(memory, folder):
    """Files of every kind are found by words with other endings and without accents, with heading and source."""
    docs = memory.documents(embedder=None)
    seen = []
    done = docs.ingest(folder, seen.append)
    assert sorted(done.added) == ["carta.docx", "faq.jsonl", "guia.md", "manual.pdf", "pagina.html", "sub/nota.txt"]
    assert (done.bad, done.others, done.chunks) == ({}, 1, 8)
    assert [(p.stage, p.done, p.total) for p in seen] == [("read", i, 6) for i in range(1, 7)]
    (best, *_) = docs.search("reembolsos")
    assert best["text"] == "O reembolso leva dez dias úteis."
    assert (best["title"], best["section"], best["source"]) == ("Guia", "Reembolsos", "guia.md")
    assert best["score"] > 0
    for question, source in (
        ("garantias", "sub/nota.txt"), ("horario", "pagina.html"), ("balanca", "manual.pdf"), ("faturas", "carta.docx"),
        ("cartao", "faq.jsonl"), ("GRATIS", "guia.md"),
    ):  # fmt: skip
        assert docs.search(question)[0]["source"] == source, question
    assert texts(docs.show("faq.jsonl")) == ["Como pagar?\nCom Pix ou cartão.", "E a troca?\nSete dias."]
    assert docs.search("manual")[0]["page"] == 1
    assert [s.source for s in docs.list()] == sorted(done.added) and docs.search("segredo") == []


def test_only_what_changed_is_read_again(memory, folder):
    """Unchanged files are skipped, changed ones replaced, and those that are gone from the folder go."""
    docs = memory.documents(embedder=None)
    docs.ingest(folder)
    (folder / "guia.md").write_text("# Guia\nAgora são vinte dias.\n")
    (folder / "sub" / "nota.txt").unlink()
    (folder / "novo.md").write_text("Cupom de desconto.")
    done = docs.ingest(folder)
    assert (done.added, done.changed, done.removed) == (("novo.md",), ("guia.md",), ("sub/nota.txt",))
    assert len(done.same) == 4 and done.chunks == 2
    assert docs.search("reembolso") == docs.search("garantia") == [] and docs.search("vinte")
    again = docs.ingest([folder, folder / "guia.md"])
    assert len(again.same) == 6 and not again.added + again.changed + again.removed


def test_only_the_named_folder_loses_files(memory, folder, tmp_path):
    """A file of another folder, one that was put in by itself, and passages of the caller's stay."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "guia.md").write_text("Outro guia, de bicicletas.")
    docs = memory.documents(embedder=None)
    docs.ingest([folder, other])
    docs.add([{"text": "Uma nota solta.", "source": "nota"}])
    assert docs.search("bicicleta")[0]["source"] == str(other / "guia.md")
    for path in folder.glob("*.md"):
        path.unlink()
    assert docs.ingest(folder).removed == ("guia.md",)
    assert docs.search("bicicleta") and docs.search("solta")
    (other / "guia.md").unlink()
    done = docs.ingest(other / "guia.md")
    assert list(done.bad.values()) == ["there is no such file"] and docs.search("bicicleta")


def test_bad_files_are_told_and_the_rest_goes_in(memory, folder):
    """Empty, binary, encrypted, without text, too large, links and pipes: each is told by its path."""
    (folder / "empty.md").write_text("")
    (folder / "binary.txt").write_bytes(b"\0\1\2" * 50)
    (folder / "locked.pdf").write_bytes(pdf("x", password="secret"))
    (folder / "scan.pdf").write_bytes(pdf(""))
    with open(folder / "huge.txt", "wb") as file:
        file.truncate(500_000_000)
    os.mkfifo(folder / "pipe.txt")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "gone.md").symlink_to("nowhere.md")
    (folder / "up").symlink_to("..", target_is_directory=True)
    (folder / "self").symlink_to(".", target_is_directory=True)
    (folder / "sub" / "back").symlink_to("../sub", target_is_directory=True)
    (folder / "a twin.md").symlink_to("guia.md")
    (folder / "a sub").symlink_to("sub", target_is_directory=True)
    (folder.parent / "outside.md").write_text("fora")
    (folder / "out.md").symlink_to("../outside.md")
    docs = memory.documents(embedder=None)
    done = docs.ingest([folder, folder / "not there"])
    said = {os.path.relpath(path, folder): what for path, what in done.bad.items()}
    assert {name: what.split(":")[0].split(",")[0] for name, what in said.items()} == {
        "empty.md": "an empty file", "binary.txt": "a binary file", "locked.pdf": "an encrypted PDF",
        "scan.pdf": "a PDF without text", "huge.txt": "500 MB", "pipe.txt": "no regular file",
        "loop.md": "a link that leads in a circle", "gone.md": "there is no such file",
        "up": "a link that leads out of the folder", "self": "a link that leads back",
        "sub/back": "a link that leads back", "out.md": "a link that leads out of the folder",
        "not there": "there is no such file",
    }  # fmt: skip
    assert "at most 50 MB are read" in said["huge.txt"]
    assert len(done.added) == 6 and docs.search("reembolso")
    assert {"guia.md", "sub/nota.txt"} <= set(done.added)  # under their own names, whatever leads there
    assert docs.ingest(folder, max_bytes=10).bad[str(folder / "guia.md")].endswith("what the index has of it stays")
    assert docs.search("reembolso")


def test_names_of_files_are_printable(memory, tmp_path):
    """A name with line ends, orders for a terminal, or bytes that are no text is written without them."""
    for name in (b"a\nb.md", b"a\x1bb.md", b"a\xffb.md"):
        (tmp_path / os.fsdecode(name)).write_text("O pix cai na hora.")
    docs = memory.documents(embedder=None)
    assert len(docs.ingest(tmp_path).added) == 3 and len(docs.ingest(tmp_path).same) == 3
    assert [s.source.replace(str(tmp_path), "") for s in docs.list()].count("a\N{REPLACEMENT CHARACTER}b.md") == 1


def test_a_file_that_went_bad_keeps_its_place(memory, folder):
    """A file that cannot be read any more is told, and what the index has of it stays."""
    docs = memory.documents(embedder=None)
    docs.ingest(folder)
    (folder / "manual.pdf").write_bytes(b"%PDF broken")
    done = docs.ingest(folder)
    assert "what the index has of it stays" in done.bad[str(folder / "manual.pdf")] and not done.removed
    assert docs.search("balança")


def test_owners_and_names_are_apart(memory, folder):
    """A collection is found by its owner and its name alone, and goes with its owner."""
    memory.documents("faq", owner="ana", embedder=None).ingest(folder)
    for other in (memory.documents("faq", owner="rui"), memory.documents("faq"), memory.documents(owner="ana")):
        assert other.search("reembolso") == other.list() == [] and other.row is None
        with pytest.raises(UnknownEntry):
            other.show("guia.md")
    memory.documents("faq", owner="rui", embedder=None).add(["Nada demais."])
    assert [(row.owner, row.sources) for row in memory.collections()] == [("ana", 6), ("rui", 1)]
    assert [receipt.rows.get("chunks") for receipt in memory.erase_owner("ana")] == [
        8,
        None,
    ]  # the collection, the owner
    assert [row.owner for row in memory.collections()] == ["rui"]


def test_removing(memory, folder):
    """A source, or all of a folder, goes; what is not there is told with what is."""
    docs = memory.documents(embedder=None)
    docs.ingest(folder)
    assert docs.remove("guia.md") == docs.remove("sub/") == 1 and docs.search("reembolso garantia") == []
    with pytest.raises(UnknownEntry, match=r"there are carta\.docx, faq\.jsonl"):
        docs.remove("guia.md")
    assert docs.erase()["sources"] == 4 and docs.row is None
    with pytest.raises(UnknownEntry, match="the collection is empty"):
        docs.show("x")


def test_nothing_of_what_was_removed_is_in_the_file(tmp_path, folder):
    """Text, heading, source and words of a removed or replaced document are in no file of the database."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db") as memory:
        docs = memory.documents(embedder=Meaning())
        docs.ingest(folder, vectors="now")
        (folder / "guia.md").write_text("Só isto.")
        docs.ingest(folder, vectors="now")
        docs.remove("sub/nota.txt")
        docs.add([{"text": "A zarabatana.", "source": "x"}], vectors="now")
        docs.add([{"text": "Nada.", "source": "x"}], vectors="now")
        for path in tmp_path.glob("a.db*"):
            data = path.read_bytes()
            assert not [t for t in (b"reembols", b"garant", b"nota.txt", b"zarab") if t in data.lower()]


def test_passages_of_the_callers(memory):
    """Texts and dicts go in, those of one source together; a wrong one is told and nothing goes in."""
    docs = memory.documents(embedder=None)
    with pytest.raises(ImportFailed, match="passage 1"):
        docs.add(["certo", {"no": "text"}])
    for wrong in ("um texto", {"text": "certo"}):
        with pytest.raises(InvalidSpec, match="expected a list"):
            docs.add(wrong)
    for wrong in (None, 5, b"/x", [5]):
        with pytest.raises(InvalidSpec, match="path"):
            docs.ingest(wrong)
    assert docs.ingest("a\0b").bad and docs.row is None
    made = [{"text": "Um guia.", "source": "g", "title": "Guia"}, {"text": "Outra parte.", "source": "g"}, "Solta."]
    assert docs.add(made) == 3
    assert next((s.source, s.chunks) for s in docs.list()) == ("g", 2) and docs.row.sources == 2
    docs.add([{"text": "Só um.", "source": "g"}])
    assert texts(docs.show("g")) == ["Só um."]


def test_queries_with_weights(memory):
    """Several questions are searched at once; a weight decides between them, and equal texts come once."""
    docs = memory.documents(embedder=None)
    docs.add(["O pix cai na hora.", "O boleto leva dois dias.", {"text": "O pix cai na hora.", "source": "copy"}])
    assert texts(docs.search([("pix", 1.0), ("boleto", 0.1)]))[0] == "O pix cai na hora."
    assert texts(docs.search([("pix", 0.1), ("boleto", 1.0)]))[0] == "O boleto leva dois dias."
    assert len(docs.search(["pix", "boleto"])) == 2
    for wrong in (
        [("pix", -1.0)], [("pix",)], [7], [("pix", "much")], None, 5, {"pix": 1.0}, [("pix", math.nan)],
        [("pix", math.inf)],
    ):  # fmt: skip
        with pytest.raises(InvalidSpec):
            docs.search(wrong)
    for limit in (0, 1001, 2.5, "3"):
        with pytest.raises(InvalidSpec):
            docs.search("pix", limit)


def test_copies_take_no_other_passage_s_place(memory, meaning):
    """What a hundred sources say comes once, by words and by both, and as many others as were asked for behind it."""
    docs = memory.documents(embedder=meaning)
    docs.add([{"text": "O pix cai na hora, na hora.", "source": f"{n}.md"} for n in range(100)])
    docs.add([f"Depois de {n} dias, a hora do pix de número {n} passa na conta." for n in range(4)])
    docs.embed()
    for keyword_only in (True, False):
        found = texts(docs.search("pix na hora", 3, keyword_only))
        assert len(found) == len(set(found)) == 3 and found[0] == "O pix cai na hora, na hora."


def test_more_copies_than_are_scored_hide_nothing(memory, meaning):
    """Of five hundred equal passages one is found, and behind it what they would crowd out, by words and by both."""
    docs = memory.documents(embedder=meaning)
    docs.add([{"text": "O pix cai na hora, na hora.", "source": f"{n}.md"} for n in range(500)], vectors="later")
    docs.add([f"Depois de {n} dias, a hora do pix de número {n} passa na conta." for n in range(4)], vectors="later")
    for keyword_only in (True, False):
        found = texts(docs.search("pix na hora", 3, keyword_only))
        assert len(found) == len(set(found)) == 3 and found[0] == "O pix cai na hora, na hora."
        docs.embed()


@pytest.mark.parametrize(
    "question", ["", "   ", "😀👍🎉", "?!", "de a o", "x" * 100_000, "pix " * 25_000, "\ud800", "भुगतान कैसे करें", "\0"]
)
def test_odd_questions_find_nothing_wrong(memory, question, meaning):
    """Empty, long, of emoji alone, of empty words, in a third language, half a sign: no error, by words and by both."""
    docs = memory.documents(embedder=meaning)
    docs.add(["O pix cai na hora.", "O boleto leva dois dias."], vectors="now")
    found = docs.search(question, keyword_only=True)
    assert texts(found) == (["O pix cai na hora."] if question.startswith("pix") else [])
    assert len(docs.search(question)) == (2 if question.strip() else 0)


# ------------------------------------------------------------------------------------------------ meaning
def test_meaning_finds_what_words_do_not(memory, meaning):
    """A question with none of the text's words finds it once the vectors are there, and before by its words."""
    docs = memory.documents(embedder=meaning)
    docs.add(["Aceitamos pix.", "Devolver em sete dias.", "A loja abre cedo."], vectors="later")
    assert docs.search("trocar") == [] and docs.search("pix")
    progress = []
    assert docs.embed(progress.append) == 3 and docs.embed() == 0
    assert progress == [Progress("embed", 3, 3, seconds=progress[0].seconds)] and progress[0].rate > 0
    (best, *_) = docs.search("trocar")
    assert best["text"] == "Devolver em sete dias." and best["cosine"] > 0.5
    assert docs.search("trocar", keyword_only=True) == []
    assert docs.search([("dinheiro", 1.0), ("trocar", 0.1)])[0]["text"] == "Aceitamos pix."


def test_vectors_are_those_of_what_is_there(memory, meaning):
    """What was replaced, removed or added after a search is searched as it is now."""
    docs = memory.documents(embedder=meaning)
    docs.add([{"text": f"Nota {i} sobre a loja.", "source": f"s{i}"} for i in range(40)], vectors="now")
    docs.search("pagar")
    docs.add([{"text": "Aceitamos dinheiro.", "source": "s3"}], vectors="now")
    assert docs.search("pagar")[0]["source"] == "s3"
    docs.remove("s3")
    assert "s3" not in [p["source"] for p in docs.search("pagar", 50)]
    docs.add([{"text": "Entrega em casa.", "source": "new"}], vectors="later")
    assert docs.search("casa")[0]["source"] == "new"  # it has no vector yet
    docs.embed()
    assert docs.search("frete")[0]["source"] == "new"
    docs.erase()
    assert docs.search("frete") == []


def test_few_vectors_do_not_push_words_aside(memory, meaning):
    """While few passages have a vector, one that the words found stays before one that only happens to have one."""
    docs = memory.documents(embedder=meaning)
    docs.add([{"text": "Aceitamos dinheiro e pix.", "source": "early"}, *(f"Nota {i}." for i in range(3))])
    assert memory.indexes.wait(20)
    docs.add([f"Outra coisa {i}." for i in range(60)], vectors="later")
    docs.add([f"Pagar no balcão {i}." for i in range(6)], vectors="later")
    assert docs.row.vectors == 4
    assert all(text.startswith("Pagar") for text in texts(docs.search("pagar")))


def test_vectors_come_behind(memory, meaning):
    """`ingest` returns before the vectors are made; they come in a thread, also those of what came meanwhile."""
    gate, inner = threading.Event(), meaning.passages
    meaning.passages = lambda given: (gate.wait(20), inner(given))[1]
    docs = memory.documents(embedder=meaning)
    docs.add(["Aceitamos pix."])
    assert docs.search("pix") and docs.row.vectors == 0
    docs.add(["Devolver em sete dias."])
    gate.set()
    assert memory.indexes.wait(20) and docs.row.vectors == 2
    assert docs.search("trocar")[0]["text"] == "Devolver em sete dias."


def test_embedding_goes_on_where_it_was_stopped(memory, meaning):
    """A stop, or a crash in the middle, loses no vector that was written; the next one makes only what is missing."""
    docs = memory.documents(embedder=meaning)
    docs.add([f"Nota {i}." for i in range(50)], vectors="later")
    stop = threading.Event()
    made = docs.embed(lambda _: stop.set(), stop=stop)
    assert 0 < made < 50 and docs.row.vectors == made

    def killed(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        docs.embed(killed)
    before = docs.row.vectors
    assert made < before < 50
    meaning.texts.clear()
    assert docs.embed() == 50 - before == len(meaning.texts) and docs.row.vectors == 50


def test_another_model_is_a_clear_error(memory, meaning):
    """Vectors of another model are neither compared nor mixed; the error names the command, and words still work."""
    memory.documents("faq", embedder=meaning).add(["Aceitamos pix."], vectors="now")
    other = memory.documents("faq", embedder=Meaning("other", 9))
    with pytest.raises(IndexMismatch, match="novelo docs embed --rebuild --collection 'faq'") as caught:
        other.search("pix")
    assert (caught.value.found, caught.value.wanted) == ("meaning", "other")
    with pytest.raises(IndexMismatch):
        other.embed()
    assert other.search("pix", keyword_only=True)
    assert other.embed(rebuild=True) == 1 and other.search("pagar")
    with pytest.raises(IndexMismatch):
        memory.documents("faq", embedder=meaning).search("pix")


def test_without_an_embedder_words_work_and_it_is_told_once(memory, meaning, caplog):
    """Without the extra a search by words goes on, and says so once in the life of a memory."""
    docs = memory.documents(embedder=None)
    docs.add(["Aceitamos pix."])
    docs.add(["Sete dias."])
    memory.documents(embedder=meaning).embed()
    assert docs.search("pix") and docs.search("dinheiro") == []
    assert [r.message for r in caplog.records if "novelo[rag]" in r.message] == [caplog.records[0].message]
    with pytest.raises(InvalidSpec, match=r"novelo\[rag\]"):
        docs.embed()
    with pytest.raises(InvalidSpec):
        memory.documents(embedder="word2vec")
    with pytest.raises(InvalidSpec, match="vectors="):
        docs.ingest([], vectors="soon")


def test_a_missing_reader_is_told_by_file(memory, folder, monkeypatch):
    """Without the extra's readers their files are told, and the others go in."""

    def missing(name):
        if name.endswith((".pdf", ".docx", ".html")):
            raise MissingExtra("reading it needs the extra: pip install 'novelo[rag]'")
        return original(name)

    import novelo.retrievers.readers as readers

    original = readers.import_module
    monkeypatch.setattr(readers, "import_module", missing)
    done = memory.documents(embedder=None).ingest(folder)
    assert len(done.added) == 3 and all("novelo[rag]" in what for what in done.bad.values()) and len(done.bad) == 3


def test_an_embedder_that_fails_is_told(memory, meaning, caplog):
    """What an embedder raises in the thread behind is told once, in its kind alone, and the next one tries again."""
    inner = meaning.passages
    meaning.passages = lambda given: 1 / 0
    docs = memory.documents("faq", embedder=meaning)
    docs.add(["Aceitamos pix."])
    assert memory.indexes.wait(20) and docs.row.vectors == 0 and docs.search("pix")
    assert "vectors of collection 'faq' were not made: ZeroDivisionError" in caplog.text
    meaning.passages = inner
    docs.add(["Devolver em sete dias."])
    assert memory.indexes.wait(20) and docs.row.vectors == 2


def test_searches_go_on_beside_changes(memory, meaning):
    """Searches in several threads while passages come and go find what stays there, always."""
    docs = memory.documents(embedder=meaning)
    docs.add([{"text": f"Devolver a nota {i}.", "source": f"s{i}"} for i in range(30)], vectors="now")
    docs.add([{"text": "Aceitamos dinheiro.", "source": "stays"}], vectors="now")
    stop, wrong = threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                if docs.search("pagar com pix")[0]["source"] != "stays":
                    wrong.append("another one")
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(20):
        docs.remove(f"s{i}")
        docs.add([{"text": f"Entrega número {i}.", "source": f"n{i}"}], vectors="now")
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_handles_and_processes_share_a_collection(tmp_path, folder, meaning):
    """What another memory on the same file puts in is found, its vectors too."""
    url = f"sqlite:///{tmp_path}/a.db"
    with novelo.open(url, clear_documents=True) as one, novelo.open(url, clear_documents=True) as two:
        mine, theirs = (memory.documents(embedder=meaning) for memory in (one, two))
        mine.add(["Aceitamos pix."], vectors="now")
        assert theirs.search("dinheiro")
        theirs.add(["Devolver em sete dias."], vectors="now")
        assert mine.search("trocar")[0]["text"] == "Devolver em sete dias."
        theirs.erase()
        assert mine.search("pix") == []


def test_a_cancelled_embedding_ends_soon(memory, meaning):
    """A cancellation, anyio's or asyncio's, ends the making of vectors after those at hand, and loses none."""
    inner = meaning.passages
    meaning.passages = lambda given: (time.sleep(0.02), inner(given))[1]
    docs = novelo.aio.AsyncMemory(memory).documents(embedder=meaning)
    docs._inner.add([f"Nota {i}." for i in range(4000)], vectors="later")

    async def by_scope():
        with anyio.move_on_after(0.1):
            await docs.embed()

    async def by_task():
        task = asyncio.create_task(docs.embed())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for work in (by_scope, by_task):
        before = docs._inner.row.vectors
        anyio.run(work)
        assert before < docs._inner.row.vectors < 4000


def test_a_cancelled_ingest_ends_soon(memory, tmp_path):
    """A cancellation ends the reading behind the file at hand; what was read is there, the next one reads the rest."""
    for n in range(300):
        (tmp_path / f"{n}.txt").write_text("O pix cai na hora.")
    docs, seen = novelo.aio.AsyncMemory(memory).documents(embedder=None), []

    async def cancelled():
        with anyio.CancelScope() as scope:

            def told(progress):
                seen.append(progress.name)
                if len(seen) == 3:
                    anyio.from_thread.run_sync(scope.cancel)

            await docs.ingest(tmp_path, told)

    anyio.run(cancelled)
    there = len(memory.documents(embedder=None).list())
    assert 3 <= there == len(seen) < 300
    done = anyio.run(docs.ingest, tmp_path)
    assert (len(done.same), len(done.added)) == (there, 300 - there)


def test_awaited(url, folder, meaning):
    """The same names, awaited."""

    async def work():
        async with novelo.open_async(url, clear_documents=True) as memory:
            docs = memory.documents("faq", owner="ana", embedder=meaning)
            assert len((await docs.ingest([folder], vectors="now")).added) == 6
            assert (await docs.search("reembolsos", limit=1))[0]["source"] == "guia.md"
            assert len(await docs.list()) == 6 and await docs.show("guia.md")
            assert await docs.remove("guia.md") == 1
            assert [row.name for row in await memory.collections("ana")] == ["faq"]

    anyio.run(work)


def test_one_time_to_wait_for_all(memory, monkeypatch):
    """Closing waits so long in all, and not so long for each of the collections whose embedder hangs."""
    now, given = [0.0], []

    class Stuck:
        def join(self, timeout_s):
            given.append(timeout_s)
            now[0] += timeout_s

        def is_alive(self):
            return True

    monkeypatch.setattr("novelo.indexes.time.monotonic", lambda: now[0])
    memory.indexes._threads.update({bytes([n]): Stuck() for n in range(3)})
    assert memory.indexes.wait(5.0) is False and given == [5.0, 0.0, 0.0]
    memory.indexes._threads.clear()
