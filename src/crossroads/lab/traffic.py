"""Sending over a ring that may remember: subscriptions and publications to all their keys.

**Aggressive** unicast sends to every key on its own, as the document's figures do ("unicast");
**conservative** unicast walks from owner to owner; m-cast is one message that splits.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from crossroads.lab.chordbulk.caching import CachingRing
from crossroads.lab.chordbulk.hops import hops_to_keys
from crossroads.lab.chordbulk.regions import all_keys, key_counts
from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.mapping.contract import KeyTable, RangeTable

CHUNK = 500  # subscriptions whose keys are written out at a time: a few megabytes


class Network(Protocol):
    def hops_to_keys(self, sources: npt.ArrayLike, keys: npt.ArrayLike) -> Ints: ...


class PlainRing:
    """A ring that does not learn."""

    def __init__(self, ring: BulkRing) -> None:
        self.ring = ring

    def hops_to_keys(self, sources: npt.ArrayLike, keys: npt.ArrayLike) -> Ints:
        return hops_to_keys(self.ring, sources, keys)


def network_of(ring: BulkRing, cache_slots: int) -> Network:
    return CachingRing(ring, cache_slots) if cache_slots else PlainRing(ring)


def send_to_all(
    network: Network, sources: Ints, ranges: RangeTable, stride: int, start: int, stop: int
) -> int:
    """Aggressive unicast of subscriptions start … stop - 1: one-hop messages in all."""
    counts = key_counts(ranges, stride)[start:stop]
    total = 0
    for begin in range(start, stop, CHUNK):
        end = min(begin + CHUNK, stop)
        senders = np.repeat(sources[begin:end], counts[begin - start : end - start])
        total += int(network.hops_to_keys(senders, all_keys(ranges, stride, begin, end)).sum())
    return total


def publish(network: Network, sources: Ints, events: KeyTable, start: int, stop: int) -> int:
    """Unicast of events start … stop - 1 to each of their keys: one-hop messages in all."""
    first, last = events.offsets[start], events.offsets[stop]
    senders = np.repeat(sources[start:stop], np.diff(events.offsets[start : stop + 1]))
    return int(network.hops_to_keys(senders, events.keys[first:last].astype(np.int64)).sum())
