"""When a mapping would explode on the data at hand: found on a sample, said with the numbers.

A mapping is right on any data and useless on some: zones in many dimensions are visited by most
events, a curve cuts a wide box into thousands of ranges. Better refused before the shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crossroads.mapping.cells import Cells
from crossroads.mapping.contract import KeyTable, Mapping, RangeTable
from crossroads.mapping.sample import Sample

# Of the command line, where a refusal is read.
ANOTHER_MAPPING = "take another --mapping"
FEWER_CELLS = "take fewer --cells or another --mapping"

# Means over the sample.
RANGES_PER_SUBSCRIPTION_MAX = 256  # 16 bytes each: a million subscriptions take 4 GB of ranges
CELLS_PER_SUBSCRIPTION_MAX = 64  # each is a copy to store and index: as if there were 64 times more
VISITS_PER_EVENT_MAX = 64  # each is a copy to shuffle and match: a TB of events becomes 64


def explosion(mapping: Mapping, sample: Sample, cells: Cells | None = None) -> str | None:
    """Why this mapping (and these cells) should not be used on such data; None: it may be."""
    ranges = mapping.keys_of_subscriptions(sample.filters)
    return explosion_of(mapping.name, ranges, mapping.keys_of_events(sample.events), cells)


def explosion_of(
    name: str, ranges: RangeTable, keys: KeyTable, cells: Cells | None = None
) -> str | None:
    """The same, for whoever has the keys of the sample already."""
    found = "; ".join(_excesses(ranges, keys, cells))
    return f"{name}: {found}" if found else None


def _excesses(ranges: RangeTable, keys: KeyTable, cells: Cells | None) -> Iterator[str]:
    # What stands at the root has no range; counted in, it would hide how many the others have.
    placed = ~ranges.root & (np.diff(ranges.offsets) > 0)
    per_subscription = _mean(np.diff(ranges.offsets)[placed])
    if per_subscription > RANGES_PER_SUBSCRIPTION_MAX:
        yield (
            f"a subscription would have {_number(per_subscription)} ranges of keys on average "
            f"(limit {RANGES_PER_SUBSCRIPTION_MAX}); {ANOTHER_MAPPING}"
        )
    if cells is None:
        visits, places, advice = _mean(np.diff(keys.offsets)), "keys", ANOTHER_MAPPING
    else:
        copies = _mean(cells.cells_of_ranges(ranges).cells[placed])
        if copies > CELLS_PER_SUBSCRIPTION_MAX:
            yield (
                f"a subscription would stand in {_number(copies)} of {cells.count:,} cells on "
                f"average (limit {CELLS_PER_SUBSCRIPTION_MAX}); {FEWER_CELLS}"
            )
        visits = _mean(np.diff(cells.cells_of_keys(keys).offsets))
        places, advice = f"of {cells.count:,} cells", FEWER_CELLS
    if visits > VISITS_PER_EVENT_MAX:
        yield (
            f"an event would visit {_number(visits)} {places} on average "
            f"(limit {VISITS_PER_EVENT_MAX}); {advice}"
        )


def _mean(counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    return float(counts.mean()) if counts.size else 0.0


def _number(mean: float) -> str:
    return f"{mean:,.0f}"
