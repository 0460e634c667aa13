"""Costs come from the dated table, in Decimal; what it does not know is unknown."""

from __future__ import annotations

import random
import socket
import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from novelo import prices
from novelo.messages import Usage
from novelo.usage import Call

genai_prices = pytest.importorskip("genai_prices")
snapshot = pytest.importorskip("genai_prices.data_snapshot")
types = pytest.importorskip("genai_prices.types")

DAY = datetime(2026, 11, 1, tzinfo=UTC)
D = Decimal


@pytest.fixture
def table(monkeypatch):
    """A table of our own with one provider, so that the sums do not change with the market."""

    def model(name, window=None, variants=None, **rates):
        return types.ModelInfo(
            id=name,
            match=types.ClauseEquals(equals=name),
            context_window=window,
            prices=types.ModelPrice(**{f"{kind}_mtok": rate for kind, rate in rates.items()}),
            price_variants=variants,
        )

    tiered = types.TieredPrices(base=D(3), tiers=[types.Tier(start=200_000, price=D(6))])
    fast = types.PriceVariant(when={"speed": "fast"}, prices=types.ModelPrice(input_mtok=D(12)))
    models = [
        model("m-1", 128_000, input=D(3), cache_read=D("0.3"), output=D(15)),
        model("m-write", input=D(3), cache_read=D("0.3"), cache_write=D("3.75"), cache_write_1h=D(6), output=D(15)),
        model("m-tier", input=tiered, output=D(15)),
        model("m-thought", input=D(1), output=D(2), output_reasoning=D(4)),
        model("m-fast", variants=[fast], input=D(3), output=D(15)),
        model("m-big", input=D(30), output=D(150)),
        model("m-in", input=D(1)),
        model("m-audio", input=D(1), input_audio=D(10), output=D(2)),
        model("m-nothing"),
    ]
    models[0].prices = [
        types.ConditionalPrice(prices=models[0].prices),
        types.ConditionalPrice(
            constraint=types.StartDateConstraint(start_date=datetime(2026, 6, 1).date()),
            prices=types.ModelPrice(input_mtok=D(2), cache_read_mtok=D("0.2"), output_mtok=D(10)),
        ),
    ]
    match = types.ClauseStartsWith(starts_with="m-")
    provider = types.Provider(id="someone", name="Someone", api_pattern="x", model_match=match, models=models)
    found = snapshot.DataSnapshot(providers=[provider], from_auto_update=False)
    monkeypatch.setattr(snapshot, "_custom_snapshot", found)
    return found


def cost(model, moment=DAY, **counts):
    """The cost of a call with these counts."""
    return prices.cost_of(Call(model=model, **counts), None, moment).cost


def test_cached_input_has_its_own_price(table):
    """Of 2000 input tokens 1800 are cached: those cost the cached price, 200 the full one."""
    assert cost("m-1", input=2000, cache_read=1800, output=12) == (200 * D(2) + 1800 * D("0.2") + 12 * D(10)) / 10**6


def test_cache_writes_by_lifetime(table):
    """What is written for an hour costs more than for five minutes; both are part of the input."""
    raw = {"cache_creation_input_tokens": 500, "cache_creation": {"ephemeral_1h_input_tokens": 400}}
    expected = (100 * D(3) + 400 * D("0.3") + 100 * D("3.75") + 400 * D(6) + 10 * D(15)) / 10**6
    assert cost("m-write", input=1000, cache_read=400, cache_write=500, output=10, raw=raw) == expected
    unsaid = (100 * D(3) + 400 * D("0.3") + 500 * D("3.75") + 10 * D(15)) / 10**6
    assert cost("m-write", input=1000, cache_read=400, cache_write=500, output=10) == unsaid


def test_kinds_without_a_price_count_with_what_they_are_part_of(table):
    """Cached and written tokens of a model without cache prices cost what input does, thoughts what output does."""
    assert cost("m-big", input=100, cache_read=50, cache_write=50, output=10, reasoning=5) == D("0.0045")
    assert cost("m-thought", input=0, output=10, reasoning=6) == (4 * D(2) + 6 * D(4)) / 10**6


