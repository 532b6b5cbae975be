"""CHORD Fig. 1: the ring of m = 5 with the nodes 1, 8, 14 and 20."""

from __future__ import annotations

from tests.overlay.casting import owners, quiet_ring

from crossroads.overlay.chord.fingers import finger_start
from crossroads.overlay.chord.routing import hops_to

FIGURE = quiet_ring((1, 8, 14, 20), bits=5)


def test_C1_keys_belong_to_the_first_node_at_or_after_them():
    ring = FIGURE[1].config.ring
    for key, owner in ((13, 14), (17, 20), (26, 1)):
        assert owners(FIGURE, ring.keys((key,))) == {owner}
        assert all(key_path[-1] == owner for key_path in _paths(key))


def test_C1_fingers_of_node_8():
    fingers = [(finger_start(FIGURE[8], i), FIGURE[8].fingers[i]) for i in range(5)]
    assert [(start, peer.id) for start, peer in fingers if peer] == [
        (9, 14),
        (10, 14),
        (12, 14),
        (16, 20),  # the fourth
        (24, 1),
    ]


def test_C1_places_between_nodes_are_owned_too():
    """0, 13, 16 … 19, 26 … 31 are nobody's own id; each has one owner all the same."""
    ring = FIGURE[1].config.ring
    for key in range(32):
        assert len(owners(FIGURE, ring.keys((key,)))) == 1


def _paths(key: int) -> list[list[int]]:
    return [path for start in FIGURE if (path := hops_to(FIGURE, start, key))]
