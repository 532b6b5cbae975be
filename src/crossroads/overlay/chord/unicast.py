"""Reaching a region without m-cast (CHORD 4.3.1): the two rivals it is measured against.

**Conservative**: the payload goes to the first key; its owner passes it on to the first key that is
not its own, and so on. As few messages as m-cast, but one after the other: depth O(log n + N).
**Aggressive**: one payload to every key at once. Depth O(log n), but Ω(keys · log n) messages, and
an owner of several keys receives several. `Chord.walk` and `Chord.spread` send them.
"""

from __future__ import annotations

from collections.abc import Iterator

from crossroads.keyspace import Arcs
from crossroads.overlay.chord.state import RingState


def first_stop(state: RingState, region: Arcs) -> int:
    """The key that a conservative walk visits first: the nearest one clockwise from its origin,
    beginning with the origin's own."""
    start = state.predecessor.id if state.predecessor else state.me.id
    return region.first_after(start)


def after_stop(state: RingState, region: Arcs) -> tuple[int, Arcs] | None:
    """At an owner: the next key to visit, and the region still to do. None: the walk is over."""
    rest = region - state.owned()
    return (rest.first_after(state.me.id), rest) if rest else None


def keys_of(region: Arcs, stride: int = 1) -> Iterator[int]:
    """The keys that aggressive unicast sends to: in each range every so-many-th from its beginning
    (`Mapping.stride`), all by default."""
    for low, high in region.spans:
        yield from range(low, high, stride)
