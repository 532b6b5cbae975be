"""Bounds → ranges of codes: for columns of constants, and for intervals of keys.

A `CodedBox` is boxes side by side: per dimension a column of low and a column of high codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crossroads.matching.boxes import NO_UPPER_BOUND, Int32Array, Int64Array
from crossroads.matching.coders import NULL_CODE, UNBOUNDED, BytesCoder, Coder
from crossroads.model.columnar import Bound, Side
from crossroads.model.columnkeys import wide_key
from crossroads.model.intervals import Interval
from crossroads.model.types import Key, Type, key_bounds

Bools = npt.NDArray[np.bool_]
CodedBox = dict[int, tuple[Int32Array, Int32Array]]

_ROWS_STACKED = 1 << 14  # at a time: they stay in the cache from one dimension to the next


# -- columns ---------------------------------------------------------------------------------------


def sides_range(sides: Sequence[Side], coder: Coder, size: int) -> tuple[Int32Array, Int32Array]:
    """Low and high codes of what lies within all these sides of one dimension."""
    if any(side.null for side in sides):
        nulls = np.full(size, NULL_CODE, np.int32)
        # Together with any other side nothing is left: NULL is not among the values.
        return nulls if all(side.null for side in sides) else nulls + np.int32(1), nulls
    lows = [_codes(coder, side.low, 1) for side in sides if side.low is not None]
    highs = [_codes(coder, side.high, -1) for side in sides if side.high is not None]
    low = reduce(np.maximum, lows) if lows else np.full(size, UNBOUNDED[0], np.int32)
    high = reduce(np.minimum, highs) if highs else np.full(size, UNBOUNDED[1], np.int32)
    return low, high


def _codes(coder: Coder, bound: Bound, inwards: int) -> Int32Array:
    if isinstance(coder, BytesCoder):
        codes = coder.encode_bytes(bound.constants)
    else:
        assert isinstance(bound.constants, np.ndarray)
        codes = coder.encode(bound.constants)
    return codes + np.int32(inwards) if bound.strict else codes


# -- intervals of keys -----------------------------------------------------------------------------
#
# Ends at the bounds of the type are no constants. Other ends name the values they include, so that
# equality is one code: [5, 6) is 5 to 5, and for text [b"x", b"x\0") is b"x" to b"x".


def interval_constants(type_: Type, intervals: Iterable[Interval | None]) -> Iterator[Key]:
    """What the coder must know, as 64-bit ints or as bytes."""
    least, beyond = key_bounds(type_)
    for interval in intervals:
        if interval is None:
            continue
        low, high = interval
        if low != least:
            yield _constant(type_, low, 0)
        if high is not None and high != beyond:
            yield _constant(type_, high, 1)


def _constant(type_: Type, key: Key, back: int) -> Key:
    if isinstance(key, bytes):
        return key[:-1] if key.endswith(b"\0") else key
    return wide_key(key - back) if type_.wide else key - back


def interval_range(
    type_: Type, coder: Coder, intervals: list[Interval | None]
) -> tuple[Int32Array, Int32Array]:
    """Codes of interval ends; None is NULL."""
    low = np.full(len(intervals), UNBOUNDED[0], np.int32)
    high = np.full(len(intervals), NO_UPPER_BOUND, np.int32)
    least, beyond = key_bounds(type_)
    lows: list[tuple[int, Key]] = []
    highs: list[tuple[int, Key]] = []
    for at, interval in enumerate(intervals):
        if interval is None:
            low[at] = high[at] = NULL_CODE
            continue
        if interval[0] != least:
            lows.append((at, interval[0]))
        if interval[1] is not None and interval[1] != beyond:
            highs.append((at, interval[1]))
    _fill(low, type_, coder, lows, 0)
    _fill(high, type_, coder, highs, 1)
    return low, high


def _fill(
    codes: Int32Array, type_: Type, coder: Coder, ends: list[tuple[int, Key]], back: int
) -> None:
    if not ends:
        return
    places = [at for at, _ in ends]
    constants = [_constant(type_, key, back) for _, key in ends]
    if not isinstance(coder, BytesCoder):
        codes[places] = coder.encode(np.array(constants, np.int64))
        return
    found = coder.encode_bytes(pa.array(constants, pa.large_binary()))
    if type_.is_text:
        # b"x\0" is the place right behind b"x"; any other key is the place right before itself.
        behind = np.array([isinstance(k, bytes) and k.endswith(b"\0") for _, k in ends], np.int32)
        found = found + behind - np.int32(back)
    codes[places] = found


# -- boxes side by side ----------------------------------------------------------------------------


def fitting(box: CodedBox, size: int) -> Bools:
    """Which of the boxes are not empty."""
    fit = np.ones(size, np.bool_)
    for low, high in box.values():
        fit &= low <= high
    return fit


def apart(one: CodedBox, other: CodedBox, size: int) -> Bools:
    """Which pairs of boxes have nothing in common."""
    found = np.zeros(size, np.bool_)
    for dim in one.keys() & other.keys():
        found |= (one[dim][1] < other[dim][0]) | (other[dim][1] < one[dim][0])
    return found


def stacked(
    box: CodedBox, dims: tuple[int, ...], rows: Int64Array
) -> tuple[Int32Array, Int32Array]:
    """(boxes, dims) arrays of low and high codes of the chosen boxes."""
    low = np.empty((rows.size, len(dims)), np.int32)
    high = np.empty((rows.size, len(dims)), np.int32)
    for begin in range(0, rows.size, _ROWS_STACKED):
        here = slice(begin, begin + _ROWS_STACKED)
        for at, dim in enumerate(dims):
            lows, highs = box[dim]
            chosen = here if rows.size == lows.size else rows[here]  # all of them: the usual case
            low[here, at] = lows[chosen]
            high[here, at] = highs[chosen]
    return low, high


def shares(box: CodedBox, coders: list[Coder], rows: Int64Array) -> npt.NDArray[np.float64]:
    """Roughly the share of events that each box lets through."""
    share = np.ones(rows.size)
    for number, (low, high) in box.items():
        size = coders[number].size
        one, other = low[rows].astype(np.float64), high[rows].astype(np.float64)
        width = np.minimum(other, size) - np.maximum(one, 0) + 1
        share *= np.where(one == other, 2.0 / size, np.clip(width / size, 0, 1))
    return share
