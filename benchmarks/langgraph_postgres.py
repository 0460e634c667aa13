"""What a LangGraph agent's thread holds on PostgreSQL with NoveloSaver and with LangGraph's PostgresSaver: bytes, CPU.

    python benchmarks/langgraph_postgres.py [--turns 1000] [--url postgresql://...] [--tables] [--json]

Four agents of `create_agent` grow side by side on one server, a turn each in turn: NoveloSaver and PostgresSaver with
`add_messages`, and both with a `DeltaChannel` of the frequency that it comes with. Each has a schema of its own; bytes
are `pg_total_relation_size` of all its tables as they stand: indexes, TOAST, and what updates left behind. The growth
exponent is log2 of the bytes at all turns over those at half of them. CPU is the client's. Demands: at most 1/100 of
PostgresSaver and 1/2 of it with a DeltaChannel, at 1,000 turns. Exit status 1 when one is not met. Without an address a
server is started, with its settings as they come but for fsync.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import psycopg
from _lookup_talk import Turn, agent, say
from langchain.agents import AgentState
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph.message import _messages_delta_reducer
from psycopg.rows import dict_row

from novelo.integrations.langgraph import NoveloSaver

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
PLAIN, DELTA = 1 / 100, 1 / 2


class DeltaState(AgentState):
    """An agent's state whose messages are stored as what each step adds."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]  # type: ignore[misc]


KINDS: dict[str, tuple[bool, Any]] = {
    "novelo": (True, None), "novelo delta": (True, DeltaState), "add_messages": (False, None),
    "DeltaChannel": (False, DeltaState),
}  # fmt: skip
SIZES = """
SELECT c.relname, pg_relation_size(c.oid), pg_table_size(c.oid) - pg_relation_size(c.oid), pg_indexes_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY pg_total_relation_size(c.oid) DESC
"""
INDEXES = """
SELECT c.relname, pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'i' ORDER BY 2 DESC
"""


def opened(kind: str, url: str, stack: ExitStack) -> Any:
    """An agent on a saver of a kind, in an empty schema of its own."""
    ours, state = KINDS[kind]
    schema = schema_of(kind)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
    between = "&" if "?" in url else "?"
    if ours:
        return agent(stack.enter_context(NoveloSaver.from_conn_string(f"{url}{between}schema={schema}")), state)
    connection = stack.enter_context(
        psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row,
                        options=f"-csearch_path={schema}")
    )  # fmt: skip
    saver = PostgresSaver(connection)
    saver.setup()
    return agent(saver, state)


def schema_of(kind: str) -> str:
    """The name of a kind's schema."""
    return f"bench_{kind.replace(' ', '_').lower()}"


def tables(url: str, kind: str) -> list[tuple[str, int, int, int]]:
    """Each table of a schema: its name, and bytes of its rows, of what is beside them, and of its indexes."""
    with psycopg.connect(url) as connection:
        return connection.execute(SIZES, (schema_of(kind),)).fetchall()


def size(url: str, kind: str) -> int:
    """Bytes of a schema."""
    return sum(sum(row[1:]) for row in tables(url, kind))


def measure(url: str, turns: int, kinds: list[str]) -> dict[str, dict[str, float]]:
    """Bytes, their growth, and CPU of late turns by kind."""
    laps: dict[str, list[float]] = {kind: [] for kind in kinds}
    halves: dict[str, int] = {}
    with ExitStack() as stack:
        graphs = {kind: opened(kind, url, stack) for kind in kinds}
        for k in range(turns):
            turn = Turn(k)
            for kind, graph in graphs.items():
                began = time.process_time()
                say(graph, turn)
                laps[kind].append(1e3 * (time.process_time() - began))
            if k + 1 == turns // 2:
                halves = {kind: size(url, kind) for kind in kinds}
    out = {}
    for kind in kinds:
        held = size(url, kind)
        out[kind] = {
            "MB": round(held / 1e6, 3),
            "exponent": round(math.log2(held / halves[kind]), 3),
            "early ms": round(statistics.median(laps[kind][5:30]), 2),
            "late ms": round(statistics.median(laps[kind][-25:]), 2),
        }
    return out


def show_tables(url: str, kind: str) -> None:
    """Where the bytes of a schema are."""
    print(f"\n{kind}: table, kB of rows, beside them, of indexes")
    for name, rows, beside, indexes in tables(url, kind):
        if rows + indexes > 2**16:
            print(f"{name:>30} {rows / 1e3:9.0f} {beside / 1e3:9.0f} {indexes / 1e3:9.0f}")
    with psycopg.connect(url) as connection:
        for name, held in connection.execute(INDEXES, (schema_of(kind),)).fetchall():
            if held > 2**16:
                print(f"{name:>50} {held / 1e3:9.0f}")


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--url", default="", help="the address of a server, without a query for us")
    parser.add_argument("--only", choices=KINDS, action="append", help="measure but some of the four")
    parser.add_argument("--tables", action="store_true", help="show each table of ours")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    given = parser.parse_args()
    kinds = given.only or list(KINDS)
    server: Any = None
    if not given.url:
        import fix_postgres

        server = fix_postgres.started("-c fsync=off")
    url = given.url or server.address()
    try:
        found = measure(url, given.turns, kinds)
        text = sum(Turn(k).size() for k in range(given.turns))
        if given.json:
            print(json.dumps({"turns": given.turns, "text": text, "found": found}, indent=1))
        else:
            print(f"{given.turns} turns, {text / 1e6:.2f} MB of text")
            for kind, figures in found.items():
                print(f"{kind:>13}: {json.dumps(figures)}")
        if given.tables:
            for kind in kinds:
                show_tables(url, kind)
    finally:
        if server is not None:
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)
    if set(KINDS) - set(kinds):
        return 0
    ours, plain, delta = (found[kind]["MB"] for kind in ("novelo", "add_messages", "DeltaChannel"))
    if not given.json:
        print(f"bytes: 1/{plain / ours:.0f} of add_messages (at most 1/{1 / PLAIN:.0f}), "
              f"{ours / delta:.2f} of DeltaChannel (at most {DELTA})")  # fmt: skip
    return int(given.turns >= 1000 and (ours > PLAIN * plain or ours > DELTA * delta))


if __name__ == "__main__":
    sys.exit(main())
