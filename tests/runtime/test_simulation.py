"""The simulator keeps the rules that nodes rely on, and is its seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.gossip import (
    Alarm,
    Gossip,
    Say,
    Spread,
    Word,
    Write,
    gossips,
    heard,
    stormy_digest,
)

from crossroads.errors import NotQuiet, UsageError
from crossroads.node import Fired, Receive, Send, SetTimer
from crossroads.runtime.sim import Link, Simulation

ROOT = Path(__file__).resolve().parent.parent.parent


# -- the same seed, the same run ---------------------------------------------------------------


def test_the_same_seed_gives_the_same_hash() -> None:
    assert stormy_digest(7) == stormy_digest(7)
    assert stormy_digest(7) != stormy_digest(8)


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_another_process_gives_the_same_hash(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "tests.runtime.gossip", "7"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == stormy_digest(7)


def test_keeping_the_trace_does_not_change_it() -> None:
    digests = []
    for keep in (False, True):
        simulation = gossips(3, 4, keep_trace=keep)
        simulation.command("n0", Spread(1, 20))
        simulation.run(until=2_000)
        digests.append(simulation.trace.digest())
    assert digests[0] == digests[1]
    entries = simulation.trace.entries
    assert entries is not None
    words = [entry for entry in entries if entry.source in simulation.addresses()]
    assert len(words) == 21
    # A message takes 50 ms, and the node says so to its application at once.
    assert [entry.time for entry in words[:3]] == [50, 100, 150]


# -- time and order -----------------------------------------------------------------------------


def test_what_is_due_at_one_time_happens_in_a_drawn_order() -> None:
    orders = set()
    for seed in range(30):
        simulation = gossips(seed, 5)
        told = heard(simulation, "n4")
        for sender in ("n0", "n1", "n2"):
            simulation.command(sender, Say("n4", (1,)))
        simulation.run(until=100)
        orders.add(tuple(told))
        assert sorted(told) == ["1 from n0", "1 from n1", "1 from n2"]
    assert len(orders) == 6


@pytest.mark.parametrize(
    "link", [Link(), Link(delay_min=1, delay_max=100), Link(delay_min=1, delay_max=2)]
)
def test_messages_of_one_link_keep_their_order(link: Link) -> None:
    for seed in range(20):
        simulation = gossips(seed, 3, link=link)
        told = heard(simulation, "n2")
        for start in range(0, 40, 4):
            simulation.run(until=start)
            for sender in ("n0", "n1"):
                simulation.command(sender, Say("n2", tuple(range(start, start + 4))))
        simulation.run(until=1_000)
        for sender in ("n0", "n1"):
            assert [text for text in told if text.endswith(sender)] == [
                f"{number} from {sender}" for number in range(40)
            ]


def test_links_that_became_faster_keep_the_order_too() -> None:
    simulation = gossips(1, 2, link=Link(delay_min=500, delay_max=500))
    told = heard(simulation, "n1")
    simulation.command("n0", Say("n1", (1,)))
    simulation.network.set_default(Link(delay_min=1, delay_max=1))
    simulation.command("n0", Say("n1", (2,)))
    simulation.run(until=600)
    assert told == ["1 from n0", "2 from n0"]


def test_actions_come_first_and_in_order() -> None:
    simulation = gossips(1, 2)
    simulation.command("n0", Say("n1", (1,)))
    seen: list[str] = []
    simulation.on_delivery.append(lambda now, at, what: seen.append(f"delivery at {now}"))
    for name in "abc":
        simulation.at(50, lambda n=name: seen.append(n))
    simulation.run(until=50)
    assert seen == ["a", "b", "c", "delivery at 50"]


def test_time_does_not_go_back_and_does_not_stop_short() -> None:
    simulation = gossips(1, 2)
    simulation.run(until=70)
    assert simulation.now == 70
    with pytest.raises(UsageError, match="70 ms already"):
        simulation.at(69, lambda: None)


def test_a_message_to_oneself_arrives_whatever_the_weather() -> None:
    simulation = gossips(1, 2, link=Link(loss=1.0))
    told = heard(simulation, "n0")
    simulation.command("n0", Say("n0", (5,)))
    simulation.run(until=0)
    assert told == ["5 from n0"]


# -- links --------------------------------------------------------------------------------------


def received(link: Link, count: int = 4_000) -> list[int]:
    simulation = gossips(11, 2, link=link)
    told = heard(simulation, "n1")
    for number in range(count):
        simulation.at(number, lambda n=number: simulation.command("n0", Say("n1", (n,))))
    simulation.run(until=count + 1_000)
    return [int(text.split()[0]) for text in told]


def test_messages_are_lost_at_the_rate_of_the_link() -> None:
    numbers = received(Link(loss=0.2))
    assert 0.77 < len(numbers) / 4_000 < 0.83
    assert numbers == sorted(numbers)


def test_messages_are_repeated_at_the_rate_of_the_link() -> None:
    numbers = received(Link(duplication=0.2))
    assert set(numbers) == set(range(4_000))
    assert 0.17 < len(numbers) / 4_000 - 1 < 0.23


def test_messages_are_overtaken_at_the_rate_of_the_link() -> None:
    numbers = received(Link(delay_min=50, delay_max=50, reordering=0.1))
    assert sorted(numbers) == list(range(4_000))
    late = sum(1 for place, number in enumerate(numbers) if number < max(numbers[: place + 1]))
    assert 0.07 < late / 4_000 < 0.13


def test_delays_fill_their_range() -> None:
    simulation = gossips(5, 2, link=Link(delay_min=10, delay_max=30))
    times: list[int] = []
    simulation.on_delivery.append(lambda now, at, what: times.append(now % 1_000))
    for number in range(400):
        simulation.at(1_000 * number, lambda n=number: simulation.command("n0", Say("n1", (n,))))
    simulation.run(until=400_000)
    assert set(times) == set(range(10, 31))


def test_one_direction_of_one_pair_can_differ() -> None:
    simulation = gossips(1, 3)
    told = heard(simulation, "n1")
    simulation.network.set("n0", "n1", Link(loss=1.0))
    simulation.command("n0", Say("n1", (1,)))
    simulation.command("n2", Say("n1", (2,)))
    simulation.run(until=100)
    simulation.network.set("n0", "n1", None)
    simulation.command("n0", Say("n1", (3,)))
    simulation.run(until=200)
    assert told == ["2 from n2", "3 from n0"]


def test_a_partition_cuts_groups_apart_until_it_heals() -> None:
    simulation = gossips(1, 5)
    told = heard(simulation, "n1")
    simulation.command("n2", Say("n1", (0,)))  # under way when the wall goes up
    simulation.network.partition({"n0", "n1"}, {"n2"})  # n3 and n4 are left together
    four = heard(simulation, "n4")
    for sender in ("n0", "n2", "n3"):
        simulation.command(sender, Say("n1", (1,)))
    simulation.command("n3", Say("n4", (1,)))
    simulation.run(until=100)
    assert sorted(told) == ["0 from n2", "1 from n0"]
    assert four == ["1 from n3"]
    simulation.network.heal()
    simulation.command("n2", Say("n1", (2,)))
    simulation.run(until=200)
    assert told[-1] == "2 from n2"
    assert simulation.metrics.lost == 2


def test_a_slow_node_hears_everything_later() -> None:
    simulation = gossips(1, 2)
    simulation.set_slow("n1", 300)
    times: list[int] = []
    simulation.on_delivery.append(lambda now, at, what: times.append(now))
    simulation.command("n0", Say("n1", (1,)))
    simulation.command("n1", Alarm(("bell",), 100))
    simulation.run(until=1_000)
    assert times == [350, 400]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"delay_min": 0, "delay_max": 5}, "0 to 5 ms"),
        ({"delay_min": 9, "delay_max": 5}, "9 to 5 ms"),
        ({"loss": 1.5}, "loss is a probability"),
        ({"reordering": -0.1}, "reordering is a probability"),
    ],
)
def test_impossible_links_are_refused(values: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Link(**values)  # type: ignore[arg-type]


# -- timers (rule 5) ----------------------------------------------------------------------------


def test_a_timer_fires_once_and_the_last_setting_counts() -> None:
    simulation = gossips(1, 1)
    told = heard(simulation, "n0")
    simulation.command("n0", Alarm(("bell",), 100))
    simulation.command("n0", Alarm(("bell",), 300))
    simulation.command("n0", Alarm(("other",), 50))
    simulation.command("n0", Alarm(("other",), None))
    simulation.run(until=299)
    assert told == []
    simulation.run(until=1_000)
    assert told == ["fired bell"]


def test_timers_do_not_survive_a_crash() -> None:
    simulation = gossips(1, 1)
    simulation.command("n0", Alarm(("bell",), 100))
    simulation.crash("n0")
    told = heard(simulation, "n0")
    simulation.restart("n0")
    simulation.run(until=1_000)
    assert told == ["started {}"]


# -- crashes and disks (rules 4 and 6) -----------------------------------------------------------


def test_what_is_durable_survives_and_can_be_forgotten() -> None:
    simulation = gossips(1, 1)
    simulation.command("n0", Write(1, (("a", b"1"), ("b", b"2"))))
    simulation.command("n0", Write(2, (("a", None),)))
    simulation.run(until=0)
    simulation.crash("n0")
    told = heard(simulation, "n0")
    simulation.restart("n0")
    simulation.crash("n0")
    simulation.restart("n0", disk=False)
    assert told == ['started {"b": "2"}', "started {}"]


def test_a_slow_disk_answers_late_and_in_order() -> None:
    for seed in range(10):
        simulation = gossips(seed, 1)
        told = heard(simulation, "n0")
        simulation.set_slow_disk("n0", 200)
        for token in range(5):
            simulation.command("n0", Write(token, ()))
        simulation.run(until=100)
        simulation.set_slow_disk("n0", 0)  # a write never overtakes an earlier one
        simulation.command("n0", Write(5, ()))
        simulation.run(until=199)
        assert told == []
        simulation.run(until=200)
        assert told == [f"durable {token}" for token in range(6)]


def test_a_crash_keeps_some_of_the_writes_under_way_each_whole_and_the_oldest_first() -> None:
    found = set()
    for seed in range(60):
        simulation = gossips(seed, 1)
        simulation.set_slow_disk("n0", 100)
        simulation.command("n0", Write(1, (("a", b"1"), ("b", b"1"))))
        simulation.command("n0", Write(2, (("a", b"2"), ("b", b"2"))))
        simulation.run(until=50)
        simulation.crash("n0")
        told = heard(simulation, "n0")
        simulation.restart("n0")
        simulation.run(until=1_000)  # no answer to a write of the life before
        found.add(tuple(told))
    assert found == {
        ("started {}",),
        ('started {"a": "1", "b": "1"}',),
        ('started {"a": "2", "b": "2"}',),
    }


def test_a_crash_may_cut_the_effects_of_an_input_anywhere() -> None:
    lengths = set()
    for seed in range(80):
        simulation = gossips(seed, 2)
        told = heard(simulation, "n1")
        simulation.crash("n0", mid_step=True)
        simulation.command("n0", Say("n1", (1, 2, 3)))
        assert simulation.node("n0") is None
        simulation.run(until=100)
        assert told == [f"{number} from n0" for number in (1, 2, 3)][: len(told)]
        lengths.add(len(told))
    assert lengths == {0, 1, 2, 3}


def test_messages_reach_whoever_is_up_when_they_arrive() -> None:
    simulation = gossips(1, 2)
    simulation.command("n0", Say("n1", (1,)))
    simulation.crash("n1")
    simulation.run(until=60)
    simulation.command("n0", Say("n1", (2,)))
    told = heard(simulation, "n1")
    simulation.restart("n1")
    simulation.crash("n0")  # what it sent is on the wire
    simulation.run(until=200)
    assert told == ["started {}", "2 from n0"]
    assert simulation.metrics.lost == 1


def test_each_life_has_its_own_dice() -> None:
    first: list[float] = []

    def make(address, dice):  # the first draw of each life
        first.append(dice.random())
        return Gossip(address, dice, ("n0",))

    for _ in range(2):
        simulation = Simulation(5)
        simulation.add("n0", make)
        simulation.crash("n0")
        simulation.restart("n0")
    assert first[0] == first[2] and first[1] == first[3] and first[0] != first[1]


def test_the_dead_take_no_commands_and_the_living_are_not_restarted() -> None:
    simulation = gossips(1, 1)
    with pytest.raises(UsageError, match="n0 is up"):
        simulation.restart("n0")
    with pytest.raises(UsageError, match="already a node n0"):
        simulation.add("n0", lambda address, dice: Gossip(address, dice, ()))
    simulation.crash("n0")
    with pytest.raises(UsageError, match="n0 is down"):
        simulation.command("n0", Spread(1, 1))
    with pytest.raises(UsageError, match="no node n9"):
        simulation.crash("n9")


# -- quiet --------------------------------------------------------------------------------------


def test_quiet_is_when_nothing_is_ahead() -> None:
    simulation = gossips(1, 3)
    simulation.command("n0", Spread(1, 5))
    simulation.set_slow_disk("n0", 730)
    simulation.command("n0", Write(1, ()))
    assert simulation.run_until_quiet(within=5_000) == 800  # looked at every 100 ms
    assert simulation.metrics.sent == {Word: 6}


def test_background_is_not_waited_for_but_the_caller_is() -> None:
    simulation = gossips(1, 1, background=lambda what: what == ("bell",))
    simulation.command("n0", Alarm(("bell",), 100_000))
    assert simulation.run_until_quiet(within=1_000) == 0
    assert simulation.run_until_quiet(within=1_000, idle=lambda: simulation.now >= 350) == 400


def test_a_run_that_does_not_come_to_rest_says_what_is_in_flight() -> None:
    simulation = gossips(1, 3)
    simulation.command("n0", Spread(1, 100_000))
    simulation.command("n0", Alarm(("bell", 7), 50_000))
    with pytest.raises(NotQuiet) as caught:
        simulation.run_until_quiet(within=1_000)
    said = str(caught.value)
    assert "not quiet after 1000 ms, stopped at 1000 ms" in said
    assert "still in flight: 2 timer, 1 Word (" in said  # a rest and the bell
    assert "timer bell/7 of n0 at 50000 ms" in said


class Echo:
    """Answers itself without end."""

    def __init__(self, address):
        self.address = address

    def handle(self, now, item):
        match item:
            case Fired(timer):
                return [SetTimer(timer, 0)]
            case Receive(_, message):
                return [Send(self.address, message)]
            case Alarm(timer, after):
                return [SetTimer(timer, after)]
        return []


def test_time_that_stands_still_is_noticed() -> None:
    simulation = Simulation(1)
    simulation.add("n0", lambda address, dice: Echo(address))
    simulation.command("n0", Alarm(("again",), 10))
    with pytest.raises(NotQuiet, match=r"time stands still at 10 ms: .*timer again of n0"):
        simulation.run(until=100)
