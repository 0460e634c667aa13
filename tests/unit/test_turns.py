"""Turns as an application sees them: keys, other writers, waiting, streams, what is written when something fails."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

import novelo
from builders import calls, roles, texts
from novelo.errors import InvalidMessage, InvalidSpec, KeyConflict, LeaseLost, ThreadBusy, TurnClosed
from novelo.testing import ScriptedModel


def say(thread, question, answer, **more):
    """A whole turn; the context it was asked with."""
    with thread.turn(question, **more) as turn:
        sent = turn.messages()
        turn.reply(answer)
    return sent


def stored(thread):
    """Role and text of all entries, hidden ones too."""
    return [(e.role[0], e.text) for e in thread]


def test_a_turn_is_durable_step_by_step(memory):
    """The question is there before the model is asked, the answer when reply returns."""
    thread = memory.thread("t")
    with thread.turn("Bom dia") as turn:
        assert stored(memory.thread("t")) == [("u", "Bom dia")]
        assert turn.messages() == [{"role": "user", "content": "Bom dia"}]
        turn.reply("Olá")
        assert stored(memory.thread("t")) == [("u", "Bom dia"), ("a", "Olá")]
    assert turn.status == "done" and [t.status for t in thread.turns()] == ["done"]


def test_the_same_key_replays_the_answer(memory):
    """A repeated request gets the stored answer, and no model needs to be asked."""
    thread = memory.thread("t")
    say(thread, "q", "a", key="k")
    with thread.turn("q", key="k") as again:
        assert again.replayed and again.stored_reply == "a"
        assert again.reply("another") is not None
    assert stored(thread) == [("u", "q"), ("a", "a")]


def test_a_replayed_turn_asks_no_model(memory):
    """`ask` gives the stored answer too, in one piece where pieces are wanted."""
    thread, model, pieces = memory.thread("t"), ScriptedModel(["a", "another"]), []
    for on_text in (None, None, pieces.append):
        with thread.turn("q", key="k") as turn:
            assert turn.ask(model, on_text=on_text).text == "a"
    assert len(model.requests) == 1 and pieces == ["a"] and thread.usage().total.calls == 1


def test_a_key_is_one_request_of_one_thread(memory):
    """Another question under a used key is refused; another thread may use the key."""
    say(memory.thread("t"), "q", "a", key="k")
    with pytest.raises(KeyConflict), memory.thread("t").turn("other", key="k"):
        pass
    say(memory.thread("u"), "other", "b", key="k")
    for key in ("", "x" * 1001, 7):
        with pytest.raises(InvalidSpec):
            memory.thread("t").turn("q", key=key)


def test_a_failed_turn_is_taken_up_with_its_key(memory):
    """After an exception the same key goes on with the question that is there, without what was cut off."""
    thread = memory.thread("t")

    def breaks():
        yield "half an "
        yield "answer"
        raise TimeoutError

    with pytest.raises(TimeoutError), thread.turn("q", key="k") as turn:
        list(turn.stream(breaks()))
    assert [(e.role, e.text, e.partial) for e in thread] == [
        ("user", "q", False),
        ("assistant", "half an answer", True),
    ]
    with thread.turn("q", key="k") as turn:
        assert turn.rejoined and texts(turn.messages()) == ["q"]
        turn.reply("whole")
    assert texts(thread.context("next").messages()) == ["q", "whole", "next"]
    assert len(thread) == 3


def test_two_requests_with_one_key_ask_once(memory):
    """A request that comes again while it is being answered waits, and gets the same answer."""
    thread, asked, seen = memory.thread("t"), [], []

    def request():
        with memory.thread("t").turn("q", key="k") as turn:
            if turn.replayed:
                seen.append(turn.stored_reply)
                return
            asked.append(1)
            time.sleep(0.05)
            turn.reply("a")
            seen.append("a")

    crew = [threading.Thread(target=request) for _ in range(4)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert len(asked) == 1 and seen == ["a"] * 4 and len(thread) == 2


def test_on_busy_reject(memory):
    """FR-84, reject: the second question fails clearly, the first completes."""
    thread = memory.thread("t")
    with thread.turn("请假一天") as first:
        with pytest.raises(ThreadBusy), thread.turn("两天", on_busy="reject"):
            pass
        with pytest.raises(ThreadBusy):
            novelo.Memory(memory.store, on_busy="reject").thread("t").append("hello")
        first.reply("好")
    assert stored(thread) == [("u", "请假一天"), ("a", "好")]


def test_on_busy_queue(memory):
    """FR-84, queue: two answered turns, in order."""
    thread = memory.thread("t")

    def second():
        say(memory.thread("t"), "两天", "改好了")

    with thread.turn("请假一天") as first:
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.05)
        first.reply("好")
    other.join()
    assert stored(thread) == [("u", "请假一天"), ("a", "好"), ("u", "两天"), ("a", "改好了")]


def test_on_busy_interrupt(memory):
    """FR-84, interrupt: the second sees both questions, the first can write no more."""
    thread = memory.thread("t")
    with pytest.raises(LeaseLost), thread.turn("请假一天") as first:
        with thread.turn("两天", on_busy="interrupt") as second:
            assert texts(second.messages())[-1] == "两天" and "请假一天" in texts(second.messages())
            second.reply("两天,好")
        first.reply("late")
    assert [t.status for t in thread.turns()] == ["interrupted", "done"]
    assert "late" not in [e.text for e in thread]


def test_a_queue_does_not_wait_for_ever(url):
    """After `queue_s` a queued question is refused, and nothing of it is stored."""
    with novelo.open(url, queue_s=0.05) as memory:
        thread = memory.thread("t")
        with thread.turn("a") as first:
            with pytest.raises(ThreadBusy, match=r"after 0\.05 s"), thread.turn("b"):
                pass
            first.reply("x")
        assert stored(thread) == [("u", "a"), ("a", "x")]


def test_steps_with_tools(memory):
    """Calls and results are steps of their turn; a result that nobody waits for is refused."""
    thread = memory.thread("t")
    with thread.turn("weather?") as turn:
        turn.reply(calls("c1", "c2"))
        with pytest.raises(InvalidMessage):
            turn.add_tool_result("c9", "x")
        turn.add_tool_result("c2", "rain")
        turn.add_tool_result("c1", "sun", error=True)
        assert roles(turn.messages()) == "uatt"
        turn.reply("mixed")
    assert turn.status == "done" and len(thread) == 5
    with pytest.raises(TurnClosed):
        turn.reply("again")


def test_a_turn_without_an_answer_is_interrupted(memory):
    """Leaving a turn unanswered keeps the question; the next context is valid."""
    thread = memory.thread("t")
    with thread.turn("first"):
        pass
    with thread.turn("second") as turn:
        turn.add(calls("c1"))
    sent = say(thread, "third", "x")
    assert [t.status for t in thread.turns()] == ["interrupted", "interrupted", "done"]
    assert novelo.check(sent) == []


def test_a_turn_waits_and_is_resumed_in_another_process(file_memory, tmp_path):
    """A waiting turn holds nothing; another process finds its open calls and finishes it."""
    thread = file_memory.thread("t", owner="ana")
    with thread.turn("book it", key="k") as turn:
        turn.state["step"] = 1
        turn.add(calls("c1"))
        turn.wait()
    assert turn.status == "waiting"
    program = f"""
