"""Counting tokens: the estimate and its error, exact counters, whole messages, tools, and learning from usage."""

from __future__ import annotations

import base64
import builtins
import functools
import random
import struct
import subprocess
import sys
import time
import unicodedata
import warnings
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo import _estimate, tokens
from novelo.errors import InvalidSpec, MissingExtra
from novelo.messages import Audio, File, Image, Message, Other, Reasoning, Text, ToolCall
from novelo.tokens import Correction, TextCounter, count_message, count_text, count_tools, counter, estimate_text

ANY = st.text(st.characters(), max_size=200)  # every code point, lone surrogates and NUL among them
ACCENTED = [
    letter
    for letter in map(chr, range(0xC0, 0x180))
    if len(unicodedata.normalize("NFD", letter)) == 2 and unicodedata.normalize("NFD", letter)[0].isascii()
]
WRITTEN = st.text(st.sampled_from([*"aeioucnstdhlrgyAEIOUCNST    .,;:'-_0123456789\n", *ACCENTED]), max_size=120)
ZH = "我们计划下个月把客服系统搬到新的机房,并且保留所有旧的对话记录,方便以后查询。"
PT = "Precisamos confirmar a reunião de amanhã às três horas e avisar todos os participantes da associação."
EN = "Could you please check whether the parcel has left the warehouse and tell me when it is going to arrive?"
JA = "明日の会議の時間を確認していただけますか。よろしくお願いいたします。"


