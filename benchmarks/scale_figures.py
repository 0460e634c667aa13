"""What a turn costs a PostgreSQL server: bytes of tables and indexes, of its log, CPU on both sides; and sizes from it.

Threads of twelve turns are written with the library into a server of its own, as a service would: question, context
under `window:10turns`, answer, ledger and search index. Messages have 750 bytes on average. Bytes are those of
`pg_total_relation_size` by table, the log's are the distance of its positions, CPU is that of the server's processes
and of ours. The sizing table reckons with these alone, and says so.

Run: python benchmarks/scale_figures.py [--threads 300] [--json] [--table]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

import novelo

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
TURNS = 12
SIZES = {10**6: 5, 10**8: 1, 10**9: 2.6}  # threads -> turns a thread and day, as services of that size report
KEPT_DAYS, PEAK, BUSY = 90, 3.0, 0.5  # hot data, peak over mean, and how much of a core may be used at the peak
CORES, NODE_TB = 16, 8.0  # of a node
OPEN_S = 0.02  # how long a turn's transactions are open together, on a network and a disk that syncs
WORDS = "order parcel delivery friday invoice refund address courier signature warehouse tracking status".split()  # noqa: SIM905
WORDS += "card week customer number question answer return label shipment depot evening morning today".split()  # noqa: SIM905


def text(k: int, size: int) -> str:
    """A text of about so many bytes, another one for each number."""
    out, at = f"{k}", k
    while len(out) < size:
        at = (at * 1103515245 + 12345) & 0x7FFFFFFF
        out += f" {WORDS[at % len(WORDS)]}{at % 89 if at % 7 == 0 else ''}"
    return out


def cpu_of(pids: list[int]) -> float:
    """CPU seconds of processes that live."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """A server's processes."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split())]


def measured(url: str, postmaster: int, threads: int) -> dict[str, Any]:
    """Bytes and seconds of a turn."""
    plain = url.partition("?")[0]
    with (
        psycopg.connect(plain, autocommit=True) as look,
        novelo.open(url, policy="window:10turns", worker="off") as memory,
    ):
        memory.thread("warm", "up").append("x")
        look.execute("CHECKPOINT")
        before: Any = look.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        pids = children(postmaster)
        server, ours, at = cpu_of(pids), time.process_time(), time.perf_counter()
        for n in range(TURNS):  # thread by thread in each round, as users come
            for k in range(threads):
                thread = memory.thread(f"thread {k}", f"user {k // 4}")
                with thread.turn(text(k * 100 + n, 420), key=f"req-{n}") as turn:
                    turn.messages()
                    turn.reply(text(k * 100 + n + 50, 1080))
        wall, ours, server = time.perf_counter() - at, time.process_time() - ours, cpu_of(pids) - server
        log: Any = look.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", before).fetchone()
        look.execute("VACUUM")
        look.execute("VACUUM FULL scale.threads")  # a short run would count what a vacuum now and then takes away
        version: Any = look.execute("SHOW server_version").fetchone()
        rows = look.execute(
            "SELECT relname, pg_total_relation_size(c.oid)::bigint, pg_indexes_size(c.oid)::bigint FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname = 'scale' AND relkind = 'r'"
        ).fetchall()
    turns = threads * TURNS
    tables = {name: size for name, size, _ in rows if size > 65536 or name == "threads"}
    body = sum(size for name, size in tables.items() if name != "threads")
    return {
        "server": str(version[0]).split()[0],
        "turns": turns,
        "turn_bytes": body / turns,
        "thread_bytes": tables["threads"] / threads,
        "wal_bytes": float(log[0]) / turns,
        "server_cpu_s": server / turns,
        "client_cpu_s": ours / turns,
        "wall_s": wall / turns,
        "rows": 7,
        "tables": {name: round(size / turns) for name, size in sorted(tables.items())},
    }


def sizes(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The sizing table: what so many threads need, reckoned from the figures of one turn."""
    out = []
    for threads, rate in SIZES.items():
        day = threads * rate
        mean = day / 86_400
        peak = PEAK * mean
        hot = day * KEPT_DAYS * found["turn_bytes"] + threads * found["thread_bytes"]
        cores = peak * found["server_cpu_s"] / BUSY
        nodes = max(1, -(-cores // CORES), -(-hot // (NODE_TB * 1e12)))
        out.append(
            {
                "threads": threads,
                "turns_day": day,
                "turns_s": mean,
                "peak_s": peak,
                "bytes_day": day * found["turn_bytes"],
                "wal_day": day * found["wal_bytes"],
                "hot_bytes": hot,
                "rows_hot": day * KEPT_DAYS * found["rows"] + threads,
                "cores": cores,
                "nodes": int(nodes),
                "open_transactions": peak * OPEN_S,
                "client_cores": peak * found["client_cpu_s"] / BUSY,
            }
        )
    return out


def printed(found: dict[str, Any]) -> None:
    """The figures, for people."""
    print(f"PostgreSQL {found['server']}, {found['turns']} turns, messages of 750 bytes on average")
    print(f"a turn: {found['turn_bytes'] / 1024:.2f} KiB of tables and indexes, {found['wal_bytes'] / 1024:.2f} of log")
    print(f"CPU of a turn: server {found['server_cpu_s'] * 1000:.2f} ms, ours {found['client_cpu_s'] * 1000:.2f} ms")
    print(f"a thread's row: {found['thread_bytes']:.0f} bytes with its indexes")
    print("bytes of a turn by table: " + ", ".join(f"{name} {size}" for name, size in found["tables"].items()))
    for row in sizes(found):
        print(f"{row['threads']:,} threads")
        print(f"  turns a day {row['turns_day']:,.0f}, a second {row['turns_s']:,.0f}, peak {row['peak_s']:,.0f}")
        print(f"  a day {row['bytes_day'] / 1e9:,.1f} GB and {row['wal_day'] / 1e9:,.1f} GB of log")
        print(
            f"  {KEPT_DAYS} days {row['hot_bytes'] / 1e12:,.2f} TB, {row['rows_hot'] / 1e9:,.1f} thousand million rows"
        )
        print(f"  cores {row['cores']:,.1f} and {row['client_cores']:,.1f} of ours, machines {row['nodes']:,}")
        print(f"  transactions open {row['open_transactions']:,.0f}")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    from fix_postgres import started

    server = started("-c max_connections=50 -c shared_buffers=128MB -c autovacuum=off")
    try:
        postmaster = int((server.folder / "data" / "postmaster.pid").read_text("ascii").split()[0])
        found = measured(f"{server.address()}?schema=scale", postmaster, given.threads)
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
    if given.json:
        print(json.dumps({**found, "sizes": sizes(found)}))
    else:
        printed(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
