"""The memory of agents: what the model is sent, what stays in the state, and who never waits for a summary."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain.agents.middleware import after_model, before_model, dynamic_prompt
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import tool
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import novelo
from novelo.errors import ContextTooSmall, InvalidSpec
from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver
from novelo.integrations.langgraph._chat import provider_of
from scripted_chat import ClaudeLikeAnthropic, ScriptedChat, calling, chat, texts, thread

SUMMING = "summarize:8messages,keep=2"


def say(agent: Any, *questions: str, to: str = "a") -> dict[str, Any]:
    """Ask one question after the other; the state after the last."""
    for question in questions:
        state = agent.invoke({"messages": [HumanMessage(question)]}, thread(to))
    return state


def at_rest(built: Any, messages: int) -> Any:
    """The newest checkpoint of a finished run that has so many messages."""
    history = built.get_state_history(thread("a"))
    return next(s for s in history if len(s.values.get("messages", ())) == messages and not s.next)


def agent(model: Any, layer: Any, *, tools: Any = (), saver: Any = None, **more: Any) -> Any:
    """An agent with the middleware."""
    layers = layer if isinstance(layer, list) else [layer]
    return create_agent(model, list(tools), middleware=layers, checkpointer=saver or InMemorySaver(), **more)


@tool
def lookup(order: str) -> str:
    """Look an order up."""
    return f"order {order} is on its way"


# ------------------------------------------------------------------------------------------------ the context
def test_the_model_is_sent_the_window_and_the_state_keeps_all():
    """A window cuts what the model sees, whole turns of it, and nothing of the state."""
    model = chat()
    state = say(agent(model, MemoryMiddleware("window:2turns"), system_prompt="Be brief."), "um", "dois", "três")
    assert texts(model.seen[-1]) == ["Be brief.", "dois", "echo dois", "três"]
    assert texts(state["messages"]) == ["um", "echo um", "dois", "echo dois", "três", "echo três"]


def test_a_cut_never_parts_a_result_from_its_call():
    """With tools in every turn each request is one that OpenAI and Anthropic take."""
    answers: list[Any] = []
    for k in range(6):
        answers += [calling("lookup", f"c{k}", order=str(k)), f"order {k}"]
    model = chat(*answers)
    say(agent(model, MemoryMiddleware("window:3messages"), tools=[lookup]), *(f"where is {k}?" for k in range(6)))
    for sent in model.seen:
        assert novelo.check(sent, "openai") == [] == novelo.check(sent, "anthropic")
    assert len(model.seen) == 12 and max(map(len, model.seen)) <= 4


def test_a_dangling_call_gets_a_result_on_the_wire_only():
    """A call whose process died is answered in the request, while the state stays as it was."""
    model, saver = chat(), InMemorySaver()
    built = agent(model, MemoryMiddleware("buffer"), tools=[lookup], saver=saver)
    lost = [HumanMessage("where?"), calling("lookup", "c1", order="1"), HumanMessage("hello?")]
    built.update_state(thread("a"), {"messages": lost}, as_node="tools")
    state = say(built, "still there?")
    assert novelo.check(model.seen[-1], "openai") == []
    assert [m.type for m in state["messages"]] == ["human", "ai", "human", "human", "ai"]


@pytest.mark.parametrize(("kind", "provider"), [(ScriptedChat, "openai"), (ClaudeLikeAnthropic, "anthropic")])
def test_the_provider_is_told_from_the_models_class(kind, provider):
    """Whose rules hold follows from the class of the chat model, also inside of a binding."""
    assert provider_of(chat(kind=kind)) == provider_of(chat(kind=kind).bind(stop=["x"])) == provider


def test_unchanged_messages_are_the_very_objects():
    """Ids, metadata and signatures of a provider go out as they came in."""
    signed = AIMessage(
        [{"type": "thinking", "thinking": "…", "signature": "s"}, {"type": "text", "text": "ok"}], id="m1"
    )
    model = chat(signed, kind=ClaudeLikeAnthropic)
    say(agent(model, MemoryMiddleware("window:4turns")), "um", "dois")
    assert model.seen[-1][1].content == signed.content and model.seen[-1][1].id == "m1"


def test_masks_hold_for_the_system_message_and_older_turns():
    """`redact` masks what goes out; the state keeps the words."""
    model = chat()
    built = agent(model, MemoryMiddleware("buffer", redact="emails"), system_prompt="Escreva a chefe@example.org")
    state = say(built, "sou ana@example.org", "e agora?")
    assert "ana@example.org" in state["messages"][0].text
    assert "@" not in " ".join(texts(model.seen[-1]))


def test_a_refused_context_is_shortened_once():
    """A refusal as too long gets one shorter request, the ledger says so, and later contexts stay below."""
    refusal = ValueError("prompt is too long: 4000 tokens > 2000 maximum")
    model, layer = chat("um", "dois", refusal, "três", "quatro"), MemoryMiddleware("buffer")
    built = agent(model, layer)
    say(built, *(f"{n} " + "palavra " * 200 for n in range(3)))
    assert len(model.seen[3]) < len(model.seen[2]) and len(model.seen) == 4
    assert [c.purpose for c in layer.usage("a")] == ["reply", "reply", "retry"]
    say(built, "mais " + "palavra " * 200)
    assert len(model.seen) == 5 and len(model.seen[4]) <= len(model.seen[3])


def test_another_error_and_a_second_refusal_come_through():
    """What is no refusal of length is not tried again; a second refusal is the caller's to see."""
    refusal = ValueError("prompt is too long: 4000 tokens > 2000 maximum")
    for answers, asked in (([RuntimeError("down")], 1), ([refusal], 1), (["um", "dois", refusal, refusal], 4)):
        model = chat(*answers)
        built = agent(model, MemoryMiddleware("buffer"))
        with pytest.raises((RuntimeError, ValueError)):
            say(built, *("palavra " * 300 for _ in range(3)))
        assert len(model.seen) == asked


