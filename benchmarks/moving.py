"""Rows a second of backups and copies, between files and PostgreSQL, and the memory that they take.

A database of short talks is made, saved by `novelo.backup`, copied to a server, back to a file, and brought up to date
there when nothing and when one thread in a hundred has changed. Every run reads back what it wrote, and compares it. As
a measure, the same rows are dumped and restored by pg_dump, and the same file is copied by SQLite's backup alone.

Run: python benchmarks/moving.py [--threads 2000] [--url postgresql://...]
Without an address a server is started, with fsync on. Exit status 1 when a copy is not equal to its source.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw

import novelo
from novelo.stores.raw import CopyReport

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
QUESTION = "Onde está a minha encomenda número {0}, que devia ter chegado na semana passada? " * 2
ANSWER = "A encomenda {0} saiu ontem do centro de distribuição e chega até sexta-feira. " * 5
TURNS = 20


def fill(url: str, threads: int) -> None:
    """Talks of twenty turns, half of them imported messages."""
    with novelo.open(url, worker="off") as memory:
        for n in range(threads):
            thread = memory.thread(f"t{n}", owner=f"o{n % 97}")
            said = [
                {"role": role, "content": text.format(n * TURNS + k)}
                for k in range(TURNS - 2)
                for role, text in (("user", QUESTION), ("assistant", ANSWER))
            ]
            thread.append(said)
            for k in range(2):
                with thread.turn(QUESTION.format(k), key=f"k{k}") as turn:
                    turn.reply(ANSWER.format(k))


def told(what: str, run: Callable[[], CopyReport]) -> str:
    """Print what a run did, and what it took of this process; the hash over all."""
    cpu = time.process_time()
    report = run()
    cpu, rows = time.process_time() - cpu, sum(report.rows.values())
    print(
        f"{what:<44} {report.seconds:7.1f} s {rows / report.seconds:9,.0f} rows/s "
        f"{report.bytes / 1e6 / report.seconds:6.1f} MB/s  {cpu:5.1f} s CPU  {report.written} written"
    )
    return report.digest


def main() -> None:
    """Measure, and compare the digests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2000)
    parser.add_argument("--url")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="novelo-moving-"))
    server = None
    if given.url is None:
        from fix_postgres import started

        server = started("-c shared_buffers=128MB")
    url = given.url or server.address() + "?schema=moving"  # type: ignore[union-attr]
    path = folder / "a.db"
    try:
        fill(f"sqlite:///{path}", given.threads)
        size = path.stat().st_size
        print(f"{given.threads} threads of {2 * TURNS} messages, a file of {size / 1e6:.0f} MB")
        at = time.monotonic()
        one, other = apsw.Connection(str(path)), apsw.Connection(str(folder / "pages.db"))
        with other.backup("main", one, "main") as backup:
            backup.step(-1)
        one.close()
        other.close()
        print(f"{'SQLite’s backup alone, nothing compared':<44} {time.monotonic() - at:7.1f} s")
        digests = [
            told("backup of the file", lambda: novelo.backup(str(path), folder / "b.db")),
            told("copy file -> file", lambda: novelo.copy(str(path), str(folder / "c.db"))),
            told("copy file -> PostgreSQL", lambda: novelo.copy(str(path), url)),
            told("the same again, nothing has changed", lambda: novelo.copy(str(path), url)),
        ]
        if server is not None:
            dump(server, folder)
        digests.append(told("copy PostgreSQL -> file", lambda: novelo.copy(url, str(folder / "d.db"))))
        digests.append(told("backup of PostgreSQL", lambda: novelo.backup(url, folder / "e.db")))
        with novelo.open(f"sqlite:///{path}", worker="off") as memory:
            for n in range(0, given.threads, 100):
                memory.thread(f"t{n}", owner=f"o{n % 97}").append("mais uma")
        told("file -> PostgreSQL, one thread in 100 new", lambda: novelo.copy(str(path), url))
        print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    finally:
        if server is not None:
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(len(set(digests)) != 1)


def dump(server: object, folder: Path) -> None:
    """What pg_dump takes, which compares nothing, and what its way back takes."""
    address, bins, port = server.address(), server.bin, server.port  # type: ignore[attr-defined]
    dumped, other = folder / "x.dump", address.replace("/postgres", "/other")
    subprocess.run([bins / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "novelo", "other"], check=True)
    for what, command in (
        ("pg_dump -Fc", ["pg_dump", "-Fc", "-n", "moving", "-f", dumped, address]),
        ("pg_restore into an empty database", ["pg_restore", "-d", other, dumped]),
    ):
        at = time.monotonic()
        subprocess.run([bins / command[0], *command[1:]], check=True)
        print(f"{what:<44} {time.monotonic() - at:7.1f} s")


if __name__ == "__main__":
    main()