def plain(text: str) -> str:
    """A text without its accents."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def user(content, **more) -> Message:
    """A user message."""
    return Message(role="user", content=content, **more)


# ------------------------------------------------------------------------------------------------ the estimate
@given(ANY)
def test_any_text_has_a_count(text):
    """No text raises; the empty one is 0, every other at least 1, and not more than three tokens a character."""
    found = estimate_text(text)
    assert isinstance(found, int)
    assert found == 0 if not text else 1 <= found <= 3 * len(text) + 1


@given(ANY, ANY)
def test_joined_texts_weigh_no_more_than_their_parts(first, second):
    """Joining can only merge tokens; the estimate agrees, up to rounding and one long word that arises."""
    assert estimate_text(first + second) <= estimate_text(first) + estimate_text(second) + 4


@given(WRITTEN)
def test_accents_never_lower_the_estimate(text):
    """A text with accents counts at least as much as the same text without (FR-64)."""
    assert estimate_text(text) >= estimate_text(plain(text))
    decomposed = unicodedata.normalize("NFD", text)
    assert estimate_text(decomposed) >= estimate_text(plain(text))


@given(WRITTEN, st.integers(1, 5))
def test_more_of_the_same_text_is_more(text, times):
    """A text said again counts at least as much as once, and about in proportion."""
    once, often = estimate_text(text + "\n"), estimate_text((text + "\n") * times)
    assert often >= once
    assert often <= (once + 1) * times + 4


def test_chinese_is_not_a_quarter_of_its_characters():
    """Between half a token and two for each Han character, far above a quarter of one (FR-64)."""
    han = sum("一" <= c <= "鿿" for c in ZH)
    assert 0.5 * han <= estimate_text(ZH) <= 2 * han
    assert estimate_text(ZH) > 1.8 * len(ZH) / 4


def test_portuguese_is_a_third_of_its_characters():
    """Portuguese is between 0.2 and 0.5 tokens a character, without accents too (FR-64)."""
    assert 0.2 * len(PT) <= estimate_text(PT) <= 0.5 * len(PT)
    assert estimate_text(PT) >= estimate_text(plain(PT))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name)
        for name, text in {
            "portuguese": PT,
            "portuguese capitals": PT.upper(),
            "chinese": ZH,
            "japanese": JA,
            "english": EN,
            "json": '{"order_id": "73012", "items": [{"sku": "B-0042", "quantity": 2}], "express": true}',
            "ids": "call_9f31c2aa07b1 at 2026-03-14T09:26Z; call_04be77d10c5e at 2026-03-15T18:01Z",
            "markdown": "## Prices\n\n- **basic**: 12.50 a month\n- **team**: 48.00 a month\n\nAsk for an offer.",
            "code": 'def area(width: float, height: float):\n    """Square metres."""\n    return width * height\n',
            "russian": "Пожалуйста, проверьте, отправлен ли мой заказ, и сообщите номер для отслеживания.",
            "spanish": "Quisiera saber si mi pedido ya salió del almacén y qué día llegará a mi casa.",
            "arabic": "أريد أن أعرف متى يصل طلبي وهل يمكنني تغيير عنوان التسليم قبل ذلك.",
            "korean": "주문한 상품이 언제 도착하는지, 배송지를 바꿀 수 있는지 알고 싶습니다.",
        }.items()
    ],
)
def test_estimate_is_near_the_exact_count(text):
    """Everyday texts of each kind are within 40 % of the exact count (the table in docs/tokens.md is far closer)."""
    exact = counter("o200k")(text)
    assert 0.75 * exact <= estimate_text(text) <= 1.4 * exact


def test_long_chinese_history_is_counted_without_reported_usage():
    """Where a provider reports no usage our own count triggers: 60,000 characters of Chinese pass 15,000 (FR-63)."""
    answer = "第七章:远山。" + "他沿着河边慢慢地走,想起了很多年前的那个夏天。" * 3000
    assert count_message(Message(role="assistant", content=answer[:60_000])) > 15_000
    assert Correction().learned(40_000, None) == Correction()
    assert Correction().learned(40_000, 0) == Correction()


def test_estimate_is_linear_and_fast():
    """Ten million characters take a second or so, and as many tokens a character as a page of them."""
    page = (EN + "\n" + PT + "\n") * 10
    text = page * (10_000_000 // len(page))
    start = time.process_time()
    found = estimate_text(text)
    assert time.process_time() - start < 5
    assert found / len(text) == pytest.approx(estimate_text(page) / len(page), rel=0.02)


def test_long_gaps_and_odd_characters_do_not_explode():
    """Indentation is cheap however long, and NUL, lone surrogates and emoji are counted like other characters."""
    assert estimate_text("if x:" + " " * 100_000 + "return") < 15
    assert estimate_text("\x00\ud800\udfff😀") >= 2
    assert estimate_text(" ") == estimate_text("\n") == 1


def test_weights_match_the_features():
    """The features that the fit is made over, times the weights, are the estimate."""
    weights = [w for table in _estimate.TABLES.values() for w in table.values()]
    for text in (PT, ZH, JA, EN, "x = 12\n\ty_1 = 'Ço'"):
        assert round(sum(w * n for w, n in zip(weights, _estimate.features(text), strict=True))) == estimate_text(text)


# ------------------------------------------------------------------------------------------------ counters
@functools.cache
def reference(name):
    """The tokenizer itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of its own, when it is imported
        import bpe_openai

        return bpe_openai.get_encoding(name)


@given(ANY)
def test_exact_counters_count_exactly(text):
    """o200k and cl100k give what the tokenizer gives; what looks like its control tokens is text."""
    for name in ("o200k", "cl100k"):
        tokenizer = reference(f"{name}_base")
        for one in (text, f"<|endoftext|>{text}"):
            assert counter(name)(one) == len(tokenizer.encode_ordinary(one))


def test_long_texts_are_counted_exactly():
    """Texts longer than the tokenizer takes at once are cut where no token reaches across."""
    tokenizer = reference("o200k_base")
    rng = random.Random(3)
    words = (EN + " " + PT + " {'a': 1}\n\n    naïve (ok) 12345").split(" ")
    text = " ".join(rng.choices(words, k=30_000))
    assert len(text) > 3 * 50_000
    assert counter("o200k")(text) == len(tokenizer.encode_ordinary(text))
    assert counter("o200k")("😀" * 400_000) == pytest.approx(400_000, rel=0.2)  # refused by the tokenizer at once
    assert counter("o200k")("好" * 1_200_000) > 0


