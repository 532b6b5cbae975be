"""The loops on arrays against Chord's own rules, one node and one set of keys at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crossroads.keyspace import Arcs
from crossroads.lab.chordbulk.caching import CachingRing
from crossroads.lab.chordbulk.hops import hops_to_keys
from crossroads.lab.chordbulk.mcast import casts
from crossroads.lab.chordbulk.ring import BulkRing
from crossroads.lab.chordbulk.walk import walks
from crossroads.mapping.contract import RangeTable
from crossroads.overlay.chord import ChordConfig, Peer, converged
from crossroads.overlay.chord.fingers import learn
from crossroads.overlay.chord.mcast import split
from crossroads.overlay.chord.routing import hops_to, next_hop
from crossroads.overlay.chord.state import RingState
from crossroads.overlay.chord.unicast import after_stop, first_stop

BITS = 6
SIZE = 1 << BITS

id_sets = st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=24)
keys = st.integers(0, SIZE - 1)
regions = st.lists(st.tuples(keys, keys), min_size=1, max_size=4).map(
    lambda pairs: ChordConfig(bits=BITS).ring.spans((min(p), max(p) + 1) for p in pairs)
)


def both(ids: set[int], cache: int = 0) -> tuple[BulkRing, list[RingState]]:
    """The same ring as arrays, and as the states of nodes by place."""
    config = ChordConfig(bits=BITS, cache_size=cache)
    states = converged([Peer(id_, f"n{id_}") for id_ in ids], config)
    return BulkRing(BITS, np.array(sorted(ids), np.int64)), list(states.values())


def table(region: Arcs) -> RangeTable:
    low, high = np.array(region.spans, np.uint64).T
    return RangeTable(np.array([0, low.size]), low, high, np.zeros(1, np.bool_))


@given(id_sets)
def test_peers_are_those_a_node_sends_to(ids):
    ring, states = both(ids)
    offsets, peers = ring.peers
    for at, state in enumerate(states):
        found = ring.ids[peers[offsets[at] : offsets[at + 1]]].tolist()
        assert found == [peer.id for peer in state.fan]


@given(id_sets, keys, st.data())
def test_hops_are_those_of_routing(ids, key, data):
    ring, states = both(ids)
    source = data.draw(st.integers(0, len(states) - 1))
    path = hops_to({state.me.id: state for state in states}, states[source].me.id, key)
    assert hops_to_keys(ring, [source], [key]).tolist() == [len(path)]


@given(id_sets, st.integers(0, 5), st.data())
def test_hops_are_those_of_nodes_that_remember(ids, cache, data):
    ring, states = both(ids, cache)
    by_id = {state.me.id: state for state in states}
    caching = CachingRing(ring, cache)
    places = st.integers(0, len(states) - 1)
    for source, key in data.draw(st.lists(st.tuples(places, keys), max_size=60)):
        origin = states[source].me
        at, hops = origin.id, 0
        while (hop := next_hop(by_id[at], key)) is not None:
            at, hops = hop.id, hops + 1
            learn(by_id[at], origin)  # before it is sent on: it may cost the best way
        assert caching.hops_to_keys([source], [key]).tolist() == [hops]


@given(id_sets, regions, st.data())
def test_casts_are_those_of_mcast(ids, region, data):
    ring, states = both(ids)
    by_id = {state.me.id: state for state in states}
    source = data.draw(st.integers(0, len(states) - 1))
    origin = states[source].me.id
    messages = depth = owners = 0
    waiting = [(origin, region, origin, 0)]
    while waiting:
        at, part, limit, hops = waiting.pop()
        if part & by_id[at].owned():
            owners, depth = owners + 1, max(depth, hops)
        for branch in split(by_id[at], part, limit):
            messages += 1
            waiting.append((branch.peer.id, branch.region, branch.limit, hops + 1))
    wanted = table(region)
    found = casts(ring, [source], wanted.offsets, wanted.low, wanted.high)
    assert (found.messages.item(), found.depth.item()) == (messages, depth)
    assert found.owners.item() == owners == sum(bool(s.owned() & region) for s in states)


@given(id_sets, regions, st.data())
def test_walks_are_those_of_conservative_unicast(ids, region, data):
    ring, states = both(ids)
    by_id = {state.me.id: state for state in states}
    source = data.draw(st.integers(0, len(states) - 1))
    at, rest, hops = states[source].me.id, region, 0
    onward = (first_stop(by_id[at], region), region)
    while onward is not None:
        key, rest = onward
        path = hops_to(by_id, at, key)
        hops += len(path)
        at = path[-1] if path else at
        onward = after_stop(by_id[at], rest)
    assert walks(ring, [source], table(region)).tolist() == [hops]
