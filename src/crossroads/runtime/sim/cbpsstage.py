"""CB-pub/sub on a ring of Chord, as a network for scenarios.

    network cbps bits=5 nodes=1,8,14,20 attributes=a1:0..7,a2:0..7 mapping=key-space-split

A ring built at once: node nK is at place K. Subscriptions are not renewed, so that nothing happens
that the scenario does not tell; copies=1 (the preset is 2) leaves out copies as well.

    subscribe n8 s1 "a1 < 2 AND a2 > 3" [MILLISECONDS]     unsubscribe n8 s1
    publish n1 e1 a1=1 a2=6                                remap n1 attribute-split MILLISECONDS
"""

from __future__ import annotations

from crossroads.errors import UsageError
from crossroads.mapping.fit import fit
from crossroads.model.schema import Schema
from crossroads.node import Address, Dice, Node
from crossroads.overlay.chord.build import converged
from crossroads.overlay.chord.config import ChordConfig
from crossroads.runtime.sim.links import Link
from crossroads.runtime.sim.simulation import Simulation
from crossroads.runtime.sim.stage import Options, Stage, StageCommand, numbers_of, peer_at
from crossroads.runtime.sim.words import Shown
from crossroads.scheme.cbps.build import on_chord
from crossroads.scheme.cbps.config import CbpsConfig
from crossroads.scheme.cbps.quiet import is_background
from crossroads.scheme.cbps.remapping import Remap
from crossroads.scheme.cbps.vocabulary import Vocabulary
from crossroads.scheme.contract import Publish, Subscribe, Unsubscribe

SHOWN = (
    "Register Registered Meet Met Notification Noticed Collected "
    "Member Gone Subscribed Unsubscribed Published Notified Refused crash"
)
_TEXTS = {"nodes", "attributes", "mapping"}
_NUMBERS = {"bits", "successors", "delay", "copies", "buffer", "collect"}


def cbps_stage(seed: int, options: Options) -> Stage:
    numbers = numbers_of(options, _NUMBERS, _TEXTS)
    chord = ChordConfig(bits=numbers.get("bits", 5), successors=numbers.get("successors", 2))
    config = CbpsConfig(
        copies=numbers.get("copies", 2),
        absence_ms=None,
        buffer_ms=numbers.get("buffer", 0),
        collect="collect" in numbers,
    )
    schema = _schema(options.get("attributes", "a1:0..7,a2:0..7"))
    name = options.get("mapping", "selective-attribute")
    vocabulary = Vocabulary(fit(name, schema, bits=chord.bits))
    delay = numbers.get("delay", 50)
    link = Link(delay_min=delay, delay_max=delay)
    simulation = Simulation(seed, link=link, keep_trace=True, background=is_background)
    places = [place for place in options.get("nodes", "").split(",") if place]
    founders = [peer_at(f"n{place}", chord) for place in places]
    rings = converged(founders, chord) if founders else {}
    waiting = {peer.address: rings[peer.id] for peer in founders}

    def make(address: Address, dice: Dice) -> Node:
        state = waiting.pop(address, None)  # only a founder's first life begins in the ring
        me = peer_at(address, chord)
        return on_chord(me, vocabulary, dice, chord=chord, config=config, state=state)

    for peer in founders:
        simulation.add(peer.address, make)
    stage = Stage(simulation, make, Shown.of(SHOWN.split()))

    def subscribe(words: list[str]) -> None:
        lease = _number(words[3]) if len(words) > 3 else None
        simulation.command(words[0], Subscribe(words[1], words[2], lease))

    def publish(words: list[str]) -> None:
        event = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        simulation.command(words[0], Publish(words[1], event))

    def remap(words: list[str]) -> None:
        spec = fit(words[1], schema, bits=chord.bits).spec.to_json()
        simulation.command(words[0], Remap(spec, _number(words[2])))

    stage.commands = {
        "subscribe": StageCommand("subscribe NODE ID FILTER [MILLISECONDS]", 3, subscribe),
        "unsubscribe": StageCommand(
            "unsubscribe NODE ID",
            2,
            lambda words: simulation.command(words[0], Unsubscribe(words[1])),
        ),
        "publish": StageCommand("publish NODE ID NAME=VALUE …", 3, publish),
        "remap": StageCommand("remap NODE MAPPING MILLISECONDS", 3, remap),
    }
    return stage


def _schema(text: str) -> Schema:
    attributes = {}
    for part in text.split(","):
        name, _, domain = part.partition(":")
        low, _, high = domain.partition("..")
        attributes[name] = {"type": "int", "min": _number(low), "max": _number(high)}
    return Schema.from_mapping({"id": [next(iter(attributes))], "attributes": attributes})


def _number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"{text!r} is no whole number")
    return int(text)
