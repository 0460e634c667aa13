"""Rules that hold in every store, without a database: keys of threads, leases, ranges."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from novelo.errors import InvalidSpec, LeaseLost, ThreadErased, TurnClosed, UnknownEntry
from novelo.stores.base import Job, Lease, NewEntry, ThreadRow

MAX_NAME = 1000  # characters of an owner or thread id
KEY_BYTES = 16

RETAKEN_S = 900.0  # after how long a job that nobody tries any more is taken up again, once it is asked for anew
LATE_S = 31.0  # how old a caller's moment may be when it is looked at: a writer waits up to 30 s for others
MAX_TOKENS = 1 << 40  # of one message: sums of them stay within 64 bits
STATUSES = ("active", "closed")
FACTS: dict[str, Any] = {
    "title": str, "tags": tuple[str, ...], "metadata": dict[str, Any], "state": dict[str, Any], "status": str,
    "patch": dict[str, Any], "without": str,
}  # fmt: skip
QUOTING = (
    "question",
    "passages",
    "retrieved",
)  # what a manifest may hold of what was said: in its own words, or in others'

Ranges = list[tuple[int, int]]


def forks_first(rows: Sequence[ThreadRow]) -> list[ThreadRow]:
    """Threads that go together, forks before what they come from: what both shared need not move to a fork first."""
    parents = {row.key: row.parent for row in rows}

    def depth(row: ThreadRow) -> int:
        steps, key = 0, row.parent
        while key in parents and steps < len(parents):  # a damaged file may go round in circles
            steps, key = steps + 1, parents[key]
        return steps

    return sorted(rows, key=depth, reverse=True)


def thread_key(secret: bytes, owner: str, thread_id: str, what: str = "thread id") -> bytes:
    """The thread's key: 16 bytes of a hash keyed with the store's secret, so that nobody can guess or forge one.

    Args:
        what: how the error names the id.
    Raises:
        InvalidSpec: an id that is empty, too long, or no text.
    """
    for kind, name, least in (("owner", owner, 0), (what, thread_id, 1)):
        if not isinstance(name, str) or not least <= len(name) <= MAX_NAME:
            size = f"{len(name)} characters" if isinstance(name, str) else type(name).__name__
            raise InvalidSpec(f"{kind} of {size}: expected a text of {least} to {MAX_NAME} characters")
    try:
        first = owner.encode()
        text = len(first).to_bytes(4, "big") + first + thread_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidSpec(f"owner or {what} with half a surrogate pair: expected well-formed text") from error
    return hmac.digest(secret, text, hashlib.sha256)[:KEY_BYTES]


def checked_key(key: str) -> None:
    """Refuse an idempotency key that cannot be stored.

    Raises:
        InvalidSpec: no text, empty, longer than 1000 characters, or with half a surrogate pair.
    """
    if not isinstance(key, str) or not 0 < len(key) <= MAX_NAME or not storable(key):
        raise InvalidSpec(f"idempotency key: expected a well-formed text of 1 to {MAX_NAME} characters")


def storable(text: str) -> bool:
    """Whether a text can be stored at all; one with half a surrogate pair is nobody's name, and found nowhere."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def checked_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a thread as data, tags as a tuple.

    Raises:
        InvalidSpec: an unknown fact, one of another type, or something that is no data.
    """
    unknown = set(facts) - set(FACTS)
    if unknown:
        raise InvalidSpec(f"unknown facts {', '.join(sorted(unknown))}: expected some of {', '.join(FACTS)}")
    if facts.get("status", "active") not in STATUSES:
        raise InvalidSpec(f"status {facts['status']!r}: expected {' or '.join(STATUSES)}")
    try:
        return {
            name: msgspec.json.decode(msgspec.json.encode(value), type=FACTS[name]) for name, value in facts.items()
        }
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSpec(f"{', '.join(facts)}: expected data of the right kind ({type(error).__name__})") from error


def tokens_of(entries: Sequence[NewEntry]) -> int:
    """The tokens of some entries together.

    Raises:
        InvalidSpec: one has less than none, or more than sums could hold.
    """
    for new in entries:
        if not 0 <= new.tokens <= MAX_TOKENS:
            raise InvalidSpec(f"a message of {new.tokens} tokens: expected 0 to {MAX_TOKENS}")
    return sum(new.tokens for new in entries)


def clamped(positions: Sequence[tuple[int, int]], head: int) -> Ranges:
    """What lies inside a thread of half-open ranges of positions, the empty ones left out."""
    inside = [(max(0, start), min(stop, head)) for start, stop in positions]
    return [piece for piece in inside if piece[0] < piece[1]]


def checked_positions(positions: Sequence[int], head: int) -> Sequence[int]:
    """The same positions.

    Raises:
        UnknownEntry: the thread does not have one of them.
    """
    for position in positions:
        if not 0 <= position < head:
            raise UnknownEntry(f"no entry {position} in a thread of {head}", id=position)
    return positions


def held(thread: ThreadRow, ttl_s: float, lease: Lease) -> bool:
    """Whether another writer may still be at work.

    A lease further ahead than its time to live comes from a wrong clock, one whose holder has died on this machine
    holds nothing, and one that its holder says it left neither: all are void. The epoch makes sure that a mistake here
    can cost an answer, never a history.

    Args:
        ttl_s: the time to live of the lease that stands in the thread's row, in seconds.
        lease: what the caller asks for.
    """
    if thread.lease_until <= lease.now or thread.open_turn is None:
        return False
    if thread.lease_until > lease.now + max(ttl_s, lease.ttl_s) + LATE_S:
        return False
    if lease.left == (thread.holder, thread.lease_until):
        return False
    return lease.alive is None or bool(lease.alive(thread.holder))


def takes_over(mode: str) -> bool:
    """Whether a rule for busy threads takes a live turn over."""
    return mode in ("interrupt", "rollback")


def free_job(job: Job, lease: Lease) -> bool:
    """Whether a job can be taken: nobody holds it, its lease lapsed or is further ahead than any lease, or is void."""
    if not job.holder or job.lease_until <= lease.now or job.lease_until > lease.now + lease.ttl_s + LATE_S:
        return True
    return lease.alive is not None and not lease.alive(job.holder)


def lost(thread: ThreadRow | None, key: bytes, epoch: int) -> LeaseLost | ThreadErased | TurnClosed:
    """The error for a writer whose turn is not the open one any more, or whose epoch is not the thread's."""
    if thread is None or thread.status == "erased":
        return ThreadErased("the thread was erased while this turn was open; nothing was stored")
    if thread.epoch == epoch:
        return TurnClosed("the turn is closed; nothing was stored")
    return LeaseLost(
        f"thread {key.hex()}: epoch {thread.epoch} has taken over, ours is {epoch}; nothing was stored, "
        "ask again with the same key",
        epoch=epoch,
        taken_by=thread.epoch,
    )


