"""How far a message to a key travels, without any finger cache.

A node that owns the key keeps the message. Any other sends it to the peer that lies closest before
the key or on it, or to its successor, the owner, when no peer does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.model.compiled import compiled, frozen


def hops_to_keys(ring: BulkRing, sources: npt.ArrayLike, keys: npt.ArrayLike) -> Ints:
    """One-hop messages from each source (a place) to the owner of its key."""
    offsets, peers = ring.peers
    return _hops(
        frozen(ring.ids),
        frozen(offsets),
        frozen(peers),
        ring.size,
        frozen(np.asarray(sources, np.int64)),
        frozen(np.asarray(keys, np.int64)),
    )


@compiled
def next_place(ids: Ints, offsets: Ints, peers: Ints, size: int, at: int, key: int) -> int:
    """Where the node at a place sends a message for a key that it does not own."""
    here = ids[at]
    away = (key - here) % size
    low, high = offsets[at], offsets[at + 1]  # peers before `low` are before the key
    while low < high:
        middle = (low + high) // 2
        if (ids[peers[middle]] - here) % size <= away:
            low = middle + 1
        else:
            high = middle
    first = offsets[at]
    return int(peers[low - 1] if low > first else peers[first])


@compiled
def owns(ids: Ints, size: int, at: int, key: int) -> bool:
    """Whether the key lies behind the node before this one, up to this one."""
    before = ids[at - 1]  # of place 0 the last: a ring
    return bool((ids[at] - key) % size < (ids[at] - before - 1) % size + 1)


@compiled
def _hops(ids: Ints, offsets: Ints, peers: Ints, size: int, sources: Ints, keys: Ints) -> Ints:
    found = np.zeros(keys.size, np.int64)
    for message in range(keys.size):
        at = int(sources[message])
        while not owns(ids, size, at, keys[message]):
            at = next_place(ids, offsets, peers, size, at, keys[message])
            found[message] += 1
    return found
