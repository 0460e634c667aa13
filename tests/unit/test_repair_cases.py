"""Broken histories as people found them, each told again in a history of our own and mended."""

from __future__ import annotations

import json
import re

import pytest

from builders import arguments_of, calls, long_talk, result, roles, says, system, texts, user
from novelo import check, compose, repair

PROVIDERS = ("openai", "anthropic", "gemini", "mistral", "strict")
WITH_TOOLS = PROVIDERS[:4]
NO_RESULT = "[no result was recorded for this call]"


def mended(messages, provider="openai"):
    """The repaired list; it is sendable and stays as it is."""
    out = repair(messages, provider)
    assert check(out.messages, provider) == []
    assert repair(out.messages, provider).changes == []
    return out.messages


@pytest.mark.parametrize("provider", WITH_TOOLS)
def test_open_call_gets_a_neutral_error(provider):
    """A call left open by a crash gets one made result that claims nothing (FR-18, FR-19, FR-23, FR-31)."""
    given = [user("Exporte."), calls("c1", name="export"), user("alô?")]
    out = mended(given, provider)
    made = [m for m in out if m["role"] == "tool"]
    assert texts(made) == [NO_RESULT]
    assert not re.search(r"cancel|success|user", made[0]["content"], re.IGNORECASE)
    assert given[0] in out
    assert given[2] in out
    langchain = pytest.importorskip("langchain_core.messages")
    context = compose(given, "buffer", provider).messages("langchain")
    tool = next(m for m in context if isinstance(m, langchain.ToolMessage))
    assert tool.status == "error"
    assert tool.additional_kwargs["lc_source"] == "novelo"


def test_approval_pending_when_the_user_goes_on():
    """A call waiting for approval is closed as not recorded, and the new request follows (FR-20)."""
    given = [
        user("Envie o contrato."),
        calls("c1", name="enviar", text="Preciso da sua confirmação."),
        user("Espere, mude o valor."),
    ]
    out = mended(given)
    assert roles(out) == "uatu"
    assert out[2]["tool_call_id"] == "c1"


def test_partial_results_keep_the_order_of_the_calls():
    """Of two calls one has a result: both have one, in the order of the calls (FR-21)."""
    given = [user("Delete and list."), calls("c1", "c2"), result("c2", "groceries; taxes")]
    out = mended(given)
    assert [(m["tool_call_id"], m["content"]) for m in out[2:]] == [("c1", NO_RESULT), ("c2", "groceries; taxes")]


@pytest.mark.parametrize("provider", WITH_TOOLS)
def test_late_result_goes_back_to_its_call(provider):
    """A result behind the next question stands at its call; nothing is made up (FR-22)."""
    given = [
        user("both"),
        calls("c1", "c2"),
        result("c1", "12 left"),
        user("the blue one"),
        result("c2", "at the depot"),
    ]
    out = [m for m in mended(given, provider) if m["content"] != "[no answer was recorded]"]
    assert out == [given[0], given[1], given[2], given[4], given[3]]


def test_late_results_of_several_calls_find_their_own():
    """Late results pair with the nearest call that waits for them, also across turns and recurring ids."""
    given = [
        user("one"),
        calls("x"),
        user("two"),
        calls("x"),
        user("three"),
        result("x", "for two"),
        result("x", "for one"),
    ]
    out = mended(given)
    assert roles(out) == "uatuatu"
    assert {out[2]["content"], out[5]["content"]} == {"for one", "for two"}


