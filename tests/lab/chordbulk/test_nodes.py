"""The loops on arrays against real nodes in the simulator, message for message."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from crossroads.lab.chordbulk.caching import CachingRing
from crossroads.lab.chordbulk.mcast import casts
from crossroads.lab.chordbulk.ring import BulkRing
from crossroads.node import Message
from crossroads.overlay.chord import AS_IN_CHORD, Chord, Peer, converged
from crossroads.overlay.chord.messages import Cast, Routed
from crossroads.runtime.sim import Link, Simulation
from crossroads.runtime.sim.overlaynode import Arrival, Multicast, OverlayNode, Route

NODES = 60
MESSAGES = 400


class Letter(Message, frozen=True, gc=False):
    number: int


class Running:
    """A quiet ring of real nodes, and the same ring as arrays."""

    def __init__(self, seed: int, cache: int) -> None:
        chance = random.Random(seed)
        self.ids = sorted(chance.sample(range(1 << AS_IN_CHORD.bits), NODES))
        self.ring = BulkRing(AS_IN_CHORD.bits, np.array(self.ids, np.int64))
        config = replace(AS_IN_CHORD, cache_size=cache)
        states = converged([Peer(id_, f"n{id_}") for id_ in self.ids], config)
        self.simulation = Simulation(seed, link=Link(delay_min=1, delay_max=3))
        self.arrivals: list[Arrival] = []
        self.simulation.on_delivery.append(
            lambda _now, _name, what: (
                self.arrivals.append(what) if isinstance(what, Arrival) else None
            )
        )
        for state in states.values():
            self.simulation.add(
                state.me.address,
                lambda _address, dice, state=state: OverlayNode(
                    Chord(state.me, config, dice, state=state)
                ),
            )

    def sent(self, kind: type[Message]) -> int:
        return self.simulation.metrics.sent.get(kind, 0)

    def tell(self, place: int, command: Route | Multicast) -> list[Arrival]:
        """The arrivals it leads to; nothing else is sent meanwhile."""
        self.arrivals.clear()
        self.simulation.command(f"n{self.ids[place]}", command)
        self.simulation.run_for(100)
        return list(self.arrivals)


def test_hops_of_remembering_nodes_in_the_simulator():
    running = Running(seed=5, cache=6)
    chance = random.Random(5)
    sends = [(chance.randrange(NODES), chance.randrange(1 << 13)) for _ in range(MESSAGES)]
    wanted = CachingRing(running.ring, 6).hops_to_keys(*map(list, zip(*sends, strict=True)))
    for number, ((source, key), hops) in enumerate(zip(sends, wanted.tolist(), strict=True)):
        before = running.sent(Routed)
        (arrival,) = running.tell(source, Route(key, Letter(number)))
        assert (arrival.hops, running.sent(Routed) - before) == (hops, hops), (source, key)


def test_multicast_in_the_simulator():
    running = Running(seed=6, cache=0)
    chance = random.Random(6)
    for number in range(60):
        source = chance.randrange(NODES)
        starts = sorted(chance.randrange(1 << 13) for _ in range(4))
        region = AS_IN_CHORD.ring.spans(
            (low, min(low + chance.randrange(1, 600), 1 << 13)) for low in starts
        )
        low, high = np.array(region.spans).T
        wanted = casts(running.ring, [source], [0, low.size], low, high)
        before = running.sent(Cast)
        arrivals = running.tell(source, Multicast(region, Letter(number)))
        assert running.sent(Cast) - before == wanted.messages.item()
        assert len(arrivals) == wanted.owners.item()
        assert max(one.hops for one in arrivals) == wanted.depth.item()