def test_a_budget_that_cannot_be_kept_is_told():
    """A policy's own budget below the question is an error, never a silent cut of the question."""
    with pytest.raises(ContextTooSmall):
        say(agent(chat(), MemoryMiddleware("budget:20")), "palavra " * 100)


def test_tools_and_system_count_for_the_budget():
    """The manifest of the newest context tells the parts."""
    layer = MemoryMiddleware("budget:2000")
    say(agent(chat(), layer, tools=[lookup], system_prompt="Be brief."), "oi")
    tokens = layer.manifest("a").tokens
    assert tokens["tools"] > 0 and tokens["system"] > 0 and tokens["budget"] == 2000


def test_nonsense_is_refused_when_it_is_made():
    """A policy, provider or mask that does not exist is told before any model is asked."""
    for bad in (
        {"policy": "windw:3"},
        {"memory": "x.db"},
        {"provider": "nobody"},
        {"redact": "everything"},
        {"summary_s": 0},
    ):
        with pytest.raises(InvalidSpec):
            MemoryMiddleware(**bad)


# ------------------------------------------------------------------------------------------------ the ledger
def test_every_call_is_in_the_ledger():
    """Reported usage is taken over, threads are kept apart, and calls without a report are counted by us."""
    told = AIMessage("oi", usage_metadata={"input_tokens": 50, "output_tokens": 7, "total_tokens": 57})
    layer = MemoryMiddleware("buffer")
    built = agent(chat(told), layer)
    say(built, "um")
    say(built, "dois", to="b")
    assert [(c.input, c.output, c.estimated) for c in layer.usage("a")] == [(50, 7, False)]
    assert layer.usage("b").total.calls == 1 and layer.usage("b")[0].estimated
    assert layer.usage("c") == []


# ------------------------------------------------------------------------------------------------ summaries
def test_a_summary_stands_for_the_older_part():
    """Made after the reply, it is in the next context, marked as made, and the state has none of it."""
    model, layer = chat(), MemoryMiddleware(SUMMING, summarizer=lambda request: "Falaram de números.")
    built = agent(model, layer)
    say(built, "um", "dois", "três", "quatro")
    assert layer.wait() and layer.summary("a").text == "Falaram de números."
    state = say(built, "cinco")
    sent = model.seen[-1]
    assert "Falaram de números." in sent[1].text and sent[1].additional_kwargs["lc_source"] == "novelo"
    assert texts(sent[2:]) == ["quatro", "echo quatro", "cinco"]
    assert len(state["messages"]) == 10
    assert [c.purpose for c in layer.usage("a")].count("summary") == 1


