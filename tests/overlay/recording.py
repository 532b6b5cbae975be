"""Chord nodes in the simulator that remember what they told the layer above."""

from __future__ import annotations

import random
from collections.abc import Iterable

from crossroads.keyspace import Arcs
from crossroads.node import (
    Address,
    Command,
    Deliver,
    Dice,
    Effect,
    Fired,
    Input,
    Message,
    Receive,
    Started,
    Time,
)
from crossroads.overlay.chord import Chord, ChordConfig, Peer, converged
from crossroads.overlay.chord.unicast import keys_of
from crossroads.overlay.contract import (
    Arrived,
    Forward,
    Joined,
    Left,
    Output,
    OwnedChanged,
    pass_on,
)
from crossroads.runtime.sim import Link, Simulation
from crossroads.runtime.sim.overlaynode import Arrival, Multicast, Route
from crossroads.scheme.contract import Gone, Join, Leave, Member


class Letter(Message, frozen=True, gc=False):
    text: str


class Walk(Command, frozen=True, gc=False):
    region: Arcs
    payload: Message


class Spread(Command, frozen=True, gc=False):
    region: Arcs
    payload: Message


class RecordingNode:
    def __init__(self, chord: Chord) -> None:
        self.chord = chord
        self.address = chord.address
        self.told: list[OwnedChanged] = []

    def handle(self, now: Time, item: Input) -> list[Effect]:
        effects: list[Effect] = []
        for output in self._outputs(now, item):
            match output:
                case OwnedChanged():
                    self.told.append(output)
                case Arrived(payload, origin, hops, region):
                    effects.append(Deliver(Arrival(payload, origin, hops, region)))
                case Joined():
                    effects.append(Deliver(Member()))
                case Left(reason):
                    effects.append(Deliver(Gone(reason)))
                case _:
                    effects.append(output)
        return effects

    def _outputs(self, now: Time, item: Input) -> list[Output]:
        chord = self.chord
        match item:
            case Receive(sender, message):
                return chord.receive(now, sender, message)
            case Fired(timer):
                return chord.fired(now, timer)
            case Started(records):
                return chord.start(now, records)
            case Join(contact):
                return chord.join(now, contact)
            case Leave():
                return chord.leave(now)
            case Route(key, payload):
                return chord.route(now, key, payload)
            case Multicast(region, payload):
                return chord.multicast(now, region, payload)
            case Walk(region, payload):
                return chord.walk(now, region, payload)
            case Spread(region, payload):
                return chord.spread(now, keys_of(region), payload)
        raise AssertionError(item)


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
