"""What a call costs, and how large a model's context window is, from the dated table of genai-prices.

The table comes with the package: nothing is asked over the network. A model that it does not name has an unknown cost,
which is None and never zero. Without the package everything is unknown.

    pip install 'novelo[prices]'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from novelo.formats.reply import Pass, long_writes, passes
from novelo.messages import Usage
from novelo.usage import Call

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, Provider

FREE = frozenset({"offline"})  # our own model without weights: nobody bills it, so its price is known
MTOK = 1_000_000
# Names of hosts before a model's id: "us.anthropic.claude-…" is Bedrock's way, "models/gemini-…" Google's.
_BEDROCK = re.compile(
    r"(?:(?:us|eu|apac|global|us-gov|jp|au|ca)\.)?(?:anthropic|amazon|meta|cohere|mistral|ai21|deepseek)\."
)
_GOOGLE = re.compile(r"(?:publishers/google/)?models/")
# Ollama's tags and files of weights: run on somebody's own machine, whatever provider has a model of that name.
_OWN = re.compile(r":(?:\d+x)?\d+(?:\.\d+)?[bm](?:-|$)|:latest$|\.gguf$", re.I)
_LANGCHAIN = {  # its names of providers -> the table's
    "azure_openai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "google_genai": "google",
    "google_vertexai": "google",
    "mistralai": "mistral",
    "xai": "x-ai",
}


class PerMillion(NamedTuple):
    """Prices in US dollars for a million tokens."""

    input: Decimal
    cached: Decimal
    cache_write: Decimal
    output: Decimal


class _Rates(NamedTuple):
    """Prices of one model at one time, by kind of token; a pair (base, tiers) each; None where the table has none."""

    input: _Price | None
    cache_read: _Price | None
    cache_write: _Price | None
    cache_write_1h: _Price | None
    output: _Price | None
    reasoning: _Price | None
    request: Decimal  # for a call, however long
    search: Decimal | None  # for a search of the web by the provider
    audio: bool  # audio has a price of its own


_Price = tuple[Decimal, tuple[tuple[int, Decimal], ...]]


def installed() -> bool:
    """Whether there is a price table."""
    return _snapshot() is not None


def version() -> str:
    """Which table: the package and its version, with the day if it was updated at run time; "" without one."""
    snapshot = _snapshot()
    if snapshot is None:
        return ""
    import genai_prices

    named = f"genai-prices {genai_prices.__version__}"
    return f"{named} of {snapshot.timestamp:%Y-%m-%d}" if snapshot.from_auto_update else named


def cost_of(call: Call, provider: str | None = None, moment: datetime | float | None = None) -> Call:
    """The call with its cost and the version of the table; unchanged but for cost None where the price is unknown.

    Every pass of a call is priced by itself, with its own model's price where it names one: a price may rise with the
    length of the context, and that is a pass's.

    Args:
        call: as the ledger has it.
        provider: who served it, such as "openai" or "azure"; None is told from the model's name.
        moment: when, as a date or in seconds since 1970; prices change. None is when the call was made, or now.
    """
    try:
        cost = _cost(call, provider, _moment(call.created or None if moment is None else moment))
    except Exception:  # a ledger without a cost is worth more than a turn that fails for its price
        cost = None
    if cost is None:
        return call if call.cost is None and not call.prices else msgspec.structs.replace(call, cost=None, prices="")
    return msgspec.structs.replace(call, cost=cost, prices=version())


def window_of(model: str | None, provider: str | None = None) -> int | None:
    """Tokens of a model's context window; None if the table does not say."""
    try:
        found = _find(model, provider)
    except Exception:
        return None
    return None if found is None else found[1].context_window


def price_per_million(
    model: str | None, provider: str | None = None, moment: datetime | float | None = None
) -> PerMillion | None:
    """Prices of short contexts for a million tokens: input, cached input, cache writes, output; None if unknown.

    What has no price of its own among cached input and cache writes costs what input does.
    """
    try:
        rates = _rates_of(model, provider, _moment(moment))
    except Exception:
        return None
    if rates is None or rates.input is None or rates.output is None:
        return None
    read, write = rates.cache_read or rates.input, rates.cache_write or rates.input
    return PerMillion(rates.input[0], read[0], write[0], rates.output[0])


