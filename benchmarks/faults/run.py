"""The fault tests against their demands: one line a figure, and an exit status.

Every row runs tests of `tests/faults` (or a benchmark beside this folder) in a process of its own: the machinery is
theirs, and so are the demands, which they assert. What they measured they print, in lines that begin with the row's
number. All on this machine only; a server is started where a row needs one, and a row whose programs or files are not
here is skipped, and told. Exit status 1 if a demand fails, or if time ran out before a row was run.

Run: python benchmarks/faults/run.py [--long] [--only T5,T7] [--size T5.kills=300,T19.seconds=600] [--json] [--list]
Sizes by name stand in the tests (`size("T5.kills", 40, 150)`: the short and the long form).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/faults/"


@dataclass(frozen=True)
class Row:
    """One line of the table: which tests show what. `only` is a name's part, as pytest's -k takes it."""

    test: str
    where: str
    demand: str
    file: str
    only: str = ""

    @property
    def alone(self) -> bool:
        """Whether it measures speed, which others would change."""
        return self.file.startswith("benchmarks/")

    @property
    def name(self) -> str:
        """What --only names, and what is printed."""
        return f"{self.test} {self.where}".strip()


def many(test: str, demand: str, sqlite: tuple[str, str], postgres: tuple[str, str]) -> list[Row]:
    """The same demand on both engines."""
    return [Row(test, "SQLite", demand, *sqlite), Row(test, "PostgreSQL", demand, *postgres)]


KILLS, POSTGRES, REQUESTS, COMPACTION = (
    f"{TESTS}test_{name}.py" for name in ("kills", "postgres", "requests", "compaction")
)
T3 = "a writer stopped past its lease is refused; without the fence the run must break"
T4 = "2 and 8 processes on one thread: no lost update; a busy caller is told within 50 ms"
T10 = "clocks -1 h and +1 day: 0 lost, 95 of 100 acknowledged, taken over within two leases"
T14 = "one key sent five times at once is one turn"
T15 = "turns, summaries, deletions, erasures at once: 0 violations of I1-I8"
T5 = "at least 150 kills and 900 ended connections (long): 0 lost"
T6 = "at least 50 crashes of the server (long): 0 lost, service within 5 s"
T19 = "30 minutes (long), kills every 10 s (short: 5 s): 0 violations, no growth over 5 %"
ROWS = [
    Row("T1", "SQLite", "at least 500 kill -9, 2,500 turns: 0 lost", KILLS, "kill_9"),
    Row("T2", "SQLite", "2,000 power cuts: 0 lost, 0 corrupt; NORMAL loses, OFF corrupts", f"{TESTS}test_powercut.py"),
    *many("T3", T3, (KILLS, "zombie"), (POSTGRES, "zombie or stopped_in_a_transaction")),
    *many("T4", T4, (KILLS, "many_writers or busy_callers"), (POSTGRES, "many_writers or busy_callers")),
    Row("T5", "PostgreSQL direct", T5, POSTGRES, "kills_and_terminated and direct"),
    Row("T5", "PostgreSQL by pgbouncer", T5, POSTGRES, "kills_and_terminated and pgbouncer"),
    Row("T6", "PostgreSQL direct", T6, POSTGRES, "restarts and direct"),
    Row("T6", "PostgreSQL by pgbouncer", T6, POSTGRES, "restarts and pgbouncer"),
    Row(
        "T7", "synchronous standby", "at least 20 failovers (long): 0 lost", f"{TESTS}test_failover.py",
        "to_a_synchronous or confirmed",
    ),
    Row("T7", "asynchronous standby", "the control: must lose", f"{TESTS}test_failover.py", "to_an_asynchronous"),
    Row("T8", "SQLite", "full and read-only disks: 0 lost, typed errors, reading goes on", f"{TESTS}test_disk.py",
        "not flipped and not altered_rows"),
    Row("T9", "SQLite", "at least 200 flipped bits: no altered text is read", f"{TESTS}test_disk.py",
        "flipped or altered_rows"),
    *many("T10", T10, (KILLS, "wrong_clock"), (POSTGRES, "wrong_clock")),
    Row("T11", "", "models that fail, 200 of each kind: the thread is free, no half message unmarked", REQUESTS,
        "bad_models or ten_megabytes"),
    Row("T12", "", "summarizers that fail or lie: 0 lost, the former summary stays, three failures open the circuit",
        COMPACTION, "not crowd and not against_turns and not what_changes"),
    *many("T14", T14, (REQUESTS, "duplicate"), (POSTGRES, "same_key")),
    *many(
        "T15", T15, (COMPACTION, "against_turns or crowd or what_changes"), (POSTGRES, "against_turns or two_workers")
    ),
    Row("T16", "PostgreSQL", "4,000 calls, half of them cancelled (long): 0 wrong callers, the pool whole", POSTGRES,
        "cancelled"),
    Row("T17", "SQLite", "schemas of before are read, a killed migration leaves the old or the new one",
        "tests/stores/test_schema.py"),
    Row("T18", "", "10,000 threads (long): at most 16 MiB more than with 1,000, reading within 5 ms", f"{TESTS}test_many_threads.py"),
    *many("T19", T19, (f"{TESTS}test_soak.py", "sqlite"), (f"{TESTS}test_soak.py", "postgres")),
    Row("T20", "", "1,000 hostile bodies: 0 imports, processes, sockets, files; at most 64 MiB", REQUESTS, "hostile"),
    Row("T23", "", "filters, ids and questions of all kinds: no row of another owner", f"{TESTS}test_fuzz.py"),
    Row("T24", "", "erased canaries are found in no file, nor in a restored backup", f"{TESTS}test_erasure.py"),
    Row("T25", "", "secrets and texts in no log, error or repr", f"{TESTS}test_secrets.py"),
    Row("T26", "", "swapped, stripped and old ciphertexts are refused", f"{TESTS}test_encryption.py"),
    Row("streams", "PostgreSQL", "no transaction is open while answers are streamed", POSTGRES, "while_models_stream"),
    Row("writers", "PostgreSQL", "8 writers: at least 0.5 of the same statements in raw psycopg",
        "benchmarks/postgres_writers.py"),
]  # fmt: skip


@dataclass
class Outcome:
    """What came of a row: ok, SHORT (a demand failed), skipped, or not run."""

    row: Row
    result: str
    measured: list[str]
    seconds: float = 0.0

    def line(self) -> str:
        """The row in words."""
        said = "; ".join(self.measured)
        return f"{self.result:8} {self.row.name}: {said} ({self.seconds:.0f} s)\n         demand: {self.row.demand}"

    def facts(self) -> dict[str, object]:
        """The row for --json."""
        row = self.row
        return {"test": row.test, "where": row.where, "demand": row.demand, "measured": self.measured,
                "result": self.result, "seconds": round(self.seconds, 1)}  # fmt: skip


def run(row: Row, given: argparse.Namespace, seconds: float) -> Outcome:
    """Run one row, for no longer than so many seconds."""
    if not (ROOT / row.file).exists():
        return Outcome(row, "skipped", [f"there is no {row.file}"])
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="novelo-faults-") as folder:
        work = script if row.alone else tests
        try:
            result, measured = work(row, given, seconds, Path(folder))
        except subprocess.TimeoutExpired:
            result, measured = "SHORT", [f"not ready after {seconds:.0f} s"]
    return Outcome(row, result, measured, time.monotonic() - begun)


def ended(command: list[str], seconds: float, **named: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; after so long it is told to stop, so that its servers are stopped too."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, **named}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, text, "")


def tests(row: Row, given: argparse.Namespace, seconds: float, folder: Path) -> tuple[str, list[str]]:
    """Run tests; whether they passed, and what they printed of the row."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", row.file, "-q", "-x", "-p", "no:cacheprovider", "--tb=short",
               "--basetemp", str(folder / "tmp"), "--junitxml", str(report),
               "-o", "junit_logging=system-out"]  # fmt: skip
    command += ["-k", row.only] if row.only else []
    done = ended(command, seconds, NOVELO_TEST_LONG="1" if given.long else "", NOVELO_TEST_SIZES=given.size)
    if not report.exists():
        print(done.stdout[-4000:], file=sys.stderr)
        return "SHORT", [f"the tests could not be run (exit status {done.returncode})"]
    return told(row, report, done)


