"""The Hilbert curve through a cube of any dimension: points → places on it, boxes → ranges of it.

A cube of side 2**order is divided into 2**d cubes of half the side; the curve visits them in the
order of the Gray code, turned so that it leaves each where it enters the next (Hamilton's account
of it: an entry corner and a direction say how it is turned). So whatever lies in one of these
cubes is one range of the curve, and a box is found by descending into the cubes that it cuts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crossroads.mapping.contract import Offsets
from crossroads.model.compiled import compiled

Integer = int | np.int64

# Cubes kept of one box: descent stops where the next level would have more, and those that are cut
# are taken whole, a superset. It bounds the ranges of a subscription and the time to find them.
CUBES_MAX = 4096


# -- plainly ---------------------------------------------------------------------------------------


def curve_index(point: Sequence[int], order: int) -> int:
    """The place of the point (each coordinate of `order` bits) on the curve."""
    axes = len(point)
    index, entry, direction = 0, 0, 0
    for level in reversed(range(order)):
        corner = sum((place >> level & 1) << axis for axis, place in enumerate(point))
        step = _gray_inverse(_rotated(corner ^ entry, -direction - 1, axes))
        index = index << axes | step
        entry, direction = _turned(entry, direction, step, axes)
    return index


def curve_ranges(
    low: Sequence[int], high: Sequence[int], order: int, most: int = CUBES_MAX
) -> list[tuple[int, int]]:
    """Ranges [first, end) of the curve that together hold the box low … high (both belong)."""
    axes = len(low)
    if all((start, end) == (0, (1 << order) - 1) for start, end in zip(low, high, strict=True)):
        return [(0, 1 << axes * order)]
    found: list[tuple[int, int]] = []
    # Cubes that the box cuts: (place on the curve at this level, corner, entry, direction).
    cut: list[tuple[int, tuple[int, ...], int, int]] = [(0, (0,) * axes, 0, 0)]
    for level in reversed(range(order)):
        inside: list[tuple[int, int]] = []
        partly: list[tuple[int, tuple[int, ...], int, int]] = []
        for index, corner, entry, direction in cut:
            for step in range(1 << axes):
                half = _rotated(step ^ step >> 1, direction + 1, axes) ^ entry
                at = tuple(place << 1 | half >> axis & 1 for axis, place in enumerate(corner))
                spans = [(place << level, (place + 1 << level) - 1) for place in at]
                if any(
                    end < low[axis] or start > high[axis] for axis, (start, end) in enumerate(spans)
                ):
                    continue
                place = index << axes | step
                if all(
                    low[axis] <= start and end <= high[axis]
                    for axis, (start, end) in enumerate(spans)
                ):
                    inside.append((place << axes * level, place + 1 << axes * level))
                else:
                    partly.append((place, at, *_turned(entry, direction, step, axes)))
        if len(found) + len(inside) + len(partly) > most:
            width = axes * (level + 1)
            return found + [(index << width, index + 1 << width) for index, *_ in cut]
        found += inside
        cut = partly
    return found


def _turned(entry: int, direction: int, step: int, axes: int) -> tuple[int, int]:
    """How the curve is turned within the cube that it visits at this step."""
    if step == 0:
        corner, change = 0, 0
    else:
        even = (step - 1) // 2 * 2
        corner = even ^ even >> 1
        ones = step if step % 2 else step - 1
        change = (~ones & ones + 1).bit_length() - 1  # trailing ones
    return entry ^ _rotated(corner, direction + 1, axes), (direction + change + 1) % axes


def _rotated(bits: int, by: int, axes: int) -> int:
    """To the left."""
    by %= axes
    return (bits << by | bits >> axes - by) & (1 << axes) - 1


def _gray_inverse(gray: int) -> int:
    number = 0
    while gray:
        number ^= gray
        gray >>= 1
    return number


# -- compiled --------------------------------------------------------------------------------------


@compiled
def curve_indices(points: Offsets, order: int) -> Offsets:
    """`curve_index` of every row."""
    axes = points.shape[1]
    found = np.empty(points.shape[0], np.int64)
    for i in range(points.shape[0]):
        index: Integer = 0
        entry: Integer = 0
        direction: Integer = 0
        for level in range(order - 1, -1, -1):
            corner: Integer = 0
            for axis in range(axes):
                corner |= (points[i, axis] >> level & 1) << axis
            step = _gray_inverse_64(
                _rotated_64(corner ^ entry, axes - (direction + 1) % axes, axes)
            )
            index = index << axes | step
            entry, direction = _turned_64(entry, direction, step, axes)
        found[i] = index
    return found


@compiled
def curve_range_table(
    low: Offsets, high: Offsets, order: int, most: int
) -> tuple[Offsets, Offsets, Offsets]:
    """`curve_ranges` of every box: (offsets by box, first, end)."""
    boxes, axes = low.shape
    offsets = np.zeros(boxes + 1, np.int64)
    first, end = np.empty(boxes + most, np.int64), np.empty(boxes + most, np.int64)
    place, turn = np.empty((2, most), np.int64), np.empty((2, most, 2), np.int64)
    corner = np.empty((2, most, axes), np.int64)
    for box in range(boxes):
        size = offsets[box]
        if size + most > first.size:
            first, end = _grown(first, size + most), _grown(end, size + most)
        offsets[box + 1] = _box_ranges(
            low[box], high[box], order, most, first, end, size, place, turn, corner
        )
    return offsets, first[: offsets[boxes]].copy(), end[: offsets[boxes]].copy()


@compiled
def _box_ranges(
    low: Offsets, high: Offsets, order: int, most: int, first: Offsets, end: Offsets, begin: int,
    place: Offsets, turn: Offsets, corner: Offsets,
) -> int:  # fmt: skip
    """Writes the ranges of one box from `begin` on; returns where they end."""
    axes = low.size
    whole = True
    for axis in range(axes):
        whole &= low[axis] == 0 and high[axis] == (1 << order) - 1
    if whole:
        first[begin], end[begin] = 0, np.int64(1) << axes * order
        return begin + 1
    size, now, cut = begin, 0, 1  # the cubes in hand are in half `now` of the arrays
    place[0, 0], turn[0, 0, 0], turn[0, 0, 1] = 0, 0, 0
    corner[0, 0, :] = 0
    for level in range(order - 1, -1, -1):
        inside, partly = size, 0
        too_many = False
        for cube in range(cut):
            for step in range(1 << axes):
                half = (
                    _rotated_64(step ^ step >> 1, (turn[now, cube, 1] + 1) % axes, axes)
                    ^ turn[now, cube, 0]
                )
                meets, within = True, True
                for axis in range(axes):
                    start = (corner[now, cube, axis] << 1 | half >> axis & 1) << level
                    last = start + (np.int64(1) << level) - 1
                    meets &= last >= low[axis] and start <= high[axis]
                    within &= low[axis] <= start and last <= high[axis]
                if not meets:
                    continue
                if inside - begin + partly == most:
                    too_many = True
                    break
                index = place[now, cube] << axes | step
                if within:
                    first[inside] = index << axes * level
                    end[inside] = (index + 1) << axes * level
                    inside += 1
                else:
                    place[1 - now, partly] = index
                    turned = _turned_64(turn[now, cube, 0], turn[now, cube, 1], step, axes)
                    turn[1 - now, partly, 0], turn[1 - now, partly, 1] = turned
                    for axis in range(axes):
                        at = corner[now, cube, axis] << 1 | half >> axis & 1
                        corner[1 - now, partly, axis] = at
                    partly += 1
            if too_many:
                break
        if too_many:
            width = axes * (level + 1)
            for cube in range(cut):
                first[size + cube] = place[now, cube] << width
                end[size + cube] = (place[now, cube] + 1) << width
            return size + cut
        size, now, cut = inside, 1 - now, partly
    return size


@compiled
def _grown(array: Offsets, needed: int) -> Offsets:
    grown = np.empty(2 * needed, np.int64)
    grown[: array.size] = array
    return grown


@compiled
def _turned_64(
    entry: Integer, direction: Integer, step: Integer, axes: int
) -> tuple[Integer, Integer]:
    corner: Integer = 0
    change: Integer = 0
    if step > 0:
        even = (step - 1) // 2 * 2
        corner = even ^ even >> 1
        ones = step if step % 2 else step - 1
        while ones & 1:
            change += 1
            ones >>= 1
    entry ^= _rotated_64(corner, (direction + 1) % axes, axes)
    return entry, (direction + change + 1) % axes


@compiled
def _rotated_64(bits: Integer, by: Integer, axes: int) -> Integer:
    """To the left, by 0 … axes."""
    return (bits << by | bits >> axes - by) & (1 << axes) - 1


@compiled
def _gray_inverse_64(gray: Integer) -> Integer:
    number: Integer = 0
    while gray:
        number ^= gray
        gray >>= 1
    return number
