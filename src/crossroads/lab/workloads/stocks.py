"""MEGHDOOT's workload: daily stock quotes 1998-2002 and five subscription templates (section 5.1).

Quotes come from a small model fitted to real ones of those years. The logarithm of a price is a
random walk with fat-tailed steps that is slowly drawn back to the stock's own level (so prices stay
skewed but never run away); a day opens off yesterday's close and closes off its open; high and low
lie an exponential distance beyond them. Volume is log-normal around the stock's own popularity.
The document's prices are more concentrated than a random sample of stocks ("most of the stock
prices ranged between $10 to $30"), so the level is theirs and the spread is the fitted one.

Unstated in the document and chosen here: the parameters of the templates. Popular stocks have more
subscribers; thresholds lie around the stock's own price, mostly a little out of reach, so that a
subscription tells of the unusual day; the few general subscriptions ask for a high volume.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.lab.workloads.workload import (
    BLOCK_ROWS,
    Floats,
    Ints,
    Stream,
    Template,
    Workload,
    check_at_least,
    generator,
    zipf_ranks,
)

Dates = npt.NDArray[np.datetime64]

SCHEMA = """\
name = "stocks"
id = ["date", "symbol"]

[attributes]
date = { type = "date", min = "1998-01-02", max = "2002-12-31" }
symbol = { type = "string", min = "aaa", max = "zzzzz" }
open = { type = "double", min = 0, max = 500 }
high = { type = "double", min = 0, max = 500 }
low = { type = "double", min = 0, max = 500 }
close = { type = "double", min = 0, max = 500 }
volume = { type = "bigint", min = 0, max = 310000000 }
"""

EVENT_SCHEMA = pa.schema(
    [("date", pa.date32()), ("symbol", pa.string())]
    + [(name, pa.float64()) for name in ("open", "high", "low", "close")]
    + [("volume", pa.int64())]
)

TEMPLATES = (
    Template("symbol = :p1 AND open BETWEEN :p2 AND :p3", 0.20),
    Template("symbol = :p1 AND low <= :p2", 0.35),
    Template("symbol = :p1 AND high >= :p2", 0.35),
    Template("symbol = :p1 AND volume >= :p2", 0.05),
    Template("volume >= :p1", 0.05),
)

# Days on which the exchange was closed though it was no weekend.
HOLIDAYS = """
1998-01-19 1998-02-16 1998-04-10 1998-05-25 1998-07-03 1998-09-07 1998-11-26 1998-12-25
1999-01-01 1999-01-18 1999-02-15 1999-04-02 1999-05-31 1999-07-05 1999-09-06 1999-11-25 1999-12-24
2000-01-17 2000-02-21 2000-04-21 2000-05-29 2000-07-04 2000-09-04 2000-11-23 2000-12-25
2001-01-01 2001-01-15 2001-02-19 2001-04-13 2001-05-28 2001-07-04 2001-09-03 2001-09-11 2001-09-12
2001-09-13 2001-09-14 2001-11-22 2001-12-25
2002-01-01 2002-01-21 2002-02-18 2002-03-29 2002-05-27 2002-07-04 2002-09-02 2002-11-28 2002-12-25
"""

SYMBOLS_MAX = 1_000_000
SYMBOL_LENGTHS = ((3, 0.81), (4, 0.18), (5, 0.01))  # letters, share of the symbols

PRICE_MIN, PRICE_MAX = 0.05, 500.0
PRICE_LEVEL = 18.0  # dollars, the median stock
PRICE_SPREAD = 0.43  # of the stocks' levels, standard deviation of the logarithm
DAILY_MOVE = 0.031  # the median stock's daily volatility, as a logarithm
DAILY_MOVE_SPREAD = 0.35  # calm and nervous stocks differ by this much (logarithm)
PULL = 0.0044  # share of the distance to its level that a price recovers per day
NIGHT, DAY = 0.65, 0.76  # how a day's move divides; their squares sum to one
TAIL = 5  # degrees of freedom of Student's t: fat tails, finite kurtosis
REACH = 0.27  # how far high and low go beyond open and close, in daily moves

VOLUME_LEVEL = 13.13  # mean logarithm of the shares traded per day
VOLUME_MAX = 310_000_000
POPULARITY_SPREAD = 1.44  # between stocks, standard deviation of the logarithm
VOLUME_SPREAD = 0.78  # between the days of one stock
SUBSCRIBED_SKEW = 0.7  # Zipf exponent: how much subscribers prefer the popular stocks

# Thresholds, in standard deviations from the middle of what they are compared with.
OUT_OF_REACH, OUT_OF_REACH_SPREAD = 1.15, 0.7
OPEN_HALF_WIDTHS = (0.05, 0.4)
GENERAL_THRESHOLDS = (1.0, 2.4)  # the busiest 16% to 0.8% of all quotes


def stocks(
    seed: int = 0, events: int = 115_000, subscriptions: int = 14_029, *, symbols: int = 100
) -> Workload:
    """Quotes of `symbols` stocks, in order of date; each stock has at most one quote a day."""
    check_at_least("symbols", symbols, 1)
    check_at_least("seed", seed, 0)
    if symbols > SYMBOLS_MAX:
        raise UsageError(f"symbols must be at most {SYMBOLS_MAX:,}, got {symbols:,}")
    days = trading_days()
    if events > days.size * symbols:
        raise UsageError(
            f"{symbols:,} symbols have only {days.size * symbols:,} quotes on the {days.size:,} "
            f"trading days of 1998-2002, not {events:,}",
            hint=f"ask for --symbols {-(-events // days.size):,}".replace(",", "") + " or more",
        )
    market = Market.draw(seed, symbols)
    return Workload(
        name="stocks",
        seed=seed,
        schema_toml=SCHEMA,
        event_count=events,
        subscription_count=subscriptions,
        templates=TEMPLATES,
        draw_events=lambda: _quotes(seed, market, days, events),
        draw_parameters=market.parameters,
    )


def trading_days() -> Dates:
    days = np.arange("1998-01-02", "2003-01-01", dtype="datetime64[D]")
    return days[np.is_busday(days, holidays=np.array(HOLIDAYS.split(), dtype="datetime64[D]"))]


@dataclass(frozen=True, slots=True)
class Market:
    """What quotes and subscriptions must agree on: one entry per stock, most popular first."""

    symbols: pa.Array
    level: Floats  # logarithm of the price it is drawn to
    move: Floats  # daily volatility, as a logarithm
    volume: Floats  # mean logarithm of the volume

    @classmethod
    def draw(cls, seed: int, size: int) -> Market:
        rng = generator(seed, Stream.WORLD)
        # Popularity is the quantiles of its law rather than draws from it: few stocks would
        # otherwise make the density of the matches a matter of luck.
        normal = NormalDist()
        quantiles = np.array([normal.inv_cdf(1 - (rank + 0.5) / size) for rank in range(size)])
        return cls(
            symbols=_symbols(rng, size),
            level=np.log(PRICE_LEVEL) + PRICE_SPREAD * rng.permutation(quantiles),
            move=DAILY_MOVE * np.exp(DAILY_MOVE_SPREAD * rng.standard_normal(size)),
            volume=VOLUME_LEVEL + POPULARITY_SPREAD * quantiles,
        )

    @property
    def wander(self) -> Floats:
        """Standard deviation of the logarithm of each price about its level, in the long run."""
        return self.move / math.sqrt(2 * PULL)

    def parameters(self, rng: np.random.Generator, template: int, size: int) -> list[pa.Array]:
        if template == 4:
            spread = np.hypot(POPULARITY_SPREAD, VOLUME_SPREAD)
            wanted = VOLUME_LEVEL + spread * rng.uniform(*GENERAL_THRESHOLDS, size)
            return [_shares(np.exp(wanted))]
        stock = zipf_ranks(rng, len(self.symbols), size, SUBSCRIBED_SKEW)
        symbol = self.symbols.take(pa.array(stock))
        level, wander = self.level[stock], self.wander[stock]
        reach = rng.normal(OUT_OF_REACH, OUT_OF_REACH_SPREAD, size)
        if template == 0:
            middle = rng.standard_normal(size)
            half = rng.uniform(*OPEN_HALF_WIDTHS, size)
            low, high = (cents(np.exp(level + wander * (middle + s * half))) for s in (-1, 1))
            return [symbol, pa.array(low), pa.array(high)]
        if template == 1:
            return [symbol, pa.array(cents(np.exp(level - wander * reach)))]
        if template == 2:
            return [symbol, pa.array(cents(np.exp(level + wander * reach)))]
        return [symbol, _shares(np.exp(self.volume[stock] + VOLUME_SPREAD * reach))]


def cents(dollars: Floats) -> Floats:
    """Rounded to cents within the domain: the double nearest to the decimal, as text would give.
    Monotone, so an order between prices survives it."""
    return np.rint(np.clip(dollars, PRICE_MIN, PRICE_MAX) * 100.0) / 100.0


def _shares(volume: Floats) -> pa.Array:
    """People ask for round numbers of shares: two leading digits."""
    unit = 10 ** np.maximum(np.floor(np.log10(volume)) - 1, 0)
    return pa.array(np.clip(np.rint(volume / unit) * unit, 1, VOLUME_MAX).astype(np.int64))


def _symbols(rng: np.random.Generator, size: int) -> pa.Array:
    """Distinct names of 3 to 5 letters. At most half of all names of a length are used up, the
    rest of the symbols are a letter longer."""
    names: list[str] = []
    for length, share in SYMBOL_LENGTHS:
        wanted = size - len(names) if length == 5 else min(round(size * share), 26**length // 2)
        wanted = min(wanted, size - len(names))
        codes = rng.choice(26**length, size=wanted, replace=False)
        letters = codes[:, None] // 26 ** np.arange(length - 1, -1, -1) % 26
        text = (letters + ord("a")).astype(np.uint8).tobytes().decode("ascii")
        names += [text[at : at + length] for at in range(0, len(text), length)]
    return pa.array(names, pa.string()).take(pa.array(rng.permutation(size)))


def _quotes(
    seed: int,
    market: Market,
    days: Dates,
    events: int,
) -> Iterator[pa.RecordBatch]:
    """Blocks of whole days. Every day has its share of the events, of stocks drawn at random."""
    stocks_count = len(market.symbols)
    per_block = max(1, BLOCK_ROWS // stocks_count)
    ends = (np.arange(1, days.size + 1) * events) // days.size
    rng = generator(seed, Stream.EVENTS, 0)
    state = market.level + market.wander * rng.standard_normal(stocks_count)
    for block, first in enumerate(range(0, days.size, per_block), start=1):
        rng = generator(seed, Stream.EVENTS, block)
        last = min(first + per_block, days.size)
        opened, closed = _walk(rng, market, state, last - first)
        state = closed[-1]
        quotas = np.diff(ends[first:last], prepend=ends[first - 1] if first else 0)
        day, stock = _quoted(rng, quotas, stocks_count)
        if day.size:
            dates = days[first:last][day]
            yield _block(rng, market, dates, stock, opened[day, stock], closed[day, stock])


def _walk(
    rng: np.random.Generator, market: Market, state: Floats, days: int
) -> tuple[Floats, Floats]:
    """Logarithms of open and close, one row per day."""
    unit = market.move / math.sqrt(TAIL / (TAIL - 2))  # Student's t has this much more variance
    shape = (days, market.level.size)
    night = rng.standard_t(TAIL, shape) * (NIGHT * unit)
    day = rng.standard_t(TAIL, shape) * (DAY * unit)
    opened, closed = np.empty(shape), np.empty(shape)
    for row in range(days):
        opened[row] = state + night[row]
        state = opened[row] + day[row] + PULL * (market.level - state)
        closed[row] = state
    return opened, closed


def _quoted(rng: np.random.Generator, quotas: Ints, stocks_count: int) -> tuple[Ints, Ints]:
    """Which stocks are quoted on which day: `quotas[d]` different ones on day d."""
    chosen = [
        np.sort(rng.choice(stocks_count, size=int(quota), replace=False, shuffle=False))
        for quota in quotas
    ]
    return np.repeat(np.arange(quotas.size), quotas), np.concatenate(chosen)


def _block(
    rng: np.random.Generator,
    market: Market,
    dates: Dates,
    stock: Ints,
    opened: Floats,
    closed: Floats,
) -> pa.RecordBatch:
    move = REACH * market.move[stock]
    beyond, below = rng.standard_exponential((2, stock.size)) * move
    high = np.maximum(opened, closed) + beyond
    low = np.minimum(opened, closed) - below
    volume = np.exp(rng.normal(market.volume[stock], VOLUME_SPREAD))
    prices = [pa.array(cents(np.exp(price))) for price in (opened, high, low, closed)]
    return pa.record_batch(
        [
            pa.array(dates),
            market.symbols.take(pa.array(stock)),
            *prices,
            pa.array((np.clip(volume, 100, VOLUME_MAX) / 100).astype(np.int64) * 100),
        ],
        schema=EVENT_SCHEMA,
    )
