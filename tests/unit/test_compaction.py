"""What a summary covers, how it is asked for, and what becomes of the answers; no store, no clock."""

from __future__ import annotations

from functools import partial

import pytest

from builders import calls, long_talk, result, says, system, user
from novelo.asking import ModelReply
from novelo.compaction import Contract, _shortened, flow, undone
from novelo.context import compose
from novelo.context.listing import ListSource
from novelo.context.spec import parse
from novelo.covering import masks_of, plan, stage_of
from novelo.errors import SummaryFailed
from novelo.messages import Message
from novelo.quoting import in_parts, quoted
from novelo.summaries import Summary
from novelo.tokens import count_message, counter
from novelo.transcript import Entry

COUNT = counter("estimate")
WEIGH = partial(count_message, count=COUNT)


def planned(messages, policy="summarize:99messages,keep=2", base=None, **more):
    """The plan for a list, due or not."""
    policy = parse(policy)
    more = {"force": True, "masks": masks_of(policy), **more}
    return plan(ListSource(messages, WEIGH), stage_of(policy), base, WEIGH, **more)


def covers(made):
    """The positions that a plan covers."""
    return [e.position for e in made.entries]


def asked(made, *answers, policy="summarize:99messages,keep=2", limit=8000, **more):
    """The summary made from these answers (texts, messages, or a function of the request), and the requests."""
    requests, left = [], list(answers)
    asking = flow(made, Contract(stage_of(parse(policy)), COUNT, limit, **more))
    try:
        request = next(asking)
        while True:
            requests.append(request)
            answer = left.pop(0) if len(left) > 1 or not callable(left[0]) else left[0](request)
            answer = answer if isinstance(answer, Message) else Message("assistant", answer)
            request = asking.send(ModelReply(answer))
    except StopIteration as end:
        return end.value, requests


# ------------------------------------------------------------------------------------------------ plan
@pytest.mark.parametrize(
    ("keep", "upto"),
    [("1messages", 8), ("2messages", 8), ("3messages", 8), ("4messages", 6), ("1turns", 8), ("3turns", 4)],
)
def test_what_is_kept_is_whole_turns(keep, upto):
    """Five exchanges: what is kept is rounded down to whole turns, at least the newest."""
    made = planned(long_talk(5), f"summarize:99messages,keep={keep}")
    assert (made.upto, covers(made), made.held) == (upto, list(range(upto)), ())


def test_what_is_kept_in_tokens():
    """In tokens as many of the newest turns stay as fit."""
    talk = long_talk(5)
    turn = sum(WEIGH(e) for e in (Message("user", "question 3"), Message("assistant", "answer 3")))
    assert planned(talk, f"summarize:999tokens,keep={2 * turn}").upto == 6
    assert planned(talk, f"summarize:999tokens,keep={2 * turn - 1}").upto == 8


def test_system_messages_at_the_head_are_never_covered():
    """The opening is not part of what is covered, a system message inside is."""
    talk = [system("a"), system("b"), *long_talk(2), system("note"), *long_talk(2)]
    made = planned(talk)
    assert made.start == 2 and covers(made) == [2, 3, 4, 5, 6, 7, 8]


def test_the_open_question_takes_no_room():
    """A question without an answer stays, and what is kept besides is counted without it."""
    talk = [*long_talk(3), user("open")]
    assert planned(talk).upto == 4
    assert planned([user("only")]) is None


def loop(steps):
    """One question with tool steps."""
    talk = [*long_talk(1), user("check all")]
    for k in range(steps):
        talk += [calls(f"c{k}"), result(f"c{k}", f"found {k}")]
    return talk


@pytest.mark.parametrize(("keep", "upto"), [(1, 9), (3, 9), (4, 9), (5, 7), (7, 5)])
def test_the_cut_inside_a_very_long_turn(keep, upto):
    """Of a newest turn that is larger than what is kept its question stays, and its newest whole steps."""
    made = planned(loop(4), f"summarize:99messages,keep={keep}")
    assert made.upto == upto and made.held == (2,) and 2 not in covers(made)


