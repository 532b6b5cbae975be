"""What the simulator counts."""

from __future__ import annotations

import json

from tests.runtime.gossip import Parcel, Say, Word, gossips

from crossroads.node import Deliver, Send
from crossroads.runtime.sim import Link, Metrics, Simulation
from crossroads.scheme.contract import Notified, Publish


def test_messages_are_counted_when_sent_and_load_when_received() -> None:
    simulation = gossips(1, 3)
    simulation.command("n0", Say("n1", (1, 2)))
    simulation.command("n0", Say("n2", (3,)))
    simulation.crash("n2")
    simulation.run(until=100)
    metrics = simulation.observe()
    assert metrics.sent == {Word: 3}
    assert metrics.received == {"n0": 0, "n1": 2, "n2": 0}
    assert metrics.lost == 1
    assert metrics.deliveries == {"Heard": 5}  # three of them: "started"


class Postman:
    """Sends parcels, stores and evaluates as many subscriptions as it was told to."""

    def __init__(self, address):
        self.address = address

    def handle(self, now, item):
        match item:
            case Publish(name, event):
                notified = Deliver(Notified("s", name, event))
                return [Send("n1", Parcel(Word(1, 0))), notified]
        return []

    def stored(self) -> int:
        return 4

    def evaluated(self) -> int:
        return 9


def test_payloads_storage_and_evaluations_are_counted() -> None:
    simulation = Simulation(1, link=Link())
    for name in ("n0", "n1"):
        simulation.add(name, lambda address, dice: Postman(address))
    simulation.command("n0", Publish("e", {}))
    simulation.run(until=100)
    counted = simulation.observe().as_dict()
    assert counted["carried"] == {"Parcel/Word": 1}
    assert counted["stored"] == {"count": 2, "mean": 4.0, "max": 4}
    assert counted["evaluated"] == {"count": 2, "mean": 9.0, "max": 9}
    assert counted["deliveries"] == {"Notified": 1}
    assert json.loads(json.dumps(counted)) == counted


def test_hops_and_dilation() -> None:
    metrics = Metrics()
    for request, hops in (("a", 2), ("a", 5), ("b", 1)):
        metrics.arrived("Publish", request, hops)
    assert metrics.hops["Publish"].mean == 8 / 3
    dilation = metrics.dilation("Publish")
    assert (dilation.count, dilation.mean, dilation.largest) == (2, 3.0, 5)
    assert metrics.dilation("Subscribe").count == 0


def test_delay_recall_and_precision() -> None:
    metrics = Metrics()
    metrics.commanded(100, Publish("e", {}))
    metrics.commanded(200, Publish("e", {}))  # the same event: it is the first that counts
    metrics.delivered(250, Notified("s", "e", {}))
    metrics.delivered(270, Notified("t", "e", {}))
    assert (metrics.delay.mean, metrics.delay.largest) == (160.0, 170)
    assert metrics.recall([("s", "e"), ("u", "e")]) == 0.5
    assert metrics.precision([("s", "e"), ("u", "e")]) == 0.5
    assert Metrics().recall([]) == Metrics().precision([]) == 1.0
