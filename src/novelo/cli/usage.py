"""`novelo usage`: what was spent, by purpose, model, thread, owner, day or turn."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from novelo import prices
from novelo.cli.common import console, find_thread, open_database, print_json, say
from novelo.usage import Call, Ledger, Row, Sum

if TYPE_CHECKING:
    from rich.table import Table

BARS = "▁▂▃▄▅▆▇█"
NOTHING = "·"
ROOM = 60  # places of a sparkline


class By(StrEnum):
    """What the sums are made by."""

    purpose = "purpose"
    model = "model"
    thread = "thread"
    owner = "owner"
    day = "day"
    turn = "turn"
    call = "call"


def usage(
    thread_id: Annotated[str | None, typer.Argument(help="A thread's id; all threads without one.")] = None,
    database: Annotated[
        str | None, typer.Option("-d", "--database", help="A file, or an address such as sqlite:///chat.db.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Only this owner's.")] = None,
    by: Annotated[By, typer.Option(help="What the sums are made by; `call` lists every one.")] = By.purpose,
    days: Annotated[int | None, typer.Option(min=1, help="Only the last so many days, today included.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show what was spent: tokens, how much of them was cached, what they cost, and how long it took.

    Example: novelo usage --by day --days 30
    """
    with open_database(database, must_exist=True) as memory:
        thread = None if thread_id is None else find_thread(memory, thread_id, owner or "")
        ledger = memory.usage(owner) if thread is None else thread.usage().rows
        turns = {} if thread is None else {turn.first: i for i, turn in enumerate(thread.turns(10**9), 1)}
    ledger = priced(ledger if days is None else ledger.since(_midnight(days)))
    if as_json:
        return print_json(_data(ledger, by))
    out = console()
    if by is By.call:
        out.print(_calls(ledger))
    else:
        names = _numbered(ledger.by(by, zone=None), turns) if by is By.turn else ledger.by(by, zone=None)
        out.print(table(names, by, ledger.total))
    if ledger:
        out.print(_line(ledger, by_turn=thread is not None), markup=False)
    else:
        say("no call of a model is in the ledger")
    if told := hint(ledger):
        say(told)


def priced(ledger: Ledger) -> Ledger:
    """The ledger with costs also for calls that were made without a price table; the table knows past days."""
    return Ledger(
        row if row.call.cost is not None else Row(row.owner, row.thread_id, prices.cost_of(row.call)) for row in ledger
    )


def hint(ledger: Ledger) -> str:
    """Whose price is unknown and what to do about it; "" if every price is known."""
    unknown = [row.call for row in ledger if row.call.cost is None]
    if not unknown:
        return ""
    told = f"{len(unknown)} of {len(ledger)} calls have an unknown price"
    if not prices.installed():
        return f"{told}: pip install 'novelo[prices]' brings a table of prices"
    names = sorted({call.model or "a model that was not named" for call in unknown})
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{told}: {prices.version()} does not know {', '.join(names[:3])}{more}"


def table(sums: Mapping[Any, Sum], what: str, total: Sum) -> Table:
    """Sums for people, the last row is all."""
    from rich.table import Table

    out = Table(box=None, padding=(0, 1))
    for name in (what, "calls", "input", "cached", "output", "cost", "latency", "first token", ""):
        out.add_column(name, justify="left" if name in (what, "") else "right", overflow="fold")
    for key, value in sums.items():
        out.add_row(_label(key), *_cells(value))
    out.add_row("all", *_cells(total), style="bold")
    return out