def provider_of(model: str | None) -> str | None:
    """The provider as the table names it, told from a model's name; None if unknown."""
    try:
        found = _find(model, None)
    except Exception:
        return None
    return None if found is None else found[0].id


# -------------------------------------------------------------------------------------------------- the sum
def _cost(call: Call, provider: str | None, moment: datetime) -> Decimal | None:
    if call.model in FREE:
        return Decimal(0)
    if not call.input and not call.output:
        return None
    special, searches = _special(call.raw), _searches(call.raw)
    rates = _rates_of(call.model, provider, moment, special)
    if rates is None or (searches and rates.search is None):
        return None
    cost = rates.request + searches * (rates.search or 0)
    for one in _passes(call):
        there = rates if one.model is None else _rates_of(one.model, provider, moment, special)
        if there is None:
            return None
        heard = there.audio and any(_audio(one.usage.raw))
        spent = _modal(call, provider, moment) if heard else _spent(one, there)
        if spent is None:
            return None
        cost += spent
    return cost


def _passes(call: Call) -> Iterable[Pass]:
    if "iterations" in call.raw:
        return passes(call.raw)
    usage = Usage(call.input, call.output, call.cache_read, call.cache_write, call.reasoning, call.raw)
    return (Pass("message", usage, long_writes(call.raw) if call.cache_write and call.raw else 0),)


def _spent(one: Pass, rates: _Rates) -> Decimal | None:
    """What one pass costs. A kind without a price of its own is counted with the kind that it is a part of.

    Example: 1000 in, 800 of them cached, 50 out at 3, 0.3 and 15 -> 200 · 3 + 800 · 0.3 + 50 · 15 = 1590 millionths.
    """
    usage, length = one.usage, one.usage.input
    read = min(usage.cache_read, usage.input) if rates.cache_read else 0
    written = min(usage.cache_write, usage.input - read)
    long = min(one.long_writes, written) if rates.cache_write_1h else 0
    short = written - long if rates.cache_write else 0
    thought = min(usage.reasoning, usage.output) if rates.reasoning else 0
    total = Decimal(0)
    for count, price in (
        (usage.input - read - long - short, rates.input),
        (read, rates.cache_read),
        (short, rates.cache_write),
        (long, rates.cache_write_1h),
        (usage.output - thought, rates.output),
        (thought, rates.reasoning),
    ):
        if count:
            if price is None:
                return None
            total += count * _rate(price, length)
    return total / MTOK


def _rate(price: _Price, length: int) -> Decimal:
    """The price of a context of this length: that of the highest tier that it reaches, for all its tokens."""
    rate = price[0]
    for start, dearer in price[1]:
        if length > start:
            rate = dearer
    return rate


def _modal(call: Call, provider: str | None, moment: datetime) -> Decimal | None:
    """What a call with audio costs; the package knows how the kinds overlap."""
    from genai_prices import Usage as Counts

    found = _find(call.model, provider)
    if found is None:
        return None
    heard, said = _audio(call.raw)
    counts = Counts(
        input_tokens=call.input,
        output_tokens=call.output,
        cache_read_tokens=call.cache_read,
        cache_write_tokens=call.cache_write,
        input_audio_tokens=heard,
        output_audio_tokens=said,
        cache_audio_read_tokens=0,
    )
    return found[1].calc_price(counts, found[0], genai_request_timestamp=moment).total_price


_DETAILS = (
    ("prompt_tokens_details", "audio_tokens"),
    ("input_tokens_details", "audio_tokens"),
    ("input_token_details", "audio"),
    ("completion_tokens_details", "audio_tokens"),
    ("output_tokens_details", "audio_tokens"),
    ("output_token_details", "audio"),
)


def _audio(raw: Mapping[str, Any]) -> tuple[int, int]:
    """Audio tokens in and out."""
    told = [(raw.get(place), name) for place, name in _DETAILS]
    found = [(details.get(name) or 0) if isinstance(details, Mapping) else 0 for details, name in told]
    return sum(found[:3]), sum(found[3:])


