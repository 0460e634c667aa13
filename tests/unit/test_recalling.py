"""The ranking behind recall, and the policy: which older turns come back, how many, and at whose cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import novelo
from novelo.context.spec import parse
from novelo.errors import ContextTooSmall, InvalidSpec
from novelo.messages import Message
from novelo.recalling import WordList, ranked
from novelo.testing.strategies import conversations

FILLER = ("the weather", "a blue carpet", "the train to Porto", "an old radio", "the price of coffee", "a lost key")


def listed(*texts, name=None):
    """Messages as the ranking asks for them."""
    words = WordList()
    for position, text in enumerate(texts):
        words.put(position, Message("user", text, name=name))
    return words


def found(question, *texts, **more):
    """Positions of what a question finds, the best first."""
    return [match.position for match in ranked([question], listed(*texts), **more)]


def chat(turns=20, at=3, secret="My cat is called Filomena.", answer="What a lovely name."):
    """A chat of many turns with a fact in an early one, and a question for it at the end."""
    out = []
    for n in range(turns):
        asked, told = (secret, answer) if n == at else (f"Tell me about {FILLER[n % 6]}, number {n}.", f"Well, {n}.")
        out += [{"role": "user", "content": asked}, {"role": "assistant", "content": told}]
    return [*out, {"role": "user", "content": "What is the name of my cat?"}]


def recalled(context):
    """Where the turns begin that came back."""
    return [position for position, _ in context.manifest.recalled]


# ------------------------------------------------------------------------------------------------ the ranking
def test_rare_words_weigh_more_and_neighbours_a_little():
    """The message with the rare word is first, those beside it come before those that have nothing."""
    texts = ["talk of trains"] * 5 + ["a violin and trains"] + ["talk of trains"] * 5
    order = found("violin trains", *texts)
    assert order[0] == 5 and set(order[1:3]) == {4, 6}


def test_a_question_without_known_words_finds_nothing():
    """Neither empty words, nor signs, nor an empty thread give a match."""
    assert found("zebra", *FILLER) == [] == found("the of and?", *FILLER) == found("🙂🙂", *FILLER) == found("", "")
    assert ranked(["cat"], WordList()) == []


def test_what_the_best_messages_share_is_looked_for_too():
    """A message that shares no word with the question is found by the words of those that do."""
    texts = [*FILLER * 3, "my violin needs new strings", *FILLER * 3, "strings are dear", *FILLER * 3]
    assert 37 in found("violin", *texts)[:8]


def test_a_speaker_that_is_named_is_lifted():
    """Of two messages alike the one of the named speaker is first; the name alone finds all of theirs."""
    words = WordList()
    for position in range(40):
        words.put(position, Message("user", FILLER[position % 6], name=("Ana", "Rui")[position % 2]))
    words.put(40, Message("user", "we bought a violin", name="Ana"))
    for position in range(41, 50):
        words.put(position, Message("user", FILLER[position % 6], name="Ana"))
    words.put(50, Message("user", "we bought a violin", name="Rui"))
    assert ranked(["Did Ana buy a violin?"], words)[0].position == 40
    assert ranked(["Did Rui buy a violin?"], words)[0].position == 50


def test_nearness_in_meaning_is_added_and_may_match_alone():
    """A near message without any word is a match; where both speak for one message it is first."""
    near = dict.fromkeys(range(12), -0.3) | {4: 3.0}
    assert found("violin", *FILLER * 2, near=near) == [4]
    texts = [*FILLER * 2, "a violin", *FILLER]
    assert found("violin", *texts, near=near)[:2] in ([12, 4], [4, 12])
    assert found("violin", *texts, near={**near, 12: 2.9})[0] == 12


def test_two_wordings_are_one_question():
    """The words of both are looked for, a word in both once."""
    words = listed(*FILLER, "a violin", *FILLER, "a piano", *FILLER)
    both = [m.position for m in ranked(["violin", "piano"], words)[:2]]
    assert sorted(both) == [6, 13]
    assert ranked(["violin"], words) == ranked(["violin", "violin"], words)


def test_a_long_question_is_bounded():
    """A question of a hundred thousand characters is cut; its first words are asked."""
    assert found("violin " + "word " * 20_000, *FILLER, "a violin")[0] == 6


# ------------------------------------------------------------------------------------------------ the spec
def test_the_spec_comes_back():
    """A text and its policy are the same; the usual share and no limit are not written."""
    for text in ("recall:6", "recall:3,share=20%", "recall:3,share=20%,tokens=500", "recall:6,tokens=1"):
        assert str(parse(text)) == text
    assert str(parse("recall")) == "recall:6" and str(parse("recall:4turns,share=50%")) == "recall:4"


@pytest.mark.parametrize(
    "text",
    [
        "recall:0",
        "recall:1001",
        "recall:6,share=0%",
        "recall:6,share=5",
        "recall:6messages",
        "recall:6,x=1",
        "recall:6,tokens=0",
        "recall:6 + budget:900 + recall:2",
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(text):
    """With the stage and what it takes."""
    if text == "recall:6,share=5":
        assert str(parse(text)) == "recall:6,share=5%"  # a bare number is per cent
        return
    with pytest.raises(InvalidSpec, match="recall"):
        parse(text)


# ------------------------------------------------------------------------------------------------ the policy
@pytest.mark.parametrize(
    "policy", ["window:3turns + recall:1", "recall:1 + window:3turns", "recall:1 | window:7messages"]
)
def test_a_fact_comes_back_whatever_the_order_of_the_stages(policy):
    """The turn stands whole before the window, once."""
    context = novelo.compose(chat(), policy)
    assert [m["content"] for m in context.messages()][:2] == ["My cat is called Filomena.", "What a lovely name."]
    assert recalled(context) == [6] and len(context) in (2 + 5, 2 + 7)
    assert "recalled: the turn at 6 (score" in context.explain()


@pytest.mark.parametrize("policy", ["recall:2,share=40% + budget:200", "budget:200 + recall:2,share=40%"])
def test_the_budget_leaves_a_share_and_gets_back_what_is_not_used(policy):
    """The budget holds; without a match the window has it all."""
    context = novelo.compose(chat(), policy)
    assert 6 in recalled(context) and context.tokens <= 200
    plain = novelo.compose([*chat()[:-1], {"role": "user", "content": "Zebras?"}], policy)
    alone = novelo.compose([*chat()[:-1], {"role": "user", "content": "Zebras?"}], "budget:200")
    assert plain.messages() == alone.messages() and plain.manifest.recalled == []


def test_no_more_turns_and_tokens_than_allowed():
    """At most so many turns, and within the tokens where no budget says how many there are."""
    talk = chat(60, secret="A cat again.")
    for n in range(0, 80, 8):
        talk[n]["content"] = f"My cat number {n} sleeps."
    assert len(recalled(novelo.compose(talk, "window:2turns + recall:3"))) == 3
    few = novelo.compose(talk, "window:2turns + recall:9,tokens=60")
    alone = novelo.compose(talk, "window:2turns")
    assert recalled(few) and few.tokens - alone.tokens <= 60


def test_what_the_window_pins_and_ends_hold_is_not_counted():
    """The best match stands in the window, or is pinned: the next best come back."""
    talk = chat(20, at=19)
    assert 38 not in recalled(novelo.compose(talk, "window:3turns + recall:2"))
    context = novelo.compose(chat(), "window:3turns + recall:1", pins=[6, 7])
    assert recalled(context) and 6 not in recalled(context)
    first = novelo.compose(chat(at=0), "ends:first=1,last=3 + recall:1")
    assert 0 not in recalled(first) and first.messages()[0]["content"] == "My cat is called Filomena."


def test_a_pinned_question_gets_its_answer_back():
    """A pin holds a message; recall brings the rest of its turn."""
    talk = chat(answer="Filomena, who is a cat.")
    context = novelo.compose(talk, "window:3turns + recall:1", pins=[6])
    texts = [m["content"] for m in context.messages()]
    assert texts.count("My cat is called Filomena.") == 1 and "Filomena, who is a cat." in texts


def test_what_a_summary_covers_comes_back_beside_it():
    """A summary that lost the fact stands there, and behind it the turn that has it."""
    from novelo.summaries import Summary

    summary = Summary(version=1, upto=34, text="They talked of trains.", since=34)
    context = novelo.compose(chat(), "summarize:20messages,keep=6 + recall:1", summary=summary)
    texts = [m["content"] for m in context.messages()]
    assert texts[1:3] == ["They talked of trains.", "My cat is called Filomena."] and recalled(context) == [6]


def test_a_turn_that_is_too_long_gives_its_question_the_match_and_the_end():
    """Of an agent's turn with huge results only what matters comes back, valid, with its call."""
    talk = chat()
    steps = []
    for n, text in enumerate(["x " * 900, "the violin is in the hall", "y " * 900]):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        steps += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": text},
        ]
    talk[6:8] = [{"role": "user", "content": "Where is it?"}, *steps, {"role": "assistant", "content": "In the hall."}]
    talk[-1]["content"] = "Where did you find the violin?"
    context = novelo.compose(talk, "window:2turns + recall:1,tokens=200")
    texts = [m["content"] for m in context.messages()]
    assert texts[:4] == ["Where is it?", None, "the violin is in the hall", "In the hall."]
    assert novelo.check(context.messages()) == []


