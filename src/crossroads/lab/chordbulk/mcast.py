"""How far an m-cast reaches, and at what cost: the rule of `overlay.chord.mcast` on arrays.

A message goes to a node with a part of the region and a **limit**, a node that it must not reach
(whoever set the limit has sent to it already). The part is the region cut to one arc, from the node
before up to some key, and whatever of it the node owns it delivers: so a message here is (place,
last key, limit), and the region itself is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crossroads.lab.chordbulk.ring import BulkRing, Ints
from crossroads.model.compiled import compiled, frozen


@dataclass(frozen=True)
class Casts:
    """By m-cast: one-hop messages, the longest way to an owner, and how many nodes delivered."""

    messages: Ints
    depth: Ints
    owners: Ints


def casts(
    ring: BulkRing, sources: npt.ArrayLike, offsets: npt.ArrayLike, low: npt.ArrayLike,
    high: npt.ArrayLike,
) -> Casts:  # fmt: skip
    """m-cast i goes from sources[i] to the keys low … high - 1 of its ranges, which are those at
    offsets[i] … offsets[i + 1] - 1."""
    starts, peers = ring.peers
    messages, depth, owners = _casts(
        frozen(ring.ids),
        frozen(starts),
        frozen(peers),
        ring.size,
        frozen(np.asarray(sources, np.int64)),
        frozen(np.asarray(offsets, np.int64)),
        frozen(np.asarray(low).astype(np.int64)),
        frozen(np.asarray(high).astype(np.int64)),
    )
    return Casts(messages, depth, owners)


@compiled
def _casts(
    ids: Ints, starts: Ints, peers: Ints, size: int,
    sources: Ints, offsets: Ints, low: Ints, high: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    messages = np.zeros(sources.size, np.int64)
    depth = np.zeros(sources.size, np.int64)
    owners = np.zeros(sources.size, np.int64)
    # No node receives a message twice, so no more than all of them wait here.
    stack = np.empty((ids.size, 4), np.int64)  # place, last key, limit, hops so far
    for cast in range(sources.size):
        ranges = low[offsets[cast] : offsets[cast + 1]], high[offsets[cast] : offsets[cast + 1]]
        source = sources[cast]
        # Its own keys stay there, so the rest ends with those of the node before it.
        stack[0] = source, ids[source - 1], source, 0
        waiting = 1
        while waiting:
            waiting -= 1
            at = stack[waiting, 0]
            if touches(ranges, ids[at - 1], ids[at]):
                owners[cast] += 1
                depth[cast] = max(depth[cast], stack[waiting, 3])
            before = waiting
            waiting = _split(ids, starts, peers, size, ranges, stack, waiting)
            messages[cast] += waiting - before
    return messages, depth, owners


@compiled
def _split(
    ids: Ints, starts: Ints, peers: Ints, size: int,
    ranges: tuple[Ints, Ints], stack: Ints, waiting: int,
) -> int:  # fmt: skip
    """Replace the message at `waiting` by those that its node sends; returns where they end.

    Keys between two peers go to the first of them; a peer that is sent to anyway also gets those
    right before it, which may be its own. From the last peer to the first, because the limit of
    each is the one behind it.
    """
    at, last, limit, hops = stack[waiting]
    here = ids[at]
    away = (last - here) % size
    bound = (ids[limit] - here - 1) % size + 1  # a limit at the node itself is a whole turn away
    first = starts[at]
    usable = first
    while usable < starts[at + 1] and (ids[peers[usable]] - here) % size < bound:
        usable += 1
    upto, behind = last, limit
    for place in range(usable - 1, first - 1, -1):
        peer = peers[place]
        reached = (ids[peer] - here) % size
        wanted = reached < away and touches(ranges, ids[peer], upto)
        if not wanted and place == first and away:
            wanted = touches(ranges, here, last if away < reached else ids[peer])
            upto = ids[peer]  # nothing for those behind it
        if wanted:
            stack[waiting] = peer, upto, behind, hops + 1
            waiting += 1
            behind = peer
        if reached < away:
            upto = ids[peer]
    return waiting


@compiled
def touches(ranges: tuple[Ints, Ints], after: int, upto: int) -> bool:
    """Whether a key of the ranges lies in (after, upto]: all of the ring, if these agree."""
    low, high = ranges
    for at in range(low.size):
        if after < upto:
            if low[at] <= upto and high[at] - 1 > after:
                return True
        elif low[at] <= upto or high[at] - 1 > after:
            return True
    return False