def without(old: Sequence[tuple[int, int]], gone: Sequence[tuple[int, int]]) -> Ranges:
    """Ranges less other ranges.

    Example: (0, 10) less (3, 5) -> (0, 3) (5, 10).
    """
    out = list(old)
    for start, stop in gone:
        out = [piece for a, b in out for piece in ((a, min(b, start)), (max(a, stop), b)) if piece[0] < piece[1]]
    return out


def merged(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Ranges in order, those that touch made one, the empty ones left out.

    Example: (5, 7) (0, 2) (2, 3) -> (0, 3) (5, 7).
    """
    out: Ranges = []
    for start, stop in sorted(piece for piece in ranges if piece[0] < piece[1]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(stop, out[-1][1]))
        else:
            out.append((start, stop))
    return out


def without_quotes(manifest: bytes) -> bytes:
    """A manifest (a JSON object) less what it quotes; one that may quote and cannot be read is emptied."""
    if not any(name.encode() in manifest for name in QUOTING):
        return manifest
    try:
        fields = msgspec.json.decode(manifest, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return b"{}"
    rest = {name: value for name, value in fields.items() if name not in QUOTING}
    return manifest if len(rest) == len(fields) else msgspec.json.encode(rest)


# ---------------------------------------------------------------------------------------------- removing
MAX_REASON = 200  # characters of a hold's reason, and of who and why in the audit
HOUR_MS = 3_600_000
OLDEST_HOURS = 31 * 24  # how far back limits in time look; what is older counts for those without one alone
PICO = Decimal(10) ** 12  # of a dollar


def owner_key(secret: bytes, owner: str) -> bytes:
    """What an owner is named by where the name must not stand: 16 bytes, and never the key of a thread."""
    return hmac.digest(secret, b"owner\0" + owner.encode("utf-8", "replace"), hashlib.sha256)[:KEY_BYTES]


def audit_key(secret: bytes) -> bytes:
    """What the chain of the audit is made with."""
    return hmac.digest(secret, b"audit", hashlib.sha256)


def chained(key: bytes, last: bytes, row: Sequence[Any]) -> bytes:
    """The link of an act: a hash over the link before it and all columns but itself."""
    return hmac.digest(key, bytes(last) + msgspec.msgpack.encode(list(row)), hashlib.sha256)


def checked_reason(reason: Any) -> str:
    """The reason of a hold.

    Raises:
        InvalidSpec: no text, or more than 200 characters.
    """
    if not isinstance(reason, str) or len(reason) > MAX_REASON or not storable(reason):
        raise InvalidSpec(f"reason of a hold: expected a well-formed text of at most {MAX_REASON} characters")
    return reason


def plain(text: str) -> str:
    """A short text as it can be stored anywhere."""
    return text[:MAX_REASON].encode("utf-8", "replace").decode().replace("\0", " ")


def by_hours(calls: Iterable[Sequence[Any]], now: float) -> dict[int, tuple[int, int, int]]:
    """Sums of a ledger by hours: the last moment (milliseconds), tokens, and cost in the 10^12th part of a dollar.

    An hour counts for a limit as long as its last call does. What no limit in time sees any more is hour 0.

    Args:
        calls: milliseconds, tokens, dollars as a text or None.
    """
    out: dict[int, tuple[int, int, int]] = {}
    oldest = int(now * 1000) // HOUR_MS - OLDEST_HOURS
    for created, tokens, cost in calls:
        hour = created // HOUR_MS
        hour = hour if hour >= oldest else 0
        last, sum_tokens, sum_cost = out.get(hour, (0, 0, 0))
        more = 0 if cost is None else int(Decimal(cost) * PICO)
        out[hour] = (max(last, created), sum_tokens + tokens, sum_cost + more)
    return out


def dollars(cost: int) -> Decimal:
    """US dollars from their 10^12th parts."""
    return Decimal(cost) / PICO