def told(row: Row, report: Path, done: subprocess.CompletedProcess[str]) -> tuple[str, list[str]]:
    """What a report of pytest says of a row."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    skipped = [case.find("skipped") for case in cases]
    why = sorted({str(one.get("message")) for one in skipped if one is not None})
    figures = [
        shortened(row, line)
        for case in cases
        for line in (case.findtext("system-out") or "").splitlines()
        if re.match(rf"{row.test}\b[ :]", line)
    ]
    passed = sum(one is None for one in skipped)
    if done.returncode not in (0, 5):
        print(done.stdout[-6000:], file=sys.stderr)
        return "SHORT", [*figures, next((line for line in done.stdout.splitlines() if line.startswith("FAILED")), "")]
    if not passed:
        return "skipped", why or ["no test of that name"]
    return "ok", [*dict.fromkeys(figures), f"{passed} tests", *(f"skipped: {text}" for text in why)]


def shortened(row: Row, line: str) -> str:
    """A figure without what the row's name says already."""
    before, _, after = line.partition(":")
    way = before.removeprefix(row.test).strip()
    return after.strip() if way in row.where.lower() else f"{way}: {after.strip()}"


def script(row: Row, given: argparse.Namespace, seconds: float, folder: Path) -> tuple[str, list[str]]:
    """Run a benchmark that has its own demand and exit status."""
    done = ended([sys.executable, row.file], seconds)
    lines = done.stdout.strip().splitlines()
    if done.returncode not in (0, 1) or not lines:
        return "skipped" if "ModuleNotFoundError" in done.stdout else "SHORT", lines[-1:]
    return ("ok" if done.returncode == 0 else "SHORT"), lines[-1:]


