"""Where a node lives in the simulator: its disk, its timers, and how slow it is.

A host outlasts its node. A crash throws the node away, and with it the timers; the disk stays.
Each life of a node has its own stream of chance, drawn from the seed, the address and the life.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from crossroads.node import Address, Dice, Node, Time, Timer
from crossroads.runtime.sim.disk import Disk

Factory = Callable[[Address, Dice], Node]


class Host:
    __slots__ = (
        "address",
        "cut_next",
        "disk",
        "factory",
        "last_arrival",
        "life",
        "node",
        "received",
        "slow",
        "timers",
    )

    def __init__(self, address: Address, factory: Factory) -> None:
        self.address = address
        self.factory = factory
        self.disk = Disk()
        self.node: Node | None = None
        self.life = 0
        self.timers: dict[Timer, int] = {}  # timer → number of the SetTimer that counts
        # To whom → when the last message there arrives: a later one must not come before.
        self.last_arrival: dict[Address, Time] = {}
        self.received = 0  # messages, over all lives
        self.slow: Time = 0  # added to everything that the node is to handle
        self.cut_next = False  # crash in the middle of the effects of the next input

    def begin_life(self, seed: int) -> Node:
        assert self.node is None, f"{self.address} is already up"
        self.life += 1
        self.node = self.factory(self.address, dice_for(seed, self.address, self.life))
        return self.node

    def end_life(self, dice: random.Random) -> None:
        self.node = None
        self.timers = {}
        self.cut_next = False
        self.disk.crash(dice)


def dice_for(seed: int, *purpose: str | int) -> random.Random:
    """A stream of its own for each purpose. Text is hashed the same way in every process."""
    return random.Random("/".join(map(str, (seed, *purpose))))
