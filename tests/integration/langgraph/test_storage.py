"""What is stored, and what becomes of it when somebody alters it, asks for the wrong thing, or comes at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import apsw
import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import MessagesState

import novelo
from graphs import DeltaState, config, echo, held, line, opened, say, texts
from novelo.errors import ConcurrentTurnError, InvalidSpec, SchemaTooNew, StorageCorrupt, ThreadErased
from novelo.integrations.langgraph import NoveloSaver, writing
from novelo.integrations.langgraph.codec import strict
from novelo.stores.tables.checkpoint_packing import unpacked
from novelo.stores.tables.rows import over


@pytest.fixture
def path(tmp_path):
    """Where the database is."""
    return tmp_path / "a.db"


class Note:
    """Something that is no data."""


MESSAGES = [
    HumanMessage("plain", id="1"),
    HumanMessage([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:;base64,AA=="}}],
                 id="2", name="ana"),
    AIMessage("", id="3", tool_calls=[{"name": "f", "args": {"x": [1, 2.5, None]}, "id": "c1", "type": "tool_call"}]),
    ToolMessage("ok", id="4", tool_call_id="c1", artifact={"rows": [1, 2]}, status="error"),
    AIMessage("answer", id="5", usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5,
              "input_token_details": {"cache_read": 1}}, response_metadata={"model_name": "m", "stop": [1]}),
    AIMessage("bad call", id="6", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c2", "error": "no",
              "type": "invalid_tool_call"}], additional_kwargs={"k": {"deep": [True, None]}}),
    SystemMessage("be brief", id="7"),
    ChatMessage("hm", role="critic", id="8"),
    FunctionMessage("42", name="f", id="9"),
    AIMessageChunk("cut off", id="10"),
    HumanMessage("numbers", id="11", additional_kwargs={"big": 2**60, "float": 1.0, "tuple": (1, 2), "bytes": b"\x00"}),
    ToolMessage("set", id="12", tool_call_id="c9", artifact={1, 2}),
    HumanMessage("", id="13"),
    HumanMessage("own field", id="14", colour="green"),
]  # fmt: skip


@pytest.mark.parametrize("schema", [MessagesState, DeltaState])
def test_messages_come_back_as_from_the_peers(path, schema):
    """Every kind of message comes back with the bytes that LangGraph's serializer gives it, also after a restart."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    given = [message_chunk_to_message(m) for m in MESSAGES] if schema is MessagesState else MESSAGES
    wanted = [serde.dumps_typed(serde.loads_typed(serde.dumps_typed(m))) for m in given]
    with opened(path) as saver:
        line(saver, schema, {"none": lambda s: {}}).invoke({"messages": MESSAGES}, config())
    for _ in range(2):
        with opened(path) as saver:
            found = line(saver, schema, {"none": lambda s: {}}).get_state(config()).values["messages"]
            assert [serde.dumps_typed(m) for m in found] == wanted
            assert [serde.dumps_typed(m) for m in saver.transcript("t")] == wanted


def test_a_message_is_stored_once(path):
    """The text of a message stands once in the database, however it came in and however many checkpoints have it."""
    question, answer = "a question that nobody else asks " * 2, "an answer that nobody else gives " * 2

    def reply(state):
        return {"messages": [{"role": "assistant", "content": answer}]}

    with opened(path) as saver:
        graph = line(saver, MessagesState, {"reply": reply, "more": lambda s: {}})
        graph.invoke({"messages": [{"role": "user", "content": question}]}, config())
        for _ in range(3):
            graph.update_state(config(), {"messages": []})
        early = [found for found in saver.list(config()) if "__start__" in found.checkpoint["channel_values"]]
        given = early[-1].checkpoint["channel_values"]["__start__"]
        assert given["messages"][0]["content"] == question
    db = apsw.Connection(str(path))
    for text in (question, answer):
        sign = text.strip().encode()
        count = sum(sign in unpacked(row[0][1:]) for row in db.execute("SELECT body FROM checkpoints"))
        for table in ("entries", "checkpoint_writes", "checkpoint_values"):
            count += sum(sign in bytes(row[0] or b"") for row in db.execute(f"SELECT body FROM {table}"))
        assert count == 1