def chosen(names: str) -> list[Row]:
    """The rows that were asked for, by number (T5) or by their whole name (T5 PostgreSQL direct)."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    rows = [row for row in ROWS if not wanted or any(one in (row.test, row.name) for one in wanted)]
    if not rows:
        raise SystemExit(f"no such row: {names}; there are {', '.join(dict.fromkeys(row.test for row in ROWS))}")
    return rows


def main() -> int:
    """Run the rows, print them in their order, and say whether all demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="the demands' full numbers")
    parser.add_argument("--only", default="", help="rows by number or name, T5,T7")
    parser.add_argument("--size", default="", help="sizes by name, T5.kills=300,T19.seconds=600")
    parser.add_argument("--minutes", type=float, help="for all rows together (10, with --long 240)")
    parser.add_argument("--jobs", type=int, default=2, help="rows at once (2); what is a matter of speed runs alone")
    parser.add_argument("--json", action="store_true", help="a JSON line a row")
    parser.add_argument("--list", action="store_true", help="only tell which rows there are")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs us in its background has it ignored
    rows = chosen(given.only)
    if given.list:
        print("\n".join(f"{row.name}: {row.demand}" for row in rows))
        return 0
    until = time.monotonic() + 60 * (given.minutes or (240 if given.long else 10))

    def in_time(row: Row) -> Outcome:
        left = until - time.monotonic()
        return run(row, given, left) if left > 1 else Outcome(row, "not run", ["time is over"])

    failed = 0
    with ThreadPoolExecutor(given.jobs) as pool:  # most of them wait most of the time
        at_once = pool.map(in_time, [row for row in rows if not row.alone])
        for outcome in chain(at_once, map(in_time, (row for row in rows if row.alone))):
            failed += outcome.result in ("SHORT", "not run")
            print(json.dumps(outcome.facts(), ensure_ascii=False) if given.json else outcome.line(), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