def test_a_summary_is_updated():
    """The next version is made from the former one and what came after it."""
    asked: list[Any] = []

    def write(request: Any) -> str:
        asked.append(request)
        return f"Resumo número {len(asked)}."

    layer = MemoryMiddleware(SUMMING, summarizer=write)
    built = agent(chat(), layer)
    for n in range(9):
        say(built, f"pergunta {n}")
        assert layer.wait()
    assert len(asked) == 2 and layer.summary("a").version == 2
    body = asked[1].messages[-1]["content"]
    assert "Resumo número 1." in body and "pergunta 0" not in body and "pergunta 5" in body


@pytest.mark.parametrize("fault", ["fails", "is empty", "is an error", "hangs"])
def test_a_bad_summarizer_fails_and_slows_no_turn(fault):
    """Whatever the summarizer does, turns come back with the full history at once."""
    free = threading.Event()

    def write(request: Any) -> str:
        if fault == "fails":
            raise RuntimeError("no money")
        if fault == "hangs":
            free.wait(20)
        return "" if fault == "is empty" else "Error: 500"

    model, layer = chat(), MemoryMiddleware(SUMMING, summarizer=write)
    built = agent(model, layer)
    started = time.monotonic()
    say(built, *(f"{n}" for n in range(12)))
    assert time.monotonic() - started < 5
    assert len(model.seen[-1]) == 23 and layer.summary("a") is None
    free.set()
    assert layer.wait()


def test_a_summarizer_that_hangs_is_given_up():
    """After its time the job ends as failed, and the thread is free for another try."""
    free, told = threading.Event(), []
    layer = MemoryMiddleware(
        SUMMING, summarizer=lambda r: str(free.wait(20)), summary_s=0.05, on_compaction=lambda e: told.append(e.status)
    )
    say(agent(chat(), layer), *"1234")
    assert layer.wait() and told == ["started", "failed"]
    free.set()


def test_a_summary_is_not_used_on_another_branch():
    """Going back to an earlier checkpoint, what was said later stands in no context."""
    layer = MemoryMiddleware(SUMMING, summarizer=lambda r: "Falaram de tudo.")
    model, saver = chat(), InMemorySaver()
    built = agent(model, layer, saver=saver)
    say(built, "um", "dois", "três", "quatro", "cinco")
    assert layer.wait() and layer.summary("a") is not None
    early = next(
        s for s in built.get_state_history(thread("a")) if len(s.values.get("messages", ())) == 4 and not s.next
    )
    built.invoke({"messages": [HumanMessage("outro caminho")]}, early.config)
    assert texts(model.seen[-1]) == ["um", "echo um", "dois", "echo dois", "outro caminho"]


def test_a_summary_is_not_used_when_what_it_covers_was_changed():
    """A message that is rewritten in the state takes the summary of it out of contexts."""
    layer = MemoryMiddleware(SUMMING, summarizer=lambda r: "Disse a senha.")
    model = chat()
    built = agent(model, layer)
    state = say(built, "um", "dois", "três", "quatro")
    assert layer.wait()
    built.update_state(thread("a"), {"messages": [HumanMessage("[removed]", id=state["messages"][0].id)]})
    say(built, "cinco")
    assert "Disse a senha." not in " ".join(texts(model.seen[-1])) and "[removed]" in texts(model.seen[-1])


def test_summaries_are_in_no_stream():
    """A summarizer that is a chat model shows neither in the stream of tokens nor to the run's callbacks."""
    writer = chat(*["Resumo secreto."] * 9)
    layer = MemoryMiddleware(SUMMING, summarizer=writer)
    built = agent(chat(), layer)
    words: list[str] = []
    for n in range(6):
        for chunk, _ in built.stream({"messages": [HumanMessage(str(n))]}, thread("a"), stream_mode="messages"):
            words.append(chunk.text)
        assert layer.wait()
    assert writer.seen and "secreto." not in "".join(words) and "echo" in "".join(words)


# ------------------------------------------------------------------------------------------------ beside others
@pytest.mark.parametrize("mode", ["values", "updates", "messages", "custom", "debug"])
def test_every_streaming_mode_works(mode):
    """The middleware changes nothing about how an agent streams."""
    built = agent(chat(), MemoryMiddleware("window:1turns"))
    parts = list(built.stream({"messages": [HumanMessage("oi")]}, thread("a"), stream_mode=mode))
    assert parts or mode == "custom"