def test_growth_is_linear(path):
    """Twice the turns take about twice the bytes of checkpoints."""
    sizes = []
    with opened(path) as saver:
        graph = echo(saver)
        for k in range(80):
            say(graph, f"question {k} of many")
            if k in (39, 79):
                db = apsw.Connection(str(path))
                found = db.execute("SELECT sum(length(body)) FROM (SELECT body FROM checkpoints UNION ALL SELECT body"
                                   " FROM checkpoint_writes UNION ALL SELECT body FROM checkpoint_values)")  # fmt: skip
                sizes.append(next(iter(found))[0])
    assert sizes[1] < 2.1 * sizes[0]


def test_a_change_in_place_is_stored(path):
    """A node that alters a message it was given changes the state, as with LangGraph's savers; the transcript stays."""

    def mask(state):
        state["messages"][0].content = "masked"
        state["messages"][1].additional_kwargs["seen"] = True
        return {}

    with opened(path) as saver:
        for k in range(6):
            say(echo(saver), f"q{k}")
        before = saver.get_tuple(config())
        graph = line(saver, MessagesState, {"mask": mask})
        say(graph, "now")
        assert before.checkpoint["channel_values"]["messages"][0].text == "q0"
        assert saver.get_tuple(before.config).checkpoint["channel_values"]["messages"][0].text == "q0"
    with opened(path) as saver:
        found = echo(saver).get_state(config()).values["messages"]
        assert found[0].text == "masked"
        assert found[1].additional_kwargs == {"seen": True}
        assert texts(saver.transcript("t"))[0] == "q0"
        assert len(saver.transcript("t")) == 13


def test_many_short_runs(path):
    """A state that holds every other message of a long talk is stored by what it shares, and comes back whole."""

    def odd(state):
        return {"messages": []}

    with opened(path) as saver:
        graph = line(saver, MessagesState, {"odd": odd})
        for k in range(90):
            graph.invoke({"messages": [HumanMessage(f"m{k}", id=f"m{k}")]}, config())
        from langchain_core.messages import RemoveMessage

        for k in range(0, 90, 2):
            graph.update_state(config(), {"messages": [RemoveMessage(f"m{k}")]})
        for k in range(90, 140):
            graph.invoke({"messages": [HumanMessage(f"m{k}", id=f"m{k}")]}, config())
        wanted = [*(f"m{k}" for k in range(1, 90, 2)), *(f"m{k}" for k in range(90, 140))]
    with opened(path) as saver:
        assert texts(saver.get_tuple(config()).checkpoint["channel_values"]["messages"]) == wanted
        assert len(saver.transcript("t")) == 140


def test_the_core_reads_a_graphs_thread(path):
    """A thread of a graph is listed, shown, searched and composed by the core, and erased with its checkpoints."""
    with opened(path) as saver:
        say(echo(saver), "Já foi concluído?", config(owner="ana"))
    with novelo.open(f"sqlite:///{path}") as memory:
        assert [(row.owner, row.thread_id) for row in memory.threads()] == [("ana", "t")]
        thread = memory.thread("t", owner="ana")
        assert [entry.role for entry in thread] == ["user", "assistant"]
        assert thread.search("concluido")[0].text == "Já foi concluído?"
        assert len(thread.context("again?").messages("openai")) == 3
        assert thread.erase().rows["checkpoints"] == 3
    with opened(path) as saver:
        assert saver.get_tuple(config(owner="ana")) is None


def test_what_is_deleted_or_redacted_goes_from_every_state(path):
    """The content of a message that the core deletes or masks is in no checkpoint, write or file any more."""
    secret, card = "my password is swordfish", "my card is 4111 1111 1111 1111"
    with opened(path) as saver:
        graph = echo(saver)
        graph.invoke({"messages": [{"role": "user", "content": secret}]}, config())
        graph.invoke({"messages": [{"role": "user", "content": card}]}, config())
        with novelo.open(f"sqlite:///{path}") as memory:
            thread = memory.thread("t")
            thread.delete([0, 1])
            thread.redact("4111 1111 1111 1111")
        states = [texts(s.values.get("messages", ())) for s in graph.get_state_history(config())]
        assert all(secret not in text and "4111" not in text for state in states for text in state)
        assert len(say(graph, "and now?")["messages"]) == 4
    data = held(path)
    assert b"swordfish" not in data
    assert b"4111 1111" not in data


