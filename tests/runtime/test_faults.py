"""Plans of faults: drawn from a seed, kept within bounds, labelled when out of contract."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.runtime.gossip import gossips

from crossroads.faults import FaultContract
from crossroads.runtime.sim import Link
from crossroads.runtime.sim.faults import (
    Crash,
    Depart,
    Divide,
    Enter,
    FaultBounds,
    Restart,
    Slow,
    Weather,
    breaches,
    draw_faults,
    inject,
)

CONTRACT = FaultContract(
    words="Two crashes at a time, half a minute apart; one message in twenty is lost.",
    crashes_at_once=2,
    repair_ms=3_000,
    members_min=3,
    restart_without_disk=False,
    partitions=False,
    loss_max=0.05,
    duplication=True,
    reordering=True,
    delay_ms_max=400,
)
MEMBERS = tuple(f"n{number}" for number in range(8))
SPARES = ("n8", "n9")


def test_a_plan_is_its_seed() -> None:
    bounds = FaultBounds.within(CONTRACT, members=8, until=20_000)
    plans = [draw_faults(seed, MEMBERS, SPARES, bounds) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert list(plans[0]) == sorted(plans[0], key=lambda fault: fault.at)


def test_plans_within_a_contract_have_no_breach_and_leave_nothing_out() -> None:
    calm = Link(delay_min=10, delay_max=50)
    bounds = FaultBounds.within(CONTRACT, members=8, until=20_000, link=calm)
    kinds = set()
    for seed in range(300):
        plan = draw_faults(seed, MEMBERS, SPARES, bounds)
        assert breaches(plan, CONTRACT, members=len(MEMBERS)) == ()
        kinds |= {type(fault) for fault in plan}
    assert kinds == {Crash, Restart, Enter, Depart, Weather, Slow}


def test_rougher_plans_do_breach_it() -> None:
    bounds = FaultBounds(
        until=20_000,
        removals=7,
        at_once=4,
        entries=0,
        gap=2_000,
        restarts=0.2,
        disk_lost=0.5,
        divisions=2,
        slow_max=2_000,
        link=Link(loss=0.3),
    )
    plans = [draw_faults(seed, MEMBERS, SPARES, bounds) for seed in range(100)]
    said = " | ".join(
        reason for plan in plans for reason in breaches(plan, CONTRACT, members=len(MEMBERS))
    )
    for reason in (
        "crashed within 3000 ms",
        "restarted without its disk",
        "could not reach each other",
        "of the messages were lost, 5% may be",
        "taken for dead",
        "members stand at",
    ):
        assert reason in said, reason


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ([Crash(0, "a"), Crash(10, "b")], None),
        ([Crash(0, "a"), Crash(10, "b"), Crash(3_001, "c")], None),
        ([Crash(0, "a"), Crash(10, "b"), Crash(3_000, "c")], "3 nodes crashed within 3000 ms"),
        ([Crash(0, "a"), Restart(5, "a")], None),
        ([Crash(0, "a"), Restart(5, "a", disk=False)], "a restarted without its disk at 5 ms"),
        ([Depart(0, "a"), Depart(1, "b"), Depart(2, "c")], None),
        (
            [Depart(i, f"n{i}") for i in range(6)],
            "only 2 members stand at 5 ms, 3 must",
        ),
        ([Divide(7, ("a",), 9)], "members could not reach each other from 7 ms"),
        ([Weather(0, Link(loss=0.04))], None),
        ([Weather(0, Link(delay_max=500))], "messages took up to 500 ms, 400 ms are allowed"),
        ([Slow(3, "a", 900)], "a answered so late at 3 ms that it was taken for dead"),
        ([Slow(3, "a", 900, disk=True)], None),
    ],
)
def test_what_is_out_of_contract(plan, reason: str | None) -> None:
    assert breaches(plan, CONTRACT, members=8) == (() if reason is None else (reason,))


def test_a_stricter_contract_excludes_repetition_and_overtaking() -> None:
    strict = replace(CONTRACT, duplication=False, reordering=False)
    weather = Weather(0, Link(duplication=0.1, reordering=0.1))
    assert breaches([weather], strict, members=8) == (
        "messages came twice",
        "messages overtook each other",
    )


def test_a_plan_is_carried_out_at_its_times() -> None:
    simulation = gossips(1, 4)
    done: list[str] = []
    simulation.on_life.append(lambda now, name, up: done.append(f"{now} {name} {up}"))
    plan = [
        Crash(100, "n1"),
        Crash(120, "n1"),  # gone already: left out
        Divide(150, ("n2",), 250),
        Depart(200, "n2"),
        Restart(300, "n1"),
        Restart(310, "n1"),  # up already
        Enter(400, "n9"),
        Weather(500, Link(loss=0.5)),
    ]
    inject(
        simulation,
        plan,
        join=lambda name: done.append(f"{simulation.now} join {name}"),
        leave=lambda name: done.append(f"{simulation.now} leave {name}"),
    )
    simulation.run(until=200)
    assert simulation.network.link("n0", "n2") is None
    simulation.run(until=1_000)
    assert simulation.network.link("n0", "n2") == Link(loss=0.5)
    assert done == [
        "100 n1 False",
        "200 leave n2",
        "300 n1 True",
        "300 join n1",
        "400 join n9",
    ]
