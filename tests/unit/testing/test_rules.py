"""The judge: what it refuses and in which words, and that an independent oracle agrees."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings

from builders import calls, result, says, system, user
from novelo.testing import strategies as some
from novelo.testing._refusals import DIALECTS, failed, too_long
from novelo.testing._rules import anthropic_refusal, refusal

ORACLE = {
    "openai": "openai-chat",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "mistral": "mistral",
    "strict": "strict-template",
}


@pytest.fixture(scope="module")
def oracle(shared) -> ModuleType:
    """The independent judge of the material folder."""
    path = str(shared / "checks")
    sys.path.insert(0, path)
    try:
        import oracle
    finally:
        sys.path.remove(path)
    return oracle


@pytest.mark.parametrize(
    ("dialect", "messages", "wording"),
    [
        ("openai", [], "empty array"),
        ("openai", [system("x")], "empty array"),
        ("openai", [{"role": "robot", "content": "x"}], "Supported values are: 'system'"),
        ("openai", [user("a"), result("c1", "1")], "must be a response to a preceeding message with 'tool_calls'"),
        ("openai", [user("a"), calls("c1"), user("b")], "did not have response messages: c1"),
        ("openai", [user("a"), calls("c1"), result("c1", "1"), result("c1", "1")], "must be a response"),
        ("openai", [user("a"), calls("c1", "c2"), result("c1", "1"), says("x"), result("c2", "2")], "messages: c2"),
        ("openai", [user(None)], "expected a string, got null"),
        (
            "openai",
            [user("a"), calls(""), result("", "1")],
            "Missing required parameter: 'messages[1].tool_calls[0].id'",
        ),
        ("openai", [user([{"type": "tool_use", "id": "c", "name": "f", "input": {}}])], "Invalid value: 'tool_use'"),
        ("anthropic", [], "at least one message is required"),
        ("anthropic", [says("oi"), user("a")], 'first message must use the "user" role'),
        ("anthropic", [user("a"), calls("c1"), user("b")], "`tool_use` ids were found without `tool_result` blocks"),
        ("anthropic", [user("a"), result("c1", "1")], "unexpected `tool_use_id` found in `tool_result` blocks: c1"),
        ("anthropic", [user("a"), calls("c1"), user("b"), result("c1", "1")], "must begin with a matching number"),
        ("anthropic", [user("a"), calls("c1", "c1"), result("c1", "1")], "`tool_use` ids must be unique"),
        ("anthropic", [user("a"), calls("c.1"), result("c.1", "1")], "should match pattern '^[a-zA-Z0-9_-]+$'"),
        ("anthropic", [user(" ")], "text content blocks must be non-empty"),
        ("anthropic", [user("a"), system("b"), user("c")], 'Unexpected role "system"'),
        ("anthropic", [user("a"), says("b")], "must end with a user message"),
        ("gemini", [calls("c1"), result("c1", "1")], "function call turn comes immediately after a user turn"),
        ("gemini", [user("a"), result("c1", "1")], "function response turn comes immediately after a function call"),
        ("gemini", [user("a"), calls("c1", "c2"), result("c1", "1")], "number of function response parts is equal"),
        ("gemini", [user("a"), system("b"), user("c")], "valid role: user, model"),
        ("gemini", [user("a"), says("b")], "ends with a user role or a function response"),
        ("mistral", [user("a"), calls("c1"), result("c1", "1"), user("b")], "Unexpected role 'user' after role 'tool'"),
        ("mistral", [user("a"), result("c1", "1")], "Unexpected role 'tool' after role 'user'"),
        ("mistral", [user("a"), calls("c1", "c2"), result("c1", "1")], "Not the same number of function calls"),
        ("mistral", [user("a"), says("b")], "Expected last role User or Tool"),
        ("strict", [user("a"), user("b")], "Conversation roles must alternate"),
        ("strict", [says("a")], "Conversation roles must alternate"),
        ("strict", [system("a"), system("b"), user("c")], "Conversation roles must alternate"),
        ("strict", [user("a"), calls("c1"), result("c1", "1")], "does not support tool messages"),
    ],
)
def test_what_a_provider_refuses_is_refused_in_its_words(dialect: str, messages, wording: str) -> None:
    """Each breach is refused with status 400 and the wording that the provider was seen to send."""
    found = refusal(messages, dialect)
    assert found is not None and found.status == 400
    assert wording in found.text


@pytest.mark.parametrize(
    ("dialect", "messages"),
    [
        ("openai", [user("a"), user("b")]),
        ("openai", [says("oi"), user("a")]),
        ("openai", [user("a"), system("b"), says("c")]),
        ("openai", [user(""), says("")]),
        ("openai", [user("a"), calls("c1", "c2"), result("c2", "2"), result("c1", "")]),
        ("anthropic", [user("a"), user("b"), says("c"), says("d"), user("e")]),
        ("anthropic", [user("a"), calls("c1"), result("c1", "1"), user("b")]),
        ("anthropic", [user("a"), calls("c1"), result("c1", "1"), calls("c1"), result("c1", "2")]),
        ("gemini", [user("a"), calls("c1"), calls("c2"), result("c1", "1"), result("c2", "2")]),
        ("gemini", [says("oi"), user("a")]),
        ("mistral", [system("s"), user("a"), calls("c1"), result("c1", "1"), says("b"), user("c")]),
        ("strict", [system("s"), user("a"), says("b"), user("c")]),
    ],
)
def test_what_a_provider_lets_pass_passes(dialect: str, messages) -> None:
    """What recorded requests show to be accepted is not refused, unusual as it may look."""
    assert refusal(messages, dialect) is None


def test_native_bodies_are_judged_as_they_came() -> None:
    """A body of the Messages API is judged by its own blocks: text before results is refused, behind them it passes."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]}
    told = {"type": "text", "text": "e"}
    given = {"type": "tool_result", "tool_use_id": "c1", "content": "1"}
    opened = [{"role": "user", "content": "a"}, call]
    assert anthropic_refusal({"messages": [*opened, {"role": "user", "content": [given, told]}]}) is None
    found = anthropic_refusal({"messages": [*opened, {"role": "user", "content": [told, given]}]})
    assert found is not None and "must begin with a matching number" in found.text


