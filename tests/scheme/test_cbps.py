"""CB-pub/sub on a quiet ring: who is told what, and what it costs."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import pytest
from tests.scheme.quietnet import CALM, Network, schema

from crossroads.mapping.fit import fit
from crossroads.overlay.chord.messages import Routed
from crossroads.runtime.sim.trace import Entry
from crossroads.scheme.cbps import AS_IN_CHORD, CbpsConfig
from crossroads.scheme.cbps.config import Way
from crossroads.scheme.cbps.messages import Collected, Meet, Notification, Register
from crossroads.scheme.contract import (
    Gone,
    Leave,
    Publish,
    Published,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from crossroads.scheme.stack import StackedNode

PLACES = (3, 11, 20, 29, 38, 47, 55, 62)


def some_filter(dice: random.Random) -> str:
    low, high = sorted((dice.randrange(64), dice.randrange(64)))
    return dice.choice(
        [
            f"a1 BETWEEN {low} AND {high} AND a2 > {dice.randrange(40)}",
            f"a1 = {low} OR a2 = {high}",
            f"a2 < {high}",
            "a1 < a2",  # no mapping can place it: it stands at the root
            "a1 IS NULL",
        ]
    )


@pytest.mark.parametrize(
    "name",
    ["attribute-split", "key-space-split", "selective-attribute", "hilbert", "string-tree"],
)
@pytest.mark.parametrize("way", ["multicast", "walk", "spread"])
def test_every_match_is_notified_once_by_any_mapping_and_way(name: str, way: Way) -> None:
    """The oracle is the definition of a match, over all pairs."""
    config = replace(CALM, subscribe_by=way, publish_by=way)
    network = Network(PLACES, bits=8, mapping=fit(name, schema(), bits=8), config=config)
    dice, read = random.Random(name + way), network.vocabulary
    filters = {f"s{i}": some_filter(dice) for i in range(12)}
    events = {f"e{i}": {"a1": dice.randrange(64), "a2": dice.randrange(64)} for i in range(12)}
    events["null"] = {"a2": 5}
    owner = {id_: f"n{dice.choice(PLACES)}" for id_ in filters}
    for id_, text in filters.items():
        network.simulation.command(owner[id_], Subscribe(id_, text, None))
    network.quiet()
    for id_, event in events.items():
        network.simulation.command(f"n{dice.choice(PLACES)}", Publish(id_, event))
    network.quiet()
    wanted = sorted(
        (owner[one], one, other)
        for one, text in filters.items()
        for other, event in events.items()
        if read.matches(text, read.event(event))
    )
    assert network.notified() == wanted and len(wanted) > 10
    assert len(network.deliveries(Subscribed)) == len(filters)
    assert len(network.deliveries(Published)) == len(events)


@pytest.mark.parametrize("by", ["unicast", "multicast"])
def test_notifications_by_unicast_or_multicast(by: Literal["unicast", "multicast"]) -> None:
    network = Network(PLACES, config=replace(CALM, notify_by=by))
    for place in PLACES:
        network.subscribe(f"n{place}", f"s{place}", "a1 = 7")
    before = network.carried(Notification)
    network.publish("n3", "e", {"a1": 7, "a2": 1})
    assert [pair[1] for pair in network.notified()] == sorted(f"s{place}" for place in PLACES)
    # One m-cast reaches eight members with one message each at most; eight routes take more.
    sent = network.carried(Notification) - before
    assert sent <= len(PLACES) - 1 if by == "multicast" else sent > len(PLACES)


def test_several_subscriptions_of_one_subscriber_travel_in_one_notification() -> None:
    network = Network(PLACES, config=replace(AS_IN_CHORD, copies=1))
    for i in range(5):
        network.subscribe("n55", f"s{i}", "a1 = 7 AND a2 = 9")
    network.publish("n3", "e", {"a1": 7, "a2": 9})
    notices = network.carried(Notification)
    assert len(network.notified()) == 5 and 1 <= notices <= 4  # hops of one message


def test_a_pair_that_meets_at_two_nodes_is_notified_once() -> None:
    """ERRATA 15: without tags the attributes share the keys, and a pair can meet twice."""
    mapping = fit("selective-attribute", schema(), bits=6, tagged=False)
    network = Network(PLACES, mapping=mapping)
    network.subscribe("n3", "s", "a1 BETWEEN 0 AND 40 AND a2 BETWEEN 0 AND 50")
    network.publish("n62", "e", {"a1": 5, "a2": 35})
    assert len({owner for key in (5, 35) for owner in _owners(network, key)}) == 2
    assert network.notified() == [("n3", "s", "e")]


def _owners(network: Network, key: int) -> list[str]:
    return [
        node.address
        for node in network.simulation.nodes()
        if isinstance(node, StackedNode) and key in node.overlay.owned()
    ]


def test_withdrawn_or_ended_is_notified_no_more() -> None:
    network = Network(PLACES)
    network.subscribe("n3", "gone", "a1 >= 0 AND a1 < 30")
    network.subscribe("n3", "short", "a1 >= 0 AND a1 < 30", lease=1_000)
    network.simulation.command("n3", Unsubscribe("gone"))
    network.quiet()
    network.simulation.run_for(3_000)
    assert {what.id for _, what in network.deliveries(Unsubscribed)} == {"gone", "short"}
    network.publish("n20", "e", {"a1": 5, "a2": 5})
    assert not network.notified() and len(network.deliveries(Published)) == 1
    assert all(layer.stored() == 0 for layer in network.layers().values())


def test_a_renewed_lease_is_in_force_until_the_later_end() -> None:
    network = Network(PLACES)
    network.subscribe("n3", "s", "a1 = 5", lease=2_000)
    network.subscribe("n3", "s", "a1 = 5", lease=60_000)
    network.simulation.run_for(10_000)
    network.publish("n20", "e", {"a1": 5, "a2": 5})
    assert network.notified() == [("n3", "s", "e")]
    assert not network.deliveries(Unsubscribed)


def test_what_cannot_be_done_is_refused_with_a_reason() -> None:
    network = Network(PLACES)
    network.subscribe("n3", "s1", "colour = 3")
    network.publish("n3", "e1", {"colour": 3})
    network.publish("n3", "e2", {"a1": "green"})
    network.subscribe("n3", "s2", "a1 = 1")
    network.subscribe("n3", "s2", "a1 = 2")
    network.add("n8")
    network.simulation.command("n8", Publish("e3", {"a1": 1}))
    reasons = {what.id: what.reason for _, what in network.deliveries(Refused)}
    assert reasons.keys() == {"s1", "e1", "e2", "s2", "e3"}
    assert "colour" in reasons["s1"] and "colour" in reasons["e1"] and "green" in reasons["e2"]
    assert "another filter" in reasons["s2"] and "no member" in reasons["e3"]


def test_who_leaves_withdraws_first_and_hands_its_keys_over() -> None:
    network = Network(PLACES, config=AS_IN_CHORD)  # no copies: only the hand-over saves them
    network.subscribe("n55", "stays", "a1 BETWEEN 0 AND 63 AND a2 BETWEEN 0 AND 40")
    network.subscribe("n20", "goes", "a1 BETWEEN 0 AND 63 AND a2 BETWEEN 0 AND 40")
    for place in (20, 3, 38):
        network.simulation.command(f"n{place}", Leave())
        network.quiet()
        network.simulation.run_for(3_000)
    assert [name for name, _ in network.deliveries(Gone)] == ["n20", "n3", "n38"]
    for value in range(0, 40, 4):
        network.publish("n62", f"e{value}", {"a1": value, "a2": value})
    assert {one[1] for one in network.notified()} == {"stays"}
    assert len(network.notified()) == 10


# -- CHORD 4.3.2 -------------------------------------------------------------------------------


def wanted_stream(config: CbpsConfig) -> tuple[int, set[str]]:
    """Events for a while, close to each other, that four subscriptions want at eleven of sixteen
    nodes: the messages that the notifications took, and who sent them off."""
    mapping = fit("selective-attribute", schema(), bits=6, attributes=["a1"])
    network = Network(range(0, 64, 4), mapping=mapping, config=config)
    origins: set[str] = set()

    def note_origin(entry: Entry) -> None:
        if isinstance(entry.what, Routed) and isinstance(entry.what.payload, Notification):
            origins.add(entry.what.origin.address)

    network.simulation.trace.watch = note_origin
    for i in range(4):
        network.subscribe(f"n{16 * i}", f"s{i}", "a1 BETWEEN 10 AND 53")
    dice, simulation = random.Random(1), network.simulation
    for i in range(150):
        event = Publish(f"e{i}", {"a1": dice.randrange(10, 54), "a2": 1})
        at = simulation.now + 20 * i
        simulation.at(at, lambda event=event: simulation.command("n60", event))  # type: ignore[misc]
    network.quiet()
    pairs = {(one, other) for _, one, other in network.notified()}
    assert len(network.notified()) == len(pairs) == 4 * 150
    return network.carried(Notification) + network.sent(Collected), origins


def test_buffering_and_collecting_save_messages() -> None:
    """C10: buffering alone saves a lot, collecting more; and with it the middle of the range, key
    31, which n32 owns, is the only one to notify."""
    at_once, _ = wanted_stream(AS_IN_CHORD)
    buffered, senders = wanted_stream(replace(AS_IN_CHORD, buffer_ms=500))
    collected, agents = wanted_stream(replace(AS_IN_CHORD, buffer_ms=500, collect=True))
    assert at_once > 1.5 * buffered > 3 * collected
    assert len(senders) > 8 and agents == {"n32"}


# -- costs -------------------------------------------------------------------------------------


def test_a_publication_visits_only_the_owners_of_its_keys() -> None:
    network = Network(PLACES, config=AS_IN_CHORD)
    network.publish("n3", "e", {"a1": 40, "a2": 2})
    assert network.carried(Meet) <= 6 and len(network.deliveries(Published)) == 1


def test_evaluations_are_counted_where_they_happen() -> None:
    network = Network(PLACES, config=AS_IN_CHORD)
    network.subscribe("n3", "s1", "a1 = 40 AND a2 < 60")
    network.subscribe("n3", "s2", "a1 = 41 AND a2 < 60")
    network.publish("n3", "e", {"a1": 40, "a2": 2})
    counts = {name: layer.evaluated() for name, layer in network.layers().items()}
    assert sum(counts.values()) <= 2 and max(counts.values()) >= 1
    assert network.carried(Register) > 0


def test_the_preset_rides_out_two_crashes() -> None:
    network = Network(PLACES)
    assert network.layer("n3").fault_contract.crashes_at_once == 1  # CALM makes two copies
    assert CbpsConfig().copies == 3
