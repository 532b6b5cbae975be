"""Things that go wrong, drawn from a seed, and whether a protocol promised to ride them out.

    plan = draw_faults(seed, members, spares, FaultBounds.within(contract, …))
    reasons = breaches(plan, contract, members=len(members))      empty: the run is in contract
    inject(simulation, plan, join=…, leave=…)

A plan is plain data: it can be shown, cut down by hand and played again. Faults that no longer make
sense when their time comes (the node to crash has crashed already) are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from crossroads.faults import FaultContract
from crossroads.node import Address, Time
from crossroads.runtime.sim.host import dice_for
from crossroads.runtime.sim.links import Link
from crossroads.runtime.sim.simulation import MID_STEP_MS_MAX, Simulation


@dataclass(frozen=True, slots=True)
class Crash:
    at: Time
    node: Address
    mid_step: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    at: Time
    node: Address
    disk: bool = True


@dataclass(frozen=True, slots=True)
class Enter:
    at: Time
    node: Address


@dataclass(frozen=True, slots=True)
class Depart:
    at: Time
    node: Address


@dataclass(frozen=True, slots=True)
class Divide:
    at: Time
    group: tuple[Address, ...]  # cut off from all others
    until: Time


@dataclass(frozen=True, slots=True)
class Weather:
    at: Time
    link: Link


@dataclass(frozen=True, slots=True)
class Slow:
    at: Time
    node: Address
    delay: Time
    disk: bool = False  # the disk rather than the node


JUST_BEFORE_MS = 700  # a node that joins so long before another fails is hardly settled
REMOVALS_MAX = 4  # in one plan; more only makes it longer

Fault = Crash | Restart | Enter | Depart | Divide | Weather | Slow


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBounds:
    """How much may be drawn. Times in milliseconds, chances between 0 and 1."""

    until: Time  # the last fault comes before this
    removals: int = 3  # crashes and departures in all
    at_once: int = 1  # crashes within one `gap`
    gap: Time = 5_000
    entries: int = 2  # spare nodes that join
    restarts: float = 0.5  # chance that a crashed node comes back
    disk_lost: float = 0.0  # chance that it comes back without its disk
    mid_step: float = 0.3  # chance that a crash cuts a step in two
    divisions: int = 0
    divided_for: Time = 2_000
    link: Link = field(
        default_factory=Link
    )  # the worst weather; drawn between none of it and all of it
    slow_max: Time = 0  # for nodes
    slow_disk_max: Time = 50

    @staticmethod
    def within(
        contract: FaultContract, *, members: int, until: Time, link: Link | None = None
    ) -> FaultBounds:
        """As rough as the contract allows for so many members."""
        calm = link or Link()
        worst = replace(
            calm,
            loss=contract.loss_max,
            duplication=0.05 if contract.duplication else 0.0,
            reordering=0.1 if contract.reordering else 0.0,
        )
        return FaultBounds(
            until=until,
            removals=min(REMOVALS_MAX, members - contract.members_min),
            at_once=contract.crashes_at_once,
            gap=contract.repair_ms,
            divisions=1 if contract.partitions else 0,
            link=worst,
            slow_max=max(0, contract.delay_ms_max - calm.delay_max - calm.held_back_max),
        )


def draw_faults(
    seed: int, members: Sequence[Address], spares: Sequence[Address], bounds: FaultBounds
) -> tuple[Fault, ...]:
    """In the order of their times."""
    dice = dice_for(seed, "faults")
    removals = list(_removals(dice, members, bounds))
    found: list[Fault] = [Weather(0, _drawn_link(dice, bounds.link)), *removals]
    for node in spares[: bounds.entries]:
        at = dice.randrange(bounds.until)
        if removals and dice.random() < 0.7:  # what is half done when something fails is fragile
            at = max(0, dice.choice(removals).at - dice.randrange(JUST_BEFORE_MS))
        found.append(Enter(at, node))
    for _ in range(dice.randrange(bounds.divisions + 1)):
        at = dice.randrange(bounds.until)
        size = 1 + dice.randrange(max(1, len(members) // 2))
        group = tuple(sorted(dice.sample(list(members), size)))
        found.append(Divide(at, group, at + 1 + dice.randrange(bounds.divided_for)))
    for most, disk in ((bounds.slow_max, False), (bounds.slow_disk_max, True)):
        if most and dice.random() < 0.5:
            node, at = dice.choice(list(members)), dice.randrange(bounds.until)
            found.append(Slow(at, node, 1 + dice.randrange(most), disk))
    return tuple(sorted(found, key=lambda fault: fault.at))


def _removals(
    dice: random.Random, members: Sequence[Address], bounds: FaultBounds
) -> Iterator[Fault]:
    """Waves of crashes, a gap apart, or single departures; some of the crashed come back.

    Those beside each other in `members` count as neighbours."""
    standing = list(members)
    at = dice.randrange(max(1, bounds.gap))
    left = dice.randrange(bounds.removals + 1)
    while left and at < bounds.until and len(standing) > 1:
        if not bounds.at_once or dice.random() < 0.3:
            yield Depart(at, standing.pop(dice.randrange(len(standing))))
            left -= 1
        else:
            near = dice.randrange(len(standing))
            for _ in range(min(left, 1 + dice.randrange(bounds.at_once))):
                # Half of the time a neighbour: those depend on each other.
                alike = dice.random() < 0.5
                node = standing.pop((near if alike else dice.randrange(1 << 30)) % len(standing))
                yield Crash(at, node, dice.random() < bounds.mid_step)
                left -= 1
                if dice.random() < bounds.restarts:
                    back = at + 1 + dice.randrange(bounds.gap + 1)
                    yield Restart(back, node, dice.random() >= bounds.disk_lost)
                if len(standing) == 1:
                    break
        at += bounds.gap + MID_STEP_MS_MAX + dice.randrange(bounds.gap + 1)


def _drawn_link(dice: random.Random, worst: Link) -> Link:
    """Often good weather: a bug that needs none of it is easier to see without."""
    if dice.random() < 0.5:
        return replace(worst, loss=0.0, duplication=0.0, reordering=0.0)
    share = dice.random()
    return replace(
        worst,
        loss=worst.loss * share,
        duplication=worst.duplication * share,
        reordering=worst.reordering * share,
    )


# -- in contract or not ------------------------------------------------------------------------


def breaches(plan: Sequence[Fault], contract: FaultContract, *, members: int) -> tuple[str, ...]:
    """Why this run is out of contract; nothing if it is in."""
    return tuple(dict.fromkeys(_breaches(plan, contract, members)))


def _breaches(plan: Sequence[Fault], contract: FaultContract, members: int) -> Iterator[str]:
    crashed: list[Time] = []
    down_since: dict[Address, Time] = {}
    standing = members
    link_delay = 0
    for fault in plan:
        match fault:
            case Crash(at) | Depart(at):
                standing -= 1
                if standing < contract.members_min:
                    yield f"only {standing} members stand at {at} ms, {contract.members_min} must"
                if isinstance(fault, Crash):
                    down_since[fault.node] = at
                    crashed = [time for time in crashed if at - time <= contract.repair_ms]
                    crashed.append(at)
                    if len(crashed) > contract.crashes_at_once:
                        yield f"{len(crashed)} nodes crashed within {contract.repair_ms} ms"
            case Restart(at, node, disk):
                standing += 1
                if not disk and not contract.restart_without_disk:
                    yield f"{node} restarted without its disk at {at} ms"
                away = at - down_since.get(node, at)
                if contract.absence_ms_max is not None and away > contract.absence_ms_max:
                    yield f"{node} was away for {away} ms until {at} ms and given up"
            case Enter():
                standing += 1
            case Divide(at):
                if not contract.partitions:
                    yield f"members could not reach each other from {at} ms"
            case Weather(_, link):
                link_delay = link.delay_max + (link.held_back_max if link.reordering else 0)
                yield from _weather_breaches(link, link_delay, contract)
            case Slow(at, node, delay, False):
                if delay + link_delay > contract.delay_ms_max:
                    yield f"{node} answered so late at {at} ms that it was taken for dead"


def _weather_breaches(link: Link, delay: Time, contract: FaultContract) -> Iterator[str]:
    if link.loss > contract.loss_max:
        yield f"{link.loss:.0%} of the messages were lost, {contract.loss_max:.0%} may be"
    if link.duplication and not contract.duplication:
        yield "messages came twice"
    if link.reordering and not contract.reordering:
        yield "messages overtook each other"
    if delay > contract.delay_ms_max:
        yield f"messages took up to {delay} ms, {contract.delay_ms_max} ms are allowed"


# -- carrying it out ---------------------------------------------------------------------------


def inject(
    simulation: Simulation,
    plan: Sequence[Fault],
    *,
    join: Callable[[Address], None],
    leave: Callable[[Address], None],
) -> None:
    """Put the plan on the agenda. Joining and leaving are commands of the protocol's own."""
    for fault in plan:
        simulation.at(
            simulation.now + fault.at,
            lambda fault=fault: _carry_out(simulation, fault, join, leave),  # type: ignore[misc]
        )


def _carry_out(
    simulation: Simulation,
    fault: Fault,
    join: Callable[[Address], None],
    leave: Callable[[Address], None],
) -> None:
    match fault:
        case Crash(_, node, mid_step):
            if simulation.node(node) is not None:
                simulation.crash(node, mid_step=mid_step)
        case Restart(_, node, disk):
            if simulation.node(node) is None:
                simulation.restart(node, disk=disk)
                join(node)
        case Enter(_, node):
            join(node)
        case Depart(_, node):
            if simulation.node(node) is not None:
                leave(node)
        case Divide(_, group, until):
            simulation.network.partition(group)
            simulation.at(
                max(simulation.now, simulation.now + until - fault.at), simulation.network.heal
            )
        case Weather(_, link):
            simulation.network.set_default(link)
        case Slow(_, node, delay, disk):
            if disk:
                simulation.set_slow_disk(node, delay)
            else:
                simulation.set_slow(node, delay)
