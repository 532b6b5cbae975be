"""Rings made at once: what joining one by one would lead to, once quiet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.fingers import finger_start
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.state import Phase, RingState


def converged(peers: Iterable[Peer], config: ChordConfig) -> dict[int, RingState]:
    """The quiet ring of these members, by id, ascending."""
    members = sorted(peers, key=lambda peer: peer.id)
    ids = [peer.id for peer in members]
    assert ids and len(set(ids)) == len(ids), "members need different places on the ring"
    count = len(members)
    states: dict[int, RingState] = {}
    for at, me in enumerate(members):
        state = RingState(me, config)
        state.set_phase(Phase.MEMBER)
        state.set_predecessor(members[at - 1])
        for i in range(config.bits):
            owner = members[bisect_left(ids, finger_start(state, i)) % count]
            state.fingers[i] = None if owner == me else owner
        # One more than r, or the member itself: then the list knows where the ring closes.
        state.set_successors(members[(at + i) % count] for i in range(1, config.successors + 2))
        state.renew_routes()
        states[me.id] = state
    return states


def founding_ring(peers: Iterable[Peer], config: ChordConfig) -> dict[int, RingState]:
    """The first r + 1 members, who know each other from the beginning. From here on the ring rides
    out failures; one that grows from a single member does so once it has more than r."""
    states = converged(peers, config)
    assert len(states) == config.successors + 1, "a ring is founded by r + 1 members"
    return states
