"""The support conversation and the FAQs that it runs on, as a user would run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

import novelo
from novelo.cli.answers import opened
from novelo.cli.phrases import said

ROOT = Path(__file__).resolve().parents[2]
FAQ = ROOT / "examples" / "faq"
TWINS = ("orders", "payments", "charges", "delivery", "returns", "account", "privacy")
PT = ("pedidos", "pagamentos", "cobrancas", "entregas", "trocas", "conta", "privacidade")
# What each language's run must say: the double charge, with Pix, the period again; alone another entry; nothing.
SAID = {
    "pt": [
        "em duplicidade é de 5 dias úteis",
        "volta para a mesma conta",
        "em duplicidade é de 5 dias úteis",
        "Como pago com Pix?",
        "Não encontrei isso nos documentos.",
    ],
    "en": [
        "refund of a double charge is 5 working days",
        "goes back to the same account",
        "refund of a double charge is 5 working days",
        "Can I pause my account?",
        "I did not find this in the documents.",
    ],
    "zh": [
        "退款期限是 5 个工作日",
        "退款会回到付款时的同一个账户",
        "退款期限是 5 个工作日",
        "可以暂停我的账户吗?",
        "在文档中没有找到相关内容。",
    ],
}
SOURCE = {"pt": "(cobrancas.md)", "en": "(charges.md)", "zh": "(charges.md)"}
QUESTIONS = {
    "pt": "Fui cobrado duas vezes. Quanto tempo até o reembolso?\n\nE se eu tiver pago com Pix?\n",
    "en": "I was charged twice. How long until the refund?\n\nAnd if I paid with Pix?\n",
    "zh": "我被重复扣款了,退款要多久?\n\n如果是用 Pix 付的呢?\n",
}
MORE = {"pt": "explique melhor\nsair\nnunca\n", "en": "more details\nexit\nnever\n", "zh": "说详细一点\nexit\n"}


@pytest.fixture
def run(tmp_path):
    """A program in a process of its own, in an empty folder."""

    def started(*arguments, given=""):
        env = {k: v for k, v in os.environ.items() if k not in ("OPENAI_API_KEY", "MODEL", "MODEL_NAME")}
        env |= {"NOVELO_HOME": str(tmp_path), "LANG": "C.UTF-8", "PYTHONIOENCODING": "utf-8"}
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=120, encoding="utf-8"
        )

    return started


def headings(path):
    """The questions of one file."""
    return re.findall(r"^## (.+)$", path.read_text("utf-8"), re.MULTILINE)


def test_the_three_faqs_have_the_same_entries():
    """Twins have the same files with as many entries, at least forty, each with a text of its own."""
    for pt, twin in zip(PT, TWINS, strict=True):
        counts = {len(headings(FAQ / language / f"{name}.md")) for language, name in
                  (("pt", pt), ("en", twin), ("zh", twin))}  # fmt: skip
        assert len(counts) == 1
    for language in SAID:
        entries = [h for path in sorted((FAQ / language).glob("*.md")) for h in headings(path)]
        assert len(entries) == len(set(entries)) >= 40


@pytest.mark.parametrize("language", SAID)
def test_the_support_conversation(run, language):
    """Three questions in one thread find the double charge; alone the second one finds something else."""
    done = run(str(ROOT / "examples" / "support.py"), language)
    assert done.returncode == 0, done.stderr
    at = 0
    for text in SAID[language]:
        assert text in done.stdout[at:], f"{text!r} is not in what follows of:\n{done.stdout}"
        at = done.stdout.index(text, at) + len(text)
    assert "calls: {'reply': 4}" in done.stdout
    if language == "pt":  # once is enough: it takes seconds
        again = run(str(ROOT / "examples" / "support.py"), language)
        assert "0 files read, 7 unchanged" in again.stdout


@pytest.mark.parametrize("language", SAID)
def test_a_chat_over_a_folder(run, language):
    """Documents are read once, the query is shown, sources stand under the answer, and the next session goes on."""
    options = ("-m", "novelo", "chat", "--thread", "t1", "--lang", language, "--docs", str(FAQ / language))
    first = run(*options, "--show-query", given=QUESTIONS[language] + "/context\n/docs\n" + "exit\n")
    assert first.returncode == 0, first.stderr
    assert SAID[language][0] in first.stdout and SAID[language][1] in first.stdout
    assert "\n  [1] " in first.stdout and SOURCE[language] in first.stdout
    asked = QUESTIONS[language].splitlines()
    assert asked[2] in first.stderr and "(× 0." in first.stderr  # the query, and what it leans on
    assert said("question: carried", language) in first.stdout
    assert {"pt": "apoio", "zh": "支持度", "en": "support"}[language] in first.stdout
    second = run(*options, given=MORE[language])
    assert "0" in second.stderr.splitlines()[0] and "7" in second.stderr.splitlines()[0]
    assert SAID[language][0] in second.stdout and "never" not in second.stdout and "nunca" not in second.stdout
    shown = json.loads(run("-m", "novelo", "show", "t1", "--json").stdout)
    assert [e["role"] for e in shown] == ["user", "assistant"] * 3
    manifest = json.loads(run("-m", "novelo", "context", "t1", "--turn", "2", "--json").stdout)["manifest"]
    assert manifest["retrieved"]["queries"][0] == [asked[2], 1.0] and manifest["passages"][0]["section"]
    assert "> " not in "".join(e["message"]["content"] for e in shown)


def test_a_chat_needs_documents_that_are_there(run):
    """A path that is not there is misuse, told in one line; /docs without documents says how to get them."""
    done = run("-m", "novelo", "chat", "--docs", "nowhere")
    assert done.returncode == 2 and "nowhere" in done.stderr and "Traceback" not in done.stderr
    assert "--docs" in run("-m", "novelo", "chat", "--lang", "en", given="/docs\nexit\n").stderr
    none = run("-m", "novelo", "chat", "-C", "faqs", "--owner", "shop", given="Oi\n")
    assert none.returncode == 1 and "no collection 'faqs' of owner 'shop'; put something in" in none.stderr


def test_a_chat_says_how_to_come_back(run, tmp_path):
    """The command that is printed at the end goes on with the thread, its owner, its database and its documents."""
    (tmp_path / "guia.md").write_text("# Guia\nO prazo é de dez dias.\n", "utf-8")
    command = ("-m", "novelo", "chat", "-d", "a b.db", "--owner", "shop", "--thread", "t1", "--lang", "zh")
    left = run(*command, "--docs", "guia.md", given="期限是多少?\n退出\n never\n").stderr
    assert "尚无向量的段落:1" in left and "never" not in left
    told = shlex.split(left.strip().splitlines()[-1].partition("novelo ")[2])
    assert told == ["chat", "--thread", "t1", "--owner", "shop", "-d", "a b.db", "-C", "default"]
    again = run("-m", "novelo", *told, "--lang", "zh", given="/docs\n")
    assert again.returncode == 0 and "guia.md" in again.stdout


def test_a_thread_remembers_its_documents(run, tmp_path):
    """Brought back by its id alone, or by /resume, it answers from the collection of its newest answer."""
    (tmp_path / "guia.md").write_text("# Guia\nO prazo da troca é de dez dias.\n", "utf-8")
    chat, asked = ("-m", "novelo", "chat", "--lang", "pt"), "Qual é o prazo da troca?\n"
    run(*chat, "--thread", "t1", "--docs", "guia.md", "-C", "guias", given=asked)
    for again in (run(*chat, "--thread", "t1", given=asked), run(*chat, given="/resume t1\n" + asked)):
        assert "dez dias" in again.stdout and "guia.md" in again.stdout and "-C guias" in again.stderr
    assert "guia.md" not in run(*chat, "--thread", "t2", given=asked).stdout
    assert "Fontes" not in run(*chat, "--thread", "t1", "-C", "", given=asked).stdout
    with novelo.open(f"sqlite:///{tmp_path}/chat.db") as memory:
        memory.documents("guias").erase()
    gone = run(*chat, "--thread", "t1", given="/docs\n")
    assert gone.returncode == 0 and "--docs" in gone.stderr


def test_what_cannot_be_read_is_told_in_the_language(run, tmp_path):
    """A reader's error stands in the chat's language."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.pdf").write_bytes(b"not a pdf")
    (tmp_path / "docs" / "b.md").write_text("O prazo é de dez dias.", "utf-8")
    (tmp_path / "docs" / "c.jsonl").write_text("[1", "utf-8")
    for lang, words in (("pt", ("PDF danificado", "linha 1: não é")), ("zh", ("PDF 已损坏", "第 1 行:不是"))):
        told = run("-m", "novelo", "chat", "--lang", lang, "--docs", "docs", given="").stderr
        assert all(word in told for word in words), told


