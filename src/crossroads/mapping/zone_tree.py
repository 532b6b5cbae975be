"""A tree of cuts through the space of boxes; its leaves are the zones, numbered from left to right.

An inner node sends the points below its cut to the left and the others to the right. Numbered in
that order, neighbours in number are neighbours in space, and an event visits zones in ascending
order.

Growth (ERRATA 8). The document says that a split halves the subscriptions, but not in which
dimension, and that decides everything: always the best balanced one cuts the space into slices that
an event meets by the dozen. So the dimensions take turns, and one whose median is too uneven
(many equal ends, such as the edge of an axis that most boxes leave open) is passed over.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.mapping.axes import Span
from crossroads.mapping.zone_space import Zone
from crossroads.model.compiled import compiled

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.signedinteger[Any]]  # [boxes, axes]

EVEN_SHARE = 0.3  # the lesser part of a split in turn: at least 30/70 (ERRATA 8)
# With no such dimension, the best balanced one, down to this: a split that takes off less than one
# box in twenty makes a zone more for events to visit and hardly lightens the other.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class ZoneTree:
    """Node 0 is the root. A child >= 0 is an inner node, a child < 0 is the leaf ~child."""

    dimension: Ints
    cut: Ints
    left: Ints
    right: Ints

    @property
    def zones(self) -> int:
        return self.dimension.size + 1

    @property
    def _top(self) -> int:
        return 0 if self.dimension.size else ~0  # a tree without cuts is one leaf

    def zone_of(self, box: Sequence[Span]) -> int:
        """The one zone that holds the box."""
        node = self._top
        while node >= 0:
            axis, end = divmod(int(self.dimension[node]), 2)
            node = int((self.left if box[axis][end] < self.cut[node] else self.right)[node])
        return ~node

    def zones_meeting(self, first: Sequence[int], last: Sequence[int]) -> list[int]:
        """Zones that may hold a box with l <= first and last <= h on every axis, ascending."""

        def visit(node: int) -> list[int]:
            if node < 0:
                return [~node]
            axis, end = divmod(int(self.dimension[node]), 2)
            cut, found = int(self.cut[node]), []
            # Boxes that end late enough may always lie to the right, that begin early to the left.
            if not end or last[axis] < cut:
                found += visit(int(self.left[node]))
            if end or first[axis] >= cut:
                found += visit(int(self.right[node]))
            return found

        return visit(self._top)

    def bounds(self, sizes: Sequence[int]) -> list[Zone]:
        """Every zone as intervals of the whole space; `sizes`: positions per axis."""

        def visit(node: int, zone: Zone) -> list[Zone]:
            if node < 0:
                return [zone]
            dimension, cut = int(self.dimension[node]), int(self.cut[node])
            low, high = zone[dimension]
            before, after = zone[:dimension], zone[dimension + 1 :]
            return [
                *visit(int(self.left[node]), (*before, (low, cut), *after)),
                *visit(int(self.right[node]), (*before, (cut, high), *after)),
            ]

        return visit(self._top, tuple((0, size) for size in sizes for _ in range(2)))

    def leaves_of_boxes(self, low: Positions, high: Positions) -> Ints:
        """`zone_of` for many: rows of `low` and `high` are boxes, columns are axes."""
        low, high = np.ascontiguousarray(low, np.int64), np.ascontiguousarray(high, np.int64)
        leaves = np.empty(low.shape[0], np.int64)
        _find_leaves(self.dimension, self.cut, self.left, self.right, low, high, leaves)
        return leaves

    def leaves_of_events(self, positions: Ints) -> tuple[Ints, Ints]:
        """`zones_meeting` for many: event i visits leaves[offsets[i] : offsets[i + 1]]."""
        tree = self.dimension, self.cut, self.left, self.right
        offsets = np.zeros(positions.shape[0] + 1, np.int64)
        _count_visits(*tree, positions, offsets)
        np.cumsum(offsets, out=offsets)
        leaves = np.empty(offsets[-1], np.int64)
        _list_visits(*tree, positions, offsets, leaves)
        return offsets, leaves

    def to_json(self) -> dict[str, list[int]]:
        return {name: getattr(self, name).tolist() for name in _ARRAYS}

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> ZoneTree:
        return ZoneTree(*(np.array(read[name], np.int64) for name in _ARRAYS))


_ARRAYS = ("dimension", "cut", "left", "right")


@dataclass
class _Node:
    rows: Ints  # of the points in it
    turn: int  # the dimension to try first
    split: tuple[int, int] | None = None  # dimension and cut
    children: list[_Node] = field(default_factory=list)


def grow(low: Positions, high: Positions, *, zones: int, target: int = 1) -> ZoneTree:
    """Split the fullest zone until there are `zones` of them or none has more than `target` boxes.

    Boxes that lie in the same point stay together, so there may be fewer.
    """
    points = np.stack([low, high], axis=2).reshape(low.shape[0], 2 * low.shape[1])
    top = _Node(np.arange(points.shape[0]), 0)
    # The fullest first; of equally full ones the oldest, so that equal boxes give equal trees.
    full = [(-top.rows.size, 0, top)]
    leaves, made = 1, 1
    while full and leaves < zones:
        size, _, node = heapq.heappop(full)
        if -size <= max(target, 1):
            break
        if not _split(node, points):
            continue
        leaves += 1
        for child in node.children:
            heapq.heappush(full, (-child.rows.size, made, child))
            made += 1
    return _flat(top)


def _split(node: _Node, points: Positions) -> bool:
    """Divide the node's points at a median, if some dimension divides them well enough."""
    dimensions, total = points.shape[1], node.rows.size
    best: tuple[int, int, int] = (0, 0, 0)  # points in the lesser part, dimension, cut
    for step in range(dimensions):
        dimension = (node.turn + step) % dimensions
        cut, lesser = _median_cut(points[node.rows, dimension])
        if lesser > best[0]:
            best = lesser, dimension, cut
        if lesser >= EVEN_SHARE * total:
            best = lesser, dimension, cut
            break
    lesser, dimension, cut = best
    if lesser == 0 or lesser < LEAST_SHARE * total:
        return False
    below = points[node.rows, dimension] < cut
    turn = (dimension + 1) % dimensions
    node.split = dimension, cut
    node.children = [_Node(node.rows[side], turn) for side in (below, ~below)]
    return True


