"""Facts: what must stay word for word is found, kept or named as lost; and finding it takes linear time."""

from __future__ import annotations

import gzip
import json
import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from novelo._fact_rules import RULES
from novelo.facts import (
    KINDS,
    MAX_CLAUSE,
    MAX_FACT,
    MAX_FACTS,
    MAX_READ,
    Fact,
    facts_of,
    fit,
    ledger_text,
    lost_facts,
    merge,
    read,
    says,
)
from novelo.messages import Image, Message, Text

TOKEN = re.compile(r"\b(?=\w*\d)[A-Za-z0-9_-]{5,}\b")


def found(text, role="user"):
    """The facts of a text as pairs of kind and text."""
    return [(fact.kind, fact.text) for fact in facts_of(Message(role, text), 3)]


SAMPLES = [
    ("Meu nome é Lívia e moro aqui.", "name", "Lívia"),
    ("Oi, sou a Lívia Prado da Costa, tudo bem?", "name", "Lívia Prado da Costa"),
    ("Pode me chamar de Téo.", "name", "Téo"),
    ("O nome do cliente é Bento Lima.", "name", "Bento Lima"),
    ("my name is lulu", "name", "lulu"),
    ("Hi, call me Ishmael.", "name", "Ishmael"),
    ("I am called J. R. Ewing, ok?", "name", "J. R. Ewing"),
    ("Me llamo Lucía Pérez.", "name", "Lucía Pérez"),
    ("Mi nombre es Lucía", "name", "Lucía"),
    ("我叫王小明，你好", "name", "王小明"),
    ("请叫我小李", "name", "小李"),
    ("我的名字是Anna Lee。", "name", "Anna Lee"),
    ("A entrega não pode passar de sexta.", "constraint", "A entrega não pode passar de sexta"),
    ("Quero um bolo, sem glúten.", "constraint", "sem glúten"),
    ("Oi! Preciso que chegue até 20/03, cedo.", "constraint", "Preciso que chegue até 20/03, cedo"),
    ("My daughter must not eat peanuts.", "constraint", "My daughter must not eat peanuts"),
    ("Never call before 9.", "constraint", "Never call before 9"),
    ("(it must not (ever) rain)", "constraint", "it must not (ever) rain"),
    ("We only want aisle seats", "constraint", "We only want aisle seats"),
    ("Lo quiero sin azúcar.", "constraint", "Lo quiero sin azúcar"),
    ("不要辣，谢谢", "constraint", "不要辣"),
    ("快递必须周五前到。", "constraint", "快递必须周五前到"),
    ("o pedido é PX-48213-7.", "id", "PX-48213-7"),
    ("O lacre é 2291-KT, viu", "id", "2291-KT"),
    ("order_8812 is late", "id", "order_8812"),
    ("订单PX-48213-7已发货", "id", "PX-48213-7"),
    ("550e8400-e29b-41d4-a716-446655440000", "id", "550e8400-e29b-41d4-a716-446655440000"),
    ("see #77!", "id", "#77"),
    ("gate B12", "id", "B12"),
    ("CPF 123.456.789-09", "id", "123.456.789-09"),
    ("CEP 01310-100", "id", "01310-100"),
    ("A2024-中", "id", "A2024-"),
    ("at 192.168.0.17:8080", "id", "192.168.0.17:8080"),
    ("Paguei R$ 1.347,90 ontem", "money", "R$ 1.347,90"),
    ("custou 20 reais", "money", "20 reais"),
    ("it was $12.50.", "money", "$12.50"),
    ("15 USD please", "money", "15 USD"),
    ("1.5 million dollars", "money", "1.5 million dollars"),
    ("son 300 pesos", "money", "300 pesos"),
    ("¥300", "money", "¥300"),
    ("价格300元吧", "money", "300元"),
    ("人均100-150元", "money", "100-150元"),
    ("三百元", "money", "三百元"),
    ("em 14/03.", "date", "14/03"),
    ("14/03/2026", "date", "14/03/2026"),
    ("on 2026-03-14, ok", "date", "2026-03-14"),
    ("2026-03-14T14:30:00Z", "date", "2026-03-14T14:30:00Z"),
    ("by March 14, 2026", "date", "March 14, 2026"),
    ("the 3rd of March", "date", "3rd of March"),
    ("dia 14 de março.", "date", "14 de março"),
    ("el 14 de marzo de 2026", "date", "14 de marzo de 2026"),
    ("3月14日送达", "date", "3月14日"),
    ("2026年3月14日", "date", "2026年3月14日"),
    ("às 14:30.", "date", "14:30"),
    ("às 14h30", "date", "14h30"),
    ("at 5 p.m. sharp", "date", "5 p.m."),
    ("下午3点半", "date", "3点半"),
    ("na Rua das Acácias, 77.", "address", "Rua das Acácias, 77"),
    ("Av. Paulista, 1578, apto 12", "address", "Av. Paulista, 1578, apto 12"),
    ("at 12 Main Street", "address", "12 Main Street"),
    ("503 Elm Avenue, Suite 641, Dallas", "address", "503 Elm Avenue, Suite 641"),
    ("vivo en Calle Mayor, 5", "address", "Calle Mayor, 5"),
    ("我住在北京市朝阳区建国路8号", "address", "北京市朝阳区建国路8号"),
    ("write to livia.p@example.org.", "email", "livia.p@example.org"),
    ("ligue (11) 98765-4321", "phone", "(11) 98765-4321"),
    ("+1 415-555-0134", "phone", "+1 415-555-0134"),
    ("电话010-81181505", "phone", "010-81181505"),
    ("see https://example.org/a?b=1.", "url", "https://example.org/a?b=1"),
    ("网址是https://example.org/a，谢谢", "url", "https://example.org/a"),
    ("in /var/log/app.log", "path", "/var/log/app.log"),
    ("edit src/novelo/facts.py:12", "path", "src/novelo/facts.py"),
    (r"C:\dados\x.csv", "path", r"C:\dados\x.csv"),
    ("anexei relatorio.pdf", "path", "relatorio.pdf"),
    ("Rua fechada, 77 vezes", "number", "77 vezes"),
    ("2 kg de arroz", "number", "2 kg"),
    ("são 3 noites", "number", "3 noites"),
    ("40% off", "number", "40%"),
    ("a 24-hour notice", "number", "24-hour"),
    ("要2个", "number", "2个"),
    ("it is 2,5", "number", "2,5"),
]


