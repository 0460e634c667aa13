"""Whatever the fields of a LangChain message, it comes back equal; call ids stay apart; every text can be stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from novelo import formats
from novelo.formats.anthropic import legal_call_id
from novelo.formats.openai import from_openai
from novelo.messages import decode, encode

messages = pytest.importorskip("langchain_core.messages")
from novelo.formats.langchain import from_langchain, to_langchain  # noqa: E402

Human, AI, System, Tool = messages.HumanMessage, messages.AIMessage, messages.SystemMessage, messages.ToolMessage
USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "input_token_details": {"cache_read": 4}}

texts = st.text(st.characters(codec="utf-8"), max_size=8)
plain = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | texts
data = st.dictionaries(texts, plain | st.lists(plain, max_size=2), max_size=3)
common = {"id": st.none() | texts, "name": st.none() | texts, "additional_kwargs": data, "response_metadata": data}
unknown_block = st.builds(
    lambda kind, more: {"type": kind, **more}, st.sampled_from(["text", "image", "x", "tool_use", "reasoning"]), data
)
contents = texts | st.lists(texts | unknown_block | st.builds(lambda t: {"type": "text", "text": t}, texts), max_size=3)
calls = st.lists(st.builds(lambda n, a, i: {"name": n, "args": a, "id": i}, texts, data, st.none() | texts), max_size=2)
broken = st.lists(
    st.builds(lambda n, a, i, e: {"name": n, "args": a, "id": i, "error": e}, *[st.none() | texts] * 4), max_size=2
)
usages = st.none() | st.just(USAGE)
statuses = st.sampled_from(["success", "error"])
any_message = st.one_of(
    st.builds(Human, contents, **common),
    st.builds(System, contents, **common),
    st.builds(AI, contents, tool_calls=calls, invalid_tool_calls=broken, usage_metadata=usages, **common),
    st.builds(Tool, contents, tool_call_id=texts, status=statuses, artifact=plain | data, **common),
)


@given(any_message)
def test_any_message_comes_back_equal(given_message):
    """Whatever stands in the fields that LangChain leaves open, the message is equal after a way through the store."""
    message = from_langchain(given_message)
    assert to_langchain(message) == given_message
    assert to_langchain(decode(encode(message))) == given_message


@given(st.lists(st.text(max_size=10), max_size=8))
def test_call_ids_become_legal_and_stay_apart(ids):
    """Every id is legal afterwards, a legal one is unchanged, and two that were apart stay apart."""
    legal = {i: legal_call_id(i) for i in ids}
    assert len(set(legal.values())) == len(set(ids))
    assert all(legal_call_id(i) == i and i and i.isascii() for i in legal.values())


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=5))
def test_any_text_can_be_stored(text, name):
    """Whatever a text holds, what is stored is UTF-8, and only halves of pairs were replaced."""
    given_dict = {"role": "user", "content": [{"type": "text", "text": text, "x_more": {text: [text]}}], "name": name}
    kept = formats.normalize(from_openai(given_dict))
    assert decode(encode(kept)) == kept
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert kept.text == whole
    assert ("normalized" in kept.meta) == any("\ud800" <= c <= "\udfff" for c in text + name)
