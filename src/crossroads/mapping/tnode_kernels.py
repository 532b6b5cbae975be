"""Boxes and events → keys of Tnodes, many at a time. What each loop computes is in `tnode_keys`.

Levels of an axis are the depths in use, the shallowest first: `widths[axis, level]` positions per
Tnode, `depths[axis, level]`, `levels[axis]` of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crossroads.mapping.mixing import mix_64
from crossroads.mapping.shares import share
from crossroads.model.compiled import compiled

Ints = npt.NDArray[np.int64]
Integer = int | np.int64

NO_SIDE = -1


@compiled
def plan_boxes(
    low: Ints, high: Ints, sizes: Ints, widths: Ints, levels: Ints,
    shares: tuple[Ints, Ints, Ints, Ints, Ints, Ints], slack: int, most: int,
    side: Ints, deepest: Ints, pieces: Ints,
) -> None:  # fmt: skip
    """Per box the axis that keys it (or NO_SIDE), the last level to cut to, and how many Tnodes."""
    for i in range(low.shape[0]):
        side[i], pieces[i] = NO_SIDE, 0
        best: Integer = -1
        for axis in range(sizes.size):
            whole = low[i, axis] <= 0 and high[i, axis] >= sizes[axis] - 1
            if levels[axis] == 0 or whole:
                continue
            found = share(*shares, axis, low[i, axis], high[i, axis])
            if best < 0 or found < best:
                best, side[i] = found, axis
        axis = side[i]
        if axis == NO_SIDE:
            continue
        first, last = low[i, axis], high[i, axis]
        level = levels[axis] - 1
        if slack > 0:
            level = 0
            while level < levels[axis] - 1 and widths[axis, level] > (last - first + 1) // slack:
                level += 1
        while level >= 0:
            pieces[i] = _count_pieces(first, last, widths[axis], level)
            if pieces[i] <= most:
                break
            level -= 1
        deepest[i] = level
        if level < 0:
            side[i], pieces[i] = NO_SIDE, 0


@compiled
def _count_pieces(first: Integer, last: Integer, widths: Ints, level: Integer) -> Integer:
    begin, end = first // widths[level], last // widths[level] + 1
    count: Integer = np.int64(0)
    while level > 0:
        ratio = widths[level - 1] // widths[level]
        upper_begin, upper_end = (begin + ratio - 1) // ratio, end // ratio
        if upper_begin >= upper_end:
            break
        count += upper_begin * ratio - begin + end - upper_end * ratio
        begin, end = upper_begin, upper_end
        level -= 1
    count += end - begin
    return count


@compiled
def tnode_key(
    depth: Integer, label: Integer, replica: Integer, offset: Integer, bits: int
) -> Integer:
    name = mix_64(np.uint64(label)) + ((np.uint64(depth) << np.uint64(32)) | np.uint64(replica))
    hashed = np.int64(mix_64(name) >> np.uint64(64 - bits))
    return (hashed + offset) & ((np.int64(1) << bits) - 1)


@compiled
def fill_boxes(
    low: Ints, high: Ints, side: Ints, deepest: Ints, widths: Ints, depths: Ints,
    offsets: Ints, bits: int, replicas: int, keys: Ints, used: Ints,
) -> None:  # fmt: skip
    """The keys of the planned Tnodes, boxes in order, every replica of each; counts the levels."""
    size: Integer = 0
    for i in range(low.shape[0]):
        axis = side[i]
        if axis == NO_SIDE:
            continue
        level = deepest[i]
        begin = low[i, axis] // widths[axis, level]
        end = high[i, axis] // widths[axis, level] + 1
        while begin < end:
            upper_begin, upper_end, inner_begin, inner_end = end, end, end, end
            if level > 0:
                ratio = widths[axis, level - 1] // widths[axis, level]
                if (begin + ratio - 1) // ratio < end // ratio:
                    # What lies between is left to the level above.
                    upper_begin, upper_end = (begin + ratio - 1) // ratio, end // ratio
                    inner_begin, inner_end = upper_begin * ratio, upper_end * ratio
            depth = depths[axis, level]
            size = _append(begin, inner_begin, depth, offsets[axis], bits, replicas, keys, size)
            size = _append(inner_end, end, depth, offsets[axis], bits, replicas, keys, size)
            used[axis, level] += end - begin - (inner_end - inner_begin)
            begin, end = upper_begin, upper_end
            level -= 1


@compiled
def _append(
    begin: Integer, end: Integer, depth: Integer, offset: Integer, bits: int, replicas: int,
    keys: Ints, size: Integer,
) -> Integer:  # fmt: skip
    for label in range(begin, end):
        for replica in range(replicas):
            keys[size] = tnode_key(depth, label, replica, offset, bits)
            size += 1
    return size


@compiled
def fill_events(
    positions: Ints, widths: Ints, depths: Ints, levels: Ints,
    offsets: Ints, bits: int, replicas: int, starts: Ints, keys: Ints,
) -> int:  # fmt: skip
    """The keys of every event, ascending, none twice; returns how many there are in all."""
    size = 0
    for i in range(positions.shape[0]):
        replica = np.int64(0)
        if replicas > 1:
            mixed = np.uint64(0)
            for axis in range(levels.size):
                mixed = mix_64(mixed ^ np.uint64(positions[i, axis]))
            replica = np.int64(mixed % np.uint64(replicas))
        begin = size
        for axis in range(levels.size):
            for level in range(levels[axis]):
                label = positions[i, axis] // widths[axis, level]
                keys[size] = tnode_key(depths[axis, level], label, replica, offsets[axis], bits)
                size += 1
        _sort(keys, begin, size)
        end, size = size, begin
        for at in range(begin, end):
            if size == begin or keys[at] != keys[size - 1]:
                keys[size] = keys[at]
                size += 1
        starts[i + 1] = size
    return size


@compiled
def _sort(keys: Ints, begin: Integer, end: Integer) -> None:
    """In place. Mostly there are a handful: moved one by one, that is the fastest."""
    for at in range(begin + 1, end):
        key, place = keys[at], at
        while place > begin and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key
