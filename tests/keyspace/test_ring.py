"""Arcs against plain sets of whole numbers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from crossroads.keyspace import Arcs, KeyRange, Ring

BITS = 4
RING = Ring(BITS)
keys = st.integers(0, RING.size - 1)
key_sets = st.frozensets(keys)


def as_set(region: Arcs) -> set[int]:
    found = set(region.keys())
    assert found == {key for key in range(RING.size) if key in region}
    return found


def normal(region: Arcs) -> bool:
    ends = [end for span in region.spans for end in span]
    return all(a < b for a, b in pairwise(ends))


def walked(after: int, upto: int) -> list[int]:
    """(after, upto] by walking: the definition."""
    found = [(after + 1) % RING.size]
    while found[-1] != upto:
        found.append((found[-1] + 1) % RING.size)
    return found


@given(keys, keys, keys)
def test_an_arc_is_what_one_walks_over(after, upto, key):
    arc = walked(after, upto)
    assert as_set(RING.arc(after, upto)) == set(arc)
    assert RING.within(after, key, upto) == (key in arc)
    assert RING.between(after, key, upto) == (key in arc[:-1])
    assert RING.arc(after, upto).size == len(arc)
    assert RING.distance(after, upto) == len(arc) % RING.size


@given(key_sets, key_sets)
def test_operations_are_those_of_sets(one, other):
    left, right = RING.keys(one), RING.keys(other)
    for region, wanted in (
        (left, one),
        (left & right, one & other),
        (left | right, one | other),
        (left - right, one - other),
    ):
        assert as_set(region) == wanted
        assert normal(region)
        assert region.size == len(wanted)
        assert region.is_empty == (not wanted) == (not bool(region))
    assert (left == right) == (one == other)


@given(key_sets)
def test_a_region_is_its_arcs_and_its_ranges(chosen):
    region = RING.keys(chosen)
    again = RING.empty
    for after, upto in region.arcs():
        arc = RING.arc(after, upto)
        assert (arc & again).is_empty
        again |= arc
    assert again == region == RING.ranges(region.ranges())


@given(key_sets.filter(bool), keys)
def test_the_first_key_after_another_is_found_by_walking(chosen, key):
    first = next(step for step in walked(key, key) if step in chosen)
    assert RING.keys(chosen).first_after(key) == first


def test_neighbours_share_no_key_and_leave_none_out():
    owned = [RING.arc(14, 1), RING.arc(1, 8), RING.arc(8, 14)]
    assert sum(region.size for region in owned) == RING.size
    assert (owned[0] | owned[1] | owned[2]) == RING.whole
    assert owned[0].arcs() == ((14, 1),)


def test_ranges_of_a_mapping_become_a_region():
    region = RING.ranges((KeyRange(0, 2), KeyRange(4, 7), KeyRange(6, 9), KeyRange(3, 3)))
    assert region.ranges() == (KeyRange(0, 2), KeyRange(4, 9))
