"""Turns a second of several processes on one PostgreSQL, against the same statements in raw psycopg, in one run.

A turn is: open it with its question, compose under `window:10turns`, store the reply, close; no model. The raw program
sends the same statements with the same arguments' sizes over one connection a process, and does nothing else. Each
process has threads of its own. Demand: at least 0.5 of the raw rate with 8 processes. Exit status 1 when it is not met.

Run: python benchmarks/postgres_writers.py [--url postgresql://...] [--writers 8] [--seconds 6]
Without an address a server is started, with fsync on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import time
from pathlib import Path

import psycopg

import novelo
from novelo.messages import Message
from novelo.stores.postgres.session import adapt
from novelo.stores.postgres.texts import lexemes, texts
from novelo.stores.search import fold
from novelo.stores.tables.rows import to_row

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
QUESTION = "Onde está a minha encomenda número {0}, que devia ter chegado na semana passada? " * 4
ANSWER = "A encomenda {0} saiu ontem do centro de distribuição e chega até sexta-feira. " * 9


def ours(url: str, name: str, seconds: float) -> int:
    """Turns with the library."""
    done, stop = 0, time.monotonic() + seconds
    with novelo.open(url, policy="window:10turns", worker="off") as memory:
        while time.monotonic() < stop:
            thread = memory.thread(f"{name}-{done % 20}")
            with thread.turn(QUESTION.format(done)) as turn:
                turn.messages()
                turn.reply(ANSWER.format(done))
            done += 1
    return done


def raw(url: str, name: str, seconds: float) -> int:
    """The same statements alone, with arguments made beforehand."""
    plain, _, query = url.partition("?")
    schema = dict(pair.split("=") for pair in query.split("&"))["schema"]
    named = texts(schema)[1]
    connection = psycopg.connect(plain, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.RawCursor)
    adapt(connection)
    keys = [f"{name}-{k}".encode().ljust(16, b"\0") for k in range(20)]
    words = [[*lexemes(fold(QUESTION.format(1)))], [*lexemes(fold(ANSWER.format(1)))]]
    bodies = [Message("user", QUESTION.format(1)), Message("assistant", ANSWER.format(1))]

    def run(statement: str, *args: object) -> list[tuple[object, ...]]:
        cursor = connection.execute(named[statement].text, args, binary=True)
        return cursor.fetchall() if cursor.description else []

    for key in keys:
        run("new_thread", key, "", name, 1.0, b"x" * 40)
    done, stop = 0, time.monotonic() + seconds
    while time.monotonic() < stop:
        key, at = keys[done % 20], 2 * (done // 20)
        connection.execute("BEGIN; SET LOCAL lock_timeout = 30000; SET LOCAL statement_timeout = 300000")
        run("thread", key)
        run("take", key, 1, 90, 0, "holder", 1e9, 30.0, at, 1e9, 1)
        run("new_turn", key, at, at, 1000, None, None, at // 2 + 1)
        row = to_row(key, at, 1, bodies[0], 90, 90, 1e9)
        run("entry", *row)
        run("index_entry", key, at, words[0])
        connection.execute("COMMIT")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        run("ancestor", key)
        run("tail", key, at + 1, 0, 27)
        connection.execute("COMMIT")
        connection.execute("BEGIN; SET LOCAL lock_timeout = 30000; SET LOCAL statement_timeout = 300000")
        run("append", key, at // 2 + 1, 1, 0, 90, 0.0, "", None, 1e9, None, at)
        row = to_row(key, at + 1, 1, bodies[1], 90, 90, 1e9)
        run("entry", *row)
        run("index_entry", key, at + 1, words[1])
        run("close_turn", key, at, 1, "done", b"m" * 300)
        run("last_call", key, 1 << 50)
        run(
            "call",
            key,
            at,
            at,
            "reply",
            None,
            90,
            200,
            0,
            0,
            0,
            5,
            None,
            1,
            1000,
            None,
            "",
            290,
            "0",
            None,
            b"12345678",
        )
        connection.execute("COMMIT")
        done += 1
    connection.close()
    return done


def rate(action, url: str, writers: int, seconds: float, lap: int) -> float:
    """Turns a second of so many processes together."""
    with multiprocessing.get_context("fork").Pool(writers) as pool:
        given = [(url, f"{action.__name__}{lap}-{i}", seconds) for i in range(writers)]
        return sum(pool.starmap(action, given, chunksize=1)) / seconds


def main() -> int:
    """Measure in turns, print, and say whether the demand is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    server = None
    if given.url is None:
        from fix_postgres import started

        server = started("-c max_connections=100 -c shared_buffers=128MB")
    try:
        url = f"{given.url or server.address()}?schema=writers"
        novelo.open(url).close()
        rounds = [[rate(way, url, given.writers, given.seconds, lap) for way in (ours, raw)] for lap in range(2)]
    finally:
        if server is not None:
            server.stop()
            shutil.rmtree(server.folder)
    one, two = (max(r[n] for r in rounds) for n in (0, 1))
    if given.json:
        print(json.dumps({"ours": one, "raw": two, "ratio": one / two, "writers": given.writers}))
    else:
        print(f"{given.writers} processes: ours {one:.0f} turns/s, raw {two:.0f}, ratio {one / two:.2f} (at least 0.5)")
    return int(one / two < 0.5)


if __name__ == "__main__":
    sys.exit(main())
