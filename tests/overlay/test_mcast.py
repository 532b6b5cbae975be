"""m-cast keeps what CHORD 4.3.1 promises (C4), and the printed algorithm does not (ERRATA 1)."""

from __future__ import annotations

import random
from math import log2
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.overlay.casting import Ring, carried, owners, quiet_ring, random_ring

from crossroads.keyspace import Arcs
from crossroads.overlay.chord.mcast_as_printed import split_as_printed, split_to_preceding
from crossroads.overlay.chord.routing import hops_to
from crossroads.overlay.chord.unicast import after_stop, first_stop, keys_of

BITS = 6
SIZE = 1 << BITS
id_sets = st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=24)
key_sets = st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=SIZE)

# Beyond the owners: the fingers on the way to the range. Measured at most log2(n) + 0.
MESSAGES_BEYOND_LOG = 2
DEPTH_BEYOND_LOG = 3  # measured at most log2(n) + 1.03 (uneven gaps between nodes)


def arc_of(ring: Ring, dice: random.Random) -> Arcs:
    circle = next(iter(ring.values())).config.ring
    start, width = dice.randrange(circle.size), dice.choice((1, 10, 100, 1_000, 4_000))
    return circle.arc(start, (start + width) % circle.size)


def subscription(ring: Ring, dice: random.Random) -> Arcs:
    """Attribute-Split in CHORD's setting: four ranges of up to 3% of the keys."""
    circle = next(iter(ring.values())).config.ring
    region = circle.empty
    for _ in range(4):
        width = dice.randrange(1, 246)
        start = dice.randrange(circle.size - width)
        region |= circle.arc(start, start + width)
    return region


@given(id_sets, key_sets, st.data())
def test_C4_exactly_the_owners_and_no_one_twice(ids, keys, data):
    ring = quiet_ring(ids, BITS)
    origin = data.draw(st.sampled_from(sorted(ids)))
    region = ring[origin].config.ring.keys(keys)
    found = carried(ring, origin, region)
    assert set(found.delivered) == owners(ring, region)
    assert set(found.delivered.values()) <= {1}
    assert set(found.received.values()) <= {1} and origin not in found.received
    assert found.depth <= BITS  # every step halves the distance that is left


@pytest.mark.parametrize("count", [16, 64, 256, 500, 1024])
def test_C4_messages_and_depth_are_bounded(count):
    """O(log n + N) one-hop messages, depth O(log n), for a range; the constants are 1."""
    ring, dice = random_ring(count, count), random.Random(count)
    places = sorted(ring)
    for _ in range(60):
        region = arc_of(ring, dice)
        found = carried(ring, dice.choice(places), region)
        reached = len(owners(ring, region))
        assert found.messages <= reached + log2(count) + MESSAGES_BEYOND_LOG
        assert found.depth <= log2(count) + DEPTH_BEYOND_LOG


def test_C4_conservative_unicast_takes_as_few_messages_one_after_the_other():
    ring, dice = random_ring(5, 256), random.Random(5)
    places = sorted(ring)
    for _ in range(30):
        region = arc_of(ring, dice)
        origin = dice.choice(places)
        at, key, rest = origin, first_stop(ring[origin], region), region
        visited, messages = [], 0
        while True:
            path = hops_to(ring, at, key)
            messages += len(path)
            at = path[-1] if path else at
            visited.append(at)
            if (onward := after_stop(ring[at], rest)) is None:
                break
            key, rest = onward
        assert sorted(visited) == sorted(owners(ring, region))
        assert messages <= len(visited) + 2 * log2(256)
        assert messages >= len(visited) - 1  # and that is its depth as well


def test_C4_aggressive_unicast_sends_in_the_order_of_keys_times_log_n():
    ring, dice = random_ring(6, 256), random.Random(6)
    origin = sorted(ring)[0]
    region = ring[origin].config.ring.arc(1_000, 1_200)
    keys = list(keys_of(region))
    paths = [hops_to(ring, dice.choice(sorted(ring)), key) for key in keys]
    messages = sum(map(len, paths))
    assert len(keys) == 200 and list(keys_of(region, stride=50)) == [1_001, 1_051, 1_101, 1_151]
    assert messages >= 0.4 * len(keys) * log2(256)
    assert max(map(len, paths)) <= 2 * log2(256)
    assert messages > 20 * carried(ring, origin, region).messages


# -- as printed --------------------------------------------------------------------------------


def as_printed(state, region, limit):
    return [(part.peer.id, part.region, 0) for part in split_as_printed(state, region)]


def to_preceding(state, region, limit):
    return [(part.peer.id, part.region, 0) for part in split_to_preceding(state, region)]


@pytest.fixture(scope="module")
def subscriptions():
    """(ours, as printed, handed to the finger before), for subscriptions at n = 500."""
    dice, found = random.Random(3), []
    for seed in range(6):
        ring = random_ring(seed, 500)
        for _ in range(4):
            region, origin = subscription(ring, dice), dice.choice(sorted(ring))
            three = [carried(ring, origin, region)]
            three += [carried(ring, origin, region, rule) for rule in (as_printed, to_preceding)]
            assert all(set(one.delivered) == owners(ring, region) for one in three)
            found.append(three)
    return found


def test_ERRATA_1_as_printed_the_depth_is_that_of_a_walk(subscriptions):
    """Printed: keys in (fi, fi+1] go to fi+1. It then walks backwards: depth ~170, not O(log n)."""
    assert mean(printed.depth for _, printed, _ in subscriptions) > 10 * log2(500)
    assert mean(printed.messages for _, printed, _ in subscriptions) > 150


def test_ERRATA_1_handed_to_the_finger_before_some_receive_it_twice(subscriptions):
    twice = [sum(n > 1 for n in before.received.values()) for _, _, before in subscriptions]
    assert mean(twice) > 10
    assert mean(before.depth for _, _, before in subscriptions) < log2(500) + DEPTH_BEYOND_LOG


def test_ERRATA_1_ours_takes_about_48_messages_at_depth_7(subscriptions):
    assert mean(ours.messages for ours, _, _ in subscriptions) == pytest.approx(48, abs=6)
    assert mean(ours.depth for ours, _, _ in subscriptions) == pytest.approx(7, abs=0.7)
    assert all(set(ours.received.values()) == {1} for ours, _, _ in subscriptions)