@pytest.mark.parametrize(("text", "kind", "fact"), SAMPLES)
def test_each_kind_in_each_language(text: str, kind: str, fact: str) -> None:
    """A fact is found word for word, of its kind, in Portuguese, English, Spanish and Chinese."""
    assert (kind, fact) in found(text)


def test_every_kind_has_a_sample() -> None:
    """No kind of fact stays untested, and every rule names a known kind."""
    assert {kind for _, kind, _ in SAMPLES} == set(KINDS) == {rule.kind for rule in RULES}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Obrigada!",
        "my name is not important",
        "call me later",
        "我叫了一辆出租车",
        "能不能便宜",
        "and/or",
        "It costs 5",
    ],
)
def test_no_fact_where_none_is(text: str) -> None:
    """Small talk, a single digit and phrases that only look like names yield nothing."""
    assert found(text) == []


def test_the_longest_wins_and_none_comes_twice() -> None:
    """A number inside an id, address or date is no fact of its own, and what is said twice is kept once."""
    text = "Rua das Acácias, 77. PX-48213-7, PX-48213-7 e R$ 1.347,90 em 14/03/2026"
    assert [t for _, t in found(text)] == ["Rua das Acácias, 77", "PX-48213-7", "R$ 1.347,90", "14/03/2026"]


def test_names_and_constraints_are_the_users_to_give() -> None:
    """An answer or a tool result gives ids and numbers, but no name and no constraint; a system message nothing."""
    text = "My name is Anna, you must not share order PX-48213-7."
    assert [kind for kind, _ in found(text, "user")] == ["name", "constraint"]
    assert found(text, "assistant") == found(text, "tool") == [("id", "PX-48213-7")]
    assert found(text, "system") == []


def test_a_fact_knows_its_place() -> None:
    """A fact carries the position of its message and the role of who said it; parts that are no text have none."""
    message = Message("tool", (Text(text="id AB-1234"), Image(url="https://example.org/x.png")), tool_call_id="c1")
    assert facts_of(message, 9) == [Fact("id", "AB-1234", 9, "tool")]


def test_a_clause_ends_between_words() -> None:
    """A long constraint is cut at most 120 characters after its beginning, and not inside a word."""
    text = "Never " + "alpha " * 40
    (kind, fact) = found(text)[0]
    assert kind == "constraint" and len(fact) <= MAX_CLAUSE and fact.endswith("alpha")


def test_a_huge_result_gives_few_facts_and_a_count() -> None:
    """Of a large tool result the ids come first, at most 40 facts are taken, and the rest is counted."""
    rows = "\n".join(f"{k + 100} widgets, order PX-{k:05}" for k in range(300))
    got = read(Message("tool", rows, tool_call_id="c1"), 0)
    assert len(got.facts) == MAX_FACTS["tool"] and {fact.kind for fact in got.facts} == {"id"}
    assert got.passed_over == 600 - 40 and got.unread == 0