@pytest.mark.parametrize("dialect", DIALECTS)
@given(messages=some.conversations(ends_with_user=True, tools=False))
@settings(max_examples=30)
def test_sound_requests_are_taken(dialect: str, messages) -> None:
    """A valid conversation that ends with the user's question is refused by nobody."""
    assert refusal(messages, dialect) is None


@pytest.mark.shared
@given(messages=some.broken_conversations())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_independent_oracle_agrees(oracle, messages) -> None:
    """The judge refuses what the oracle calls refused by the provider, and nothing else, for every dialect.

    Set apart: an empty list as content, which the oracle takes for the empty answer of a tool; calls hidden in content
    blocks, which it does not look at; and for Gemini blank texts, whose turns it leaves out.
    """
    if any(m["content"] == [] or "tool_use" in str(m["content"]) for m in messages):
        return
    blank = any(isinstance(m["content"], str) and not m["content"].strip() for m in messages)
    for dialect, name in ORACLE.items():
        if blank and dialect == "gemini":
            continue
        found = refusal(messages, dialect)
        expected = oracle.violations(messages, name, level="provider", as_request=True)
        assert bool(found) == bool(expected), (dialect, found, expected)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_errors_have_the_shape_of_the_provider(dialect: str) -> None:
    """An error's body holds the wording where each provider's client looks for it."""
    for found in (failed(dialect, 429), too_long(dialect, 9, 8)):
        body = found.body(dialect)
        assert (body if dialect == "mistral" else body["error"])["message"] == found.text
