"""What is scrubbed, masked or encrypted is in no file beside an agent: transcript, summaries, states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain.agents.middleware import before_model
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

import novelo
from graphs import held
from novelo.formats.langchain import from_langchain, to_langchain
from novelo.integrations.langgraph import MemoryMiddleware, NoveloSaver
from novelo.integrations.langgraph._talk import agree, print_of
from scripted_chat import chat, texts, thread

SUMMING = "summarize:4messages,keep=1"
SECRET = "hunter2"


def say(agent: Any, content: Any) -> list[Any]:
    """Ask; the state's messages afterwards."""
    messages: list[Any] = agent.invoke({"messages": [HumanMessage(content)]}, thread("a"))["messages"]
    return messages


def on_disk(folder: Path) -> bytes:
    """All bytes of all files, and checkpoints as they were before they were packed."""
    return b"".join(held(path) for path in folder.glob("*.db"))


@before_model
def scrub(state: Any, runtime: Any) -> Any:
    """Takes the secret out of the state before anybody sees it."""
    clean: list[Any] = []
    for message in state["messages"]:
        if SECRET in str(message.content):
            parts = isinstance(message.content, list)
            clean.append(message.model_copy(update={"content": [{"type": "text", "text": "***"}] if parts else "***"}))
    return {"messages": clean} if clean else None


@pytest.mark.parametrize("content", [SECRET, [{"type": "text", "text": SECRET}]])
@pytest.mark.parametrize("turns", [0, 1])
def test_what_a_hook_scrubs_first_is_gone_beside_our_saver(tmp_path, content, turns):
    """Before the model, and before the middleware saw it; the state keeps the message, a text or parts."""
    with NoveloSaver.from_conn_string(f"sqlite:///{tmp_path / 'chat.db'}") as saver:
        agent = create_agent(chat(), middleware=[MemoryMiddleware("buffer", memory=saver), scrub], checkpointer=saver)
        for n in range(turns):
            say(agent, f"pergunta {n}")
        say(agent, content)
        expected = [t for n in range(turns) for t in (f"pergunta {n}", f"echo pergunta {n}")] + ["***", "echo ***"]
        assert texts(agent.get_state(thread("a")).values["messages"]) == expected
        assert texts(saver.transcript("a")) == expected
    assert SECRET.encode() not in on_disk(tmp_path)


def test_parts_and_calls_that_were_rewritten_are_rewritten_in_the_transcript(tmp_path):
    """Parts of a content, a call's arguments: the transcript says what the state says, and no old summary is used."""
    call = {"id": "c1", "name": "lookup", "args": {"code": SECRET}}
    history = [
        HumanMessage([{"type": "text", "text": f"o código é {SECRET}"}], id="h"),
        AIMessage("", tool_calls=[call], id="a"),
        ToolMessage("achei", tool_call_id="c1", id="t"),
    ]
    with novelo.open(f"sqlite:///{tmp_path / 'chat.db'}", summarizer=lambda r: f"A senha é {SECRET}.") as memory:
        layer, model = MemoryMiddleware(SUMMING, memory=memory), chat()
        agent = create_agent(model, middleware=[layer])
        for text in ("um", "dois"):
            messages = agent.invoke({"messages": [*history, HumanMessage(text)]}, thread("a"))["messages"]
            assert layer.wait()
            history = messages
        assert layer.summary("a") is not None
        memory.summarizer = layer.summarizer = None
        history[0] = history[0].model_copy(update={"content": [{"type": "text", "text": "***"}]})
        history[1] = history[1].model_copy(update={"tool_calls": [{**call, "args": {"code": "***"}}]})
        agent.invoke({"messages": [*history, HumanMessage("três")]}, thread("a"))
        assert SECRET not in str(model.seen[-1])
        assert next(m.message.text for m in memory.thread("a").messages()) == "***"
    assert SECRET.encode() not in on_disk(tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("a\ud800b", id="1"),
        HumanMessage([{"text": "olá", "type": "text"}, {"type": "image_url", "image_url": {"url": "data:,"}}], id="1"),
        AIMessage(
            [{"type": "text", "text": "x"}], tool_calls=[{"id": "c", "name": "f", "args": {"b": 1, "a": 2}}], id="1"
        ),
        AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "y"}], id="1"),
        ToolMessage([{"type": "text", "text": "r"}], tool_call_id="c", id="1"),
    ],
)
def test_a_print_is_that_of_the_stored_message(message):
    """A message that nobody changed is recognised after it was stored."""
    with novelo.open("memory://") as memory:
        stored = memory.new_entry(from_langchain(message)).message
    assert agree(print_of(stored), print_of(message)) and print_of(to_langchain(stored)) == print_of(message)
    assert not agree(
        print_of(message), print_of(message.model_copy(update={"content": [{"type": "text", "text": "z"}]}))
    )


