"""How much of the events a span of positions takes in, estimated from a sample of them.

Positions that many sampled events share are remembered one by one: a symbol that half of all events
carry is no narrow side, however little room it takes on its axis. The other events are counted
in equal slices of the axis and taken to be spread evenly within a slice; but a span is never
thought to hold less than one of the distinct positions seen where it ends. Whole numbers
throughout, so that one estimate and a million give the same and two machines choose alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from crossroads.model.compiled import compiled

Ints = npt.NDArray[np.int64]

SLICES = 256  # per axis; a spec stays a few kilobytes
HOT_SHARE = 1 / 1024  # of the events; so there are at most 1024 hot positions per axis
WHOLE = 1 << 28  # what all events together count for: with positions below 2**31 no product wraps


@dataclass(frozen=True)
class Shares:
    """Parts of WHOLE. Rows are axes; the hot positions of all axes are in one sequence."""

    width: Ints  # positions per slice
    below: Ints  # [axes, SLICES + 1]: of the events before each slice, without the hot ones
    least: Ints  # [axes, SLICES]: of one of the positions seen in the slice, without the hot ones
    hot_first: Ints  # [axes + 1]: where the hot positions of each axis begin
    hot: Ints  # ascending by axis
    hot_below: Ints  # [hot + 1]: the running sum of their shares

    def of(self, axis: int, low: int, high: int) -> int:
        """The share of events at the positions low … high."""
        spread = self._below(axis, high + 1) - self._below(axis, low)
        width = int(self.width[axis])
        at_ends = max(int(self.least[axis, end // width]) for end in (low, high))
        hot = self.hot[self.hot_first[axis] : self.hot_first[axis + 1]]
        inside = int(self.hot_first[axis]) + np.searchsorted(hot, [low, high + 1])
        return max(spread, at_ends) + int(self.hot_below[inside[1]] - self.hot_below[inside[0]])

    def _below(self, axis: int, position: int) -> int:
        at, into = divmod(position, int(self.width[axis]))
        before = int(self.below[axis, at])
        if into == 0:
            return before
        return before + into * (int(self.below[axis, at + 1]) - before) // int(self.width[axis])

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """As `share` takes them."""
        return self.width, self.below, self.least, self.hot_first, self.hot, self.hot_below

    def to_json(self) -> dict[str, Any]:
        names = ("width", "below", "least", "hot_first", "hot", "hot_below")
        return {name: array.tolist() for name, array in zip(names, self.arrays, strict=True)}

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Shares:
        arrays = {name: np.array(found, np.int64) for name, found in read.items()}
        for name, columns in (("below", SLICES + 1), ("least", SLICES)):
            arrays[name] = arrays[name].reshape(-1, columns)  # without axes there are no rows
        return Shares(**arrays)


def shares_of(positions: Ints, sizes: Sequence[int]) -> Shares:
    """From the positions of sampled events (rows are events); without any, as if spread evenly."""
    width = np.array([-(-size // SLICES) for size in sizes], np.int64)
    below = np.zeros((len(sizes), SLICES + 1), np.int64)
    least = np.zeros((len(sizes), SLICES), np.int64)
    hot: list[Ints] = []
    hot_shares: list[Ints] = []
    for axis in range(len(sizes)):
        distinct, events = np.unique(positions[:, axis], return_counts=True)
        shares = events * WHOLE // max(positions.shape[0], 1)
        # Of a small sample every position has a large share: seen once or twice is not hot.
        is_hot = (shares >= WHOLE * HOT_SHARE) & (events > 2)
        hot.append(distinct[is_hot])
        hot_shares.append(shares[is_hot])
        slices, rest = distinct[~is_hot] // width[axis], shares[~is_hot]
        found = np.bincount(slices, rest, SLICES).astype(np.int64)
        least[axis] = found // np.maximum(np.bincount(slices, minlength=SLICES), 1)
        # A little for every slice: where no event was seen, a narrow side still beats a wide one.
        below[axis, 1:] = np.cumsum(found + WHOLE // (SLICES * SLICES))
    return Shares(
        width,
        below,
        least,
        np.cumsum([0, *(found.size for found in hot)], dtype=np.int64),
        np.concatenate([np.empty(0, np.int64), *hot]),
        np.cumsum(np.concatenate([np.zeros(1, np.int64), *hot_shares])),
    )


@compiled
def share(
    width: Ints, below: Ints, least: Ints, hot_first: Ints, hot: Ints, hot_below: Ints,
    axis: int, low: int, high: int,
) -> int:  # fmt: skip
    """`Shares.of`, compiled."""
    spread = _below(below[axis], width[axis], high + 1) - _below(below[axis], width[axis], low)
    found: int = max(spread, least[axis, low // width[axis]], least[axis, high // width[axis]])
    if hot_first[axis + 1] > hot_first[axis]:
        here = hot[hot_first[axis] : hot_first[axis + 1]]
        first, end = np.searchsorted(here, low), np.searchsorted(here, high + 1)
        found += hot_below[hot_first[axis] + end] - hot_below[hot_first[axis] + first]
    return found


@compiled
def _below(below: Ints, width: int, position: int) -> int:
    at = position // width
    before: int = below[at]
    into = position - at * width
    if into > 0:
        before += into * (below[at + 1] - before) // width
    return before
