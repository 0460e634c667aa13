"""Collections of documents: the same promises of every store."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from novelo.connect import connect
from novelo.errors import IndexMismatch, InvalidSpec, StorageCorrupt
from novelo.stores.documents import SCORED, Matches, NewChunk, NewSource, Source

WORDS = ["pix", "boleto", "prazo", "troca", "loja", "conta", "valor", "cartao", "nota", "frete"]


@pytest.fixture
def docs(url):
    """The documents of an empty store of each kind."""
    store = connect(url, clear_documents=True)
    yield store.documents
    store.close()


def source(name, *texts, heads="", path=""):
    """A source with a chunk for each text; the text is the chunk's words too."""
    made = [NewChunk(text.encode(), heads, text) for text in texts]
    return NewSource(Source(name, path, b"h", name.title(), tokens=len(texts), bytes=7), made)


def put(docs, *sources, owner="", name="faq"):
    """Put sources into a collection; its key."""
    key = docs.key_of(owner, name)
    docs.put(key, (owner, name), sources, 5.0)
    return key


def found(docs, key, *words):
    """Bodies and scores of what some words find, the best first."""
    matches = docs.find(key, [([word], 1.0) for word in words])
    bodies = docs.chunks(key, list(matches.scores))
    best = sorted(matches.scores.items(), key=lambda one: (-one[1], one[0]))
    return [(bodies[number].body.decode(), round(score, 6)) for number, score in best]


def test_a_source_is_put_replaced_and_removed(docs):
    """Facts and chunks are those of the last put; what was replaced or removed is found by nothing."""
    key = put(docs, source("a.md", "pix prazo", "boleto"), source("b.md", "loja", path="/x/b.md"))
    row = docs.collection(key)
    assert (row.owner, row.name, row.sources, row.chunks, row.words, row.updated) == ("", "faq", 2, 3, 4, 5.0)
    assert [(s.source, s.path, s.title, s.chunks, s.hash) for s in docs.sources(key)] == [
        ("a.md", "", "A.Md", 2, b"h"),
        ("b.md", "/x/b.md", "B.Md", 1, b"h"),
    ]
    assert [(c.place, c.body) for c in docs.chunks_of(key, "a.md")] == [(0, b"pix prazo"), (1, b"boleto")]
    put(docs, source("a.md", "frete"))
    assert found(docs, key, "pix") == [] and [b for b, _ in found(docs, key, "frete")] == ["frete"]
    assert docs.collection(key).words == 2 and docs.collection(key).dropped == 1
    assert docs.remove(key, ["a.md", "no.md", "\ud800"], 9.0) == 1
    assert docs.source(key, "a.md") is None and docs.chunks_of(key, "a.md") == []
    assert docs.collection(key).chunks == 1
    assert docs.erase(key, 10.0) == {"sources": 1, "chunks": 1, "vectors": 0}
    assert docs.collection(key) is None and found(docs, key, "loja") == [] and docs.erase(key, 11.0) == {}


def test_numbers_are_never_used_twice(docs):
    """A chunk that comes gets no number of one that went, or a vector in a cache would be another chunk's."""
    key = put(docs, source("a", "um", "dois"))
    before = {chunk.number for chunk in docs.chunks_of(key, "a")}
    put(docs, source("a", "um", "dois"))
    assert not before & {chunk.number for chunk in docs.chunks_of(key, "a")}
    assert docs.chunks(key, sorted(before)) == {}


def test_owners_and_collections_are_apart(docs):
    """What others hold is never found, counted, or part of a score; the same name of another owner is another one."""
    mine = put(docs, source("a", "pix prazo", "boleto"), owner="ana")
    alone = found(docs, mine, "pix", "boleto")
    other = put(docs, *[source(f"s{i}", "pix pix", "boleto conta") for i in range(40)], owner="rui")
    third = put(docs, source("z", "pix"), owner="ana", name="other")
    assert len({mine, other, third, docs.key_of("", "faq")}) == 4
    assert found(docs, mine, "pix", "boleto") == alone
    numbers = [chunk.number for chunk in docs.chunks_of(other, "s0")]
    assert docs.chunks(mine, numbers) == {}
    assert docs.put_vectors(mine, "m", 1, [(numbers[0], b"00")], 1.0) == 0
    assert [(row.owner, row.name) for row in docs.collections()] == [("ana", "faq"), ("ana", "other"), ("rui", "faq")]
    assert [row.name for row in docs.collections("ana")] == ["faq", "other"] and docs.collections("\ud800") == []
    docs.erase(other, 2.0)
    assert found(docs, mine, "pix", "boleto") == alone