def test_async_is_the_same():
    """Awaited, streamed and refused as too long: the same contexts and the same ledger."""
    refusal = ValueError("prompt is too long: 4000 tokens > 2000 maximum")
    model, layer = chat("um", "dois", refusal), MemoryMiddleware("buffer")
    built = agent(model, layer)

    async def talk() -> Any:
        for n in range(3):
            state = await built.ainvoke({"messages": [HumanMessage(f"{n} " + "palavra " * 200)]}, thread("a"))
        async for _ in built.astream({"messages": [HumanMessage("fim")]}, thread("a"), stream_mode="messages"):
            pass
        return state

    assert len(asyncio.run(talk())["messages"]) == 6
    assert [c.purpose for c in layer.usage("a")] == ["reply", "reply", "retry", "reply"]


def test_structured_output_works():
    """The answer of a structured agent comes back, and its turn is closed in the eyes of the memory."""

    class Weather(BaseModel):
        """The weather."""

        city: str

    model = chat(calling("Weather", "w1", city="Recife"), calling("Weather", "w2", city="Natal"))
    built = agent(model, MemoryMiddleware("window:1turns"), response_format=ToolStrategy(Weather))
    say(built, "Recife?")
    assert say(built, "Natal?")["structured_response"] == Weather(city="Natal")
    assert texts(model.seen[-1]) == ["Natal?"]


def test_parallel_tools_stay_together():
    """Two calls of one message and their results are one step."""
    both = AIMessage("", tool_calls=[{"name": "lookup", "args": {"order": o}, "id": f"c{o}"} for o in ("1", "2")])
    model = chat(both, "there")
    say(agent(model, MemoryMiddleware("window:1turns"), tools=[lookup]), "where are 1 and 2?")
    assert [m.type for m in model.seen[-1]] == ["human", "ai", "tool", "tool"]


def test_an_interrupt_resumes():
    """A tool that waits for a person goes on where it stopped, with its call in the context."""

    @tool
    def ask(what: str) -> str:
        """Ask a person."""
        return str(interrupt(what))

    model = chat(calling("ask", "c1", what="ok?"), "done")
    built = agent(model, MemoryMiddleware("window:1turns"), tools=[ask])
    assert "__interrupt__" in say(built, "please")
    built.invoke(Command(resume="yes"), thread("a"))
    assert texts(model.seen[-1]) == ["please", "", "yes"]


def test_an_agent_inside_of_a_tool_has_a_context_of_its_own():
    """A subagent sees its own messages, its calls are in the thread's ledger, and its words are in no transcript."""
    with novelo.open("memory://") as memory:
        layer = MemoryMiddleware("buffer", memory=memory)
        inner = create_agent(chat("inner answer"), [], middleware=[layer])

        @tool
        def delegate(task: str) -> str:
            """Have another agent do it."""
            return str(inner.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text)

        model = chat(calling("delegate", "d1", task="inner task"), "outer answer")
        say(agent(model, layer, tools=[delegate]), "outer question")
        said = [m.message.text for m in memory.thread("a").messages()]
        assert said == ["outer question", "", "inner answer", "outer answer"]
        assert layer.usage("a").total.calls == 3


def test_other_middleware_works_beside_it():
    """Prompts by state, trims, and checks after the model do what they do without us."""

    @dynamic_prompt
    def prompt(request: Any) -> str:
        return f"{len(request.state['messages'])} messages"

    @before_model
    def drop(state: Any, runtime: Any) -> Any:
        old = state["messages"][:-3]
        return {"messages": [RemoveMessage(id=m.id) for m in old]} if old else None

    @after_model
    def mark(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage("[checked]", id=state["messages"][-1].id)]}

    model = chat()
    state = say(agent(model, [MemoryMiddleware("window:2turns"), prompt, drop, mark]), "um", "dois", "três")
    assert texts(model.seen[-1]) == ["3 messages", "dois", "[checked]", "três"]
    assert texts(state["messages"]) == ["dois", "[checked]", "três", "[checked]"]


def test_without_a_checkpointer_it_composes_too():
    """An agent that keeps nothing is sent the window over what it is given."""
    model = chat()
    create_agent(model, [], middleware=[MemoryMiddleware("window:1turns")]).invoke(
        {"messages": [HumanMessage("um"), AIMessage("1"), HumanMessage("dois")]}
    )
    assert texts(model.seen[-1]) == ["dois"]


