"""Which nodes hold a subscription, and how many subscriptions each of them holds over time.

A subscription stands at the owner of every key of its ranges, once, however many of its keys the
node owns. The owners of a range follow each other on the ring, so they are an interval of places;
place n is place 0 again, the owner of the keys behind the last node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.mapping.contract import RangeTable
from crossroads.model.compiled import compiled, frozen


@dataclass(frozen=True)
class Holders:
    """Of subscription i the places first … last of intervals offsets[i] … offsets[i + 1] - 1."""

    offsets: Ints
    first: Ints
    last: Ints  # belongs

    @property
    def copies(self) -> Ints:
        """By subscription: how many nodes hold it."""
        sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.last - self.first + 1)])
        found: Ints = np.diff(sizes[self.offsets])
        return found


@dataclass(frozen=True)
class Storage:
    peak: int  # the most that any node held at any time
    load: Ints  # by place, at the end


def holders(ring: BulkRing, ranges: RangeTable) -> Holders:
    assert not ranges.root.any(), "a subscription at the root is with every node"
    found = _intervals(
        frozen(ring.ids),
        frozen(ranges.offsets),
        frozen(ranges.low.astype(np.int64)),
        frozen(ranges.high.astype(np.int64)),
    )
    return Holders(*found)


def storage(held: Holders, nodes: int, alive: int) -> Storage:
    """Subscriptions come one by one; each is gone when `alive` others have come after it."""
    arrays = frozen(held.offsets), frozen(held.first), frozen(held.last)
    peak, load = _storage(*arrays, nodes, alive)
    return Storage(peak, load)


@compiled
def _intervals(ids: Ints, offsets: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Disjoint intervals, ascending, also where neighbouring ranges have an owner in common."""
    found = np.zeros(offsets.size, np.int64)
    first, last = np.empty(2 * low.size, np.int64), np.empty(2 * low.size, np.int64)
    size = 0
    for i in range(offsets.size - 1):
        begin = size
        for at in range(offsets[i], offsets[i + 1]):
            start, end = np.searchsorted(ids, low[at]), np.searchsorted(ids, high[at] - 1)
            if size > begin and start <= last[size - 1]:
                last[size - 1] = max(last[size - 1], end)
            else:
                first[size], last[size] = start, end
                size += 1
        if size > begin and last[size - 1] == ids.size:
            size = _wrap(first, last, begin, size)
        found[i + 1] = size
    return found, first[:size].copy(), last[:size].copy()


@compiled
def _wrap(first: Ints, last: Ints, begin: int, size: int) -> int:
    """The last interval ends with place n: name it 0, unless 0 is there already."""
    nodes = last[size - 1]
    last[size - 1] -= 1
    there = first[begin] == 0 and nodes > 0
    if first[size - 1] == nodes:  # nothing else was in it
        size -= 1
        there = there and size > begin
    if not there:
        first[size] = last[size] = 0
        size += 1
    return size


@compiled
def _storage(offsets: Ints, first: Ints, last: Ints, nodes: int, alive: int) -> tuple[int, Ints]:
    load = np.zeros(nodes, np.int64)
    peak = 0
    for i in range(offsets.size - 1):
        if i >= alive:  # the oldest goes before the newest comes
            for at in range(offsets[i - alive], offsets[i - alive + 1]):
                load[first[at] : last[at] + 1] -= 1
        for at in range(offsets[i], offsets[i + 1]):
            for place in range(first[at], last[at] + 1):
                load[place] += 1
                peak = max(peak, load[place])
    return peak, load
