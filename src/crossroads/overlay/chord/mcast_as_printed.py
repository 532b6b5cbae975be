"""m-cast as Fig. 4 of CHORD prints it, and the nearest reading that repairs its depth (ERRATA 1).

Kept to be measured and to be seen failing: the first walks backwards member by member (depth in the
order of N), the second sends some members the message twice. `mcast` is what nodes use.
"""

from __future__ import annotations

from typing import NamedTuple

from crossroads.keyspace import Arcs
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.state import RingState


class Part(NamedTuple):
    peer: Peer
    region: Arcs


def split_as_printed(state: RingState, region: Arcs) -> list[Part]:
    """Keys in (fi, fi+1] go to fi+1; the last finger is the predecessor."""
    fingers = [*state.fan]
    if state.predecessor is not None and state.predecessor not in fingers:
        fingers.append(state.predecessor)
        fingers.sort(key=lambda peer: state.distance(peer.id))
    ends = [state.me.id, *(finger.id for finger in fingers)]
    return _parts(state, region, ends, fingers)


def split_to_preceding(state: RingState, region: Arcs) -> list[Part]:
    """Keys in (fi, fi+1] go to fi, and those up to the successor to the successor: no limits."""
    ends = [finger.id for finger in state.fan]
    if not ends:
        return []
    to_successor = _parts(state, region, [state.me.id, ends[0]], state.fan[:1])
    return to_successor + _parts(state, region, [*ends, state.me.id], state.fan)


def _parts(state: RingState, region: Arcs, ends: list[int], to: list[Peer]) -> list[Part]:
    rest, ring = region - state.owned(), state.config.ring
    parts = [
        Part(peer, rest & ring.arc(after, upto))
        for peer, after, upto in zip(to, ends, ends[1:], strict=False)
    ]
    return [part for part in parts if part.region]
