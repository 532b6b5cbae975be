"""What a scenario is set in: a simulated network, and the commands that go with its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from crossroads.errors import UsageError
from crossroads.node import Address, Dice, Node
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.messages import Peer
from crossroads.runtime.sim.simulation import Simulation
from crossroads.runtime.sim.words import Shown
from crossroads.scheme.contract import Join, Leave

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StageCommand:
    usage: str
    least: int  # words after the name
    run: Callable[[list[str]], None]


@dataclass(slots=True)
class Stage:
    simulation: Simulation
    make: Callable[[Address, Dice], Node]
    shown: Shown  # while the scenario does not say what to show
    commands: dict[str, StageCommand] = field(default_factory=dict)

    def join(self, name: Address, contact: Address | None) -> None:
        if name not in self.simulation.addresses():
            self.simulation.add(name, self.make)
        self.simulation.command(name, Join(contact))

    def leave(self, name: Address) -> None:
        self.simulation.command(name, Leave())


def peer_at(address: Address, config: ChordConfig) -> Peer:
    place = address[1:]
    if address[:1] != "n" or not place.isdigit() or int(place) >= config.ring.size:
        hint = f"n0 to n{config.ring.size - 1}"
        raise UsageError(f"{address!r} has no place on a ring of {config.bits} bits", hint=hint)
    return Peer(int(place), address)


def numbers_of(options: Options, numbers: set[str], texts: set[str]) -> dict[str, int]:
    """The options that are numbers; refuses those that are neither these nor texts."""
    found = {}
    for name, text in options.items():
        if name in texts:
            continue
        if name not in numbers:
            known = ", ".join(sorted(numbers | texts))
            raise UsageError(f"no option {name!r}", hint=f"known: {known}")
        if not text.isdigit() or not int(text):
            raise UsageError(f"{name}={text} is no number above zero")
        found[name] = int(text)
    return found
