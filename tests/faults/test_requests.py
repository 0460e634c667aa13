"""T11, T14, T20: models that misbehave, requests sent twice, and stored bytes that want to do harm."""

from __future__ import annotations

import pickle
import sys
import threading
import tracemalloc

import apsw
import msgspec
import pytest

import novelo
from faults.checker import check
from novelo import KeyConflict, NoveloError
from novelo.messages import decode
from novelo.stores.tables.rows import seal

EACH = 200


class Refused(Exception):
    """What a provider's client raises."""


def raises(turn):
    """429 and 500."""
    raise Refused("429")


def cut(turn):
    """A stream that breaks."""

    def chunks():
        yield "half of "
        yield "an answer"
        raise Refused("connection lost")

    list(turn.stream(chunks()))


def hangs(turn):
    """A model that hangs until the caller's time limit."""

    def chunks():
        yield "so far"
        raise TimeoutError

    list(turn.stream(chunks()))


def broken_tools(turn):
    """A call whose arguments are cut off, and then nothing."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "b'}}
    turn.add({"role": "assistant", "content": None, "tool_calls": [call]})
    raise Refused("length")


def tool_loop(turn):
    """A model that calls tools for ever, until somebody has enough."""
    for k in range(6):
        call = {"id": f"c{k}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        turn.add({"role": "assistant", "content": None, "tool_calls": [call]})
        turn.add_tool_result(f"c{k}", "again")
    raise Refused("too many steps")


BAD = {
    "refuses": raises,
    "is cut": cut,
    "hangs": hangs,
    "breaks tool arguments": broken_tools,
    "loops": tool_loop,
    "says nothing": lambda turn: turn.reply(""),
    "says white space": lambda turn: turn.reply(" \n"),
    "says half a sign": lambda turn: turn.reply("a\ud83d"),
    "gives no choice": lambda turn: turn.reply({"choices": []}),
    "gives another type": lambda turn: turn.reply(7),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_models(tmp_path, kind):
    """T11: after every failure the turn is over, the thread free, the next context valid, no half message unmarked."""
    memory = novelo.open("memory://") if kind == "loops" else novelo.open(f"sqlite:///{tmp_path}/a.db")
    for k in range(EACH):
        thread = memory.thread(f"t{k % 20}", policy="window:6turns")
        try:
            with thread.turn(f"question {k}") as turn:
                turn.messages()
                BAD[kind](turn)
        except (Refused, TimeoutError, NoveloError):
            assert turn.status in ("failed", "interrupted")
        with thread.turn("and now?", on_busy="reject") as turn:
            context = turn.messages()
            assert novelo.check(context) == []
            assert context[-1]["content"] == "and now?"
            turn.reply("fine")
    print(f"T11: {EACH} models that fail, {kind}")
    halves = [e for e in memory.thread("t0").messages() if e.text in ("half of an answer", "so far")]
    assert all(e.partial for e in halves)
    assert bool(halves) == (kind in ("is cut", "hangs"))
    memory.close()


def test_ten_megabytes(tmp_path):
    """T11: a reply of 10 MB is stored and the next bounded context does without it."""
    with novelo.open(f"sqlite:///{tmp_path}/a.db", policy="budget:4000") as memory:
        thread = memory.thread("t")
        with thread.turn("long?") as turn:
            turn.messages()
            turn.reply("dado " * 2_000_000)
        with thread.turn("short?") as turn:
            assert [m["content"] for m in turn.messages()] == ["short?"]
            turn.reply("ok")
        assert len(thread.messages()[1].text) == 10_000_000


@pytest.mark.timeout(240)
def test_duplicate_requests(tmp_path):
    """T14: 200 keys sent five times at once give exactly 200 turns, and all five get the same answer."""
    url = f"sqlite:///{tmp_path}/a.db"
    memories = [novelo.open(url, policy="window:2turns") for _ in range(2)]
    answers, failures = {}, []
    keys = [f"key{k}" for k in range(EACH)]

    def send(worker):
        memory = memories[worker % 2]
        for key in keys:
            try:
                with memory.thread(f"t{int(key[3:]) % 8}").turn(f"question {key}", key=key) as turn:
                    if not turn.replayed:
                        turn.messages()
                        turn.reply(f"answer to {key} by {worker}")
                text = turn.stored_reply if turn.replayed else f"answer to {key} by {worker}"
                answers.setdefault(key, set()).add(text)
            except NoveloError as error:
                failures.append(error)

    workers = [threading.Thread(target=send, args=(i,)) for i in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"T14: {EACH} keys sent 5 times, {len(answers)} turns, {len(failures)} failures")
    assert failures == []
    assert all(len(found) == 1 for found in answers.values())
    found = check(tmp_path / "a.db", [], least=0)
    assert found.violations == []
    assert found.entries == 2 * EACH
    with pytest.raises(KeyConflict), memories[0].thread("t0").turn("another request", key="key0"):
        pass
    assert sum(len(memories[1].thread(f"t{k}")) for k in range(8)) == 2 * EACH
    for memory in memories:
        memory.close()


class Harm:
    """What pickle would run."""

    def __reduce__(self):
        return (exec, ("raise SystemExit",))


def payloads():
    """Bodies that other programs' loaders have run: constructors, `lc` records, pickles, dotted paths, deep nests."""
    tricks = [
        {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
        {"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]},
        {"__class__": "subprocess.Popen", "args": ["true"]},
        {"__reduce__": ["os.system", ["true"]]},
        {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}]},
        {"$type": "System.Diagnostics.Process"},
        {"kind": "text", "text": {"kind": "other"}},
        {"role": "wizard"},
        {"ext": [5, "novelo.errors", "NoveloError", []]},
    ]
    for trick in tricks:
        as_json = msgspec.json.encode(trick).decode()
        yield f',"content":{as_json}}}'.encode()
        yield f',"extra":{as_json}}}'.encode()
        yield f',"meta":{as_json},"content":"x"}}'.encode()
        yield f',"content":[{{"kind":"other","value":{as_json}}}]}}'.encode()
        yield f',"content":[{as_json}]}}'.encode()
        quoted = msgspec.json.encode(as_json).decode()
        yield f',"tool_calls":[{{"id":"a","name":"b","arguments":{quoted},"extra":{as_json}}}]}}'.encode()
    yield pickle.dumps(Harm())
    yield b"\x80\x04\x95" + bytes(100)
    yield b"\xc7\x05\x05" + bytes(20)
    yield b',"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    yield b',"extra":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}"
    yield b',"content":1e999999}'
    yield b',"content":' + b"9" * 100_000 + b"}"
    yield b"}"
    yield b""
    yield b"\xff\xfe\x00"