def test_a_masked_message_stays_in_states_that_had_it_in_other_words(path):
    """A node has said a message anew; masked, it is masked in every state, and missing in none."""

    def louder(state):
        return {"messages": [HumanMessage(state["messages"][0].text.upper(), id="1")]}

    with opened(path) as saver:
        graph = line(saver, MessagesState, {"louder": louder})
        graph.invoke({"messages": [HumanMessage("my password is swordfish", id="1")]}, config())
        graph.invoke({"messages": [HumanMessage("so?", id="2")]}, config())
        saver.memory.thread("t").redact("swordfish")
        states = [texts(s.values["messages"]) for s in graph.get_state_history(config()) if s.values["messages"]]
        assert {state[0] for state in states} == {"my password is [redacted]"}
        assert [len(state) for state in states] == [2, 2, 1, 1, 1]
        graph.invoke({"messages": [HumanMessage("and now?", id="3")]}, config())
    with opened(path) as saver:
        assert texts(saver.transcript("t")) == ["my password is [redacted]", "so?", "and now?"]
        newest = saver.get_tuple(config()).checkpoint["channel_values"]["messages"]
        assert texts(newest) == ["MY PASSWORD IS [REDACTED]", "so?", "and now?"]
        saver.memory.thread("t").delete([0])
        assert texts(saver.get_tuple(config()).checkpoint["channel_values"]["messages"]) == ["so?", "and now?"]
    data = held(path).lower()
    assert b"swordfish" not in data


class Xor:
    """A cipher for tests, never the same twice."""

    def __init__(self):
        self.count = 0

    def encrypt(self, plaintext):
        """The name of the cipher, and what it makes."""
        self.count += 1
        return "xor", bytes((self.count % 256,)) + bytes(b ^ 0x5A for b in plaintext)

    def decrypt(self, name, ciphertext):
        """What it was made from."""
        return bytes(b ^ 0x5A for b in ciphertext[1:])


def test_encryption(path):
    """With an encrypting serializer no text stands in the clear, nothing grows with the square, and all comes back."""
    serde = EncryptedSerializer(Xor(), strict())
    with opened(path, serde=serde) as saver:
        for k in range(5):
            say(echo(saver), f"secret question {k}")
        rows = next(iter(apsw.Connection(str(path)).execute("SELECT count(*) FROM checkpoint_values")))[0]
        assert rows <= 25
    with opened(path, serde=serde) as saver:
        assert texts(saver.transcript("t"))[0] == "secret question 0"
        assert len(echo(saver).get_state(config()).values["messages"]) == 10
        assert saver.memory.thread("t").search("secret") == []
    assert b"secret question" not in held(path)
    with opened(path) as plain, pytest.raises(StorageCorrupt):
        plain.get_tuple(config())


def test_a_plain_value_under_encryption_is_an_error(path):
    """Where all should be encrypted, something that is not was put there by somebody else."""
    with opened(path) as saver:
        say(echo(saver), "in the clear", durability="exit")
        echo(saver).update_state(config(), {"messages": [ToolMessage("x", tool_call_id="c", artifact={1})]})
    with (
        opened(path, serde=EncryptedSerializer(Xor(), strict())) as saver,
        pytest.raises(StorageCorrupt, match="encrypted"),
    ):
        saver.get_tuple(config())


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"source": "loop"}, 2),
        ({"source": "input"}, 1),
        ({"user": "o'neil \" -- ; DROP TABLE threads"}, 3),
        ({"user": "nobody"}, 0),
        ({"a.b": 7}, 3),
        ({"nested.deep.x": 1}, 3),
        ({"nested": {"deep": {"x": 1}}}, 3),
        ({"flag": True}, 3),
        ({"absent": None}, 3),
        ({"absent": 1}, 0),
        ({"source": "loop", "step": 1}, 1),
    ],
)
def test_filters(path, wanted, found):
    """Keys and values of a filter go in as parameters: quotes, dots and nested values mean what they say."""
    metadata = {"user": "o'neil \" -- ; DROP TABLE threads", "a.b": 7, "nested": {"deep": {"x": 1}}, "flag": True}
    with opened(path) as saver:
        given = config()
        parent = None
        for step, source in enumerate(["input", "loop", "loop"], -1):
            from langgraph.checkpoint.base import empty_checkpoint

            where = config(checkpoint_ns="", **({"checkpoint_id": parent} if parent else {}))
            parent = saver.put(where, empty_checkpoint(), {"source": source, "step": step, **metadata}, {})[
                "configurable"
            ]["checkpoint_id"]
        assert len(list(saver.list(given, filter=wanted))) == found


