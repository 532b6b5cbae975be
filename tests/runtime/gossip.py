"""Small nodes that the tests of the simulator run: they say much and mean little."""

from __future__ import annotations

import json
import sys

from crossroads.node import (
    Address,
    CancelTimer,
    Command,
    Deliver,
    Delivery,
    Dice,
    Effect,
    Fired,
    Input,
    Message,
    Persist,
    Persisted,
    Receive,
    Send,
    SetTimer,
    Started,
    Time,
    Timer,
)
from crossroads.runtime.sim import Link, Simulation


class Word(Message, frozen=True, gc=False):
    number: int
    left: int  # hops


class Parcel(Message, frozen=True, gc=False):
    payload: Word


class Say(Command, frozen=True, gc=False):
    to: Address
    numbers: tuple[int, ...]


class Spread(Command, frozen=True, gc=False):
    number: int
    hops: int


class Write(Command, frozen=True, gc=False):
    token: int
    records: tuple[tuple[str, bytes | None], ...]


class Alarm(Command, frozen=True, gc=False):
    timer: Timer
    after: Time | None  # None cancels


class Heard(Delivery, frozen=True, gc=False):
    what: str


class Gossip:
    """Tells everything it was told to the application; passes words on to whom the dice choose."""

    def __init__(self, address: Address, dice: Dice, others: tuple[Address, ...]) -> None:
        self.address = address
        self.dice = dice
        self.others = others

    def handle(self, now: Time, item: Input) -> list[Effect]:
        match item:
            case Started(records):
                found = json.dumps({name: value.decode() for name, value in records.items()})
                return [_heard(f"started {found}")]
            case Receive(sender, Word(number, left)):
                said: list[Effect] = [_heard(f"{number} from {sender}")]
                return [*said, *self._pass_on(number, left - 1)] if left else said
            case Receive(sender, Parcel(Word(number))):
                return [_heard(f"parcel {number} from {sender}")]
            case Fired(timer):
                return [_heard(f"fired {timer[0]}")]
            case Persisted(token):
                return [_heard(f"durable {token}")]
            case Say(to, numbers):
                return [Send(to, Word(number, 0)) for number in numbers]
            case Spread(number, hops):
                return self._pass_on(number, hops)
            case Write(token, records):
                return [Persist(token, records)]
            case Alarm(timer, None):
                return [CancelTimer(timer)]
            case Alarm(timer, after):
                return [SetTimer(timer, after)]
        raise AssertionError(item)

    def _pass_on(self, number: int, left: int) -> list[Effect]:
        to = self.others[self.dice.randrange(len(self.others))]
        return [Send(to, Word(number, left)), SetTimer(("rest", number), 30)]


def _heard(what: str) -> Deliver:
    return Deliver(Heard(what))


def gossips(seed: int, size: int, *, link: Link | None = None, **options) -> Simulation:
    """n0, n1, …, who all know each other."""
    simulation = Simulation(seed, link=link, **options)
    names = tuple(f"n{number}" for number in range(size))
    for name in names:
        simulation.add(name, lambda address, dice: Gossip(address, dice, names))
    return simulation


def heard(simulation: Simulation, address: Address) -> list[str]:
    """A list that fills with what this node tells its application."""
    told: list[str] = []

    def note(now: Time, at: Address, what: Delivery) -> None:
        if at == address and isinstance(what, Heard):
            told.append(what.what)

    simulation.on_delivery.append(note)
    return told


def stormy_digest(seed: int) -> str:
    """The hash of a run in which everything happens that can happen."""
    weather = Link(delay_min=5, delay_max=80, loss=0.1, duplication=0.1, reordering=0.2)
    simulation = gossips(seed, 8, link=weather)
    for number in range(40):
        simulation.at(
            10 * number,
            lambda n=number: (
                simulation.command(f"n{n % 8}", Spread(n, 12))
                if simulation.node(f"n{n % 8}")
                else None
            ),
        )
    simulation.at(100, lambda: simulation.network.partition({"n0", "n1"}, {"n2"}))
    simulation.at(150, lambda: simulation.crash("n3"))
    simulation.at(160, lambda: simulation.crash("n4", mid_step=True))
    simulation.at(220, simulation.network.heal)
    simulation.at(250, lambda: simulation.restart("n3", disk=False))
    simulation.at(260, lambda: simulation.set_slow("n5", 200))
    simulation.run(until=5_000)
    return simulation.trace.digest()


if __name__ == "__main__":
    sys.stdout.write(stormy_digest(int(sys.argv[1])))