def sparkline(values: Sequence[int]) -> str:
    """A bar for each value, as high as it is against the largest; 0 is a dot.

    Example: [1, 0, 4, 8] -> "▁·▄█".
    """
    top = max(values, default=0)
    return "".join(BARS[max(0, -(-value * len(BARS) // top) - 1)] if value else NOTHING for value in values)


# -------------------------------------------------------------------------------------------------- parts
def _label(key: Any) -> str:
    if isinstance(key, tuple):
        return " ".join(str(part) for part in key if part not in ("", None))
    return "-" if key in (None, "") else str(key)


def _numbered(sums: Mapping[Any, Sum], turns: Mapping[int, int]) -> dict[Any, Sum]:
    """Sums by turn, in one thread by the turn's number; what was done between turns has none."""
    if not turns:
        return {(owner, name, "between turns" if at is None else f"#{at}"): s for (owner, name, at), s in sums.items()}
    return {"between turns" if at is None else turns.get(at, f"#{at}"): value for (_, _, at), value in sums.items()}


def _cells(value: Sum) -> Iterator[str]:
    yield f"{value.calls:,}"
    yield f"{value.input:,}"
    yield f"{value.cached_share:.0%}" if value.cache_read else ""
    yield f"{value.output:,}"
    yield money(value.cost, lower_bound=value.unpriced > 0) if value.calls else ""
    yield _seconds(value.latency_s)
    yield _seconds(value.first_token_s)
    yield f"{value.estimated} estimated" if value.estimated else ""


def money(cost: Decimal | None, *, lower_bound: bool = False) -> str:
    """US dollars: to the cent from a dollar on, below it to the millionth, rounded up so that nothing looks free."""
    if cost is None:
        return "unknown"
    places = Decimal("0.01") if cost >= 1 or not cost else Decimal("0.000001")
    text = f"{cost.quantize(places, ROUND_CEILING):,f}"
    whole, _, cents = text.partition(".")
    return f"{'≥ ' if lower_bound else ''}${whole}.{cents.rstrip('0').ljust(2, '0')}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s" if value >= 0.95 else f"{value * 1000:.0f} ms"


def _calls(ledger: Ledger) -> Table:
    from rich.table import Table

    out = Table(box=None, padding=(0, 1))
    right = ("input", "cached", "output", "cost", "latency")
    for name in ("when", "thread", "purpose", "model", *right, ""):
        out.add_column(name, justify="right" if name in right else "left", overflow="fold", no_wrap=name == "when")
    for _, name, call in ledger:
        when = datetime.datetime.fromtimestamp(call.created).strftime("%Y-%m-%d %H:%M")
        counts = (f"{count:,}" for count in (call.input, call.cache_read, call.output))
        notes = "estimated" if call.estimated else ""
        cost, latency = money(call.cost), _seconds(call.latency_s)
        out.add_row(when, name, call.purpose, call.model or "", *counts, cost, latency, notes)
    return out


def _line(ledger: Ledger, *, by_turn: bool) -> str:
    """Tokens a turn of one thread, or a day of all."""
    if by_turn:
        counts = [value.tokens for (_, _, turn), value in ledger.by("turn").items() if turn is not None][-ROOM:]
        return f"tokens a turn  {sparkline(counts)}  most {max(counts):,}" if counts else ""
    found = {day: value.tokens for day, value in ledger.by("day", zone=None).items()}
    last = datetime.date.fromisoformat(max(found))
    first = max(datetime.date.fromisoformat(min(found)), last - datetime.timedelta(days=ROOM - 1))
    dates = [first + datetime.timedelta(days=i) for i in range((last - first).days + 1)]
    counts = [found.get(day.isoformat(), 0) for day in dates]
    return f"tokens a day  {first} {sparkline(counts)} {last}  most {max(counts):,}"


def _data(ledger: Ledger, by: By) -> dict[str, Any]:
    if by is By.call:
        rows: list[dict[str, Any]] = [_call(*row) for row in ledger]
    else:
        rows = [{**_key(by, key), **_facts(value)} for key, value in ledger.by(by, zone=None).items()]
    table = prices.version() or None
    return {"by": by.value, "rows": rows, "total": _facts(ledger.total), "prices": table}


def _call(owner: str, thread_id: str, call: Call) -> dict[str, Any]:
    return {"owner": owner, "thread_id": thread_id, **{name: getattr(call, name) for name in Call.__struct_fields__}}


def _key(by: By, key: Any) -> dict[str, Any]:
    names = {By.thread: ("owner", "thread_id"), By.turn: ("owner", "thread_id", "turn")}.get(by, (by.value,))
    return dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True))


def _facts(value: Sum) -> dict[str, Any]:
    return {**msgspec.structs.asdict(value), "cached_share": round(value.cached_share, 4)}


def _midnight(days: int) -> float:
    """When the first of the last so many days began, here."""
    today = datetime.datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    return (today - datetime.timedelta(days=min(days, 100_000) - 1)).timestamp()
