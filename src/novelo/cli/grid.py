"""A context as a picture: a grid of its tokens by category, and a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from novelo.cli.phrases import part
from novelo.context import Context
from novelo.context.summary import PLACE

if TYPE_CHECKING:
    from rich.console import RenderableType

COLUMNS, ROWS = 24, 6
STYLES = {
    "system": "magenta",
    "tools": "yellow",
    "passages": "cyan",
    "summary": "bright_magenta",
    "user": "green",
    "assistant": "blue",
    "tool": "bright_yellow",
    "free": "bright_black",
}


def categories(context: Context) -> dict[str, tuple[int, int]]:
    """Messages and tokens of each category, in the order in which they are sent."""
    parts = context.manifest.tokens
    out: dict[str, tuple[int, int]] = {}
    for entry in context.entries:
        name: str = "summary" if entry.position == PLACE else entry.message.role
        count, tokens = out.get(name, (0, 0))
        out[name] = (count + 1, tokens + max(0, entry.tokens))
    for name in ("tools", "passages"):
        if parts.get(name):
            out[name] = (0, parts[name])
    return {name: out[name] for name in STYLES if name in out}


def room(context: Context) -> int:
    """Tokens that the budget leaves free; 0 without a budget."""
    return max(0, context.manifest.tokens.get("budget", 0) - context.tokens)


def cells(context: Context) -> Iterator[str]:
    """The category of each cell of the grid; a category that is there has at least one."""
    found = [(name, tokens) for name, (_, tokens) in categories(context).items()]
    if room(context):
        found.append(("free", room(context)))
    whole = sum(tokens for _, tokens in found) or 1
    total = COLUMNS * ROWS
    given = [max(1, round(total * tokens / whole)) for _, tokens in found]
    while given and sum(given) > total:
        given[given.index(max(given))] -= 1
    for (name, _), number in zip(found, given, strict=True):
        yield from (name for _ in range(number))


def picture(context: Context, width: int = 80, lang: str = "en") -> RenderableType:
    """The grid beside the table; below each other where there is no room. Names are in the language."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Text()
    for i, name in enumerate(cells(context)):
        if i and i % COLUMNS == 0:
            grid.append("\n")
        grid.append("■" if name != "free" else "□", STYLES[name])
    table = Table(box=None, padding=(0, 1), show_edge=False)
    for column, right in (("", False), ("part", False), ("messages", True), ("tokens", True), ("", True)):
        table.add_column(part(column, lang), justify="right" if right else "left", no_wrap=True)
    whole = context.tokens + room(context) or 1
    for name, (count, tokens) in categories(context).items():
        table.add_row(
            Text("■", STYLES[name]), part(name, lang), str(count or ""), str(tokens), f"{100 * tokens / whole:.0f} %"
        )
    if room(context):
        table.add_row(
            Text("□", STYLES["free"]),
            part("free", lang),
            "",
            str(room(context)),
            f"{100 * room(context) / whole:.0f} %",
        )
    table.add_row("", part("sent", lang), str(len(context)), str(context.tokens), "", style="bold")
    return Columns([grid, table], padding=(0, 3)) if width >= 70 else Group(grid, table)