@pytest.mark.parametrize("key", ["a'b", 'a"b', "a b", "", "x" * 65, "$[0]", "ключ", 3])
def test_refused_filters(path, key):
    """A key with other signs, or a limit that is no number, is refused and never widens the result."""
    with opened(path) as saver:
        with pytest.raises(InvalidSpec):
            list(saver.list(config(), filter={key: 1}))
        with pytest.raises(InvalidSpec):
            list(saver.list(config(), limit="1; DROP TABLE threads"))


ALTERED = [
    ("checkpoints", "body", lambda b: b[:-3]),
    ("checkpoints", "body", lambda b: b[:20] + b"\x00" + b[21:]),
    ("checkpoint_writes", "body", lambda b: b[:-1]),
    ("checkpoint_values", "body", lambda b: b[:-2] if b else b),
]


@pytest.mark.parametrize(("table", "column", "alter"), ALTERED)
def test_altered_rows(path, table, column, alter):
    """A row that was cut or altered outside is an error to its reader, not another state."""
    with opened(path) as saver:
        graph = line(saver, MessagesState, {"none": lambda s: {}})
        graph.invoke({"messages": MESSAGES}, config())
        saver.put_writes(graph.get_state(config()).config, [("note", 1)], "task")
    db = apsw.Connection(str(path))
    key = {"checkpoints": "number", "checkpoint_writes": "task", "checkpoint_values": "number"}[table]
    for name, value in list(db.execute(f"SELECT {key}, {column} FROM {table}")):
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (alter(value) if value else value, name))
    db.close()
    with opened(path) as saver, pytest.raises(StorageCorrupt):
        list(saver.list(config()))


def test_unknown_format(path):
    """A checkpoint that a newer version wrote is refused with a clear error."""
    with opened(path) as saver:
        say(echo(saver), "one")
    db = apsw.Connection(str(path))
    db.create_scalar_function("seal", over)
    db.execute("UPDATE checkpoints SET body = CAST(x'09' || substr(body, 2) AS BLOB)")
    db.execute("UPDATE checkpoints SET seal = seal('checkpoint', thread, ns, number, id, parent, start, stop, run, "
               "expires, body)")  # fmt: skip
    db.close()
    with opened(path) as saver, pytest.raises(SchemaTooNew, match="format 9"):
        saver.get_tuple(config())


HOSTILE = """
import sys, os
from pathlib import Path
import apsw, ormsgpack
from langgraph.checkpoint.base import empty_checkpoint
from novelo.integrations.langgraph import NoveloSaver
from novelo.errors import StorageCorrupt
from novelo.stores.tables.checkpoint_packing import unpacked
from novelo.stores.tables.rows import over
path, proof = sys.argv[1:3]
where = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
with NoveloSaver.from_conn_string(f"sqlite:///{path}") as saver:
    made = empty_checkpoint()
    made["channel_values"] = {"c": "x" * 100}
    made["channel_versions"] = {"c": 1}
    saver.put(where, made, {"source": "input", "step": -1}, {"c": 1})
call = ("os", "system", f"touch {proof}")
enc = lambda code, value: ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(value)))
payloads = [("msgpack", enc(code, call)) for code in range(4)] + [
    ("msgpack", enc(2, ("subprocess", "Popen", {"args": ["touch", proof]}))),
    ("msgpack", enc(4, ("subprocess", "Popen", {"args": ["touch", proof]}))),
    ("msgpack", enc(5, ("subprocess", "Popen", {"args": ["touch", proof]}, "model_validate_json"))),
    ("msgpack", enc(3, ("builtins", "eval", f"open({proof!r}, 'w')", "__call__"))),
    ("pickle", b"cos\\nsystem\\n(S'touch " + proof.encode() + b"'\\ntR."),
    ("json", b'{"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["touch ' + proof.encode() + b'"]}'),
    ("json", b'{"lc": 1, "type": "secret", "id": ["HOME"]}'),
    ("python", b"open"),
]
ran = []
sys.addaudithook(lambda event, args: ran.append(event) if event in (
    "os.system", "subprocess.Popen", "exec", "pickle.find_class", "os.exec", "os.posix_spawn") else None)
before = set(sys.modules)
for kind, body in payloads:
    db = apsw.Connection(path)
    db.create_scalar_function("seal", over)
    db.execute("UPDATE checkpoint_values SET type = ?, body = ?", (kind, body))
    db.execute("UPDATE checkpoint_values SET seal = seal('checkpoint value', thread, number, hash, type, body, entry)")
    db.close()
    with NoveloSaver.from_conn_string(f"sqlite:///{path}") as saver:
        try:
            found = saver.get_tuple(where).checkpoint["channel_values"]["c"]
            assert isinstance(found, (str, int, dict, list, tuple, type(None))), type(found)
        except StorageCorrupt:
            pass
print(ran, os.path.exists(proof), sorted(set(sys.modules) - before)[:3])
"""


