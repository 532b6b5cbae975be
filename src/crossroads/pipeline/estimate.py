"""What every plan and mapping would cost on the data at hand, foreseen from a sample of both sides.

Two steps, kept apart. **Counts** are facts about the data: how many cells a subscription stands in,
how many an event visits, how many subscriptions it meets there. They are measured on the sample and
scaled. **Seconds** are work, which follows from the counts, times prices (`prices`), which were
fitted to measured runs. The order of plans follows from the counts; the prices only have to be
right in proportion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf

from crossroads.errors import UsageError
from crossroads.mapping.cells import CELLS_MAX, Cells
from crossroads.mapping.fit import MAPPINGS
from crossroads.mapping.limits import explosion_of
from crossroads.pipeline.cellcount import keyed_cells
from crossroads.pipeline.keyedsample import KeyedSample
from crossroads.pipeline.prices import PRICES, Work
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
    "estimate_of",
    "estimates",
    "sql_estimate",
]

UNMAPPED = ("direct", "indexed", "naive")
MAPPED = ("sql", "keyed")
# Cells tried for a join in the JVM: each step makes lists four times shorter and copies more.
SQL_CELLS = tuple(1 << bits for bits in range(4, 23, 2))
KEYED_SHUFFLES = 4  # stages of plan `keyed` that others have not
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
    work: Work = field(default_factory=dict)  # what `seconds` are the price of

    @property
    def name(self) -> str:
        return self.plan if self.mapping is None else f"{self.plan}/{self.mapping}"


def estimates(surveyed: Surveyed, mappings: Sequence[str] = MAPPINGS) -> list[Estimate]:
    """Of every plan and mapping, cheapest first, what is out of the question at the end."""
    found = [*_unmapped(surveyed)]
    found += [estimate_of(surveyed, plan, name) for name in mappings for plan in MAPPED]
    return sorted(found, key=_order)


def estimate_of(
    surveyed: Surveyed, plan: str, mapping: str | None, cells: int | None = None
) -> Estimate:
    """Of one plan and mapping; with that many cells if said, or all there are if fewer."""
    if mapping is None:
        (found,) = (one for one in _unmapped(surveyed) if one.plan == plan)
        return found
    keyed = surveyed.keyed(mapping)
    if isinstance(keyed, str):
        return Estimate(plan, mapping, None, Counts(0.0), 0.0, 0.0, inf, keyed)
    if cells is None:
        return _mapped(surveyed, plan, keyed)
    return _with_cells(surveyed, plan, keyed, cells)


def sql_estimate(
    surveyed: Surveyed, mappings: Sequence[str] = MAPPINGS, cells: int | None = None
) -> Estimate:
    """The best that plan `sql` can do with one of these mappings (see `estimate_of`)."""
    found = [estimate_of(surveyed, "sql", name, cells) for name in mappings]
    best = min(found, key=_order)
    if best.refused is not None:
        raise UsageError(f"plan sql will not do: {best.refused}", hint="see crossroads advise")
    return best


def _order(one: Estimate) -> tuple[bool, float]:
    return one.refused is not None, one.seconds


# -- plans without a mapping -----------------------------------------------------------------------


def _unmapped(surveyed: Surveyed) -> Iterator[Estimate]:
    here = surveyed.situation
    counts = Counts(surveyed.matches_per_event)
    asking = replace(counts, candidates_per_event=float(here.subscriptions.count))
    index = surveyed.index_bytes_in_all
    too_large = _too_large("an index", index, here.memory)
    far = None if here.local else "not every worker sees the paths"
    work = _Work.of(surveyed, counts)
    yield _priced("direct", counts, _direct_work(work, here), index, far or too_large)
    yield _priced("indexed", counts, _indexed_work(work, here), index, too_large)
    yield _priced("naive", asking, _naive_work(work, here), 0.0, None)


def _priced(plan: str, counts: Counts, work: Work, index: float, refused: str | None) -> Estimate:
    seconds = PRICES.seconds(work)
    return Estimate(plan, None, None, counts, 0.0, index, seconds, refused, work)


def _direct_work(work: _Work, here: Situation) -> Work:
    return {
        "job": 1.0,
        "load": work.subscriptions,
        "build": work.subscriptions,
        "read": work.events / here.cores,
        "word": work.words / here.cores,
        "expression": work.expressions / here.cores,
        "verify": work.verified / here.cores,
        "write": work.told / here.cores,
    }


def _indexed_work(work: _Work, here: Situation) -> Work:
    framed = {"frames": 1.0, "frame": work.events / here.cores}
    return {**_direct_work(work, here), **framed, "save": work.subscriptions}


def _naive_work(work: _Work, here: Situation) -> Work:
    return {
        "job": 1.0,
        "frames": 1.0,
        "shuffles": here.shapes,
        "load": work.subscriptions,
        "frame": work.events / here.cores,
        "pair": work.events * work.subscriptions / here.cores,
        "write": work.told / here.cores,
        "list": work.told / here.cores,
    }


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
    least = keyed_cells(situation.subscriptions.count, situation.cores, bits)
    return tuple(sorted({min(most, least * finer) for finer in KEYED_FINER}))


def _with_cells(surveyed: Surveyed, plan: str, keyed: KeyedSample, count: int) -> Estimate:
    count = min(count, 1 << keyed.mapping.spec.bits)
    cells = keyed.cells(count) if plan == "sql" else keyed.balanced_cells(count)
    counts = counted(surveyed, keyed, plan, cells)
    here, work = surveyed.situation, _Work.of(surveyed, counts)
    shuffled = work.copies * here.events.row_bytes + work.stands * here.subscriptions.row_bytes
    if plan == "sql":
        done = _sql_work(work, here)
        index, held, what = 0.0, surveyed.index_bytes_in_all, "a list of all subscriptions"
    else:
        done = _keyed_work(work, here)
        index = (work.stands + work.rooted) * surveyed.index_bytes
        held = counts.fullest * surveyed.index_bytes
        what = f"the fullest index of {cells.count:,} cells and the root"
    refused = explosion_of(keyed.mapping.name, keyed.ranges, keyed.keys, cells)
    refused = refused or _too_large(what, held, here.memory)
    name, seconds = keyed.mapping.name, PRICES.seconds(done)
    return Estimate(plan, name, count, counts, shuffled, index, seconds, refused, done)


@dataclass(frozen=True)
class _Work:
    """How often each thing is done, for the whole data."""

    events: float
    subscriptions: float
    copies: float  # of events, one for each cell they visit
    stands: float  # of subscriptions, one for each cell they stand in
    rooted: float  # subscriptions at the root
    candidates: float  # pairs that meet in a cell
    words: float  # searches of an event's texts for words
    expressions: float  # and for expressions
    verified: float  # pairs that an index does not decide by ranges alone
    told: float

    @classmethod
    def of(cls, surveyed: Surveyed, counts: Counts) -> _Work:
        here = surveyed.situation
        events, subscriptions = here.events.count, here.subscriptions.count
        return cls(
            events,
            subscriptions,
            copies=events * counts.cells_per_event,
            stands=subscriptions * counts.cells_per_subscription,
            rooted=subscriptions * counts.at_root,
            candidates=events * counts.candidates_per_event,
            words=events * surveyed.word_searches,
            expressions=events * surveyed.expression_searches,
            verified=events * surveyed.verified_per_event,
            told=events * counts.matches_per_event,
        )


def _sql_work(work: _Work, here: Situation) -> Work:
    return {
        "job": 1.0,
        "frames": 1.0,
        "shuffles": 1 + here.shapes,
        "load": work.subscriptions,
        "key": work.subscriptions,
        "frame": work.events / here.cores,
        "copy": (work.stands + work.copies) / here.cores,
        "candidate": work.candidates / here.cores,
        "pair": work.events * work.rooted / here.cores,
        "write": work.told / here.cores,
        "list": work.told / here.cores,
    }


def _keyed_work(work: _Work, here: Situation) -> Work:
    at_root = work.events if work.rooted else 0.0
    return {
        "job": 1.0,
        "frames": 1.0,
        "shuffles": KEYED_SHUFFLES,
        "settle": work.subscriptions / here.cores,
        "stand": (work.stands + work.rooted) / here.cores,
        "frame": work.events / here.cores,
        "visit": (work.copies + at_root) / here.cores,
        "word": work.words / here.cores,
        "expression": work.expressions / here.cores,
        "verify": work.verified / here.cores,
        "write": work.told / here.cores,
    }


def counted(surveyed: Surveyed, keyed: KeyedSample, plan: str, cells: Cells) -> Counts:
    """What the plan does with the sample in these cells, scaled to everything."""
    sample = surveyed.sample
    found = keyed.in_cells(cells, wide_at_root=plan == "keyed")
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
