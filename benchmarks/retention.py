"""What retention costs with many threads: a sweep that finds nothing, a preview, and taking a share of them.

    python benchmarks/retention.py [--threads 100000] [--due 10000] [--url sqlite:////tmp/retention.db]

Threads have two messages each; a share of them is old. Prints seconds, threads a second, and the memory that it took.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time

import novelo
from novelo.messages import Message
from novelo.stores.base import Lease, NewEntry

DAY = 86_400.0


def fill(memory: novelo.Memory, threads: int, due: int) -> None:
    """Threads of two messages; the first `due` of them are two hundred days old."""
    said = [
        NewEntry(Message("user", "Qual é o prazo do reembolso?"), 8),
        NewEntry(Message("assistant", "Dez dias."), 4),
    ]
    now = time.time()
    for n in range(threads):
        moment = now - (200 * DAY if n < due else 10 * DAY)
        names = (f"owner {n % 1000}", f"t{n}")
        memory.store.add(memory.store.key_of(*names), names, said, Lease("b", 30.0, moment))


def main() -> None:
    """Fill, preview, sweep."""
    options = argparse.ArgumentParser()
    options.add_argument("--threads", type=int, default=100_000)
    options.add_argument("--due", type=int, default=10_000)
    options.add_argument("--url")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        novelo.open(chosen.url or f"sqlite:///{folder}/a.db", worker="off", search=False) as memory,
    ):
        started = time.perf_counter()
        fill(memory, chosen.threads, chosen.due)
        print(f"{chosen.threads} threads made in {time.perf_counter() - started:.1f} s", flush=True)
        for name, rule, dry in (
            ("a sweep that finds nothing", "idle:300d", False),
            (f"a preview of {chosen.due}", "idle:90d", True),
            (f"taking {chosen.due}", "idle:90d", False),
            ("a preview of all that is left", "idle:1d", True),
        ):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            found = memory.purge(dry, retention=rule)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            rate = f", {found.threads / found.seconds:.0f} threads/s" if found.threads else ""
            print(
                f"{name}: {found.threads} in {found.seconds:.2f} s{rate}, {grown:.0f} MiB more at the peak", flush=True
            )


if __name__ == "__main__":
    main()
