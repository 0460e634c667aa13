"""How long conversations are kept: rules, and which thread is due by which of them. Pure: the moment is an argument.

    Retention(max_idle="90d")                          nobody has used the thread for ninety days
    Retention(max_age="2y", owner="acme")              made two years ago, of one owner
    Retention(max_idle="30d", tag="suporte", keep="summary")   its texts go, what its summary says of them stays
    Retention(closed="7d")                             closed a week ago; closed="0d" is delete on close

The same as a text, for the command line and a configuration file: "idle:90d", "age:2y,owner=acme",
"idle:30d,tag=suporte,keep=summary", "closed:0d", "idle:1d,thread=t-1". A rule takes a thread when *one* of its times
is over and *all* of its conditions hold; the first rule that takes a thread is the reason.

What no rule takes: a thread that is held, one whose turn is open, and, with keep="summary", what no summary covers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from novelo.errors import InvalidSpec

SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "mo": 2_592_000.0, "y": 31_536_000.0}
WORDS = {"second": "s", "sec": "s", "minute": "min", "hour": "h", "day": "d", "week": "w", "month": "mo", "year": "y"}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([a-z]+?)s?")
_TIMES = {"idle": "max_idle", "age": "max_age", "closed": "closed"}
_CONDITIONS = ("owner", "tag", "thread", "keep")
KEEP = ("nothing", "summary")


def duration(given: Any) -> float:
    """Seconds of a time: a number of seconds, or a number and s, min, h, d, w, mo (thirty days), y (365 days).

    Raises:
        InvalidSpec: none of these, or less than none.
    Example: "90d" -> 7776000.0; "1.5h" -> 5400.0.
    """
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given < 1e11:
        return float(given)
    match = _DURATION.fullmatch(given.strip().lower()) if isinstance(given, str) else None
    unit = "" if match is None else match[2] if match[2] in SECONDS else WORDS.get(match[2], "")
    if match is None and isinstance(given, str) and re.fullmatch(r"\d+(\.\d+)?s", given.strip()):
        return float(given.strip()[:-1])
    if match is None or not unit:
        raise InvalidSpec(f"duration {given!r}: expected a number with its unit, such as 30s, 12h, 90d, 2w, 6mo, 1y")
    return float(match[1]) * SECONDS[unit]


class Facts(msgspec.Struct, frozen=True):
    """What a rule looks at of a thread; moments in seconds since 1970.

    `closed` is when it was closed, None while it is not. `summary` is the version in use, 0 for none, `dropped` the one
    whose covered texts went, `expires` the thread's own term. `busy`: a turn is open and its lease holds.
    """

    owner: str
    thread_id: str
    tags: tuple[str, ...]
    created: float
    updated: float
    closed: float | None = None
    summary: int = 0
    dropped: int = 0
    expires: float | None = None
    busy: bool = False


class Due(msgspec.Struct, frozen=True):
    """A thread is due: by which rule, as a text, why (idle, age, closed, expires), and what is kept.

    `told` is the rule without names of people or threads, for the audit.
    """

    rule: str
    why: str
    keep: str = "nothing"
    told: str = ""


@dataclass(frozen=True)
class Retention:
    """One rule.

    Attributes:
        max_idle: how long nobody has used the thread: no turn, no message, no change.
        max_age: how long ago it was made, however much it is used.
        closed: how long ago it was closed; "0d" takes it with the next sweep.
        owner, tag, thread: only threads of this owner, with this tag, of this id; None is any.
        keep: "nothing", or "summary": the texts that the summary in use covers go, the summary and what it does not
            cover stay, and contexts go on with it. A thread without a summary is left alone.
    """

    max_idle: str | float | None = None
    max_age: str | float | None = None
    closed: str | float | None = None
    owner: str | None = None
    tag: str | None = None
    thread: str | None = None
    keep: str = "nothing"

    def __post_init__(self) -> None:
        if self.keep not in KEEP:
            raise InvalidSpec(f"keep={self.keep!r}: expected {' or '.join(KEEP)}")
        for name in (
            "owner",
            "tag",
            "thread",
        ):  # another kind of value would never take anything
            if not isinstance(getattr(self, name), str | None):
                raise InvalidSpec(f"{name} of a rule of retention: expected a text, or None for any")
        times = [duration(getattr(self, name)) for name in _TIMES.values() if getattr(self, name) is not None]
        if not times:
            raise InvalidSpec("a rule of retention without a time: give max_idle, max_age or closed, such as '90d'")

    def __str__(self) -> str:
        times = [
            f"{word}:{_text(getattr(self, name))}" for word, name in _TIMES.items() if getattr(self, name) is not None
        ]
        named = [
            f"{name}={getattr(self, name)}" for name in ("owner", "tag", "thread") if getattr(self, name) is not None
        ]
        return ",".join([*times, *named, *(["keep=summary"] if self.keep == "summary" else [])])

    @property
    def told(self) -> str:
        """The rule without the owner's name and the thread's id."""
        known = replace(self, owner=self.owner and "…", thread=self.thread and "…")
        return str(known)

    def span(self, name: str) -> float | None:
        """Seconds of max_idle, max_age or closed; None where there is no such time."""
        found = getattr(self, name)
        return None if found is None else duration(found)

    def takes(self, thread: Facts, now: float) -> str | None:
        """Why a thread is due by this rule; None: it is not.

        Example: max_idle="90d", last used 91 days ago -> "idle".
        """
        if self.owner not in (None, thread.owner) or self.thread not in (None, thread.thread_id):
            return None
        if self.tag is not None and self.tag not in thread.tags:
            return None
        if self.keep == "summary" and thread.summary in (0, thread.dropped):
            return None
        since = {"idle": thread.updated, "age": thread.created, "closed": thread.closed}
        for word, name in _TIMES.items():
            span, moment = self.span(name), since[word]
            if span is not None and moment is not None and moment <= now - span:
                return word
        return None


def _text(given: Any) -> str:
    return given if isinstance(given, str) else f"{given:g}s"


def due(rules: Iterable[Retention], thread: Facts, now: float) -> Due | None:
    """By which rule a thread is due, its own term before all rules; None: it stays."""
    if thread.busy:
        return None
    if thread.expires is not None and thread.expires <= now:
        return Due("its own term", "expires", told="its own term")
    for rule in rules:
        why = rule.takes(thread, now)
        if why is not None:
            return Due(str(rule), why, rule.keep, rule.told)
    return None


def reaches(rules: Iterable[Retention], now: float) -> tuple[float, float, bool]:
    """Threads last used, or made, before which moments a rule may take (0: none), and whether closed ones.

    What is outside of these need not be looked at.
    """
    idle = [now - span for rule in rules if (span := rule.span("max_idle")) is not None]
    age = [now - span for rule in rules if (span := rule.span("max_age")) is not None]
    return max(idle, default=0.0), max(age, default=0.0), any(rule.closed is not None for rule in rules)


def retention_of(given: Any) -> tuple[Retention, ...]:
    """Rules from rules, their texts, or several of them.

    Raises:
        InvalidSpec: a text that is none.
    Example: "idle:90d,tag=suporte,keep=summary" -> Retention(max_idle="90d", tag="suporte", keep="summary").
    """
    if given is None:
        return ()
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    return tuple(one if isinstance(one, Retention) else _rule(one) for one in several)


def _rule(text: Any) -> Retention:
    if not isinstance(text, str):
        raise InvalidSpec(f"a rule of retention: expected a text or a Retention, not {type(text).__name__}")
    named: dict[str, str] = {}
    for piece in text.split(","):
        name, sign, value = (
            (part.strip() for part in re.split(r"([:=])", piece.strip(), maxsplit=1))
            if re.search("[:=]", piece)
            else (piece, "", "")
        )
        field = _TIMES.get(name) if sign == ":" else name if name in _CONDITIONS and sign == "=" else None
        if field is None or not value or field in named:
            raise InvalidSpec(
                f"rule {text[:80]!r}: expected such as idle:90d, age:2y, closed:0d, "
                "with owner=..., tag=..., thread=..., keep=summary"
            )
        named[field] = value
    return Retention(**named)