import novelo
with novelo.open("sqlite:///{tmp_path}/chat.db") as memory:
    with memory.thread("t", owner="ana").resume() as turn:
        assert turn.state == {{"step": 1}}, turn.state
        turn.add_tool_result("c1", "approved")
        assert [m["role"] for m in turn.messages()] == ["user", "assistant", "tool"]
        turn.reply("booked")
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert stored(thread)[-2:] == [("t", "approved"), ("a", "booked")]
    with thread.turn("book it", key="k") as again:
        assert again.stored_reply == "booked"
    with pytest.raises(TurnClosed):
        thread.resume()


def test_a_new_question_supersedes_a_waiting_turn(memory):
    """FR-20: the pending call is closed as without result, the late approval is refused and changes nothing."""
    thread = memory.thread("t")
    with thread.turn("把这份合同发给客户。") as turn:
        turn.add(calls("c1", name="send", text="发送前需要您确认。"))
        turn.wait()
    late = thread.resume()
    sent = say(thread, "等一下,先改一下金额。", "好的")
    assert novelo.check(sent) == [] and roles(sent) == "uatu"
    before = stored(thread)
    with pytest.raises(TurnClosed), late as turn:
        turn.add_tool_result("c1", "approved")
    with pytest.raises(TurnClosed):
        thread.resume()
    assert stored(thread) == before


def test_a_client_that_goes_away_leaves_a_partial_answer(memory):
    """FR-101: what had been streamed is kept and marked; the next context holds it."""
    thread = memory.thread("t")
    with thread.turn("Explique a fotossíntese em detalhes.") as turn:
        for n, _ in enumerate(turn.stream(iter(["A fotossíntese ", "é o processo ", "de"]))):
            if n == 1:
                break
    found = list(thread)
    assert found[1].text == "A fotossíntese é o processo " and found[1].partial
    sent = say(thread, "continue", "…")
    assert novelo.check(sent) == []
    assert texts(sent) == ["Explique a fotossíntese em detalhes.", "A fotossíntese é o processo ", "continue"]
    assert [t.status for t in thread.turns()] == ["interrupted", "done"]


