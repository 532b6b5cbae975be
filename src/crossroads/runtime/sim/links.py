"""What happens to a message on its way: delay, loss, repetition, overtaking, walls.

    network = Network(Link(delay_min=40, delay_max=60, loss=0.01))
    network.set("n1", "n2", Link(delay_min=500, delay_max=500))      one direction of one pair
    network.partition({"n1", "n2"}, {"n3"})                          until network.heal()

Rules: messages from one node to another keep their order unless the link reorders; a message that
was sent before a wall went up still arrives; a message to oneself is never lost and takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from crossroads.errors import UsageError
from crossroads.node import Address, Time


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One direction between two nodes. Delays are drawn evenly from [delay_min, delay_max] ms."""

    delay_min: Time = 50  # CHORD's simulations: 50 ms, always
    delay_max: Time = 50
    loss: float = 0.0  # chance that a message never arrives
    duplication: float = 0.0  # chance that it arrives a second time
    reordering: float = 0.0  # chance that it is held back, and later ones may overtake it

    def __post_init__(self) -> None:
        if not 1 <= self.delay_min <= self.delay_max:
            # With no delay at all a reply could come before its question has been sent whole.
            raise UsageError(
                f"a link cannot take {self.delay_min} to {self.delay_max} ms",
                hint="delays are at least 1 ms, the smallest first",
            )
        for name in ("loss", "duplication", "reordering"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"{name} is a probability, not {getattr(self, name)}")

    @property
    def steady(self) -> bool:
        """Does every message arrive, once, in order, after the same time?"""
        return self.delay_min == self.delay_max and not (
            self.loss or self.duplication or self.reordering
        )

    @property
    def held_back_max(self) -> Time:
        """How long a reordered message waits at most: long enough to be overtaken."""
        return 2 * self.delay_max


class Network:
    """The links between all nodes, and the walls among them."""

    def __init__(self, default: Link | None = None) -> None:
        self.default = default or Link()
        self._special: dict[tuple[Address, Address], Link] = {}
        self._side: dict[Address, int] = {}
        self._walls = False
        self.steady = True  # every pair has the default link, it is steady, and there are no walls
        self._update()

    def set_default(self, link: Link) -> None:
        self.default = link
        self._update()

    def set(self, sender: Address, to: Address, link: Link | None) -> None:
        """Another link for one direction of one pair; None: the default again."""
        if link is None:
            self._special.pop((sender, to), None)
        else:
            self._special[sender, to] = link
        self._update()

    def partition(self, *groups: Iterable[Address]) -> None:
        """No group reaches another; nodes that are in none of them form a group of their own."""
        self._side = {node: number for number, group in enumerate(groups, 1) for node in group}
        self._walls = True
        self._update()

    def heal(self) -> None:
        self._side = {}
        self._walls = False
        self._update()

    def link(self, sender: Address, to: Address) -> Link | None:
        """None: there is a wall between them."""
        if self._walls and self._side.get(sender, 0) != self._side.get(to, 0):
            return None
        return self._special.get((sender, to), self.default)

    def _update(self) -> None:
        self.steady = self.default.steady and not self._special and not self._walls
