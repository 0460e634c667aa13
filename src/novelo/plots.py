"""A back-test as a picture: tokens of each request, what was spent so far, and the exact facts in reach."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

from novelo.errors import InvalidSpec, MissingExtra
from novelo.report import Report, Row

KINDS = (".svg", ".png", ".pdf")
# Okabe and Ito's colours, told apart with any colour vision; the dashes tell the lines apart in grey, too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2)))
WIDE = 8  # where one policy sends so many times as much as another, a linear axis would show nothing of the other
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dddddd",
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "svg.fonttype": "none",  # text stays text: small, sharp, found by a search
    "svg.hashsalt": "novelo",  # the same report gives the same bytes
}


def plot(report: Report, path: str | Path, title: str = "") -> Path:
    """Draw a report and write it to a file.

    Args:
        report: of `novelo.backtest`, with at least one request.
        path: ending in .svg, .png or .pdf.
        title: what was replayed; stands over the picture.
    Raises:
        InvalidSpec: another ending, or nothing to draw.
        MissingExtra: matplotlib is not installed.
    """
    target = Path(path)
    if target.suffix.lower() not in KINDS:
        raise InvalidSpec(f"plot {target.name!r}: expected a name that ends in {', '.join(KINDS)}")
    rows = [row for row in report.rows if row.requests]
    if not rows:
        raise InvalidSpec("plot: no policy made a request, there is nothing to draw")
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator
    except ImportError as error:
        raise MissingExtra("plots need matplotlib: pip install 'novelo[plot]'", extra="plot") from error
    with rc_context(STYLE):
        panels = _panels(report)
        figure = Figure(figsize=(8, 1.2 + 2.3 * len(panels)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axis, (name, unit, values) in zip(axes, panels, strict=True):
            _panel(axis, name, unit, [(row, values(row)) for row in rows], LogLocator)
        axes[-1].set_xlabel("request (a call of the model for a reply)")
        axes[-1].set_xlim(1, max(row.requests for row in rows) + 0.5)
        columns = 2 if max(len(row.policy) for row in rows) > 24 else 3
        named = axes[0].get_legend_handles_labels()
        figure.legend(*named, loc="outside upper left", ncols=columns, frameon=False, title=title, alignment="left")
        made = {"metadata": {"Date": None}} if target.suffix.lower() == ".svg" else {"dpi": 150}
        figure.savefig(target, **made)
    return target


def _panels(report: Report) -> list[tuple[str, str, Callable[[Row], list[float]]]]:
    """What is drawn: title, unit, and the values of a row."""
    panels: list[tuple[str, str, Callable[[Row], list[float]]]] = [
        ("Sent in each request", "tokens", lambda row: [float(n) for n in row.series.tokens]),
    ]
    if report.prices is not None:
        panels.append(("Spent so far, replies included", "US dollars", lambda row: list(accumulate(row.series.cost))))
    else:
        unit = "billed tokens"
        panels.append(("Billed so far, at the cached price", unit, lambda row: list(accumulate(row.series.billed))))
    if any(row.series.facts for row in report.rows):
        panels.append(("Exact facts in reach", "% of those said", lambda row: [100 * f for f in row.series.facts]))
    return panels


def _panel(axis: Any, name: str, unit: str, lines: list[tuple[Row, list[float]]], locator: Any) -> None:
    """One panel: a line for each policy; whole numbers with separators."""
    for i, (row, values) in enumerate(lines):
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i % len(DASHES)]}
        axis.plot(range(1, len(values) + 1), values, label=row.policy, linewidth=1.6, **style)
    axis.set_title(name)
    tops = [max(values) for _, values in lines if values]
    if unit == "tokens" and max(tops) > WIDE * min(tops):
        axis.set_yscale("log", subs=())
        axis.yaxis.set_major_locator(locator(subs=(1.0, 2.0, 5.0)))
        unit = "tokens (log scale)"
    else:
        axis.set_ylim(bottom=0)
    axis.set_ylabel(unit)
    axis.yaxis.set_major_formatter(_thousands if axis.get_ylim()[1] >= 1000 else _plain)


def _thousands(value: float, _place: int) -> str:
    return f"{value:,.0f}"


def _plain(value: float, _place: int) -> str:
    return f"{value:g}"