def test_turns_are_not_cut_where_turns_are_counted():
    """Kept in turns, the newest stays whole."""
    made = planned(loop(4), "summarize:99turns,keep=1turns")
    assert (made.upto, made.held) == (2, ())


def test_the_question_of_a_cut_turn_is_held_until_the_turn_is_over():
    """It stays while the turn goes on, and is covered once the turn is older than what is kept."""
    talk = loop(4)
    first, _ = asked(planned(talk, "summarize:99messages,keep=3"), "Two things were found.")
    talk += [calls("c4"), result("c4", "found 4")]
    second = planned(talk, "summarize:99messages,keep=3", first)
    assert second.held == (2,) and covers(second) == [9, 10]
    talk += [says("done"), *long_talk(2)]
    third = planned(talk, "summarize:99messages,keep=2", first)
    assert third.held == () and covers(third)[0] == 2


def test_waiting_calls_are_held_with_their_questions():
    """A call without a result stays, with what was asked and the results that its step has."""
    talk = [*long_talk(1), user("two"), calls("a", "b"), result("a", "half"), *long_talk(3)]
    made = planned(talk)
    assert made.held == (2, 3, 4) and covers(made) == [0, 1, 5, 6, 7, 8]


def test_only_the_newest_waiting_calls_are_held():
    """Of many calls that never got a result three stay."""
    talk = [m for k in range(6) for m in (user(f"q{k}"), calls(f"c{k}"))] + long_talk(2)
    made = planned(talk)
    assert made.held == (6, 7, 8, 9, 10, 11)


def test_a_late_result_keeps_its_call_as_long_as_it_is_kept():
    """A call whose result stands in the kept part is held; both are covered together later."""
    talk = [user("pay?"), calls("a"), *long_talk(2), result("a", "paid"), *long_talk(1)]
    first, _ = asked(planned(talk, "summarize:99messages,keep=4"), "Two questions.")
    assert first.held == (0, 1)
    talk += long_talk(3)
    second = planned(talk, "summarize:99messages,keep=2", first)
    assert second.held == () and {0, 1, 6} <= set(covers(second))


def test_a_step_of_an_opening_without_a_question_stands_once():
    """Where a thread opens with the assistant, what is held and what is kept of that turn are one turn."""
    talk = [result("a", "early"), calls("b"), calls("c"), result("c", "found"), calls("a")]
    policy = "summarize:99messages,keep=2"
    made, _ = asked(planned(talk, policy), "One thing was found.")
    context = compose(talk, policy, summary=made)
    heads = [e.position for e in context.entries if e.message.role == "assistant" and e.position >= 0]
    assert made.held == (0, 1) and heads == [1, 4]


@pytest.mark.parametrize(
    ("trigger", "due"),
    [("10messages", True), ("11messages", False), ("5turns", True), ("6turns", False), ("10messages&900tokens", False)],
)
def test_when_one_is_due(trigger, due):
    """Without force the trigger decides."""
    assert (planned(long_talk(5), f"summarize:{trigger},keep=1turns", force=False) is not None) == due


def test_what_a_summary_stands_for_does_not_count():
    """After a summary the trigger counts from there, and the summary's own tokens with it."""
    policy = "summarize:8messages,keep=2"
    first, _ = asked(planned(long_talk(5), policy), "Five questions.")
    assert planned(long_talk(8), policy, first, force=False) is not None
    assert planned(long_talk(7), policy, first, force=False) is None


def test_a_kept_part_above_the_trigger_waits_for_as_much_again():
    """Where the kept part alone is above the trigger, a trigger's worth must wait to be covered (FR-44)."""
    long = [m for k in range(2) for m in (user(f"q{k}"), says("word " * 400))]
    policy = "summarize:200tokens,keep=4messages"
    assert planned([*long_talk(1), *long], policy, force=False) is None
    assert planned([*long_talk(20), *long], policy, force=False) is not None
    assert planned([*long, *long], policy, force=False) is not None


