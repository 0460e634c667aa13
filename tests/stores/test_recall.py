"""Older turns come back when a question is about them: in every store, by words and meaning, and never what is gone."""

from __future__ import annotations

import numpy as np
import pytest

import novelo
from fix_stores import URLS, address
from novelo.retrievers.vectors import of_length_one
from novelo.stores.base import Work
from novelo.stores.search import indexed_words
from novelo.words import kin

TOPICS = ("um tapete azul", "o prazo da entrega", "a senha do portal", "um curso de violão", "a conta de luz")
ASKED = "Como se chamava a minha gata?"


class Meanings:
    """An embedder that knows two things: cats, and all the rest by its letters; it notes what it was given."""

    name, size = "meanings", 8

    def __init__(self):
        self.read = []

    def _vectors(self, texts):
        rows = np.random.default_rng(7).normal(size=(len(texts), self.size))
        for row, text in zip(rows, texts, strict=True):
            if "felin" in text or "gata" in text:
                row[:] = [9, 0, 0, 0, 0, 0, 0, 0]
        return of_length_one(rows)

    def queries(self, texts):
        """Vectors of questions."""
        return self._vectors(texts)

    def passages(self, texts):
        """Vectors of messages."""
        self.read += texts
        return self._vectors(texts)


@pytest.fixture(params=list(URLS))
def embedding(request, tmp_path):
    """A memory of each kind with an embedder, whose jobs are done when the test says so."""
    url = address(request, tmp_path)
    with novelo.open(url, embedder=Meanings(), worker="off", policy="window:2turns + recall:2") as opened:
        yield opened


def talk(thread, secret="Minha gata se chama Filó.", at=2, turns=12):
    """A thread of many turns; one of them says something that is asked for later."""
    for n in range(turns):
        topic = TOPICS[n % len(TOPICS)]
        asked = secret if n == at else f"Quero falar sobre {topic}."
        thread.append([{"role": "user", "content": asked}, {"role": "assistant", "content": f"Certo, número {n}."}])


def kept(context):
    """The texts of a context."""
    return [m["content"] for m in context.messages()]


# ------------------------------------------------------------------------------------------------ by words
def test_a_turn_that_the_window_lost_comes_back_whole(memory):
    """The question and its answer stand before the window, in their order, and the manifest says why."""
    thread = memory.thread("t")
    talk(thread)
    context = thread.context(ASKED, policy="window:3turns + recall:1")
    assert kept(context) == [
        "Minha gata se chama Filó.", "Certo, número 2.", "Quero falar sobre um tapete azul.", "Certo, número 10.",
        "Quero falar sobre o prazo da entrega.", "Certo, número 11.", ASKED,
    ]  # fmt: skip
    assert [position for position, _ in context.manifest.recalled] == [4]
    assert "recalled: the turn at 4 (score" in context.explain()


def test_what_is_hidden_or_gone_is_not_recalled(memory):
    """Neither by the context nor by the search behind it; what was masked is not found by its former words."""
    for change in ("hide", "delete", "redact"):
        thread = memory.thread(change)
        talk(thread)
        assert thread.recall("gata")[0].entry.position == 4
        getattr(thread, change)(4)
        assert all(hit.entry.position != 4 for hit in thread.recall("gata"))
        assert "Filó" not in str(kept(thread.context(ASKED, policy="window:2turns + recall:3")))
    thread = memory.thread("hide")
    thread.unhide(4)
    assert thread.recall("gata")[0].entry.position == 4


def test_a_fork_recalls_what_it_shares_and_no_more(memory):
    """What the parent said later is not its own; what it shares is, also after the parent was erased and left it."""
    thread = memory.thread("t")
    talk(thread)
    fork = thread.fork(at=10, thread_id="f")
    thread.append([{"role": "user", "content": "Outra gata: Mimi."}])
    fork.append([{"role": "user", "content": "Boa noite."}])
    assert fork.recall("gata")[0].entry.position == 4
    assert "Mimi" not in str([hit.text for hit in fork.recall("gata", 50)])
    thread.erase(forks="keep")
    assert fork.recall("gata")[0].text == "Minha gata se chama Filó."


def test_nothing_of_other_threads_or_owners_is_recalled(memory):
    """Equal words in another thread, or under another owner, are nobody else's."""
    talk(memory.thread("t", owner="ana"))
    talk(memory.thread("t", owner="bia"), secret="Meu cão se chama Rex.")
    talk(memory.thread("u", owner="ana"), secret="Meu cão se chama Rex.")
    assert "Filó" not in str(memory.thread("t", owner="bia").recall("gata", 100))
    assert "Filó" not in str(memory.thread("u", owner="ana").recall("gata", 100))


def test_words_are_found_with_other_endings_and_without_accents(memory):
    """A singular is found by its plural, a word with accents by one without, Chinese by its pairs."""
    thread = memory.thread("t")
    talk(thread, secret="Pedi o reembolso; a devolução foi na terça. 可以退货吗")
    for question in ("reembolsos?", "devolucao", "devoluções", "退货"):
        assert thread.recall(question)[0].entry.position == 4, question


