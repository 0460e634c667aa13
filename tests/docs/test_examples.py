"""What the README and the documents show runs, offline."""

from __future__ import annotations

import io
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def examples(path):
    """The Python blocks of a file, each with empty lines before it, so that an error tells the file's own line."""
    text = path.read_text("utf-8")
    return ["\n" * text.count("\n", 0, found.start(1)) + found[1] for found in BLOCK.finditer(text)]


@pytest.mark.parametrize("path", [p for p in FILES if examples(p)], ids=lambda p: p.stem)
def test_examples_run(path, tmp_path, monkeypatch):
    """The Python blocks of a file run from top to bottom, in an empty folder, without network or key."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    for block in examples(path):
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_links_lead_somewhere(path):
    """Every link to a file of the repository names one that is there."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


LANGCHAIN = ROOT / "examples" / "langchain"
# What each program must have said, in this order.
SAID = {
    "a_history": [
        "Seu nome é Ana.",
        "messages in the state: 4",
        "b | Qual é o meu nome? -> Não sei o seu nome.",
        "messages in a and b: 10 2",
        "sent with max_messages=4: ['human', 'ai', 'human', 'ai', 'human']",
    ],
    "a_rag": [
        "searched: Como é o reembolso da cobrança paga com Pix?",
        "sources:  ['pix.md']",
        "caso-2 | E se eu tiver pago com Pix?",
        "sources:  ['conta.md']",
        "Não encontrei isso nos documentos.",
        "messages: 6 | passages among them: 0",
    ],
    "c_sliding_window": [
        "你好，张三！  (5 messages in the state)",
        "用户叫张三。 | violations: 0",
        "transcript: 12 messages | secrets in it: 0",
        "secrets in the state: 0",
    ],
    "d01_restart": ["after a restart: 你叫李雷。", "another thread:  我不知道你的名字。"],
    "d02_custom_state": ["read by the tool in turn 3: u-7: zh, 您", "kept in the state: u-7"],
    "d03_tools_write_state": ["greeting: 你好，韩梅梅！", "['human', 'ai', 'tool', 'ai', 'tool', 'ai']"],
    "d04_trim": [
        "trimmed state: 6 messages | 你叫小明。 | broken requests: 0",
        "transcript:    12 messages",
        "by a policy:   12 messages | 你叫小明。 | broken requests: 0",
    ],
    "d05_delete": ["state: ['我叫什么？', '4 messages seen']", "transcript: 6 messages"],
    "d06_summarise": ["answer: 你叫小刚。", "messages in the state: 14", "messages sent: 9", "'summary': 2"],
    "e_chatbots": [
        "Seu nome é Bia.",
        "window:5turns:",
        "Não sei o seu nome.",
        "summarize:12messages,keep=4:",
        "Seu nome é Bia.",
        "saved: ['messages', 'timestamp']",
        "loaded from JSON: Seu nome é Bia.",
        "a missing file: 0 messages",
    ],
    "e_rag_chat": ["0 messages from before", "A bateria do robô dura oito horas", "Não encontrei isso nos documentos."],
}


def said(name, monkeypatch, capsys, given=""):
    """What a program prints that is run as a user runs it."""
    pytest.importorskip("langgraph")
    monkeypatch.syspath_prepend(str(LANGCHAIN))
    monkeypatch.delitem(sys.modules, "_scripted", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO(given))
    runpy.run_path(str(LANGCHAIN / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("name", SAID)
def test_langchain_programs_run(name, tmp_path, monkeypatch, capsys):
    """Each of the tutorials' programs runs offline in an empty folder and says what it is to show."""
    monkeypatch.chdir(tmp_path)
    out = said(name, monkeypatch, capsys, "Quanto dura a bateria?\n\nexplique melhor\nQual é a cor?\nsair\nnunca\n")
    at = 0
    for line in SAID[name]:
        assert line in out[at:], f"{line!r} is not in what follows of:\n{out}"
        at = out.index(line, at) + len(line)


def test_every_langchain_program_is_run():
    """No program stands in the folder without a test."""
    assert {path.stem for path in LANGCHAIN.glob("[!_]*.py")} == set(SAID)


def test_the_terminal_chat_goes_on_after_a_restart(tmp_path, monkeypatch, capsys):
    """A second run of the chat over a document knows the first one."""
    monkeypatch.chdir(tmp_path)
    said("e_rag_chat", monkeypatch, capsys, "Quanto dura a bateria?\nsair\n")
    out = said("e_rag_chat", monkeypatch, capsys, "explique melhor\nexit\n")
    assert "2 messages from before" in out and "A bateria do robô dura oito horas" in out
