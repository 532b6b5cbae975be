"""Zave's invariant: the definition on examples, and the watch against the definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.overlay.casting import quiet_ring

from crossroads.keyspace import Ring
from crossroads.overlay.chord.invariant import InvariantWatch, check_invariant, successor_lists

RING = Ring(4)
NEEDED = 3  # r = 2
places = st.integers(0, RING.size - 1)
lists = st.lists(places, max_size=3).map(tuple)
changes = st.lists(st.tuples(places, st.none() | lists), max_size=40)


@given(changes)
def test_the_watch_is_the_definition(changes):
    watch = InvariantWatch(RING, NEEDED)
    members: dict[int, tuple[int, ...]] = {}
    for member, successors in changes:
        if successors is None:
            members.pop(member, None)
        else:
            members[member] = successors
        assert watch.update(member, successors) == check_invariant(members, RING, NEEDED)


@given(st.sets(places, min_size=3), st.integers(0, 2))
def test_a_quiet_ring_keeps_it_and_so_does_one_after_r_minus_1_failures(ids, which):
    ring = quiet_ring(ids, RING.bits, successors=2)
    whole = successor_lists(ring.values())
    assert check_invariant(whole, RING, NEEDED) == []
    gone = sorted(ids)[which]
    left = {member: listed for member, listed in whole.items() if member != gone}
    assert check_invariant(left, RING, min(NEEDED, len(left))) == []


def test_a_member_whose_successors_are_all_gone_is_named():
    broken = {1: (4, 6), 8: (10, 1), 10: (1, 8)}
    assert check_invariant(broken, RING, needed=0) == [
        "member 1 has no live successor among [4, 6]"
    ]


def test_who_is_skipped_is_no_principal():
    """12 has come in, but 8's list goes from 8 to 14 and does not know it."""
    lists = {1: (8, 14), 8: (14, 1), 12: (14, 1), 14: (1, 8)}
    assert check_invariant(lists, RING, needed=3) == []
    assert check_invariant(lists, RING, needed=4) == [
        "principals are only [1, 8, 14], 4 are needed"
    ]


def test_two_rings_that_do_not_know_each_other_are_found():
    """What original Chord can come to: every member has a live successor, no one is a principal."""
    lists = {0: (4, 8), 4: (8, 0), 8: (0, 4), 2: (6, 10), 6: (10, 2), 10: (2, 6)}
    assert check_invariant(lists, RING, NEEDED) == ["principals are only [], 3 are needed"]


def test_a_member_alone_points_to_no_one():
    assert check_invariant({3: ()}, RING, NEEDED) == []