@pytest.mark.parametrize("prune", [False, True])
def test_beside_an_encrypted_saver_nothing_is_written_in_the_clear(tmp_path, prune):
    """Neither what was said nor its summary; agent and ledger work as ever."""

    class Xor:
        def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
            return "xor", bytes(b ^ 0x5A for b in plaintext)

        def decrypt(self, name: str, ciphertext: bytes) -> bytes:
            return bytes(b ^ 0x5A for b in ciphertext)

    url, model = f"sqlite:///{tmp_path / 'chat.db'}", chat()
    with NoveloSaver.from_conn_string(url, serde=EncryptedSerializer(Xor())) as saver:
        layer = MemoryMiddleware(SUMMING, memory=saver, prune_state=prune, summarizer=lambda r: f"A senha é {SECRET}.")
        agent = create_agent(model, middleware=[layer], checkpointer=saver)
        for n in range(5):
            say(agent, f"{SECRET} {n}")
            assert layer.wait()
        assert len(saver.transcript("a")) == 10
        assert "A senha é" in texts(model.seen[-1])[1] and layer.usage("a").by("purpose")["reply"].calls == 5
    assert SECRET.encode() not in on_disk(tmp_path)


@pytest.mark.parametrize("take", ["redact", "delete"])
@pytest.mark.parametrize("ours", [True, False])
def test_a_pruned_state_carries_no_words_that_were_taken_out(tmp_path, take, ours):
    """The summary that stands for pruned messages goes with them: from contexts, states and files."""
    url, model = f"sqlite:///{tmp_path / 'chat.db'}", chat(*["certo"] * 20)
    with NoveloSaver.from_conn_string(url) as saver:
        layer = MemoryMiddleware(SUMMING, memory=saver, prune_state=True, summarizer=lambda r: f"A senha é {SECRET}.")
        agent = create_agent(model, middleware=[layer], checkpointer=saver if ours else InMemorySaver())
        for n in range(6):
            say(agent, f"{SECRET} {n}" if n == 0 else f"pergunta {n}")
            assert layer.wait()
        assert len(agent.get_state(thread("a")).values["messages"]) < 12 and SECRET in str(model.seen[-1])
        layer.summarizer = None
        kept = saver.memory.thread("a")
        kept.redact(SECRET) if take == "redact" else kept.delete([0])
        assert SECRET.encode() not in on_disk(tmp_path)
        for again in (layer, MemoryMiddleware(SUMMING, memory=saver, prune_state=True)):
            agent = create_agent(model, middleware=[again], checkpointer=agent.checkpointer)
            state = say(agent, "e agora?")
            assert SECRET not in str(model.seen[-1]) and SECRET not in str(state)
            assert novelo.check(model.seen[-1], "openai") == []
    assert SECRET.encode() not in on_disk(tmp_path)


def test_a_summary_brings_nothing_back_that_was_masked(tmp_path):
    """An old state still has it: its summary serves this process, and is not stored."""
    with novelo.open(f"sqlite:///{tmp_path / 'chat.db'}", summarizer=lambda r: f"A senha é {SECRET}.") as memory:
        layer = MemoryMiddleware(SUMMING, memory=memory)
        agent = create_agent(chat(*["certo"] * 20), middleware=[layer], checkpointer=InMemorySaver())
        say(agent, f"{SECRET} 0")
        memory.thread("a").redact(SECRET)
        for n in range(1, 6):
            say(agent, f"pergunta {n}")
            assert layer.wait()
        assert memory.thread("a").summary is None and len(memory.thread("a")) == 12
    assert SECRET.encode() not in on_disk(tmp_path)


def test_a_summary_that_is_made_at_once_is_stored(tmp_path):
    """Tool results that the saver is still writing are waited for, by nobody but the summary's own thread."""
    url, model = f"sqlite:///{tmp_path / 'chat.db'}", chat(*["certo"] * 20)
    with NoveloSaver.from_conn_string(url) as saver:
        layer = MemoryMiddleware(SUMMING, memory=saver, summarizer=lambda r: "Falaram de números.")
        agent = create_agent(model, middleware=[layer], checkpointer=saver)
        for n in range(4):
            say(agent, f"pergunta {n}")
            assert layer.wait()
        made = layer.summary("a")
        assert made is not None and saver.memory.thread("a").summary.source == made.source