@pytest.mark.parametrize("kind", ["function_call", "tool_use"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_call_hidden_in_a_content_block(provider, kind):
    """A call that stands only in the content is found and answered (FR-24)."""
    block = {
        "type": kind,
        "call_id": "c1",
        "id": "c1",
        "name": "weather",
        "arguments": '{"city": "Porto"}',
        "input": {"city": "Porto"},
    }
    given = [
        user("Weather?"),
        {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, block]},
        user("Any news?"),
    ]
    assert [v.rule for v in check(given, provider)][:1] == ["hidden-call"] or check(given, provider)
    out = json.dumps(mended(given, provider), ensure_ascii=False)
    for words in ("Weather?", "Let me look.", "Any news?"):
        assert words in out


def test_result_without_its_call_is_not_sent():
    """A result whose call was never stored is left out; what was said stays (FR-25, FR-26)."""
    given = [user("Refund 88."), result("c1", "20 EUR booked."), says("It is booked."), user("And 89?")]
    assert mended(given) == [given[0], given[2], given[3]]
    assert "result without its call" in str(repair(given).changes[0])


@pytest.mark.parametrize("order", [("1.250,00", "Chamada interrompida."), ("Chamada interrompida.", "1.250,00")])
def test_real_result_beats_the_made_one(order):
    """Of two results for a call the real one stays, whichever came first (FR-27)."""
    given = [user("Saldo?"), calls("c1"), *(result("c1", t) for t in order), user("Repete?")]
    assert [m["content"] for m in mended(given) if m["role"] == "tool"] == ["1.250,00"]


@pytest.mark.parametrize("provider", WITH_TOOLS)
def test_recurring_ids_pair_by_position(provider):
    """The same id in two turns keeps both results apart (FR-28)."""
    given = [
        user("1"),
        calls("call_0"),
        result("call_0", "12"),
        says("12"),
        user("2"),
        calls("call_0"),
        result("call_0", "99"),
    ]
    assert mended(given, provider) == given


def test_same_id_twice_in_one_message():
    """Two calls of one message that share an id get ids of their own, and each keeps its result."""
    given = [user("q"), calls("c", "c"), result("c", "first"), result("c", "second"), user("ok")]
    out = mended(given, "anthropic")
    ids = [c["id"] for c in out[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [(m["tool_call_id"], m["content"]) for m in out[2:4]] == list(zip(ids, ["first", "second"], strict=True))


@pytest.mark.parametrize("broken", ['{"path": "a.txt", "text": "abc', "[1, 2", '"text"', "{", "not json", "[" * 10_000])
def test_broken_arguments(broken):
    """Arguments are a JSON object on the wire that still shows what there was; the call was not run (FR-29)."""
    given = [user("write"), calls("c1", arguments=broken), user("done?")]
    out = mended(given)
    assert all(isinstance(a, dict) for a in arguments_of(out))
    assert arguments_of(out)[0]["_incomplete_arguments"] == broken
    assert "not executed" in out[2]["content"]
    assert given[1]["tool_calls"][0]["function"]["arguments"] == broken


def test_empty_arguments_are_an_empty_object():
    """Some providers write no arguments as an empty text."""
    assert arguments_of(mended([user("q"), calls("c1", arguments=""), result("c1", "r")])) == [{}]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("blank", ["", "  \n", None, []])
def test_empty_answer_is_not_sent(provider, blank):
    """An assistant message that says nothing is left out and both questions reach the model (FR-33)."""
    given = [user("Resuma."), says(blank), user("Travou?")]
    out = mended(given, provider)
    said = "\n".join(texts(out))
    assert "Resuma." in said
    assert "Travou?" in said
    assert all(m["content"] for m in out)
    if provider == "strict":
        assert roles(out) == "u"


def test_blank_question_says_so():
    """A question of white space is not dropped: the model learns that it was empty."""
    assert texts(mended([user("a"), says("b"), user("  ")])) == ["a", "b", "[empty message]"]


def test_result_without_content():
    """A tool that returned no content is answered by words, since its call needs a result (FR-34)."""
    assert mended([user("q"), calls("c"), result("c", None), says("ok")])[2]["content"] == "[no output]"


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "strict"])
def test_ids_and_thoughts_for_another_provider(provider):
    """Ids become legal the same way each time, on call and result alike; what is visible is unchanged (FR-73)."""
    thought = {"type": "thinking", "thinking": "preciso do fuso", "signature": "assinatura"}
    call = {**calls("call_ab1|fc_99", name="hora", arguments='{"cidade": "Lisboa"}'), "content": [thought]}
    given = [user("Que horas são?"), call, result("call_ab1|fc_99", "14:05"), says("São 14:05."), user("E em Macau?")]
    one, two = mended(given, provider), mended(given, provider)
    assert one == two
    if provider == "anthropic":
        name = one[1]["tool_calls"][0]["id"]
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", name)
        assert one[2]["tool_call_id"] == name
        assert json.loads(json.dumps(given))[1]["tool_calls"][0]["id"] == "call_ab1|fc_99"
    assert "14:05" in json.dumps(one)


def test_thoughts_of_another_model_are_left_out():
    """With the author known, thoughts go only to that model; to others the message goes without them (FR-73)."""
    from novelo.messages import Message, Reasoning, Text

    thought = Reasoning(text="hm", signature="s")
    answer = Message("assistant", (thought, Text(text="São 14:05.")), meta={"model": "model-a"})
    given = [Message("user", "horas?"), answer, Message("user", "e lá?")]
    same = compose(given, "buffer", "anthropic", model="model-a").messages("message")
    other = compose(given, "buffer", "anthropic", model="model-b").messages("message")
    assert thought in same[1].content
    assert other[1].content == (Text(text="São 14:05."),)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_assistant_first(provider):
    """A history that opens with the assistant is sendable, greeting included."""
    given = [says("Olá, em que posso ajudar?"), *long_talk(2)]
    out = mended(given, provider)
    assert "Olá, em que posso ajudar?" in texts(out)
    if provider in ("anthropic", "strict"):
        assert roles(out).startswith("ua")


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "mistral", "strict"])
def test_system_in_the_middle_joins_the_head(provider):
    """Where system messages stand at the head only, one in the middle keeps its authority and moves there."""
    given = [system("Base."), *long_talk(1), system("Seja breve."), user("e?")]
    out = mended(given, provider)
    assert roles(out).count("s") == 1
    assert "Base." in out[0]["content"]
    assert "Seja breve." in out[0]["content"]
    assert mended(given, "openai") == given


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("text", ["Be kind.", ""])
def test_a_system_message_calls_nothing(provider, role, text):
    """Calls on a system message go, wherever it stands; results that follow are of no call."""
    odd = {**calls("c1"), "role": role, "content": text}
    for given in (
        [odd, user("oi")],
        [system("Be brief."), odd, user("oi"), says("olá")],
        [user("oi"), odd, result("c1", "1"), says("olá")],
        [user("oi"), calls("c0"), odd, result("c0", "0"), result("c1", "1")],
    ):
        out = mended(given, provider)
        said = " ".join(one or "" for one in texts(out))
        assert "oi" in said and text in said
        assert not [m for m in out if m["role"] in ("system", "developer") and m.get("tool_calls")]
        assert check(compose(given, "buffer", provider).messages("openai"), provider) == []


