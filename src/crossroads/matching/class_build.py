"""Writing planned classes into the flat arrays of an index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.errors import InputError
from crossroads.matching import class_fill, kernels
from crossroads.matching.boxes import Int32Array, Int64Array
from crossroads.matching.class_plan import (
    CELLS_PER_BOX_MAX,
    Boxes,
    ClassPlan,
    cells_along,
    is_dense,
    lane_bits,
    plan_class,
    verified_columns,
)
from crossroads.matching.pieces import in_pieces

ENTRIES_MAX = (1 << 31) - 1  # list offsets are int32
BOXES_SORTED_MIN = 100_000  # fewer fit into the cache in any order
CELLS_SORTED_PER_BOX = 8  # with more cells than this, counting them costs more than it saves
HASH_FILL_MAX = 0.5  # longer probe sequences cost more than the memory saved

Empty = Callable[[int | tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
Places = npt.NDArray[np.signedinteger[Any]]

_DTYPES: dict[str, type[np.generic]] = {
    "classes": np.int64,
    "keys": np.int64,
    "lanes": np.int64,
    "guards": np.uint64,
    "offsets": np.int32,
    "ids": np.int32,
    "words": np.uint64,
    "bounds": np.int32,
    "slot_keys": np.int64,
    "slot_lists": np.int32,
}
_COLUMNS = {
    "classes": kernels.CLASS_COLUMNS,
    "keys": kernels.KEY_COLUMNS,
    "lanes": kernels.LANE_COLUMNS,
}


class ClassWriter:
    """Collects the arrays of one class after the other."""

    def __init__(self, threads: int = 1, empty: Empty = np.empty) -> None:
        self._threads = threads
        self._empty = empty  # where arrays that stay come from
        self._parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _DTYPES}
        self._lengths = dict.fromkeys(_DTYPES, 0)

    def add(self, boxes: Boxes, *, grid: bool) -> Boxes:
        """Write a class for these boxes; returns those too wide for the grid it chose."""
        plan = plan_class(boxes, grid=grid)
        first, last = self._cells_of(boxes, plan)
        cover = np.empty(len(first), np.float64)
        self._each(class_fill.count_cells, len(first), first, last, cover)
        wide = cover > CELLS_PER_BOX_MAX
        if not wide.any():
            self._write(boxes, plan, first, last)
            return boxes.slice(0, 0)
        if not wide.all():
            self._write(boxes.take(~wide), plan, first[~wide], last[~wide])
        return boxes.take(wide)

    def finish(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, dtype in _DTYPES.items():
            parts = self._parts[name]
            shape = (0, _COLUMNS[name]) if name in _COLUMNS else (0,)
            if len(parts) == 1:
                arrays[name] = parts[0]  # one large class is common: no second copy of it
            else:
                arrays[name] = np.concatenate([np.empty(shape, dtype), *parts])
        return arrays

    def _each(self, fill: Callable[..., None], boxes: int, *arrays: npt.NDArray[Any]) -> None:
        """A loop over all boxes, of which no two share an entry."""
        in_pieces(self._threads, fill, boxes, *arrays)

    def _cells_of(self, boxes: Boxes, plan: ClassPlan) -> tuple[Int32Array, Int32Array]:
        """First and last cell of every box per key column."""
        columns = np.array(plan.key_columns, np.int64)
        shifts = np.array([plan.shifts[c] for c in plan.key_columns], np.int64)
        count = len(boxes.ids)
        first, last = (np.empty((count, len(columns)), np.int32) for _ in range(2))
        self._each(class_fill.cells_of, count, boxes.lo, columns, shifts, first)
        self._each(class_fill.cells_of, count, boxes.hi, columns, shifts, last)
        return first, last

    def _ordered(self, boxes: Boxes, order: Int64Array) -> Boxes:
        lo, hi = np.empty_like(boxes.lo), np.empty_like(boxes.hi)
        self._each(class_fill.take_rows, len(order), boxes.lo, order, lo)
        self._each(class_fill.take_rows, len(order), boxes.hi, order, hi)
        return replace(boxes, lo=lo, hi=hi, ids=boxes.ids[order])

    def _append(self, name: str, array: npt.NDArray[Any]) -> int:
        """Add to one of the arrays; returns where the addition begins."""
        begin = self._lengths[name]
        self._parts[name].append(np.asarray(array, dtype=_DTYPES[name]))
        self._lengths[name] += len(array)
        return begin

    def _write(
        self,
        boxes: Boxes,
        plan: ClassPlan,
        first: Int32Array,
        last: Int32Array,
    ) -> None:
        row = np.zeros(kernels.CLASS_COLUMNS, np.int64)
        strides, cells = _strides(boxes, plan)
        order = _order(boxes, plan, first, strides, cells)
        if order is not None:
            boxes = self._ordered(boxes, order)
            first, last = self._cells_of(boxes, plan)
        starts = np.zeros(len(first) + 1, np.int64)
        self._each(class_fill.count_cells, len(first), first, last, starts[1:])
        np.cumsum(starts, out=starts)
        if starts[-1] + self._lengths["ids"] > ENTRIES_MAX:
            raise InputError(
                "the subscriptions need more than 2^31 index entries",
                hint="split the subscription set",
            )
        places = self._write_lists(row, boxes, plan, first, last, starts, strides, cells)
        ids = self._empty(len(places), np.int32)
        self._each(class_fill.scatter_rows, len(boxes.ids), starts, places, boxes.ids, ids)
        self._append("ids", ids)
        self._write_narrowing(row, boxes, plan, starts, places)
        self._write_bounds(row, boxes, plan, first, last, starts, places)
        self._append("classes", row.reshape(1, -1))

    def _write_lists(
        self,
        row: Int64Array,
        boxes: Boxes,
        plan: ClassPlan,
        first: Int32Array,
        last: Int32Array,
        starts: Int64Array,
        strides: Int64Array,
        cells: int,
    ) -> Places:
        """Write how a cell finds its list; returns the place of every entry."""
        keys = [
            (boxes.dims[c], plan.shifts[c], stride)
            for c, stride in zip(plan.key_columns, strides.tolist(), strict=True)
        ]
        # Fresh memory costs more than what is written to it: as little as possible, and in place.
        entries = int(starts[-1])
        entry_lists: Places = np.empty(entries, np.int32 if cells <= ENTRIES_MAX else np.int64)
        self._each(class_fill.list_cells, len(first), first, last, strides, starts, entry_lists)
        if cells == 1:
            row[kernels.TABLE_KIND], lists = kernels.SINGLE_LIST, 1
        elif is_dense(cells, len(entry_lists)):
            row[kernels.TABLE_KIND], lists = kernels.DENSE_TABLE, cells
        else:
            row[kernels.TABLE_KIND] = kernels.HASH_TABLE
            lists = self._write_hash(row, entry_lists) + 1  # and the empty list of a miss
        offsets = np.zeros(lists + 1, np.int32)
        class_fill.place_entries(entry_lists, offsets, np.empty(lists, np.int32))
        row[kernels.ENTRY_BASE] = self._lengths["ids"]
        row[kernels.TABLE_BASE] = self._append("offsets", offsets + np.int32(self._lengths["ids"]))
        table = np.array(keys, np.int64).reshape(-1, kernels.KEY_COLUMNS)
        row[kernels.KEY_BEGIN] = self._append("keys", table)
        row[kernels.KEY_END] = self._lengths["keys"]
        return entry_lists

    def _write_hash(self, row: Int64Array, entry_lists: Places) -> int:
        """Number the cells in use through a hash table; returns how many there are."""
        slot_keys = np.full(_slots_for(len(entry_lists)), kernels.EMPTY_SLOT, np.int64)
        slot_lists = np.zeros(len(slot_keys), np.int32)
        lists = int(class_fill.number_cells(entry_lists, slot_keys, slot_lists))
        small_keys = np.full(_slots_for(lists), kernels.EMPTY_SLOT, np.int64)
        small_lists = np.full(len(small_keys), lists, np.int32)
        class_fill.shrink_slots(slot_keys, slot_lists, small_keys, small_lists)
        row[kernels.HASH_BASE] = self._append("slot_keys", small_keys)
        row[kernels.HASH_MASK] = len(small_keys) - 1
        self._append("slot_lists", small_lists)
        return lists

    def _write_narrowing(
        self, row: Int64Array, boxes: Boxes, plan: ClassPlan, starts: Int64Array, places: Places
    ) -> None:
        row[kernels.NARROW] = plan.narrow
        if plan.narrow == kernels.NARROW_NONE:
            return
        sorted_by = boxes.lo if plan.narrow == kernels.NARROW_LOWER else boxes.hi
        bounds = self._empty(len(places), np.int32)
        values = np.ascontiguousarray(sorted_by[:, plan.narrow_column])
        self._each(class_fill.scatter_rows, len(values), starts, places, values, bounds)
        row[kernels.NARROW_DIM] = boxes.dims[plan.narrow_column]
        row[kernels.NARROW_BASE] = self._append("bounds", bounds)
        row[kernels.NARROW_REACH] = boxes.widest[plan.narrow_column]

    def _write_bounds(
        self,
        row: Int64Array,
        boxes: Boxes,
        plan: ClassPlan,
        first: Int32Array,
        last: Int32Array,
        starts: Int64Array,
        places: Places,
    ) -> None:
        """Write the bounds that the scan must verify, packed into lanes."""
        guards: list[int] = []
        lanes, sources = [], []
        used = 64
        for c in verified_columns(boxes, plan):
            bits = lane_bits(boxes.sizes[c], plan.shifts[c])
            if used + bits + 1 > 64:
                guards.append(0)
                used = 0
            guards[-1] |= 1 << (used + bits)
            lanes.append((boxes.dims[c], len(guards) - 1, used, bits))
            grid = plan.key_columns.index(c) if c in plan.key_columns else -1
            sources.append((c, len(guards) - 1, used, bits, grid))
            used += bits + 1
        row[kernels.WORDS] = len(guards)
        packed_guards = np.array(guards, np.uint64)
        row[kernels.GUARD_BASE] = self._append("guards", packed_guards)
        table = np.array(lanes, np.int64).reshape(-1, kernels.LANE_COLUMNS)
        row[kernels.LANE_BEGIN] = self._append("lanes", table)
        row[kernels.LANE_END] = self._lengths["lanes"]
        words = self._empty((len(places) if guards else 0, 2 * len(guards)), np.uint64)
        if guards:
            self._each(
                class_fill.scatter_bounds, len(boxes.ids), starts, places, boxes.lo, boxes.hi,
                np.array(sources, np.int64), first, last, packed_guards, words,
            )  # fmt: skip
        row[kernels.WORD_BASE] = self._append("words", words.reshape(-1))


def _strides(boxes: Boxes, plan: ClassPlan) -> tuple[Int64Array, int]:
    """How far apart the cells of each key column are numbered, and how many cells there are."""
    strides: list[int] = []
    cells = 1
    for c in reversed(plan.key_columns):
        strides.insert(0, cells)
        cells *= cells_along(boxes.sizes[c], plan.shifts[c])
    return np.array(strides, np.int64), cells


def _order(
    boxes: Boxes, plan: ClassPlan, first: Int32Array, strides: Int64Array, cells: int
) -> Int64Array | None:
    """By the bound that narrows lists; otherwise whatever is written fastest. None: as they are."""
    if plan.narrow != kernels.NARROW_NONE:
        sorted_by = boxes.lo if plan.narrow == kernels.NARROW_LOWER else boxes.hi
        return np.argsort(sorted_by[:, plan.narrow_column], kind="stable")
    if len(boxes.ids) >= BOXES_SORTED_MIN and 1 < cells <= CELLS_SORTED_PER_BOX * len(boxes.ids):
        order: Int64Array = class_fill.order_by_cell(first, strides, cells)
        return order
    return None


def _slots_for(lists: int) -> int:
    """Slots of a hash table, a power of two, that keeps probe sequences short."""
    return 1 << max(3, int(lists / HASH_FILL_MAX).bit_length())