def test_names_are_checked(docs):
    """A collection needs a name that can be stored."""
    for name in ("", "x" * 1001, "\ud800", None):
        with pytest.raises(InvalidSpec):
            docs.key_of("", name)


def test_the_best_is_first(docs):
    """Rare words count more, headings count, alternative stems are one word, and a weight is a multiple."""
    rest = [source(f"r{i}", "conta valor") for i in range(9)]
    key = put(docs, source("a", "pix conta"), source("b", "conta conta nota"), source("c", "loja", heads="pix"), *rest)
    assert found(docs, key, "pix", "conta")[0][0] == "pix conta"
    assert {body for body, _ in found(docs, key, "pix")} == {"pix conta", "loja"}
    one = docs.find(key, [(["pix"], 1.0)]).scores
    both = docs.find(key, [(["pix", "pixes"], 1.0)]).scores
    twice = docs.find(key, [(["pix"], 2.0)]).scores
    assert one == both and {n: round(2 * s, 9) for n, s in one.items()} == {n: round(s, 9) for n, s in twice.items()}
    assert docs.find(key, []) == Matches({})
    assert docs.find(key, [(["nada"], 1.0)]) == Matches({}, frequencies=(0,))
    assert docs.find(key, [(["pix"], 0.0)]) == Matches({}, frequencies=(2,))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), min_size=1, max_size=12),
    st.lists(st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True), st.floats(0.1, 3))),
    st.sets(st.integers(0, 11)),
)
def test_every_store_scores_alike(texts, query, gone):
    """A search whose words are in few chunks gives the reference's scores, also after some sources went."""
    scores = []
    for url in ("memory://", "sqlite://"):
        store = connect(url)
        key = put(store.documents, *[source(f"s{i:02}", " ".join(words)) for i, words in enumerate(texts)])
        store.documents.remove(key, [f"s{i:02}" for i in gone], 6.0)
        matches = store.documents.find(key, query)
        sources = {n: chunk.source for n, chunk in store.documents.chunks(key, list(matches.scores)).items()}
        scores.append({sources[n]: pytest.approx(score) for n, score in matches.scores.items()})
        row = store.documents.collection(key)
        scores[-1]["counts"] = (row.sources, row.chunks, row.words)
        store.close()
    assert scores[0].keys() == scores[1].keys()
    assert all(scores[0][name] == getattr(scores[1][name], "expected", scores[1][name]) for name in scores[0])


def test_a_common_word_does_not_hide_the_rare_one(docs):
    """Where words are in more chunks than are scored exactly, the rare one decides; the rest is told on demand."""
    size = SCORED + 200
    sources = [source(f"s{i:04}", "conta valor " + ("pix" if i == size - 1 else f"w{i}")) for i in range(size)]
    key = put(docs, *sources)
    assert found(docs, key, "conta", "pix", "valor")[0][0] == "conta valor pix"
    matches = docs.find(key, [(["conta"], 0.1), (["valor"], 0.1), (["pix"], 1.0)], rest=True)
    assert len(matches.scores.keys() | matches.rest.keys()) == size


def test_weak_words_do_not_crowd_out_strong_ones(docs):
    """Many words of little weight, of a former turn, do not keep a chunk from being scored that has the strong one."""
    weak = [f"w{i}" for i in range(50)]
    sources = [source(f"s{i:04}", " ".join(weak[(i + k) % 50] for k in range(8))) for i in range(SCORED + 50)]
    key = put(docs, *sources, source("right", "pix " + " ".join(f"x{i}" for i in range(60))))
    matches = docs.find(key, [(["pix"], 1.0), *(([word], 0.01) for word in weak)])
    best = max(matches.scores, key=matches.scores.get)
    assert docs.chunks(key, [best])[best].source == "right"