def test_a_chat_makes_the_vectors_that_its_collection_lacks(tmp_path):
    """Behind a chat that names a collection and no files they are made too, while it lasts."""
    with novelo.open(f"sqlite:///{tmp_path}/chat.db") as memory:
        memory.documents("faq").add(["O prazo é de dez dias."], vectors="later")
        assert memory.documents("faq").row.vectors == 0
        docs = opened(memory, (), "faq", "", "pt")
        deadline = time.monotonic() + 60
        while not docs.row.vectors and time.monotonic() < deadline:
            time.sleep(0.05)
        assert docs.row.vectors == 1


def test_a_language_without_a_talk_is_told(run):
    """The example says which languages it has."""
    done = run(str(ROOT / "examples" / "support.py"), "fr")
    assert done.returncode == 1 and "pt, en, zh" in done.stderr and "Traceback" not in done.stderr


def test_the_talk_goes_on_as_the_example_says(run):
    """The command in the example's own words finds the documents that the example has read."""
    run(str(ROOT / "examples" / "support.py"), "pt")
    command = re.search(r"novelo (chat -d support\.db .+)", (ROOT / "examples" / "support.py").read_text("utf-8"))[1]
    done = run("-m", "novelo", *shlex.split(command), "--lang", "en", given="exit\n")
    assert "7 sources, 52 passages" in done.stderr
