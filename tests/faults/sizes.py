"""How much of a fault a test makes: the short form of every run, the demands' full numbers, or what somebody asks for.

`NOVELO_TEST_LONG=1` asks for the long form, `NOVELO_TEST_SIZES="T5.kills=300,T19.seconds=600"` for sizes by name.
Both are read when the tests are collected. What a test measured it prints, in a line that begins with its number
(`T5 direct: 150 kills, ...`): `benchmarks/faults/run.py` makes its table of these lines.
"""

from __future__ import annotations

import os

LONG = os.environ.get("NOVELO_TEST_LONG", "") not in ("", "0")
ASKED = dict(pair.split("=") for pair in os.environ.get("NOVELO_TEST_SIZES", "").split(",") if pair)


def size(name: str, short: int, long: int) -> int:
    """A size by its name, as asked for; else that of the form which is run.

    Example: `size("T5.kills", 40, 150)`.
    """
    return int(ASKED.get(name, long if LONG else short))
