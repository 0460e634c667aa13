"""The generators: what they promise holds, and what they are for does occur."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from novelo.context.spec import STAGES, parse
from novelo.formats.openai import from_openai
from novelo.protocol import check_messages, dialect
from novelo.testing import strategies as some

# To find one is enough: it is not made smaller.
SEEK = settings(
    max_examples=2000, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
)
PROVIDERS = ("openai", "anthropic", "gemini", "mistral")


def breaches(messages, provider="openai"):
    """The rules that a list breaks."""
    return [v.rule for v in check_messages([from_openai(m) for m in messages], dialect(provider))]


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=some.conversations())
def test_sound_conversations_are_valid_everywhere(provider: str, messages) -> None:
    """A conversation that is drawn as valid breaks no rule of any provider with tools."""
    assert breaches(messages, provider) == []


@given(some.conversations(tools=False))
def test_conversations_without_tools_suit_strict_templates(messages) -> None:
    """Without tools, user and assistant take turns behind at most one system message."""
    assert breaches(messages, "strict") == []


@given(some.conversations(system=True, ends_with_user=True, min_turns=2, max_turns=3))
def test_settings_are_kept(messages) -> None:
    """System message, number of turns and an open end are as asked."""
    assert messages[0]["role"] == "system" and messages[-1]["role"] == "user"
    assert 2 <= sum(m["role"] == "user" for m in messages) <= 3


def parallel(messages):
    """Whether a message makes several calls."""
    return any(len(m.get("tool_calls") or ()) > 1 for m in messages)


def recurring(messages):
    """Whether an id is used in two messages."""
    ids = [c["id"] for m in messages for c in m.get("tool_calls") or ()]
    return len(ids) > len(set(ids))


def pictures(messages):
    """Whether a user message holds a picture."""
    return any(p.get("type") == "image_url" for m in messages if isinstance(m["content"], list) for p in m["content"])


def chinese(messages):
    """Whether something is said in Chinese."""
    return any(isinstance(m["content"], str) and "我" in m["content"] for m in messages)


@pytest.mark.parametrize("wanted", [parallel, recurring, pictures, chinese])
def test_what_real_threads_hold_does_occur(wanted) -> None:
    """Parallel calls, ids that recur, media and other scripts are found in what is drawn."""
    find(some.conversations(), wanted, settings=SEEK)


@pytest.mark.parametrize("damage", some.DAMAGES)
def test_each_damage_breaks_a_conversation(damage: str) -> None:
    """Every damage is able to make a valid conversation one that some provider refuses, or that pairs ambiguously."""

    def broken(messages):
        return any(breaches(messages, provider) for provider in PROVIDERS)

    found = find(
        some.broken_conversations([damage], most=1),
        broken,
        settings=SEEK,
    )
    assert found


@given(some.broken_conversations())
def test_broken_conversations_are_still_lists_of_messages(messages) -> None:
    """A damaged conversation is never empty, and each item is a dict with a role, so that it can be read at all."""
    assert messages and all(from_openai(m).role == m["role"] for m in messages)
    assert json.loads(json.dumps(messages)) == messages


@given(st.data())
def test_damages_leave_their_base_as_it_was(data) -> None:
    """A damage makes a new list: the conversation it was made from is not changed in place."""
    base = data.draw(some.conversations())
    before = json.dumps(base)
    data.draw(some.broken_conversations(base=st.just(base)))
    assert json.dumps(base) == before


@given(some.policies())
def test_policies_are_understood(spec: str) -> None:
    """Every spec that is drawn is a policy, and its own text is one too."""
    assert str(parse(str(parse(spec)))) == str(parse(spec))


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_is_drawn(stage: str) -> None:
    """No stage that needs no model is left out of the draws."""
    find(some.policies(), lambda spec: stage in spec, settings=SEEK)


@given(some.policies(budgets=False, most_stages=1))
def test_policies_without_budgets(spec: str) -> None:
    """Budgets, which may refuse, can be left out; a limit of stages is kept."""
    assert "budget" not in spec and "+" not in spec


@given(some.texts(), some.arguments())
def test_texts_say_something_and_arguments_are_objects(text: str, written: str) -> None:
    """A text is never blank, and arguments are the text of a JSON object."""
    assert text.strip() and isinstance(json.loads(written), dict)
