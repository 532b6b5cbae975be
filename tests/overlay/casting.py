"""Carrying a region through a quiet ring by a pure rule, without nodes or time."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from crossroads.keyspace import Arcs
from crossroads.overlay.chord import ChordConfig, Peer, converged
from crossroads.overlay.chord.mcast import split
from crossroads.overlay.chord.state import RingState

Ring = dict[int, RingState]
Step = Callable[[RingState, Arcs, int], Iterable[tuple[int, Arcs, int]]]


def quiet_ring(ids: Iterable[int], bits: int, **knobs: int) -> Ring:
    config = ChordConfig(bits=bits, **knobs)
    return converged((Peer(id_, f"n{id_}") for id_ in ids), config)


def random_ring(seed: int, count: int, bits: int = 13, **knobs: int) -> Ring:
    return quiet_ring(random.Random(seed).sample(range(1 << bits), count), bits, **knobs)


def owners(ring: Ring, region: Arcs) -> set[int]:
    return {id_ for id_, state in ring.items() if state.owned() & region}


@dataclass
class Spread:
    messages: int = 0
    depth: int = 0
    received: Counter[int] = field(default_factory=Counter)  # one-hop messages by receiver
    delivered: Counter[int] = field(default_factory=Counter)


def as_ours(state: RingState, region: Arcs, limit: int) -> Iterable[tuple[int, Arcs, int]]:
    return [(branch.peer.id, branch.region, branch.limit) for branch in split(state, region, limit)]


def carried(ring: Ring, origin: int, region: Arcs, step: Step = as_ours) -> Spread:
    found = Spread()
    ahead = deque([(origin, region, origin, 0)])
    while ahead:
        at, part, limit, depth = ahead.popleft()
        state = ring[at]
        found.depth = max(found.depth, depth)
        if part & state.owned():
            found.delivered[at] += 1
        for to, on, its_limit in step(state, part, limit):
            found.messages += 1
            found.received[to] += 1
            ahead.append((to, on, its_limit, depth + 1))
        assert found.messages <= 100 * len(ring), "it goes round and round"
    return found