def _median_cut(values: Positions) -> tuple[int, int]:
    """The most even cut beside the median, and how many values are in the lesser part."""
    ordered = np.sort(values)
    median = ordered[ordered.size // 2]
    before = int(np.searchsorted(ordered, median))
    after = int(np.searchsorted(ordered, median, side="right"))
    # Cut below the values equal to the median, or above them.
    if before >= ordered.size - after:
        return int(median), before
    return int(ordered[after]), ordered.size - after


def _flat(top: _Node) -> ZoneTree:
    """Inner nodes in pre-order, leaves from left to right."""
    inner: list[list[int]] = []
    leaves = 0

    def visit(node: _Node) -> int:
        nonlocal leaves
        if node.split is None:
            leaves += 1
            return ~(leaves - 1)
        number = len(inner)
        inner.append([*node.split, 0, 0])
        for at, child in enumerate(node.children):
            inner[number][2 + at] = visit(child)
        return number

    visit(top)
    columns = np.array(inner, np.int64).reshape(-1, 4).T
    return ZoneTree(*(np.ascontiguousarray(column) for column in columns))


@compiled
def _find_leaves(
    dimension: Ints, cut: Ints, left: Ints, right: Ints, low: Ints, high: Ints, leaves: Ints
) -> None:
    for i in range(low.shape[0]):
        node = 0 if dimension.size else -1
        while node >= 0:
            axis = dimension[node] >> 1
            end = high[i, axis] if dimension[node] & 1 else low[i, axis]
            node = left[node] if end < cut[node] else right[node]
        leaves[i] = ~node


@compiled
def _visit(
    dimension: Ints, cut: Ints, left: Ints, right: Ints,
    position: Ints, waiting: Ints, out: Ints, size: int,
) -> int:  # fmt: skip
    """Append the leaves an event visits after out[size - 1], if there is room; the new size."""
    depth = 0
    node = 0 if dimension.size else -1
    while True:
        if node >= 0:
            at = position[dimension[node] >> 1]
            if dimension[node] & 1:
                to_left, to_right = at < cut[node], True
            else:
                to_left, to_right = True, at >= cut[node]
            if to_left and to_right:
                waiting[depth] = right[node]
                depth += 1
            node = left[node] if to_left else right[node]
            continue
        if size < out.size:
            out[size] = ~node
        size += 1
        if depth == 0:
            return size
        depth -= 1
        node = waiting[depth]


@compiled
def _count_visits(
    dimension: Ints, cut: Ints, left: Ints, right: Ints, positions: Ints, offsets: Ints
) -> None:
    waiting, nothing = np.empty(dimension.size + 1, np.int64), np.empty(0, np.int64)
    for i in range(positions.shape[0]):
        offsets[i + 1] = _visit(dimension, cut, left, right, positions[i], waiting, nothing, 0)


@compiled
def _list_visits(
    dimension: Ints, cut: Ints, left: Ints, right: Ints,
    positions: Ints, offsets: Ints, leaves: Ints,
) -> None:  # fmt: skip
    waiting = np.empty(dimension.size + 1, np.int64)
    for i in range(positions.shape[0]):
        _visit(dimension, cut, left, right, positions[i], waiting, leaves, offsets[i])