# ------------------------------------------------------------------------------------------------ with a memory
def test_the_memory_keeps_a_transcript(tmp_path):
    """Every message is in the memory's thread once, in order, with the ledger; also in a second process's memory."""
    saver, url = InMemorySaver(), f"sqlite:///{tmp_path / 'chat.db'}"
    for name in ("um", "dois"):
        with novelo.open(url) as memory:
            model = chat(calling("lookup", f"c{name}", order=name), f"fim {name}")
            say(agent(model, MemoryMiddleware("window:1turns", memory=memory), tools=[lookup], saver=saver), name)
    with novelo.open(url) as memory:
        kept = memory.thread("a")
        assert [m.role for m in kept.messages()] == ["user", "assistant", "tool", "assistant"] * 2
        assert kept.messages()[2].message.text == "order um is on its way" and kept.usage().total.calls == 4


def test_the_summary_outlives_the_process(tmp_path):
    """A summary that one process made stands in the first context of the next, and in the memory's list."""
    saver, url = InMemorySaver(), f"sqlite:///{tmp_path / 'chat.db'}"
    with novelo.open(url, summarizer=lambda r: "Falaram de números.") as memory:
        layer = MemoryMiddleware(SUMMING, memory=memory)
        say(agent(chat(), layer, saver=saver), "um", "dois", "três", "quatro")
        assert layer.wait()
        assert [s.text for s in memory.thread("a").compactions()] == ["Falaram de números."]
    with novelo.open(url) as memory:
        model = chat()
        say(agent(model, MemoryMiddleware(SUMMING, memory=memory), saver=saver), "cinco")
        assert "Falaram de números." in model.seen[-1][1].text and "dois" not in texts(model.seen[-1])


def test_what_a_trim_removes_stays_in_the_transcript():
    """Messages that another middleware deletes from the state were said all the same."""

    @before_model
    def drop(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][:-1]]}

    with novelo.open("memory://") as memory:
        state = say(agent(chat(), [MemoryMiddleware("buffer", memory=memory), drop]), "um", "dois", "três")
        assert len(state["messages"]) == 2 and len(memory.thread("a").messages(hidden=False)) == 6


def test_what_is_scrubbed_after_the_model_is_gone_from_the_transcript():
    """A hook that takes a secret out of the state takes it out of the transcript too, from question and answer."""

    @after_model
    def scrub(state: Any, runtime: Any) -> Any:
        clean = [m.model_copy(update={"content": m.text.replace("hunter2", "***")}) for m in state["messages"]]
        return {"messages": [m for m in clean if "***" in m.text]}

    with novelo.open("memory://") as memory:
        built = agent(chat(), [MemoryMiddleware("buffer", memory=memory), scrub])
        say(built, "senha hunter2", "e agora?")
        assert [m.message.text for m in memory.thread("a").messages()][:2] == ["senha ***", "echo senha ***"]


def test_a_branch_that_was_left_is_hidden():
    """Going back and asking anew hides what was said after that point, and keeps it."""
    saver = InMemorySaver()
    with novelo.open("memory://") as memory:
        built = agent(chat(), MemoryMiddleware("buffer", memory=memory), saver=saver)
        say(built, "um", "dois")
        early = next(
            s for s in built.get_state_history(thread("a")) if len(s.values.get("messages", ())) == 2 and not s.next
        )
        built.invoke({"messages": [HumanMessage("três")]}, early.config)
        kept = memory.thread("a")
        assert [m.message.text for m in kept.messages(hidden=False)] == ["um", "echo um", "três", "echo três"]
        assert len(kept) == 6


def test_a_transcript_that_was_redacted_is_not_undone_by_an_old_state(tmp_path):
    """What was taken out of the memory does not come back from a checkpoint that still has it."""
    saver, url = InMemorySaver(), f"sqlite:///{tmp_path / 'chat.db'}"
    for n in range(2):
        with novelo.open(url) as memory:
            say(agent(chat(), MemoryMiddleware("buffer", memory=memory), saver=saver), f"hunter2 {n}")
            memory.thread("a").redact("hunter2")
            assert "hunter2" not in " ".join(m.message.text for m in memory.thread("a").messages())