def test_a_broken_stream_is_in_the_ledger(memory):
    """It was paid for: what was sent and what came is counted, once for each answer that began, and limits see it."""
    thread = memory.thread("t")

    def breaks(*pieces):
        yield from pieces
        raise ConnectionError

    for _ in range(2):
        with pytest.raises(ConnectionError), thread.turn("q") as turn:
            turn.messages()
            list(turn.stream(breaks("half an ", "answer")))
    assert [(c.purpose, c.estimated, c.input > 0, c.output > 0) for c in thread.usage()] == [
        ("reply", True, True, True)
    ] * 2
    with thread.turn("q") as turn:
        turn.messages()
        with pytest.raises(ConnectionError):
            list(turn.stream(breaks("half")))
        turn.messages()
        assert "".join(turn.stream(iter(["whole"]))) == "whole"
    assert (
        thread.usage().total.calls == 4
        and memory.store.spent(thread.key, "", 0.0).tokens == thread.usage().total.tokens
    )
    with pytest.raises(ConnectionError), thread.turn("q") as turn:
        turn.messages()
        list(turn.stream(breaks()))  # nothing came, nothing is known to have been spent
    assert thread.usage().total.calls == 4


def test_a_stream_is_stored_when_it_ends(memory):
    """A stream that came whole is an answer like any other, with its usage in the ledger."""
    thread = memory.thread("t")
    with thread.turn("q") as turn:
        turn.messages()
        assert "".join(turn.stream(iter(["um ", "dois"]))) == "um dois"
    assert [(e.text, e.partial) for e in thread][1] == ("um dois", False)
    (call,) = thread.usage()
    assert call.estimated and call.output > 0 and call.latency_s is not None and call.first_token_s is not None


def test_an_empty_stream_leaves_no_draft(memory):
    """A writer that dies before a word came leaves no blank entry behind."""
    thread = memory.thread("t")
    with pytest.raises(LeaseLost), thread.turn("q") as turn:
        stream = turn.stream(iter(["", "x"]))
        assert next(stream) == "x"
        turn._stream = turn._stream.__class__()
        turn.keep_draft()
        say(thread, "r", "b", on_busy="interrupt")
        turn.reply("late")
    assert stored(thread) == [("u", "q"), ("u", "r"), ("a", "b")]


def test_state_is_written_with_the_next_step(memory):
    """Changes of the state inside a turn are stored together with a step, and seen by the system prompt."""
    thread = memory.thread("t", system=lambda state: f"Speak {state.get('lang', 'en')}.")
    with thread.turn("q") as turn:
        turn.state["lang"] = "pt"
        assert dict(memory.thread("t").state) == {}
        assert turn.messages()[0] == {"role": "system", "content": "Speak pt."}
        turn.reply("a")
    assert thread.state["lang"] == "pt"
    assert thread.context("x").messages()[0]["content"] == "Speak pt."


def test_history_leaves_question_and_system_out(memory):
    """`history()` is what stood before the question, for prompts with a place of their own for each."""
    thread = memory.thread("t", system="Be kind.")
    say(thread, "q1", "a1")
    with thread.turn("q2") as turn:
        assert texts(turn.history()) == ["q1", "a1"]
        assert texts(turn.messages()) == ["Be kind.", "q1", "a1", "q2"]
        turn.reply("a2")


def test_policies_of_memory_thread_and_call(url):
    """The policy of a call goes before the thread's, and that before the memory's."""
    with novelo.open(url, policy="window:2turns") as memory:
        wide = memory.thread("t", policy="window:3turns")
        for n in range(5):
            say(wide, f"q{n}", f"a{n}")
        count = lambda thread, **more: roles(thread.context("x", **more).messages()).count("u")  # noqa: E731
        assert (count(memory.thread("t")), count(wide), count(wide, policy="window:1turns")) == (2, 3, 1)


def test_the_manifest_of_a_turn_says_what_was_sent(memory):
    """The k-th turn's manifest names the positions that the model saw."""
    thread = memory.thread("t", policy="window:1turns")
    say(thread, "q1", "a1")
    say(thread, "q2", "a2")
    with thread.turn("q3") as turn:
        turn.reply("a3")
    assert [tuple(r) for r in thread.manifest(2).kept] == [(2, 3)] and thread.manifest(2).end == 3
    assert thread.manifest(3) is None
    for k in (0, 4):
        with pytest.raises(novelo.UnknownEntry):
            thread.manifest(k)


def test_an_answer_in_any_form_is_counted(memory):
    """A provider's response is stored as a message, its usage in the ledger of thread and owner."""
    thread = memory.thread("t", owner="ana")
    completion = {
        "model": "m-1", "choices": [{"message": {"role": "assistant", "content": "oi"}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 2},
    }  # fmt: skip
    say(thread, "q", completion)
    (call,) = thread.usage()
    assert (call.model, call.input, call.output, call.estimated, call.turn) == ("m-1", 11, 2, False, 0)
    assert [(o, t) for o, t, _ in memory.usage("ana")] == [("ana", "t")] and memory.usage("bia") == []


def test_what_is_no_answer_is_refused_and_the_turn_goes_on(memory):
    """A reply of another role is refused before anything is written."""
    thread = memory.thread("t")
    with thread.turn("q") as turn:
        with pytest.raises(InvalidMessage):
            turn.reply({"role": "user", "content": "no"})
        turn.reply("yes")
    assert stored(thread) == [("u", "q"), ("a", "yes")]
    with pytest.raises(TurnClosed):
        thread.turn("r").reply("not begun")