def test_hostile_payloads_run_nothing(path, tmp_path):
    """Values that name code, in every format that LangGraph ever had, are refused or come back as plain data."""
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(path), str(tmp_path / "proof")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ran, rest = done.stdout.strip().split("] ", 1)
    assert ran == "["
    assert rest.startswith("False")


def test_a_late_writer_cannot_revive_a_thread(path):
    """A run that goes on after its thread was deleted is told so, and nothing of it is stored."""
    with opened(path) as saver:
        say(echo(saver), "one")
        held = saver.get_tuple(config())
        saver.delete_thread("t")
        with pytest.raises(ThreadErased):
            saver.put(held.config, {**held.checkpoint, "id": "f" * 36}, held.metadata, {})
        saver.put_writes(held.config, [("messages", [HumanMessage("late")])], "task")
        assert saver.get_tuple(config()) is None
        assert saver.transcript("t") == []
        assert len(say(echo(saver), "anew")["messages"]) == 2


def test_the_second_of_two_runs_is_told(path):
    """Two runs that began at the same state: the later put is refused, and nothing of it is stored."""
    with opened(path) as saver:
        graph = echo(saver)
        say(graph, "one")
        gate, errors = threading.Event(), []

        def slow(state):
            gate.wait(10)
            return {"messages": [AIMessage("late")]}

        def run():
            try:
                say(line(saver, MessagesState, {"slow": slow}), "slow")
            except ConcurrentTurnError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while "slow" not in texts(saver.transcript("t")):
            pass
        say(graph, "quick")
        gate.set()
        thread.join()
        assert len(errors) == 1
        assert errors[0].newest
        assert "late" not in texts(saver.transcript("t"))
        assert texts(graph.get_state(config()).values["messages"]) == texts(saver.transcript("t"))


def test_a_task_that_wrote_twice_before_its_checkpoint_is_there_keeps_both(path):
    """Writes that wait for their checkpoint do not replace each other where they are of one task."""
    with opened(path) as saver:
        checkpoint = empty_checkpoint()
        at = config(checkpoint_ns="", checkpoint_id=checkpoint["id"])
        saver.put_writes(at, [("note", 1), ("note", 2)], "task")
        saver.put_writes(at, [("__interrupt__", ["ok?"])], "task")
        saver.put_writes(at, [("note", 3)], "other")
        saver.put(config(checkpoint_ns=""), checkpoint, {"source": "input", "step": -1, "parents": {}}, {})
        found = saver.get_tuple(config()).pending_writes
        said = [("other", "note", 3), ("task", "__interrupt__", ["ok?"]), ("task", "note", 1), ("task", "note", 2)]
        assert sorted(found) == said


