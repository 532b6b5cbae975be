"""Chord for the contract suite: rings small enough that thousands of them can be run."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from crossroads.keyspace import Arcs
from crossroads.node import Address, Dice
from crossroads.overlay.chord.config import ChordConfig
from crossroads.overlay.chord.faults import fault_contract
from crossroads.overlay.chord.messages import Peer
from crossroads.overlay.chord.node import Chord
from crossroads.overlay.contract import Overlay
from crossroads.testing.overlays import OverlayUnderTest
from crossroads.testing.ringwatch import RingWatch

BITS = 6  # 64 keys: every one of them is looked at
SUCCESSORS = 3  # so that six members already ride out two crashes at once


def chord(planted: str = "", *, thorough: bool = False) -> OverlayUnderTest:
    """`thorough`: the definition of the invariant is asked after every step, too."""
    bugs = frozenset({planted} if planted else ())
    config = ChordConfig(bits=BITS, successors=SUCCESSORS, planted=bugs)

    def make(address: Address, dice: Dice) -> Chord:
        return Chord(Peer(int(address[1:]), address), config, dice)

    def draw_region(dice: random.Random) -> Arcs:
        return config.ring.arc(dice.randrange(config.ring.size), dice.randrange(config.ring.size))

    return OverlayUnderTest(
        name="chord",
        make=make,
        faults=fault_contract(config),
        addresses=[f"n{place}" for place in range(config.ring.size)],
        keys=range(config.ring.size),
        holds=lambda region, key: key in region,
        draw_region=draw_region,
        in_order=ring_in_order,
        watch=lambda: RingWatch(config, thorough=thorough),
        planted=planted,
    )


def ring_in_order(overlays: Iterable[Overlay[Any, Any]]) -> bool:
    """Has every member the right neighbours, and only members among its fingers?"""
    states = [one.state for one in overlays if isinstance(one, Chord) and one.state.is_member]
    members = sorted((state.me for state in states), key=lambda peer: peer.id)
    places = {peer: place for place, peer in enumerate(members)}
    ring = members * 2
    for state in states:
        at = places[state.me]
        following = ring[at + 1 : at + len(members)][: state.config.successors]
        if state.successors != tuple(following) or state.predecessor != members[at - 1]:
            return False
        if any(finger is not None and finger not in places for finger in state.fingers):
            return False
    return True
