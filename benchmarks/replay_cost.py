"""What a restored backup costs that must be masked again: the opening, a million characters, and the ledger's bytes.

1,000 threads of 20 messages say a number in a message, in the title and in the state; each is redacted by a pattern,
and the backup from before is opened with the vault as it is then. Below it the mask alone, over a text in which nothing
stands that it looks for. Figures, no demand.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import string
import tempfile
import time
from pathlib import Path

import novelo
from novelo.pattern import Piece
from novelo.stores.vaults.prints import Prints, fingerprints

THREADS, MESSAGES, CHARACTERS = 1000, 20, 1_000_000
KEY = b"a key of 32 bytes, for the bench"


def opened(folder: Path, key: bytes | None) -> novelo.Memory:
    """The memory with its vault."""
    return novelo.open(f"sqlite:///{folder}/chat.db", vault=f"sqlite:///{folder}/vault.db", key=key)


def restored(folder: Path, key: bytes | None) -> None:
    """Fill, copy, redact, restore, open."""
    with opened(folder, key) as memory:
        for n in range(THREADS):
            thread = memory.thread(f"t{n}")
            said = [f"message {k} of a conversation about an invoice" for k in range(MESSAGES - 1)]
            thread.append([{"role": "user", "content": text} for text in (*said, f"my number is {n:09d}-00")])
            thread.title, thread.state["number"] = f"On {n:09d}-00", f"{n:09d}-00"
    shutil.copy(folder / "chat.db", folder / "backup.db")
    with opened(folder, key) as memory:
        before = (folder / "vault.db").stat().st_size
        for n in range(THREADS):
            memory.thread(f"t{n}").redact(r"\d{9}-\d\d")
    size = ((folder / "vault.db").stat().st_size - before) / THREADS
    started = time.perf_counter()
    opened(folder, key).close()
    nothing = time.perf_counter() - started
    shutil.copy(folder / "backup.db", folder / "chat.db")
    started = time.perf_counter()
    with opened(folder, key) as memory:
        seconds = time.perf_counter() - started
        assert all(memory.thread(f"t{n}").title == "On [redacted]" for n in range(THREADS))
    print(
        f"{'encrypted' if key else 'plain'}: {THREADS} threads masked again in {seconds:.1f} s; {nothing:.2f} s where "
        f"they need not be; {size:.0f} bytes of the vault a redaction"
    )


def mask(count: int, lengths: range) -> None:
    """The mask over a long text and a short one."""
    draw = random.Random(1)
    text = "".join(draw.choices(string.ascii_lowercase + " ", k=CHARACTERS))
    found = [Piece("".join(draw.choices(string.ascii_uppercase, k=lengths[n % len(lengths)]))) for n in range(count)]
    packed = fingerprints(found, KEY)
    prints = Prints(packed, KEY)
    started = time.perf_counter()
    assert prints(text) is text
    long = time.perf_counter() - started
    started = time.perf_counter()
    for at in range(0, 100_000, 200):
        prints(text[at : at + 200])
    short = (time.perf_counter() - started) / 500
    print(
        f"{count} texts of {len(lengths)} lengths: {len(packed) / count:.0f} bytes each, a million characters in "
        f"{long:.2f} s, 200 characters in {short * 1e6:.0f} µs"
    )


def main() -> None:
    """Print the figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    logging.getLogger("novelo").setLevel(logging.ERROR)
    for key in (None, KEY):
        with tempfile.TemporaryDirectory() as folder:
            restored(Path(folder), key)
    for count, lengths in ((1, range(12, 13)), (100, range(8, 18)), (10_000, range(8, 48)), (1000, range(8, 1008))):
        mask(count, lengths)


if __name__ == "__main__":
    main()
