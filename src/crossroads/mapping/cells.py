"""Cells: keys grouped into as many pieces as there should be partitions (discretization).

A cell is a stretch of consecutive keys, so a range of keys is a run of consecutive cells. Cells are
even, or cut where a sample says that the load is even. A pair that can meet in several cells is
reported by the smallest one that both have: `reporting_cell`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from crossroads.errors import UsageError
from crossroads.mapping.contract import KEY_BITS_MAX, KeyTable, Offsets, RangeTable
from crossroads.model.compiled import compiled

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CELLS_MAX = 1 << 24  # 64 MB of cuts, and more cells than any cluster has partitions
# A subscription in more than this share of the cells had better stand at the root, which every
# event visits where it is: fewer copies than one per cell, and no event does more than before.
WIDE_SHARE = 0.5


@dataclass(frozen=True)
class CellRanges:
    """Subscription i stands in the runs offsets[i] … offsets[i + 1] - 1 of cells first … last.

    One at the root has no runs: it is met there by every event, once.
    """

    offsets: Offsets
    first: Int32Array
    last: Int32Array  # belongs to the run
    root: Bools

    @property
    def cells(self) -> Int64Array:
        """By subscription: in how many cells it stands."""
        sums = np.concatenate([[0], np.cumsum(self.last.astype(np.int64) - self.first + 1)])
        found: Int64Array = sums[self.offsets[1:]] - sums[self.offsets[:-1]]
        return found

    def rooted(self, count: int) -> Bools:
        """Of `count` cells: who stands at the root, those who stand nearly everywhere included."""
        found: Bools = self.root | (self.cells > max(1, count * WIDE_SHARE))
        return found

    def with_wide_at_root(self, count: int) -> CellRanges:
        root = self.rooted(count)
        return CellRanges(*_runs(self.offsets, self.first, self.last, root), root)

    def runs_of(self, ordinals: Int64Array) -> tuple[Int64Array, Int32Array, Int32Array]:
        """Of the chosen subscriptions run by run: the place among them, first and last cell."""
        counts = self.offsets[ordinals + 1] - self.offsets[ordinals]
        at = np.repeat(np.arange(ordinals.size), counts)
        begins = np.concatenate([[0], np.cumsum(counts)])[:-1]
        runs = np.arange(at.size) - begins[at] + self.offsets[ordinals][at]
        return at, self.first[runs], self.last[runs]

    def load(self, count: int) -> Int64Array:
        """By cell: how many subscriptions stand in it."""
        begun = np.bincount(self.first, minlength=count + 1)
        ended = np.bincount(self.last.astype(np.int64) + 1, minlength=count + 1)
        found: Int64Array = np.cumsum(begun - ended)[:-1]
        return found


@dataclass(frozen=True)
class EventCells:
    """Event i goes to the cells offsets[i] … offsets[i + 1] - 1, ascending, none twice."""

    offsets: Offsets
    cells: Int32Array


@dataclass(frozen=True)
class Cells:
    """`count` cells over keys of `bits` bits; even ones unless there are `cuts` (first keys)."""

    bits: int
    count: int
    cuts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= min(CELLS_MAX, 1 << self.bits):
            raise UsageError(
                f"{self.count:,} cells are not possible with keys of {self.bits} bits",
                hint=f"from 1 to {min(CELLS_MAX, 1 << self.bits):,}",
            )
        assert self.bits <= KEY_BITS_MAX
        assert self.cuts is None or (
            len(self.cuts) == self.count - 1 and list(self.cuts) == sorted(set(self.cuts))
        ), self

    @classmethod
    def cut_at(cls, bits: int, cuts: Sequence[int]) -> Cells:
        """Each cut is the first key of a cell; the first cell begins at 0."""
        found = tuple(sorted({cut for cut in cuts if 0 < cut < 1 << bits}))
        return cls(bits, len(found) + 1, found)

    @cached_property
    def _cuts(self) -> Int64Array:
        if self.cuts is not None:
            return np.array(self.cuts, np.int64)
        return np.array(
            [-(-at * (1 << self.bits) // self.count) for at in range(1, self.count)], np.int64
        )

    @cached_property
    def _shift(self) -> int | None:
        """Where a shift does it: even cells, a power of two of them."""
        power = self.count & (self.count - 1) == 0
        return self.bits - self.count.bit_length() + 1 if power and self.cuts is None else None

    def cell_of(self, key: int) -> int:
        if self._shift is not None:
            return key >> self._shift
        return int(np.searchsorted(self._cuts, key, side="right"))

    def cells_of(self, keys: npt.NDArray[np.uint64]) -> Int32Array:
        signed = keys.astype(np.int64)
        if self._shift is not None:
            return (signed >> self._shift).astype(np.int32)
        return np.searchsorted(self._cuts, signed, side="right").astype(np.int32)

    def cells_of_ranges(self, table: RangeTable) -> CellRanges:
        """Runs that touch or overlap become one; whoever is at the root has none."""
        first, last = self.cells_of(table.low), self.cells_of(table.high - np.uint64(1))
        offsets, first, last = _runs(table.offsets, first, last, table.root)
        return CellRanges(offsets, first, last, table.root)

    def cells_of_keys(self, table: KeyTable) -> EventCells:
        """Keys are ascending, and so are cells: equal ones are neighbours."""
        return EventCells(*_distinct(table.offsets, self.cells_of(table.keys)))

    def to_json(self) -> str:
        cuts = None if self.cuts is None else list(self.cuts)
        return json.dumps({"bits": self.bits, "count": self.count, "cuts": cuts})

    @staticmethod
    def from_json(text: str) -> Cells:
        read = json.loads(text)
        cuts = None if read["cuts"] is None else tuple(read["cuts"])
        return Cells(read["bits"], read["count"], cuts)


@compiled
def _runs(
    offsets: Offsets, first: Int32Array, last: Int32Array, root: Bools
) -> tuple[Offsets, Int32Array, Int32Array]:
    """Ranges are sorted, so the next run begins behind this one, in it, or next to it."""
    new_offsets = np.zeros(offsets.size, np.int64)
    new_first, new_last = np.empty_like(first), np.empty_like(last)
    n = 0
    for i in range(offsets.size - 1):
        begin = n
        if not root[i]:
            for at in range(offsets[i], offsets[i + 1]):
                if n > begin and first[at] <= new_last[n - 1] + 1:
                    new_last[n - 1] = max(new_last[n - 1], last[at])
                else:
                    new_first[n], new_last[n] = first[at], last[at]
                    n += 1
        new_offsets[i + 1] = n
    return new_offsets, new_first[:n].copy(), new_last[:n].copy()


@compiled
def _distinct(offsets: Offsets, cells: Int32Array) -> tuple[Offsets, Int32Array]:
    new_offsets, kept = np.zeros(offsets.size, np.int64), np.empty_like(cells)
    n = 0
    for i in range(offsets.size - 1):
        begin = n
        for at in range(offsets[i], offsets[i + 1]):
            if n == begin or kept[n - 1] != cells[at]:
                kept[n] = cells[at]
                n += 1
        new_offsets[i + 1] = n
    return new_offsets, kept[:n].copy()


# -- who reports a pair ----------------------------------------------------------------------------


def reporting_cell(runs: Sequence[tuple[int, int]], cells: Sequence[int]) -> int | None:
    """The smallest cell that a subscription (runs of cells) and an event have in common."""
    shared = [cell for cell in cells if any(first <= cell <= last for first, last in runs)]
    return min(shared, default=None)


@compiled
def reported_here(
    cell: int,
    events: Int64Array,
    event_offsets: Offsets,
    event_cells: Int32Array,
    subscriptions: Int32Array,
    run_offsets: Offsets,
    first: Int32Array,
    last: Int32Array,
) -> Bools:
    """Of pairs (events[i], subscriptions[i]) that meet in `cell`: is it the smallest they share?"""
    here = np.ones(events.size, np.bool_)
    for pair in range(events.size):
        event, subscription = events[pair], subscriptions[pair]
        for at in range(event_offsets[event], event_offsets[event + 1]):
            other = event_cells[at]
            if other >= cell:
                break
            for run in range(run_offsets[subscription], run_offsets[subscription + 1]):
                if first[run] <= other <= last[run]:
                    here[pair] = False
                    break
            if not here[pair]:
                break
    return here
