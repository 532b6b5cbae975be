"""The contract of a scheme as a test that anyone can run on their own.

    check_scheme(SchemeUnderTest(name="mine", make=…, faults=…, matches=…, …))

Each seed is a case: a small network grows; then subscriptions come and go and events are published
while nodes join, leave, crash and come back as roughly as the scheme's fault contract allows. Then
the faults stop, a last round is published in peace, and once things are quiet `law.judge` says from
the log who must and who may have been notified.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crossroads.errors import NotQuiet
from crossroads.faults import FaultContract
from crossroads.node import Address, Command, Delivery, Dice, Message, Node, Time, Timer
from crossroads.runtime.sim import Link, Simulation
from crossroads.runtime.sim.faults import FaultBounds, breaches, draw_faults, inject
from crossroads.runtime.sim.host import dice_for
from crossroads.scheme.contract import Publish, SchemeNode, Subscribe, Unsubscribe
from crossroads.testing.crowd import Crowd
from crossroads.testing.law import Crashed, Restarted, Seen, judge
from crossroads.testing.outcome import Outcome, check_outcomes

SPARES = 2
COMMANDS = 24  # while things go wrong
LAST_EVENTS = 4  # published in peace, to see what the faults left behind
LEASE_MS = (2_000, 30_000)  # drawn evenly; half of the subscriptions have none
QUIET_MS_MAX = 120_000
CASES = 20

CALM = Link(delay_min=5, delay_max=30)


@dataclass(frozen=True, kw_only=True)
class SchemeUnderTest:
    name: str
    make: Callable[[Address, Dice], SchemeNode]
    faults: FaultContract
    # To choose from; more than `members_max` + 2. Those beside each other are neighbours.
    addresses: Sequence[Address]
    draw_filter: Callable[[random.Random], str]
    draw_event: Callable[[random.Random], Mapping[str, object]]
    matches: Callable[[str, Mapping[str, object]], bool]  # by definition
    background: Callable[[Message | Timer], bool]  # endless maintenance
    # Are the nodes that are up, together, in order again: routing whole, copies where they belong?
    in_order: Callable[[Sequence[Node]], bool]
    members_min: int = 5
    members_max: int = 9
    planted: str = ""  # the bug that was planted, for the command that replays a case


def check_scheme(subject: SchemeUnderTest, seeds: Iterable[int] = range(CASES)) -> None:
    """Raises AssertionError with the command that replays the first case that breaks the law."""
    check_outcomes(lambda seed: run_scheme_case(subject, seed), seeds)


def run_scheme_case(subject: SchemeUnderTest, seed: int) -> Outcome:
    return _Case(subject, seed).run()


@dataclass
class _Case:
    subject: SchemeUnderTest
    seed: int
    log: list[Seen] = field(default_factory=list)
    mine: dict[str, Address] = field(default_factory=dict)  # subscription → its node
    published: int = 0

    def __post_init__(self) -> None:
        self.dice = dice_for(self.seed, "scheme case", self.subject.name)
        self.simulation = Simulation(self.seed, link=CALM, background=self.subject.background)
        self.crowd = Crowd(self.simulation, self.subject.make, self.dice)
        self.simulation.on_command.append(self._note)
        self.simulation.on_delivery.append(self._note)
        self.simulation.on_life.append(self._note_life)

    def run(self) -> Outcome:
        subject, dice = self.subject, self.dice
        size = subject.members_min + dice.randrange(subject.members_max - subject.members_min + 1)
        names = dice.sample(list(subject.addresses), size + SPARES)
        reasons: tuple[str, ...] = ()
        violations: list[str] = []
        try:
            self.crowd.found(names[:size])
            self._wait_for_order()
            reasons = self._churn(names[:size], names[size:])
            self._wait_for_order()
            for _ in range(LAST_EVENTS):
                self._publish()
            self._wait_for_order()
            violations += [wrong.words for wrong in judge(self.log, subject.matches).violations]
        except NotQuiet as stopped:
            violations.append(str(stopped))
        except AssertionError as broken:
            violations.append(f"at {self.simulation.now} ms: {broken}")
        return Outcome(
            subject=f"--scheme {subject.name}",
            planted=subject.planted,
            seed=self.seed,
            out_of_contract=reasons,
            violations=tuple(violations),
            digest=self.simulation.trace.digest(),
            messages=sum(self.simulation.metrics.sent.values()),
        )

    # -- what happens ----------------------------------------------------------------------

    def _churn(self, members: Sequence[Address], spares: Sequence[Address]) -> tuple[str, ...]:
        contract, simulation = self.subject.faults, self.simulation
        until = 2 * contract.repair_ms + 6_000
        bounds = FaultBounds.within(contract, members=len(members), until=until, link=CALM)
        in_places = sorted(members, key=list(self.subject.addresses).index)
        plan = draw_faults(self.seed, in_places, spares, bounds)
        inject(simulation, plan, join=self.crowd.join, leave=self.crowd.leave)
        for _ in range(COMMANDS):
            simulation.at(simulation.now + self.dice.randrange(until), self._some_command)
        last = max(fault.at for fault in plan)
        simulation.run_for(max(last, until) + 1)
        simulation.network.heal()
        simulation.network.set_default(CALM)
        return breaches(plan, contract, members=len(members))

    def _some_command(self) -> None:
        chance = self.dice.random()
        if chance < 0.4:
            self._subscribe()
        elif chance < 0.5:
            self._unsubscribe()
        else:
            self._publish()

    def _subscribe(self) -> None:
        node = self.crowd.any_member()
        if node is not None:
            name = f"s{len(self.mine)}"
            self.mine[name] = node
            lease = None
            if self.dice.random() < 0.5:
                lease = LEASE_MS[0] + self.dice.randrange(LEASE_MS[1] - LEASE_MS[0])
            filter_ = self.subject.draw_filter(self.dice)
            self.simulation.command(node, Subscribe(name, filter_, lease))

    def _unsubscribe(self) -> None:
        mine = [name for name, node in self.mine.items() if node in self.crowd.members]
        if mine:
            name = self.dice.choice(mine)
            self.simulation.command(self.mine[name], Unsubscribe(name))

    def _publish(self) -> None:
        node = self.crowd.any_member()
        if node is not None:
            self.published += 1
            event = self.subject.draw_event(self.dice)
            self.simulation.command(node, Publish(f"e{self.published}", event))

    # -- what was seen ---------------------------------------------------------------------

    def _wait_for_order(self) -> None:
        self.simulation.run_until_quiet(within=QUIET_MS_MAX, idle=self._in_order)

    def _in_order(self) -> bool:
        return self.crowd.settled() and self.subject.in_order(self.simulation.nodes())

    def _note(self, now: Time, node: Address, what: Command | Delivery) -> None:
        self.log.append(Seen(now, node, what))

    def _note_life(self, now: Time, node: Address, up: bool) -> None:
        self.log.append(Seen(now, node, Restarted() if up else Crashed()))