def test_a_long_context_costs_more_by_the_token(table):
    """A tier holds for all tokens of a context that reaches it."""
    assert cost("m-tier", input=200_000) == D("0.6")
    assert cost("m-tier", input=200_001) == D(6) * 200_001 / 10**6


def test_passes_are_priced_by_themselves(table):
    """Each pass has the tier of its own context, an advisor's the price of its own model."""

    def a_pass(kind, read, wrote, **more):
        return {"type": kind, "input_tokens": read, "output_tokens": wrote, **more}

    listed = [a_pass("compaction", 150_000, 0), a_pass("message", 100_000, 0)]
    raw = {"input_tokens": 100_000, "output_tokens": 0, "iterations": listed}
    assert cost("m-tier", input=250_000, raw=raw) == D("0.75")
    listed = [a_pass("message", 100, 10), a_pass("advisor_message", 100, 10, model="m-big")]
    raw = {"input_tokens": 100, "output_tokens": 10, "iterations": listed}
    assert cost("m-tier", input=200, output=20, raw=raw) == (100 * D(33) + 10 * D(165)) / 10**6
    listed[1]["model"] = "nobody-knows"
    assert cost("m-tier", input=200, output=20, raw=raw) is None


def test_the_price_of_that_day(table):
    """A call is priced as of when it was made; a moment may be a date or seconds, and defaults to the call's own."""
    before = datetime(2026, 5, 1, tzinfo=UTC)
    assert cost("m-1", before, input=10**6) == 3
    assert cost("m-1", before.timestamp(), input=10**6) == 3
    assert cost("m-1", None, input=10**6, created=before.timestamp()) == 3
    assert cost("m-1", None, input=10**6) == 2


def test_audio_and_speed(table):
    """Audio tokens and fast service have prices of their own."""
    heard = {"prompt_tokens_details": {"audio_tokens": 60}}
    assert cost("m-audio", input=100, output=10, raw=heard) == (40 * D(1) + 60 * D(10) + 10 * D(2)) / 10**6
    assert cost("m-audio", input=100, output=10) == (100 * D(1) + 10 * D(2)) / 10**6
    assert cost("m-fast", input=10**6, raw={"speed": "fast"}) == 12
    assert cost("m-fast", input=10**6, raw={"speed": "standard"}) == 3


@pytest.mark.parametrize(
    "call",
    [
        Call(model="m-unheard-of", input=5, output=5),
        Call(model="x", input=5, output=5),
        Call(model=None, input=5, output=5),
        Call(model="", input=5, output=5),
        Call(model="m-nothing", input=5, output=5),
        Call(model="m-in", input=5, output=5),
        Call(model="m-1"),
        Call(model="m-1", input=5, raw={"server_tool_use": {"web_search_requests": 2}}),
        Call(
            model="m-1",
            input=5,
            raw={"iterations": 7, "server_tool_use": 3, "prompt_tokens_details": "x"},
            created=1e20,
        ),
    ],
    ids=range(9),
)
def test_what_is_unknown_is_not_zero(table, call):
    """A model or kind of token without a price, or a call without tokens, costs None and names no table."""
    found = prices.cost_of(call)
    assert (found.cost, found.prices) == (None, "")


def test_an_earlier_cost_is_not_kept_where_the_price_is_unknown(table):
    """A call that is priced again says what the table says now, also when that is nothing."""
    found = prices.cost_of(Call(model="x", input=5, cost=D(1), prices="old"))
    assert (found.cost, found.prices) == (None, "")


def test_the_offline_model_is_free():
    """Nobody bills the built-in model."""
    assert prices.cost_of(Call(model="offline", input=5, output=5)).cost == 0


def test_without_the_package_everything_is_unknown(monkeypatch):
    """Costs, windows and prices are None, and nothing is raised."""
    monkeypatch.setattr(prices, "_absent", True)
    assert prices.cost_of(Call(model="gpt-4o", input=5, output=5)).cost is None
    assert prices.window_of("gpt-4o") is prices.price_per_million("gpt-4o") is prices.provider_of("gpt-4o") is None
    assert (prices.installed(), prices.version()) == (False, "")


