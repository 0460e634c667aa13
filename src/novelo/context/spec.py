"""Policies as text: `strip_media + window:10turns,slack=5 + budget:8000>4000`.

    policy := stage (("+" | "|") stage)*
    stage := name [":" item ("," item)*]
    item := size | key "=" value | word

The same text comes back from `str(policy)`, stands in manifests, and is taken by the command line and the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from novelo.context.budget import Budget
from novelo.context.draft import Draft
from novelo.context.ends import DropOldest, Ends
from novelo.context.media import StripMedia
from novelo.context.recall import SHARE, TURNS, Recall
from novelo.context.redact import Redact
from novelo.context.sizes import Size, size
from novelo.context.summary import FLOOR, LEDGER, PROSE, Summarize, keep_of
from novelo.context.tools import ClearTools
from novelo.context.window import Window
from novelo.errors import InvalidSpec

Policy = Callable[[Draft], Any]


@dataclass(frozen=True)
class Buffer:
    """Everything, as it was said."""

    def __str__(self) -> str:
        return "buffer"

    def __call__(self, draft: Draft) -> Draft:
        """The draft itself."""
        return draft


@dataclass(frozen=True)
class Pipeline:
    """Policies one after the other; one that is a pipeline itself gives its stages.

    Raises:
        InvalidSpec: `recall` stands in it twice.
    """

    stages: tuple[Policy, ...]

    def __post_init__(self) -> None:
        flat = [inner for one in self.stages for inner in (one.stages if isinstance(one, Pipeline) else (one,))]
        object.__setattr__(self, "stages", tuple(flat))
        if sum(isinstance(stage, Recall) for stage in flat) > 1:
            raise InvalidSpec(
                f"policy {self}: recall stands in it more than once; one of them says how much comes back"
            )

    def __str__(self) -> str:
        return " + ".join(map(name_of, self.stages))

    def __call__(self, draft: Draft) -> Any:
        """The draft through all stages, in order."""
        for stage in self.stages:
            draft = stage(draft)
            if not isinstance(draft, Draft):
                raise InvalidSpec(
                    f"{name_of(stage)} gave {type(draft).__name__}, expected a Draft: use it through compose()"
                )
        return draft


def stages_of(policy: Policy) -> tuple[Policy, ...]:
    """The stages of a pipeline; a policy alone is its own stage."""
    return policy.stages if isinstance(policy, Pipeline) else (policy,)


def bounded(policy: Policy, tokens: int | None) -> Policy:
    """The policy with a budget behind it; itself where no ceiling is known."""
    return policy if tokens is None else Pipeline((*stages_of(policy), Budget(Size(tokens, "tokens"))))


def name_of(policy: Policy) -> str:
    """The name under which a policy stands in a manifest."""
    if isinstance(
        policy,
        (Buffer, Window, Budget, Ends, DropOldest, ClearTools, StripMedia, Redact, Summarize, Recall, Pipeline),
    ):
        return str(policy)
    return getattr(policy, "__name__", None) or type(policy).__name__


@dataclass(frozen=True)
class _Items:
    """The items of one stage: the size at its head, then keys and bare words; every one must be asked for."""

    stage: str
    head: str | None
    named: dict[str, list[str]]
    words: tuple[str, ...]

    def only(self, *keys: str, head: bool = True, words: bool = False) -> None:
        """Refuse what the stage does not know."""
        unknown = [k for k in self.named if k not in keys] + ([] if words else list(self.words))
        if unknown or (self.head is not None and not head):
            raise InvalidSpec(
                f"policy {self.stage!r}: does not know {', '.join(unknown) or self.head!r}; {USAGE[self.stage]}"
            )

    def text(self, key: str) -> str | None:
        """The value of a key, None if it is not there."""
        values = self.named.get(key)
        if values and len(values) > 1:
            raise InvalidSpec(f"policy {self.stage!r}: {key} stands twice")
        return values[0] if values else None

    def number(self, key: str, default: int) -> int:
        """The value of a key as a whole number."""
        value = self.text(key)
        if value is None:
            return default
        if not re.fullmatch(r"\d{1,12}", value):
            raise InvalidSpec(f"policy {self.stage!r}: {key}={value}: expected a whole number")
        return int(value)


USAGE = {
    "buffer": "use buffer",
    "window": "use window:10turns or window:5messages, with slack=5 for a cut that holds still",
    "budget": "use budget:8000, budget:8000,low=4000, or budget:80%,window=128000; reserve=1000 leaves room to reply",
    "ends": "use ends:first=1,last=3",
    "drop_oldest": "use drop_oldest:2messages",
    "summarize": "use summarize:20messages,keep=6 (messages, turns, tokens, or 80%,window=128000; a/b for either, "
    "a&b for both); form=single, size=400, facts=400, floor=50%, refuse",
    "recall": "use recall:6, recall:6,share=50% of a budget, or recall:6,tokens=2000",
    "clear_tools": "use clear_tools:keep=3",
    "strip_media": "use strip_media:keep=1turn",
    "redact": "use redact:secrets,cards,emails; the word question masks the newest question too",
}


def _buffer(items: _Items) -> Policy:
    items.only(head=False)
    return Buffer()


def _window(items: _Items) -> Policy:
    items.only("slack")
    return Window(_head(items, "messages", ("messages", "turns")), items.number("slack", 0))


def _budget(items: _Items) -> Policy:
    items.only("low", "reserve", "window")
    head, low = (items.head or ""), items.text("low")
    if ">" in head and low is None:
        head, low = (part.strip() for part in head.split(">", 1))
    high = size(head, "tokens", ("tokens", "%"), what="budget")
    mark = None if low is None else size(low, high.unit, ("tokens", "%"), what="budget low mark")
    return Budget(high, mark, items.number("reserve", 0), items.number("window", 0) or None)


def _ends(items: _Items) -> Policy:
    items.only("first", "last", head=False)
    first = size(items.text("first") or "1", "turns", ("turns",), least=0, what="ends first")
    return Ends(first.number, size(items.text("last") or "3", "messages", ("messages", "turns"), what="ends last"))


def _drop_oldest(items: _Items) -> Policy:
    items.only()
    return DropOldest(_head(items, "messages", ("messages", "turns")))


def _summarize(items: _Items) -> Policy:
    items.only("keep", "form", "size", "facts", "floor", "window", words=True)
    unknown = [w for w in items.words if w not in ("pair", "single", "refuse")]
    if unknown:
        raise InvalidSpec(f"policy 'summarize': does not know {', '.join(unknown)}; {USAGE['summarize']}")
    trigger = tuple(
        tuple(size(text.strip(), "messages", what="summarize trigger") for text in group.split("&"))
        for group in (items.head or "20messages").split("/")
    )
    form = items.text("form") or next((w for w in items.words if w != "refuse"), "pair")
    floor = size(items.text("floor") or FLOOR, "%", ("%",), least=0, what="summarize floor")
    return Summarize(
        trigger, keep_of(items.text("keep"), trigger), form, items.number("size", PROSE),
        items.number("facts", LEDGER), floor.number, "refuse" in items.words, items.number("window", 0) or None,
    )  # fmt: skip


def _recall(items: _Items) -> Policy:
    items.only("share", "tokens")
    head = size(items.head or str(TURNS), "turns", ("turns",), what="recall")
    share = size(items.text("share") or SHARE, "%", ("%",), what="recall share")
    return Recall(head.number, share, None if items.text("tokens") is None else items.number("tokens", 0))


def _clear_tools(items: _Items) -> Policy:
    items.only("keep", "exclude", head=False)
    return ClearTools(items.number("keep", 3), tuple(items.named.get("exclude", ())))


def _strip_media(items: _Items) -> Policy:
    items.only("keep", head=False)
    return StripMedia(size(items.text("keep") or "1", "turns", ("turns",), least=0, what="strip_media keep"))


def _redact(items: _Items) -> Policy:
    items.only("pattern", words=True)
    kinds = ((items.head,) if items.head else ()) + items.words
    question, kinds = "question" in kinds, tuple(k for k in kinds if k != "question")
    return Redact(
        kinds or (() if "pattern" in items.named else ("secrets",)), tuple(items.named.get("pattern", ())), question
    )


STAGES: dict[str, Callable[[_Items], Policy]] = {
    "buffer": _buffer,
    "window": _window,
    "budget": _budget,
    "ends": _ends,
    "drop_oldest": _drop_oldest,
    "summarize": _summarize,
    "recall": _recall,
    "clear_tools": _clear_tools,
    "strip_media": _strip_media,
    "redact": _redact,
}


def _head(items: _Items, default: str, units: tuple[str, ...]) -> Size:
    if items.head is None:
        raise InvalidSpec(f"policy {items.stage!r} wants a size; {USAGE[items.stage]}")
    return size(items.head, default, units, what=f"policy {items.stage!r} size")


def parse(value: Any) -> Policy:
    """A policy from a spec, a policy, a LangChain tuple, or a list of them (a pipeline).

    Raises:
        InvalidSpec: it makes no sense; the text says what would.
    Example: parse("window:10turns | budget:1500") -> window, then budget.
    """
    if isinstance(value, str):
        stages = [_stage(text) for text in re.split(r"[+|]", value)]
        return stages[0] if len(stages) == 1 else Pipeline(tuple(stages))
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and value[0] in ("messages", "turns", "tokens", "fraction")
    ):
        found = size(value, "messages", what="policy")
        return Budget(found) if found.unit in ("tokens", "%") else Window(found)
    if isinstance(value, Sequence) and value:
        return Pipeline(tuple(parse(one) for one in value))
    if callable(value) and not isinstance(value, type):
        policy: Policy = value
        return policy
    raise InvalidSpec(f"policy {value!r}: expected a text such as 'window:10turns', a policy, or a function")


def _stage(text: str) -> Policy:
    name, colon, rest = text.strip().partition(":")
    name = name.strip()
    if name not in STAGES:
        raise InvalidSpec(f"policy {text.strip()!r}: expected one of {', '.join(STAGES)}")
    head, named, words = None, {}, []  # type: ignore[var-annotated]
    if colon and not rest.strip():
        raise InvalidSpec(f"policy {text.strip()!r}: nothing behind the colon; {USAGE[name]}")
    for i, item in enumerate(rest.split(",") if rest else ()):
        key, equals, value = (part.strip() for part in item.partition("="))
        if equals:
            named.setdefault(key, []).append(value)
        elif i == 0:
            head = key
        elif key:
            words.append(key)
        else:
            raise InvalidSpec(f"policy {text.strip()!r}: an empty item; {USAGE[name]}")
    return STAGES[name](_Items(name, head, named, tuple(words)))