def test_a_long_run_is_counted_and_not_cut() -> None:
    """A run of characters too long for a ledger is passed over whole: a piece of an id would be a wrong id."""
    got = read(Message("user", "x1" * MAX_FACT), 0)
    assert got.facts == [] and got.passed_over == 1


def test_of_a_very_long_message_both_ends_are_read() -> None:
    """The beginning and the end of a text over the limit are read, and the characters between are told."""
    text = "order AA-11111 " + "blah " * MAX_READ + " order ZZ-99999"
    got = read(Message("user", text), 0)
    assert [fact.text for fact in got.facts] == ["AA-11111", "ZZ-99999"]
    assert got.unread == pytest.approx(len(text) - MAX_READ, abs=2 * MAX_FACT)


HARD = ["1", "1 ", "12 ", "1.", "a-", "-", "a/", "a.", ".", "x@", "a://", "Rua ", "12 A ", "a A ", "/a", "C:\\", "#"]
HARD += ["sem a ", "meu nome é ", "me chamo A ", "北京市", "北路1号", "没有", "不要", "十", "1月", "A1-", " \t", "(1) "]


@pytest.mark.parametrize("piece", HARD)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    """Repeating what a rule nearly matches makes no rule run away: what is quadratic would take minutes here."""
    text = piece * (100_000 // len(piece)) + " 1 .:// www. @ # 元 号 :\\"
    started = time.process_time()
    for rule in RULES:
        for _ in rule.pattern.finditer(text):
            pass
    assert time.process_time() - started < 4  # measured 0.1 to 0.3 s


def test_a_message_of_five_megabytes_is_read_soon() -> None:
    """The limit of what is read holds the time for a message of any size."""
    message = Message("user", "palavra com 12 coisas e 14/03, R$ 5,00 no pedido PX-48213-7. " * 80_000)
    started = time.process_time()
    assert len(facts_of(message, 0)) == 4
    assert time.process_time() - started < 2


PIECES = st.sampled_from([text for text, _, _ in SAMPLES] + HARD + ["\n", " ", "，", ". ", "😀", "e", "7"])
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES).map(" ".join))


@given(TEXTS, st.sampled_from(["user", "assistant", "tool"]))
@example("\x1fSÓ\x1b", "user")  # a separator that counts as a blank
def test_every_fact_is_verbatim(text: str, role) -> None:
    """Each fact is a piece of the text on one line, without blanks at its ends, and none comes twice."""
    facts = facts_of(Message(role, text), 0)
    assert all(f.text in text and f.text == f.text.strip() and "\n" not in f.text for f in facts)
    assert all(0 < len(f.text) <= MAX_FACT and f.kind in KINDS for f in facts)
    assert len({f.text for f in facts}) == len(facts) <= MAX_FACTS[role]


@given(TEXTS)
def test_every_token_with_a_digit_is_covered(text: str) -> None:
    """Any token of five characters with a digit in it stands in some fact, unless it is too long to be one."""
    facts = facts_of(Message("user", text), 0)
    tokens = [t for t in TOKEN.findall(text) if re.search(r"[0-9]", t) and len(t) <= 40 and t.strip("-") == t]
    assert [t for t in tokens if not any(t in f.text for f in facts)] == []


# ---- the ledger ----

FACTS = st.lists(
    st.builds(
        Fact,
        st.sampled_from(KINDS),
        st.text("ab1-/., R$元", min_size=1, max_size=12),
        st.integers(0, 30),
        st.sampled_from(["user", "assistant", "tool"]),
    ),
    max_size=25,
)


