"""Cells of even load: cut where a sample says that the work divides evenly, and where it is least.

The work of a cell is its events × its subscriptions. The cell with the most work is cut again and
again; of a few places in it, where the two parts have least to do together: between those who come
and those who wait, a cut saves work, and elsewhere it still divides it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crossroads.mapping.cells import Cells
from crossroads.mapping.contract import KeyTable, Mapping, RangeTable
from crossroads.mapping.sample import Sample

PLACES_TRIED = 12  # in a cell, of each kind: event keys, ends of ranges

Keys = npt.NDArray[np.int64]


def balanced(mapping: Mapping, sample: Sample, count: int) -> Cells:
    """At most `count` cells; fewer where all work is at few keys, because a key cannot be cut.

    Without any keys in the sample, even ones.
    """
    ranges = mapping.keys_of_subscriptions(sample.filters)
    return balanced_keys(mapping.spec.bits, ranges, mapping.keys_of_events(sample.events), count)


def balanced_keys(bits: int, ranges: RangeTable, keys: KeyTable, count: int) -> Cells:
    """The same, for whoever has the keys of the sample already."""
    even = Cells(bits, min(count, 1 << bits))
    load = _Load.of(ranges, keys)
    if not load.events.size and not load.low.size:
        return even
    whole = (0, 1 << bits)
    # The most work first; equal work, the lowest keys first.
    cells = [(-load.work(*whole), *whole)]
    done: list[int] = []
    while cells and len(cells) + len(done) < even.count:
        _, start, end = heapq.heappop(cells)
        cut = load.best_cut(start, end)
        if cut is None:
            done.append(start)
            continue
        for part in ((start, cut), (cut, end)):
            heapq.heappush(cells, (-load.work(*part), *part))
    return Cells.cut_at(bits, [*done, *(start for _, start, _ in cells)])


@dataclass(frozen=True)
class _Load:
    """Ascending: keys of sampled events, beginnings and ends of sampled subscriptions' ranges."""

    events: Keys
    low: Keys
    high: Keys

    @staticmethod
    def of(ranges: RangeTable, keys: KeyTable) -> _Load:
        return _Load(
            *(np.sort(found.astype(np.int64)) for found in (keys.keys, ranges.low, ranges.high))
        )

    def work(self, start: int, end: int) -> int:
        return int(self._works(np.array([start]), np.array([end]))[0])

    def _works(self, starts: Keys, ends: Keys) -> Keys:
        """One more of each: what the sample has not seen may come, and must be held too."""
        events = np.searchsorted(self.events, ends) - np.searchsorted(self.events, starts)
        waiting = np.searchsorted(self.low, ends) - np.searchsorted(self.high, starts, "right")
        return (events + 1) * (waiting + 1)

    def best_cut(self, start: int, end: int) -> int | None:
        """The first key of the second part; None: there is nothing to cut between."""
        places = np.unique(
            np.concatenate(
                [_spread(keys, start, end) for keys in (self.events, self.low, self.high)]
            )
        )
        if not places.size:
            return None
        first = self._works(np.full(places.size, start), places)
        second = self._works(places, np.full(places.size, end))
        # Little together, and evenly divided: a little more work in all is worth a smaller part.
        return int(places[np.argmin(first + second + np.maximum(first, second))])


def _spread(keys: Keys, start: int, end: int) -> Keys:
    """A few of the keys within, evenly by their number; as first keys of a second part."""
    inside = keys[np.searchsorted(keys, start, "right") : np.searchsorted(keys, end)]
    if not inside.size:
        return inside
    chosen = np.linspace(0, inside.size - 1, min(PLACES_TRIED, inside.size)).astype(np.int64)
    return inside[chosen]