def test_redo_covers_what_the_version_covered():
    """Made again up to a position, a summary covers the same entries whatever came later, and holds the same."""
    talk = loop(4)
    first = planned(talk, "summarize:99messages,keep=3")
    later = [*talk, says("done"), *long_talk(4)]
    again = planned(later, "summarize:99messages,keep=3", upto=first.upto)
    assert (covers(again), again.held, again.upto) == (covers(first), first.held, first.upto)
    assert (again.turns, again.running) == (first.turns, first.running)


def test_masks_reach_the_request():
    """What a policy masks is masked for the summarizer too, in texts and in arguments."""
    talk = [user("mail ana@example.org"), calls("a", arguments='{"to": "ana@example.org"}'), result("a", "ok")]
    made = planned([*talk, says("sent"), *long_talk(2)], "redact:emails + summarize:99messages,keep=2")
    _, requests = asked(made, "A mail was sent.")
    body = requests[0].messages[1]["content"]
    assert "ana@" not in body and body.count("[e-mail]") == 2


# ------------------------------------------------------------------------------------------------ flow
def test_one_request():
    """What fits is asked for at once: instructions, quoted lines with positions, no tools, a limit for the answer."""
    made = planned(
        [user("Blue,\nplease."), calls("a", name="find"), result("a", "none"), says("No blue."), *long_talk(1)]
    )
    summary, requests = asked(made, "Wants blue; there is none.", focus="colours", prompt="Take notes.")
    [request] = requests
    assert request.purpose == "summary" and not request.tools and request.max_output_tokens == 850
    told, body = (m["content"] for m in request.messages)
    assert told.startswith("Take notes.") and told.endswith("Above all: colours")
    assert "[0] user:\n> Blue,\n> please." in body
    assert "[1] assistant:\n> calls find: {}" in body and "[2] tool result:\n> none" in body
    assert (summary.text, summary.calls, summary.covered, summary.upto) == (
        "Wants blue; there is none.",
        1,
        ((0, 4),),
        4,
    )


def test_the_former_summary_is_updated():
    """The former text is told before what is new; base, positions and facts go on."""
    first, _ = asked(planned([user("Order PX-11."), says("ok"), *long_talk(1)]), "An order, PX-11.")
    first = undone(first, None, 0, 0, 0) and first
    second, requests = asked(planned(long_talk(4), base=first), "An order PX-11 and two questions.")
    body = requests[0].messages[1]["content"]
    assert body.index("> An order, PX-11.") < body.index("[2] user") and "[0] user" not in body
    assert (second.start, second.upto, second.covered) == (0, 6, ((2, 6),))
    assert second.messages == 6 and [f.text for f in second.facts] == ["PX-11"]


def test_parts_are_read_and_merged():
    """A long text is read in parts, each announced; the last request merges the notes, none is over the limit."""
    talk = [m for k in range(40) for m in (user(f"q{k} " + f"alpha{k} " * 30), says(f"beta{k}"))]
    made = planned(talk)
    told = []
    summary, requests = asked(made, lambda r: "Noted.", limit=1500, progress=lambda d, n: told.append((d, n)))
    bodies = [r.messages[1]["content"] for r in requests]
    number = sum(b.startswith("This is part") for b in bodies)
    assert number > 3 and f"part 1 of {number}" in bodies[0]
    assert bodies[-1].count("> Noted.") == number and summary.calls == len(requests) == number + 1
    assert max(sum(COUNT(m["content"]) for m in r.messages) for r in requests) <= 1500
    assert told[0] == (0, number + 1) and told[number] == (number, number + 1)
    assert all(f"alpha{k} " in " ".join(bodies) for k in range(39))


@pytest.mark.parametrize("limit", [700, 1000])
def test_notes_that_do_not_fit_one_request_are_merged_in_steps(limit):
    """However many notes there are, each is read by a merge, none is cut away, and the limit holds."""
    talk = [m for k in range(30) for m in (user("gamma " * 200), says("ok"))]
    numbers = iter(range(10_000))
    notes = []

    def answer(request):
        notes.append(f"N{next(numbers)} " + "delta " * 300)
        return notes[-1]

    made = planned(talk)
    summary, requests = asked(made, answer, limit=limit, policy="summarize:99messages,keep=2,size=300")
    bodies = " ".join(r.messages[1]["content"] for r in requests)
    assert all(f"N{k} " in bodies for k in range(len(notes) - 1))
    assert max(sum(COUNT(m["content"]) for m in r.messages) for r in requests) <= limit
    assert COUNT(summary.text) <= 300


