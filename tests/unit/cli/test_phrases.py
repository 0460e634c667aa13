"""What the library says in English, said in the language of a chat."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import novelo
from novelo.cli.phrases import part, said
from novelo.context.manifest import Manifest, Retrieved, explain
from novelo.retrievers import files, readers

PLACES = [Path(files.__file__), *Path(readers.__file__).parent.glob("*.py")]
OTHERS = ("pt", "zh")
ENGLISH = re.compile(r"\b(?:the|of|it|is|by|to|message|messages|read|file|was|no|not|with|least|score|support|weak)\b")
FULL = Manifest(
    "window:10turns", end=12, kept=[(2, 3), (6, 12)], left_out=[(0, 2, "window:10turns"), (3, 6, "hidden")],
    changed=[(7, "redact:emails")], made=1, tokens={"system": 4, "messages": 90, "total": 94, "budget": 200}, summary=2,
    recalled=[(2, 1.5)], question="E o prazo do Pix?",
    passages=[{"text": "x", "title": "Trocas", "source": "t.md", "score": 1.25, "support": 0.7}],
    retrieved=Retrieved(
        [("E o prazo?", 1.0), ("Pix", 0.3)], "refused: too long", [{"source": "u.md", "score": -0.5, "support": 0.1}],
        0.5, False,
    ),
)  # fmt: skip


def errors():
    """What readers raise, with 7 for all that changes."""
    for path in PLACES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            raised = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("ImportFailed", "MissingExtra")
            told = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
            given = node.args[0] if raised else node.value if told else None
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield given.value
            elif isinstance(given, ast.JoinedStr):
                yield "".join(p.value if isinstance(p, ast.Constant) else "7" for p in given.values)


def test_every_error_of_a_reader_is_said_in_the_language():
    """None is left in English, whichever reader raises it, nor what is said behind it."""
    found = {error for error in errors() if error != "line 7: 7"}
    assert {"an empty file", "line 7: no JSON object", "no regular file", "a damaged DOCX (7)"} <= found
    for error in (*found, "a damaged PDF (PdfReadError)", "an empty file; what the index has of it stays"):
        for lang in OTHERS:
            told = said(error, lang)
            assert told != error and not ENGLISH.search(told), (error, told)
        assert said(error, "en") == error


@pytest.mark.parametrize("lang", OTHERS)
def test_every_line_of_an_explained_context_is_said_in_the_language(lang):
    """With all that a manifest can hold; numbers, names, rules and the user's own words stay as they are."""
    lines = explain(FULL).splitlines()
    told = [said(line, lang) for line in lines]
    assert len(lines) == 16 and not any(ENGLISH.search(line) for line in told), told
    whole = "\n".join(told)
    for kept in ("window:10turns", "E o prazo do Pix?", "(× 0.3)", "Trocas (t.md)", "1.25", "0.70", "94", "-0.50"):
        assert kept in whole
    assert [said(line, "en") for line in lines] == lines


def test_words_of_documents_and_of_users_are_left_alone():
    """A question or a title that looks like a line of ours is not translated."""
    assert said("searched: message 3, by the way", "pt") == "buscado: message 3, by the way"
    assert said("[1] messages 1 to 2 (by the way.md), score 1.00, support 0.50", "pt") == (
        "[1] messages 1 to 2 (by the way.md), pontos 1.00, apoio 0.50"
    )
    assert said("something nobody said before", "zh") == "something nobody said before"


def test_an_explanation_of_a_real_context():
    """The first lines, as a chat shows them."""
    found = novelo.compose([{"role": "user", "content": "oi"}], "window:2turns")
    assert said(found.explain().splitlines()[0], "pt") == "1 de 1 mensagens sob window:2turns para openai"
    assert said("out: messages 0 to 3, by window:1turn", "zh") == "未发送:第 0 至 3 条消息(window:1turn)"
    assert said("line 3: no JSON object", "pt") == "linha 3: não é um objeto JSON"
    assert [part("user", lang) for lang in ("pt", "zh", "en")] == ["usuário", "用户", "user"]
