"""The nodes of a case: who is up, who is a member, and who should be.

Joins, leaves and rejoins as a person would: through a member chosen by the dice, again if the node
lost its network. Nothing here knows what the nodes do; an overlay alone or a whole scheme.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from crossroads.node import Address, Delivery, Time
from crossroads.runtime.sim import Simulation
from crossroads.runtime.sim.host import Factory
from crossroads.scheme.contract import Gone, Join, Leave, Member

JOIN_MS_MAX = 60_000  # one node, while nothing fails
REJOIN_AFTER_MS = 200
CHECKED_EVERY_MS = 100


class Crowd:
    def __init__(self, simulation: Simulation, factory: Factory, dice: random.Random) -> None:
        self.simulation = simulation
        self.factory = factory
        self.members: dict[Address, None] = {}  # in the order in which they became members
        self.wanted: dict[Address, None] = {}  # those that should be members in the end
        self._dice = dice
        simulation.on_delivery.append(self._delivered)
        simulation.on_life.append(self._lived)

    def found(self, names: Sequence[Address]) -> None:
        """A network of these nodes, joined one after the other."""
        for name in names:
            self.join(name)
            bound = self.simulation.now + JOIN_MS_MAX
            while name not in self.members:
                assert self.simulation.now < bound, f"{name} could not join in {JOIN_MS_MAX} ms"
                self.simulation.run_for(CHECKED_EVERY_MS)

    def join(self, name: Address) -> None:
        self.wanted[name] = None
        if name not in self.simulation.addresses():
            self.simulation.add(name, self.factory)
        if self.simulation.node(name) is None or name in self.members:
            return
        contacts = [member for member in self.members if member != name]
        if contacts:
            self.simulation.command(name, Join(self._dice.choice(contacts)))
        elif len(self.wanted) == 1:
            self.simulation.command(name, Join(None))

    def leave(self, name: Address) -> None:
        self.wanted.pop(name, None)
        if name in self.members:
            self.simulation.command(name, Leave())

    def settled(self) -> bool:
        return self.members.keys() == self.wanted.keys()

    def any_member(self) -> Address | None:
        return self._dice.choice(list(self.members)) if self.members else None

    def _delivered(self, now: Time, name: Address, what: Delivery) -> None:
        match what:
            case Member():
                self.members[name] = None
                if name not in self.wanted:  # told to leave while it was still joining
                    self.simulation.at(now, lambda: self.leave(name))
            case Gone():
                self.members.pop(name, None)
                if name in self.wanted:
                    self.simulation.at(now + REJOIN_AFTER_MS, lambda: self._rejoin(name))

    def _rejoin(self, name: Address) -> None:
        if name in self.wanted:
            self.join(name)

    def _lived(self, now: Time, name: Address, up: bool) -> None:
        if not up:
            self.members.pop(name, None)
            self.wanted.pop(name, None)
