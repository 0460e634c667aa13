"""Complaints about cutting histories, each told again in a history of our own and held by a policy of ours."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

import novelo
from builders import arguments_of, calls, long_talk, result, roles, says, system, texts, user
from novelo import ContextTooSmall, compose


def cut(messages, policy, provider="openai", **more):
    """The context's messages."""
    return compose(messages, policy, provider, **more).messages()


def test_result_never_stays_without_its_call():
    """A window that cannot hold a whole tool step holds none of it (FR-01, FR-03)."""
    given = [
        system("Recepção."),
        user("Há quarto hoje?"),
        calls("c1", name="vagas"),
        result("c1", "dois quartos"),
        user("Aceitam cães?"),
        says("Sim, com taxa."),
    ]
    assert cut(given, "window:3messages") == [given[0], given[4], given[5]]
    given = [user("a"), calls("c1"), result("c1", "r"), user("b"), says("b!"), user("c"), says("c!")]
    assert cut(given, "window:5messages") == given[3:]


def test_system_message_survives_the_smallest_window():
    """With a limit of one the system message and the newest question stay (FR-04)."""
    given = [system("Só horários."), *long_talk(2), user("E domingo?")]
    assert cut(given, "window:1messages") == [given[0], given[-1]]


def test_window_opens_with_the_user():
    """A tail that would begin with an answer loses that answer (FR-05, FR-09)."""
    given = [system("Receitas."), *long_talk(2), user("E assar congelado?")]
    assert roles(cut(given, "window:2messages")) == "su"
    given = [system("s"), user("trem?"), calls("c1"), result("c1", "8h"), says("às 8"), user("preço?")]
    assert cut(given, "window:3messages") == [given[0], given[-1]]


def test_long_tool_loop_keeps_its_question_and_newest_steps():
    """In a run with a single question the oldest steps go, never the question (FR-06, FR-15)."""
    given = [user("Review three files.")]
    for k in (1, 2, 3):
        given += [calls(f"c{k}", name="read"), result(f"c{k}", f"file {k}")]
    assert cut(given, "window:4messages") == [given[0], *given[-2:]]


def test_window_never_shortens_what_it_keeps():
    """Sliding removes whole turns and leaves the results inside as they are (FR-07)."""
    given = [*long_talk(2), user("123*456?"), calls("c1"), result("c1", "56088"), says("It is 56088.")]
    out = cut(given, "window:5messages")
    assert result("c1", "56088") in out
    assert out == given[-4:]


def test_turn_in_progress_is_protected():
    """A limit of one still sends the open turn's question, call and result (FR-11)."""
    given = [*long_talk(1), user("Free on 12 May?"), calls("c9"), result("c9", "free")]
    assert cut(given, "window:1messages") == given[2:]


@pytest.mark.parametrize(
    "policy", ["buffer", "window:3turns", "budget:10", "ends:first=1,last=2", "drop_oldest:2messages"]
)
def test_empty_in_empty_out(policy):
    """An empty list gives an empty context (FR-12)."""
    assert cut([], policy) == []


def test_system_content_as_parts():
    """A system message of several parts is taken wherever a text is (FR-12)."""
    parts = {"role": "system", "content": [{"type": "text", "text": "Curto."}, {"type": "text", "text": "Sem emojis."}]}
    given = [parts, user("oi"), says("olá"), user("conte algo")]
    assert cut(given, "window:2messages") == [parts, given[-1]]


def test_prefix_larger_than_the_budget_is_an_error_with_numbers():
    """A budget that cannot hold the system message raises before any call, and says by how much (FR-13)."""
    given = [system("Instruções da loja. " * 1000), user("Qual o horário?")]
    with pytest.raises(ContextTooSmall) as caught:
        compose(given, "budget:500")
    assert caught.value.budget == 500
    assert caught.value.needed > 3000
    assert str(caught.value.needed) in str(caught.value)


@pytest.mark.parametrize("provider", ["gemini", "anthropic", "mistral"])
def test_window_for_providers_that_refuse_an_opening_call(provider):
    """After an opening call is dropped nothing of its step is left (FR-14)."""
    given = [
        user("both?"),
        calls("c1"),
        result("c1", "sun"),
        calls("c2"),
        result("c2", "rain"),
        says("sun, rain"),
        user("and?"),
    ]
    assert cut(given, "window:4messages", provider) == [given[-1]]


def test_size_is_never_passed_for_any_cap():
    """For every cap the window holds at most that many messages, or the least context (FR-16)."""
    given = long_talk(30)[:-1]
    for cap in range(1, 70):
        assert len(cut(given, f"window:{cap}messages")) <= min(cap, len(given))
    for bad in ("window:0messages", "window:-1messages"):
        with pytest.raises(novelo.InvalidSpec):
            compose(given, bad)


def test_system_message_is_never_evicted_by_age():
    """While a thread grows under a budget the system message stands first, once, unchanged (FR-17)."""
    given = [system("Responda em português, sem conselhos médicos."), *long_talk(2)]
    for k in range(2, 22):
        given += long_talk(1, k)
        out = cut(given, "budget:60")
        assert out[0] is given[0]
        assert roles(out).count("s") == 1


def test_below_the_limit_nothing_changes():
    """A history far below the limit comes back as the same objects, trailing tool result included (FR-02)."""
    given = [system("s"), user("q"), calls("c1"), result("c1", "r")]
    for policy in ("budget:100000", "window:50turns", "window:90messages", "clear_tools:keep=3", "ends:first=1,last=9"):
        out = cut(given, policy)
        assert all(a is b for a, b in zip(out, given, strict=True)), policy


def test_prefix_holds_still_between_cuts():
    """With slack the first kept message changes at most every second turn (FR-74)."""
    given, before, cuts = [system("Travel.")], None, []
    for k in range(20):
        given += [user(f"Plan day {k}")]
        out = [json.dumps(m) for m in cut(given, "window:8messages,slack=4")]
        if before is not None:
            cuts.append(out[: len(before)] != before)
        before = out
        given += [says(f"Day {k}")]
    assert sum(cuts) >= 3
    assert not any(a and b for a, b in pairwise(cuts))


def test_signed_thoughts_stay_whole_in_an_open_loop():
    """Thoughts go to their provider byte for byte, signature included (FR-70)."""
    thought = {"type": "thinking", "thinking": "need the table", "signature": "sig-new"}
    secret = {"type": "redacted_thinking", "data": "opaque"}
    step = {**calls("c1", name="tides"), "content": [thought, secret]}
    given = [user("tides?"), says("The moon."), user("St Malo?"), step, result("c1", "11.8 m")]
    sent = compose(given, "budget:100000", "anthropic").messages("anthropic")
    blocks = [b for m in json.loads(json.dumps(sent.messages)) for b in m["content"] if isinstance(b, dict)]
    assert thought in blocks
    assert secret in blocks


def test_giant_result_is_an_error_unless_tools_are_cleared():
    """One result over the whole budget is named as such; the question is never dropped for it (FR-08)."""
    given = [user("go"), calls("c1"), result("c1", "tiny"), calls("c2"), result("c2", "big " * 4000)]
    with pytest.raises(ContextTooSmall, match="clear_tools"):
        compose(given, "budget:300")
    out = cut(given, "clear_tools:keep=0 + budget:300")
    assert out[0] == given[0]
    assert texts(out)[-1] == "[old tool result removed]"
    assert arguments_of(out) == [{}, {}]