def test_tokens_that_a_stage_adds_cost_matches_and_no_context():
    """Where masks make recalled text longer than the budget allows, fewer turns come back."""
    talk = chat(secret="cat a@b.co " * 20)
    for budget in range(60, 260, 20):
        context = novelo.compose(talk, f"recall:3,share=90% + redact:emails + budget:{budget}")
        assert context.tokens <= budget


def test_masks_reach_what_is_recalled():
    """What comes back goes through all the other stages."""
    talk = chat(secret="My cat's mail is filo@example.com.")
    sent = str(novelo.compose(talk, "redact:emails + window:2turns + recall:1").messages())
    assert "My cat's mail is" in sent and "filo@example.com" not in sent


def test_few_older_turns_stay_as_they_are():
    """Where all that was cut is no more than may come back, there is nothing to choose."""
    context = novelo.compose(chat(6), "window:3turns + recall:6")
    assert len(context) == 13 and recalled(context) == [0, 2, 4, 6]


def test_a_function_may_stand_beside_recall():
    """A policy of one's own drops what it likes; what matches comes back through it."""

    def short(draft):
        """The newest four messages, and what is kept out of sequence."""
        kept = draft.messages()
        return kept[:2] + kept[-4:] if len(kept) < 30 else kept[-5:]

    short.__name__ = "short"
    context = novelo.compose(chat(), [short, "recall:1"])
    assert novelo.check(context.messages()) == []
    assert "My cat is called Filomena." in str(context.messages())