@pytest.mark.timeout(240)
def test_hostile_stored_payloads(tmp_path):
    """T20: loading 1,000 hostile bodies, sealed as if they were ours, imports, opens and starts nothing."""
    path = tmp_path / "a.db"
    bodies = list(payloads())
    while len(bodies) < 1000:
        bodies += [b[: len(b) - 1 - len(bodies) % 7] + b"}" for b in bodies[:200]]
    bodies = bodies[:1000]
    with novelo.open(f"sqlite:///{path}") as memory:
        for k in range(len(bodies)):
            memory.thread(f"t{k}").append({"role": "user", "content": "x"})
        keys = [memory.thread(f"t{k}").key for k in range(len(bodies))]
    connection = apsw.Connection(str(path))
    with connection:
        for key, body in zip(keys, bodies, strict=True):
            row = next(
                iter(
                    connection.execute(
                        "SELECT turn, role, tokens, running, created FROM entries WHERE thread = ?", (key,)
                    )
                )
            )
            sealed = seal(key, 0, *row, None, body)
            connection.execute("UPDATE entries SET body = ?, seal = ? WHERE thread = ?", (body, sealed, key))
    connection.close()
    memory = novelo.open(f"sqlite:///{path}")
    watched, events = (
        ("import", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "open", "exec"),
        [],
    )
    on = [False]

    def hook(event, args):
        if on[0] and event in watched:
            events.append((event, str(args)[:80]))

    sys.addaudithook(hook)
    memory.thread("sound").append({"role": "user", "content": "x"})
    memory.thread("sound").context().messages()  # whatever is imported at the first use is imported
    with pytest.raises(NoveloError):
        decode(b"x")
    tracemalloc.start()
    on[0] = True
    loaded = refused = 0
    for k in range(len(bodies)):
        try:
            memory.thread(f"t{k}").context().messages()
            loaded += 1
        except NoveloError:
            refused += 1
    on[0] = False
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    memory.close()
    print(f"T20: {loaded + refused} bodies, {refused} refused, {len(events)} events, {peak / 2**20:.1f} MiB")
    assert events == []
    assert loaded + refused == 1000
    assert refused > 300
    assert peak < 64 * 2**20