def test_a_memory_that_fails_fails_no_turn(monkeypatch):
    """A database that cannot be written costs the transcript of a turn, which the next one brings up."""
    with novelo.open("memory://") as memory:
        built = agent(chat(), MemoryMiddleware("buffer", memory=memory))
        with monkeypatch.context() as patch:
            patch.setattr(memory.store, "add", _full)
            assert len(say(built, "um")["messages"]) == 2
        say(built, "dois")
        assert len(memory.thread("a")) == 4


def _full(*_: Any, **__: Any) -> Any:
    raise novelo.StorageFull


@pytest.mark.parametrize("given", ["the saver", "its memory", "another of the same file"])
def test_beside_our_saver_the_transcript_is_the_savers(tmp_path, given):
    """In one database nothing stands twice: the saver writes messages, the middleware the ledger and the summary."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    with NoveloSaver.from_conn_string(url) as saver, novelo.open(url) as other:
        memory = {"the saver": saver, "its memory": saver.memory, "another of the same file": other}[given]
        layer = MemoryMiddleware(SUMMING, memory=memory, summarizer=lambda r: "Falaram de números.")
        model = chat()
        built = agent(model, layer, saver=saver)
        for n in range(6):
            say(built, f"pergunta {n}")
            assert layer.wait()
        assert [m.text for m in saver.transcript("a")] == [
            t for n in range(6) for t in (f"pergunta {n}", f"echo pergunta {n}")
        ]
        assert [c.purpose for c in layer.usage("a")].count("reply") == 6
        assert "Falaram" in model.seen[-1][1].text and other.thread("a").summary.text == "Falaram de números."
    with NoveloSaver.from_conn_string(url) as saver:
        model = chat()
        say(agent(model, MemoryMiddleware(SUMMING, memory=saver), saver=saver), "mais")
        assert "Falaram" in model.seen[-1][1].text


def test_a_scrub_reaches_the_savers_transcript_within_the_turn(tmp_path):
    """A secret that a hook takes out of the state is nowhere in the saver's transcript when the agent returns."""

    @after_model
    def scrub(state: Any, runtime: Any) -> Any:
        clean = [m.model_copy(update={"content": m.text.replace("hunter2", "***")}) for m in state["messages"]]
        return {"messages": [m for m in clean if "***" in m.text]}

    url = f"sqlite:///{tmp_path / 'chat.db'}"
    for n in range(3):
        with NoveloSaver.from_conn_string(url) as saver:
            say(agent(chat(), [MemoryMiddleware("buffer", memory=saver), scrub], saver=saver), f"hunter2 {n}")
            said = [m.text for m in saver.transcript("a")]
            assert len(said) == 2 * n + 2 and "hunter2" not in " ".join(said)


def test_pruning_beside_our_saver_loses_nothing(tmp_path):
    """The state stays small, and the saver's transcript has all that was said."""
    with NoveloSaver.from_conn_string(f"sqlite:///{tmp_path / 'chat.db'}") as saver:
        built = agent(chat(), MemoryMiddleware("window:2turns", prune_state=True), saver=saver)
        state = say(built, *(str(n) for n in range(6)))
        assert len(state["messages"]) == 4 and len(saver.transcript("a")) == 12


def test_owners_are_kept_apart():
    """Equal thread ids of two owners are two transcripts."""
    with novelo.open("memory://") as memory:
        built = agent(chat(), MemoryMiddleware("buffer", memory=memory))
        for owner in ("x", "y"):
            built.invoke({"messages": [HumanMessage(owner)]}, thread(f"t-{owner}", owner=owner))
        assert memory.threads(owner="x")[0].thread_id == "t-x" and len(memory.threads(owner="y")) == 1


# ------------------------------------------------------------------------------------------------ pruning
def test_pruning_by_a_window_keeps_the_state_small():
    """What a window leaves out is removed from the state, call and result together; the memory keeps it."""
    answers: list[Any] = []
    for k in range(5):
        answers += [calling("lookup", f"c{k}", order=str(k)), f"order {k}"]
    model = chat(*answers)
    with novelo.open("memory://") as memory:
        layer = MemoryMiddleware("window:2turns", memory=memory, prune_state=True)
        state = say(agent(model, layer, tools=[lookup]), *(f"where is {k}?" for k in range(5)))
        assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"] * 2
        assert len(memory.thread("a")) == 20
    assert all(novelo.check(sent, "openai") == [] for sent in model.seen)


