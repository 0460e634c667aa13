"""What the SQLite store costs: CPU of a turn against a raw apsw program, and bytes on disk against the text.

A turn is `begin` (the question, durable), one read of the tail as a context needs it, and `append` with the answer, the
manifest and the ledger row (durable). The raw program commits the same two messages in two transactions of one INSERT
each and reads the same number of rows back. Both run in the same process, in turns of a block each, on files of their
own; medians over blocks are compared. Search is off on both sides; `--search` switches ours on. Exit status 1 when a
demand is not met.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import apsw

from novelo.messages import Message, ToolCall
from novelo.stores.base import Call, Close, Lease, NewEntry
from novelo.stores.search import fold
from novelo.stores.sqlite import Database, SQLiteStore

MOST_CPU, MOST_CPU_SEARCH, MOST_BYTES = 2.5, 4.0, 2.5
TAIL = 27  # rows that a context of ten turns reads
NOW = 1.8e9
WORDS = [
    "pedido",
    "entrega",
    "prazo",
    "produto",
    "cliente",
    "compra",
    "pagamento",
    "boleto",
    "cartão",
    "crédito",
    "parcela",
    "fatura",
    "cobrança",
    "estorno",
    "desconto",
    "cupom",
    "frete",
    "rota",
    "estoque",
    "loja",
    "vendedor",
    "gerente",
    "sistema",
    "senha",
    "conta",
    "mensagem",
    "resposta",
    "endereço",
    "rua",
    "bairro",
    "número",
    "portaria",
]


def sentences(rng: random.Random, size: int) -> str:
    """Words until there are so many characters."""
    out = ""
    while len(out) < size:
        out += " ".join(rng.choices(WORDS, k=rng.randrange(5, 12))).capitalize() + ". "
    return out.strip()


def turn_messages(k: int) -> list[Message]:
    """Turn k of a support conversation: about 120 characters asked, 400 answered, a tool call every third turn."""
    rng = random.Random(k)
    question = Message("user", f"Sobre o pedido {rng.randrange(10**7, 10**8)}: {sentences(rng, 90)}")
    answer = Message("assistant", f"{sentences(rng, 385)} Protocolo {rng.randrange(1000, 9999)}.")
    if k % 3:
        return [question, answer]
    call = ToolCall(
        f"call_{rng.getrandbits(96):024x}", "lookup_order", '{"order_id": "12345678", "include_events": true}'
    )
    events = [
        {"dia": f"{rng.randrange(1, 29):02d}/05", "status": rng.choice(WORDS), "doc": rng.randrange(1000, 9999)}
        for _ in range(9)
    ]
    result = Message("tool", json.dumps({"eventos": events}), tool_call_id=call.id)
    return [question, Message("assistant", "", (call,)), result, answer]


def manifest(first: int) -> bytes:
    """About 200 bytes, as a context's manifest."""
    return json.dumps(
        {
            "kept": [[max(0, first - 26), first + 1]],
            "left": [[0, max(0, first - 26), "window:10turns"]],
            "tokens": {"system": 0, "tail": 2210, "question": 41},
            "policy": "window:10turns",
            "provider": "openai",
            "form": "openai",
        }
    ).encode()