def _special(raw: Mapping[str, Any]) -> dict[str, str]:
    """How an Anthropic call was served, where that has a price of its own."""
    found = {"processing": "batch"} if raw.get("service_tier") == "batch" else {}
    return found | ({"speed": "fast"} if raw.get("speed") == "fast" else {})


def _searches(raw: Mapping[str, Any]) -> int:
    """How often the provider searched the web for an Anthropic call."""
    used = raw.get("server_tool_use")
    count = used.get("web_search_requests") if isinstance(used, Mapping) else 0
    return count if isinstance(count, int) and count > 0 else 0


def _moment(given: datetime | float | None) -> datetime:
    if given is None:
        return datetime.now(UTC)
    return given.astimezone(UTC) if isinstance(given, datetime) else datetime.fromtimestamp(given, UTC)


# -------------------------------------------------------------------------------------------------- the table
def _snapshot() -> DataSnapshot | None:
    """The table in use: the package's own, or the one that the application has set or keeps updated."""
    global _absent
    if _absent:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot

        return get_snapshot()
    except Exception:  # not installed, or broken: both are no table
        _absent = True
        return None


_absent = False


def _rates_of(
    model: str | None, provider: str | None, moment: datetime, special: dict[str, str] | None = None
) -> _Rates | None:
    found = _find(model, provider)
    if found is None:
        return None
    if special:
        return _rates.__wrapped__(_Key(found[1].get_prices(moment, special)))
    return _rates(_Key(found[1].get_prices(moment)))


def _find(model: str | None, provider: str | None) -> tuple[Provider, ModelInfo] | None:
    snapshot = _snapshot()
    return None if snapshot is None or not model else _lookup(_Key(snapshot), model, provider)


class _Key:
    """A thing that is the same only as itself, so that what is known about it can be kept."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.value is self.value


@lru_cache(maxsize=2048)
def _lookup(table: _Key, model: str, provider: str | None) -> tuple[Provider, ModelInfo] | None:
    """The model in the table, by its name as it stands, or as a host writes it."""
    snapshot: DataSnapshot = table.value
    for name, host in _spellings(model, provider, {p.id for p in snapshot.providers}):
        try:
            return snapshot.find_provider_model(name, None, host, None)
        except LookupError:
            continue
    return None


def _spellings(model: str, provider: str | None, known: set[str]) -> Iterable[tuple[str, str | None]]:
    """Names under which to look a model up, each with its provider; only a provider that is named is believed.

    Example: "langchain:openai:gpt-x" -> ("gpt-x", "openai"); "someone/gpt-x" may be served by anybody, at any price.
    """
    bare = _GOOGLE.sub("", model)
    if provider is not None:
        yield bare, provider
        return
    if _OWN.search(model):
        return
    yield bare, None
    if _BEDROCK.match(model):
        yield model, "aws"
    parts = re.split("[:/]", model.removeprefix("langchain:"), maxsplit=1)
    host = _LANGCHAIN.get(parts[0], parts[0])
    if len(parts) == 2 and host in known:
        yield _GOOGLE.sub("", parts[1]), host


@lru_cache(maxsize=2048)
def _rates(prices: _Key) -> _Rates | None:
    table: ModelPrice = prices.value
    named = {key: value for key, value in vars(table).items() if value is not None}
    if not named:
        return None
    thousand = [_price(named.get(key)) for key in ("requests_kcount", "web_searches_kcount")]
    request, search = (None if price is None else price[0] / 1000 for price in thousand)
    return _Rates(
        _price(named.get("input_mtok")),
        _price(named.get("cache_read_mtok")),
        _price(named.get("cache_write_mtok")),
        _price(named.get("cache_write_1h_mtok")),
        _price(named.get("output_mtok")),
        _price(named.get("output_reasoning_mtok")),
        request or Decimal(0),
        search,
        any("audio" in key for key in named),
    )


def _price(value: Any) -> _Price | None:
    if value is None or isinstance(value, Decimal):
        return None if value is None else (value, ())
    return value.base, tuple((tier.start, tier.price) for tier in value.tiers)
