"""Which Tnodes a box is stored under and an event looks into, and their keys.

A box is stored by its most selective side alone, under the Tnodes that fill it; the other sides are
checked when an event gets there. (Counting over the lists of all attributes, as the document
does, is for a network where nobody sees a whole subscription.) A suffix is a prefix of the axis
that is read backwards; 'a*c' has a side on each of the two axes, and what else it says, that the
parts must not overlap (ERRATA 13), is checked with the rest.

Replication: a box is stored in all copies of a Tnode, an event looks into one, chosen by a hash of
its positions rather than by dice. Relocation adds a number of its own to the keys of each axis;
without it, as in the document, equal labels of different attributes share a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.mapping import tnode_kernels
from crossroads.mapping.axes import Span
from crossroads.mapping.mixing import MASK, mix
from crossroads.mapping.shares import Shares
from crossroads.mapping.tnodes import Forest, Tnode

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.signedinteger[Any]]  # [boxes, axes]

RARE_SHARE = 0.01  # of the Tnodes of an axis
TNODES_MAX = 4096  # of one box: eight bytes with 255 siblings to the left and right of each


@dataclass(frozen=True)
class TnodeKeys:
    """All tuples are by axis. `levels`: depths in use, ascending; none: the axis keys no box.

    `slack`: a range is cut no finer than needed to add at most 2 / slack to it; 0 is exact.
    """

    sizes: tuple[int, ...]  # positions
    forests: tuple[Forest, ...]
    levels: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]  # of the keys, by relocation
    shares: Shares
    slack: int
    replicas: int
    bits: int

    def side_of(self, box: Sequence[Span]) -> int | None:
        """The axis on which the box takes in the least share of events; of equals the first."""
        sides = [
            (self.shares.of(axis, low, high), axis)
            for axis, (low, high) in enumerate(box)
            if self.levels[axis] and not (low <= 0 and high >= self.sizes[axis] - 1)
        ]
        return min(sides)[1] if sides else None

    def tnodes_of(self, box: Sequence[Span]) -> tuple[int, list[Tnode]] | None:
        """The axis and its Tnodes; None where none or too many of them would do: the root."""
        axis = self.side_of(box)
        if axis is None:
            return None
        forest, (low, high) = self.forests[axis], box[axis]
        depths = self._depths_for(axis, high - low + 1)
        while depths and forest.pieces(low, high, depths) > TNODES_MAX:
            depths = depths[:-1]
        return (axis, forest.decompose(low, high, depths)) if depths else None

    def _depths_for(self, axis: int, width: int) -> tuple[int, ...]:
        depths = self.levels[axis]
        for at, depth in enumerate(depths):
            if self.slack and self.forests[axis].width(depth) <= width // self.slack:
                return depths[: at + 1]
        return depths

    def key(self, axis: int, tnode: Tnode, replica: int) -> int:
        name = mix(tnode.label) + (tnode.depth << 32 | replica)
        hashed = mix(name & MASK) >> (64 - self.bits)
        return (hashed + self.offsets[axis]) & ((1 << self.bits) - 1)

    def keys_of_box(self, box: Sequence[Span]) -> list[int] | None:
        found = self.tnodes_of(box)
        if found is None:
            return None
        axis, tnodes = found
        return [self.key(axis, tnode, copy) for tnode in tnodes for copy in range(self.replicas)]

    def keys_of_event(self, positions: Sequence[int]) -> tuple[int, ...]:
        mixed = 0
        for position in positions:
            mixed = mix(mixed ^ position)
        found = {
            self.key(axis, tnode, mixed % self.replicas)
            for axis, forest in enumerate(self.forests)
            for tnode in forest.path(positions[axis])
            if tnode.depth in self.levels[axis]
        }
        return tuple(sorted(found))

    # -- many at a time ------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Widths, depths and number of levels, and offsets, as the kernels take them."""
        most = max((len(depths) for depths in self.levels), default=0)
        shape = (len(self.sizes), max(most, 1))
        widths, depths = np.ones(shape, np.int64), np.zeros(shape, np.int64)
        for axis, used in enumerate(self.levels):
            depths[axis, : len(used)] = used
            widths[axis, : len(used)] = [self.forests[axis].width(depth) for depth in used]
        counts = np.array([len(used) for used in self.levels], np.int64)
        return widths, depths, counts, np.array(self.offsets, np.int64)

    def sides_of_boxes(self, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
        """Per box: its axis (NO_SIDE: the root), its deepest level, its number of Tnodes."""
        widths, _, levels, _ = self._tables
        side, deepest, pieces = (np.empty(low.shape[0], np.int64) for _ in range(3))
        tnode_kernels.plan_boxes(
            low, high, np.array(self.sizes, np.int64), widths, levels,
            self.shares.arrays, self.slack, TNODES_MAX, side, deepest, pieces,
        )  # fmt: skip
        return side, deepest, pieces

    def keys_of_boxes(
        self, low: Positions, high: Positions
    ) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
        """`keys_of_box` for many: how many keys each box has, all keys, which are at the root."""
        low, high = np.ascontiguousarray(low, np.int64), np.ascontiguousarray(high, np.int64)
        side, deepest, pieces = self.sides_of_boxes(low, high)
        keys, _ = self._filled(low, high, side, deepest, pieces)
        return pieces * self.replicas, keys, side == tnode_kernels.NO_SIDE

    def levels_worth(self, low: Positions, high: Positions) -> tuple[tuple[int, ...], ...]:
        """Of the depths in use, those that these boxes need; a few boxes do not make a need.

        Every level costs every event a key. Without it a range is cut a little coarser, or into
        more of the level below.
        """
        low, high = np.ascontiguousarray(low, np.int64), np.ascontiguousarray(high, np.int64)
        _, used = self._filled(low, high, *self.sides_of_boxes(low, high))
        return tuple(
            tuple(
                depth
                for depth, tnodes in zip(depths, used[axis].tolist(), strict=False)
                if tnodes > RARE_SHARE * used[axis].sum()
            )
            for axis, depths in enumerate(self.levels)
        )

    def _filled(
        self, low: Ints, high: Ints, side: Ints, deepest: Ints, pieces: Ints
    ) -> tuple[Ints, Ints]:
        """All keys, and how many Tnodes of each axis and level they are."""
        widths, depths, _, offsets = self._tables
        keys = np.empty(pieces.sum() * self.replicas, np.int64)
        used = np.zeros(depths.shape, np.int64)
        tnode_kernels.fill_boxes(
            low, high, side, deepest, widths, depths, offsets, self.bits, self.replicas, keys, used
        )
        return keys, used

    def keys_of_events(self, positions: Ints) -> tuple[Ints, Ints]:
        """`keys_of_event` for many: event i has keys[offsets[i] : offsets[i + 1]]."""
        widths, depths, levels, offsets = self._tables
        starts = np.zeros(positions.shape[0] + 1, np.int64)
        keys = np.empty(positions.shape[0] * int(levels.sum()), np.int64)
        size = tnode_kernels.fill_events(
            positions, widths, depths, levels, offsets, self.bits, self.replicas, starts, keys
        )
        return starts, keys[:size]
