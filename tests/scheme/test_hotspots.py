"""Hot spots (CHORD 4.2, last paragraph): another mapping, or a newcomer in the right place."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.scheme.quietnet import CALM, Network, schema

from crossroads.keyspace import Ring
from crossroads.mapping.fit import fit
from crossroads.scheme.cbps import Remap
from crossroads.scheme.cbps.hotspots import relieving_key
from crossroads.scheme.cbps.messages import Entry
from crossroads.scheme.contract import Join, Published, Subscribe

PLACES = range(4, 64, 8)


def skewed(network: Network, count: int = 40) -> None:
    """All subscriptions ask for small values of a1, and for some value of a2."""
    dice = random.Random(1)
    for i in range(count):
        low = dice.randrange(60)
        text = f"a1 BETWEEN {i % 5} AND {i % 5 + 2} AND a2 BETWEEN {low} AND {low + 3}"
        network.simulation.command(f"n{dice.choice(PLACES)}", Subscribe(f"s{i}", text, None))
    network.quiet()


def loads(network: Network) -> list[int]:
    return sorted(layer.stored() for layer in network.layers().values())


def events_all_arrive(network: Network, tag: str) -> None:
    before = len(network.notified())
    dice, read = random.Random(tag), network.vocabulary
    filters = {wish.id: wish.filter for layer in network.layers().values()
               for wish in layer.subscriber.wishes.values()}  # fmt: skip
    wanted = 0
    for i in range(20):
        event = {"a1": dice.randrange(8), "a2": dice.randrange(64)}
        network.publish(f"n{dice.choice(PLACES)}", f"{tag}{i}", event)
        wanted += sum(read.matches(text, read.event(event)) for text in filters.values())
    assert len(network.notified()) - before == wanted > 0


def test_another_mapping_cools_a_hot_spot_and_no_event_is_missed_meanwhile() -> None:
    hot, cool = (fit("selective-attribute", schema(), bits=6, attributes=[a]) for a in ("a1", "a2"))
    network = Network(PLACES, mapping=hot)
    skewed(network)
    hottest = loads(network)[-1]
    assert hottest > 0.9 * 40  # one node has nearly all of them

    network.simulation.command("n4", Remap(cool.spec.to_json(), 30_000))
    events_all_arrive(network, "during")
    network.simulation.run_for(35_000)
    events_all_arrive(network, "after")
    assert {layer.core.specs.epoch for layer in network.layers().values()} == {1}
    network.simulation.run_for(60_000)
    network.quiet()
    assert max(loads(network)) < hottest / 2
    assert sum(loads(network)) >= 40


def test_who_comes_after_the_change_learns_of_it_before_anything_is_acknowledged() -> None:
    hot, cool = (fit("selective-attribute", schema(), bits=6, attributes=[a]) for a in ("a1", "a2"))
    network = Network(PLACES, mapping=hot)
    network.simulation.command("n4", Remap(cool.spec.to_json(), 1_000))
    network.simulation.run_for(5_000)
    network.subscribe("n12", "s", "a1 = 3 AND a2 = 50")
    network.add("n33")
    network.simulation.command("n33", Join("n4"))
    while not network.layer("n33").core.member:
        network.simulation.run_for(1)
    network.publish("n33", "e", {"a1": 3, "a2": 50})  # it knows the old mapping only
    assert network.notified() == [("n12", "s", "e")]
    assert ("n33", Published("e")) in network.told
    assert network.layer("n33").core.specs.epoch == 1


def test_a_newcomer_at_the_right_place_halves_the_load() -> None:
    hot = fit("selective-attribute", schema(), bits=6, attributes=["a2"])
    network = Network((0, 16, 32, 48), mapping=hot, config=replace(CALM, copies=1))
    dice = random.Random(2)
    for i in range(40):
        low = 17 + dice.randrange(14)  # all of it is n32's
        text = f"a2 BETWEEN {low} AND {low + 1}"
        network.simulation.command("n0", Subscribe(f"s{i}", text, None))
    network.quiet()
    layer = network.layer("n32")
    before = layer.stored()
    owned = layer.core.overlay.owned()
    key = relieving_key(layer.core.store.in_region(owned, layer.now), owned)
    assert key is not None
    network.add(f"n{key}")
    network.simulation.command(f"n{key}", Join("n0"))
    network.quiet()
    network.simulation.run_for(3_000)
    halves = network.layer(f"n{key}").stored(), network.layer("n32").stored()
    assert before == 40 and max(halves) <= 0.65 * before and sum(halves) >= before


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 4)), min_size=1), st.integers(0, 15))
def test_the_relieving_key_divides_best(ranges: list[tuple[int, int]], place: int) -> None:
    ring = Ring(4)
    owned = ring.arc((place + 9) % 16, place)
    entries = [
        Entry(str(i), 1, "n", 0, "", ring.spans([(low, min(low + wide, 16))]), None)
        for i, (low, wide) in enumerate(ranges)
    ]
    before = (place + 9) % 16

    def larger(key: int) -> int:
        one, other = ring.arc(before, key), ring.arc(key, place)
        sides = [sum(bool(entry.region & side) for entry in entries) for side in (one, other)]
        return max(sides)

    best = min(larger(key) for key in owned.keys() if key != place)  # noqa: SIM118
    key = relieving_key(entries, owned)
    if key is None:
        assert not any(entry.region & owned for entry in entries) or best == larger(before + 1)
    else:
        assert larger(key) == best and key in owned and key != place
