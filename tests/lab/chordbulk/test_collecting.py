"""Buffering and collecting against the rule told plainly, one node at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.lab.chordbulk.collecting import buffered, collected
from crossroads.lab.chordbulk.meeting import Meetings
from crossroads.lab.chordbulk.ring import BulkRing
from crossroads.mapping.contract import RangeTable

BITS = 6
SIZE = 1 << BITS
PERIOD = 5.0
DELAY = 0.25


@st.composite
def worlds(draw):
    """A ring, one range per subscription, and matches at the owners of their keys."""
    ids = draw(st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=14))
    ring = BulkRing(BITS, np.array(sorted(ids), np.int64))
    bounds = [
        tuple(sorted(draw(st.lists(st.integers(0, SIZE), min_size=2, max_size=2, unique=True))))
        for _ in range(draw(st.integers(1, 5)))
    ]
    table = RangeTable(
        np.arange(len(bounds) + 1),
        np.array([low for low, _ in bounds], np.uint64),
        np.array([high for _, high in bounds], np.uint64),
        np.zeros(len(bounds), np.bool_),
    )
    # Times that differ, so that no two things happen at once: then any order would do.
    ticks = draw(st.lists(st.integers(0, 4_000), unique_by=lambda tick: tick % 25, max_size=25))
    subscription, key = [], []
    for _ in ticks:
        subscription.append(draw(st.integers(0, len(bounds) - 1)))
        low, high = bounds[subscription[-1]]
        key.append(draw(st.integers(low, high - 1)))
    seconds = np.array(ticks, float) / 100 + np.array(ticks, float) % 25 / 1e6
    keys = np.array(key, np.int64)
    found = Meetings(
        np.arange(len(ticks)), np.array(subscription, np.int64), ring.owners(keys), keys
    )
    return ring, bounds, table, found, seconds


def plainly(ring, bounds, found, seconds, collect) -> tuple[Counter, int]:
    """(notifications by place and subscription, messages between neighbours)."""
    told: Counter = Counter()
    exchanges = 0
    # (when, place, subscription, way to the agent): what nodes find, or get from a neighbour
    ahead = []
    for when, place, key, subscription in zip(
        seconds.tolist(), found.place.tolist(), found.key.tolist(), found.subscription.tolist(),
        strict=True,
    ):  # fmt: skip
        low, high = bounds[subscription]
        ahead.append((when, place, subscription, 1 if (low + high - 1) // 2 > key else -1))
    while ahead:
        # The node whose period is over first: no one can give it anything before that.
        start = min(min(when for when, at, *_ in ahead if at == node) for node in {
            at for _, at, *_ in ahead
        })  # fmt: skip
        node = next(at for when, at, *_ in ahead if when == start)
        kept = [one for one in ahead if one[1] == node and one[0] <= start + PERIOD]
        ahead = [one for one in ahead if one not in kept]
        agents = {
            sub: ring.owners([(bounds[sub][0] + bounds[sub][1] - 1) // 2])[0] for *_, sub, _ in kept
        }
        home = [one for one in kept if not collect or agents[one[2]] == node]
        told.update({(node, sub) for _, _, sub, _ in home})
        away = [one for one in kept if one not in home]
        exchanges += len({way for *_, way in away})
        ahead += [
            (start + PERIOD + DELAY, (node + way) % ring.nodes, sub, way) for _, _, sub, way in away
        ]
    return told, exchanges


def counted(sent) -> tuple[Counter, int]:
    pairs = zip(sent.place.tolist(), sent.subscription.tolist(), strict=True)
    return Counter(pairs), sent.exchanges


@given(worlds())
def test_buffering_sends_a_subscriptions_matches_of_a_period_together(world):
    ring, bounds, _, found, seconds = world
    assert counted(buffered(found, seconds, PERIOD)) == plainly(
        ring, bounds, found, seconds, collect=False
    )


@given(worlds())
def test_collecting_brings_them_to_the_middle_first(world):
    ring, bounds, table, found, seconds = world
    sent = collected(found, seconds, PERIOD, ring, table, DELAY)
    assert counted(sent) == plainly(ring, bounds, found, seconds, collect=True)


def test_what_three_nodes_of_a_range_find_is_told_once():
    """Nodes 10, 20, 30, 40 and keys 11 … 40: the agent is node 30, two messages go beside."""
    ring = BulkRing(BITS, np.array([10, 20, 30, 40]))
    table = RangeTable(np.array([0, 1]), np.array([11], np.uint64), np.array([41], np.uint64),
                       np.zeros(1, np.bool_))  # fmt: skip
    keys = np.array([15, 25, 35, 28])
    found = Meetings(np.arange(4), np.zeros(4, np.int64), ring.owners(keys), keys)
    seconds = np.array([0.0, 4.9, 1.0, 5.0])
    sent = collected(found, seconds, PERIOD, ring, table, DELAY)
    assert (sent.place.tolist(), sent.exchanges) == ([2], 2)
    assert buffered(found, seconds, PERIOD).place.tolist() == [1, 3, 2]
