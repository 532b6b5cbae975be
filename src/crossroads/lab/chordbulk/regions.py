"""The keys of subscriptions as a network sees them: of a range, only some keys count.

With discretization, and under Key-Space-Split, only every so-many-th key of a range can be an
event's (the mapping's stride): the document's SK is that set, and nodes between its keys have no
part in it.
"""

from __future__ import annotations

import numpy as np

from crossroads.lab.chordbulk.ring import Ints
from crossroads.mapping.contract import RangeTable
from crossroads.model.compiled import compiled, frozen


def key_counts(ranges: RangeTable, stride: int) -> Ints:
    """How many keys each subscription has."""
    sizes = ((ranges.high - ranges.low - np.uint64(1)) // np.uint64(stride)).astype(np.int64) + 1
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    found: Ints = np.diff(ends[ranges.offsets])
    return found


def exact(ranges: RangeTable, stride: int) -> RangeTable:
    """The same keys as ranges without any key that does not count."""
    if stride == 1:
        return ranges
    low = all_keys(ranges, stride).view(np.uint64)
    counts = key_counts(ranges, stride)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return RangeTable(offsets, low, low + np.uint64(1), ranges.root)


def all_keys(ranges: RangeTable, stride: int, start: int = 0, stop: int | None = None) -> Ints:
    """The keys of subscriptions start … stop - 1, one after the other."""
    first = ranges.offsets[start]
    last = ranges.offsets[ranges.offsets.size - 1 if stop is None else stop]
    low, high = (keys[first:last].astype(np.int64) for keys in (ranges.low, ranges.high))
    return _spread(frozen(low), frozen(high), stride)


@compiled
def _spread(low: Ints, high: Ints, stride: int) -> Ints:
    keys = np.empty(np.sum((high - low - 1) // stride + 1), np.int64)
    size = 0
    for at in range(low.size):
        for key in range(low[at], high[at], stride):
            keys[size] = key
            size += 1
    return keys
