"""Coming and going: who is told what, who owns what meanwhile, and that payloads find their way."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.overlay.recording import Letter, Network, Spread, Walk

from crossroads.keyspace import Arcs
from crossroads.node import Command, Message, Receive, Send
from crossroads.overlay.chord import ChordConfig, Peer, founding_ring
from crossroads.overlay.chord.messages import Notify, NotMember, Ping, Routed
from crossroads.overlay.chord.state import Phase
from crossroads.overlay.contract import OwnedChanged
from crossroads.runtime.sim import Link
from crossroads.runtime.sim.overlaynode import Multicast, Route
from crossroads.scheme.contract import Gone, Join, Leave

CONFIG = ChordConfig(bits=6, successors=2)
RING = CONFIG.ring
IDS = (5, 15, 25, 35, 45, 55)
SETTLE_MS = 20_000


def network(**options) -> Network:
    return Network(CONFIG, IDS, **options)


def moves(told: list[OwnedChanged]) -> list[OwnedChanged]:
    return [one for one in told if one != OwnedChanged(None, None)]


def test_a_newcomer_takes_its_keys_from_its_successor_and_both_are_told():
    net = network()
    newcomer = net.add("n30")
    net.simulation.command("n30", Join("n5"))
    net.simulation.run(until=SETTLE_MS)
    given = RING.arc(25, 30)
    assert moves(newcomer.told) == [OwnedChanged(given, None, taken_from="n35")]
    assert moves(net.node("n35").told)[-1] == OwnedChanged(None, given, given_to="n30")
    assert newcomer.chord.owned() == given
    assert net.node("n35").chord.owned() == RING.arc(30, 35)
    assert newcomer.chord.replicas(2) == ("n35", "n45")
    assert newcomer.chord.neighbours() == ("n25", "n35", "n45")
    # Those before it have a new member among the first r after them: copies have to move.
    assert net.node("n25").told[-1] == net.node("n15").told[-1] == OwnedChanged(None, None)


def test_one_that_leaves_gives_its_keys_to_its_successor_and_both_are_told():
    net = network()
    leaver = net.node("n35")
    net.simulation.command("n35", Leave())
    net.simulation.run(until=SETTLE_MS)
    given = RING.arc(25, 35)
    assert moves(leaver.told)[-1] == OwnedChanged(None, given, given_to="n45")
    assert moves(net.node("n45").told)[-1] == OwnedChanged(given, None, taken_from="n35")
    assert leaver.chord.owned().is_empty and net.node("n45").chord.owned() == RING.arc(25, 45)
    assert leaver.chord.state.phase is Phase.LEFT
    assert net.node("n25").chord.replicas(2) == ("n45", "n55")
    # It is still up, and passes on what comes by mistake.
    net.simulation.command("n35", Route(30, Letter("late")))
    net.simulation.run_for(1_000)
    assert [(name, what.hops) for name, what in net.arrivals] == [("n45", 1)]


def test_the_keys_of_one_that_crashed_come_to_its_successor_from_no_one():
    net = network()
    net.simulation.run(until=1_000)
    net.simulation.crash("n35")
    net.simulation.run(until=SETTLE_MS)
    assert moves(net.node("n45").told)[-1] == OwnedChanged(RING.arc(25, 35), None)
    assert net.node("n45").chord.owned() == RING.arc(25, 45)


def test_one_that_comes_back_gets_its_keys_again():
    net = network()
    net.simulation.run(until=1_000)
    net.simulation.crash("n35")
    net.simulation.run_for(40)  # before anyone has noticed
    net.simulation.restart("n35", disk=False)
    net.simulation.command("n35", Join("n5"))
    net.simulation.run(until=SETTLE_MS)
    back = net.node("n35")
    assert moves(back.told) == [OwnedChanged(RING.arc(25, 35), None, taken_from="n45")]
    assert sorted(net.members()) == sorted(f"n{id_}" for id_ in IDS)
    total = RING.empty
    for name in net.members():
        assert (net.node(name).chord.owned() & total).is_empty
        total |= net.node(name).chord.owned()
    assert total == RING.whole


@pytest.mark.parametrize("count", [2, 3, 6])
def test_all_may_leave_at_once_and_there_is_peace(count):
    net = Network(CONFIG, IDS[:count])
    net.simulation.run_for(1_000)
    for id_ in IDS[:count]:
        net.simulation.command(f"n{id_}", Leave())
    net.simulation.run_for(SETTLE_MS)
    assert net.members() == []
    before = sum(net.simulation.metrics.sent.values())
    net.simulation.run_for(SETTLE_MS)
    assert sum(net.simulation.metrics.sent.values()) == before


def test_a_late_word_of_one_that_left_does_not_bring_it_back():
    net = network()
    net.simulation.command("n35", Leave())
    net.simulation.run_for(5_000)
    successor = net.node("n45")
    late = Receive("n35", Notify(net.node("n35").chord.state.me))
    outputs = successor.handle(net.simulation.now, late)
    assert successor.chord.owned() == RING.arc(25, 45)  # it is asked first, and says no
    assert isinstance(outputs[0], Send) and isinstance(outputs[0].message, Ping)
    answer = net.node("n35").handle(net.simulation.now, Receive("n45", outputs[0].message))
    assert isinstance(answer[0], Send) and isinstance(answer[0].message, NotMember)


def test_one_that_left_may_join_again():
    net = network()
    net.simulation.command("n35", Leave())
    net.simulation.run_for(5_000)
    net.simulation.command("n35", Join("n5"))
    net.simulation.run_for(SETTLE_MS)
    assert moves(net.node("n35").told)[-1] == OwnedChanged(RING.arc(25, 35), None, "n45")
    net.simulation.command("n35", Join("n5"))  # once is enough: nothing happens
    assert net.node("n35").chord.owned() == RING.arc(25, 35)


def test_a_place_on_the_ring_is_given_once():
    net = network()
    gone: list[str] = []
    net.simulation.on_delivery.append(
        lambda now, name, what: gone.append(what.reason) if isinstance(what, Gone) else None
    )
    net.add("n25bis")
    net.simulation.command("n25bis", Join("n5"))
    net.simulation.run(until=SETTLE_MS)
    assert gone == ["n25 has the same place on the ring"]


def test_without_a_way_in_a_newcomer_gives_up():
    net = network()
    net.simulation.crash("n5")
    newcomer = net.add("n30")
    net.simulation.command("n30", Join("n5"))
    net.simulation.run(until=40_000)
    assert newcomer.chord.state.phase is Phase.OUTSIDE
    assert newcomer.chord.route(40_000, 3, Letter("nowhere"))[0].text.endswith("dropped")


def test_a_ring_begins_with_one_and_ends_with_one():
    net = Network(CONFIG, ())
    for name in ("n5", "n45"):
        net.add(name)
    net.simulation.command("n5", Join(None))
    assert net.node("n5").chord.owned() == RING.whole
    net.simulation.command("n45", Join("n5"))
    net.simulation.run_for(5_000)
    assert net.node("n5").chord.owned() == RING.arc(45, 5)
    assert net.node("n45").chord.replicas(3) == ("n5",)
    net.simulation.command("n5", Leave())
    net.simulation.run_for(5_000)
    assert net.node("n45").chord.owned() == RING.whole
    net.simulation.command("n45", Leave())
    assert net.members() == []
    assert moves(net.node("n45").told)[-1] == OwnedChanged(None, RING.whole)


def test_of_two_members_the_one_that_stays_is_the_ring():
    """A list that goes once around and is all silent: there is no one else."""
    net = Network(CONFIG, (5, 45))
    net.simulation.run_for(1_000)
    net.simulation.crash("n5")
    net.simulation.run_for(5_000)
    assert net.node("n45").chord.owned() == RING.whole
    assert moves(net.node("n45").told)[-1] == OwnedChanged(RING.arc(45, 5), None)


def test_one_that_lost_all_successors_walks_back_from_a_finger():
    """More than r - 1 failures at once are out of contract; the ring mends all the same."""
    net = network()
    net.simulation.run_for(1_000)
    net.simulation.crash("n35")
    net.simulation.crash("n45")
    net.simulation.run_for(SETTLE_MS)
    assert net.node("n25").chord.replicas(2) == ("n55", "n5")
    assert net.node("n55").chord.owned() == RING.arc(25, 55)


def test_one_that_knows_no_one_leaves_rather_than_found_a_ring_of_its_own():
    net = network()
    for name in ("n15", "n25", "n35", "n45", "n55"):
        net.simulation.crash(name)
    net.simulation.run_for(SETTLE_MS)
    assert net.node("n5").chord.state.phase is Phase.OUTSIDE
    assert net.node("n5").chord.owned().is_empty


def test_a_ring_is_founded_by_r_plus_1():
    peers = [Peer(id_, f"n{id_}") for id_ in IDS]
    states = founding_ring(peers[:3], CONFIG)
    assert [state.predecessor.id for state in states.values()] == [25, 5, 15]
    with pytest.raises(AssertionError, match=r"r \+ 1"):
        founding_ring(peers[:2], CONFIG)


# -- payloads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_no_payload_is_lost_or_repeated_while_members_join_and_leave(seed):
    """If nobody fails and links keep order, every routed payload arrives, at one member, once."""
    net = network(seed=seed)
    dice = random.Random(seed)
    for name in ("n12", "n30", "n33", "n60"):
        net.add(name)
        at = 1 + dice.randrange(4_000)
        net.simulation.at(at, lambda name=name: net.simulation.command(name, Join("n5")))
    for name in dice.sample(["n15", "n25", "n35", "n45", "n55"], 2):
        at = 1 + dice.randrange(6_000)
        net.simulation.at(at, lambda name=name: net.simulation.command(name, Leave()))
    for number in range(60):
        net.simulation.at(1 + dice.randrange(7_000), lambda number=number: _send(net, number))
    net.simulation.run(until=SETTLE_MS)
    found = Counter(what.payload.text for _, what in net.arrivals)
    assert found == Counter(str(number) for number in range(60))


def _send(net: Network, number: int) -> None:
    start, key = net.dice.choice(net.members()), net.dice.randrange(RING.size)
    net.simulation.command(start, Route(key, Letter(str(number))))


def test_a_payload_goes_on_to_the_newcomer_that_its_sender_does_not_know():
    net = network()
    net.add("n30")
    net.simulation.command("n30", Join("n35"))
    while "n30" not in net.members():
        net.simulation.run_for(1)
    assert net.node("n25").chord.state.head.address == "n35"  # it has not heard yet
    net.simulation.command("n25", Route(28, Letter("for the newcomer")))
    net.simulation.run_for(300)
    assert [(name, what.hops, what.region) for name, what in net.arrivals] == [
        ("n30", 2, RING.keys((28,)))
    ]


def test_a_payload_that_overtakes_the_welcome_waits_for_it():
    """The newcomer's successor gives it a key before the newcomer knows that it is a member."""
    net = network(link=Link(delay_min=20, delay_max=20))
    newcomer = net.add("n30")
    net.simulation.network.set("n35", "n30", Link(delay_min=300, delay_max=300))
    net.simulation.command("n30", Join("n25"))
    while net.node("n35").chord.state.predecessor.id != 30:
        net.simulation.run_for(1)
    origin = net.node("n25").chord.state.me
    early = Routed(28, Letter("early"), origin, hops=2, last=True)
    assert newcomer.chord.receive(net.simulation.now, "n35", early) == []
    net.simulation.run_for(400)
    assert [(name, what.hops) for name, what in net.arrivals] == [("n30", 2)]


