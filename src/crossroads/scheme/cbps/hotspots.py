"""Hot spots, at the level of nodes (CHORD 4.2): where a newcomer takes half of a loaded one's work.

A lightly loaded node leaves and comes back as a newcomer at that key; the overlay and the hand-over
do the rest. At the level of keys a hot spot is cooled by another mapping: `remapping`.
"""

from __future__ import annotations

from collections.abc import Iterable

from crossroads.keyspace import Arcs
from crossroads.scheme.cbps.messages import Entry


def relieving_key(entries: Iterable[Entry], owned: Arcs) -> int | None:
    """The place in the region at which the subscriptions before it and those after it are as even
    as they can be; None: there is nothing to divide. A range that crosses the cut is held on both
    sides, so it counts for both."""
    spans = [span for entry in entries for span in (entry.region & owned).spans]
    order = [key for _, upto in owned.arcs() for key in _candidates(spans, owned, upto)]
    if not order:
        return None
    size = 1 << owned.bits
    start = owned.arcs()[0][0]

    def far(key: int) -> int:
        return (key - start - 1) % size

    def larger_side(key: int) -> int:
        below = sum(far(low) <= far(key) for low, _ in spans)
        above = sum(far(high - 1) > far(key) for _, high in spans)
        return max(below, above)

    return min(order, key=lambda key: (larger_side(key), far(key)))


def _candidates(spans: list[tuple[int, int]], owned: Arcs, upto: int) -> list[int]:
    """Cuts that make a difference: behind the end of a range, or before its beginning; never at
    the node's own place, which is taken."""
    size = 1 << owned.bits
    ends = {(low - 1) % size for low, _ in spans} | {high - 1 for _, high in spans}
    return sorted(key for key in ends if key in owned and key != upto)
