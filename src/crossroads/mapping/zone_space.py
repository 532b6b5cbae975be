"""The space of MEGHDOOT (§3): a box of n ranges is a point in 2n dimensions, an event a region.

Dimension 2i is where the range of axis i begins, dimension 2i + 1 where it ends. (The document
counts from one: these are its odd and its even dimensions.) A **zone** is a half-open interval per
dimension; the zones of a tree divide the space, so that each point lies in exactly one.

This is the definition, one zone at a time. `zone_tree` finds the same zones without looking at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crossroads.mapping.axes import Span

Zone = tuple[tuple[int, int], ...]  # per dimension [from, to)


def point_of(box: Iterable[Span]) -> tuple[int, ...]:
    """⟨l₁, h₁, …, lₙ, hₙ⟩."""
    return tuple(end for span in box for end in span)


def holds(zone: Zone, point: Sequence[int]) -> bool:
    return all(low <= at < high for (low, high), at in zip(zone, point, strict=True))


def meets(zone: Zone, first: Sequence[int], last: Sequence[int]) -> bool:
    """Can the zone hold a box with lᵢ <= firstᵢ and lastᵢ <= hᵢ on every axis?

    An event of the positions c asks with first = last = c. One that leaves axis i open asks, in
    the document, with first = L and last = H there. The region is [L, first] in the dimensions
    where ranges begin and [last, H] where they end: the corners the document prints say otherwise
    and would miss zones (ERRATA 14).
    """
    return all(
        zone[2 * axis][0] <= first[axis] and last[axis] < zone[2 * axis + 1][1]
        for axis in range(len(first))
    )


def is_upper_left(zone: Zone, of: Zone) -> bool:
    """Does some of the zone lie up and to the left of the other's bottom right corner?

    An event spreads from its own point up and to the left: boxes that begin earlier and end later.
    The corner, not the middle, is what counts, so that no affected neighbour is missed (§3.4).
    """
    begins = range(0, len(zone), 2)
    return all(
        zone[begin][0] < of[begin][1] and zone[begin + 1][1] > of[begin + 1][0] for begin in begins
    )
