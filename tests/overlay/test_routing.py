"""Where payloads go: always to the owner, in O(log n) hops, in fewer with finger caching."""

from __future__ import annotations

import random
from itertools import pairwise
from math import log2
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.overlay.casting import owners, quiet_ring, random_ring

from crossroads.overlay.chord.config import AS_IN_CHORD
from crossroads.overlay.chord.fingers import learn
from crossroads.overlay.chord.routing import hops_to, is_last, next_hop

BITS = 6
id_sets = st.sets(st.integers(0, (1 << BITS) - 1), min_size=1, max_size=20)
keys = st.integers(0, (1 << BITS) - 1)


@given(id_sets, keys, st.data())
def test_every_key_is_routed_to_its_owner(ids, key, data):
    ring = quiet_ring(ids, BITS)
    start = data.draw(st.sampled_from(sorted(ids)))
    path = [start, *hops_to(ring, start, key)]
    assert {path[-1]} == owners(ring, ring[start].config.ring.keys((key,)))
    assert len(path) == len(set(path))
    for at, to in pairwise(path):
        assert is_last(ring[at], ring[to].me, key) == (to == path[-1])


@given(id_sets, keys, st.data())
def test_remembered_members_never_lead_astray(ids, key, data):
    """Whoever is remembered, the payload arrives; and the routes stay what the rules make them."""
    plain = quiet_ring(ids, BITS)
    caching = quiet_ring(ids, BITS, cache_size=3)
    for id_, seen in data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(ids)), st.sampled_from(sorted(ids))), max_size=30)
    ):
        learn(caching[id_], caching[seen].me)
        assert len(caching[id_].cached) <= 3
    start = data.draw(st.sampled_from(sorted(ids)))
    found, wanted = hops_to(caching, start, key), hops_to(plain, start, key)
    assert found[-1:] == wanted[-1:]
    for state in caching.values():
        again = (list(state.routes), list(state.route_distances))
        state.renew_routes()
        assert again == (state.routes, state.route_distances)


@pytest.mark.parametrize("count", [64, 256, 1024])
def test_hops_grow_with_the_logarithm(count):
    ring, dice = random_ring(count, count), random.Random(count)
    places = sorted(ring)
    hops = [len(hops_to(ring, dice.choice(places), dice.randrange(1 << 13))) for _ in range(1_000)]
    assert 0.4 * log2(count) <= mean(hops) <= 0.5 * log2(count) + 1.5
    assert max(hops) <= 2 * log2(count)


def test_plain_chord_takes_four_hops_to_a_node_and_five_to_a_key():
    """ERRATA 2, at n = 500: about 4.3 to a random node, 5.3 to a random key."""
    ring, dice = random_ring(1, 500), random.Random(1)
    places = sorted(ring)
    to_nodes = [len(hops_to(ring, *dice.choices(places, k=2))) for _ in range(3_000)]
    to_keys = [
        len(hops_to(ring, dice.choice(places), dice.randrange(1 << 13))) for _ in range(3_000)
    ]
    assert mean(to_nodes) == pytest.approx(4.35, abs=0.15)
    assert mean(to_keys) == pytest.approx(5.3, abs=0.15)


def test_C5_finger_caching_takes_two_and_a_half_hops():
    """CHORD 5.1 at n = 500, with traffic between random nodes; a cache of 52 (`AS_IN_CHORD`)."""
    ring, dice = random_ring(1, 500, cache_size=AS_IN_CHORD.cache_size), random.Random(1)
    places = sorted(ring)
    hops: list[int] = []
    for _ in range(20_000):
        origin, key = dice.choices(places, k=2)
        at = origin
        hops.append(0)
        while (hop := next_hop(ring[at], key)) is not None:
            at = hop.id
            learn(ring[at], ring[origin].me)
            hops[-1] += 1
    assert mean(hops[-4_000:]) == pytest.approx(2.5, abs=0.15)
    assert mean(hops[:500]) > 3.5  # it has to be learned