def entry(message: Message, search: bool) -> NewEntry:
    """A message with its token count and its words."""
    return NewEntry(message, len(message.text) // 4, fold(message.text) if search else "")


def our_turn(store: SQLiteStore, key: bytes, k: int, messages: list[NewEntry]) -> None:
    """One turn through the store."""
    lease = Lease("here|boot|1|1|x", 30.0, NOW + k)
    begun = store.begin(
        key, ("owner", "thread"), messages[0], lease, idempotency=(f"request-{k}", b"0123456789abcdef"), mode="queue"
    )
    store.tail(begun.thread, begun.thread.head, TAIL)
    for step in messages[1:-1]:
        store.append(
            key, begun.turn.epoch, begun.turn.first, [step], NOW + k, lease_until=NOW + k + 30, holder=lease.holder
        )
    closing = Close("done", manifest(begun.turn.first))
    calls = [Call("reply", "a-model", 2251, 97, 1024, latency_s=1.25, first_token_s=0.4)]
    store.append(key, begun.turn.epoch, begun.turn.first, messages[-1:], NOW + k, close=closing, calls=calls)


def raw_open(path: Path) -> apsw.Connection:
    """A database as a careful program would make it."""
    connection = apsw.Connection(str(path))
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute(
        "CREATE TABLE messages (thread TEXT, position INTEGER, role TEXT, body TEXT, PRIMARY KEY (thread, position))"
        " WITHOUT ROWID"
    )
    return connection


def raw_turn(connection: apsw.Connection, k: int, messages: list[Message]) -> None:
    """The same messages, durable in as many transactions, and the same rows read and parsed."""
    for i, message in enumerate((messages[0], *messages[1:])):
        connection.execute("BEGIN IMMEDIATE")
        body = json.dumps({"role": message.role, "content": message.text}, ensure_ascii=False)
        connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?)", ("thread", 4 * k + i, message.role, body))
        connection.execute("COMMIT")
        if not i:
            rows = connection.execute(
                "SELECT position, body FROM messages WHERE thread = ? ORDER BY position DESC LIMIT ?", ("thread", TAIL)
            )
            assert all(json.loads(row[1]) for row in rows)


def cpu(folder: Path, search: bool, blocks: int, size: int) -> tuple[float, float]:
    """Median CPU seconds of a turn: ours, raw."""
    store = SQLiteStore(Database(str(folder / f"cpu{search}.db")), search=search)
    raw = raw_open(folder / f"raw{search}.db")
    key = store.key_of("owner", "thread")
    ours, theirs = [], []
    for block in range(blocks):
        turns = [
            (k, [turn_messages(3 * k + 1)[0], turn_messages(3 * k + 1)[-1]])
            for k in range(block * size, (block + 1) * size)
        ]
        entries = [(k, [entry(m, search) for m in messages]) for k, messages in turns]
        started = time.process_time()
        for k, new in entries:
            our_turn(store, key, k, new)
        middle = time.process_time()
        for k, messages in turns:
            raw_turn(raw, k, messages)
        theirs.append((time.process_time() - middle) / size)
        ours.append((middle - started) / size)
    store.close()
    raw.close()
    return statistics.median(ours[1:]), statistics.median(theirs[1:])


def size_on_disk(folder: Path, search: bool, turns: int) -> tuple[int, int]:
    """Bytes of the closed database's files, and of the text."""
    place = folder / f"bytes{search}"
    place.mkdir()
    store = SQLiteStore(Database(str(place / "a.db")), search=search)
    key, text = store.key_of("owner", "thread"), 0
    for k in range(1, turns + 1):
        messages = turn_messages(k)
        text += sum(len(m.text.encode()) + sum(len(c.arguments) for c in m.tool_calls) for m in messages)
        our_turn(store, key, k, [entry(m, search) for m in messages])
    store.close()
    return sum(os.path.getsize(f) for f in place.iterdir()), text


def main() -> int:
    """Measure, print a line a figure, and say whether each is within its demand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=21, help="blocks of turns on each side (default 21)")
    parser.add_argument("--size", type=int, default=50, help="turns of a block (default 50)")
    parser.add_argument("--turns", type=int, default=1000, help="turns of the thread that is weighed (default 1000)")
    given = parser.parse_args()
    well = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for search, most in ((False, MOST_CPU), (True, MOST_CPU_SEARCH)):
            ours, raw = cpu(folder, search, given.blocks, given.size)
            well &= ours / raw <= most
            print(
                f"CPU of a turn, search {'on ' if search else 'off'}  {ours * 1e6:7.0f} us  "
                f"raw {raw * 1e6:7.0f} us  {ours / raw:5.2f} x  (at most {most})"
            )
        for search in (False, True):
            weight, text = size_on_disk(folder, search, given.turns)
            well &= search or weight / text <= MOST_BYTES
            asked = "shown only" if search else f"at most {MOST_BYTES}"
            print(
                f"bytes at {given.turns} turns, search {'on ' if search else 'off'}  "
                f"{weight:9d}  text {text:9d}  {weight / text:5.2f} x  ({asked})"
            )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
