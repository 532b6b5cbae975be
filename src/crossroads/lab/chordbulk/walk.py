"""Conservative unicast: the rule of `overlay.chord.unicast` on arrays.

The message goes to the first key of the region clockwise from its origin, beginning with the
origin's own keys; the owner sends it on to the first key behind its own, until all are served.
One message at a time, so their number is the depth as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crossroads.lab.chordbulk.hops import next_place, owns
from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.mapping.contract import RangeTable
from crossroads.model.compiled import compiled, frozen


def walks(ring: BulkRing, sources: npt.ArrayLike, ranges: RangeTable) -> Ints:
    """One-hop messages of the walk from each source to all keys of its subscription."""
    offsets, peers = ring.peers
    return _walks(
        frozen(ring.ids),
        frozen(offsets),
        frozen(peers),
        ring.size,
        frozen(np.asarray(sources, np.int64)),
        frozen(ranges.offsets),
        frozen(ranges.low.astype(np.int64)),
        frozen(ranges.high.astype(np.int64)),
    )


@compiled
def _walks(
    ids: Ints, starts: Ints, peers: Ints, size: int,
    sources: Ints, offsets: Ints, low: Ints, high: Ints,
) -> Ints:  # fmt: skip
    found = np.zeros(sources.size, np.int64)
    for walk in range(sources.size):
        at = sources[walk]
        start = ids[at - 1]  # behind it the origin's own keys begin
        first, last = offsets[walk], offsets[walk + 1]
        done = 0  # so far from the start all keys are served
        while True:
            ahead = _next_ahead(low, high, first, last, start, done, size)
            if ahead > size:
                break
            key = (start + ahead) % size
            while not owns(ids, size, at, key):
                at = next_place(ids, starts, peers, size, at, key)
                found[walk] += 1
            done = (ids[at] - start - 1) % size + 1
    return found


@compiled
def _next_ahead(
    low: Ints, high: Ints, first: int, last: int, start: int, done: int, size: int
) -> int:
    """How far from the start the next key of the ranges is; more than a turn: there is none."""
    nearest = size + 1
    following = (start + done + 1) % size
    for at in range(first, last):
        if done < size and low[at] <= following < high[at]:
            return done + 1
        begin = (low[at] - start - 1) % size + 1
        if begin > done:
            nearest = min(nearest, begin)
    return nearest
