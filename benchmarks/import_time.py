"""What `import novelo` costs, against `import msgspec, apsw` in the same run: at most 2.5 times, wall and CPU.

Each sample is a fresh interpreter, started to finished. The three programs take turns, so that a slow moment of the
machine falls on all of them, and the median of each is compared. Bytecode is cached before the first sample, as on any
installed package. Exit status 1 when the demand is not met.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

PROGRAMS = {"bare": "pass", "peers": "import msgspec, apsw", "novelo": "import novelo"}
MOST = 2.5


def sample(code: str) -> tuple[float, float]:
    """Wall and CPU seconds of one fresh interpreter that runs the code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure, print one line a program and the ratio, and say whether it is within the demand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=21, help="samples of each program (default 21)")
    runs = parser.parse_args().runs
    for code in PROGRAMS.values():
        sample(code)
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in PROGRAMS}
    for _ in range(runs):
        for name, code in PROGRAMS.items():
            samples[name].append(sample(code))
    wall, cpu = ({name: statistics.median(s[i] for s in found) for name, found in samples.items()} for i in (0, 1))
    for name, code in PROGRAMS.items():
        print(f"{code:24} {wall[name] * 1000:7.1f} ms wall {cpu[name] * 1000:7.1f} ms CPU  (median of {runs})")
    ratios = wall["novelo"] / wall["peers"], cpu["novelo"] / cpu["peers"]
    ok = max(ratios) <= MOST
    print(f"{'ok' if ok else 'short':24} {ratios[0]:7.2f} x  wall {ratios[1]:7.2f} x  CPU  (at most {MOST})")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
