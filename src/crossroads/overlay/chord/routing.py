"""Where a payload goes next: greedy, to the known member nearest before the key. Pure.

Each hop about halves the distance that is left, so a route takes O(log n) hops.
"""

from __future__ import annotations

from bisect import bisect_right

from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.state import RingState


def next_hop(state: RingState, key: int) -> Peer | None:
    """The next member on the way to the key's owner; None when there is no one to go to: this
    member is the owner, or knows no other."""
    return None if state.owns(key) or not state.routes else toward(state, key)[0]


def toward(state: RingState, key: int) -> tuple[Peer, bool]:
    """The same for a member that is not the owner and knows another; and whether that hop is, as
    far as this member knows, the owner."""
    distance = state.distance(key)
    # A member whose place is the key itself owns it: "before" includes it. If no one is known
    # before the key, it lies before the first successor, which then owns it.
    at = bisect_right(state.route_distances, distance) - 1
    if at < 0:
        return state.routes[0], True
    return state.routes[at], state.route_distances[at] == distance


def is_last(state: RingState, hop: Peer, key: int) -> bool:
    """Is that one, as far as this member knows, the owner of the key? It must be a next hop."""
    return state.distance(hop.id) >= state.distance(key)


def hops_to(states: dict[int, RingState], start: int, key: int) -> list[int]:
    """The members that a payload visits after `start`, if nobody's state changes meanwhile."""
    path: list[int] = []
    at = start
    while (hop := next_hop(states[at], key)) is not None:
        path.append(at := hop.id)
        assert len(path) <= len(states), (start, key, path)
    return path
