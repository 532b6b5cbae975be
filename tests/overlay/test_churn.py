"""Chord while members come and go: the invariant after every step, and the law once quiet."""

from __future__ import annotations

import random

import pytest
from tests.overlay.churn import CALM, Churn, shape

from crossroads.overlay.chord import ChordConfig
from crossroads.overlay.chord import planted as bugs
from crossroads.overlay.chord.node import Chord
from crossroads.overlay.chord.state import RingState
from crossroads.runtime.sim import Simulation
from crossroads.runtime.sim.overlaynode import OverlayNode
from crossroads.scheme.contract import Join
from crossroads.testing.chordnetwork import chord
from crossroads.testing.overlays import check_overlay, run_overlay_case

SEEDS = 40  # of each kind; a campaign runs more
SEEDS_PLANTED_MAX = 60  # within which each planted bug must be found


def churn(seed: int, planted: str = "", *, failures: bool = True) -> list[str]:
    dice = random.Random(seed)
    r = dice.choice((2, 3))
    config = ChordConfig(bits=7, successors=r, planted=frozenset({planted} if planted else ()))
    return Churn(seed, config, 2 * r + 2 + dice.randrange(6), failures).run()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_invariant_holds_at_every_step_while_members_join_leave_and_crash(seed):
    assert churn(seed) == []


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_two_members_own_a_key_while_members_join_and_leave(seed):
    assert churn(seed, failures=False) == []


def test_a_ring_of_sixty_keeps_it_too():
    config = ChordConfig(bits=9, successors=4)
    assert Churn(1, config, 60).run() == []


@pytest.mark.parametrize("seed", range(5))
def test_joining_one_by_one_leads_to_the_ring_that_is_built_at_once(seed):
    dice = random.Random(seed)
    config = ChordConfig(bits=8, successors=3)
    case = Churn(seed, config, members=1 + dice.randrange(16))
    simulation = Simulation(seed, link=CALM)
    for name in case.names:
        simulation.add(name, lambda name, dice: OverlayNode(Chord(case.peers[name], config, dice)))
    first, *others = case.names
    simulation.command(first, Join(None))
    for name in others:
        simulation.command(name, Join(first))
    simulation.run(until=20_000)
    grown = sorted(map(shape, _states(simulation)), key=repr)
    assert grown == sorted(map(shape, Churn(seed, config, case.members).states()), key=repr)


@pytest.mark.parametrize(
    ("bug", "failures"),
    [
        (bugs.ADOPT_UNANSWERED_SUCCESSOR, True),
        (bugs.JOIN_WITHOUT_LIST, True),
        (bugs.SHORT_SUCCESSOR_LIST, True),
        (bugs.RECTIFY_WITHOUT_PING, False),
        (bugs.OWN_AFTER_HANDOVER, False),
    ],
)
def test_planted_bugs_are_found(bug, failures):
    assert any(churn(seed, bug, failures=failures) for seed in range(SEEDS_PLANTED_MAX))


def test_the_planted_bug_of_multicast_is_found():
    cases = (run_overlay_case(chord(bugs.MULTICAST_TWICE), seed) for seed in range(20))
    assert any("×2" in found for case in cases for found in case.violations)


def test_chord_keeps_the_law_of_overlays():
    check_overlay(chord(), range(60))


def _states(simulation: Simulation) -> list[RingState]:
    found = []
    for node in simulation.nodes():
        assert isinstance(node, OverlayNode) and isinstance(node.overlay, Chord)
        found.append(node.overlay.state)
    return found