def test_a_next_hop_that_is_gone_is_routed_around():
    """Lost once, the payload comes through when it is sent again after the hop was pinged."""
    net = network()
    net.simulation.run_for(3_000)
    first_hop = net.node("n5").chord.state.routes[-1].address
    net.simulation.crash(first_hop)
    key = int(first_hop[1:]) + 2  # beyond it, so the way leads through it
    net.simulation.command("n5", Route(key, Letter("first")))
    net.simulation.run_for(CONFIG.silence_ms + 1)
    assert first_hop not in {peer.address for peer in net.node("n5").chord.state.routes}
    net.simulation.run_for(2_000)  # its neighbours notice as well
    net.simulation.command("n5", Route(key, Letter("second")))
    net.simulation.run_for(1_000)
    assert [what.payload.text for _, what in net.arrivals] == ["second"]


def test_forward_is_asked_on_every_hop_and_may_change_or_stop_a_payload():
    asked: list[str] = []

    def forward(payload: Message, to: str) -> Message | None:
        assert isinstance(payload, Letter)
        asked.append(to)
        return None if payload.text == "stop" else Letter(payload.text + ">")

    net = network(forward=forward)
    net.simulation.command("n5", Route(4, Letter("home")))
    net.simulation.command("n5", Route(53, Letter("")))
    net.simulation.run_for(1_000)
    (_, home), (name, away) = net.arrivals
    assert (home.payload, home.hops, name) == (Letter("home"), 0, "n55")
    assert away.payload == Letter(">" * away.hops) and asked[-1] == "n55" and away.hops >= 2
    net.simulation.command("n5", Route(53, Letter("stop")))
    net.simulation.run_for(1_000)
    assert len(net.arrivals) == 2 and len(asked) == away.hops + 1


# -- regions -----------------------------------------------------------------------------------


def test_m_cast_walk_and_spread_reach_the_same_owners():
    region = RING.arc(14, 46) | RING.arc(60, 62)
    owners = {"n15", "n25", "n35", "n45", "n55", "n5"}
    assert _reached(Multicast(region, Letter("")), region) == Counter(owners)
    assert _reached(Walk(region, Letter("")), region) == Counter(owners)
    one_by_one = _reached(Spread(region, Letter("")), region)
    assert one_by_one.keys() == owners and one_by_one.total() == region.size


def _reached(command: Command, region: Arcs) -> Counter[str]:
    """Who got it, how often; together they were told of every key, none twice."""
    net = network()
    net.simulation.command("n5", command)
    net.simulation.run_for(2_000)
    assert sum(what.region.size for _, what in net.arrivals) == region.size
    assert all(not what.region - region for _, what in net.arrivals)
    return Counter(name for name, _ in net.arrivals)
