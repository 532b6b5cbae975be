"""One alternative of a whole shape → spans of positions, row by row.

The sides of an alternative are first joined to one exact interval of keys per dimension and row (a
**stretch**), because only exact keys tell that `a > 5 AND a < 3` is empty where both lie at one
position. Whole numbers have stretches low … high, both included; texts go from a text to before
another one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from crossroads.mapping.axes import Axis
from crossroads.mapping.scales import Hashed
from crossroads.model.atoms import Dimension
from crossroads.model.columnar import Alternative, Side
from crossroads.model.columnkeys import Int64Array, backwards
from crossroads.model.types import BIGINT_MAX, BIGINT_MIN, key_bounds

Bools = npt.NDArray[np.bool_]
Int32Array = npt.NDArray[np.int32]

_ZERO = pa.scalar(b"\0", pa.large_binary())
_NOTHING = pa.scalar(b"", pa.large_binary())


@dataclass(frozen=True)
class Stretch:
    """Of whole numbers: low … high. `fits`: the rows that are not empty."""

    low: Int64Array
    high: Int64Array
    fits: Bools


@dataclass(frozen=True)
class TextStretch:
    """From `low` to before `end`, as columns of bytes; None: without end."""

    low: pa.Array
    end: pa.Array | None
    fits: Bools
    points: Bools  # the rows that hold the text `low` and no other


def spans_of(
    one: Alternative, axes: Sequence[Axis], size: int
) -> tuple[Int32Array, Int32Array, Bools] | None:
    """(low [rows, axes], high [rows, axes], rows that are not empty); None: none is."""
    sides: dict[Dimension, list[Side]] = defaultdict(list)
    for side in one.sides:
        sides[side.dimension].append(side)
    low = np.zeros((size, len(axes)), np.int32)
    high = np.empty((size, len(axes)), np.int32)
    high[:] = [axis.size - 1 for axis in axes]
    fits = np.ones(size, np.bool_)
    for attribute in {dimension.attribute for dimension in sides}:
        forwards = sides.get(Dimension(attribute), [])
        turned = sides.get(Dimension(attribute, True), [])
        given = forwards + turned
        columns = [at for at, axis in enumerate(axes) if axis.dimension.attribute == attribute]
        if any(side.null for side in given):
            if not all(side.null for side in given):
                return None
            high[:, columns] = 0
        elif given[0].type.is_text:
            text = _Text(forwards, turned, size)
            fits &= text.fits()
            for at in columns:
                low[:, at], high[:, at] = text.spans(axes[at])
        else:
            stretch = _stretch(given, size)
            fits &= stretch.fits
            for at in columns:
                low[:, at], high[:, at] = _spans(axes[at], stretch)
    return low, high, fits


# -- whole numbers ---------------------------------------------------------------------------------


def _stretch(sides: list[Side], size: int) -> Stretch:
    least, beyond = key_bounds(sides[0].type)
    assert isinstance(least, int) and isinstance(beyond, int)
    # Wide decimals are never compared by columns: only "not NULL" is said of them here.
    least, beyond = max(least, BIGINT_MIN), min(beyond, BIGINT_MAX + 1)
    low: Int64Array | None = None
    high: Int64Array | None = None
    fits = np.ones(size, np.bool_)
    for side in sides:
        # Rows that do not fit are of no interest any more: there, keys may wrap around.
        if side.low is not None:
            keys, step = side.low.constants, int(side.low.strict)
            fits &= keys <= beyond - 1 - step
            keys = np.maximum(keys + step, least)
            low = keys if low is None else np.maximum(low, keys)
        if side.high is not None:
            keys, step = side.high.constants, int(side.high.strict)
            fits &= keys >= least + step
            keys = np.minimum(keys - step, beyond - 1)
            high = keys if high is None else np.minimum(high, keys)
    if low is None:
        low = np.full(size, least, np.int64)
    if high is None:
        high = np.full(size, beyond - 1, np.int64)
    return Stretch(low, high, fits & (low <= high))


def _spans(axis: Axis, stretch: Stretch) -> tuple[Int64Array, Int64Array]:
    first = axis.places(stretch.low)
    if isinstance(axis.scale, Hashed):
        points = stretch.low == stretch.high
        return np.where(points, first, 0), np.where(points, first, axis.size - 1)
    return first, axis.places(stretch.high)


# -- texts -----------------------------------------------------------------------------------------


def _text_stretch(sides: list[Side], size: int) -> TextStretch:
    low: pa.Array | None = None
    end: pa.Array | None = None
    for side in sides:
        if side.low is not None:
            start = _next(side.low.constants) if side.low.strict else side.low.constants
            low = start if low is None else pc.max_element_wise(low, start)
        if side.high is not None:
            stop = side.high.constants if side.high.strict else _next(side.high.constants)
            end = stop if end is None else pc.min_element_wise(end, stop)
    if low is None:
        low = pa.repeat(_NOTHING, size)
    if end is None:
        return TextStretch(low, None, np.ones(size, np.bool_), np.zeros(size, np.bool_))
    return TextStretch(low, end, _flags(pc.less(low, end)), _flags(pc.equal(_next(low), end)))


def _next(texts: pa.Array) -> pa.Array:
    """The text right behind each one."""
    return pc.binary_join_element_wise(texts, _ZERO, _NOTHING)


def _flags(column: pa.Array) -> Bools:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


class _Text:
    """Stretches of one attribute forwards and backwards; a whole text says both."""

    def __init__(self, forwards: list[Side], turned: list[Side], size: int) -> None:
        self.forwards = _text_stretch(forwards, size) if forwards else None
        self.turned = _text_stretch(turned, size) if turned else None
        # Of the rows that are a single text: that text backwards.
        self.points = np.zeros(size, np.bool_) if self.forwards is None else self.forwards.points
        self.reversed = (
            backwards(self.forwards.low) if self.forwards and self.points.any() else None
        )

    def fits(self) -> Bools:
        fits = np.ones(self.points.size, np.bool_)
        for stretch in (self.forwards, self.turned):
            if stretch is not None:
                fits &= stretch.fits
        if self.turned is not None and self.reversed is not None:
            inside = _flags(pc.greater_equal(self.reversed, self.turned.low))
            if self.turned.end is not None:
                inside &= _flags(pc.less(self.reversed, self.turned.end))
            fits &= inside | ~self.points
        return fits

    def spans(self, axis: Axis) -> tuple[Int64Array, Int64Array]:
        whole = np.full(self.points.size, axis.size - 1, np.int64)
        stretch = self.turned if axis.dimension.backwards else self.forwards
        if stretch is None:
            low, high = np.zeros_like(whole), whole
        elif isinstance(axis.scale, Hashed):
            places = axis.places_of_texts(stretch.low)
            low = np.where(stretch.points, places, 0)
            high = np.where(stretch.points, places, whole)
        else:
            low = axis.places_of_texts(stretch.low)
            high = whole if stretch.end is None else axis.last_places_of_texts(stretch.end)
        if axis.dimension.backwards and self.reversed is not None:
            places = axis.places_of_texts(self.reversed)
            low, high = np.where(self.points, places, low), np.where(self.points, places, high)
        return low, high
