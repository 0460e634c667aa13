"""Fingerprints of texts that a pattern masked: enough to find them again in a restored backup, not to read them.

A fingerprint is the length of a text and a keyed hash of it (BLAKE2b, 128 bits). The key is made from the secret of the
database, from the thread's key and, with encryption, from the thread's data key (`GuardedConnection.print_key`): in the
vault alone nobody can try out guesses, in the database alone there is nothing to try them on, and with the data key of
an erased thread its fingerprints become noise.

Hashing all windows of all lengths in a text would take a microsecond each. So a sum that is cheap to move along a text
(Karp and Rabin, 1987: "Efficient randomized pattern-matching algorithms") is compared first, over the beginning of each
window: 4, 8, 16 or `HEAD` characters, so that four passes serve all lengths. What is in the ledger of it are 16 bits,
hidden under the key like the rest: from sums in clear their base could be worked out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import accumulate, islice

import msgspec

from novelo.errors import StorageCorrupt
from novelo.pattern import MASK, NEAR, PAD, Piece

PRIME = 65521  # the largest one below 2^16: products stay small, so that sums are quick
HEAD = 32  # characters of a window that are summed, at most
TAG = 16  # bytes of a hash

Print = tuple[int, int, bytes, int]  # length of the window, characters beside the text, hash, hidden sum
_PACK = msgspec.msgpack.Encoder().encode
_UNPACK = msgspec.msgpack.Decoder(list[Print]).decode


def fingerprints(found: Iterable[Piece], key: bytes) -> bytes:
    """What the ledger notes of texts; their order tells nothing."""
    hashes = _Hashes(key)
    out = []
    for window, near in found:
        tag = hashes.tag(window)
        total = hashes.sums(window[: _head(len(window))])[-1]
        out.append((len(window), near, tag, total ^ hashes.veil(tag)))
    return _PACK(sorted(out))


class Prints:
    """A mask over the texts that some fingerprints are of; where some overlap, over all of them as one."""

    def __init__(self, packed: bytes, key: bytes) -> None:
        """From what the ledger notes.

        Raises:
            StorageCorrupt: it was altered.
        """
        self._hashes = _Hashes(key)
        self._wanted: dict[int, dict[int, dict[tuple[int, int], set[bytes]]]] = {}  # by head, and sum of it
        try:
            found = _UNPACK(packed)
        except msgspec.MsgspecError:
            found = [(0, 0, b"", 0)]
        if any(length <= 2 * near for length, near, *_ in found):
            raise StorageCorrupt("a note of the vault was altered outside of novelo: restore its backup")
        for length, near, tag, veiled in found:
            sums = self._wanted.setdefault(_head(length), {})
            windows = sums.setdefault(veiled ^ self._hashes.veil(tag), {})
            windows.setdefault((length, near), set()).add(tag)
        self._shortest = min((one[0] for one in found), default=1 << 62)

    def __call__(self, text: str) -> str:
        """The text with each of them masked; the same object if there is none. Linear in the text."""
        if len(text) + 2 * NEAR < self._shortest:
            return text
        out, done, last = list[str](), 0, -1
        for start, stop in sorted(self._spans(PAD + text + PAD)):
            start, stop = max(start - NEAR, 0), min(stop - NEAR, len(text))
            if stop <= last or start >= stop:
                continue
            if start >= last:  # not one that the last one reaches into
                out += (text[done:start], MASK)
            done = last = stop
        return "".join((*out, text[done:])) if out else text

    def _spans(self, padded: str) -> Iterator[tuple[int, int]]:
        """Where they stand in a text between two pads."""
        sums = self._hashes.sums(padded)
        for head, wanted in self._wanted.items():
            power = pow(self._hashes.base, head, PRIME)
            pairs = enumerate(zip(sums, islice(sums, head, None), strict=False))
            likely = [(at, found) for at, (a, b) in pairs if (found := (b - a * power) % PRIME) in wanted]
            for at, found in likely:
                for (length, near), tags in wanted[found].items():
                    if self._hashes.tag(padded[at : at + length]) in tags:
                        yield at + near, at + length - near


class _Hashes:
    """What is done with one key."""

    def __init__(self, key: bytes) -> None:
        self._tag = blake2b(key=key, digest_size=TAG, person=b"print")
        self._veil = blake2b(key=key, digest_size=2, person=b"veil")
        drawn = blake2b(key=key, digest_size=8, person=b"base").digest()
        self.base = 257 + int.from_bytes(drawn, "big") % (PRIME - 513)

    def tag(self, window: str) -> bytes:
        """The hash of a text."""
        made = self._tag.copy()
        made.update(window.encode("utf-8", "surrogatepass"))
        return made.digest()

    def veil(self, tag: bytes) -> int:
        """16 bits that hide the sum of a text with this hash."""
        made = self._veil.copy()
        made.update(tag)
        return int.from_bytes(made.digest(), "big")

    def sums(self, text: str) -> list[int]:
        """The sums over all beginnings of a text, the empty one first."""
        base = self.base
        return list(accumulate(map(ord, text), lambda total, code: (total * base + code) % PRIME, initial=0))


def _head(length: int) -> int:
    """How much of a window of a length is summed."""
    return min(HEAD, 1 << length.bit_length() - 1)
