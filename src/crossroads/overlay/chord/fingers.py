"""Fingers: what the table should hold, and finger caching.

The i-th finger of a member is the owner of (itself + 2^i); CHORD counts i from 1, we from 0. A
member routes by its fingers, of which the first successor is one; the rest of the successor list is
for repair only, as in the document (it would save half a hop).

**Finger caching** (CHORD 5.1: 2.5 hops at n = 500 instead of more than four) means that a member
remembers whom it has seen: the origin of every payload that passes, the newest `cache_size` of
them. A remembered member is routed by like a finger. m-cast does not use the cache, so that a
member keeps O(log n) connections for it.
"""

from __future__ import annotations

from bisect import bisect_left

from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.state import RingState


def finger_start(state: RingState, i: int) -> int:
    return (state.me.id + (1 << i)) & (state.config.ring.size - 1)


def set_finger(state: RingState, i: int, owner: Peer) -> int:
    """The owner of the i-th finger's start is known. It is also the next fingers', as far as it
    reaches. Returns the first finger that is still to be looked up (0: all are done)."""
    changed = False
    while i < len(state.fingers) and state.distance(owner.id) >= 1 << i:
        changed |= state.fingers[i] != owner
        state.fingers[i] = owner
        i += 1
    if owner == state.me:  # the start belongs to this member itself, so all later ones do
        changed |= any(state.fingers[i:])
        state.fingers[i:] = [None] * (len(state.fingers) - i)
        i = len(state.fingers)
    if changed:
        state.renew_routes()
    return i % len(state.fingers)


def learn(state: RingState, peer: Peer) -> None:
    """A member was seen; remember it, and forget the one remembered longest."""
    size = state.config.cache_size
    if not size or peer.id in state.cached or peer.id == state.me.id:
        return
    distance = state.distance(peer.id)
    if state.knows(distance) or (state.fan and distance < state.fan_distances[0]):
        return
    if len(state.cached) >= size:
        _drop_route(state, state.cached.pop(next(iter(state.cached))))
    elif state.routes is state.fan:  # the first one: from now on the two differ
        state.routes, state.route_distances = [*state.fan], [*state.fan_distances]
    state.cached[peer.id] = peer
    at = bisect_left(state.route_distances, distance)
    state.route_distances.insert(at, distance)
    state.routes.insert(at, peer)


def _drop_route(state: RingState, peer: Peer) -> None:
    distance = state.distance(peer.id)
    if peer in state.fan or not state.knows(distance):  # a finger by now, or before the successor
        return
    at = bisect_left(state.route_distances, distance)
    del state.route_distances[at], state.routes[at]