@pytest.mark.parametrize("loser", [0, 1])
def test_who_lost_a_thread_is_told_after_a_short_pause(path, monkeypatch, loser):
    """Of two savers the slower one gets the typed error, after one pause of 50 ms at most; then it may run again."""
    pauses, real = [], writing.time.sleep
    kept = SimpleNamespace(time=writing.time.time, sleep=lambda seconds: (pauses.append(seconds), real(seconds)))
    monkeypatch.setattr(writing, "time", kept)
    with opened(path) as first, opened(path) as second:
        savers = [first, second]
        slow, quick = savers[loser], savers[1 - loser]
        say(echo(first), "one")
        early = quick.get_tuple(config())  # an id that nobody named: no branch is meant
        held = {**early.checkpoint, "id": empty_checkpoint()["id"]}
        base = {"configurable": {**early.config["configurable"], "checkpoint_id": str(early.checkpoint["id"])}}
        say(echo(quick), "two")
        assert pauses == []
        began = time.monotonic()
        with pytest.raises(ConcurrentTurnError) as told:
            slow.put(base, held, {"source": "loop", "step": 9, "parents": {}}, {})
        assert time.monotonic() - began < 30
        assert len(pauses) == 1 and 0 <= pauses[0] <= 0.05
        assert told.value.newest == quick.get_tuple(config()).checkpoint["id"]
        assert texts(say(echo(slow), "again")["messages"])[-2:] == ["again", "echo 5: again"]
        assert len(pauses) == 1


@pytest.mark.parametrize("schema", [MessagesState, DeltaState])
def test_delta_inputs_of_two_runs_do_not_mix(path, schema):
    """Two runs write their inputs at the same checkpoint: one is refused, the other one's state is its own."""
    with opened(path) as saver:
        graph = echo(saver, schema)
        say(graph, "one")
        barrier, outcomes = threading.Barrier(2), []

        def run(name):
            barrier.wait()
            try:
                say(graph, name)
                outcomes.append(name)
            except ConcurrentTurnError:
                pass

        threads = [threading.Thread(target=run, args=(name,)) for name in ("left", "right")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes
        state = texts(graph.get_state(config()).values["messages"])
        assert all(state.count(name) == 1 for name in outcomes)
        assert all(texts(saver.transcript("t")).count(name) == 1 for name in outcomes)


CROWD = """
import sys
from langchain_core.messages import HumanMessage
from graphs import DeltaState, config, echo, opened, say
from langgraph.graph import MessagesState
from novelo.errors import ConcurrentTurnError
with opened(sys.argv[1]) as saver:
    graph = echo(saver, DeltaState if sys.argv[3] == "delta" else MessagesState)
    for k in range(40):
        try:
            say(graph, f"{sys.argv[2]} asks {k}")
        except ConcurrentTurnError:
            continue
        print(f"{sys.argv[2]} asks {k}", flush=True)
"""


@pytest.mark.parametrize("kind", ["add", "delta"])
def test_two_processes_on_one_thread(path, kind):
    """Forty turns each: what was acknowledged is in the transcript and in the state once, all else was refused."""
    from pathlib import Path

    folder = str(Path(__file__).parents[2])
    with opened(path) as saver:
        say(echo(saver, DeltaState if kind == "delta" else MessagesState), "opening")
    code = f"import sys; sys.path.insert(0, {folder!r})\n" + CROWD
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), name, kind],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("ana", "bob")
    ]
    said = []
    for process in crowd:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        said += out.splitlines()
    assert len(said) >= 40
    with opened(path) as saver:
        kept = texts(saver.transcript("t"))
        state = texts(
            echo(saver, DeltaState if kind == "delta" else MessagesState).get_state(config()).values["messages"]
        )
    assert [text for text in said if kept.count(text) != 1] == []
    assert [text for text in said if state.count(text) != 1] == []


def test_a_memory_of_ones_own(path):
    """A saver on an open memory shares its store and leaves it open; one on the reference store is refused."""
    with novelo.open(f"sqlite:///{path}") as memory:
        with NoveloSaver(memory) as saver:
            say(echo(saver), "one")
        assert len(memory.thread("t")) == 2
    with novelo.open("memory://") as memory, pytest.raises(InvalidSpec, match="checkpoints"):
        NoveloSaver(memory)


def test_a_live_turn_is_not_written_into(path):
    """While a turn of the core is open, a graph's messages are refused, and come in when it is done."""
    with opened(path) as saver:
        say(echo(saver), "one")
        with saver.memory.thread("t").turn("by hand") as turn:
            with pytest.raises(ConcurrentTurnError):
                say(echo(saver), "two")
            turn.reply("answered")
        say(echo(saver), "three")
        assert texts(saver.transcript("t"))[-2:] == ["three", "echo 4: three"] or len(saver.transcript("t")) >= 6
