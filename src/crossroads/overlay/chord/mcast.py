"""m-cast: one message to all owners of a region, each at most once (CHORD 4.3.1). Pure.

As printed (Fig. 4) it does not keep its own promises (ERRATA 1; `mcast_as_printed` shows how). This
one does. The rule, at a member with the fingers f1, f2, … (f1 is its successor) and a region that
it has to serve from itself **up to a limit**:

- keys in (itself, f1] belong to f1; keys in (fi, fi+1] are handed to fi, who knows that part best;
- if fi+1 is handed something as well, it also gets the keys (fi, fi+1] as candidates: some of them,
  those after its predecessor, are its own. In return fi+1 becomes the limit of fi;
- the limit is the first member ahead that has its own part already. So whoever finds that its
  next hop would be the limit has nothing to do; the limit is handed down with the message.

Why no one receives it twice: fi and all below it reach only members between fi and its limit, fi+1
or an inherited one, and these stretches are disjoint. Why no owner is left out: a key is given to
the finger before it, so it comes to the owner's predecessor, whose next hop is the owner, unless
the owner is the limit and was served when it became the limit. Both need that first successors
are right, which holds once the ring is quiet; while it changes, some owners may be missed.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from crossroads.keyspace import Arcs
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.state import RingState


class Branch(NamedTuple):
    """What one of the next receivers gets."""

    peer: Peer
    region: Arcs  # its candidates and what it has to pass on
    limit: int


def split(state: RingState, region: Arcs, limit: int) -> list[Branch]:
    """To whom the region goes from here, this member's own keys aside. At the origin the limit is
    the member itself: once around the ring."""
    me, ring = state.me.id, state.config.ring
    # Candidates that turned out not to be our own lie behind us; the one before us serves them.
    rest = (region & ring.arc(me, limit)) - state.owned()
    inside = bisect_left(state.fan_distances, state.distance(limit) or ring.size)
    if not rest or not inside:  # nothing left, or the next hop is the limit
        return []
    fingers = state.fan[:inside]
    ends = [finger.id for finger in fingers] + [limit]
    first = rest & ring.arc(me, ends[0])
    parts = [rest & ring.arc(after, upto) for after, upto in pairwise(ends)]

    branches: list[Branch] = []
    behind = first  # keys between the finger before and this one
    for i, (finger, part) in enumerate(zip(fingers, parts, strict=True)):
        if part or (i == 0 and first):
            next_is_served = i + 1 < len(parts) and bool(parts[i + 1])
            branches.append(Branch(finger, part | behind, ends[i + 1] if next_is_served else limit))
        behind = part
    return branches
