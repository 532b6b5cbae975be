"""The compiled loops that spread boxes over the lists of a class.

Coordinates, lanes and tables are those that `kernels` describes.
"""

from __future__ import annotations

import numpy as np

from crossroads.matching.kernels import EMPTY_SLOT, Array, compiled, slot_of


@compiled
def count_cells(first: Array, last: Array) -> Array:
    """Cells that each box overlaps, from its first and last cell per grid dimension."""
    boxes, dims = first.shape
    cells = np.ones(boxes, np.float64)  # the product may exceed int64 for very wide boxes
    for i in range(boxes):
        for d in range(dims):
            cells[i] *= np.float64(last[i, d]) - np.float64(first[i, d]) + 1.0
    return cells


@compiled
def list_cells(first: Array, last: Array, strides: Array, starts: Array, cells: Array) -> None:
    """Cell number of every (box, overlapped cell), boxes in order, last dimension fastest."""
    boxes, dims = first.shape
    if dims == 0:
        cells[:] = 0
        return
    at = np.empty(dims, np.int64)
    for i in range(boxes):
        cell = np.int64(0)
        for d in range(dims):
            at[d] = first[i, d]
            cell += at[d] * strides[d]
        for entry in range(starts[i], starts[i + 1]):
            cells[entry] = cell
            d = dims - 1
            at[d] += 1
            cell += strides[d]
            while d > 0 and at[d] > last[i, d]:
                cell -= (at[d] - first[i, d]) * strides[d]
                at[d] = first[i, d]
                d -= 1
                at[d] += 1
                cell += strides[d]


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
def place_entries(lists: Array, offsets: Array, cursor: Array, places: Array) -> None:
    """Counting sort: the place of every entry so that lists are contiguous and keep their order.

    `offsets` comes zeroed with one more element than there are lists.
    """
    for entry in range(lists.size):
        offsets[lists[entry] + 1] += 1
    for i in range(offsets.size - 1):
        cursor[i] = offsets[i]
        offsets[i + 1] += offsets[i]
    for entry in range(lists.size):
        at = cursor[lists[entry]]
        places[entry] = at
        cursor[lists[entry]] = at + 1


@compiled
def scatter_rows(starts: Array, places: Array, values: Array, out: Array) -> None:
    """Give every entry the value of its box."""
    for i in range(values.size):
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
) -> None:
    """Write the packed bounds of every entry, cut to the cell it lies in."""
    words, dims, n_lanes = guards.size, first.shape[1], lanes.shape[0]
    at, packed = np.empty(dims, np.int64), np.empty(2 * words, np.uint64)
    own_lo, own_hi = np.empty(n_lanes, np.uint64), np.empty(n_lanes, np.uint64)
    whole = np.empty(n_lanes, np.uint64)  # the upper bound where the box goes on beyond the cell
    for lane in range(n_lanes):
        whole[lane] = np.uint64((np.int64(1) << lanes[lane, 3]) - 1) << np.uint64(lanes[lane, 2])
    for i in range(starts.size - 1):
        for d in range(dims):
            at[d] = first[i, d]
        for lane in range(n_lanes):
            position = np.uint64(lanes[lane, 2])
            own_lo[lane] = (np.uint64(lo[i, lanes[lane, 0]]) << position) & whole[lane]
            own_hi[lane] = (np.uint64(hi[i, lanes[lane, 0]]) << position) & whole[lane]
        for entry in range(starts[i], starts[i + 1]):
            for w in range(words):
                packed[w] = np.uint64(0)
                packed[words + w] = guards[w]
            for lane in range(n_lanes):
                word, grid = lanes[lane, 1], lanes[lane, 4]
                # Products instead of branches: which cell is a border cell is unpredictable.
                is_first = np.uint64(grid < 0 or at[grid] == first[i, grid])
                is_last = np.uint64(grid < 0 or at[grid] == last[i, grid])
                packed[word] |= own_lo[lane] * is_first
                packed[words + word] |= whole[lane] ^ ((whole[lane] ^ own_hi[lane]) * is_last)
            place = places[entry]
            for w in range(2 * words):
                out[place, w] = packed[w]
            d = dims - 1
            if d >= 0:
                at[d] += 1
                while d > 0 and at[d] > last[i, d]:
                    at[d] = first[i, d]
                    d -= 1
                    at[d] += 1
