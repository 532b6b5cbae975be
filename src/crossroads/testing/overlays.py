"""The contract of an overlay as a test that anyone can run on their own.

    check_overlay(OverlayUnderTest(name="mine", make=…, addresses=…, keys=…, holds=…, …))

Each seed is a case: a small network grows, then nodes join, leave, crash and come back as roughly
as the overlay's fault contract allows, with payloads under way all the time. Then the faults stop,
and within a bound the law of `crossroads.overlay.contract` must hold again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from crossroads.errors import NotQuiet
from crossroads.faults import FaultContract
from crossroads.node import Address, Delivery, Dice, Message, Node, Time, Timer
from crossroads.overlay.contract import Overlay
from crossroads.runtime.sim import Link, Simulation
from crossroads.runtime.sim.faults import FaultBounds, breaches, draw_faults, inject
from crossroads.runtime.sim.host import dice_for
from crossroads.runtime.sim.overlaynode import Arrival, Multicast, OverlayNode, Route
from crossroads.testing.crowd import Crowd
from crossroads.testing.outcome import Outcome, check_outcomes

SPARES = 2
CHURN_PROBES = 12  # payloads while things go wrong
QUIET_PROBES = 10  # and afterwards, judged
QUIET_MS_MAX = 120_000
CASES = 20

CALM = Link(delay_min=5, delay_max=30)


class Probe(Message, frozen=True, gc=False):
    number: int


class Watch(Protocol):
    """Looks on, from the moment the network has grown, and says what is wrong with it."""

    def begin(self, up: Iterable[Overlay[Any, Any]]) -> Sequence[str]: ...

    def stepped(
        self, now: Time, overlay: Overlay[Any, Any], up: Iterable[Overlay[Any, Any]]
    ) -> Sequence[str]: ...

    def crashed(self, now: Time, overlay: Overlay[Any, Any]) -> Sequence[str]: ...


@dataclass(frozen=True, kw_only=True)
class OverlayUnderTest:
    name: str
    make: Callable[[Address, Dice], Overlay[Any, Any]]
    faults: FaultContract
    addresses: Sequence[Address]  # to choose from; more than `members_max` + 2
    keys: Sequence[Any]  # of the whole space, or many of them: ownership is checked for each
    holds: Callable[[Any, Any], bool]  # (region, key)
    draw_region: Callable[[random.Random], Any]
    # Has word got around, so that routing is whole again? Ownership is checked in any case.
    in_order: Callable[[Iterable[Overlay[Any, Any]]], bool] = lambda overlays: True
    members_min: int = 5
    members_max: int = 12
    watch: Callable[[], Watch] | None = None  # of an invariant; a new one for each case
    planted: str = ""  # the bug that was planted, for the command that replays a case


def check_overlay(subject: OverlayUnderTest, seeds: Iterable[int] = range(CASES)) -> None:
    """Raises AssertionError with the command that replays the first case that breaks the law."""
    check_outcomes(lambda seed: run_overlay_case(subject, seed), seeds)


def run_overlay_case(subject: OverlayUnderTest, seed: int) -> Outcome:
    return _Case(subject, seed).run()


@dataclass
class _Case:
    subject: OverlayUnderTest
    seed: int
    violations: list[str] = field(default_factory=list)
    arrivals: dict[int, Counter[Address]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dice = dice_for(self.seed, "overlay case", self.subject.name)
        self.simulation = Simulation(self.seed, link=CALM, background=self._is_background)
        self.crowd = Crowd(self.simulation, self._make, self.dice)
        self.simulation.on_delivery.append(self._delivered)
        self.overlays: dict[Address, Overlay[Any, Any]] = {}  # of the nodes that are up
        self.watch: Watch | None = None

    def run(self) -> Outcome:
        subject, dice = self.subject, self.dice
        size = subject.members_min + dice.randrange(subject.members_max - subject.members_min + 1)
        names = dice.sample(list(subject.addresses), size + SPARES)
        reasons: tuple[str, ...] = ()
        try:
            self.crowd.found(names[:size])
            self._wait_for_order()
            self._begin_to_watch()
            reasons = self._churn(names[:size], names[size:])
            self._wait_for_order()
            self._probe_and_judge()
        except NotQuiet as stopped:
            self.violations.append(f"{stopped}; {self._disorder()}")
        except AssertionError as broken:
            self.violations.append(f"at {self.simulation.now} ms: {broken}")
        return Outcome(
            subject=f"--overlay {subject.name}",
            planted=subject.planted,
            seed=self.seed,
            out_of_contract=reasons,
            violations=tuple(self.violations),
            digest=self.simulation.trace.digest(),
            messages=sum(self.simulation.metrics.sent.values()),
        )

    # -- what happens ----------------------------------------------------------------------

    def _churn(self, members: Sequence[Address], spares: Sequence[Address]) -> tuple[str, ...]:
        contract, simulation = self.subject.faults, self.simulation
        until = 2 * contract.repair_ms + 4_000
        bounds = FaultBounds.within(contract, members=len(members), until=until, link=CALM)
        plan = draw_faults(self.seed, members, spares, bounds)
        inject(simulation, plan, join=self.crowd.join, leave=self.crowd.leave)
        for number in range(CHURN_PROBES):
            at = simulation.now + self.dice.randrange(until)
            simulation.at(at, lambda number=number: self._probe(-1 - number))  # type: ignore[misc]
        last = max(fault.at for fault in plan)
        simulation.run_for(max(last, until) + 1)
        simulation.network.heal()
        simulation.network.set_default(CALM)
        return breaches(plan, contract, members=len(members))

    def _probe(self, number: int) -> None:
        start = self.crowd.any_member()
        if start is not None:
            if self.dice.random() < 0.5:
                key = self.dice.choice(self.subject.keys)
                self.simulation.command(start, Route(key, Probe(number)))
            else:
                region = self.subject.draw_region(self.dice)
                self.simulation.command(start, Multicast(region, Probe(number)))

    def _probe_and_judge(self) -> None:
        wanted: dict[int, Counter[Address]] = {}
        for number in range(QUIET_PROBES):
            start = self.crowd.any_member()
            assert start is not None, "no member is left"
            if number % 2:
                key = self.dice.choice(self.subject.keys)
                wanted[number] = Counter(self._owners(key))
                self.simulation.command(start, Route(key, Probe(number)))
            else:
                region = self.subject.draw_region(self.dice)
                among = [key for key in self.subject.keys if self.subject.holds(region, key)]
                owners = {owner for key in among for owner in self._owners(key)}
                wanted[number] = Counter(sorted(owners))
                self.simulation.command(start, Multicast(region, Probe(number)))
        self.simulation.run_until_quiet(within=QUIET_MS_MAX)
        for number, owners_of in wanted.items():
            found = self.arrivals.get(number, Counter())
            if found != owners_of:
                kind = "routed" if number % 2 else "multicast"
                places = f"{_shown(found)}, not at {_shown(owners_of)}"
                self.violations.append(f"{kind} payload {number} arrived at {places}")

    # -- the law ---------------------------------------------------------------------------

    def _wait_for_order(self) -> None:
        self.simulation.run_until_quiet(within=QUIET_MS_MAX, idle=lambda: not self._disorder())

    def _disorder(self) -> str:
        """What is not as it has to be once quiet; empty: everything is."""
        crowd = self.crowd
        if not crowd.settled():
            return f"members are {list(crowd.members)}, should be {list(crowd.wanted)}"
        for key in self.subject.keys:
            owners = self._owners(key)
            if len(owners) != 1:
                return f"key {key} is owned by {owners or 'nobody'}"
        return (
            "" if self.subject.in_order(self.overlays.values()) else "not everyone knows of it yet"
        )

    def _owners(self, key: Any) -> list[Address]:
        return [
            overlay.address
            for overlay in self.overlays.values()
            if self.subject.holds(overlay.owned(), key)
        ]

    def _delivered(self, now: Time, name: Address, what: Delivery) -> None:
        if isinstance(what, Arrival) and isinstance(what.payload, Probe):
            self.arrivals.setdefault(what.payload.number, Counter())[name] += 1
            if name not in self.crowd.members:
                self.violations.append(f"at {now} ms a payload arrived at {name}, no member")

    # -- the invariant ---------------------------------------------------------------------

    def _begin_to_watch(self) -> None:
        if self.subject.watch is not None:
            self.watch = self.subject.watch()
            wrong = self.watch.begin(self.overlays.values())
            assert not wrong, f"when the network had grown: {'; '.join(wrong)}"
            self.simulation.after_input = self._stepped
        self.simulation.on_life.append(self._lived)

    def _stepped(self, now: Time, node: Node) -> None:
        if self.watch is not None:
            wrong = self.watch.stepped(now, self.overlays[node.address], self.overlays.values())
            assert not wrong, f"after an input of {node.address}: {'; '.join(wrong)}"

    def _lived(self, now: Time, name: Address, up: bool) -> None:
        if not up:
            crashed = self.overlays.pop(name)
            wrong = self.watch.crashed(now, crashed) if self.watch is not None else ()
            assert not wrong, f"after the crash of {name}: {'; '.join(wrong)}"

    # -- nodes -----------------------------------------------------------------------------

    def _make(self, address: Address, dice: Dice) -> OverlayNode:
        self.overlays[address] = self.subject.make(address, dice)
        return OverlayNode(self.overlays[address])

    def _is_background(self, what: Message | Timer) -> bool:
        """All that the overlay says by itself; not the payloads that it carries."""
        if isinstance(what, Message):
            return "payload" not in what.__struct_fields__
        return True


def _shown(found: Counter[Address]) -> str:
    parts = (f"{name} ×{count}" if count > 1 else name for name, count in sorted(found.items()))
    return ", ".join(parts) or "nobody"
