"""The networks that a scenario can be set in, each with the commands of its own.

    network chord bits=5 nodes=1,8,14,20 successors=2 delay=50

A ring built at once: node nK is at place K. `lookup n8 26` routes to the owner of key 26,
`multicast n8 3..9` to the owners of keys 3 to 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from crossroads.errors import UsageError
from crossroads.node import Address, Dice, Message, Node, Timer
from crossroads.overlay.chord.build import converged
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.node import Chord
from crossroads.runtime.sim.cbpsstage import cbps_stage
from crossroads.runtime.sim.links import Link
from crossroads.runtime.sim.overlaynode import Multicast, OverlayNode, Route
from crossroads.runtime.sim.simulation import Simulation
from crossroads.runtime.sim.stage import Options, Stage, StageCommand, numbers_of, peer_at
from crossroads.runtime.sim.words import Shown


class Lookup(Message, frozen=True, gc=False):
    """The payload of a scenario's own: who owns the key?"""


# -- Chord ---------------------------------------------------------------------------------------


def chord_stage(seed: int, options: Options) -> Stage:
    numbers = numbers_of(options, {"bits", "successors", "cache", "delay"}, {"nodes"})
    config = ChordConfig(
        bits=numbers.get("bits", 5),
        successors=numbers.get("successors", 2),
        cache_size=numbers.get("cache", 0),
    )
    delay = numbers.get("delay", 50)
    simulation = Simulation(
        seed,
        link=Link(delay_min=delay, delay_max=delay),
        keep_trace=True,
        background=_is_upkeep,
    )
    founders = [
        peer_at(f"n{place}", config) for place in options.get("nodes", "").split(",") if place
    ]
    rings = converged(founders, config) if founders else {}
    waiting = {peer.address: rings[peer.id] for peer in founders}

    def make(address: Address, dice: Dice) -> Node:
        # Only the first life of a founder begins in the ring.
        state = waiting.pop(address, None)
        return OverlayNode(Chord(peer_at(address, config), config, dice, state=state))

    for peer in founders:
        simulation.add(peer.address, make)
    stage = Stage(simulation, make, Shown.of(["Lookup", "Arrival", "Member", "Gone", "crash"]))

    def lookup(words: list[str]) -> None:
        simulation.command(words[0], Route(_key(words[1], config), Lookup()))

    def multicast(words: list[str]) -> None:
        first, _, last = words[1].partition("..")
        low, high = _key(first, config), _key(last or first, config)
        region = config.ring.arc((low - 1) % config.ring.size, high)
        simulation.command(words[0], Multicast(region, Lookup()))

    stage.commands = {
        "lookup": StageCommand("lookup NODE KEY", 2, lookup),
        "multicast": StageCommand("multicast NODE KEY..KEY", 2, multicast),
    }
    return stage


def _is_upkeep(what: Message | Timer) -> bool:
    return not isinstance(what, Message) or "payload" not in what.__struct_fields__


def _key(text: str, config: ChordConfig) -> int:
    if not text.isdigit() or int(text) >= config.ring.size:
        raise UsageError(f"{text!r} is no key of {config.bits} bits")
    return int(text)


STAGES: Mapping[str, Callable[[int, Options], Stage]] = {
    "cbps": cbps_stage,
    "chord": chord_stage,
}
