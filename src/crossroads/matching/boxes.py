"""Boxes of attribute codes, and the plain definition of which events they match.

An event is one int32 code per dimension; -1 stands for NULL and every other code is >= 0.
A box constrains some dimensions to closed ranges of codes. NULL needs no rule of its own:
`IS NULL` is the range [-1, -1], and a range that starts at 0 leaves NULL out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

NO_UPPER_BOUND = int(np.iinfo(np.int32).max)


@dataclass(frozen=True)
class BoxGroup:
    """Boxes that constrain the same dimensions; row i of every array describes box i."""

    dims: tuple[int, ...]  # ascending dimension numbers; none at all matches every event
    lo: Int32Array  # (boxes, dims) closed lower bounds
    hi: Int32Array  # (boxes, dims) closed upper bounds; lo <= hi
    ids: Int32Array  # (boxes,) what a matching box emits

    def __post_init__(self) -> None:
        shape = (len(self.ids), len(self.dims))
        assert self.lo.shape == shape and self.hi.shape == shape, (self.lo.shape, shape)
        assert all(a < b for a, b in pairwise(self.dims)), self.dims


def match_boxes(groups: Sequence[BoxGroup], codes: Int32Array) -> tuple[Int64Array, Int32Array]:
    """The definition: ids of event e are ids[offsets[e]:offsets[e + 1]], one per matching box."""
    found: list[list[int]] = []
    for event in codes.T:
        ids: list[int] = []
        for group in groups:
            values = event[list(group.dims)]
            inside = ((group.lo <= values) & (values <= group.hi)).all(axis=1)
            ids.extend(group.ids[inside].tolist())
        found.append(ids)
    offsets = np.zeros(codes.shape[1] + 1, dtype=np.int64)
    np.cumsum([len(ids) for ids in found], out=offsets[1:])
    return offsets, np.array([i for ids in found for i in ids], dtype=np.int32)
