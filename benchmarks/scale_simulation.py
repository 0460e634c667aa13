"""A day of a service on N shards: how busy its machines are, how long turns wait, and what a lost machine does.

Threads are skewed (Zipf: few threads have most of the turns, none more than a person can type), the day is a wave, and
a thread's shard is its hash, as the store spreads it. Each turn is three transactions on the machine of its shard,
which take the CPU that `scale_figures.py` measured, spread as service times are (lognormal), on so many cores. Counted
is the wait before them. Nothing else is simulated: no network, no disk that syncs, no replication.

Run: python benchmarks/scale_simulation.py [--threads 1e9] [--turns 2.6e9] [--shards 1024] [--json] [--plot day.svg]
About ten seconds, whatever the size: of each hour a piece is replayed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from typing import Any

import numpy as np

SERVER_CPU_S = 0.0014  # of a turn, measured by scale_figures.py on this project's machine, which others used too
TRANSACTIONS = 3
SPREAD = 0.8  # sigma of the logarithm of a service time: a vacuum, a cold page
TOP = 200_000  # threads whose shard is drawn one by one; the others are many and small
FASTEST_S = 8.0  # between two turns of one thread
WAVE = 0.75  # of the mean: the peak is 1.75 of it, the night a quarter
BUSIEST_H = 20


def shares(threads: float, shards: int, exponent: float, turns_s: float, rng: np.random.Generator) -> np.ndarray:
    """Which part of all turns each shard gets, of threads whose use follows Zipf's law."""
    top = int(min(threads, TOP))
    ranks = np.arange(1, top + 1, dtype=float)
    weights = ranks**-exponent
    rest = 0.0
    if threads > top:  # the integral of the rest of the law
        rest = (
            (threads ** (1 - exponent) - top ** (1 - exponent)) / (1 - exponent)
            if exponent != 1
            else np.log(threads / top)
        )
    whole = weights.sum() + rest
    capped = np.minimum(weights / whole, 1 / (FASTEST_S * turns_s))  # what nobody can type goes to the others
    parts = np.full(shards, (1 - capped.sum()) / shards)
    np.add.at(parts, rng.integers(0, shards, top), capped)
    return parts


def waits(
    rate: float, cores: int, service: float, count: int, rng: np.random.Generator, down: float = 0.0
) -> np.ndarray:
    """How long transactions wait on one machine, in seconds; `down`: it does not answer for so long from the start."""
    at = np.cumsum(rng.exponential(1 / rate, count))
    busy = rng.lognormal(np.log(service) - SPREAD**2 / 2, SPREAD, count)
    free = [down] * cores
    out = np.empty(count)
    for k in range(count):
        start = max(at[k], heapq.heappop(free))
        out[k] = start - at[k]
        heapq.heappush(free, start + busy[k])
    return out


def hour_of(hour: int) -> float:
    """The load of an hour over that of the mean one."""
    return 1 + WAVE * float(np.cos((hour - BUSIEST_H) / 24 * 2 * np.pi))