def test_no_network(monkeypatch):
    """The table is the one that came with the package; nothing connects anywhere for it."""

    def refuse(*_):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    found = prices.cost_of(Call(model="gpt-4o", input=1000, output=100), None, DAY)
    assert found.cost > 0
    assert found.prices == prices.version() == f"genai-prices {genai_prices.__version__}"


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("gpt-4o-mini-2024-07-18", "openai", "gpt-4o-mini"),
        ("openai:gpt-4o", "openai", "gpt-4o"),
        ("openai/gpt-4o", "openai", "gpt-4o"),
        ("langchain:anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("models/gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("google_genai:gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws", None),
        ("openrouter/meta-llama/llama-3.3-70b-instruct", "openrouter", None),
    ],
)
def test_names_of_models(name, provider, model):
    """A model is found under the names that providers, LangChain and gateways give it."""
    found = prices._find(name, None)
    assert found[0].id == provider == prices.provider_of(name)
    assert model is None or found[1].id == model


@pytest.mark.parametrize(
    "name",
    ["Qwen/Qwen3-8B", "meta-llama/Llama-3.3-70B-Instruct", "deepseek-r1:8b", "llama3.2:latest", "a.gguf", "gpt-x"],
)
def test_models_of_ones_own_have_no_price(name):
    """A model that runs at home is not given the price of a provider that serves it too."""
    assert prices.cost_of(Call(model=name, input=1000, output=100)).cost is None


def test_windows_and_prices_for_a_million(table):
    """The window and the prices of short contexts; a kind without a price costs what input does."""
    assert (prices.window_of("m-1"), prices.window_of("m-big"), prices.window_of("x")) == (128_000, None, None)
    assert prices.price_per_million("m-1", moment=DAY) == (D(2), D("0.2"), D(2), D(10))
    assert prices.price_per_million("m-tier") == (D(3), D(3), D(3), D(15))
    assert prices.price_per_million("m-in") is prices.price_per_million("x") is None


def test_the_sums_are_those_of_the_package():
    """For every model of the table that has a price our sum is the package's own, to the last digit."""
    chance = random.Random(1)
    table, compared = snapshot.get_snapshot(), 0
    for provider in table.providers:
        for model in provider.models:
            try:
                found = table.find_provider_model(model.id, None, provider.id, None)
            except LookupError:
                continue
            read, written, length = chance.randrange(40_000), chance.randrange(40_000), chance.choice((90_000, 250_000))
            told = {"cache_creation": {"ephemeral_1h_input_tokens": written // 2}, "cache_read_input_tokens": read}
            raw = {"input_tokens": length - read - written, "cache_creation_input_tokens": written, **told}
            ours = prices.cost_of(Call("reply", model.id, length, 500, read, written, 200, raw=raw), provider.id, DAY)
            if ours.cost is None:
                continue
            counts = genai_prices.Usage(
                input_tokens=length,
                cache_read_tokens=read,
                cache_write_tokens=written,
                cache_write_1h_tokens=written // 2,
                output_tokens=500,
                output_reasoning_tokens=200,
            )
            assert ours.cost == found[1].calc_price(counts, found[0], genai_request_timestamp=DAY).total_price, model.id
            compared += 1
    assert compared > 1000


def test_it_is_fast():
    """After the first one a call is priced in far less time than a write takes."""
    call = Call(model="claude-sonnet-4-5", input=1000, output=100, cache_read=800)
    prices.cost_of(call, None, DAY)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(200):
            prices.cost_of(call, None, DAY)
        times.append((time.perf_counter() - began) / 200)
    assert min(times) < 0.000_1  # 0.01 ms here; the limit leaves room for a slow machine


def test_usage_objects_are_enough():
    """A call made from a usage without a raw report is priced too."""
    usage = Usage(100, 10)
    assert prices.cost_of(Call("reply", "gpt-4o", usage.input, usage.output), "openai", DAY).cost > 0
