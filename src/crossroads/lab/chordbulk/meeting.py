"""Where matches are found: the nodes at which an event meets a subscription that it matches.

An event meets a subscription at a key that both have. A node that owns several such keys finds the
match once, by the first of them; under Selective-Attribute two nodes may find the same match, by
two attributes (ERRATA 15).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.mapping.contract import KeyTable, RangeTable
from crossroads.model.compiled import compiled, frozen


@dataclass(frozen=True)
class Meetings:
    """In the order of the matches."""

    match: Ints  # its number among the matches given
    subscription: Ints
    place: Ints  # of the node that finds it
    key: Ints  # at which they meet there


def meetings(
    ring: BulkRing, ranges: RangeTable, events: KeyTable, matching: Ints, matched: Ints
) -> Meetings:
    """A match is an event and a subscription: matching[i] matches matched[i]."""
    keys = events.keys.astype(np.int64)
    match, place, key = _meetings(
        frozen(ranges.offsets),
        frozen(ranges.low.astype(np.int64)),
        frozen(ranges.high.astype(np.int64)),
        frozen(events.offsets),
        frozen(keys),
        frozen(ring.owners(keys)),
        frozen(matching),
        frozen(matched),
    )
    return Meetings(match, matched[match], place, key)


@compiled
def _meetings(
    offsets: Ints, low: Ints, high: Ints, events: Ints, keys: Ints, places: Ints,
    matching: Ints, matched: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    most = 0
    for match in range(matching.size):
        most += events[matching[match] + 1] - events[matching[match]]
    found = np.empty((3, most), np.int64)
    size = 0
    for match in range(matching.size):
        begin = size
        for at in range(events[matching[match]], events[matching[match] + 1]):
            for one in range(offsets[matched[match]], offsets[matched[match] + 1]):
                here = low[one] <= keys[at] < high[one]
                if here and places[at] not in found[1, begin:size]:
                    found[0, size], found[1, size], found[2, size] = match, places[at], keys[at]
                    size += 1
    return found[0, :size].copy(), found[1, :size].copy(), found[2, :size].copy()
