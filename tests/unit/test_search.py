"""Search as an application sees it: words in any script, in one thread, of an owner, in forks, without an index."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import novelo
from builders import says, user
from novelo.stores.search import fold, query_words


def found(hits):
    """The texts of hits, in any order."""
    return sorted(h.text for h in hits)


def test_accents_case_and_scripts(memory):
    """退货 and concluído are found however they are written; all words must be there."""
    thread = memory.thread("t")
    thread.append(
        [
            user("O reembolso já foi CONCLUIDO?"),
            says("Sim, foi concluído."),
            user("这个商品可以退货吗?"),
            says("可以。"),
        ]
    )
    assert found(thread.search("concluído")) == ["O reembolso já foi CONCLUIDO?", "Sim, foi concluído."]
    assert found(thread.search("退货")) == ["这个商品可以退货吗?"] and found(thread.search("货")) == [
        "这个商品可以退货吗?"
    ]
    assert found(thread.search("reembolso concluído")) == ["O reembolso já foi CONCLUIDO?"]
    assert thread.search("") == [] == thread.search("?!") == thread.search("reembolso 退货")


@pytest.mark.parametrize(
    "words", ['"', "a OR b", "NEAR(a)", "words:x", "x*", "-x", "(", "'; DROP TABLE search; --", "\x00"]
)
def test_no_search_is_a_query_language(memory, words):
    """Signs that mean something to an index are signs like others."""
    thread = memory.thread("t")
    thread.append(user("plain words"))
    assert thread.search(words) == []


def test_search_stays_with_owner_and_thread(memory):
    """A thread finds its own, an owner all of theirs, and nobody another's."""
    memory.thread("t", owner="ana").append("segredo um")
    memory.thread("u", owner="ana").append("segredo dois")
    memory.thread("t", owner="bia").append("segredo três")
    assert found(memory.thread("t", owner="ana").search("segredo")) == ["segredo um"]
    assert found(memory.search("segredo", owner="ana")) == ["segredo dois", "segredo um"]
    assert len(memory.search("segredo")) == 3 and len(memory.search("segredo", limit=2)) == 2
    assert memory.search("segredo", owner="") == []


def test_hits_lead_to_their_messages(memory):
    """A hit names owner, thread and position."""
    thread = memory.thread("t", owner="ana")
    thread.append([user("x"), says("needle")])
    (hit,) = memory.search("needle")
    assert (hit.owner, hit.thread_id, hit.entry.position, hit.entry.role) == ("ana", "t", 1, "assistant")


def test_a_fork_finds_what_it_shares_and_no_more(memory):
    """However much the parent said later, what is shared is found; each message once."""
    thread = memory.thread("t")
    thread.append([user("a long sentence in which the needle is one word among many others"), says("x")])
    fork = thread.fork()
    thread.append([user("needle") for _ in range(30)])
    fork.append("needle of its own")
    twice = fork.fork()
    expected = ["a long sentence in which the needle is one word among many others", "needle of its own"]
    assert found(fork.search("needle", limit=5)) == expected == found(twice.search("needle", limit=5))


def test_without_an_index_a_thread_is_looked_through(tmp_path):
    """With search=False nothing is indexed, and a thread is still searched."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db", search=False) as memory:
        thread = memory.thread("t")
        thread.append([user("Já concluído"), says("nada")])
        assert found(thread.search("concluido")) == ["Já concluído"]


@given(st.text(max_size=30), st.text(max_size=30))
def test_every_text_finds_itself(before, after):
    """Whatever a text's words are, a query of that text holds only words by which the text is indexed."""
    text = before + after
    assert set(query_words(before + " ")) <= set(fold(f"{before} {after}").split())
    assert set(query_words(text)) <= set(fold(text).split())