def test_two_users_in_a_row():
    """Two questions in a row are joined where user and assistant must take turns, and left alone elsewhere."""
    given = [user("a"), user("b"), says("c"), user("d")]
    assert texts(mended(given, "strict")) == ["a\n\nb", "c", "d"]
    for provider in WITH_TOOLS:
        assert mended(given, provider) == given


def test_mistral_hears_an_answer_between_result_and_question():
    """Where a question may not follow a tool result, a made answer stands between."""
    given = [user("q"), calls("c1"), result("c1", "r"), user("hello?")]
    assert texts(mended(given, "mistral"))[3] == "[no answer was recorded]"


def test_template_without_tools_reads_them_as_text():
    """A template that knows no tools gets calls and results as text, strictly in turn."""
    given = [user("q"), calls("c1", name="f", arguments='{"a": 1}'), result("c1", "r"), says("done"), user("next")]
    out = mended(given, "strict")
    assert roles(out) == "uauau"
    assert out[1]["content"] == '[tool call] f({"a": 1})'
    assert out[2]["content"] == "[tool result] f: r"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_valid_lists_come_back_as_the_same_objects(provider):
    """What needs no mending is returned as it is."""
    given = [system("s"), *long_talk(3), user("last")]
    out = repair(given, provider)
    assert out.messages is given
    assert out.changes == []