def test_pruning_by_a_summary_carries_it_in_the_state():
    """The state loses what the summary stands for and carries it, so that another process goes on with it."""
    saver = InMemorySaver()
    layer = MemoryMiddleware(SUMMING, summarizer=lambda r: "Falaram de números.", prune_state=True)
    built = agent(chat(), layer, saver=saver)
    for n in range(10):
        state = say(built, f"pergunta {n}")
        assert layer.wait()
    assert len(state["messages"]) <= 9 and "novelo_memory" not in state
    model = chat()
    say(agent(model, MemoryMiddleware(SUMMING, prune_state=True), saver=saver), "mais")
    assert "Falaram de números." in model.seen[-1][1].text and "pergunta 9" in texts(model.seen[-1])


def test_a_pruned_thread_goes_back_with_its_summary():
    """An earlier checkpoint has the messages and the summary that it had then."""
    saver = InMemorySaver()
    layer = MemoryMiddleware(SUMMING, summarizer=lambda r: "Falaram de números.", prune_state=True)
    model = chat()
    built = agent(model, layer, saver=saver)
    for n in range(8):
        say(built, f"pergunta {n}")
        assert layer.wait()
    early = next(
        s for s in built.get_state_history(thread("a")) if len(s.values.get("messages", ())) == 4 and not s.next
    )
    built.invoke({"messages": [HumanMessage("outro caminho")]}, early.config)
    assert (
        texts(model.seen[-1]) == [*texts(early.values["messages"]), "outro caminho"]
        or "Falaram" in model.seen[-1][1].text
    )


def test_pruning_works_awaited():
    """The hooks of the pruning class have their awaited twins."""
    built = agent(chat(), MemoryMiddleware("window:1turns", prune_state=True))

    async def talk() -> Any:
        for n in range(3):
            state = await built.ainvoke({"messages": [HumanMessage(str(n))]}, thread("a"))
        return state

    assert texts(asyncio.run(talk())["messages"]) == ["2", "echo 2"]


# ------------------------------------------------------------------------------------------------ cost
def test_a_window_over_a_long_thread_costs_little():
    """Only what the window pulls is converted: a thousand turns cost no more than a few milliseconds, with room."""
    history: list[Any] = []
    for n in range(1000):
        history += [HumanMessage(f"question {n}", id=f"h{n}"), AIMessage(f"answer {n}", id=f"a{n}")]
    layer, request = MemoryMiddleware("window:10turns"), _request([*history, HumanMessage("last", id="z")])
    laps = []
    for _ in range(20):
        started = time.process_time()
        layer.wrap_model_call(request, lambda r: AIMessage("ok", id="x"))
        laps.append(time.process_time() - started)
    assert min(laps) < 0.005


def _request(messages: list[Any]) -> Any:
    from langchain.agents.middleware.types import ModelRequest

    return ModelRequest(model=chat(), messages=messages, state={"messages": messages})


def test_an_agent_as_a_node_of_a_graph_is_the_threads_own():
    """A graph whose node is an agent has one transcript, that of the thread."""
    with novelo.open("memory://") as memory:
        inner = create_agent(chat(), [], middleware=[MemoryMiddleware("buffer", memory=memory)])
        builder = StateGraph(MessagesState)
        builder.add_node("agent", inner)
        builder.add_edge(START, "agent")
        graph = builder.compile(checkpointer=InMemorySaver())
        say(graph, "um", "dois")
        assert [m.message.text for m in memory.thread("a").messages()] == ["um", "echo um", "dois", "echo dois"]


def test_tool_messages_by_command_are_sent():
    """A tool that writes state by a command has its message in the next context."""

    @tool
    def note(runtime: Any) -> Command:
        """Note something."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id="c1")]})

    model = chat(calling("note", "c1", runtime="x"), "ok")
    say(agent(model, MemoryMiddleware("window:1turns"), tools=[note]), "note it")
    assert texts(model.seen[-1]) == ["note it", "", "noted"]


def test_limits_hold_for_agents():
    """A run is refused at its question once the thread's limit is used up, and no model is asked."""
    with novelo.open("sqlite://", limits=["thread:60tokens"]) as memory:
        model = chat(*[f"resposta número {k} com algumas palavras" for k in range(20)])
        built = agent(model, MemoryMiddleware("window:2turns", memory=memory), saver=InMemorySaver())
        with pytest.raises(novelo.LimitReached):
            for k in range(20):
                say(built, f"pergunta {k} com palavras")
        assert 1 <= len(model.seen) < 10