def test_a_named_speaker_is_found_by_name(memory):
    """Of two who said the same the one who is named comes first; no ordinary search finds a speaker's mark."""
    thread = memory.thread("t")
    talk(thread)
    said = [{"role": "user", "content": "Comprei um violino novo.", "name": name} for name in ("Ana", "Rui")]
    for message in said:
        thread.append([message, *[{"role": "assistant", "content": "Certo, ouvi bem."}] * 4])
    for name in ("Ana", "Rui"):
        assert thread.recall(f"O violino novo de {name}?")[0].entry.message.name == name
    assert memory.search("nana") == [] and memory.search("§nana") == []


def test_the_word_list_of_a_store_is_asked_for_kin(hand):
    """`holding` tells positions below one, of words that begin so and pass the test, and none that are hidden."""
    if not hand.store.indexed:
        pytest.skip("an encrypted store has no index of words")
    hand.add("estudos", "estudar", "estudo", "estupendo")
    assert sorted(hand.store.holding(hand.row, *kin("estudos"), 10, 9)) == [0, 1, 2]
    assert sorted(hand.store.holding(hand.row, *kin("estudos"), 2, 9)) == [0, 1]
    assert hand.store.holding(hand.row, *kin("estudos"), 10, 1) == [2]
    hand.store.hide(hand.key, [(1, 2)], True, hand.now)
    assert sorted(hand.store.holding(hand.row, *kin("estudos"), 10, 9)) == [0, 2]
    assert hand.store.holding(hand.row, *kin("nada"), 10, 9) == []


def test_numbered_words_hide_no_others(hand):
    """Thousands of words that begin alike and end in numbers are each found, and stand before no other one."""
    if not hand.store.indexed:
        pytest.skip("an encrypted store has no index of words")
    many = [" ".join(f"pedido{n:04}" for n in range(k, k + 300)) for k in range(0, 2400, 300)]
    hand.add("meu pedido", *many, "os pedidos de hoje")
    for _ in range(8):
        hand.add(*["nada"] * 8)  # nothing waits for the full-text index any more
    assert sorted(hand.store.holding(hand.row, *kin("pedidos"), 99, 9)) == [0, 9]
    assert hand.store.holding(hand.row, *kin("pedido2399"), 99, 9) == [8]
    assert hand.store.holding(hand.row, *kin("pedido9999"), 99, 9) == []


def test_long_words_hide_no_others(hand):
    """Thousands of names of letters alone that begin like a word stand before none of its other forms."""
    if not hand.store.indexed:
        pytest.skip("there is no index of words")
    letters = "abcdefghijklmno"
    names = [f"reembol{a}{b}{c}chavedeacesso" for a in letters for b in letters for c in letters]
    hand.add("meu reembolso", *(" ".join(names[k : k + 300]) for k in range(0, len(names), 300)), "os reembolsos")
    for _ in range(8):
        hand.add(*["nada"] * 8)  # nothing waits for the full-text index any more
    assert sorted(hand.store.holding(hand.row, *kin("reembolsos"), 99, 9)) == [0, 13]


def test_without_an_index_the_newest_messages_are_looked_through(tmp_path):
    """A store without the search index recalls too."""
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", search=False) as memory:
        thread = memory.thread("t")
        talk(thread)
        assert thread.recall("gata")[0].entry.position == 4
        assert kept(thread.context(ASKED, policy="window:1turn + recall:1"))[0] == "Minha gata se chama Filó."


def test_an_unnamed_message_keeps_its_words():
    """Only where there is a name, and something is said, a speaker's words stand beside the message's."""
    ana = novelo.Message("user", "Olá", name="Ana Lima")
    assert indexed_words(ana) == "ola §nana §nlima"
    assert indexed_words(novelo.Message("user", "Olá")) == "ola"
    assert indexed_words(novelo.Message("user", "", name="Ana")) == ""


# ------------------------------------------------------------------------------------------------ by meaning
def test_a_turn_is_recalled_by_its_meaning(embedding):
    """A question without a word in common finds its turn, once the job has made the vectors."""
    thread = embedding.thread("t")
    talk(thread, secret="Meu felino dorme muito.")
    assert "felino" not in str(kept(thread.context("gata")))
    assert [job.kind for job in embedding.jobs()] == ["embed"]
    assert embedding.work() == (1, 0) and embedding.jobs() == []
    assert thread.recall("gata")[0].entry.position in (4, 5)  # the answer's vector is made from the question, too
    assert "Meu felino dorme muito." in kept(thread.context("gata"))


