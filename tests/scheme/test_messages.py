"""Whatever nodes say to each other can be written down and read again."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_

import msgspec
from msgspec.structs import replace as replaced
from tests.scheme.quietnet import CALM, Network, schema

from crossroads.mapping.fit import fit
from crossroads.node import Message
from crossroads.overlay.chord.messages import MESSAGES as CHORD_MESSAGES
from crossroads.runtime.sim.trace import Entry
from crossroads.scheme.cbps import Remap
from crossroads.scheme.cbps.messages import MESSAGES
from crossroads.scheme.contract import Join


def test_no_two_kinds_of_message_have_the_same_name() -> None:
    names = [kind.__name__ for kind in (*CHORD_MESSAGES, *MESSAGES)]
    assert len(names) == len(set(names))


def test_every_kind_is_read_as_it_was_written() -> None:
    """One of each, as they come up in a network in which everything happens once."""
    by_a1 = fit("selective-attribute", schema(), bits=6, attributes=["a1"])
    network = Network(
        range(4, 64, 8), mapping=by_a1, config=replace(CALM, buffer_ms=50, collect=True)
    )
    said: dict[type[Message], Message] = {}

    def note(entry: Entry) -> None:
        what = entry.what
        payload = getattr(what, "payload", what)
        if isinstance(payload, MESSAGES):
            said.setdefault(type(payload), payload)

    network.simulation.trace.watch = note
    network.subscribe("n4", "s", "a1 BETWEEN 3 AND 40")
    network.publish("n60", "e", {"a1": 5, "a2": 1})
    network.add("n18")
    network.simulation.command("n18", Join("n4"))
    network.simulation.run_for(3_000)
    # One neighbour has forgotten everything, another knows of something that the owner does not.
    network.layer("n28").core.store.clear()
    network.simulation.run_for(3_000)
    known = network.layer("n20").core.store.get("s")
    assert known is not None
    network.layer("n20").core.store.merge([replaced(known, version=known.version + 1)])
    network.simulation.run_for(3_000)
    by_a2 = fit("selective-attribute", schema(), bits=6, attributes=["a2"])
    network.simulation.command("n4", Remap(by_a2.spec.to_json(), 1_000))
    network.simulation.run_for(3_000)
    assert said.keys() == set(MESSAGES)
    decoder = msgspec.msgpack.Decoder(reduce(or_, MESSAGES))  # type: ignore[arg-type]
    for message in said.values():
        assert decoder.decode(msgspec.msgpack.encode(message)) == message