def day(given: argparse.Namespace) -> dict[str, Any]:
    """All hours, and a machine that is lost at the busiest."""
    rng = np.random.default_rng(given.seed)
    mean = given.turns / 86_400
    parts = shares(given.threads, given.shards, given.zipf, mean * (1 + WAVE), rng)
    machine = np.arange(given.shards) % given.nodes
    of_node = np.bincount(machine, weights=parts, minlength=given.nodes)
    service = given.service_ms / 1000 / TRANSACTIONS
    hottest, usual = int(of_node.argmax()), int(np.argsort(of_node)[given.nodes // 2])
    hours = []
    for hour in range(24):
        rates = of_node * mean * hour_of(hour) * TRANSACTIONS
        used = rates * service / given.cores
        row: dict[str, Any] = {
            "hour": hour,
            "turns_s": mean * hour_of(hour),
            "used": float(used.mean()),
            "used_most": float(used.max()),
        }
        for name, node in (("", usual), ("_hot", hottest)):
            found = (
                waits(float(rates[node]), given.cores, service, given.events, rng)
                if used[node] < 1
                else np.array([np.inf])
            )
            row |= {
                f"p50{name}_ms": 1000 * float(np.median(found)),
                f"p99{name}_ms": 1000 * float(np.quantile(found, 0.99)),
            }
        hours.append(row)
    asked = {name: getattr(given, name) for name in ("threads", "shards", "nodes", "cores", "service_ms", "zipf")}
    return {
        **asked,
        "turns_day": given.turns,
        "hot_shard": float(parts.max() * given.shards),
        "hot_node": float(of_node.max() * given.nodes),
        "hours": hours,
        "lost": lost(of_node, mean * hour_of(BUSIEST_H), service, given, rng),
    }


def lost(
    of_node: np.ndarray, turns_s: float, service: float, given: argparse.Namespace, rng: np.random.Generator
) -> dict[str, Any]:
    """The hottest machine at the busiest hour: gone until its standby answers, or until the others have its shards."""
    node = int(of_node.argmax())
    rate = float(of_node[node]) * turns_s * TRANSACTIONS
    count = int(min(max(given.events, rate * 3 * given.failover), 1_500_000))
    found = waits(rate, given.cores, service, count, rng, given.failover)
    late = found[found > 0.25]
    arrived = np.arange(count) / rate
    behind = arrived[found > 0.25]
    others = (of_node + of_node[node] / max(1, given.nodes - 1)) * turns_s * TRANSACTIONS * service / given.cores
    others[node] = 0
    return {
        "turns_touched": float(of_node[node]),
        "failover_s": given.failover,
        "drained_s": float(behind.max() - given.failover) if len(behind) else 0.0,
        "longest_wait_s": float(found.max()),
        "late": len(late),
        "used_most_without_standby": float(others.max()) if given.nodes > 1 else None,
    }


def printed(found: dict[str, Any]) -> None:
    """The day, for people."""
    print(f"{found['threads']:,.0f} threads, {found['turns_day']:,.0f} turns a day, Zipf {found['zipf']:g}")
    print(
        f"{found['shards']} shards on {found['nodes']} machines of {found['cores']} cores,"
        f" {found['service_ms']:g} ms of CPU a turn"
    )
    print(f"hottest shard {found['hot_shard']:.2f} times the mean one, hottest machine {found['hot_node']:.2f} times")
    print("hour   turns/s  used  most  wait p50    p99 ms   hottest p50    p99 ms")
    for row in found["hours"]:
        bar = "█" * round(30 * min(row["used_most"], 1.0))
        print(
            f"{row['hour']:4d} {row['turns_s']:9,.0f} {row['used']:5.0%} {row['used_most']:5.0%} {row['p50_ms']:9.2f}"
            f" {row['p99_ms']:9.2f} {row['p50_hot_ms']:13.2f} {row['p99_hot_ms']:9.2f}  {bar}"
        )
    gone = found["lost"]
    print(f"the hottest machine lost at the busiest hour: {gone['turns_touched']:.1%} of turns wait, at most")
    print(f"{gone['longest_wait_s']:.1f} s; {gone['drained_s']:.1f} s after its standby answers ", end="")
    print(f"({gone['failover_s']:g} s) all is as before.")
    others = gone["used_most_without_standby"]
    print("There are no others." if others is None else f"Without a standby the others are used up to {others:.0%}.")


def drawn(found: dict[str, Any], path: str) -> None:
    """The day as a picture."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from novelo.plots import COLOURS, STYLE

    with rc_context(STYLE):
        figure = Figure(figsize=(8, 5), layout="constrained")
        FigureCanvasAgg(figure)
        above, below = figure.subplots(2, 1, sharex=True)
        hours = [row["hour"] for row in found["hours"]]
        for axes, names, title in (
            (above, {"used_most": "hottest machine", "used": "mean"}, "Cores in use, %"),
            (
                below,
                {"p99_hot_ms": "hottest machine, p99", "p99_ms": "usual machine, p99"},
                "Wait before a transaction, ms",
            ),
        ):
            for colour, (name, label) in zip(COLOURS, names.items(), strict=False):
                scale = 100 if name.startswith("used") else 1
                axes.plot(hours, [scale * row[name] for row in found["hours"]], color=colour, label=label)
            axes.set_title(title)
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False, fontsize=9)
        below.set_xlabel("hour of the day")
        figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> int:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=float, default=1e9)
    parser.add_argument("--turns", type=float, default=2.6e9, help="a day")
    parser.add_argument("--shards", type=int, default=1024)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--cores", type=int, default=16, help="of a machine")
    parser.add_argument("--service-ms", type=float, default=1000 * SERVER_CPU_S, help="CPU of the server for a turn")
    parser.add_argument("--zipf", type=float, default=0.9, help="the law's exponent")
    parser.add_argument("--failover", type=float, default=15.0, help="seconds until a standby answers")
    parser.add_argument("--events", type=int, default=20_000, help="transactions replayed of each hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", help="a picture: .svg, .png or .pdf")
    given = parser.parse_args()
    if min(given.threads, given.turns, given.shards, given.nodes, given.cores) < 1 or given.nodes > given.shards:
        parser.error("expected at least one of each, and as many shards as machines")
    given.events = max(1000, min(given.events, 100_000))
    found = day(given)
    if given.plot:
        drawn(found, given.plot)
    print(json.dumps(found)) if given.json else printed(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