PT = [user("Quero uma casa com quintal perto da escola."), says("Há duas casas assim."), *long_talk(1)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("The user wants a house with a garden that is near the school.", "another language"),
        ("Quer uma casa com quintal. " * 400, "too long"),
    ],
)
def test_a_fault_that_may_be_mended_is_told_once(answer, said):
    """Too long, or in another language: the summarizer hears of it and is asked once more, then refused."""
    good = "Quer uma casa com quintal perto da escola."
    summary, requests = asked(planned(PT), answer, good)
    assert summary.text == good and summary.calls == 2
    assert said in requests[1].messages[1]["content"]
    with pytest.raises(SummaryFailed) as caught:
        asked(planned(PT), answer, answer)
    assert caught.value.reason == said


FACTS = [user("Order PX-48213-7 of 14/03, 1.347,90 for 12 boxes, phone 555-0134."), says("Noted."), *long_talk(1)]
POOR = "summarize:99messages,keep=2,facts=0,floor=80%"


def test_lost_facts_are_named_in_a_second_request():
    """Below the floor the lost facts are told; what is still lost stands in the loss report."""
    good = "Order PX-48213-7 of 14/03, 1.347,90 for 12 boxes, phone 555-0134."
    summary, requests = asked(planned(FACTS), "There is an order.", good, policy=POOR)
    assert "PX-48213-7" in requests[1].messages[1]["content"].split("[1] assistant")[1]
    assert summary.text == good and summary.lost == ()
    summary, _ = asked(planned(FACTS), "There is an order.", "An order, PX-48213-7.", policy=POOR)
    assert "14/03" in [f.text for f in summary.lost] and "PX-48213-7" not in [f.text for f in summary.lost]


@pytest.mark.parametrize("second", ["", "Error: 500", "word " * 3000])
def test_a_bad_second_answer_does_not_undo_the_first(second):
    """A summary that only lost facts is kept where the second try gave none."""
    summary, requests = asked(planned(FACTS), "There is an order.", second, policy=POOR)
    assert summary.text == "There is an order." and summary.calls == len(requests) == 2


def test_refuse_refuses_what_lost_too_much():
    """With the word `refuse` a second loss is a failure."""
    with pytest.raises(SummaryFailed) as caught:
        asked(planned(FACTS), "There is an order.", "There is an order.", policy=f"{POOR},refuse")
    assert caught.value.reason == "facts lost"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("<think>hm</think>", "empty"),
        ("Desculpe, não posso ajudar.", "a refusal"),
        ("Error code: 429", "an error text"),
        ("请提供对话内容。", "a question back"),
        ('{"name": "f", "arguments": {}}', "a tool call"),
    ],
)
def test_what_is_no_summary_is_not_asked_for_again(answer, reason):
    """Such an answer fails at once: saying so would not mend it."""
    with pytest.raises(SummaryFailed) as caught:
        asked(planned(PT), answer)
    assert caught.value.reason == reason


def test_a_bad_note_on_a_part_fails_the_whole():
    """A part that was not read is not passed over."""
    talk = [m for k in range(40) for m in (user("alpha " * 60), says("ok"))]
    with pytest.raises(SummaryFailed):
        asked(planned(talk), "Noted.", "Noted.", "I'm sorry, I can't do that.", limit=1500)


