"""Chunks: sizes, structure, and that nothing is lost on the way."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from novelo.retrievers.chunks import ENTRY_SIZE, SIZE, chunks
from novelo.retrievers.readers import Block, Document, Section, read
from novelo.tokens import estimate_text


def cut(text, kind="text", **more):
    """The chunks of a file's text."""
    return chunks(read(text.encode(), kind), **more)


def test_a_section_that_fits_is_one_chunk():
    """A section is a chunk with its title and headings; nothing is put together from two sections."""
    found = cut("# Loja\n\n## Trocas\n\nUm.\n\nDois.\n\n### Prazo\n\nTrês.\n\n## Frete\n\nQuatro.\n", "markdown")
    assert [(c.title, c.section, c.text) for c in found] == [
        ("Loja", "Trocas", "Um.\n\nDois."),
        ("Loja", "Trocas › Prazo", "Três."),
        ("Loja", "Frete", "Quatro."),
    ]
    assert found[1].heading == "Loja › Trocas › Prazo" and found[0].tokens == estimate_text("Um.\n\nDois.")
    assert cut("Só texto.", title="nota")[0].title == "nota"


def test_a_long_paragraph_is_cut_between_sentences():
    """Parts of about equal size end with a sentence, and begin with the last one of the part before."""
    sentences = [f"A frase número {i} fala do prazo de troca da loja." for i in range(60)]
    found = cut(" ".join(sentences))
    assert len(found) > 2 and max(c.tokens for c in found) <= SIZE
    assert min(c.tokens for c in found) > max(c.tokens for c in found) / 2
    for before, after in pairwise(found):
        assert before.text.endswith("loja.") and after.text.startswith("A frase")
        assert after.text.split(". ")[0] in before.text


def test_chinese_and_japanese_are_cut_between_sentences():
    """Sentences without spaces between them stay as they were written."""
    for sentence in ("这是第一句话,关于退货的规定。", "返品は七日以内にお願いします。"):
        found = cut(sentence * 60)
        assert len(found) > 1 and all(c.text.endswith("。") and c.tokens <= SIZE for c in found)
        assert all(c.text.replace(sentence, "") == "" for c in found)


def test_a_table_is_cut_between_rows_under_its_header():
    """Every part of a long table has the header on top, and each row once, whole."""
    rows = [f"| produto {i} | custa {i * 7} reais na loja |" for i in range(90)]
    found = cut("| nome | preço |\n|---|---|\n" + "\n".join(rows), "markdown")
    assert len(found) > 1 and all(c.text.startswith("| nome | preço |\n|---|---|\n") for c in found)
    assert [line for c in found for line in c.text.split("\n")[2:]] == rows
    assert max(c.tokens for c in found) <= SIZE


def test_a_list_and_code_are_whole_where_they_fit():
    """What would fit a chunk of its own is not cut to fill the one before."""
    paragraph = " ".join(f"palavra{i}" for i in range(60))
    code = "```\n" + "\n".join(f"linha_{i} = {i}" for i in range(20)) + "\n```"
    found = cut(f"{paragraph}\n\n{code}\n\n{paragraph}\n", "markdown")
    assert len(found) > 1 and sum(code in c.text for c in found) == 1
    lines = "```\n" + "\n".join(f"linha_{i} = {i}" for i in range(300)) + "\n```"
    assert "\n".join(c.text for c in cut(lines, "markdown")) == lines


def test_an_entry_is_one_chunk():
    """A question with its answer, or a passage that somebody cut, is not cut where an embedder can read it whole."""
    text = " ".join(f"palavra{i}" for i in range(150))
    assert SIZE < estimate_text(text) <= ENTRY_SIZE
    (found,) = chunks(Document((Section((Block(text),), entry=True, source="s"),)))
    assert (found.text, found.source) == (text, "s")
    assert len(chunks(Document((Section((Block(text),)),)))) > 1


BLOCKS = st.builds(
    Block,
    st.text(st.sampled_from("ab. \n。退é|"), min_size=1, max_size=600).filter(str.strip),
    st.booleans(),
    st.sampled_from(["", "| a |"]),
)


@given(st.lists(BLOCKS, min_size=1, max_size=5), st.integers(20, 120), st.integers(0, 20))
def test_no_sign_is_lost(blocks, size, overlap):
    """Whatever a section holds: each chunk is within the size, and all signs are there in order."""
    found = chunks(Document((Section(tuple(blocks)),)), size=size, overlap=overlap)
    given_signs = "".join("".join(block.text.split()) for block in blocks)
    got = "".join("".join(chunk.text.split()) for chunk in found)
    assert all(chunk.text.strip() and chunk.tokens <= size + 20 for chunk in found)
    at = 0
    for sign in given_signs:
        at = got.index(sign, at) + 1
