"""The compiled loops that spread boxes over the lists of a class.

Coordinates, lanes and tables are those that `kernels` describes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crossroads.matching.kernels import EMPTY_SLOT, Array, slot_of
from crossroads.model.compiled import compiled


@compiled
def cells_of(
    bounds: Array, columns: Array, shifts: Array, cells: Array, begin: int, end: int
) -> None:
    """The cell of a bound along every key column: a row per box, as the loops below read them."""
    for i in range(begin, end):
        for d in range(columns.size):
            cells[i, d] = bounds[i, columns[d]] >> shifts[d]


@compiled
def take_rows(rows: Array, order: Array, out: Array, begin: int, end: int) -> None:
    """Rows in another order; numpy takes five times as long."""
    for i in range(begin, end):
        for c in range(rows.shape[1]):
            out[i, c] = rows[order[i], c]


@compiled
def order_by_cell(first: Array, strides: Array, cells: int) -> Array:
    """Boxes in the order of their first cells: a counting sort, so equal cells keep their order.

    Neighbours in this order overlap neighbouring cells, so what is then written to the lists stays
    in the cache; in the order of the input every write would wait for memory.
    """
    boxes, dims = first.shape
    counts = np.zeros(cells + 1, np.int32)
    keys = np.empty(boxes, np.int32)
    for i in range(boxes):
        key = np.int64(0)
        for d in range(dims):
            key += np.int64(first[i, d]) * strides[d]
        keys[i] = key
        counts[key + 1] += 1
    for cell in range(cells):
        counts[cell + 1] += counts[cell]
    order = np.empty(boxes, np.int64)
    for i in range(boxes):
        order[counts[keys[i]]] = i
        counts[keys[i]] += 1
    return order


@compiled
def count_cells(first: Array, last: Array, cells: Array, begin: int, end: int) -> None:
    """Cells that each box overlaps, from its first and last cell per grid dimension."""
    for i in range(begin, end):
        product = 1.0  # it may exceed int64 for very wide boxes
        for d in range(first.shape[1]):
            product *= np.float64(last[i, d]) - np.float64(first[i, d]) + 1.0
        cells[i] = product


@compiled
def list_cells(
    first: Array, last: Array, strides: Array, starts: Array, cells: Array, begin: int, end: int
) -> None:
    """Cell number of every (box, overlapped cell), boxes in order, last dimension fastest.

    A product, dimension by dimension: each cell so far becomes one per step along the next one.
    From the last to the first, so that none is overwritten before it is read.
    """
    for i in range(begin, end):
        at, count = starts[i], 1
        cells[at] = 0
        for d in range(first.shape[1]):
            steps = np.int64(last[i, d]) - first[i, d] + 1
            low = np.int64(first[i, d]) * strides[d]
            for old in range(count - 1, -1, -1):
                cell = cells[at + old] + low
                for step in range(steps - 1, -1, -1):
                    cells[at + old * steps + step] = cell + step * strides[d]
            count *= steps


@compiled
def number_cells(cells: Array, slot_keys: Array, slot_lists: Array) -> int:
    """Replace cell numbers by list numbers 0, 1, ... in order of appearance; returns how many."""
    mask = slot_keys.size - 1
    lists = 0
    for entry in range(cells.size):
        key = cells[entry]
        slot = slot_of(key, mask)
        while slot_keys[slot] != key and slot_keys[slot] != EMPTY_SLOT:
            slot = (slot + 1) & mask
        if slot_keys[slot] == EMPTY_SLOT:
            slot_keys[slot] = key
            slot_lists[slot] = lists
            lists += 1
        cells[entry] = slot_lists[slot]
    return lists


@compiled
def shrink_slots(keys: Array, lists: Array, new_keys: Array, new_lists: Array) -> None:
    """Move the used slots into a smaller hash table."""
    mask = new_keys.size - 1
    for old in range(keys.size):
        if keys[old] != EMPTY_SLOT:
            slot = slot_of(keys[old], mask)
            while new_keys[slot] != EMPTY_SLOT:
                slot = (slot + 1) & mask
            new_keys[slot] = keys[old]
            new_lists[slot] = lists[old]


@compiled
def place_entries(lists: Array, offsets: Array, cursor: Array) -> None:
    """Counting sort: in `lists`, each entry's list is replaced by its place, so that lists are
    contiguous and keep their order.

    `offsets` comes zeroed with one more element than there are lists.
    """
    for entry in range(lists.size):
        offsets[lists[entry] + 1] += 1
    for i in range(offsets.size - 1):
        cursor[i] = offsets[i]
        offsets[i + 1] += offsets[i]
    for entry in range(lists.size):
        at = cursor[lists[entry]]
        cursor[lists[entry]] = at + 1
        lists[entry] = at


@compiled
def scatter_rows(
    starts: Array, places: Array, values: Array, out: Array, begin: int, end: int
) -> None:
    """Give every entry the value of its box."""
    for i in range(begin, end):
        value = values[i]
        for entry in range(starts[i], starts[i + 1]):
            out[places[entry]] = value


@compiled
def scatter_bounds(
    starts: Array,
    places: Array,
    lo: Array,
    hi: Array,
    lanes: Array,  # rows (column of lo and hi, word, position, bits, grid column or -1)
    first: Array,
    last: Array,
    guards: Array,
    out: Array,  # (entries, 2 * words): packed lower bounds, then packed upper bounds
    begin: int,
    end: int,
) -> None:
    """Write the packed bounds of every entry, cut to the cell it lies in.

    Word by word, and in a word the same product as in `list_cells`: a lane on the grid has its own
    bound in the first (last) cell of the box and none in the others; the rest are the same in all.
    """
    words, dims, n_lanes = guards.size, first.shape[1], lanes.shape[0]
    lane_of = np.full((words, dims), -1, np.int64)
    most = np.int64(1)
    for lane in range(n_lanes):
        if lanes[lane, 4] >= 0:
            lane_of[lanes[lane, 1], lanes[lane, 4]] = lane
    for i in range(begin, end):
        most = max(most, starts[i + 1] - starts[i])
    lows, highs = np.empty(most, np.uint64), np.empty(most, np.uint64)
    none = np.uint64(0)
    for i in range(begin, end):
        for word in range(words):
            low, high, count = none, guards[word], 1
            for lane in range(n_lanes):
                if lanes[lane, 1] == word and lanes[lane, 4] < 0:
                    low |= _lane(lo[i, lanes[lane, 0]], lanes[lane])
                    high |= _lane(hi[i, lanes[lane, 0]], lanes[lane])
            lows[0], highs[0] = low, high
            for d in range(dims):
                steps = np.int64(last[i, d]) - first[i, d] + 1
                lane, whole = lane_of[word, d], none
                own_low = own_high = none
                if lane >= 0:
                    own_low = _lane(lo[i, lanes[lane, 0]], lanes[lane])
                    own_high = _lane(hi[i, lanes[lane, 0]], lanes[lane])
                    whole = _lane(-1, lanes[lane])
                for old in range(count - 1, -1, -1):
                    low, high = lows[old], highs[old]
                    new = old * steps
                    for step in range(steps - 1, 0, -1):
                        lows[new + step] = low
                        highs[new + step] = high | whole
                    highs[new + steps - 1] = high | own_high
                    lows[new] = low | own_low
                    if steps > 1:
                        highs[new] = high | whole
                count *= steps
            for entry in range(count):
                place = places[starts[i] + entry]
                out[place, word] = lows[entry]
                out[place, words + word] = highs[entry]


@compiled
def _lane(code: int, lane: Array) -> Any:
    """The low bits of a code, as many as the lane has, in their place of the word."""
    mask = (np.uint64(1) << np.uint64(lane[3])) - np.uint64(1)
    return (np.uint64(code) & mask) << np.uint64(lane[2])
