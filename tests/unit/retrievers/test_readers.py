"""Readers: what each kind of file becomes, and what is told of files that cannot be read."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fix_documents import docx, pdf
from novelo.errors import ImportFailed
from novelo.retrievers.readers import KINDS, read, section_of


def told(document):
    """A document as plain values: title, and of each section the headings and the texts."""
    return document.title, [(s.path, [block.text for block in s.blocks]) for s in document.sections]


MARKDOWN = """---
title: "Ajuda da loja"
---
Antes de tudo.

# Trocas
Prazo de **sete** dias.

- item um
- item dois

## Custo [do frete](http://x)
| a | b |
|---|---|
| 1 | 2 |

```
# não é título
```
<!-- nota -->
Fim
===
"""


def test_markdown():
    """Headings make sections, tables and lists and code stay whole, the front matter names the title."""
    assert told(read(MARKDOWN.encode(), "markdown")) == (
        "Ajuda da loja",
        [
            ((), ["Antes de tudo."]),
            (("Trocas",), ["Prazo de **sete** dias.", "- item um\n- item dois"]),
            (("Trocas", "Custo do frete"), ["| a | b |\n|---|---|\n| 1 | 2 |", "```\n# não é título\n```"]),
        ],
    )
    blocks = read(MARKDOWN.encode(), "markdown").sections[2].blocks
    assert [(b.whole, b.head) for b in blocks] == [(True, "| a | b |\n|---|---|"), (True, "")]


def test_one_heading_over_all_is_the_title():
    """The only heading of the highest level is the title, and stands in no path."""
    assert told(read(b"# Loja\nOi.\n## Frete\nGr\xc3\xa1tis.\n", "markdown")) == (
        "Loja",
        [((), ["Oi."]), (("Frete",), ["Grátis."])],
    )


def test_a_long_file_is_parsed_in_parts(monkeypatch):
    """A file longer than the parser takes at once gives the same sections; a fence is not cut, nor a heading lost."""
    text = "# T\n\n" + "".join(f"## Parte {i}\n\nTexto {i}.\n\n```\n# código\n\nfim\n```\n\n" for i in range(60))
    whole = read(text.encode(), "markdown")
    for slab in (60, 700):
        monkeypatch.setattr("novelo.retrievers.readers.markdown.SLAB", slab)
        parts = read(text.encode(), "markdown")
        assert parts == whole
        assert [s.path for s in parts.sections][-1] == ("Parte 59",)


def test_rows_and_cells_without_an_end():
    """A table whose rows and cells are not closed, as HTML allows, reads as one where they are, and no longer."""
    rows = [f"<tr><td>linha {n}<td>valor <b>{n}</b>" for n in range(200)]
    closed = "".join(row.replace("<td>valor", "</td><td>valor") + "</td></tr>" for row in rows)
    (table,) = told(read(f"<table>{''.join(rows)}</table>".encode(), "html"))[1][0][1]
    assert [table] == told(read(f"<table>{closed}</table>".encode(), "html"))[1][0][1]
    assert table.count("linha 7 ") == 1 and len(table) < 10_000


@pytest.mark.parametrize("kind", ["text", "markdown", "html", "jsonl"])
def test_a_faulty_byte_spoils_no_other_letter(kind, caplog):
    """UTF-8 that was cut inside of a letter, or has a stray byte, keeps all its accents; Western text keeps its own."""
    text = "Ação e reação à vista, não é?"
    for data in (text.encode() + b"\xc3", b"\xe9 " + text.encode(), text.encode("cp1252")):
        if kind == "jsonl":
            data = b'{"text": "' + data + b'"}'
        assert text in told(read(data, kind))[1][0][1][0]
    assert not caplog.records


def test_text_and_its_encodings():
    """Paragraphs stand between empty lines; UTF-8, UTF-16 and Windows' Western encoding are read."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        assert told(read("Ação  à vista\r\n\r\n\tNão".encode(encoding)))[1] == [((), ["Ação à vista", "Não"])]


HTML = """<html><head><title>Ajuda &amp; trocas</title><script>alert(1)</script></head><body>
<nav>menu</nav><h1>Trocas</h1><p>Prazo de <b>sete</b>
dias.<br>Sem custo.</p><ul><li>um<ul><li>dois</li></ul></li></ul>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2|3</td></tr></table>
<div>solto <span>texto</span><div>dentro</div>depois</div><pre>x = 1
y</pre><h2>Frete</h2>Grátis<!-- nota --><p hidden>nada</p><footer>fim</footer></body></html>"""


def test_html():
    """A page without what stands round it: headings, paragraphs, lists, tables, code."""
    assert told(read(HTML.encode(), "html")) == (
        "Ajuda & trocas",
        [
            (
                ("Trocas",),
                [
                    "Prazo de sete dias.\nSem custo.", "- um\n  - dois", "| a | b |\n| --- | --- |\n| 1 | 2\\|3 |",
                    "solto texto", "dentro", "depois", "```\nx = 1\ny\n```",
                ],
            ),
            (("Trocas", "Frete"), ["Grátis"]),
        ],
    )  # fmt: skip


def test_deep_html_is_no_trouble():
    """A page nested ten thousand times is read without recursion of ours."""
    page = "<div>" * 10_000 + "fundo" + "</div>" * 10_000
    assert told(read(page.encode(), "html"))[1] == [((), ["fundo"])]