def test_a_turn_asks_for_its_vectors_in_its_own_transaction(embedding):
    """The job is there with the answer; what the turn said has vectors after it, and is embedded once."""
    thread = embedding.thread("t")
    with thread.turn("Meu felino dorme.") as turn:
        turn.reply("Que bom.")
    assert [job.kind for job in embedding.jobs()] == ["embed"]
    embedding.work()
    assert embedding.embedder.read == ["Meu felino dorme.\nQue bom.", "Meu felino dorme."]
    thread.append("Boa noite.")
    embedding.work()
    assert embedding.embedder.read[2:] == ["Que bom.\nBoa noite."]


@pytest.mark.parametrize("change", ["hide", "delete", "redact"])
def test_a_vector_goes_with_what_it_was_made_from(embedding, change):
    """Its own message's, and that of the next ones, which quote it; the next job makes them anew without it."""
    thread = embedding.thread("t")
    talk(thread, secret="Meu felino dorme muito.")
    embedding.work()
    store, model = embedding.store, embedding.embedder.name
    assert len(store.vectors(thread.row, model, 100)) == 24
    getattr(thread, change)(4)
    assert sorted(set(range(24)) - {p for p, _ in store.vectors(thread.row, model, 100)}) == [4, 5, 6, 7, 8]
    embedding.embedder.read.clear()
    thread.append("Mais uma coisa.")
    embedding.work()
    assert not any("felino" in text for text in embedding.embedder.read)
    assert "felino" not in str([hit.text for hit in thread.recall("gata", 100)])


def test_vectors_made_meanwhile_from_what_changed_are_refused(embedding):
    """A message that is hidden or deleted while the embedder works does not leave its vector behind."""
    thread = embedding.thread("t")
    talk(thread, turns=2)
    store = embedding.store
    row = thread.row
    base = store.base_of(row, row.head)
    thread.hide(0)
    assert not store.put_vectors(thread.key, "m", base, {0: b"\0\0"})
    base = store.base_of(thread.row, row.head)
    thread.delete(1)
    assert not store.put_vectors(thread.key, "m", base, {0: b"\0\0"})
    assert store.vectors(thread.row, "m", 10) == []


def test_vectors_are_erased_and_inherited_with_the_thread(embedding):
    """A fork sees the shared part's vectors, keeps them if the parent leaves them, and loses them if it does not."""
    for forks, left in (("keep", 6), ("erase", 0)):
        thread = embedding.thread(f"t-{forks}")
        talk(thread, turns=5)
        fork = thread.fork(at=6, thread_id=f"f-{forks}")
        embedding.work()
        store, model = embedding.store, embedding.embedder.name
        assert [p for p, _ in store.vectors(fork.row, model, 100)] == [5, 4, 3, 2, 1, 0]
        receipt = thread.erase(forks=forks)
        assert receipt.rows["vectors"] == (10 if forks == "erase" else 4)
        assert len(store.vectors(fork.row, model, 100)) == left


def test_what_a_fork_shares_is_embedded_under_its_parent(embedding):
    """The job of a fork asks for its parent's, and both are done in the end."""
    parent = embedding.thread("t")
    talk(parent, turns=3)
    key = embedding.store.claim(embedding.lease())[0]
    embedding.store.finish(key, 0.0)  # lost: nobody asks for the parent any more
    fork = parent.fork(at=4, thread_id="f")
    fork.append("Boa noite.")
    assert embedding.work() == (2, 0)
    assert len(embedding.store.vectors(fork.row, embedding.embedder.name, 100)) == 5


def test_an_embedder_that_fails_leaves_the_words(embedding, caplog):
    """A model that cannot be reached costs its part of the ranking, and no context; it is told once."""
    thread = embedding.thread("t")
    talk(thread)
    embedding.work()

    def down(texts):
        raise OSError("no network")

    embedding.embedder.queries = down
    assert thread.recall("gata")[0].entry.position == 4
    thread.context(ASKED)
    assert [r.levelname for r in caplog.records] == ["WARNING"]


def test_a_process_takes_only_jobs_that_it_can_do(embedding):
    """Without a summarizer no summary is claimed, nor waited for; without an embedder no vectors."""
    thread = embedding.thread("t")
    talk(thread, turns=2)
    embedding.store.ask(thread.key, Work("compact", 0.0, "{}"), 0.0)
    assert embedding.work() == (1, 0)
    assert [job.kind for job in embedding.jobs()] == ["compact"]
    assert embedding.store.next_due(["embed"]) is None and embedding.store.next_due() == 0.0


def test_a_worker_in_the_background_makes_the_vectors(tmp_path):
    """Nobody waits: the thread of the worker does it after the append."""
    with novelo.open(f"sqlite:///{tmp_path}/chat.db", embedder=Meanings()) as memory:
        thread = memory.thread("t")
        talk(thread, secret="Meu felino dorme muito.")
        for _ in range(200):
            if not memory.jobs():
                break
            memory.worker._changed.acquire()
            memory.worker._changed.wait(0.05)
            memory.worker._changed.release()
        assert memory.jobs() == []
        assert "felino" in str(kept(thread.context("gata", policy="window:1turn + recall:2")))
