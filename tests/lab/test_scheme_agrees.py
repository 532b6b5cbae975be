"""The lab's counts against whole CB-pub/sub nodes on real Chord nodes, in the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crossroads.lab.chordbulk.collecting import Sent, buffered, collected
from crossroads.lab.chordbulk.hops import hops_to_keys
from crossroads.lab.chordbulk.mcast import casts
from crossroads.lab.chordbulk.meeting import meetings
from crossroads.lab.chordbulk.ring import random_ring
from crossroads.lab.chordbulk.storage import holders, storage
from crossroads.lab.chordbulk.walk import walks
from crossroads.lab.setting import (
    ATTRIBUTES,
    BITS,
    DELAY_SECONDS,
    dice,
    document_mapping,
    draw_publications,
    draw_subscriptions,
)
from crossroads.lab.traffic import PlainRing, publish, send_to_all
from crossroads.node import Message
from crossroads.overlay.chord import ChordConfig, Peer, converged
from crossroads.runtime.sim import Link, Simulation
from crossroads.scheme.cbps import AS_IN_CHORD, CbpsConfig, Vocabulary, on_chord
from crossroads.scheme.cbps.messages import Collected, Meet, Notification, Register
from crossroads.scheme.contract import Publish, Subscribe
from crossroads.scheme.stack import StackedNode

NODES = 40
COUNT = 40  # subscriptions, and as many publications
# Nothing is asked for twice, and no upkeep takes time from the test: the ring stays as it is.
NEVER_MS = 10**7
PATIENT = replace(AS_IN_CHORD, retry_ms=NEVER_MS, retry_ms_max=NEVER_MS, compare_every_ms=NEVER_MS)
PERIOD = 20.0  # seconds, long enough for several events


class World:
    """The same drawn world as arrays, and as running nodes with the subscriptions made."""

    def __init__(self, mapping: str, config: CbpsConfig, *, run: float = 1.0) -> None:
        chance = dice(11, "agree")
        self.ring = random_ring(BITS, NODES, chance)
        self.subscriptions = draw_subscriptions(11, COUNT)
        self.publications = draw_publications(
            self.subscriptions, COUNT, chance, probability=0.8, run=run
        )
        self.subscribers = chance.integers(0, NODES, COUNT)
        self.publishers = chance.integers(0, NODES, COUNT)
        self.mapping = document_mapping(mapping)
        self.ranges = self.subscriptions.keys(self.mapping)
        self.events = self.mapping.keys_of_events(self.publications.events)
        self._start(config)

    def _start(self, config: CbpsConfig) -> None:
        chord = ChordConfig(
            bits=BITS,
            stabilise_every_ms=NEVER_MS,
            fingers_every_ms=NEVER_MS,
            probe_after_ms=NEVER_MS,
        )
        milliseconds = round(1000 * DELAY_SECONDS)
        self.simulation = Simulation(11, link=Link(delay_min=milliseconds, delay_max=milliseconds))
        states = converged([Peer(int(id_), f"n{id_}") for id_ in self.ring.ids], chord)
        vocabulary = Vocabulary(self.mapping)

        def make(address, chance):
            state = states.pop(int(address[1:]))
            return on_chord(state.me, vocabulary, chance, chord=chord, config=config, state=state)

        for id_ in self.ring.ids:
            self.simulation.add(f"n{id_}", make)
        for number, place in enumerate(self.subscribers):
            bounds = zip(
                ATTRIBUTES,
                self.subscriptions.low[number],
                self.subscriptions.high[number],
                strict=True,
            )
            text = " AND ".join(f"{name} BETWEEN {low} AND {high}" for name, low, high in bounds)
            self.tell(place, Subscribe(f"s{number}", text, None))
        self.simulation.run_for(30_000)

    def tell(self, place: int, command: Subscribe | Publish) -> None:
        self.simulation.command(f"n{self.ring.ids[place]}", command)

    def publish_at(self, seconds: np.ndarray) -> None:
        start = self.simulation.now
        for number, (place, second) in enumerate(zip(self.publishers, seconds, strict=True)):
            values = map(int, self.publications.values[number])
            event = {"id": number, **dict(zip(ATTRIBUTES, values, strict=True))}
            command = Publish(f"e{number}", event)
            when = start + round(1000 * second)
            self.simulation.at(when, lambda place=place, command=command: self.tell(place, command))
        self.simulation.run_for(round(1000 * seconds[-1]) + 300_000)

    def carried(self, payload: type[Message]) -> int:
        """One-hop messages with that payload."""
        counts = self.simulation.metrics.carried
        return sum(count for (_, kind), count in counts.items() if kind is payload)

    def stored(self) -> list[int]:
        nodes = (self.simulation.node(f"n{id_}") for id_ in self.ring.ids)
        return [node.stored() for node in nodes if isinstance(node, StackedNode)]


@pytest.mark.parametrize("mapping", ["attribute-split", "selective-attribute"])
@pytest.mark.parametrize("way", ["multicast", "walk", "spread"])
def test_subscribing_takes_as_many_messages_and_copies(mapping, way):
    world = World(mapping, replace(PATIENT, subscribe_by=way))
    ring, ranges, sources = world.ring, world.ranges, world.subscribers
    if way == "multicast":
        wanted = int(casts(ring, sources, ranges.offsets, ranges.low, ranges.high).messages.sum())
    elif way == "walk":
        wanted = int(walks(ring, sources, ranges).sum())
    else:
        wanted = send_to_all(PlainRing(ring), sources, ranges, world.mapping.stride, 0, COUNT)
    assert world.carried(Register) == wanted
    assert world.stored() == storage(holders(ring, ranges), NODES, COUNT).load.tolist()


@pytest.mark.parametrize("mapping", ["attribute-split", "selective-attribute"])
@pytest.mark.parametrize("way", ["multicast", "spread"])
def test_publishing_takes_as_many_messages(mapping, way):
    world = World(mapping, replace(PATIENT, publish_by=way))
    world.publish_at(np.arange(COUNT) + 1.0)
    sources, events = world.publishers, world.events
    if way == "multicast":
        ends = events.keys + np.uint64(1)
        wanted = int(casts(world.ring, sources, events.offsets, events.keys, ends).messages.sum())
    else:
        wanted = publish(PlainRing(world.ring), sources, events, 0, COUNT)
    assert world.carried(Meet) == wanted


@pytest.mark.parametrize("mapping", ["attribute-split", "selective-attribute"])
def test_notifying_takes_as_many_messages(mapping):
    world = World(mapping, PATIENT)
    world.publish_at(np.arange(COUNT) + 1.0)  # all subscriptions are there before
    found, _ = all_meetings(world)
    to = world.ring.ids[world.subscribers[found.subscription]]
    hops = hops_to_keys(world.ring, found.place, to)
    assert world.carried(Notification) == int(hops.sum()) > 0


def all_meetings(world: World):
    """Of all subscriptions, there from the beginning: more than `draw_publications` counts."""
    inside = (
        (world.subscriptions.low <= world.publications.values[:, None])
        & (world.publications.values[:, None] <= world.subscriptions.high)
    ).all(axis=2)
    matching, matched = (axis.astype(np.int64) for axis in np.nonzero(inside))
    assert np.unique(matching).size > COUNT / 2
    return meetings(world.ring, world.ranges, world.events, matching, matched), matching


@pytest.mark.parametrize("collect", [False, True])
def test_buffering_and_collecting_take_as_many_messages(collect):
    config = replace(PATIENT, publish_by="spread", buffer_ms=round(1000 * PERIOD), collect=collect)
    world = World("selective-attribute", config, run=10)
    seconds = np.round(np.cumsum(dice(12, "times").exponential(2.0, COUNT)), 3) + 1
    world.publish_at(seconds)
    found, matching = all_meetings(world)
    event = matching[found.match]
    way = hops_to_keys(world.ring, world.publishers[event], found.key)
    when = seconds[event] + DELAY_SECONDS * way
    sent: Sent = (
        collected(found, when, PERIOD, world.ring, world.ranges, DELAY_SECONDS)
        if collect
        else buffered(found, when, PERIOD)
    )
    to = world.ring.ids[world.subscribers[sent.subscription]]
    assert world.carried(Notification) == int(hops_to_keys(world.ring, sent.place, to).sum())
    assert world.simulation.metrics.sent.get(Collected, 0) == sent.exchanges
    assert sent.place.size < found.place.size  # some went together
    assert bool(sent.exchanges) == collect
