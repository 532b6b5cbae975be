"""Boxes of many filters at once: what `boxes.boxes_of` says of each, whole shapes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crossroads.mapping.axes import Axis
from crossroads.mapping.boxes import IntBox, boxes_of
from crossroads.mapping.stretches import spans_of
from crossroads.model.columnar import TooManyAlternatives, alternatives
from crossroads.model.filter import Filter, Like, predicates
from crossroads.model.instantiate import instantiate, split_likes
from crossroads.model.shapes import FilterTable, ShapeGroup

Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True)
class BoxTable:
    """Boxes of many filters, ascending by owner; the boxes of one filter as `boxes_of` has them."""

    owner: Int32Array  # row in the filter table
    low: Int32Array  # [boxes, axes]
    high: Int32Array  # [boxes, axes], belongs
    constrained: npt.NDArray[np.bool_]  # [boxes, axes]: narrower than the axis

    def of(self, row: int) -> list[IntBox]:
        start, end = np.searchsorted(self.owner, [row, row + 1])
        pairs = zip(self.low[start:end].tolist(), self.high[start:end].tolist(), strict=True)
        return [tuple(zip(low, high, strict=True)) for low, high in pairs]


def boxes_of_table(table: FilterTable, axes: Sequence[Axis]) -> BoxTable:
    """A row in `table.errors` has no box, like a filter that can match nothing."""
    parts: list[tuple[Int32Array, Int32Array, Int32Array]] = []
    singles: list[tuple[int, Filter]] = list(table.singles.items())
    for group in table.groups:
        for part in split_likes(group):
            found = _shape_boxes(part, axes)
            if found is None:
                rows = enumerate(part.rows.tolist())
                singles += [(row, instantiate(part, at)) for at, row in rows]
            else:
                parts += found
    if singles:
        placed = [(row, box) for row, filter_ in singles for box in boxes_of(filter_, axes)]
        spans = np.array([box for _, box in placed], np.int32).reshape(len(placed), len(axes), 2)
        owners = np.array([row for row, _ in placed], np.int32)
        parts.append((owners, spans[:, :, 0], spans[:, :, 1]))
    return _sorted(parts, axes)


def _shape_boxes(
    group: ShapeGroup, axes: Sequence[Axis]
) -> list[tuple[Int32Array, Int32Array, Int32Array]] | None:
    """(owner, low, high) per alternative; None: the filters are better treated one by one."""
    if any(isinstance(leaf, Like) for leaf in predicates(group.template)):
        return None
    try:
        found = alternatives(group)
    except TooManyAlternatives:
        return None
    boxes = []
    for one in found:
        spans = spans_of(one, axes, group.rows.size)
        if spans is not None:
            low, high, fits = spans
            owners = group.rows.astype(np.int32)
            whole = bool(fits.all())
            boxes.append((owners, low, high) if whole else (owners[fits], low[fits], high[fits]))
    return boxes


def _sorted(
    parts: list[tuple[Int32Array, Int32Array, Int32Array]], axes: Sequence[Axis]
) -> BoxTable:
    nothing = np.empty((0, len(axes)), np.int32)
    parts = parts or [(np.empty(0, np.int32), nothing, nothing)]
    owner, low, high = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if np.any(owner[1:] <= owner[:-1]):
        columns = [column for at in range(len(axes)) for column in (low[:, at], high[:, at])]
        order = np.argsort(owner, kind="stable")
        if np.any(np.diff(owner[order]) == 0):
            order = np.lexsort([*reversed(columns), owner])
        owner, low, high = owner[order], low[order], high[order]
        again = np.zeros(owner.size, np.bool_)
        again[1:] = (
            (owner[1:] == owner[:-1])
            & (low[1:] == low[:-1]).all(axis=1)
            & (high[1:] == high[:-1]).all(axis=1)
        )
        if again.any():
            owner, low, high = owner[~again], low[~again], high[~again]
    ends = np.array([axis.size - 1 for axis in axes], np.int32)
    return BoxTable(owner, low, high, (low > 0) | (high < ends))
