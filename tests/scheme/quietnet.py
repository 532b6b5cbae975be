"""A quiet ring of CB-pub/sub nodes in the simulator, and what their applications were told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from crossroads.mapping.contract import Mapping as KeyMapping
from crossroads.mapping.fit import fit
from crossroads.model.schema import Schema
from crossroads.node import Address, Delivery, Dice, Message
from crossroads.overlay.chord import ChordConfig, Peer, converged
from crossroads.runtime.sim import Link, Simulation
from crossroads.scheme.cbps import Cbps, CbpsConfig, Vocabulary, on_chord
from crossroads.scheme.cbps.quiet import is_background
from crossroads.scheme.contract import Notified, Publish, Subscribe
from crossroads.scheme.stack import StackedNode

Kind = TypeVar("Kind", bound=Delivery)

CALM = CbpsConfig(copies=2, absence_ms=None)


def schema(attributes: int = 2, largest: int = 63) -> Schema:
    domain = {"type": "int", "min": 0, "max": largest}
    names = [f"a{i + 1}" for i in range(attributes)]
    return Schema.from_mapping({"id": [names[0]], "attributes": dict.fromkeys(names, domain)})


class Network:
    def __init__(
        self,
        places: Iterable[int],
        *,
        bits: int = 6,
        mapping: KeyMapping | None = None,
        config: CbpsConfig = CALM,
        seed: int = 1,
    ) -> None:
        self.chord = ChordConfig(bits=bits, successors=3)
        self.config = config
        self.mapping = mapping or fit("selective-attribute", schema(), bits=bits)
        self.vocabulary = Vocabulary(self.mapping)
        self.simulation = Simulation(
            seed, link=Link(delay_min=10, delay_max=10), background=is_background
        )
        self.told: list[tuple[Address, Delivery]] = []
        self.simulation.on_delivery.append(lambda now, name, what: self.told.append((name, what)))
        self._built = converged([Peer(place, f"n{place}") for place in places], self.chord)
        for place in list(self._built):
            self.add(f"n{place}")
        self.quiet()

    def add(self, name: Address) -> None:
        self.simulation.add(name, self._make)

    def _make(self, address: Address, dice: Dice) -> StackedNode:
        place = int(address[1:])
        return on_chord(
            Peer(place, address),
            self.vocabulary,
            dice,
            chord=self.chord,
            config=self.config,
            state=self._built.pop(place, None),
        )

    def layer(self, name: Address) -> Cbps:
        node = self.simulation.node(name)
        assert isinstance(node, StackedNode) and isinstance(node.layer, Cbps)
        return node.layer

    def layers(self) -> dict[Address, Cbps]:
        return {node.address: self.layer(node.address) for node in self.simulation.nodes()}

    def quiet(self) -> None:
        self.simulation.run_until_quiet(within=120_000)

    def subscribe(self, name: Address, id_: str, filter_: str, lease: int | None = None) -> None:
        self.simulation.command(name, Subscribe(id_, filter_, lease))
        self.quiet()

    def publish(self, name: Address, id_: str, event: Mapping[str, object]) -> None:
        self.simulation.command(name, Publish(id_, event))
        self.quiet()

    def deliveries(self, kind: type[Kind]) -> list[tuple[Address, Kind]]:
        return [(name, what) for name, what in self.told if isinstance(what, kind)]

    def notified(self) -> list[tuple[Address, str, str]]:
        return sorted(
            (name, what.subscription, what.event_id) for name, what in self.deliveries(Notified)
        )

    def carried(self, kind: type) -> int:
        """One-hop messages that carried this kind of payload."""
        counts = self.simulation.metrics.carried
        return sum(count for (_, payload), count in counts.items() if payload is kind)

    def sent(self, kind: type[Message]) -> int:
        return self.simulation.metrics.sent.get(kind, 0)
