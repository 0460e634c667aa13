"""Why the model knows something or does not: who said it, what took it out, what still carries it."""

from __future__ import annotations

import pytest

import novelo
from novelo.errors import InvalidSpec
from novelo.testing import ScriptedModel


@pytest.fixture
def thread():
    """A thread of five turns whose first four are in a summary."""
    summary = "Resumo: a cliente fala do pedido PX-48213-7."
    with novelo.open(
        "sqlite://", policy="summarize:8messages,keep=2", summarizer=ScriptedModel([summary] * 3), worker="off"
    ) as memory:
        made = memory.thread("t")
        for text in (
            "O pedido é PX-48213-7.",
            "O lacre é 2291-KT.",
            "Gosto de azul-petróleo.",
            "Tudo bem?",
            "E agora?",
        ):
            made.append([{"role": "user", "content": text}, {"role": "assistant", "content": "Certo."}])
        made.compact()
        yield made


def test_prose_ledger_and_what_is_gone(thread):
    """A fact may live on in the prose or the ledger; what does in neither does not reach the model."""
    told, exact, gone = (thread.why(text) for text in ("px-48213-7", "2291-KT", "azul-petroleo"))
    assert [(s.position, s.role, s.rule) for s in told.said] == [(0, "user", "summary 1")]
    assert [(c.version, c.how, c.active) for c in told.carried] == [(1, "prose", True)] and told.reaches
    assert [c.how for c in exact.carried] == ["ledger"] and exact.reaches
    assert gone.said and not gone.carried and not gone.reaches
    assert "does not have it" in gone.explain() and "out, by summary 1" in gone.explain()


def test_what_is_in_the_context_and_what_nobody_said(thread):
    """A message in the context has no rule; what was never said is told as that."""
    assert thread.why("E agora").said[0].in_context
    nothing = thread.why("girassol")
    assert nothing.said == [] and "nobody said it" in nothing.explain()
    with pytest.raises(InvalidSpec):
        thread.why("  ")


def test_hidden_messages_arguments_and_another_policy(thread):
    """Hidden messages and tool arguments are looked through too, and the rule is that of the policy asked for."""
    thread.append({
        "role": "assistant", "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"k": "ZZ-91"}'}}],
    })  # fmt: skip
    thread.append({"role": "tool", "tool_call_id": "c", "content": "ok"})
    assert thread.why("zz-91").said[0].role == "assistant"
    thread.hide(9)
    hidden = thread.why("Certo", policy="window:1turns").said
    assert {s.rule for s in hidden if s.position == 9} == {"hidden"}
    assert {s.rule for s in hidden if s.position == 1} == {"window:1turns"}


def test_the_loss_report_is_asked_too():
    """A fact that found no room is named as lost by the version that lost it."""
    many = " ".join(f"código K{n:05d}" for n in range(300))
    with novelo.open(
        "sqlite://", policy="summarize:4messages,keep=1,facts=40", summarizer=ScriptedModel(["Muitos códigos."] * 3),
        worker="off",
    ) as memory:  # fmt: skip
        thread = memory.thread("t")
        for text in (many, "Certo?", "E agora?"):
            thread.append([{"role": "user", "content": text}, {"role": "assistant", "content": "Certo."}])
        record = thread.compact()
        lost = record.lost[0].text
        assert [c.how for c in thread.why(lost).carried] == ["lost"] and not thread.why(lost).reaches