def test_pdf():
    """A section a page, words put together again, running lines left out, the title of the metadata."""
    pages = [f"Manual da loja\nA devolu-\nção da página {i}\nvale sete dias.\nPágina {i}" for i in range(1, 6)]
    document = read(pdf(*pages, title="Manual"), "pdf")
    assert document.title == "Manual"
    assert [s.page for s in document.sections] == [1, 2, 3, 4, 5]
    assert document.sections[2].blocks[0].text == "A devolução da página 3 vale sete dias."


def test_docx():
    """Headings by their styles; paragraphs, lists and tables in order."""

    def build(document):
        document.add_heading("Manual", 0)
        document.add_heading("Trocas", 1)
        document.add_paragraph("Prazo de sete dias.")
        document.add_paragraph("um", style="List Bullet")
        document.add_paragraph("dois", style="List Number")
        table = document.add_table(2, 2)
        for i, text in enumerate(("a", "b", "1", "2")):
            table.cell(i // 2, i % 2).text = text
        document.add_heading("Frete", 2)
        document.add_paragraph("Grátis.")

    assert told(read(docx(build), "docx")) == (
        "Manual",
        [
            (("Trocas",), ["Prazo de sete dias.", "- um\n- dois", "| a | b |\n| --- | --- |\n| 1 | 2 |"]),
            (("Trocas", "Frete"), ["Grátis."]),
        ],
    )


def test_jsonl():
    """Passages and questions with answers, each a section of its own with its title and source."""
    lines = (
        '{"text": "Sete dias.", "title": "Trocas", "source": "t1", "section": "Prazo › Loja"}\n\n'
        '{"question": "E o frete?", "answer": "Grátis."}\n'
        '{"page_content": "x", "metadata": {"source": "u", "title": "T"}}\n'
        '{"q": "Q", "answers": ["um", "dois"]}'
    )
    found = read(lines.encode(), "jsonl").sections
    assert [(s.title, s.source, s.path, s.blocks[0].text) for s in found] == [
        ("Trocas", "t1", ("Prazo", "Loja"), "Sete dias."),
        ("", "", (), "E o frete?\nGrátis."),
        ("T", "u", (), "x"),
        ("", "", (), "Q\num\ndois"),
    ]
    assert all(s.entry for s in found)


def zipped(**parts):
    """A zip file of some parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in parts.items():
            packed.writestr(name.replace("__", "/").replace("_", "."), data)
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("text", b"", "an empty file"),
        ("markdown", b" \n\t\n", "an empty file"),
        ("markdown", b"# only a heading\n", "no text in it"),
        ("text", b"\x7fELF\x02\x01\x01\0\0\0", "a binary file, not text"),
        ("text", bytes(range(1, 32)) * 20, "a binary file, not text"),
        ("text", bytes(range(128, 256)) * 20 + b"\x81\x8d" * 90, "a binary file, not text"),
        ("markdown", b"\x89PNG\r\n\x1a\n\0\0", "a binary file, not text"),
        ("html", b"<html><script>x</script></html>", "no text in it"),
        ("pdf", b"not a pdf at all", "a damaged PDF"),
        ("pdf", b"%PDF-1.4\n%%EOF", "a damaged PDF"),
        ("docx", b"PK\x03\x04 broken", "a damaged DOCX"),
        ("docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "an encrypted document, or one of old Word"),
        ("docx", zipped(a_txt=b"x"), "a damaged DOCX"),
        ("jsonl", b'{"text": "x"}\n{"no": 1}', "line 2: expected an object with a text"),
        ("jsonl", b'{"text": "x"}\n{', "line 2: no JSON object"),
        ("jsonl", b"[1]", "line 1: expected an object"),
        ("jsonl", b"[" * 100_000, "line 1: no JSON object"),
    ],
)
def test_bad_files_are_told(kind, data, said):
    """What cannot be read is one error of ours that says why."""
    with pytest.raises(ImportFailed, match=said):
        read(data, kind)


def test_bad_pdfs_are_told():
    """An encrypted one and one of pictures alone; one that opens without a password is read."""
    with pytest.raises(ImportFailed, match="an encrypted PDF"):
        read(pdf("segredo", password="x"), "pdf")
    with pytest.raises(ImportFailed, match="a PDF without text"):
        read(pdf("", ""), "pdf")
    assert read(pdf("aberto"), "pdf").sections


def test_what_unpacks_to_far_too_much_is_refused(monkeypatch):
    """A small file that would fill the memory is not unpacked."""
    monkeypatch.setattr("novelo.retrievers.readers.docx.MAX_TEXT", 1_000_000)
    with pytest.raises(ImportFailed, match="unpacks to far more"):
        read(zipped(word__document_xml=b" " * 5_000_000), "docx")


@given(st.binary(max_size=400), st.sampled_from(sorted(set(KINDS.values()))))
def test_any_bytes_are_read_or_refused(data, kind):
    """No bytes make a reader fail with anything but its own error; what it gives has text and no control signs."""
    try:
        document = read(data, kind)
    except ImportFailed:
        return
    for section in document.sections:
        assert section.blocks and all(block.text.strip() and "\x1b" not in block.text for block in section.blocks)


def test_a_passage_needs_a_text():
    """Anything but an object with a text is refused."""
    for wrong in (None, 7, "x", [], {}, {"text": ""}, {"text": None}, {"question": "x"}):
        with pytest.raises(ImportFailed):
            section_of(wrong)