def words(text: str) -> int:
    """A token count for tests: one for every three characters, begun ones too."""
    return -(-len(text) // 3)


def test_merge_keeps_the_first_place() -> None:
    """What is said again keeps the position where it was first said, and becomes the user's once they say it."""
    old = [Fact("id", "PX-1", 4, "tool"), Fact("name", "Lívia", 2)]
    new = [Fact("id", "PX-1", 9), Fact("date", "14/03", 7)]
    assert merge(old, new) == [Fact("name", "Lívia", 2), Fact("id", "PX-1", 4), Fact("date", "14/03", 7)]
    assert merge(new, old) == merge(old, new)


@given(FACTS, FACTS)
def test_merge_loses_no_text(old, new) -> None:
    """Every text of both lists is there once, ordered by position, and merging again changes nothing."""
    both = merge(old, new)
    assert {f.text for f in both} == {f.text for f in (*old, *new)} and len({f.text for f in both}) == len(both)
    assert [f.position for f in both] == sorted(f.position for f in both)
    assert merge(both, new) == both


@given(FACTS, st.text("ab1-/., R$元", max_size=60), st.integers(0, 60))
def test_fit_accounts_for_every_fact(facts, prose, limit) -> None:
    """The ledger never exceeds its limit, and kept, lost and verbatim are together all facts."""
    got = fit(facts, prose, limit, words)
    assert not got.kept or words(ledger_text(got.kept)) <= limit
    everything = [*got.kept, *got.lost, *got.verbatim]
    assert sorted(map(repr, everything)) == sorted(map(repr, facts))
    assert all(says(prose, f.text) for f in got.verbatim)
    assert lost_facts(got.lost, prose) == got.lost


def test_fit_prefers_what_the_user_gave() -> None:
    """With little room the user's facts stay before a tool's, names before numbers, and new before old."""
    facts = [
        Fact("number", "41", 1),
        Fact("id", "TT-00001", 2, "tool"),
        Fact("id", "AA-00001", 3),
        Fact("id", "BB-00002", 4),
        Fact("name", "Lívia", 0),
    ]
    kept = []
    for limit in (7, 10, 13, 16, 30):
        kept.append([f.text for f in fit(facts, "", limit, words).kept])
    assert (
        kept[0] == ["Lívia"]
        and kept[1] == ["Lívia", "BB-00002"]
        and kept[-1] == ["Lívia", "41", "TT-00001", *kept[2][1:]]
    )
    assert fit(facts, "", 0, words).lost == sorted(facts, key=lambda f: f.position)


def test_fit_writes_no_line_for_what_the_prose_says() -> None:
    """A fact that is verbatim in the prose takes no room in the ledger."""
    facts = [Fact("id", "PX-48213-7", 1), Fact("id", "2291-KT", 2)]
    got = fit(facts, "O pedido PX-48213-7 saiu.", 100, words)
    assert (got.verbatim, got.kept, got.lost) == (facts[:1], facts[1:], [])


def test_the_ledger_has_one_line_a_kind() -> None:
    """The ledger is compact: kinds in a fixed order, the facts of one kind on its line."""
    facts = [Fact("id", "PX-48213-7", 1), Fact("name", "Lívia", 2), Fact("id", "2291-KT", 3)]
    assert ledger_text(facts) == "name: Lívia\nid: PX-48213-7; 2291-KT"
    assert lost_facts(facts, ledger_text(facts)) == [] and ledger_text([]) == ""


@pytest.mark.parametrize(
    ("text", "fact", "expected"),
    [
        ("são 77.", "77", True),
        ("o ano de 1772", "77", False),
        ("são 1.277,50", "77", False),
        ("são 77,50", "77", False),
        ("77, 78", "77", True),
        ("às 14:30", "14", False),
        ("PX-48213-70", "PX-48213-7", False),
        ("APX-48213-7", "PX-48213-7", False),
        ("(PX-48213-7)", "PX-48213-7", True),
        ("PX-48213-7-B e PX-48213-7", "PX-48213-7", True),
        ("14/03/2026", "14/03", False),
        ("Lívias", "Lívia", False),
        ("a Lívia.", "Lívia", True),
        ("订单PX-48213-7已发", "PX-48213-7", True),
        ("王小明的订单", "王小明", True),
        ("价格1300元", "300元", False),
        ("R$ 1.347,901", "R$ 1.347,90", False),
        ("R$ 1.347,90.", "R$ 1.347,90", True),
    ],
)
def test_verbatim_respects_borders(text: str, fact: str, expected: bool) -> None:
    """A number inside a longer number, or an id inside a longer id, is not that number or id."""
    assert says(text, fact) is expected


@pytest.mark.shared
def test_no_token_of_the_users_in_real_conversations_is_missed(shared) -> None:
    """In all conversations of the data, every token of a user with a digit and five characters stands in a fact."""
    missed, tokens = [], 0
    for path in sorted((shared / "data").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for record in map(json.loads, lines):
                for message in record.get("messages", ()):
                    if message["role"] == "user" and isinstance(message["content"], str):
                        said = set(TOKEN.findall(message["content"]))
                        facts = facts_of(Message("user", message["content"]), 0)
                        tokens += len(said)
                        missed += [t for t in said if not any(t in f.text for f in facts)]
    assert missed == [] and tokens > 1000
