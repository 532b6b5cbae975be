"""Chord nodes in the simulator that remember what they told the layer above."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from crossroads.keyspace import Arcs
from crossroads.node import (
    Address,
    Command,
    Dice,
    Effect,
    Input,
    Message,
    Time,
)
from crossroads.overlay.chord import Chord, ChordConfig, Peer, converged
from crossroads.overlay.chord.unicast import keys_of
from crossroads.overlay.contract import (
    Forward,
    Output,
    OwnedChanged,
    pass_on,
)
from crossroads.runtime.sim import Link, Simulation
from crossroads.runtime.sim.overlaynode import Arrival, OverlayNode, effects_of


class Letter(Message, frozen=True, gc=False):
    text: str


class Walk(Command, frozen=True, gc=False):
    region: Arcs
    payload: Message


class Spread(Command, frozen=True, gc=False):
    region: Arcs
    payload: Message


class RecordingNode(OverlayNode):
    def __init__(self, chord: Chord) -> None:
        super().__init__(chord)
        self.chord = chord
        self.told: list[OwnedChanged] = []

    def handle(self, now: Time, item: Input) -> Sequence[Effect]:
        outputs = self.outputs(now, item)
        self.told += [output for output in outputs if isinstance(output, OwnedChanged)]
        return effects_of(outputs)

    def outputs(self, now: Time, item: Input) -> list[Output]:
        match item:
            case Walk(region, payload):
                return self.chord.walk(now, region, payload)
            case Spread(region, payload):
                return self.chord.spread(now, keys_of(region), payload)
        return super().outputs(now, item)


class Network:
    """A quiet ring of these ids to begin with; more nodes can be added and told to join."""

    def __init__(
        self,
        config: ChordConfig,
        ids: Iterable[int],
        *,
        seed: int = 1,
        link: Link | None = None,
        forward: Forward = pass_on,
    ) -> None:
        self.config = config
        self.forward = forward
        self.simulation = Simulation(seed, link=link or Link(delay_min=10, delay_max=50))
        self.dice = random.Random(seed)
        self.arrivals: list[tuple[Address, Arrival]] = []
        self.simulation.on_delivery.append(
            lambda now, name, what: (
                self.arrivals.append((name, what)) if isinstance(what, Arrival) else None
            )
        )
        peers = [Peer(id_, f"n{id_}") for id_ in ids]
        self._built = converged(peers, config) if peers else {}
        for id_ in list(self._built):
            self.add(f"n{id_}")

    def add(self, name: Address) -> RecordingNode:
        self.simulation.add(name, self._make)
        return self.node(name)

    def node(self, name: Address) -> RecordingNode:
        node = self.simulation.node(name)
        assert isinstance(node, RecordingNode), f"{name} is down"
        return node

    def members(self) -> list[Address]:
        nodes = (self.node(node.address) for node in self.simulation.nodes())
        return [node.address for node in nodes if node.chord.state.is_member]

    def _make(self, address: Address, dice: Dice) -> RecordingNode:
        # The place is the number in the name; "n5bis" wants the place of n5.
        peer = Peer(int(address[1:].removesuffix("bis")), address)
        state = self._built.pop(peer.id, None)
        return RecordingNode(Chord(peer, self.config, dice, forward=self.forward, state=state))
