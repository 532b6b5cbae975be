"""What a mapping does with a sample: where its subscriptions stand, and where its events go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from crossroads.mapping.balance import balanced_keys
from crossroads.mapping.cells import CellRanges, Cells, EventCells
from crossroads.mapping.contract import KeyTable, Mapping, RangeTable
from crossroads.mapping.sample import Sample

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class KeyedSample:
    """The keys of a sample: the same for any number of cells."""

    mapping: Mapping
    ranges: RangeTable
    keys: KeyTable

    @classmethod
    def of(cls, mapping: Mapping, sample: Sample) -> KeyedSample:
        ranges = mapping.keys_of_subscriptions(sample.filters)
        return cls(mapping, ranges, mapping.keys_of_events(sample.events))

    def cells(self, count: int) -> Cells:
        """That many even cells, or as many as there are keys."""
        return Cells(self.mapping.spec.bits, min(count, 1 << self.mapping.spec.bits))

    def balanced_cells(self, count: int) -> Cells:
        """As plan `keyed` cuts them."""
        return balanced_keys(self.mapping.spec.bits, self.ranges, self.keys, count)

    def in_cells(self, cells: Cells, *, wide_at_root: bool = False) -> SampledCells:
        """`wide_at_root`: as plan `keyed` places those who would stand nearly everywhere."""
        placed = cells.cells_of_ranges(self.ranges)
        if wide_at_root:
            placed = placed.with_wide_at_root(cells.count)
        return SampledCells(cells.count, placed, cells.cells_of_keys(self.keys))


@dataclass(frozen=True)
class SampledCells:
    """A sample in its cells. The root is apart: whoever stands there stands in no cell."""

    count: int
    placed: CellRanges
    visited: EventCells

    @property
    def per_subscription(self) -> Ints:
        return self.placed.cells

    @property
    def per_event(self) -> Ints:
        return np.diff(self.visited.offsets)

    def standing(self, cells: npt.NDArray[np.signedinteger]) -> Ints:
        """In each of these cells: how many subscriptions. Without a list of all cells, of which
        there may be millions."""
        begun = np.searchsorted(self._first, cells, side="right")
        found: Ints = begun - np.searchsorted(self._last, cells, side="left")
        return found

    @cached_property
    def _first(self) -> npt.NDArray[np.int32]:
        return np.sort(self.placed.first)

    @cached_property
    def _last(self) -> npt.NDArray[np.int32]:
        return np.sort(self.placed.last)

    @cached_property
    def _visits(self) -> tuple[npt.NDArray[np.int32], Ints]:
        """The cells that some event visits, ascending, and how many events do."""
        cells, events = np.unique(self.visited.cells, return_counts=True)
        return cells, events

    @cached_property
    def load(self) -> Ints:
        """By cell: pairs of an event and a subscription that meet there; the heaviest first, those
        without any left out."""
        cells, events = self._visits
        pairs = events * self.standing(cells)
        return np.sort(pairs[pairs > 0])[::-1]

    @property
    def pairs(self) -> int:
        return int(self.load.sum())

    @property
    def skew(self) -> float:
        """The load of the most loaded cell over the mean of those in use."""
        return float(self.load[0] / self.load.mean()) if self.load.size else 1.0

    @property
    def fullest(self) -> int:
        """Subscriptions in the fullest cell, or at the root if there are more."""
        # Where a run begins, the number of subscriptions may be at its highest; nowhere else.
        most = int(self.standing(np.unique(self._first)).max()) if self._first.size else 0
        return max(most, int(self.placed.root.sum()))

    def met(self) -> Ints:
        """By subscription: how many meetings with events it has in its cells."""
        cells, events = self._visits
        before = np.concatenate([[0], np.cumsum(events)])
        placed = self.placed
        first = np.searchsorted(cells, placed.first, side="left")
        behind = np.searchsorted(cells, placed.last, side="right")
        runs = np.concatenate([[0], np.cumsum(before[behind] - before[first])])
        found: Ints = runs[placed.offsets[1:]] - runs[placed.offsets[:-1]]
        return found