def test_a_standalone_question_is_asked_too():
    """Where the newest message only points back, the rewritten question finds the turn."""
    from novelo.context import compose_source
    from novelo.context.listing import ListSource
    from novelo.tokens import counter

    talk = [*chat()[:-1], {"role": "user", "content": "And her?"}]
    source = ListSource(talk, lambda m: len(m.text))
    more = {"counter": counter("estimate"), "question": "What is the name of the cat?"}
    context = compose_source(source, source.opening(), parse("window:2turns + recall:1"), **more)
    assert recalled(context) == [6]


def test_a_budget_that_cannot_be_kept_still_says_so():
    """Recall hides no error of the stages beside it."""
    with pytest.raises(ContextTooSmall):
        novelo.compose(chat(), "recall:3 + budget:5")


specs = st.builds(
    "{} + {}".format,
    st.builds("recall:{},share={}%".format, st.integers(1, 4), st.integers(1, 100)),
    st.builds("window:{}turns".format, st.integers(1, 4)) | st.builds("budget:{}".format, st.integers(100, 2000)),
)


@settings(max_examples=120)
@given(messages=conversations(min_turns=3, max_turns=9), policy=specs)
def test_a_composed_context_composes_to_itself(messages, policy):
    """Its messages are in order, each once, within the budget, and composing them again changes nothing."""
    try:
        context = novelo.compose(messages, policy)
    except ContextTooSmall:
        return
    kept = [p for start, stop in context.manifest.kept for p in range(start, stop)]
    assert kept == sorted(set(kept))
    assert context.tokens <= context.manifest.tokens.get("budget", context.tokens)
    assert novelo.compose(context.messages(), policy).messages() == context.messages()
