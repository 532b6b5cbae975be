"""What every plan and mapping would cost on the data at hand, foreseen from a sample of both sides.

Two steps, kept apart. **Counts** are facts about the data: how many cells a subscription stands in,
how many an event visits, how many subscriptions it meets there. They are measured on the sample and
scaled. **Seconds** are counts times prices (`PRICES`), the price of one unit of work on one core,
guessed from single runs until `make bench-plans` has calibrated them. The order of plans follows
from the counts; the prices only have to be right in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, inf

from crossroads.errors import UsageError
from crossroads.mapping.cells import CELLS_MAX, Cells
from crossroads.mapping.contract import Mapping
from crossroads.mapping.fit import MAPPINGS
from crossroads.mapping.limits import explosion_of
from crossroads.pipeline.keyedsample import KeyedSample
from crossroads.pipeline.situation import Side, Situation, Surveyed
from crossroads.pipeline.wording import size_text

__all__ = [
    "MAPPED",
    "UNMAPPED",
    "Counts",
    "Estimate",
    "Side",
    "Situation",
    "Surveyed",
    "counted",
    "estimates",
    "sql_estimate",
]

UNMAPPED = ("direct", "indexed", "naive")
MAPPED = ("sql", "keyed")
# Cells tried for a join in the JVM: each step makes lists four times shorter and copies more.
SQL_CELLS = tuple(1 << bits for bits in range(4, 23, 2))
KEYED_CELLS_PER_TASK = 4  # evens out cells that take longer than others
KEYED_SUBSCRIPTIONS_PER_CELL = 1 << 20  # an index of some hundred MB: it fits beside others
KEYED_FINER = (1, 8, 64)  # times as many cells, where a crowded one would not fit a host


@dataclass(frozen=True)
class Counts:
    """Means, for the whole data."""

    matches_per_event: float
    ranges_per_subscription: float = 0.0
    cells_per_subscription: float = 0.0
    cells_per_event: float = 0.0
    candidates_per_event: float = 0.0  # subscriptions in the cells that an event visits
    at_root: float = 0.0  # share of the subscriptions that every event must meet
    skew: float = 1.0  # load of the most loaded cell over the mean of the cells in use
    fullest: float = 0.0  # subscriptions in the fullest cell, or at the root if there are more


@dataclass(frozen=True)
class Estimate:
    plan: str
    mapping: str | None
    cells: int | None
    counts: Counts
    bytes_shuffled: float
    index_bytes: float
    seconds: float
    refused: str | None = None  # why it is out of the question

    @property
    def name(self) -> str:
        return self.plan if self.mapping is None else f"{self.plan}/{self.mapping}"


@dataclass(frozen=True)
class Prices:
    """Nanoseconds on one core, or seconds for a whole job where it says so."""

    job: float = 0.15  # s: the least that a job of Spark takes
    frames: float = 0.6  # s: further jobs that plans on frames need
    shuffles: float = 0.8  # s: further stages of a join, for each shape
    load: float = 1_300.0  # a subscription from text
    build: float = 450.0  # and into an index
    read: float = 350.0  # an event, read, checked and matched
    frame: float = 1_500.0  # an event through a DataFrame, there and back
    write: float = 30.0  # a notification
    list: float = 250.0  # a notification that Spark must bring to its event
    pair: float = 16.0  # a question about an event and a subscription, asked by Spark
    key: float = 400.0  # keys of an event or subscription
    copy: float = 900.0  # a row through a shuffle of Spark's
    block: float = 250.0  # a row through a shuffle of whole blocks
    candidate: float = 25.0  # a pair that Spark's join brings together, and its question
    probe: float = 120.0  # an event's look into the index of a cell


PRICES = Prices()


def estimates(surveyed: Surveyed, mappings: Sequence[str] = MAPPINGS) -> list[Estimate]:
    """Of every plan and mapping, cheapest first, what is out of the question at the end."""
    found = [*_unmapped(surveyed)]
    for name in mappings:
        keyed = surveyed.keyed(name)
        for plan in MAPPED:
            if isinstance(keyed, str):
                found.append(Estimate(plan, name, None, Counts(0.0), 0.0, 0.0, inf, keyed))
            else:
                found.append(_mapped(surveyed, plan, keyed))
    return sorted(found, key=_order)


def sql_estimate(
    surveyed: Surveyed, mappings: Sequence[str] = MAPPINGS, cells: int | None = None
) -> Estimate:
    """The best that plan `sql` can do with one of these mappings, with that many cells if said."""
    found: list[Estimate] = []
    for name in mappings:
        keyed = surveyed.keyed(name)
        if isinstance(keyed, str):
            found.append(Estimate("sql", name, None, Counts(0.0), 0.0, 0.0, inf, keyed))
        elif cells is None:
            found.append(_mapped(surveyed, "sql", keyed))
        else:
            found.append(_with_cells(surveyed, "sql", keyed, cells))
    best = min(found, key=_order)
    if best.refused is not None:
        raise UsageError(f"plan sql will not do: {best.refused}", hint="see crossroads advise")
    return best


def _order(one: Estimate) -> tuple[bool, float]:
    return one.refused is not None, one.seconds


# -- plans without a mapping -----------------------------------------------------------------------


def _unmapped(surveyed: Surveyed) -> Iterator[Estimate]:
    here, prices = surveyed.situation, PRICES
    counts = Counts(surveyed.matches_per_event)
    events, cores = here.events.count, here.cores
    subscriptions = here.subscriptions.count
    told = events * counts.matches_per_event
    index = surveyed.index_bytes_in_all
    loading = subscriptions * (prices.load + prices.build)
    too_large = _too_large("an index", index, here.memory)
    work = (events * prices.read + told * prices.write) / cores
    far = None if here.local else "not every worker sees the paths"
    yield Estimate(
        "direct", None, None, counts, 0.0, index, prices.job + (loading + work) / 1e9,
        far or too_large,
    )  # fmt: skip
    framed = (events * prices.frame) / cores
    yield Estimate(
        "indexed", None, None, counts, 0.0, index,
        prices.job + prices.frames + (loading + work + framed) / 1e9, too_large,
    )  # fmt: skip
    asked = (events * prices.frame + events * subscriptions * prices.pair) / cores
    brought = told * (prices.write + prices.list) / cores
    yield Estimate(
        "naive", None, None, replace(counts, candidates_per_event=float(subscriptions)), 0.0, 0.0,
        prices.job + prices.frames + prices.shuffles * here.shapes
        + (subscriptions * prices.load + asked + brought) / 1e9,
    )  # fmt: skip


# -- plans with one --------------------------------------------------------------------------------


def _mapped(surveyed: Surveyed, plan: str, keyed: KeyedSample) -> Estimate:
    """With the number of cells that suits it best."""
    bits = keyed.mapping.spec.bits
    counts = cell_counts(surveyed.situation, plan, bits)
    return min((_with_cells(surveyed, plan, keyed, count) for count in counts), key=_order)


def cell_counts(situation: Situation, plan: str, bits: int) -> tuple[int, ...]:
    most = min(1 << bits, CELLS_MAX)
    if plan == "sql":
        return tuple(count for count in SQL_CELLS if count <= most) or (most,)
    needed = -(-situation.subscriptions.count // KEYED_SUBSCRIPTIONS_PER_CELL)
    least = max(needed, situation.cores * KEYED_CELLS_PER_TASK)
    return tuple(sorted({min(most, least * finer) for finer in KEYED_FINER}))


def _with_cells(surveyed: Surveyed, plan: str, keyed: KeyedSample, count: int) -> Estimate:
    cells = Cells(keyed.mapping.spec.bits, count)
    counts = _counted(surveyed, keyed, cells)
    here, work = surveyed.situation, _Work.of(surveyed.situation, counts)
    # The most loaded task is the last to finish; hot cells are shared, so it is never all of it.
    unevenly = 1.0 + (min(counts.skew, here.cores) - 1.0) / here.cores
    shuffled = work.copies * here.events.row_bytes + work.stands * here.subscriptions.row_bytes
    if plan == "sql":
        seconds = _sql_seconds(work, here, unevenly)
        index, held, what = 0.0, surveyed.index_bytes_in_all, "a list of all subscriptions"
    else:
        seconds = _keyed_seconds(work, here, unevenly)
        index = (work.stands + work.rooted) * surveyed.index_bytes
        held = counts.fullest * surveyed.index_bytes
        what = f"the fullest index of {count:,} cells and the root"
    refused = explosion_of(keyed.mapping.name, keyed.ranges, keyed.keys, cells)
    refused = refused or _too_large(what, held, here.memory)
    return Estimate(plan, keyed.mapping.name, count, counts, shuffled, index, seconds, refused)


@dataclass(frozen=True)
class _Work:
    """How often each thing is done, for the whole data."""

    events: float
    subscriptions: float
    copies: float  # of events, one for each cell they visit
    stands: float  # of subscriptions, one for each cell they stand in
    rooted: float  # subscriptions at the root
    candidates: float  # pairs that meet in a cell
    told: float

    @classmethod
    def of(cls, here: Situation, counts: Counts) -> _Work:
        events, subscriptions = here.events.count, here.subscriptions.count
        return cls(
            events,
            subscriptions,
            copies=events * counts.cells_per_event,
            stands=subscriptions * counts.cells_per_subscription,
            rooted=subscriptions * counts.at_root,
            candidates=events * counts.candidates_per_event,
            told=events * counts.matches_per_event,
        )


def _sql_seconds(work: _Work, here: Situation, unevenly: float) -> float:
    prices = PRICES
    in_driver = work.subscriptions * (prices.load + prices.key)
    evenly = (
        work.events * (prices.frame + prices.key) + work.stands * prices.copy
        + work.events * work.rooted * prices.pair
    )  # fmt: skip
    in_cells = (
        work.copies * prices.copy + work.candidates * prices.candidate
        + work.told * (prices.write + prices.list)
    )  # fmt: skip
    fixed = prices.job + prices.frames + prices.shuffles * (1 + here.shapes)
    return fixed + (in_driver + (evenly + in_cells * unevenly) / here.cores) / 1e9


def _keyed_seconds(work: _Work, here: Situation, unevenly: float) -> float:
    prices = PRICES
    evenly = (
        work.subscriptions * (2 * prices.load + prices.key)
        + (work.stands + work.rooted) * (prices.block + prices.build)
        + work.events * (prices.frame + prices.key)
    )
    if work.rooted:
        evenly += work.events * prices.probe
    in_cells = work.copies * (prices.block + prices.probe) + work.told * prices.write
    fixed = prices.job + prices.frames + 4 * prices.shuffles
    return fixed + (evenly + in_cells * unevenly) / here.cores / 1e9


def counted(surveyed: Surveyed, mapping: Mapping, cells: Cells) -> Counts:
    """What the mapping does with the sample, scaled to everything."""
    return _counted(surveyed, KeyedSample.of(mapping, surveyed.sample), cells)


def _counted(surveyed: Surveyed, keyed: KeyedSample, cells: Cells) -> Counts:
    sample = surveyed.sample
    found = keyed.in_cells(cells)
    events, filters = max(1, sample.events.num_rows), max(1, sample.filters.size)
    visits = found.visited.cells.size / events
    candidates = found.pairs / events * surveyed.scale
    # A cell in which nobody waits is left out before anything is moved. In the sample most cells
    # of a fine grid are empty; among all subscriptions they are filled as thickly as this.
    waited = 1.0 - exp(-candidates / visits) if visits else 0.0
    return Counts(
        matches_per_event=surveyed.matches_per_event,
        ranges_per_subscription=keyed.ranges.low.size / filters,
        cells_per_subscription=float(found.per_subscription.sum()) / filters,
        cells_per_event=visits * waited,
        candidates_per_event=candidates,
        at_root=float(found.placed.root.sum()) / filters,
        skew=found.skew,
        fullest=found.fullest * surveyed.scale,
    )


def _too_large(what: str, size: float, memory: int) -> str | None:
    if size <= memory:
        return None
    return f"{what} of {size_text(size)} does not fit the {size_text(memory)} of one host"
