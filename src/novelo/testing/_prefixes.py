"""Prompt caching as providers do it: what a request shares with an earlier one, from its very beginning, is cheaper."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

STEP = 128  # tokens: OpenAI's grid


class PrefixCache:
    """The prefixes of earlier requests, each alive for a while after its last use.

    Example: least 1024, requests of 1000 + 500 and 1000 + 500 + 300 tokens -> the second one reads 1408 (1500 on the
    grid of 128); after the lifetime, or with another first message, it reads 0.
    """

    def __init__(self, least: int, lifetime_s: float, clock: Callable[[], float]) -> None:
        self._least = least
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._used: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def look(self, segments: Sequence[tuple[Any, int]], marks: Sequence[int] | None = None) -> tuple[int, int]:
        """Tokens that a request reads from the cache, and tokens that it writes into it; the request is remembered.

        Args:
            segments: what is sent, in order, each with its tokens: tools, system, messages.
            marks: places behind which the caller wants the cache written (Anthropic's `cache_control`); None caches by
                itself (OpenAI), where writing is free and not reported.
        """
        digests, sums = self._prefixes(segments)
        readable = len(segments) if marks is None else max(marks, default=-1) + 1
        with self._lock:
            now = self._clock()
            alive = [at for at in range(readable) if now - self._used.get(digests[at], -1e18) <= self._lifetime_s]
            read = sums[alive[-1]] if alive else 0
            for at in range(readable) if marks is None else [*marks, *alive[-1:]]:
                self._used[digests[at]] = now
        if marks is None:
            read = read // STEP * STEP
            return (read if read >= self._least else 0), 0
        read = read if read >= self._least else 0
        written = sums[readable - 1] if readable else 0
        return read, (written - read if written >= self._least else 0)

    @staticmethod
    def _prefixes(segments: Sequence[tuple[Any, int]]) -> tuple[list[bytes], list[int]]:
        """A digest and the tokens of each prefix."""
        digest, total = hashlib.sha256(), 0
        digests: list[bytes] = []
        sums: list[int] = []
        for value, tokens in segments:
            digest.update(json.dumps(value, sort_keys=True, default=str).encode() + b"\0")
            total += tokens
            digests.append(digest.digest())
            sums.append(total)
        return digests, sums
