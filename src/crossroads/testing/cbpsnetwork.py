"""CB-pub/sub on Chord for the contract suite: networks small enough that thousands can be run.

Times are shorter than in earnest, and all in proportion: what they bound is shorter, too. The disk
and the ring are real; filters are few and overlap a lot, so that most events are wanted by someone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from crossroads.mapping.fit import fit
from crossroads.model.schema import Schema
from crossroads.node import Address, Dice, Node
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.faults import fault_contract as chord_faults
from crossroads.overlay.chord.messages import Peer
from crossroads.scheme.cbps.build import on_chord
from crossroads.scheme.cbps.config import CbpsConfig
from crossroads.scheme.cbps.faults import fault_contract
from crossroads.scheme.cbps.layer import Cbps
from crossroads.scheme.cbps.quiet import is_background
from crossroads.scheme.cbps.vocabulary import Vocabulary
from crossroads.scheme.stack import StackedNode
from crossroads.testing.chordnetwork import ring_in_order
from crossroads.testing.schemes import SchemeUnderTest

BITS = 6  # of a key, and of each of the two attributes
DOMAIN = 1 << BITS

CHORD = ChordConfig(
    bits=BITS,
    successors=3,  # so that six members already ride out two crashes at once
    answer_within_ms=200,
    stabilise_every_ms=400,
    fingers_every_ms=800,
)
CBPS = CbpsConfig(
    copies=3, absence_ms=36_000, settle_ms=3_000, compare_every_ms=1_000, retry_ms=800
)


def cbps(
    planted: str = "", *, mapping: str = "selective-attribute", config: CbpsConfig = CBPS
) -> SchemeUnderTest:
    planted_in = replace(config, planted=frozenset({planted} if planted else ()))
    vocabulary = vocabulary_of(mapping)

    def make(address: Address, dice: Dice) -> StackedNode:
        me = Peer(int(address[1:]), address)
        return on_chord(me, vocabulary, dice, chord=CHORD, config=planted_in)

    return SchemeUnderTest(
        name="cbps" if mapping == "selective-attribute" else f"cbps-{mapping}",
        make=make,
        faults=fault_contract(chord_faults(CHORD), config),
        addresses=[f"n{place}" for place in range(CHORD.ring.size)],
        draw_filter=draw_filter,
        draw_event=draw_event,
        matches=lambda text, event: vocabulary.matches(text, vocabulary.event(event)),
        background=is_background,
        in_order=in_order,
        members_min=6,
        members_max=9,
        planted=planted,
    )


@cache
def vocabulary_of(mapping: str) -> Vocabulary:
    """Shared by all nodes of all cases: parsing is most of what a small network does."""
    domain = {"type": "int", "min": 0, "max": DOMAIN - 1}
    schema = Schema.from_mapping({"id": ["a"], "attributes": {"a": domain, "b": domain}})
    return Vocabulary(fit(mapping, schema, bits=BITS))


def draw_filter(dice: random.Random) -> str:
    """Mostly ranges over several owners; now and then one that stands at the root."""
    chance = dice.random()
    if chance < 0.1:
        return "a <> b"
    low = 8 * dice.randrange(DOMAIN // 8)
    wide = 8 * (1 + dice.randrange(4))
    one = f"a >= {low} AND a < {low + wide}"
    return one if chance < 0.6 else f"{one} AND b < {8 * (1 + dice.randrange(8))}"


def draw_event(dice: random.Random) -> Mapping[str, object]:
    return {"a": dice.randrange(DOMAIN), "b": dice.randrange(DOMAIN)}


def in_order(nodes: Sequence[Node]) -> bool:
    """Is the ring whole, has every owner its region, and do the copies agree with it?"""
    stacked = [node for node in nodes if isinstance(node, StackedNode)]
    layers = {node.address: node.layer for node in stacked if isinstance(node.layer, Cbps)}
    return ring_in_order(node.overlay for node in stacked) and all(
        layer.handover.complete and _copies_agree(layer, layers) for layer in _members(layers)
    )


def _members(layers: Mapping[Address, Cbps]) -> Iterable[Cbps]:
    return (layer for layer in layers.values() if layer.core.member)


def _copies_agree(layer: Cbps, layers: Mapping[Address, Cbps]) -> bool:
    region, now = layer.core.overlay.owned(), layer.now
    digest = layer.core.store.digest(region, now)
    return all(
        layers[holder].core.store.digest(region, now) == digest
        for holder in layer.replication.holders()
    )