def test_names_and_functions_are_counters():
    """A name, a counter and a function are accepted; a counter tells its name and is called like a function."""
    estimate = counter("estimate")
    assert (estimate.name, estimate(EN)) == ("estimate", estimate_text(EN))
    assert counter() is not None and counter(estimate) is estimate
    assert counter("o200k_base").name == "o200k"
    assert counter(len)("abc") == 3 and counter(len).name == "len"
    assert count_text("abc", counter(len)) == 3 and count_text(EN) == estimate_text(EN)


@pytest.mark.parametrize("wanted", ["gpt2", "", "langchain:", "o2000k", 7, None])
def test_unknown_counters_are_refused(wanted):
    """What names no counter is an error that lists those there are."""
    with pytest.raises(InvalidSpec, match=r"estimate, o200k, cl100k, langchain:<model>"):
        counter(wanted)


@pytest.mark.parametrize(("name", "extra"), [("o200k", "exact"), ("langchain:openai:gpt-4o", "langchain")])
def test_missing_package_is_named(monkeypatch, name, extra):
    """Without the optional package the error says which extra to install."""
    tokens._encoding.cache_clear()
    real = builtins.__import__

    def absent(wanted, *args, **kwargs):
        if wanted.split(".")[0] in ("bpe_openai", "langchain"):
            raise ModuleNotFoundError(f"No module named {wanted!r}")
        return real(wanted, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    for module in [m for m in sys.modules if m.split(".")[0] in ("bpe_openai", "langchain")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [_Absent(), *sys.meta_path])
    with pytest.raises(MissingExtra, match=rf"novelo\[{extra}\]") as caught:
        counter(name)
    assert caught.value.extra == extra
    assert isinstance(caught.value, ImportError)


class _Absent:
    """A finder that says there is no such package."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("bpe_openai", "langchain"):
            raise ModuleNotFoundError(f"No module named {name!r}")


def test_tokenizer_is_loaded_only_when_asked_for():
    """The estimate imports neither a tokenizer nor LangChain."""
    code = "import sys, novelo.tokens as t; t.counter('estimate')('a b'); "
    code += "print('bpe_openai' in sys.modules, 'langchain' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "False"]


def test_model_of_langchain_counts_with_its_own_tokenizer():
    """An object with get_num_tokens counts by it."""
    fake = pytest.importorskip("langchain_core.language_models.fake_chat_models")
    model = fake.FakeListChatModel(responses=["ok"], custom_get_token_ids=lambda text: list(range(len(text.split()))))
    by_model = counter(model)
    assert by_model.name == "langchain:FakeListChatModel"
    assert count_message(user("três palavras aqui"), by_model) == tokens.MESSAGE + 3


def test_error_inside_a_counter_surfaces():
    """A TypeError from inside a user's counter comes out as it is, after one call and no second attempt (FR-67)."""
    calls = []
    cause = KeyError("schema")

    def broken(text):
        calls.append(text)
        raise TypeError("odd schema") from cause

    with pytest.raises(TypeError, match="odd schema") as caught:
        count_message(user("conte-me"), counter(broken))
    assert caught.value.__cause__ is cause
    assert calls == ["conte-me"]


@pytest.mark.parametrize("result", [None, 2.5, "3", True, -1])
def test_counter_must_give_a_number_of_tokens(result):
    """A result that is no whole number from 0 on is named, not summed up."""
    with pytest.raises(InvalidSpec, match="expected a whole number"):
        count_message(user("a"), counter(lambda text: result))


def test_function_of_a_message_gets_the_message():
    """A function whose first argument is annotated or named so counts whole messages, without our overhead."""
    got = []

    def annotated(m: Message) -> int:
        got.append(m)
        return 11

    def named(message):
        return 12

    asked = user("a")
    assert (count_message(asked, counter(annotated)), got) == (11, [asked])
    assert count_message(asked, counter(named)) == 12
    assert counter(named)("um texto") == 12
    assert isinstance(counter(named), TextCounter)


# ------------------------------------------------------------------------------------------------ messages
def test_message_costs_its_text_and_four():
    """Role and marks are 4; names, calls and the answered call's id are counted too; notes of our own are not."""
    assert count_message(user("abc"), len) == 4 + 3
    assert count_message(Message(role="assistant"), len) == 4
    assert count_message(user("abc", name="ana"), len) == 4 + 3 + 1 + 3
    called = Message(role="assistant", tool_calls=(ToolCall("c1", "find", '{"q": 1}'), ToolCall("c2", "go", "{}")))
    assert count_message(called, len) == 4 + (6 + 4 + 8) + (6 + 2 + 2)
    assert count_message(Message(role="tool", content="ok", tool_call_id="c12"), len) == 4 + 2 + 3
    noted = user("abc", id="m-1", meta={"status": "error"}, extra={"response_metadata": "x" * 99})
    assert count_message(noted, len) == 7
    assert count_message(Message(role="assistant", extra={"refusal": "no"}), len) == 4 + 2


def test_parts_are_counted_each_by_its_kind():
    """Texts and thoughts are text; signatures are not; what has an unknown kind counts as its JSON."""
    assert count_message(user((Text(text="abc"), Text(text="de"))), len) == 4 + 5
    thought = Reasoning(text="hm", signature="s" * 900)
    assert count_message(Message(role="assistant", content=(thought,)), len) == 4 + 2
    assert count_message(Message(role="assistant", content=(Reasoning(data="x" * 1600),)), len) == 4 + 300
    assert count_message(user((Other(value={"type": "x"}),)), len) == 4 + len('{"type":"x"}')
    video = Other(value={"type": "video", "data": "A" * 1_000_000})
    assert count_message(user((video,))) < 40_000  # by its bytes, not as a million letters
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert count_message(user((Other(value=deep),))) == 4 + tokens.OPAQUE


def test_base64_is_never_counted_as_text():
    """A picture of two million characters beside a question weighs what a picture weighs (FR-65, FR-66)."""
    data = base64.b64encode(random.Random(1).randbytes(1_500_000)).decode()
    for picture in (Image(url=f"data:image/png;base64,{data}"), Image(data=data, media_type="image/png")):
        counted = count_message(user((Text(text="O que é isto?"), picture)))
        assert counted == 4 + estimate_text("O que é isto?") + 765


def png(width: int, height: int) -> str:
    """The head of a PNG picture in base64."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (Image(url="https://example.org/a.png"), 765),
        (Image(url="https://example.org/a.png", detail="low"), 85),
        (Image(data=png(100, 100)), 255),
        (Image(data=png(100, 100), detail="high"), 255),
        (Image(data=png(100, 100), detail="low"), 85),
        (Image(data=png(1024, 1024)), 765),
        (Image(data=png(2048, 4096)), 1105),
        (Image(data=png(4000, 3000)), 765),
        (Image(data=png(600, 500)), 85 + 2 * 170),
        (Image(data=png(60_000, 10)), 85 + 4 * 170),
        (Image(url="https://example.org/a.png", extra={"width": 512, "height": 512}), 255),
        (Image(data=base64.b64encode(b"GIF89a" + struct.pack("<HH", 500, 400)).decode()), 255),
        (
            Image(
                data=base64.b64encode(
                    b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 900, 512) + b"\x03" * 9
                ).decode()
            ),
            85 + 2 * 170,
        ),
        (
            Image(
                data=base64.b64encode(
                    b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (599).to_bytes(3, "little") + (499).to_bytes(3, "little")
                ).decode()
            ),
            85 + 2 * 170,
        ),
        (Image(data="not base64 é"), 765),
        (Image(data=png(0, 10)), 765),
        (Image(file_id="file-1"), 765),
    ],
)
def test_pictures_cost_by_their_size(picture, expected):
    """85 and 170 a tile of 512 pixels after shrinking; 85 for low detail; 765 where the size cannot be known."""
    assert count_message(user((picture,))) == 4 + expected


def test_sounds_and_files_cost_by_their_bytes():
    """Ten seconds of sound are 320 tokens, a page of text a few hundred; an unknown size is a minute or a page."""
    ten_seconds = base64.b64encode(b"\0" * 320_000).decode()
    assert count_message(user((Audio(data=ten_seconds, media_type="audio/wav"),))) == pytest.approx(324, abs=2)
    assert count_message(user((Audio(data=ten_seconds, media_type="audio/mp3"),))) == pytest.approx(1284, abs=2)
    assert count_message(user((Audio(url="https://example.org/a.mp3"),))) == 4 + 1920
    page = base64.b64encode(EN.encode() * 30).decode()
    assert 30 * estimate_text(EN) < count_message(user((File(data=page, media_type="text/plain"),))) < len(EN) * 30 / 2
    assert count_message(user((File(file_id="f-1"),))) == 4 + 3000
    assert count_message(user((File(data="A" * 40_000_000, media_type="application/pdf"),))) == 4 + 300_000


@given(st.text(max_size=50), st.integers(-5, 10**9), st.integers(-5, 10**9))
def test_no_picture_breaks_counting(data, width, height):
    """Whatever stands in a picture's data and fields, a number comes out."""
    for picture in (
        Image(data=data),
        Image(url=f"data:{data}"),
        Image(extra={"width": width, "height": height}),
        Image(data=base64.b64encode(b"\xff\xd8" + data.encode(errors="replace")).decode()),
    ):
        assert count_message(user((picture,))) >= 4 + 85


def test_tools_are_counted_as_their_json():
    """Each definition costs its JSON and 8; a counter given is used; what is no JSON is an error with its place."""
    find = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
    size = len(msgspec.json.encode(find))
    assert count_tools([], len) == 0
    assert count_tools([find, find], len) == 2 * (size + 8)
    assert count_tools([find]) == 8 + estimate_text(msgspec.json.encode(find).decode())
    with pytest.raises(InvalidSpec, match="definition 1"):
        count_tools([find, {"x": object()}])


# ------------------------------------------------------------------------------------------------ learning from usage
def test_correction_moves_towards_what_is_reported():
    """The example of the docstring: differences 100, 120 and 4000 (held to 200) add 120, or 20 % if less."""
    learnt = Correction("m")
    for counted, reported in ((1000, 1100), (1000, 1120), (1000, 5000)):
        learnt = learnt.learned(counted, reported)
    assert learnt == Correction("m", (100, 120, 200))
    assert (learnt.tokens, learnt.apply(2000), learnt.apply(300), learnt.apply(0)) == (120, 2120, 360, 0)


def test_correction_is_additive_and_bounded():
    """A hidden prompt of 10,000 tokens beside 50 counted ones teaches no factor of 200 (FR-62)."""
    learnt = Correction().learned(50, 10_050)
    assert learnt.apply(50) == 60
    assert learnt.apply(10_000) == 10_010


def test_correction_forgets_and_is_stored():
    """Only the last five calls count, and the value survives JSON."""
    learnt = Correction("m")
    for reported in (1200, 1200, 1200, 900, 900, 900, 900, 900):
        learnt = learnt.learned(1000, reported)
    assert learnt.tokens == -100
    assert msgspec.json.decode(msgspec.json.encode(learnt), type=Correction) == learnt
    assert Correction().apply(700) == 700


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.none() | st.integers(0, 10**7)), max_size=12), st.integers(0, 10**6)
)
def test_correction_never_exceeds_a_fifth(calls, counted):
    """Whatever is reported, a corrected count stays within 20 % of the count."""
    learnt = Correction()
    for before, reported in calls:
        learnt = learnt.learned(before, reported)
    assert 0.8 * counted <= learnt.apply(counted) <= 1.2 * counted
