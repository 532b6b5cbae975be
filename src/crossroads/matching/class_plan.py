"""How to lay out one signature class: key dimensions, grid resolution, narrowing.

The resolution of a grid decides everything: too coarse and every event verifies many
candidates, too fine and every box is stored in many cells. So it is chosen by the expected
time per event, estimated on a sample of the real boxes, within a budget of memory.

All bounds here are code + 1 (NULL is 0), cut to the size of their dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log2

import numpy as np
import numpy.typing as npt

from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.kernels import NARROW_LOWER, NARROW_NONE, NARROW_UPPER, Array
from crossroads.model.compiled import compiled

# Nanoseconds on one core of 2023; only their ratios matter.
PROBE_NS = 12.0  # find the list of one class
HASH_NS = 10.0  # what a hash table adds to a probe
NARROW_NS = 40.0  # one binary search: its steps wait for each other, and often for memory
VERIFY_NS = 1.3  # verify one candidate, per word of bounds
COPY_NS = 0.2  # copy one id that needs no verification
MISS_NS = 8.0  # what a probe waits longer each time the class doubles beyond the cache
CACHE_BYTES = 1 << 20

BYTES_PER_BOX_MAX = 225  # what a class may spend per box; leaves room for the rest of an index
BYTES_FREE = 1 << 16  # small classes need not save
CELLS_PER_BOX_MAX = 64  # a box that would be stored more often goes to a coarser class
KEY_SPACE_MAX = 1 << 62  # cell numbers are int64
SAMPLE = 1024  # boxes looked at; their pairs estimate how boxes crowd together
EVENT_STEP = 4  # every so many-th of them stands for an event: quicker, and pairs enough
PAIRS_TRUSTED = 16  # fewer crowded pairs than this in the sample are noise
GRID_BOXES_MIN = 16  # fewer boxes are scanned faster than anything cleverer
NARROW_LIST_MIN = 12  # shorter lists are scanned faster than narrowed
LEFT_MAX = 0.8  # share of a list beyond which narrowing it is not worth a search
STARTS = 2  # even grids from which the search goes on

BoolArray = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint64]
# An estimate for two kinds of events: spread evenly, and lying where the boxes lie. Costs are
# the mean of both, so that neither kind is forgotten.
Mix = npt.NDArray[np.float64]
Shifts = tuple[int | None, ...]  # per column: its shift within the key, None outside of it


@dataclass(frozen=True)
class Boxes:
    """Boxes of one signature, ready to be planned: bounds are code + 1 within 0..size."""

    dims: tuple[int, ...]
    sizes: tuple[int, ...]  # largest coordinate of each dimension
    lo: Int32Array
    hi: Int32Array
    ids: Int32Array

    @cached_property
    def open_above(self) -> list[bool]:
        """Per column, whether no box has an upper bound there."""
        return [_all_are(self.hi[:, c], size) for c, size in enumerate(self.sizes)]

    @cached_property
    def widest(self) -> list[int]:
        """Per column, how far the bounds of a box lie apart at most."""
        widths: list[int] = _widest(self.lo, self.hi).tolist()
        return widths

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Boxes:
        return replace(self, lo=self.lo[rows], hi=self.hi[rows], ids=self.ids[rows])

    def slice(self, begin: int, end: int) -> Boxes:
        """Consecutive boxes, without copying them."""
        rows = slice(begin, end)
        return replace(self, lo=self.lo[rows], hi=self.hi[rows], ids=self.ids[rows])


@dataclass(frozen=True)
class ClassPlan:
    """Per column of the boxes its shift as part of the key, or None; and the narrowed column."""

    shifts: Shifts
    narrow: int = NARROW_NONE
    narrow_column: int = -1
    cost_ns: float = 0.0

    @property
    def key_columns(self) -> list[int]:
        return [c for c, shift in enumerate(self.shifts) if shift is not None]


def cells_along(size: int, shift: int | None) -> int:
    """Number of grid cells of a dimension whose coordinates are 0..size."""
    return 1 if shift is None else (size >> shift) + 1


def lane_bits(size: int, shift: int | None) -> int:
    """Bits that verifying a dimension takes, without the guard; 0 where the key says it all."""
    return size.bit_length() if shift is None else shift


def count_words(bits: list[int]) -> int:
    """64-bit words that lanes of these widths fill when packed in order."""
    words, used = 0, 64
    for width in bits:
        if width == 0:
            continue
        if used + width + 1 > 64:
            words, used = words + 1, 0
        used += width + 1
    return words


def verified_columns(boxes: Boxes, plan: ClassPlan) -> list[int]:
    """Columns whose bounds are not settled by the key or by narrowing."""
    settled = {c for c, shift in enumerate(plan.shifts) if shift == 0}
    if plan.narrow == NARROW_UPPER:
        settled.add(plan.narrow_column)
    if plan.narrow == NARROW_LOWER and boxes.open_above[plan.narrow_column]:
        settled.add(plan.narrow_column)
    return [c for c in range(len(boxes.dims)) if c not in settled]


def plan_class(boxes: Boxes, *, grid: bool) -> ClassPlan:
    """The cheapest layout found; with `grid`, boxes too wide for it are left to another class."""
    assert len(boxes.ids) > 0
    return _Planner(boxes).best(grid=grid and len(boxes.ids) >= GRID_BOXES_MIN)


class _Planner:
    """Estimates the cost of layouts of one set of boxes and walks to a cheap one."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self.n = len(boxes.ids)
        columns = range(len(boxes.dims))
        self.points = self._point_columns()
        self.ranges = [c for c in columns if c not in self.points]
        rows = _spread_sample(self.n)
        self.lo = boxes.lo[rows].astype(np.int64)
        self.hi = boxes.hi[rows].astype(np.int64)
        self.list_size = self._expected_list()
        self.narrowing = {c: self._narrowing(c) for c in self.ranges}
        self.estimates: dict[Shifts, ClassPlan | None] = {}
        self.covers: dict[tuple[int, int], Int64Array] = {}
        self.crowds: dict[tuple[int, int], Bits] = {}

    def best(self, *, grid: bool) -> ClassPlan:
        """Walk downhill from the layout without a grid and from even grids; take the lowest."""
        none: Shifts = tuple(0 if c in self.points else None for c in range(len(self.boxes.dims)))
        plain = self._estimate(none)
        assert plain is not None  # no grid at all is always allowed
        if not grid or not self.ranges:
            return plain
        even = [self._estimate(shifts) for shifts in self._even_grids(none)]
        starts = sorted((p for p in even if p is not None), key=_cost)[:STARTS]
        return min((self._walk(start) for start in (plain, *starts)), key=_cost)

    def _walk(self, here: ClassPlan) -> ClassPlan:
        while True:
            near = (self._estimate(shifts) for shifts in self._neighbours(here.shifts))
            best = min((p for p in near if p is not None), key=_cost, default=here)
            if best.cost_ns >= here.cost_ns:
                return here
            here = best

    def _even_grids(self, none: Shifts) -> list[Shifts]:
        """All ranges gridded, cells from half as wide as the typical box to many times wider."""
        typical = np.median(self.hi - self.lo + 1, axis=0)
        grids: list[Shifts] = []
        for extra in range(-1, 6):
            shifts = list(none)
            for c in self.ranges:
                shift = max(0, int(typical[c]).bit_length() + extra)
                shifts[c] = shift if self.boxes.sizes[c] >> shift else None
            grids.append(tuple(shifts))
        return grids

    def _point_columns(self) -> list[int]:
        """Columns of equalities only, as many as fit into a cell number."""
        points: list[int] = []
        space = 1
        for c, size in enumerate(self.boxes.sizes):
            if self.boxes.widest[c] == 0 and space * (size + 1) < KEY_SPACE_MAX:
                space *= size + 1
                points.append(c)
        return points

    def _expected_list(self) -> float:
        """Boxes that share their points with an event which resembles the boxes."""
        if not self.points:
            return float(self.n)
        key = np.zeros(self.n, np.int64)
        for c in self.points:
            key = key * (self.boxes.sizes[c] + 1) + self.boxes.lo[:, c]
        counts = np.unique(key, return_counts=True)[1].astype(np.float64)
        return float((counts * counts).sum() / self.n)

    def _narrowing(self, column: int) -> tuple[int, Mix]:
        """How the column could narrow a list, and which share of the list would be left."""
        size = self.boxes.sizes[column]
        lo, hi = self.lo[:, column], self.hi[:, column]
        centres = (lo + hi) // 2
        if _all_are(self.boxes.lo[:, column], 1):
            alike = 1.0 - np.searchsorted(np.sort(hi), centres).mean() / len(hi)
            return NARROW_UPPER, np.array([hi.mean() / (size + 1), alike])
        starts = np.sort(lo)
        upto = np.searchsorted(starts, centres, side="right")
        if self.boxes.open_above[column]:
            return NARROW_LOWER, np.array([1.0 - lo.mean() / (size + 1), upto.mean() / len(lo)])
        reach = self.boxes.widest[column]
        alike = (upto - np.searchsorted(starts, centres - reach)).mean() / len(lo)
        return NARROW_LOWER, np.array([min(1.0, (reach + 1) / (size + 1)), alike])

    def _neighbours(self, shifts: Shifts) -> list[Shifts]:
        """One dimension twice as fine or twice as coarse."""
        near: list[Shifts] = []
        for c in self.ranges:
            coarsest = self.boxes.sizes[c].bit_length()
            shift = shifts[c]
            at = coarsest if shift is None else shift
            steps = [s for s in (at - 1, at + 1) if 0 <= s <= coarsest]
            near += [(*shifts[:c], s if s < coarsest else None, *shifts[c + 1 :]) for s in steps]
        return near

    def _estimate(self, shifts: Shifts) -> ClassPlan | None:
        """The plan with these shifts and its cost; None if it would take too much memory."""
        if shifts not in self.estimates:
            self.estimates[shifts] = self._estimate_anew(shifts)
        return self.estimates[shifts]

    def _estimate_anew(self, shifts: Shifts) -> ClassPlan | None:
        gridded = [c for c in self.ranges if shifts[c] is not None]
        cover, cells = np.ones(len(self.lo)), 1
        for c in gridded:
            shift = shifts[c] or 0
            if (c, shift) not in self.covers:
                self.covers[c, shift] = (self.hi[:, c] >> shift) - (self.lo[:, c] >> shift) + 1
            cover *= self.covers[c, shift]
            cells *= cells_along(self.boxes.sizes[c], shift)
        kept = cover <= CELLS_PER_BOX_MAX
        per_box = float((cover * kept).sum()) / len(cover)
        crowding = self._crowding(shifts, gridded, kept)
        listed = self.list_size * np.array([per_box / cells, max(crowding, per_box / cells)])
        for c in self.points:
            cells *= self.boxes.sizes[c] + 1
        if cells >= KEY_SPACE_MAX:
            return None
        plan = self._with_narrowing(ClassPlan(shifts), float(listed.mean()))
        narrowed = plan.narrow != NARROW_NONE
        left = self.narrowing[plan.narrow_column][1] if narrowed else np.ones(2)
        candidates = float((listed * left).mean())
        verified = verified_columns(self.boxes, plan)
        words = count_words([lane_bits(self.boxes.sizes[c], shifts[c]) for c in verified])
        entries = per_box * self.n
        dense = is_dense(cells, entries)
        # Lists differ in length: cells in use are more than entries over the expected length.
        used = cells if dense else entries / max(1.0, float(listed.mean()) / 4)
        size = entries * (4 + 16 * words + 4 * narrowed) + used * (4 if dense else 28)
        if gridded and size > BYTES_PER_BOX_MAX * self.n + BYTES_FREE:
            return None
        cost = PROBE_NS + MISS_NS * log2(1 + size / CACHE_BYTES)
        cost += (0.0 if dense else HASH_NS) + (NARROW_NS if narrowed else 0.0)
        cost += candidates * (VERIFY_NS * words if words else COPY_NS)
        return replace(plan, cost_ns=cost + self._cost_of_rest(kept))

    def _cost_of_rest(self, kept: BoolArray) -> float:
        """What the boxes left to another class will cost there: narrowed by their best bound."""
        if kept.all():
            return 0.0
        wide = ~kept
        sizes = np.array([self.boxes.sizes[c] + 1.0 for c in self.ranges])
        widths = (self.hi[wide] - self.lo[wide] + 1)[:, self.ranges] / sizes
        candidates = self.list_size * float(widths.min(axis=1).sum()) / len(kept)
        return PROBE_NS + NARROW_NS + VERIFY_NS * candidates

    def _with_narrowing(self, plan: ClassPlan, candidates: float) -> ClassPlan:
        """Narrow by the most selective column outside the grid, where that pays."""
        free = [c for c in self.ranges if plan.shifts[c] is None]
        if not free:
            return plan
        column = min(free, key=lambda c: float(self.narrowing[c][1].mean()))
        mode, left = self.narrowing[column]
        narrowed = replace(plan, narrow=mode, narrow_column=column)
        if not verified_columns(self.boxes, narrowed):
            return narrowed  # matches become plain runs of ids
        if candidates < NARROW_LIST_MIN or left.mean() > LEFT_MAX:
            return plan
        return narrowed

    def _crowding(self, shifts: Shifts, gridded: list[int], kept: BoolArray) -> float:
        """Share of boxes in the cell of an event that lies where boxes lie."""
        m = len(self.lo)
        if not gridded or m < 2:
            return 1.0
        together = _bits(kept[np.newaxis, :])
        for c in gridded:
            shift = shifts[c]
            assert shift is not None
            if (c, shift) not in self.crowds:
                self.crowds[c, shift] = self._crowd(c, shift)
            together = together & self.crowds[c, shift]
        events = kept[::EVENT_STEP]
        pairs = int(np.bitwise_count(together).sum()) - int(events.sum())  # not with themselves
        return pairs / (len(events) * (m - 1)) if pairs >= PAIRS_TRUSTED else 0.0

    def _crowd(self, column: int, shift: int) -> Bits:
        """Bit (i, j): does box j overlap the cell that holds the centre of the i-th event?"""
        lo, hi = self.lo[:, column], self.hi[:, column]
        cell = ((lo + hi)[::EVENT_STEP] // 2 >> shift).astype(np.int32)
        first, last = (lo >> shift).astype(np.int32), (hi >> shift).astype(np.int32)
        return _bits((first <= cell[:, None]) & (cell[:, None] <= last))


def _all_are(bounds: Int32Array, bound: int) -> bool:
    # The first one alone says no for nearly every column.
    return not len(bounds) or (bool(bounds[0] == bound) and bool((bounds == bound).all()))


@compiled
def _widest(lo: Array, hi: Array) -> Array:
    widths = np.zeros(lo.shape[1], np.int64)
    for i in range(lo.shape[0]):
        for c in range(lo.shape[1]):
            widths[c] = max(widths[c], np.int64(hi[i, c]) - np.int64(lo[i, c]))
    return widths


def _bits(rows: BoolArray) -> Bits:
    """Rows of truth values, 64 to a word."""
    padded = np.zeros((len(rows), rows.shape[1] + -rows.shape[1] % 64), np.bool_)
    padded[:, : rows.shape[1]] = rows
    return np.packbits(padded, axis=1).view(np.uint64)


def is_dense(cells: float, entries: float) -> bool:
    """Whether a plain table of offsets is worth its memory; otherwise cells are hashed."""
    return cells <= max(4 * entries, 1024)


def _cost(plan: ClassPlan) -> float:
    return plan.cost_ns


def _spread_sample(n: int) -> Int64Array:
    """Row numbers spread over 0..n-1 without the rhythm of the input: a golden-ratio walk."""
    if n <= SAMPLE:
        return np.arange(n, dtype=np.int64)
    return np.unique((np.arange(SAMPLE) * 0.6180339887498949 % 1.0 * n).astype(np.int64))
