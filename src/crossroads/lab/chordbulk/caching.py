"""How far messages travel when nodes remember whom they heard from: CHORD's finger caching.

The rule, the same as that of `overlay.chord.fingers`: besides its fingers a node
remembers the **origins** of the payloads that reached it, on their way or at their end, the last
`slots` of them; one that it knows already changes nothing, and the one learned first goes first. A
message goes to the closest of all known peers before the key or on it. m-cast does not use the
cache: its bounds rest on the fingers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.model.compiled import compiled, frozen
from crossroads.overlay.chord.config import AS_IN_CHORD

CACHE_SLOTS = AS_IN_CHORD.cache_size  # gives about 2.5 hops at n = 500, as in the document

Known = npt.NDArray[np.uint8]
_STRANGER, _CACHED, _PEER = 0, 1, 2


class CachingRing:
    """A ring whose nodes learn from traffic: what is sent changes how far later messages go."""

    def __init__(self, ring: BulkRing, slots: int = CACHE_SLOTS) -> None:
        self.ring = ring
        offsets, peers = ring.peers
        self._known: Known = np.zeros((ring.nodes, ring.nodes), np.uint8)
        self._known[np.repeat(np.arange(ring.nodes), np.diff(offsets)), peers] = _PEER
        self._queue = np.full((ring.nodes, slots), -1, np.int64)
        self._oldest = np.zeros(ring.nodes, np.int64)  # where in its queue the next one goes

    def hops_to_keys(self, sources: npt.ArrayLike, keys: npt.ArrayLike) -> Ints:
        """One-hop messages from each source (a place) to the owner of its key, one after the
        other."""
        return _hops(
            frozen(self.ring.ids),
            self._known,
            self._queue,
            self._oldest,
            frozen(np.asarray(sources, np.int64)),
            frozen(np.asarray(keys, np.int64)),
        )


@compiled
def _hops(ids: Ints, known: Known, queue: Ints, oldest: Ints, sources: Ints, keys: Ints) -> Ints:
    found = np.zeros(keys.size, np.int64)
    for message in range(keys.size):
        origin = at = sources[message]
        owner = np.searchsorted(ids, keys[message])
        if owner == ids.size:
            owner = 0
        # The last node that is before the key or on it.
        last = owner if ids[owner] == keys[message] else owner - 1
        if last < 0:
            last = ids.size - 1
        while at != owner:
            at = _closest(known, at, last, owner)
            found[message] += 1
            _learn(known, queue, oldest, at, origin)
    return found


@compiled
def _closest(known: Known, at: int, last: int, owner: int) -> int:
    """The known peer closest before `last` or there; the owner follows a node that has none."""
    place = last
    while place != at:
        if known[at, place] != _STRANGER:
            return place
        place = place - 1 if place else known.shape[0] - 1
    return owner


@compiled
def _learn(known: Known, queue: Ints, oldest: Ints, at: int, origin: int) -> None:
    if at == origin or known[at, origin] != _STRANGER or not queue.shape[1]:
        return
    forgotten = queue[at, oldest[at]]
    if forgotten >= 0:
        known[at, forgotten] = _STRANGER
    queue[at, oldest[at]] = origin
    known[at, origin] = _CACHED
    oldest[at] = (oldest[at] + 1) % queue.shape[1]