# ------------------------------------------------------------------------------------------------ lengths and pieces
@pytest.mark.parametrize(
    "text",
    [
        "She went to the sea. " * 60,
        "她去了海边。" * 100,
        "word " * 500,
        "x" * 3000,
        "👩‍👩‍👧" * 300,
        "一" * 900,
        "line\n" * 300,
    ],
)
@pytest.mark.parametrize("size", [20, 100])
def test_a_text_that_is_too_long_ends_with_a_sentence_if_it_can(text, size):
    """What is over the cap is cut behind a sentence, else a word, else a sign; much of the room is used."""
    cut = _shortened(text, Contract(stage_of(parse(f"summarize:99messages,keep=1,size={size}")), COUNT))
    assert text.startswith(cut) and 0 < COUNT(cut) <= size
    assert COUNT(cut) * 4 >= size
    assert cut[-1] in ".。" or text[0] not in "S她"


def test_a_short_text_is_left_as_it_is():
    """Within the cap nothing is changed."""
    assert _shortened("She went.", Contract(stage_of(parse("summarize:9messages,keep=1")), COUNT)) == "She went."


LONG = {
    "words": "every single word of this text has to be read by somebody " * 2000,
    "no spaces": "abcdefghij" * 100_000,
    "chinese": "每一个字都必须有人读到而且不能丢" * 3000,
    "emoji": "👩‍👩‍👧🏽🇧🇷" * 3000,
    "lines": "\n".join(f"{k}, {k * 7}" for k in range(5000)),
    "quotes": "> > deep\n" * 3000,
    "blank lines": ("a" * 30 + "\n" * 40) * 500,
}


@pytest.mark.parametrize("kind", LONG)
def test_no_text_is_lost_in_pieces(kind):
    """A message longer than a request is cut into quoted pieces that hold all of it, each within the room."""
    text, room = LONG[kind], 1000
    pieces = in_parts([quoted(Entry(7, Message("tool", text, tool_call_id="a")))], room, COUNT)
    assert len(pieces) > 3 and max(map(COUNT, pieces)) <= room
    lines = [line for piece in pieces for line in piece.splitlines() if line]
    heads = [line for line in lines if line.startswith("[7] tool result")]
    marked = [line.removeprefix(">").removeprefix(" ") for line in lines if line.startswith(">")]
    assert len(heads) + len(marked) == len(lines)
    bare = str.maketrans("", "", "> \n")
    assert "".join(marked).translate(bare) == text.translate(bare)


def test_short_texts_are_put_together():
    """Texts that fit share a part, in order."""
    parts = in_parts([f"[{k}] user:\n> {'word ' * 20}" for k in range(40)], 200, COUNT)
    assert "".join(parts).count("[") == 40 and len(parts) < 20
    assert [p.index("[") for p in parts] == [0] * len(parts)


def test_a_message_without_text_is_named():
    """Media and empty messages leave a mark, so that nothing covered is passed over in silence."""
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}}
    talk = [user([{"type": "text", "text": "see"}, picture]), says("nice"), *long_talk(1)]
    assert "> [image]" in quoted(planned(talk).entries[0])
    assert quoted(Entry(3, Message("assistant", None))) == "[3] assistant:\n> (nothing)"


# ------------------------------------------------------------------------------------------------ undone
def test_undone_takes_a_version_back():
    """What stood before is told again, under a new version, and nothing is due before more is said."""
    first = Summary(version=1, start=2, upto=8, text="one", since=8)
    second = Summary(version=2, base=1, start=2, upto=20, text="two", since=20, active=True)
    back = undone(second, first, 30, 12, 900)
    assert (back.text, back.upto, back.base, back.undone, back.active) == ("one", 8, 1, 2, False)
    assert (back.since, back.since_turns, back.since_running) == (30, 12, 900)
    none = undone(first, None, 30, 12, 900)
    assert (none.text, none.start, none.upto, none.base, none.undone) == ("", 2, 2, 0, 1)


def test_after_undoing_a_trigger_counts_from_there():
    """The text that is back in the contexts does not make a summary due at once."""
    talk, policy = long_talk(6), "summarize:8messages,keep=2"
    first, _ = asked(planned(talk, policy), "Six questions.")
    back = undone(first, None, 12, 6, 0)
    assert planned(talk, policy, back, force=False) is None
    again = planned([*talk, *long_talk(4)], policy, back, force=False)
    assert covers(again) == list(range(18))
