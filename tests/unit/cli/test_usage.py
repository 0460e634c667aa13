"""What `novelo usage` prints."""

from __future__ import annotations

from decimal import Decimal

import pytest

from novelo import prices
from novelo.cli.usage import hint, money, priced, sparkline, table
from novelo.usage import Call, Ledger, Row, Sum


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1, 0, 4, 8], "▁·▄█"), ([], ""), ([5], "█"), ([0, 0], "··"), ([1, 10**9], "▁█")],
    ids=range(5),
)
def test_sparkline(values, expected):
    """Each bar is as high as its value against the largest; whatever is not 0 is seen."""
    assert sparkline(values) == expected


@pytest.mark.parametrize(
    ("cost", "expected"),
    [("0", "$0.00"), ("0.0000001", "$0.000001"), ("0.00235", "$0.00235"), ("0.5", "$0.50"), ("1234.567", "$1,234.57")],
)
def test_money(cost, expected):
    """Costs are readable at every size, and nothing that costs looks free."""
    assert money(Decimal(cost)) == expected
    assert money(Decimal(cost), lower_bound=True) == f"≥ {expected}"
    assert money(None, lower_bound=True) == "unknown"


def ledger(*models):
    """A call of each model."""
    return Ledger(Row("", "t", Call(model=model, input=1000, output=10, created=1.7e9)) for model in models)


def test_unknown_prices_are_told(monkeypatch):
    """The hint counts calls of unknown price, and says how to get a table, or whose price it lacks."""
    assert hint(ledger()) == ""
    monkeypatch.setattr(prices, "installed", lambda: False)
    assert hint(ledger("x", "y")).startswith("2 of 2 calls have an unknown price: pip install 'novelo[prices]'")
    monkeypatch.setattr(prices, "installed", lambda: True)
    assert hint(ledger("x", None, "y", "z", "x")).endswith("a model that was not named, x, y and 1 more")


def test_calls_made_before_the_table_was_there_are_priced():
    """A call without a stored cost is priced by its day; a stored cost is left alone."""
    pytest.importorskip("genai_prices")
    kept = Row("", "t", Call(model="gpt-4o", input=1000, cost=Decimal(7), prices="old"))
    found = priced(Ledger([*ledger("gpt-4o", "x"), kept]))
    assert found[0].call.cost > 0
    assert found[1].call.cost is None
    assert found[2] is kept
    assert hint(found).startswith("1 of 3 calls")


def test_the_table_has_a_row_for_each_key_and_one_for_all():
    """Every key has a row, and the last row is the total."""
    rows = table({"reply": Sum(calls=1), None: Sum(calls=2, estimated=1)}, "purpose", Sum(calls=3))
    assert list(rows.columns[0].cells) == ["reply", "-", "all"]
    assert list(rows.columns[1].cells) == ["1", "2", "3"]
    assert list(rows.columns[-1].cells) == ["", "1 estimated", ""]


def test_what_no_call_cost_is_not_unknown():
    """Without a call there is no cost to be known."""
    assert list(table({}, "purpose", Sum()).columns[5].cells) == [""]
