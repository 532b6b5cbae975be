"""The simulator: how many traced messages a second, and how much memory ten thousand nodes take.

Chord rings with their upkeep going on, in which every member routes a payload to a random key now
and then. Every message is traced, counted and hashed.
"""

from __future__ import annotations

import gc
import random
import resource
import sys
from typing import Any

from bench.measure import timed
from bench.sizes import SEED, Sizes
from crossroads.node import Address, Dice
from crossroads.overlay.chord.build import converged
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.node import Chord
from crossroads.runtime.sim import Simulation
from crossroads.runtime.sim.overlaynode import OverlayNode, Route
from crossroads.runtime.sim.stages import Lookup

CONFIG = ChordConfig(bits=24)
ROUTE_EVERY_MS = 100  # of each member
MEMORY_RUN_MS = 2_000


def forwarding(sizes: Sizes) -> dict[str, Any]:
    """Traced messages a second; the network is built before the clock starts."""
    simulation = network(sizes.sim_members)
    load(simulation, sizes.sim_ms)
    gc.freeze()  # the members stay: nothing is gained by looking through them again and again
    times, _ = timed(lambda: simulation.run_for(sizes.sim_ms), runs=1)
    messages = sum(simulation.metrics.sent.values())
    return {
        **times.as_json(),
        "members": sizes.sim_members,
        "messages": messages,
        "messages_per_second": messages / times.median,
        "digest": simulation.trace.digest(),
    }


def memory(sizes: Sizes) -> dict[str, Any]:
    """Peak resident memory of the whole process, with traffic."""
    simulation = network(sizes.sim_many_members)
    load(simulation, MEMORY_RUN_MS, every=4 * ROUTE_EVERY_MS)
    simulation.run_for(MEMORY_RUN_MS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "members": sizes.sim_many_members,
        "messages": sum(simulation.metrics.sent.values()),
        "peak_bytes": peak if sys.platform == "darwin" else peak * 1024,
    }


def network(size: int) -> Simulation:
    places = random.Random(SEED).sample(range(CONFIG.ring.size), size)
    peers = {f"n{place}": Peer(place, f"n{place}") for place in places}
    states = converged(peers.values(), CONFIG)
    simulation = Simulation(SEED)

    def make(address: Address, dice: Dice) -> OverlayNode:
        peer = peers[address]
        return OverlayNode(Chord(peer, CONFIG, dice, state=states[peer.id]))

    for address in peers:
        simulation.add(address, make)
    return simulation


def load(simulation: Simulation, milliseconds: int, every: int = ROUTE_EVERY_MS) -> None:
    """Each member routes to a random key at random times."""
    dice = random.Random(SEED)

    def route(address: Address) -> None:
        simulation.command(address, Route(dice.randrange(CONFIG.ring.size), Lookup()))

    for address in simulation.addresses():
        for _ in range(milliseconds // every):
            at = dice.randrange(milliseconds)
            simulation.at(at, lambda address=address: route(address))