def test_vectors_come_once_and_go_with_their_chunks(docs):
    """Each chunk is asked for until it has a vector; those of another model are refused until all were dropped."""
    key = put(docs, source("a", "um", "dois"), source("b", "três"))
    first, second, third = (chunk.number for chunk in docs.without_vector(key, 10))
    assert [c.number for c in docs.without_vector(key, 1)] == [first]
    assert [c.number for c in docs.without_vector(key, 9, first)] == [second, third]
    assert docs.put_vectors(key, "m", 2, [(first, b"0000"), (third, b"1111"), (999, b"2222")], 6.0) == 2
    assert docs.put_vectors(key, "m", 2, [(first, b"3333")], 6.0) == 0
    row = docs.collection(key)
    assert (row.vectors, row.model, row.size) == (2, "m", 2)
    assert [c.number for c in docs.without_vector(key, 9)] == [second]
    rows = docs.vectors(key)
    assert [row[1:] for row in rows] == [(first, b"0000"), (third, b"1111")]
    assert docs.vectors(key, rows[0][0]) == rows[1:] and docs.vector_numbers(key) == [row[0] for row in rows]
    for model, size in (("other", 2), ("m", 3)):
        with pytest.raises(IndexMismatch, match="novelo docs embed --rebuild"):
            docs.put_vectors(key, model, size, [(second, b"0000")], 7.0)
    docs.remove(key, ["a"], 7.0)
    assert docs.collection(key).vectors == 1 and docs.vector_numbers(key) == [rows[1][0]]
    assert docs.drop_vectors(key, 8.0) == 1
    assert docs.collection(key).model == "" and len(docs.without_vector(key, 9)) == 1
    assert docs.put_vectors(key, "other", 1, [(third, b"55")], 9.0) == 1
    assert (
        docs.put_vectors(docs.key_of("x", "y"), "m", 2, [(third, b"55")], 9.0) == docs.drop_vectors(b"0" * 16, 9.0) == 0
    )


def test_nothing_is_left_in_the_files(tmp_path):
    """After a removal and a scrub no byte of text, words or vectors of the source is in the file or its log."""
    store = connect(f"sqlite:///{tmp_path}/a.db")
    docs = store.documents
    key = put(docs, *[source(f"keep{i}", "conta valor") for i in range(50)], source("secret-name", "zyxwvut qponmlk"))
    (number,) = [c.number for c in docs.chunks_of(key, "secret-name")]
    docs.put_vectors(key, "m", 8, [(number, b"VECTORBYTES-0001")], 6.0)
    store.scrub()
    traces = (b"zyxwvut", b"qponmlk", b"secret-name", b"VECTORBYTES")
    assert all(trace in (tmp_path / "a.db").read_bytes() for trace in traces)
    docs.remove(key, ["secret-name"], 7.0)
    assert store.scrub()
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert not [trace for trace in traces if trace in data], path
    store.close()


@pytest.mark.parametrize("table", ["collections", "sources", "chunks"])
def test_an_altered_row_is_an_error(tmp_path, table):
    """What was changed outside of the store is told, and never given as text."""
    import apsw

    path = tmp_path / "a.db"
    store = connect(f"sqlite:///{path}")
    key = put(store.documents, source("a", "pix"))
    store.close()
    column, value = {"collections": ("chunks", 7), "sources": ("title", "x"), "chunks": ("body", b"forged")}[table]
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    connection.close()
    store = connect(f"sqlite:///{path}")
    reads = {
        "collections": lambda: store.documents.collection(key),
        "sources": lambda: store.documents.sources(key),
        "chunks": lambda: store.documents.chunks_of(key, "a"),
    }
    with pytest.raises(StorageCorrupt):
        reads[table]()
    store.close()


def test_a_file_takes_no_other_file_s_name(docs):
    """A file whose name another source has is put in under its path, in one put or in two; the same file replaces."""
    key = docs.key_of("", "faq")

    def names(*sources):
        return docs.put(key, ("", "faq"), sources, 5.0)

    assert names(source("a.md", "pix", path="/x/a.md"), source("a.md", "boleto", path="/y/a.md")) == ["a.md", "/y/a.md"]
    assert names(source("a.md", "prazo", path="/z/a.md")) == ["/z/a.md"]
    assert names(source("a.md", "troca", path="/x/a.md"), source("/y/a.md", "loja", path="/y/a.md")) == [
        "a.md",
        "/y/a.md",
    ]
    assert [(s.source, s.path) for s in docs.sources(key)] == [
        ("/y/a.md", "/y/a.md"), ("/z/a.md", "/z/a.md"), ("a.md", "/x/a.md"),
    ]  # fmt: skip
    assert [b for w in ("troca", "loja", "prazo", "pix", "boleto") for b, _ in found(docs, key, w)] == [
        "troca", "loja", "prazo",
    ]  # fmt: skip
    assert (
        names(source("a.md", "nota")) == ["a.md"] and docs.collection(key).sources == 3
    )  # one that is no file replaces
